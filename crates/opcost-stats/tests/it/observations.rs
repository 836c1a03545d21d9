//! False alarms and power of observations on series of runs, by simulation with fixed seeds.

use opcost_stats::Random;
use opcost_stats::autocorrelation::autocorrelation;
use opcost_stats::drift::drift;
use opcost_stats::first_runs::first_runs;
use opcost_stats::outliers::outliers;

/// The p-value of an observation on a series; 1 if there is none.
type Observe = fn(&[f64]) -> f64;

const DRIFT: Observe = |values| drift(values).map_or(1.0, |drift| drift.p);
const AUTOCORRELATION: Observe = |values| autocorrelation(values).map_or(1.0, |found| found.p);
const FIRST_RUNS: Observe = |values| first_runs(values).map_or(1.0, |first| first.p);
const OUTLIERS: Observe = |values| outliers(values).map_or(1.0, |found| found.p);

fn normal(random: &mut Random) -> f64 {
    // Box & Muller, Ann. Math. Statist. 29, 1958.
    let radius = (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit_f64()).cos()
}

fn independent(n: usize, random: &mut Random) -> Vec<f64> {
    (0..n).map(|_| 1000.0 + normal(random)).collect()
}

/// Each value is half of the one before, plus noise.
fn alike(n: usize, random: &mut Random) -> Vec<f64> {
    let mut level = 0.0;
    let value = |_| {
        level = 0.5 * level + normal(random);
        level
    };
    (0..n).map(value).collect()
}

/// Returns the share of series with an observation at `level`.
fn share(
    observe: Observe,
    series: impl Fn(&mut Random) -> Vec<f64>,
    level: f64,
    times: u64,
    seed: u64,
) -> f64 {
    let random = Random::new(seed);
    let seen = (0..times).filter(|&time| observe(&series(&mut random.fork(time))) <= level);
    seen.count() as f64 / times as f64
}

#[test]
fn false_alarms_are_no_more_frequent_than_their_level() {
    let times = 2_000;
    let observed = [DRIFT, AUTOCORRELATION, FIRST_RUNS, OUTLIERS];
    for (seed, observe) in observed.into_iter().enumerate() {
        for n in [14, 22, 50, 200] {
            for level in [0.05, 0.005] {
                let alarms =
                    share(observe, |random| independent(n, random), level, times, seed as u64);
                // The level and four standard deviations of a binomial share.
                let bound = level + 4.0 * (level * (1.0 - level) / times as f64).sqrt();
                assert!(
                    alarms <= bound,
                    "observation {seed} of {n} at {level}: {alarms} > {bound}"
                );
            }
        }
    }
}

/// If neighbours are alike, a series looks like a trend more often; the correction keeps this
/// within three times the level. (Without it, a quarter of the series would be called drifting,
/// since the variance of the sum is three times that of independent values.)
#[test]
fn alike_neighbours_are_seldom_taken_for_a_drift() {
    for (seed, n) in [(10, 22), (11, 50), (12, 500)] {
        let alarms = share(DRIFT, |random| alike(n, random), 0.05, 2_000, seed);
        assert!(alarms <= 0.15, "{n}: {alarms}");
    }
}

#[test]
fn what_is_there_is_seen() {
    let check = |observe: Observe, series: fn(&mut Random) -> Vec<f64>, seed| {
        let seen = share(observe, series, 0.001, 400, seed);
        assert!(seen >= 0.9, "observation {seed}: {seen}");
    };
    // This drift is four standard deviations from the first run to the last.
    check(
        DRIFT,
        |random| {
            let values = independent(50, random).into_iter().enumerate();
            values.map(|(at, value)| value + 4.0 * at as f64 / 50.0).collect()
        },
        20,
    );
    check(AUTOCORRELATION, |random| alike(100, random), 21);
    // The first three of 30 are six standard deviations above the rest.
    check(
        FIRST_RUNS,
        |random| {
            let values = independent(30, random).into_iter().enumerate();
            values.map(|(at, value)| if at < 3 { value + 6.0 } else { value }).collect()
        },
        22,
    );
    // One run in fifty is twelve standard deviations off.
    check(
        OUTLIERS,
        |random| {
            let mut values = independent(50, random);
            values[33] += 12.0;
            values
        },
        23,
    );
}
