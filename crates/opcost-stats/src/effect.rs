//! One metric of two variants: the change, its interval, p, and what would have been found.
//!
//! [`Paired`] reduces blocks to one difference each, once; p, interval and detectable effect are
//! then computed at whatever level is wanted, as the corrected level of a metric is known only
//! when the p-values of all metrics are. [`effect()`] does all in one call.

use crate::{power, rank, summary};

pub use crate::block::{Block, Scale};

/// Why there is no effect to state.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EffectError {
    /// No block has values of both sides.
    #[error(
        "none of {given} blocks has a completed run of both variants; see the failed runs, or run more blocks"
    )]
    NoBlocks {
        /// How many blocks there were.
        given: usize,
    },
    /// A value is not a number, or infinite.
    #[error(
        "a value of the {side} in block {block} is {value}, which is not finite; leave that run out"
    )]
    NotFinite {
        /// The block, from 0.
        block: usize,
        /// `baseline` or `variant`.
        side: &'static str,
        /// The value.
        value: f64,
    },
    /// The error rate asked for is not one.
    #[error("an error rate of {0} is not between 0 and 1; give one such as 0.05")]
    Alpha(f64),
}

/// The effect of the variant against the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The scale of the test.
    pub scale: Scale,
    /// Blocks with values of both sides: the units of the test.
    pub n_blocks: usize,
    /// Runs of the baseline that stand against one of the variant in the same block.
    pub n_pairs: usize,
    /// Median of all the baseline's runs, blocks that lack a side left out.
    pub value_baseline: f64,
    /// Median of all the variant's runs, likewise.
    pub value_variant: f64,
    /// The estimated change as variant/baseline − 1; `None` where the baseline's median is 0.
    pub change_ratio: Option<f64>,
    /// The interval of `change_ratio`; `None` where that is, or where so few blocks cannot reach
    /// the level.
    pub ci: Option<(f64, f64)>,
    /// The level of `ci`.
    pub ci_level: f64,
    /// The two-sided p-value, not adjusted for other tests.
    pub p: f64,
    /// The smallest p that this many blocks can give.
    pub p_floor: f64,
    /// The smallest change, as a ratio above 0, that would have been found at the same error rate
    /// with probability 0.9; `None` where the baseline's median is 0 or the rate out of reach.
    pub mde_ratio: Option<f64>,
}

/// States the effect of the variant, at error rate `alpha` and with `seed` for the simulation
/// behind `mde_ratio`.
///
/// # Errors
/// Those of [`Paired::new`], and [`EffectError::Alpha`] if `alpha` is not between 0 and 1.
pub fn effect(blocks: &[Block<'_>], alpha: f64, seed: u64) -> Result<Effect, EffectError> {
    Paired::new(blocks)?.effect(alpha, seed)
}

/// The blocks of two variants as one difference each.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    scale: Scale,
    differences: Vec<f64>,
    /// The same in ascending order, so that every later question sorts nothing.
    ordered: Vec<f64>,
    n_pairs: usize,
    value_baseline: f64,
    value_variant: f64,
    all_alike: bool,
}

