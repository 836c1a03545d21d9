//! The running kernel's counters.

use super::{CounterId, CounterReading, EventAttr, PerfKernel, ShortRead};
use perf_event_open_sys::{bindings, ioctls, perf_event_open};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// The running kernel. It owns the descriptors of the counters that it opened, and closes them when dropped.
///
/// Counters are numbered from 1 in the order of their opening, so that a transcript does not depend on the descriptors that the
/// process had open.
///
/// To measure many short runs, keep one stopped counter of each software event open all the time: the first opening and the last
/// closing of an event rewrite kernel code (the static keys of perf_swevent_init, kernel/events/core.c), which costs more than all
/// other calls together.
#[derive(Debug, Default)]
pub struct LivePerf {
    counters: Mutex<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    opened: u32,
    open: BTreeMap<CounterId, OwnedFd>,
}

impl LivePerf {
    /// Makes an instance without open counters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `act` on a counter's descriptor, which stays open meanwhile.
    fn on<T>(&self, id: CounterId, act: impl FnOnce(RawFd) -> io::Result<T>) -> io::Result<T> {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        match counters.open.get(&id) {
            Some(fd) => act(fd.as_raw_fd()),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    fn control(
        &self,
        id: CounterId,
        whole_group: bool,
        request: unsafe fn(c_int, c_uint) -> c_int,
    ) -> io::Result<()> {
        let flags = if whole_group { bindings::PERF_IOC_FLAG_GROUP } else { 0 };
        // SAFETY: the three requests passed here take a plain integer. `on` keeps the descriptor open, and the descriptor is a perf
        // event's.
        self.on(id, |fd| match unsafe { request(fd, flags) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        })
    }
}

impl PerfKernel for LivePerf {
    fn open(
        &self,
        attr: &EventAttr,
        pid: i32,
        cpu: i32,
        leader: Option<CounterId>,
    ) -> io::Result<CounterId> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let leader_fd = match leader {
            None => -1,
            Some(id) => match counters.open.get(&id) {
                Some(fd) => fd.as_raw_fd(),
                None => return Err(io::Error::from_raw_os_error(libc::EBADF)),
            },
        };
        let mut raw = attr.to_kernel();
        let flags = c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
        // SAFETY: `raw` is initialised, its size field is its size, and it asks for no ring
        // buffer, signal or breakpoint; the kernel writes at most the size field.
        let fd = unsafe { perf_event_open(&mut raw, pid, cpu, leader_fd, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor to this process alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        counters.opened += 1;
        let id = CounterId(counters.opened);
        counters.open.insert(id, fd);
        Ok(id)
    }

    fn enable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        self.control(id, whole_group, ioctls::ENABLE)
    }

    fn disable(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        self.control(id, whole_group, ioctls::DISABLE)
    }

    fn reset(&self, id: CounterId, whole_group: bool) -> io::Result<()> {
        self.control(id, whole_group, ioctls::RESET)
    }

    fn read(&self, id: CounterId) -> io::Result<CounterReading> {
        let mut words = [0u64; ShortRead::WHOLE_BYTES / 8];
        let bytes = self.on(id, |fd| {
            // SAFETY: `words` is WHOLE_BYTES of writable memory.
            let bytes =
                unsafe { libc::read(fd, words.as_mut_ptr().cast(), ShortRead::WHOLE_BYTES) };
            usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
        })?;
        if bytes < ShortRead::WHOLE_BYTES {
            return Err(ShortRead { bytes }.into());
        }
        let [value, time_enabled_ns, time_running_ns] = words;
        Ok(CounterReading { value, time_enabled_ns, time_running_ns })
    }

    fn close(&self, id: CounterId) {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.open.remove(&id);
    }
}
