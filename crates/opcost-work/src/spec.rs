//! The declarations of a workload, and the parameters that all workloads share.

use crate::error::WorkError;
use crate::figure::TASK_FIGURES;
use crate::params::{ParamError, ParamSpec, Params, number, one_of};
use crate::task::{TASKS_MAX, TaskKind, Tasks};
use crate::work::Work;
use std::ffi::OsString;
use std::path::PathBuf;

/// Sets up a workload for the process that will do the work, from its parameters and a seed.
pub type Prepare = fn(&Params, u64) -> Result<Box<dyn Work>, WorkError>;

/// Names the programs that a workload starts, as absolute paths of this machine, from the workload's parameters and the environment
/// for the search. Files that these programs load are not included.
pub type Programs = fn(&Params, &[(OsString, OsString)]) -> Result<Vec<PathBuf>, WorkError>;

/// One workload: its description and its settings.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadSpec {
    /// The workload's name.
    pub name: &'static str,
    /// One line for `opcost list workloads`.
    pub summary: &'static str,
    /// A description of one operation.
    pub operation: &'static str,
    /// The number of operations of each task if `ops` is not given.
    pub ops_default: &'static str,
    /// The programs that the workload starts, if any; a guest gets them.
    pub programs: Option<Programs>,
    /// Metrics that every run reports about its own work, besides the sources' readings.
    pub figures: &'static [&'static str],
    /// The workload's own parameters; [`all_params`](Self::all_params) adds the common ones.
    pub params: &'static [ParamSpec],
    /// Sets up everything the work needs.
    pub prepare: Prepare,
}

/// The parameter that turns on the timing of each task.
pub(crate) const SCALE: &str = "scale";

/// The parameters of every workload; the default of `ops` is the workload's.
const COMMON: [ParamSpec; 7] = [
    ParamSpec {
        name: "ops",
        default: "",
        values: "1..=1000000000000",
        help: "operations each task performs",
        check: |value| number(value, 1..=1_000_000_000_000),
    },
    ParamSpec {
        name: "seccomp",
        default: "off",
        values: "off|on|cached",
        help: "system call filter: none, one whose program runs for each call, or one that allows \
               everything and is answered from the kernel's bitmap (Linux 5.11)",
        check: |value| one_of(value, &["off", "on", "cached"]),
    },
    ParamSpec {
        name: "procs",
        default: "1",
        values: "1..=64",
        help: "processes that do the work at the same time, each all of its operations",
        check: |value| number(value, 1..=TASKS_MAX as u64),
    },
    ParamSpec {
        name: "threads",
        default: "0",
        values: "0..=64",
        help: "threads that do the work at the same time instead, in one process; 0: none",
        check: |value| number(value, 0..=TASKS_MAX as u64),
    },
    ParamSpec {
        name: SCALE,
        default: "off",
        values: "off|on",
        help: "whether each task, even if it is the only one, starts at a barrier and reads the \
               clock before and after its work: the fastest, the slowest, their ratio",
        check: |value| one_of(value, &["off", "on"]),
    },
    ParamSpec {
        name: "oversubscribe",
        default: "off",
        values: "off|on",
        help: "whether there may be more tasks than CPUs, which then wait for each other's turns",
        check: |value| one_of(value, &["off", "on"]),
    },
    ParamSpec {
        name: "pin",
        default: "off",
        values: "off|on",
        help: "whether each task stays on one CPU, the tasks on as many CPUs as there are",
        check: |value| one_of(value, &["off", "on"]),
    },
];

impl WorkloadSpec {
    /// Returns the parameters common to all workloads, then the workload's own.
    pub fn all_params(&self) -> Vec<ParamSpec> {
        let mut params = COMMON.to_vec();
        params[0].default = self.ops_default;
        params.extend_from_slice(self.params);
        params
    }

    /// Returns the metrics that runs with these parameters report about their own work.
    pub fn figures_with(&self, params: &[(String, String)]) -> Vec<&'static str> {
        let timed = params.iter().any(|(key, value)| key == SCALE && value == "on");
        self.figures.iter().chain(TASK_FIGURES.iter().filter(|_| timed)).copied().collect()
    }

    /// Whether a parameter is common to all workloads and has its default value.
    pub fn is_common_default(&self, name: &str, value: &str) -> bool {
        let common = &self.all_params()[..COMMON.len()];
        common.iter().any(|param| param.name == name && param.default == value)
    }

    /// Turns the given values into a full set of parameters.
    ///
    /// `given`: names and values, each name at most once. Returns every parameter, with defaults filled in and values in canonical
    /// spelling.
    ///
    /// # Errors
    /// [`ParamError`] names the first unknown, repeated or unacceptable parameter, and the accepted alternatives.
    pub fn resolve(&self, given: &[(String, String)]) -> Result<Params, ParamError> {
        Params::resolve(self.name, &self.all_params(), given)
    }
}

/// Whether other processes do the work, because the parameters ask for processes or because the workload starts programs.
pub fn forks(workload: &WorkloadSpec, params: &Params) -> bool {
    workload.programs.is_some()
        || matches!(Tasks::of(params), Ok(Some(Tasks { kind: TaskKind::Process, .. })))
}
