//! What a sampling profiler learns while a machine runs, whether the kernel says it live or a file
//! that perf wrote (`perf_event_open(2)`, "MMAP layout" and "Overflow handling").
//!
//! Everything is borrowed: of a file with millions of samples nothing is copied.

/// What follows in a chain is the kernel's (`PERF_CONTEXT_KERNEL`, `linux/perf_event.h`).
pub const CONTEXT_KERNEL: u64 = -128i64 as u64;
/// What follows is the program's (`PERF_CONTEXT_USER`).
pub const CONTEXT_USER: u64 = -512i64 as u64;
/// What follows is not in the chain yet but a cookie (`PERF_CONTEXT_USER_DEFERRED`).
pub(crate) const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;
/// What follows is a guest's, or its kernel's or program's (`PERF_CONTEXT_GUEST*`).
pub(crate) const CONTEXT_GUEST: [u64; 3] = [-2048i64 as u64, -2176i64 as u64, -2560i64 as u64];
/// No address is greater (`PERF_CONTEXT_MAX`); the others are markers.
pub(crate) const CONTEXT_MAX: u64 = -4095i64 as u64;

/// One thing that happened, in the order of time.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    /// A file, or code without one, was mapped into an address space.
    Mapping(Mapping<'a>),
    /// A thread took a name; `exec` says that its process began a new program, whose address space
    /// is empty.
    Name {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// The name, without its terminating zero.
        name: &'a [u8],
        /// Whether this was `execve(2)`.
        exec: bool,
    },
    /// A process or a thread began; a process begins with its parent's address space.
    Fork {
        /// The new one's process.
        pid: i32,
        /// The process that it was made by.
        parent_pid: i32,
        /// The new thread.
        tid: i32,
    },
    /// A thread ended.
    Exit {
        /// Its process.
        pid: i32,
        /// The thread.
        tid: i32,
    },
    /// A thread was interrupted and looked at.
    Sample(Sample<'a>),
    /// Events that there was no room for.
    Lost {
        /// How many; samples and other events are not told apart.
        events: u64,
    },
    /// The kernel stopped sampling for a while, since samples came too fast
    /// (`kernel.perf_event_max_sample_rate`).
    Throttled,
}

/// Code of a file in an address space.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Mapping<'a> {
    /// The process; -1 is the kernel.
    pub pid: i32,
    /// First address.
    pub address: u64,
    /// Length, bytes.
    pub bytes: u64,
    /// Where in the file it begins, bytes.
    pub file_offset: u64,
    /// The file, or a name in brackets (`[vdso]`, `[kernel.kallsyms]_text`), or `//anon`.
    pub path: &'a [u8],
    /// The build id that the file had, where it is known.
    pub build_id: Option<&'a [u8]>,
    /// Whether its pages can be executed.
    pub executable: bool,
}

/// One look at a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// When, nanoseconds of the profiler's clock.
    pub time_ns: Option<u64>,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Which of the sampled events this is one of, an index in their order.
    pub event: u32,
    /// Events since the sample before, in the event's unit (nanoseconds for clocks): what the sample
    /// stands for.
    pub period: u64,
    /// The instruction that was interrupted.
    pub address: u64,
    /// Whether that was in the kernel.
    pub in_kernel: bool,
    /// The chain of callers, innermost first, as the kernel gives it: it begins with the interrupted
    /// instruction, and `PERF_CONTEXT_*` markers say which address space follows. Empty where none
    /// was asked for.
    pub chain: &'a [u64],
    /// The user's registers and stack, from which callers are found by unwind information.
    pub user_stack: Option<UserStack<'a>>,
}

/// A copy of the top of a thread's user stack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UserStack<'a> {
    /// Which registers are there, a bit for each (`PERF_REG_X86_*`, `asm/perf_regs.h`).
    pub registers_mask: u64,
    /// Their values, in the order of the bits.
    pub registers: &'a [u64],
    /// The bytes from the stack pointer upwards, as far as they were copied.
    pub bytes: &'a [u8],
}
