//! The `syscall` workload: a null system call, repeatedly.
//!
//! The instruction stands unrolled in a loop, and every single result is compared: exclusive-or with the known result, collected by
//! or. The twin lacks the instruction that enters the kernel and the instruction that sets the call's number.
//!
//! With `pollute` an operation is a call whose code and data were evicted from the caches: before each call the loop walks over
//! that many lines of memory. The twin does the same walk, so the difference between the two regions is the polluted call.

mod call;

use crate::error::WorkError;
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number, one_of};
use crate::random::fold;
use crate::spec::WorkloadSpec;
use crate::walk::Walk;
use crate::work::Work;
use call::{Call, Instruction, Library, Way};
use opcost_record::Invariant;

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "syscall",
    summary: "a short system call in an unrolled loop, on request with caches full of other things",
    operation: "one system call, or one call of the C library that need not be one",
    ops_default: "1000000",
    programs: None,
    figures: &[],
    params: &[
        ParamSpec {
            name: "call",
            default: "getppid",
            values: "getppid|getpid|getuid|read|clock_gettime|clock_gettime-vdso",
            help: "the system call: who asks; 0 bytes of /dev/zero; the monotonic clock, asked in the \
                   kernel or through the C library, which reads it from the vdso",
            check: |value| one_of(value, &call::NAMES),
        },
        ParamSpec {
            name: "pollute",
            default: "0",
            values: "0..=4194304",
            help: "64-byte lines of memory that are read in a seeded order before each call; the \
                   twin reads them, too",
            check: |value| number(value, 0..=LINES_MAX),
        },
        ParamSpec {
            name: "unroll",
            default: "64",
            values: "1|4|16|64",
            help: "calls in one turn of the loop; one, where caches are polluted",
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
    prepare: |params, seed| Ok(Box::new(NullCall::prepare(params, seed)?)),
};

/// The unit of the share of extra calls.
const MILLION: u64 = 1_000_000;

/// 256 MiB, more than caches hold.
const LINES_MAX: u64 = 4 << 20;

/// Limits of the warm-up: operations, and lines of the walk.
const WARM_UP_OPS: u64 = 10_000;
const WARM_UP_LINES: u64 = 10_000_000;

/// The counts of one pass over the operations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Pass {
    /// Calls made, as counted in the loop.
    done: u64,
    /// Every bit in which any result differed from the expected result.
    wrong: usize,
}

struct NullCall {
    call: Call,
    walk: Walk,
    unroll: u64,
    ops: u64,
    /// Extra calls that the work makes without reporting them.
    ops_extra: u64,
    work: Pass,
    extra: Pass,
    twin: Pass,
}

impl NullCall {
    /// Prepares the work; the calls are the same for every seed, the walk is not.
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        Ok(NullCall {
            call: Call::prepare(params.text("call"))?,
            walk: Walk::lay_out(params.number("pollute"), seed),
            unroll: params.number("unroll"),
            ops: params.number("ops"),
            ops_extra: share(params.number("ops"), params.number("extra")),
            work: Pass::default(),
            extra: Pass::default(),
            twin: Pass::default(),
        })
    }

    /// Makes exactly `ops` calls.
    fn pass<const ENTER: bool>(&self, ops: u64) -> Pass {
        match self.call.in_library {
            true => self.pass_in::<Library, ENTER>(ops),
            false => self.pass_in::<Instruction, ENTER>(ops),
        }
    }

    fn pass_in<W: Way, const ENTER: bool>(&self, ops: u64) -> Pass {
        match self.unroll {
            _ if self.walk.steps() > 0 => self.polluted::<W, ENTER>(ops),
            64 => self.unrolled::<W, 64, ENTER>(ops),
            16 => self.unrolled::<W, 16, ENTER>(ops),
            4 => self.unrolled::<W, 4, ENTER>(ops),
            _ => self.unrolled::<W, 1, ENTER>(ops),
        }
    }

    /// Makes calls with a walk before each.
    #[inline(never)]
    fn polluted<W: Way, const ENTER: bool>(&self, ops: u64) -> Pass {
        let mut pass = Pass::default();
        while pass.done < ops {
            self.walk.go();
            pass.wrong |= W::calls::<1, ENTER>(&self.call);
            pass.done += 1;
        }
        pass
    }

    /// Does full turns of the unrolled loop, then single calls.
    #[inline(never)]
    fn unrolled<W: Way, const TIMES: usize, const ENTER: bool>(&self, ops: u64) -> Pass {
        let times = TIMES as u64;
        let in_turns = ops - ops % times;
        let mut pass = Pass::default();
        // Counting down takes one instruction less.
        let mut left = in_turns;
        while left != 0 {
            pass.wrong |= W::calls::<TIMES, ENTER>(&self.call);
            left -= times;
        }
        pass.done = in_turns - left;
        while pass.done < ops {
            pass.wrong |= W::calls::<1, ENTER>(&self.call);
            pass.done += 1;
        }
        pass
    }

    fn hash_of(&self, pass: Pass) -> u64 {
        let hash = fold(fold(0, self.call.in_hash), pass.done);
        match self.walk.steps() {
            0 => hash,
            steps => fold(hash, steps),
        }
    }

    fn verify(&self, pass: Pass) -> Result<(), WorkError> {
        if pass.wrong == 0 {
            return Ok(());
        }
        // The failing call is not known; one more call shows the kernel's answer.
        let again = self.call.once();
        let (call, expected) = (self.call.name, self.call.expected);
        Err(WorkError::NullCall { call, ops: pass.done, again, expected })
    }

    /// Returns the operations of the warm-up: fewer if each is a long walk.
    fn warm_up_ops(&self) -> u64 {
        WARM_UP_OPS.min(WARM_UP_LINES / self.walk.steps().max(1)).max(1)
    }
}

/// Returns the share `millionths` of `ops`, computed without overflow.
fn share(ops: u64, millionths: u64) -> u64 {
    (u128::from(ops) * u128::from(millionths) / u128::from(MILLION)) as u64
}

impl Work for NullCall {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        let ops = self.warm_up_ops();
        std::hint::black_box(self.pass::<false>(ops));
        self.verify(self.pass::<true>(ops))
    }

    fn twin(&mut self) {
        self.twin = self.pass::<false>(self.ops);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = self.pass::<true>(self.ops);
        // The same code also runs without extra calls, so that nothing differs but their number.
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
            count(format!("ops-{}", self.call.name), self.work.done),
            count(PAGE_FAULTS_EXPECTED, 0),
        ])
    }
}

#[cfg(test)]
mod tests;
