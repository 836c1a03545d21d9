//! The files, apart from programs and libraries, on which the counts of emulated work depend, by their contents.

use super::packing::CommandPack;
use super::tree::{Node, Tree, moved};
use crate::inputs;
use opcost_model::plan::GUEST_TREE;
use opcost_model::recording::DataState;
use opcost_record::printable::hexadecimal;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files of one variant.
#[derive(Clone, Debug, Default)]
pub(super) struct WorkData {
    files: Vec<(DataState, Option<Stamp>)>,
}

/// The marks of a file that was written: its length in bytes and the time of its last change.
type Stamp = (u64, i64, i64);

/// The most entries of a folder that an argument names, and the most bytes of their contents, that are looked at: what a command
/// reads of a whole disk is not.
const ENTRIES_MAX: usize = 20_000;
const FOLDER_BYTES_MAX: u64 = 256 << 20;

impl WorkData {
    /// The files in a guest's memory. Several files of one folder count together, unless an argument names them.
    ///
    /// `programs`: the paths in the guest of what is no data; `tree`: the folder of this machine that the guest has at
    /// [`GUEST_TREE`].
    pub(super) fn of_guest(
        packed: &Tree,
        programs: &[&Path],
        named: &[PathBuf],
        tree: Option<&Path>,
    ) -> WorkData {
        let here = |path: &Path| match tree {
            Some(tree) => moved(path, Path::new(GUEST_TREE), tree),
            None => path.to_path_buf(),
        };
        let mut groups: BTreeMap<PathBuf, Vec<(PathBuf, Vec<u8>)>> = BTreeMap::new();
        for (path, node) in packed.nodes() {
            let own = path.starts_with("/opcost") || programs.contains(&path);
            // The digest of the root stands for its files.
            if own || packed.is_of_root(path) {
                continue;
            }
            let digest = match node {
                Node::File { contents, .. } => Sha256::digest(contents).to_vec(),
                Node::Large { data, .. } => data.sha256.clone(),
                _ => continue,
            };
            let path = here(path);
            let folder = path.parent().unwrap_or(Path::new("/")).to_path_buf();
            let group = if named.contains(&path) { path.clone() } else { folder };
            groups.entry(group).or_default().push((path, digest));
        }
        let files = groups.into_iter().map(|(folder, files)| match files.as_slice() {
            [(path, digest)] => {
                (DataState { path: path.clone(), sha256: hexadecimal(digest) }, None)
            }
            files => {
                let mut all = Sha256::new();
                for (path, digest) in files {
                    entry(&mut all, path.strip_prefix(&folder).unwrap_or(path), digest);
                }
                (DataState { path: folder, sha256: hexadecimal(&all.finalize()) }, None)
            }
        });
        WorkData { files: files.collect() }
    }

    /// Adds what is known by a digest already.
    pub(super) fn with(mut self, state: Option<DataState>) -> WorkData {
        self.files.extend(state.map(|state| (state, None)));
        self
    }

    /// The files of this machine that a command without a kernel reads, as far as its arguments tell; `loader_cache`: the loader's
    /// list of libraries, if a loader reads it.
    pub(super) fn of_command(command: &CommandPack, loader_cache: Option<&Path>) -> WorkData {
        let paths = named(command).into_iter().chain(loader_cache.map(Path::to_path_buf));
        let files = paths.filter_map(|path| {
            let metadata = fs::metadata(&path).ok()?;
            let digest = match metadata.is_dir() {
                true => folder(&path),
                false => inputs::digest(&path).ok()?,
            };
            let stamp = Some(stamp(&metadata)).filter(|_| metadata.is_file());
            Some((DataState { path, sha256: hexadecimal(&digest) }, stamp))
        });
        WorkData { files: files.collect() }
    }

    /// The files that no run has written. The contents of others are the work's own results.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = &DataState> {
        let is_as_before = |(state, before): &&(DataState, Option<Stamp>)| {
            let now = || fs::metadata(&state.path).ok().map(|metadata| stamp(&metadata));
            before.is_none() || *before == now()
        };
        self.files.iter().filter(is_as_before).map(|(state, _)| state)
    }

    /// Whether a run has written a file.
    pub(super) fn is_written(&self) -> bool {
        self.unwritten().count() < self.files.len()
    }
}

/// The files and folders that a command's arguments name, and its standard input.
pub(super) fn named(command: &CommandPack) -> Vec<PathBuf> {
    inputs::named(&command.argv, command.input.as_deref(), &command.cwd)
}

