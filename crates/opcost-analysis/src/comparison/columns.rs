//! A recording transposed: the figures are stored run by run and collected here metric by metric.
//!
//! **The unit of the test is the highest random level that the plan varies**: the build where opcost builds anew, the process
//! where a process makes several blocks, else the block. opcost averages over lower levels.

use super::threads_max;
use opcost_model::plan::Plan;
use opcost_model::recording::Recording;
use opcost_profile::parallel;
use opcost_record::metric::OPERATIONS;
use opcost_record::{MetricId, MetricKey, Record};
use opcost_stats::{Block, Total};
use std::num::NonZeroU64;

/// The metric by which figures per second are divided.
pub(super) const WALL: &str = "wall";
const NS_IN_SECOND: f64 = 1e9;

/// Whether figures are per second: those of a running program that counts no operations.
pub(super) fn per_second(plan: &Plan) -> bool {
    plan.attachment().is_some_and(|attachment| attachment.ops.is_none())
}

/// One metric of one variant: a figure for each finished run that has it, in the order of running.
#[derive(Clone, Default)]
pub(super) struct Column {
    /// The block of each run, ascending.
    pub(super) blocks: Vec<u32>,
    /// The raw integer of the first run, with its operations.
    pub(super) first: Option<Total>,
    /// Whether a later run had another total.
    pub(super) varies: bool,
    /// How often the inputs were drawn: once a run, or once a process on the emulated machine if a process makes several runs, as
    /// seed and padding then belong to the process.
    pub(super) drawn: usize,
    /// The figures, per operation if the metric is per operation.
    pub(super) values: Vec<f64>,
    /// Runs in which the counter was multiplexed.
    pub(super) multiplexed: usize,
}

/// The columns of every metric: by metric, then by variant.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) by_metric: Vec<Vec<Column>>,
    /// For each metric, whether its figures are the integers as they were read.
    pub(super) as_read: Vec<bool>,
}

impl Columns {
    /// Collects all columns in one pass over the runs of each variant, as the runs lie scattered in memory.
    pub(super) fn of(recording: &Recording, finished: &[Vec<&Record>]) -> Columns {
        let metrics = recording.dictionary.keys().len();
        let large = recording.records.len() > MANY_RUNS;
        let gathered = parallel::map(finished.iter().collect(), threads_max(large), |runs| {
            of_variant(recording, runs)
        });
        let mut columns = Columns {
            by_metric: (0..metrics).map(|_| Vec::with_capacity(finished.len())).collect(),
            as_read: vec![true; metrics],
        };
        for (of_variant, as_read) in gathered {
            for (metric, column) in of_variant.into_iter().enumerate() {
                columns.by_metric[metric].push(column);
                columns.as_read[metric] &= as_read[metric];
            }
        }
        columns
    }
}

/// The number of runs from which on a thread for each variant pays.
const MANY_RUNS: usize = 5_000;

/// The metric of the operations that divide the figures of a program's own region.
pub(super) fn operations_of(recording: &Recording, key: &MetricKey) -> Option<MetricId> {
    if !key.is_of_program_region() || !key.row().per_op {
        return None;
    }
    let keys = recording.dictionary.keys();
    let is_it = |other: &MetricKey| other.name == OPERATIONS && other.region == key.region;
    keys.iter().position(is_it).map(|id| id as MetricId)
}

