//! Sampling: many times a second, the kernel interrupts the running code and notes its place.
//!
//! The sampler opens one event on each CPU, since the kernel lets no other event be both inherited and mapped (perf_mmap,
//! kernel/events/core.c). The sampler does not interpret records: callers get the words that the kernel wrote.

use super::constants::{GenericEvent, KIND_HARDWARE, generic_name};
use super::ring::Ring;
use super::{EventAttr, OpenContext, Refusal, explain};
use perf_event_open_sys::{bindings, ioctls, perf_event_open};
use std::ffi::{c_int, c_uint, c_ulong};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use std::time::Duration;

/// The user's registers that unwinding a stack needs: frame pointer, stack pointer and instruction pointer (`PERF_REG_X86_BP`,
/// `_SP`, `_IP` of `asm/perf_regs.h`).
pub const UNWIND_REGISTERS_MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// The largest number of bytes of a user's stack that a sample can copy: below 64 KiB, in words.
pub const STACK_BYTES_MAX: u32 = 65_528;

/// Size of each CPU's ring buffer for users who may lock any amount of memory.
const RING_BYTES: usize = 4 << 20;
/// Size for other users: the default of `kernel.perf_event_mlock_kb` without the control page.
const RING_BYTES_UNPRIVILEGED: usize = 512 << 10;

/// The event and contents of samples.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SamplingAttr {
    /// The event: a clock, or a hardware event.
    pub event: GenericEvent,
    /// Samples a second on each busy CPU.
    pub frequency_hz: u64,
    /// The contents of each sample (`PERF_SAMPLE_*`).
    pub sample_type: u64,
    /// The user's registers in each sample, if the sample type has them.
    pub user_registers_mask: u64,
    /// The number of copied bytes of the user's stack, if the sample type has it; a multiple of 8 up to [`STACK_BYTES_MAX`].
    pub user_stack_bytes: u32,
    /// Whether to sample user mode only.
    pub exclude_kernel: bool,
    /// Whether to begin when the process executes a program; otherwise [`Sampler::enable`] begins.
    pub enable_on_exec: bool,
}

/// The threads to sample.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SamplingTarget {
    /// These threads, and everything that they start.
    Threads(Vec<i32>),
    /// Everything on the machine except idling.
    Machine,
}

/// The reason why sampling failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum SamplingError {
    /// The kernel refused to open the event.
    #[error("cannot sample {event} {whom}: {}; {}", refusal.reason, refusal.remedy)]
    Open { event: &'static str, whom: String, refusal: Refusal, errno: i32 },
    /// The frequency exceeds the machine's limit.
    #[error(
        "cannot take {asked_hz} samples a second: this machine allows {max_hz} \
         (kernel.perf_event_max_sample_rate); ask for fewer (--frequency), or raise it"
    )]
    Frequency { asked_hz: u64, max_hz: u64 },
    /// The ring buffer cannot be mapped.
    #[error(
        "cannot map {bytes} bytes for the samples of CPU {cpu}: {source}; \
         other profilers may hold this user's share of locked memory (kernel.perf_event_mlock_kb): \
         stop them, raise it, or grant CAP_IPC_LOCK"
    )]
    Map { bytes: usize, cpu: usize, source: io::Error },
    /// The processes ended before sampling began.
    #[error("nothing to sample: the process has ended")]
    Ended,
    /// An open event could not be used.
    #[error("cannot {what} the sampling event: {source}")]
    Control { what: &'static str, source: io::Error },
}

impl SamplingError {
    /// Whether another event may work: the hardware has no such counter.
    pub fn lacks_event(&self) -> bool {
        matches!(
            self,
            SamplingError::Open {
                errno: libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO,
                ..
            }
        )
    }

    /// Whether the rights do not suffice; they may suffice for less.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, SamplingError::Open { errno: libc::EACCES | libc::EPERM, .. })
    }
}

/// Open sampling events with their ring buffers.
#[derive(Debug)]
pub struct Sampler {
    /// The first event of each CPU owns the ring buffer; the CPU's other events write into it.
    events: Vec<OwnedFd>,
    rings: Vec<(usize, Ring)>,
}

