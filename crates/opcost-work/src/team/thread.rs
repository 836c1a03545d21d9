//! One thread of this process with its handle and its end.

use super::ending::Ending;
use crate::error::WorkError;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A thread; when the value is dropped the thread runs on until the process ends, since nothing can end a thread safely.
pub(super) struct Thread {
    handle: Option<JoinHandle<i32>>,
    /// An eventfd that becomes readable when the thread is done.
    done: Arc<OwnedFd>,
    ending: Ending,
}

impl Thread {
    /// Starts a thread that runs `life`, which must not panic; the thread ends with the returned status.
    pub(super) fn start(life: impl FnOnce() -> i32 + Send + 'static) -> Result<Self, WorkError> {
        const ADVICE: &str =
            "use fewer threads ('threads'), or raise the limit (ulimit -u, ulimit -v)";
        // SAFETY: eventfd takes plain numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(WorkError::setup("make an eventfd for a thread", ADVICE));
        }
        // SAFETY: the descriptor was just made and nothing else owns it.
        let done = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let signal = Arc::clone(&done);
        let handle = std::thread::Builder::new().spawn(move || {
            let status = life();
            let one = 1u64;
            // SAFETY: eight bytes of a valid integer. The write cannot fail: nobody else writes to the eventfd.
            unsafe { libc::write(signal.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
            status
        });
        match handle {
            Ok(handle) => Ok(Thread { handle: Some(handle), done, ending: Ending::unknown() }),
            Err(source) => Err(cannot_start(source, ADVICE)),
        }
    }

    /// The descriptor that becomes readable when the thread is done.
    pub(super) fn handle_fd(&self) -> libc::c_int {
        self.done.as_raw_fd()
    }

    /// Waits for the end of the thread.
    pub(super) fn wait(&mut self) -> Ending {
        if let Some(handle) = self.handle.take() {
            self.ending = handle.join().map_or(Ending::unknown(), Ending::exited);
        }
        self.ending
    }
}

fn cannot_start(source: io::Error, advice: &'static str) -> WorkError {
    WorkError::Setup { what: "start a thread for the work".into(), source, advice }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_once_and_remembered() {
        let mut thread = Thread::start(|| 7).unwrap();
        let ending = thread.wait();
        assert_eq!(ending.how(), "exit status 7");
        assert_eq!(thread.wait(), ending);
        assert_eq!(Thread::start(|| 0).unwrap().wait().failure(), None);
    }

    #[test]
    fn the_handle_is_readable_when_the_thread_is_done() {
        let mut thread = Thread::start(|| 0).unwrap();
        thread.wait();
        let mut watched = libc::pollfd { fd: thread.handle_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid entry.
        assert_eq!(unsafe { libc::poll(&mut watched, 1, 0) }, 1);
    }
}
