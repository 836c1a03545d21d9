//! The `syscall` workload: a null system call, again and again.
//!
//! The instruction stands unrolled in a loop, and every single result is compared: exclusive-or
//! with the known result, collected by or. The twin lacks only the instruction that enters the
//! kernel.

use crate::error::WorkError;
use crate::gate::{Gate, Kernel};
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::measure::Work;
use crate::params::{ParamSpec, Params, number, one_of};
use crate::random::fold;
use crate::spec::WorkloadSpec;
use opcost_record::Invariant;

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "syscall",
    summary: "a null system call in an unrolled loop",
    operation: "one getppid, getpid or getuid call",
    ops_default: "1000000",
    params: &[
        ParamSpec {
            name: "call",
            default: "getppid",
            values: "getppid|getpid|getuid",
            help: "the system call",
            check: |value| one_of(value, &["getppid", "getpid", "getuid"]),
        },
        ParamSpec {
            name: "unroll",
            default: "16",
            values: "1|4|16|64",
            help: "calls in one turn of the loop",
            check: |value| one_of(value, &["1", "4", "16", "64"]),
        },
        ParamSpec {
            name: "extra",
            default: "0",
            values: "0..=1000000",
            help: "calls made on top, in millionths of ops, and not counted: a planted change, which \
                   opcost selftest has to find",
            check: |value| number(value, 0..=MILLION),
        },
    ],
    prepare: |params, seed| Ok(Box::new(NullCall::prepare(params, seed))),
};

/// What the share of extra calls is given in.
const MILLION: u64 = 1_000_000;

/// Operations of the warm-up.
const WARM_UP_OPS: u64 = 10_000;

/// What a pass over the operations did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Pass {
    /// Calls made, as counted in the loop.
    done: u64,
    /// Every bit in which some result differed from what was expected.
    wrong: usize,
}

struct NullCall {
    name: &'static str,
    number: usize,
    expected: usize,
    unroll: u64,
    ops: u64,
    /// Calls on top that the work makes and does not tell of.
    ops_extra: u64,
    work: Pass,
    extra: Pass,
    twin: Pass,
}

impl NullCall {
    /// The work is the same for every seed: a null call has nothing to draw.
    fn prepare(params: &Params, _seed: u64) -> Self {
        // What the C library says is what the instruction has to return.
        // SAFETY: these calls cannot fail and change no memory.
        let (name, number, expected) = unsafe {
            match params.text("call") {
                "getpid" => ("getpid", libc::SYS_getpid, libc::getpid() as usize),
                "getuid" => ("getuid", libc::SYS_getuid, libc::getuid() as usize),
                _ => ("getppid", libc::SYS_getppid, libc::getppid() as usize),
            }
        };
        NullCall {
            name,
            number: number as usize,
            expected,
            unroll: params.number("unroll"),
            ops: params.number("ops"),
            ops_extra: share(params.number("ops"), params.number("extra")),
            work: Pass::default(),
            extra: Pass::default(),
            twin: Pass::default(),
        }
    }

    /// Makes exactly `ops` calls: full turns of the unrolled loop, then single calls.
    fn pass<const ENTER: bool>(&self, ops: u64) -> Pass {
        match self.unroll {
            64 => self.unrolled::<64, ENTER>(ops),
            16 => self.unrolled::<16, ENTER>(ops),
            4 => self.unrolled::<4, ENTER>(ops),
            _ => self.unrolled::<1, ENTER>(ops),
        }
    }

    #[inline(never)]
    fn unrolled<const TIMES: usize, const ENTER: bool>(&self, ops: u64) -> Pass {
        let times = TIMES as u64;
        let mut pass = Pass::default();
        while ops - pass.done >= times {
            pass.wrong |= calls::<TIMES, ENTER>(self.number, self.expected);
            pass.done += times;
        }
        while pass.done < ops {
            pass.wrong |= calls::<1, ENTER>(self.number, self.expected);
            pass.done += 1;
        }
        pass
    }

    fn hash_of(&self, pass: Pass) -> u64 {
        fold(fold(0, self.number as u64), pass.done)
    }

    fn verify(&self, pass: Pass) -> Result<(), WorkError> {
        if pass.wrong == 0 {
            return Ok(());
        }
        // Which call it was is not kept; one more shows what the kernel says.
        // SAFETY: the three calls change no memory.
        let again = unsafe { Kernel::call(self.number, [0; 6], self.expected) };
        Err(WorkError::NullCall { call: self.name, ops: pass.done, again, expected: self.expected })
    }
}

/// So many millionths of `ops`, which may be too large to be multiplied first.
fn share(ops: u64, millionths: u64) -> u64 {
    (u128::from(ops) * u128::from(millionths) / u128::from(MILLION)) as u64
}

/// Enters the kernel `TIMES` times without arguments, or (`ENTER` false) does all of it but that;
/// returns the bits in which results differ from `expected`, meaningless if nothing entered.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn calls<const TIMES: usize, const ENTER: bool>(number: usize, expected: usize) -> usize {
    let mut wrong = 0usize;
    // SAFETY: the calls this workload makes take no arguments and change no memory; rcx and r11,
    // which the instruction clobbers, are declared, and the stack is not used.
    unsafe {
        std::arch::asm!(
            ".rept {times}",
            "mov eax, {number:e}",
            ".if {enter}",
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
            out("rax") _, out("rcx") _, out("r11") _,
            options(nostack),
        );
    }
    wrong
}

/// As on x86-64; the number stays in x8, which the kernel keeps.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn calls<const TIMES: usize, const ENTER: bool>(number: usize, expected: usize) -> usize {
    let mut wrong = 0usize;
    // SAFETY: the calls this workload makes take no arguments and change no memory; x0 is
    // declared, and the stack is not used.
    unsafe {
        std::arch::asm!(
            ".rept {times}",
            ".if {enter}",
            "svc 0",
            ".endif",
            "eor x0, x0, {expected}",
            "orr {wrong}, {wrong}, x0",
            ".endr",
            times = const TIMES,
            enter = const ENTER as u8,
            expected = in(reg) expected,
            wrong = inout(reg) wrong,
            in("x8") number,
            inout("x0") 0usize => _,
            options(nostack),
        );
    }
    wrong
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn calls<const TIMES: usize, const ENTER: bool>(number: usize, expected: usize) -> usize {
    let mut wrong = 0;
    for _ in 0..TIMES {
        // SAFETY: the calls this workload makes take no arguments and change no memory.
        let result = unsafe {
            match ENTER {
                true => Kernel::call(number, [0; 6], expected),
                false => crate::gate::Nothing::call(number, [0; 6], expected),
            }
        };
        wrong |= result ^ expected;
    }
    wrong
}

impl Work for NullCall {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        std::hint::black_box(self.pass::<false>(WARM_UP_OPS));
        self.verify(self.pass::<true>(WARM_UP_OPS))
    }

    fn twin(&mut self) {
        self.twin = self.pass::<false>(self.ops);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = self.pass::<true>(self.ops);
        // By the same code where there are none, so that nothing differs but their number.
        self.extra = self.pass::<true>(self.ops_extra);
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        self.verify(self.work)?;
        self.verify(self.extra)?;
        let (twin, work) = (self.hash_of(self.twin), self.hash_of(self.work));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        Ok(vec![
            hash(work),
            count(format!("ops-{}", self.name), self.work.done),
            count(PAGE_FAULTS_EXPECTED, 0),
        ])
    }
}

#[cfg(test)]
mod tests;
