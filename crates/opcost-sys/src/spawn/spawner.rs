//! A small process that makes commands' processes, so that their peak memory is their own.
//!
//! The process runs spawner.c, which gives the reasons; this module is the other end of its socket.

use super::child::GO;
use super::error::{SpawnError, Stage};
use super::held::{Held, Line};
use super::plan::copy_out_of_the_way;
use super::running::{Child, PeakFloor, Running};
use super::{Aslr, Output, Spawn, Status};
use crate::affinity::CpuMask;
use crate::scheduling;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The program, as build.rs compiled it; empty if the architecture has none.
const PROGRAM: &[u8] = program();

#[cfg(has_spawner)]
const fn program() -> &'static [u8] {
    include_bytes!(concat!(env!("OUT_DIR"), "/spawner"))
}

#[cfg(not(has_spawner))]
const fn program() -> &'static [u8] {
    &[]
}

// As in spawner.c.
const SOCKET_FD: RawFd = 3;
const GO_FD: RawFd = 4;
const ORDER_BYTES_MAX: usize = 128 * 1024;
const STRINGS_MAX: usize = 4096;

/// How a process exits that did not execute its program.
const NOT_STARTED: i32 = 127;

/// A child's peak above this is its own. The spawner needs less for any order (spawner.c lists its memory), and the rest covers the
/// kernel's delay of counts.
pub(super) const PEAK_BYTES_MAX: u64 = 1 << 19;

/// The spawner's process; it ends when this value is dropped, and with the thread that started it.
#[derive(Debug)]
pub struct Spawner {
    process: Running,
    /// Also of the process that uses the spawner's memory, if there is one.
    ends: Arc<Ends>,
}

/// This process's ends of a spawner's lines.
#[derive(Debug)]
pub(super) struct Ends {
    socket: OwnedFd,
    go: PipeWriter,
    /// The spawner's end of `go`, from which [`Ends::clear`] takes what no process took.
    go_taken: PipeReader,
    /// Whether the last process may have left a byte or a report.
    may_hold_rest: AtomicBool,
}

impl Ends {
    /// Lets the process go on.
    pub(super) fn let_go(&self) -> io::Result<()> {
        (&self.go).write_all(&[GO])
    }

    /// The step that failed in a process that ended with this status; `None` if it executed its program, or was killed.
    pub(super) fn failure(&self, status: Status) -> Option<(Stage, io::Error)> {
        match status {
            Status::Code(NOT_STARTED) => {}
            Status::Code(_) => {
                // It executed its program, so it had taken its byte.
                self.may_hold_rest.store(false, Ordering::Relaxed);
                return None;
            }
            Status::Signal(_) => return None,
        }
        let (stage, errno) = receive(&self.socket, libc::MSG_DONTWAIT).ok()?;
        let stage = usize::try_from(stage).ok().and_then(|stage| Stage::ALL.get(stage))?;
        Some((*stage, io::Error::from_raw_os_error(errno)))
    }

