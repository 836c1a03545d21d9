//! Recordings that tests make up, on a made-up machine.

pub(crate) mod emulated;

use opcost_kernel::KernelSpec;
use opcost_lab::load::Load;
use opcost_lab::resolve::{Surroundings, resolve};
use opcost_model::experiment::{Experiment, Scalar, Seed, Variant};
use opcost_model::plan::{CorePlan, EventPlan, Plan, Slot};
use opcost_model::recording::{MachineState, Recording, State};
use opcost_record::{Dictionary, Domain, Invariant, MetricKey, Outcome, Reading, Record, WORK};
use opcost_sys::perf::Refusal;
use opcost_sys::scheduling::NoRealTime;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A machine with two CPUs and no hardware counters.
pub(crate) struct NoCounters;

impl Surroundings for NoCounters {
    fn primary(&self) -> Option<String> {
        None
    }

    fn load(&self) -> Option<Load> {
        None
    }

    fn no_real_time(&self) -> Option<NoRealTime> {
        None
    }

    fn allowed_cpus(&self) -> Vec<usize> {
        vec![0, 1]
    }

    fn draw_seed(&self) -> u64 {
        7
    }

    fn sysfs(&self) -> PathBuf {
        "/nonexistent".into()
    }

    fn refusals(&self, events: &[EventPlan]) -> Vec<Option<Refusal>> {
        let refusal = |event: &EventPlan| {
            // 1 is PERF_TYPE_SOFTWARE.
            (event.kind != 1).then(|| Refusal {
                reason: "no hardware counters here".into(),
                remedy: "count software events".into(),
            })
        };
        events.iter().map(refusal).collect()
    }

    fn cpuinfo(&self) -> Option<String> {
        None
    }

    fn kernel(&self, name: &str) -> anyhow::Result<KernelSpec> {
        Ok(KernelSpec::Built(name.to_string()))
    }

    fn core(&self, name: &str) -> anyhow::Result<CorePlan> {
        let text = opcost_core_model::Core::shipped_text(name).expect("a core that ships");
        Ok(CorePlan::new(name.into(), text)?)
    }

    fn kernel_revision(&self, _: &Path, name: &str, _: &[PathBuf]) -> anyhow::Result<KernelSpec> {
        Ok(KernelSpec::Built(name.to_string()))
    }

    fn recipe_file(&self, folder: &Path, file: &Path) -> PathBuf {
        folder.join(file)
    }

    fn search_path(&self) -> Option<OsString> {
        None
    }

    fn working_dir(&self) -> std::io::Result<PathBuf> {
        Ok("/".into())
    }
}

/// A plan that compares the null system call under each of these settings of its filter.
pub(crate) fn plan(filters: &[&str], pairs: u32) -> Plan {
    let variant = |filter: &&str| Variant {
        name: Some(filter.to_string()),
        workload: Some("syscall".into()),
        params: [("seccomp".to_string(), Scalar::Text(filter.to_string()))].into(),
        ..Variant::default()
    };
    plan_of(filters.iter().map(variant).collect(), pairs)
}

/// A plan that compares these variants.
pub(crate) fn plan_of(variants: Vec<Variant>, pairs: u32) -> Plan {
    let experiment = Experiment {
        name: Some("made".into()),
        question: Some("Does it matter?".into()),
        pairs: Some(pairs),
        seed: Some(Seed::Number(1)),
        variants,
        ..Experiment::default()
    };
    resolve(&experiment, &NoCounters).expect("a plan")
}

/// A key in the work region.
pub(crate) fn key(name: &str, source: &str) -> MetricKey {
    MetricKey { region: WORK.into(), ..MetricKey::new(name, Domain::All, source) }
}

/// A recording whose runs have the readings of `read`, for 1,000 operations each.
pub(crate) fn recording(plan: Plan, mut read: impl FnMut(&Slot) -> Vec<Reading>) -> Recording {
    let mut dictionary = Dictionary::default();
    let records = plan
        .slots()
        .map(|slot| Record {
            slot: slot.slot,
            variant: slot.variant,
            block: slot.compared_in(),
            started_unix_ns: 1_700_000_000_000_000_000 + u64::from(slot.slot),
            outcome: Outcome::Finished,
            exit_code: Some(0),
            ops: Some(1000),
            samples: dictionary.samples(&read(&slot)),
            invariants: vec![Invariant { name: "op-stream-hash".into(), value: "8c5e1d0a".into() }],
        })
        .collect();
    Recording {
        id: "261121-c0ffee".into(),
        created_unix_ns: 1_700_000_000_000_000_000,
        arrived_unix_ns: None,
        state: State::Finished,
        plan,
        machine: vec![MachineState {
            kernel_release: Some("6.1.0".into()),
            cpu_model: Some("A CPU".into()),
            environment_bytes: vec![100, 100],
            ..MachineState::default()
        }],
        dictionary,
        records,
        profiles: vec![],
    }
}
