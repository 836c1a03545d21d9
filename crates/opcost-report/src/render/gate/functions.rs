//! The functions that a case's change comes from, as lines.

use crate::render::functions::{
    MORE_OR_DEARER, behind, decimals_that_add_up, more_or_dearer, signed,
};
use opcost_analysis::comparison::{FunctionComparison, UNATTRIBUTED};
use opcost_page::document::{Cell, Column, Row as Line, Table};

/// Functions named for a case, at most.
pub(super) const FUNCTIONS_SHOWN: usize = 8;
/// Callers named for one function, at most.
const CALLERS_SHOWN: usize = 3;

/// A function, or a sum of functions.
pub(super) struct FunctionLine {
    /// The symbol, or the words for a sum of functions.
    pub(super) symbol: String,
    /// The symbol's file unless that is the kernel, and whether the function is new or gone.
    pub(super) behind: String,
    pub(super) change: String,
    /// Why it changed; empty for a sum of functions.
    pub(super) why: String,
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
                symbol: row.symbol.clone(),
                behind: format!("{}{age}", behind(row)),
                change: signed(row.own.change, decimals),
                why: more_or_dearer(row, decimals).unwrap_or_default(),
                callers,
            }
        })
        .collect();
    let mut add = |symbol: String, change: f64| {
        let (behind, why, change) = (String::new(), String::new(), signed(change, decimals));
        lines.push(FunctionLine { symbol, behind, change, why, callers: Vec::new() });
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

impl FunctionLine {
    /// The symbol with its file.
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.symbol, self.behind)
    }
}

/// The lines as a table: name, change, and beside them or below why it changed, and the callers.
pub(super) fn table(lines: Vec<FunctionLine>) -> Table {
    let row = |line: FunctionLine| {
        let callers = line.callers.into_iter().map(|caller| (caller, String::new())).collect();
        let name = Cell::Name(line.symbol, line.behind);
        let (change, why) = (Cell::Figure(line.change), Cell::text(line.why));
        Line::of(vec![name, change, why, Cell::List("←", callers)])
    };
    Table {
        caption: None,
        columns: vec![
            Column::fixed("function"),
            Column::fixed("change"),
            Column::below(MORE_OR_DEARER),
            Column::below("called from"),
        ],
        rows: lines.into_iter().map(row).collect(),
    }
}
