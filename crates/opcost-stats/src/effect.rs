//! A metric of two variants: the change, its interval, p, and the detectable effect.
//!
//! [`Paired`] reduces blocks to one difference each, once. It then computes p, interval and
//! detectable effect at any level, because the corrected level of a metric is known only when the
//! p-values of all metrics are.

use crate::{power, rank, summary};

pub use crate::block::{Block, Scale};

/// Why no effect can be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EffectError {
    /// No block has values of both sides.
    #[error(
        "none of {given} blocks has a completed run of both variants; see the failed runs, or run more blocks"
    )]
    NoBlocks {
        /// The number of blocks.
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
}

/// The blocks of two variants, as one difference each.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    scale: Scale,
    differences: Vec<f64>,
    /// The differences in ascending order, so that later questions need no sorting.
    ordered: Vec<f64>,
    n_pairs: usize,
    value_baseline: f64,
    all_alike: bool,
}

impl Paired {
    /// Takes the difference of every block with both sides: mean of the variant's logarithms minus
    /// that of the baseline's, or means of the plain values if any is 0 or below.
    ///
    /// # Errors
    /// [`EffectError::NotFinite`] for the first value that is not a finite number;
    /// [`EffectError::NoBlocks`] if no block has both sides.
    pub fn new(blocks: &[Block<'_>]) -> Result<Paired, EffectError> {
        Paired::on_scale(blocks, None)
    }

    /// Like [`new`](Self::new), with differences of plain values whatever their sign.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn plain(blocks: &[Block<'_>]) -> Result<Paired, EffectError> {
        Paired::on_scale(blocks, Some(Scale::Difference))
    }

    fn on_scale(blocks: &[Block<'_>], scale: Option<Scale>) -> Result<Paired, EffectError> {
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
        // The values are of complete blocks, which have both sides.
        let value_baseline =
            summary::median(&baseline).ok_or(EffectError::NoBlocks { given: blocks.len() })?;
        let mut all = baseline.iter().chain(&variant);
        let suited =
            if all.clone().all(|value| *value > 0.0) { Scale::LogRatio } else { Scale::Difference };
        let scale = scale.unwrap_or(suited);
        let differences: Vec<f64> = complete.iter().map(|block| block.difference(scale)).collect();
        Ok(Paired {
            scale,
            ordered: summary::sorted(&differences),
            differences,
            n_pairs: complete.iter().map(|b| b.baseline.len().min(b.variant.len())).sum(),
            value_baseline,
            all_alike: all.all(|value| *value == value_baseline),
        })
    }

    /// The scale of the differences.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Returns a difference for each complete block, in the blocks' order.
    pub fn differences(&self) -> &[f64] {
        &self.differences
    }

    /// Returns the number of the baseline's runs with a run of the variant in the same block.
    pub fn n_pairs(&self) -> usize {
        self.n_pairs
    }

    /// Returns the two-sided p-value of the signed-rank test: see [`rank::p`].
    pub fn p(&self) -> f64 {
        rank::p(&self.ordered)
    }

    /// Returns the smallest p that this many blocks can give.
    pub fn p_floor(&self) -> f64 {
        rank::p_floor(self.differences.len())
    }

    /// Returns the Hodges-Lehmann estimate of the shift, on the scale of the differences.
    pub fn estimate(&self) -> f64 {
        rank::estimate(&self.ordered).expect("at least one block, by Paired::new")
    }

    /// Returns the interval of the shift at `level`, on the scale of the differences: see
    /// [`rank::interval`]. `None` if there are too few blocks for the level.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        rank::interval(&self.ordered, level)
    }

    /// Returns the smallest shift found at level `alpha` with probability 0.9, on the scale of the
    /// differences: see [`power::detectable_shift`].
    pub fn detectable_shift(&self, alpha: f64, seed: u64) -> Option<f64> {
        power::detectable_shift(&self.ordered, alpha, power::POWER, seed)
    }

    /// Returns the estimated change as variant/baseline − 1; `None` if the baseline's median is 0.
    pub fn change_ratio(&self) -> Option<f64> {
        self.ratio(self.estimate())
    }

