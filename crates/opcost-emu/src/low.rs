//! Memory in the lowest 2 GiB: its addresses take five bytes of the host's code instead of ten. Memory for the host's code.

use opcost_record::symbols::PAGE_BYTES;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

unsafe extern "C" {
    // POSIX; std links the C library, which has this function.
    fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
}

/// `PROT_READ | PROT_WRITE`, `PROT_EXEC`, `MAP_PRIVATE | MAP_ANONYMOUS`, `MAP_32BIT` and `MAP_NORESERVE` (bits/mman.h).
const READ_WRITE: c_int = 1 | 2;
const EXECUTE: c_int = 4;
const PRIVATE: c_int = 0x02 | 0x20;
const LOW: c_int = 0x40;
const NO_RESERVE: c_int = 0x4000;
/// `MAP_FAILED`.
const MAP_FAILED: usize = usize::MAX;

/// Allocates zeroed room for some values and never frees it.
///
/// `low`: whether the room may be low.
pub(crate) fn room<T>(count: usize, low: bool) -> *mut T {
    let layout = Layout::array::<T>(count).expect("as much as any program has");
    // Mappings elsewhere are close to QEMU's translated code, which is a mapping, too.
    let flags = if low { PRIVATE | LOW } else { PRIVATE };
    // SAFETY: a new mapping touches no memory that is in use.
    let found = unsafe { mmap(null_mut(), layout.size(), READ_WRITE, flags, -1, 0) };
    // Mappings are aligned to pages.
    if !found.is_null() && found.addr() != MAP_FAILED && layout.align() <= PAGE_BYTES {
        return found.cast();
    }
    // SAFETY: callers ask for at least one byte.
    let found = unsafe { alloc_zeroed(layout) };
    if found.is_null() { handle_alloc_error(layout) } else { found.cast() }
}

/// Allocates room for the host's code, close to an address if there is room, and never frees it; `None` if the host refuses memory
/// that is both writable and executable.
pub(crate) fn executable(bytes: usize, near: usize) -> Option<*mut u8> {
    let near = std::ptr::without_provenance_mut(near);
    // SAFETY: a new mapping touches no memory that is in use: without `MAP_FIXED` the address is a wish.
    let found = unsafe { mmap(near, bytes, READ_WRITE | EXECUTE, PRIVATE | NO_RESERVE, -1, 0) };
    (found.addr() != MAP_FAILED).then_some(found.cast())
}

/// Allocates some numbers, all 0, and never frees them.
pub(crate) fn zeros(count: usize, low: bool) -> *mut u64 {
    room(count, low)
}

/// Allocates one value and never frees it.
pub(crate) fn one<T>(value: T, low: bool) -> *mut T {
    let place: *mut T = room(1, low);
    // SAFETY: the room is for one value.
    unsafe { place.write(value) };
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_and_writable_wherever_it_is() {
        for low in [false, true] {
            let values = zeros(4096, low);
            // SAFETY: `zeros` returned room for 4096 values, and nothing else uses them.
            let values = unsafe { std::slice::from_raw_parts_mut(values, 4096) };
            assert!(values.iter().all(|value| *value == 0));
            values.fill(7);
            assert!(!low || values.as_ptr().addr() < 1 << 31);
        }
    }
}
