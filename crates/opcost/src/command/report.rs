//! `opcost report`.

use crate::command::show::take_matches;
use anyhow::{Context, Result};
use clap::Args;
use opcost_analysis::comparison;
use opcost_analysis::history::{History, Question, history};
use opcost_base::exit::{HasStatus, Status, WithStatus};
use opcost_command::exports::check_file;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_command::share::ShareArgs;
use opcost_model::plan::{SameFile, find_rule};
use opcost_model::recording::Recording;
use opcost_report::render::{Style, View, html};
use opcost_store::store::{Choice, Store, StoreError};
use std::path::{Path, PathBuf};

/// The most recordings of the same experiment in a page's history.
const RECORDINGS_MAX: usize = 50;

/// Arguments of `opcost report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The recording: its identifier, the identifier's beginning, or last
    #[arg(default_value = "last")]
    pub id: String,

    /// Write the page to FILE; - is standard output
    #[arg(long, value_name = "FILE")]
    pub html: PathBuf,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub share: ShareArgs,

    /// Waive a rule of the comparability ledger; opcost prints the waiver; may be repeated
    #[arg(long, value_name = "RULE")]
    pub allow: Vec<String>,

    /// Compare the functions of the baseline's file OLD with those of the variant's file NEW, each
    /// given by path or name; may be repeated [default: opcost matches files by path, name or role]
    #[arg(long = "match", value_name = "OLD=NEW")]
    pub matches: Vec<SameFile>,
}

/// Writes a recording as a page of its own.
///
/// # Errors
/// Usage: an unknown rule, a folder that does not exist, or no such recording. Missing: the file
/// cannot be written.
pub fn report(globals: &Globals, args: &ReportArgs) -> Result<Status> {
    for rule in &args.allow {
        find_rule(rule)?;
    }
    let to_stdout = args.html == Path::new("-");
    if !to_stdout {
        check_file("--html", &args.html)?;
    }
    let store = Store::open_for_reading(&globals.store_path()?).map_err(StoreError::carried)?;
    let mut recording = store.read(&args.id).map_err(StoreError::carried)?;
    recording.plan.allow.extend(args.allow.iter().cloned());
    take_matches(&mut recording, &args.matches)?;
    let (mut recordings, unreadable) = alike(&store, recording)?;
    args.share.apply(globals, &mut recordings)?;
    let history = past(&recordings, unreadable);
    let recording = &recordings[recordings.len() - 1];
    let (comparison, warnings) = comparison::compare(recording);
    let view =
        View { recording, comparison: &comparison, warnings: &warnings, style: &Style::plain() };
    let page = html::page(&view, history.as_ref())?;
    if to_stdout {
        print(&page)?;
    } else {
        std::fs::write(&args.html, page)
            .with_context(|| format!("cannot write '{}'", args.html.display()))
            .status(Status::Missing)?;
    }
    Ok(if comparison.refused() { Status::NotComparable } else { Status::Done })
}

/// The latest recordings of the same experiment, this one last, and how many of them cannot be read.
fn alike(store: &Store, recording: Recording) -> Result<(Vec<Recording>, usize)> {
    let chosen = Choice {
        experiment: Some(&recording.plan.experiment),
        last: Some(RECORDINGS_MAX),
        ..Choice::default()
    };
    let heads = store.list_chosen(&chosen).map_err(StoreError::carried)?.heads;
    let alike: Vec<_> = heads.iter().filter(|head| head.id != recording.id).collect();
    let latest = &alike[alike.len().saturating_sub(RECORDINGS_MAX - 1)..];
    // An unreadable recording must not hide this one; opcost history reports what is wrong with it.
    let mut recordings: Vec<Recording> =
        latest.iter().filter_map(|head| store.read(&head.id).ok()).collect();
    let unreadable = latest.len() - recordings.len();
    recordings.push(recording);
    Ok((recordings, unreadable))
}

/// The primary metric of the baseline in these recordings; `None` if there is but the last one, or no recording has the
/// metric.
fn past(recordings: &[Recording], unreadable: usize) -> Option<History> {
    let [_, .., recording] = recordings else { return None };
    let question = Question {
        metrics: vec![recording.plan.primary.label()],
        variant: Some(recording.plan.variants[0].name.clone()),
    };
    // If no run has the primary metric, there is no such series.
    let mut history = history(recordings.to_vec(), &question).ok();
    if let Some(series) = history.iter_mut().flat_map(|history| &mut history.series).next()
        && unreadable > 0
    {
        series.notes.push(format!("{unreadable} recordings cannot be read and are left out"));
    }
    history
}
