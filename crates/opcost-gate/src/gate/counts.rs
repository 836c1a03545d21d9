//! The counts of one revision, from its recording.

use super::floor::Floor;
use super::key::FigureKey;
use super::suite::WatchedFigure;
use opcost_analysis::comparison::ledger::OPERATIONS_RULE;
use opcost_analysis::comparison::{Comparison, LedgerEntry, Severity, compare};
use opcost_model::plan::guest::Question;
use opcost_model::recording::Recording;
use opcost_model::recording::settings::{self, Of, Revision};
use opcost_record::metric::SYNCHRONOUS;
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::printable;
use opcost_record::profile::KERNEL;
use opcost_record::{Better, MetricId, MetricKey, Outcome, Record, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// One count of one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The name, as baseline files have it.
    pub metric: String,
    /// The unit.
    pub unit: Unit,
    /// The direction that is better.
    pub better: Better,
    /// The count, or why there is none.
    pub value: Result<u64, String>,
    /// How far seeds and layouts alone move the count; `None` if too few layouts were run.
    pub floor: Option<Floor>,
    /// The count in each layout that was run, in the order of the layouts.
    pub in_layouts: Vec<u64>,
    /// Whether the count is judged beside the metric that decides, although the suite does not name it.
    pub is_beside: bool,
}

/// The count of a program's own instructions. It is judged beside [`Question::Whole`]'s metric, whose layout floor may be larger
/// than all that a small program executes.
const BESIDE: &str = "instructions:u";

/// The watched counts in a recording of one variant. They are those of the first block, whose inputs are the same in every
/// recording of the case.
///
/// # Errors
/// The ledger's reason for refusing the runs.
pub fn counts(recording: &Recording, watched: &[WatchedFigure]) -> Result<Vec<Count>, String> {
    let comparison = compare(recording).0;
    // A gate compares recordings of one variant each, which by itself only raises a doubt.
    let timed = |entry: &&LedgerEntry| {
        entry.rule == OPERATIONS_RULE && entry.severity != Severity::Fine && !entry.waived
    };
    let timed = comparison.ledger.iter().find(timed);
    let timed = timed.map(|entry| format!("{} ({})", entry.detail, entry.rule));
    if let Some(why) = refusal(&comparison).or(timed) {
        return Err(why);
    }
    if watched.is_empty() {
        let primary = recording.plan.primary.label();
        let mut counts = vec![of_metric(recording, &primary)];
        if primary == Question::Whole.metric(false) && recording.plan.boots_kernels() {
            let beside = Count { is_beside: true, ..of_metric(recording, BESIDE) };
            counts.extend(Some(beside).filter(|count| count.value.is_ok()));
        }
        return Ok(counts);
    }
    let counts = watched.iter().map(|figure| match figure {
        WatchedFigure::Metric(name) => of_metric(recording, name),
        WatchedFigure::Function(name) => of_function(recording, name, &figure.label()),
    });
    Ok(counts.collect())
}

/// Why the ledger refuses the runs, if it does.
pub fn refusal(comparison: &Comparison) -> Option<String> {
    let refuses = |severity, waived: bool| severity == Severity::Refuse && !waived;
    let mut ledger = comparison.ledger.iter();
    let entry = ledger.find(|entry| refuses(entry.severity, entry.waived))?;
    Some(format!("{} ({})", entry.detail, entry.rule))
}

/// A count per operation is a count of so many operations, since counts are whole numbers.
const OPERATIONS: f64 = 1e6;
/// The text behind the name of such a count.
pub const PER_OPERATIONS: &str = "/Mop";

/// The text behind the name of a count of [`OPERATIONS`] operations; `None` if counts are those of whole runs, as a run's operations
/// are the same in every revision.
fn per_operations(recording: &Recording) -> Option<&'static str> {
    recording.plan.variants[0].ops.is_some().then_some(PER_OPERATIONS)
}

