//! Carry-over: whether a run costs more behind one variant than behind another.
//!
//! A comparison of interleaved runs takes each run as if it began in the same state. A variant that leaves dirty pages, a cold
//! cache or a hot CPU makes the run behind it dearer, whichever variant that is, and the comparison charges its rival. The drawn
//! order shows it: the same variant runs behind either variant. [`Runs::carry_over`] takes one contrast a block, of runs of equal
//! variants, whose sign the drawn order decides. If nothing is carried over, either sign is as likely, so the signed-rank test is
//! exact.
//!
//! **Two variants** follow each other or themselves. In a mirrored block (ABBA) the two middle runs are of one variant, and only
//! one of them is behind the other variant. In a single pair, either both runs are behind the same variant or each is behind the
//! other. So the difference of the pair holds nothing of the carry-over or all of it, by the toss of a coin.
//!
//! **More variants** are the witnesses: runs of the others, behind either of the two.
//!
//! A variant that runs faster behind itself, as a warm cache makes it, is no carry-over if the rival gains as much: the
//! comparison is right then.
//!
//! **A carry-over that the test misses** still shifts the change. In single pairs three runs in four are behind the rival, so
//! half of the carry-over is charged to the wrong side, and the change may have the wrong sign at any number of pairs.
//! [`Alone::change`] therefore estimates the change of variants that each run behind themselves. It uses all runs, so it is more
//! precise than the contrasts, and less exact: it takes the noise of neighbours for alike. `tests/it/carry_over.rs` simulates how
//! often a change keeps its sign although it has the other one alone, and how many changes are lost without a carry-over.

use crate::effect::Scale;
use crate::{rank, rank_sum, summary};

/// A change of which no more than this share is left when each variant runs behind itself may be a carry-over.
pub const LEFT_MIN: f64 = 0.1;

/// The blocks before and behind a block whose level is taken from its runs, against a drift of the machine.
const LEVEL_BLOCKS: usize = 2;

/// A run; a slice of them is in the order of running.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The variant.
    pub variant: usize,
    /// The block in whose order it was drawn; `None` for a warm-up run.
    pub block: Option<u32>,
    /// Whether the run is compared. A run that is not only leaves its state to the next.
    pub is_compared: bool,
    /// The figure; `None` if the run has none.
    pub value: Option<f64>,
}

/// How much dearer runs are behind one variant than behind another.
#[derive(Clone, Debug, PartialEq)]
pub struct CarryOver {
    /// One contrast for each block that has one.
    contrasts: Vec<f64>,
    estimate: Option<f64>,
}

/// The runs of a recording, with the positions of each variant's runs. Comparing two variants reads only their runs and the runs
/// behind them, so thousands of comparisons read each run a few times.
#[derive(Clone, Debug, PartialEq)]
pub struct Runs {
    /// The runs in the order of running, with figures on the scale of the contrasts.
    runs: Vec<Run>,
    scale: Scale,
    /// The positions of each variant's runs, in order.
    positions: Vec<Vec<usize>>,
    /// The median of each variant's compared runs.
    centres: Vec<Option<f64>>,
}

impl Runs {
    /// Sorts runs, which are in the order of running, by variant.
    ///
    /// `scale`: that of the contrasts, logarithms of ratios for figures above 0.
    pub fn of(mut runs: Vec<Run>, scale: Scale) -> Runs {
        let variants = runs.iter().map(|run| run.variant + 1).max().unwrap_or(0);
        let mut positions = vec![Vec::new(); variants];
        for (position, run) in runs.iter_mut().enumerate() {
            run.value = run.value.map(|value| scale.of(value));
            positions[run.variant].push(position);
        }
        let centre = |own: &Vec<usize>| {
            let compared = own.iter().map(|at| &runs[*at]).filter(|run| run.is_compared);
            let values: Vec<f64> = compared.filter_map(|run| run.value).collect();
            summary::median(&values)
        };
        let centres = positions.iter().map(centre).collect();
        Runs { runs, scale, positions, centres }
    }

    /// The scale of the contrasts.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The figures of a variant's runs on the scale of the contrasts, warm-up runs included.
    pub fn values(&self, variant: usize) -> Vec<f64> {
        self.positions(variant).iter().filter_map(|at| self.runs[*at].value).collect()
    }

