//! Starting compilers and waiting for them, with everything that needs memory made before.

use super::folder::Folder;
use super::source::stem;
use crate::error::WorkError;
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// What a compiler says goes here, in the folder of the tree.
const COMPLAINTS: &str = "complaints";

/// What every command line begins with. The assembler is handed its text through a pipe, so that no
/// names of temporary files are drawn. No folders of headers are searched, and none need be there.
pub(super) const OPTIONS: [&str; 2] = ["-pipe", "-nostdinc"];

/// The compiler with its command lines, one for each source file.
pub(super) struct Compiler {
    path: CString,
    lines: Vec<Line>,
    actions: FileActions,
    /// What runs now, at most `jobs`: for `poll`, with the processes and their files beside it.
    watched: Vec<libc::pollfd>,
    running: Vec<(libc::pid_t, usize)>,
    jobs: usize,
    complaints: PathBuf,
}

/// One command line.
struct Line {
    file: u64,
    _words: Vec<CString>,
    /// The words' addresses and a null, as execve(2) takes them.
    pointers: Vec<*const libc::c_char>,
}

impl Compiler {
    /// Makes everything ready for so many files, of which `jobs` are compiled at the same time.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: the folder has a name that no system call takes.
    pub(super) fn ready(
        path: &Path,
        optimise: &str,
        folder: &Folder,
        files: u64,
        jobs: usize,
    ) -> Result<Compiler, WorkError> {
        let path = c_string(path.as_os_str().as_bytes())?;
        let lines =
            (0..files).map(|file| Line::of(&path, optimise, file)).collect::<Result<_, _>>()?;
        Ok(Compiler {
            lines,
            actions: FileActions::in_folder(folder)?,
            watched: Vec::with_capacity(jobs),
            running: Vec::with_capacity(jobs),
            jobs,
            complaints: folder.path().join(COMPLAINTS),
            path,
        })
    }

    /// Compiles every file of the tree.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: a compiler cannot be started; [`WorkError::Compiler`]: one failed.
    pub(super) fn build(&mut self) -> Result<(), WorkError> {
        let mut next = 0;
        while next < self.lines.len() || !self.running.is_empty() {
            if next < self.lines.len() && self.running.len() < self.jobs {
                self.start(next)?;
                next += 1;
            } else {
                self.wait_for_one()?;
            }
        }
        Ok(())
    }

    fn start(&mut self, index: usize) -> Result<(), WorkError> {
        const ADVICE: &str = "use fewer 'jobs', or raise the limits (ulimit -u, ulimit -n)";
        let mut pid = 0;
        // SAFETY: the strings and the list of pointers to them live as long as `self`, the list
        // ends with a null, and the environment is not changed while the work goes on.
        let error = unsafe {
            libc::posix_spawn(
                &mut pid,
                self.path.as_ptr(),
                self.actions.as_ptr(),
                ptr::null(),
                self.lines[index].pointers.as_ptr().cast(),
                environ.cast(),
            )
        };
        if error != 0 {
            return Err(WorkError::Setup {
                what: format!("start the compiler {}", self.path.to_string_lossy()),
                source: io::Error::from_raw_os_error(error),
                advice: ADVICE,
            });
        }
        // SAFETY: plain numbers; the child is ours and was not waited for.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if fd < 0 {
            let error = WorkError::setup("open a handle of a compiler (pidfd_open)", ADVICE);
            end_of(pid);
            return Err(error);
        }
        self.watched.push(libc::pollfd { fd: fd as libc::c_int, events: libc::POLLIN, revents: 0 });
        self.running.push((pid, index));
        Ok(())
    }

    /// Sleeps until a compiler has ended. Not for any child: other threads have theirs.
    fn wait_for_one(&mut self) -> Result<(), WorkError> {
        loop {
            // SAFETY: a valid array of that many entries.
            unsafe {
                libc::poll(self.watched.as_mut_ptr(), self.watched.len() as libc::nfds_t, -1)
            };
            let Some(place) = self.watched.iter().position(|watched| watched.revents != 0) else {
                // Interrupted.
                continue;
            };
            let (pid, index) = self.running.swap_remove(place);
            // SAFETY: the descriptor is this compiler's own.
            unsafe { libc::close(self.watched.swap_remove(place).fd) };
            return match end_of(pid) {
                0 => Ok(()),
                status => Err(self.failed(index, status)),
            };
        }
    }

    fn failed(&self, index: usize, status: libc::c_int) -> WorkError {
        let how = match libc::WIFSIGNALED(status) {
            true => format!("was killed by signal {}", libc::WTERMSIG(status)),
            false => format!("ended with status {}", libc::WEXITSTATUS(status)),
        };
        let said = std::fs::read(&self.complaints).unwrap_or_default();
        let said: String = String::from_utf8_lossy(&said).chars().take(600).collect();
        let file = format!("{}.c", stem(self.lines[index].file));
        let compiler = self.path.to_string_lossy().into_owned();
        WorkError::Compiler { compiler, file, how, said: said.trim().into() }
    }
}

