//! The files of an initramfs, and the packing of this machine's files into it.
//!
//! **Guests of a gate have the revision's tree at `/tree`.** A path's length and names affect a program's stack and the
//! kernel's lookups, so the tree's place in the cache would affect every count. The tree is a field of experiments, so the
//! page of a gate's recording can name it.

use crate::inputs::{self, OF_THE_KERNEL};
use object::{Object, ObjectSegment};
use opcost_image::{Data, Kind, Root};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// The limit for the files of one guest, bytes: the largest memory of a guest holds no more beside its kernel.
pub const PACK_BYTES_MAX: u64 = 56 << 30;

/// The length from which on data stay in their file until a guest boots, bytes.
const LARGE_BYTES_MIN: u64 = 16 << 20;

/// The most symbolic links in the resolution of a path (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Why a file cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A file cannot be read.
    #[error("cannot pack '{}' into the guest: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A path leads through too many links.
    #[error("cannot pack '{}' into the guest: more than {LINKS_MAX} symbolic links", .0.display())]
    Links(PathBuf),
    /// The path belongs to a file system that describes this machine.
    #[error(
        "cannot pack '{}' into the guest: the guest has a {} of its own", .0.display(),
        .0.components().take(2).collect::<PathBuf>().display()
    )]
    OwnFileSystem(PathBuf),
    /// A path is a link here but a directory in the guest.
    #[error(
        "cannot pack '{}' into the guest: it is a link here, but a directory in the guest, since \
         something else is packed into it: choose another place for that", .0.display()
    )]
    LinkOverDirectory(PathBuf),
    /// The files exceed the limit.
    #[error(
        "more than {} MiB would be packed into the guest; the largest file is '{}' with {} MiB: \
         leave it out or name a smaller one", PACK_BYTES_MAX >> 20, .largest.display(),
        .largest_bytes >> 20
    )]
    TooLarge {
        /// The largest file.
        largest: PathBuf,
        /// Its size, bytes.
        largest_bytes: u64,
    },
    /// A file is not what it was when it was packed.
    #[error(
        "'{}' changed while it was packed into the guest; run again when nothing writes it, or pack a copy",
        .0.display()
    )]
    Changed(PathBuf),
}

/// One file of the guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Node {
    /// A directory.
    Directory { mode: u32 },
    /// A regular file.
    File { mode: u32, contents: Vec<u8> },
    /// A regular file with many data, which are no program.
    Large { mode: u32, data: LargeData },
    /// Another name of the regular file at this path.
    Same { first: PathBuf },
    /// A symbolic link.
    Link { target: PathBuf },
    /// A character device with its major and minor number.
    Device { mode: u32, number: (u32, u32) },
}

/// Data that stay in a file of this machine until a guest boots.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct LargeData {
    host: PathBuf,
    /// The length, bytes.
    pub(super) length: u64,
    /// SHA-256.
    pub(super) sha256: Vec<u8>,
}

impl LargeData {
    /// Reads the data piece by piece.
    ///
    /// # Errors
    /// The file cannot be read, or has other data than before.
    pub(super) fn read(&self, mut take: impl FnMut(&[u8])) -> Result<(), TreeError> {
        let (mut digest, mut length) = (Sha256::new(), 0);
        inputs::pieces(&self.host, |piece| {
            digest.update(piece);
            length += piece.len() as u64;
            // A file that grows is not read without end.
            if length <= self.length {
                take(piece);
            }
            length <= self.length
        })
        .map_err(|source| TreeError::Read { path: self.host.clone(), source })?;
        match digest.finalize()[..] == self.sha256[..] {
            true => Ok(()),
            false => Err(TreeError::Changed(self.host.clone())),
        }
    }
}

/// A file that was packed.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PackedFile {
    /// The path on this machine.
    pub host: PathBuf,
    /// The path in the guest.
    pub guest: PathBuf,
}