    /// Contrasts the runs behind the variant `one` with the runs behind `two`.
    pub fn carry_over(&self, one: usize, two: usize) -> CarryOver {
        let own: usize = [one, two].iter().map(|of| self.positions(*of).len()).sum();
        if own < self.runs.len() {
            return self.of_witnesses([one, two]);
        }
        let contrasts = of_pair(&self.runs, one);
        CarryOver { estimate: rank::estimate(&contrasts), contrasts }
    }

    /// Returns the change from `one` to `two` of runs behind their own variant, with its interval at `level`; `None` if a variant
    /// has no such run.
    pub fn behind_own(&self, one: usize, two: usize, level: f64) -> Option<BehindOwn> {
        let values = |variant: usize| -> Vec<f64> {
            let behind = self.behind(variant).map(|at| &self.runs[at]);
            let own = behind.filter(|run| run.variant == variant);
            own.filter_map(|run| run.block.and(run.value)).collect()
        };
        let [baseline, variant] = [one, two].map(values);
        Some(BehindOwn {
            estimate: rank_sum::estimate(&baseline, &variant)?,
            interval: rank_sum::interval(&baseline, &variant, level),
            runs: [baseline.len(), variant.len()],
        })
    }

    /// The runs with what each costs above the usual, for estimates of what variants cost behind themselves.
    pub fn alone(&self) -> Alone<'_> {
        Alone { runs: self, excesses: self.excesses() }
    }

    /// How far each run is above the level of the machine, less the median of its variant's compared runs; `None` for a run
    /// without figure or block.
    fn excesses(&self) -> Vec<Option<f64>> {
        let runs = &self.runs;
        let levels = levels(runs);
        let above = |at: usize| Some(runs[at].value? - levels[at]?);
        let mut excesses: Vec<Option<f64>> = (0..runs.len()).map(above).collect();
        for own in &self.positions {
            let compared = own.iter().filter(|at| runs[**at].is_compared);
            let compared: Vec<f64> = compared.filter_map(|at| excesses[*at]).collect();
            let usual = summary::median(&compared);
            for at in own {
                excesses[*at] = excesses[*at].zip(usual).map(|(above, usual)| above - usual);
            }
        }
        excesses
    }

    fn positions(&self, variant: usize) -> &[usize] {
        self.positions.get(variant).map_or(&[], Vec::as_slice)
    }

    /// The positions of the runs directly behind a variant's runs.
    fn behind(&self, variant: usize) -> impl Iterator<Item = usize> {
        let all = self.runs.len();
        self.positions(variant).iter().map(|at| at + 1).filter(move |at| *at < all)
    }

    /// The contrasts of two among several variants, by the runs of the others.
    fn of_witnesses(&self, pair: [usize; 2]) -> CarryOver {
        let excesses = |side: usize| {
            let witness = move |at: usize| {
                let run = &self.runs[at];
                let is_other = !pair.contains(&run.variant) && run.is_compared;
                let excess = run.value? - self.centres[run.variant]?;
                is_other.then_some((self.runs[at - 1].block?, side, excess))
            };
            self.behind(pair[side]).filter_map(witness)
        };
        let mut witnesses: Vec<(u32, usize, f64)> = excesses(0).chain(excesses(1)).collect();
        witnesses.sort_by_key(|(block, ..)| *block);
        let of_block = |block: &[(u32, usize, f64)]| {
            let mean = |side: usize| {
                let of_side = block.iter().filter(|(_, of, _)| *of == side);
                let excesses: Vec<f64> = of_side.map(|(.., excess)| *excess).collect();
                summary::mean(&excesses).unwrap_or(0.0)
            };
            mean(0) - mean(1)
        };
        let contrasts = witnesses.chunk_by(|one, next| one.0 == next.0).map(of_block).collect();
        // A block with one witness is half as far from the centre, so the two sides are compared as they are.
        let [one, two] = [0, 1].map(|side| -> Vec<f64> {
            let of_side = witnesses.iter().filter(|(_, of, _)| *of == side);
            of_side.map(|(.., excess)| *excess).collect()
        });
        CarryOver { contrasts, estimate: rank_sum::estimate(&two, &one) }
    }
}

/// Runs, each with how far it is above what is usual for its variant and, at its time, for the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Alone<'a> {
    runs: &'a Runs,
    excesses: Vec<Option<f64>>,
}

