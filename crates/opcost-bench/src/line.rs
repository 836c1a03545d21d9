//! From the counts of several numbers of iterations to the cost of one.

use std::collections::BTreeMap;

/// A function, by name and file.
pub(crate) type Name = (String, String);

/// What a number of iterations cost.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Count {
    /// The number of iterations.
    pub(crate) iterations: u64,
    /// The instructions of all.
    pub(crate) instructions: u64,
    /// Each function's own instructions, and the calls of it.
    pub(crate) functions: BTreeMap<Name, (u64, u64)>,
}

/// A function's part of an iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionShare {
    /// The function.
    pub symbol: String,
    /// The file that has its code.
    pub module: String,
    /// Its own instructions an iteration.
    pub instructions: f64,
    /// Calls of it an iteration.
    pub calls: f64,
}

/// The cost of an iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Slope {
    /// Instructions an iteration.
    pub instructions: f64,
    /// The numbers of iterations and what they cost, the fewest iterations first.
    pub points: Vec<(u64, u64)>,
    /// Whether all points are on one line; `None` if there are two only.
    pub is_line: Option<bool>,
    /// The functions, the dearest first; they add up to the instructions.
    pub functions: Vec<FunctionShare>,
}

/// Returns the cost of an iteration by the two largest counts; the others say whether it is the same for every number.
///
/// `counts`: at least two, by the number of iterations.
pub(crate) fn slope(counts: &[Count]) -> Option<Slope> {
    let [.., one, other] = counts else { return None };
    let more = other.iterations.checked_sub(one.iterations).filter(|more| *more > 0)?;
    let per = |one: u64, other: u64| (other as f64 - one as f64) / more as f64;
    let names: std::collections::BTreeSet<&Name> =
        one.functions.keys().chain(other.functions.keys()).collect();
    let of = |count: &Count, name: &Name| count.functions.get(name).copied().unwrap_or_default();
    let mut functions: Vec<FunctionShare> = names
        .into_iter()
        .map(|name| {
            let (one, other) = (of(one, name), of(other, name));
            FunctionShare {
                symbol: name.0.clone(),
                module: name.1.clone(),
                instructions: per(one.0, other.0),
                calls: per(one.1, other.1),
            }
        })
        .filter(|share| share.instructions != 0.0 || share.calls != 0.0)
        .collect();
    functions.sort_by(|one, other| other.instructions.total_cmp(&one.instructions));
    let points: Vec<(u64, u64)> =
        counts.iter().map(|count| (count.iterations, count.instructions)).collect();
    let is_line = (points.len() > 2).then(|| points.windows(3).all(is_line));
    Some(Slope {
        instructions: per(one.instructions, other.instructions),
        points,
        is_line,
        functions,
    })
}

/// Keeps for each function and number of iterations the lesser of two counts.
pub(crate) fn keep_least(counts: &mut [Count], again: &[Count]) {
    for (count, again) in counts.iter_mut().zip(again) {
        for (name, (own, calls)) in &mut count.functions {
            if let Some(other) = again.functions.get(name) {
                (*own, *calls) = ((*own).min(other.0), (*calls).min(other.1));
            }
        }
    }
}

/// Keeps the functions that grow by as much for each iteration, and returns the others with about what an iteration costs there.
pub(crate) fn keep_steady(counts: &mut [Count]) -> Vec<(Name, f64)> {
    let names: std::collections::BTreeSet<Name> =
        counts.iter().flat_map(|count| count.functions.keys().cloned()).collect();
    let own = |count: &Count, name: &Name| count.functions.get(name).map_or(0, |(own, _)| *own);
    let mut dropped = Vec::new();
    for name in names {
        let points: Vec<(u64, u64)> =
            counts.iter().map(|count| (count.iterations, own(count, &name))).collect();
        let grows = points.first().map(|point| point.1) < points.last().map(|point| point.1);
        if grows && points.windows(3).all(is_line) {
            continue;
        }
        if let [first, .., last] = &points[..] {
            let more = last.0.saturating_sub(first.0).max(1) as f64;
            dropped.push((name.clone(), (last.1 as f64 - first.1 as f64) / more));
        }
        for count in &mut *counts {
            count.functions.remove(&name);
        }
    }
    for count in counts {
        count.instructions = count.functions.values().map(|(own, _)| own).sum();
    }
    dropped
}

/// Whether three points are on one line; whole numbers, so nothing is rounded.
fn is_line(points: &[(u64, u64)]) -> bool {
    let [one, two, three] = points else { return true };
    let step = |from: &(u64, u64), to: &(u64, u64)| {
        (i128::from(to.0) - i128::from(from.0), i128::from(to.1) - i128::from(from.1))
    };
    let (first, second) = (step(one, two), step(two, three));
    first.1 * second.0 == second.1 * first.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(iterations: u64, instructions: u64, own: u64) -> Count {
        let name = |name: &str| (name.to_string(), "program".to_string());
        let functions =
            [(name("work"), (own, iterations)), (name("rest"), (instructions - own, 1))];
        Count { iterations, instructions, functions: functions.into() }
    }

    #[test]
    fn what_stays_the_same_cancels() {
        let slope =
            slope(&[count(10, 1_070, 100), count(20, 1_140, 200), count(40, 1_280, 400)]).unwrap();
        assert_eq!((slope.instructions, slope.is_line), (7.0, Some(true)));
        assert_eq!(slope.functions[0].symbol, "work");
        assert_eq!((slope.functions[0].instructions, slope.functions[0].calls), (10.0, 1.0));
        assert_eq!(slope.functions[1].instructions, -3.0);
        assert_eq!(
            slope.functions.iter().map(|share| share.instructions).sum::<f64>(),
            slope.instructions
        );
    }

    #[test]
    fn functions_that_vary_are_dropped() {
        let mut counts = [count(10, 1_070, 100), count(20, 1_141, 204), count(40, 1_280, 400)];
        keep_least(&mut counts, &[10, 20, 40].map(|times| count(times, 10_000, times * 10)));
        let dropped = keep_steady(&mut counts);
        assert_eq!(
            dropped.iter().map(|((name, _), _)| name.as_str()).collect::<Vec<_>>(),
            ["rest"]
        );
        let slope = slope(&counts).unwrap();
        assert_eq!((slope.instructions, slope.is_line), (10.0, Some(true)));
    }

    #[test]
    fn a_third_point_off_the_line_is_seen() {
        let slope =
            slope(&[count(10, 1_070, 100), count(20, 1_141, 200), count(40, 1_280, 400)]).unwrap();
        assert_eq!(slope.is_line, Some(false));
        assert_eq!(slope.points, [(10, 1_070), (20, 1_141), (40, 1_280)]);
    }

    #[test]
    fn one_count_has_no_slope() {
        assert_eq!(slope(&[count(10, 1_070, 100)]), None);
        assert_eq!(slope(&[count(10, 1_070, 100), count(10, 1_070, 100)]), None);
    }
}
