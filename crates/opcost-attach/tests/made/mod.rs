//! A program that uses patchpoint, built with the library from its sources, and run.

// Every test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// The program; `None`, and a line that says so, where it cannot be built.
pub(crate) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            eprintln!("SKIPPED: sites are patched on x86-64 Linux only");
            return None;
        }
        // The tests of another crate use this file, too.
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../opcost-attach");
        build(&here.join("tests/made/busy.c"), &here.join("../../patchpoint"), "busy")
    });
    program.as_deref()
}

/// Builds one file with the library.
pub(crate) fn build(source: &Path, library: &Path, name: &str) -> Option<PathBuf> {
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let sources = |folder: &str, beginning: &str| {
        let entries = std::fs::read_dir(library.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(beginning) && name.ends_with(".c")
        };
        paths.filter(named).collect::<Vec<_>>()
    };
    let built = Command::new("cc")
        .args(["-O2", "-pthread", "-fcf-protection", "-o"])
        .arg(&program)
        .arg("-I")
        .arg(library.join("include"))
        .arg(source)
        .args(sources("src", ""))
        .args(sources("src/arch", "x86_64"))
        .arg("-ldl")
        .output();
    match built {
        Ok(built) => {
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            Some(program)
        }
        Err(error) => {
            eprintln!("SKIPPED: no C compiler (cc): {error}");
            None
        }
    }
}

/// The program, running; killed with its owner.
pub(crate) struct Busy {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Busy {
    /// With so many threads beside its first; `how`: `plain`, `quiet` or nothing, as the program has
    /// it. `None` where it cannot be built.
    pub(crate) fn run(threads: u32, how: &str) -> Option<Busy> {
        let mut command = Command::new(program()?);
        command.args([&threads.to_string(), how]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut busy = Busy { child, input, output: BufReader::new(output) };
        assert_eq!(busy.line(), "ready");
        Some(busy)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Its answer to a question.
    #[track_caller]
    pub(crate) fn ask(&mut self, question: &str) -> String {
        writeln!(self.input, "{question}").unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    /// Kills it and does not wait.
    pub(crate) fn kill_only(&mut self) {
        self.child.kill().unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
