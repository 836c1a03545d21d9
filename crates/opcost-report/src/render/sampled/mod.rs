//! Profiles of other tools, and of samples, by function.

mod callers;
pub mod difference;
mod document;
mod json;
mod losses;

pub use document::document;
pub use json::json;
pub use losses::without_samples;

use super::functions::short;
use clap::ValueEnum;
use opcost_base::number::{figure, grouped};
use opcost_profile::distortion::Distortion;
use opcost_profile::read::ReadProfile;
use opcost_profile::read::about::EventAbout;
use opcost_profile::table::FunctionTable;
use opcost_record::profile::KERNEL;
use opcost_record::{Function, Unit};
use opcost_symbols::naming::Naming;
use std::cmp::Reverse;

/// A profile, and what to show of it.
pub struct View<'a> {
    /// The name under which the profile is shown.
    pub name: &'a str,
    /// The profile.
    pub profile: &'a ReadProfile,
    /// The distortions by the profiler.
    pub distortions: &'a [Distortion],
    /// Operations that the cost is divided by.
    pub ops: Option<u64>,
    /// Functions shown one by one.
    pub limit: usize,
    /// Whether to show the callers of each function.
    pub callers: bool,
    /// The function to show, if only one is shown.
    pub function: Option<usize>,
    /// The functions, by number, in the order in which they are shown.
    pub order: Vec<usize>,
    /// The names that tell functions with one symbol apart.
    pub naming: Naming,
}

/// The order of functions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Sort {
    /// Their own cost, the dearest first
    #[default]
    #[value(name = "self")]
    Own,
    /// Their cost with everything they call, the dearest first
    Incl,
    /// Their names
    Name,
    /// Their files, and in each by own cost
    Module,
}

impl Sort {
    /// The functions of a table by number, sorted; functions that compare equal stay in the order of own cost.
    pub fn order(self, table: &FunctionTable) -> Vec<usize> {
        let mut order: Vec<usize> = (0..table.functions.len()).collect();
        let cost = |at: &usize| &table.functions[*at];
        match self {
            Sort::Own => {}
            Sort::Incl => order.sort_by_key(|at| Reverse(cost(at).inclusive)),
            Sort::Name => order.sort_by_key(|at| &cost(at).function.symbol),
            Sort::Module => order.sort_by_key(|at| short(&cost(at).function.module)),
        }
        order
    }
}

impl View<'_> {
    /// The part of the counted CPU time that the samples stand for, and that time in nanoseconds.
    fn covered(&self) -> Option<(f64, u64)> {
        let cpu_ns = self.profile.about.cpu_ns.filter(|cpu_ns| *cpu_ns > 0)?;
        // The last sample stands for a whole period, whenever the work ended.
        let share = self.profile.table.total as f64 / cpu_ns as f64;
        Some((share.min(1.0), cpu_ns))
    }

    fn unit(&self) -> Unit {
        unit(self.profile)
    }

    /// A cost, per operation if their number is known.
    fn cost(&self, cost: u64) -> String {
        figure(cost as f64 / self.ops.unwrap_or(1) as f64, self.unit())
    }

    /// A part of the whole: `23.94 %`.
    fn share(&self, cost: u64) -> String {
        share(cost, self.profile.table.total)
    }
}

/// The unit of a profile's cost.
fn unit(profile: &ReadProfile) -> Unit {
    profile.about.sampling.as_ref().map_or(Unit::Count, EventAbout::unit)
}

/// A part of a whole: `23.94 %`; a dash if the whole is 0.
fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".into(),
        whole => format!("{:.2} %", 100.0 * part as f64 / whole as f64),
    }
}

/// The text behind a function's name: its module, as in ` (libc.so.6)`, unless that is the kernel.
pub(super) fn behind(function: &Function) -> String {
    match short(&function.module) {
        "" | KERNEL => String::new(),
        module if module.starts_with('[') => format!(" {module}"),
        module => format!(" ({module})"),
    }
}

/// `1 sample`, `2 samples`.
fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}
