//! The sizes of the files that a comparison's variants run, below its table.

use super::{bytes, bytes_change, relative};
use crate::render::page::{BOLD, Page, align, fit};
use opcost_analysis::comparison::{Comparison, SizeRows};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The name, bytes of both sides, change and ratio of each class and of all classes.
fn lines(rows: &SizeRows) -> Vec<[String; 5]> {
    let [before, after] = rows.totals;
    let classes = before.parts().into_iter().zip(after.parts());
    let parts = classes.map(|((class, before), (_, after))| (class.word(), before, after));
    parts
        .chain([("total", before.sum(), after.sum())])
        .map(|(name, before, after)| {
            let sides = [Some(before), Some(after)];
            let change = bytes_change(after as i64 - before as i64);
            [name.into(), bytes(sides[0]), bytes(sides[1]), change, relative(sides)]
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

/// The sizes of one comparison as lines.
pub(in crate::render) fn rows_text(page: &mut Page, comparison: &Comparison, sides: [usize; 2]) {
    for rows in of(comparison, sides) {
        page.line("");
        page.wrap(BOLD, "  ", &heading(comparison, rows));
        for [name, before, after, change, ratio] in lines(rows) {
            let [before, after, change] = [before, after, change].map(|text| align(&text, 13));
            page.line(&format!("    {}{before}{after}{change}  {ratio}", fit(&name, 8)));
        }
    }
}

/// The sizes of one comparison: a heading, and lines of name, bytes of both sides, change, ratio.
pub(in crate::render) fn rows_table(
    comparison: &Comparison,
    sides: [usize; 2],
) -> Vec<(String, Vec<[String; 5]>)> {
    of(comparison, sides).map(|rows| (heading(comparison, rows), lines(rows))).collect()
}

/// The sizes of one comparison as a Markdown table.
pub(in crate::render) fn rows_markdown(
    text: &mut String,
    comparison: &Comparison,
    sides: [usize; 2],
    escape: fn(&str) -> String,
) {
    for rows in of(comparison, sides) {
        let _ = writeln!(text, "\n{}\n", escape(&heading(comparison, rows)));
        let names = sides.map(|side| escape(&comparison.variants[side].name));
        let _ = writeln!(
            text,
            "| | {} | {} | change | |\n|:---|---:|---:|---:|---:|",
            names[0], names[1]
        );
        for line in lines(rows) {
            let _ = writeln!(text, "| {} |", line.join(" | "));
        }
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
