//! Why a workload gave no result.

use std::error::Error;
use std::fmt::Display;
use std::io;

/// Why a workload gave no result; no figure of such a run is to be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// Something the work needs could not be set up.
    #[error("cannot {what}: {source}; {advice}")]
    Setup {
        /// What was to be done, and with what.
        what: String,
        /// What the kernel said.
        source: io::Error,
        /// What to do next.
        advice: &'static str,
    },
    /// The mappings asked for exceed the kernel's limit for one process.
    #[error(
        "neighbours={neighbours} and slots={slots} need {needed} mappings with those the process \
         has, but vm.max_map_count is {limit}; lower 'neighbours', or raise the limit with \
         'sysctl -w vm.max_map_count={needed}'"
    )]
    MapCount {
        /// The parameter `neighbours`.
        neighbours: u64,
        /// The parameter `slots`.
        slots: u64,
        /// Mappings the process would have at most.
        needed: u64,
        /// The value of `vm.max_map_count`.
        limit: u64,
    },
    /// One system call of the counted work failed; the work stopped there.
    #[error("operation {op} of {ops}: {call} {}", outcome(*returned, *expected))]
    Call {
        /// The system call.
        call: &'static str,
        /// Which operation, counted from 1.
        op: u64,
        /// Operations there were to be.
        ops: u64,
        /// What it returned, as the kernel's register value.
        returned: usize,
        /// What it had to return.
        expected: usize,
    },
    /// At least one of many equal system calls did not give the known result.
    #[error(
        "at least one of {ops} calls of {call} went wrong; called once more it {}",
        outcome(*again, *expected)
    )]
    NullCall {
        /// The system call.
        call: &'static str,
        /// How many calls were made.
        ops: u64,
        /// What one more call returned after the work, as the kernel's register value.
        again: usize,
        /// What every call had to return.
        expected: usize,
    },
    /// Bytes came back other than they were sent.
    #[error("one of {ops} calls of {call} gave other bytes than were written")]
    Contents {
        /// The system call that gave them.
        call: &'static str,
        /// How many calls were made.
        ops: u64,
    },
    /// The twin and the work went through different operations, so that the loop's own cost is
    /// unknown.
    #[error(
        "the twin executed operations with hash {twin:016x}, the work {work:016x}; this is a \
         mistake in the workload: please report it"
    )]
    Twin {
        /// Hash over the twin's operations.
        twin: u64,
        /// Hash over the work's operations.
        work: u64,
    },
    /// The seccomp filter could not be installed.
    #[error("cannot set the condition seccomp={mode}: {source}; use seccomp=off")]
    Seccomp {
        /// The value of the parameter.
        mode: String,
        /// What the kernel said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// One of several processes reported an error.
    #[error("process {index} of {procs}: {detail}")]
    Worker {
        /// Which process, counted from 1.
        index: usize,
        /// How many there were.
        procs: usize,
        /// What it said.
        detail: String,
    },
    /// One of several processes ended without a word.
    #[error("process {index} of {procs} ended before its work was done: {how}")]
    WorkerDied {
        /// Which process, counted from 1.
        index: usize,
        /// How many there were.
        procs: usize,
        /// Its exit status or the signal that ended it.
        how: String,
    },
    /// The invariants of several processes cannot be made into one.
    #[error("cannot merge the invariant '{name}' of several processes: its value is '{value}'")]
    Unmergeable {
        /// The invariant.
        name: String,
        /// The value that is not a number, or what was missing.
        value: String,
    },
}

impl WorkError {
    /// The error for a library call that just failed; reads `errno` before it writes the text.
    pub(crate) fn setup(what: impl Display, advice: &'static str) -> Self {
        let source = io::Error::last_os_error();
        WorkError::Setup { what: what.to_string(), source, advice }
    }
}

fn outcome(returned: usize, expected: usize) -> String {
    // Linux returns -4095..=-1 for errors (include/linux/err.h, MAX_ERRNO).
    match returned.wrapping_neg() {
        errno @ 1..=4095 => format!("failed: {}", io::Error::from_raw_os_error(errno as i32)),
        _ if returned == expected => format!("returned {returned:#x}, as it has to"),
        _ => format!("returned {returned:#x}, expected {expected:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_named_with_its_number_and_errno() {
        let error = WorkError::Call {
            call: "munmap",
            op: 17,
            ops: 100,
            returned: (-libc::ENOMEM as isize) as usize,
            expected: 0,
        };
        // Each C library has words of its own for an errno.
        let enomem = io::Error::from_raw_os_error(libc::ENOMEM);
        assert_eq!(error.to_string(), format!("operation 17 of 100: munmap failed: {enomem}"));
        let error = WorkError::NullCall { call: "getppid", ops: 5, again: 0x10, expected: 0x20 };
        assert_eq!(
            error.to_string(),
            "at least one of 5 calls of getppid went wrong; \
             called once more it returned 0x10, expected 0x20"
        );
    }
}
