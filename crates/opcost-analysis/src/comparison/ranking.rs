//! Many variants: their order by the primary metric, and how the metric grows with a scanned parameter.
//!
//! **The order is against the baseline.** Each place has the interval and the verdict of its own comparison, whose error rate is that
//! of the whole report. Which of two neighbours is the better one was not tested.

use super::conclusion::{Trim, absolute};
use super::{Change, Comparison, Row, Verdict};
use opcost_base::number::figure;
use opcost_model::plan::Plan;
use opcost_record::{Better, Unit};
use opcost_stats::growth::{self, Growth, growth};
use std::collections::{BTreeSet, HashMap};

/// The number of comparisons with the baseline from which on a report has one table of all.
const COMPARISONS_MIN: usize = 4;

/// Variants in the order of the primary metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The variants, the best first; variants without a figure last.
    pub places: Vec<RankedVariant>,
    /// Metrics besides the primary one that really changed, with the number of comparisons in which each did.
    pub others: Vec<(String, usize)>,
    /// The figures by a scanned parameter.
    pub scan: Option<Scan>,
    /// The answer: the best and the worst variant, how many differ, the growth.
    pub conclusions: Vec<String>,
}

/// One variant in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedVariant {
    /// Index of the variant.
    pub variant: usize,
    /// Index of its comparison with the baseline; `None` for the baseline.
    pub comparison: Option<usize>,
    /// How many times as fast as the baseline, or for a metric that is no time the multiple of the baseline's figure.
    pub times: Option<f64>,
    /// The interval of `times`, at the level of the change.
    pub times_interval: Option<(f64, f64)>,
}

/// The primary metric of variants that differ in one number.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The parameter's name.
    pub name: String,
    /// The parameter's value and the median of each variant, in the order of the variants.
    pub points: Vec<(f64, f64)>,
    /// How the metric grows with the parameter.
    pub growth: Option<Growth>,
}

impl Ranking {
    /// Numbers the comparisons anew: `places` has the new number by the old.
    pub(super) fn renumber(&mut self, places: &HashMap<usize, usize>) {
        for place in &mut self.places {
            place.comparison = place.comparison.and_then(|old| places.get(&old).copied());
        }
    }
}

/// Ranks the variants of a comparison, if they are many.
pub(super) fn ranking(comparison: &Comparison, plan: &Plan) -> Option<Ranking> {
    let row = comparison.rows.iter().find(|row| row.primary)?;
    let of_baseline = || {
        let all = comparison.comparisons.iter().enumerate();
        all.filter(|(_, (baseline, _))| *baseline == 0)
            .map(|(index, (_, variant))| (index, *variant))
    };
    if of_baseline().count() < COMPARISONS_MIN || comparison.imported.is_some() {
        return None;
    }
    let mut places =
        vec![RankedVariant { variant: 0, comparison: None, times: None, times_interval: None }];
    places.extend(of_baseline().map(|(index, variant)| place(row, index, variant)));
    let figure_of =
        |place: &RankedVariant| row.values[place.variant].as_ref().map(super::Figures::center);
    places.sort_by(|one, two| match (figure_of(one), figure_of(two)) {
        (Some(one), Some(two)) if row.better == Better::Higher => two.total_cmp(&one),
        (Some(one), Some(two)) => one.total_cmp(&two),
        (one, two) => one.is_none().cmp(&two.is_none()),
    });
    let moved = |other: &Row| {
        of_baseline().filter(|(index, _)| other.changes[*index].verdict == Verdict::Changed).count()
    };
    let others = comparison.rows.iter().filter(|other| !other.primary);
    let mut others: Vec<(String, usize)> = others
        .map(|other| (other.label.clone(), moved(other)))
        .filter(|(_, count)| *count > 0)
        .collect();
    others.sort_by_key(|(_, count)| usize::MAX - count);
    let scan = scan(row, plan);
    let conclusions = match comparison.refused() {
        true => comparison.conclusions.clone(),
        false => conclusions(comparison, row, &places, scan.as_ref()),
    };
    Some(Ranking { places, others, scan, conclusions })
}

