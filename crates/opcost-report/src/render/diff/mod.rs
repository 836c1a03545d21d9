//! The difference of two profiles, as a document and as JSON.

mod document;
mod function;
mod json;

pub use document::{causes, document};
pub use function::{function_document, function_json};
pub use json::json;

use super::functions::{self, decimals_that_add_up, sensible, signed, signed_figure};
use opcost_analysis::comparison::recorded_profiles::{Difference, DifferenceSide};
use opcost_analysis::comparison::{FunctionRow, FunctionVerdict, UNATTRIBUTED};
use opcost_base::number::{figure, grouped, percent};
use opcost_page::document::Cell;
use opcost_record::Unit;
use std::collections::HashMap;

/// A difference, arranged for reading.
struct Shown<'a> {
    difference: &'a Difference,
    /// The functions whose cost changed and that are shown one by one.
    rows: &'a [FunctionRow],
    /// The sums of the rows that are not shown: of the changed rows, and of the unchanged rows.
    rest: Vec<Rest>,
    /// How many of the first rows cover most of the change.
    leading: usize,
    /// Decimals of changes.
    decimals: usize,
    /// Whether the changes as printed add up to the total as printed.
    adds_up: bool,
    callees: Callees<'a>,
}

/// The callees of each function: their symbols, and the change of their own cost when this function calls them.
type Callees<'a> = HashMap<(&'a str, &'a str), Vec<(&'a str, f64)>>;

/// The sum of several rows.
struct Rest {
    name: String,
    baseline: f64,
    value: f64,
    change: f64,
}