fn scaled(per_op: f64) -> u64 {
    (per_op * OPERATIONS).round() as u64
}

/// The count of a function of whose code an operation executes so many instructions.
fn of_operations(recording: &Recording, per_op: bool, own: f64) -> u64 {
    match (per_operations(recording), recording.records.iter().find_map(|run| run.ops)) {
        (Some(_), _) if per_op => scaled(own),
        (None, Some(ops)) if per_op => (own * ops as f64).round() as u64,
        _ => own.round() as u64,
    }
}

/// The counts of finished runs by block; warm-up runs have the key `None`.
fn by_block(recording: &Recording, metric: MetricId) -> BTreeMap<Option<u32>, u64> {
    let finished = recording.records.iter().filter(|run| run.outcome == Outcome::Finished);
    let per_op = recording.dictionary.key(metric).is_some_and(|key| key.row().per_op);
    let scale = per_operations(recording).filter(|_| per_op);
    let count = |run: &Record| {
        let value = run.sample(metric)?.value;
        Some(match (scale, run.ops) {
            (Some(_), Some(ops)) => scaled(value as f64 / ops.max(1) as f64),
            _ => value,
        })
    };
    finished.filter_map(|run| Some((run.block, count(run)?))).collect()
}

fn of_metric(recording: &Recording, name: &str) -> Count {
    let keys = recording.dictionary.keys();
    let key = keys.iter().find(|key| key.label() == name);
    let row = key.map(MetricKey::row);
    let counts = |key| recording.dictionary.id(key).map(|id| by_block(recording, id));
    let per = key.filter(|key| key.row().per_op).and_then(|_| per_operations(recording));
    let counts = key.and_then(counts).unwrap_or_default();
    let value = match (key, counts.get(&None), counts.get(&Some(0))) {
        (None, ..) => {
            let known: Vec<String> = keys.iter().map(MetricKey::label).collect();
            let near = did_you_mean(name, known.iter().map(String::as_str));
            Err(format!("the runs have no such metric{near}"))
        }
        (_, Some(repeated), Some(first)) if repeated != first => {
            Err(format!("its counts do not repeat: {first}, then {repeated}"))
        }
        (_, _, Some(first)) => Ok(*first),
        (Some(key), ..) if key.name == SYNCHRONOUS => Err(
            "no run has it, as the kernel's symbols do not tell deferred work apart; name another metric, for example \
             instructions:k"
                .into(),
        ),
        _ => Err("no run has it".into()),
    };
    let in_layouts: Vec<u64> =
        counts.iter().filter(|(block, _)| block.is_some()).map(|(_, count)| *count).collect();
    Count {
        metric: format!("{name}{}", per.unwrap_or_default()),
        unit: row.map_or(Unit::Count, |row| row.unit),
        better: row.map_or(Better::Neither, |row| row.better),
        value,
        floor: Floor::of(in_layouts.iter().copied()),
        in_layouts,
        is_beside: false,
    }
}

fn of_function(recording: &Recording, name: &str, label: &str) -> Count {
    let blocks = recording.plan.blocks.len() as u32;
    let counts = (0..blocks).map(|block| function_count(&only_block(recording, block), name));
    let counts: Vec<Result<u64, String>> = counts.collect();
    let known: Vec<u64> = counts.iter().filter_map(|count| count.clone().ok()).collect();
    Count {
        metric: format!("{label}{}", per_operations(recording).unwrap_or_default()),
        unit: Unit::Count,
        better: Better::Lower,
        floor: Floor::of(known.iter().copied()),
        in_layouts: known,
        is_beside: false,
        value: counts.into_iter().next().unwrap_or_else(|| Err("no run has it".into())),
    }
}