    /// Returns the interval of [`change_ratio`](Self::change_ratio) at `level`, if both exist.
    pub fn interval_ratio(&self, level: f64) -> Option<(f64, f64)> {
        self.interval(level).and_then(|interval| self.ratios(interval))
    }

    /// Turns an interval of shifts into an interval of ratios.
    pub fn ratios(&self, (low, high): (f64, f64)) -> Option<(f64, f64)> {
        let (low, high) = (self.ratio(low)?, self.ratio(high)?);
        // If the baseline is below 0, the greater shift is the smaller ratio.
        Some((low.min(high), low.max(high)))
    }

    /// Returns [`detectable_shift`](Self::detectable_shift) as a ratio above 0, for an increase; on
    /// the log scale the decrease found as often is slightly smaller. `None` if the baseline's
    /// median is 0 or `alpha` is out of reach.
    pub fn detectable_ratio(&self, alpha: f64, seed: u64) -> Option<f64> {
        let shift = self.detectable_shift(alpha, seed)?;
        self.ratio(shift).map(f64::abs)
    }

    /// Returns [`interval`](Self::interval) and [`detectable_shift`](Self::detectable_shift) at one
    /// error rate; with many blocks they cost as much as one of them.
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

    /// Returns a difference in the unit of the values as a ratio to the baseline's median; `None`
    /// if the median is 0.
    pub fn step_ratio(&self, step: f64) -> Option<f64> {
        (self.value_baseline != 0.0).then(|| step / self.value_baseline)
    }

