//! The `lock` workload: acquire a lock, add 1 to the counter that it protects, release the lock.
//!
//! The workload compares locks, and shapes of the calls that reach them. The question is from 2009: do spinlocks behind
//! paravirt_ops cost a native kernel something? There, each lock and unlock was a call, a call through a table, a locked
//! instruction and two returns.
//!
//! With `threads` above 1 the threads contend for one lock. Afterwards the protected counter must be exact. With more than one
//! thread, the loop also records the previous owner. The record shows how the lock goes round: a fair lock changes hands often, and
//! nobody gets it many times in a row. Waiters spin. With `oversubscribe=on` they yield their CPU now and then, since a queue
//! stands still while its next waiter has no CPU.

mod pass;
mod protected;
mod queue;
mod queued;
mod shape;
mod spin;
mod wait;

use crate::error::WorkError;
use crate::figure::{LOCK_HANDOVERS, LOCK_RUN_MAX, figure};
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::{ParamSpec, Params, number, one_of};
use crate::random::fold;
use crate::spec::WorkloadSpec;
use crate::task;
use crate::work::Work;
use opcost_record::{Invariant, Reading};
use pass::{Duties, Loop, Pass, Steps};
use protected::Protected;
use shape::{CallTable, Direct, Inline, Nothing, Patched, Wrapper};

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "lock",
    summary: "one lock, acquired and released by one or more threads",
    operation: "one acquisition with its release",
    ops_default: "1000000",
    programs: None,
    figures: &[LOCK_HANDOVERS, LOCK_RUN_MAX],
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

/// A kind of lock with one instance in each process.
trait Lock: Sync + 'static {
    /// Returns the one lock.
    fn instance() -> &'static Self;
    /// Returns once the task with that index, which does not have the lock, has it.
    fn acquire(&self, me: usize);
    /// Releases the lock; the task with that index has it.
    fn release(&self, me: usize);
}

/// No lock at all, for the twin.
struct Unlocked;

impl Lock for Unlocked {
    fn instance() -> &'static Self {
        &Unlocked
    }
    #[inline(always)]
    fn acquire(&self, _: usize) {}
    #[inline(always)]
    fn release(&self, _: usize) {}
}

/// The work's counter, one in each process.
static WORK: Protected = Protected::new();
/// The warm-up's counter.
static WARM_UP: Protected = Protected::new();

struct Contender {
    me: usize,
    /// The number of tasks that share the lock.
    rivals: u64,
    kind: &'static str,
    seed: u64,
    ops: u64,
    steps: Steps,
    run: Loop,
    /// The loop without the lock.
    run_twin: Loop,
    /// The twin's counter, which only this task uses.
    alone: Protected,
    work: Pass,
    twin: Pass,
}

impl Contender {
    fn prepare(params: &Params, seed: u64) -> Result<Self, WorkError> {
        wait::yield_while_waiting(params.text("oversubscribe") == "on");
        let kinds = KINDS.split('|');
        let kind = kinds.into_iter().find(|kind| *kind == params.text("kind"));
        let rivals = params.number("threads").max(1);
        let steps = Steps { inside: params.number("inside"), outside: params.number("outside") };
        let duties = Duties::of(rivals, steps);
        let [run, run_twin] = loops_of(params.text("kind"), params.text("shape"), duties)?;
        Ok(Contender {
            me: task::current(),
            rivals,
            kind: kind.unwrap_or_default(),
            seed,
            ops: params.number("ops"),
            steps,
            run,
            run_twin,
            alone: Protected::new(),
            work: Pass::default(),
            twin: Pass::default(),
        })
    }

    /// Goes through `ops` operations with one of the loops.
    fn go(&self, run: Loop, ops: u64, protected: &Protected) -> Pass {
        run(self.me, ops, protected, self.steps, self.seed)
    }

    fn hash_of(&self, pass: Pass) -> u64 {
        fold(fold(0, pass.done), pass.state)
    }

    /// Checks that each acquisition of each task was counted.
    fn verify(&self, protected: &Protected, ops: u64) -> Result<(), WorkError> {
        let (counted, expected) = (protected.total(), self.rivals * ops);
        match counted == expected {
            true => Ok(()),
            false => Err(WorkError::Unprotected { lock: self.kind, counted, expected }),
        }
    }
}

/// Returns the loop of a lock in a shape, and the loop of its twin.
fn loops_of(kind: &str, shape: &str, duties: Duties) -> Result<[Loop; 2], WorkError> {
    let run = match kind {
        "tas" => loop_in::<spin::TestAndSet>(shape, duties),
        "byte" => loop_in::<spin::Byte>(shape, duties),
        "mcs" => loop_in::<queue::Mcs>(shape, duties),
        "queued" => loop_in::<queued::Queued>(shape, duties),
        "pthread" => loop_in::<spin::Mutex>(shape, duties),
        _ => loop_in::<spin::Ticket>(shape, duties),
    };
    Ok([run?, duties.pass::<Unlocked, Nothing>()])
}

fn loop_in<L: Lock>(shape: &str, duties: Duties) -> Result<Loop, WorkError> {
    Ok(match shape {
        "direct" => duties.pass::<L, Direct>(),
        "wrapper" => duties.pass::<L, Wrapper>(),
        "table" => {
            shape::fill_table::<L>();
            duties.pass::<L, CallTable>()
        }
        "patched" => {
            shape::patch_calls::<L>()?;
            duties.pass::<L, Patched>()
        }
        _ => duties.pass::<L, Inline>(),
    })
}

impl Work for Contender {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        std::hint::black_box(self.go(self.run_twin, WARM_UP_OPS, &self.alone));
        std::hint::black_box(self.go(self.run, WARM_UP_OPS, &WARM_UP));
        // Until the first write, the counter's page is the program's own.
        WORK.make_resident();
        Ok(())
    }

    fn twin(&mut self) {
        self.twin = self.go(self.run_twin, self.ops, &self.alone);
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = self.go(self.run, self.ops, &WORK);
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
        // The lock belongs to all threads, so only one of them reports the figures.
        let told = |value: u64| if self.me == 0 { value } else { 0 };
        vec![
            figure(LOCK_HANDOVERS, told(WORK.handovers())),
            figure(LOCK_RUN_MAX, told(WORK.run_longest())),
        ]
    }
}

#[cfg(test)]
mod tests;
