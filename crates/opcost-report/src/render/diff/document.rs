//! The difference as a document: the functions whose cost changed, their callers and callees, and how it was measured.

use super::{Shown, evidence};
use crate::render::functions::{
    MORE_OR_DEARER, add_sites, callers, mark, matching, row_name, tone,
};
use opcost_analysis::comparison::recorded_profiles::Difference;
use opcost_analysis::comparison::{FunctionRow, FunctionVerdict};
use opcost_page::document::{Cell, Column, Document, MailHead, Mark, Row as Line, Table};

/// The report of `opcost diff`; `limit`: functions shown one by one.
pub fn document(difference: &Difference, limit: usize) -> Document {
    let shown = Shown::of(difference, limit);
    let mut document = Document::titled(shown.heading());
    document.mail = Some(MailHead { subject: shown.subject(), ..MailHead::default() });
    document.say(Mark::Item(0), shown.total());
    document.gap();
    table(&mut document, &shown);
    notes(&mut document, &shown);
    document.fold("How it was measured", measured(&shown));
    document
}

/// The functions that cover most of the change, at most `limit`: the causes that a mail lists.
pub fn causes(difference: &Difference, limit: usize) -> usize {
    Shown::of(difference, limit).leading
}

fn table(document: &mut Document, shown: &Shown<'_>) {
    let difference = shown.difference;
    let [baseline, variant] = difference.sides.each_ref().map(|side| Column::named(&side.name));
    let figures = |baseline: f64, value: f64, change: f64| {
        let figures =
            [shown.cost(baseline), shown.cost(value), shown.change(change), shown.share(change)];
        figures.map(Cell::figure)
    };
    let row = |(at, row): (usize, &FunctionRow)| {
        let matched = row.by_name_only.then(|| "matched by name only".to_string());
        let facts = [Some(evidence(row, shown.sampled())), matched];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        let own = &row.own;
        let cells =
            [row_name(row)].into_iter().chain(figures(own.value_baseline, own.value, own.change));
        let owner = difference.owners.owner(row);
        let cells = cells.chain([
            Cell::text(mark(row)),
            Cell::text(facts.join(", ")),
            shown.why(row),
            Cell::text(if owner.is_empty() { owner } else { format!("in {owner}") }),
            callers(&row.callers, shown.decimals),
            shown.callees(row),
        ]);
        Line { brief: at >= shown.leading, ..Line::toned(tone(row), cells.collect()) }
    };
    let sums = |name: &str, baseline: f64, value: f64, change: f64| {
        let cells = [Cell::text(name)].into_iter().chain(figures(baseline, value, change));
        Line::of(cells.chain(vec![Cell::Empty; 6]).collect())
    };
    let total = &difference.functions.total;
    let rows = shown.rows.iter().enumerate().map(row);
    let rest =
        shown.rest.iter().map(|rest| sums(&rest.name, rest.baseline, rest.value, rest.change));
    let total = sums("total", total.value_baseline, total.value, total.change);
    document.table(Table {
        caption: None,
        columns: vec![
            Column::fixed("function"),
            baseline,
            variant,
            Column::fixed("change"),
            Column::optional("share", 1),
            Column::fixed(""),
            Column::below("how sure"),
            Column::below(MORE_OR_DEARER),
            Column::below("in"),
            Column::below("called from"),
            Column::below("calls"),
        ],
        rows: rows.chain(rest).chain([Line { strong: true, ..total }]).collect(),
    });
}

/// The meaning of the marks, and the doubts about the figures.
fn notes(document: &mut Document, shown: &Shown<'_>) {
    let difference = shown.difference;
    if shown.leading > 0 || !difference.notes.is_empty() {
        document.gap();
    }
    let unsure = shown
        .rows
        .iter()
        .any(|row| !matches!(row.verdict, FunctionVerdict::Changed | FunctionVerdict::FewLayouts));
    if unsure {
        document.say(Mark::Note, "?: not shown to be real; --json says why of each");
    }
    let sides = difference.sides.each_ref().map(|side| side.name.as_str());
    matching(document, &difference.functions, shown.rows, sides);
    if let Some(covered) = shown.covered(shown.rows.len()) {
        document.say(Mark::Item(0), covered);
    }
    let sites: Vec<_> = difference.patch_sites.iter().collect();
    add_sites(document, &sites, |of| &difference.sides[of].name);
    if shown.leading > 0 {
        let said = "← called from, → calls: with the changes of own cost there; --function NAME \
                    shows both sides";
        document.say(Mark::Note, said);
    }
    if let Some(by) = &difference.functions.sampled {
        document.say(Mark::Note, format!("estimated from {}", by.describe()));
    }
    let unknown = difference.owners.unknown(shown.rows);
    for note in difference.notes.iter().chain(&unknown) {
        document.say(Mark::Doubt, note);
    }
}

/// The method, the machines, the recordings, and the commands that repeat it.
fn measured(shown: &Shown<'_>) -> Document {
    let sides = &shown.difference.sides;
    let mut document = Document::default();
    document.say(Mark::Item(0), format!("Method: {}.", shown.method()));
    for machine in shown.machines() {
        document.say(Mark::Item(0), format!("Machine: {machine}"));
    }
    for sentence in shown.provenance() {
        document.say(Mark::Item(0), sentence);
    }
    let mut provenance: Vec<&String> =
        sides.iter().filter_map(|side| side.provenance.as_ref()).collect();
    provenance.dedup();
    provenance.into_iter().for_each(|sentence| document.say(Mark::Item(0), sentence));
    let mut commands: Vec<String> =
        sides.iter().filter_map(|side| side.invocation.clone()).collect();
    commands.dedup();
    if !commands.is_empty() {
        document.say(Mark::None, "To repeat it:");
        document.code("sh", commands);
    }
    document
}