/// All files of a guest, by their absolute paths.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Tree {
    /// A directory comes before its contents.
    nodes: BTreeMap<PathBuf, Node>,
    /// Modification times of files for which they matter, seconds since 1970.
    changed_s: BTreeMap<PathBuf, u32>,
    /// Users and groups of files that are not the superuser's.
    owners: BTreeMap<PathBuf, (u32, u32)>,
    /// The files that come from the guest's own root.
    of_root: BTreeSet<PathBuf>,
    /// Bytes of this machine's files.
    packed_bytes: u64,
    largest: Option<(u64, PathBuf)>,
}

impl Tree {
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&Path, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_path(), node))
    }

    /// All files, and the modification times of those for which they matter.
    pub(super) fn nodes_mut(&mut self) -> impl Iterator<Item = (&Path, &mut Node, Option<u32>)> {
        let times = &self.changed_s;
        self.nodes.iter_mut().map(|(path, node)| (path.as_path(), node, times.get(path).copied()))
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        self.nodes.contains_key(path)
    }

    /// The contents of a regular file; of large data, which are no program, nothing.
    pub(super) fn contents(&self, path: &Path) -> Option<&[u8]> {
        match self.nodes.get(path)? {
            Node::File { contents, .. } => Some(contents),
            Node::Large { .. } => Some(&[]),
            _ => None,
        }
    }

    /// The modification time of a file, seconds since 1970; `None` if it should be the same everywhere.
    pub(super) fn changed_s(&self, path: &Path) -> Option<u32> {
        self.changed_s.get(path).copied()
    }

    /// The user and group of a file.
    pub(super) fn owner(&self, path: &Path) -> (u32, u32) {
        self.owners.get(path).copied().unwrap_or_default()
    }

    /// The regular files that have other names, too.
    pub(super) fn with_other_names(&self) -> BTreeSet<&Path> {
        fn first(node: &Node) -> Option<&Path> {
            match node {
                Node::Same { first } => Some(first),
                _ => None,
            }
        }
        self.nodes.values().filter(|_| self.has_root()).filter_map(first).collect()
    }

    /// Whether the guest has a root of its own.
    pub(super) fn has_root(&self) -> bool {
        !self.of_root.is_empty()
    }

    /// Whether a file comes from the guest's own root.
    pub(super) fn is_of_root(&self, path: &Path) -> bool {
        self.of_root.contains(path)
    }

    /// Adds the files of a root.
    pub(super) fn add_root(&mut self, root: &Root) {
        for (path, entry) in &root.entries {
            let mode = entry.mode;
            let node = match &entry.kind {
                Kind::Folder => Node::Directory { mode },
                Kind::Link(target) => Node::Link { target: target.clone() },
                Kind::Same(first) => Node::Same { first: first.clone() },
                Kind::File(data) => {
                    let Data { host, length, sha256 } = data.clone();
                    Node::Large { mode, data: LargeData { host, length, sha256 } }
                }
            };
            // The kernel gives a file the time of its last name.
            if let Kind::Same(_) | Kind::File(_) = &entry.kind {
                self.changed_s.insert(path.clone(), entry.changed_s);
            }
            if entry.owner != (0, 0) {
                self.owners.insert(path.clone(), entry.owner);
            }
            self.nodes.insert(path.clone(), node);
            self.of_root.insert(path.clone());
        }
    }

    /// Takes a file of the root away, so that another may have its place. Its other names stay.
    fn take_from_root(&mut self, path: &Path) {
        if !self.of_root.remove(path) {
            return;
        }
        let (owner, time) = (self.owners.remove(path), self.changed_s.remove(path));
        let mut next: Option<PathBuf> = None;
        for (other, node) in &mut self.nodes {
            if let Node::Same { first } = node
                && first == path
            {
                first.clone_from(next.get_or_insert_with(|| other.clone()));
            }
        }
        if let (Some(next), Some(node)) = (next, self.nodes.remove(path)) {
            self.owners.extend(owner.map(|owner| (next.clone(), owner)));
            self.changed_s.extend(time.map(|time| (next.clone(), time)));
            self.nodes.insert(next, node);
        }
    }

    /// Keeps a file's modification time. An interpreter compares a source's time with the time in a
    /// cached compilation.
    pub(super) fn keep_time(&mut self, path: PathBuf, metadata: &Metadata) {
        self.changed_s.extend(u32::try_from(metadata.mtime()).ok().map(|time_s| (path, time_s)));
    }

    /// Adds or replaces a file; adds the missing directories above it.
    pub(super) fn put(&mut self, path: impl Into<PathBuf>, node: Node) {
        let path = path.into();
        self.take_from_root(&path);
        self.make_parents(&path);
        self.nodes.insert(path, node);
    }

    /// Removes a file.
    pub(super) fn remove(&mut self, path: &Path) {
        self.nodes.remove(path);
    }

    /// Adds a directory and the directories above it where they are missing.
    pub(super) fn put_directory(&mut self, path: &Path) {
        self.make_parents(path);
        if path.parent().is_some() {
            self.nodes.entry(path.to_path_buf()).or_insert(Node::Directory { mode: 0o755 });
        }
    }

    fn make_parents(&mut self, path: &Path) {
        for parent in path.ancestors().skip(1).filter(|parent| parent.parent().is_some()) {
            self.nodes.entry(parent.to_path_buf()).or_insert(Node::Directory { mode: 0o755 });
        }
    }

    /// Resolves a path of the guest by the links in the tree. Files cannot be packed below a link
    /// itself: the kernel may unpack them before the link's target.
    pub(super) fn place(&self, path: &Path) -> Result<PathBuf, TreeError> {
        let mut left = parts(path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            at.push(&part);
            if let Some(Node::Link { target }) = self.nodes.get(&at) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(TreeError::Links(path.to_path_buf()));
                }
                at = if target.is_absolute() { "/".into() } else { at.with_file_name("") };
                parts(target).into_iter().rev().for_each(|part| left.push_front(part));
            }
        }
        Ok(at)
    }

    /// Packs the file or directory at a path of this machine at the same path, with every link and
    /// directory on the way. Returns the path that it resolves to.
    ///
    /// `path`: absolute. A directory is packed without its contents.
    pub(super) fn pack(&mut self, path: &Path) -> Result<PathBuf, TreeError> {
        let failed = |at: &Path, source| TreeError::Read { path: at.to_path_buf(), source };
        let mut left: VecDeque<OsString> = parts(path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(part) = left.pop_front() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            if OF_THE_KERNEL.iter().any(|folder| next == Path::new(folder)) {
                return Err(TreeError::OwnFileSystem(path.to_path_buf()));
            }
            let metadata = next.symlink_metadata().map_err(|source| failed(&next, source))?;
            if metadata.is_symlink() {
                links += 1;
                if links > LINKS_MAX {
                    return Err(TreeError::Links(path.to_path_buf()));
                }
                let target = fs::read_link(&next).map_err(|source| failed(&next, source))?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in parts(&target).into_iter().rev() {
                    left.push_front(part);
                }
                if let Some(Node::Directory { .. }) = self.nodes.get(&next) {
                    return Err(TreeError::LinkOverDirectory(next));
                }
                self.put(next, Node::Link { target });
                continue;
            }
            if metadata.is_dir() {
                let mode = mode_of(&metadata);
                self.nodes.insert(next.clone(), Node::Directory { mode });
            } else {
                if !left.is_empty() {
                    return Err(failed(path, io::ErrorKind::NotADirectory.into()));
                }
                self.pack_file(&next, &next, &metadata)?;
            }
            at = next;
        }
        Ok(at)
    }

    /// Moves a folder with its contents to another place, which does not exist yet. If a file in
    /// the folder mentions the old path, a link is put there.
    pub(super) fn relocate(&mut self, from: &Path, to: &Path) {
        let relocated = |path: &Path| moved(path, from, to);
        let mentions = |part: &[u8]| has(part, from.as_os_str().as_bytes());
        let spoken_of = |node: &Node| match node {
            Node::File { contents, .. } => used_parts(contents).into_iter().any(mentions),
            Node::Large { data, .. } => fs::read(&data.host).is_ok_and(|data| mentions(&data)),
            _ => false,
        };
        let mut is_spoken_of = false;
        for (path, node) in std::mem::take(&mut self.nodes) {
            is_spoken_of |= path.starts_with(from) && spoken_of(&node);
            let node = match node {
                Node::Link { target } => Node::Link { target: relocated(&target) },
                other => other,
            };
            self.nodes.insert(relocated(&path), node);
        }
        let times = std::mem::take(&mut self.changed_s);
        let times = times.into_iter().map(|(path, time)| (relocated(&path), time));
        // Each build gives a program another time. The guests of an unchanged program are the same nevertheless.
        let is_program = |path: &Path| {
            path.starts_with(to)
                && self.contents(path).is_some_and(|contents| contents.starts_with(b"\x7fELF"))
        };
        let times = times.filter(|(path, _)| !is_program(path)).collect();
        self.changed_s = times;
        // Directories that only led to the folder are removed.
        for folder in from.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
            let next = self.nodes.range(folder.to_path_buf()..).nth(1);
            if next.is_some_and(|(path, _)| path.starts_with(folder)) {
                break;
            }
            self.nodes.remove(folder);
        }
        if is_spoken_of {
            self.put(from, Node::Link { target: to.to_path_buf() });
        }
    }

    /// Packs one regular file of this machine at any path of the guest.
    pub(super) fn pack_file(
        &mut self,
        host: &Path,
        guest: &Path,
        metadata: &Metadata,
    ) -> Result<(), TreeError> {
        let failed = |source| TreeError::Read { path: host.to_path_buf(), source };
        if OF_THE_KERNEL.iter().any(|folder| guest.starts_with(folder)) {
            return Err(TreeError::OwnFileSystem(guest.to_path_buf()));
        }
        if !metadata.is_file() {
            return Err(failed(io::Error::other("neither a file nor a directory")));
        }
        let is_packed =
            matches!(self.nodes.get(guest), Some(Node::File { .. } | Node::Large { .. }));
        if is_packed && !self.is_of_root(guest) {
            return Ok(());
        }
        let bytes = metadata.len();
        self.packed_bytes += bytes;
        if self.largest.as_ref().is_none_or(|(largest_bytes, _)| bytes > *largest_bytes) {
            self.largest = Some((bytes, host.to_path_buf()));
        }
        if self.packed_bytes > PACK_BYTES_MAX
            && let Some((largest_bytes, largest)) = self.largest.clone()
        {
            return Err(TreeError::TooLarge { largest, largest_bytes });
        }
        let mode = mode_of(metadata);
        let node = match bytes >= LARGE_BYTES_MIN && !may_be_program(host).map_err(failed)? {
            true => {
                let sha256 = inputs::digest(host).map_err(failed)?;
                Node::Large { mode, data: LargeData { host: host.into(), length: bytes, sha256 } }
            }
            false => Node::File { mode, contents: fs::read(host).map_err(failed)? },
        };
        self.put(guest, node);
        Ok(())
    }

    /// Packs a directory of this machine with its contents; links stay links. Returns the regular
    /// files. Sockets, pipes and devices are left out.
    pub(super) fn pack_directory(
        &mut self,
        host: &Path,
        guest: &Path,
    ) -> Result<Vec<PackedFile>, TreeError> {
        if OF_THE_KERNEL.iter().any(|folder| guest.starts_with(folder)) || guest == Path::new("/") {
            return Err(TreeError::OwnFileSystem(guest.to_path_buf()));
        }
        let mut files = Vec::new();
        let mut folders = vec![(host.to_path_buf(), guest.to_path_buf())];
        while let Some((host, guest)) = folders.pop() {
            let failed = |source| TreeError::Read { path: host.clone(), source };
            let mode = mode_of(&host.metadata().map_err(failed)?);
            self.put(&guest, Node::Directory { mode });
            for entry in fs::read_dir(&host).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let (host, guest) = (entry.path(), guest.join(entry.file_name()));
                let failed = |source| TreeError::Read { path: host.clone(), source };
                let metadata = entry.metadata().map_err(failed)?;
                if metadata.is_symlink() {
                    let target = fs::read_link(&host).map_err(failed)?;
                    self.put(guest, Node::Link { target });
                } else if metadata.is_dir() {
                    folders.push((host, guest));
                } else if metadata.is_file() {
                    self.pack_file(&host, &guest, &metadata)?;
                    files.push(PackedFile { host, guest });
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Whether a file begins as ELF files or scripts do.
fn may_be_program(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    fs::File::open(path)?.take(4).read_to_end(&mut start)?;
    Ok(start.starts_with(b"\x7fELF") || start.starts_with(b"#!"))
}

/// The names in a path, and its `..` steps.
fn parts(path: &Path) -> VecDeque<OsString> {
    let names =
        path.components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    names.map(|part| part.as_os_str().to_os_string()).collect()
}

/// The new path of a file after its folder has moved.
pub(super) fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_path_buf(),
    }
}

/// The parts of a file that a program may read: of ELF files the loaded segments, so no debug information.
fn used_parts(contents: &[u8]) -> Vec<&[u8]> {
    let Ok(file) = object::File::parse(contents) else { return vec![contents] };
    let part = |(at, length): (u64, u64)| {
        let at = usize::try_from(at).ok()?;
        contents.get(at..at.checked_add(usize::try_from(length).ok()?)?)
    };
    file.segments().filter_map(|segment| part(segment.file_range())).collect()
}

/// Whether `bytes` contains `wanted`.
fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    let Some(first) = wanted.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(wanted) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

fn mode_of(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn paths(tree: &Tree) -> Vec<&Path> {
        tree.nodes().map(|(path, _)| path).collect()
    }

    #[test]
    fn links_on_the_way_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        fs::write(root.join("real/file"), "x").unwrap();
        symlink("real", root.join("short")).unwrap();
        symlink(root.join("short/../short/file"), root.join("far")).unwrap();
        let mut tree = Tree::default();
        assert_eq!(tree.pack(&root.join("far")).unwrap(), root.join("real/file"));
        let expected: Vec<PathBuf> =
            ["far", "real", "real/file", "short"].map(|name| root.join(name)).into();
        let within: Vec<&Path> =
            paths(&tree).into_iter().filter(|path| *path > root.as_path()).collect();
        assert_eq!(within, expected);
        assert_eq!(tree.nodes[&root.join("short")], Node::Link { target: "real".into() });
        let parent = paths(&tree).into_iter().position(|path| path == root.parent().unwrap());
        assert!(root.parent() == Some(Path::new("/")) || parent.is_some());
    }

    #[test]
    fn what_cannot_be_packed_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        symlink("loop", root.join("loop")).unwrap();
        let fault = |path: &Path| Tree::default().pack(path).unwrap_err().to_string();
        assert!(fault(&root.join("loop")).contains("more than 40 symbolic links"));
        assert!(fault(&root.join("none")).contains("none' into the guest: No such file"));
        assert!(fault(Path::new("/proc/version")).contains("the guest has a /proc of its own"));
        fs::write(root.join("file"), "").unwrap();
        assert!(fault(&root.join("file/x")).contains("not a directory"));
    }

    #[test]
    fn nothing_is_packed_below_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("short")).unwrap();
        let mut tree = Tree::default();
        tree.pack(&root.join("short")).unwrap();
        let placed = |path: &str| tree.place(&root.join(path)).unwrap();
        assert_eq!(placed("short/new"), root.join("real/new"));
        assert_eq!(placed("short/../other"), root.join("other"));
        let mut tree = Tree::default();
        tree.put_directory(&root.join("short"));
        let error = tree.pack(&root.join("short")).unwrap_err();
        assert!(matches!(error, TreeError::LinkOverDirectory(_)), "{error}");
        tree.put("/loop", Node::Link { target: "loop".into() });
        assert!(matches!(tree.place(Path::new("/loop/x")), Err(TreeError::Links(_))));
    }

    #[test]
    fn the_limit_names_the_largest_file() {
        let folder = tempfile::tempdir().unwrap();
        // The files are sparse and take no space.
        for (name, bytes) in [("a", PACK_BYTES_MAX - 1), ("b", 2)] {
            fs::File::create(folder.path().join(name)).unwrap().set_len(bytes).unwrap();
        }
        let mut tree = Tree { packed_bytes: PACK_BYTES_MAX - 1, ..Tree::default() };
        tree.largest = Some((PACK_BYTES_MAX - 1, folder.path().join("a")));
        let error = tree.pack(&folder.path().join("b")).unwrap_err().to_string();
        assert!(error.contains("57344 MiB") && error.contains("/a' with 57343 MiB"), "{error}");
    }

    #[test]
    fn a_directory_comes_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("one/two")).unwrap();
        fs::write(root.join("one/two/file"), "x").unwrap();
        symlink("two/file", root.join("one/link")).unwrap();
        let mut tree = Tree::default();
        let files = tree.pack_directory(&root.join("one"), Path::new("/data/one")).unwrap();
        let file =
            PackedFile { host: root.join("one/two/file"), guest: "/data/one/two/file".into() };
        assert_eq!(files, [file]);
        let expected =
            ["/data", "/data/one", "/data/one/link", "/data/one/two", "/data/one/two/file"];
        assert_eq!(paths(&tree), expected.map(Path::new));
        let error = tree.pack_directory(root, Path::new("/dev/x")).unwrap_err();
        assert!(matches!(error, TreeError::OwnFileSystem(_)));
    }

    #[test]
    fn a_root_is_taken_over_with_owners_and_what_is_packed_over_it_keeps_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "one").unwrap();
        fs::hard_link(root.join("a"), root.join("b")).unwrap();
        fs::hard_link(root.join("a"), root.join("c")).unwrap();
        fs::write(folder.path().join("new"), "two").unwrap();
        let scratch = folder.path().join("scratch");
        let mut read =
            opcost_image::read(&root, opcost_record::Architecture::X86_64, 64, &scratch).unwrap();
        read.entries.get_mut(Path::new("/a")).unwrap().owner = (5, 6);
        let mut tree = Tree::default();
        tree.add_root(&read);
        let same = |first: &str| Node::Same { first: first.into() };
        assert_eq!(tree.nodes[Path::new("/c")], same("/a"));
        assert_eq!(tree.with_other_names().into_iter().collect::<Vec<_>>(), [Path::new("/a")]);
        let new = folder.path().join("new");
        tree.pack_file(&new, Path::new("/a"), &new.metadata().unwrap()).unwrap();
        assert_eq!(tree.contents(Path::new("/a")), Some(&b"two"[..]));
        assert!(
            matches!(&tree.nodes[Path::new("/b")], Node::Large { data, .. } if data.length == 3)
        );
        assert_eq!(tree.nodes[Path::new("/c")], same("/b"));
        assert_eq!((tree.owner(Path::new("/a")), tree.owner(Path::new("/b"))), ((0, 0), (5, 6)));
        assert!(tree.is_of_root(Path::new("/b")) && !tree.is_of_root(Path::new("/a")));
    }

    #[test]
    fn a_folder_that_is_moved_leaves_no_trace_but_what_files_speak_of() {
        let file = |text: &str| Node::File { mode: 0o755, contents: text.into() };
        let made = |text: &str| {
            let mut tree = Tree::default();
            tree.put("/home/ann/cache/one/bench", file(text));
            tree.put("/home/ann/cache/one/lib/a.so", file("a"));
            tree.put("/home/ann/short", Node::Link { target: "/home/ann/cache/one/lib".into() });
            tree.put("/lib/c.so", file("/home/ann/cache/one"));
            tree.relocate(Path::new("/home/ann/cache/one"), Path::new("/tree"));
            tree
        };
        let all = ["/home", "/home/ann", "/home/ann/short", "/lib", "/lib/c.so", "/tree"];
        let below = ["/tree/bench", "/tree/lib", "/tree/lib/a.so"];
        let tree = made("code");
        assert_eq!(
            paths(&tree),
            [&all[..], &below].concat().iter().map(Path::new).collect::<Vec<_>>()
        );
        assert_eq!(
            tree.nodes[Path::new("/home/ann/short")],
            Node::Link { target: "/tree/lib".into() }
        );
        let tree = made("code with /home/ann/cache/one/lib in it");
        let old = Path::new("/home/ann/cache/one");
        assert_eq!(tree.nodes[old], Node::Link { target: "/tree".into() });
    }
}
