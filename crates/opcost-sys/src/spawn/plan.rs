//! Everything that a child needs, in final form before the child exists.

use super::error::Stage;
use super::{Aslr, Output, Spawn, SpawnError};
use crate::affinity::{CPU_MAX, CpuMask};
use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::OnceLock;

/// The largest number that can be passed; a limit, so that a bad number cannot exhaust the table.
const TARGET_FD_MAX: RawFd = 65_535;

/// The data that the child reads. The plan owns everything it points to, and does not change once the child exists.
pub(super) struct Plan {
    pub(super) program: CString,
    pub(super) argv: Strings,
    pub(super) env: Strings,
    pub(super) cwd: Option<CString>,
    pub(super) cpu: Option<CpuMask>,
    pub(super) aslr: Aslr,
    /// Pairs (from, to); no `from` is also a `to`, so the order does not matter.
    pub(super) moves: Vec<(RawFd, RawFd)>,
    /// The child's end of the socket, which is no `to` either; -1 without a socket.
    pub(super) socket: RawFd,
    /// The parent's end, which the child closes; -1 without a socket.
    pub(super) parent_socket: RawFd,
    pub(super) parent_pid: i32,
    pub(super) own_session: bool,
    pub(super) real_time_ms_max: u32,
    /// Copies of descriptors whose numbers were taken; closed with the plan.
    _copies: Vec<OwnedFd>,
}

/// An array of C strings with a null at its end, as `execve(2)` takes it.
pub(super) struct Strings {
    /// All strings, one after the other.
    _bytes: Vec<u8>,
    pointers: Vec<*const c_char>,
}

// SAFETY: the pointers lead into `_bytes`; its heap memory is never changed or reallocated after `Strings::new`. Nothing here is
// tied to a thread.
unsafe impl Send for Strings {}
// SAFETY: as above, and a shared Strings is only read.
unsafe impl Sync for Strings {}

impl Strings {
    /// Returns `None` if a string holds a NUL byte.
    fn new<'a>(strings: impl Iterator<Item = [&'a OsStr; 2]>, separator: &[u8]) -> Option<Self> {
        let mut bytes = Vec::with_capacity(4096);
        let mut starts = Vec::with_capacity(64);
        for [left, right] in strings {
            let (left, right) = (left.as_bytes(), right.as_bytes());
            if left.contains(&0) || right.contains(&0) {
                return None;
            }
            starts.push(bytes.len());
            bytes.extend_from_slice(left);
            bytes.extend_from_slice(separator);
            bytes.extend_from_slice(right);
            bytes.push(0);
        }
        // The pointers are made once the bytes no longer move.
        let start = |start: &usize| bytes[*start..].as_ptr().cast::<c_char>();
        let mut pointers: Vec<_> = starts.iter().map(start).collect();
        pointers.push(std::ptr::null());
        Some(Strings { _bytes: bytes, pointers })
    }

    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// The parent's end of the socket to a child.
pub(super) struct ParentEnd(pub(super) OwnedFd);

