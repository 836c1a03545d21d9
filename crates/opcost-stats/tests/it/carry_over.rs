//! False alarms and power of the test for carry-over, by simulation with fixed seeds: variants take turns in the order of a
//! schedule, and each run adds to the next what its variant leaves behind.

use opcost_stats::carry_over::{Run, Runs};
use opcost_stats::schedule::blocks;
use opcost_stats::{Random, Scale};

/// What the machine does: its noise, in the order of time.
type Noise = fn(slots: usize, random: &mut Random) -> Vec<f64>;

fn normal(random: &mut Random) -> f64 {
    // Box & Muller, Ann. Math. Statist. 29, 1958.
    let radius = (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit_f64()).cos()
}

fn gaussian(slots: usize, random: &mut Random) -> Vec<f64> {
    (0..slots).map(|_| 0.02 * normal(random)).collect()
}

/// One slot in ten takes up to 1.6 times as long.
fn spiked(slots: usize, random: &mut Random) -> Vec<f64> {
    let slot = |_| {
        let spike = if random.unit_f64() < 0.1 { 0.5 * random.unit_f64() } else { 0.0 };
        0.003 * normal(random) + spike
    };
    (0..slots).map(slot).collect()
}

/// Alike neighbours on a drift of 10 %.
fn drifting(slots: usize, random: &mut Random) -> Vec<f64> {
    let mut level = 0.0;
    let slot = |slot| {
        level = 0.9 * level + 0.003 * normal(random);
        level + 0.1 * slot as f64 / slots as f64
    };
    (0..slots).map(slot).collect()
}

/// The properties of the simulated variants, on the log scale.
#[derive(Clone, Copy, Default)]
struct Variants {
    /// The number of variants.
    count: usize,
    /// The number of runs of each, and of those in single pairs.
    pairs: u32,
    singles: u32,
    /// How much dearer the second variant is.
    shift: f64,
    /// How much dearer a run is behind the first variant.
    carried: f64,
    /// How much cheaper a run is behind its own variant.
    warmth: f64,
}

/// Makes a recording as opcost does: with more than two variants, each block repeats its last run.
fn record(variants: Variants, noise: Noise, random: &mut Random) -> Vec<Run> {
    let Variants { count, pairs, singles, shift, carried, warmth } = variants;
    let mut runs: Vec<Run> = Vec::new();
    for (number, order) in (0..).zip(blocks(count, pairs, singles, random)) {
        let repeat = order.last().copied().filter(|_| count > 2);
        for (place, variant) in order.iter().copied().chain(repeat).enumerate() {
            let is_compared = place < order.len();
            runs.push(Run { variant, block: Some(number), is_compared, value: None });
        }
    }
    let noise = noise(runs.len(), random);
    let mut before = None;
    for (run, noise) in runs.iter_mut().zip(noise) {
        let own = if run.variant == 1 { shift } else { 0.0 };
        let behind_first = if before == Some(0) { carried } else { 0.0 };
        let behind_own = if before == Some(run.variant) { warmth } else { 0.0 };
        run.value = Some((own + behind_first - behind_own + noise).exp());
        before = Some(run.variant);
    }
    runs
}

/// Returns the shares of recordings with a p of at most each level.
fn shares<const N: usize>(
    variants: Variants,
    noise: Noise,
    levels: [f64; N],
    times: u32,
    seed: u64,
) -> [f64; N] {
    let random = Random::new(seed);
    let p: Vec<f64> = (0..times)
        .map(|time| {
            let runs = record(variants, noise, &mut random.fork(u64::from(time)));
            Runs::of(runs, Scale::LogRatio).carry_over(0, 1).p()
        })
        .collect();
    levels.map(|level| p.iter().filter(|p| **p <= level).count() as f64 / f64::from(times))
}

const NOISES: [Noise; 3] = [gaussian, spiked, drifting];

/// The bound is the level and four standard deviations of a binomial share: 5.6 % and 1.3 %.
#[track_caller]
fn assert_seldom(variants: Variants, seed: u64) {
    let times = 20_000;
    for (noise, seed) in NOISES.into_iter().zip(seed..) {
        let levels = [0.05f64, 0.01];
        for (level, alarms) in levels.into_iter().zip(shares(variants, noise, levels, times, seed))
        {
            let bound = level + 4.0 * (level * (1.0 - level) / f64::from(times)).sqrt();
            assert!(alarms <= bound, "noise {seed} at {level}: {alarms} > {bound}");
        }
    }
}

#[test]
fn false_alarms_are_as_rare_as_their_level_in_every_order() {
    let two = Variants { count: 2, pairs: 24, singles: 24, ..Variants::default() };
    assert_seldom(two, 1);
    assert_seldom(Variants { singles: 0, pairs: 48, ..two }, 4);
    assert_seldom(Variants { singles: 12, pairs: 48, ..two }, 7);
    assert_seldom(Variants { count: 3, ..two }, 10);
    assert_seldom(Variants { count: 3, singles: 0, pairs: 48, ..two }, 13);
    assert_seldom(Variants { count: 12, ..two }, 16);
}

#[test]
fn a_change_and_a_warm_cache_are_no_carry_over() {
    let two = Variants {
        count: 2,
        pairs: 24,
        singles: 24,
        shift: 0.3,
        warmth: 0.1,
        ..Variants::default()
    };
    assert_seldom(two, 20);
    assert_seldom(Variants { singles: 0, pairs: 48, ..two }, 23);
    assert_seldom(Variants { count: 3, ..two }, 26);
}

#[test]
fn a_carry_over_is_found_and_the_change_behind_their_own_is_true() {
    let two = Variants { count: 2, pairs: 24, singles: 24, carried: 0.18, ..Variants::default() };
    let many = Variants { count: 3, ..two };
    for (seed, variants) in
        [two, Variants { singles: 0, pairs: 48, ..two }, many].into_iter().enumerate()
    {
        let seed = 30 + seed as u64;
        let [found] = shares(variants, gaussian, [0.01], 400, seed);
        assert!(found >= 0.95, "{found} at seed {seed}");
        let runs = record(variants, gaussian, &mut Random::new(seed));
        let runs = Runs::of(runs, Scale::LogRatio);
        let carried = runs.carry_over(0, 1).estimate().unwrap();
        assert!((carried - 0.18).abs() < 0.03, "{carried} at seed {seed}");
        // Behind its own the first variant is dearer by what it carries over to itself.
        let own = runs.behind_own(0, 1, 0.95).unwrap();
        assert!((own.estimate + 0.18).abs() < 0.05, "{own:?} at seed {seed}");
    }
}
