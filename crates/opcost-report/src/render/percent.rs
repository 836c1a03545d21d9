//! Every variant as a percentage of the baseline, side by side, in the manner of Linux's
//! paravirt-spinlock tables of 2009. Ratios such as CPI are computed from each column's own counts.

use super::metrics::heading;
use super::page::{BOLD, DIM, PLAIN, Page, align, fit};
use super::{View, alone};
use anyhow::Result;
use opcost_analysis::comparison::ratios::ratios;
use opcost_analysis::comparison::{Change, Comparison, Row, Verdict, by_reason};
use unicode_width::UnicodeWidthStr;

/// Maximum width of a label, in columns.
const LABEL_WIDTH_MAX: usize = 32;
/// Width of a percentage with its mark and the gap in front, in columns.
const CELL_WIDTH: usize = 12;

pub(super) fn render(view: &View<'_>) -> Result<String> {
    let mut page = Page::new(view.style);
    let comparison = view.comparison;
    page.wrap(BOLD, "", &comparison.heading.join(" · "));
    if let Some(question) = &comparison.question {
        page.wrap(PLAIN, "", question);
    }
    let baseline = 0;
    if comparison.comparisons.is_empty() {
        page.wrap(PLAIN, "  ", alone::NOTHING_TO_COMPARE);
        return Ok(page.into_text());
    }
    let name = &comparison.variants[baseline].name;
    page.wrap(PLAIN, "", &format!("Medians as percentages of '{name}'."));
    // Each column has the number of its comparison and its variant.
    let columns: Vec<(usize, usize)> = (comparison.comparisons.iter().enumerate())
        .filter(|(_, (from, _))| *from == baseline)
        .map(|(index, (_, variant))| (index, *variant))
        .collect();
    let labels = comparison.rows.iter().map(|row| heading(row).width());
    let label_width = labels.max().unwrap_or(0).clamp(15, LABEL_WIDTH_MAX);
    let together = page.width.saturating_sub(2 + label_width) / CELL_WIDTH;
    for columns in columns.chunks(together.saturating_sub(1).max(1)) {
        page.line("");
        Table { comparison, columns, label_width }.print(&mut page);
    }
    remarks(&mut page, comparison);
    page.line("");
    for conclusion in &comparison.conclusions {
        page.wrap(BOLD, "→ ", conclusion);
    }
    for warning in view.warnings {
        page.wrap(PLAIN, "! ", &warning.to_string());
    }
    Ok(page.into_text())
}

/// The baseline and as many variants as fit beside it.
struct Table<'a> {
    comparison: &'a Comparison,
    columns: &'a [(usize, usize)],
    label_width: usize,
}

impl Table<'_> {
    fn print(&self, page: &mut Page) {
        self.head(page);
        for row in self.comparison.rows.iter().filter(|row| has_figures(row)) {
            self.row(page, row);
        }
        for ratio in ratios(self.comparison) {
            let Ok(values) = &ratio.values else { continue };
            let mut line = self.label(&ratio.label);
            line.push_str(&cell("100.00", ' '));
            for &(_, variant) in self.columns {
                line.push_str(&cell(&percentage(values[variant] / values[0]), ' '));
            }
            page.line(&line);
        }
    }

    /// Writes the names of the variants; if one is too long, letters with a legend.
    fn head(&self, page: &mut Page) {
        let variants = std::iter::once(0).chain(self.columns.iter().map(|(_, variant)| *variant));
        let names: Vec<&str> =
            variants.map(|variant| self.comparison.variants[variant].name.as_str()).collect();
        let long = names.iter().any(|name| name.width() > CELL_WIDTH - 2);
        let mut head = self.label("");
        for (name, letter) in names.iter().zip('A'..) {
            if long {
                page.wrap(PLAIN, "  ", &format!("{letter}: {name}"));
                head.push_str(&cell(&letter.to_string(), ' '));
            } else {
                head.push_str(&cell(name, ' '));
            }
        }
        let head = page.paint(BOLD, head.trim_end());
        page.line(&head);
    }

    fn row(&self, page: &mut Page, row: &Row) {
        let label = heading(row);
        if label.width() > self.label_width {
            page.line(&format!("  {label}"));
        }
        let fits = label.width() <= self.label_width;
        let mut line = self.label(if fits { &label } else { "" });
        let base = row.values[0].as_ref().map_or("–", |_| "100.00");
        line.push_str(&cell(base, ' '));
        for &(comparison, _) in self.columns {
            let change = &row.changes[comparison];
            let value = change.ratio_of_medians.map(|ratio| percentage(1.0 + ratio));
            line.push_str(&cell(value.as_deref().unwrap_or("–"), mark(change)));
        }
        page.line(&line);
    }

    fn label(&self, label: &str) -> String {
        format!("  {}", fit(label, self.label_width))
    }
}

/// Whether any variant has a figure other than 0.
fn has_figures(row: &Row) -> bool {
    row.values.iter().flatten().any(|figures| figures.center() != 0.0)
}

fn cell(value: &str, mark: char) -> String {
    format!("{} {mark}", align(value, CELL_WIDTH - 2))
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

/// Writes the meaning of the signs, the metrics that were 0, and those that were unavailable.
fn remarks(page: &mut Page, comparison: &Comparison) {
    let text = "▲ ▼ a real change; = the same in every run; ~ no change found; ? not decided; \
                – not comparable; ratios of metrics are not judged";
    page.wrap(DIM, "  ", text);
    let mut changes = comparison.rows.iter().flat_map(|row| &row.changes);
    if changes.any(|change| change.verdict == Verdict::FewLayouts) {
        page.wrap(DIM, "  ", "≠ exact in the layouts that were run, which are too few to judge");
    }
    let present = |row: &&Row| row.values.iter().any(Option::is_some);
    let zeros = comparison.rows.iter().filter(present).filter(|row| !has_figures(row));
    let zeros: Vec<&str> = zeros.map(|row| row.label.as_str()).collect();
    if !zeros.is_empty() {
        page.wrap(DIM, "  ", &format!("0 in most runs: {}", zeros.join(", ")));
    }
    let ratios = ratios(comparison).into_iter();
    let ratios = by_reason(ratios.filter_map(|ratio| Some((ratio.label, ratio.values.err()?))));
    for (labels, reason) in comparison.missing().into_iter().chain(ratios) {
        page.wrap(DIM, "  ", &format!("– {}: {reason}", labels.join(", ")));
    }
}
