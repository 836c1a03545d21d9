//! The loop over the operations, with one copy of their sites or with many.

use super::operations::Operations;
use crate::random::{Random, below, fold};

/// Operations to go through, and what came of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// The page table.
    pub(super) entries: *mut u64,
    /// Its entries.
    pub(super) length: u64,
    pub(super) seed: u64,
    pub(super) ops: u64,
    /// Operations gone through.
    pub(super) done: u64,
    /// Over which entries they were.
    pub(super) hash: u64,
    /// Over what was read.
    pub(super) checksum: u64,
}

/// A loop over all operations of a pass.
pub(super) type Passage = unsafe extern "C" fn(*mut Pass);

/// Copies of the sites where these are cold.
const COPIES: usize = 64;

/// One operation: read an entry, change flags, write it back, say so. Four operations of the table.
///
/// # Safety
/// `entry` is writable and nobody else's.
#[inline(always)]
unsafe fn modify<O: Operations>(entry: *mut u64, flags: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let old = O::pte_val(entry.read_volatile());
        O::set_pte(entry, O::make_pte(old ^ flags));
        O::flush(entry.addr());
        old
    }
}

/// # Safety
/// The pass's entries are as many as it says, and nobody else's.
#[inline(always)]
unsafe fn go_through(pass: *mut Pass, modify: impl Fn(u64, *mut u64, u64) -> u64) {
    // SAFETY: the caller's promise.
    let pass = unsafe { &mut *pass };
    let mut random = Random::seeded(pass.seed);
    for _ in 0..pass.ops {
        // Bits of the draw: 32 entry, 12 flags, the rest for the copy.
        let draw = random.draw();
        let index = below(draw & 0xffff_ffff, 32, pass.length);
        // SAFETY: the index is below the number of entries.
        let entry = unsafe { pass.entries.add(index as usize) };
        let old = modify(draw >> 44, entry, (draw >> 32) & 0xfff);
        pass.hash = fold(pass.hash, index);
        pass.checksum = fold(pass.checksum, old);
        pass.done += 1;
    }
}

/// All operations by the same four sites.
///
/// # Safety
/// The pass's entries are as many as it says, and nobody else's.
#[inline(never)]
pub(super) unsafe extern "C" fn hot<O: Operations>(pass: *mut Pass) {
    // SAFETY: the caller's promise; entries are the pass's.
    unsafe { go_through(pass, |_, entry, flags| modify::<O>(entry, flags)) }
}

/// Each operation by the sites of a copy of the code that is drawn.
///
/// # Safety
/// As [`hot`].
#[inline(never)]
pub(super) unsafe extern "C" fn cold<O: Operations>(pass: *mut Pass) {
    let copies = const { copies::<O>() };
    // SAFETY: as above.
    unsafe {
        go_through(pass, |draw, entry, flags| copies[draw as usize % COPIES](entry, flags));
    }
}

type Copy = unsafe fn(*mut u64, u64) -> u64;

/// # Safety
/// As [`modify`].
#[inline(never)]
unsafe fn copy<O: Operations, const NUMBER: usize>(entry: *mut u64, flags: u64) -> u64 {
    // Makes the copies different, so that the compiler does not fold them.
    // SAFETY: there is no instruction.
    unsafe { std::arch::asm!("/* {} */", const NUMBER, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the caller's promise.
    unsafe { modify::<O>(entry, flags) }
}

macro_rules! eight {
    ($($eight:literal)*) => {
        [$(
            copy::<O, { 8 * $eight }>, copy::<O, { 8 * $eight + 1 }>, copy::<O, { 8 * $eight + 2 }>,
            copy::<O, { 8 * $eight + 3 }>, copy::<O, { 8 * $eight + 4 }>, copy::<O, { 8 * $eight + 5 }>,
            copy::<O, { 8 * $eight + 6 }>, copy::<O, { 8 * $eight + 7 }>,
        )*]
    };
}

const fn copies<O: Operations>() -> [Copy; COPIES] {
    eight!(0 1 2 3 4 5 6 7)
}