/// The instructions of a function's own code in a recording of one run.
fn function_count(recording: &Recording, name: &str) -> Result<u64, String> {
    let costs = compare(recording).0.function_costs.pop().ok_or("no run has a profile")?;
    let rows: Vec<_> = costs.rows.iter().filter(|row| row.symbol == name).collect();
    if rows.is_empty() {
        let known = costs.rows.iter().map(|row| row.symbol.as_str());
        let near = did_you_mean(name, known);
        return Err(format!(
            "the work never ran such a function, or it is a part of its callers{near}"
        ));
    }
    Ok(rows.iter().map(|row| of_operations(recording, costs.per_op, row.own)).sum())
}

/// A function's own instructions and its calls in one layout.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct OwnCount {
    /// Its own instructions.
    pub own: u64,
    /// Its calls.
    pub calls: u64,
    /// Whether it is a function of the kernel.
    pub is_kernel: bool,
}

/// The own instructions of every function of a recording of one variant, by symbol.
#[derive(Clone, Debug, Default)]
pub struct FunctionCounts {
    /// The counts of the first layout. Empty if no run has a profile.
    pub own: BTreeMap<String, OwnCount>,
    /// How far seeds and layouts alone move each function's own instructions; none if too few layouts were run.
    pub floors: BTreeMap<String, Floor>,
    /// The functions whose own instructions are not the same in every layout.
    pub varying: BTreeSet<String>,
    /// The layouts that were run.
    pub layouts: u32,
}

/// The own instructions of every function of a recording of one variant.
pub fn functions(recording: &Recording) -> FunctionCounts {
    let blocks = recording.plan.blocks.len() as u32;
    let of_blocks: Vec<_> =
        (0..blocks).map(|block| own_counts(&only_block(recording, block))).collect();
    let of = |block: &BTreeMap<String, OwnCount>, name: &String| {
        block.get(name).map_or(0, |count| count.own)
    };
    let all: BTreeSet<&String> = of_blocks.iter().flat_map(BTreeMap::keys).collect();
    let floors = all.iter().filter_map(|name| {
        Some(((*name).clone(), Floor::of(of_blocks.iter().map(|block| of(block, name)))?))
    });
    let varies =
        |name: &&&String| of_blocks.iter().any(|block| of(block, name) != of(&of_blocks[0], name));
    FunctionCounts {
        floors: floors.collect(),
        varying: all.iter().filter(varies).map(|name| (*name).clone()).collect(),
        own: of_blocks.first().cloned().unwrap_or_default(),
        layouts: blocks,
    }
}

/// The own instructions of every function in a recording of one run.
fn own_counts(recording: &Recording) -> BTreeMap<String, OwnCount> {
    let mut counts: BTreeMap<String, OwnCount> = BTreeMap::new();
    let Some(costs) = compare(recording).0.function_costs.pop() else { return counts };
    for row in &costs.rows {
        let count = counts.entry(row.symbol.clone()).or_default();
        let [own, calls] = [row.own, row.calls.unwrap_or(0.0)]
            .map(|figure| of_operations(recording, costs.per_op, figure));
        count.own += own;
        count.calls += calls;
        count.is_kernel |= row.module == KERNEL;
    }
    counts
}

/// A recording with the runs of one block only.
pub fn only_block(recording: &Recording, block: u32) -> Recording {
    let mut only = recording.clone();
    only.records.retain(|run| run.block == Some(block));
    let slots: Vec<u32> = only.records.iter().map(|run| run.slot).collect();
    only.profiles.retain(|(slot, _)| slots.contains(slot));
    only
}

/// The conditions, apart from the revision that was built, on which the counts of a recording depend.
pub fn key(recording: &Recording, revision: Revision<'_>) -> FigureKey {
    // The last state has what the runs revealed.
    let state = recording.machine.last();
    let of = Of { state, revision: Some(revision), ..Of::recording(recording, 0) };
    FigureKey::new(settings::key_parts(&of))
}

/// The command or workload of a case, in one line.
pub fn describe(recording: &Recording) -> String {
    printable(&recording.plan.variants[0].work.describe())
}
