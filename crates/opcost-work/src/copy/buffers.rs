//! The memory of the copies' sources and destinations.

use crate::error::WorkError;
use crate::random::{Random, fold};
use std::ffi::c_void;
use std::ptr;
use std::slice;

/// A distance that keeps source, destination and nearby mappings apart. It is also the distance of two addresses at which a CPU
/// confuses a load with an earlier store (Intel Optimization Reference Manual, 4K aliasing).
const PAGE_BYTES: usize = 4096;

/// The value of every byte of the destination before a copy, and of the bytes around the destination at all times.
const UNTOUCHED: u8 = 0xa5;

/// A resident mapping with the source and, at a chosen distance, the destination.
pub(super) struct Buffers {
    base: *mut u8,
    bytes_mapped: usize,
    /// Bytes of the source.
    bytes: usize,
    /// The place of the destination in the mapping.
    at: usize,
}

impl Buffers {
    /// Maps and fills the buffers.
    ///
    /// `bytes`: the largest number of bytes to copy; `offset`: the destination's address minus the source's, modulo 4096; `seed`:
    /// the seed of the contents.
    ///
    /// # Errors
    /// [`WorkError`]: there is too little memory, or too little address space.
    pub(super) fn map(bytes: usize, offset: usize, seed: u64) -> Result<Buffers, WorkError> {
        let whole = bytes.next_multiple_of(PAGE_BYTES);
        // A page before and after both source and destination.
        let at = PAGE_BYTES + whole + PAGE_BYTES + offset;
        let bytes_mapped = at.next_multiple_of(PAGE_BYTES) + whole + PAGE_BYTES;
        if let Some(available) = bytes_available()
            && bytes_mapped as u64 > available
        {
            return Err(WorkError::Memory { needed: bytes_mapped as u64, available });
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes_mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(WorkError::setup(
                format_args!("map {bytes_mapped} bytes for source and destination"),
                "copy less at a time ('size'), or raise the limit (ulimit -v)",
            ));
        }
        let mut buffers = Buffers { base: base.cast(), bytes_mapped, bytes, at };
        let mut random = Random::seeded(seed);
        for word in buffers.part_mut(PAGE_BYTES, bytes).chunks_mut(8) {
            word.copy_from_slice(&random.draw().to_le_bytes()[..word.len()]);
        }
        buffers.wipe();
        Ok(buffers)
    }

    #[inline(always)]
    pub(super) fn source(&self) -> *const c_void {
        self.base.wrapping_add(PAGE_BYTES).cast()
    }

    #[inline(always)]
    pub(super) fn destination(&self) -> *mut c_void {
        self.base.wrapping_add(self.at).cast()
    }

    /// Resets the destination and its surroundings to the state before any copy.
    pub(super) fn wipe(&mut self) {
        let start = self.at - PAGE_BYTES / 2;
        self.part_mut(start, self.bytes + PAGE_BYTES).fill(UNTOUCHED);
    }

    /// Whether the destination begins with the first `copied` bytes of the source, and nothing else was written.
    pub(super) fn holds(&self, copied: usize) -> bool {
        let untouched = |part: &[u8]| part.iter().all(|byte| *byte == UNTOUCHED);
        let half = PAGE_BYTES / 2;
        self.part(self.at, copied) == self.part(PAGE_BYTES, copied)
            && untouched(self.part(self.at - half, half))
            && untouched(self.part(self.at + copied, self.bytes - copied + half))
    }

    /// Returns a checksum over the destination, below 2^32, so that sums of several fit.
    pub(super) fn checksum(&self) -> u64 {
        let words = self.part(self.at, self.bytes).chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        words.fold(0, fold) >> 32
    }

    fn part(&self, start: usize, bytes: usize) -> &[u8] {
        assert!(start + bytes <= self.bytes_mapped);
        // SAFETY: inside the mapping, which is readable and initialised by the kernel. It is written only through a mutable
        // reference or by a routine, and neither is active now.
        unsafe { slice::from_raw_parts(self.base.add(start), bytes) }
    }

    fn part_mut(&mut self, start: usize, bytes: usize) -> &mut [u8] {
        assert!(start + bytes <= self.bytes_mapped);
        // SAFETY: inside the mapping, which belongs to this value alone and is writable.
        unsafe { slice::from_raw_parts_mut(self.base.add(start), bytes) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no reference into it outlives the value.
        unsafe { libc::munmap(self.base.cast(), self.bytes_mapped) };
    }
}

/// Returns the memory that is available without reclaiming memory in use (Documentation/filesystems/proc.rst, MemAvailable); `None`
/// if the kernel does not report it.
fn bytes_available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_differ_by_what_was_asked_for() {
        for (bytes, offset) in [(0, 0), (48, 1), (4096, 4095), (5000, 2048)] {
            let buffers = Buffers::map(bytes, offset, 1).unwrap();
            let difference = buffers.destination() as usize - buffers.source() as usize;
            assert_eq!(difference % PAGE_BYTES, offset);
            assert!(difference >= bytes);
            assert!(buffers.holds(0), "nothing was copied yet");
        }
    }

    #[test]
    fn what_is_missing_changed_or_too_much_is_seen() {
        let mut buffers = Buffers::map(100, 7, 1).unwrap();
        let fresh = buffers.checksum();
        let copy = |buffers: &Buffers, bytes: usize| {
            // SAFETY: the mapping has room for source and destination, with half a page to spare.
            unsafe { libc::memcpy(buffers.destination(), buffers.source(), bytes) };
        };
        copy(&buffers, 100);
        assert!(buffers.holds(100) && !buffers.holds(99) && !buffers.holds(0));
        assert_ne!(buffers.checksum(), fresh);
        copy(&buffers, 101);
        assert!(!buffers.holds(100), "one byte too many");
        buffers.wipe();
        assert_eq!(buffers.checksum(), fresh);
        copy(&buffers, 99);
        assert!(!buffers.holds(100), "one byte too few");
    }

    #[test]
    fn more_than_the_machine_has_is_refused_with_both_figures() {
        let Some(available) = bytes_available() else {
            crate::skip::skip!("this kernel does not say how much memory is available");
            return;
        };
        let error = Buffers::map(available as usize, 0, 1).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("bytes of memory") && error.contains("'size'"), "{error}");
    }
}
