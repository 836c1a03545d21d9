//! The comparability ledger: the rules by which runs are comparable or not.
//!
//! To add a rule, add a row to [`RULES`].

mod besides;
mod conditions;
mod disturbance;
mod imported_figures;
mod kernel_threads;
mod operations;
mod repeatable;
mod settings;
mod ticks;

pub use operations::RULE as OPERATIONS_RULE;
pub(crate) use repeatable::Repeats;

use crate::comparison::columns::{Column, Columns};
use crate::comparison::{InvariantRow, LedgerEntry, Severity, Warning, carry_over};
use kernel_threads::kernel_threads;
use opcost_base::listing::few;
use opcost_model::plan::MachineKind;
use opcost_model::recording::{MachineState, Recording, State};
use opcost_record::{Domain, MetricKey, Record};
use repeatable::repeatable;
use ticks::ticks;

/// The data that the rules examine.
pub(super) struct Evidence<'a> {
    pub(super) recording: &'a Recording,
    pub(super) finished: &'a [Vec<&'a Record>],
    invariants: &'a [InvariantRow],
    pub(super) columns: &'a Columns,
    carried: Option<&'a carry_over::Tests>,
}

impl Evidence<'_> {
    /// How this recording can avoid the tasks of others: `opcost attach` starts no process that it could pin.
    pub(super) fn quiet_cpu(&self) -> &'static str {
        let plan = &self.recording.plan;
        match (plan.machine(), plan.cpu) {
            (MachineKind::Attached, _) => "pin the process to a quiet CPU (taskset -p)",
            (_, Some(_)) if plan.real_time() => "choose a quieter CPU (opcost doctor --cpus)",
            (_, Some(_)) => {
                "choose a quieter CPU (opcost doctor --cpus), or own it (--priority real-time)"
            }
            (_, None) => {
                "pin the runs to a quiet CPU (opcost doctor --cpus, --cpu), or own one (--priority real-time)"
            }
        }
    }

    /// A metric of the work region in every finished run that has it, as read, as pairs of variant and value.
    pub(super) fn raw(&self, name: &str, source: &str) -> Vec<(usize, f64)> {
        self.raw_in(name, Domain::All, source)
    }

    fn raw_in(&self, name: &str, domain: Domain, source: &str) -> Vec<(usize, f64)> {
        let key = MetricKey::new(name, domain, source);
        let Some(metric) = self.recording.dictionary.id(&key) else { return Vec::new() };
        // Some metrics are in few runs, and searching all samples of each run is slow, so columns are preferred.
        if self.columns.as_read.get(usize::from(metric)) == Some(&true) {
            let columns = self.columns.by_metric[usize::from(metric)].iter().enumerate();
            let values = |(variant, column): (usize, &'_ Column)| {
                column.values.iter().map(|value| (variant, *value)).collect::<Vec<_>>()
            };
            return columns.flat_map(values).collect();
        }
        let runs = self.finished.iter().enumerate();
        runs.flat_map(|(variant, runs)| runs.iter().map(move |record| (variant, record)))
            .filter_map(|(variant, record)| Some((variant, record.sample(metric)?.value as f64)))
            .collect()
    }

    /// The sum of a metric over all finished runs; `None` if no run has the metric.
    pub(super) fn total(&self, name: &str, source: &str) -> Option<f64> {
        let values = self.raw(name, source);
        (!values.is_empty()).then(|| values.iter().map(|(_, value)| value).sum())
    }

    /// The mean of a metric over the finished runs of each variant.
    pub(super) fn means(&self, name: &str, source: &str) -> Vec<Option<f64>> {
        self.means_in(name, Domain::All, source)
    }

    /// The mean of a metric in a domain, as in [`means`](Self::means).
    pub(super) fn means_in(&self, name: &str, domain: Domain, source: &str) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0u32); self.finished.len()];
        for (variant, value) in self.raw_in(name, domain, source) {
            sums[variant].0 += value;
            sums[variant].1 += 1;
        }
        sums.into_iter().map(|(sum, n)| (n > 0).then(|| sum / f64::from(n))).collect()
    }
}

