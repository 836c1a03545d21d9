//! The workloads by name, and the parameters that all of them have.

use crate::error::WorkError;
use crate::figure::TASK_FIGURES;
#[cfg(target_arch = "x86_64")]
use crate::immediate;
use crate::measure::Work;
use crate::params::{ParamError, ParamSpec, Params, number, one_of};
use crate::{build, copy, fileio, lock, mapfile, mmap, pipe, pvops, syscall};
use std::ffi::OsString;
use std::path::PathBuf;

/// Sets up a workload for the process that will do the work, from its parameters and a seed.
pub type Prepare = fn(&Params, u64) -> Result<Box<dyn Work>, WorkError>;

/// Tells which programs a workload starts, as absolute paths of this machine, from its parameters
/// and the environment in which they are looked for. What they load themselves is not among them.
pub type Programs = fn(&Params, &[(OsString, OsString)]) -> Result<Vec<PathBuf>, WorkError>;

/// One workload: what it does and what can be set.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadSpec {
    /// Its name.
    pub name: &'static str,
    /// One line for `opcost list workloads`.
    pub summary: &'static str,
    /// What one operation is.
    pub operation: &'static str,
    /// How many operations each task does where `ops` is not given.
    pub ops_default: &'static str,
    /// The programs that it starts, if it does: a guest is given them.
    pub programs: Option<Programs>,
    /// Metrics that every run reports of its own work, beside what sources read.
    pub figures: &'static [&'static str],
    /// The parameters of its own; [`all_params`](Self::all_params) has the common ones too.
    pub params: &'static [ParamSpec],
    /// Sets up everything the work needs.
    pub prepare: Prepare,
}

/// Every workload, in the order in which lists show them.
pub static WORKLOADS: &[WorkloadSpec] = &[
    build::SPEC,
    copy::SPEC,
    fileio::SPEC,
    #[cfg(target_arch = "x86_64")]
    immediate::SPEC,
    lock::SPEC,
    mapfile::SPEC,
    mmap::SPEC,
    pipe::SPEC,
    pvops::SPEC,
    syscall::SPEC,
];

/// The parameter that has each task timed.
const SCALE: &str = "scale";

/// How many tasks may share a run's work.
pub(crate) const TASKS_MAX: usize = 64;

/// The parameters that every workload has; the default of `ops` is the workload's.
const COMMON: [ParamSpec; 6] = [
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
];

impl WorkloadSpec {
    /// The workload of that name.
    pub fn find(name: &str) -> Option<&'static WorkloadSpec> {
        WORKLOADS.iter().find(|spec| spec.name == name)
    }

    /// The parameters common to all workloads, then its own.
    pub fn all_params(&self) -> Vec<ParamSpec> {
        let mut params = COMMON.to_vec();
        params[0].default = self.ops_default;
        params.extend_from_slice(self.params);
        params
    }

    /// The metrics that runs with these parameters report of their own work.
    pub fn figures_with(&self, params: &[(String, String)]) -> Vec<&'static str> {
        let timed = params.iter().any(|(key, value)| key == SCALE && value == "on");
        self.figures.iter().chain(TASK_FIGURES.iter().filter(|_| timed)).copied().collect()
    }

    /// Whether a parameter is one that all workloads have, at its default.
    pub fn is_common_default(&self, name: &str, value: &str) -> bool {
        let common = &self.all_params()[..COMMON.len()];
        common.iter().any(|param| param.name == name && param.default == value)
    }

    /// Makes what was given into a full set of parameters.
    ///
    /// `given`: names and values, each name at most once. Result: every parameter, defaults
    /// filled in, values in canonical spelling.
    ///
    /// # Errors
    /// [`ParamError`] names the first unknown, repeated or unacceptable parameter, and what there
    /// is instead.
    pub fn resolve(&self, given: &[(String, String)]) -> Result<Params, ParamError> {
        Params::resolve(self, given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child::{lacks_tool, measured, tiny};
    use crate::invariant::{PAGE_FAULTS, PAGE_FAULTS_EXPECTED};
    use opcost_record::WORKLOAD;

    #[test]
    fn names_are_unique_and_everything_is_documented() {
        for (index, spec) in WORKLOADS.iter().enumerate() {
            assert!(std::ptr::eq(spec, WorkloadSpec::find(spec.name).unwrap()));
            assert!(WORKLOADS[..index].iter().all(|other| other.name != spec.name));
            assert!(!spec.summary.is_empty() && !spec.operation.is_empty());
            let params = spec.all_params();
            for (index, param) in params.iter().enumerate() {
                assert!(params[..index].iter().all(|other| other.name != param.name));
                assert!(!param.help.is_empty() && !param.values.is_empty(), "{}", param.name);
                // Accepted, and spelled in the canonical way.
                assert_eq!((param.check)(param.default).as_deref(), Some(param.default));
            }
        }
        assert!(WorkloadSpec::find("nothing").is_none());
    }

    #[test]
    fn every_workload_runs_at_tiny_size() {
        for spec in WORKLOADS.iter().filter(|spec| !lacks_tool(spec)) {
            let report = measured(spec, tiny(spec), 1).unwrap();
            assert_eq!(report.ops, tiny(spec)[0].1.parse().ok(), "{}", spec.name);
            let value = |name: &str| {
                let found = report.invariants.iter().find(|invariant| invariant.name == name);
                found.unwrap_or_else(|| panic!("{} lacks {name}", spec.name)).value.clone()
            };
            assert_eq!(value(PAGE_FAULTS), value(PAGE_FAULTS_EXPECTED), "{}", spec.name);
            assert_eq!(value(crate::OP_STREAM_HASH).len(), 16);
        }
    }

    /// A plan counts the metrics that it has to decide, so it has to know them all.
    #[test]
    fn workloads_report_the_figures_that_they_announce() {
        for spec in WORKLOADS.iter().filter(|spec| !lacks_tool(spec)) {
            for scale in ["off", "on"] {
                let params = [tiny(spec), &[(SCALE, scale)]].concat();
                let report = measured(spec, &params, 1).unwrap();
                let told = report.readings.iter().filter(|r| r.key.source == WORKLOAD);
                let told: Vec<&str> = told.map(|reading| reading.key.name.as_str()).collect();
                let params: Vec<(String, String)> = params
                    .iter()
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect();
                assert_eq!(told, spec.figures_with(&params), "{} with scale={scale}", spec.name);
            }
        }
    }
}
