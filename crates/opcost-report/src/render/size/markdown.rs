//! The difference in size for a mail or a pull request.

use super::{
    bytes, bytes_change, changed_sections, heading, leading, name, others, relative, remark,
    shows_symbols, unnamed_name, verdict,
};
use crate::render::escape;
use opcost_size::{Class, Part, SizeDifference};
use std::fmt::Write as _;

/// The tables that `opcost size --format markdown` prints; `limit` as for text.
pub fn markdown(difference: &SizeDifference, limit: usize) -> String {
    let [baseline, variant] = difference.sides.each_ref().map(|side| escape(&side.name));
    let mut text = format!("**size · {} · {baseline} → {variant}**\n", escape(&difference.machine));
    let _ = writeln!(text, "\n| | {baseline} | {variant} | change | |\n|:---|---:|---:|---:|---:|");
    let row = |text: &mut String, name: &str, sides: [Option<u64>; 2], remark: &str| {
        let [before, after] = sides.map(|bytes| bytes.unwrap_or(0) as i64);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            escape(name),
            bytes(sides[0]),
            bytes(sides[1]),
            bytes_change(after - before),
            escape(remark)
        );
    };
    for class in Class::LOADED {
        let sides = difference.sides.each_ref().map(|side| Some(side.totals.of(class)));
        row(&mut text, class.word(), sides, &relative(sides));
    }
    let sides = difference.sides.each_ref().map(|side| Some(side.totals.sum()));
    row(&mut text, "total", sides, &relative(sides));
    match verdict(difference) {
        Some(verdict) => {
            let _ = writeln!(text, "\n{}", escape(verdict));
        }
        None => {
            let (loaded, _) = changed_sections(difference);
            for section in loaded {
                row(&mut text, &section.name, section.bytes, &relative(section.bytes));
            }
            let (parts, more, change) = leading(difference, limit);
            if shows_symbols(difference) && !parts.is_empty() {
                let _ = writeln!(
                    text,
                    "\n{}:\n\n| symbol | {baseline} | {variant} | change | |\n|:---|---:|---:|---:|:---|",
                    escape(&heading(difference))
                );
                for part in parts {
                    match part {
                        Part::Symbol(symbol) => {
                            row(
                                &mut text,
                                &name(symbol),
                                symbol.bytes,
                                &remark(difference, symbol),
                            );
                        }
                        Part::Unnamed(section) => {
                            row(&mut text, &unnamed_name(section), section.unnamed_bytes, "");
                        }
                    }
                }
                if more > 0 {
                    let _ = writeln!(
                        text,
                        "| {} | | | {} | |",
                        others(more, "row"),
                        bytes_change(change)
                    );
                }
            }
        }
    }
    for note in &difference.notes {
        let _ = writeln!(text, "\n{}", escape(note));
    }
    text
}
