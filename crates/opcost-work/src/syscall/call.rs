//! The calls by name, with their arguments and expected results.

use crate::error::WorkError;
use crate::gate::{Gate, Kernel};
use crate::unrolled::{four, turn, unknown};
use std::fs::File;
use std::os::fd::AsRawFd;

/// The names, as the parameter accepts them.
pub(super) const NAMES: [&str; 6] =
    ["getppid", "getpid", "getuid", "read", "clock_gettime", "clock_gettime-vdso"];

/// One call, ready to be made any number of times.
pub(super) struct Call {
    pub(super) name: &'static str,
    /// Whether the call goes to a function of the C library, which need not enter the kernel.
    pub(super) in_library: bool,
    pub(super) number: usize,
    /// The call's number in the hash of the work: that of x86-64, so that every architecture says that it did the same work.
    pub(super) in_hash: u64,
    pub(super) arguments: [usize; 3],
    pub(super) expected: usize,
    /// The file that `read` reads from; open as long as the call may be made.
    _source: Option<File>,
    /// The memory that the time is written to.
    _time: Box<libc::timespec>,
}

impl Call {
    /// Returns the call of that name.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: `/dev/zero` cannot be opened.
    pub(super) fn prepare(name: &str) -> Result<Call, WorkError> {
        let mut time = Box::new(libc::timespec { tv_sec: 0, tv_nsec: 0 });
        let place = &raw mut *time as usize;
        let mut source = None;
        // The C library's result is the expected result of the instruction.
        // SAFETY: these calls cannot fail and change no memory.
        let (name, number, in_hash, arguments, expected) = unsafe {
            match name {
                "getpid" => ("getpid", libc::SYS_getpid, 39, [0; 3], libc::getpid() as usize),
                "getuid" => ("getuid", libc::SYS_getuid, 102, [0; 3], libc::getuid() as usize),
                "read" => {
                    let zero = source.insert(open_zero()?).as_raw_fd() as usize;
                    ("read", libc::SYS_read, 0, [zero, place, 0], 0)
                }
                "clock_gettime" | "clock_gettime-vdso" => {
                    let known = NAMES.iter().find(|known| **known == name).unwrap_or(&NAMES[4]);
                    let arguments = [libc::CLOCK_MONOTONIC as usize, place, 0];
                    (*known, libc::SYS_clock_gettime, 228, arguments, 0)
                }
                _ => ("getppid", libc::SYS_getppid, 110, [0; 3], libc::getppid() as usize),
            }
        };
        Ok(Call {
            name,
            in_library: name == "clock_gettime-vdso",
            number: number as usize,
            in_hash,
            arguments,
            expected,
            _source: source,
            _time: time,
        })
    }

    /// Makes the call once; returns the kernel's register value, `-errno` for an error.
    pub(super) fn once(&self) -> usize {
        let [a, b, c] = self.arguments;
        match self.in_library {
            true => match library_call(self) {
                0 => 0,
                // SAFETY: the C library's errno of this thread is always readable.
                _ => (-unsafe { *libc::__errno_location() } as isize) as usize,
            },
            // SAFETY: `self` says where the kernel may write, and nothing refers to that memory.
            false => unsafe { Kernel::call(self.number, [a, b, c, 0, 0, 0], self.expected) },
        }
    }
}

fn open_zero() -> Result<File, WorkError> {
    const PATH: &str = "/dev/zero";
    File::open(PATH).map_err(|source| WorkError::Setup {
        what: format!("open {PATH}"),
        source,
        advice: "mount devtmpfs on /dev, or use another call",
    })
}

/// A way to make calls.
pub(super) trait Way {
    /// Makes the call `TIMES` times or, without `ENTER`, does everything except the calls, arguments included. Returns the bits in
    /// which results differ from the expected result; meaningless without `ENTER`.
    fn calls<const TIMES: usize, const ENTER: bool>(call: &Call) -> usize;
}

/// The instruction that enters the kernel, unrolled.
pub(super) struct Instruction;

