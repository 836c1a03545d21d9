//! Locks whose waiters all look at the same memory, and the C library's mutex.

use super::Lock;
use super::wait::wait_while;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

/// Test-and-set: waiters try repeatedly to take the lock.
#[repr(align(64))]
pub(super) struct TestAndSet(AtomicU32);

impl Lock for TestAndSet {
    fn instance() -> &'static Self {
        static THE: TestAndSet = TestAndSet(AtomicU32::new(0));
        &THE
    }

    #[inline(always)]
    fn acquire(&self, _: usize) {
        wait_while(|| self.0.swap(1, Ordering::Acquire) != 0);
    }

    #[inline(always)]
    fn release(&self, _: usize) {
        self.0.store(0, Ordering::Release);
    }
}

/// Test-and-test-and-set of one byte: waiters only read until the lock looks free (Rudolph and Segall, ISCA 1984). Xen's paravirt
/// spinlocks of 2009 were this lock.
#[repr(align(64))]
pub(super) struct Byte(AtomicU8);

impl Lock for Byte {
    fn instance() -> &'static Self {
        static THE: Byte = Byte(AtomicU8::new(0));
        &THE
    }

    #[inline(always)]
    fn acquire(&self, _: usize) {
        while self.0.swap(1, Ordering::Acquire) != 0 {
            wait_while(|| self.0.load(Ordering::Relaxed) != 0);
        }
    }

    #[inline(always)]
    fn release(&self, _: usize) {
        self.0.store(0, Ordering::Release);
    }
}

/// A ticket lock: waiters are served in the order of arrival, and watch the number being served (Linux had this lock from 2.6.25 to
/// 4.1).
#[repr(align(64))]
pub(super) struct Ticket {
    next: AtomicU16,
    served: AtomicU16,
}

impl Lock for Ticket {
    fn instance() -> &'static Self {
        static THE: Ticket = Ticket { next: AtomicU16::new(0), served: AtomicU16::new(0) };
        &THE
    }

    #[inline(always)]
    fn acquire(&self, _: usize) {
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        wait_while(|| self.served.load(Ordering::Acquire) != mine);
    }

    #[inline(always)]
    fn release(&self, _: usize) {
        // Only the owner writes the number.
        let served = self.served.load(Ordering::Relaxed);
        self.served.store(served.wrapping_add(1), Ordering::Release);
    }
}

/// The C library's mutex, which lets waiters sleep.
#[repr(align(64))]
pub(super) struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is made to be used by several threads, through the C library only.
unsafe impl Sync for Mutex {}

impl Lock for Mutex {
    fn instance() -> &'static Self {
        static THE: Mutex = Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        &THE
    }

    #[inline(always)]
    fn acquire(&self, _: usize) {
        // An initialised normal mutex reports no errors (pthread_mutex_lock(3)).
        // SAFETY: the mutex was initialised and does not move.
        unsafe { libc::pthread_mutex_lock(self.0.get()) };
    }

    #[inline(always)]
    fn release(&self, _: usize) {
        // SAFETY: as above, and the caller has the mutex.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }
}