/// Whether the metric is a time, so that less of it is faster.
fn is_time(row: &Row) -> bool {
    row.unit == Unit::Ns && row.better == Better::Lower
}

fn place(row: &Row, index: usize, variant: usize) -> RankedVariant {
    let change = &row.changes[index];
    let times = |ratio: f64| if is_time(row) { 1.0 / (1.0 + ratio) } else { 1.0 + ratio };
    let known = !matches!(change.verdict, Verdict::NotComparable | Verdict::Unavailable);
    let ends = change.ci.filter(|_| known).map(|(low, high)| (times(low), times(high)));
    RankedVariant {
        variant,
        comparison: Some(index),
        times: change.change_ratio.filter(|_| known).map(times).filter(|times| times.is_finite()),
        times_interval: ends.map(|(one, two)| (one.min(two), one.max(two))),
    }
}

/// A multiple with three digits or more: `1.52`, `0.0042`.
pub fn multiple(times: f64) -> String {
    let decimals = match times.abs() {
        0.0 => 0,
        small if small < 1.0 => (2.0 - small.log10().floor()).clamp(2.0, 9.0) as usize,
        large if large < 100.0 => 2,
        _ => 0,
    };
    format!("{times:.decimals$}")
}

fn conclusions(
    comparison: &Comparison,
    row: &Row,
    places: &[RankedVariant],
    scan: Option<&Scan>,
) -> Vec<String> {
    let ranked = || places.iter().filter(|place| row.values[place.variant].is_some());
    let words = match (is_time(row), row.better) {
        (true, _) => ["fastest", "slowest"],
        (_, Better::Higher) => ["largest", "smallest"],
        _ => ["smallest", "largest"],
    };
    let ends = [ranked().next(), ranked().next_back()];
    let of_ends = words.into_iter().zip(ends.into_iter().flatten());
    let mut said: Vec<String> = of_ends
        .map(|(word, place)| format!("{word}: {}", extreme(comparison, row, place)))
        .collect();
    said.push(tally(comparison, row, places));
    if let Some(Scan { name, growth: Some(growth), .. }) = scan {
        said.push(grown(row, name, growth));
    }
    said
}

/// `c, 1.52 times as fast as a (1.48 … 1.57, −1.3 … −1.1 ms at 97.5 % confidence)`.
fn extreme(comparison: &Comparison, row: &Row, place: &RankedVariant) -> String {
    let [baseline, name] = [0, place.variant].map(|variant| &comparison.variants[variant].name);
    let (Some(change), Some(times)) =
        (place.comparison.map(|index| &row.changes[index]), place.times)
    else {
        return format!("{name}, the baseline");
    };
    // A slower variant takes as many times as long.
    let slower = is_time(row) && times < 1.0;
    let turned = |times: f64| if slower { 1.0 / times } else { times };
    let interval = place.times_interval.map(|(low, high)| (turned(low), turned(high)));
    let interval = interval.map(|(one, two)| (one.min(two), one.max(two)));
    let times = match (is_time(row), slower) {
        (true, false) => format!("{name}, {} times as fast as {baseline}", multiple(times)),
        (true, true) => format!("{name}, {} times as long as {baseline}", multiple(1.0 / times)),
        _ => format!("{name}, {} times the {} of {baseline}", multiple(times), row.label),
    };
    match (change.verdict, interval) {
        (Verdict::Changed, Some((low, high))) => format!(
            "{times} ({} … {}{} at {:.4} % confidence)",
            multiple(low),
            multiple(high),
            absolute(row, change).map_or(String::new(), |words| format!(", {words}")),
            Trim(change.ci_level * 100.0)
        ),
        (Verdict::Changed | Verdict::FewLayouts, _) => {
            format!(
                "{times}{}",
                absolute(row, change).map_or(String::new(), |words| format!(" ({words})"))
            )
        }
        _ => format!("{times}, which the runs do not show to be real"),
    }
}