/// A rule of the ledger.
pub struct Rule {
    /// The name, as `--allow` takes it.
    pub name: &'static str,
    /// The subject of the rule, for the documentation.
    pub help: &'static str,
    /// The machine to whose runs the rule applies; `None` if it applies to every machine that opcost runs.
    machine: Option<MachineKind>,
    check: fn(&Evidence<'_>) -> Finding,
}

/// The result of a rule.
pub(super) enum Finding {
    /// The severity, and what the rule found.
    Seen(Severity, String),
    /// Why the rule had nothing to examine.
    Unknown(String),
}

/// The finding of a rule that had nothing to examine.
pub(super) fn unknown(why: &str) -> Finding {
    Finding::Unknown(why.to_string())
}

/// Every rule, the most severe first.
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
        name: operations::RULE,
        help: "a program must do a number of operations, many and alike, and not run for a time",
        machine: None,
        check: operations::operations,
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
        name: "layout",
        help: "a kernel that randomises nothing lets one address layout decide",
        machine: Some(MachineKind::Host),
        check: settings::layout,
    },
    Rule {
        name: "program",
        help: "variants should not be copies of one and the same program",
        machine: Some(MachineKind::Host),
        check: settings::program,
    },
    Rule {
        name: "clock",
        help: "the kernel's clock should go on evenly",
        machine: Some(MachineKind::Host),
        check: settings::clock,
    },
    Rule {
        name: "load",
        help: "other tasks should leave a CPU to the work",
        machine: Some(MachineKind::Host),
        check: conditions::load,
    },
    Rule {
        name: "pressure",
        help: "next to nothing should wait for CPUs, memory or disks (/proc/pressure)",
        machine: Some(MachineKind::Host),
        check: conditions::pressure,
    },
    Rule {
        name: "throttling",
        help: "no CPU should be slowed down because of heat, and no quota stop the work",
        machine: Some(MachineKind::Host),
        check: conditions::throttling,
    },
    Rule {
        name: "frequency",
        help: "CPUs should run at one rate, the same for every variant",
        machine: Some(MachineKind::Host),
        check: conditions::frequency,
    },
    Rule {
        name: "siblings",
        help: "what shares the core with a pinned run should be idle",
        machine: Some(MachineKind::Host),
        check: conditions::siblings,
    },
    Rule {
        name: "migrations",
        help: "variants should be moved between CPUs alike",
        machine: Some(MachineKind::Host),
        check: disturbance::migrations,
    },
    Rule {
        name: "faults",
        help: "next to no page should have to be read from a disk",
        machine: Some(MachineKind::Host),
        check: disturbance::faults,
    },
    Rule {
        name: "switches",
        help: "next to no other task should run on the work's CPU",
        machine: Some(MachineKind::Host),
        check: disturbance::switches,
    },
    Rule {
        name: "left-behind",
        help: "no run should leave processes behind",
        machine: Some(MachineKind::Host),
        check: disturbance::left_behind,
    },
    Rule {
        name: carry_over::RULE,
        help: "no run should cost more behind one variant than behind another",
        machine: Some(MachineKind::Host),
        check: carry_over,
    },
    Rule {
        name: "repeatable",
        help: "an emulated run that is repeated must give the same counts",
        machine: Some(MachineKind::Emulated),
        check: repeatable,
    },
    Rule {
        name: "kernel-threads",
        help: "the kernel's threads should do the same in every emulated run",
        machine: Some(MachineKind::Emulated),
        check: kernel_threads,
    },
    Rule {
        name: "ticks",
        help: "a short emulated run's deferred work should not pass for a change of the work",
        machine: Some(MachineKind::Emulated),
        check: ticks,
    },
    Rule {
        name: "import-order",
        help: "imported runs should have alternated, which nobody knows",
        machine: Some(MachineKind::Imported),
        check: imported_figures::order,
    },
    Rule {
        name: "import-possible",
        help: "imported figures of one run must be possible together",
        machine: Some(MachineKind::Imported),
        check: imported_figures::possible,
    },
];

