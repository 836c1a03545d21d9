//! What a profile's file says of how it was recorded.

/// How samples were taken.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EventAbout {
    /// Whether a timer took them (`cpu-clock`, `task-clock`); their unit is a nanosecond.
    pub clock: bool,
    /// How near the sampled instruction is to the one that caused the event (`precise_ip`, 0 to 3);
    /// `None` of what is no counter of the CPU.
    pub precise: Option<u8>,
    /// Whether each sample was taken by the very instruction that caused the event: a page fault, a
    /// tracepoint, any event of the kernel's but its clocks.
    pub exact: bool,
    /// The event whose samples it was counted at, if it has none of its own (`{a,b}:S`).
    pub counted_with: Option<String>,
    /// Samples asked for, a second.
    pub frequency_hz: Option<u64>,
    /// Events from one sample to the next, if that is fixed.
    pub period: Option<u64>,
    /// Whether samples have callers.
    pub with_callers: bool,
}

/// What is known of a recording.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct About {
    /// The file's format.
    pub format: &'static str,
    /// The event whose cost it is.
    pub event: String,
    /// All events of the file.
    pub events: Vec<String>,
    /// How samples were taken; `None` where costs were counted.
    pub sampling: Option<EventAbout>,
    /// The profiler's command.
    pub command: Option<String>,
    /// The computer's name.
    pub host: Option<String>,
    /// The kernel's version.
    pub kernel_release: Option<String>,
    /// CPU time that the work took, as it was counted beside the samples; nanoseconds.
    pub cpu_ns: Option<u64>,
    /// From the first sample to the last.
    pub duration_ns: Option<u64>,
    /// Whether the profiler did not live to write its end.
    pub unfinished: bool,
}
