//! The `lock` workload: acquire a lock, add one to what it protects, release it.
//!
//! What is compared is the lock and the shape of the call that reaches it, as in the question of
//! 2009 whether spinlocks behind paravirt_ops cost a native kernel something: there each lock and
//! unlock was a call, a call through a table, a locked instruction and two returns.
//!
//! With `threads` above 1 the threads contend for one lock. The counter it protects has to be exact
//! afterwards. Who had the lock before is kept beside it, which tells how it goes round: a fair lock
//! changes hands often and nobody has it many times in a row. Waiters spin; with `oversubscribe=on`
//! they let others have their CPU now and then, since queues of waiters without one stand still.

mod queue;
mod queued;
mod shape;
mod spin;
mod wait;

use crate::error::WorkError;
use crate::figure::{LOCK_HANDOVERS, LOCK_RUN_MAX, figure};
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::measure::Work;
use crate::params::{ParamSpec, Params, number, one_of};
use crate::random::fold;
use crate::spec::WorkloadSpec;
use crate::task;
use opcost_record::{Invariant, Reading};
use shape::{Direct, Inline, Patched, Shape, Table, Wrapper};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "lock",
    summary: "one lock, acquired and released by one or more threads",
    operation: "one acquisition with its release",
    ops_default: "1000000",
    programs: None,
    params: &[
        ParamSpec {
            name: "kind",
            default: "ticket",
            values: KINDS,
            help: "the lock: test-and-set, test-and-test-and-set of a byte, ticket, MCS queue, four \
                   bytes with a pending bit before a queue (as Linux has), or the C library's mutex",
            check: |value| one_of(value, &["tas", "byte", "ticket", "mcs", "queued", "pthread"]),
        },
        ParamSpec {
            name: "shape",
            default: "inline",
            values: SHAPES,
            help: "how lock and unlock are reached: inlined, by a call, by a call that makes the \
                   call, through a table of functions, or through a table whose calls were patched \
                   into direct ones (x86-64)",
            check: |value| one_of(value, &["inline", "direct", "wrapper", "table", "patched"]),
        },
        ParamSpec {
            name: "inside",
            default: "0",
            values: "0..=100000",
            help: "steps of a dependent computation while the lock is held",
            check: |value| number(value, 0..=STEPS_MAX),
        },
        ParamSpec {
            name: "outside",
            default: "0",
            values: "0..=100000",
            help: "steps of a dependent computation between two acquisitions",
            check: |value| number(value, 0..=STEPS_MAX),
        },
    ],
    prepare: |params, seed| Ok(Box::new(Contender::prepare(params, seed)?)),
};

const KINDS: &str = "tas|byte|ticket|mcs|queued|pthread";
const SHAPES: &str = "inline|direct|wrapper|table|patched";
const STEPS_MAX: u64 = 100_000;

/// Operations of the warm-up.
const WARM_UP_OPS: u64 = 100;

/// A lock of which there is one in each process.
trait Lock: Sync + 'static {
    /// The one lock.
    fn the() -> &'static Self;
    /// Returns when the task of that index, which does not have the lock, has it.
    fn acquire(&self, me: usize);
    /// Lets the lock go, which the task of that index has.
    fn release(&self, me: usize);
}

/// No lock at all: what is left of the loop is the twin.
struct Unlocked;

impl Lock for Unlocked {
    fn the() -> &'static Self {
        &Unlocked
    }
    #[inline(always)]
    fn acquire(&self, _: usize) {}
    #[inline(always)]
    fn release(&self, _: usize) {}
}

/// What the lock protects. Atomics that are loaded and stored only, never changed in one step: they
/// are plain memory to the machine, and a lock that lets two tasks in loses counts.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Protected {
    /// Acquisitions so far.
    total: AtomicU64,
    /// The task that had the lock last.
    owner: AtomicU64,
    /// The total when that task got it.
    run_start: AtomicU64,
    /// The longest run of one task that has ended.
    run_max: AtomicU64,
    /// How often the lock went to another task.
    handovers: AtomicU64,
}

/// Nobody: no task has this index.
const NOBODY: u64 = u64::MAX;

impl Protected {
    const fn new() -> Self {
        Protected {
            total: AtomicU64::new(0),
            owner: AtomicU64::new(NOBODY),
            run_start: AtomicU64::new(0),
            run_max: AtomicU64::new(0),
            handovers: AtomicU64::new(0),
        }
    }

    /// Counts one acquisition by that task, which has the lock.
    #[inline(always)]
    fn enter(&self, me: u64) {
        let total = self.total.load(Ordering::Relaxed);
        if self.owner.load(Ordering::Relaxed) != me {
            self.hand_over(me, total);
        }
        self.total.store(total + 1, Ordering::Relaxed);
    }

    #[cold]
    fn hand_over(&self, me: u64, total: u64) {
        if self.owner.load(Ordering::Relaxed) != NOBODY {
            let handovers = self.handovers.load(Ordering::Relaxed);
            self.handovers.store(handovers + 1, Ordering::Relaxed);
        }
        self.run_max.store(self.run_longest(total), Ordering::Relaxed);
        self.run_start.store(total, Ordering::Relaxed);
        self.owner.store(me, Ordering::Relaxed);
    }

