//! Joins the shards of a plan, made on several computers, into the recording that one computer would make.

use opcost_base::exit::{HasStatus, Status};
use opcost_base::number::grouped;
use opcost_model::plan::{MachineKind, Plan, WorkPlan};
use opcost_model::recording::settings::{self, Difference, Of};
use opcost_model::recording::{MachineState, Recording, State};
use opcost_record::metric::EMULATOR;
use opcost_record::printable::printable;
use opcost_record::{Dictionary, Reading, Record};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How many differences an error lists.
const SHOWN: usize = 3;

/// A recording of one shard, and the file that holds it.
#[derive(Clone, Debug)]
pub struct Part {
    /// The file, as the user named it.
    pub file: String,
    /// The recording.
    pub recording: Recording,
}

/// Why parts do not make one recording.
#[derive(Debug, Eq, PartialEq)]
pub enum GatherError {
    /// Two parts belong to different plans.
    OtherPlan {
        /// The files of the two parts.
        files: [String; 2],
        /// The differences between the plans, in words.
        differences: Vec<String>,
    },
    /// Two parts hold the same shard.
    Twice {
        /// The number of the shard.
        shard: u32,
        /// The files that hold the shard.
        files: [String; 2],
    },
    /// No part holds these shards.
    Missing {
        /// The numbers of the missing shards.
        shards: Vec<u32>,
        /// The number of shards in the plan.
        of: u32,
    },
    /// Shards whose runs were not all made, or have failed.
    Unfinished(Vec<Unfinished>),
    /// Two parts were made with different programs, kernels, emulators or versions of opcost.
    OtherMachine {
        /// The files of the two parts.
        files: [String; 2],
        /// The differences between the machines, in words.
        differences: Vec<String>,
    },
    /// The run that all parts have in common gave different counts in two parts.
    Digits {
        /// The files of the two parts.
        files: [String; 2],
        /// Each count that differs, in words.
        differences: Vec<String>,
    },
}

/// A shard whose runs were not all made, or have failed.
#[derive(Debug, Eq, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Unfinished {
    pub shard: u32,
    pub file: String,
    pub state: &'static str,
    pub made: usize,
    pub due: usize,
}

impl fmt::Display for GatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = |files: &[String; 2]| {
            format!("'{}' and '{}'", printable(&files[0]), printable(&files[1]))
        };
        match self {
            GatherError::OtherPlan { files, differences } => {
                write!(f, "{} are parts of different plans: {}", both(files), some_of(differences))
            }
            GatherError::Twice { shard, files } => {
                write!(f, "shard {shard} is there twice, in {}; leave one of both out", both(files))
            }
            GatherError::Missing { shards, of } => {
                let (word, list) =
                    (if shards.len() == 1 { "shard" } else { "shards" }, ranges(shards));
                write!(f, "{word} {list} of {of} missing; make each with opcost run --shard N/{of}")
            }
            GatherError::Unfinished(parts) => {
                let each: Vec<String> = parts
                    .iter()
                    .map(|part| {
                        let Unfinished { shard, file, state, made, due } = part;
                        format!(
                            "shard {shard} in '{}' ({state}, {made} of {due} runs)",
                            printable(file)
                        )
                    })
                    .collect();
                write!(
                    f,
                    "not complete: {}; the same opcost run --shard goes on with what is there",
                    some_of(&each)
                )
            }
            GatherError::OtherMachine { files, differences } => {
                write!(f, "{} cannot be compared: {}", both(files), some_of(differences))
            }
            GatherError::Digits { files, differences } => write!(
                f,
                "{} counted the run that they have in common differently: {}; the programs, their libraries and \
                 opcost itself have to be the same on every computer",
                both(files),
                some_of(differences)
            ),
        }
    }
}

impl std::error::Error for GatherError {}

impl HasStatus for GatherError {
    fn status(&self) -> Status {
        match self {
            GatherError::Twice { .. } => Status::Usage,
            GatherError::Missing { .. } | GatherError::Unfinished(_) => Status::Missing,
            GatherError::OtherPlan { .. }
            | GatherError::OtherMachine { .. }
            | GatherError::Digits { .. } => Status::NotComparable,
        }
    }
}

/// The first few texts, and the number of the others.
fn some_of(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Numbers as `1-3, 7`.
pub fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let words = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    words.collect::<Vec<_>>().join(",")
}

