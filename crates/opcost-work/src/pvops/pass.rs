//! The loops over the operations, with sites that are executed again and again, or seldom.

use super::operations::Modify;
use crate::random::{Random, below, fold};
use crate::unrolled::{TURN, ready, turn};

/// Modify to go through, and what came of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// The page table.
    pub(super) entries: *mut u64,
    /// Its entries.
    pub(super) length: u64,
    pub(super) seed: u64,
    pub(super) ops: u64,
    /// Modify gone through.
    pub(super) done: u64,
    /// Over which entries they were.
    pub(super) hash: u64,
}

/// A loop over all operations of a pass.
pub(super) type Passage = unsafe extern "C" fn(*mut Pass);

/// Copies of the sites where these are cold.
const COPIES: usize = 64;

/// What is drawn for an operation, or for a range of them.
pub(super) struct Draw {
    /// The entry, or the first.
    pub(super) index: u64,
    pub(super) flags: u64,
    /// The copy of the code.
    copy: usize,
}

impl Draw {
    /// One of so many entries, and the rest.
    #[inline(always)]
    pub(super) fn below(length: u64, random: &mut Random) -> Draw {
        // Bits of the draw: 32 entry, 12 flags, the rest for the copy.
        let draw = random.draw();
        let index = below(draw & 0xffff_ffff, 32, length);
        let flags = (draw >> 32) & 0xfff;
        // So that twins draw what the work does.
        ready(flags as usize);
        Draw { index, flags, copy: (draw >> 44) as usize % COPIES }
    }
}

/// Adjacent entries that are changed one after the other: some turns.
pub(super) const RANGE: u64 = 4 * TURN;

/// How many of a pass's operations are done in ranges.
pub(super) fn in_ranges(ops: u64, length: u64) -> u64 {
    if length < RANGE { 0 } else { ops - ops % RANGE }
}

/// All operations by the sites of one turn: an entry and the flags are drawn for the first of a
/// range, as where a kernel changes a range of a page table. What is left of a range, and all of them
/// in a table shorter than one, are drawn one by one.
///
/// # Safety
/// The pass's entries are as many as it says, and nobody else's.
#[inline(never)]
pub(super) unsafe extern "C" fn hot<M: Modify>(pass: *mut Pass) {
    // SAFETY: the caller's promise.
    let pass = unsafe { &mut *pass };
    let (entries, length) = (pass.entries, pass.length);
    let mut random = Random::seeded(pass.seed);
    let (mut done, mut hash) = (0, 0);
    let in_ranges = in_ranges(pass.ops, length);
    while done < in_ranges {
        let Draw { index, flags, .. } = Draw::below(length - RANGE + 1, &mut random);
        // SAFETY: there is a whole range of entries after the one that is drawn.
        unsafe {
            let mut entry = entries.add(index as usize);
            let end = entry.add(RANGE as usize);
            while entry != end {
                turn!({
                    M::modify(entry, flags);
                    entry = entry.add(1);
                });
            }
        }
        hash = fold(hash, index);
        done += RANGE;
    }
    while done < pass.ops {
        let Draw { index, flags, .. } = Draw::below(length, &mut random);
        // SAFETY: the index is below the number of entries.
        unsafe { M::modify(entries.add(index as usize), flags) };
        hash = fold(hash, index);
        done += 1;
    }
    (pass.done, pass.hash) = (done, hash);
}

/// Each operation by the sites of a copy of the code that is drawn, as the entry is.
///
/// # Safety
/// As [`hot`].
#[inline(never)]
pub(super) unsafe extern "C" fn cold<M: Modify>(pass: *mut Pass) {
    let copies = const { copies::<M>() };
    // SAFETY: the caller's promise.
    let pass = unsafe { &mut *pass };
    let (entries, length) = (pass.entries, pass.length);
    let mut random = Random::seeded(pass.seed);
    let (mut done, mut hash) = (0, 0);
    while done < pass.ops {
        let Draw { index, flags, copy } = Draw::below(length, &mut random);
        // SAFETY: the index is below the number of entries.
        unsafe { copies[copy](entries.add(index as usize), flags) };
        hash = fold(hash, index);
        done += 1;
    }
    (pass.done, pass.hash) = (done, hash);
}

type Copy = unsafe fn(*mut u64, u64);

/// # Safety
/// As [`Modify::modify`].
#[inline(never)]
unsafe fn copy<M: Modify, const NUMBER: usize>(entry: *mut u64, flags: u64) {
    // Makes the copies different, so that the compiler does not fold them.
    // SAFETY: there is no instruction.
    unsafe { std::arch::asm!("/* {} */", const NUMBER, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the caller's promise.
    unsafe { M::modify(entry, flags) }
}

macro_rules! eight {
    ($($eight:literal)*) => {
        [$(
            copy::<M, { 8 * $eight }>, copy::<M, { 8 * $eight + 1 }>, copy::<M, { 8 * $eight + 2 }>,
            copy::<M, { 8 * $eight + 3 }>, copy::<M, { 8 * $eight + 4 }>, copy::<M, { 8 * $eight + 5 }>,
            copy::<M, { 8 * $eight + 6 }>, copy::<M, { 8 * $eight + 7 }>,
        )*]
    };
}

const fn copies<M: Modify>() -> [Copy; COPIES] {
    eight!(0 1 2 3 4 5 6 7)
}
