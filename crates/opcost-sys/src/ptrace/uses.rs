//! The files that a command uses, as its system calls show.

use super::call::{self, Event};
use crate::interrupt::Interrupt;
use crate::spawn::{EndedBy, Spawn, SpawnError, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString, c_int};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The interval between two checks whether the user interrupted.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The longest path that the kernel accepts, including its end (`PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;
/// Paths are read in pieces that end where a page may end, since the next page need not be mapped.
const PIECE_BYTES: u64 = 256;

/// The existing files that a command used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Uses {
    /// Files, folders and links that the command named in a system call and that existed at that time: absolute, as the command
    /// wrote them. Files that the command made itself are not among them.
    pub paths: Vec<PathBuf>,
    /// How the command ended.
    pub status: Status,
    /// Who ended the command.
    pub ended_by: EndedBy,
}

/// The reason why the files of a command cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum UsesError {
    /// The command does not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The kernel does not let this process trace system calls.
    #[error(
        "cannot see the system calls of {} (ptrace: {why}); a container has to allow ptrace, and the \
         kernel to be Linux 5.3 or later", .program.display()
    )]
    Trace {
        /// The program that was to be traced.
        program: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
}

/// Runs a command to its end and records the files that the command and everything it starts use.
///
/// The program is traced (`ptrace(2)`), which makes system calls several times slower. Processes that it leaves behind are killed.
/// The program cannot gain privileges, as `sudo` does, unless this process has them.
///
/// `limit`: the longest run time. An interrupt also ends the command.
///
/// # Errors
/// [`UsesError`].
pub fn files_used(
    spawn: Spawn,
    limit: Option<Duration>,
    interrupt: &Interrupt,
) -> Result<Uses, UsesError> {
    let (tell, told) = mpsc::channel();
    let program = spawn.program.clone();
    // A thread that ends lets go or kills everything that it traces, and waits for nobody else's children.
    let tracer = thread::Builder::new()
        .spawn(move || trace(&spawn, &tell))
        .map_err(|why| UsesError::Trace { program, why })?;
    let mut ended_by = EndedBy::Itself;
    // The tracer sends nothing if the command did not start.
    if let Ok(leader) = told.recv() {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        while !tracer.is_finished() {
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if ended_by == EndedBy::Itself && (late || interrupt.is_set()) {
                ended_by = if late { EndedBy::Timeout } else { EndedBy::Interrupt };
                call::kill_by_handle(&leader);
            }
            // The channel hangs up when the command has ended.
            let _ = told.recv_timeout(LOOK_EVERY);
        }
    }
    let traced = tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let (paths, status) = traced?;
    Ok(Uses { paths, status, ended_by })
}

/// Starts the command and follows it to its end. Returns the paths, and how the command ended.
fn trace(spawn: &Spawn, tell: &mpsc::Sender<OwnedFd>) -> Result<(Vec<PathBuf>, Status), UsesError> {
    let failed = |why| UsesError::Trace { program: spawn.program.clone(), why };
    let held = spawn.hold()?;
    let leader = held.pid();
    call::seize_with_children(leader).map_err(failed)?;
    // The command stops after it executed its program; `release` waits for that.
    let running = held.release()?;
    let handle = running.handle().map_err(failed)?;
    let mut seen = Seen::default();
    seen.look(leader, None, spawn.program.as_os_str());
    let _ = tell.send(handle);
    let mut status = None;
    let mut others = BTreeSet::new();
    // Until no traced process is left: processes that the command leaves behind are killed.
    while let Some((tid, event)) = call::next_event().map_err(failed)? {
        match event {
            Event::Ended(how) if tid == leader => {
                status = Some(how);
                others.iter().for_each(|tid| call::kill(*tid));
            }
            Event::Ended(_) => drop(others.remove(&tid)),
            _ if status.is_some() => call::kill(tid),
            _ if tid != leader => drop(others.insert(tid)),
            _ => {}
        }
        let signal = match event {
            Event::Ended(_) => continue,
            Event::SystemCall => {
                seen.system_call(tid);
                0
            }
            Event::Signal(signal) => signal,
            Event::Stopped => {
                call::listen(tid);
                continue;
            }
            Event::Other => 0,
        };
        call::go_to_next_system_call(tid, signal);
    }
    running.was_waited_for();
    let status = status.ok_or_else(|| failed(io::Error::other("its end was not seen")))?;
    Ok((seen.paths(), status))
}

/// Named paths, and whether they existed when they were first named.
#[derive(Debug, Default)]
struct Seen {
    was_there: BTreeMap<PathBuf, bool>,
}

impl Seen {
    fn paths(self) -> Vec<PathBuf> {
        self.was_there.into_iter().filter_map(|(path, there)| there.then_some(path)).collect()
    }

    /// Notes the path that a thread names in the system call at whose entry it stands.
    fn system_call(&mut self, tid: i32) {
        // A thread that is gone meanwhile, or a system call of another architecture, names nothing.
        let Ok(Some((number, arguments))) = call::entered(tid) else { return };
        let older = WITHOUT_FOLDER.iter().map(|number| plain(*number));
        let mut known = NAMES_OF_FILES.iter().copied().chain(older);
        let Some(names) = known.find(|names| names.number as u64 == number) else { return };
        let folder = names.folder.map(|index| arguments[index] as c_int);
        if let Ok(path) = path_at(tid, arguments[names.path]) {
            self.look(tid, folder, &path);
        }
    }

    /// Notes whether a file exists, relative to an open folder of a process or to its working directory.
    fn look(&mut self, pid: i32, folder: Option<c_int>, path: &OsStr) {
        if path.is_empty() {
            return;
        }
        let start = || match folder {
            Some(folder) if folder != libc::AT_FDCWD => {
                fs::read_link(format!("/proc/{pid}/fd/{folder}"))
            }
            _ => fs::read_link(format!("/proc/{pid}/cwd")),
        };
        let path = Path::new(path);
        let path = match path.is_absolute() {
            true => path.to_path_buf(),
            false => match start() {
                Ok(start) => start.join(path),
                Err(_) => return,
            },
        };
        self.note(path);
    }

    fn note(&mut self, path: PathBuf) {
        if self.was_there.contains_key(&path) {
            return;
        }
        let there = path.symlink_metadata().is_ok();
        // To create a file, or to find it missing, a program needs the folder.
        if let (false, Some(folder)) = (there, path.parent()) {
            self.note(folder.to_path_buf());
        }
        self.was_there.insert(path, there);
    }
}

/// The arguments in which a system call names a file.
#[derive(Clone, Copy)]
struct Names {
    number: libc::c_long,
    /// The folder argument, at which a relative path starts.
    folder: Option<usize>,
    /// The argument that points to the path.
    path: usize,
}

const fn at(number: libc::c_long) -> Names {
    Names { number, folder: Some(0), path: 1 }
}

const fn plain(number: libc::c_long) -> Names {
    Names { number, folder: None, path: 0 }
}

/// The system calls that read, execute or query a file by its path.
const NAMES_OF_FILES: &[Names] = &[
    at(libc::SYS_openat),
    at(libc::SYS_openat2),
    at(libc::SYS_newfstatat),
    at(libc::SYS_statx),
    at(libc::SYS_faccessat),
    at(libc::SYS_faccessat2),
    at(libc::SYS_readlinkat),
    at(libc::SYS_execveat),
    at(libc::SYS_name_to_handle_at),
    plain(libc::SYS_execve),
    plain(libc::SYS_chdir),
    plain(libc::SYS_statfs),
    plain(libc::SYS_getxattr),
    plain(libc::SYS_truncate),
    at(libc::SYS_mkdirat),
];

/// System calls that newer architectures omit in favour of their siblings with a folder.
#[cfg(target_arch = "x86_64")]
const WITHOUT_FOLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
];
/// Newer architectures have none of them.
#[cfg(not(target_arch = "x86_64"))]
const WITHOUT_FOLDER: &[libc::c_long] = &[];

/// Returns the text at an address of a process, up to its 0 byte.
fn path_at(tid: i32, address: u64) -> io::Result<OsString> {
    // Opened each time: a descriptor from before an execve shows the memory that is gone.
    let memory = File::open(format!("/proc/{tid}/mem"))?;
    let mut found = Vec::new();
    while found.len() < PATH_BYTES_MAX {
        let at = address.wrapping_add(found.len() as u64);
        let mut piece = vec![0; (PIECE_BYTES - at % PIECE_BYTES) as usize];
        memory.read_exact_at(&mut piece, at)?;
        if let Some(end) = piece.iter().position(|byte| *byte == 0) {
            found.extend_from_slice(&piece[..end]);
            return Ok(OsString::from_vec(found));
        }
        found.append(&mut piece);
    }
    Err(io::ErrorKind::InvalidFilename.into())
}
