//! The ledger's rules on imported figures.

use crate::comparison::ledger::{Evidence, Finding};
use crate::comparison::{Severity, imported};
use opcost_base::number;
use opcost_model::plan::ImportedFigures;
use opcost_record::Unit;

/// The ledger's rule on the order of imported runs.
pub(super) fn order(evidence: &Evidence<'_>) -> Finding {
    if evidence.recording.plan.comparisons().is_empty() {
        return Finding::Seen(
            Severity::Fine,
            "imported: one variant, so nothing is compared".into(),
        );
    }
    let blocks = evidence.recording.plan.imported().into_iter().flat_map(|import| &import.metrics);
    let mut figures = blocks.flat_map(|metric| metric.figures.iter().flatten());
    let in_blocks = figures.all(|figures| match figures {
        ImportedFigures::Runs { values, blocks } => values.len() == blocks.len(),
        ImportedFigures::Mean { .. } => false,
    });
    let text = if in_blocks {
        "imported: the file names blocks, and the order of runs within them is unknown, so carry-over is not tested"
    } else {
        "imported: not run by opcost; whether the variants' runs alternated is unknown, so carry-over is not tested"
    };
    Finding::Seen(Severity::Doubtful, text.to_string())
}

/// The ledger's rule on impossible figures: more CPU time than the threads could use.
pub(super) fn possible(evidence: &Evidence<'_>) -> Finding {
    let Some(import) = &evidence.recording.plan.imported() else {
        return Finding::Seen(Severity::Fine, "nothing was imported".into());
    };
    let Some(threads) = import.threads else {
        return Finding::Seen(
            Severity::Fine,
            "not checked: how many threads worked is not known".into(),
        );
    };
    let named = |name: &str| {
        import.metrics.iter().find(|metric| metric.key.label() == name).map(|m| &m.figures)
    };
    let center =
        |figures: &Option<ImportedFigures>| Some(imported::summarise(figures.as_ref()?)?.center());
    let variants = &evidence.recording.plan.variants;
    let mut impossible = Vec::new();
    if let (Some(cpu), Some(wall)) = (named("task-clock"), named("wall")) {
        for (variant, (cpu, wall)) in variants.iter().zip(cpu.iter().zip(wall)) {
            let (Some(cpu), Some(wall)) = (center(cpu), center(wall)) else { continue };
            if cpu > wall * f64::from(threads) {
                let shown = number::figures(&[cpu, wall], Unit::Ns);
                impossible.push(format!(
                    "'{}' has {} of task-clock in {} of wall",
                    variant.name, shown[0], shown[1]
                ));
            }
        }
    }
    match impossible.as_slice() {
        [] => Finding::Seen(Severity::Fine, "no more CPU time than elapsed time".into()),
        found => {
            let threads =
                if threads == 1 { "one thread".into() } else { format!("{threads} threads") };
            Finding::Seen(
                Severity::Doubtful,
                format!(
                    "cannot be with {threads}: {}; the figures are not of the same run",
                    found.join("; ")
                ),
            )
        }
    }
}