impl Sampler {
    /// Opens one event for each thread and CPU, stopped.
    ///
    /// `cpus`: the CPUs that may run the sampled threads.
    ///
    /// # Errors
    /// [`SamplingError`].
    pub fn open(
        attr: &SamplingAttr,
        target: &SamplingTarget,
        cpus: &[usize],
    ) -> Result<Sampler, SamplingError> {
        let (threads, machine) = match target {
            SamplingTarget::Threads(threads) => (threads.as_slice(), false),
            SamplingTarget::Machine => (&[-1][..], true),
        };
        let mut sampler = Sampler { events: Vec::new(), rings: Vec::new() };
        for cpu in cpus {
            let mut first: Option<OwnedFd> = None;
            for thread in threads {
                let event = match open(attr, *thread, *cpu, machine) {
                    Ok(event) => event,
                    // A thread may end while its process is being opened, and a CPU may be switched off.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => continue,
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) && machine => continue,
                    Err(error) => return Err(refused(attr, target, error)),
                };
                match &first {
                    None => {
                        sampler.rings.push((*cpu, map(event.as_fd(), *cpu)?));
                        first = Some(event);
                    }
                    Some(first) => {
                        let output = first.as_raw_fd();
                        // SAFETY: both descriptors are open perf events; the request takes the number of the second.
                        done("redirect", unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), output) })?;
                        sampler.events.push(event);
                    }
                }
            }
            sampler.events.extend(first);
        }
        if sampler.events.is_empty() { Err(SamplingError::Ended) } else { Ok(sampler) }
    }

    /// Begins sampling.
    ///
    /// # Errors
    /// [`SamplingError::Control`].
    pub fn enable(&self) -> Result<(), SamplingError> {
        self.switch("start", ioctls::ENABLE)
    }

    /// Stops sampling; the contents of the ring buffers stay.
    ///
    /// # Errors
    /// [`SamplingError::Control`].
    pub fn disable(&self) -> Result<(), SamplingError> {
        self.switch("stop", ioctls::DISABLE)
    }

    fn switch(
        &self,
        what: &'static str,
        request: unsafe fn(c_int, c_uint) -> c_int,
    ) -> Result<(), SamplingError> {
        for event in &self.events {
            // SAFETY: an open perf event, and a request that takes a plain integer.
            done(what, unsafe { request(event.as_raw_fd(), 0) })?;
        }
        Ok(())
    }

    /// Takes everything that the kernel wrote since the last call, CPU by CPU: whole records, in the order of time within a CPU.
    pub fn drain(&mut self, words: &mut Vec<u64>) {
        for (_, ring) in &mut self.rings {
            ring.drain(words);
        }
    }

    /// Waits until a ring buffer is half full, `wake` can be read, or `limit` has passed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&self, limit: Duration, wake: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let polled = |fd: c_int| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries: Vec<libc::pollfd> =
            self.events.iter().map(|event| polled(event.as_raw_fd())).collect();
        entries.extend(wake.map(|wake| polled(wake.as_raw_fd())));
        let limit_ms = limit.as_millis().min(i32::MAX as u128) as c_int;
        // SAFETY: `entries` are valid for their number.
        let ready =
            unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, limit_ms) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        // A process that has ended makes its events always ready (POLLHUP); then only `wake` and the time matter.
        if ready > 0 && entries.iter().all(|entry| entry.revents & libc::POLLIN == 0) {
            let mut rest = entries.split_off(self.events.len());
            // SAFETY: as above.
            unsafe { libc::poll(rest.as_mut_ptr(), rest.len() as libc::nfds_t, limit_ms) };
        }
        Ok(())
    }
}

fn map(event: BorrowedFd<'_>, cpu: usize) -> Result<Ring, SamplingError> {
    let mut smaller = Err(io::Error::from_raw_os_error(libc::EPERM));
    for bytes in [RING_BYTES, RING_BYTES_UNPRIVILEGED] {
        smaller = Ring::map(event, bytes);
        match &smaller {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            _ => break,
        }
    }
    smaller.map_err(|source| SamplingError::Map { bytes: RING_BYTES_UNPRIVILEGED, cpu, source })
}

fn done(what: &'static str, answer: c_int) -> Result<(), SamplingError> {
    match answer {
        -1 => Err(SamplingError::Control { what, source: io::Error::last_os_error() }),
        _ => Ok(()),
    }
}

