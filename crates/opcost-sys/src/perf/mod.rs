//! Counters of `perf_event_open(2)` behind a trait, so that the same code runs against the kernel
//! ([`LivePerf`]), a recorder ([`RecordingPerf`]) and a transcript of another machine
//! ([`ReplayPerf`]).
//!
//! Each counter is read by itself, while it is disabled: the kernel refused a group read
//! (PERF_FORMAT_GROUP) of inherited counters before Linux 6.13, and counts that were stopped
//! together need no common read.
//!
//! A counter that cannot be had is an error, explained by [`explain`]; it is never a
//! reading of zero.

mod attr;
pub mod constants;
mod live;
mod pmu;
mod recording;
mod refusal;
mod replay;
mod ring;
mod sampler;
pub mod transcript;

pub use attr::EventAttr;
pub use constants::{GenericEvent, NamedEvent, generic_event, generic_events};
pub use live::LivePerf;
pub use pmu::{has_cpu_pmu, nmi_watchdog, perf_event_paranoid};
pub use recording::RecordingPerf;
pub use refusal::{OpenContext, Refusal, explain};
pub use replay::{ReplayError, ReplayPerf};
pub use sampler::{
    STACK_BYTES_MAX, Sampler, SamplingAttr, SamplingError, SamplingTarget, UNWIND_REGISTERS_MASK,
    is_time, sample_rate_max_hz,
};
pub use transcript::{Transcript, TranscriptError};

use opcost_record::CountingTime;
use std::fmt;
use std::io;

/// A counter that a [`PerfKernel`] opened; means nothing to another one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CounterId(pub u32);

impl fmt::Display for CounterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a counter holds, as the kernel gives it: never scaled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CounterReading {
    /// The count.
    pub value: u64,
    /// How long the counter was enabled, nanoseconds.
    pub time_enabled_ns: u64,
    /// How long of that it was on the hardware, nanoseconds; less when it was multiplexed.
    pub time_running_ns: u64,
}

impl CounterReading {
    /// The counting times, in the form in which runs are stored.
    pub fn time(self) -> CountingTime {
        CountingTime { enabled_ns: self.time_enabled_ns, running_ns: self.time_running_ns }
    }
}

/// The kernel's answer to a read was too short to be a reading.
///
/// It comes inside an [`io::Error`] of kind `UnexpectedEof`; [`ShortRead::of`] finds it. The kernel
/// answers a read with 0 bytes when a pinned counter did not get its place on the hardware
/// (`perf_event_open(2)`, `pinned`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the kernel gave {bytes} of {} bytes: the pinned counter got no place on the hardware; stop \
     other users of the counters (the NMI watchdog holds one) or count fewer events at once",
    ShortRead::WHOLE_BYTES
)]
pub struct ShortRead {
    /// How many bytes came.
    pub bytes: usize,
}

impl ShortRead {
    /// Size of a whole reading: value, time enabled, time running.
    pub const WHOLE_BYTES: usize = 24;

    /// The short read that an error of [`PerfKernel::read`] reports, if it does.
    pub fn of(error: &io::Error) -> Option<ShortRead> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<ShortRead> for io::Error {
    fn from(short: ShortRead) -> io::Error {
        io::Error::new(io::ErrorKind::UnexpectedEof, short)
    }
}

/// What can be asked of the kernel's performance counters (`perf_event_open(2)`).
pub trait PerfKernel {
    /// Opens a counter.
    ///
    /// `pid` is a process, 0 for the calling thread, -1 for whatever runs on `cpu`; `cpu` is a
    /// CPU's number or -1 for all; `leader` is the counter whose group it joins.
    ///
    /// # Errors
    /// The kernel's errno, which [`explain`] puts in words.
    fn open(
        &self,
        attr: &EventAttr,
        pid: i32,
        cpu: i32,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId>;

    /// Lets a counter count, or its whole group if it leads one.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open.
    fn enable(&self, id: CounterId, whole_group: bool) -> io::Result<()>;

    /// Stops a counter, or its whole group if it leads one.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open.
    fn disable(&self, id: CounterId, whole_group: bool) -> io::Result<()>;

    /// Sets a count, or those of the whole group, to zero; the times run on.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open.
    fn reset(&self, id: CounterId, whole_group: bool) -> io::Result<()>;

    /// Reads a counter, inherited counts included.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open; [`ShortRead`] if the counter was
    /// pinned and got no place.
    fn read(&self, id: CounterId) -> io::Result<CounterReading>;

    /// Closes a counter; nothing happens if it is not open.
    fn close(&self, id: CounterId);
}

impl<K: PerfKernel + ?Sized> PerfKernel for &K {
    fn open(
        &self,
        attr: &EventAttr,
        pid: i32,
        cpu: i32,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId> {
        (**self).open(attr, pid, cpu, leader)
    }

    fn enable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        (**self).enable(id, whole_group)
    }

    fn disable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        (**self).disable(id, whole_group)
    }

    fn reset(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        (**self).reset(id, whole_group)
    }

    fn read(&self, id: CounterId) -> io::Result<CounterReading> {
        (**self).read(id)
    }

    fn close(&self, id: CounterId) {
        (**self).close(id);
    }
}
