//! How a cost grows with a parameter: which of six growths fits it best, and how well.
//!
//! Each growth f is fitted as `fixed + slope · f(n)`, both at least 0, by least squares of relative errors, since the noise of costs
//! grows with them. The sample-corrected criterion of Akaike says how likely each growth is (Hurvich & Tsai, "Regression and Time
//! Series Model Selection in Small Samples", Biometrika 76, 1989; Burnham & Anderson, Model Selection and Multimodel Inference, 2nd
//! ed., section 2.9). A growth is named only if it is [`LIKELIER`] times as likely as every other and its error is at most
//! [`ERROR_SHARE`] of every other's: with many values the criterion alone decides by errors of the model, not of the data.

use std::collections::BTreeSet;

/// The fewest different values of the parameter.
pub const VALUES_MIN: usize = 5;
/// How much likelier than every other a growth must be to be named.
pub const LIKELIER: f64 = 20.0;
/// The largest error of a growth that is named, as a share of every other's error.
pub const ERROR_SHARE: f64 = 0.75;
/// The largest relative error of a growth that is named.
pub const ERROR_MAX: f64 = 0.25;

/// A kind of growth.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// The cost does not depend on the parameter.
    Constant,
    /// log n
    Logarithmic,
    /// n
    Linear,
    /// n log n
    Linearithmic,
    /// n²
    Quadratic,
    /// n³
    Cubic,
}

impl Order {
    /// Every growth, the slowest first.
    const ALL: [Order; 6] = [
        Order::Constant,
        Order::Logarithmic,
        Order::Linear,
        Order::Linearithmic,
        Order::Quadratic,
        Order::Cubic,
    ];

    /// The growth at `n`; logarithms have base 2.
    fn at(self, n: f64) -> f64 {
        match self {
            Order::Constant => 1.0,
            Order::Logarithmic => n.log2(),
            Order::Linear => n,
            Order::Linearithmic => n * n.log2(),
            Order::Quadratic => n * n,
            Order::Cubic => n * n * n,
        }
    }

    /// The growth as people write it, of a parameter of this name.
    pub fn words(self, name: &str) -> String {
        match self {
            Order::Constant => "a constant".into(),
            Order::Logarithmic => format!("log {name}"),
            Order::Linear => name.into(),
            Order::Linearithmic => format!("{name} log {name}"),
            Order::Quadratic => format!("{name}²"),
            Order::Cubic => format!("{name}³"),
        }
    }
}

/// A growth fitted to costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The growth.
    pub order: Order,
    /// The cost that does not grow.
    pub fixed: f64,
    /// The cost of one unit of growth; 0 for a constant.
    pub slope: f64,
    /// The root of the mean squared relative error.
    pub error: f64,
    /// Akaike's criterion, the smaller the likelier.
    criterion: f64,
}

impl Fit {
    /// The cost at `n`.
    pub fn at(&self, n: f64) -> f64 {
        match self.order {
            Order::Constant => self.fixed,
            order => self.fixed + self.slope * order.at(n),
        }
    }
}

/// What a series of costs says about their growth.
#[derive(Clone, Debug, PartialEq)]
pub enum Growth {
    /// One growth fits far better than every other.
    Decided(Fit),
    /// Several growths fit about equally well, the likeliest first.
    Undecided(Vec<Fit>),
    /// No growth fits to within [`ERROR_MAX`]; the nearest.
    Unlike(Fit),
}

impl Growth {
    /// The growths that may be, the likeliest first; the nearest if none fits.
    pub fn fits(&self) -> &[Fit] {
        match self {
            Growth::Decided(fit) | Growth::Unlike(fit) => std::slice::from_ref(fit),
            Growth::Undecided(fits) => fits,
        }
    }
}

/// Fits every growth to pairs of a parameter and a cost.
///
/// `None` for fewer than [`VALUES_MIN`] different parameters, or if one of them or a cost is not finite and above 0.
pub fn growth(points: &[(f64, f64)]) -> Option<Growth> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if !points.iter().all(|(n, cost)| positive(*n) && positive(*cost)) {
        return None;
    }
    let values: BTreeSet<u64> = points.iter().map(|(n, _)| n.to_bits()).collect();
    if values.len() < VALUES_MIN {
        return None;
    }
    let mut fits: Vec<Fit> = Order::ALL.iter().filter_map(|order| fit(*order, points)).collect();
    fits.sort_by(|one, two| one.criterion.total_cmp(&two.criterion));
    let best = fits[0];
    if best.error > ERROR_MAX {
        return Some(Growth::Unlike(best));
    }
    let rivals = |other: &Fit| {
        other.criterion - best.criterion < 2.0 * LIKELIER.ln()
            || best.error > ERROR_SHARE * other.error
    };
    fits.retain(|other| *other == best || rivals(other));
    Some(match fits.len() {
        1 => Growth::Decided(best),
        _ => Growth::Undecided(fits),
    })
}

