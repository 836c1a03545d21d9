//! Debug files that debuginfod serves: those that its client keeps, and those that the client fetches.
//!
//! The client is elfutils' program `debuginfod-find`. It is started only if the environment names servers, as gdb, perf and the
//! client itself demand (debuginfod-client-config(7)).

use opcost_record::printable::hexadecimal;
use opcost_sys::xdg::base_folder;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;
use std::{env, io, thread};

/// The longest time that the client may take for one file.
const LIMIT_S: u64 = 60;
/// The longest path that the client prints.
const PATH_BYTES_MAX: u64 = 4096;

/// The debug files of debuginfod's client.
#[derive(Clone, Debug)]
pub(super) struct Debuginfod {
    /// The folder in which the client keeps files.
    cache: Option<PathBuf>,
    /// The servers, if opcost may ask them.
    servers: Option<Servers>,
}

/// Answers by build id; `None` once a server did not answer.
type Answers = Arc<Mutex<Option<HashMap<Vec<u8>, Option<PathBuf>>>>>;

/// The answers that this process got.
static ANSWERS: LazyLock<Answers> = LazyLock::new(|| Arc::new(Mutex::new(Some(HashMap::new()))));

/// Servers of debug files.
#[derive(Clone, Debug)]
struct Servers {
    /// The client.
    client: PathBuf,
    urls: String,
    /// Reports what is asked for and what failed.
    announce: fn(&str),
    limit: Duration,
    answers: Answers,
}

impl Debuginfod {
    /// What the environment names: `DEBUGINFOD_CACHE_PATH` and `DEBUGINFOD_URLS`.
    ///
    /// `announce`: reports what is asked for; `None`: servers are never asked.
    pub(super) fn of_environment(announce: Option<fn(&str)>) -> Debuginfod {
        let urls = env::var("DEBUGINFOD_URLS").unwrap_or_default().trim().to_owned();
        let servers = announce.filter(|_| !urls.is_empty()).map(|announce| Servers {
            client: "debuginfod-find".into(),
            urls,
            announce,
            limit: Duration::from_secs(LIMIT_S),
            answers: ANSWERS.clone(),
        });
        let named = env::var_os("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
        let own = || Some(base_folder("XDG_CACHE_HOME", ".cache")?.join("debuginfod_client"));
        Debuginfod { cache: named.or_else(own), servers }
    }

    /// Returns the debug file of a build: the kept one if `accept` takes it, else the one that a server has.
    ///
    /// `id`: the build id; `program`: the file that it is wanted for, for messages.
    pub(super) fn find<T>(
        &self,
        id: &[u8],
        program: &Path,
        accept: impl Fn(&Path) -> Option<T>,
    ) -> Option<T> {
        let folder = self.cache.as_ref().map(|cache| cache.join(hexadecimal(id)));
        // The client also keeps empty files, which say that no server had the file.
        let kept = folder.and_then(|folder| accept(&folder.join("debuginfo")));
        kept.or_else(|| accept(&self.servers.as_ref()?.fetch(id, program)?))
    }
}

impl Servers {
    /// Fetches the debug file of a build, once in the life of the process.
    fn fetch(&self, id: &[u8], program: &Path) -> Option<PathBuf> {
        // One file after another; a panic of another thread left the answers whole.
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let known = answers.as_mut()?;
        if let Some(answer) = known.get(id) {
            return answer.clone();
        }
        let (urls, program) = (&self.urls, program.display());
        (self.announce)(&format!(
            "asking {urls} for the debug file of {program} (DEBUGINFOD_URLS)"
        ));
        match self.ask(id) {
            Ok(answer) => {
                if answer.is_none() {
                    (self.announce)(&format!("{urls} has no debug file of {program}"));
                }
                known.insert(id.to_vec(), answer.clone());
                answer
            }
            Err(error) => {
                (self.announce)(&format!("{error}; no further debug file is asked for"));
                *answers = None;
                None
            }
        }
    }