    /// The longest run, with the one that goes on.
    fn run_longest(&self, total: u64) -> u64 {
        let now = total - self.run_start.load(Ordering::Relaxed);
        now.max(self.run_max.load(Ordering::Relaxed))
    }
}

/// What the work counts, in each process.
static WORK: Protected = Protected::new();
/// What the warm-up counts.
static WARM_UP: Protected = Protected::new();

/// What one task did in a pass.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Pass {
    done: u64,
    /// The result of the computation inside and outside.
    state: u64,
}

/// The loop of one lock, reached in one shape.
type Loop = fn(&Contender, u64, &Protected) -> Pass;

struct Contender {
    me: usize,
    /// Tasks that share the lock.
    rivals: u64,
    kind: &'static str,
    seed: u64,
    ops: u64,
    inside: u64,
    outside: u64,
    run: Loop,
    /// What the twin counts, alone.
    alone: Protected,
    work: Pass,
    twin: Pass,
}

impl Contender {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        wait::yield_while_waiting(params.text("oversubscribe") == "on");
        let kinds = KINDS.split('|');
        let kind = kinds.into_iter().find(|kind| *kind == params.text("kind"));
        Ok(Contender {
            me: task::current(),
            rivals: params.number("threads").max(1),
            kind: kind.unwrap_or_default(),
            seed,
            ops: params.number("ops"),
            inside: params.number("inside"),
            outside: params.number("outside"),
            run: loop_of(params.text("kind"), params.text("shape"))?,
            alone: Protected::new(),
            work: Pass::default(),
            twin: Pass::default(),
        })
    }

    #[inline(never)]
    fn pass<L: Lock, S: Shape>(&self, ops: u64, protected: &Protected) -> Pass {
        let mut pass = Pass { done: 0, state: self.seed };
        while pass.done < ops {
            S::acquire::<L>(self.me);
            protected.enter(self.me as u64);
            pass.state = compute(pass.state, self.inside);
            S::release::<L>(self.me);
            pass.state = compute(pass.state, self.outside);
            pass.done += 1;
        }
        pass
    }

    fn hash_of(&self, pass: Pass) -> u64 {
        fold(fold(0, pass.done), pass.state)
    }

    /// Whether each acquisition of each task was counted.
    fn verify(&self, protected: &Protected, ops: u64) -> Result<(), WorkError> {
        let (counted, expected) = (protected.total.load(Ordering::Acquire), self.rivals * ops);
        match counted == expected {
            true => Ok(()),
            false => Err(WorkError::Unprotected { lock: self.kind, counted, expected }),
        }
    }
}

/// So many steps, each of which needs the result of the one before.
#[inline(always)]
fn compute(mut state: u64, steps: u64) -> u64 {
    for step in 0..steps {
        state = fold(state, step);
    }
    state
}

fn loop_of(kind: &str, shape: &str) -> Result<Loop, WorkError> {
    match kind {
        "tas" => loop_in::<spin::TestAndSet>(shape),
        "byte" => loop_in::<spin::Byte>(shape),
        "mcs" => loop_in::<queue::Mcs>(shape),
        "queued" => loop_in::<queued::Queued>(shape),
        "pthread" => loop_in::<spin::Mutex>(shape),
        _ => loop_in::<spin::Ticket>(shape),
    }
}

fn loop_in<L: Lock>(shape: &str) -> Result<Loop, WorkError> {
    Ok(match shape {
        "direct" => Contender::pass::<L, Direct>,
        "wrapper" => Contender::pass::<L, Wrapper>,
        "table" => {
            shape::fill_table::<L>();
            Contender::pass::<L, Table>
        }
        "patched" => {
            shape::patch_calls::<L>()?;
            Contender::pass::<L, Patched>
        }
        _ => Contender::pass::<L, Inline>,
    })
}

impl Work for Contender {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        std::hint::black_box(self.pass::<Unlocked, Inline>(WARM_UP_OPS, &self.alone));
        std::hint::black_box((self.run)(self, WARM_UP_OPS, &WARM_UP));
        // Its page is the program's until it is first written to.
        WORK.handovers.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn twin(&mut self) {
        self.twin = self.pass::<Unlocked, Inline>(self.ops, &self.alone);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = (self.run)(self, self.ops, &WORK);
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        self.verify(&WARM_UP, WARM_UP_OPS)?;
        self.verify(&WORK, self.ops)?;
        let (twin, work) = (self.hash_of(self.twin), self.hash_of(self.work));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        Ok(vec![hash(work), count("ops-lock", self.work.done), count(PAGE_FAULTS_EXPECTED, 0)])
    }

    fn figures(&self) -> Vec<Reading> {
        // The lock is every thread's, so that one of them tells of it.
        let told = |value: u64| if self.me == 0 { value } else { 0 };
        let total = WORK.total.load(Ordering::Acquire);
        vec![
            figure(LOCK_HANDOVERS, told(WORK.handovers.load(Ordering::Relaxed))),
            figure(LOCK_RUN_MAX, told(WORK.run_longest(total))),
        ]
    }
}

#[cfg(test)]
mod tests;
