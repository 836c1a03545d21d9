//! Runs a program of a build: its output goes to a log, and an interrupt ends its whole group.

use super::error::KernelError;
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::{EndedBy, FindError, Output, Spawn, Status, find_program};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How often the log is read for progress.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The most lines of output in an error.
const LINES_SHOWN: usize = 8;

/// Runs a build's programs, logs their output and reports progress.
pub(super) struct Steps<'a> {
    /// The file of the log.
    pub(super) log: PathBuf,
    /// Whether the user wants to stop.
    pub(super) interrupt: &'a Interrupt,
    /// Called with the phase, and with how far the phase is.
    pub(super) progress: &'a mut dyn FnMut(&str, Option<&str>),
    /// The folders to search for programs; `None` is the C library's default.
    pub(super) path_env: Option<OsString>,
    /// The expected size of the next program's work, from an earlier build.
    pub(super) expected: Option<Expected>,
    /// The number of objects that the last program made.
    pub(super) objects: u64,
}

/// The size of an earlier build.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Expected {
    /// The number of objects.
    pub(super) objects: u64,
}

impl Expected {
    /// The time left when `done` objects took `elapsed`, in words; `None` until an estimate is
    /// possible.
    fn left(self, done: u64, elapsed: Duration) -> Option<String> {
        let seconds = elapsed.as_secs_f64();
        let left = self.objects.checked_sub(done).filter(|_| done >= 20 && seconds >= 2.0)?;
        let seconds = (seconds * left as f64 / done as f64).ceil() as u64;
        Some(match seconds {
            0..=90 => format!("{seconds} s left"),
            _ => format!("{} min left", seconds.div_ceil(60)),
        })
    }
}

/// A progress line, for example `612 of about 1153 objects, 2 min left`.
fn describe(done: u64, expected: Option<Expected>, elapsed: Duration) -> String {
    let Some(expected) = expected.filter(|expected| expected.objects >= done) else {
        return format!("{done} objects");
    };
    let left = expected.left(done, elapsed).map_or(String::new(), |left| format!(", {left}"));
    format!("{done} of about {} objects{left}", expected.objects)
}

