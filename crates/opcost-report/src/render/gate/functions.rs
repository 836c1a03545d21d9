//! The functions that a case's change comes from, as lines.

use crate::render::functions::{behind, decimals_that_add_up, signed};
use crate::render::page::{DIM, Page, align, fit};
use opcost_analysis::comparison::{FunctionComparison, UNATTRIBUTED};
use unicode_width::UnicodeWidthStr;

/// Functions named for a case, at most.
pub(super) const FUNCTIONS_SHOWN: usize = 8;
/// Callers named for one function, at most.
const CALLERS_SHOWN: usize = 3;

/// Minimum width of a name, in columns.
const NAME_WIDTH_MIN: usize = 16;

/// A function, or a sum of functions.
pub(super) struct FunctionLine {
    /// The symbol, with its file unless that is the kernel.
    pub(super) name: String,
    pub(super) change: String,
    /// The callers, each with its part of the change.
    pub(super) callers: Vec<String>,
}

/// The total change, and the functions that make it up.
pub(super) fn lines(functions: &FunctionComparison) -> (String, Vec<FunctionLine>) {
    let (rows, others, sums) = functions.leading(FUNCTIONS_SHOWN);
    let rest = functions.unattributed.change;
    let parts: Vec<f64> =
        rows.iter().map(|row| row.own.change).chain([sums.change, rest]).collect();
    // Counts of single runs are whole; counts per operation need decimals to add up.
    let total = functions.total.change;
    let whole = parts.iter().chain([&total]).all(|part| part.fract() == 0.0);
    let decimals = if whole { 0 } else { decimals_that_add_up(total, &parts, false).0 };
    let mut lines: Vec<FunctionLine> = rows
        .iter()
        .map(|row| {
            let mut callers: Vec<String> = row
                .callers
                .iter()
                .filter(|caller| caller.own.change != 0.0)
                .take(CALLERS_SHOWN)
                .map(|caller| match row.callers.len() {
                    1 => caller.symbol.clone(),
                    _ => format!("{} {}", caller.symbol, signed(caller.own.change, decimals)),
                })
                .collect();
            let changed = row.callers.iter().filter(|caller| caller.own.change != 0.0).count();
            callers.extend((changed > CALLERS_SHOWN).then(|| "…".to_string()));
            let age = match (row.appeared, row.vanished) {
                (true, _) => ", new",
                (_, true) => ", gone",
                _ => "",
            };
            FunctionLine {
                name: format!("{}{}{age}", row.symbol, behind(row)),
                change: signed(row.own.change, decimals),
                callers,
            }
        })
        .collect();
    let mut add = |name: String, change: f64| {
        lines.push(FunctionLine { name, change: signed(change, decimals), callers: Vec::new() });
    };
    match others {
        0 => {}
        1 => add("1 other function".into(), sums.change),
        many => add(format!("{many} other functions"), sums.change),
    }
    if rest != 0.0 {
        add(UNATTRIBUTED.into(), rest);
    }
    (signed(total, decimals), lines)
}

/// Writes the lines as a table, `indent` columns from the left: name, change, and the callers beside them or below.
pub(super) fn show_lines(page: &mut Page, lines: Vec<FunctionLine>, indent: usize) {
    let change_width = lines.iter().map(|line| line.change.width()).max().unwrap_or(0);
    let name_width = lines.iter().map(|line| line.name.width()).max().unwrap_or(0);
    let room = page.width.saturating_sub(change_width + indent + 4) / 2;
    let name_width = name_width.min(room).max(NAME_WIDTH_MIN);
    let indent = " ".repeat(indent);
    for FunctionLine { name, change, callers } in lines {
        let name = page.name(&name, "", name_width);
        let line = format!("{indent}{}  {}", fit(&name, name_width), align(&change, change_width));
        let from = callers.join(", ");
        match from.is_empty() {
            true => page.line(&line),
            false if line.width() + 3 + from.width() <= page.width => {
                page.line(&format!("{line} ← {from}"));
            }
            false => {
                page.line(&line);
                page.wrap(DIM, &format!("{indent}  ← "), &from);
            }
        }
    }
}
