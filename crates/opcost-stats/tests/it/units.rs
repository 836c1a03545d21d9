//! Single pairs in drawn order and mirrored blocks of two pairs as units of the test: error rates
//! of pairs in any noise, and the number of pairs from which on blocks find more.

use crate::noise::{Noise, deal, start};
use crate::recorded::family;
use opcost_stats::schedule::{MIRRORED_PAIRS_MIN, blocks};
use opcost_stats::{Block, Budget, Family, Paired, Random, power, rank};

/// One standard deviation of the simulated noise, as a logarithm.
const SD: f64 = 0.003;

fn normal(random: &mut Random) -> f64 {
    // Box & Muller, Ann. Math. Statist. 29, 1958.
    let radius = (-2.0 * (1.0 - random.unit_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit_f64()).cos()
}

/// Simulated noise of consecutive runs, with its name.
struct Made {
    name: &'static str,
    /// The drift from the first run to the last.
    drift: f64,
    /// The extra time of every second run, in standard deviations of the noise.
    penalty: f64,
    /// The correlation of neighbours.
    likeness: f64,
    /// Whether one run in twenty takes up to half as long again.
    spiked: bool,
}

const QUIET: Made =
    Made { name: "independent", drift: 0.0, penalty: 0.0, likeness: 0.0, spiked: false };
const MADE: [Made; 7] = [
    QUIET,
    Made { name: "spikes", spiked: true, ..QUIET },
    Made { name: "neighbours alike", likeness: 0.9, ..QUIET },
    Made { name: "drift of 2 %", drift: 0.02, ..QUIET },
    Made { name: "penalty of 0.5 σ", penalty: 0.5, ..QUIET },
    Made { name: "penalty of 1 σ", penalty: 1.0, ..QUIET },
    Made { name: "drift of 10 %, penalty of 2 σ", drift: 0.1, penalty: 2.0, ..QUIET },
];

impl Made {
    fn runs(&self, runs: usize, random: &mut Random) -> Vec<f64> {
        let mut level = normal(random);
        let run = |at: usize| {
            let fresh = (1.0 - self.likeness * self.likeness).sqrt();
            level = self.likeness * level + fresh * normal(random);
            let spike = self.spiked && random.below(20) == 0;
            let second = if at % 2 == 1 { self.penalty } else { 0.0 };
            let drift = self.drift * at as f64 / runs as f64;
            let spike = if spike { 0.5 * random.unit_f64() } else { 0.0 };
            (SD * (level + second) + drift + spike).exp()
        };
        (0..runs).map(run).collect()
    }
}

/// Makes a recording of variants equal up to `factor`, with `singles` pairs in drawn order.
fn record(runs: &[f64], singles: u32, factor: f64, random: &mut Random) -> Vec<Block<'static>> {
    deal(runs, &blocks(2, runs.len() as u32 / 2, singles, random), factor)
}

/// Returns the probability of a p of at most `alpha` with `n` units, if nothing changed.
fn level_of(n: usize, alpha: f64) -> f64 {
    let all = 1u32 << n;
    let refused = (0..all).filter(|signs| {
        let signed = |i: usize| if signs >> i & 1 == 1 { 1.0 } else { -1.0 };
        let differences: Vec<f64> = (0..n).map(|i| signed(i) * (i + 1) as f64).collect();
        rank::p(&differences) <= alpha
    });
    refused.count() as f64 / f64::from(all)
}

/// Returns the shares of recordings that raise a false alarm, and that miss a true change of 1 %.
fn errors(made: &Made, pairs: u32, singles: u32, alpha: f64, times: u64) -> (f64, f64) {
    let random = Random::new(u64::from(pairs));
    let (mut alarms, mut misses) = (0, 0);
    for time in 0..times {
        let mut random = random.fork(time);
        let runs = made.runs(2 * pairs as usize, &mut random);
        let paired = Paired::new(&record(&runs, singles, 1.01, &mut random)).unwrap();
        let (low, high) = paired.interval_ratio(1.0 - alpha).unwrap();
        misses += u64::from(!(low..=high).contains(&0.01));
        let paired = Paired::new(&record(&runs, singles, 1.0, &mut random)).unwrap();
        alarms += u64::from(paired.p() <= alpha);
    }
    (alarms as f64 / times as f64, misses as f64 / times as f64)
}

