//! The workloads by name.

#[cfg(target_arch = "x86_64")]
use crate::immediate;
use crate::spec::WorkloadSpec;
use crate::{build, copy, fileio, futex, lock, mapfile, mmap, pipe, pvops, syscall};

/// Every workload, in the order in which lists show them.
pub static WORKLOADS: &[WorkloadSpec] = &[
    build::SPEC,
    copy::SPEC,
    fileio::SPEC,
    futex::SPEC,
    #[cfg(target_arch = "x86_64")]
    immediate::SPEC,
    lock::SPEC,
    mapfile::SPEC,
    mmap::SPEC,
    pipe::SPEC,
    pvops::SPEC,
    syscall::SPEC,
];

impl WorkloadSpec {
    /// Returns the workload of that name.
    pub fn find(name: &str) -> Option<&'static WorkloadSpec> {
        WORKLOADS.iter().find(|spec| spec.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child::{lacks_tool, measured, tiny};
    use crate::invariant::{PAGE_FAULTS, PAGE_FAULTS_EXPECTED};
    use crate::spec::SCALE;
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
                // The default is accepted, and spelled in the canonical way.
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

    /// A plan counts the metrics that it must decide, so it must know all of them.
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
