//! Every variant as a percentage of the baseline, side by side, in the manner of Linux's
//! paravirt-spinlock tables of 2009. Ratios such as CPI are computed from each column's own counts.

use super::metrics::heading;
use super::{View, alone};
use opcost_analysis::comparison::ratios::ratios;
use opcost_analysis::comparison::{Change, Comparison, Row, Verdict, by_reason};
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table};

/// The report in the format `percent`.
pub fn document(view: &View<'_>) -> Document {
    let comparison = view.comparison;
    let mut document = Document::titled(comparison.heading.join(" · "));
    document.quoted = comparison.variants.iter().map(|variant| variant.name.clone()).collect();
    if let Some(question) = &comparison.question {
        document.say(Mark::None, question);
    }
    let baseline = 0;
    if comparison.comparisons.is_empty() {
        document.say(Mark::None, alone::NOTHING_TO_COMPARE);
        return document;
    }
    let name = &comparison.variants[baseline].name;
    document.say(Mark::None, format!("Medians as percentages of '{name}'."));
    document.gap();
    // Each column has the number of its comparison and its variant.
    let columns: Vec<(usize, usize)> = (comparison.comparisons.iter().enumerate())
        .filter(|(_, (from, _))| *from == baseline)
        .map(|(index, (_, variant))| (index, *variant))
        .collect();
    document.table(table(comparison, &columns));
    remarks(&mut document, comparison);
    document.gap();
    for conclusion in &comparison.conclusions {
        document.say(Mark::Conclusion, conclusion);
    }
    for warning in view.warnings {
        document.say(Mark::Doubt, warning.to_string());
    }
    document
}

/// The baseline and the variants beside it.
fn table(comparison: &Comparison, columns: &[(usize, usize)]) -> Table {
    let row = |row: &Row| {
        let changes = columns.iter().map(|(comparison, _)| {
            let change = &row.changes[*comparison];
            let value = change.ratio_of_medians.map(|ratio| percentage(1.0 + ratio));
            cell(value.as_deref().unwrap_or("–"), mark(change))
        });
        let base = row.values[0].as_ref().map_or("–", |_| "100.00");
        let cells = [Cell::text(heading(row)), Cell::figure(base)].into_iter().chain(changes);
        Line::of(cells.collect())
    };
    let mut rows: Vec<Line> =
        comparison.rows.iter().filter(|row| has_figures(row)).map(row).collect();
    for ratio in ratios(comparison) {
        let Ok(values) = &ratio.values else { continue };
        let of =
            |(_, variant): &(usize, usize)| cell(&percentage(values[*variant] / values[0]), ' ');
        let cells = [Cell::text(&ratio.label), Cell::figure("100.00")].into_iter();
        rows.push(Line::of(cells.chain(columns.iter().map(of)).collect()));
    }
    let variants = std::iter::once(0).chain(columns.iter().map(|(_, variant)| *variant));
    let named = variants.map(|variant| Column::named(&comparison.variants[variant].name));
    let columns = std::iter::once(Column::fixed("")).chain(named).collect();
    Table { caption: None, columns, rows }
}

/// Whether any variant has a figure other than 0.
fn has_figures(row: &Row) -> bool {
    row.values.iter().flatten().any(|figures| figures.center() != 0.0)
}

/// A percentage with the sign of its verdict, for which others leave room.
fn cell(value: &str, mark: char) -> Cell {
    Cell::Figure(format!("{value} {mark}"))
}

fn percentage(ratio: f64) -> String {
    format!("{:.2}", 100.0 * ratio)
}

/// The sign of a change's verdict.
fn mark(change: &Change) -> char {
    match change.verdict {
        Verdict::Changed if change.change_ratio.unwrap_or(1.0) < 0.0 => '▼',
        Verdict::Changed => '▲',
        Verdict::FewLayouts => '≠',
        Verdict::Unchanged if change.identical => '=',
        Verdict::Unchanged => '~',
        Verdict::Inconclusive => '?',
        Verdict::NotComparable | Verdict::Unavailable => '–',
    }
}

/// Adds the meaning of the signs, the metrics that were 0, and those that were unavailable.
fn remarks(document: &mut Document, comparison: &Comparison) {
    let text = "▲ ▼ a real change; = the same in every run; ~ no change found; ? not decided; \
                – not comparable; ratios of metrics are not judged";
    document.say(Mark::Note, text);
    let mut changes = comparison.rows.iter().flat_map(|row| &row.changes);
    if changes.any(|change| change.verdict == Verdict::FewLayouts) {
        document
            .say(Mark::Note, "≠ exact in the layouts that were run, which are too few to judge");
    }
    let present = |row: &&Row| row.values.iter().any(Option::is_some);
    let zeros = comparison.rows.iter().filter(present).filter(|row| !has_figures(row));
    let zeros: Vec<&str> = zeros.map(|row| row.label.as_str()).collect();
    if !zeros.is_empty() {
        document.say(Mark::Note, format!("0 in most runs: {}", zeros.join(", ")));
    }
    let ratios = ratios(comparison).into_iter();
    let ratios = by_reason(ratios.filter_map(|ratio| Some((ratio.label, ratio.values.err()?))));
    for (labels, reason) in comparison.missing().into_iter().chain(ratios) {
        document.say(Mark::Missing, format!("{}: {reason}", labels.join(", ")));
    }
}
