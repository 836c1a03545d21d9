//! The exact interval of a probability, from how often an event was seen.

/// Returns the exact interval of a probability with `hits` seen in `trials` independent trials.
///
/// `level` is the confidence level, between 0 and 1. The ends are the lowest and the highest
/// probability that a test of `(1 − level) / 2` on either side does not exclude; `None` without
/// trials. The interval covers the true probability at least as often as `level` says, whatever it
/// is (Clopper & Pearson, "The use of confidence or fiducial limits illustrated in the case of the
/// binomial", Biometrika 26(4), 1934).
///
/// # Panics
/// If there are more hits than trials, or `level` is not between 0 and 1.
pub fn interval(hits: u64, trials: u64, level: f64) -> Option<(f64, f64)> {
    assert!(hits <= trials, "{hits} hits in {trials} trials");
    assert!(0.0 < level && level < 1.0, "a level of {level}");
    if trials == 0 {
        return None;
    }
    let side = (1.0 - level) / 2.0;
    // Both tails are monotonic in the probability.
    let low = match hits {
        0 => 0.0,
        _ => crossing(|p| 1.0 - at_most(hits - 1, trials, p) < side),
    };
    let high = match hits {
        all if all == trials => 1.0,
        _ => crossing(|p| at_most(hits, trials, p) > side),
    };
    Some((low, high))
}

/// The probability of at most `hits` in `trials` trials of probability `p`, 0 < p < 1.
fn at_most(hits: u64, trials: u64, p: f64) -> f64 {
    let odds = (p / (1.0 - p)).ln();
    // The first term may be too small for a floating-point number, so the terms are logarithms.
    let mut term = trials as f64 * (-p).ln_1p();
    let mut sum = term.exp();
    for seen in 0..hits {
        term += ((trials - seen) as f64 / (seen + 1) as f64).ln() + odds;
        sum += term.exp();
    }
    sum.min(1.0)
}

/// Returns the number between 0 and 1 up to which a condition holds.
fn crossing(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // 60 halvings leave no distinguishable number between the two ends.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match holds(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn close(found: Option<(f64, f64)>, low: f64, high: f64) {
        let found = found.unwrap();
        assert!((found.0 - low).abs() < 5e-5 && (found.1 - high).abs() < 5e-5, "{found:?}");
    }

    #[test]
    fn known_intervals_come_out() {
        // No hits and only hits have closed forms: 1 − (α/2)^(1/n), and its mirror image.
        close(interval(0, 40, 0.95), 0.0, 1.0 - 0.025f64.powf(1.0 / 40.0));
        close(interval(40, 40, 0.95), 0.025f64.powf(1.0 / 40.0), 1.0);
        // These are from tables of exact 95 % limits.
        close(interval(10, 100, 0.95), 0.04900, 0.17622);
        close(interval(1, 10, 0.95), 0.00253, 0.44502);
        close(interval(5, 10, 0.95), 0.18709, 0.81291);
        assert_eq!(interval(0, 0, 0.95), None);
    }

    #[test]
    fn many_trials_are_no_matter() {
        let (low, high) = interval(5_000, 100_000, 0.95).unwrap();
        assert!(0.0486 < low && low < 0.05 && 0.05 < high && high < 0.0514, "{low} {high}");
    }

    #[test]
    #[should_panic(expected = "3 hits in 2 trials")]
    fn more_hits_than_trials_are_refused() {
        interval(3, 2, 0.95);
    }

    proptest! {
        #[test]
        fn the_share_seen_lies_within_and_misses_mirror_hits(trials in 1u64..300, part in 0.0..1.0f64) {
            let hits = (trials as f64 * part) as u64;
            let (low, high) = interval(hits, trials, 0.95).unwrap();
            let share = hits as f64 / trials as f64;
            prop_assert!(low <= share && share <= high);
            let (mirrored_low, mirrored_high) = interval(trials - hits, trials, 0.95).unwrap();
            prop_assert!((mirrored_low - (1.0 - high)).abs() < 1e-9);
            prop_assert!((mirrored_high - (1.0 - low)).abs() < 1e-9);
        }

        #[test]
        fn it_covers_the_truth_as_often_as_it_says(trials in 1u64..60, truth in 0.01..0.99f64) {
            let covered: f64 = (0..=trials)
                .filter(|hits| {
                    let (low, high) = interval(*hits, trials, 0.9).unwrap();
                    low <= truth && truth <= high
                })
                .map(|hits| {
                    let below = if hits == 0 { 0.0 } else { at_most(hits - 1, trials, truth) };
                    at_most(hits, trials, truth) - below
                })
                .sum();
            prop_assert!(covered >= 0.9 - 1e-9, "{covered}");
        }
    }
}
