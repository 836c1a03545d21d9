//! The ring buffer into which the kernel writes samples (`perf_event_open(2)`, "MMAP layout").

use perf_event_open_sys::bindings::perf_event_mmap_page;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// One ring buffer, mapped as long as the value lives.
///
/// The kernel only writes behind `data_head`, and only where `data_tail` shows that the data were read. This process may therefore
/// read everything between the two.
#[derive(Debug)]
pub(super) struct Ring {
    /// The control page; the data follow it.
    page: NonNull<perf_event_mmap_page>,
    page_bytes: usize,
    /// Size of the data, a power of two.
    data_bytes: usize,
    /// Whether the memory is a mapping that must be undone.
    mapped: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread, and only `&mut self` reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring buffer of a sampling event.
    ///
    /// `data_bytes` is a power of two of at least a page.
    ///
    /// # Errors
    /// The kernel's error; EPERM if the user's share of locked memory is used up (`kernel.perf_event_mlock_kb`).
    pub(super) fn map(event: BorrowedFd<'_>, data_bytes: usize) -> io::Result<Ring> {
        // SAFETY: sysconf takes an integer.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let (protection, length) = (libc::PROT_READ | libc::PROT_WRITE, page_bytes + data_bytes);
        // SAFETY: a new mapping at an address of the kernel's choice; the mapping replaces nothing.
        let address = unsafe {
            libc::mmap(ptr::null_mut(), length, protection, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(address.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Ring { page, page_bytes, data_bytes, mapped: true })
    }

    /// Takes everything that the kernel wrote since the last call: whole records of 64-bit words.
    pub(super) fn drain(&mut self, words: &mut Vec<u64>) {
        let page = self.page.as_ptr();
        // SAFETY: the control page is mapped, and both fields are aligned. The kernel changes `data_head` by single 64-bit stores,
        // as atomics do; only this process changes `data_tail`.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*page).data_head),
                AtomicU64::from_ptr(&raw mut (*page).data_tail),
            )
        };
        // Pairs with the kernel's write barrier before it moves the head: everything before the head is written
        // (perf_output_put_handle, kernel/events/ring_buffer.c).
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        // A head more than a buffer ahead did not come from the kernel.
        let end = end.min(at.saturating_add(self.data_bytes as u64));
        words.reserve(((end - at) / 8) as usize);
        while at < end {
            let start = (at as usize) & (self.data_bytes - 1);
            let count = ((end - at) as usize).min(self.data_bytes - start) / 8;
            if count == 0 {
                break;
            }
            // SAFETY: `start` and `count` words lie within the mapped data, and the kernel does not write between tail and head.
            // Records, and therefore `at`, are multiples of 8 bytes. The vector has room for the words.
            unsafe {
                let from = page.cast::<u8>().add(self.page_bytes + start);
                let length = words.len();
                ptr::copy_nonoverlapping(from.cast::<u64>(), words.as_mut_ptr().add(length), count);
                words.set_len(length + count);
            }
            at += count as u64 * 8;
        }
        // This process has read everything before the kernel may write there again.
        tail.store(end, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.mapped {
            // SAFETY: exactly the mapping made by `map`; nobody has a reference into it.
            unsafe { libc::munmap(self.page.as_ptr().cast(), self.page_bytes + self.data_bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE_BYTES: usize = 4096;
    const DATA_BYTES: usize = 256;

    /// Memory that looks like a ring buffer, with the kernel that writes into it.
    struct Fake {
        memory: Vec<u64>,
        head: u64,
    }

    impl Fake {
        fn at(position: u64) -> (Fake, Ring) {
            let mut memory = vec![0u64; (PAGE_BYTES + DATA_BYTES) / 8];
            let page: NonNull<perf_event_mmap_page> =
                NonNull::new(memory.as_mut_ptr().cast()).unwrap();
            let mut fake = Fake { memory, head: position };
            *fake.field(std::mem::offset_of!(perf_event_mmap_page, data_tail)) = position;
            fake.publish();
            (fake, Ring { page, page_bytes: PAGE_BYTES, data_bytes: DATA_BYTES, mapped: false })
        }

        fn field(&mut self, offset: usize) -> &mut u64 {
            &mut self.memory[offset / 8]
        }

        fn publish(&mut self) {
            let head = self.head;
            *self.field(std::mem::offset_of!(perf_event_mmap_page, data_head)) = head;
        }

        fn write(&mut self, words: &[u64]) {
            for word in words {
                let place = (self.head as usize & (DATA_BYTES - 1)) + PAGE_BYTES;
                *self.field(place) = *word;
                self.head += 8;
            }
            self.publish();
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_wherever_the_buffer_ends(
            position in (0..1000u64).prop_map(|words| words * 8),
            writes in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..32), 0..20),
        ) {
            let (mut kernel, mut ring) = Fake::at(position);
            for written in writes {
                kernel.write(&written);
                let mut read = vec![7];
                ring.drain(&mut read);
                prop_assert_eq!(&read[1..], &written[..]);
                let tail = *kernel.field(std::mem::offset_of!(perf_event_mmap_page, data_tail));
                prop_assert_eq!(tail, kernel.head);
            }
        }
    }
}
