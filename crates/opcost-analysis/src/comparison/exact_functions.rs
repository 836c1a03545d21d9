//! Functions whose own instructions differ alike in every layout: their change is exact, whatever layouts do to the total.
//!
//! A function's change is exact if at least two layouts were run with profiles and one of two rules holds in each of them:
//!
//! * each side spent the same instructions in the function's own code, for the same number of operations;
//! * both sides called the function equally often, and each call cost the variant the same number of instructions more or less.
//!
//! Nothing is estimated, so no test is needed and no error rate is spent; the number of layouts says how often it was seen. The rest
//! of the total's change differs from layout to layout: ticks, deferred work, and what seeds and memory's layout move.

use super::attribution::{AttributedRun, FunctionId};
use super::functions::{FunctionComparison, FunctionRow, FunctionVerdict};
use opcost_base::number::{figure, grouped};
use opcost_record::Unit;
use std::borrow::Cow;

/// Functions that a sentence names, at most.
const NAMED_MAX: usize = 3;

/// Bytes of a function's name in a sentence; longer names are shortened.
const NAME_LENGTH_MAX: usize = 48;

/// A difference that is the same in every layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactDifference {
    /// The layouts in which it was seen.
    pub layouts: usize,
    /// The change of the cost of one call; `None` if the number of calls changed, or no call was seen.
    pub per_call: Option<f64>,
}

/// The part of a total's change that is the same in every layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExactPart {
    /// The functions whose change is exact.
    pub functions: usize,
    /// The sum of their changes.
    pub change: f64,
    /// The rest of the total's change, which differs from layout to layout.
    pub rest: f64,
    /// The layouts in which profiles of both sides were compared.
    pub layouts: usize,
}

/// Own cost, calls and operations of a function in one layout.
type Counted = (u64, u64, u64);

/// The difference of a function between two sides, if it is the same in every layout; `sides`: the runs by layout.
pub(super) fn exact_difference(
    function: FunctionId,
    sides: &[Vec<Vec<&AttributedRun>>; 2],
) -> Option<ExactDifference> {
    let of_run = |run: &&AttributedRun| -> Counted {
        let cost = run.costs.get(&function);
        cost.map_or((0, 0, run.ops), |cost| (cost.own, cost.calls, run.ops))
    };
    // Runs of one layout repeat each other, or nothing is exact.
    let of_layout = |runs: &Vec<&AttributedRun>| {
        let mut runs = runs.iter().map(of_run);
        let first = runs.next()?;
        runs.all(|run| run == first).then_some(first)
    };
    let of_side = |side: &Vec<Vec<&AttributedRun>>| -> Option<Vec<Counted>> {
        side.iter().map(of_layout).collect()
    };
    let layouts = sides[0].len().min(sides[1].len());
    if layouts < 2 {
        return None;
    }
    let (one, two) = (of_side(&sides[0])?, of_side(&sides[1])?);
    let alike =
        |side: &[Counted]| side.iter().all(|(own, _, ops)| (*own, *ops) == (side[0].0, side[0].2));
    let per_call = per_call(&one, &two);
    let is_exact = alike(&one) && alike(&two) || per_call.is_some_and(|change| change != 0.0);
    is_exact.then_some(ExactDifference { layouts, per_call })
}

/// The change of the cost of one call, if both sides called the function equally often in every layout, and the change is the same in
/// every layout.
fn per_call(one: &[Counted], two: &[Counted]) -> Option<f64> {
    if one.len() != two.len() {
        return None;
    }
    let mut changes = one.iter().zip(two).map(|(before, after)| {
        let alike = (before.1, before.2) == (after.1, after.2) && before.1 > 0;
        alike.then(|| (i128::from(after.0) - i128::from(before.0), i128::from(before.1)))
    });
    let (change, calls) = changes.next()??;
    let same = |other: Option<(i128, i128)>| {
        other.is_some_and(|(other, of_calls)| other * calls == change * of_calls)
    };
    changes.all(same).then(|| change as f64 / calls as f64)
}

impl FunctionComparison {
    /// The functions that changed exactly, the largest changes first.
    pub fn exact_rows(&self) -> impl Iterator<Item = &FunctionRow> {
        let is_exact = |row: &&FunctionRow| {
            row.exact_difference.is_some() && row.verdict == FunctionVerdict::Changed
        };
        self.rows.iter().filter(is_exact)
    }

    /// The exact part of the total's change; `None` with profiles of fewer than two layouts, of samples, and for runs that were not
    /// comparable.
    pub fn exact_part(&self) -> Option<ExactPart> {
        let refused = self.rows.iter().any(|row| row.verdict == FunctionVerdict::NotComparable);
        let layouts = self.profiled_layouts.filter(|layouts| *layouts >= 2 && !refused)?;
        let change: f64 = self.exact_rows().map(|row| row.own.change).sum();
        let rest = self.total.change - change;
        // Sums of the same figures in another order differ by this much at most; one instruction is always more.
        let rounding = 1e-12 * (self.total.value.abs() + self.total.value_baseline.abs());
        let rest = if rest.abs() <= rounding { 0.0 } else { rest };
        Some(ExactPart { functions: self.exact_rows().count(), change, rest, layouts })
    }

