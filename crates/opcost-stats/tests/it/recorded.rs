//! Error rates and power on noise recorded on machines, with its drift, spikes and likeness of
//! neighbours: stretches of recorded equal runs are dealt out to two variants in random blocks.

use crate::noise::{Noise, deal, interleaved, start};
use opcost_stats::{Budget, Exactness, Family, Paired, Random, Total, exact};
use std::num::NonZeroU64;

/// Recordings of hosts; the first was made while the machine was busy with other work.
const HOSTS: [&str; 3] = ["gzip-busy.txt", "gzip.txt", "syscall.txt"];

/// Returns the family in which a report tests a recorded metric.
pub(crate) fn family(metric: &str) -> Family {
    match metric {
        "wall_us" => Family::Primary,
        "task-clock_us" | "user-time_us" | "system-time_us" => Family::Headline,
        _ => Family::Rest,
    }
}

/// Whether a report on equal runs contains any change.
fn false_alarm(noise: &Noise, pairs: u32, random: &mut Random) -> bool {
    let runs = 2 * pairs as usize;
    let start = start(&noise.figures[0], runs, random);
    let order = interleaved(pairs, random);
    let budget = Budget::default();
    Family::ALL.into_iter().any(|wanted| {
        let p: Vec<f64> = noise
            .metrics
            .iter()
            .zip(&noise.figures)
            .filter(|(metric, _)| family(metric) == wanted)
            .map(|(_, figures)| {
                Paired::new(&deal(&figures[start..start + runs], &order, 1.0)).unwrap().p()
            })
            .collect();
        wanted.adjust(&p).into_iter().any(|p| p <= budget.level(wanted))
    })
}

/// Over all metrics together, for any noise, since only the order of the labels is random.
#[test]
fn reports_on_equal_runs_raise_an_alarm_in_at_most_one_of_twenty() {
    let times = 2_000;
    for (seed, name) in HOSTS.into_iter().enumerate() {
        let noise = Noise::read(name);
        for pairs in [22, 60] {
            let random = Random::new(100 * u64::from(pairs) + seed as u64);
            let alarm = |&time: &u64| false_alarm(&noise, pairs, &mut random.fork(time));
            let alarms = (0..times).filter(alarm).count();
            // 0.05 and four standard deviations of a binomial share of 2,000.
            let bound = 0.05 + 4.0 * (0.05f64 * 0.95 / times as f64).sqrt();
            let share = alarms as f64 / times as f64;
            println!("{name}, {pairs} pairs: {share} of {times} reports raise a false alarm");
            assert!(share <= bound, "{name}, {pairs} pairs: {share} > {bound}");
        }
    }
}

/// Counts of an emulated machine, shifted by seeds and layouts: every recording of the fewest pairs
/// that can decide finds a ten-thousandth more.
#[test]
fn a_ten_thousandth_more_instructions_is_found_every_time() {
    let noise = Noise::read("emulated.txt");
    // The level of one primary metric.
    let alpha = Budget::default().level_of_smallest(Family::Primary, 1);
    // Each block has two runs, one on each side, with the same seed and layout.
    let pairs = 7;
    let instructions = noise.column("instructions:u");
    let random = Random::new(1);
    for time in 0..1_000 {
        let mut random = random.fork(time);
        let start = start(&noise.figures[0], 2 * pairs, &mut random) / 2 * 2;
        let order: Vec<Vec<usize>> = (0..pairs).map(|_| vec![0, 1]).collect();
        let blocks = deal(&instructions[start..start + 2 * pairs], &order, 1.0001);
        let paired = Paired::new(&blocks).unwrap();
        assert!(paired.p() <= alpha, "from run {start}: {}", paired.p());
        assert!((paired.change_ratio().unwrap() - 0.0001).abs() < 1e-7);
    }
}

/// If every run has the same count there is no test: the difference is exact.
#[test]
fn a_ten_thousandth_more_of_a_count_that_never_varies_is_exact() {
    let noise = Noise::read("emulated.txt");
    for value in noise.column("instructions:u") {
        let total = |value| [Total { value, ops: NonZeroU64::MIN }; 2];
        let (was, is) = (*value as u64, (value * 1.0001) as u64);
        let found = exact(&total(was), &total(is));
        assert!(matches!(found, Exactness::Exact { .. }));
        assert!((found.change_ratio().unwrap() - 0.0001).abs() < 1e-6);
    }
}

/// Returns the share of recordings that find a change planted in a metric, and the median time of a
/// recording in seconds.
fn power(noise: &Noise, metric: &str, pairs: u32, factor: f64, times: u64) -> (f64, f64) {
    let alpha = Budget::default().level_of_smallest(Family::Primary, 1);
    let figures = noise.column(metric);
    let wall = noise.column("wall_us");
    let random = Random::new(u64::from(pairs));
    let (mut found, mut seconds) = (0, Vec::new());
    for time in 0..times {
        let mut random = random.fork(time);
        let start = start(&noise.figures[0], 2 * pairs as usize, &mut random);
        let stretch = start..start + 2 * pairs as usize;
        let blocks = deal(&figures[stretch.clone()], &interleaved(pairs, &mut random), factor);
        let paired = Paired::new(&blocks).unwrap();
        found += u64::from(paired.p() <= alpha && paired.estimate() > 0.0);
        seconds.push(wall[stretch].iter().sum::<f64>() / 1e6);
    }
    let seconds = opcost_stats::summary::median(&seconds).unwrap();
    (found as f64 / times as f64, seconds)
}

/// A planted one per cent more time, with the primary metric's share of the error budget. If other
/// work takes the CPUs, the time on a CPU still shows the change.
#[test]
fn one_per_cent_more_time_is_found_nine_times_in_ten() {
    for (name, metric, pairs) in
        [("gzip.txt", "wall_us", 400), ("gzip-busy.txt", "task-clock_us", 800)]
    {
        let (found, seconds) = power(&Noise::read(name), metric, pairs, 1.01, 200);
        println!(
            "{name}: +1 % in {metric} found in {found} of recordings of {pairs} pairs, {seconds:.1} s"
        );
        assert!(found >= 0.9, "{name}: {found}");
    }
}