impl Paired {
    /// Takes the difference of every block that has both sides: the mean of the variant's
    /// logarithms less the mean of the baseline's, or of the plain values if any is 0 or below.
    ///
    /// # Errors
    /// [`EffectError::NotFinite`] names the first value that is not a finite number;
    /// [`EffectError::NoBlocks`] if no block has both sides.
    pub fn new(blocks: &[Block<'_>]) -> Result<Paired, EffectError> {
        for (block, Block { baseline, variant }) in blocks.iter().enumerate() {
            for (side, values) in [("baseline", baseline), ("variant", variant)] {
                summary::check_finite(values).map_err(|error| EffectError::NotFinite {
                    block,
                    side,
                    value: error.value,
                })?;
            }
        }
        let complete: Vec<&Block<'_>> = blocks.iter().filter(|block| block.complete()).collect();
        let side = |of: for<'b> fn(&'b Block<'_>) -> &'b [f64]| -> Vec<f64> {
            complete.iter().flat_map(|block| of(block).iter().copied()).collect()
        };
        let (baseline, variant) = (side(|block| &block.baseline), side(|block| &block.variant));
        let (Some(value_baseline), Some(value_variant)) =
            (summary::median(&baseline), summary::median(&variant))
        else {
            return Err(EffectError::NoBlocks { given: blocks.len() });
        };
        let mut all = baseline.iter().chain(&variant);
        let scale =
            if all.clone().all(|value| *value > 0.0) { Scale::LogRatio } else { Scale::Difference };
        let differences: Vec<f64> = complete.iter().map(|block| block.difference(scale)).collect();
        Ok(Paired {
            scale,
            ordered: summary::sorted(&differences),
            differences,
            n_pairs: complete.iter().map(|b| b.baseline.len().min(b.variant.len())).sum(),
            value_baseline,
            value_variant,
            all_alike: all.all(|value| *value == value_baseline),
        })
    }

    /// The scale of the differences.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// One difference for each complete block, in their order.
    pub fn differences(&self) -> &[f64] {
        &self.differences
    }

    /// Runs of the baseline that stand against one of the variant in the same block.
    pub fn n_pairs(&self) -> usize {
        self.n_pairs
    }

    /// The two-sided p-value of the signed-rank test: see [`rank::p`].
    pub fn p(&self) -> f64 {
        rank::p(&self.ordered)
    }

    /// The smallest p that this many blocks can give.
    pub fn p_floor(&self) -> f64 {
        rank::p_floor(self.differences.len())
    }

    /// The Hodges-Lehmann estimate of the shift, on the scale of the differences.
    pub fn estimate(&self) -> f64 {
        rank::estimate(&self.ordered).expect("at least one block, by Paired::new")
    }

    /// The interval of the shift at `level`, on the scale of the differences: see
    /// [`rank::interval`]. `None` if so few blocks cannot reach the level.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        rank::interval(&self.ordered, level)
    }

    /// The smallest shift found at level `alpha` with probability 0.9, on the scale of the
    /// differences: see [`power::detectable_shift`].
    pub fn detectable_shift(&self, alpha: f64, seed: u64) -> Option<f64> {
        power::detectable_shift(&self.ordered, alpha, power::POWER, seed)
    }

    /// The estimated change as variant/baseline − 1; `None` where the baseline's median is 0.
    pub fn change_ratio(&self) -> Option<f64> {
        self.ratio(self.estimate())
    }

    /// The interval of [`change_ratio`](Self::change_ratio) at `level`; `None` where either is.
    pub fn interval_ratio(&self, level: f64) -> Option<(f64, f64)> {
        self.interval(level).and_then(|interval| self.ratios(interval))
    }

    /// An interval of shifts as one of ratios.
    pub fn ratios(&self, (low, high): (f64, f64)) -> Option<(f64, f64)> {
        let (low, high) = (self.ratio(low)?, self.ratio(high)?);
        // Over a baseline below 0 the greater shift is the smaller ratio.
        Some((low.min(high), low.max(high)))
    }

    /// [`detectable_shift`](Self::detectable_shift) as a ratio above 0: the increase; on the log
    /// scale the decrease found as often is slightly smaller. `None` where the baseline's median
    /// is 0 or `alpha` out of reach.
    pub fn detectable_ratio(&self, alpha: f64, seed: u64) -> Option<f64> {
        let shift = self.detectable_shift(alpha, seed)?;
        self.ratio(shift).map(f64::abs)
    }

    /// [`interval`](Self::interval) and [`detectable_shift`](Self::detectable_shift) at one error
    /// rate, for the price of one where there are many blocks.
    pub fn interval_and_detectable(
        &self,
        alpha: f64,
        seed: u64,
    ) -> (Option<(f64, f64)>, Option<f64>) {
        let interval = self.interval(1.0 - alpha);
        let shift = match interval {
            Some((low, high)) if self.ordered.len() > power::RESAMPLED_MAX => {
                Some(power::shift_from_width(high - low, alpha, power::POWER))
            }
            _ => self.detectable_shift(alpha, seed),
        };
        (interval, shift)
    }

    /// A difference in the unit of the values as a ratio to the baseline's median; `None` where
    /// that is 0.
    pub fn step_ratio(&self, step: f64) -> Option<f64> {
        (self.value_baseline != 0.0).then(|| step / self.value_baseline)
    }

