//! Counters of `perf_event_open(2)` behind a trait. The same code runs against the kernel ([`LivePerf`]) and, in tests, against a
//! transcript of another machine.
//!
//! Each counter is read alone, while disabled. Before Linux 6.13 the kernel refused a group read (PERF_FORMAT_GROUP) of inherited
//! counters, and counters that were stopped together need no common read.
//!
//! An unavailable counter is an error, which [`explain`] puts into words; it is never a reading of zero.

mod attr;
pub mod constants;
mod live;
mod pmu;
mod refusal;
mod ring;
mod sampler;

pub use attr::EventAttr;
pub use constants::{GenericEvent, NamedEvent, generic_event, generic_events};
pub use live::LivePerf;
pub use pmu::{has_cpu_pmu, nmi_watchdog, perf_event_paranoid};
pub use refusal::{OpenContext, Refusal, explain};
pub use sampler::{
    STACK_BYTES_MAX, Sampler, SamplingAttr, SamplingError, SamplingTarget, UNWIND_REGISTERS_MASK,
    is_time, sample_rate_max_hz,
};

use opcost_record::CountingTime;
use std::fmt;
use std::io;

/// A counter that a [`PerfKernel`] opened; the number has no meaning for another kernel.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CounterId(pub u32);

impl fmt::Display for CounterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The value of a counter as the kernel returns it, never scaled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CounterReading {
    /// The count.
    pub value: u64,
    /// How long the counter was enabled, nanoseconds.
    pub time_enabled_ns: u64,
    /// How much of this time the counter was on the hardware, nanoseconds; less if the kernel multiplexed the counter.
    pub time_running_ns: u64,
}

impl CounterReading {
    /// Returns the counting times in the form in which runs are stored.
    pub fn time(self) -> CountingTime {
        CountingTime { enabled_ns: self.time_enabled_ns, running_ns: self.time_running_ns }
    }
}

/// The kernel's answer to a read was too short for a reading.
///
/// The value comes inside an [`io::Error`] of kind `UnexpectedEof`; [`ShortRead::of`] finds it. The kernel answers a read with 0
/// bytes if a pinned counter did not get its place on the hardware (`perf_event_open(2)`, `pinned`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "the kernel gave {bytes} of {} bytes: the pinned counter got no place on the hardware; stop \
     other users of the counters (the NMI watchdog holds one) or count fewer events at once",
    ShortRead::WHOLE_BYTES
)]
pub struct ShortRead {
    /// The number of bytes in the answer.
    pub bytes: usize,
}

impl ShortRead {
    /// Size of a whole reading: value, time enabled, time running.
    pub const WHOLE_BYTES: usize = 24;

    /// Returns the short read that an error of [`PerfKernel::read`] reports, if any.
    pub fn of(error: &io::Error) -> Option<ShortRead> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<ShortRead> for io::Error {
    fn from(short: ShortRead) -> io::Error {
        io::Error::new(io::ErrorKind::UnexpectedEof, short)
    }
}

/// The operations on the kernel's performance counters (`perf_event_open(2)`).
pub trait PerfKernel {
    /// Opens a counter.
    ///
    /// `pid`: a process, 0 for the calling thread, or -1 for everything that runs on `cpu`; `cpu`: a CPU's number, or -1 for all;
    /// `leader`: the counter whose group the new counter joins.
    ///
    /// # Errors
    /// The kernel's errno, which [`explain`] puts into words.
    fn open(
        &self,
        attr: &EventAttr,
        pid: i32,
        cpu: i32,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId>;

    /// Starts a counter, or its whole group if the counter leads one.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open.
    fn enable(&self, id: CounterId, whole_group: bool) -> io::Result<()>;

    /// Stops a counter, or its whole group if the counter leads one.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open.
    fn disable(&self, id: CounterId, whole_group: bool) -> io::Result<()>;

    /// Sets a count, or the counts of the whole group, to zero; the times continue.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open.
    fn reset(&self, id: CounterId, whole_group: bool) -> io::Result<()>;

    /// Reads a counter, inherited counts included.
    ///
    /// # Errors
    /// The kernel's errno; EBADF if the counter is not open; [`ShortRead`] if the counter was pinned and got no place.
    fn read(&self, id: CounterId) -> io::Result<CounterReading>;

    /// Closes a counter; does nothing if the counter is not open.
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
