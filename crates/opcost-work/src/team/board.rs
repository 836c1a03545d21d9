//! The memory that the tasks of a team share: the current step, the number of arrivals, and a note from each task.

use crate::error::WorkError;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::task::TASKS_MAX;

const NOTE_BYTES: usize = 4096 - size_of::<AtomicU32>();

#[repr(C)]
struct Shared {
    /// The current step; a futex.
    step: AtomicU32,
    /// The number of times that a task has finished a step, over all steps.
    arrivals: AtomicU32,
    notes: [Note; TASKS_MAX],
}

#[repr(C)]
struct Note {
    /// How many bytes there are; written last, with release ordering.
    len: AtomicU32,
    bytes: UnsafeCell<[u8; NOTE_BYTES]>,
}

/// The shared memory, and the eventfd that signals that all tasks have arrived.
pub(super) struct Board {
    shared: NonNull<Shared>,
    all_arrived: OwnedFd,
    procs: u32,
}

// SAFETY: the memory behind the pointer is mapped until the board is dropped. It consists of atomics, and of notes that change
// hands as `write_note` says. The descriptor is a plain number.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

impl Board {
    pub(super) fn put_up(procs: usize) -> Result<Self, WorkError> {
        assert!(procs <= TASKS_MAX, "the parameter allows {TASKS_MAX} tasks");
        const ADVICE: &str = "use fewer tasks ('procs' or 'threads')";
        // SAFETY: eventfd takes plain numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(WorkError::setup("make an eventfd for the tasks", ADVICE));
        }
        // SAFETY: the descriptor was just made and nothing else owns it.
        let all_arrived = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(memory.cast::<Shared>()) {
            Some(shared) if memory != libc::MAP_FAILED => {
                Ok(Board { shared, all_arrived, procs: procs as u32 })
            }
            _ => Err(WorkError::setup("map memory that tasks share", ADVICE)),
        }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping lives as long as the board and is aligned to a page. The kernel zeroed it, which is a valid value;
        // all of it is atomics and cells.
        unsafe { self.shared.as_ref() }
    }

    /// Announces the next step and wakes all tasks.
    pub(super) fn announce(&self, step: u32) {
        let word = &self.shared().step;
        word.store(step, Ordering::Release);
        // SAFETY: the word is a valid, aligned futex; waking changes no memory.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Sleeps until this step or a later one is announced.
    pub(super) fn wait_for(&self, step: u32) {
        let word = &self.shared().step;
        loop {
            let now = word.load(Ordering::Acquire);
            if now >= step {
                return;
            }
            // Whatever the result (changed, interrupted, woken), the loop checks again.
            // SAFETY: the word is a valid, aligned futex in shared memory, and there is no timeout.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word.as_ptr(),
                    libc::FUTEX_WAIT,
                    now,
                    ptr::null::<libc::timespec>(),
                )
            };
        }
    }

    /// Notes that this task has done the step; the last task to arrive signals the parent.
    pub(super) fn arrive(&self) {
        // Steps do not overlap: the parent announces the next step after all tasks have arrived.
        let before = self.shared().arrivals.fetch_add(1, Ordering::AcqRel);
        if (before + 1).is_multiple_of(self.procs) {
            let one = 1u64;
            // SAFETY: eight bytes of a valid integer. The write cannot fail: the eventfd belongs to this team, and its count is 0.
            unsafe { libc::write(self.signal_fd(), (&raw const one).cast(), size_of::<u64>()) };
        }
    }

    /// The descriptor that becomes readable when all tasks have arrived.
    pub(super) fn signal_fd(&self) -> libc::c_int {
        self.all_arrived.as_raw_fd()
    }

    /// Takes the signal, so that the descriptor is unreadable again.
    pub(super) fn take_signal(&self) {
        let mut count = 0u64;
        // SAFETY: eight writable bytes of an integer.
        unsafe { libc::read(self.signal_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    }

    /// Leaves a note; bytes that do not fit are cut off, which the reader notices.
    pub(super) fn write_note(&self, index: usize, bytes: &[u8]) {
        let note = &self.shared().notes[index];
        let len = bytes.len().min(NOTE_BYTES);
        // SAFETY: only the task with this index writes the note, and the parent reads it only
        // after that task has arrived or ended.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), note.bytes.get().cast::<u8>(), len) };
        note.len.store(len as u32, Ordering::Release);
    }

    /// Returns the note of a task that has arrived or ended; empty if the task left none.
    pub(super) fn note(&self, index: usize) -> Vec<u8> {
        let note = &self.shared().notes[index];
        let len = (note.len.load(Ordering::Acquire) as usize).min(NOTE_BYTES);
        let mut bytes = vec![0u8; len];
        // SAFETY: `len` bytes fit both; nobody writes the note any more, see write_note.
        unsafe {
            ptr::copy_nonoverlapping(note.bytes.get().cast::<u8>(), bytes.as_mut_ptr(), len);
        }
        bytes
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to the board, and references to it cannot outlive the board.
        let result = unsafe { libc::munmap(self.shared.as_ptr().cast(), size_of::<Shared>()) };
        debug_assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_apart_and_cut_to_fit() {
        let board = Board::put_up(2).unwrap();
        board.write_note(0, b"first");
        board.write_note(1, &[b'x'; 2 * NOTE_BYTES]);
        assert_eq!(board.note(0), b"first");
        assert_eq!(board.note(1).len(), NOTE_BYTES);
    }

    #[test]
    fn the_last_arrival_signals() {
        let board = Board::put_up(2).unwrap();
        let readable = || {
            let mut watched =
                libc::pollfd { fd: board.signal_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid entry.
            unsafe { libc::poll(&mut watched, 1, 0) == 1 }
        };
        for _ in 0..3 {
            board.arrive();
            assert!(!readable());
            board.arrive();
            assert!(readable());
            board.take_signal();
            assert!(!readable());
        }
    }

    #[test]
    fn a_step_that_has_come_is_not_waited_for() {
        let board = Board::put_up(1).unwrap();
        board.announce(3);
        board.wait_for(2);
        board.wait_for(3);
    }
}
