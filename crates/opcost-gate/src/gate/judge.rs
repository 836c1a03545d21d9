//! Compares a figure with its baseline.

use super::baseline::BaselineFigure;
use super::counts::Count;
use super::exact::{ExactChange, of_metric};
use super::floor::Floor;
use super::key::FigureKey;
use super::report::{FigureReport, LayoutChange, Outcome};
use super::trailer::{Accepted, accepts};
use opcost_analysis::comparison::limit::{FailOn, Limit, Watched, exceeded};
use opcost_analysis::comparison::{Comparison, Row, Verdict};
use opcost_base::number::magnitude;
use opcost_record::metric::SYNCHRONOUS;
use opcost_record::{Better, Unit};
use opcost_stats::summary;

/// The reference for a count.
#[derive(Clone, Debug, PartialEq)]
pub enum Held<'a> {
    /// A count of the base, with its floor.
    Base(&'a Count),
    /// A line of a baseline file.
    Baseline(&'a BaselineFigure),
    /// A baseline file without such a line; the metrics that it has for the case.
    NoBaseline(Vec<&'a str>),
}

/// Compares an exact count with its baseline.
///
/// `trailers`: the trailers of the case.
pub fn judge(
    count: &Count,
    key: &FigureKey,
    held: &Held<'_>,
    limit: Option<Limit>,
    trailers: &[Accepted],
) -> FigureReport {
    let report = |baseline: Option<u64>, floor: Option<Floor>, outcome| FigureReport {
        metric: count.metric.clone(),
        unit: count.unit,
        better: count.better,
        baseline: baseline.map(|value| value as f64),
        value: count.value.as_ref().ok().map(|value| *value as f64),
        floor,
        exact: None,
        in_layouts: None,
        over_commits: None,
        limit,
        outcome,
    };
    let refused = |why: &str| report(None, None, Outcome::Refused(why.to_string()));
    if let Some(why) = wrong_unit(limit, count.unit) {
        return refused(&why);
    }
    let value = match &count.value {
        Ok(value) => *value,
        Err(why) => return refused(why),
    };
    let (baseline, floor) = match held {
        Held::Base(base) => match &base.value {
            Ok(baseline) => (*baseline, base.floor),
            Err(why) => return refused(&format!("of the base, {why}")),
        },
        Held::NoBaseline(others) => {
            let others = others.iter().map(ToString::to_string).collect();
            return report(None, None, Outcome::NoBaseline(others));
        }
        Held::Baseline(figure) => {
            let differences = figure.key.obstacles(key);
            if !differences.is_empty() {
                return report(None, None, Outcome::NotComparable(differences));
            }
            (figure.value, figure.floor)
        }
    };
    let outcome =
        outcome(baseline, value, floor, limit, count.better, &for_metric(trailers, &count.metric));
    report(Some(baseline), floor, outcome)
}

/// Whether a figure's change is beyond its layout floor, but nearer to its limit than layouts move it: another layout may be on the
/// other side of the limit.
pub fn is_near_limit(figure: &FigureReport) -> bool {
    let (Some(floor), Some(limit), Some(base), Some(change)) =
        (figure.floor, figure.limit, figure.baseline, figure.change())
    else {
        return false;
    };
    let of_base = limit.ratio.map(|ratio| ratio * base.abs());
    let allowed = [of_base, limit.absolute.map(|absolute| absolute.value)];
    let allowed = allowed.into_iter().flatten().fold(0.0, f64::max);
    let most = floor.most as f64;
    change.abs() > most && (change.abs() - allowed).abs() < most
}

/// Judges figures near their limits by the middle of their changes in the layouts in which both sides were counted.
///
/// `sides`: the counts of base and tip, with those of each layout; `trailers`: the trailers of the case.
pub fn judge_near_limits(
    figures: &mut [FigureReport],
    sides: [&[Count]; 2],
    trailers: &[Accepted],
) {
    for figure in figures.iter_mut().filter(|figure| is_near_limit(figure)) {
        let of = |counts: &[Count]| counts.iter().position(|count| count.metric == figure.metric);
        if let [Some(base), Some(tip)] = sides.map(of) {
            judge_in_layouts(figure, &sides[0][base], &sides[1][tip], trailers);
        }
    }
}

fn judge_in_layouts(figure: &mut FigureReport, base: &Count, tip: &Count, trailers: &[Accepted]) {
    let pairs = base.in_layouts.iter().zip(&tip.in_layouts);
    let changes: Vec<f64> = pairs.map(|(base, tip)| *tip as f64 - *base as f64).collect();
    let (Some(change), Ok(value)) = (summary::median(&changes), &base.value) else { return };
    let middle = (*value as f64 + change).round().max(0.0) as u64;
    let trailers = for_metric(trailers, &figure.metric);
    figure.in_layouts = Some(LayoutChange { change, layouts: changes.len() as u32 });
    figure.outcome = outcome(*value, middle, figure.floor, figure.limit, figure.better, &trailers);
}

/// Drops figures that the suite does not name, unless they say more than the figures that it names: their verdict is worse, or a
/// commit accepts it. A cost that a commit accepts for a named figure is accepted for the part of it that stands beside, too.
pub fn keep_beside(counted: &[Count], figures: &mut Vec<FigureReport>) {
    let is_beside = |figure: &FigureReport| {
        counted.iter().any(|count| count.is_beside && count.metric == figure.metric)
    };
    let named = figures.iter().filter(|figure| !is_beside(figure));
    let worst = named.clone().map(|figure| figure.outcome.verdict()).max();
    let accepted: Vec<(Option<u32>, f64)> = named
        .filter(|figure| matches!(figure.outcome, Outcome::Accepted(_)))
        .filter_map(|figure| Some((figure.over_commits, figure.change()?)))
        .collect();
    figures.retain(|figure| {
        let is_part = |(commits, change): &(Option<u32>, f64)| {
            *commits == figure.over_commits && figure.change().is_some_and(|own| own <= *change)
        };
        let says_more = Some(figure.outcome.verdict()) > worst && !accepted.iter().any(is_part)
            || matches!(figure.outcome, Outcome::Accepted(_));
        !is_beside(figure) || says_more
    });
}

/// Judges how far a figure drifted over the last commits.
///
/// `before`: the count before these commits; `floor`: how far layouts alone move the figure; `trailers`: those of the case in these
/// commits.
pub fn judge_drift(
    count: &Count,
    before: &Count,
    floor: Option<Floor>,
    (limit, commits): (Limit, u32),
    trailers: &[Accepted],
) -> FigureReport {
    let before = Count { floor, ..before.clone() };
    let key = FigureKey::default();
    let judged = judge(count, &key, &Held::Base(&before), Some(limit), trailers);
    FigureReport { over_commits: Some(commits), ..judged }
}

/// Judges a figure within its layout floor by the functions that changed exactly: the floor says what layouts may do to the figure, and
/// layouts do nothing to these functions. Returns whether their sum is beyond the limit; a figure without a limit allows its floor.
///
/// `trailers`: the trailers of the case.
pub fn judge_exact(
    figure: &mut FigureReport,
    changes: &[ExactChange],
    trailers: &[Accepted],
) -> bool {
    let changes = of_metric(changes, &figure.metric);
    if changes.is_empty() {
        return false;
    }
    let sum = changes.iter().map(|change| change.change()).sum::<i128>() as f64;
    let floor = figure.floor.map_or(0.0, |floor| floor.most as f64);
    let is_of_part = figure.metric.starts_with(SYNCHRONOUS);
    if is_of_part && figure.change().is_none_or(|change| (change - sum).abs() > floor) {
        // The functions changed in deferred work, which this figure does not count.
        return false;
    }
    figure.exact = Some(sum);
    let (Some(limit), Some(base), Outcome::WithinFloor) =
        (figure.limit, figure.baseline, &figure.outcome)
    else {
        return false;
    };
    let ratio = if base == 0.0 { f64::INFINITY } else { sum / base };
    if sum <= 0.0 || !limit.is_exceeded(ratio, sum) {
        return false;
    }
    let trailers = for_metric(trailers, &figure.metric);
    figure.outcome = match accepts(&trailers, base, sum) {
        true => Outcome::Accepted(trailers.into_iter().cloned().collect()),
        false => Outcome::Exceeded,
    };
    true
}

/// The trailers that apply to a metric.
fn for_metric<'a>(trailers: &'a [Accepted], metric: &str) -> Vec<&'a Accepted> {
    let speaks = |of: &&Accepted| of.metric.as_deref().is_none_or(|named| named == metric);
    trailers.iter().filter(speaks).collect()
}

