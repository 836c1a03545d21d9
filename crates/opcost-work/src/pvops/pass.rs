//! The loops over the operations: with sites that are executed repeatedly, or rarely.

use super::operations::Modify;
use crate::random::{Random, below, fold};
use crate::unrolled::{TURN, ready, turn};

/// The loop's input, and its results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    /// The page table.
    pub(super) entries: *mut u64,
    /// The number of entries.
    pub(super) length: u64,
    pub(super) seed: u64,
    pub(super) ops: u64,
    /// Operations done so far.
    pub(super) done: u64,
    /// A hash over the indices of the changed entries.
    pub(super) hash: u64,
}

/// A loop over all operations of a pass.
pub(super) type Passage = unsafe extern "C" fn(*mut Pass);

/// The number of copies of cold sites.
const COPIES: usize = 64;

/// The draw for an operation, or for a range of operations.
pub(super) struct Draw {
    /// The entry, or the first of a range.
    pub(super) index: u64,
    pub(super) flags: u64,
    /// The number of the code's copy.
    copy: usize,
}

impl Draw {
    /// Draws an entry below `length`, the flags and the copy.
    #[inline(always)]
    pub(super) fn below(length: u64, random: &mut Random) -> Draw {
        // Bits of the draw: 32 for the entry, 12 for the flags, the rest for the copy.
        let draw = random.draw();
        let index = below(draw & 0xffff_ffff, 32, length);
        let flags = (draw >> 32) & 0xfff;
        // Twins need the flags as well, so that they draw the same as the work.
        ready(flags as usize);
        Draw { index, flags, copy: (draw >> 44) as usize % COPIES }
    }
}

/// The number of adjacent entries that are changed one after the other: some turns.
pub(super) const RANGE: u64 = 4 * TURN;

/// Returns the number of a pass's operations that are done in ranges.
pub(super) fn in_ranges(ops: u64, length: u64) -> u64 {
    if length < RANGE { 0 } else { ops - ops % RANGE }
}

/// Does all operations with the sites of one turn. An entry and the flags are drawn for the first of a range, as where a kernel
/// changes a range of a page table. Operations that do not fill a range are drawn one by one, as are all operations on a table
/// shorter than a range.
///
/// # Safety
/// The pass has as many entries as it says, and nothing else uses them.
#[inline(never)]
pub(super) unsafe extern "C" fn hot<M: Modify>(pass: *mut Pass) {
    // SAFETY: as the caller promises.
    let pass = unsafe { &mut *pass };
    let (entries, length) = (pass.entries, pass.length);
    let mut random = Random::seeded(pass.seed);
    let (mut done, mut hash) = (0, 0);
    let in_ranges = in_ranges(pass.ops, length);
    while done < in_ranges {
        let Draw { index, flags, .. } = Draw::below(length - RANGE + 1, &mut random);
        // SAFETY: a whole range of entries starts at the drawn one.
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

/// Does each operation with the sites of a randomly drawn copy of the code.
///
/// # Safety
/// As for [`hot`].
#[inline(never)]
pub(super) unsafe extern "C" fn cold<M: Modify>(pass: *mut Pass) {
    let copies = const { copies::<M>() };
    // SAFETY: as the caller promises.
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
/// As for [`Modify::modify`].
#[inline(never)]
unsafe fn copy<M: Modify, const NUMBER: usize>(entry: *mut u64, flags: u64) {
    // Makes the copies different, so that the compiler does not merge them.
    // SAFETY: there is no instruction.
    unsafe { std::arch::asm!("/* {} */", const NUMBER, options(nomem, nostack, preserves_flags)) };
    // SAFETY: as the caller promises.
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