impl Alone<'_> {
    /// Estimates the change from `one` to `two` if each ran behind itself, on the scale of the contrasts; `None` if the runs show
    /// no carry-over of either.
    ///
    /// `measured`: the change of the compared runs, on the same scale. A run behind its rival holds what the rival leaves, and a
    /// run behind itself what it leaves itself; the estimate moves the change by the difference, for the share of runs that are
    /// behind their rival and not behind themselves.
    pub fn change(&self, one: usize, two: usize, measured: f64) -> Option<f64> {
        let carried = self.of_all([one, two])?;
        let compared = |variant: usize| {
            let own = self.runs.positions(variant).iter().map(|at| (&self.runs.runs[*at], *at));
            own.filter(|(run, _)| run.is_compared && run.value.is_some())
        };
        // The number of compared runs, of those behind their rival, and of those behind themselves.
        let (mut runs, mut behind_rival, mut behind_own) = (0.0, 0.0, 0.0);
        for (variant, rival) in [(one, two), (two, one)] {
            for (_, at) in compared(variant) {
                let before = at.checked_sub(1).map(|before| self.runs.runs[before].variant);
                runs += 1.0;
                behind_rival += f64::from(before == Some(rival));
                behind_own += f64::from(before == Some(variant));
            }
        }
        (runs > 0.0).then(|| measured - carried * (1.0 + (behind_rival - behind_own) / runs))
    }

    /// How much dearer runs are behind the first variant of a pair than behind the second.
    ///
    /// A recording of two variants gives two estimates, one from each variant's runs, since each runs more often behind its rival;
    /// the result is their mean, weighted by precision. A recording of more variants gives one estimate from all runs, since each
    /// variant runs about as often behind either of the pair.
    fn of_all(&self, pair: [usize; 2]) -> Option<f64> {
        let is_pair = pair.iter().map(|of| self.runs.positions(*of).len()).sum::<usize>()
            == self.runs.runs.len();
        let of = |witness: Option<usize>| {
            let [one, two] = pair.map(|before| -> Vec<f64> {
                let of_witness =
                    |at: &usize| witness.is_none_or(|of| self.runs.runs[*at].variant == of);
                self.runs
                    .behind(before)
                    .filter(of_witness)
                    .filter_map(|at| self.excesses[at])
                    .collect()
            });
            let [m, n] = [one.len() as f64, two.len() as f64];
            Some((rank_sum::estimate(&two, &one)?, m * n / (m + n)))
        };
        let witnesses = if is_pair { pair.map(Some).to_vec() } else { vec![None] };
        let estimates: Vec<(f64, f64)> = witnesses.into_iter().filter_map(of).collect();
        let weights: f64 = estimates.iter().map(|(_, weight)| weight).sum();
        let sum: f64 = estimates.iter().map(|(estimate, weight)| estimate * weight).sum();
        (weights > 0.0).then(|| sum / weights)
    }
}

impl CarryOver {
    /// The number of contrasts.
    pub fn blocks(&self) -> usize {
        self.contrasts.len()
    }

    /// Returns the two-sided p-value of the hypothesis that nothing is carried over: see [`rank::p`].
    pub fn p(&self) -> f64 {
        rank::p(&self.contrasts)
    }

    /// Returns the smallest p that this many blocks can give.
    pub fn p_floor(&self) -> f64 {
        rank::p_floor(self.contrasts.len())
    }

    /// Returns how much dearer runs are behind the first variant than behind the second, on the scale of the contrasts; `None`
    /// without contrasts.
    pub fn estimate(&self) -> Option<f64> {
        self.estimate
    }
}

/// The change from `one` to `two`, of runs directly behind runs of their own variant.
#[derive(Clone, Debug, PartialEq)]
pub struct BehindOwn {
    /// Hodges and Lehmann's estimate, on the scale.
    pub estimate: f64,
    /// The interval of the rank-sum test, on the scale; `None` if there are too few runs for its level.
    pub interval: Option<(f64, f64)>,
    /// The number of runs of each of the two variants.
    pub runs: [usize; 2],
}