fn outcome(
    baseline: u64,
    value: u64,
    floor: Option<Floor>,
    limit: Option<Limit>,
    better: Better,
    trailers: &[&Accepted],
) -> Outcome {
    let size = value.abs_diff(baseline);
    if size == 0 {
        return Outcome::Same;
    }
    if floor.is_some_and(|floor| size <= floor.most) {
        return Outcome::WithinFloor;
    }
    let (amount, base) = (size as f64, baseline as f64);
    let ratio = if baseline == 0 { f64::INFINITY } else { amount / base };
    if limit.is_some_and(|limit| !limit.is_exceeded(ratio, amount)) {
        return Outcome::WithinLimit;
    }
    let worse = match better {
        Better::Lower => value > baseline,
        Better::Higher => value < baseline,
        // A user who watches a metric without a better direction wants to know of both.
        Better::Neither => true,
    };
    match worse {
        false => Outcome::Improved,
        true if accepts(trailers, base, amount) => {
            Outcome::Accepted(trailers.iter().map(|trailer| (*trailer).clone()).collect())
        }
        true => Outcome::Exceeded,
    }
}

/// Describes a limit whose unit is not the figure's.
fn wrong_unit(limit: Option<Limit>, unit: Unit) -> Option<String> {
    let given = limit?.absolute?.unit?;
    let word = |unit: Unit| match unit {
        Unit::Ns => "a time",
        Unit::Bytes => "bytes",
        Unit::Ticks => "ticks",
        Unit::Count => "a count",
    };
    (given != unit)
        .then(|| format!("its limit is {}, and the figure is {}", word(given), word(unit)))
}