/// Joins the parts of a plan into the recording that one computer would make of the whole plan.
///
/// `parts`: recordings of shards, at least one. If a shard is there complete and incomplete, the
/// complete one counts.
///
/// # Errors
/// [`GatherError`] names the parts that are at fault.
pub fn gather(parts: Vec<Part>) -> Result<Recording, GatherError> {
    check_plans(&parts)?;
    let parts = one_of_each(parts)?;
    let emulated = parts[0].recording.plan.machine() == MachineKind::Emulated;
    if emulated {
        check_machines(&parts)?;
        check_common_runs(&parts)?;
    }
    Ok(joined(parts))
}

/// Refuses parts of different plans.
fn check_plans(parts: &[Part]) -> Result<(), GatherError> {
    let plain = |part: &Part| plan_as_json(&part.recording.plan.common_to_shards());
    let first = plain(&parts[0]);
    for other in &parts[1..] {
        let mut differences = Vec::new();
        compare_json("", &first, &plain(other), &mut differences);
        // Outer fields come first: a field of the whole plan explains many of its blocks.
        differences.sort_by_key(|text| {
            text.split(' ').next().map(|path| path.matches(['.', '[']).count())
        });
        if !differences.is_empty() {
            return Err(GatherError::OtherPlan { files: files(&parts[0], other), differences });
        }
    }
    Ok(())
}

fn plan_as_json(plan: &Plan) -> Value {
    serde_json::to_value(plan).expect("a plan is stored as JSON")
}

/// Collects where two documents differ, with both values.
fn compare_json(path: &str, one: &Value, two: &Value, differences: &mut Vec<String>) {
    match (one, two) {
        (Value::Object(one), Value::Object(two)) => {
            let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
            for key in keys {
                let of = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or_default()
                };
                let dot = if path.is_empty() { "" } else { "." };
                compare_json(&format!("{path}{dot}{key}"), &of(one), &of(two), differences);
            }
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            for (index, (one, two)) in one.iter().zip(two).enumerate() {
                compare_json(&format!("{path}[{index}]"), one, two, differences);
            }
        }
        (one, two) if one != two => {
            let word = |value: &Value| match value {
                Value::Array(items) => format!("{} of them", items.len()),
                Value::Null => "none".into(),
                other => other.to_string(),
            };
            differences.push(format!("{path} is {} and {}", word(one), word(two)));
        }
        _ => {}
    }
}

fn files(one: &Part, other: &Part) -> [String; 2] {
    [one.file.clone(), other.file.clone()]
}

/// One finished part of each shard, in the order of the shards.
fn one_of_each(parts: Vec<Part>) -> Result<Vec<Part>, GatherError> {
    let of = parts[0].recording.plan.shards.map_or(1, |shards| shards.of);
    let mut finished: BTreeMap<u32, Part> = BTreeMap::new();
    let mut unfinished = Vec::new();
    for part in parts {
        let Some(shard) = part.recording.plan.shard() else { continue };
        let Recording { state, records, plan, .. } = &part.recording;
        if *state != State::Finished {
            let (made, due, state) = (records.len(), plan.slot_count(), state.word());
            unfinished.push(Unfinished { shard: shard.index, file: part.file, state, made, due });
            continue;
        }
        if let Some(other) = finished.get(&shard.index) {
            return Err(GatherError::Twice { shard: shard.index, files: files(other, &part) });
        }
        finished.insert(shard.index, part);
    }
    unfinished.retain(|part| !finished.contains_key(&part.shard));
    let begun = |shard: &u32| unfinished.iter().any(|part| part.shard == *shard);
    let shards: Vec<u32> =
        (1..=of).filter(|shard| !finished.contains_key(shard) && !begun(shard)).collect();
    if !shards.is_empty() {
        return Err(GatherError::Missing { shards, of });
    }
    if !unfinished.is_empty() {
        return Err(GatherError::Unfinished(unfinished));
    }
    Ok(finished.into_values().collect())
}

/// Refuses emulated parts of different programs, kernels, emulators or versions of opcost.
fn check_machines(parts: &[Part]) -> Result<(), GatherError> {
    let Some(first) = parts[0].recording.machine.first() else { return Ok(()) };
    let plan = &parts[0].recording.plan;
    let workload =
        plan.variants.iter().any(|variant| matches!(variant.work, WorkPlan::Workload { .. }));
    for part in parts {
        let states = part.recording.machine.iter();
        let differences: Vec<String> =
            states.flat_map(|state| machine_differences(first, state, workload)).collect();
        if !differences.is_empty() {
            return Err(GatherError::OtherMachine { files: files(&parts[0], part), differences });
        }
    }
    Ok(())
}

