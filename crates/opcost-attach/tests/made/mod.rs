//! A program that uses patchpoint, built with the library from its sources, and run.

// Every test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// A process that is killed with its owner.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

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

/// The program without shared objects; `None` where it cannot be built.
pub(crate) fn static_program() -> Option<PathBuf> {
    program()?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = here.join("../../patchpoint");
    let files = [vec![here.join("tests/made/busy.c")], sources(&library)].concat();
    compile("busy-static", &library, &["-O2", "-static"], &files)
}

/// Builds one file with the library.
pub(crate) fn build(source: &Path, library: &Path, name: &str) -> Option<PathBuf> {
    let files = [vec![source.to_path_buf()], sources(library)].concat();
    compile(name, library, &["-O2"], &files)
}

/// The library's files for this architecture.
fn sources(library: &Path) -> Vec<PathBuf> {
    let files = |folder: &str, beginning: &str| {
        let entries = std::fs::read_dir(library.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let named = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with(beginning) && name.ends_with(".c")
        };
        paths.filter(named).collect::<Vec<_>>()
    };
    [files("src", ""), files("src/arch", "x86_64")].concat()
}

/// Compiles and links files into one of that name, its number behind it.
fn compile(name: &str, library: &Path, how: &[&str], files: &[PathBuf]) -> Option<PathBuf> {
    let made =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let built = Command::new("cc")
        .args(how)
        .args(["-pthread", "-fcf-protection", "-o"])
        .arg(&made)
        .arg("-I")
        .arg(library.join("include"))
        .arg("-I")
        .arg(library.join("tests"))
        .args(files)
        .arg("-ldl")
        .output();
    match built {
        Ok(built) => {
            assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
            Some(made)
        }
        Err(error) => {
            eprintln!("SKIPPED: no C compiler (cc): {error}");
            None
        }
    }
}

/// A program of several objects that share one library, `host.c`, running; `None` where it cannot
/// be built. `how`: `plain` or nothing, as the program has it.
pub(crate) fn host(how: Option<&str>) -> Option<Busy> {
    let [host, second] = built_host()?;
    Some(Busy::start(Command::new(host).arg(second).args(how)))
}

/// That program's file.
pub(crate) fn host_program() -> Option<&'static Path> {
    built_host().map(|[host, _]| host.as_path())
}

fn built_host() -> Option<&'static [PathBuf; 2]> {
    static BUILT: OnceLock<Option<[PathBuf; 2]>> = OnceLock::new();
    program()?;
    BUILT.get_or_init(build_host).as_ref()
}

/// The program, and the plugin that it opens.
fn build_host() -> Option<[PathBuf; 2]> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = here.join("../../patchpoint");
    let shared = ["-O2", "-fPIC", "-shared"];
    let patchpoint = compile("libpatchpoint.so", &library, &shared, &sources(&library))?;
    let plugin = |name: &str| {
        let source = library.join(format!("tests/{name}.c"));
        compile(name, &library, &shared, &[source, patchpoint.clone()])
    };
    let (first, second) = (plugin("plugin_first")?, plugin("plugin_second")?);
    let files = [here.join("tests/made/host.c"), first, patchpoint.clone()];
    Some([compile("host", &library, &["-O2"], &files)?, second])
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
        Some(Busy::start(&mut command))
    }

    pub(crate) fn start(command: &mut Command) -> Busy {
        Busy::try_start(command).expect("the program does not start")
    }

    pub(crate) fn try_start(command: &mut Command) -> Option<Busy> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut busy = Busy { child, input, output: BufReader::new(output) };
        (busy.line() == "ready").then_some(busy)
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