/// Compares varying metrics with their limits; the verdicts of the comparison decide.
///
/// `watched`: names of metrics; if empty, the primary metric.
pub fn judge_comparison(
    comparison: &Comparison,
    watched: &[String],
    limit: Option<Limit>,
    trailers: &[Accepted],
) -> Vec<FigureReport> {
    let row_of = |name: &String| {
        let rows = || comparison.rows.iter();
        rows()
            .find(|row| row.label == *name)
            .or_else(|| rows().find(|row| row.key.label() == *name))
    };
    if watched.is_empty() {
        let primary = comparison.rows.iter().filter(|row| row.primary);
        return primary.map(|row| judge_row(comparison, row, limit, trailers)).collect();
    }
    let judged = watched.iter().map(|name| match row_of(name) {
        Some(row) => judge_row(comparison, row, limit, trailers),
        None => FigureReport {
            metric: name.clone(),
            unit: Unit::Count,
            better: Better::Neither,
            baseline: None,
            value: None,
            floor: None,
            exact: None,
            in_layouts: None,
            over_commits: None,
            limit,
            outcome: Outcome::Refused("the runs have no such metric".into()),
        },
    });
    judged.collect()
}

fn judge_row(
    comparison: &Comparison,
    row: &Row,
    limit: Option<Limit>,
    trailers: &[Accepted],
) -> FigureReport {
    let center = |side: usize| row.values.get(side)?.as_ref().map(|figures| figures.center());
    let (baseline, value) = (center(0), center(1));
    let change = row.changes.first();
    let reason = change.map_or("", |change| change.reason.as_str()).to_string();
    let named = FailOn { what: Watched::Metric(row.label.clone()), limit };
    let outcome = match (exceeded(comparison, &[named]), change) {
        (Err(error), _) => Outcome::Refused(error.to_string()),
        (Ok(_), None) => Outcome::Refused("the runs have no change of it".into()),
        (Ok(found), Some(change)) if !found.exceeded.is_empty() => {
            let of_metric = for_metric(trailers, &row.label);
            let base = baseline.unwrap_or_default();
            let size = change.change_ratio.map_or(f64::INFINITY, |ratio| (ratio * base).abs());
            match accepts(&of_metric, base, size) {
                true => Outcome::Accepted(of_metric.into_iter().cloned().collect()),
                false => Outcome::Exceeded,
            }
        }
        (Ok(found), Some(_)) if !found.undecided.is_empty() => Outcome::Undecided(reason),
        (Ok(_), Some(change)) => match change.verdict {
            Verdict::Unchanged => Outcome::Unchanged(
                change
                    .mde_ratio
                    .map_or(String::new(), |mde| format!("; {} would have been", magnitude(mde))),
            ),
            _ if is_improved(row, change.change_ratio, limit) => Outcome::Improved,
            _ => Outcome::WithinLimit,
        },
    };
    FigureReport {
        metric: row.label.clone(),
        unit: row.unit,
        better: row.better,
        baseline,
        value,
        floor: None,
        exact: None,
        in_layouts: None,
        over_commits: None,
        limit,
        outcome,
    }
}