impl<'a> Shown<'a> {
    /// `limit`: functions to show one by one.
    fn of(difference: &'a Difference, limit: usize) -> Shown<'a> {
        let functions = &difference.functions;
        let [rows, others, unchanged] = functions.shown(limit);
        let (leading, ..) = functions.leading(rows.len());
        let mut rest = Vec::new();
        for (group, word) in [(others, "other"), (unchanged, "unchanged")] {
            if !group.is_empty() {
                let ending = if group.len() == 1 { "" } else { "s" };
                rest.push(Rest {
                    name: format!("{} {word} function{ending}", grouped(group.len() as u64)),
                    baseline: group.iter().map(|row| row.own.value_baseline).sum(),
                    value: group.iter().map(|row| row.own.value).sum(),
                    change: group.iter().map(|row| row.own.change).sum(),
                });
            }
        }
        let unattributed = &functions.unattributed;
        rest.push(Rest {
            name: UNATTRIBUTED.into(),
            baseline: unattributed.value_baseline,
            value: unattributed.value,
            change: unattributed.change,
        });
        let changes = rows.iter().map(|row| row.own.change);
        let changes: Vec<f64> = changes.chain(rest.iter().map(|rest| rest.change)).collect();
        let (decimals, adds_up) =
            decimals_that_add_up(functions.total.change, &changes, functions.sampled.is_some());
        let mut callees: Callees<'_> = HashMap::new();
        for row in &functions.rows {
            for caller in row.callers.iter().filter(|caller| caller.own.change != 0.0) {
                let of = callees.entry((&caller.symbol, &caller.module)).or_default();
                of.push((&row.symbol, caller.own.change));
            }
        }
        for callees in callees.values_mut() {
            callees.sort_by(|one, two| two.1.abs().total_cmp(&one.1.abs()));
        }
        Shown { difference, rows, rest, leading: leading.len(), decimals, adds_up, callees }
    }

    fn unit(&self) -> String {
        let functions = &self.difference.functions;
        format!("{}/{}", functions.unit(), if functions.per_op { "op" } else { "run" })
    }

    fn sampled(&self) -> bool {
        self.difference.functions.sampled.is_some()
    }

    fn figure(&self, value: f64) -> String {
        plain(sensible(value, self.sampled()))
    }

    /// A cost; a dash for 0.
    fn cost(&self, value: f64) -> String {
        cost(value, self.sampled())
    }

    fn change(&self, change: f64) -> String {
        signed(change, self.decimals)
    }

    /// Why a function's cost changed; nothing for samples, which count no calls.
    fn why(&self, row: &FunctionRow) -> Cell {
        let why = functions::more_or_dearer(row, self.decimals);
        why.filter(|_| !self.sampled()).map_or(Cell::Empty, Cell::Text)
    }

    /// The share of the total change; empty if the total is 0.
    fn share(&self, change: f64) -> String {
        let total = self.difference.functions.total.change;
        if total == 0.0 {
            return String::new();
        }
        let share = 100.0 * change / total;
        let sign = if share < 0.0 { "−" } else { "" };
        format!("{sign}{:.1} %", share.abs())
    }

    /// The callees of a function whose cost changed with it.
    fn callees(&self, row: &FunctionRow) -> Cell {
        let of = self.callees.get(&(row.symbol.as_str(), row.module.as_str()));
        let own = |callee: &&(&str, f64)| {
            callee.0 != row.symbol && self.change(callee.1) != self.change(0.0)
        };
        let named = of.into_iter().flatten().filter(own);
        Cell::List(
            "→",
            named.map(|(symbol, change)| (symbol.to_string(), self.change(*change))).collect(),
        )
    }

    fn heading(&self) -> String {
        let [baseline, variant] = &self.difference.sides;
        let about = if self.adds_up { "" } else { "≈ " };
        let total = &self.difference.functions.total;
        // Sides with the same name are told apart by their recordings.
        let name = |side: &DifferenceSide| match baseline.name == variant.name {
            true => format!("{} of {}", side.name, side.recording),
            false => side.name.clone(),
        };
        let what = if total.change != 0.0 {
            format!("where the {about}{} {} come from", self.change(total.change), self.unit())
        } else if self.difference.functions.rows.iter().any(|row| row.own.change != 0.0) {
            format!("what changed, though the {} are the same", self.unit())
        } else {
            "no function changed".to_string()
        };
        format!("{} against {}: {what}", name(variant), name(baseline))
    }

    /// The total in words: `7,431.9 → 7,536.8 instructions/op (+1.41 %), real`.
    fn total(&self) -> String {
        let functions = &self.difference.functions;
        let total = &functions.total;
        let ratio = match total.value_baseline {
            0.0 => String::new(),
            baseline => format!(" ({})", percent(total.change / baseline)),
        };
        let verdict = match functions.verdict {
            FunctionVerdict::Changed => ", real",
            FunctionVerdict::Differs => ", differs",
            FunctionVerdict::Unchanged => ", no change found",
            FunctionVerdict::FewLayouts => ", exact in few layouts",
            FunctionVerdict::Estimated => ", estimated",
            FunctionVerdict::Inconclusive => ", inconclusive",
            FunctionVerdict::NotComparable => ", not judged",
        };
        let (before, after) = (self.figure(total.value_baseline), self.figure(total.value));
        format!("{before} → {after} {}{ratio}{verdict}", self.unit())
    }

    /// How much of the change the first `named` functions explain; `None` if `named` is 0 or nothing changed.
    fn covered(&self, named: usize) -> Option<String> {
        functions::covered(&self.difference.functions, named)
    }

    /// The subject of a mail: the experiment, the size of the change, and the two sides.
    fn subject(&self) -> String {
        let [baseline, variant] = &self.difference.sides;
        let functions = &self.difference.functions;
        let total = &functions.total;
        let ratio = match total.value_baseline {
            0.0 => "changed".to_string(),
            baseline => percent(total.change / baseline),
        };
        let what = match functions.verdict {
            FunctionVerdict::Unchanged => format!("no change in {} found", functions.unit()),
            FunctionVerdict::Changed | FunctionVerdict::FewLayouts => {
                format!("{} {ratio}", functions.unit())
            }
            _ => format!("{} {ratio}, not decided", functions.unit()),
        };
        let names = match baseline.name == variant.name {
            true => format!("{} against {}", variant.recording, baseline.recording),
            false => format!("{} against {}", variant.name, baseline.name),
        };
        format!("{}: {what} ({names})", variant.experiment)
    }

    /// How the runs were measured and judged, in one sentence.
    fn method(&self) -> String {
        let [one, two] = self.difference.sides.each_ref().map(|side| grouped(side.runs));
        let functions = &self.difference.functions;
        let counted = match &functions.sampled {
            Some(by) => format!("sampled at {} Hz", by.frequency_hz),
            None => "with every instruction counted".to_string(),
        };
        let judged = match (self.difference.paired, functions.layouts) {
            (true, _) => {
                "interleaved in drawn order, judged by the signed-rank test over their blocks"
            }
            (false, Some(_)) => {
                "of two recordings in the same layouts, judged by the signed-rank test over them"
            }
            (false, None) => "of two recordings, judged by the rank-sum test",
        };
        format!(
            "{one} runs of the baseline and {two} of the variant, {counted}, {judged}, functions with \
             the false discovery rate controlled"
        )
    }

    /// The machine of the runs: one line, or one line for each side if the machines differ.
    fn machines(&self) -> Vec<String> {
        let [one, two] = &self.difference.sides;
        match one.machine == two.machine {
            true => vec![one.machine.clone()],
            false => [one, two].map(|side| format!("{}: {}", side.name, side.machine)).to_vec(),
        }
    }

    /// The recordings, runs and work that were compared, and the method, one sentence each.
    fn provenance(&self) -> Vec<String> {
        let [one, two] = &self.difference.sides;
        let runs = |side: &DifferenceSide| format!("{} runs of {}", grouped(side.runs), side.name);
        let mut said = if self.difference.paired {
            vec![format!("recording {}: {}, {}", one.recording, runs(one), runs(two))]
        } else {
            [one, two].map(|side| format!("recording {}: {}", side.recording, runs(side))).to_vec()
        };
        said.push(match one.work == two.work {
            true => format!("work: {}", one.work),
            false => format!("work: {} against {}", two.work, one.work),
        });
        let per = if self.difference.functions.per_op { "operation" } else { "run" };
        said.push(match (self.difference.paired, self.difference.functions.layouts) {
            (true, _) => {
                format!("means per {per} over the blocks; each function judged block by block")
            }
            (false, Some(_)) => format!(
                "both recordings ran the same seeds and layouts: means per {per} over them; each \
                 function judged layout by layout"
            ),
            (false, None) => format!(
                "two recordings share no block: means per {per} over the runs of each, not paired; \
                 each function judged by the rank-sum test"
            ),
        });
        said
    }
}

/// How sure a row's change is: `exact`, an interval, a p-value, or the reason why there is none.
fn evidence(row: &FunctionRow, sampled: bool) -> String {
    let figure = |value| signed_figure(sensible(value, sampled));
    let interval = |(low, high): (f64, f64)| format!("{} … {}", figure(low), figure(high));
    match (row.ci, row.p_adjusted) {
        _ if row.exact => "exact".into(),
        (Some(ci), _) => interval(ci),
        (None, Some(p)) if row.verdict == FunctionVerdict::Changed => format!("p {}", plain(p)),
        _ if row.reason.is_empty() => "no change found".into(),
        _ => row.reason.clone(),
    }
}

fn plain(value: f64) -> String {
    figure(value, Unit::Count)
}

/// A cost; a dash for 0.
fn cost(value: f64, sampled: bool) -> String {
    if value == 0.0 { "–".into() } else { plain(sensible(value, sampled)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_of_samples_have_no_decimals_that_say_nothing() {
        let shown = |value| cost(value, true);
        assert_eq!(
            [0.0, 12.345, 1234.5, 24_448_344.25].map(shown),
            ["–", "12.35", "1,235", "24,448,344"]
        );
        assert_eq!(cost(1234.5, false), "1,234.5");
    }
}
