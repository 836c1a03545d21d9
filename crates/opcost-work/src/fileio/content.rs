//! The contents of the file: blocks of one seeded pattern, each with a stamp of its own at its beginning.

use crate::error::WorkError;
use crate::random::{Random, fold};
use std::ptr;

/// Bytes of a stamp.
pub(super) const STAMP_BYTES: usize = 8;

/// The state of a file's blocks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Blocks {
    /// How often each block was written since the file was laid out; one entry for each block that the file may have.
    written: Vec<u32>,
    /// The number of blocks in the file.
    pub(super) len: u64,
}

impl Blocks {
    /// Makes the state of an empty file that may get `count` blocks.
    pub(super) fn none(count: u64) -> Blocks {
        // A zeroed vector would not be resident.
        let mut blocks = Blocks { written: vec![1; count as usize], len: 0 };
        blocks.reset(false);
        blocks
    }

    /// Resets the state to an unwritten file: complete if `whole`, else empty.
    pub(super) fn reset(&mut self, whole: bool) {
        self.written.fill(0);
        self.len = if whole { self.most() } else { 0 };
    }

    /// The largest number of blocks.
    pub(super) fn most(&self) -> u64 {
        self.written.len() as u64
    }

    /// Returns the stamp of block `index`.
    #[inline(always)]
    pub(super) fn stamp(&self, index: u64) -> u64 {
        fold(0, index << u32::BITS | u64::from(self.written[index as usize]))
    }

    /// Notes that block `index` is written, and returns its new stamp.
    #[inline(always)]
    pub(super) fn write(&mut self, index: u64) -> u64 {
        let written = &mut self.written[index as usize];
        *written = written.wrapping_add(1);
        self.stamp(index)
    }
}

/// The bytes of every block behind its stamp.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The pattern; as long as a block, so a stamp can overwrite its beginning.
    pub(super) bytes: Vec<u8>,
    /// Sum of the bytes behind the stamp.
    pub(super) sum: u64,
}

impl Pattern {
    pub(super) fn drawn(seed: u64, bytes: usize) -> Pattern {
        let mut random = Random::seeded(seed);
        let words = (0..bytes.div_ceil(8)).flat_map(|_| random.draw().to_le_bytes());
        let bytes: Vec<u8> = words.take(bytes).collect();
        let sum = bytes[STAMP_BYTES..].iter().map(|byte| u64::from(*byte)).sum();
        Pattern { bytes, sum }
    }

    /// Returns the sum of the bytes of a block with this stamp.
    #[inline(always)]
    pub(super) fn sum_with(&self, stamp: u64) -> u64 {
        self.sum + stamp.to_le_bytes().iter().map(|byte| u64::from(*byte)).sum::<u64>()
    }
}

/// Memory for one block, resident and aligned to a page, as `O_DIRECT` demands (open(2)).
#[derive(Debug)]
pub(super) struct Buffer {
    start: *mut u8,
    bytes: usize,
}

impl Buffer {
    pub(super) fn of(bytes: usize) -> Result<Buffer, WorkError> {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(WorkError::setup("get memory for a block", "lower 'block'"));
        }
        Ok(Buffer { start: start.cast(), bytes })
    }

    pub(super) fn address(&self) -> usize {
        self.start as usize
    }

    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Returns the stamp in the buffer.
    #[inline(always)]
    pub(super) fn stamp(&self) -> u64 {
        // SAFETY: the mapping is readable, aligned, and has room for a stamp.
        unsafe { self.start.cast::<u64>().read_volatile() }
    }

    /// Writes a stamp into the buffer.
    #[inline(always)]
    pub(super) fn set_stamp(&self, stamp: u64) {
        // SAFETY: the mapping is writable, aligned, and has room for a stamp.
        unsafe { self.start.cast::<u64>().write_volatile(stamp) }
    }

    /// Copies the whole pattern into the buffer.
    pub(super) fn set(&self, pattern: &Pattern) {
        let bytes = self.bytes.min(pattern.bytes.len());
        // SAFETY: both are at least that long, and the buffer's own mapping overlaps nothing.
        unsafe { ptr::copy_nonoverlapping(pattern.bytes.as_ptr(), self.start, bytes) }
    }

    /// Returns the contents, for as long as no system call writes to the buffer.
    ///
    /// # Safety
    /// Nothing changes the buffer meanwhile.
    pub(super) unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is readable and that long; the caller keeps it unchanged.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    /// Returns the memory itself, to be read into.
    ///
    /// # Safety
    /// There is no other reference to the buffer.
    #[allow(clippy::mut_from_ref)] // The memory is not part of the value; the caller keeps it single.
    pub(super) unsafe fn as_mut_slice(&self) -> &mut [u8] {
        // SAFETY: the mapping is writable and that long; the caller keeps the reference single.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this buffer, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_tell_block_and_generation() {
        let mut blocks = Blocks::none(3);
        let mut stamps: Vec<u64> = (0..3).map(|index| blocks.stamp(index)).collect();
        stamps.extend([blocks.write(0), blocks.write(0), blocks.write(2)]);
        assert_eq!(blocks.stamp(2), stamps[5]);
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), 6);
        blocks.reset(true);
        assert_eq!((blocks.len, blocks.most()), (3, 3));
        assert_eq!(blocks.stamp(2), Blocks::none(3).stamp(2));
    }

    #[test]
    fn the_pattern_is_the_seeds_and_its_sum_leaves_the_stamp_out() {
        let (one, other) = (Pattern::drawn(1, 512), Pattern::drawn(2, 512));
        assert_ne!(one.bytes, other.bytes);
        let buffer = Buffer::of(512).unwrap();
        buffer.set(&one);
        buffer.set_stamp(0x0102_0304);
        // SAFETY: nothing else uses the buffer.
        let sum = unsafe { buffer.as_slice() }.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        assert_eq!((sum, buffer.stamp()), (one.sum_with(0x0102_0304), 0x0102_0304));
        assert_eq!(one.sum_with(0), one.sum);
        assert_eq!(buffer.address() % 4096, 0);
    }
}
