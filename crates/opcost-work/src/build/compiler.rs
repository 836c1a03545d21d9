//! Starts compilers and waits for them; everything that needs memory is made beforehand.

use super::folder::Folder;
use super::source::stem;
use crate::error::WorkError;
use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// The file, in the folder of the tree, that gets the compilers' messages.
const COMPLAINTS: &str = "complaints";

/// The first words of every command line. The assembler gets its text through a pipe, so that no names of temporary files are
/// drawn. No folders of headers are searched, and none need exist.
pub(super) const OPTIONS: [&str; 2] = ["-pipe", "-nostdinc"];

/// The compiler with its command lines, one for each source file.
pub(super) struct Compiler {
    path: CString,
    lines: Vec<Line>,
    actions: FileActions,
    /// The running compilers, at most `jobs`: entries for `poll`, with the processes and their files beside them.
    watched: Vec<libc::pollfd>,
    running: Vec<(libc::pid_t, usize)>,
    jobs: usize,
    complaints: PathBuf,
}

/// One command line.
struct Line {
    file: u64,
    _words: Vec<CString>,
    /// The addresses of the words and a null, as execve(2) takes them.
    pointers: Vec<*const libc::c_char>,
}

impl Compiler {
    /// Prepares the compilation of `files` files, at most `jobs` at the same time.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: the name of the folder cannot be passed to a system call.
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
    /// [`WorkError::Setup`]: a compiler cannot be started; [`WorkError::Compiler`]: a compiler failed.
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
        // SAFETY: the strings and the list of pointers to them live as long as `self`, the list ends with a null, and the
        // environment does not change during the work.
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
        // SAFETY: plain numbers; the process is a child that was not waited for.
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

    /// Sleeps until one of the compilers has ended. It does not wait for any child, since other threads have children of their own.
    fn wait_for_one(&mut self) -> Result<(), WorkError> {
        loop {
            // SAFETY: a valid array with this number of entries.
            unsafe {
                libc::poll(self.watched.as_mut_ptr(), self.watched.len() as libc::nfds_t, -1)
            };
            let Some(place) = self.watched.iter().position(|watched| watched.revents != 0) else {
                // The call was interrupted.
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
        // Compilers that were running when another failed.
        for (watched, (pid, _)) in self.watched.iter().zip(&self.running) {
            // SAFETY: plain numbers; the processes are children that were not waited for.
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

/// The actions of a child before it becomes a compiler: it enters the folder, and reads and writes there.
struct FileActions(Box<libc::posix_spawn_file_actions_t>);

impl FileActions {
    fn in_folder(folder: &Folder) -> Result<FileActions, WorkError> {
        const NULL: &std::ffi::CStr = c"/dev/null";
        let place = c_string(folder.path().as_os_str().as_bytes())?;
        let complaints = c_string(COMPLAINTS.as_bytes())?;
        let mut actions = Box::new(MaybeUninit::uninit());
        let writes = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND;
        // SAFETY: the structure is initialised first and used only if that succeeded; the C library copies the strings.
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
        // SAFETY: the structure was initialised, and nothing uses it any more.
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

/// Waits for the end of a child and returns its wait status.
fn end_of(pid: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    loop {
        // SAFETY: `status` is writable.
        if unsafe { libc::waitpid(pid, &mut status, 0) } == pid {
            return status;
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            // If SIGCHLD is ignored, the status is lost; the objects will show a failure.
            return 0;
        }
    }
}
