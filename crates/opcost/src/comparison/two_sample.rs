//! The test that fits what is known of two variants' imported figures.

use crate::plan::{ImportedFigures, ImportedMetric};
use opcost_record::Unit;
use opcost_stats::welch::{Group, Welch, welch};
use opcost_stats::{Block, Paired, rank_sum, summary};

/// What can be asked of the figures of two variants.
pub(super) enum Test {
    /// Differences of blocks.
    Blocks(Paired),
    /// Single runs, as logarithms where all are above 0.
    Ranks { baseline: Vec<f64>, variant: Vec<f64>, logarithms: bool },
    /// Means with their spread.
    Welch(Welch),
    /// Counts that are the same in every run of a side.
    Exact { identical: bool },
    /// Nothing, and why.
    None(&'static str),
    /// A side has no figure.
    Absent,
}

impl Test {
    pub(super) fn of(
        metric: &ImportedMetric,
        baseline: Option<&ImportedFigures>,
        variant: Option<&ImportedFigures>,
    ) -> Test {
        let (Some(baseline), Some(variant)) = (baseline, variant) else { return Test::Absent };
        if let (Ok(one), Ok(two)) = (group(baseline), group(variant))
            && one.n >= 2
            && two.n >= 2
            && one.sd == 0.0
            && two.sd == 0.0
        {
            let counted = metric.unit == Unit::Count && metric.unit_written.is_none();
            return match one.mean == two.mean {
                true => Test::Exact { identical: true },
                false if counted => Test::Exact { identical: false },
                false => Test::None("no spread at all"),
            };
        }
        if let (
            ImportedFigures::Runs { values: one, blocks: first },
            ImportedFigures::Runs { values: two, blocks: second },
        ) = (baseline, variant)
        {
            if one.len() == 1 && two.len() == 1 {
                return Test::None("one figure a side");
            }
            if first.len() == one.len() && second.len() == two.len() {
                let blocks = blocks([(one, first), (two, second)]);
                return Paired::new(&blocks).map_or(Test::None("no common block"), Test::Blocks);
            }
            let logarithms = one.iter().chain(two).all(|value| *value > 0.0);
            let scaled = |values: &[f64]| -> Vec<f64> {
                values.iter().map(|value| if logarithms { value.ln() } else { *value }).collect()
            };
            return Test::Ranks { baseline: scaled(one), variant: scaled(two), logarithms };
        }
        match (group(baseline), group(variant)) {
            (Ok(one), Ok(two)) => {
                welch(one, two).map_or(Test::None("one figure a side"), Test::Welch)
            }
            (Err(why), _) | (_, Err(why)) => Test::None(why),
        }
    }

    /// The p-value and the smallest that so many figures could give.
    pub(super) fn p(&self) -> Option<(f64, f64)> {
        match self {
            Test::Blocks(paired) => Some((paired.p(), paired.p_floor())),
            Test::Ranks { baseline, variant, .. } => Some((
                rank_sum::p(baseline, variant),
                rank_sum::p_floor(baseline.len(), variant.len()),
            )),
            Test::Welch(welch) => Some((welch.p, 0.0)),
            Test::Exact { .. } | Test::None(_) | Test::Absent => None,
        }
    }
}

/// Mean, spread and number of figures; why they have none.
pub(super) fn group(figures: &ImportedFigures) -> Result<Group, &'static str> {
    match figures {
        ImportedFigures::Runs { values, .. } => {
            let mean = summary::mean(values).ok_or("no figure")?;
            let sd = summary::sd(values).ok_or("one figure a side")?;
            Ok(Group { mean, sd, n: values.len() as u64 })
        }
        ImportedFigures::Mean { n: Some(1), .. } => Err("one figure a side"),
        ImportedFigures::Mean { sd: None, .. } => Err("no spread given"),
        ImportedFigures::Mean { n: None, .. } => Err("runs not given"),
        ImportedFigures::Mean { mean, sd: Some(sd), n: Some(n) } => {
            Ok(Group { mean: *mean, sd: *sd, n: *n })
        }
    }
}

/// Runs by the blocks that the file names.
fn blocks(sides: [(&Vec<f64>, &Vec<u32>); 2]) -> Vec<Block<'static>> {
    let mut names: Vec<u32> = sides.iter().flat_map(|(_, blocks)| blocks.iter().copied()).collect();
    names.sort_unstable();
    names.dedup();
    let of = |side: usize, name: u32| -> Vec<f64> {
        let (values, blocks) = sides[side];
        values.iter().zip(blocks).filter(|(_, block)| **block == name).map(|(v, _)| *v).collect()
    };
    names
        .into_iter()
        .map(|name| Block { baseline: of(0, name).into(), variant: of(1, name).into() })
        .collect()
}
