//! Queues of waiters, each of which spins on memory of its own.

use super::Lock;
use super::wait::wait_while;
use crate::task::TASKS_MAX;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// One task's place in a queue. A task's name is its index plus 1; 0 means nobody.
#[repr(align(64))]
pub(super) struct QueueSlot {
    next: AtomicU32,
    waits: AtomicBool,
}

/// The places of all tasks.
pub(super) struct QueueSlots([QueueSlot; TASKS_MAX]);

impl QueueSlots {
    pub(super) const fn new() -> Self {
        QueueSlots(
            [const { QueueSlot { next: AtomicU32::new(0), waits: AtomicBool::new(false) } };
                TASKS_MAX],
        )
    }

    #[inline(always)]
    fn of(&self, name: u32) -> &QueueSlot {
        // The remainder is the index itself; it avoids the bounds check.
        &self.0[(name as usize - 1) % TASKS_MAX]
    }

    /// Prepares a task's place, before others can see the place.
    #[inline(always)]
    pub(super) fn enter(&self, name: u32) {
        let place = self.of(name);
        place.next.store(0, Ordering::Relaxed);
        place.waits.store(true, Ordering::Relaxed);
    }

    /// Queues behind another task, and returns when that task calls.
    #[inline(always)]
    pub(super) fn wait_behind(&self, before: u32, name: u32) {
        self.of(before).next.store(name, Ordering::Release);
        wait_while(|| self.of(name).waits.load(Ordering::Acquire));
    }

    /// Returns the task behind a task, if known by now.
    #[inline(always)]
    fn behind(&self, name: u32) -> Option<u32> {
        Some(self.of(name).next.load(Ordering::Acquire)).filter(|next| *next != 0)
    }

    /// Calls the next task in the queue, which is there or about to arrive.
    #[inline(always)]
    pub(super) fn call_next(&self, name: u32) {
        wait_while(|| self.behind(name).is_none());
        if let Some(next) = self.behind(name) {
            self.of(next).waits.store(false, Ordering::Release);
        }
    }
}

/// The queue lock of Mellor-Crummey and Scott (ACM TOCS 9(1), 1991).
#[repr(align(64))]
pub(super) struct Mcs {
    /// The last task in the queue.
    tail: AtomicU32,
    places: QueueSlots,
}

impl Lock for Mcs {
    fn instance() -> &'static Self {
        static THE: Mcs = Mcs { tail: AtomicU32::new(0), places: QueueSlots::new() };
        &THE
    }

    #[inline(always)]
    fn acquire(&self, me: usize) {
        let name = me as u32 + 1;
        self.places.enter(name);
        let before = self.tail.swap(name, Ordering::AcqRel);
        if before != 0 {
            self.places.wait_behind(before, name);
        }
    }

    #[inline(always)]
    fn release(&self, me: usize) {
        let name = me as u32 + 1;
        let alone = self.places.behind(name).is_none()
            && self.tail.compare_exchange(name, 0, Ordering::Release, Ordering::Relaxed).is_ok();
        if !alone {
            self.places.call_next(name);
        }
    }
}