fn is_improved(row: &Row, ratio: Option<f64>, limit: Option<Limit>) -> bool {
    let Some(ratio) = ratio else { return false };
    let better = match row.better {
        Better::Lower => ratio < 0.0,
        Better::Higher => ratio > 0.0,
        Better::Neither => false,
    };
    better && limit.and_then(|limit| limit.ratio).is_none_or(|limit| ratio.abs() > limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::report::GateVerdict;

    const FLOOR: Floor = Floor { most: 200, layouts: Some(11) };

    fn count(value: u64) -> Count {
        Count {
            metric: "instructions".into(),
            unit: Unit::Count,
            better: Better::Lower,
            value: Ok(value),
            floor: None,
            in_layouts: vec![value],
            is_beside: false,
        }
    }

    /// A count whose layouts add these to it.
    fn in_layouts(value: u64, more: &[u64], most: u64) -> Count {
        let in_layouts: Vec<u64> = more.iter().map(|more| value + more).collect();
        let floor = Some(Floor { most, layouts: Some(11) });
        Count { floor, in_layouts, ..count(value) }
    }

    fn key(cpu: &str) -> FigureKey {
        FigureKey::new([("cpu", cpu)])
    }

    /// The outcome of a count over a baseline of 1,000,000 with a floor of 200.
    fn of(value: u64, limit: Option<&str>, trailers: &[&str]) -> Outcome {
        let trailers: Vec<Accepted> =
            trailers.iter().map(|text| Accepted::parse("c0ffee", text).unwrap()).collect();
        let figure = BaselineFigure { value: 1_000_000, floor: Some(FLOOR), key: key("max") };
        let limit = limit.map(|limit| limit.parse().unwrap());
        judge(&count(value), &key("max"), &Held::Baseline(&figure), limit, &trailers).outcome
    }

    #[test]
    fn floor_and_limit_both_allow() {
        let both = Some("0.1% or 10000");
        assert_eq!(of(1_000_000, both, &[]), Outcome::Same);
        assert_eq!(of(1_000_200, None, &[]), Outcome::WithinFloor);
        assert_eq!(of(999_800, None, &[]), Outcome::WithinFloor);
        assert_eq!(of(1_000_201, None, &[]), Outcome::Exceeded);
        assert_eq!(of(999_799, None, &[]), Outcome::Improved);
        // Either part of the limit is enough to allow the change: the larger part decides.
        assert_eq!(of(1_001_001, both, &[]), Outcome::WithinLimit);
        assert_eq!(of(1_010_000, both, &[]), Outcome::WithinLimit);
        assert_eq!(of(1_010_001, both, &[]), Outcome::Exceeded);
        assert_eq!(of(989_999, both, &[]), Outcome::Improved);
        assert_eq!(of(1_000_900, Some("0.1%"), &[]), Outcome::WithinLimit);
        let Outcome::Refused(why) = of(1, Some("2ms"), &[]) else { panic!() };
        assert_eq!(why, "its limit is a time, and the figure is a count");
    }

    #[test]
    fn a_change_near_its_limit_is_judged_in_the_middle_of_the_layouts() {
        let limit = Some("1%".parse().unwrap());
        let base = in_layouts(1_000_000, &[0, 100, 200], 500);
        let judged = |tip: &Count, trailers: &[Accepted]| {
            let mut figure = judge(tip, &key("max"), &Held::Base(&base), limit, trailers);
            let is_near = is_near_limit(&figure);
            if is_near {
                judge_in_layouts(&mut figure, &base, tip, trailers);
            }
            (is_near, figure)
        };
        // The first layout is beyond the limit, most are not; and the other way round.
        let (is_near, figure) = judged(&in_layouts(1_010_200, &[0, 0, 0], 500), &[]);
        assert_eq!((is_near, &figure.outcome), (true, &Outcome::Exceeded));
        let (is_near, figure) = judged(
            &Count { in_layouts: vec![1_010_200, 1_010_000, 1_009_900], ..count(1_010_200) },
            &[],
        );
        assert_eq!((is_near, &figure.outcome), (true, &Outcome::WithinLimit));
        assert_eq!(figure.words(), "within its limit, 1.00 % in the middle of 3 layouts");
        let over = Count { in_layouts: vec![1_009_900, 1_010_500, 1_010_600], ..count(1_009_900) };
        let (_, figure) = judged(&over, &[]);
        assert_eq!((&figure.outcome, figure.change()), (&Outcome::Exceeded, Some(10_400.0)));
        assert_eq!(figure.words(), "more than 1.00 % in the middle of 3 layouts");
        let accepted = Accepted::parse("c0ffee", "parse +1.04%").unwrap();
        assert!(matches!(judged(&over, &[accepted]).1.outcome, Outcome::Accepted(_)));
        // Far from the limit, or within the floor, one layout says it.
        assert!(!judged(&count(1_020_000), &[]).0);
        assert!(!judged(&count(1_000_400), &[]).0);
        assert!(!judged(&count(1_005_000), &[]).0);
    }

    #[test]
    fn own_instructions_are_judged_where_the_floor_hides_a_cost() {
        let base = in_layouts(1_000_000, &[0; 11], 9_000);
        let own = in_layouts(200_000, &[0; 11], 10);
        let own = Count { metric: "instructions:u".into(), is_beside: true, ..own };
        let judged = |more: u64, trailers: &[&str]| {
            let limit = Some("0.1%".parse().unwrap());
            let trailers: Vec<Accepted> =
                trailers.iter().map(|text| Accepted::parse("c0ffee", text).unwrap()).collect();
            let counted =
                [count(1_000_000 + more), Count { value: Ok(200_000 + more), ..own.clone() }];
            let sides = counted.iter().zip([&base, &own]);
            let mut figures: Vec<FigureReport> = sides
                .map(|(count, base)| judge(count, &key("max"), &Held::Base(base), limit, &trailers))
                .collect();
            keep_beside(&counted, &mut figures);
            let shown = figures.iter().map(|figure| (figure.name(), figure.outcome.word()));
            shown.collect::<Vec<_>>()
        };
        let all = |word| ("instructions".to_string(), word);
        let own = |word| ("instructions:u".to_string(), word);
        // 5,000 instructions are within the floor of all instructions, and 2.5 % of the program's own.
        assert_eq!(judged(5_000, &[]), [all("within-floor"), own("exceeded")]);
        assert_eq!(judged(5_000, &["parse +2.5%"]), [all("within-floor"), own("accepted")]);
        // Where it says nothing more, it is not shown.
        assert_eq!(judged(0, &[]), [all("same")]);
        assert_eq!(judged(100, &[]), [all("within-floor")]);
        assert_eq!(judged(50_000, &[]), [all("exceeded")]);
        // A cost of all instructions that a commit accepts is 25 % of the program's own, and is accepted once.
        assert_eq!(judged(50_000, &["parse +5%"]), [all("accepted")]);
    }

    #[test]
    fn small_steps_add_up_to_a_drift() {
        let limit = ("1%".parse().unwrap(), 20);
        let drift = |now: u64, trailers: &[Accepted]| {
            judge_drift(&count(now), &count(1_000_000), Some(FLOOR), limit, trailers)
        };
        let figure = drift(1_010_500, &[]);
        assert_eq!(
            (&figure.outcome, figure.name().as_str()),
            (&Outcome::Exceeded, "instructions over 20 commits")
        );
        assert_eq!(drift(1_009_000, &[]).outcome, Outcome::WithinLimit);
        assert_eq!(drift(1_000_100, &[]).outcome, Outcome::WithinFloor);
        let accepted = Accepted::parse("c0ffee", "parse instructions +2%").unwrap();
        assert!(matches!(drift(1_010_500, &[accepted]).outcome, Outcome::Accepted(_)));
    }

    #[test]
    fn a_known_cost_is_accepted_as_far_as_its_trailer_says() {
        let limit = Some("0.1%");
        let accepted = of(1_020_900, limit, &["parse +2.1%"]);
        assert!(
            matches!(&accepted, Outcome::Accepted(by) if by[0].text == "parse +2.1%"),
            "{accepted:?}"
        );
        assert_eq!(of(1_030_000, limit, &["parse +2.1%"]), Outcome::Exceeded);
        assert_eq!(of(1_020_900, limit, &["parse page-faults +2.1%"]), Outcome::Exceeded);
        assert_eq!(of(1_000_500, limit, &["parse +2.1%"]), Outcome::WithinLimit);
    }

    #[test]
    fn another_key_is_no_regression_and_no_pass() {
        let figure = BaselineFigure { value: 1, floor: None, key: key("Skylake-Client-v1") };
        let judged = |held: &Held<'_>| judge(&count(100), &key("max"), held, None, &[]);
        let report = judged(&Held::Baseline(&figure));
        assert_eq!(
            report.words(),
            "not comparable: cpu is max, the baseline has Skylake-Client-v1"
        );
        let without = |others| judged(&Held::NoBaseline(others));
        assert_eq!(without(vec![]).words(), "has no baseline");
        // A baseline of another metric is never compared, whatever its value.
        let other = without(vec!["instructions"]);
        assert_eq!(other.outcome, Outcome::NoBaseline(vec!["instructions".into()]));
        assert_eq!(other.outcome.verdict(), GateVerdict::NoAnswer);
        assert_eq!(
            other.words(),
            "has no baseline: the file has instructions of this case; metric = \"instructions\" \
             compares with that"
        );
        let gone = Count { value: Err("the counts do not repeat".into()), ..count(1) };
        assert_eq!(
            judged(&Held::Base(&gone)).outcome,
            Outcome::Refused("of the base, the counts do not repeat".into())
        );
    }

    #[test]
    fn functions_that_no_layout_moves_count_within_the_floor() {
        let change = |own: [u64; 2]| ExactChange {
            function: "table_add".into(),
            own,
            calls: [10, 10],
            is_kernel: false,
        };
        let judged_as = |metric: &str, limit: Option<&str>, own: [u64; 2], trailers: &[&str]| {
            let trailers: Vec<Accepted> =
                trailers.iter().map(|text| Accepted::parse("c0ffee", text).unwrap()).collect();
            let floor = Floor { most: 9_000, layouts: Some(11) };
            let figure = BaselineFigure { value: 1_000_000, floor: Some(floor), key: key("max") };
            let held = Held::Baseline(&figure);
            let limit = limit.map(|limit| limit.parse().unwrap());
            let mut figure = judge(&count(1_000_100), &key("max"), &held, limit, &trailers);
            assert_eq!(figure.outcome, Outcome::WithinFloor);
            figure.metric = metric.into();
            let is_kernel = metric.ends_with(":k");
            let change = ExactChange { is_kernel, ..change(own) };
            let decided = judge_exact(&mut figure, &[change], &trailers);
            assert_eq!(decided, figure.outcome != Outcome::WithinFloor);
            figure
        };
        let judged =
            |limit, own, trailers: &[&str]| judged_as("instructions", limit, own, trailers);
        let limit = Some("0.1%");
        let exceeded = judged(limit, [500, 5_500], &[]);
        assert_eq!((&exceeded.outcome, exceeded.exact), (&Outcome::Exceeded, Some(5_000.0)));
        assert_eq!(exceeded.words(), "exact changes of functions, +5,000, are more than 0.10 %");
        let amount = exceeded.acceptance().unwrap();
        assert_eq!(amount, "+0.50%");
        let accepted = judged(limit, [500, 5_500], &[&format!("parse {amount}")]);
        assert!(matches!(accepted.outcome, Outcome::Accepted(_)), "{accepted:?}");
        // A figure that leaves deferred work out is judged by a sum that it can have seen.
        let synchronous = |own| judged_as("instructions-synchronous:k", limit, own, &[]).outcome;
        assert_eq!(synchronous([500, 5_500]), Outcome::Exceeded);
        assert_eq!(synchronous([500, 50_500]), Outcome::WithinFloor);
        // Within the limit, cheaper, or without a limit: reported and no more.
        assert_eq!(judged(limit, [500, 1_500], &[]).outcome, Outcome::WithinFloor);
        assert_eq!(judged(limit, [5_500, 500], &[]).outcome, Outcome::WithinFloor);
        let free = judged(None, [500, 5_500], &[]);
        assert_eq!((free.outcome, free.exact), (Outcome::WithinFloor, Some(5_000.0)));
    }

    #[test]
    fn what_is_to_be_written_is_accepted() {
        for value in [1_000_201, 1_005_000, 1_020_949, 1_000_000_000] {
            let figure = BaselineFigure { value: 1_000_000, floor: Some(FLOOR), key: key("max") };
            let held = Held::Baseline(&figure);
            let judged = judge(&count(value), &key("max"), &held, None, &[]);
            assert_eq!(judged.outcome, Outcome::Exceeded);
            let text = format!("parse {}", judged.acceptance().unwrap());
            assert!(matches!(of(value, None, &[&text]), Outcome::Accepted(_)), "{text}");
        }
    }
}