/// Applies every rule.
pub(super) fn examine(
    recording: &Recording,
    finished: &[Vec<&Record>],
    invariants: &[InvariantRow],
    columns: &Columns,
    carried: Option<&carry_over::Tests>,
) -> (Vec<LedgerEntry>, Vec<Warning>) {
    let evidence = Evidence { recording, finished, invariants, columns, carried };
    // Rules about opcost's own runs do not apply to imported figures, of whose runs little is known.
    let imported = recording.plan.machine() == MachineKind::Imported;
    let about = |rule: &&Rule| {
        let here = rule.machine.map_or(!imported, |kind| kind == recording.plan.machine());
        let is_of_plan = match rule.name {
            operations::RULE => operations::applies(&recording.plan),
            carry_over::RULE => carry_over::applies(&recording.plan),
            _ => true,
        };
        here && is_of_plan
    };
    let entries = RULES
        .iter()
        .filter(about)
        .map(|rule| {
            let (severity, known, detail) = match (rule.check)(&evidence) {
                Finding::Seen(severity, detail) => (severity, true, detail),
                Finding::Unknown(why) => (Severity::Fine, false, format!("not known: {why}")),
            };
            let waived = severity != Severity::Fine
                && recording.plan.allow.iter().any(|name| name == rule.name);
            LedgerEntry { rule: rule.name.to_string(), severity, known, waived, detail }
        })
        .collect();
    let mut warnings = Vec::new();
    let (made, planned) = (recording.records.len(), recording.runs_due());
    if made < planned {
        let (id, runs) = (recording.id.clone(), recording.plan.runs_in_words(made));
        warnings.push(match recording.state {
            _ if recording.arrived_unix_ns.is_some() => Warning::IncompleteElsewhere { runs },
            State::Running => Warning::Running { runs, recording: id },
            _ => Warning::Incomplete { runs, recording: id },
        });
    } else if let Some(shard) = recording.plan.shard() {
        warnings.push(Warning::Shard(shard));
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
            format!("{} differs ({})", row.name, few(&seen))
        })
        .collect();
    match (broken.as_slice(), evidence.invariants.len()) {
        ([], 0) => Finding::Seen(Severity::Fine, "commands declare no invariants".into()),
        ([], held) => Finding::Seen(
            Severity::Fine,
            format!("the work was the same in every run: {held} invariants hold"),
        ),
        (broken, _) => Finding::Seen(
            Severity::Refuse,
            format!("the work was not the same: {}", broken.join("; ")),
        ),
    }
}

fn machine(evidence: &Evidence<'_>) -> Finding {
    let states = &evidence.recording.machine;
    let emulated = evidence.recording.plan.machine() == MachineKind::Emulated;
    let between = |first: &MachineState, later: &MachineState| first.differences(later, emulated);
    let same = if emulated {
        "kernels and programs stayed the same"
    } else {
        "kernel, CPU, settings and programs stayed the same"
    };
    // Computers that are units of the test may differ from each other, but no computer may change.
    let differences: Vec<String> = states
        .chunk_by(|one, next| one.shard == next.shard)
        .filter_map(|of_computer| of_computer.split_first())
        .flat_map(|(first, later)| later.iter().flat_map(|state| between(first, state)))
        .collect();
    if !differences.is_empty() {
        let changed = differences.join("; ");
        return Finding::Seen(
            Severity::Refuse,
            format!("the machine changed during the recording: {changed}"),
        );
    }
    let Some(computers) = evidence.recording.plan.computers().filter(|_| states.len() > 1) else {
        return Finding::Seen(Severity::Fine, same.into());
    };
    let mut kinds: Vec<&str> =
        states.iter().map(|state| state.cpu_model.as_deref().unwrap_or("unknown CPU")).collect();
    kinds.sort_unstable();
    kinds.dedup();
    Finding::Seen(
        Severity::Fine,
        format!(
            "{computers} computers, each a unit of the test, stayed as they were ({})",
            kinds.join(", ")
        ),
    )
}