/// In any noise, since only the order of a pair's two runs is random.
#[test]
fn single_pairs_alarm_and_miss_as_rarely_as_stated() {
    let times = 4_000;
    for pairs in [8, 12] {
        let alpha = Budget::default().primary;
        let expected = level_of(pairs as usize, alpha);
        assert!(expected <= alpha);
        let bound = 4.0 * (expected * (1.0 - expected) / times as f64).sqrt();
        for made in &MADE {
            let (alarms, misses) = errors(made, pairs, pairs, alpha, times);
            let name = made.name;
            println!("{pairs} single pairs, {name}: {alarms} false alarms, {misses} missed");
            assert!((alarms - expected).abs() < bound, "{name}: {alarms}, not {expected}");
            assert!((misses - expected).abs() < bound, "{name}: {misses}, not {expected}");
        }
    }
}

/// Plans that may stop early begin with single pairs and go on with blocks.
#[test]
fn single_pairs_and_blocks_may_be_tested_together() {
    let (times, alpha) = (4_000, 0.05);
    let bound = alpha + 4.0 * (alpha * (1.0 - alpha) / times as f64).sqrt();
    for made in &MADE {
        let (alarms, misses) = errors(made, 32, 12, alpha, times);
        println!("12 single pairs, 10 blocks, {}: {alarms}, {misses}", made.name);
        assert!(alarms <= bound && misses <= bound, "{}: {alarms} {misses}", made.name);
    }
}

/// Over all metrics together, on noise recorded on machines.
#[test]
fn reports_on_few_pairs_raise_an_alarm_in_at_most_one_of_twenty() {
    let times = 2_000;
    let budget = Budget::default();
    for (seed, name) in ["gzip-busy.txt", "gzip.txt", "syscall.txt"].into_iter().enumerate() {
        let noise = Noise::read(name);
        for pairs in [8, 12, 24] {
            let random = Random::new(100 * u64::from(pairs) + seed as u64);
            let alarm = |&time: &u64| {
                let mut random = random.fork(time);
                let start = start(&noise.figures[0], 2 * pairs as usize, &mut random);
                let order = blocks(2, pairs, pairs, &mut random);
                Family::ALL.into_iter().any(|wanted| {
                    let metrics = noise.metrics.iter().zip(&noise.figures);
                    let of_family = metrics.filter(|(metric, _)| family(metric) == wanted);
                    let p: Vec<f64> = of_family
                        .map(|(_, figures)| {
                            let runs = &figures[start..start + 2 * pairs as usize];
                            Paired::new(&deal(runs, &order, 1.0)).unwrap().p()
                        })
                        .collect();
                    let decisive = wanted.decision_level(&p, budget.level(wanted));
                    p.iter().any(|p| *p <= decisive)
                })
            };
            let alarms = (0..times).filter(alarm).count();
            let bound = 0.05 + 4.0 * (0.05f64 * 0.95 / times as f64).sqrt();
            let share = alarms as f64 / times as f64;
            println!("{name}, {pairs} single pairs: {share} of reports raise a false alarm");
            assert!(share <= bound, "{name}, {pairs} pairs: {share} > {bound}");
        }
    }
}

/// A tenfold difference in the noise of a busy machine: 8 pairs decide the primary metric, and 12
/// pairs decide every metric of a usual plan.
#[test]
fn eight_pairs_decide_the_primary_metric_and_twelve_all() {
    let budget = Budget::default();
    let smallest = |family, tests| budget.level_of_smallest(family, tests) >= rank::p_floor(12);
    assert!(smallest(Family::Headline, 9) && smallest(Family::Rest, 13));
    assert!(power::blocks_min(budget.primary, 1) <= 8);
    let noise = Noise::read("gzip-busy.txt");
    let random = Random::new(3);
    for time in 0..500 {
        let mut random = random.fork(time);
        let start = start(&noise.figures[0], 24, &mut random);
        let runs = &noise.column("task-clock_us")[start..start + 24];
        let p = |runs: &[f64], random: &mut Random| {
            let paired = Paired::new(&record(runs, 12, 10.0, random)).unwrap();
            paired.p()
        };
        assert!(p(&runs[..16], &mut random) <= budget.primary);
        assert_eq!(p(runs, &mut random), rank::p_floor(12));
    }
}