/// The columns of one variant by metric, and for each metric whether its figures are the integers as they were read.
fn of_variant(recording: &Recording, records: &[&Record]) -> (Vec<Column>, Vec<bool>) {
    let keys = recording.dictionary.keys();
    let per_op: Vec<bool> = keys.iter().map(|key| key.row().per_op).collect();
    let operations: Vec<Option<MetricId>> =
        keys.iter().map(|key| operations_of(recording, key)).collect();
    let mut by_metric = vec![Column::default(); keys.len()];
    let plan = &recording.plan;
    let per_second = per_second(plan);
    let drawn_by_process = plan.emulation().is_some() && plan.in_process.is_some();
    // Only figures per second need the time of each period.
    let wall = keys.iter().position(|key| key.name == WALL).filter(|_| per_second);
    let mut as_read = vec![true; keys.len()];
    for (index, record) in records.iter().enumerate() {
        let Some(block) = record.block else { continue };
        let wall_ns = wall.and_then(|wall| record.sample(wall as MetricId)).map(|wall| wall.value);
        let period_ns = wall_ns.and_then(NonZeroU64::new);
        let ops = record.ops.and_then(NonZeroU64::new).unwrap_or(NonZeroU64::MIN);
        for sample in &record.samples {
            let metric = usize::from(sample.metric);
            let own = operations[metric].and_then(|id| record.sample(id));
            let own = own.and_then(|sample| NonZeroU64::new(sample.value));
            let ops = match keys[metric].is_of_program_region() {
                true => own.unwrap_or(NonZeroU64::MIN),
                false if per_op[metric] => ops,
                false => NonZeroU64::MIN,
            };
            let total = Total { value: sample.value, ops };
            let figure = match period_ns.filter(|_| per_op[metric]) {
                Some(period_ns) => Total { ops: period_ns, ..total }.per_op() * NS_IN_SECOND,
                None => total.per_op(),
            };
            as_read[metric] &= ops == NonZeroU64::MIN && !per_second;
            let column = &mut by_metric[metric];
            let is_same_draw = |last: &u32| plan.unit_of(*last) == plan.unit_of(block);
            let drawn = !(drawn_by_process && column.blocks.last().is_some_and(is_same_draw));
            column.drawn += usize::from(drawn);
            if column.values.is_empty() {
                // Most metrics are read in every run; reserved room that stays unused takes no memory.
                column.blocks.reserve_exact(records.len() - index);
                column.values.reserve_exact(records.len() - index);
            }
            column.blocks.push(block);
            // No two periods have exactly the same length, so figures per second always vary.
            column.varies |= per_second || *column.first.get_or_insert(total) != total;
            column.values.push(figure);
            let multiplexed = sample.time.is_some_and(|time| time.multiplexed());
            column.multiplexed += usize::from(multiplexed);
        }
    }
    (by_metric, as_read)
}

impl Columns {
    /// Whether the counter of a metric was multiplexed in any run.
    pub(super) fn multiplexed(&self, metric: usize) -> bool {
        self.by_metric[metric].iter().any(|column| column.multiplexed > 0)
    }
}

impl Column {
    /// The total that all runs share if at least two of them drew their own inputs, repeated as often as an exact comparison needs
    /// it.
    pub(super) fn alike(&self) -> Option<[Total; 2]> {
        self.first.filter(|_| !self.varies && self.drawn >= 2).map(|total| [total; 2])
    }

    /// The figures of one unit of `blocks_per_unit` blocks, from `start` on; moves `start` behind them.
    fn of_unit(&self, unit: u32, blocks_per_unit: u32, start: &mut usize) -> &[f64] {
        let rest = &self.blocks[*start..];
        let length = rest.iter().take_while(|found| **found / blocks_per_unit == unit).count();
        let figures = &self.values[*start..*start + length];
        *start += length;
        figures
    }
}

/// Whether both sides have the same figures throughout each unit of the test that both have runs in.
pub(super) fn same_in_each_unit(blocks: &[Block<'_>]) -> bool {
    blocks.iter().filter(|block| block.complete()).all(|block| {
        let mut figures = block.baseline.iter().chain(block.variant.iter());
        let first = figures.next();
        figures.all(|figure| Some(figure) == first)
    })
}

/// The figures of two variants by the units of the test: block by block, or build by build with all blocks of a build as one.
pub(super) fn blocks<'a>(baseline: &'a Column, variant: &'a Column, plan: &Plan) -> Vec<Block<'a>> {
    let (mut at_baseline, mut at_variant) = (0, 0);
    let size = plan.blocks_per_unit();
    (0..(plan.blocks.len() as u32).div_ceil(size))
        .map(|unit| Block {
            baseline: baseline.of_unit(unit, size, &mut at_baseline).into(),
            variant: variant.of_unit(unit, size, &mut at_variant).into(),
        })
        .collect()
}