/// The function of the C library.
pub(super) struct Library;

impl Way for Instruction {
    #[inline(always)]
    fn calls<const TIMES: usize, const ENTER: bool>(call: &Call) -> usize {
        enter::<TIMES, ENTER>(call)
    }
}

impl Way for Library {
    #[inline(always)]
    fn calls<const TIMES: usize, const ENTER: bool>(call: &Call) -> usize {
        let mut wrong: libc::c_int = 0;
        // The call returns 0, so its result needs no comparison before it is collected.
        let mut one = || wrong |= if ENTER { library_call(call) } else { unknown() as libc::c_int };
        match TIMES {
            64 => turn!(one()),
            16 => four!(four!(one())),
            4 => four!(one()),
            _ => (0..TIMES).for_each(|_| one()),
        }
        wrong as libc::c_uint as usize
    }
}

/// Gets the time from the C library, which reads it through the kernel's vdso (`vdso(7)`) if the clock source allows. Returns 0, or
/// -1 with errno set.
#[inline(always)]
fn library_call(call: &Call) -> libc::c_int {
    let [clock, place, _] = call.arguments;
    // SAFETY: the place belongs to the call, and nothing refers to it.
    unsafe { libc::clock_gettime(clock as libc::clockid_t, place as *mut libc::timespec) }
}

/// Makes a system call `TIMES` times or, without `ENTER`, only collects the would-be results. Returns the bits in which results
/// differ from `expected`; meaningless without `ENTER`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn enter<const TIMES: usize, const ENTER: bool>(call: &Call) -> usize {
    let (number, [a, b, c], expected) = (call.number, call.arguments, call.expected);
    let mut wrong = 0usize;
    // SAFETY: `call` says where the kernel may write, and nothing refers to that memory meanwhile. rcx and r11, which the
    // instruction clobbers, are declared, and the stack is not used.
    unsafe {
        std::arch::asm!(
            ".rept {times}",
            ".if {enter}",
            "mov eax, {number:e}",
            "syscall",
            ".endif",
            "xor rax, {expected}",
            "or {wrong}, rax",
            ".endr",
            times = const TIMES,
            enter = const ENTER as u8,
            number = in(reg) number,
            expected = in(reg) expected,
            wrong = inout(reg) wrong,
            in("rdi") a, in("rsi") b, in("rdx") c,
            out("rax") _, out("rcx") _, out("r11") _,
            options(nostack),
        );
    }
    wrong
}

/// Does the same as on x86-64; the number stays in x8, which the kernel keeps.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn enter<const TIMES: usize, const ENTER: bool>(call: &Call) -> usize {
    let (number, [a, b, c], expected) = (call.number, call.arguments, call.expected);
    let mut wrong = 0usize;
    // SAFETY: `call` says where the kernel may write, and nothing refers to that memory meanwhile; x0 is declared, and the stack is
    // not used.
    unsafe {
        std::arch::asm!(
            ".rept {times}",
            ".if {enter}",
            "mov x0, {a}",
            "svc 0",
            ".endif",
            "eor x0, x0, {expected}",
            "orr {wrong}, {wrong}, x0",
            ".endr",
            times = const TIMES,
            enter = const ENTER as u8,
            expected = in(reg) expected,
            wrong = inout(reg) wrong,
            a = in(reg) a,
            in("x8") number, in("x1") b, in("x2") c,
            out("x0") _,
            options(nostack),
        );
    }
    wrong
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn enter<const TIMES: usize, const ENTER: bool>(call: &Call) -> usize {
    let [a, b, c] = call.arguments;
    let mut wrong = 0;
    for _ in 0..TIMES {
        // SAFETY: `call` says where the kernel may write, and nothing refers to that memory.
        let result = unsafe {
            match ENTER {
                true => Kernel::call(call.number, [a, b, c, 0, 0, 0], call.expected),
                false => crate::gate::Nothing::call(call.number, [a, b, c, 0, 0, 0], call.expected),
            }
        };
        wrong |= result ^ call.expected;
    }
    wrong
}
