//! Tests other tools' rules against known answers, so that the table of rules is fair.

use crate::rivals::{benchstat, criterion, hyperfine, mann_whitney_p, welch_p};
use opcost_stats::Random;

/// Means 3 and 5, variances 2.5, five values: t = 2 with 8 degrees of freedom, and two-sided p is 1
/// − sin θ (1 + cos²θ/2 + 3 cos⁴θ/8 + 5 cos⁶θ/16) at tan θ = 2/√8 (Abramowitz & Stegun, 26.7.4).
#[test]
fn welch_matches_a_known_answer() {
    let p = welch_p(&[1.0, 2.0, 3.0, 4.0, 5.0], &[3.0, 4.0, 5.0, 6.0, 7.0]);
    assert!((p - 0.080_516).abs() < 1e-6, "{p}");
    assert_eq!(welch_p(&[5.0; 4], &[5.0; 4]), 1.0);
    assert_eq!(welch_p(&[5.0; 4], &[6.0; 4]), 0.0);
}

/// All three below the other three: U = 0, of mean 4.5 and variance 5.25; z = 4/√5.25.
#[test]
fn mann_whitney_matches_a_known_answer() {
    let p = mann_whitney_p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
    assert!((p - 0.0808).abs() < 0.0002, "{p}");
    assert_eq!(mann_whitney_p(&[2.0; 3], &[2.0; 3]), 1.0);
}

#[test]
fn every_rule_sees_a_fifth_and_no_rule_sees_nothing() {
    let a: Vec<f64> = (0..20).map(|run| 100.0 + f64::from(run * 7 % 5)).collect();
    let b: Vec<f64> = a.iter().map(|value| value * 1.2).collect();
    let mut random = Random::new(1);
    assert!(hyperfine(&a, &b) && benchstat(&a, &b) && criterion(&a, &b, 500, &mut random));
    assert!(!hyperfine(&a, &a) && !benchstat(&a, &a) && !criterion(&a, &a, 500, &mut random));
}

#[test]
fn criterion_keeps_quiet_below_its_threshold() {
    let a: Vec<f64> = (0..50).map(|run| 100.0 + 0.01 * f64::from(run % 5)).collect();
    let b: Vec<f64> = a.iter().map(|value| value * 1.005).collect();
    assert!(hyperfine(&a, &b));
    assert!(!criterion(&a, &b, 500, &mut Random::new(2)));
}
