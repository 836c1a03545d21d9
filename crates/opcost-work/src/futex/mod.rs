//! The `futex` workload: a baton goes round, and each task wakes the next.
//!
//! Every task has a word of its own. The task with the baton adds 1 to the next task's word and wakes that task, then waits until
//! its own word has changed. This exercises the kernel's path from a wake-up to the woken task: on one CPU by switching to it, on
//! several by interrupting another CPU.

use crate::error::WorkError;
use crate::gate::{Gate, Kernel, Nothing};
use crate::invariant::{PAGE_FAULTS_EXPECTED, count, hash};
use crate::params::Params;
use crate::random::fold;
use crate::spec::WorkloadSpec;
use crate::task::{self, TASKS_MAX};
use crate::work::Work;
use opcost_record::Invariant;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub(crate) const SPEC: WorkloadSpec = WorkloadSpec {
    name: "futex",
    summary: "a baton that goes from thread to thread, each woken by the one before",
    operation: "one handover: the baton is waited for, and the next task woken",
    ops_default: "100000",
    programs: None,
    figures: &[],
    params: &[],
    prepare: |params, _| Ok(Box::new(Runner::prepare(params))),
};

/// Operations of the warm-up.
const WARM_UP_OPS: u64 = 100;

/// How often a task got the baton, alone in its cache line.
#[repr(align(64))]
struct Word(AtomicU32);

/// The words of the tasks; each process has its own. The first task begins with the baton.
static WORDS: [Word; TASKS_MAX] = {
    let mut words = [const { Word(AtomicU32::new(0)) }; TASKS_MAX];
    words[0] = Word(AtomicU32::new(1));
    words
};

/// The handovers of all tasks. The number is loaded and stored, not changed in one atomic step: two tasks that had the baton at the
/// same time would lose some handovers.
static HANDED: AtomicU64 = AtomicU64::new(0);

/// The count of one pass over the operations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Pass {
    done: u64,
}

/// A system call that failed.
struct Failed {
    op: u64,
    returned: usize,
}

struct Runner {
    me: usize,
    /// The number of tasks that share the baton.
    rivals: usize,
    /// How often this task got the baton.
    taken: u32,
    ops: u64,
    work: Pass,
    twin: Pass,
}

impl Runner {
    fn prepare(params: &Params) -> Self {
        let rivals = params.number("threads").max(1) as usize;
        Runner {
            // A process shares its words with nobody, whatever its task.
            me: task::current() % rivals,
            rivals,
            taken: 0,
            ops: params.number("ops"),
            work: Pass::default(),
            twin: Pass::default(),
        }
    }

    /// Hands the baton on `ops` times, through the kernel or the empty gate; stops at the first failing call.
    #[inline(never)]
    fn pass<G: Gate>(&mut self, ops: u64) -> Result<Pass, Failed> {
        let own = &WORDS[self.me].0;
        let next = &WORDS[(self.me + 1) % self.rivals].0;
        let mut pass = Pass::default();
        while pass.done < ops {
            // A signal, or a baton that came meanwhile, also ends the wait.
            while G::WORKS && own.load(Ordering::Acquire) == self.taken {
                futex::<G>(own, libc::FUTEX_WAIT, self.taken);
            }
            if G::WORKS {
                self.taken = self.taken.wrapping_add(1);
                HANDED.store(HANDED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                // Release: the next task sees the counted handover.
                next.fetch_add(1, Ordering::Release);
            }
            let returned = futex::<G>(next, libc::FUTEX_WAKE, 1);
            if returned > 1 {
                return Err(Failed { op: pass.done, returned });
            }
            pass.done += 1;
        }
        Ok(pass)
    }

    fn through_the_kernel(&mut self, ops: u64) -> Result<Pass, WorkError> {
        self.pass::<Kernel>(ops).map_err(|Failed { op, returned }| WorkError::Call {
            call: "futex",
            op: op + 1,
            ops,
            returned,
            expected: 1,
        })
    }
}

/// Waits while a word holds a value, or wakes that many waiting tasks; returns the kernel's result.
#[inline(always)]
fn futex<G: Gate>(word: &AtomicU32, operation: libc::c_int, value: u32) -> usize {
    let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
    // No time limit: the fourth argument is null.
    let arguments = [word.as_ptr() as usize, operation, value as usize, 0, 0, 0];
    // SAFETY: the kernel reads the word, an atomic, and changes no memory (futex(2)).
    unsafe { G::call(libc::SYS_futex as usize, arguments, 0) }
}

impl Work for Runner {
    fn ops(&self) -> u64 {
        self.ops
    }

    fn warm_up(&mut self) -> Result<(), WorkError> {
        let _ = std::hint::black_box(self.pass::<Nothing>(WARM_UP_OPS));
        self.through_the_kernel(WARM_UP_OPS).map(|_| ())
    }

    fn twin(&mut self) {
        // The empty gate never fails.
        self.twin = self.pass::<Nothing>(self.ops).unwrap_or_default();
    }

    fn work(&mut self) -> Result<(), WorkError> {
        self.work = self.through_the_kernel(self.ops)?;
        Ok(())
    }

    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError> {
        let (counted, each) = (HANDED.load(Ordering::Relaxed), WARM_UP_OPS + self.ops);
        let expected = self.rivals as u64 * each;
        if counted != expected {
            return Err(WorkError::Unprotected { lock: "futex", counted, expected });
        }
        let (twin, work) = (fold(0, self.twin.done), fold(0, self.work.done));
        if twin != work {
            return Err(WorkError::Twin { twin, work });
        }
        Ok(vec![hash(work), count("ops-futex", self.work.done), count(PAGE_FAULTS_EXPECTED, 0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child::{in_child, measured, value};
    use crate::invariant::PAGE_FAULTS;

    #[test]
    fn the_baton_goes_round_as_often_as_it_has_to() {
        for (threads, handed) in [("0", 200), ("1", 200), ("2", 400), ("5", 1000)] {
            let given = [("ops", "200"), ("threads", threads), ("oversubscribe", "on")];
            // A missing handover would be an error.
            let report = measured(&SPEC, &given, 1).unwrap();
            assert_eq!(report.ops, Some(handed), "{threads} threads");
            assert_eq!(value(&report, "ops-futex"), "200");
            assert_eq!(value(&report, PAGE_FAULTS), "0");
        }
    }

    #[test]
    fn processes_have_batons_of_their_own() {
        let given = [("ops", "100"), ("procs", "2"), ("oversubscribe", "on")];
        assert_eq!(measured(&SPEC, &given, 1).unwrap().ops, Some(200));
    }

    #[test]
    fn a_handover_too_many_is_an_error() {
        let said = in_child(|| {
            let params = SPEC.resolve(&[("ops".into(), "100".into())]).unwrap();
            let mut runner = Runner::prepare(&params);
            runner.warm_up().unwrap();
            runner.twin();
            runner.work().unwrap();
            runner.invariants().unwrap();
            HANDED.fetch_add(1, Ordering::Relaxed);
            runner.invariants().unwrap_err().to_string()
        });
        let said = said.unwrap();
        assert!(said.contains("counted 201 acquisitions where there were 200"), "{said}");
    }
}