unsafe extern "C" {
    static environ: *const *const libc::c_char;
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // Others that ran when one failed.
        for (watched, (pid, _)) in self.watched.iter().zip(&self.running) {
            // SAFETY: plain numbers; the children are ours and were not waited for.
            unsafe {
                libc::kill(*pid, libc::SIGKILL);
                libc::close(watched.fd);
            }
            end_of(*pid);
        }
    }
}

impl Line {
    fn of(path: &CString, optimise: &str, file: u64) -> Result<Line, WorkError> {
        let stem = stem(file);
        let level = format!("-O{optimise}");
        let (object, source) = (format!("{stem}.o"), format!("{stem}.c"));
        let own = [&level, "-c", "-o", &object, &source];
        let words = OPTIONS.into_iter().chain(own).map(|word| c_string(word.as_bytes()));
        let words: Vec<CString> =
            std::iter::once(Ok(path.clone())).chain(words).collect::<Result<_, _>>()?;
        let pointers = words.iter().map(|word| word.as_ptr()).chain([ptr::null()]).collect();
        Ok(Line { file, _words: words, pointers })
    }
}

fn c_string(bytes: &[u8]) -> Result<CString, WorkError> {
    CString::new(bytes).map_err(|error| WorkError::Setup {
        what: "name a file for the compiler".into(),
        source: error.into(),
        advice: "use names without a NUL",
    })
}

/// What a compiler does before it is one: it enters the folder, and reads and writes there.
struct FileActions(Box<libc::posix_spawn_file_actions_t>);

impl FileActions {
    fn in_folder(folder: &Folder) -> Result<FileActions, WorkError> {
        const NULL: &std::ffi::CStr = c"/dev/null";
        let place = c_string(folder.path().as_os_str().as_bytes())?;
        let complaints = c_string(COMPLAINTS.as_bytes())?;
        let mut actions = Box::new(MaybeUninit::uninit());
        let writes = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND;
        // SAFETY: the structure is initialised first and used only if that went well; the C library
        // copies the strings.
        unsafe {
            if libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) != 0 {
                return Err(no_memory());
            }
            let mut actions = FileActions(actions.assume_init());
            let list = &raw mut *actions.0;
            let failed = libc::posix_spawn_file_actions_addchdir_np(list, place.as_ptr())
                | libc::posix_spawn_file_actions_addopen(list, 0, NULL.as_ptr(), libc::O_RDONLY, 0)
                | libc::posix_spawn_file_actions_addopen(list, 1, NULL.as_ptr(), libc::O_WRONLY, 0)
                | libc::posix_spawn_file_actions_addopen(
                    list,
                    2,
                    complaints.as_ptr(),
                    writes,
                    0o600,
                );
            match failed {
                0 => Ok(actions),
                _ => Err(no_memory()),
            }
        }
    }

    fn as_ptr(&self) -> *const libc::posix_spawn_file_actions_t {
        &raw const *self.0
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and nothing uses it any more.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut *self.0) };
    }
}

fn no_memory() -> WorkError {
    WorkError::Setup {
        what: "prepare the start of a compiler".into(),
        source: io::ErrorKind::OutOfMemory.into(),
        advice: "free memory",
    }
}

/// Waits for the end of a child; its wait status.
fn end_of(pid: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == pid {
            return status;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            // Where SIGCHLD is ignored nobody can tell; the objects will.
            return 0;
        }
    }
}
