//! Seccomp filters that allow everything: they have the cost of a filter and forbid nothing (`seccomp(2)`).

use std::io;

/// A filter that lets every system call pass.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Filter {
    /// One instruction, `return ALLOW`. Since Linux 5.11 the kernel notices at installation that the answer is constant, and takes
    /// the answer from a bitmap without running the filter (kernel/seccomp.c, seccomp_cache_prepare).
    AllowAll,
    /// Loads a word of the first argument, then returns ALLOW. The kernel's analysis at installation gives up at loads of anything
    /// but the call's number and architecture (seccomp_is_const_allow), so the filter runs at every call.
    InspectArguments,
}

/// The reason why a filter was not installed.
#[derive(Debug, thiserror::Error)]
pub enum SeccompError {
    /// The thread could not set no_new_privs, which filters need without CAP_SYS_ADMIN.
    #[error("cannot set no_new_privs: {0}; a seccomp filter needs it")]
    NoNewPrivileges(#[source] io::Error),
    /// The kernel refused the filter.
    #[error(
        "cannot install a seccomp filter: {0}; it needs a kernel with CONFIG_SECCOMP_FILTER and a \
         container that allows seccomp"
    )]
    Install(#[source] io::Error),
}

/// Offset of the first argument in `struct seccomp_data`: after number, architecture and
/// instruction pointer.
const FIRST_ARGUMENT: u32 = 16;

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const ALLOW: libc::sock_filter = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
const LOAD_ARGUMENT: libc::sock_filter =
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, FIRST_ARGUMENT);

impl Filter {
    fn program(self) -> &'static [libc::sock_filter] {
        match self {
            Filter::AllowAll => &[ALLOW],
            Filter::InspectArguments => &[LOAD_ARGUMENT, ALLOW],
        }
    }

    /// Installs the filter on the calling thread and everything that it starts later, for good: a thread cannot remove a filter,
    /// and further filters run in addition.
    ///
    /// # Errors
    /// [`SeccompError`], with the kernel's error.
    pub fn install(self) -> Result<(), SeccompError> {
        // SAFETY: this prctl takes integers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(SeccompError::NoNewPrivileges(io::Error::last_os_error()));
        }
        let program = self.program();
        let prog =
            libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        // SAFETY: `prog` describes a program in static memory, which the kernel only reads.
        let result = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const prog)
        };
        match result {
            0 => Ok(()),
            _ => Err(SeccompError::Install(io::Error::last_os_error())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Returns the fields `Seccomp` and `NoNewPrivs` of the calling thread.
    fn status() -> (String, String) {
        let text = fs::read_to_string("/proc/thread-self/status").unwrap();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or("absent").trim().to_string()
        };
        (field("Seccomp:"), field("NoNewPrivs:"))
    }

    #[test]
    fn filters_install_and_let_calls_pass() {
        for filter in [Filter::AllowAll, Filter::InspectArguments] {
            // Filters are per thread; this thread ends with the test.
            let in_thread = std::thread::spawn(move || {
                let before = status().0;
                filter.install().unwrap();
                let directory = tempfile::tempdir().unwrap();
                let file = directory.path().join("file");
                fs::write(&file, "text").unwrap();
                assert_eq!(fs::read_to_string(&file).unwrap(), "text");
                (before, status())
            });
            let (before, after) = in_thread.join().unwrap();
            if before != "0" {
                crate::skip::skip!("this process already runs under seccomp mode {before}");
                continue;
            }
            // Mode 2 is a filter (proc(5), /proc/pid/status).
            assert_eq!(after, ("2".to_string(), "1".to_string()), "{filter:?}");
        }
    }

    #[test]
    fn the_second_filter_looks_at_an_argument() {
        // struct seccomp_data { int nr; __u32 arch; __u64 instruction_pointer; __u64 args[6]; }
        assert_eq!(std::mem::offset_of!(libc::seccomp_data, args), FIRST_ARGUMENT as usize);
        assert_eq!(Filter::AllowAll.program().len(), 1);
        let [load, allow] = Filter::InspectArguments.program() else {
            panic!("two instructions");
        };
        assert_eq!((load.code, load.k), (0x20, 16));
        assert_eq!((allow.code, allow.k), (0x06, 0x7fff_0000));
    }
}
