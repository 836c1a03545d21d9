//! The address range of the `mmap` workload: one window for each slot, the same in every run.
//!
//! ```text
//! | free | guard | window 0 | window 1 | … | guard | neighbours | free |
//!                 \-- half A, gap, half B, gap
//! ```
//! A mapping lies at the start of a half, and a gap of one page follows each half. Two mappings therefore never touch, and the
//! kernel never merges them. The guards (one page without access) keep the range together while it is used. The free ranges take
//! the mappings that the process makes meanwhile: the kernel searches for room from the top down (or from the bottom up) and finds
//! them first.

use crate::error::WorkError;
use std::fs;
use std::io::Read;
use std::ptr;

/// The arena starts at a multiple of this size and has at least this much free room on both sides. It then shares no page table
/// below the top levels with other mappings, so the work alone determines which tables the kernel makes and frees.
const ROOM_BYTES: usize = 1 << 30;

/// The number of mappings that the kernel wants to have left before it moves one (mm/mremap.c), and some for the process.
const MAPPINGS_SPARE: u64 = 64;

const ADVICE_ADDRESS_SPACE: &str = "raise the limit on address space (ulimit -v), or map less";

/// Addresses reserved for one process's work. Dropping the arena releases the reservation, not the work's mappings.
#[derive(Debug)]
pub(crate) struct Arena {
    /// Address of the first window.
    base: usize,
    /// Bytes of all windows together.
    windows_bytes: usize,
    /// Bytes of the neighbours, which follow the upper guard.
    neighbours_bytes: usize,
    /// Pages of the largest mapping.
    pages_max: usize,
    /// log2 of the page size.
    page_shift: u32,
}