/// The differences between two emulated machines in everything that counts depend on, in words;
/// `workload`: whether the guest's init does the work.
fn machine_differences(one: &MachineState, other: &MachineState, workload: bool) -> Vec<String> {
    let sides = [one, other].map(|state| Of { state: Some(state), ..Of::default() });
    let init = one.guest_init().map(|file| file.path.display().to_string());
    let matters = |difference: &Difference| match difference.setting.name {
        // The emulator's version tells emulators apart.
        "tool" => workload && init.as_deref() == Some(difference.name()),
        _ => true,
    };
    let differences = settings::differences(sides, true).into_iter().filter(matters);
    let mut words: Vec<String> = differences
        .map(|difference| {
            let [one, other] = [0, 1].map(|side| difference.value(side));
            format!("{} is {one} and {other}", difference.what())
        })
        .collect();
    words.sort();
    words
}

/// Refuses parts whose warm-up runs, which all of them made, have different counts.
fn check_common_runs(parts: &[Part]) -> Result<(), GatherError> {
    for part in &parts[1..] {
        let differences: Vec<String> = common_runs(&parts[0].recording)
            .zip(common_runs(&part.recording))
            .flat_map(|(one, other)| {
                differences_of_runs((&parts[0].recording, one), (&part.recording, other))
            })
            .collect();
        if !differences.is_empty() {
            return Err(GatherError::Digits { files: files(&parts[0], part), differences });
        }
    }
    Ok(())
}

fn common_runs(recording: &Recording) -> impl Iterator<Item = &Record> {
    recording.records.iter().filter(|record| record.block.is_none())
}

/// The emulator's counts in which two runs differ, in words.
fn differences_of_runs(
    (one_of, one): (&Recording, &Record),
    (other_of, other): (&Recording, &Record),
) -> Vec<String> {
    let counts = |recording: &Recording, record: &Record| -> BTreeMap<String, u64> {
        let key = |metric| recording.dictionary.key(metric).filter(|key| key.source == EMULATOR);
        let counts = record
            .samples
            .iter()
            .filter_map(|sample| Some((key(sample.metric)?.label(), sample.value)));
        let ops = record.ops.map(|ops| ("operations".to_string(), ops));
        counts.chain(ops).collect()
    };
    let (counts_one, counts_other) = (counts(one_of, one), counts(other_of, other));
    let variant = printable(&one_of.plan.variants[usize::from(one.variant)].name);
    let mut labels: Vec<&String> = counts_one.keys().chain(counts_other.keys()).collect();
    labels.sort();
    labels.dedup();
    let word = |count: Option<&u64>| count.map_or("none".into(), |count| grouped(*count));
    let differing = labels.into_iter().filter_map(|label| {
        let values = (counts_one.get(label), counts_other.get(label));
        (values.0 != values.1)
            .then(|| format!("'{variant}' {label} {} and {}", word(values.0), word(values.1)))
    });
    let mut differences: Vec<String> = differing.collect();
    if one.invariants != other.invariants {
        differences.push(format!("'{variant}' did other work"));
    }
    differences
}

/// The runs of all parts in the order of the schedule; the warm-up runs are the first part's.
fn joined(parts: Vec<Part>) -> Recording {
    let plan = parts[0].recording.plan.with_shard(None);
    let per_computer = plan.computers().is_some();
    let warm_up_count = plan.warm_up_count() as u32;
    let mut whole = Recording {
        id: String::new(),
        created_unix_ns: parts.iter().map(|part| part.recording.created_unix_ns).min().unwrap_or(0),
        arrived_unix_ns: None,
        state: State::Finished,
        plan,
        machine: Vec::new(),
        dictionary: Dictionary::default(),
        records: Vec::new(),
        profiles: Vec::new(),
    };
    for (part, shard) in parts.into_iter().zip(1..) {
        let Recording { machine, dictionary, records, profiles, .. } = part.recording;
        let own = |slot: u32| shard == 1 || slot >= warm_up_count;
        for state in machine {
            let shard = per_computer.then_some(shard);
            let state = MachineState { shard, ..state };
            if per_computer || !whole.machine.iter().any(|known| !known.has_become(&state)) {
                whole.machine.push(state);
            }
        }
        whole.profiles.extend(profiles.into_iter().filter(|(slot, _)| own(*slot)));
        for record in records.into_iter().filter(|record| own(record.slot)) {
            let readings: Vec<Reading> = record
                .samples
                .iter()
                .filter_map(|sample| {
                    let key = dictionary.key(sample.metric)?.clone();
                    Some(Reading { key, value: sample.value, time: sample.time })
                })
                .collect();
            let samples = whole.dictionary.samples(&readings);
            whole.records.push(Record { samples, ..record });
        }
    }
    whole.records.sort_by_key(|record| record.slot);
    whole.profiles.sort_by_key(|(slot, _)| *slot);
    whole
}
