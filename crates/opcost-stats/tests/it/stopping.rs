//! Stopping as soon as the interval is narrow: what it does to false alarms and coverage.

use crate::noise::{Noise, deal, start};
use opcost_stats::schedule::{blocks, next_look};
use opcost_stats::{Budget, Family, Paired, Random};

/// The fewest blocks that decide every metric of a usual plan: single pairs, before mirrored blocks.
const FEWEST: usize = 11;

fn normal(random: &mut Random) -> f64 {
    // Box & Muller, Ann. Math. Statist. 29, 1958.
    let radius = (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit_f64()).cos()
}

fn gaussian(runs: usize, random: &mut Random) -> Vec<f64> {
    (0..runs).map(|_| (0.01 * normal(random)).exp()).collect()
}

/// Skewed, and one run in twenty takes up to half as long again.
fn spiked(runs: usize, random: &mut Random) -> Vec<f64> {
    let run = |_| {
        let spike = if random.below(20) == 0 { 0.5 * random.unit_f64() } else { 0.0 };
        1.0 + 0.01 * normal(random).exp() + spike
    };
    (0..runs).map(run).collect()
}

/// The level at which a primary metric is tested when runs stop on its interval's width.
fn alpha() -> f64 {
    Budget::default().for_stopping_on_width().level_of_smallest(Family::Primary, 1)
}

/// Records until the interval is narrower than `width`, or the runs are used up; p, and whether the
/// interval has the true change in it.
fn stopped(figures: &[f64], width: f64, factor: f64, random: &mut Random) -> (f64, bool) {
    let alpha = alpha();
    let pairs = figures.len() / 2;
    let order = blocks(2, pairs as u32, FEWEST as u32, random);
    let blocks = deal(figures, &order, factor);
    let mut look = FEWEST;
    loop {
        let paired = Paired::new(&blocks[..look]).unwrap();
        let (low, high) = paired.interval_ratio(1.0 - alpha).unwrap();
        if high - low <= width || look == blocks.len() {
            return (paired.p(), (low..=high).contains(&(factor - 1.0)));
        }
        look = next_look(look).min(blocks.len());
    }
}

/// Shares of recordings with a false alarm, and with an interval that misses a true change of 1 %.
fn shares(
    record: impl Fn(&mut Random) -> Vec<f64>,
    width: f64,
    times: u64,
    seed: u64,
) -> (f64, f64) {
    let alpha = alpha();
    let random = Random::new(seed);
    let (mut alarms, mut misses) = (0, 0);
    for time in 0..times {
        let mut random = random.fork(time);
        let figures = record(&mut random);
        alarms += u64::from(stopped(&figures, width, 1.0, &mut random).0 <= alpha);
        misses += u64::from(!stopped(&figures, width, 1.01, &mut random).1);
    }
    (alarms as f64 / times as f64, misses as f64 / times as f64)
}

/// The primary metric's share of the error budget, and four standard deviations of a binomial
/// share.
fn bound(times: u64) -> f64 {
    let level: f64 = Budget::default().primary;
    level + 4.0 * (level * (1.0 - level) / times as f64).sqrt()
}

#[test]
fn narrow_intervals_cover_and_alarm_as_stated() {
    let times = 400;
    for (seed, record, widths) in [
        (1, gaussian as fn(usize, &mut Random) -> Vec<f64>, [0.012, 0.006]),
        (2, spiked, [0.02, 0.01]),
    ] {
        for width in widths {
            let (alarms, misses) = shares(|random| record(300, random), width, times, seed);
            println!("{seed}, width {width}: {alarms} false alarms, {misses} missed");
            assert!(alarms <= bound(times), "{seed}, width {width}: {alarms}");
            assert!(misses <= bound(times), "{seed}, width {width}: {misses}");
        }
    }
}

#[test]
fn narrow_intervals_cover_and_alarm_as_stated_on_recorded_noise() {
    let times = 500;
    for (seed, name) in ["gzip-busy.txt", "gzip.txt", "syscall.txt"].into_iter().enumerate() {
        let noise = Noise::read(name);
        let record = |random: &mut Random| {
            let start = start(&noise.figures[0], 300, random);
            noise.column("wall_us")[start..start + 300].to_vec()
        };
        for width in [0.2, 0.05] {
            let (alarms, misses) = shares(record, width, times, 10 + seed as u64);
            println!("{name}, width {width}: {alarms} false alarms, {misses} missed");
            assert!(alarms <= bound(times), "{name}, width {width}: {alarms}");
            assert!(misses <= bound(times), "{name}, width {width}: {misses}");
        }
    }
}
