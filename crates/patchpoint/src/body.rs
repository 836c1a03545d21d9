//! What takes the place of calls of a function: for tools that change sites from outside.

use crate::abi::patchpoint_body;
use std::ffi::c_void;

/// What a change to `function` puts in the place of its calls: 6 bytes; `None` where sites call it.
///
/// `read` gives the byte of code at an address, of this process or of another, and `None` where there
/// is none; nothing is called. The function of a [`Missing::Trap`](crate::Missing::Trap) is known by
/// its address only, and so to its own process only.
pub fn body(function: u64, mut read: impl FnMut(u64) -> Option<u8>) -> Option<[u8; 6]> {
    let mut body = [0; 6];
    let context = (&raw mut read).cast::<c_void>();
    // SAFETY: `context` is the `read` of the type that `byte_at` is made for, and `body` has 6 bytes;
    // the library uses both before it returns, and keeps neither.
    let found = unsafe { patchpoint_body(reader_for(&read), context, function, &raw mut body) };
    (found == 1).then_some(body)
}

fn reader_for<F: FnMut(u64) -> Option<u8>>(_: &F) -> crate::abi::Reader {
    byte_at::<F>
}

/// # Safety
/// `context` is an `F` that nobody else uses, `byte` one byte to be written.
unsafe extern "C" fn byte_at<F: FnMut(u64) -> Option<u8>>(
    context: *mut c_void,
    address: u64,
    byte: *mut u8,
) -> bool {
    // SAFETY: `body` passes its own `read`, which waits for the library to return.
    let read = unsafe { &mut *context.cast::<F>() };
    let Some(found) = read(address) else { return false };
    // SAFETY: the library passes the address of a byte of its own.
    unsafe { *byte = found };
    true
}

#[cfg(all(test, patchpoint_native))]
mod tests {
    use super::*;

    fn of(code: &[u8]) -> Option<[u8; 6]> {
        body(0x1000, |address| {
            code.get(usize::try_from(address.checked_sub(0x1000)?).ok()?).copied()
        })
    }

    #[test]
    fn code_elsewhere_is_recognised_and_never_beyond_its_end() {
        // mov %rdi,%rax; ret, behind endbr64; and mov $5,%eax; ret.
        let identity = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0xc3];
        assert_eq!(of(&identity), Some([0x2e, 0x2e, 0x2e, 0x48, 0x89, 0xf8]));
        assert_eq!(of(&[0xb8, 5, 0, 0, 0, 0xc3]), Some([0xc7, 0xc0, 5, 0, 0, 0]));
        assert_eq!(of(&[0xc3]), Some([0x66, 0x0f, 0x1f, 0x44, 0, 0]));
        for length in 0..identity.len() {
            assert_eq!(of(&identity[..length]), None, "{length} bytes");
        }
        // lea 1(%rdi),%rax; imul %rdi,%rax; ret.
        assert_eq!(of(&[0x48, 0x8d, 0x47, 1, 0x48, 0x0f, 0xaf, 0xc7, 0xc3]), None);
    }
}