/// The child's end; the parent closes it once the child exists.
pub(super) struct ChildEnd(#[allow(dead_code)] pub(super) OwnedFd);

impl Plan {
    /// Prepares everything that needs memory, files or a decision, with a socket to the child.
    pub(super) fn new(spawn: &Spawn) -> Result<(Plan, ParentEnd, ChildEnd), SpawnError> {
        let prepare = |source| spawn.failed(Stage::Prepare, source);
        let (mut plan, lowest_free) = Plan::without_socket(spawn)?;
        let (parent_end, mut child_end) = socket_pair().map_err(prepare)?;
        // The copy is not among the plan's copies, which this process keeps until the program runs: this process would wait for its
        // own copy to be closed.
        if let Some(copy) =
            copy_out_of_the_way(child_end.0.as_raw_fd(), lowest_free).map_err(prepare)?
        {
            child_end = ChildEnd(copy);
        }
        plan.socket = child_end.0.as_raw_fd();
        plan.parent_socket = parent_end.0.as_raw_fd();
        Ok((plan, parent_end, child_end))
    }

    /// Prepares everything except the socket; also returns the lowest descriptor that is no target in the child.
    pub(super) fn without_socket(spawn: &Spawn) -> Result<(Plan, RawFd), SpawnError> {
        let nul = |what| SpawnError::Nul { what, program: spawn.program.clone() };
        let prepare = |source| spawn.failed(Stage::Prepare, source);
        let lowest_free = lowest_free(spawn)?;
        let mut copies = Vec::new();
        let null = dev_null().map_err(prepare)?;
        let mut moves = vec![(spawn.stdin.as_ref().map_or(null, AsRawFd::as_raw_fd), 0)];
        for (output, to) in [(&spawn.stdout, 1), (&spawn.stderr, 2)] {
            match output {
                Output::Null => moves.push((null, to)),
                Output::Inherit => {}
                Output::File(file) => moves.push((file.as_raw_fd(), to)),
            }
        }
        let passed = spawn.pass_fds.iter();
        moves.extend(passed.map(|(fd, to)| (fd.as_raw_fd(), *to)));
        for (from, _) in &mut moves {
            *from = out_of_the_way(*from, lowest_free, &mut copies).map_err(prepare)?;
        }
        let cpu = match spawn.cpu {
            Some(cpu) if cpu > CPU_MAX => {
                let error = io::Error::from_raw_os_error(libc::EINVAL);
                return Err(spawn.failed(Stage::Affinity, error));
            }
            cpu => cpu.map(CpuMask::of),
        };
        let empty = OsStr::new("");
        let argv = spawn.argv.iter().map(|word| [word.as_os_str(), empty]);
        // Copied even when inherited: the child reads the environment while this process goes on, and the C library's own array may
        // be reallocated meanwhile (setenv).
        let inherited: Vec<(OsString, OsString)>;
        let env = match &spawn.env {
            Some(env) => env,
            None => {
                inherited = std::env::vars_os().collect();
                &inherited
            }
        };
        let env = env.iter().map(|(name, value)| [name.as_os_str(), value]);
        let plan = Plan {
            program: c_string(spawn.program.as_os_str()).ok_or_else(|| nul("its path"))?,
            argv: Strings::new(argv, b"").ok_or_else(|| nul("an argument"))?,
            env: Strings::new(env, b"=").ok_or_else(|| nul("an environment variable"))?,
            cwd: match &spawn.cwd {
                Some(cwd) => {
                    Some(c_string(cwd.as_os_str()).ok_or_else(|| nul("its working directory"))?)
                }
                None => None,
            },
            cpu,
            aslr: spawn.aslr,
            moves,
            socket: -1,
            parent_socket: -1,
            // SAFETY: getpid only returns a number.
            parent_pid: unsafe { libc::getpid() },
            own_session: spawn.own_session,
            real_time_ms_max: spawn.real_time_ms_max(),
            _copies: copies,
        };
        Ok((plan, lowest_free))
    }

    /// The working directory as a C string.
    pub(super) fn cwd(&self) -> Option<&CStr> {
        self.cwd.as_deref()
    }
}

fn c_string(text: &OsStr) -> Option<CString> {
    CString::new(text.to_os_string().into_vec()).ok()
}

/// Returns the lowest descriptor number that no stream and no passed descriptor will have in the child.
fn lowest_free(spawn: &Spawn) -> Result<RawFd, SpawnError> {
    let mut lowest = 3;
    for (index, (_, number)) in spawn.pass_fds.iter().enumerate() {
        let earlier = &spawn.pass_fds[..index];
        let twice = earlier.iter().any(|(_, other)| other == number);
        if twice || !(3..=TARGET_FD_MAX).contains(number) {
            return Err(SpawnError::Descriptor { number: *number, program: spawn.program.clone() });
        }
        lowest = lowest.max(number + 1);
    }
    Ok(lowest)
}

/// Returns the descriptor itself, or a copy with a number that is no target in the child.
fn out_of_the_way(fd: RawFd, lowest: RawFd, copies: &mut Vec<OwnedFd>) -> io::Result<RawFd> {
    let Some(copy) = copy_out_of_the_way(fd, lowest)? else { return Ok(fd) };
    copies.push(copy);
    Ok(copies[copies.len() - 1].as_raw_fd())
}

/// Copies a descriptor to a number from `lowest` on; `None` if its number is already that high.
pub(super) fn copy_out_of_the_way(fd: RawFd, lowest: RawFd) -> io::Result<Option<OwnedFd>> {
    if fd >= lowest {
        return Ok(None);
    }
    // SAFETY: fcntl F_DUPFD_CLOEXEC takes integers only.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, lowest) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to this process alone.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(copy) }))
}

/// Returns /dev/null, opened once in this process for reading and writing.
fn dev_null() -> io::Result<RawFd> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(null) = NULL.get() {
        return Ok(null.as_raw_fd());
    }
    let null = File::options().read(true).write(true).open("/dev/null")?;
    Ok(NULL.get_or_init(|| null).as_raw_fd())
}

fn socket_pair() -> io::Result<(ParentEnd, ChildEnd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors into an array of two.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given these descriptors to this process alone.
    let [parent, child] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((ParentEnd(parent), ChildEnd(child)))
}
