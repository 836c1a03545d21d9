//! One run, as stored.

use crate::MetricKey;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How long a counter was asked to count and how long it did; they differ when the kernel
/// multiplexed it with others (`perf_event_open(2)`, PERF_FORMAT_TOTAL_TIME_*).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct CountingTime {
    /// Nanoseconds the counter was enabled.
    pub enabled_ns: u64,
    /// Nanoseconds it was on the hardware.
    pub running_ns: u64,
}

impl CountingTime {
    /// Whether the counter missed part of the time, so that its value is not a full count.
    pub fn multiplexed(self) -> bool {
        self.running_ns < self.enabled_ns
    }
}

/// One figure read by a source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reading {
    /// Which figure.
    pub key: MetricKey,
    /// The raw integer, in the unit of the metric's row.
    pub value: u64,
    /// Counting times, for counters that the kernel may multiplex.
    pub time: Option<CountingTime>,
}

impl Reading {
    /// A reading that cannot be multiplexed.
    pub fn plain(key: MetricKey, value: u64) -> Self {
        Reading { key, value, time: None }
    }
}

/// A property of the work that must be the same in every run of every variant.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Invariant {
    /// What it is: `op-stream-hash`, `ops-mmap`, `page-faults`.
    pub name: String,
    /// Its value as text without white space, compared for equality only.
    pub value: String,
}

/// What a measured program says of one run: the payload of the wire format.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Report {
    /// Operations performed in the work region; `None` for a command, which is one operation.
    pub ops: Option<u64>,
    /// Every figure read.
    pub readings: Vec<Reading>,
    /// Every declared invariant.
    pub invariants: Vec<Invariant>,
}

/// Index of a metric in the recording's [`Dictionary`].
pub type MetricId = u16;

/// A reading with its metric given by number, as stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sample {
    /// The metric, an index into the recording's dictionary.
    pub metric: MetricId,
    /// The raw integer.
    pub value: u64,
    /// Counting times, for counters that the kernel may multiplex.
    pub time: Option<CountingTime>,
}

/// Why a run gave no result.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Failure {
    /// The program ended with a status other than 0.
    ExitStatus {
        /// The status.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// It ran longer than allowed and was killed.
    Timeout {
        /// The limit, in milliseconds.
        limit_ms: u64,
    },
    /// The built-in workload reported an error, or its report could not be read.
    Work {
        /// What it said.
        detail: String,
    },
}

/// How a run ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It finished; its samples count.
    Finished,
    /// It failed; what was read is kept but not compared.
    Failed(Failure),
}

/// One run of one variant: raw integers only.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Position in the plan's schedule.
    pub slot: u32,
    /// Index of the variant in the plan.
    pub variant: u16,
    /// The block; warm-up runs have none.
    pub block: Option<u32>,
    /// Start, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Exit status, where the program ended by itself.
    pub exit_code: Option<i32>,
    /// Operations performed; `None` for a command.
    pub ops: Option<u64>,
    /// The figures.
    pub samples: Vec<Sample>,
    /// The declared invariants.
    pub invariants: Vec<Invariant>,
}

impl Record {
    /// The sample of one metric, if this run has it.
    pub fn sample(&self, metric: MetricId) -> Option<&Sample> {
        // Metrics are numbered in the order of reading, so it is usually at its number.
        match self.samples.get(usize::from(metric)) {
            Some(sample) if sample.metric == metric => Some(sample),
            _ => self.samples.iter().find(|sample| sample.metric == metric),
        }
    }
}

/// The metrics of one recording, numbered in the order in which they were first read.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    keys: Vec<MetricKey>,
    ids: HashMap<MetricKey, MetricId>,
}

impl Dictionary {
    /// A dictionary over keys that already have their numbers.
    pub fn from_keys(keys: Vec<MetricKey>) -> Self {
        let ids = keys.iter().enumerate().map(|(id, key)| (key.clone(), id as MetricId)).collect();
        Dictionary { keys, ids }
    }

    /// The metrics, in the order of their numbers.
    pub fn keys(&self) -> &[MetricKey] {
        &self.keys
    }

    /// The metric with this number.
    pub fn key(&self, id: MetricId) -> Option<&MetricKey> {
        self.keys.get(usize::from(id))
    }

    /// The number of a metric, if it has one.
    pub fn id(&self, key: &MetricKey) -> Option<MetricId> {
        self.ids.get(key).copied()
    }

    /// The number of a metric, given one if it has none.
    pub fn intern(&mut self, key: &MetricKey) -> MetricId {
        if let Some(id) = self.id(key) {
            return id;
        }
        let id = MetricId::try_from(self.keys.len()).expect("fewer than 65,536 metrics");
        self.keys.push(key.clone());
        self.ids.insert(key.clone(), id);
        id
    }

    /// Turns readings into samples, numbering metrics that are new.
    pub fn samples(&mut self, readings: &[Reading]) -> Vec<Sample> {
        readings
            .iter()
            .map(|reading| Sample {
                metric: self.intern(&reading.key),
                value: reading.value,
                time: reading.time,
            })
            .collect()
    }
}
