//! The errors of starting a command.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The step of starting a command that failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// Opening the child's resources: /dev/null, the socket to the child.
    Prepare,
    /// Making the child (`clone(2)`).
    Clone,
    /// Tying the child's life to this process's life (PR_SET_PDEATHSIG).
    ParentDeath,
    /// Making the child's session or process group.
    ProcessGroup,
    /// Setting the standard streams and passing descriptors.
    Descriptors,
    /// Changing to the working directory.
    Chdir,
    /// Binding to a CPU.
    Affinity,
    /// Setting address space randomisation.
    Personality,
    /// Setting real-time priority.
    Priority,
    /// Resetting signals.
    Signals,
    /// Executing the program.
    Exec,
    /// Communicating with the child.
    Release,
}

impl Stage {
    /// Every stage, by the number with which a child reports it.
    pub(super) const ALL: [Stage; 12] = [
        Stage::Prepare,
        Stage::Clone,
        Stage::ParentDeath,
        Stage::ProcessGroup,
        Stage::Descriptors,
        Stage::Chdir,
        Stage::Affinity,
        Stage::Personality,
        Stage::Priority,
        Stage::Signals,
        Stage::Exec,
        Stage::Release,
    ];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Prepare => "preparing",
            Stage::Clone => "making a process",
            Stage::ParentDeath => "tying its life to ours",
            Stage::ProcessGroup => "making its session or process group",
            Stage::Descriptors => "setting its open files",
            Stage::Chdir => "changing to its working directory",
            Stage::Affinity => "binding it to a CPU",
            Stage::Personality => "setting address space randomisation",
            Stage::Priority => "giving it real-time priority",
            Stage::Signals => "resetting its signals",
            Stage::Exec => "executing it",
            Stage::Release => "letting it go",
        })
    }
}

/// The reason why a command could not be started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum SpawnError {
    /// A step failed.
    #[error("cannot run '{}': {stage} failed: {source}{}", .program.display(), advice(*.stage, .source))]
    Step { stage: Stage, program: PathBuf, source: io::Error },
    /// A string cannot be passed to a program.
    #[error("cannot run '{}': {what} holds a NUL byte, which ends strings for programs", .program.display())]
    Nul { what: &'static str, program: PathBuf },
    /// A descriptor cannot be passed under this number.
    #[error(
        "cannot run '{}': descriptor number {number} is below 3, above 65535 or given twice; \
         choose another", .program.display()
    )]
    Descriptor { number: i32, program: PathBuf },
}

fn advice(stage: Stage, error: &io::Error) -> &'static str {
    match (stage, error.raw_os_error()) {
        (Stage::Exec, Some(libc::ENOENT)) => {
            "; the file, or the interpreter it names ('#!' line, dynamic loader), is not there"
        }
        (Stage::Exec, Some(libc::ENOEXEC)) => {
            "; it is not a program for this machine, or a script without a '#!' line: run it \
             through its interpreter"
        }
        (Stage::Exec, Some(libc::EACCES)) => {
            "; it needs the execute permission, on a file system not mounted noexec"
        }
        (Stage::Exec, Some(libc::ETXTBSY)) => "; a process still has the file open for writing",
        (Stage::Exec, Some(libc::E2BIG)) => "; shorten the arguments or the environment",
        (Stage::Affinity, Some(libc::EINVAL)) => {
            "; choose a CPU that is online and allowed to this process"
        }
        (Stage::Personality, Some(libc::EPERM)) => {
            "; a container's seccomp filter may forbid personality(2): leave randomisation as it is"
        }
        (Stage::Priority, Some(libc::EPERM)) => {
            "; it needs CAP_SYS_NICE, or ulimit -r 1, and in a control group of version 1 a share of real-time CPU"
        }
        (Stage::Clone, Some(libc::EAGAIN)) => "; the limit of processes is reached (ulimit -u)",
        (Stage::Clone, Some(libc::ENOSYS)) => "; Linux 5.2 or newer is needed",
        _ => "",
    }
}