    /// Starts the client for one file; `None` if no server has it.
    fn ask(&self, id: &[u8]) -> io::Result<Option<PathBuf>> {
        let client = self.client.display();
        let mut child = Command::new(&self.client)
            .args(["debuginfo", &hexadecimal(id)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let why =
                    format!("cannot start {client} ({error}; Debian: apt install debuginfod)");
                io::Error::new(error.kind(), why)
            })?;
        let (sender, receiver) = channel();
        if let Some(printed) = child.stdout.take() {
            thread::spawn(move || {
                let mut path = Vec::new();
                let read = printed.take(PATH_BYTES_MAX).read_to_end(&mut path);
                // Nobody waits any longer if the limit passed.
                let _ = sender.send(read.map(|_| path));
            });
        }
        let printed = receiver.recv_timeout(self.limit);
        if printed.is_err() {
            child.kill()?;
        }
        let status = child.wait()?;
        match printed {
            Ok(path) => {
                let path = path?;
                let line = path.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let found = status.success() && line.starts_with(b"/");
                Ok(found.then(|| PathBuf::from(OsStr::from_bytes(line))))
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let why = format!("{} did not answer within {} s", self.urls, self.limit.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn announce(text: &str) {
        SAID.lock().unwrap().push(text.into());
    }

    #[test]
    fn kept_files_come_first_and_servers_are_asked_once_and_within_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let of = |path: &Path| fs::read_to_string(path).ok().filter(|text| !text.is_empty());
        let client = |script: &str| {
            let path = folder.path().join("client");
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Debuginfod {
                cache: Some(folder.path().into()),
                servers: Some(Servers {
                    client: path,
                    urls: "http://server".into(),
                    announce,
                    limit: Duration::from_secs(2),
                    answers: Arc::new(Mutex::new(Some(HashMap::new()))),
                }),
            }
        };
        let place = |text: &str| folder.path().join(text);
        let said = || std::mem::take(&mut *SAID.lock().unwrap());
        let find = |of_whom: &Debuginfod, id: &[u8]| of_whom.find(id, "/bin/p".as_ref(), of);

        fs::create_dir(place("ab01")).unwrap();
        fs::write(place("ab01/debuginfo"), "kept").unwrap();
        fs::write(place("fetched"), "fetched").unwrap();
        let answers = format!(
            "echo $1 $2 >> {0}/asked; test $2 = ab02 && echo {0}/fetched",
            folder.path().display()
        );
        let both = client(&answers);
        assert_eq!(find(&both, &[0xab, 1]).as_deref(), Some("kept"));
        assert_eq!(said(), [""; 0]);
        for _ in 0..2 {
            assert_eq!(find(&both, &[0xab, 2]).as_deref(), Some("fetched"));
            assert_eq!(find(&both, &[0xab, 3]), None);
        }
        assert_eq!(of(&place("asked")).as_deref(), Some("debuginfo ab02\ndebuginfo ab03\n"));
        let asking = "asking http://server for the debug file of /bin/p (DEBUGINFOD_URLS)";
        assert_eq!(said(), [asking, asking, "http://server has no debug file of /bin/p"]);

        let silent = client("exec sleep 600");
        assert_eq!(find(&silent, &[0xab, 2]), None);
        assert_eq!(find(&silent, &[0xab, 3]), None);
        let late = "http://server did not answer within 2 s; no further debug file is asked for";
        assert_eq!(said(), [asking, late]);

        let mut absent = client("true");
        absent.servers.as_mut().unwrap().client = place("none");
        assert_eq!(find(&absent, &[0xab, 2]), None);
        assert!(said()[1].starts_with("cannot start "));
        let offline = Debuginfod { servers: None, ..both };
        assert_eq!((find(&offline, &[0xab, 2]), said()), (None, Vec::new()));
    }
}
