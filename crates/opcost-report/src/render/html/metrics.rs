//! The metrics: at a glance, then as a table for each comparison.

use super::glance::glance;
use super::{class_of, sentence, whose};
use crate::render::View;
use crate::render::markdown::verdict;
use crate::render::text::{self, always_zero, drifted, heading, side_texts};
use maud::{Markup, html};
use opcost_analysis::comparison::{Change, Row, Verdict};
use opcost_base::number::{figures, percent};

pub(super) fn section(view: &View<'_>) -> Markup {
    let comparison = view.comparison;
    html! {
        @for (index, &(baseline, variant)) in comparison.comparisons.iter().enumerate() {
            (whose(view, [baseline, variant]))
            (glance(comparison, index, [baseline, variant]))
            (table(view, index, [baseline, variant]))
        }
        @if comparison.comparisons.is_empty() { (alone(view)) }
        (notes(view))
        (missing(view))
    }
}

fn table(view: &View<'_>, index: usize, sides: [usize; 2]) -> Markup {
    let comparison = view.comparison;
    let names = sides.map(|side| comparison.variants[side].name.as_str());
    let rows: Vec<&Row> = comparison
        .rows
        .iter()
        .filter(|row| {
            row.changes[index].verdict != Verdict::Unavailable && !always_zero(row, sides)
        })
        .collect();
    // Exact counts have no interval.
    let intervals = rows.iter().any(|row| row.changes[index].ci.is_some());
    html! {
        table class="stacks" {
            caption {
                "Metrics of " (names[0]) " and " (names[1])
                @if has_spread(view) { "; " (SPREAD) }
            }
            thead {
                tr {
                    th scope="col" { "metric" }
                    @for name in names { th scope="col" class="name number" { (name) } }
                    th scope="col" class="number" { "change" }
                    @if intervals { th scope="col" class="number" { "interval" } }
                    th scope="col" { "verdict" }
                }
            }
            tbody {
                @for row in rows { (line(row, &row.changes[index], (sides, names), intervals)) }
                (twin(view, (sides, names), intervals))
            }
        }
    }
}

fn line(
    row: &Row,
    change: &Change,
    (sides, names): ([usize; 2], [&str; 2]),
    intervals: bool,
) -> Markup {
    let values = side_texts(row, sides.map(|side| row.values[side].as_ref()));
    let interval = change.ci.map(|(low, high)| format!("{} … {}", percent(low), percent(high)));
    let level = change.ci.map(|_| format!("{:.4}", change.ci_level * 100.0));
    let level = level.map(|level| level.trim_end_matches('0').trim_end_matches('.').to_string());
    // Runs that cannot be compared have no change to show.
    let ratio = change.change_ratio.filter(|_| change.verdict != Verdict::NotComparable);
    let sign = match change.change_ratio {
        _ if !matches!(change.verdict, Verdict::Changed | Verdict::FewLayouts) => None,
        Some(ratio) if ratio < 0.0 => Some("▼"),
        _ => Some("▲"),
    };
    html! {
        tr class=[row.primary.then_some("primary")] {
            th scope="row" {
                (heading(row))
                @if row.primary { " " span class="tag" { "primary" } }
            }
            @for (value, name) in values.into_iter().zip(names) {
                td class="number" data-label=(name) {
                    @match value {
                        Some((value, spread)) => {
                            (value)
                            @if !spread.is_empty() { " " small { (spread) } }
                        }
                        None => "–",
                    }
                }
            }
            td class="number" data-label="change" {
                @if change.identical { "=" } @else { (ratio.map_or("–".into(), percent)) }
            }
            @if intervals {
                td class="number" data-label="interval" {
                    @match interval {
                        Some(interval) => {
                            (interval)
                            @if let Some(level) = level { " " small class="level" { "at " (level) " %" } }
                        }
                        None => "–",
                    }
                }
            }
            td class=(class_of(row, change)) data-label="verdict" {
                @if let Some(sign) = sign { span aria-hidden="true" { (sign) " " } }
                (verdict(row, change))
            }
        }
    }
}

