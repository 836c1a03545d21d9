//! The functions that a case's change comes from, as lines.

use crate::comparison::{FunctionComparison, UNATTRIBUTED};
use crate::render::functions::{behind, decimals_that_add_up, signed};

/// Functions of a case that are named, at most.
pub(super) const FUNCTIONS_SHOWN: usize = 8;
/// Callers of one function that are named.
const CALLERS_SHOWN: usize = 3;

/// A function, or what stands for the others.
pub(super) struct FunctionLine {
    /// Its symbol, with its file where that is not the kernel.
    pub(super) name: String,
    /// Its change.
    pub(super) change: String,
    /// Who calls it so, with the part of the change that is theirs.
    pub(super) callers: Vec<String>,
}

/// The change of all together, and the functions that make it.
pub(super) fn lines(functions: &FunctionComparison) -> (String, Vec<FunctionLine>) {
    let (rows, others, sums) = functions.leading(FUNCTIONS_SHOWN);
    let rest = functions.unattributed.change;
    let parts: Vec<f64> =
        rows.iter().map(|row| row.own.change).chain([sums.change, rest]).collect();
    // Counts of single runs are whole; per operation they need decimals to add up.
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
