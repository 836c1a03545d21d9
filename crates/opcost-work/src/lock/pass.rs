//! The loops over the acquisitions; each does only what its run needs.

use super::Lock;
use super::protected::Protected;
use super::shape::Shape;
use crate::random::fold;
use crate::unrolled::times;

/// The counts of one task's pass.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Pass {
    pub(super) done: u64,
    /// The result of the computation inside and outside the lock.
    pub(super) state: u64,
}

/// Steps of a dependent computation, with and without the lock held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) inside: u64,
    pub(super) outside: u64,
}

/// A loop. Arguments: the task's index, the number of operations, the data that the lock protects, the steps, and the initial state
/// of the computation.
pub(super) type Loop = fn(usize, u64, &Protected, Steps, u64) -> Pass;

/// The duties of a loop besides acquiring, counting and releasing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Duties {
    /// None: one task has the lock to itself.
    None,
    /// Recording who has the lock.
    Record,
    /// The record, and a computation inside and outside the lock.
    RecordAndSteps,
}

impl Duties {
    /// Returns the duties if `rivals` tasks share the lock.
    pub(super) fn of(rivals: u64, steps: Steps) -> Duties {
        match (rivals, steps) {
            (1, Steps { inside: 0, outside: 0 }) => Duties::None,
            (_, Steps { inside: 0, outside: 0 }) => Duties::Record,
            _ => Duties::RecordAndSteps,
        }
    }

    /// Returns the loop with these duties, for a lock in a shape.
    pub(super) fn pass<L: Lock, S: Shape>(self) -> Loop {
        match self {
            Duties::None => bare::<L, S, false>,
            Duties::Record => bare::<L, S, true>,
            Duties::RecordAndSteps => with_steps::<L, S>,
        }
    }
}

#[inline(never)]
fn bare<L: Lock, S: Shape, const RECORD: bool>(
    me: usize,
    ops: u64,
    protected: &Protected,
    _: Steps,
    state: u64,
) -> Pass {
    let one = || {
        S::acquire::<L>(me);
        if RECORD {
            protected.record(me as u64);
        }
        S::count(protected);
        S::release::<L>(me);
    };
    Pass { done: times!(ops, one()), state }
}

#[inline(never)]
fn with_steps<L: Lock, S: Shape>(
    me: usize,
    ops: u64,
    protected: &Protected,
    steps: Steps,
    state: u64,
) -> Pass {
    let mut pass = Pass { done: 0, state };
    while pass.done < ops {
        S::acquire::<L>(me);
        protected.record(me as u64);
        S::count(protected);
        pass.state = compute(pass.state, steps.inside);
        S::release::<L>(me);
        pass.state = compute(pass.state, steps.outside);
        pass.done += 1;
    }
    pass
}

/// Computes `steps` steps; each needs the result of the previous one.
#[inline(always)]
fn compute(mut state: u64, steps: u64) -> u64 {
    for step in 0..steps {
        state = fold(state, step);
    }
    state
}
