//! The user's request to stop: SIGINT, SIGTERM and SIGHUP, turned into a descriptor that can be polled. SIGCONT, which ends a
//! pause (Ctrl-Z), is counted.

use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

/// The signals that interrupt.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The event. It is opened once and never closed: a handler that still runs on another thread after an uninstallation must not
/// write to a descriptor that was reused.
static EVENT: OnceLock<OwnedFd> = OnceLock::new();
/// The descriptor of [`EVENT`] for the handler, which may not wait for a OnceLock.
static EVENT_FD: AtomicI32 = AtomicI32::new(-1);
static COUNT: AtomicU32 = AtomicU32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// The number of SIGCONT that came while a watch was installed.
static CONTINUATIONS: AtomicU32 = AtomicU32::new(0);
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Counts the signal and makes the descriptor readable; async-signal-safe: atomics and `write(2)`.
extern "C" fn on_signal(signal: c_int) {
    SIGNAL.store(signal, Ordering::SeqCst);
    COUNT.fetch_add(1, Ordering::SeqCst);
    let one = 1u64;
    // SAFETY: __errno_location gives this thread's errno. The handler saves errno around the write because the interrupted code may
    // be about to read it. The write reads 8 bytes of `one`.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        libc::write(EVENT_FD.load(Ordering::SeqCst), (&raw const one).cast(), 8);
        *errno = saved;
    }
}

/// Counts the signal; async-signal-safe: an atomic.
extern "C" fn on_continue(_: c_int) {
    CONTINUATIONS.fetch_add(1, Ordering::SeqCst);
}

/// What a wait for input found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Input {
    /// The input can be read.
    Ready,
    /// The other end is gone: a terminal that hung up, which would be read as an endless file without a byte.
    Gone,
    /// The time has passed, or a signal came.
    None,
}

/// Watches for signals that interrupt, from installation until dropped.
///
/// The watch notes the first signal of a kind. A second signal of the same kind takes its default action and so ends a program that
/// does not react (SA_RESETHAND). A signal that was ignored when the watch was installed (`nohup`) stays ignored.
#[derive(Debug)]
pub struct Interrupt {
    /// The actions to restore, by signal; empty for an interrupt that never comes.
    previous: Vec<(c_int, libc::sigaction)>,
    installed: bool,
}

impl Interrupt {
    /// Starts watching; a process can have one watch at a time.
    ///
    /// # Errors
    /// `AlreadyExists` if another watch is installed; the kernel's error if no event can be made.
    pub fn install() -> io::Result<Interrupt> {
        if INSTALLED.swap(true, Ordering::SeqCst) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "signals are already being watched; drop the other Interrupt first",
            ));
        }
        let mut interrupt =
            Interrupt { previous: Vec::with_capacity(SIGNALS.len() + 1), installed: true };
        // On an error, dropping `interrupt` undoes the steps so far.
        let event = event()?;
        drain(event);
        COUNT.store(0, Ordering::SeqCst);
        SIGNAL.store(0, Ordering::SeqCst);
        EVENT_FD.store(event.as_raw_fd(), Ordering::SeqCst);
        for signal in SIGNALS {
            let previous = action(signal, None)?;
            if previous.sa_sigaction != libc::SIG_IGN {
                action(signal, Some(&ours(on_signal, libc::SA_RESETHAND)))?;
                interrupt.previous.push((signal, previous));
            }
        }
        let previous = action(libc::SIGCONT, Some(&ours(on_continue, 0)))?;
        interrupt.previous.push((libc::SIGCONT, previous));
        Ok(interrupt)
    }

    /// Returns an interrupt that never comes.
    pub fn none() -> Interrupt {
        Interrupt { previous: Vec::new(), installed: false }
    }

    /// Whether a signal came.
    pub fn is_set(&self) -> bool {
        self.installed && COUNT.load(Ordering::SeqCst) > 0
    }

    /// The number of the last signal, if one came.
    pub fn signal(&self) -> Option<i32> {
        self.is_set().then(|| SIGNAL.load(Ordering::SeqCst))
    }

    /// How often this process was continued (SIGCONT) since it first watched; two equal numbers mean that it was not stopped
    /// between them.
    pub fn continuations(&self) -> u32 {
        if self.installed { CONTINUATIONS.load(Ordering::SeqCst) } else { 0 }
    }

    /// Waits until `input` can be read, a signal comes, or `limit` has passed.
    pub fn wait_for_input(&self, input: BorrowedFd<'_>, limit: Duration) -> Input {
        let polled = |fd: c_int| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // The kernel ignores a negative descriptor.
        let signals = self.as_fd().map_or(-1, |event| event.as_raw_fd());
        let mut entries = [polled(input.as_raw_fd()), polled(signals)];
        let limit_ms = limit.as_millis().min(i32::MAX as u128) as c_int;
        // SAFETY: `entries` are valid for their number.
        if unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, limit_ms) } <= 0
        {
            return Input::None;
        }
        match entries[0].revents {
            0 => Input::None,
            found if found & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 => Input::Gone,
            _ => Input::Ready,
        }
    }

    /// A descriptor that is readable from the first signal on; `None` if no signal can come. Only poll the descriptor: reading
    /// would take the notice away from others.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        EVENT.get().filter(|_| self.installed).map(OwnedFd::as_fd)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        for (signal, previous) in &self.previous {
            // This cannot fail: the signal was accepted before, and the action is the kernel's own.
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
    // SAFETY: the kernel has just given this descriptor to this process alone.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(EVENT.get_or_init(|| fd))
}

/// Takes away the notice of an earlier watch. The descriptor does not block, so an error means that there was no notice.
fn drain(event: &OwnedFd) {
    let mut count = 0u64;
    // SAFETY: the read writes 8 bytes into `count`.
    unsafe { libc::read(event.as_raw_fd(), (&raw mut count).cast(), 8) };
}

fn ours(handler: extern "C" fn(c_int), flags: c_int) -> libc::sigaction {
    // SAFETY: all zeros is a valid sigaction: default action, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as libc::sighandler_t;
    // Calls elsewhere in the program restart undisturbed; poll never restarts (signal(7)).
    action.sa_flags = libc::SA_RESTART | flags;
    action
}

/// Sets a signal's action if `new` is given, and returns the previous action.
pub(crate) fn action(signal: c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
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