impl<'a> Steps<'a> {
    /// Starts with a new log in a folder.
    pub(super) fn begin(
        logs: &Path,
        name: &str,
        path_env: Option<OsString>,
        interrupt: &'a Interrupt,
        progress: &'a mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Steps<'a>, KernelError> {
        std::fs::create_dir_all(logs).map_err(KernelError::file("make", logs))?;
        // Output is read back from the log, so no other process may write there.
        let mut time_ns = unix_ns();
        loop {
            let log = logs.join(format!("{name}-{time_ns}.log"));
            match OpenOptions::new().append(true).create_new(true).open(&log) {
                Ok(_) => {
                    let (expected, objects) = (None, 0);
                    return Ok(Steps { log, interrupt, progress, path_env, expected, objects });
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => time_ns += 1,
                Err(error) => return Err(KernelError::file("write", &log)(error)),
            }
        }
    }

    /// Finds a program by its name.
    pub(super) fn find(&self, program: &str) -> Result<PathBuf, FindError> {
        find_program(OsStr::new(program), self.path_env.as_deref(), Path::new("/"))
    }

    /// Runs a program in a folder and waits for its end; returns its output.
    ///
    /// The environment is PATH, the C locale and `env`: no other variable of the user may influence
    /// a kernel.
    pub(super) fn run(
        &mut self,
        what: &str,
        folder: &Path,
        argv: &[OsString],
        env: &[(&str, &str)],
    ) -> Result<String, KernelError> {
        (self.progress)(what, None);
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(KernelError::file("write", &self.log))?;
        let shown: Vec<_> = argv.iter().map(|word| word.to_string_lossy()).collect();
        writeln!(log, "$ {}", shown.join(" ")).map_err(KernelError::file("write", &self.log))?;
        let start = log.stream_position().map_err(KernelError::file("write", &self.log))?;
        let spawn = self.spawn(folder, argv, env, &log).map_err(|reason| KernelError::Step {
            what: what.to_string(),
            lines: vec![reason],
            log: self.log.clone(),
        })?;
        let interrupt = self.interrupt;
        let (expected, begun) = (self.expected.take(), Instant::now());
        let mut counted = Counted::new(&self.log, start);
        let exit = std::thread::scope(|scope| {
            let (sender, ended) = channel();
            // The thread that starts a process waits for it, since the process is killed with this thread.
            let waiting = scope.spawn(move || {
                let exit = spawn
                    .hold()
                    .and_then(|held| held.release())
                    .map_err(|error| error.to_string())
                    .and_then(|mut running| {
                        running.wait(None, interrupt).map_err(|error| error.to_string())
                    });
                drop(sender);
                exit
            });
            while ended.recv_timeout(LOOK_EVERY) == Err::<(), _>(RecvTimeoutError::Timeout) {
                if counted.look() {
                    let done = describe(counted.objects, expected, begun.elapsed());
                    (self.progress)(what, Some(&done));
                }
            }
            waiting.join().unwrap_or_else(|_| Err("the thread that waited for it panicked".into()))
        });
        counted.look();
        self.objects = counted.objects;
        let output = self.output(start);
        let failed = |lines: Vec<String>| KernelError::Step {
            what: what.to_string(),
            lines,
            log: self.log.clone(),
        };
        let exit = exit.map_err(|reason| failed(vec![reason]))?;
        match (exit.ended_by, exit.status) {
            (EndedBy::Interrupt, _) => Err(KernelError::Interrupted),
            (_, Status::Code(0)) => Ok(output),
            (_, status) => {
                let mut lines = informative_lines(&output);
                if lines.is_empty() {
                    lines.push(match status {
                        Status::Code(code) => format!("exit status {code}"),
                        Status::Signal(signal) => format!("signal {signal} killed it"),
                    });
                }
                Err(failed(lines))
            }
        }
    }

    fn spawn(
        &self,
        folder: &Path,
        argv: &[OsString],
        env: &[(&str, &str)],
        log: &File,
    ) -> Result<Spawn, String> {
        let program = self.find(&argv[0].to_string_lossy()).map_err(|error| error.to_string())?;
        let mut spawn = Spawn::new(program, argv.iter().cloned());
        let output = || log.try_clone().map(|file| Output::File(file.into()));
        spawn.stdout = output().map_err(|error| error.to_string())?;
        spawn.stderr = output().map_err(|error| error.to_string())?;
        spawn.cwd = Some(folder.to_path_buf());
        let path = self.path_env.iter().map(|path| (OsString::from("PATH"), path.clone()));
        let fixed = [("LC_ALL", "C")].iter().chain(env);
        let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
        spawn.env = Some(path.chain(fixed).collect());
        Ok(spawn)
    }

    fn output(&self, start: u64) -> String {
        let mut bytes = Vec::new();
        let read = File::open(&self.log).and_then(|mut log| {
            log.seek(SeekFrom::Start(start))?;
            log.read_to_end(&mut bytes)
        });
        // If the log cannot be read, only a message is shorter.
        read.map_or_else(|_| String::new(), |_| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Arguments of a program.
pub(super) fn words(words: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    words.iter().map(|word| word.as_ref().to_os_string()).collect()
}

/// The lines that explain a program's failure: those with an error, else the last ones.
fn informative_lines(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let telling = |line: &&&str| {
        let small = line.to_lowercase();
        // make repeats an error for every folder; E: is apt's mark.
        let error = ["error:", "error ", "failed", "undefined reference", "no such file"];
        !small.starts_with("make")
            && (error.iter().any(|word| small.contains(word)) || line.starts_with("E: "))
    };
    let mut shown: Vec<&str> = lines.iter().filter(telling).copied().collect();
    if shown.is_empty() {
        shown = lines;
    }
    let skipped = shown.len().saturating_sub(LINES_SHOWN);
    shown[skipped..].iter().map(ToString::to_string).collect()
}

/// Counts the objects in a growing log.
struct Counted {
    log: Option<File>,
    objects: u64,
    rest: Vec<u8>,
}

impl Counted {
    fn new(log: &Path, start: u64) -> Counted {
        let log = File::open(log).ok().filter(|mut log| log.seek(SeekFrom::Start(start)).is_ok());
        Counted { log, objects: 0, rest: Vec::new() }
    }

    /// Reads on; returns whether there are new objects.
    fn look(&mut self) -> bool {
        let before = self.objects;
        if let Some(log) = &mut self.log {
            // If the log cannot be read, its objects are not counted.
            let _ = log.read_to_end(&mut self.rest);
        }
        if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
            let is_object = |line: &&[u8]| {
                ["  CC ", "  AS ", "  LD ", "  AR "]
                    .iter()
                    .any(|mark| line.starts_with(mark.as_bytes()))
            };
            let lines = self.rest[..end].split(|byte| *byte == b'\n');
            self.objects += lines.filter(is_object).count() as u64;
            self.rest.drain(..=end);
        }
        self.objects > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> (Result<String, KernelError>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let interrupt = Interrupt::none();
        let mut progress = |phase: &str, _: Option<&str>| told.push(phase.to_string());
        let path_env = std::env::var_os("PATH");
        let logs = folder.path().join("logs");
        let mut steps = Steps::begin(&logs, "a", path_env, &interrupt, &mut progress).unwrap();
        let result = steps.run(
            "trying",
            folder.path(),
            &words(&[&"sh", &"-c", &script]),
            &[("SAID", "a b")],
        );
        (result, told)
    }

    #[test]
    fn output_and_environment_are_known() {
        let (output, told) = run("echo $SAID $HOME $LC_ALL; echo x >&2; pwd >/dev/null");
        assert_eq!(output.unwrap(), "a b C\nx\n");
        assert_eq!(told, ["trying"]);
    }

    #[test]
    fn a_failure_shows_the_lines_that_say_why() {
        let (failed, _) = run(
            "echo '  CC  a.o'; echo 'a.c:1:2: error: no'; echo 'make: *** [a.o] Error 1'; exit 2",
        );
        let text = failed.unwrap_err().to_string();
        assert!(text.starts_with("trying failed: a.c:1:2: error: no\n"), "{text}");
        assert!(text.contains("/logs/a-"), "{text}");
        let (failed, _) = run("kill -9 $$");
        assert!(failed.unwrap_err().to_string().contains("signal 9 killed it"));
        let (failed, _) = run("exit 3");
        assert!(failed.unwrap_err().to_string().contains("exit status 3"));
        let (failed, _) = run("seq 1 30; exit 3");
        let text = failed.unwrap_err().to_string();
        assert!(text.contains("failed: 23\n") && text.contains("\n  30\n"), "{text}");
    }

    #[test]
    fn a_build_says_how_much_is_left() {
        let said = |done, objects: Option<u64>, seconds| {
            let expected = objects.map(|objects| Expected { objects });
            describe(done, expected, Duration::from_secs(seconds))
        };
        assert_eq!(said(300, None, 60), "300 objects");
        assert_eq!(said(300, Some(1200), 60), "300 of about 1200 objects, 3 min left");
        assert_eq!(said(1000, Some(1200), 60), "1000 of about 1200 objects, 12 s left");
        assert_eq!(said(3, Some(1200), 60), "3 of about 1200 objects", "nothing to go by yet");
        assert_eq!(said(1300, Some(1200), 60), "1300 objects", "more than the last time");
    }

    #[test]
    fn objects_are_counted_whole_line_by_whole_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut counted = Counted::new(file.path(), 0);
        assert!(!counted.look());
        std::fs::write(file.path(), "  CC      a.o\n  GEN     x\n  AS  ").unwrap();
        assert!(counted.look());
        assert_eq!(counted.objects, 1);
        let mut log = OpenOptions::new().append(true).open(file.path()).unwrap();
        log.write_all(b"    b.o\n  LD      c.o\nno\n").unwrap();
        assert!(counted.look());
        assert_eq!(counted.objects, 3);
        assert!(!counted.look());
    }
}
