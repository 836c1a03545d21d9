//! The answer in words.

use super::{
    Change, Comparison, ModelAccuracy, Row, Severity, Verdict, alone, cycles, exact_functions,
    reconciled,
};
use opcost_base::number::{figure, magnitude, percent};
use opcost_record::Kind;

/// One sentence for each comparison: the primary metric, then the best metric of the other kind (time beside counts or counts
/// beside time), then other times that disagree.
pub(super) fn conclusions(comparison: &Comparison) -> Vec<String> {
    let refusals: Vec<&str> = comparison
        .ledger
        .iter()
        .filter(|entry| entry.severity == Severity::Refuse && !entry.waived)
        .map(|entry| entry.detail.as_str())
        .collect();
    if !refusals.is_empty() {
        return vec![format!("not comparable: {}", refusals.join("; "))];
    }
    let Some(row) = comparison.rows.iter().find(|row| row.primary) else {
        return vec!["no finished run has the primary metric".into()];
    };
    if comparison.comparisons.is_empty() {
        return alone::conclusion(comparison).into_iter().collect();
    }
    comparison
        .comparisons
        .iter()
        .enumerate()
        .map(|(index, (baseline, variant))| {
            let names = format!(
                "{} against {}",
                comparison.variants[*variant].name, comparison.variants[*baseline].name
            );
            let others = [
                exact_changes(comparison, row, [*baseline, *variant], index),
                reconciled::other_kind(comparison, row, index),
                reconciled::other_times(comparison, row, index),
                cycles::beside(&comparison.rows, index),
            ];
            let others = others.into_iter().flatten().map(|clause| format!("; {clause}"));
            format!("{names}: {}{}", sentence(row, index), others.collect::<String>())
        })
        .collect()
}

/// The functions that changed exactly, if the primary metric alone does not answer: no change of it was found, or layouts move it as
/// far.
fn exact_changes(
    comparison: &Comparison,
    row: &Row,
    sides: [usize; 2],
    index: usize,
) -> Option<String> {
    let change = &row.changes[index];
    if change.verdict == Verdict::Changed && change.below_floor().is_none() {
        return None;
    }
    let mut functions = comparison.functions.iter();
    let of_sides = functions.find(|functions| [functions.baseline, functions.variant] == sides);
    of_sides.and_then(exact_functions::clause)
}

fn sentence(row: &Row, index: usize) -> String {
    let change = &row.changes[index];
    let label = &row.label;
    let amount = change.change_ratio.map_or_else(|| "changed".into(), percent);
    match change.verdict {
        Verdict::Changed | Verdict::FewLayouts if change.estimated => {
            let error = row.accuracy.as_ref().map(ModelAccuracy::error_in_words);
            let error = error.unwrap_or_else(|| "by a formula over counts".into());
            format!("{label} {amount}, {} ({error})", change.found())
        }
        Verdict::Changed => {
            let real = match change.ci {
                Some((low, high)) => format!(
                    "{label} {amount}, {} ({} … {} at {:.4} % confidence)",
                    change.found(),
                    percent(low),
                    percent(high),
                    Trim(change.ci_level * 100.0)
                ),
                None => match in_layouts(change).filter(|_| !row.exact) {
                    Some(layouts) => format!("{label} {amount}, {}{layouts}", change.found()),
                    None => format!("{label} {amount}, {} and exact", change.found()),
                },
            };
            match change.floor_words().filter(|_| change.below_floor().is_some()) {
                Some(floor) => format!("{real}, but layouts alone shift it by up to {floor}"),
                None => real,
            }
        }
        Verdict::Unchanged => match detectable(row, change) {
            Some(mde) if !change.identical => {
                format!("no change in {label} found; {mde} or more would have been")
            }
            _ => format!("no change in {label}: {}", same(row, change)),
        },
        Verdict::FewLayouts => {
            let layouts = in_layouts(change).unwrap_or_default();
            let floor = change.floor_words().map(|floor| {
                let but = if change.below_floor().is_some() { ", but" } else { ";" };
                format!("{but} layouts alone shift it by up to {floor}")
            });
            format!("{label} {amount}, exact{layouts}{}", floor.unwrap_or_default())
        }
        Verdict::Inconclusive => format!("{label} {amount}, inconclusive: {}", change.reason),
        Verdict::NotComparable => format!("{label} not comparable: {}", change.reason),
        Verdict::Unavailable => format!("{label} not available: {}", change.reason),
    }
}

/// `, one layout`, ` (+1.01 % … +1.03 % in 5 layouts)`, or ` (in each of 5 layouts)` if the two ends look alike. Only for a
/// difference that was counted.
pub(super) fn in_layouts(change: &Change) -> Option<String> {
    let layouts = change.layouts?;
    Some(match layouts.range {
        Some((least, most)) if layouts.count > 1 => match [least, most].map(percent) {
            [least, most] if least == most => format!(" (in each of {})", layouts.words()),
            [least, most] => format!(" ({least} … {most} in {})", layouts.words()),
        },
        _ => format!(", {}", layouts.words()),
    })
}

/// Describes two sides whose counts are the same, for instructions as `the same to the instruction`.
fn same(row: &Row, change: &Change) -> String {
    let what = match row.key.name.as_str() {
        "instructions" if row.kind == Kind::Counted && change.layouts.is_some() => {
            "the same to the instruction"
        }
        _ if change.layouts.is_some() && !row.exact => "the same count",
        _ => "the same in every run",
    };
    match change.layouts {
        Some(layouts) if layouts.count == 1 => format!("{what}, one layout"),
        Some(layouts) if !row.exact => format!("{what}, in each of {}", layouts.words()),
        _ => what.into(),
    }
}

/// The smallest change that would have been found: a percentage, or a figure if the baseline is 0.
pub fn detectable(row: &Row, change: &Change) -> Option<String> {
    let ratio = change.mde_ratio.map(magnitude);
    ratio.or_else(|| change.mde_difference.map(|difference| figure(difference, row.unit)))
}

/// A number without trailing zeros.
struct Trim(f64);

impl std::fmt::Display for Trim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{:.*}", f.precision().unwrap_or(2), self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}
