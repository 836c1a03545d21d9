//! The counts of one revision, from its recording.

use super::floor::Floor;
use super::key::FigureKey;
use super::suite::WatchedFigure;
use crate::comparison::{Comparison, LedgerEntry, OPERATIONS_RULE, Severity, compare};
use crate::plan::{Aslr, VariantPlan, WorkPlan};
use crate::recording::Recording;
use opcost_kernel::KernelSpec;
use opcost_record::emulation::COUNTING_VERSION;
use opcost_record::metric::SYNCHRONOUS;
use opcost_record::nearest::did_you_mean;
use opcost_record::printable::{hexadecimal, printable};
use opcost_record::profile::KERNEL;
use opcost_record::{Better, MetricId, MetricKey, Outcome, Record, Unit};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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
}

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
        return Ok(vec![of_metric(recording, &primary)]);
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
    Count {
        metric: format!("{name}{}", per.unwrap_or_default()),
        unit: row.map_or(Unit::Count, |row| row.unit),
        better: row.map_or(Better::Neither, |row| row.better),
        value,
        floor: Floor::of(
            counts.iter().filter(|(block, _)| block.is_some()).map(|(_, count)| *count),
        ),
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
        floor: Floor::of(known.into_iter()),
        value: counts.into_iter().next().unwrap_or_else(|| Err("no run has it".into())),
    }
}

/// The instructions of a function's own code in a recording of one run.
fn function_count(recording: &Recording, name: &str) -> Result<u64, String> {
    let costs = compare(recording).0.function_costs.ok_or("no run has a profile")?;
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
    let Some(costs) = compare(recording).0.function_costs else { return counts };
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

/// The digits kept of a digest in a key.
const DIGITS: usize = 12;

/// The conditions, apart from the revision that was built, on which the counts of a recording depend.
///
/// `compiler`: the compiler that built the revision, if any; `tree`: the folder of the build; `is_kernel`: whether the revision is
/// the kernel that was booted.
pub fn key(
    recording: &Recording,
    compiler: Option<&str>,
    tree: &Path,
    is_kernel: bool,
) -> FigureKey {
    let plan = &recording.plan;
    let mut parts: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| parts.push((name.into(), value));
    add("arch", "x86_64".into());
    add("opcost", COUNTING_VERSION.to_string());
    add("seed", plan.seed.to_string());
    add("compiler", compiler.unwrap_or_default().into());
    let emulation = plan.emulation();
    if let Some(core) = emulation.and_then(|emulation| emulation.core.as_ref()) {
        add("core", core.fingerprint.clone());
    }
    if let Some(one_in) = emulation.and_then(|emulation| emulation.cycles_one_in) {
        add("cycles-one-in", one_in.to_string());
    }
    let variant = &plan.variants[0];
    if let Some(guest) = &variant.guest {
        add("cpu", guest.cpu_model.clone());
        add("boot", guest.boot.clone());
        add("disk", guest.disk.as_ref().map_or(String::new(), ToString::to_string));
        if guest.kernel.is_some() {
            add("cpus", guest.cpus.to_string());
            add("memory", guest.memory_mib.to_string());
        } else {
            // Nothing shifts the program in memory, so the length of its path matters: the path is on its stack.
            add("path", tree.as_os_str().len().to_string());
        }
    }
    add("work", work(variant, plan.aslr, tree));
    if let Some(state) = recording.machine.last() {
        add("emulator", state.emulator_version.clone().unwrap_or_default());
        // A kernel built from the revision itself is the thing under test.
        let is_tested = match variant.guest.as_ref().and_then(|guest| guest.kernel.as_ref()) {
            Some(KernelSpec::Image(path) | KernelSpec::BuildDir(path)) => path.starts_with(tree),
            _ => is_kernel,
        };
        for kernel in state.kernels.iter().filter(|_| !is_tested) {
            add("kernel", format!("{:.DIGITS$}", kernel.digest));
        }
        // The guest's init contains the code of workloads.
        let is_workload = matches!(variant.work, WorkPlan::Workload { .. });
        let init = state.guest_init().filter(|_| is_workload);
        let others = state.files_of_work().filter(|file| !file.path.starts_with(tree));
        for file in init.into_iter().chain(others) {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            add(&name, format!("{:.DIGITS$}", file.sha256));
        }
    }
    FigureKey::new(parts)
}

/// The digest of a case's command or workload with its parameters.
fn work(variant: &VariantPlan, aslr: Aslr, tree: &Path) -> String {
    let below =
        |path: &Path| path.strip_prefix(tree).unwrap_or(path).to_string_lossy().into_owned();
    let mut words: Vec<String> = match &variant.work {
        WorkPlan::Command { program, argv, .. } => {
            let argv = argv.iter().map(|word| word.to_string_lossy().into_owned());
            std::iter::once(below(program)).chain(argv).collect()
        }
        WorkPlan::Workload { name, params } => {
            let params = params.iter().map(|(key, value)| format!("{key}={value}"));
            std::iter::once(name.clone()).chain(params).collect()
        }
    };
    words.push(variant.cwd.as_deref().map(below).unwrap_or_default());
    words.push(serde_json::to_string(&aslr).unwrap_or_default());
    words.extend(variant.prepare.clone());
    if let Some(input) = &variant.input {
        words.extend(["<".into(), below(input)]);
    }
    if let Some(output) = &variant.output {
        words.extend([">".into(), below(Path::new(&output.text()))]);
    }
    if let Some(ops) = &variant.ops {
        words.extend(["ops".into(), ops.to_string()]);
    }
    words.extend(variant.env.iter().map(|(key, value)| format!("{key}={value}")));
    let mut digest = Sha256::new();
    for word in words {
        // The length is hashed too, so that different lists are different texts.
        digest.update((word.len() as u64).to_le_bytes());
        digest.update(word);
    }
    format!("{:.DIGITS$}", hexadecimal(&digest.finalize()))
}

/// The command or workload of a case, in one line.
pub fn describe(recording: &Recording) -> String {
    printable(&recording.plan.variants[0].work.describe())
}
