//! The flags that choose recordings of a list.

use anyhow::{Error, Result};
use clap::Args;
use opcost_base::exit::{HasStatus, Status, fail};
use opcost_record::nearest::did_you_mean;
use opcost_store::store::{Choice, Store, StoreError};
use std::num::NonZeroUsize;

/// The recordings of a list, or of a series.
#[derive(Args, Debug)]
pub struct ChosenArgs {
    /// Only the newest N recordings
    #[arg(long, value_name = "N")]
    pub last: Option<NonZeroUsize>,

    /// Only recordings whose label contains TEXT
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
}

impl ChosenArgs {
    /// The choice among the recordings of an experiment, or of all.
    pub fn choice<'a>(&'a self, experiment: Option<&'a str>) -> Choice<'a> {
        Choice {
            experiment,
            label: self.label.as_deref(),
            last: self.last.map(NonZeroUsize::get),
            by_date: false,
        }
    }
}

/// The error of a choice that chooses no recording of a store.
///
/// # Errors
/// The store cannot be read.
pub fn none_chosen(store: &Store, choice: &Choice<'_>) -> Result<Error> {
    let experiments = store.experiments().map_err(StoreError::carried)?;
    let known = |name: &str| experiments.iter().any(|experiment| experiment == name);
    let of = choice.experiment.map_or(String::new(), |name| format!(" of '{name}'"));
    let why = match (choice.experiment, choice.label) {
        (Some(name), _) if !known(name) => {
            let near = did_you_mean(name, experiments.iter().map(String::as_str));
            format!("no recording of an experiment '{name}'{near}; see opcost list recordings")
        }
        (_, Some(label)) => format!(
            "--label {label}: no recording{of} has such a label; opcost list recordings shows labels"
        ),
        (_, None) => format!("no recording{of} can be read"),
    };
    Ok(fail(Status::Usage, why))
}
