//! Starts a command so that counters can be attached before it executes anything.
//!
//! ```text
//! Spawn --hold--> Held --release--> Running --wait--> Exit
//! ```
//!
//! Everything that needs memory or files is prepared before the process exists; the process itself makes system calls only.
//!
//! **A tiny process makes the commands' processes.** exec carries the peak of the replaced memory over to the new program, so
//! no child of opcost could show a lower peak than opcost's own. The spawner (`crates/opcost-sys/src/spawn/spawner.c`,
//! without a C library) makes the processes with CLONE_PARENT: they are opcost's children, and counters and `wait4` reach
//! them as ever. If the system forbids executing the spawner, opcost makes the processes itself.

mod child;
mod error;
mod held;
mod marked;
mod plan;
mod program;
mod running;
mod spawner;

pub use error::{SpawnError, Stage};
pub use held::Held;
pub use program::{FindError, find_program};
pub use running::{Aside, EndedBy, Exit, Running, Status, WaitError};
pub use spawner::Spawner;

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

/// The destination of a command's standard stream.
#[derive(Debug)]
pub enum Output {
    /// /dev/null.
    Null,
    /// The same destination as this process's stream.
    Inherit,
    /// An open file.
    File(OwnedFd),
}

/// Address space layout randomisation of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Aslr {
    /// The setting of this process.
    Inherit,
    /// The same layout every time, for exact counts (ADDR_NO_RANDOMIZE).
    Fixed,
    /// A random layout, even if this process has a fixed one.
    Randomised,
}

/// A command and its surroundings.
///
/// The command gets a session or a process group of its own, default actions for all signals and none blocked, and no descriptors but the
/// standard streams and `pass_fds`. The command is killed when the thread that started it ends, whatever the cause; processes that
/// the command started are not killed.
#[derive(Debug)]
pub struct Spawn {
    /// The file to execute, as [`find_program`] returns it; a relative path is looked up from `cwd`.
    pub program: PathBuf,
    /// The arguments, the program's own name first.
    pub argv: Vec<OsString>,
    /// The environment; `None` means this process's environment.
    pub env: Option<Vec<(OsString, OsString)>>,
    /// The working directory; `None` means this process's directory.
    pub cwd: Option<PathBuf>,
    /// Standard input; `None` means /dev/null.
    pub stdin: Option<OwnedFd>,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// The only CPU to run on; `None` keeps this thread's CPUs.
    pub cpu: Option<usize>,
    /// Address space randomisation.
    pub aslr: Aslr,
    /// Open files to pass on, each with its number in the command: 3 to 65535.
    pub pass_fds: Vec<(OwnedFd, RawFd)>,
    /// Whether the command leads a session without a terminal (`setsid(2)`). Otherwise it is a background job of this process's
    /// session: the kernel stops it once it reads from the terminal or changes its settings.
    pub own_session: bool,
    /// Real-time priority (SCHED_FIFO, also for the processes that the command starts): no ordinary task takes the CPU from the
    /// command. The kernel ends a thread that computes for this long without a pause (RLIMIT_RTTIME), even if this process is gone by
    /// then. `None` keeps this thread's policy.
    pub real_time_max: Option<Duration>,
}

impl Spawn {
    /// Makes a command with empty input, silent output, a session of its own, and everything else as in this process.
    ///
    /// `argv`: all arguments, the program's own name first.
    pub fn new(program: impl Into<PathBuf>, argv: impl IntoIterator<Item = OsString>) -> Self {
        Spawn {
            program: program.into(),
            argv: argv.into_iter().collect(),
            env: None,
            cwd: None,
            stdin: None,
            stdout: Output::Null,
            stderr: Output::Null,
            cpu: None,
            aslr: Aslr::Inherit,
            pass_fds: Vec::new(),
            own_session: true,
            real_time_max: None,
        }
    }

    /// The limit of real-time priority, rounded up; 0 without real-time priority.
    fn real_time_ms_max(&self) -> u32 {
        let of = |limit: Duration| u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).max(1);
        self.real_time_max.map_or(0, of)
    }

    /// Makes the command's process, which waits before it executes the program.
    ///
    /// # Errors
    /// [`SpawnError`]; [`Held::release`] reports failures in the process itself (working directory, CPU, the program).
    pub fn hold(&self) -> Result<Held, SpawnError> {
        Held::new(self)
    }

    fn failed(&self, stage: Stage, source: io::Error) -> SpawnError {
        SpawnError::Step { stage, program: self.program.clone(), source }
    }
}
