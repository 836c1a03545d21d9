//! The sizes of the files that a comparison's variants run, below its table.

use super::{bytes, bytes_change, relative};
use opcost_analysis::comparison::{Comparison, SizeRows};
use opcost_page::document::{Cell, Column, Document, Row as Line, Table};
use serde_json::{Value, json};

/// The bytes of both sides, the change and the ratio of each class and of all classes.
fn lines(rows: &SizeRows) -> Vec<Line> {
    let [before, after] = rows.totals;
    let classes = before.parts().into_iter().zip(after.parts());
    let parts = classes.map(|((class, before), (_, after))| (class.word(), before, after));
    parts
        .chain([("total", before.sum(), after.sum())])
        .map(|(name, before, after)| {
            let sides = [Some(before), Some(after)];
            let change = bytes_change(after as i64 - before as i64);
            let figures = [bytes(sides[0]), bytes(sides[1]), change, relative(sides)];
            Line::of([Cell::text(name)].into_iter().chain(figures.map(Cell::figure)).collect())
        })
        .collect()
}

fn of(comparison: &Comparison, sides: [usize; 2]) -> impl Iterator<Item = &SizeRows> {
    comparison.sizes.iter().filter(move |rows| [rows.baseline, rows.variant] == sides)
}

fn heading(comparison: &Comparison, rows: &SizeRows) -> String {
    let name = |variant: usize| &comparison.variants[variant].name;
    format!("size of the {}s, {} → {}, bytes:", rows.what, name(rows.baseline), name(rows.variant))
}

/// Adds the sizes of one comparison.
pub(in crate::render) fn rows(document: &mut Document, comparison: &Comparison, sides: [usize; 2]) {
    for rows in of(comparison, sides) {
        document.section(heading(comparison, rows));
        let [one, two] = sides.map(|side| Column::named(&comparison.variants[side].name));
        document.table(Table {
            caption: None,
            columns: vec![
                Column::fixed("class"),
                one,
                two,
                Column::fixed("change"),
                Column::fixed(""),
            ],
            rows: lines(rows),
        });
    }
}

/// The sizes of every comparison.
pub(in crate::render) fn rows_json(comparison: &Comparison) -> Vec<Value> {
    let row = |rows: &SizeRows| {
        let [before, after] = rows.totals;
        json!({
            "baseline": comparison.variants[rows.baseline].name,
            "variant": comparison.variants[rows.variant].name,
            "what": rows.what,
            "bytes_baseline": before,
            "bytes": after,
        })
    };
    comparison.sizes.iter().map(row).collect()
}
