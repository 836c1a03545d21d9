//! The code that the kernel put in place of its image's code, as the machine's memory has it.

use crate::api;
use opcost_record::symbols::Alternative;
use std::ffi::c_void;
use std::mem::transmute;

/// `cpu_physical_memory_rw` of QEMU up to 10.1: address, buffer, length, whether to write.
type ReadWrite = unsafe extern "C" fn(u64, *mut c_void, u64, bool);
/// `physical_memory_read` of later versions: address, buffer, length.
type Read = unsafe extern "C" fn(u64, *mut c_void, u64);

/// How QEMU reads the machine's memory.
#[derive(Clone, Copy)]
enum Reader {
    Old(ReadWrite),
    New(Read),
}

impl Reader {
    fn find() -> Option<Reader> {
        // SAFETY: QEMU exports functions of these types under these names (include/system/memory.h, include/exec/cpu-common.h).
        unsafe {
            api::find(c"physical_memory_read")
                .map(|found| Reader::New(transmute::<*mut c_void, Read>(found)))
                .or_else(|| {
                    let found = api::find(c"cpu_physical_memory_rw")?;
                    Some(Reader::Old(transmute::<*mut c_void, ReadWrite>(found)))
                })
        }
    }

    /// Reads memory; an address without memory reads as zeros.
    fn read(self, address: u64, bytes: &mut [u8]) {
        let (to, length) = (bytes.as_mut_ptr().cast::<c_void>(), bytes.len() as u64);
        // SAFETY: the buffer has `length` bytes, and a thread of QEMU may read the machine's memory at any time.
        unsafe {
            match self {
                Reader::Old(read) => read(address, to, length, false),
                Reader::New(read) => read(address, to, length),
            }
        }
    }
}

/// How many alternatives differ from the image; `None` if there are none, or if QEMU does not let the plugin read memory.
pub(crate) fn patched(alternatives: &[Alternative]) -> Option<u64> {
    if alternatives.is_empty() {
        return None;
    }
    let reader = Reader::find()?;
    Some(count(alternatives, |address, bytes| reader.read(address, bytes)))
}

fn count(alternatives: &[Alternative], mut read: impl FnMut(u64, &mut [u8])) -> u64 {
    let mut found = Vec::new();
    let differs = |one: &&Alternative| {
        found.resize(one.code.len(), 0);
        read(one.address, &mut found);
        found != one.code
    };
    alternatives.iter().filter(differs).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_that_differ_from_the_image_are_counted() {
        let memory: Vec<u8> = (0..64).collect();
        let one = |address: u64, code: &[u8]| Alternative { address, code: code.to_vec() };
        let all = [one(4, &[4, 5, 6, 7]), one(8, &[8, 9, 10, 0, 12, 13, 14, 15]), one(16, &[0; 4])];
        let read = |address: u64, bytes: &mut [u8]| {
            let at = address as usize;
            bytes.copy_from_slice(&memory[at..at + bytes.len()]);
        };
        assert_eq!(count(&all, read), 2);
        assert_eq!(count(&all[..1], read), 0);
        assert_eq!(patched(&[]), None);
    }
}
