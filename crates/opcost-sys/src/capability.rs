//! Capabilities that programs cannot gain (`capabilities(7)`).

use std::io;

/// A capability of Linux, by its number (include/uapi/linux/capability.h).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Capability {
    /// Access to ports and to memory by physical address.
    RawIo = 17,
    /// Reading and writing the memory of processes with more capabilities.
    Ptrace = 19,
}

/// Keeps a capability from every program that this process executes, and from all their children; this process keeps it itself.
///
/// # Errors
/// This process has no privilege (CAP_SETPCAP).
pub fn keep_from_programs(capability: Capability) -> io::Result<()> {
    // SAFETY: this prctl takes integers only.
    match unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability as u8)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_lack_what_is_kept_from_them() {
        // The bounding set belongs to a thread.
        let (before, after) = std::thread::spawn(|| {
            let set = || {
                let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
                let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            let before = set();
            match keep_from_programs(Capability::RawIo) {
                Ok(()) => (before, set()),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "needs CAP_SETPCAP");
                    (before, before & !(1 << 17))
                }
            }
        })
        .join()
        .unwrap();
        assert_eq!(after, before & !(1 << 17));
    }
}