/// Opens one event; tries first with build ids in the records of mappings, which Linux 5.12 introduced.
fn open(attr: &SamplingAttr, thread: i32, cpu: usize, machine: bool) -> io::Result<OwnedFd> {
    let mut refusal = io::Error::from_raw_os_error(libc::EINVAL);
    for build_id in [true, false] {
        let mut raw = to_kernel(attr, machine, build_id);
        let flags = c_ulong::from(bindings::PERF_FLAG_FD_CLOEXEC);
        let cpu = c_int::try_from(cpu).unwrap_or(c_int::MAX);
        // SAFETY: `raw` is initialised and its size field is its size; it asks for no signal and no
        // breakpoint, and the kernel writes into a ring buffer only once one is mapped.
        let fd = unsafe { perf_event_open(&raw mut raw, thread, cpu, -1, flags) };
        if fd >= 0 {
            // SAFETY: the kernel has just given this descriptor to this process alone.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        refusal = io::Error::last_os_error();
        if refusal.raw_os_error() != Some(libc::EINVAL) {
            break;
        }
    }
    Err(refusal)
}

fn to_kernel(attr: &SamplingAttr, machine: bool, build_id: bool) -> bindings::perf_event_attr {
    let counted = EventAttr {
        kind: attr.event.kind,
        config: attr.event.config,
        exclude_kernel: attr.exclude_kernel,
        exclude_hv: attr.exclude_kernel,
        inherit: !machine,
        enable_on_exec: attr.enable_on_exec,
        disabled: true,
        ..EventAttr::default()
    };
    let mut raw = counted.to_kernel();
    raw.read_format = 0;
    raw.sample_type = attr.sample_type;
    raw.__bindgen_anon_1.sample_freq = attr.frequency_hz;
    raw.set_freq(1);
    raw.sample_regs_user = attr.user_registers_mask;
    raw.sample_stack_user = attr.user_stack_bytes;
    raw.set_exclude_callchain_kernel(attr.exclude_kernel.into());
    // Where the stack is copied, the callers are found in the copy.
    raw.set_exclude_callchain_user((attr.user_stack_bytes > 0).into());
    raw.set_exclude_idle(machine.into());
    raw.set_mmap(1);
    raw.set_mmap2(1);
    raw.set_build_id(build_id.into());
    raw.set_comm(1);
    raw.set_comm_exec(1);
    raw.set_task(1);
    raw.set_sample_id_all(1);
    // The time of `monotonic_ns`, so that samples of other moments can be told apart.
    raw.set_use_clockid(1);
    raw.clockid = libc::CLOCK_MONOTONIC;
    raw.set_watermark(1);
    raw.__bindgen_anon_2.wakeup_watermark = (RING_BYTES_UNPRIVILEGED / 2) as u32;
    raw
}

fn refused(attr: &SamplingAttr, target: &SamplingTarget, error: io::Error) -> SamplingError {
    let errno = error.raw_os_error().unwrap_or(0);
    if let (libc::EINVAL, Some(max_hz)) = (errno, sample_rate_max_hz())
        && attr.frequency_hz > max_hz
    {
        return SamplingError::Frequency { asked_hz: attr.frequency_hz, max_hz };
    }
    let asked = EventAttr {
        kind: attr.event.kind,
        config: attr.event.config,
        exclude_kernel: attr.exclude_kernel,
        ..EventAttr::default()
    };
    let context = OpenContext::detect(Path::new("/proc"), Path::new("/sys"));
    let refusal = match (target, context.perf_event_paranoid) {
        (SamplingTarget::Machine, Some(level))
            if level > 0 && !context.privileged && [libc::EACCES, libc::EPERM].contains(&errno) =>
        {
            Refusal {
                reason: format!(
                    "perf_event_paranoid is {level}: unprivileged users may not look at whole CPUs"
                ),
                remedy: "look at one process (-p PID), set it to 0 (sysctl \
                         kernel.perf_event_paranoid=0), run as root, or grant CAP_PERFMON"
                    .into(),
            }
        }
        _ => explain(errno, &asked, &context),
    };
    let whom = match target {
        SamplingTarget::Machine => "of the whole machine".to_string(),
        SamplingTarget::Threads(threads) => match threads.first() {
            Some(thread) => format!("of process {thread}"),
            None => "of no process".to_string(),
        },
    };
    let event = generic_name(attr.event.kind, attr.event.config).unwrap_or("the event");
    SamplingError::Open { event, whom, refusal, errno }
}

/// Returns the largest number of samples a second that the machine allows (`kernel.perf_event_max_sample_rate`).
pub fn sample_rate_max_hz() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").ok()?;
    text.trim().parse().ok()
}

/// Whether a sample of this event stands for CPU time in nanoseconds.
pub fn is_time(event: GenericEvent) -> bool {
    event.kind != KIND_HARDWARE
}
