//! False alarms and misses of opcost's rule and of other tools' rules, on the same recorded runs.
//!
//! `cargo bench --bench rules` counts; `cargo test`, or `--tiny`, takes the same code through a few
//! reports. opcost deals the runs out in mirrored blocks, as it runs them; the other tools get one
//! variant before the next, as they run them.

#[path = "../tests/it/noise/mod.rs"]
mod noise;
#[path = "../tests/it/rivals/mod.rs"]
mod rivals;

use noise::{Noise, deal, interleaved, start};
use opcost_stats::summary::{mean, median};
use opcost_stats::{Budget, Family, Paired, Random};

/// The verdict of a rule on two variants, the second `factor` times as long: 0 for no difference,
/// else the sign of the difference.
type Rule = fn(figures: &[f64], factor: f64, random: &mut Random) -> f64;

const RULES: [(&str, Rule); 4] = [
    ("opcost: blocks, signed ranks, its primary level .025", ours),
    ("hyperfine's script: Welch's t, .05", |figures, factor, _| {
        let (a, b) = sequential(figures, factor);
        said(rivals::hyperfine(&a, &b), mean(&b), mean(&a))
    }),
    ("benchstat: Mann-Whitney U, .05", |figures, factor, _| {
        let (a, b) = sequential(figures, factor);
        said(rivals::benchstat(&a, &b), median(&b), median(&a))
    }),
    ("criterion: bootstrapped t, .05, threshold 1 %", |figures, factor, random| {
        let (a, b) = sequential(figures, factor);
        said(rivals::criterion(&a, &b, 500, random), mean(&b), mean(&a))
    }),
];

fn said(different: bool, b: Option<f64>, a: Option<f64>) -> f64 {
    let sign = b.zip(a).map_or(0.0, |(b, a)| if b < a { -1.0 } else { 1.0 });
    if different { sign } else { 0.0 }
}

fn ours(figures: &[f64], factor: f64, random: &mut Random) -> f64 {
    let order = interleaved(figures.len() as u32 / 2, random);
    let paired = Paired::new(&deal(figures, &order, factor)).expect("recorded figures are finite");
    let different = paired.p() <= Budget::default().level_of_smallest(Family::Primary, 1);
    said(different, Some(paired.estimate()), Some(0.0))
}

/// Deals the runs out to one variant before the next.
fn sequential(figures: &[f64], factor: f64) -> (Vec<f64>, Vec<f64>) {
    let (a, b) = figures.split_at(figures.len() / 2);
    (a.to_vec(), b.iter().map(|figure| figure * factor).collect())
}

/// Returns the share of reports in which the rule's verdict is `wanted`.
fn share(
    rule: Rule,
    figures: &[f64],
    runs: usize,
    factor: f64,
    times: u64,
    wanted: fn(f64) -> bool,
) -> f64 {
    let random = Random::new(runs as u64);
    let so = (0..times).filter(|&time| {
        let mut random = random.fork(time);
        let start = start(figures, runs, &mut random);
        wanted(rule(&figures[start..start + runs], factor, &mut random))
    });
    so.count() as f64 / times as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let times = if has("--bench") && !has("--tiny") { 400 } else { 3 };
    println!(
        "of {times} reports on recorded runs: equal ones called different; 1 % more not called slower"
    );
    println!("{:53} {:>12} {:>12}", "", "false alarms", "missed +1 %");
    for name in ["gzip.txt", "syscall.txt", "gzip-busy.txt"] {
        let noise = Noise::read(name);
        for pairs in [20, 400] {
            println!("{name}, {pairs} runs of each, wall");
            for (what, rule) in RULES {
                let figures = noise.column("wall_us");
                let alarms = share(rule, figures, 2 * pairs, 1.0, times, |said| said != 0.0);
                let missed = share(rule, figures, 2 * pairs, 1.01, times, |said| said <= 0.0);
                println!("  {what:51} {:10.1} % {:10.1} %", alarms * 100.0, missed * 100.0);
            }
        }
    }
}
