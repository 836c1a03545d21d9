//! The effect on false alarms and coverage of stopping as soon as the interval is narrow, or when a time is
//! over.

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

/// Skewed noise; one run in twenty takes up to half as long again.
fn spiked(runs: usize, random: &mut Random) -> Vec<f64> {
    let run = |_| {
        let spike = if random.below(20) == 0 { 0.5 * random.unit_f64() } else { 0.0 };
        1.0 + 0.01 * normal(random).exp() + spike
    };
    (0..runs).map(run).collect()
}

/// The level of a primary metric's test if runs stop at the width of its interval.
fn alpha() -> f64 {
    Budget::default().for_stopping_on_width().level_of_smallest(Family::Primary, 1)
}

/// Records until the interval is narrower than `width`, or the runs are used up; returns p, and whether the
/// interval holds the true change.
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

/// Returns the shares of recordings with a false alarm and with an interval that misses a change of 1 %.
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

/// The primary metric's share of the error budget, and four standard deviations of a binomial share.
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

/// The end of a simulated recording.
#[derive(Clone, Copy)]
enum End {
    /// When the runs took this long in all.
    Time(f64),
    /// When the change is significant, or after the last run; opcost never stops so.
    Significant,
}

/// The pairs that are made whatever time they take: twice the fewest.
const USUAL: usize = 2 * FEWEST;

/// Records until the end, but at least [`USUAL`] pairs; returns p, whether the interval holds the true
/// change, and the number of blocks. The primary metric has its whole level.
fn ended(figures: &[f64], end: End, factor: f64, random: &mut Random) -> (f64, bool, usize) {
    let alpha = Budget::default().level_of_smallest(Family::Primary, 1);
    let pairs = figures.len() / 2;
    let order = blocks(2, pairs as u32, USUAL as u32, random);
    let blocks = deal(figures, &order, factor);
    let mut spent = 0.0;
    let mut made = 0;
    let over = |made: usize, spent: f64| match end {
        End::Time(limit) => spent >= limit,
        End::Significant => Paired::new(&blocks[..made]).unwrap().p() <= alpha,
    };
    for block in &blocks {
        spent += block.baseline.iter().chain(block.variant.iter()).sum::<f64>();
        made += 1;
        if made >= USUAL && over(made, spent) {
            break;
        }
    }
    let paired = Paired::new(&blocks[..made]).unwrap();
    let (low, high) = paired.interval_ratio(1.0 - alpha).unwrap();
    (paired.p(), (low..=high).contains(&(factor - 1.0)), made)
}

/// Returns the shares of recordings with a false alarm, and with an interval that misses a true change of a
/// tenth; and the numbers of blocks made.
fn shares_at_the_end(
    record: impl Fn(&mut Random) -> Vec<f64>,
    end: End,
    times: u64,
    seed: u64,
) -> (f64, f64, Vec<usize>) {
    let alpha = Budget::default().level_of_smallest(Family::Primary, 1);
    let random = Random::new(seed);
    let (mut alarms, mut misses, mut lengths) = (0, 0, Vec::new());
    for time in 0..times {
        let mut random = random.fork(time);
        let figures = record(&mut random);
        let (p, _, made) = ended(&figures, end, 1.0, &mut random);
        alarms += u64::from(p <= alpha);
        misses += u64::from(!ended(&figures, end, 1.1, &mut random).1);
        lengths.push(made);
    }
    (alarms as f64 / times as f64, misses as f64 / times as f64, lengths)
}

/// One run in twenty takes up to eleven times as long: a few of these use up the time.
fn stalling(runs: usize, random: &mut Random) -> Vec<f64> {
    let run = |_| {
        let stall = if random.below(20) == 0 { 10.0 * random.unit_f64() } else { 0.0 };
        (0.01 * normal(random)).exp() + stall
    };
    (0..runs).map(run).collect()
}

/// The clock sees the sum of a block's runs, which does not depend on the labels. Exchanging labels within
/// blocks therefore stays exact, and no part of the level has to be set aside.
#[test]
fn the_clock_ends_recordings_at_no_cost() {
    let times = 2_000;
    for (seed, record) in
        [(1, gaussian as fn(usize, &mut Random) -> Vec<f64>), (2, spiked), (3, stalling)]
    {
        // As long as about 40 pairs take.
        let mean = record(10_000, &mut Random::new(seed)).iter().sum::<f64>() / 10_000.0;
        let end = End::Time(80.0 * mean);
        let (alarms, misses, lengths) =
            shares_at_the_end(|random| record(300, random), end, times, seed);
        let (least, most) = (lengths.iter().min(), lengths.iter().max());
        println!("{seed}: {alarms} false alarms, {misses} missed, {least:?} to {most:?} blocks");
        assert!(alarms <= bound(times), "{seed}: {alarms}");
        assert!(misses <= bound(times), "{seed}: {misses}");
        assert!(seed == 1 || least < most, "the time ends some sooner: {least:?} to {most:?}");
    }
    for (seed, name) in ["gzip-busy.txt", "gzip.txt", "syscall.txt"].into_iter().enumerate() {
        let noise = Noise::read(name);
        let wall = noise.column("wall_us");
        let end = End::Time(80.0 * wall.iter().sum::<f64>() / wall.len() as f64);
        let record = |random: &mut Random| {
            let start = start(&noise.figures[0], 300, random);
            wall[start..start + 300].to_vec()
        };
        let (alarms, misses, _) = shares_at_the_end(record, end, times, 10 + seed as u64);
        println!("{name}: {alarms} false alarms, {misses} missed");
        assert!(alarms <= bound(times), "{name}: {alarms}");
        assert!(misses <= bound(times), "{name}: {misses}");
    }
    // Looking as often at significance would cost a good part of the level.
    let (alarms, ..) = shares_at_the_end(|random| gaussian(300, random), End::Significant, 400, 1);
    assert!(alarms > bound(400), "{alarms}");
}
