//! Finds a step along a line of points whose figures vary: Bayes' rule over the step's places.
//!
//! Every point is compared with the first one in pairs. If the step is at or before a point, the point's
//! differences lie around the step's size, else around 0. The differences have Student's t distribution with few
//! degrees of freedom, so one disturbed pair cannot decide. The next point halves the probability, as in M. Ben-Or
//! and A. Hassidim, "The Bayesian Learner is Optimal for Noisy Binary Search" (FOCS 2008).

/// The degrees of freedom of a difference: few, for heavy tails.
const DEGREES: f64 = 3.0;

/// The probability of each place of a step.
#[derive(Clone, Debug)]
pub struct StepPosterior {
    /// Logarithms of the probabilities, up to a constant; place 0 is the step to point 1.
    log: Vec<f64>,
    size: f64,
    scale: f64,
}

impl StepPosterior {
    /// Makes a posterior in which every place is equally probable.
    ///
    /// `places`: their number, one fewer than points; `size`: the step's size in the unit of the differences;
    /// `scale`: the scale of the differences, above 0.
    pub fn new(places: usize, size: f64, scale: f64) -> StepPosterior {
        StepPosterior { log: vec![0.0; places], size, scale: scale.max(f64::MIN_POSITIVE) }
    }

    /// Learns from the differences between a point and the first one.
    ///
    /// `point`: from 1 on, since the first point has no differences.
    pub fn learn(&mut self, point: usize, differences: &[f64]) {
        let log_density = |difference: f64, center: f64| {
            let z = (difference - center) / self.scale;
            -(DEGREES + 1.0) / 2.0 * (z * z / DEGREES).ln_1p()
        };
        let of = |center: f64| differences.iter().map(|one| log_density(*one, center)).sum::<f64>();
        let (with, without) = (of(self.size), of(0.0));
        for (place, log) in self.log.iter_mut().enumerate() {
            *log += if place < point { with } else { without };
        }
    }

    /// Returns the probability of each place; the probabilities add up to 1.
    pub fn probabilities(&self) -> Vec<f64> {
        let most = self.log.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = self.log.iter().map(|log| (log - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }

    /// Returns the point to look at next: the one of `points` that halves the probability best.
    ///
    /// `points`: the points that can be looked at, from 1 on, without the last one, which has the step.
    pub fn next(&self, points: impl Iterator<Item = usize>) -> Option<usize> {
        let probabilities = self.probabilities();
        let before = |point: usize| probabilities[..point].iter().sum::<f64>();
        points.min_by(|one, other| {
            (before(*one) - 0.5).abs().total_cmp(&(before(*other) - 0.5).abs())
        })
    }

    /// Returns the fewest neighbouring places that together have a probability of `level`: the first place, and
    /// the place behind the last.
    ///
    /// `level`: 0 to 1.
    pub fn credible(&self, level: f64) -> std::ops::Range<usize> {
        let probabilities = self.probabilities();
        let mut best = 0..probabilities.len();
        for begin in 0..probabilities.len() {
            let mut sum = 0.0;
            for (end, probability) in probabilities.iter().enumerate().skip(begin) {
                sum += probability;
                if sum >= level {
                    if end + 1 - begin < best.len() {
                        best = begin..end + 1;
                    }
                    break;
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Returns a difference with noise: a sum of twelve uniform numbers is nearly normal.
    fn noisy(generator: &mut Random, center: f64) -> f64 {
        let uniform =
            |generator: &mut Random| (generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        center + (0..12).map(|_| uniform(generator)).sum::<f64>() - 6.0
    }

    #[test]
    fn one_pair_is_bayes_rule() {
        let mut posterior = StepPosterior::new(2, 2.0, 1.0);
        assert_eq!(posterior.probabilities(), [0.5, 0.5]);
        // The densities of t with 3 degrees of freedom at 0 and at 2 have the ratio (1 + 4/3)² to 1.
        posterior.learn(1, &[2.0]);
        let ratio = (1.0f64 + 4.0 / 3.0).powi(2);
        let [first, second] = posterior.probabilities()[..] else { unreachable!() };
        assert!((first / second - ratio).abs() < 1e-9);
        assert_eq!(posterior.credible(0.8), 0..1);
        assert_eq!(posterior.credible(0.9), 0..2);
    }

    #[test]
    fn the_next_point_halves_what_is_probable() {
        let mut posterior = StepPosterior::new(16, 1.0, 0.01);
        assert_eq!(posterior.next(1..16), Some(8));
        posterior.learn(8, &[1.0, 1.0, 1.0]);
        assert_eq!(posterior.next(1..16), Some(4));
        assert_eq!(posterior.next((1..16).filter(|point| *point != 4)), Some(3));
        assert_eq!(posterior.next(std::iter::empty()), None);
    }

    /// With noise as large as the step, the answer is right at least as often as its level says.
    #[test]
    fn answers_are_right_as_often_as_they_say() {
        let (mut generator, places, level) = (Random::new(7), 40, 0.95);
        let (mut right, mut looks, rounds) = (0, 0, 300);
        for round in 0..rounds {
            let place = round % places;
            let mut posterior = StepPosterior::new(places, 1.0, 1.0);
            while posterior.credible(level).len() > 1 {
                let point = posterior.next(1..places).unwrap();
                let center = if place < point { 1.0 } else { 0.0 };
                let differences: Vec<f64> = (0..6).map(|_| noisy(&mut generator, center)).collect();
                posterior.learn(point, &differences);
                looks += 1;
            }
            right += usize::from(posterior.credible(level).start == place);
        }
        assert!(right as f64 >= 0.93 * rounds as f64, "{right} of {rounds}");
        // Without noise, 5 or 6 looks decide among 40 places.
        assert!(looks < rounds * 20, "{} looks each", looks / rounds);
    }
}
