//! The registers of the program, where a block begins.

use crate::api;
use crate::stack::words;
use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of general registers, in the processor's order: `rax`, `rcx`, `rdx`, `rbx`, `rsp`, …
pub(crate) const GENERAL: usize = 16;
/// The stack pointer's number.
pub(crate) const STACK: usize = 4;

/// The registers' place in QEMU's object of a vCPU, in words; unknown at first.
static PLACE: AtomicUsize = AtomicUsize::new(usize::MAX);

#[repr(C)]
struct Range {
    base: *mut c_void,
    bytes: usize,
}

unsafe extern "C" {
    // Linux; std links the C library, which has this function.
    fn process_vm_readv(
        process: c_int,
        local: *const Range,
        locals: c_ulong,
        remote: *const Range,
        remotes: c_ulong,
        flags: c_ulong,
    ) -> c_long;
}

/// Returns the registers of the calling thread, or null if their place is not known.
///
/// `address`: the address of the block that begins, from which the first call finds the place.
///
/// # Safety
/// The calling thread runs a vCPU, at the beginning of a block.
pub(crate) unsafe fn of_this_thread(address: u64) -> *const u64 {
    let Some(current) = api::current_cpu() else { return std::ptr::null() };
    // SAFETY: the variable is the calling thread's, and its object has the words that malloc gave it.
    unsafe {
        let object = current.read();
        if PLACE.load(Ordering::Relaxed) == usize::MAX {
            let words = words(object);
            let value = |place: usize| words.get(place).map(|word| word.read_volatile());
            // A new program's registers are 0 but for its stack pointer (`init_thread` of linux-user/elfload.c), and QEMU keeps the
            // instruction pointer behind them (`CPUX86State` of target/i386/cpu.h).
            let fits = |place: &usize| {
                value(place + GENERAL) == Some(address)
                    && (0..GENERAL)
                        .all(|number| (value(place + number) == Some(0)) != (number == STACK))
            };
            if let Some(place) = (0..words.len()).find(fits) {
                PLACE.store(place, Ordering::Relaxed);
            }
        }
        match PLACE.load(Ordering::Relaxed) {
            usize::MAX => std::ptr::null(),
            place => object.cast::<u64>().add(place),
        }
    }
}

/// Returns where the program's address 0 is in QEMU's own memory.
pub(crate) fn base() -> u64 {
    // SAFETY: QEMU's variable is a word that is set before the program starts.
    api::find(c"guest_base").map_or(0, |place| unsafe { place.cast::<u64>().read_volatile() })
}

/// Reads the program's memory; whether all of it could be read.
pub(crate) fn read(address: u64, bytes: &mut [u8]) -> bool {
    let local = Range { base: bytes.as_mut_ptr().cast(), bytes: bytes.len() };
    let place = base().wrapping_add(address) as usize;
    let remote = Range { base: std::ptr::without_provenance_mut(place), bytes: bytes.len() };
    // SAFETY: the kernel checks the program's range, and the buffer has room.
    let read = unsafe {
        process_vm_readv(std::process::id() as c_int, &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read) == Ok(bytes.len())
}

/// Reads a word of the program.
pub(crate) fn word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// Reads a text that ends with zero.
pub(crate) fn text(address: u64) -> Option<Vec<u8>> {
    /// Longer texts are no paths and no names.
    const BYTES_MAX: usize = 1 << 17;
    let (mut text, mut at) = (Vec::new(), address);
    while text.len() < BYTES_MAX {
        // A piece never reaches into the next page, which may not be there.
        let mut piece = vec![0; (64 - (at % 64)) as usize];
        if !read(at, &mut piece) {
            return None;
        }
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&piece[..end]);
            return Some(text);
        }
        at += piece.len() as u64;
        text.append(&mut piece);
    }
    None
}
