//! The comparability ledger: what makes runs comparable or not, rule by rule.
//!
//! To add a rule, add a row to [`RULES`].

use super::columns::Columns;
use super::import_rules;
use super::repeatable::repeatable;
use super::{InvariantRow, LedgerEntry, Severity, Warning};
use crate::exit::{Status, fail};
use crate::experiment::MachineKind;
use crate::machine::MachineState;
use crate::nearest::nearest;
use crate::store::Recording;
use anyhow::Result;
use opcost_record::{Domain, MetricKey, Record};

/// What the rules look at.
pub(super) struct Evidence<'a> {
    pub(super) recording: &'a Recording,
    finished: &'a [Vec<&'a Record>],
    invariants: &'a [InvariantRow],
    columns: &'a Columns,
}

/// A rule of the ledger.
pub struct Rule {
    /// Its name, as `--allow` takes it.
    pub name: &'static str,
    /// What it looks at, for the documentation.
    pub help: &'static str,
    /// The machine whose runs it is about; `None` where it is about every machine's.
    machine: Option<MachineKind>,
    check: fn(&Evidence<'_>) -> Finding,
}

/// How bad it is and what was seen.
pub(super) type Finding = (Severity, String);

/// Every rule, the gravest first.
pub static RULES: &[Rule] = &[
    Rule {
        name: "invariants",
        help: "the work must be the same in every run of every variant",
        machine: None,
        check: invariants,
    },
    Rule {
        name: "machine",
        help: "kernel, CPU, settings and programs must not change during a recording",
        machine: None,
        check: machine,
    },
    Rule {
        name: "runs",
        help: "every variant needs finished runs, and as many as planned",
        machine: None,
        check: runs,
    },
    Rule {
        name: "exit-status",
        help: "variants should end with the same status",
        machine: None,
        check: exit_status,
    },
    Rule {
        name: "multiplexing",
        help: "counters should be on the hardware all the time",
        machine: Some(MachineKind::Host),
        check: multiplexing,
    },
    Rule {
        name: "environment",
        help: "environments of one size lay out the stack alike",
        machine: None,
        check: environment,
    },
    Rule {
        name: "steal",
        help: "the hypervisor should leave the machine its CPU time",
        machine: Some(MachineKind::Host),
        check: steal,
    },
    Rule {
        name: "repeatable",
        help: "an emulated run that is repeated must give the same counts",
        machine: Some(MachineKind::Emulated),
        check: repeatable,
    },
    Rule {
        name: "import-order",
        help: "imported runs should have alternated, which nobody knows",
        machine: Some(MachineKind::Imported),
        check: import_rules::order,
    },
    Rule {
        name: "import-possible",
        help: "imported figures of one run must be possible together",
        machine: Some(MachineKind::Imported),
        check: import_rules::possible,
    },
];

/// Finds a rule by name.
///
/// # Errors
/// A usage error that offers the nearest names.
pub fn find_rule(name: &str) -> Result<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name).ok_or_else(|| {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        let near = nearest(name, names.iter().copied());
        fail(
            Status::Usage,
            format!("--allow {name}: no such rule{near}; there are: {}", names.join(", ")),
        )
    })
}

/// Applies every rule.
pub(super) fn examine(
    recording: &Recording,
    finished: &[Vec<&Record>],
    invariants: &[InvariantRow],
    columns: &Columns,
) -> (Vec<LedgerEntry>, Vec<Warning>) {
    let evidence = Evidence { recording, finished, invariants, columns };
    // Of imported figures, what is said of our own runs is not known.
    let imported = recording.plan.machine == MachineKind::Imported;
    let about =
        |rule: &&Rule| rule.machine.map_or(!imported, |kind| kind == recording.plan.machine);
    let entries = RULES
        .iter()
        .filter(about)
        .map(|rule| {
            let (severity, detail) = (rule.check)(&evidence);
            let waived = severity != Severity::Fine
                && recording.plan.allow.iter().any(|name| name == rule.name);
            LedgerEntry { rule: rule.name.to_string(), severity, waived, detail }
        })
        .collect();
    let mut warnings = Vec::new();
    let (made, planned) = (recording.records.len(), recording.plan.slot_count());
    if made < planned {
        warnings.push(Warning::Incomplete { runs: made, planned, recording: recording.id.clone() });
    }
    (entries, warnings)
}

fn invariants(evidence: &Evidence<'_>) -> Finding {
    let broken: Vec<String> = evidence
        .invariants
        .iter()
        .filter(|row| !row.holds)
        .map(|row| {
            let seen: Vec<String> = evidence
                .recording
                .plan
                .variants
                .iter()
                .zip(&row.values)
                .map(|(variant, values)| match values.as_slice() {
                    [] => format!("none in '{}'", variant.name),
                    [one] => format!("{one} in '{}'", variant.name),
                    many => format!("{} different values in '{}'", many.len(), variant.name),
                })
                .collect();
            format!("{} differs ({})", row.name, seen.join(", "))
        })
        .collect();
    match (broken.as_slice(), evidence.invariants.len()) {
        ([], 0) => (Severity::Fine, "commands declare no invariants".into()),
        ([], held) => {
            (Severity::Fine, format!("the work was the same in every run: {held} invariants hold"))
        }
        (broken, _) => {
            (Severity::Refuse, format!("the work was not the same: {}", broken.join("; ")))
        }
    }
}