/// For each run the level of the machine: the median of the means of its block and the blocks around; `None` for a run of no
/// block.
fn levels(runs: &[Run]) -> Vec<Option<f64>> {
    let blocks = || runs.chunk_by(|one, next| one.block == next.block);
    let of_block = |runs: &[Run]| {
        let compared = runs.iter().filter(|run| run.is_compared);
        let values: Vec<f64> = compared.filter_map(|run| run.block.and(run.value)).collect();
        summary::mean(&values)
    };
    let means: Vec<Option<f64>> = blocks().map(of_block).collect();
    let level = |(at, runs): (usize, &[Run])| {
        let around = at.saturating_sub(LEVEL_BLOCKS)..means.len().min(at + LEVEL_BLOCKS + 1);
        let around: Vec<f64> = means[around].iter().copied().flatten().collect();
        let level = summary::median(&around).filter(|_| means[at].is_some());
        vec![level; runs.len()]
    };
    blocks().enumerate().flat_map(level).collect()
}

/// The contrasts of two variants that take turns.
fn of_pair(runs: &[Run], one: usize) -> Vec<f64> {
    let mut contrasts = Vec::new();
    // Each single pair: whether both runs are behind one variant, and the first variant's figure minus the second's.
    let mut singles: Vec<(bool, f64)> = Vec::new();
    let mut before: Option<&Run> = None;
    for block in runs.chunk_by(|one, next| one.block == next.block) {
        let known: Vec<(usize, f64)> = block
            .iter()
            .filter(|run| run.block.is_some())
            .filter_map(|run| Some((run.variant, run.value?)))
            .collect();
        match *known.as_slice() {
            [(first, a), (second, b)] if block.len() == 2 && first != second => {
                if let Some(before) = before.filter(|before| before.block.is_some()) {
                    let difference = if first == one { a - b } else { b - a };
                    singles.push((before.variant == first, difference));
                }
            }
            [(outer, _), (inner, behind_other), (_, behind_own), _] if outer != inner => {
                let difference = behind_other - behind_own;
                contrasts.push(if outer == one { difference } else { -difference });
            }
            _ => {}
        }
        before = block.last();
    }
    let differences: Vec<f64> = singles.iter().map(|(_, difference)| *difference).collect();
    let centre = rank::estimate(&differences).unwrap_or(0.0);
    contrasts.extend(singles.into_iter().map(|(behind_same, difference)| {
        // The centre lies half a carry-over from either.
        let contrast = 2.0 * (difference - centre);
        if behind_same { contrast } else { -contrast }
    }));
    contrasts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of one block, each with its variant and its figure.
    fn block(number: u32, runs: &[(usize, f64)]) -> Vec<Run> {
        let run = |&(variant, value): &(usize, f64)| Run {
            variant,
            block: Some(number),
            is_compared: true,
            value: Some(value),
        };
        runs.iter().map(run).collect()
    }

    fn contrasts(blocks: &[Vec<Run>], one: usize, two: usize) -> Vec<f64> {
        Runs::of(blocks.concat(), Scale::Difference).carry_over(one, two).contrasts
    }

    #[test]
    fn the_middle_of_a_mirrored_block_is_one_variant_behind_either() {
        let blocks = [
            block(0, &[(0, 1.0), (1, 7.0), (1, 4.0), (0, 1.0)]),
            block(1, &[(1, 1.0), (0, 9.0), (0, 4.0), (1, 1.0)]),
        ];
        assert_eq!(contrasts(&blocks, 0, 1), [3.0, -5.0]);
        assert_eq!(contrasts(&blocks, 1, 0), [-3.0, 5.0]);
    }

    #[test]
    fn a_single_pair_holds_all_of_it_or_nothing() {
        // Both cost 10; a run behind variant 0 costs 2 more.
        let blocks = [
            block(0, &[(0, 10.0), (1, 12.0)]),
            block(1, &[(0, 10.0), (1, 12.0)]),
            block(2, &[(1, 10.0), (0, 10.0)]),
            block(3, &[(0, 12.0), (1, 12.0)]),
            block(4, &[(0, 10.0), (1, 12.0)]),
        ];
        // The first pair is behind no run.
        assert_eq!(contrasts(&blocks, 0, 1), [2.0; 4]);
        let own = Runs::of(blocks.concat(), Scale::Difference).behind_own(0, 1, 0.95).unwrap();
        assert_eq!(own, BehindOwn { estimate: -2.0, interval: None, runs: [1, 1] });
    }

    #[test]
    fn other_variants_are_witnesses_for_two() {
        // A run behind variant 0 costs 2 more.
        let mut blocks = vec![
            block(0, &[(0, 10.0), (2, 12.0), (1, 10.0), (3, 10.0)]),
            block(1, &[(2, 10.0), (0, 10.0), (1, 12.0), (3, 10.0)]),
            block(2, &[(3, 10.0), (2, 10.0), (1, 10.0), (0, 10.0)]),
            block(3, &[(2, 12.0), (3, 10.0), (1, 10.0), (0, 10.0)]),
        ];
        // Medians of the witnesses: 11 and 10.
        assert_eq!(contrasts(&blocks, 0, 1), [1.0, 0.0, 1.0]);
        // A repeated run carries over the same, and is no witness.
        let repeated = Run { is_compared: false, value: Some(99.0), ..blocks[2][3] };
        blocks[2].push(repeated);
        assert_eq!(contrasts(&blocks, 0, 1), [1.0, 0.0, 1.0]);
    }

    #[test]
    fn the_change_alone_is_that_of_runs_behind_themselves() {
        // Both cost 10; a run behind variant 0 costs 2 more, so alone variant 0 costs 12.
        let blocks = [
            block(0, &[(0, 10.0), (1, 12.0)]),
            block(1, &[(0, 10.0), (1, 12.0)]),
            block(2, &[(1, 10.0), (0, 10.0)]),
            block(3, &[(0, 12.0), (1, 12.0)]),
            block(4, &[(1, 10.0), (0, 10.0)]),
        ];
        let runs = Runs::of(blocks.concat(), Scale::Difference);
        // The blocks' levels are 11, 11, 11, 10.5 and 10. Above them, variant 1 costs 1, 1, 1.5 behind variant 0 and −1, 0 behind
        // itself, so 1.75 more; variant 0 costs 1.5 behind itself and −1, −1, 0 behind variant 1, so 2.5 more. The weights are
        // 3 · 2 / 5 and 1 · 3 / 4.
        let carried = runs.alone().of_all([0, 1]).unwrap();
        assert!((carried - (1.2 * 1.75 + 0.75 * 2.5) / 1.95).abs() < 1e-12, "{carried}");
        // Six of ten runs are behind their rival, and three are behind themselves.
        let alone = runs.alone().change(0, 1, 1.0).unwrap();
        assert!((alone - (1.0 - 1.3 * carried)).abs() < 1e-12, "{alone}");
        assert_eq!(runs.alone().change(1, 0, -1.0), Some(-alone));
        // Runs of other variants show it, too.
        let three = [
            block(0, &[(2, 20.0), (0, 10.0), (1, 12.0)]),
            block(1, &[(2, 20.0), (1, 10.0), (0, 10.0)]),
            block(2, &[(2, 22.0), (1, 10.0), (0, 10.0)]),
        ];
        let three = Runs::of(three.concat(), Scale::Difference);
        // The level is 14. Behind variant 0 variant 1 costs 2 and variant 2 as much more than usual; behind variant 1 both are
        // usual. Three of six runs are behind their rival.
        assert_eq!(three.alone().of_all([0, 1]), Some(2.0));
        assert_eq!(three.alone().change(0, 1, 1.0), Some(1.0 - 2.0 * 1.5));
        // One block has no two neighbours that differ.
        let one = Runs::of(block(0, &[(0, 10.0), (1, 12.0)]), Scale::Difference);
        assert_eq!(one.alone().change(0, 1, 2.0), None);
    }

    #[test]
    fn runs_without_a_figure_and_warm_up_runs_give_no_contrast() {
        let mut blocks = [
            block(0, &[(0, 1.0), (1, 2.0)]),
            block(1, &[(0, 1.0), (1, 2.0)]),
            block(2, &[(0, 1.0), (1, 2.0)]),
        ];
        assert_eq!(contrasts(&blocks, 0, 1).len(), 2);
        blocks[0].iter_mut().for_each(|run| run.block = None);
        assert_eq!(contrasts(&blocks, 0, 1).len(), 1);
        blocks[2][1].value = None;
        assert!(contrasts(&blocks, 0, 1).is_empty());
        let no_runs = Runs::of(Vec::new(), Scale::LogRatio);
        let none = no_runs.carry_over(0, 1);
        assert_eq!((none.blocks(), none.p(), none.estimate()), (0, 1.0, None));
        assert_eq!(
            (no_runs.behind_own(0, 1, 0.95), no_runs.alone().change(0, 1, 1.0)),
            (None, None)
        );
    }
}
