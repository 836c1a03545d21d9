//! A run, as stored.

use crate::MetricKey;
use crate::message::{Contents, Fault, Format, MessageError, decode_first, message};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How long a counter was asked to count and how long it counted. The times differ if the kernel
/// multiplexed the counter with others (`perf_event_open(2)`, PERF_FORMAT_TOTAL_TIME_*).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct CountingTime {
    /// Nanoseconds that the counter was enabled.
    pub enabled_ns: u64,
    /// Nanoseconds that the counter was on the hardware.
    pub running_ns: u64,
}

impl CountingTime {
    /// Whether the counter missed part of the time; its value is then not a full count.
    pub fn multiplexed(self) -> bool {
        self.running_ns < self.enabled_ns
    }
}

/// A figure read by a source.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Reading {
    /// The figure's name, domain, source and region.
    pub key: MetricKey,
    /// The raw integer, in the unit of the metric's row.
    pub value: u64,
    /// Counting times, for counters that the kernel may multiplex.
    pub time: Option<CountingTime>,
}

impl Reading {
    /// Makes a reading that cannot be multiplexed.
    pub fn plain(key: MetricKey, value: u64) -> Self {
        Reading { key, value, time: None }
    }
}

/// A property of the work that must be the same in every run of every variant.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Invariant {
    /// The property: `op-stream-hash`, `ops-mmap`, `page-faults`.
    pub name: String,
    /// The value as text without white space, compared for equality only.
    pub value: String,
}

/// A measured program's report on one run: over a pipe on the host, over a channel of its own from the guest.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Report {
    /// Operations performed in the work region; `None` for a command, which is one operation.
    pub ops: Option<u64>,
    /// Every figure read.
    pub readings: Vec<Reading>,
    /// Every declared invariant.
    pub invariants: Vec<Invariant>,
}

static FORMAT: Format = Format {
    letter: b'r',
    name: "the report",
    peer: "program",
    empty: "the program sent no report; it ended before its work was done",
    cut_short: "; the program died while reporting",
    bytes_max: 64 << 20,
    deflated: false,
};

impl Contents for Report {}

message!(Report, FORMAT);

impl Report {
    /// Reads the reports of a program that makes several runs, one after the other.
    ///
    /// Returns the whole reports, and the fault of the bytes behind them, if there are any.
    pub fn decode_all(mut bytes: &[u8]) -> (Vec<Report>, Option<MessageError>) {
        let mut reports = Vec::new();
        while !bytes.is_empty() {
            match decode_first(&FORMAT, bytes) {
                Ok((report, rest)) => {
                    reports.push(report);
                    bytes = rest;
                }
                Err(error) => return (reports, Some(error)),
            }
        }
        (reports, None)
    }

    /// Returns the error for a program that sent nothing.
    pub fn missing() -> MessageError {
        FORMAT.error(Fault::Empty)
    }
}

/// Index of a metric in the recording's [`Dictionary`].
pub type MetricId = u16;

/// A reading with its metric's number, as stored.
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
        /// The last lines of standard error; `None` if nothing is known of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<String>,
    },
    /// A signal ended the program.
    Signal {
        /// The signal's number.
        signal: i32,
        /// The last lines of standard error; `None` if nothing is known of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<String>,
    },
    /// The program ran longer than allowed and was killed.
    Timeout {
        /// The limit, in milliseconds.
        limit_ms: u64,
        /// The last lines of standard error; `None` if nothing is known of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<String>,
    },
    /// A signal stopped the program, and opcost killed it.
    Stopped {
        /// The signal's number.
        signal: i32,
        /// The last lines of standard error; `None` if nothing is known of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<String>,
    },
    /// The program executed an instruction that its CPU does not have.
    IllegalInstruction {
        /// How it ended, the instruction and its feature as far as they are known, and a remedy.
        detail: String,
    },
    /// The program's output does not say how many operations it did.
    Operations {
        /// The fault, and the first lines of the output.
        detail: String,
    },
    /// The built-in workload reported an error, or its report could not be read.
    Work {
        /// The reported error, or the fault of the report.
        detail: String,
    },
}

impl Failure {
    /// The place of the last lines of standard error, for failures of the program itself.
    pub fn stderr_mut(&mut self) -> Option<&mut Option<String>> {
        match self {
            Failure::ExitStatus { stderr, .. }
            | Failure::Signal { stderr, .. }
            | Failure::Timeout { stderr, .. }
            | Failure::Stopped { stderr, .. } => Some(stderr),
            _ => None,
        }
    }

    /// Whether the program failed by itself, and nothing is known of its standard error.
    pub fn lacks_stderr(&self) -> bool {
        match self {
            Failure::ExitStatus { stderr, .. }
            | Failure::Signal { stderr, .. }
            | Failure::Timeout { stderr, .. }
            | Failure::Stopped { stderr, .. } => stderr.is_none(),
            _ => false,
        }
    }