    /// Everything, at one error rate.
    ///
    /// # Errors
    /// [`EffectError::Alpha`] if `alpha` is not between 0 and 1.
    pub fn effect(&self, alpha: f64, seed: u64) -> Result<Effect, EffectError> {
        if alpha.is_nan() || alpha <= 0.0 || alpha >= 1.0 {
            return Err(EffectError::Alpha(alpha));
        }
        let ci_level = 1.0 - alpha;
        Ok(Effect {
            scale: self.scale,
            n_blocks: self.differences.len(),
            n_pairs: self.n_pairs,
            value_baseline: self.value_baseline,
            value_variant: self.value_variant,
            change_ratio: self.change_ratio(),
            ci: self.interval_ratio(ci_level),
            ci_level,
            p: self.p(),
            p_floor: self.p_floor(),
            mde_ratio: self.detectable_ratio(alpha, seed),
        })
    }

    /// A shift as variant/baseline − 1; `None` where the baseline's median is 0.
    pub fn ratio(&self, shift: f64) -> Option<f64> {
        match self.scale {
            Scale::LogRatio => Some(shift.exp_m1()),
            // Nothing changed, which is a change of 0 even against a baseline of 0.
            Scale::Difference if self.all_alike => Some(0.0),
            Scale::Difference if self.value_baseline == 0.0 => None,
            Scale::Difference => Some(shift / self.value_baseline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(baseline: &[f64], variant: &[f64]) -> Block<'static> {
        Block { baseline: baseline.to_vec().into(), variant: variant.to_vec().into() }
    }

    /// Eight blocks in which the variant is `times` the baseline, and noise of some thousandths.
    fn blocks(times: f64) -> Vec<Block<'static>> {
        (0..8u32)
            .map(|b| {
                let noise = |slot: u32| 1.0 + f64::from((b * 7 + slot * 5) % 11) / 1000.0;
                let value = |slot| 100.0 * noise(slot);
                block(&[value(0), value(3)], &[times * value(1), times * value(2)])
            })
            .collect()
    }

    #[test]
    fn a_change_is_found_and_stated_as_a_ratio() {
        let effect = effect(&blocks(1.1), 0.05, 1).unwrap();
        assert_eq!(effect.scale, Scale::LogRatio);
        assert_eq!((effect.n_blocks, effect.n_pairs), (8, 16));
        assert_eq!((effect.p, effect.p_floor), (2.0 / 256.0, 2.0 / 256.0));
        assert_eq!(effect.ci_level, 0.95);
        let (low, high) = effect.ci.unwrap();
        let change = effect.change_ratio.unwrap();
        assert!(low < change && change < high && (change - 0.1).abs() < 0.005, "{effect:?}");
        assert!((low..=high).contains(&0.1), "{effect:?}");
        assert!((100.0..101.0).contains(&effect.value_baseline), "{effect:?}");
        assert!((110.0..111.2).contains(&effect.value_variant), "{effect:?}");
        assert!((0.0005..0.02).contains(&effect.mde_ratio.unwrap()), "{effect:?}");
    }

    #[test]
    fn known_answer_on_the_log_scale() {
        // Differences ln 2, six times: any Walsh average is ln 2.
        let effect = effect(&vec![block(&[1.0, 4.0], &[2.0, 8.0]); 6], 0.05, 1).unwrap();
        assert!((effect.change_ratio.unwrap() - 1.0).abs() < 1e-12);
        let (low, high) = effect.ci.unwrap();
        assert!((low - 1.0).abs() < 1e-12 && (high - 1.0).abs() < 1e-12);
        assert_eq!(effect.p, 0.03125);
    }

    #[test]
    fn known_answer_on_the_difference_scale() {
        let blocks: Vec<Block> =
            (1..=6).map(|d| block(&[0.0, 20.0], &[10.0 + f64::from(d)])).collect();
        let effect = effect(&blocks, 0.05, 1).unwrap();
        assert_eq!(effect.scale, Scale::Difference);
        assert_eq!((effect.n_blocks, effect.n_pairs), (6, 6));
        assert_eq!((effect.value_baseline, effect.value_variant), (10.0, 13.5));
        assert_eq!((effect.change_ratio, effect.ci), (Some(0.35), Some((0.1, 0.6))));
        assert!(effect.mde_ratio.unwrap() > 0.0);
    }

    #[test]
    fn a_baseline_of_zero_has_no_ratio_but_a_p_and_a_shift() {
        let paired = Paired::new(&vec![block(&[0.0, 0.0], &[2.0, 4.0]); 6]).unwrap();
        let effect = paired.effect(0.05, 1).unwrap();
        assert_eq!((effect.change_ratio, effect.ci, effect.mde_ratio), (None, None, None));
        assert_eq!(effect.p, 0.03125);
        assert_eq!((paired.estimate(), paired.interval(0.95)), (3.0, Some((3.0, 3.0))));
    }

    #[test]
    fn a_baseline_below_zero_keeps_intervals_in_order() {
        let blocks: Vec<Block> =
            (1..=6).map(|d| block(&[-10.0], &[-10.0 + f64::from(d)])).collect();
        let effect = effect(&blocks, 0.05, 1).unwrap();
        assert_eq!((effect.change_ratio, effect.ci), (Some(-0.35), Some((-0.6, -0.1))));
        assert!(effect.mde_ratio.unwrap() > 0.0);
    }

    #[test]
    fn values_that_are_all_alike_did_not_change() {
        for value in [0.0, 3.25, -1.0] {
            let alike = block(&[value; 2], &[value; 2]);
            let effect = effect(&vec![alike.clone(); 8], 0.05, 1).unwrap();
            assert_eq!((effect.p, effect.change_ratio), (1.0, Some(0.0)), "{value}");
            assert_eq!(effect.ci, Some((0.0, 0.0)), "{value}");
            let few = Paired::new(&[alike]).unwrap().effect(0.05, 1).unwrap();
            assert_eq!((few.p, few.change_ratio, few.ci), (1.0, Some(0.0), None));
        }
    }

    #[test]
    fn too_few_blocks_say_so() {
        let effect = effect(&blocks(1.1)[..5], 0.05, 1).unwrap();
        assert!(effect.change_ratio.is_some());
        assert_eq!((effect.ci, effect.mde_ratio, effect.p_floor), (None, None, 0.0625));
    }

    #[test]
    fn blocks_that_lack_a_side_are_left_out() {
        let mut with_half = blocks(1.02);
        with_half.insert(3, block(&[1e9], &[]));
        with_half.push(block(&[], &[0.0]));
        assert_eq!(Paired::new(&with_half), Paired::new(&blocks(1.02)));
    }

    #[test]
    fn bad_input_is_named() {
        let error = effect(&[], 0.05, 1).unwrap_err();
        assert_eq!(error, EffectError::NoBlocks { given: 0 });
        let error = effect(&[block(&[1.0], &[]), block(&[], &[1.0])], 0.05, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "none of 2 blocks has a completed run of both variants; see the failed runs, or run more blocks"
        );
        let error =
            effect(&[block(&[1.0], &[1.0]), block(&[1.0], &[2.0, f64::NAN])], 0.05, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a value of the variant in block 1 is NaN, which is not finite; leave that run out"
        );
        for alpha in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(matches!(effect(&blocks(1.0), alpha, 1), Err(EffectError::Alpha(_))));
        }
    }

