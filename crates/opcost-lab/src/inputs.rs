//! The files that the runs of a command on this host read, watched for changes by others.
//!
//! A file that changes between two runs gives them other work, which no verdict survives. A file that the work or a hook writes has
//! changed when every variant has run once, so it is an output and is not watched any more.

use opcost_model::plan::{MachineKind, Plan, VariantPlan, WorkPlan};
use opcost_model::recording::DataState;
use opcost_record::printable::{hexadecimal, printable};
use opcost_sys::foreign_file;
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The folders of the kernel and of devices, whose files are no data.
pub(crate) const OF_THE_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// The most bytes of one file, and of all files together, whose contents are compared. A larger file counts as changed when it is
/// written.
const HASHED_BYTES_MAX: u64 = 64 << 20;

/// The marks of a file that was written: device, inode, length in bytes, and the time of its last change.
type Stamp = (u64, u64, u64, i64, i64);

/// A file whose contents changed: as it was, and as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedInput {
    /// The file as it was before the first run.
    pub before: DataState,
    /// The file as it is now.
    pub after: DataState,
}

impl ChangedInput {
    /// What changed, why that matters, and what to do.
    pub fn in_words(&self) -> String {
        let what = if self.after.sha256.is_empty() { "vanished" } else { "changed" };
        format!(
            "'{}' {what} while the runs read it, so they did not do the same work; run again on a copy that \
             nobody writes",
            printable(&self.before.path.to_string_lossy())
        )
    }
}

#[derive(Debug)]
struct Watched {
    /// The file before the first run; a file that is too large to be hashed has no digest.
    state: DataState,
    stamp: Option<Stamp>,
    /// Whether neither the work nor a hook can have written the file.
    is_read_only: bool,
}

/// The files that the runs of a plan read.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    files: Vec<Watched>,
}

impl Inputs {
    /// The standard input of the plan's commands, and the files that their arguments name.
    ///
    /// None for workloads, for machines that copy their files before the first run, and where `--rebuild` makes programs anew.
    pub(crate) fn of(plan: &Plan) -> Inputs {
        if plan.machine() != MachineKind::Host || plan.build().is_some() {
            return Inputs::default();
        }
        let mut inputs = Inputs::default();
        let mut left = HASHED_BYTES_MAX;
        for (index, variant) in plan.variants.iter().enumerate() {
            let WorkPlan::Command { argv, .. } = &variant.work else { continue };
            let has_hook = plan.has_hooks_around(index);
            let input = variant.input.as_deref();
            for path in named(argv, input, folder_of(variant)) {
                let is_read_only = !has_hook && is_input(variant, &path);
                match inputs.files.iter_mut().find(|file| file.state.path == path) {
                    Some(known) => known.is_read_only |= is_read_only,
                    None => inputs.files.extend(Watched::new(path, is_read_only, &mut left)),
                }
            }
        }
        inputs
    }

    /// Forgets what the work wrote when every variant ran once.
    pub(crate) fn forget_outputs(&mut self) {
        self.files.retain(|file| file.is_read_only || file.stamp == stamp_of(&file.state.path));
    }

    /// The first file whose contents are no longer those from before the first run.
    pub(crate) fn changed(&mut self) -> Option<ChangedInput> {
        self.files.iter_mut().find_map(Watched::changed)
    }
}

impl Watched {
    /// `left`: the bytes that may still be hashed; `None` if the path is no regular file.
    fn new(path: PathBuf, is_read_only: bool, left: &mut u64) -> Option<Watched> {
        let length = std::fs::metadata(&path).ok().filter(Metadata::is_file)?.len();
        let stamp = stamp_of(&path);
        let sha256 = if length <= *left {
            *left -= length;
            contents(&path)?
        } else {
            String::new()
        };
        Some(Watched { state: DataState { path, sha256 }, stamp, is_read_only })
    }

    fn changed(&mut self) -> Option<ChangedInput> {
        let now = stamp_of(&self.state.path);
        if now == self.stamp {
            return None;
        }
        let sha256 = match self.state.sha256.is_empty() {
            false => contents(&self.state.path).unwrap_or_default(),
            true => String::from("written"),
        };
        if sha256 == self.state.sha256 {
            self.stamp = now;
            return None;
        }
        let after = DataState { path: self.state.path.clone(), sha256 };
        Some(ChangedInput { before: self.state.clone(), after })
    }
}

/// The folder of a variant's runs.
fn folder_of(variant: &VariantPlan) -> &Path {
    variant.cwd.as_deref().unwrap_or(Path::new("."))
}

