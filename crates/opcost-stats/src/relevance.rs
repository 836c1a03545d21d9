//! How far a count shifts when only seeds and layouts change.
//!
//! **A floor takes the distance of layouts as it is.** The layout floor was 2.8 robust deviations, which a second mode in two
//! layouts of eleven does not move, so a second mode could be many floors away. The floor is now the distance within which 95
//! % of all pairs of layouts lie, or the robust estimate if that is larger. A gate draws it from eleven layouts in place of
//! five. That costs six more runs on the base, once.

use crate::summary::{mad, sd_from_mad};

/// Returns the distance that the counts of two equal programs stay within, 19 times in 20, if each
/// program runs with a seed and a layout of its own.
///
/// `counts`: a finite figure for each seed and layout, all of one variant. The distance is the larger
/// of two estimates. The first is the distance within which 95 % of all pairs of the counts lie; for
/// six counts or fewer it is their range. It assumes no distribution, so a second mode counts even
/// if one layout in forty has it. The second is 1.96·√2 scaled median absolute deviations (Hampel
/// 1974), which is larger if the counts are few and spread like a normal distribution: √2, since a
/// difference has the noise of two counts. A smaller change may be exact for each seed, but a rebuild
/// alone can cause as much (Mytkowicz et al., "Producing Wrong Data Without Doing Anything Obviously
/// Wrong!", ASPLOS 2009; Curtsinger & Berger, "Stabilizer", ASPLOS 2013). `None` for fewer than
/// [`COUNTS_MIN`] counts. A mode that none of the layouts had is not in the distance, so say with it
/// how many layouts were run.
pub fn floor(counts: &[f64]) -> Option<f64> {
    if counts.len() < COUNTS_MIN {
        return None;
    }
    let normal = 1.96 * std::f64::consts::SQRT_2 * sd_from_mad(mad(counts)?);
    Some(distance_of_most(counts).max(normal))
}

/// Returns a distance that seeds and layouts alone are seen to move counts by, from any number of layouts: the floor, or the range
/// of counts that are too few for one. A change below it says nothing; a change above the range of few layouts may be theirs, too.
pub fn seen(counts: &[f64]) -> Option<f64> {
    floor(counts).or_else(|| (counts.len() > 1).then(|| distance_of_most(counts)))
}

/// The distance within which 95 % of all pairs of at least two counts lie.
fn distance_of_most(counts: &[f64]) -> f64 {
    let mut sorted = counts.to_vec();
    sorted.sort_by(f64::total_cmp);
    let pairs = sorted.len() * (sorted.len() - 1) / 2;
    let needed = (pairs * 95).div_ceil(100);
    let within = |distance: f64| {
        let mut first = 0;
        let of_each = sorted.iter().enumerate().map(|(at, count)| {
            while count - sorted[first] > distance {
                first += 1;
            }
            at - first
        });
        of_each.sum::<usize>()
    };
    // Distances are not negative, and the bits of such numbers are in their order.
    let (mut low, mut high) = (0, (sorted[sorted.len() - 1] - sorted[0]).to_bits());
    while low < high {
        let middle = low + (high - low) / 2;
        match within(f64::from_bits(middle)) >= needed {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    f64::from_bits(low)
}

/// The fewest seeds and layouts that show how far they shift a count.
pub const COUNTS_MIN: usize = 5;

/// The seeds and layouts from which a floor is drawn where their number is free. With so many, a mode
/// that one layout in four has is seen 19 times in 20: 0.75¹¹ < 0.05.
pub const COUNTS_WANTED: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn known_answers() {
        // Five counts have ten pairs, of which 95 % are all: the range.
        assert_eq!(floor(&[100.0, 102.0, 103.0, 104.0, 1103.0]), Some(1003.0));
        assert_eq!(floor(&[0.0, 0.0, 0.0, 0.0, 5.0]), Some(5.0));
        assert_eq!(floor(&[7.0; 6]), Some(0.0));
        // Median 103, deviations 3 1 0 1 3: their median is 1, and the range is 6.
        assert_eq!(floor(&[100.0, 102.0, 103.0, 104.0, 106.0]), Some(6.0));
        // Median 10, deviations 10 10 0 10 10: the normal estimate is larger than the range.
        let got = floor(&[0.0, 0.0, 10.0, 20.0, 20.0]).unwrap();
        assert!((got - 1.96 * 2f64.sqrt() * 14.826_022_185_056_02).abs() < 1e-9, "{got}");
        assert_eq!(floor(&[1.0, 2.0, 3.0, 4.0]), None);
        assert_eq!(
            [&[5.0, 1.0, 2.0][..], &[7.0; 6], &[1.0]].map(seen),
            [Some(4.0), Some(0.0), None]
        );
    }

    #[test]
    fn a_second_mode_counts_though_few_layouts_have_it() {
        let with_odd = |layouts: usize, odd: usize| -> Vec<f64> {
            (0..layouts).map(|at| if at < odd { 195_000.0 } else { (at % 7) as f64 }).collect()
        };
        for (layouts, odd) in [(5, 1), (11, 1), (12, 1), (30, 1), (100, 3)] {
            assert!(floor(&with_odd(layouts, odd)).unwrap() > 190_000.0, "{odd} of {layouts}");
        }
        // One layout in a hundred is in 2 % of the pairs.
        assert!(floor(&with_odd(100, 1)).unwrap() < 10.0);
        // The layouts wanted see a mode of one in four.
        assert!(0.75f64.powi(COUNTS_WANTED as i32) < 0.05);
    }

    #[test]
    fn the_distance_is_that_of_sorted_pairs() {
        let mut random = Random::new(7);
        for count in [2, 5, 6, 7, 12, 41] {
            let counts: Vec<f64> = (0..count).map(|_| random.unit_f64() * 1e6).collect();
            let mut pairs: Vec<f64> = Vec::new();
            for (at, one) in counts.iter().enumerate() {
                pairs.extend(counts[..at].iter().map(|other| (one - other).abs()));
            }
            pairs.sort_by(f64::total_cmp);
            let expected = pairs[(pairs.len() * 95).div_ceil(100) - 1];
            assert_eq!(distance_of_most(&counts), expected, "{count}");
        }
    }

    #[test]
    fn two_layouts_of_equal_programs_are_this_close_19_times_in_20() {
        let mut random = Random::new(1);
        // The sum of twelve uniform numbers is about normal.
        let mut count = || (0..12).map(|_| random.unit_f64()).sum::<f64>();
        let known: Vec<f64> = (0..2_000).map(|_| count()).collect();
        let floor = floor(&known).unwrap();
        let within = (0..10_000).filter(|_| (count() - count()).abs() <= floor).count();
        assert!((9_350..=9_650).contains(&within), "{within} of 10,000");
    }
}