    /// Returns a shift as variant/baseline − 1; `None` if the baseline's median is 0.
    pub fn ratio(&self, shift: f64) -> Option<f64> {
        match self.scale {
            Scale::LogRatio => Some(shift.exp_m1()),
            // Nothing changed: the change is 0 even against a baseline of 0.
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

    /// Eight blocks in which the variant is `times` the baseline, with noise of some thousandths.
    fn blocks(times: f64) -> Vec<Block<'static>> {
        (0..8u32)
            .map(|b| {
                let noise = |slot: u32| 1.0 + f64::from((b * 7 + slot * 5) % 11) / 1000.0;
                let value = |slot| 100.0 * noise(slot);
                block(&[value(0), value(3)], &[times * value(1), times * value(2)])
            })
            .collect()
    }

    fn paired(blocks: &[Block<'_>]) -> Paired {
        Paired::new(blocks).unwrap()
    }

    #[test]
    fn a_change_is_found_and_stated_as_a_ratio() {
        let paired = paired(&blocks(1.1));
        assert_eq!(paired.scale(), Scale::LogRatio);
        assert_eq!((paired.differences().len(), paired.n_pairs()), (8, 16));
        assert_eq!((paired.p(), paired.p_floor()), (2.0 / 256.0, 2.0 / 256.0));
        let (low, high) = paired.interval_ratio(0.95).unwrap();
        let change = paired.change_ratio().unwrap();
        assert!(low < change && change < high && (change - 0.1).abs() < 0.005, "{paired:?}");
        assert!((low..=high).contains(&0.1), "{paired:?}");
        assert!((100.0..101.0).contains(&paired.value_baseline), "{paired:?}");
        let detectable = paired.detectable_ratio(0.05, 1).unwrap();
        assert!((0.0005..0.02).contains(&detectable), "{paired:?}");
    }

    #[test]
    fn known_answer_on_the_log_scale() {
        // The difference is ln 2 six times, so every Walsh average is ln 2.
        let paired = paired(&vec![block(&[1.0, 4.0], &[2.0, 8.0]); 6]);
        assert!((paired.change_ratio().unwrap() - 1.0).abs() < 1e-12);
        let (low, high) = paired.interval_ratio(0.95).unwrap();
        assert!((low - 1.0).abs() < 1e-12 && (high - 1.0).abs() < 1e-12);
        assert_eq!(paired.p(), 0.03125);
    }

    #[test]
    fn known_answer_on_the_difference_scale() {
        let blocks: Vec<Block> =
            (1..=6).map(|d| block(&[0.0, 20.0], &[10.0 + f64::from(d)])).collect();
        let paired = paired(&blocks);
        assert_eq!(paired.scale(), Scale::Difference);
        assert_eq!((paired.differences().len(), paired.n_pairs()), (6, 6));
        assert_eq!(paired.value_baseline, 10.0);
        assert_eq!(paired.change_ratio(), Some(0.35));
        assert_eq!(paired.interval_ratio(0.95), Some((0.1, 0.6)));
        assert!(paired.detectable_ratio(0.05, 1).unwrap() > 0.0);
    }

    #[test]
    fn plain_differences_are_in_the_unit_of_the_values() {
        // Differences of 11 to 16; six values, so the interval at 95 % has all of them.
        let blocks: Vec<Block> = (1..=6)
            .map(|d| block(&[100.0 * f64::from(d)], &[100.0 * f64::from(d) + 10.0 + f64::from(d)]))
            .collect();
        let plain = Paired::plain(&blocks).unwrap();
        assert_eq!((plain.estimate(), plain.interval(0.95)), (13.5, Some((11.0, 16.0))));
        assert_eq!(paired(&blocks).scale(), Scale::LogRatio);
    }

    #[test]
    fn a_baseline_of_zero_has_no_ratio_but_a_p_and_a_shift() {
        let paired = paired(&vec![block(&[0.0, 0.0], &[2.0, 4.0]); 6]);
        assert_eq!((paired.change_ratio(), paired.interval_ratio(0.95)), (None, None));
        assert_eq!(paired.detectable_ratio(0.05, 1), None);
        assert_eq!(paired.p(), 0.03125);
        assert_eq!((paired.estimate(), paired.interval(0.95)), (3.0, Some((3.0, 3.0))));
    }

    #[test]
    fn a_baseline_below_zero_keeps_intervals_in_order() {
        let blocks: Vec<Block> =
            (1..=6).map(|d| block(&[-10.0], &[-10.0 + f64::from(d)])).collect();
        let paired = paired(&blocks);
        assert_eq!(paired.change_ratio(), Some(-0.35));
        assert_eq!(paired.interval_ratio(0.95), Some((-0.6, -0.1)));
        assert!(paired.detectable_ratio(0.05, 1).unwrap() > 0.0);
    }

    #[test]
    fn values_that_are_all_alike_did_not_change() {
        for value in [0.0, 3.25, -1.0] {
            let alike = block(&[value; 2], &[value; 2]);
            let many = paired(&vec![alike.clone(); 8]);
            assert_eq!((many.p(), many.change_ratio()), (1.0, Some(0.0)), "{value}");
            assert_eq!(many.interval_ratio(0.95), Some((0.0, 0.0)), "{value}");
            let few = paired(&[alike]);
            assert_eq!((few.p(), few.change_ratio()), (1.0, Some(0.0)));
            assert_eq!(few.interval_ratio(0.95), None);
        }
    }

    #[test]
    fn too_few_blocks_say_so() {
        let few = paired(&blocks(1.1)[..5]);
        assert!(few.change_ratio().is_some());
        assert_eq!((few.interval_ratio(0.95), few.detectable_ratio(0.05, 1)), (None, None));
        assert_eq!(few.p_floor(), 0.0625);
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
        let error = |blocks: &[Block<'_>]| Paired::new(blocks).unwrap_err();
        assert_eq!(error(&[]), EffectError::NoBlocks { given: 0 });
        assert_eq!(
            error(&[block(&[1.0], &[]), block(&[], &[1.0])]).to_string(),
            "none of 2 blocks has a completed run of both variants; see the failed runs, or run more blocks"
        );
        assert_eq!(
            error(&[block(&[1.0], &[1.0]), block(&[1.0], &[2.0, f64::NAN])]).to_string(),
            "a value of the variant in block 1 is NaN, which is not finite; leave that run out"
        );
    }

    #[test]
    fn another_level_needs_no_new_pairing() {
        let paired = paired(&blocks(1.001));
        let width = |level| paired.interval_ratio(level).map(|(low, high)| high - low).unwrap();
        assert!(width(0.99) > width(0.8));
        assert!(paired.detectable_ratio(0.01, 1) > paired.detectable_ratio(0.2, 1));
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
            let paired = paired(&blocks);
            prop_assert_eq!((paired.p(), paired.change_ratio()), (1.0, Some(0.0)));
        }
    }
}
