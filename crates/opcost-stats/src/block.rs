//! The runs of a block, and the difference between its two sides.

use crate::summary;
use std::borrow::Cow;

/// The figures per operation of the completed runs of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block<'a> {
    /// The baseline's values.
    pub baseline: Cow<'a, [f64]>,
    /// The other variant's values.
    pub variant: Cow<'a, [f64]>,
}

/// The scale on which the differences of blocks are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scale {
    /// The logarithm of the ratio, used if every value is above 0.
    LogRatio,
    /// The plain difference, used if a value is 0 or below.
    Difference,
}

impl Scale {
    /// Returns a figure on this scale.
    pub(crate) fn of(self, figure: f64) -> f64 {
        match self {
            Scale::LogRatio => figure.ln(),
            Scale::Difference => figure,
        }
    }
}

impl Block<'_> {
    /// Whether both sides have a value; a block with only one side has no difference.
    pub fn complete(&self) -> bool {
        !self.baseline.is_empty() && !self.variant.is_empty()
    }

    /// The variant's mean minus the baseline's, on a scale; for a complete block of finite values.
    pub(crate) fn difference(&self, scale: Scale) -> f64 {
        level(&self.variant, scale) - level(&self.baseline, scale)
    }
}

fn level(values: &[f64], scale: Scale) -> f64 {
    let mean = match values {
        [one] => Some(scale.of(*one)),
        [one, two] => summary::mean(&[scale.of(*one), scale.of(*two)]),
        // Ascending order gives equal values in another order the same mean, and so blocks without
        // a difference exactly 0.
        many => {
            let mut values = summary::sorted(many);
            values.iter_mut().for_each(|value| *value = scale.of(*value));
            summary::mean(&values)
        }
    };
    mean.expect("a complete block has values on both sides")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_of_means_on_their_scale() {
        let block = Block { baseline: vec![4.0, 1.0].into(), variant: vec![8.0, 2.0, 4.0].into() };
        assert!((block.difference(Scale::LogRatio) - 2f64.ln()).abs() < 1e-12);
        assert!((block.difference(Scale::Difference) - (14.0 / 3.0 - 2.5)).abs() < 1e-12);
    }

    #[test]
    fn equal_values_have_no_difference_however_many() {
        for value in [0.1, 1.7, 1e15 / 3.0] {
            let block = Block { baseline: vec![value; 3].into(), variant: vec![value].into() };
            assert_eq!(block.difference(Scale::LogRatio), 0.0);
            assert_eq!(block.difference(Scale::Difference), 0.0);
        }
    }

    #[test]
    fn large_values_do_not_overflow() {
        let block = Block { baseline: vec![1e308; 4].into(), variant: vec![1.5e308; 4].into() };
        assert_eq!(block.difference(Scale::Difference), 0.5e308);
    }

    #[test]
    fn only_both_sides_are_complete() {
        let block = |baseline: &'static [f64], variant: &'static [f64]| Block {
            baseline: baseline.into(),
            variant: variant.into(),
        };
        assert!(block(&[1.0], &[1.0, 2.0]).complete());
        assert!(!block(&[1.0], &[]).complete());
        assert!(!block(&[], &[1.0]).complete());
    }
}
