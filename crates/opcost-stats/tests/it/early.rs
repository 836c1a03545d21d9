//! The early look at exact counts: false alarms of the look and the final test together, on layout
//! noise recorded on machines, and on noise made up to be hard.

use crate::noise::Noise;
use opcost_stats::{Block, Budget, Paired, Random, early};

/// The pairs of a whole plan.
const PAIRS: usize = 11;

/// Tells whether a recording of two equal programs calls its primary metric changed, and whether at
/// the look. `draw`: the counts of both sides in one seed and layout.
fn alarm(draw: &mut dyn FnMut() -> [f64; 2]) -> (bool, bool) {
    let (one, two): (Vec<f64>, Vec<f64>) = (0..PAIRS).map(|_| draw()).map(|[a, b]| (a, b)).unzip();
    let look = early::pairs(1) as usize;
    if early::p(&one[..look], &two[..look]) <= early::LEVEL {
        return (true, true);
    }
    let blocks: Vec<Block<'_>> = one
        .iter()
        .zip(&two)
        .map(|(a, b)| Block { baseline: vec![*a].into(), variant: vec![*b].into() })
        .collect();
    let level = Budget::default().after_early_look(early::LEVEL).primary;
    (Paired::new(&blocks).unwrap().p() <= level, false)
}

/// Returns the share of recordings with an alarm, and of those with an alarm at the look.
fn shares(name: &str, mut draw: impl FnMut(&mut Random) -> [f64; 2]) -> [f64; 2] {
    let times = 20_000;
    let mut random = Random::new(17);
    let (mut alarms, mut early) = (0, 0);
    for _ in 0..times {
        let (alarm, at_look) = alarm(&mut || draw(&mut random));
        alarms += u32::from(alarm);
        early += u32::from(at_look);
    }
    let shares = [alarms, early].map(|count| f64::from(count) / f64::from(times));
    println!("{name}: {} false alarms, {} at the look", shares[0], shares[1]);
    shares
}

/// Draws a nearly normal number: the sum of twelve uniform numbers.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit_f64()).sum::<f64>() - 6.0
}

#[test]
fn equal_programs_raise_no_more_alarms_than_stated() {
    let recorded = Noise::read("emulated.txt");
    let seeds: Vec<f64> = recorded.column("instructions:u").iter().copied().step_by(2).collect();
    let level = Budget::default().primary;
    type Draw<'a> = Box<dyn FnMut(&mut Random) -> [f64; 2] + 'a>;
    let noises: [(&str, Draw<'_>); 6] = [
        ("normal", Box::new(|random| [0; 2].map(|_| 1e6 + 100.0 * normal(random)))),
        // The counts jump between two layouts, each as likely.
        ("two levels", Box::new(|random| [0; 2].map(|_| 1e6 + 500.0 * random.below(2) as f64))),
        (
            "two levels with noise",
            Box::new(|random| {
                [0; 2].map(|_| 1e6 + 500.0 * random.below(2) as f64 + normal(random))
            }),
        ),
        (
            "rare jumps",
            Box::new(|random| {
                [0; 2].map(|_| 1e6 + normal(random) + 1e4 * f64::from(random.below(10) == 0))
            }),
        ),
        // The seed shifts both sides alike, the layout shifts each by itself.
        (
            "shared seeds",
            Box::new(|random| {
                let shared = 300.0 * normal(random);
                [0; 2].map(|_| 1e6 + shared + 100.0 * normal(random))
            }),
        ),
        (
            "recorded, another seed a side",
            Box::new(|random| [0; 2].map(|_| seeds[random.index(seeds.len())])),
        ),
    ];
    // Four standard deviations of a share of 20,000.
    let bound = |level: f64| level + 4.0 * (level * (1.0 - level) / 20_000.0).sqrt();
    for (name, draw) in noises {
        let [alarms, early] = shares(name, draw);
        assert!(alarms <= bound(level), "{name}: {alarms}");
        assert!(early <= bound(early::LEVEL), "{name}: {early} at the look");
    }
}

#[test]
fn a_change_far_beyond_the_layouts_is_found_at_the_look() {
    let mut random = Random::new(3);
    for _ in 0..100 {
        let mut draw = || [1e6, 1.01e6].map(|level| level + 100.0 * normal(&mut random));
        assert_eq!(alarm(&mut draw), (true, true));
    }
}
