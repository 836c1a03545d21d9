//! The choice of the primary metric by the warm-up runs.
//!
//! If the user names no primary metric and the machine looks quiet, elapsed time decides, unless the warm-up runs show that it
//! mostly measures other programs. Warm-up runs are compared with nothing, and exchanging the variants' names does not change the
//! choice, so it changes no error rate. It depends on the stored runs alone: every reader makes the same choice.

use crate::plan::Plan;
use opcost_record::{Dictionary, Domain, MetricKey, Outcome, Record};
use opcost_stats::summary;

/// Turns per second that other tasks may have, as in the ledger's rule `switches`.
const TURNS_A_SECOND_MAX: f64 = 50.0;
/// Chance explains fewer turns of other tasks.
const TURNS_MIN: f64 = 3.0;
/// How many times as far as time on a CPU elapsed time may spread.
const SPREAD_TIMES_MAX: f64 = 2.0;
/// The fewest warm-up runs of a variant that show its spread, behind the first run, which fills caches.
const RUNS_MIN: usize = 3;
/// Threads of a run that uses more CPUs take turns with each other, and elapsed time is what such programs want to shorten.
const CPUS_MAX: f64 = 1.05;
/// A run that uses less of a CPU mostly waits for something else, whose time spreads as it likes.
const CPUS_MIN: f64 = 0.5;

/// What disturbed the warm-up runs, in words, so that the plan's metric for busy machines decides; `None` if nothing did.
pub fn disturbance(plan: &Plan, dictionary: &Dictionary, records: &[Record]) -> Option<String> {
    let other = plan.primary_if_busy.as_ref()?;
    let is_warm_up = |record: &&Record| (record.slot as usize) < plan.warm_up_count();
    let runs: Vec<&Record> = records
        .iter()
        .take_while(is_warm_up)
        .filter(|record| record.outcome == Outcome::Finished)
        .collect();
    let figures = |key: &MetricKey| {
        let metric = dictionary.id(key)?;
        let figure = |run: &&Record| Some((run.variant, run.sample(metric)?.value as f64));
        runs.iter().map(figure).collect::<Option<Vec<(u16, f64)>>>()
    };
    let sum = |figures: &[(u16, f64)]| figures.iter().map(|(_, figure)| figure).sum::<f64>();
    let wall = figures(&MetricKey::new("wall", Domain::All, "clock"))?;
    let on_cpu = figures(other)?;
    let cpus = sum(&on_cpu) / sum(&wall);
    if cpus.is_nan() || cpus > CPUS_MAX {
        return None;
    }
    let switches = MetricKey::new("involuntary-switches", Domain::All, "rusage");
    let turns = figures(&switches).map_or(0.0, |turns| sum(&turns));
    let rate = turns / (sum(&wall) / 1e9);
    if turns >= TURNS_MIN && rate > TURNS_A_SECOND_MAX {
        return Some(format!("other tasks had {rate:.0} turns a second in the warm-up"));
    }
    let (elapsed, used) = (spread(wall)?, spread(on_cpu)?);
    (cpus >= CPUS_MIN && elapsed > SPREAD_TIMES_MAX * used).then(|| {
        format!(
            "wall spread by {:.1} % in the warm-up, {} by {:.1} %",
            elapsed * 100.0,
            other.label(),
            used * 100.0
        )
    })
}

/// The mean over the variants of the standard deviation of their runs behind the first, as a share of the runs' mean; `None` if no
/// variant has enough runs.
fn spread(mut figures: Vec<(u16, f64)>) -> Option<f64> {
    figures.sort_by_key(|(variant, _)| *variant);
    let of_variant = |own: &[(u16, f64)]| {
        let behind_first: Vec<f64> = own[1..].iter().map(|(_, figure)| *figure).collect();
        let (mean, sd) = (summary::mean(&behind_first)?, summary::sd(&behind_first)?);
        (behind_first.len() >= RUNS_MIN && mean > 0.0).then_some(sd / mean)
    };
    let by_variant = figures.chunk_by(|(one, _), (next, _)| one == next);
    let shares: Vec<f64> = by_variant.filter_map(of_variant).collect();
    summary::mean(&shares)
}
