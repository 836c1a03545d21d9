//! The shapes: the ways in which the loop reaches lock and unlock.

use super::Lock;
use super::protected::Protected;
use crate::error::WorkError;
use crate::patched::require_patched;
use crate::unrolled::nothing;
use patchpoint::{Call, Transaction};
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A way to reach a lock's operations.
pub(super) trait Shape {
    /// Acquires the one lock of this kind.
    fn acquire<L: Lock>(me: usize);
    /// Releases the lock.
    fn release<L: Lock>(me: usize);
    /// Counts the acquisition while the lock is held.
    #[inline(always)]
    fn count(protected: &Protected) {
        protected.count();
    }
}

/// No operation at all; the remaining loop is the twin.
pub(super) struct Nothing;

impl Shape for Nothing {
    #[inline(always)]
    fn acquire<L: Lock>(_: usize) {
        nothing();
    }

    #[inline(always)]
    fn release<L: Lock>(_: usize) {}

    #[inline(always)]
    fn count(_: &Protected) {}
}

/// The operations are part of the loop.
pub(super) struct Inline;

/// Each operation is a call.
pub(super) struct Direct;

/// Each operation is a call to a function that makes the call.
pub(super) struct Wrapper;

/// Each operation is a call through a table of functions that was filled beforehand.
pub(super) struct CallTable;

impl Shape for Inline {
    #[inline(always)]
    fn acquire<L: Lock>(me: usize) {
        L::instance().acquire(me);
    }

    #[inline(always)]
    fn release<L: Lock>(me: usize) {
        L::instance().release(me);
    }
}

impl Shape for Direct {
    #[inline(never)]
    fn acquire<L: Lock>(me: usize) {
        L::instance().acquire(me);
    }

    #[inline(never)]
    fn release<L: Lock>(me: usize) {
        L::instance().release(me);
    }
}

impl Shape for Wrapper {
    #[inline(never)]
    fn acquire<L: Lock>(me: usize) {
        Direct::acquire::<L>(me);
        // An instruction after the call keeps the compiler from turning the call into a jump.
        nothing();
    }

    #[inline(never)]
    fn release<L: Lock>(me: usize) {
        Direct::release::<L>(me);
        // As above.
        nothing();
    }
}

type Operation = fn(usize);

static ACQUIRE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static RELEASE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

/// Enters the operations of this kind of lock into the table.
pub(super) fn fill_table<L: Lock>() {
    ACQUIRE.store(Direct::acquire::<L> as Operation as *mut (), Ordering::Release);
    RELEASE.store(Direct::release::<L> as Operation as *mut (), Ordering::Release);
}

impl Shape for CallTable {
    #[inline(always)]
    fn acquire<L: Lock>(me: usize) {
        // SAFETY: callers get the loop with this shape only after the table was filled with operations of this type.
        let operation = unsafe { transmute::<*mut (), Operation>(ACQUIRE.load(Ordering::Relaxed)) };
        operation(me);
    }

    #[inline(always)]
    fn release<L: Lock>(me: usize) {
        // SAFETY: as above.
        let operation = unsafe { transmute::<*mut (), Operation>(RELEASE.load(Ordering::Relaxed)) };
        operation(me);
    }
}

/// Each operation is a call through a table, whose call sites were patched into direct calls.
pub(super) struct Patched;

type Entry = extern "C" fn(usize);

static ACQUIRE_ENTRY: Call<Entry> = Call::new(c"lock_acquire", acquire_entry::<super::Unlocked>);
static RELEASE_ENTRY: Call<Entry> = Call::new(c"lock_release", release_entry::<super::Unlocked>);

#[inline(never)]
extern "C" fn acquire_entry<L: Lock>(me: usize) {
    L::instance().acquire(me);
}

#[inline(never)]
extern "C" fn release_entry<L: Lock>(me: usize) {
    L::instance().release(me);
}

/// Patches the calls of both operations to this kind of lock.
///
/// # Errors
/// [`WorkError::Patch`] and [`WorkError::Unpatched`]: code cannot be patched here.
pub(super) fn patch_calls<L: Lock>() -> Result<(), WorkError> {
    const SHAPE: &str = "patched";
    let mut change = Transaction::new();
    change.set_call(&ACQUIRE_ENTRY, acquire_entry::<L> as Entry);
    change.set_call(&RELEASE_ENTRY, release_entry::<L> as Entry);
    patchpoint::init()
        .and_then(|()| change.commit())
        .map_err(|source| WorkError::Patch { path: SHAPE.into(), source })?;
    require_patched(SHAPE, &[ACQUIRE_ENTRY.raw(), RELEASE_ENTRY.raw()])
}

impl Shape for Patched {
    #[inline(always)]
    fn acquire<L: Lock>(me: usize) {
        patchpoint::call!(ACQUIRE_ENTRY, me);
    }

    #[inline(always)]
    fn release<L: Lock>(me: usize) {
        patchpoint::call!(RELEASE_ENTRY, me);
    }
}
