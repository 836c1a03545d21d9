//! Events that a sampling profiler reads, live from the kernel or from a file that perf wrote
//! (`perf_event_open(2)`, "MMAP layout" and "Overflow handling").
//!
//! Events borrow everything, because a file may hold millions of samples.

/// Marker in a chain: the kernel's addresses follow (`PERF_CONTEXT_KERNEL`, `linux/perf_event.h`).
pub const CONTEXT_KERNEL: u64 = -128i64 as u64;
/// Marker in a chain: the program's addresses follow (`PERF_CONTEXT_USER`).
pub const CONTEXT_USER: u64 = -512i64 as u64;
/// Marker in a chain: a cookie for a later stack follows (`PERF_CONTEXT_USER_DEFERRED`).
pub(crate) const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;
/// Markers in a chain: addresses of a guest or of its kernel follow (`PERF_CONTEXT_GUEST*`).
pub(crate) const CONTEXT_GUEST: [u64; 3] = [-2048i64 as u64, -2176i64 as u64, -2560i64 as u64];
/// The least marker; every address in a chain is less (`PERF_CONTEXT_MAX`).
pub(crate) const CONTEXT_MAX: u64 = -4095i64 as u64;

/// An event, in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// A file, or code without one, was mapped into an address space.
    Mapping(Mapping<'a>),
    /// A thread took a name. If `exec` is set, its process began a new program with an empty address
    /// space.
    Name {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The name, without its terminating zero.
        name: &'a [u8],
        /// Whether `execve(2)` gave the name.
        exec: bool,
    },
    /// A process or a thread began. A new process begins with a copy of its parent's address space.
    Fork {
        /// The process of the new thread.
        pid: i32,
        /// The process that made the thread.
        parent_pid: i32,
        /// The new thread.
        tid: i32,
    },
    /// A thread ended.
    Exit {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
    },
    /// A thread was interrupted and sampled.
    Sample(Sample<'a>),
    /// Events that the kernel dropped for want of room.
    Lost {
        /// The number of dropped events; the kernel does not tell samples from other events.
        events: u64,
    },
    /// The kernel stopped sampling for a while, since samples came too fast
    /// (`kernel.perf_event_max_sample_rate`).
    Throttled,
}

/// Code of a file, mapped into an address space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping<'a> {
    /// The process; -1 is the kernel.
    pub pid: i32,
    /// First address.
    pub address: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// The offset in the file where the mapping begins, bytes.
    pub file_offset: u64,
    /// The file, or a name in brackets (`[vdso]`, `[kernel.kallsyms]_text`), or `//anon`.
    pub path: &'a [u8],
    /// The file's build id, if it is known.
    pub build_id: Option<&'a [u8]>,
    /// Whether the mapped pages can be executed.
    pub executable: bool,
}

/// One sample of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// The time of the sample, nanoseconds of the profiler's clock.
    pub time_ns: Option<u64>,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The index of the sampled event, in the order of the events.
    pub event: u32,
    /// Events since the sample before, in the event's unit (nanoseconds for clocks): the cost that
    /// the sample stands for.
    pub period: u64,
    /// The instruction that was interrupted.
    pub address: u64,
    /// Whether the interrupted instruction was in the kernel.
    pub in_kernel: bool,
    /// The chain of callers, innermost first, as the kernel gives it: it begins with the interrupted
    /// instruction, and `PERF_CONTEXT_*` markers name the address space of the entries that follow.
    /// Empty if the profiler asked for no chain.
    pub chain: &'a [u64],
    /// The user's registers and stack, for finding callers by unwind information.
    pub user_stack: Option<UserStack<'a>>,
}

/// A copy of the top of a thread's user stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UserStack<'a> {
    /// The registers in `registers`, a bit for each (`PERF_REG_X86_*`, `asm/perf_regs.h`).
    pub registers_mask: u64,
    /// The registers' values, in the order of the bits.
    pub registers: &'a [u64],
    /// The copied bytes, from the stack pointer upwards.
    pub bytes: &'a [u8],
}
