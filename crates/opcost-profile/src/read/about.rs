//! How a profile was recorded, as its file says.

use opcost_record::Unit;

/// How samples were taken.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EventAbout {
    /// Whether a timer took them (`cpu-clock`, `task-clock`); their unit is a nanosecond.
    pub clock: bool,
    /// Whether the event's unit is a byte (`alloc_space`).
    pub bytes: bool,
    /// How near the sampled instruction is to the one that caused the event (`precise_ip`, 0 to 3);
    /// `None` for events that no counter of the CPU counts.
    pub precise: Option<u8>,
    /// Whether the instruction that caused the event took the sample: a page fault, a tracepoint,
    /// any event of the kernel except its clocks.
    pub exact: bool,
    /// The event that leads this event's group, if only the leader takes samples (`{a,b}:S`).
    pub counted_with: Option<String>,
    /// The samples asked for, per second.
    pub frequency_hz: Option<u64>,
    /// The number of events from one sample to the next, if it is fixed.
    pub period: Option<u64>,
    /// Whether samples have callers.
    pub with_callers: bool,
}

impl EventAbout {
    /// The unit of the event's costs.
    pub fn unit(&self) -> Unit {
        match (self.clock, self.bytes) {
            (true, _) => Unit::Ns,
            (false, true) => Unit::Bytes,
            (false, false) => Unit::Count,
        }
    }
}

/// Facts about a recording.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct About {
    /// The file's format.
    pub format: &'static str,
    /// The event whose cost the profile holds.
    pub event: String,
    /// All events of the file.
    pub events: Vec<String>,
    /// The events before the shown one, if it is shown because these have no samples.
    pub without_samples: Vec<String>,
    /// How samples were taken; `None` where costs were counted.
    pub sampling: Option<EventAbout>,
    /// The profiler's command.
    pub command: Option<String>,
    /// The computer's name.
    pub host: Option<String>,
    /// The kernel's version.
    pub kernel_release: Option<String>,
    /// CPU time of the work, counted beside the samples; nanoseconds.
    pub cpu_ns: Option<u64>,
    /// Time from the first sample to the last.
    pub duration_ns: Option<u64>,
    /// The files that were read and added up, for formats with several files a run; else 0.
    pub files: u32,
    /// Whether the profiler stopped before it wrote the end of the file.
    pub unfinished: bool,
}