/// One growth fitted by least squares of relative errors; `None` if it would have to shrink.
fn fit(order: Order, points: &[(f64, f64)]) -> Option<Fit> {
    let mut sums = [0.0; 5];
    let size = points.iter().map(|(n, _)| order.at(*n).abs()).fold(0.0, f64::max);
    if size == 0.0 || !size.is_finite() {
        return None;
    }
    for (n, cost) in points {
        let (one, grown) = (1.0 / cost, order.at(*n) / size / cost);
        for (sum, term) in sums.iter_mut().zip([one * one, one * grown, grown * grown, one, grown])
        {
            *sum += term;
        }
    }
    let [oo, og, gg, o, g] = sums;
    let determinant = oo * gg - og * og;
    let (fixed, slope) = match order {
        Order::Constant => (o / oo, 0.0),
        // Points at which the growth is the same everywhere tell nothing of it.
        _ if determinant <= 1e-12 * oo * gg => return None,
        _ => match ((o * gg - g * og) / determinant, (g * oo - o * og) / determinant) {
            (_, slope) if slope <= 0.0 => return None,
            (fixed, _) if fixed < 0.0 => (0.0, g / gg),
            both => both,
        },
    };
    let slope = slope / size;
    let mut fit = Fit { order, fixed, slope, error: 0.0, criterion: 0.0 };
    let squares: f64 = points.iter().map(|(n, cost)| (fit.at(*n) / cost - 1.0).powi(2)).sum();
    let count = points.len() as f64;
    fit.error = (squares / count).sqrt();
    // Two coefficients and the variance, or one and the variance.
    let free = if order == Order::Constant { 2.0 } else { 3.0 };
    // A perfect fit has errors of rounding.
    let variance = (squares / count).max(1e-24);
    fit.criterion = count * variance.ln() + 2.0 * free * count / (count - free - 1.0);
    Some(fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Costs of `order` at doubling parameters, with noise of about `noise`.
    fn costs(order: Order, count: u32, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = Random::new(seed);
        (0..count)
            .map(|step| {
                let n = 100.0 * 2f64.powi(step as i32);
                let sum: f64 =
                    (0..12).map(|_| random.below(1_000_001) as f64 / 1e6).sum::<f64>() - 6.0;
                (n, (50.0 + 3.0 * order.at(n)) * (1.0 + noise * sum))
            })
            .collect()
    }

    fn decided(points: &[(f64, f64)]) -> Option<Fit> {
        match growth(points)? {
            Growth::Decided(fit) => Some(fit),
            _ => None,
        }
    }

    #[test]
    fn a_planted_growth_is_found_with_its_coefficients() {
        for order in Order::ALL.into_iter().skip(1) {
            let fit = decided(&costs(order, 12, 0.0, 1)).unwrap();
            assert_eq!(fit.order, order);
            assert!((fit.fixed - 50.0).abs() < 1e-3 && (fit.slope - 3.0).abs() < 1e-9, "{fit:?}");
            let found = (0..100).filter(|seed| {
                decided(&costs(order, 12, 0.01, *seed)).is_some_and(|fit| fit.order == order)
            });
            assert!(found.count() >= 95, "{order:?}");
        }
    }

    #[test]
    fn a_wrong_growth_is_seldom_named() {
        for order in Order::ALL {
            let wrong = (0..400).filter(|seed| {
                decided(&costs(order, 6, 0.05, *seed)).is_some_and(|fit| fit.order != order)
            });
            assert!(wrong.count() <= 20, "{order:?}");
        }
    }

    #[test]
    fn known_answers_of_weighted_least_squares() {
        // The normal equations in exact fractions.
        let points = [(1.0, 3.1), (2.0, 4.9), (3.0, 7.2), (4.0, 8.9), (5.0, 11.1)];
        let line = fit(Order::Linear, &points).unwrap();
        assert!(
            (line.fixed - 1.0882048610442314).abs() < 1e-9
                && (line.slope - 1.979973744169406).abs() < 1e-9,
            "{line:?}"
        );
        assert!((line.error - 0.019175925118637024).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn growths_that_look_alike_and_costs_of_no_growth_are_not_named() {
        let near = (0..8).map(|step| {
            let n = 100.0 + 5.0 * f64::from(step);
            (n, 3.0 * n * if step % 2 == 0 { 1.01 } else { 0.99 })
        });
        let near = growth(&near.collect::<Vec<_>>());
        assert!(matches!(near, Some(Growth::Undecided(fits)) if fits.len() > 3));
        let jump: Vec<(f64, f64)> =
            (1..=12).map(|n| (f64::from(n), if n % 2 == 0 { 1.0 } else { 90.0 })).collect();
        assert!(matches!(growth(&jump), Some(Growth::Unlike(_))));
        let falling: Vec<(f64, f64)> =
            (1..=12).map(|n| (f64::from(n), 100.0 / f64::from(n))).collect();
        assert!(matches!(growth(&falling), Some(Growth::Unlike(_))));
    }

    #[test]
    fn what_cannot_be_fitted_has_no_growth() {
        assert_eq!(growth(&[]), None);
        assert_eq!(growth(&[(1.0, 1.0); 9]), None);
        let mut points = costs(Order::Linear, 6, 0.0, 1);
        assert!(growth(&points).is_some());
        for bad in [(0.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY), (-1.0, 2.0)] {
            points[3] = bad;
            assert_eq!(growth(&points), None, "{bad:?}");
        }
    }
}
