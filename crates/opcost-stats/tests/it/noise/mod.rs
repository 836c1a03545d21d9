//! Noise recorded on a machine: runs of equal work in the order of running, to be dealt out anew.

use opcost_stats::schedule::{MIRRORED_PAIRS_MIN, blocks};
use opcost_stats::{Block, Random};
use std::path::Path;

/// A recording of equal runs.
pub(crate) struct Noise {
    /// The names of the metrics.
    pub(crate) metrics: Vec<String>,
    /// By metric: a figure for each run, in the order of running.
    pub(crate) figures: Vec<Vec<f64>>,
}

impl Noise {
    /// Reads one of the files that `tools/record-noise` makes.
    pub(crate) fn read(name: &str) -> Noise {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let metrics: Vec<String> =
            lines.next().unwrap_or("").split(' ').map(str::to_string).collect();
        let mut figures = vec![Vec::new(); metrics.len()];
        for line in lines {
            for (column, figure) in figures.iter_mut().zip(line.split(' ')) {
                column
                    .push(figure.parse().unwrap_or_else(|_| panic!("{}: {line}", path.display())));
            }
        }
        Noise { metrics, figures }
    }

    /// Returns the figures of a metric.
    pub(crate) fn column(&self, metric: &str) -> &[f64] {
        let at = self.metrics.iter().position(|known| known == metric);
        &self.figures[at.unwrap_or_else(|| panic!("{metric} was not recorded"))]
    }
}

/// Draws the start of a stretch of `runs` figures.
pub(crate) fn start(figures: &[f64], runs: usize, random: &mut Random) -> usize {
    assert!(runs <= figures.len(), "only {} runs were recorded", figures.len());
    random.index(figures.len() - runs + 1)
}

/// Draws the order of `pairs` runs of two variants: single pairs if few, else mirrored blocks.
pub(crate) fn interleaved(pairs: u32, random: &mut Random) -> Vec<Vec<usize>> {
    let singles = if pairs < MIRRORED_PAIRS_MIN { pairs } else { 0 };
    blocks(2, pairs, singles, random)
}

/// Deals consecutive figures out to two variants; the second variant's are `factor` times as large.
pub(crate) fn deal(figures: &[f64], order: &[Vec<usize>], factor: f64) -> Vec<Block<'static>> {
    let mut figures = figures.iter();
    let deal_one = |order: &Vec<usize>| {
        let mut block = Block::default();
        for (variant, figure) in order.iter().zip(figures.by_ref()) {
            match variant {
                0 => block.baseline.to_mut().push(*figure),
                _ => block.variant.to_mut().push(figure * factor),
            }
        }
        block
    };
    order.iter().map(deal_one).collect()
}
