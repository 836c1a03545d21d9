//! The sign-flip test of the mean of block differences, and its interval.
//!
//! Fisher's randomisation test (The Design of Experiments, 1935, section 21). It keeps the sizes
//! of the differences, so it speaks of the mean, and a spike weighs in full. Its interval is made
//! of the means of subsets: flipping the signs of a subset takes the sum past the observed one
//! exactly if the subset's mean is on the other side of the shift tested (Hartigan, "Using
//! Subsample Values as Typical Values", JASA 64, 1969).

use crate::random::Random;

/// Up to this many differences all 2ⁿ signs are listed; beyond, [`DRAWS`] are drawn.
pub const EXACT_MAX: usize = 20;

/// Signs drawn where they are not listed; the smallest p possible is then 1/(1 + `DRAWS`).
pub const DRAWS: usize = 9_999;

/// The two-sided p-value of the hypothesis that finite differences are symmetric around 0, judged
/// by their mean.
///
/// `seed` is used beyond [`EXACT_MAX`] differences, where p is (1 + k)/(1 + m) of m draws: valid
/// however few they are (Phipson & Smyth, "Permutation P-values Should Never Be Zero", Stat. Appl.
/// Genet. Mol. Biol. 9(1), 2010). 1 if there are no differences.
pub fn p(differences: &[f64], seed: u64) -> f64 {
    let total: f64 = differences.iter().sum();
    // Sums of the same numbers in another order differ by rounding; equal is meant to count.
    let rounding = 1e-12 * differences.iter().map(|d| d.abs()).sum::<f64>();
    let as_far = |flipped: f64| (total - 2.0 * flipped).abs() >= total.abs() - rounding;
    if differences.len() <= EXACT_MAX {
        let sums = subset_sums(differences);
        sums.iter().filter(|sum| as_far(**sum)).count() as f64 / sums.len() as f64
    } else {
        let mut random = Random::new(seed);
        let drawn = (0..DRAWS).filter(|_| as_far(draw(differences, &mut random).sum));
        (1 + drawn.count()) as f64 / (1 + DRAWS) as f64
    }
}

/// The interval of the shifts that the test does not refuse at 1 − `level`, 0 < `level` < 1.
///
/// `seed` is used beyond [`EXACT_MAX`] differences. `None` if the level cannot be reached: by
/// fewer than six differences at 0.95, by any number at 0.9999 with [`DRAWS`] draws.
pub fn interval(differences: &[f64], level: f64, seed: u64) -> Option<(f64, f64)> {
    if !(0.0..1.0).contains(&level) {
        return None;
    }
    let n = differences.len();
    let alpha = 1.0 - level;
    // A shift below the k-th smallest of these means is refused, and so above the k-th largest.
    let (mut means, k) = if n <= EXACT_MAX {
        let mut means = subset_sums(differences);
        for (subset, sum) in means.iter_mut().enumerate() {
            *sum /= f64::from((subset as u32).count_ones());
        }
        let k = (alpha / 2.0 * means.len() as f64).floor() as usize;
        means.swap_remove(0); // the empty subset: the signs as they are, counted by k
        (means, k)
    } else {
        let whole = Drawn { size: n, sum: differences.iter().sum() };
        let mut random = Random::new(seed);
        let draws = (0..DRAWS).map(|_| draw(differences, &mut random));
        let (means, as_they_are) = means_of(draws, &whole);
        let k = (alpha * (1 + DRAWS) as f64).floor() as usize;
        let k = k.saturating_sub(as_they_are);
        (means, k)
    };
    if k == 0 || 2 * k > means.len() + 1 {
        return None;
    }
    let last = means.len() - k;
    let low = *means.select_nth_unstable_by(k - 1, f64::total_cmp).1;
    let high = *means.select_nth_unstable_by(last, f64::total_cmp).1;
    Some((low, high))
}

/// The sum of every subset; a subset's index has a bit for each difference in it.
fn subset_sums(differences: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0];
    for difference in differences {
        for subset in 0..sums.len() {
            sums.push(sums[subset] + difference);
        }
    }
    sums
}

/// The means of drawn subsets and of their complements, one for either tail; and how many draws
/// left the signs as they are, which is as far as the observed sum at any shift.
fn means_of(draws: impl Iterator<Item = Drawn>, whole: &Drawn) -> (Vec<f64>, usize) {
    let mut means = Vec::with_capacity(2 * DRAWS);
    let mut as_they_are = 0;
    for Drawn { size, sum } in draws {
        for (size, sum) in [(size, sum), (whole.size - size, whole.sum - sum)] {
            if size > 0 {
                means.push(sum / size as f64);
            } else {
                as_they_are += 1;
            }
        }
    }
    (means, as_they_are)
}