    /// The last lines of standard error; `None` if nothing is known of them.
    pub fn stderr(&self) -> Option<&str> {
        match self {
            Failure::ExitStatus { stderr, .. }
            | Failure::Signal { stderr, .. }
            | Failure::Timeout { stderr, .. }
            | Failure::Stopped { stderr, .. } => stderr.as_deref(),
            _ => None,
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The run finished; its samples count.
    Finished,
    /// The run failed; its readings are kept but not compared.
    Failed(Failure),
}

/// A run of one variant: raw integers only.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Position in the plan's schedule.
    pub slot: u32,
    /// Index of the variant in the plan.
    pub variant: u16,
    /// The block; `None` for warm-up runs.
    pub block: Option<u32>,
    /// Start, nanoseconds since the Unix epoch.
    pub started_unix_ns: u64,
    /// How the run ended.
    pub outcome: Outcome,
    /// The exit status, if the program ended by itself.
    pub exit_code: Option<i32>,
    /// Operations performed; `None` for a command.
    pub ops: Option<u64>,
    /// The figures.
    pub samples: Vec<Sample>,
    /// The declared invariants.
    pub invariants: Vec<Invariant>,
}

impl Record {
    /// Returns the sample of a metric, if the run has one.
    pub fn sample(&self, metric: MetricId) -> Option<&Sample> {
        // Metrics are numbered in the order of reading: usually the sample is at its number.
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
    /// Makes a dictionary of keys that already have their numbers.
    pub fn from_keys(keys: Vec<MetricKey>) -> Self {
        let ids = keys.iter().enumerate().map(|(id, key)| (key.clone(), id as MetricId)).collect();
        Dictionary { keys, ids }
    }

    /// Returns the metrics, in the order of their numbers.
    pub fn keys(&self) -> &[MetricKey] {
        &self.keys
    }

    /// Returns the metric with this number.
    pub fn key(&self, id: MetricId) -> Option<&MetricKey> {
        self.keys.get(usize::from(id))
    }

    /// Returns the number of a metric, if it has one.
    pub fn id(&self, key: &MetricKey) -> Option<MetricId> {
        self.ids.get(key).copied()
    }

    /// Returns the number of a metric; a new metric gets one.
    pub fn intern(&mut self, key: &MetricKey) -> MetricId {
        if let Some(id) = self.id(key) {
            return id;
        }
        let id = MetricId::try_from(self.keys.len()).expect("fewer than 65,536 metrics");
        self.keys.push(key.clone());
        self.ids.insert(key.clone(), id);
        id
    }

    /// Turns readings into samples; new metrics get numbers.
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Domain;
    use crate::message::tests::check_message;
    use proptest::prelude::*;

    pub(crate) fn sample() -> Report {
        let reading = |name: &str, domain, source: &str, value, time: Option<(u64, u64)>| Reading {
            key: MetricKey {
                name: name.into(),
                domain,
                source: source.into(),
                region: "work".into(),
            },
            value,
            time: time.map(|(enabled_ns, running_ns)| CountingTime { enabled_ns, running_ns }),
        };
        let times = Some((1_314_782_469, 1_314_782_469));
        Report {
            ops: Some(1_000_000),
            readings: vec![
                reading("wall", Domain::All, "clock", 281_934_411, None),
                reading("instructions", Domain::Kernel, "perf_event", 1_957_153_827, times),
            ],
            invariants: vec![Invariant { name: "op-stream-hash".into(), value: "8c5e1d".into() }],
        }
    }

    #[test]
    fn a_report_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &sample());
        check_message(&FORMAT, &Report::default());
    }

    proptest! {
        #[test]
        fn several_reports_are_read_as_far_as_they_are_whole(
            ops in prop::collection::vec(any::<Option<u64>>(), 0..4), cut in any::<prop::sample::Index>()
        ) {
            let reports: Vec<Report> = ops.iter().map(|ops| Report { ops: *ops, ..sample() }).collect();
            let messages: Vec<Vec<u8>> = reports.iter().map(Report::encode).collect();
            let bytes = messages.concat();
            prop_assert_eq!(Report::decode_all(&bytes), (reports.clone(), None));
            let failed = [&bytes[..], &Report::encode_error("no room")].concat();
            let error = Some(FORMAT.error(Fault::Reported("no room".into())));
            prop_assert_eq!(Report::decode_all(&failed), (reports.clone(), error));
            let end = if bytes.is_empty() { 0 } else { cut.index(bytes.len()) };
            let (read, error) = Report::decode_all(&bytes[..end]);
            prop_assert_eq!(&read[..], &reports[..read.len()]);
            let whole: usize = messages[..read.len()].iter().map(Vec::len).sum();
            prop_assert_eq!(error.is_none(), whole == end);
        }
    }
}
