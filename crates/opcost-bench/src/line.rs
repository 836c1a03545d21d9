//! From the counts of several numbers of iterations to the cost of one.

use crate::frameworks::Steadiness;
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

/// Drops the functions whose instructions differ in two counts, or from a line where they have to be on one, and returns them with what an
/// iteration spends there.
///
/// `again`: the same numbers of iterations, counted once more.
pub(crate) fn keep_steady(
    counts: &mut [Count],
    again: &[Count],
    steadiness: fn(&Name) -> Steadiness,
) -> Vec<(Name, f64)> {
    let names: std::collections::BTreeSet<Name> =
        counts.iter().chain(again).flat_map(|count| count.functions.keys().cloned()).collect();
    let of = |count: &Count, name: &Name| count.functions.get(name).copied().unwrap_or_default();
    let mut dropped = Vec::new();
    for name in names {
        let points: Vec<(u64, u64)> =
            counts.iter().map(|count| (count.iterations, of(count, &name).0)).collect();
        let is_same =
            counts.iter().zip(again).all(|(one, other)| of(one, &name) == of(other, &name));
        let is_steady = match steadiness(&name) {
            Steadiness::Exact => true,
            Steadiness::Repeated => is_same,
            Steadiness::OnLine => is_same && points.windows(3).all(is_line),
        };
        if is_steady {
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
        let off_line = [count(10, 1_070, 100), count(20, 1_141, 204), count(40, 1_280, 400)];
        let names = |again: &[Count], steadiness: fn(&Name) -> Steadiness| {
            let mut counts = off_line.clone();
            let dropped = keep_steady(&mut counts, again, steadiness);
            assert!(counts.iter().all(|count| {
                count.instructions == count.functions.values().map(|(own, _)| own).sum::<u64>()
            }));
            dropped.into_iter().map(|((name, _), _)| name).collect::<Vec<_>>()
        };
        let mut other = off_line.clone();
        other[2] = count(40, 1_281, 400);
        assert_eq!(names(&off_line, |_| Steadiness::Repeated), [""; 0]);
        assert_eq!(names(&off_line, |_| Steadiness::OnLine), ["rest", "work"]);
        assert_eq!(names(&other, |_| Steadiness::Repeated), ["rest"]);
        assert_eq!(names(&other, |_| Steadiness::Exact), [""; 0]);
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