impl Arena {
    /// Finds a range for `slots` windows of two mappings of up to `pages_max` pages, and makes
    /// `neighbours` mappings of one page beside it.
    ///
    /// # Errors
    /// [`WorkError::MapCount`] and [`WorkError::Setup`].
    pub(crate) fn reserve(slots: u64, pages_max: u64, neighbours: u64) -> Result<Self, WorkError> {
        if let (Some(in_use), Some(limit)) = (mappings_in_use(), mappings_limit()) {
            check_map_count(in_use, slots, neighbours, limit)?;
        }
        // SAFETY: sysconf reads a constant.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let pages_max = pages_max as usize;
        let windows_bytes = slots as usize * window_pages(pages_max) * page_bytes;
        let neighbours_bytes = neighbours as usize * page_bytes;
        let whole_bytes = 2 * page_bytes + windows_bytes + neighbours_bytes + 3 * ROOM_BYTES;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let whole = unsafe {
            libc::mmap(
                ptr::null_mut(),
                whole_bytes,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if whole == libc::MAP_FAILED {
            return Err(WorkError::setup(
                format_args!("reserve {} MiB of addresses", whole_bytes >> 20),
                ADVICE_ADDRESS_SPACE,
            ));
        }
        let start = whole as usize;
        let end = start + whole_bytes;
        // Only now, since dropping an arena releases addresses.
        let arena = Arena {
            base: (start + ROOM_BYTES + page_bytes).next_multiple_of(ROOM_BYTES),
            windows_bytes,
            neighbours_bytes,
            pages_max,
            page_shift: page_bytes.trailing_zeros(),
        };
        let upper_guard = arena.base + arena.windows_bytes;
        let upper_free = upper_guard + page_bytes + arena.neighbours_bytes;
        // SAFETY: the three ranges are parts of the mapping above, which nothing refers to; the guards between them stay.
        unsafe {
            release(start, arena.base - page_bytes)?;
            release(arena.base, upper_guard)?;
            release(upper_free, end)?;
        }
        arena.split_neighbours()?;
        Ok(arena)
    }

    /// Makes every other neighbour readable: mappings with different protections do not merge, so each page is a mapping of its
    /// own.
    fn split_neighbours(&self) -> Result<(), WorkError> {
        let page_bytes = 1 << self.page_shift;
        let first = self.base + self.windows_bytes + page_bytes;
        for page in (first..first + self.neighbours_bytes).step_by(2 * page_bytes) {
            // SAFETY: the page is part of this arena's reservation, and nothing refers to it.
            let result =
                unsafe { libc::mprotect(page as *mut libc::c_void, page_bytes, libc::PROT_READ) };
            if result != 0 {
                return Err(WorkError::setup(
                    "make the neighbouring mappings",
                    "lower 'neighbours', or raise the limit with 'sysctl -w vm.max_map_count=N'",
                ));
            }
        }
        Ok(())
    }

    /// Returns the address of a slot's mapping in one half (0 or 1) of its window.
    #[inline(always)]
    pub(crate) fn address(&self, slot: usize, half: usize) -> usize {
        let page = slot * window_pages(self.pages_max) + half * (self.pages_max + 1);
        self.base + (page << self.page_shift)
    }

    #[inline(always)]
    pub(crate) fn bytes(&self, pages: usize) -> usize {
        pages << self.page_shift
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let page_bytes = 1 << self.page_shift;
        let upper_guard = self.base + self.windows_bytes;
        // A failure to give addresses back is harmless: the process is about to end.
        // SAFETY: the guards and neighbours belong to this arena, and nothing refers to them.
        unsafe {
            let _ = release(self.base - page_bytes, self.base);
            let _ = release(upper_guard, upper_guard + page_bytes + self.neighbours_bytes);
        }
    }
}

fn window_pages(pages_max: usize) -> usize {
    2 * (pages_max + 1)
}

/// Unmaps the addresses from `start` up to `end`.
///
/// # Safety
/// The addresses belong to a reservation that nothing else refers to.
unsafe fn release(start: usize, end: usize) -> Result<(), WorkError> {
    // SAFETY: the caller owns the range.
    match unsafe { libc::munmap(start as *mut libc::c_void, end - start) } {
        0 => Ok(()),
        _ => Err(WorkError::setup(
            "give back reserved addresses",
            "raise the limit with 'sysctl -w vm.max_map_count=N'",
        )),
    }
}

/// Refuses numbers of mappings that would make system calls fail in the middle of the work.
fn check_map_count(in_use: u64, slots: u64, neighbours: u64, limit: u64) -> Result<(), WorkError> {
    let needed = in_use + slots + neighbours + MAPPINGS_SPARE;
    if needed <= limit {
        return Ok(());
    }
    Err(WorkError::MapCount { neighbours, slots, needed, limit })
}

/// Returns the number of this process's mappings; `None` if procfs is not mounted (the failing system call is then the error).
pub(crate) fn mappings_in_use() -> Option<u64> {
    let mut maps = fs::File::open("/proc/self/maps").ok()?;
    // Piece by piece: a buffer for the whole file would be another mapping.
    let mut piece = [0; 4096];
    let mut lines = 0;
    loop {
        match maps.read(&mut piece).ok()? {
            0 => return Some(lines),
            len => lines += piece[..len].iter().filter(|byte| **byte == b'\n').count() as u64,
        }
    }
}

fn mappings_limit() -> Option<u64> {
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    limit.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child::in_child;

    #[test]
    fn halves_have_gaps_and_windows_follow_each_other() {
        let arena = Arena {
            base: 0x4000_0000,
            windows_bytes: 0,
            neighbours_bytes: 0,
            pages_max: 3,
            page_shift: 12,
        };
        assert_eq!(arena.address(0, 0), 0x4000_0000);
        assert_eq!(arena.address(0, 1), 0x4000_4000);
        assert_eq!(arena.address(1, 0), 0x4000_8000);
        assert_eq!(arena.bytes(3), 0x3000);
    }

    #[test]
    fn neighbours_are_mappings_of_their_own_and_go_with_the_arena() {
        let counts = in_child(|| {
            let count = || mappings_in_use().unwrap();
            let before = count();
            let arena = Arena::reserve(4, 16, 1001).unwrap();
            assert_eq!(arena.base % ROOM_BYTES, 0);
            let with = count() - before;
            drop(arena);
            format!("{with} {}", count() - before)
        });
        // Two guards and the neighbours.
        assert_eq!(counts.unwrap(), "1003 0");
    }

    #[test]
    fn too_many_mappings_are_refused_with_the_limit() {
        assert!(check_map_count(30, 64, 60_000, 65_530).is_ok());
        assert_eq!(
            check_map_count(30, 4096, 60_000, 64_000).unwrap_err().to_string(),
            "neighbours=60000 and slots=4096 need 64190 mappings with those the process has, but \
             vm.max_map_count is 64000; lower 'neighbours', or raise the limit with \
             'sysctl -w vm.max_map_count=64190'"
        );
    }

    #[test]
    fn a_limit_on_addresses_is_named() {
        let said = in_child(|| {
            let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
            // SAFETY: the pointer is to a valid structure; this process is the test's own.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
            Arena::reserve(64, 16, 0).unwrap_err().to_string()
        });
        let enomem = std::io::Error::from_raw_os_error(libc::ENOMEM);
        assert_eq!(
            said.unwrap(),
            format!(
                "cannot reserve 3080 MiB of addresses: {enomem}; raise the limit on address space \
             (ulimit -v), or map less"
            )
        );
    }
}
