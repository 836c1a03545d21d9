//! One run of one workload: the order of its steps, and the regions that are counted between them.

use crate::error::WorkError;
use crate::invariant::{PAGE_FAULTS, count, merge};
use crate::params::Params;
use crate::residency;
use crate::spec::WorkloadSpec;
use crate::task::Tasks;
use crate::team::Team;
use crate::work::{Crew, Meter, Work};
use opcost_record::{Invariant, Reading, Report, TWIN, WORK};
use opcost_sys::rusage::{self, Rusage};
use opcost_sys::seccomp::Filter;

/// The results of a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Measured {
    /// Operations of the work region, summed over all tasks.
    pub ops: u64,
    /// The invariants, shared by all tasks.
    pub invariants: Vec<Invariant>,
    /// The figures that the workload reports about itself, for all tasks together.
    pub figures: Vec<Reading>,
}

/// Runs a workload once.
///
/// `params`: from [`WorkloadSpec::resolve`] of the same workload; `seed`: the seed from which operations are drawn; `meter`:
/// started and stopped for the region [`TWIN`], then for [`WORK`]. The process keeps the seccomp filter that `params` ask for.
/// Returns operations, invariants and figures.
///
/// # Errors
/// [`WorkError`]: the work could not be set up, or an operation failed; the meter's counts must not be used.
///
/// # Panics
/// `params` belong to another workload.
pub fn measure(
    spec: &WorkloadSpec,
    params: &Params,
    seed: u64,
    meter: &mut dyn Meter,
) -> Result<Measured, WorkError> {
    let mut warmed_up_and_counted = |crew: &mut dyn Crew| {
        crew.warm_up()?;
        count_regions(crew, meter)
    };
    let reports = match Tasks::of(params)? {
        None => warmed_up_and_counted(&mut Hand::prepare(spec, params, seed)?)?,
        Some(tasks) => {
            // Every task does the same work, so that one of many can be compared with a single task.
            let (spec, params) = (*spec, params.clone());
            let mut team = Team::gather(tasks, move |_| Hand::prepare(&spec, &params, seed))?;
            let reports = warmed_up_and_counted(&mut team)?;
            team.stop()?;
            reports
        }
    };
    measured(reports)
}

/// Prepares a workload once, in this process, and runs it once for each of several code paths.
///
/// `paths`: values of the parameter [`PATH`](crate::PATH), one for each run, in their order. Before the first run, each path is
/// warmed up. After every run, `each` gets the meter and the results. The other arguments and the process are as for [`measure`];
/// `params` must not ask for tasks.
///
/// # Errors
/// [`WorkError`]: the work could not be set up, the code could not be exchanged, or an operation failed; the runs that `each` got
/// are valid.
///
/// # Panics
/// `params` belong to another workload.
pub fn measure_paths<M: Meter>(
    spec: &WorkloadSpec,
    params: &Params,
    seed: u64,
    paths: &[String],
    meter: &mut M,
    each: &mut dyn FnMut(&mut M, Measured),
) -> Result<(), WorkError> {
    if Tasks::of(params)?.is_some() {
        return Err(WorkError::ExchangeInTeam);
    }
    let mut hand = Hand::prepare(spec, params, seed)?;
    for (index, path) in paths.iter().enumerate() {
        if !paths[..index].contains(path) {
            hand.work.exchange(path)?;
            hand.warm_up()?;
        }
    }
    for path in paths {
        hand.work.exchange(path)?;
        let reports = count_regions(&mut hand, meter)?;
        each(meter, measured(reports)?);
    }
    Ok(())
}

fn measured(reports: Vec<Report>) -> Result<Measured, WorkError> {
    let merged = merge(&reports)?;
    Ok(Measured {
        ops: merged.ops.expect("every report counts its operations"),
        invariants: merged.invariants,
        figures: merged.readings,
    })
}

/// Runs the twin and the work of a warmed-up crew, each in its region.
fn count_regions(crew: &mut dyn Crew, meter: &mut dyn Meter) -> Result<Vec<Report>, WorkError> {
    meter.start(TWIN);
    let twin = crew.twin();
    meter.stop(TWIN);
    twin?;

    crew.make_ready()?;
    meter.settle();

    meter.start(WORK);
    let work = crew.work();
    meter.stop(WORK);
    work?;
    meter.drain();

    crew.report()
}

/// One process or thread that does the work itself.
struct Hand {
    work: Box<dyn Work>,
    before: Rusage,
}