    #[test]
    fn another_level_needs_no_new_pairing() {
        let paired = Paired::new(&blocks(1.001)).unwrap();
        let (strict, loose) = (paired.effect(0.01, 1).unwrap(), paired.effect(0.2, 1).unwrap());
        assert_eq!((strict.p, strict.change_ratio), (loose.p, loose.change_ratio));
        let width = |effect: &Effect| effect.ci.map(|(low, high)| high - low).unwrap();
        assert!(width(&strict) > width(&loose));
        assert!(strict.mde_ratio > loose.mde_ratio);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn swapping_sides_inverts_the_ratio(
            values in prop::collection::vec((1.0..100.0f64, 1.0..100.0f64, 1.0..100.0f64), 6..20),
        ) {
            let forth: Vec<Block> = values.iter().map(|&(a, b, c)| block(&[a], &[b, c])).collect();
            let back: Vec<Block> = values.iter().map(|&(a, b, c)| block(&[c, b], &[a])).collect();
            let (forth, back) = (Paired::new(&forth).unwrap(), Paired::new(&back).unwrap());
            prop_assert_eq!(forth.p(), back.p());
            let product = (1.0 + forth.change_ratio().unwrap()) * (1.0 + back.change_ratio().unwrap());
            prop_assert!((product - 1.0).abs() < 1e-9);
        }

        #[test]
        fn the_same_runs_in_another_order_have_no_difference(
            values in prop::collection::vec(prop::collection::vec(0.001..1000.0f64, 1..6), 6..20),
        ) {
            let blocks: Vec<Block> = values.iter().map(|runs| {
                let mut mirrored = runs.clone();
                mirrored.reverse();
                block(runs, &mirrored)
            }).collect();
            let effect = effect(&blocks, 0.05, 1).unwrap();
            prop_assert_eq!((effect.p, effect.change_ratio), (1.0, Some(0.0)));
        }
    }
}