/// Whether a path is a variant's standard input.
fn is_input(variant: &VariantPlan, path: &Path) -> bool {
    let input =
        variant.input.as_ref().and_then(|input| folder_of(variant).join(input).canonicalize().ok());
    input.as_deref() == Some(path)
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

/// SHA-256 of a file's contents in hexadecimal; `None` if the file cannot be read.
fn contents(path: &Path) -> Option<String> {
    digest(path).ok().map(|digest| hexadecimal(&digest))
}

/// SHA-256 of a file's contents.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn digest(path: &Path) -> io::Result<Vec<u8>> {
    let mut digest = Sha256::new();
    pieces(path, |piece| {
        digest.update(piece);
        true
    })?;
    Ok(digest.finalize().to_vec())
}

/// Reads a file piece by piece as long as `take` returns true.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn pieces(path: &Path, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut file = foreign_file::open(path, u64::MAX)?;
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(()),
            length if take(&piece[..length]) => {}
            _ => return Ok(()),
        }
    }
}

/// The files and folders that a command's arguments name, also as `--option=FILE` and within the text for a shell, and its standard
/// input; as paths without links.
pub(crate) fn named(argv: &[OsString], input: Option<&Path>, cwd: &Path) -> Vec<PathBuf> {
    let is_script = |at: usize| at > 1 && argv[at - 1] == "-c";
    let arguments = argv.iter().enumerate().skip(1).flat_map(|(at, argument)| {
        let bytes = argument.as_bytes();
        let behind = bytes.splitn(2, |byte| *byte == b'=').nth(1);
        let words = bytes.split(|byte| b" \t\n;|&<>()'\"".contains(byte));
        let words = words.filter(move |_| is_script(at));
        let parts: Vec<OsString> =
            behind.into_iter().chain(words).map(|part| OsStr::from_bytes(part).into()).collect();
        [argument.clone()].into_iter().chain(parts)
    });
    let paths = arguments.filter(|text| !text.is_empty()).chain(input.map(OsString::from));
    let real = paths.filter_map(|path| cwd.join(path).canonicalize().ok());
    let mut real: Vec<PathBuf> = real
        .filter(|path| !OF_THE_KERNEL.iter().any(|folder| path.starts_with(folder)))
        .filter(|path| path.is_file() || path.is_dir())
        .collect();
    real.sort();
    real.dedup();
    real
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::fixture::{FakeSurroundings, experiment};
    use crate::resolve::resolve;
    use std::fs::write;

    /// The inputs of a command with two files as arguments and one as its standard input.
    fn inputs(folder: &Path, prepare: Option<&str>) -> Inputs {
        for name in ["argument", "option", "input"] {
            write(folder.join(name), "before").unwrap();
        }
        let mut plan = resolve(&experiment(2, 2), &FakeSurroundings::default()).unwrap();
        for variant in &mut plan.variants {
            variant.cwd = Some(folder.into());
            variant.input = Some(folder.join("input"));
            variant.prepare = prepare.map(String::from);
            let argv = ["work", "argument", "--file=option", "none", "."].map(OsString::from);
            let line = String::from("work");
            variant.work = WorkPlan::Command { program: "/work".into(), argv: argv.into(), line };
        }
        Inputs::of(&plan)
    }

    fn changed(inputs: &mut Inputs) -> Option<String> {
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        inputs.changed().map(|changed| name(&changed.before.path))
    }

    #[test]
    fn contents_that_change_are_seen_and_a_touch_is_none() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["argument", "option", "input"] {
            let mut inputs = inputs(folder.path(), None);
            inputs.forget_outputs();
            assert_eq!(changed(&mut inputs), None);
            write(folder.path().join(name), "before").unwrap();
            assert_eq!(changed(&mut inputs), None);
            write(folder.path().join(name), "later!").unwrap();
            assert_eq!(changed(&mut inputs).as_deref(), Some(name));
            std::fs::remove_file(folder.path().join(name)).unwrap();
            assert_eq!(changed(&mut inputs).as_deref(), Some(name));
        }
    }

    #[test]
    fn what_the_work_or_a_hook_writes_is_no_input() {
        let folder = tempfile::tempdir().unwrap();
        for (prepare, seen) in [(None, Some("input")), (Some("make input"), None)] {
            let mut inputs = inputs(folder.path(), prepare);
            for name in ["argument", "input"] {
                write(folder.path().join(name), "by a run").unwrap();
            }
            inputs.forget_outputs();
            write(folder.path().join("argument"), "by another run").unwrap();
            assert_eq!(changed(&mut inputs).as_deref(), seen);
        }
    }

    #[test]
    fn a_shells_text_names_files() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path().join("a"), "").unwrap();
        write(folder.path().join("b c"), "").unwrap();
        let of = |words: &[&str]| {
            let argv: Vec<OsString> = words.iter().map(OsString::from).collect();
            named(&argv, None, folder.path()).len()
        };
        assert_eq!(of(&["sh", "-c", "sort <a|wc; /dev/null /proc/version"]), 1);
        assert_eq!((of(&["cat", "b c"]), of(&["cat", "sort <a"]), of(&["a", "x"])), (1, 0, 0));
    }
}
