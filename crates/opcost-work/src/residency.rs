//! Makes memory resident that a counted region uses besides its own data. The page faults of the region are then the
//! workload's own.
//!
//! Without this, page faults would also depend on the place where the stack begins, and on the program's pages that share a page
//! cache window with code that ran before.

use std::hint::black_box;

/// More stack than any pass over the operations uses.
const STACK_BYTES: usize = 64 << 10;

/// At most the page size of every architecture.
const STEP_BYTES: usize = 4096;

/// Touches the stack below the caller's frame, and reads every page of the program and its libraries.
pub(crate) fn settle() {
    touch_stack();
    // SAFETY: `read_segments` has the required type and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(read_segments), std::ptr::null_mut()) };
}

/// Has the kernel use only pages of the base size for this process's memory.
///
/// With large folios one fault could fill several pages, depending on the machine's settings
/// (Documentation/admin-guide/mm/transhuge.rst). A kernel that refuses the call either has no such setting, or page-faults-expected
/// will show the difference.
pub(crate) fn use_small_pages() {
    // SAFETY: PR_SET_THP_DISABLE takes plain numbers and changes no memory.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1u64, 0u64, 0u64, 0u64) };
}

#[inline(never)]
fn touch_stack() {
    // A forked process shares its stack's pages until it writes to them.
    black_box([1u8; STACK_BYTES]);
}

/// Reads a byte of each page of one loaded object (`dl_iterate_phdr(3)`).
unsafe extern "C" fn read_segments(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library passes a valid description, whose headers live as long as the object.
    let (base, headers) = unsafe {
        let object = &*object;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (object.dlpi_addr as usize, headers)
    };
    for header in headers {
        let readable = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_R != 0;
        if !readable || header.p_memsz == 0 {
            continue;
        }
        let start = base + header.p_vaddr as usize;
        let end = start + header.p_memsz as usize;
        for address in (start..end).step_by(STEP_BYTES).chain([end - 1]) {
            // SAFETY: a readable segment stays mapped as long as the object is loaded. A volatile read of memory that others may
            // change has no other effect here.
            black_box(unsafe { (address as *const u8).read_volatile() });
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child::in_child;
    use opcost_sys::rusage;

    /// A table that nothing has read, on pages of its own.
    static UNREAD: [u8; 64 << 10] = [3; 64 << 10];

    #[test]
    fn program_and_stack_cause_no_faults_afterwards() {
        // A forked process has none of its parent's file pages mapped.
        let faults = in_child(|| {
            // One call in advance, since the call's own code is not resident either.
            rusage::of_self().unwrap();
            settle();
            let before = rusage::of_self().unwrap();
            touch_stack();
            let sum: u64 = black_box(&UNREAD).iter().map(|byte| u64::from(*byte)).sum();
            let used = rusage::of_self().unwrap().since(&before);
            assert_eq!(sum, 3 * (64 << 10));
            used.minor_faults.to_string()
        });
        assert_eq!(faults.unwrap(), "0");
    }
}
