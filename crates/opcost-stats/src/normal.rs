//! The standard normal distribution, over the error function of `statrs`.

use statrs::function::erf::{erfc, erfc_inv};
use std::f64::consts::SQRT_2;

/// The 75 % point of the standard normal distribution: its median absolute deviation.
pub(crate) const MAD: f64 = 0.674_489_750_196_081_7;

/// Returns the probability of a value above `z`.
pub(crate) fn upper_tail(z: f64) -> f64 {
    0.5 * erfc(z / SQRT_2)
}

/// Returns the value exceeded with probability `p`, for `p` between 0 and 1.
pub(crate) fn exceeded_with(p: f64) -> f64 {
    SQRT_2 * erfc_inv(2.0 * p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // Abramowitz & Stegun, Handbook of Mathematical Functions, tables 26.1 and 26.5.
        for (z, p) in [
            (0.0, 0.5),
            (1.0, 0.158_655_253_931_457_05),
            (1.959_963_984_540_054, 0.025),
            (1.281_551_565_544_600_5, 0.1),
            (6.0, 9.865_876_450_376_98e-10),
        ] {
            assert!((upper_tail(z) / p - 1.0).abs() < 1e-9, "tail of {z}");
            assert!((exceeded_with(p) - z).abs() < 1e-9, "point of {p}");
        }
        assert!((exceeded_with(0.25) - MAD).abs() < 1e-12);
    }
}