fn machine(evidence: &Evidence<'_>) -> Finding {
    let states = &evidence.recording.machine;
    let emulated = evidence.recording.plan.machine == MachineKind::Emulated;
    let between = |first: &MachineState, later: &MachineState| {
        if emulated { first.differences_emulated(later) } else { first.differences(later) }
    };
    let same = if emulated {
        "kernels and programs stayed the same"
    } else {
        "kernel, CPU, settings and programs stayed the same"
    };
    let differences: Vec<String> = states
        .split_first()
        .map(|(first, later)| later.iter().flat_map(|state| between(first, state)).collect())
        .unwrap_or_default();
    match differences.as_slice() {
        [] => (Severity::Fine, same.into()),
        changed => (
            Severity::Refuse,
            format!("the machine changed during the recording: {}", changed.join("; ")),
        ),
    }
}

fn runs(evidence: &Evidence<'_>) -> Finding {
    let plan = &evidence.recording.plan;
    let none: Vec<&str> = plan
        .variants
        .iter()
        .zip(evidence.finished)
        .filter(|(_, runs)| runs.is_empty())
        .map(|(variant, _)| variant.name.as_str())
        .collect();
    if !none.is_empty() {
        return (Severity::Refuse, format!("no finished run of '{}'", none.join("', '")));
    }
    let finished: usize = evidence.finished.iter().map(Vec::len).sum();
    let planned = plan.slot_count() - plan.warmup as usize * plan.variants.len();
    if finished < planned {
        return (Severity::Doubtful, format!("{finished} of {planned} runs finished"));
    }
    (Severity::Fine, format!("all {planned} runs finished"))
}

fn exit_status(evidence: &Evidence<'_>) -> Finding {
    let mut codes: Vec<Option<i32>> =
        evidence.finished.iter().flatten().map(|record| record.exit_code).collect();
    codes.sort();
    codes.dedup();
    match codes.as_slice() {
        [] => (Severity::Fine, "no run finished".into()),
        [Some(0)] => (Severity::Fine, "every run ended with status 0".into()),
        [Some(code)] => (Severity::Doubtful, format!("every run ended with status {code}")),
        _ => (Severity::Doubtful, "runs ended with different statuses".into()),
    }
}

fn multiplexing(evidence: &Evidence<'_>) -> Finding {
    let keys = evidence.recording.dictionary.keys().iter().enumerate();
    let mut multiplexed: Vec<String> = keys
        .filter(|(metric, _)| evidence.columns.multiplexed(*metric))
        .map(|(_, key)| key.label())
        .collect();
    // A metric has a column for each region.
    multiplexed.sort();
    multiplexed.dedup();
    if multiplexed.is_empty() {
        return (Severity::Fine, "no counter was multiplexed".into());
    }
    (Severity::Doubtful, format!("multiplexed, so not judged: {}", multiplexed.join(", ")))
}

fn environment(evidence: &Evidence<'_>) -> Finding {
    let Some(state) = evidence.recording.machine.first() else {
        return (Severity::Fine, "not recorded".into());
    };
    let sizes = &state.environment_bytes;
    if sizes.is_empty() {
        return (Severity::Fine, "not recorded".into());
    }
    if sizes.iter().all(|size| *size == sizes[0]) {
        return (Severity::Fine, "every variant had an environment of the same size".into());
    }
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    (
        Severity::Doubtful,
        format!(
            "environments of {} bytes shift the stack; --environment randomised averages that out",
            sizes.join(" and ")
        ),
    )
}

/// Above this share of the CPU time, times are doubtful.
const STEAL_SHARE_MAX: f64 = 0.02;

fn steal(evidence: &Evidence<'_>) -> Finding {
    let total = |name: &str| {
        let key = MetricKey::new(name, Domain::All, "procfs");
        evidence.recording.dictionary.id(&key).map(|metric| evidence.columns.sum(metric))
    };
    let (Some(steal), Some(busy)) = (total("steal"), total("machine-busy")) else {
        return (Severity::Fine, "not known: /proc/stat was not readable".into());
    };
    if busy + steal == 0.0 {
        return (Severity::Fine, "runs too short for the kernel's tick to tell".into());
    }
    let share = steal / (busy + steal);
    let text = format!("the hypervisor took {:.2} % of the CPU time asked for", share * 100.0);
    (if share > STEAL_SHARE_MAX { Severity::Doubtful } else { Severity::Fine }, text)
}
