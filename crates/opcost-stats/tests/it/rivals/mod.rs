//! The rules by which other tools call two samples different, after their documentation.

use opcost_stats::Random;
use opcost_stats::summary::{mean, sd};
use statrs::function::beta::beta_reg;
use statrs::function::erf::erfc;

/// The level at which all these tools call a difference significant.
const ALPHA: f64 = 0.05;

/// Returns Welch's t and its degrees of freedom; t is 0 if nothing varies and nothing differs.
fn welch(a: &[f64], b: &[f64]) -> (f64, f64) {
    let part = |values: &[f64]| sd(values).unwrap_or(0.0).powi(2) / values.len() as f64;
    let (one, two) = (part(a), part(b));
    let difference = mean(b).unwrap_or(0.0) - mean(a).unwrap_or(0.0);
    if difference == 0.0 {
        return (0.0, 1.0);
    }
    let freedom = (one + two).powi(2)
        / (one * one / (a.len() as f64 - 1.0) + two * two / (b.len() as f64 - 1.0));
    (difference / (one + two).sqrt(), freedom)
}

/// The p-value of Welch's two-sided t test, as hyperfine's `scripts/welch_ttest.py` does it with
/// two results, by SciPy's `ttest_ind(…, equal_var=False)` at 0.05.
pub(crate) fn welch_p(a: &[f64], b: &[f64]) -> f64 {
    let (t, freedom) = welch(a, b);
    // Abramowitz & Stegun, Handbook of Mathematical Functions, 26.7.1 with 26.5.27.
    if t.is_finite() { beta_reg(freedom / 2.0, 0.5, freedom / (freedom + t * t)) } else { 0.0 }
}

/// Whether hyperfine's script reports a difference.
pub(crate) fn hyperfine(a: &[f64], b: &[f64]) -> bool {
    welch_p(a, b) < ALPHA
}

/// The p-value of the two-sided Mann-Whitney U test, normal with ties and continuity correction:
/// benchstat's default (golang.org/x/perf/cmd/benchstat, "Mann-Whitney U-test", alpha 0.05).
pub(crate) fn mann_whitney_p(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|v| (*v, false)).chain(b.iter().map(|v| (*v, true))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (m, n) = (a.len() as f64, b.len() as f64);
    let (mut below, mut rank_sum, mut ties) = (0.0, 0.0, 0.0);
    for tied in all.chunk_by(|x, y| x.0 == y.0) {
        let size = tied.len() as f64;
        rank_sum += tied.iter().filter(|v| v.1).count() as f64 * (below + (size + 1.0) / 2.0);
        ties += size.powi(3) - size;
        below += size;
    }
    let u = rank_sum - n * (n + 1.0) / 2.0;
    let total = m + n;
    let variance = m * n / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - m * n / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    erfc(z / std::f64::consts::SQRT_2).min(1.0)
}

/// Whether benchstat shows a difference and not `~`.
pub(crate) fn benchstat(a: &[f64], b: &[f64]) -> bool {
    mann_whitney_p(a, b) < ALPHA
}

/// Whether criterion reports that performance has regressed or improved: the bootstrapped t test at
/// 0.05, and the whole 95 % interval of the change of the mean beyond the noise threshold of 1 %
/// (criterion.rs, book, "Analysis Process", and `Criterion::noise_threshold`).
pub(crate) fn criterion(a: &[f64], b: &[f64], resamples: usize, random: &mut Random) -> bool {
    const NOISE_THRESHOLD: f64 = 0.01;
    let observed = welch(a, b).0.abs();
    let pool: Vec<f64> = a.iter().chain(b).copied().collect();
    let mut draw = |from: &[f64], to: &mut Vec<f64>, size: usize| {
        to.clear();
        to.extend((0..size).map(|_| from[random.index(from.len())]));
    };
    let (mut one, mut two) = (Vec::new(), Vec::new());
    let mut as_far = 0;
    let mut changes = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        draw(&pool, &mut one, a.len());
        draw(&pool, &mut two, b.len());
        as_far += usize::from(welch(&one, &two).0.abs() >= observed);
        draw(a, &mut one, a.len());
        draw(b, &mut two, b.len());
        changes.push(mean(&two).unwrap_or(0.0) / mean(&one).unwrap_or(1.0) - 1.0);
    }
    changes.sort_by(f64::total_cmp);
    let at = |share: f64| changes[(share * (resamples - 1) as f64).round() as usize];
    let significant = (as_far as f64 / resamples as f64) < ALPHA;
    significant && (at(0.025) > NOISE_THRESHOLD || at(0.975) < -NOISE_THRESHOLD)
}