impl Hand {
    fn prepare(spec: &WorkloadSpec, params: &Params, seed: u64) -> Result<Self, WorkError> {
        let work = (spec.prepare)(params, seed)?;
        if let Some(filter) = filter_of(params.text("seccomp")) {
            filter.install().map_err(|source| WorkError::Seccomp {
                mode: params.text("seccomp").into(),
                source: source.into(),
            })?;
        }
        Ok(Hand { work, before: Rusage::default() })
    }
}

impl Crew for Hand {
    fn warm_up(&mut self) -> Result<(), WorkError> {
        residency::settle();
        self.work.warm_up()
    }

    fn twin(&mut self) -> Result<(), WorkError> {
        self.work.twin();
        Ok(())
    }

    fn make_ready(&mut self) -> Result<(), WorkError> {
        self.before = used_so_far()?;
        Ok(())
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work.work()
    }

    fn report(&mut self) -> Result<Vec<Report>, WorkError> {
        // First, because the steps below allocate.
        let used = used_so_far()?.since(&self.before);
        let mut invariants = self.work.invariants()?;
        invariants.push(count(PAGE_FAULTS, used.minor_faults + used.major_faults));
        let readings = self.work.figures();
        Ok(vec![Report { ops: Some(self.work.ops()), readings, invariants }])
    }
}

/// Returns the filter for a value of the parameter `seccomp`.
fn filter_of(mode: &str) -> Option<Filter> {
    match mode {
        "on" => Some(Filter::InspectArguments),
        "cached" => Some(Filter::AllowAll),
        _ => None,
    }
}

