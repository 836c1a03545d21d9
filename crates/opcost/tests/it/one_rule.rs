//! Interval, verdict and plan follow one rule.

use crate::made::{key, plan, recording};
use opcost_analysis::comparison::{Verdict, compare};
use opcost_record::Reading;
use opcost_stats::Random;

/// Interval and verdict follow one rule: for any figures, a change is real exactly if its interval does not contain 0.
#[test]
fn a_change_is_real_exactly_if_its_interval_holds_no_zero() {
    const METRICS: [(&str, &str); 8] = [
        ("wall", "clock"),
        ("task-clock", "perf_event"),
        ("user-time", "rusage"),
        ("system-time", "rusage"),
        ("minor-faults", "rusage"),
        ("context-switches", "perf_event"),
        ("page-faults", "perf_event"),
        ("peak-rss", "rusage"),
    ];
    let (mut real, mut at_another_level) = (0, 0);
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let pairs = [12, 22, 40][seed as usize % 3];
        let made = recording(plan(&["off", "on", "cached"], pairs), |slot| {
            let metric = |(at, (name, source)): (usize, &(&str, &str))| {
                let shift = 0.004 * at as f64 * f64::from(slot.variant);
                // There are few different values, so that many blocks are equal.
                let value = 20.0 * (1.0 + shift) + 3.0 * random.unit_f64();
                Reading::plain(
                    key(name, source),
                    if at < 4 { (value * 1e4) as u64 } else { value as u64 },
                )
            };
            METRICS.iter().enumerate().map(metric).collect()
        });
        let (comparison, _) = compare(&made);
        for row in &comparison.rows {
            for change in &row.changes {
                let Some((low, high)) = change.ci else { continue };
                let holds_zero = low <= 0.0 && high >= 0.0;
                assert_eq!(
                    change.verdict != Verdict::Changed,
                    holds_zero,
                    "{} {change:?}",
                    row.label
                );
                assert_eq!(change.verdict == Verdict::Changed, change.p_adjusted.unwrap() <= 0.05);
                let estimate = change.change_ratio.unwrap();
                assert!((low..=high).contains(&estimate), "{change:?}");
                real += u32::from(!holds_zero);
                let alone = [0.025 / 2.0, 0.015 / 6.0, 0.010 / 8.0];
                let alone = alone.iter().any(|level| (1.0 - change.ci_level - level).abs() < 1e-12);
                at_another_level += u32::from(!holds_zero && !alone);
            }
        }
    }
    assert!(real > 100 && at_another_level > 15, "{real} {at_another_level}");
}

/// The fewest pairs of the plan suffice for the report, with any number of metrics.
#[test]
fn the_fewest_pairs_of_the_plan_decide_every_metric() {
    for filters in [&["off", "on"][..], &["off", "on", "cached"]] {
        let fewest = plan(filters, 2).fewest_pairs;
        for pairs in [fewest, 2 * fewest, 32.max(2 * fewest), 40] {
            let mut random = Random::new(u64::from(pairs));
            let plan = plan(filters, pairs);
            let keys = plan.metrics();
            let made = recording(plan, |slot| {
                let level = 1000.0 * f64::from(1 + slot.variant);
                let read =
                    |key| Reading::plain(key, (level * (1.0 + 0.1 * random.unit_f64())) as u64);
                keys.iter().cloned().map(read).collect()
            });
            let (comparison, warnings) = compare(&made);
            assert_eq!(warnings, []);
            for row in &comparison.rows {
                for change in &row.changes {
                    assert_eq!(change.verdict, Verdict::Changed, "{} of {pairs} pairs", row.label);
                }
            }
        }
    }
}
