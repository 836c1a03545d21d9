//! The lock of Linux on most architectures since 4.2: one word, in which the first waiter leaves a bit and only later waiters queue
//! (kernel/locking/qspinlock.c).
//!
//! Bits 0 to 7 of the word mean locked, bit 8 means that a task waits, and bits 16 to 31 name the last task in the queue.

use super::Lock;
use super::queue::QueueSlots;
use super::wait::wait_while;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

const LOCKED: u32 = 1;
const PENDING: u32 = 1 << 8;
const TAIL_SHIFT: u32 = 16;
const TAIL: u32 = u32::MAX << TAIL_SHIFT;

/// The number of checks for the end of a handover before queueing (_Q_PENDING_LOOPS on x86).
const HANDOVER_LOOKS: u32 = 512;

#[repr(align(64))]
pub(super) struct Queued {
    word: AtomicU32,
    places: QueueSlots,
}

impl Lock for Queued {
    fn instance() -> &'static Self {
        static THE: Queued = Queued { word: AtomicU32::new(0), places: QueueSlots::new() };
        &THE
    }

    #[inline(always)]
    fn acquire(&self, me: usize) {
        if self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait(me as u32 + 1);
        }
    }

    #[inline(always)]
    fn release(&self, _: usize) {
        self.unlock();
    }
}

impl Queued {
    /// Clears the byte that means locked: a plain store, since nobody else writes this byte.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn unlock(&self) {
        // SAFETY: the word is valid, and its lowest byte belongs to the caller. An instruction is used because the language has no
        // atomic access to a part of an atomic. x86 orders the store behind earlier accesses (Intel SDM vol. 3A, 8.2.2).
        unsafe {
            std::arch::asm!(
                "mov byte ptr [{word}], 0",
                word = in(reg) self.word.as_ptr(),
                options(nostack, preserves_flags),
            );
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline(always)]
    fn unlock(&self) {
        self.word.fetch_sub(LOCKED, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, name: u32) {
        if !self.wait_first() {
            self.wait_in_queue(name);
        }
    }

    /// Tries to be the one waiter that needs no queue; returns whether that gave it the lock.
    fn wait_first(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        for _ in 0..HANDOVER_LOOKS {
            if word != PENDING {
                break;
            }
            spin_loop();
            word = self.word.load(Ordering::Relaxed);
        }
        if word & !LOCKED != 0 {
            return false;
        }
        word = self.word.fetch_or(PENDING, Ordering::Acquire);
        if word & !LOCKED != 0 {
            // Another task was faster. If this task set the bit all the same, the bit must go.
            if word & PENDING == 0 {
                self.word.fetch_and(!PENDING, Ordering::Relaxed);
            }
            return false;
        }
        wait_while(|| self.word.load(Ordering::Acquire) & LOCKED != 0);
        self.word.fetch_sub(PENDING - LOCKED, Ordering::Acquire);
        true
    }

    fn wait_in_queue(&self, name: u32) {
        let tail = name << TAIL_SHIFT;
        self.places.enter(name);
        let queue = |word| Some(word & !TAIL | tail);
        let before = match self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, queue) {
            Ok(word) | Err(word) => word >> TAIL_SHIFT,
        };
        if before != 0 {
            self.places.wait_behind(before, name);
        }
        // The first task of the queue waits for the owner, and for the waiter with the bit.
        wait_while(|| self.word.load(Ordering::Acquire) & !TAIL != 0);
        // The exchange succeeds if nobody is behind this task.
        let claim = self.word.compare_exchange(tail, LOCKED, Ordering::Acquire, Ordering::Relaxed);
        if claim.is_err() {
            // Somebody is behind, or set the bit meanwhile and will find the tail and queue.
            self.word.fetch_or(LOCKED, Ordering::Acquire);
            self.places.call_next(name);
        }
    }
}
