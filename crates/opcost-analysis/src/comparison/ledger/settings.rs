//! Rules about settings and programs: layouts, programs, the kernel's clock.

use crate::comparison::Severity::{Doubtful, Fine};
use crate::comparison::ledger::{Evidence, Finding, unknown};
use opcost_base::listing::few;
use opcost_model::plan::{Aslr, VariantPlan, WorkPlan};
use std::ffi::OsString;

pub(super) fn layout(evidence: &Evidence<'_>) -> Finding {
    let plan = &evidence.recording.plan;
    if plan.in_process.is_some() {
        let text = "the variants of a block were run in one process: same heap, layout and pages";
        return Finding::Seen(Fine, text.into());
    }
    let level =
        evidence.recording.machine.first().and_then(|state| state.randomize_va_space.as_deref());
    match (plan.aslr, level) {
        (Aslr::Randomised, Some("0")) => Finding::Seen(
            Doubtful,
            "address layouts were to differ from run to run, but this kernel randomises nothing, so \
             one layout decides: sysctl kernel.randomize_va_space=2"
                .into(),
        ),
        (Aslr::Randomised, _) => Finding::Seen(Fine, "every run had an address layout of its own".into()),
        (Aslr::Fixed, _) => Finding::Seen(Fine, "every run had the same address layout".into()),
        (Aslr::Inherit, _) => Finding::Seen(Fine, "address layouts are what the kernel makes them".into()),
    }
}

pub(super) fn program(evidence: &Evidence<'_>) -> Finding {
    let recording = evidence.recording;
    let Some(state) = recording.machine.first() else {
        return unknown("not recorded");
    };
    let hash = |variant: &VariantPlan| match &variant.work {
        WorkPlan::Command { program, .. } => {
            state.programs.iter().find(|known| known.path == *program).map(|known| &known.sha256)
        }
        WorkPlan::Workload { .. } => None,
    };
    let same: Vec<String> = recording
        .comparisons()
        .into_iter()
        .map(|(one, other)| [one, other].map(|side| &recording.plan.variants[side]))
        .filter(|[one, other]| {
            let (WorkPlan::Command { program, .. }, WorkPlan::Command { program: with, .. }) =
                (&one.work, &other.work)
            else {
                return false;
            };
            // Two variants of the same path were asked for, so only copies are reported.
            program != with
                && hash(one).is_some()
                && hash(one) == hash(other)
                && arguments(one) == arguments(other)
                && one.env == other.env
        })
        .map(|[one, other]| format!("'{}' and '{}'", one.name, other.name))
        .collect();
    match same.as_slice() {
        [] => Finding::Seen(Fine, "no two variants are copies of one program".into()),
        pairs => Finding::Seen(
            Doubtful,
            format!(
                "{} are the same program, byte for byte, with the same arguments: was the change built?",
                few(pairs)
            ),
        ),
    }
}

fn arguments(variant: &VariantPlan) -> &[OsString] {
    match &variant.work {
        WorkPlan::Command { argv, .. } => argv.get(1..).unwrap_or_default(),
        WorkPlan::Workload { .. } => &[],
    }
}

pub(super) fn clock(evidence: &Evidence<'_>) -> Finding {
    let recording = evidence.recording;
    let mut sources: Vec<&str> =
        recording.machine.iter().filter_map(|state| state.clocksource.as_deref()).collect();
    sources.dedup();
    if sources.len() > 1 {
        let text = format!(
            "the kernel changed its clock while recording: {}; times before and after are of \
             different clocks",
            sources.join(" → ")
        );
        return Finding::Seen(Doubtful, text);
    }
    let back = recording
        .records
        .windows(2)
        .filter(|runs| runs[1].started_unix_ns < runs[0].started_unix_ns)
        .count();
    if back > 0 {
        let text = format!(
            "the system's time was set back {back} time{} while recording; the order of the runs \
             is the plan's, not that of their dates",
            if back == 1 { "" } else { "s" }
        );
        return Finding::Seen(Doubtful, text);
    }
    Finding::Seen(Fine, "the clock went on evenly".into())
}