    /// Drops what a process left that was killed before it took its byte, or whose report nobody read.
    fn clear(&self) -> io::Result<()> {
        if !self.may_hold_rest.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        while receive(&self.socket, libc::MSG_DONTWAIT).is_ok() {}
        let mut waiting: libc::c_int = 0;
        // SAFETY: the kernel writes one int.
        let asked =
            unsafe { libc::ioctl(self.go_taken.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        (&self.go_taken).take(waiting as u64).read_to_end(&mut Vec::new()).map(drop)
    }
}

impl Spawner {
    /// Starts the process.
    ///
    /// # Errors
    /// [`SpawnError`]. The system may forbid executing files in memory (`memfd_create(2)`), and this architecture may have no
    /// spawner. Commands can also be started without a spawner.
    pub fn start() -> Result<Spawner, SpawnError> {
        let failed = |source| SpawnError::Step {
            stage: Stage::Prepare,
            program: "opcost-spawner".into(),
            source,
        };
        if PROGRAM.is_empty() {
            return Err(failed(io::ErrorKind::Unsupported.into()));
        }
        let file = program_file().map_err(failed)?;
        // The child finds the program by its number, and gets its ends of the lines under these numbers before.
        let file = match copy_out_of_the_way(file.as_raw_fd(), GO_FD + 1).map_err(failed)? {
            Some(copy) => copy,
            None => file,
        };
        let (ours, theirs) = socket_pair().map_err(failed)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut spawn = Spawn::new(path, [OsString::from("opcost-spawner")]);
        spawn.env = Some(Vec::new());
        spawn.stdout = Output::Inherit;
        spawn.stderr = Output::Inherit;
        let (go_taken, go) = io::pipe().map_err(failed)?;
        let go_theirs = go_taken.try_clone().map_err(failed)?.into();
        spawn.pass_fds = vec![(theirs, SOCKET_FD), (go_theirs, GO_FD)];
        let process = spawn.hold()?.release()?;
        let ends = Ends { socket: ours, go, go_taken, may_hold_rest: AtomicBool::new(false) };
        Ok(Spawner { process, ends: Arc::new(ends) })
    }

    /// The number of the spawner's process.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Does the work of [`Spawn::hold`] in the spawner. Returns `None` if the spawner cannot make the process: the command has
    /// files to pass on beside its standard streams or more text than one message holds, or the spawner's last process was neither
    /// waited for nor dropped.
    ///
    /// # Errors
    /// [`SpawnError`] if the spawner is gone or cannot make a process.
    pub fn hold(&self, spawn: &Spawn) -> Result<Option<Held>, SpawnError> {
        // A process may still use the spawner's memory.
        if Arc::strong_count(&self.ends) > 1 {
            return Ok(None);
        }
        let Some(order) = order(spawn)? else { return Ok(None) };
        let clone = |source| spawn.failed(Stage::Clone, source);
        self.ends.clear().map_err(clone)?;
        // This thread wakes up when the process answers, and must not take the CPU from it.
        let waits = scheduling::without_preempting();
        send_with(&self.ends.socket, &order, &files(spawn)).map_err(clone)?;
        let (pid, switches_before) = receive(&self.ends.socket, 0).map_err(clone)?;
        drop(waits);
        if pid < 0 {
            return Err(clone(io::Error::from_raw_os_error(-pid)));
        }
        // The number cannot be reused before this process, the child's parent, has waited for the child.
        // SAFETY: pidfd_open takes integers.
        let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let child = match pidfd {
            0.. => {
                // SAFETY: the kernel has just given this descriptor to this process alone.
                Child::new(pid, unsafe { OwnedFd::from_raw_fd(pidfd as RawFd) })
            }
            _ => {
                let error = io::Error::last_os_error();
                drop(Child::without_pidfd(pid));
                return Err(clone(error));
            }
        };
        let line =
            Line::Spawner { ends: self.ends.clone(), switches_before: switches_before as u64 };
        Ok(Some(Held::of_spawner(child, line, spawn.program.clone())))
    }
}

/// The limit above which a command's peak memory is its own.
pub(super) const FLOOR: PeakFloor = PeakFloor::Bytes(PEAK_BYTES_MAX);

/// Returns the program in a file of its own that nobody else can open by name.
fn program_file() -> io::Result<OwnedFd> {
    let make = |flags: libc::c_uint| -> io::Result<OwnedFd> {
        // SAFETY: a C string and an integer.
        let fd = unsafe { libc::memfd_create(c"opcost-spawner".as_ptr(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor to this process alone.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let flags = libc::MFD_CLOEXEC;
    // Before Linux 6.3 the flag is unknown, and files in memory are always executable.
    let fd = make(flags | libc::MFD_EXEC).or_else(|_| make(flags))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(PROGRAM)?;
    // The kernel refuses to execute a file that is open for writing (ETXTBSY).
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(std::fs::File::open(path)?.into())
}

/// Makes a socket pair for messages, so that each read gets one whole order.
fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes two descriptors into an array of two.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given these descriptors to this process alone.
    let [ours, theirs] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((ours, theirs))
}

/// Returns the files for standard streams, in the streams' order.
fn files(spawn: &Spawn) -> Vec<RawFd> {
    let of_output = |output: &Output| match output {
        Output::File(file) => Some(file.as_raw_fd()),
        Output::Null | Output::Inherit => None,
    };
    let stdin = spawn.stdin.as_ref().map(AsRawFd::as_raw_fd);
    [stdin, of_output(&spawn.stdout), of_output(&spawn.stderr)].into_iter().flatten().collect()
}

/// Returns the command as one message; `None` if the message exceeds the spawner's limits.
fn order(spawn: &Spawn) -> Result<Option<Vec<u8>>, SpawnError> {
    // As in spawner.c.
    const NULL: u32 = 1;
    const FILE: u32 = 2;
    let flag = |output: &Output| match output {
        Output::Inherit => 0,
        Output::Null => NULL,
        Output::File(_) => FILE,
    };
    let stdin = if spawn.stdin.is_some() { FILE } else { NULL };
    let inherited: Vec<(OsString, OsString)>;
    let env = match &spawn.env {
        Some(env) => env,
        None => {
            inherited = std::env::vars_os().collect();
            &inherited
        }
    };
    if !spawn.pass_fds.is_empty() || spawn.argv.len() > STRINGS_MAX || env.len() > STRINGS_MAX {
        return Ok(None);
    }
    let aslr = match spawn.aslr {
        Aslr::Inherit => 0,
        Aslr::Fixed => 1,
        Aslr::Randomised => 2,
    };
    let mask = spawn.cpu.map(CpuMask::of);
    let words = mask.as_ref().map_or(&[][..], CpuMask::words);
    let cwd = spawn.cwd.as_deref();
    let mut bytes = Vec::with_capacity(4096);
    for word in [
        std::process::id(),
        stdin,
        flag(&spawn.stdout),
        flag(&spawn.stderr),
        aslr,
        (words.len() * 8) as u32,
        u32::from(cwd.is_some()),
        u32::from(spawn.own_session),
        spawn.real_time_ms_max(),
        spawn.argv.len() as u32,
        env.len() as u32,
    ] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    for word in words {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    let mut add = |parts: &[&OsStr], what: &'static str| {
        for part in parts {
            if part.as_bytes().contains(&0) {
                return Err(SpawnError::Nul { what, program: spawn.program.clone() });
            }
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes.push(0);
        Ok(())
    };
    add(&[spawn.program.as_os_str()], "its path")?;
    if let Some(cwd) = cwd {
        add(&[cwd.as_os_str()], "its working directory")?;
    }
    for argument in &spawn.argv {
        add(&[argument], "an argument")?;
    }
    for (name, value) in env {
        add(&[name, OsStr::new("="), value], "an environment variable")?;
    }
    Ok((bytes.len() <= ORDER_BYTES_MAX).then_some(bytes))
}

/// Sends one message with at most three attached files.
fn send_with(socket: &OwnedFd, bytes: &[u8], files: &[RawFd]) -> io::Result<()> {
    if files.is_empty() {
        return send(socket, bytes);
    }
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // Words of 8 bytes, the alignment of the header; room for more than three descriptors.
    let mut control = [0u64; 8];
    // SAFETY: an all-zero msghdr is valid, without address and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    let files_bytes = size_of_val(files) as u32;
    // SAFETY: these macros compute lengths only.
    let (space, length) = unsafe { (libc::CMSG_SPACE(files_bytes), libc::CMSG_LEN(files_bytes)) };
    assert!(space as usize <= size_of_val(&control), "as many files as there are streams");
    message.msg_controllen = space as _;
    // SAFETY: the control data has room for a header and the descriptors, as `space` says, and is aligned; the first header is
    // within the control data.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = length as _;
        let data = libc::CMSG_DATA(header).cast::<RawFd>();
        std::ptr::copy_nonoverlapping(files.as_ptr(), data, files.len());
    }
    loop {
        // SAFETY: the message points to `part`, `bytes` and `control`, which live until the message is sent.
        let sent =
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Sends one message.
fn send(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    loop {
        // SAFETY: reads `bytes`.
        let sent = unsafe {
            libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL)
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Receives the next answer: two words of 32 bits.
fn receive(socket: &OwnedFd, flags: libc::c_int) -> io::Result<(i32, i32)> {
    let mut words = [0i32; 2];
    loop {
        // SAFETY: writes at most 8 bytes into `words`.
        match unsafe { libc::recv(socket.as_raw_fd(), words.as_mut_ptr().cast(), 8, flags) } {
            8 => return Ok((words[0], words[1])),
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::BrokenPipe,
                    "the process that makes processes for opcost has ended",
                ));
            }
            -1 => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