fn stamp(metadata: &fs::Metadata) -> Stamp {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Adds a name and what it holds to a digest, so that no other list gives the same bytes.
pub(super) fn entry(all: &mut Sha256, name: &Path, contents: &[u8]) {
    for part in [name.as_os_str().as_bytes(), contents] {
        all.update((part.len() as u64).to_le_bytes());
        all.update(part);
    }
}

/// A digest of a folder: the names and lengths of everything below, and the contents of its files as far as they are looked at.
fn folder(path: &Path) -> Vec<u8> {
    let (mut all, mut left, mut bytes_left) = (Sha256::new(), ENTRIES_MAX, FOLDER_BYTES_MAX);
    let mut waiting = vec![path.to_path_buf()];
    while let Some(next) = waiting.pop() {
        let mut paths: Vec<PathBuf> = fs::read_dir(&next)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        paths.sort();
        for below in paths {
            let Some(rest) = left.checked_sub(1) else { return all.finalize().to_vec() };
            left = rest;
            let Ok(metadata) = fs::symlink_metadata(&below) else { continue };
            let length = metadata.len();
            let digest = match bytes_left.checked_sub(length) {
                Some(rest) if metadata.is_file() => {
                    bytes_left = rest;
                    inputs::digest(&below).unwrap_or_default()
                }
                _ if metadata.is_file() => length.to_le_bytes().to_vec(),
                _ => Vec::new(),
            };
            entry(&mut all, below.strip_prefix(path).unwrap_or(&below), &digest);
            if metadata.is_dir() {
                waiting.push(below);
            }
        }
    }
    all.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::request::GuestOutput;
    use std::ffi::OsString;

    fn command(cwd: &Path, argv: &[&str]) -> CommandPack {
        CommandPack {
            program: "/bin/x".into(),
            argv: argv.iter().map(OsString::from).collect(),
            env: Vec::new(),
            cwd: cwd.to_path_buf(),
            pack: Vec::new(),
            used: Vec::new(),
            input: None,
            output: GuestOutput::Null,
            sends: false,
        }
    }

    fn states(data: &WorkData) -> Vec<DataState> {
        data.unwritten().cloned().collect()
    }

    #[test]
    fn contents_of_what_arguments_name_are_seen_and_results_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        fs::create_dir_all(here.join("sub/deep")).unwrap();
        for name in ["a", "b", "sub/c", "sub/deep/d"] {
            fs::write(here.join(name), name).unwrap();
        }
        let of = |argv: &[&str]| WorkData::of_command(&command(&here, argv), None);
        let all = of(&["x", "a", "--from=b", "sub", "none", "/dev/null", "a"]);
        let paths = states(&all).into_iter().map(|data| data.path).collect::<Vec<_>>();
        assert_eq!(paths, ["a", "b", "sub"].map(|name| here.join(name)));
        // FIPS 180-2, appendix B.1.
        fs::write(here.join("b"), "abc").unwrap();
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(states(&of(&["x", "b"]))[0].sha256, sha256);
        // A file that was written since then is a result.
        assert!(all.is_written());
        assert_eq!(states(&all).len(), 2);
        let before = states(&of(&["x", "sub"]));
        assert_eq!(states(&of(&["x", "sub"])), before);
        for (name, text) in [("sub/deep/d", "e"), ("sub/deep/e", ""), ("sub/deep/d", "")] {
            let known = states(&of(&["x", "sub"]));
            fs::write(here.join(name), text).unwrap();
            assert_ne!(states(&of(&["x", "sub"])), known, "{name}");
        }
    }

    #[test]
    fn files_of_a_guest_count_by_folder_and_those_of_the_tree_have_their_path_here() {
        let mut packed = Tree::default();
        let mut put = |path: &str, text: &str| {
            packed.put(path, Node::File { mode: 0o644, contents: text.into() });
        };
        put("/init", "program");
        put("/opcost/request", "job");
        put("/usr/lib/p/a.py", "a");
        put("/usr/lib/p/b.py", "b");
        put("/etc/hosts", "h");
        put("/tree/data", "d");
        let of = |packed: &Tree, named: &[PathBuf]| {
            let programs = [Path::new("/init")];
            states(&WorkData::of_guest(packed, &programs, named, Some(Path::new("/home/me"))))
        };
        let paths = |all: &[DataState]| -> Vec<String> {
            all.iter().map(|data| data.path.to_string_lossy().into_owned()).collect()
        };
        let all = of(&packed, &[]);
        assert_eq!(paths(&all), ["/etc/hosts", "/home/me/data", "/usr/lib/p"]);
        let apart = of(&packed, &["/usr/lib/p/a.py".into()]);
        assert_eq!(
            paths(&apart),
            ["/etc/hosts", "/home/me/data", "/usr/lib/p/b.py", "/usr/lib/p/a.py"]
        );
        packed.put("/usr/lib/p/b.py", Node::File { mode: 0o644, contents: "c".into() });
        let after = of(&packed, &[]);
        assert_eq!(all.iter().zip(&after).filter(|(one, two)| one != two).count(), 1);
    }
}