/// How many variants differ from the baseline.
fn tally(comparison: &Comparison, row: &Row, places: &[RankedVariant]) -> String {
    let changes: Vec<&Change> =
        places.iter().filter_map(|place| Some(&row.changes[place.comparison?])).collect();
    let found = |change: &&Change| matches!(change.verdict, Verdict::Changed | Verdict::FewLayouts);
    let count = |of: &dyn Fn(&Change) -> bool| changes.iter().filter(|change| of(change)).count();
    let [less, more] = if is_time(row) { ["faster", "slower"] } else { ["less", "more"] };
    let groups = [
        (less, count(&|change| found(&change) && change.change_ratio.is_some_and(|r| r < 0.0))),
        (more, count(&|change| found(&change) && change.change_ratio.is_none_or(|r| r >= 0.0))),
        ("no change found", count(&|change| change.verdict == Verdict::Unchanged)),
        ("undecided", count(&|change| change.verdict == Verdict::Inconclusive)),
        (
            "without figures to compare",
            count(&|change| {
                matches!(change.verdict, Verdict::NotComparable | Verdict::Unavailable)
            }),
        ),
    ];
    let groups = groups.into_iter().filter(|(_, count)| *count > 0);
    let groups: Vec<String> = groups.map(|(what, count)| format!("{count} {what}")).collect();
    format!(
        "{} of {} against {}: {}",
        row.label,
        changes.len(),
        comparison.variants[0].name,
        groups.join(", ")
    )
}

/// The growth in words, with its error.
fn grown(row: &Row, name: &str, growth: &Growth) -> String {
    let percent = |error: f64| format!("{:.1} %", error * 100.0);
    let label = &row.label;
    match growth {
        Growth::Decided(fit) if fit.slope == 0.0 => format!(
            "no growth of {label} with {name} was found: {}, typical error {}",
            figure(fit.fixed, row.unit),
            percent(fit.error)
        ),
        Growth::Decided(fit) => format!(
            "{label} grows with {name} as {}: {} + {} × {}, typical error {}",
            fit.order.words(name),
            figure(fit.fixed, row.unit),
            figure(fit.slope, row.unit),
            fit.order.words(name).replace("log", "log₂"),
            percent(fit.error)
        ),
        Growth::Undecided(fits) => {
            let fits: Vec<String> = fits
                .iter()
                .map(|fit| format!("{} (error {})", fit.order.words(name), percent(fit.error)))
                .collect();
            format!(
                "the growth of {label} with {name} is undecided: {} fit about alike",
                fits.join(", ")
            )
        }
        Growth::Unlike(fit) => format!(
            "no growth fits {label} by {name} within {}; the nearest is {}, with an error of {}",
            percent(growth::ERROR_MAX),
            fit.order.words(name),
            percent(fit.error)
        ),
    }
}

/// The figures by the one parameter that all variants with parameters have, if its values are different numbers.
fn scan(row: &Row, plan: &Plan) -> Option<Scan> {
    let mut name: Option<&String> = None;
    let mut points = Vec::new();
    let mut known = BTreeSet::new();
    for (variant, figures) in plan.variants.iter().zip(&row.values) {
        let mut scanned = variant.scanned.iter();
        let Some((key, value)) = scanned.next() else { continue };
        if scanned.next().is_some() || name.is_some_and(|name| name != key) {
            return None;
        }
        name = Some(key);
        let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite())?;
        if !known.insert(value.to_bits()) {
            return None;
        }
        points.extend(figures.as_ref().map(|figures| (value, figures.center())));
    }
    let growth = growth(&points);
    Some(Scan { name: name?.clone(), growth, points }).filter(|scan| scan.points.len() >= 2)
}