    /// The function that varied most from layout to layout, by the size of its change.
    fn varies_most(&self) -> Option<&FunctionRow> {
        let varies = |row: &&FunctionRow| row.exact_difference.is_none() && row.own.change != 0.0;
        self.rows.iter().find(varies)
    }

    /// Leaves out what only counts of several layouts can say.
    pub(super) fn forget_exact(&mut self) {
        self.profiled_layouts = None;
        self.rows.iter_mut().for_each(|row| row.exact_difference = None);
    }

    fn unit_words(&self) -> String {
        format!("{}{}", self.unit(), if self.per_op { "/op" } else { "" })
    }
}

/// The exact change of a function in words: `do_mmap +7 a call`, `rw_check (new, 6 a call)`, `kmalloc +120/op (calls +2/op)`.
///
/// `own`, `calls`: own cost and calls of both sides; `per`: the divisor of these figures, `/op` or nothing.
pub fn in_words(
    name: &str,
    own: [f64; 2],
    calls: [f64; 2],
    per_call: Option<f64>,
    per: &str,
) -> String {
    let a_call = |side: usize| match calls[side] > 0.0 {
        true => format!("{} a call", figure(own[side] / calls[side], Unit::Count)),
        false => format!("{}{per}", figure(own[side], Unit::Count)),
    };
    let change = signed(own[1] - own[0]);
    match per_call {
        _ if own[0] == 0.0 => format!("{name} (new, {})", a_call(1)),
        _ if own[1] == 0.0 => format!("{name} (gone, {} before)", a_call(0)),
        Some(change) => format!("{name} {} a call", signed(change)),
        None if calls[0] != calls[1] => {
            format!("{name} {change}{per} (calls {}{per})", signed(calls[1] - calls[0]))
        }
        None => format!("{name} {change}{per}"),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { '−' } else { '+' };
    format!("{sign}{}", figure(value.abs(), Unit::Count))
}

/// A name for a sentence: a long one ends where its template arguments or its parameters begin.
fn short(symbol: &str) -> Cow<'_, str> {
    match symbol.find(['<', '(']).filter(|at| *at > 0 && symbol.len() > NAME_LENGTH_MAX) {
        Some(at) => format!("{}…", &symbol[..at]).into(),
        None => symbol.into(),
    }
}

/// The functions that changed exactly, by name; the rest as a number.
fn named(functions: &FunctionComparison) -> String {
    let per = if functions.per_op { "/op" } else { "" };
    let of_row = |row: &FunctionRow| {
        let [own, calls] = [row.own, row.calls].map(|sides| [sides.value_baseline, sides.value]);
        let per_call = row.exact_difference.and_then(|exact| exact.per_call);
        in_words(&short(&row.symbol), own, calls, per_call, per)
    };
    let words = functions.exact_rows().take(NAMED_MAX).map(of_row);
    let mut words: Vec<String> = words.collect();
    let more = functions.exact_rows().count() - words.len();
    match more {
        0 => {}
        1 => words.push("1 more function".into()),
        _ => words.push(format!("{} more functions", grouped(more as u64))),
    }
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}

/// The exact changes as a clause of a conclusion: `do_mmap +7 a call in each of 5 layouts, nothing else deterministic changed`.
/// `None` if no function changed exactly.
pub(super) fn clause(functions: &FunctionComparison) -> Option<String> {
    let part = functions.exact_part().filter(|part| part.functions > 0)?;
    let rest = match part.rest == 0.0 && functions.varies_most().is_none() {
        true => "nothing else changed",
        false => "nothing else deterministic changed",
    };
    Some(format!(
        "{} in each of {} layouts, {rest}",
        named(functions),
        grouped(part.layouts as u64)
    ))
}

/// How a total's change is divided into what is the same in every layout and what is not: a sentence below the functions. `None` if
/// nothing changed, or layouts are too few to say.
pub fn division(functions: &FunctionComparison) -> Option<String> {
    let part = functions.exact_part()?;
    if part.functions == 0 && part.rest == 0.0 {
        return None;
    }
    let (unit, total) = (functions.unit_words(), signed(functions.total.change));
    let layouts = format!("each of {} layouts", grouped(part.layouts as u64));
    let most = functions.varies_most().map(|row| format!(", most in {}", short(&row.symbol)));
    let rest =
        format!("{} differs from layout to layout{}", signed(part.rest), most.unwrap_or_default());
    Some(match part.functions {
        0 => format!("Deterministic: no function changed alike in {layouts}; {rest}."),
        _ => {
            let sum = signed(part.change);
            let share = match part.rest == 0.0 {
                true => format!("all of the {total} {unit}"),
                false => format!("{sum} of the {total} {unit}"),
            };
            let rest = if part.rest == 0.0 { String::new() } else { format!("; {rest}") };
            format!("Deterministic: {share}, alike in {layouts} ({}){rest}.", named(functions))
        }
    })
}