/// The row of the empty twin: the cost of opcost's own loop, as in the table of the text.
fn twin(view: &View<'_>, (sides, names): ([usize; 2], [&str; 2]), intervals: bool) -> Markup {
    html! {
        @if let Some(twin) = text::twin(view.comparison) {
            @if let [Some(one), Some(two)] = sides.map(|side| twin.values[side]) {
                tr {
                    th scope="row" { "our own loop/op" }
                    @for (value, name) in figures(&[one, two], twin.unit).into_iter().zip(names) {
                        td class="number" data-label=(name) { (value) }
                    }
                    td class="number" data-label="change" { "–" }
                    @if intervals { td class="number" data-label="interval" { "–" } }
                    td data-label="verdict" { "included in " (twin.label) }
                }
            }
        }
    }
}

/// The figures of variants that are compared with no other.
fn alone(view: &View<'_>) -> Markup {
    let comparison = view.comparison;
    if comparison.imported.is_none() {
        return measured(view);
    }
    html! {
        table class="stacks" {
            caption { "Figures; there is nothing to compare them with" }
            thead {
                tr {
                    th scope="col" { "metric" }
                    th scope="col" { "variant" }
                    th scope="col" class="number" { "figure" }
                    th scope="col" class="number" { "runs" }
                }
            }
            tbody {
                @for row in &comparison.rows {
                    @for (variant, values) in comparison.variants.iter().zip(&row.values) {
                        @if let Some(values) = values {
                            tr {
                                th scope="row" { (heading(row)) }
                                td data-label="variant" { (variant.name) }
                                td class="number" data-label="figure" { (figures(&[values.center()], row.unit)[0]) }
                                td class="number" data-label="runs" {
                                    @if values.n == 0 { "not known" } @else { (values.n) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The figures of one variant that was measured, with their spread.
fn measured(view: &View<'_>) -> Markup {
    let (rows, zeros) = crate::render::alone::cells(view.comparison);
    let names = ["median", "±", "interval at 95 %", "lowest … highest"];
    html! {
        table class="stacks" {
            caption { "Metrics of " (view.comparison.variants[0].name) }
            thead { tr { th scope="col" { "metric" } @for name in names { th scope="col" class="number" { (name) } } } }
            tbody {
                @for row in rows {
                    tr {
                        th scope="row" { (row.label) }
                        @for (cell, name) in [row.median, row.spread, row.interval, row.range].into_iter().zip(names) {
                            td class="number" data-label=(name) { (cell) }
                        }
                    }
                }
            }
        }
        @if !zeros.is_empty() { p { "0 in every run: " (zeros.join(", ")) } }
    }
}

/// The words above a table whose figures have a spread.
const SPREAD: &str = "medians, ± the standard deviation of the runs as a share of their mean";

/// Whether the runs of any variant differ in any metric.
fn has_spread(view: &View<'_>) -> bool {
    let mut figures = view.comparison.rows.iter().flat_map(|row| row.values.iter().flatten());
    figures.any(|side| side.sd.is_some_and(|sd| sd > 0.0))
}

/// Explains the words of the table that occur in it.
fn notes(view: &View<'_>) -> Markup {
    let rows = &view.comparison.rows;
    let changes = || rows.iter().flat_map(|row| &row.changes);
    let detectable =
        changes().any(|change| change.verdict == Verdict::Unchanged && !change.identical);
    let drifting = rows.iter().filter(|row| row.primary).flat_map(|row| &row.changes).any(drifted);
    html! {
        ul class="notes" {
            @if has_spread(view) && view.comparison.imported.is_some() { li { "Of imported means, these stand in place of medians." } }
            @if detectable { li { "“x would have been”: a change of x or more would have been found 9 times in 10." } }
            @for row in rows {
                @if let Some(floor) = text::largest_floor(&row.changes) {
                    li {
                        (row.label) ": real for each seed, and smaller than the " (floor)
                        " by which other seeds and layouts shift it."
                    }
                }
            }
            @if let Some(note) = text::layout_note(view.comparison) { li { (sentence(&note)) "." } }
            @if let Some(note) = text::accuracy_note(view.comparison) { li { (sentence(&note)) "." } }
            @if drifting && view.comparison.imported.is_none() {
                li { "Changes are estimated block by block, so that drift cancels; the machine's speed varied, so they are not the ratio of the medians." }
            }
        }
    }
}

fn missing(view: &View<'_>) -> Markup {
    let missing = view.comparison.missing();
    html! {
        @if !missing.is_empty() {
            h3 { "Not counted" }
            ul { @for (labels, reason) in missing { li { (labels.join(", ")) ": " (reason) } } }
        }
    }
}
