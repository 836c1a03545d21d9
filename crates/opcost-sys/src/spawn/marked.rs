//! Running a command in a guest, between the emulator's markers.
//!
//! Nothing of opcost's may run while the emulator counts. The parent therefore sleeps in `wait4(2)` before the child executes the
//! start marker, and executes the stop marker when it wakes up. The child reports failures in shared memory, since nobody reads a
//! pipe meanwhile.

use super::child::Failure;
use super::error::{SpawnError, Stage};
use super::held::{STACK_WORDS, block_signals, restore_signals};
use super::plan::Plan;
use super::running::Child;
use super::{Spawn, Status, child};
use crate::deferred::{drain_marked, settle};
use crate::marker::mark;
use opcost_record::marker::{START, STOP};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// The data that the child reads, and the one word that it writes.
struct Marked {
    plan: Plan,
    phase_ns: Option<u64>,
    /// 0, or a failure in the form of [`encoded`].
    failure: AtomicU64,
}

impl Spawn {
    /// Runs the command to its end, with the command's life between the markers of the region `work`.
    ///
    /// The child executes the start marker right before it executes the program. This process executes the stop marker right after
    /// its wait ends. This process waits for nothing else: it learns nothing of orphans that it adopts meanwhile. Before the
    /// start, deferred work of the parent is done; after the stop, the command's.
    ///
    /// `phase_ns`: moves the start against the clock's tick, below [`PHASES_NS`](crate::deferred::PHASES_NS); `None` waits for no
    /// deferred work.
    ///
    /// # Errors
    /// [`SpawnError`], with the step that failed; `Unsupported` on processors without markers.
    pub fn run_marked(&self, phase_ns: Option<u64>) -> Result<Status, SpawnError> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(self.failed(Stage::Prepare, io::ErrorKind::Unsupported.into()));
        }
        let (plan, _) = Plan::without_socket(self)?;
        let marked = Marked { plan, phase_ns, failure: AtomicU64::new(0) };
        let mut stack: Vec<MaybeUninit<u128>> = Vec::with_capacity(STACK_WORDS);
        let mut child =
            make(&marked, &mut stack).map_err(|source| self.failed(Stage::Clone, source))?;
        let ended = child.reap();
        mark::<STOP>();
        if phase_ns.is_some() {
            drain_marked();
        }
        // Dropped only after the child is gone: the child uses both until it executes its program.
        drop(stack);
        if let Some((stage, errno)) = decoded(marked.failure.load(Ordering::SeqCst)) {
            return Err(self.failed(stage, io::Error::from_raw_os_error(errno)));
        }
        ended.map(|(status, _)| status).map_err(|source| self.failed(Stage::Release, source))
    }
}

/// Makes the child, which shares this process's memory.
fn make(marked: &Marked, stack: &mut Vec<MaybeUninit<u128>>) -> io::Result<Child> {
    let before = block_signals()?;
    let flags = libc::CLONE_VM | libc::SIGCHLD;
    // SAFETY: the child starts `main` at the top of a stack that nothing else uses and that grows down on the
    // processors for this code. `marked` and the stack stay valid until the child has ended, since `run_marked` waits for the child
    // before dropping them.
    let (pid, error) = unsafe {
        let top = stack.as_mut_ptr().add(STACK_WORDS);
        let argument = (&raw const *marked).cast_mut().cast();
        let pid = libc::clone(main, top.cast(), flags, argument);
        (pid, io::Error::last_os_error())
    };
    restore_signals(&before);
    if pid < 0 { Err(error) } else { Ok(Child::without_pidfd(pid)) }
}

/// Entry of the child; the rules of `child.rs` apply here as well.
extern "C" fn main(argument: *mut c_void) -> c_int {
    // SAFETY: `make` passes a Marked that lives until this process is gone.
    let marked = unsafe { &*argument.cast_const().cast::<Marked>() };
    let failure = match child::prepare(&marked.plan) {
        Ok(()) => {
            if let Some(phase_ns) = marked.phase_ns {
                settle(phase_ns);
            }
            child::execute_after(&marked.plan, mark::<START>)
        }
        Err(failure) => failure,
    };
    marked.failure.store(encoded(failure), Ordering::SeqCst);
    child::exit()
}

/// Encodes a failure as a word that is not 0.
fn encoded((stage, errno): Failure) -> u64 {
    (stage as u64 + 1) << 32 | u64::from(errno as u32)
}

fn decoded(word: u64) -> Option<Failure> {
    let stage = Stage::ALL.get(((word >> 32) as usize).checked_sub(1)?)?;
    Some((*stage, word as u32 as i32))
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use crate::spawn::Output;
    use std::fs;

    fn shell(script: &str) -> Spawn {
        Spawn::new("/bin/sh", ["sh".into(), "-c".into(), script.into()])
    }

    #[test]
    fn ends_and_output_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = fs::File::create(folder.path().join("out")).unwrap();
        let mut spawn = shell("echo hi; exit 3");
        spawn.stdout = Output::File(file.into());
        assert_eq!(spawn.run_marked(None).unwrap(), Status::Code(3));
        assert_eq!(fs::read_to_string(folder.path().join("out")).unwrap(), "hi\n");
        assert_eq!(shell("kill -9 $$").run_marked(None).unwrap(), Status::Signal(9));
    }

    #[test]
    fn the_step_that_failed_is_named() {
        let missing = Spawn::new("/bin/no-such-program", ["x".into()]);
        let error = missing.run_marked(None).unwrap_err();
        let SpawnError::Step { stage: Stage::Exec, source, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(source.raw_os_error(), Some(libc::ENOENT));
        let mut nowhere = shell("true");
        nowhere.cwd = Some("/no-such-folder".into());
        let error = nowhere.run_marked(None).unwrap_err();
        assert!(matches!(error, SpawnError::Step { stage: Stage::Chdir, .. }), "{error:?}");
    }

    #[test]
    fn failures_round_trip() {
        for stage in Stage::ALL {
            assert_eq!(decoded(encoded((stage, 0))), Some((stage, 0)));
        }
        assert_eq!(decoded(0), None);
    }
}