/// A change that one recording of few pairs calls detectable is found by others as often as stated.
#[test]
fn what_few_pairs_call_detectable_is_found_nine_times_in_ten() {
    let alpha = Budget::default().primary;
    for (seed, (at, pairs)) in [(0, 8), (0, 12), (5, 12), (3, 22)].into_iter().enumerate() {
        let (made, times) = (&MADE[at], 600);
        let random = Random::new(70 + seed as u64);
        let found = (0..times).filter(|&time| {
            let mut random = random.fork(time);
            let mut record = |factor: f64| {
                let runs = made.runs(2 * pairs as usize, &mut random);
                Paired::new(&record(&runs, pairs, factor, &mut random)).unwrap()
            };
            let shift = record(1.0).detectable_shift(alpha, 7).unwrap();
            let paired = record(shift.exp());
            paired.p() <= alpha && paired.estimate() > 0.0
        });
        let share = found.count() as f64 / times as f64;
        println!("{}, {pairs} single pairs: found in {share}", made.name);
        assert!((0.84..=0.96).contains(&share), "{}, {pairs} pairs: {share}", made.name);
    }
}

/// Returns the change that nine of ten recordings find: the ninth decile of the distance from 0
/// down to the lower end of a recording's interval.
fn found(
    made: &dyn Fn(usize, &mut Random) -> Vec<f64>,
    pairs: u32,
    singles: u32,
    alpha: f64,
) -> f64 {
    let times = 1_500;
    let random = Random::new(u64::from(pairs));
    let needed = |time: u64| {
        let mut random = random.fork(time);
        let runs = made(2 * pairs as usize, &mut random);
        let paired = Paired::new(&record(&runs, singles, 1.0, &mut random)).unwrap();
        paired.interval(1.0 - alpha).map_or(f64::INFINITY, |(low, _)| -low)
    };
    let mut needed: Vec<f64> = (0..times).map(needed).collect();
    needed.sort_by(f64::total_cmp);
    needed[(power::POWER * times as f64) as usize]
}

/// Returns the change that a report can find of each metric by single pairs, as a share of that by
/// blocks: at the primary metric's level, and at the level of one of nine metrics of the rest.
#[test]
fn blocks_become_the_better_units_where_they_are_many() {
    let recorded = |name: &str, metric: &'static str| {
        let noise = Noise::read(name);
        move |runs: usize, random: &mut Random| {
            let start = start(&noise.figures[0], runs, random);
            noise.column(metric)[start..start + runs].to_vec()
        }
    };
    let gzip = recorded("gzip.txt", "wall_us");
    let busy = recorded("gzip-busy.txt", "task-clock_us");
    let syscall = recorded("syscall.txt", "wall_us");
    let budget = Budget::default();
    let counts = [14, 22, MIRRORED_PAIRS_MIN, 48];
    for (metric, alpha) in [("primary", budget.primary), ("rest", budget.rest / 9.0)] {
        let ratios = |name: &str, made: &dyn Fn(usize, &mut Random) -> Vec<f64>| -> [f64; 4] {
            let ratios =
                counts.map(|pairs| found(made, pairs, pairs, alpha) / found(made, pairs, 0, alpha));
            println!("{metric}, {name}: {ratios:.2?} at {counts:?} pairs");
            ratios
        };
        let made = |at: usize| ratios(MADE[at].name, &|runs, random| MADE[at].runs(runs, random));
        // Seven blocks can never decide one of many metrics.
        let few = |ratios: [f64; 4]| {
            if metric == "primary" { ratios[0] < 0.85 } else { ratios[0] == 0.0 }
        };
        // Without an effect of order, blocks are hardly worse from 32 pairs on, but much before.
        for at in [0, 2, 3] {
            let ratios = made(at);
            assert!(few(ratios), "{ratios:?}");
            assert!((0.6..1.0).contains(&ratios[1]), "{ratios:?}");
            assert!(
                (0.8..1.06).contains(&ratios[2]) && (0.88..1.06).contains(&ratios[3]),
                "{ratios:?}"
            );
        }
        // With a penalty as large as the noise, blocks are better from 32 pairs on.
        let penalty = made(5);
        assert!(penalty[2] > 1.05 && penalty[3] > 1.1, "{penalty:?}");
        // On recorded noise of machines, pairs find more as long as there are few.
        for (name, noise) in [
            ("gzip", &gzip as &dyn Fn(usize, &mut Random) -> Vec<f64>),
            ("gzip, busy", &busy),
            ("system calls", &syscall),
        ] {
            let ratios = ratios(name, noise);
            assert!(few(ratios) && ratios[1] < 1.0, "{name}: {ratios:?}");
        }
    }
}