/// A subset of the differences: how many, and their sum.
struct Drawn {
    size: usize,
    sum: f64,
}

/// A random subset, every one equally likely.
fn draw(differences: &[f64], random: &mut Random) -> Drawn {
    let mut drawn = Drawn { size: 0, sum: 0.0 };
    for chunk in differences.chunks(64) {
        let mut bits = random.next_u64();
        for difference in chunk {
            if bits & 1 == 1 {
                drawn.size += 1;
                drawn.sum += difference;
            }
            bits >>= 1;
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary;
    use proptest::prelude::*;

    /// Darwin's maize, eighths of an inch (Fisher 1935, chapter 3).
    const MAIZE: [f64; 15] =
        [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];

    #[test]
    fn fishers_own_example() {
        // Section 21: 863 of 32,768 signs give a sum of 314 or more, so 1,726 either way.
        assert_eq!(p(&MAIZE, 0), 1726.0 / 32768.0);
        let (low, high) = interval(&MAIZE, 0.95, 0).unwrap();
        assert!((low + 1.0 / 6.0).abs() < 1e-12 && (high - 41.0).abs() < 1e-12, "{low} {high}");
    }

    #[test]
    fn drawn_and_listed_agree() {
        // Twice the maize minus a shift: 30 differences, about normal.
        let differences: Vec<f64> = MAIZE.iter().flat_map(|d| [d - 12.0, d + 3.5]).collect();
        let drawn = p(&differences, 1);
        let mean = summary::mean(&differences).unwrap();
        let sums: f64 = differences.iter().map(|d| d * d).sum();
        let z = mean * 30.0 / sums.sqrt();
        let normal = 2.0 * crate::normal::upper_tail(z);
        assert!((drawn - normal).abs() < 0.2 * normal, "{drawn} {normal}");
        assert_eq!(drawn, p(&differences, 1));

        // The interval's ends are where p crosses 0.05, by the same draws.
        let (low, high) = interval(&differences, 0.95, 1).unwrap();
        for (end, outwards) in [(low, -1e-6), (high, 1e-6)] {
            let at = |shift: f64| {
                let shifted: Vec<f64> = differences.iter().map(|d| d - shift).collect();
                p(&shifted, 1)
            };
            assert!(at(end + outwards) <= 0.05 && at(end - outwards) > 0.05, "at {end}");
        }
        assert_eq!(interval(&differences, 0.99999, 1), None);
    }

    #[test]
    fn a_draw_that_flips_nothing_or_everything_is_counted() {
        let subset = |size, sum| Drawn { size, sum };
        let draws = [subset(0, 0.0), subset(2, 3.0), subset(3, 6.0)];
        let (means, as_they_are) = means_of(draws.into_iter(), &subset(3, 6.0));
        assert_eq!((means, as_they_are), (vec![2.0, 1.5, 3.0, 2.0], 2));
    }

    #[test]
    fn few_and_none() {
        assert_eq!(p(&[], 0), 1.0);
        assert_eq!(p(&[0.0; 7], 0), 1.0);
        assert_eq!(p(&[1.0; 6], 0), 0.03125);
        assert_eq!(interval(&[], 0.95, 0), None);
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95, 0), None);
        assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95, 0), Some((1.0, 6.0)));
        assert_eq!(interval(&[1.0; 9], f64::NAN, 0), None);
        assert_eq!(interval(&[0.0; 30], 0.95, 0), Some((0.0, 0.0)));
    }

    proptest! {
        #[test]
        fn rounding_separates_no_equal_sums(values in prop::collection::vec(-9i32..10, 1..11)) {
            let scaled = |unit: f64| -> Vec<f64> { values.iter().map(|&v| f64::from(v) * unit).collect() };
            prop_assert_eq!(p(&scaled(0.1), 0), p(&scaled(1.0), 0));
        }

        #[test]
        fn listed_p_and_interval_agree(
            values in prop::collection::hash_set(-1000i32..1000, 6..12), level in 0.7..0.99f64,
        ) {
            let differences: Vec<f64> = values.iter().map(|&v| f64::from(v) - 1.0 / 3.0).collect();
            let refused = p(&differences, 0) <= 1.0 - level;
            let outside = interval(&differences, level, 0).is_some_and(|(low, high)| low > 0.0 || high < 0.0);
            prop_assert_eq!(refused, outside);
        }
    }
}