fn runs(evidence: &Evidence<'_>) -> Finding {
    let plan = &evidence.recording.plan;
    let failed = evidence.recording.failed_variants();
    let none: Vec<String> = plan
        .variants
        .iter()
        .zip(evidence.finished)
        .enumerate()
        .filter(|(index, (_, runs))| runs.is_empty() && !failed.contains_key(index))
        .map(|(_, (variant, _))| format!("'{}'", variant.name))
        .collect();
    if !none.is_empty() {
        return Finding::Seen(Severity::Refuse, format!("no finished run of {}", few(&none)));
    }
    let finished: usize = evidence.finished.iter().map(Vec::len).sum();
    let made = evidence.recording.records.iter().filter(|record| record.block.is_some()).count();
    // An interrupted recording whose length the time decides lacks no run.
    let planned = match plan.may_end_early() {
        true => made,
        false => evidence.recording.compared_runs_due(),
    };
    if finished < planned {
        return Finding::Seen(Severity::Doubtful, format!("{finished} of {planned} runs finished"));
    }
    Finding::Seen(Severity::Fine, format!("all {planned} runs finished"))
}

fn exit_status(evidence: &Evidence<'_>) -> Finding {
    if evidence.recording.plan.attachment().is_some() {
        return Finding::Seen(Severity::Fine, "the program ran on".into());
    }
    let mut codes: Vec<Option<i32>> =
        evidence.finished.iter().flatten().map(|record| record.exit_code).collect();
    codes.sort();
    codes.dedup();
    match codes.as_slice() {
        [] => Finding::Seen(Severity::Fine, "no run finished".into()),
        [Some(0)] => Finding::Seen(Severity::Fine, "every run ended with status 0".into()),
        [Some(code)] => {
            Finding::Seen(Severity::Doubtful, format!("every run ended with status {code}"))
        }
        _ => Finding::Seen(Severity::Doubtful, "runs ended with different statuses".into()),
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
        return Finding::Seen(Severity::Fine, "no counter was multiplexed".into());
    }
    Finding::Seen(
        Severity::Doubtful,
        format!("multiplexed, so not judged: {}", multiplexed.join(", ")),
    )
}

fn environment(evidence: &Evidence<'_>) -> Finding {
    if evidence.recording.plan.attachment().is_some() {
        return Finding::Seen(
            Severity::Fine,
            "one process, so one environment and one layout".into(),
        );
    }
    let Some(state) = evidence.recording.machine.first() else {
        return unknown("not recorded");
    };
    let sizes = &state.environment_bytes;
    if sizes.is_empty() {
        return unknown("not recorded");
    }
    if sizes.iter().all(|size| *size == sizes[0]) {
        return Finding::Seen(
            Severity::Fine,
            "every variant had an environment of the same size".into(),
        );
    }
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    Finding::Seen(
        Severity::Doubtful,
        format!(
            "environments of {} bytes shift the stack; --environment randomised averages that out",
            sizes.join(" and ")
        ),
    )
}

fn carry_over(evidence: &Evidence<'_>) -> Finding {
    let Some(tests) = evidence.carried else {
        let text = "every compared run was directly behind a run of its own variant (--block)";
        return Finding::Seen(Severity::Fine, text.into());
    };
    match tests.finding() {
        Ok((severity, text)) => Finding::Seen(severity, text),
        Err(why) => Finding::Unknown(why),
    }
}

/// Above this share of CPU time stolen, times are doubtful.
const STEAL_SHARE_MAX: f64 = 0.02;

fn steal(evidence: &Evidence<'_>) -> Finding {
    let total = |name: &str| evidence.total(name, "procfs");
    let (Some(steal), Some(busy)) = (total("steal"), total("machine-busy")) else {
        return unknown("/proc/stat was not readable");
    };
    if busy + steal == 0.0 {
        return Finding::Seen(
            Severity::Fine,
            "runs too short for the kernel's tick to tell".into(),
        );
    }
    let share = steal / (busy + steal);
    let text = format!("the hypervisor took {:.2} % of the CPU time asked for", share * 100.0);
    Finding::Seen(if share > STEAL_SHARE_MAX { Severity::Doubtful } else { Severity::Fine }, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_can_be_waived_by_its_name() {
        let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names, opcost_model::plan::rule::NAMES);
    }
}
