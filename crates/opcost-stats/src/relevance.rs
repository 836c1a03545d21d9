//! How far a count shifts when only seeds and layouts change.

use crate::summary::{mad, sd, sd_from_mad};

/// Returns the distance that the counts of two equal programs stay within, 19 times in 20, if each
/// program runs with a seed and a layout of its own.
///
/// `counts`: a finite figure for each seed and layout, all of one variant. The distance is 1.96·√2
/// standard deviations: √2, since a difference has the noise of two counts. The deviation is the
/// scaled median absolute deviation, which an odd layout does not move (Hampel 1974). If more than
/// half the counts are equal, it would be 0, and the plain deviation is used. A smaller change may
/// be exact for each seed, but a rebuild alone can cause as much (Mytkowicz et al., "Producing
/// Wrong Data Without Doing Anything Obviously Wrong!", ASPLOS 2009; Curtsinger & Berger,
/// "Stabilizer", ASPLOS 2013). `None` for fewer than [`COUNTS_MIN`] counts.
pub fn floor(counts: &[f64]) -> Option<f64> {
    if counts.len() < COUNTS_MIN {
        return None;
    }
    let robust = sd_from_mad(mad(counts)?);
    let deviation = if robust > 0.0 { robust } else { sd(counts)? };
    Some(1.96 * std::f64::consts::SQRT_2 * deviation)
}

/// The fewest seeds and layouts that show how far they shift a count.
pub const COUNTS_MIN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn known_answers() {
        // Median 103, deviations 3 1 0 1 1000: their median is 1.
        let got = floor(&[100.0, 102.0, 103.0, 104.0, 1103.0]).unwrap();
        assert!((got - 1.96 * 2f64.sqrt() * 1.482_602_218_505_602).abs() < 1e-9, "{got}");
        assert_eq!(floor(&[7.0; 6]), Some(0.0));
        // If more than half are equal, the plain deviation counts: √5 for 0 0 0 0 5.
        let got = floor(&[0.0, 0.0, 0.0, 0.0, 5.0]).unwrap();
        assert!((got - 1.96 * 10f64.sqrt()).abs() < 1e-9, "{got}");
        assert_eq!(floor(&[1.0, 2.0, 3.0, 4.0]), None);
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
