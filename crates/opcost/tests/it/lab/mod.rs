//! A laboratory: a fresh folder in which opcost is run as a user would, with a store of its own.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program under test.
pub(crate) const OPCOST: &str = env!("CARGO_BIN_EXE_opcost");

/// The repository's folder. Tests of its own sources and pages belong into `house`.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every file below a folder in order, without build output.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", ".git"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The smallest comparison of workloads: four runs with very little work.
pub(crate) const TINY: [&str; 8] = [
    "compare",
    "-w",
    "syscall:ops=2000",
    "-w",
    "syscall:ops=2000,seccomp=on",
    "-n",
    "2",
    "--warmup=0",
];

/// The row of a metric in the JSON of a comparison.
#[track_caller]
pub(crate) fn metric<'a>(shown: &'a Value, name: &str, domain: &str) -> &'a Value {
    let metrics = shown["opcost"]["metrics"].as_array().unwrap();
    metrics
        .iter()
        .find(|row| row["metric"] == name && row["domain"] == domain)
        .unwrap_or_else(|| panic!("no {name} of {domain} in {shown:#}"))
}

/// A folder with a store.
pub(crate) struct Lab {
    dir: TempDir,
}

/// The status and the output of a program that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit status; `None` if a signal ended the program.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        // A shell that runs the tests in the background has them ignore SIGINT, and every program of theirs would, too.
        // SAFETY: sets the default action, which runs no code.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        Lab { dir: tempfile::tempdir().unwrap() }
    }

    /// The folder, in which opcost runs.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("store.sqlite")
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        path
    }

    /// Writes an executable script for `/bin/sh`.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.write(name, "");
        // If this process wrote it, what other tests start at this moment would inherit the descriptor, and execve(2) would fail
        // with ETXTBSY.
        let write = r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#;
        let status =
            Command::new("/bin/sh").args(["-c", write, "sh"]).arg(&path).arg(text).status();
        assert!(status.unwrap().success(), "{name}");
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_string).collect()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The command of opcost in the lab's folder, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.arranged(OPCOST, args)
    }

    /// The command of a `/bin/sh` line in the lab's folder, not yet started; `$OPCOST` is the program.
    pub(crate) fn shell(&self, line: &str) -> Command {
        self.arranged("/bin/sh", &["-c", line])
    }

    fn arranged(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.dir())
            .env("OPCOST", OPCOST)
            .env("OPCOST_STORE", self.store())
            // Tests make the machine busy, and ask about elapsed time.
            .env("OPCOST_PRIMARY", "wall")
            // Tests make recordings at the same time.
            .env("XDG_RUNTIME_DIR", self.path("."))
            .env("COLUMNS", "100")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs opcost to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.command(args).spawn().unwrap().end()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    /// Runs opcost, asserts status 0, and returns the standard output.
    #[track_caller]
    pub(crate) fn output(&self, args: &[&str]) -> String {
        self.run(args).expect(0).stdout
    }

    /// Runs opcost, asserts status 0, and returns the JSON from the standard output.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.output(args)).expect("JSON")
    }

    /// The runs of a recording, as the rows of its CSV.
    #[track_caller]
    pub(crate) fn runs(&self, id: &str) -> Vec<Vec<(String, String)>> {
        let ended = self.run(&["show", id, "--format", "csv"]);
        let mut reader = csv::Reader::from_reader(ended.stdout.as_bytes());
        let head = reader.headers().unwrap().clone();
        reader
            .records()
            .map(|row| {
                let row = row.unwrap();
                head.iter().zip(row.iter()).map(|(a, b)| (a.into(), b.into())).collect()
            })
            .collect()
    }

    /// One column of the runs of a recording.
    #[track_caller]
    pub(crate) fn column(&self, id: &str, name: &str) -> Vec<String> {
        self.runs(id)
            .into_iter()
            .map(|row| {
                let cell = row.into_iter().find(|(head, _)| head == name);
                cell.unwrap_or_else(|| panic!("no column '{name}'")).1
            })
            .collect()
    }

    /// The store's list of recordings, the newest last.
    #[track_caller]
    pub(crate) fn recordings(&self) -> Vec<Value> {
        self.json(&["list", "recordings", "--json"]).as_array().unwrap().clone()
    }

    /// Waits until a file ends with a complete line, and returns its text.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str) -> String {
        wait_until(name, || {
            fs::read_to_string(self.path(name)).ok().filter(|text| text.ends_with('\n'))
        })
    }
}

impl Ended {
    /// Asserts that the program ended with this status.
    #[track_caller]
    pub(crate) fn expect(self, status: i32) -> Ended {
        assert_eq!(
            self.status,
            Some(status),
            "\n--- standard output\n{}\n--- standard error\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Asserts that standard error has all of these parts.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Ended {
        for part in parts {
            assert!(self.stderr.contains(part), "no '{part}' in: {}", self.stderr);
        }
        self
    }
}

/// A comparison of commands that are counted alone, without a kernel.
pub(crate) const ALONE: [&str; 5] = ["compare", "--machine", "emulated", "--kernel", "none"];

/// A started process.
pub(crate) trait Started {
    /// Waits for the end of the process.
    fn end(self) -> Ended;
    fn signal(&self, signal: i32);
}

impl Started for Child {
    fn end(self) -> Ended {
        let output = self.wait_with_output().unwrap();
        Ended {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill takes integers only; the child is not waited for yet, so the number is still its own.
        assert_eq!(unsafe { libc::kill(self.id() as i32, signal) }, 0);
    }
}

/// Calls `ask` until it returns an answer; a test that hangs fails with `what`.
#[track_caller]
pub(crate) fn wait_until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process is gone, or dead and waiting for init to notice.
#[track_caller]
pub(crate) fn wait_gone(pid: &str) {
    let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    wait_until(&format!("the end of process {}", pid.trim()), || {
        let alive = fs::read_to_string(&stat)
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'));
        (!alive).then_some(())
    });
}

/// Whether a program is on the PATH.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir: PathBuf| Path::new(&dir).join(name).is_file())
}

/// Runs a script of `/bin/sh -e` in the folder, with mounts of its own that end with the script;
/// `None` if this machine does not allow it.
pub(crate) fn with_mounts(lab: &Lab, script: &str) -> Option<Ended> {
    // The script runs as root in a mount namespace, or else as root of a user namespace.
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--map-root-user"]];
    let way = ways.into_iter().find(|way| {
        let mut probe = Command::new("unshare");
        probe.args(*way).args(["sh", "-c", "mount -t tmpfs none /tmp"]);
        probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })?;
    let mut command = lab.arranged("unshare", &[way, &["sh", "-ec", script]].concat());
    Some(command.spawn().unwrap().end())
}

/// The CPUs this process may run on, as the kernel lists them: `0-3,8`.
pub(crate) fn cpus_allowed() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap().trim().to_string()
}

/// The first CPU this process may run on.
pub(crate) fn first_cpu() -> String {
    let list = cpus_allowed();
    list.split(['-', ',']).next().unwrap().to_string()
}

/// Compiles C code; returns the program's path.
pub(crate) fn compile(lab: &Lab, name: &str, code: &str, options: &[&str]) -> String {
    let source = lab.write(&format!("{name}.c"), code);
    let made = lab.path(name);
    let ended =
        Command::new("cc").args(options).arg("-O1").arg("-o").arg(&made).arg(source).status();
    assert!(ended.unwrap().success());
    made.to_str().unwrap().to_string()
}
