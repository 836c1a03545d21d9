//! The user's wish to stop: SIGINT, SIGTERM and SIGHUP, turned into something one can poll.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

/// The signals that interrupt.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Opened once and never closed, so that a handler still running on another thread after an
/// uninstallation never writes to a descriptor that means something else.
static EVENT: OnceLock<OwnedFd> = OnceLock::new();
/// The descriptor of EVENT for the handler, which may not wait for a OnceLock.
static EVENT_FD: AtomicI32 = AtomicI32::new(-1);
static COUNT: AtomicU32 = AtomicU32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Counts the signal and makes the descriptor readable; async-signal-safe: atomics and `write(2)`.
extern "C" fn on_signal(signal: c_int) {
    SIGNAL.store(signal, Ordering::SeqCst);
    COUNT.fetch_add(1, Ordering::SeqCst);
    let one = 1u64;
    // SAFETY: __errno_location gives this thread's errno, which is saved around the write because
    // the interrupted code may be about to read it; the write reads 8 bytes of `one`.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        libc::write(EVENT_FD.load(Ordering::SeqCst), (&raw const one).cast(), 8);
        *errno = saved;
    }
}

/// Watches for signals that interrupt, from installation until it is dropped.
///
/// The first signal of a kind is noted here; a second one of the same kind takes its default
/// action and so ends a program that does not react (SA_RESETHAND). A signal that was ignored when
/// the watch was installed (`nohup`) stays ignored.
#[derive(Debug)]
pub struct Interrupt {
    /// The actions to restore, by signal; none for an interrupt that never comes.
    previous: Vec<(c_int, libc::sigaction)>,
    installed: bool,
}

impl Interrupt {
    /// Starts watching; one at a time in a process.
    ///
    /// # Errors
    /// `AlreadyExists` if another is installed; the kernel's error if no event can be made.
    pub fn install() -> io::Result<Interrupt> {
        if INSTALLED.swap(true, Ordering::SeqCst) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "signals are already being watched; drop the other Interrupt first",
            ));
        }
        let mut interrupt =
            Interrupt { previous: Vec::with_capacity(SIGNALS.len()), installed: true };
        // On an error the drop of `interrupt` undoes what was done so far.
        let event = event()?;
        drain(event);
        COUNT.store(0, Ordering::SeqCst);
        SIGNAL.store(0, Ordering::SeqCst);
        EVENT_FD.store(event.as_raw_fd(), Ordering::SeqCst);
        for signal in SIGNALS {
            let previous = action(signal, None)?;
            if previous.sa_sigaction != libc::SIG_IGN {
                action(signal, Some(&ours()))?;
                interrupt.previous.push((signal, previous));
            }
        }
        Ok(interrupt)
    }

    /// An interrupt that never comes.
    pub fn none() -> Interrupt {
        Interrupt { previous: Vec::new(), installed: false }
    }

    /// Whether a signal came.
    pub fn is_set(&self) -> bool {
        self.installed && COUNT.load(Ordering::SeqCst) > 0
    }

    /// The number of the last signal that came.
    pub fn signal(&self) -> Option<i32> {
        self.is_set().then(|| SIGNAL.load(Ordering::SeqCst))
    }

    /// A descriptor that is readable from the first signal on; `None` if none can come. Reading
    /// from it would take the notice away from others: only poll it.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        EVENT.get().filter(|_| self.installed).map(OwnedFd::as_fd)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for (signal, previous) in &self.previous {
            // It cannot fail: the signal was accepted before, and the action is the kernel's own.
            let _ = action(*signal, Some(previous));
        }
        if self.installed {
            INSTALLED.store(false, Ordering::SeqCst);
        }
    }
}

fn event() -> io::Result<&'static OwnedFd> {
    if let Some(event) = EVENT.get() {
        return Ok(event);
    }
    // SAFETY: eventfd takes integers only.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us alone.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(EVENT.get_or_init(|| fd))
}

/// Takes away the notice of an earlier watch; the descriptor does not block, so an error means that
/// there was none.
fn drain(event: &OwnedFd) {
    let mut count = 0u64;
    // SAFETY: the read writes 8 bytes into `count`.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
}

fn ours() -> libc::sigaction {
    // SAFETY: all zeros is a valid sigaction: default action, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = on_signal as extern "C" fn(c_int) as libc::sighandler_t;
    // Calls elsewhere in the program go on undisturbed; poll never restarts (signal(7)).
    action.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
    action
}

/// Sets a signal's action, if one is given; gives the action it had.
fn action(signal: c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let new = new.map_or(std::ptr::null(), |action| &raw const *action);
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `new` is null or a valid action, whose handler is async-signal-safe; `old` is
    // writable memory of the right type.
    if unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: sigaction filled the structure, since it returned 0.
    Ok(unsafe { old.assume_init() })
}
