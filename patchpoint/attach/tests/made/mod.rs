//! Builds a program that uses patchpoint, with the library from its sources, and runs it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

/// The program; if it cannot be built, `None`, and the test is skipped.
pub(crate) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Built> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return Err("sites are patched on x86-64 Linux only".into());
        }
        let library = library();
        build(&library.join("attach/tests/made/busy.c"), &library, "busy")
    });
    or_skip(program).map(PathBuf::as_path)
}

/// The folder of the library; the tests of another package of the repository use this file, too.
pub(crate) fn library() -> PathBuf {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = above.flat_map(|folder| [folder.to_path_buf(), folder.join("patchpoint")]);
    folders.find(|folder| folder.join("include/patchpoint.h").exists()).unwrap()
}

/// A built file, or the reason why it cannot be built here.
pub(crate) type Built<T = PathBuf> = Result<T, String>;

/// The built file; without it, every test that asks is skipped.
pub(crate) fn or_skip<T>(built: &Built<T>) -> Option<&T> {
    built.as_ref().map_err(|why| crate::skip::skip!("{why}")).ok()
}

/// Builds one file with the library.
pub(crate) fn build(source: &Path, library: &Path, name: &str) -> Built {
    let files = [vec![source.to_path_buf()], sources(library)].concat();
    compile(name, library, &["-O2"], &files)
}

/// The library's files for this architecture.
pub(crate) fn sources(library: &Path) -> Vec<PathBuf> {
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

/// Compiles and links files into `NAME-PID`, with this process's number.
pub(crate) fn compile(name: &str, library: &Path, how: &[&str], files: &[PathBuf]) -> Built {
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
            Ok(made)
        }
        Err(error) => Err(format!("no C compiler (cc): {error}")),
    }
}

/// The running program; it is killed when dropped.
pub(crate) struct Busy {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Busy {
    /// Starts the program with `threads` threads beside its first; `how`: `plain`, `quiet` or
    /// nothing, as the program takes it. `None` if it cannot be built.
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

    /// The program's answer to a question.
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
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