fn used_so_far() -> Result<Rusage, WorkError> {
    rusage::of_thread().map_err(|source| WorkError::Setup {
        what: "count page faults with getrusage".into(),
        source,
        advice: "allow that system call",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child::{NoMeter, in_child, measured, value};
    use std::fs;

    /// A crew that records its steps, and fails on request.
    struct Scribe(Vec<String>, bool);

    impl Crew for Scribe {
        fn warm_up(&mut self) -> Result<(), WorkError> {
            self.0.push("warm-up".into());
            Ok(())
        }
        fn twin(&mut self) -> Result<(), WorkError> {
            self.0.push("twin".into());
            Ok(())
        }
        fn make_ready(&mut self) -> Result<(), WorkError> {
            self.0.push("ready".into());
            Ok(())
        }
        fn work(&mut self) -> Result<(), WorkError> {
            self.0.push("work".into());
            match self.1 {
                true => Err(WorkError::setup("work", "rest")),
                false => Ok(()),
            }
        }
        fn report(&mut self) -> Result<Vec<Report>, WorkError> {
            self.0.push("report".into());
            Ok(vec![])
        }
    }

    struct Regions(Vec<String>);

    impl Meter for Regions {
        fn settle(&mut self) {
            self.0.push("settle".into());
        }
        fn drain(&mut self) {
            self.0.push("drain".into());
        }
        fn start(&mut self, region: &'static str) {
            self.0.push(format!("start {region}"));
        }
        fn stop(&mut self, region: &'static str) {
            self.0.push(format!("stop {region}"));
        }
    }

    #[test]
    fn steps_and_regions_come_in_order() {
        let (mut scribe, mut meter) = (Scribe(vec![], false), Regions(vec![]));
        count_regions(&mut scribe, &mut meter).unwrap();
        assert_eq!(scribe.0, ["twin", "ready", "work", "report"]);
        let steps = ["start twin", "stop twin", "settle", "start work", "stop work", "drain"];
        assert_eq!(meter.0, steps);
    }

    #[test]
    fn a_failing_work_still_stops_the_meter_and_reports_nothing() {
        let (mut scribe, mut meter) = (Scribe(vec![], true), Regions(vec![]));
        count_regions(&mut scribe, &mut meter).unwrap_err();
        assert_eq!(scribe.0, ["twin", "ready", "work"]);
        assert_eq!(meter.0.last().unwrap(), "stop work");
    }

    #[test]
    fn page_faults_outside_the_work_do_not_count() {
        struct Faulty;
        fn fault(pages: usize) {
            // Larger than malloc's threshold for fresh pages, and freed at once.
            let bytes = vec![1u8; pages << 12];
            std::hint::black_box(&bytes);
        }
        impl Work for Faulty {
            fn ops(&self) -> u64 {
                1
            }
            fn warm_up(&mut self) -> Result<(), WorkError> {
                fault(1000);
                Ok(())
            }
            fn twin(&mut self) {
                fault(1000);
            }
            fn work(&mut self) -> Result<(), WorkError> {
                Ok(())
            }
            fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
                fault(1000);
                Ok(vec![])
            }
        }
        let counted = in_child(|| {
            let mut hand = Hand { work: Box::new(Faulty), before: Rusage::default() };
            hand.warm_up().unwrap();
            let reports = count_regions(&mut hand, &mut NoMeter).unwrap();
            reports[0].invariants[0].value.clone()
        });
        assert_eq!(counted.unwrap(), "0");
    }

    #[test]
    fn filters_are_those_the_parameter_names() {
        assert_eq!(filter_of("off"), None);
        assert_eq!(filter_of("on"), Some(Filter::InspectArguments));
        assert_eq!(filter_of("cached"), Some(Filter::AllowAll));
    }

    #[test]
    fn paths_are_warmed_up_once_and_run_in_the_order_given() {
        let spec = WorkloadSpec::find("copy").unwrap();
        let params = spec.resolve(&[("ops".to_string(), "10".to_string())]).unwrap();
        let paths = ["libc", "libc"].map(str::to_string);
        let told = in_child(|| {
            let mut meter = Regions(vec![]);
            let mut told = String::new();
            measure_paths(spec, &params, 1, &paths, &mut meter, &mut |meter, measured| {
                let regions = std::mem::take(&mut meter.0).join(", ");
                told += &format!("{regions}, {} ops\n", measured.ops);
            })
            .unwrap();
            told + &meter.0.concat()
        });
        let run = "start twin, stop twin, settle, start work, stop work, drain, 10 ops\n";
        assert_eq!(told.unwrap(), run.repeat(2));
    }

    #[test]
    fn what_cannot_be_exchanged_is_refused_before_anything_runs() {
        let refused = |name: &str, given: &[(&str, &str)], path: &str| {
            let given: Vec<(String, String)> =
                given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let spec = WorkloadSpec::find(name).unwrap();
            let params = spec.resolve(&given).unwrap();
            let paths = ["libc", path].map(str::to_string);
            let refused = in_child(|| {
                let mut runs = 0;
                let refused = measure_paths(spec, &params, 1, &paths, &mut NoMeter, &mut |_, _| {
                    runs += 1;
                });
                assert_eq!(runs, 0);
                refused.unwrap_err().to_string()
            });
            refused.unwrap()
        };
        let error = refused("syscall", &[], "libc");
        assert!(error.contains("no code paths that can be exchanged"), "{error}");
        for tasks in ["procs", "threads"] {
            let error = refused("copy", &[(tasks, "2"), ("oversubscribe", "on")], "libc");
            assert!(error.contains("use procs=1, threads=0 and scale=off"), "{error}");
        }
        let error = refused("copy", &[], "teleport");
        assert!(error.contains("no path 'teleport'; there are: libc"), "{error}");
    }

    /// A workload that reports its seccomp mode.
    struct Witness;

    impl Work for Witness {
        fn ops(&self) -> u64 {
            1
        }
        fn warm_up(&mut self) -> Result<(), WorkError> {
            Ok(())
        }
        fn twin(&mut self) {}
        fn work(&mut self) -> Result<(), WorkError> {
            Ok(())
        }
        fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).unwrap();
            Ok(vec![count("mode", mode.trim().parse().unwrap())])
        }
    }

    #[test]
    fn every_process_that_works_runs_under_the_filter() {
        let witness = WorkloadSpec {
            name: "witness",
            summary: "reports its seccomp mode",
            operation: "nothing",
            ops_default: "1",
            programs: None,
            figures: &[],
            params: &[],
            prepare: |_, _| Ok(Box::new(Witness)),
        };
        let mode = |given: &[(&str, &str)]| {
            value(&measured(&witness, given, 1).unwrap(), "mode").to_string()
        };
        if mode(&[]) != "0" {
            crate::skip::skip!("this process already runs under a seccomp filter");
            return;
        }
        // Mode 2 is a filter (proc(5), /proc/pid/status); three processes report the same mode.
        for on in ["on", "cached"] {
            assert_eq!(mode(&[("seccomp", on)]), "2");
            assert_eq!(mode(&[("seccomp", on), ("procs", "3"), ("oversubscribe", "on")]), "2");
        }
    }
}
