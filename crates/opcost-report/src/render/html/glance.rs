//! The verdicts at a glance: the metrics of a comparison, grouped by verdict.

use super::class_of;
use crate::render::metrics::{always_zero, heading};
use maud::{Markup, html};
use opcost_analysis::comparison::conclusion::detectable;
use opcost_analysis::comparison::{Change, Comparison, Row, Verdict};
use opcost_base::number::percent;

/// The groups in the order of the page: sign, heading, class.
const GROUPS: [(char, &str, &str); 6] = [
    ('▲', "Real", "shift"),
    ('▲', "Differs, and may be chance or layout", "shift"),
    ('~', "None found, down to", "same"),
    ('=', "Same in every run", "same"),
    ('?', "Undecided", "unsure"),
    ('–', "Not comparable", "unsure"),
];

/// The metrics of one comparison in groups; metrics that are 0 throughout are only named.
pub(super) fn glance(comparison: &Comparison, index: usize, sides: [usize; 2]) -> Markup {
    let (zeros, rows): (Vec<&Row>, Vec<&Row>) = comparison
        .rows
        .iter()
        .filter(|row| row.changes[index].verdict != Verdict::Unavailable)
        .partition(|row| always_zero(row, sides));
    let of_group = |group: usize| -> Vec<(String, &str)> {
        let of = rows.iter().filter(|row| self::group(&row.changes[index]) == Some(group));
        let class = |row: &Row, change: &Change| match change.verdict {
            Verdict::Changed => class_of(row, change),
            _ => "plain",
        };
        let told = of.map(|row| (row, &row.changes[index]));
        told.map(|(row, change)| (words(row, change), class(row, change))).collect()
    };
    let zeros: Vec<&str> = zeros.iter().map(|row| row.label.as_str()).collect();
    html! {
        dl class="glance" {
            @for (number, (sign, name, class)) in GROUPS.into_iter().enumerate() {
                @let metrics = of_group(number);
                @if !metrics.is_empty() {
                    div class=(class) {
                        dt { span aria-hidden="true" { (sign) " " } (name) " (" (metrics.len()) ")" }
                        @for (metric, class) in metrics { dd class=(class) { (metric) } }
                    }
                }
            }
            @if !zeros.is_empty() {
                div class="same" { dt { "0 in every run (" (zeros.len()) ")" } dd class="plain" { (zeros.join(", ")) } }
            }
        }
    }
}

fn group(change: &Change) -> Option<usize> {
    match change.verdict {
        Verdict::Changed if change.estimated || change.unordered => Some(1),
        Verdict::Changed => Some(0),
        Verdict::FewLayouts => Some(1),
        Verdict::Unchanged if !change.identical => Some(2),
        Verdict::Unchanged => Some(3),
        Verdict::Inconclusive => Some(4),
        Verdict::NotComparable => Some(5),
        Verdict::Unavailable => None,
    }
}

fn words(row: &Row, change: &Change) -> String {
    let name = heading(row);
    match change.verdict {
        Verdict::Changed | Verdict::FewLayouts => {
            let amount = change.change_ratio.map_or("changed".into(), percent);
            let floor =
                if change.below_floor().is_some() { ", below what layouts shift" } else { "" };
            format!("{name} {amount}{floor}")
        }
        Verdict::Unchanged if !change.identical => match detectable(row, change) {
            Some(mde) => format!("{name}: {mde}"),
            None => name,
        },
        _ => name,
    }
}
