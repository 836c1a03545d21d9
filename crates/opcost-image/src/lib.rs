//! The root file systems of guests: a folder, a tar, an OCI image layout or a file that `docker save` wrote, as a list of files.
//!
//! ```text
//! folder ──────────────────────────────────┐
//! tar ── members ──────────────────────────┤
//! image ── manifest ── layers ── members ──┴─▶ Names ──▶ Root
//! ```
//!
//! **Nothing is unpacked at its own path.** The contents of members are files with numbers in a folder of the caller's, so no name in
//! an archive reaches a path of this machine, and owners and permissions need no privilege.
//!
//! **An archive is bounded by the guest's memory**, which must hold the files: what unpacks to more is refused while it is read.

mod folder;
mod image;
mod names;
mod stream;
mod tar;

use opcost_record::Architecture;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use names::Names;
use stream::Limits;

/// The most symbolic links in the resolution of a path (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// The most files of a root.
const ENTRIES_MAX: usize = 2_000_000;

/// A root file system.
#[derive(Debug)]
pub struct Root {
    /// The files by their absolute paths; a folder stands before its contents.
    pub entries: BTreeMap<PathBuf, Entry>,
    /// The environment that an image asks for; empty for other roots.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory that an image asks for.
    pub cwd: Option<PathBuf>,
    /// What guests do not get.
    pub dropped: Dropped,
}

/// One file of a root.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// The permissions, with the bits of set-user-ID, set-group-ID and the sticky bit.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// The modification time, seconds since 1970.
    pub changed_s: u32,
    /// The kind of file.
    pub kind: Kind,
}

/// A kind of file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File(Data),
    /// A symbolic link.
    Link(PathBuf),
    /// Another name of the regular file at this path, which stands before it.
    Same(PathBuf),
}

/// The contents of a regular file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Data {
    /// A file of this machine that has the contents.
    pub host: PathBuf,
    /// The length, bytes.
    pub length: u64,
    /// SHA-256.
    pub sha256: Vec<u8>,
}

/// The number of files and attributes that guests do not get.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Dropped {
    /// Device nodes outside of /dev; the guest has a /dev of its own.
    pub devices: usize,
    /// Pipes and sockets.
    pub pipes: usize,
    /// Files with extended attributes, for example capabilities or access control lists.
    pub attributes: usize,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.devices, "device nodes"),
            (self.pipes, "pipes and sockets"),
            (self.attributes, "files' extended attributes (capabilities, access control lists)"),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

/// Why a root cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the root '{}': {fault}", .path.display())]
pub struct RootError {
    /// The root.
    pub path: PathBuf,
    /// The fault.
    pub fault: Fault,
}

/// A fault of a root.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system refuses something.
    #[error("{what}: {source}{hint}")]
    System {
        /// The action that failed.
        what: String,
        /// The system's error.
        source: io::Error,
        /// What to do next.
        hint: &'static str,
    },
    /// The file is neither a tar nor an image.
    #[error(
        "it is no tar: {0}; give a folder, a tar (also .gz or .zst), an OCI image layout, or a file that docker save wrote"
    )]
    NoTar(String),
    /// A compression that is not read.
    #[error(
        "it is compressed with {0}, which opcost does not read; unpack it, or compress it with gzip or zstd"
    )]
    Compression(&'static str),
    /// The archive ends too soon.
    #[error("it ends {0}; it was cut short: make or copy it again")]
    CutShort(String),
    /// A member leads out of the root.
    #[error("its member '{}' leads out of the root; opcost unpacks no such archive", .0.display())]
    Outside(PathBuf),
    /// A member that opcost does not understand.
    #[error("its member '{}' {what}", .path.display())]
    Member {
        /// The path of the member.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// The contents exceed the limit.
    #[error(
        "it unpacks to more than {limit_mib} MiB, {TIMES} times the guest's memory of {memory_mib} MiB; give a smaller root, or --memory-mib more"
    )]
    TooLarge {
        /// The limit, MiB.
        limit_mib: u64,
        /// The guest's memory, MiB.
        memory_mib: u32,
    },
    /// Too many files.
    #[error("it has more than {ENTRIES_MAX} files; give a smaller root")]
    TooMany,
    /// A blob of an image is missing.
    #[error("the image lacks its {what} '{name}'; save it again")]
    Missing {
        /// The missing part.
        what: &'static str,
        /// Its name in the image.
        name: String,
    },
    /// A blob of an image is not what its digest says.
    #[error(
        "the image's {what} '{name}' has the digest {found}, so it is damaged; save the image again"
    )]
    Digest {
        /// The part.
        what: &'static str,
        /// The digest that it should have.
        name: String,
        /// The digest that it has.
        found: String,
    },
    /// A description in an image is malformed.
    #[error("the image's {what} is malformed: {why}")]
    Description {
        /// The description.
        what: &'static str,
        /// The fault.
        why: String,
    },
    /// No image is of the guest's architecture.
    #[error("it is an image for {}, and the guest is {wanted}; give an image for {wanted}{}", .found.join(" and "), other_guest(.found))]
    Architecture {
        /// The architectures of its images.
        found: Vec<String>,
        /// The guest's.
        wanted: Architecture,
    },
    /// Several images are suitable.
    #[error("it has {} images ({}); save one of them alone", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    /// There is nothing in it.
    #[error("it has no files")]
    Empty,
}

/// How many times the guest's memory an archive may unpack to: layers may replace files of layers below.
const TIMES: u64 = 4;

/// Advice for an image whose architecture a guest can have.
fn other_guest(found: &[String]) -> String {
    let known = found.iter().find_map(|name| image::architecture(name));
    known.map_or(String::new(), |known| format!(", or --architecture {known}"))
}

impl Fault {
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Fault {
        let what = what.into();
        move |source| Fault::System { what, source, hint: "" }
    }
}

/// Reads a root.
///
/// `architecture`: the guest's; `memory_mib`: the guest's memory; `scratch`: an existing folder for the contents of archives, which
/// must stay as long as they are used.
///
/// # Errors
/// [`RootError`] names the root and its fault.
pub fn read(
    path: &Path,
    architecture: Architecture,
    memory_mib: u32,
    scratch: &Path,
) -> Result<Root, RootError> {
    let failed = |fault| RootError { path: path.to_path_buf(), fault };
    let names = Names::new(scratch.to_path_buf(), Limits::of(memory_mib));
    let root = match fs::metadata(path) {
        Err(error) => Err(Fault::system("it cannot be opened")(error)),
        Ok(metadata) if metadata.is_dir() => match image::Store::in_folder(path) {
            Some(store) => store.read(architecture, names),
            None => folder::read(path, names),
        },
        Ok(_) => image::read_file(path, architecture, names),
    };
    match root.map_err(failed)? {
        root if root.entries.is_empty() => Err(failed(Fault::Empty)),
        root => Ok(root),
    }
}

impl Root {
    /// SHA-256 of all that guests get: paths, kinds, permissions, owners, modification times of files, and contents; hexadecimal.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        let mut put = |part: &[u8]| {
            all.update((part.len() as u64).to_le_bytes());
            all.update(part);
        };
        for (path, entry) in &self.entries {
            put(path.as_os_str().as_bytes());
            let (letter, contents, changed_s): (u8, &[u8], u32) = match &entry.kind {
                // A guest's folders have one time, as everything that is made in a folder changes it.
                Kind::Folder => (b'd', &[], 0),
                Kind::File(data) => (b'f', &data.sha256, entry.changed_s),
                Kind::Link(target) => (b'l', target.as_os_str().as_bytes(), 0),
                Kind::Same(first) => (b'h', first.as_os_str().as_bytes(), 0),
            };
            put(&[letter]);
            for number in [entry.mode, entry.owner.0, entry.owner.1, changed_s] {
                put(&number.to_le_bytes());
            }
            put(contents);
        }
        hexadecimal(&all.finalize())
    }

    /// The path of a file after all symbolic links, as a process with this root finds it; `None` if there is no such file.
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let found = resolved(path, &|at| match &self.entries.get(at)?.kind {
            Kind::Link(target) => Some(target.clone()),
            _ => None,
        })?;
        (found == Path::new("/") || self.entries.contains_key(&found)).then_some(found)
    }

    /// The contents of a regular file, by a path without symbolic links.
    pub fn data(&self, path: &Path) -> Option<&Data> {
        match &self.entries.get(path)?.kind {
            Kind::File(data) => Some(data),
            Kind::Same(first) => match &self.entries.get(first)?.kind {
                Kind::File(data) => Some(data),
                _ => None,
            },
            _ => None,
        }
    }

    /// Finds a program as a process with this root and this search path does.
    ///
    /// Returns the path by which it is started: the search path does not resolve links.
    pub fn program(&self, name: &OsStr, search_path: &OsStr, cwd: &Path) -> Option<PathBuf> {
        let is_program = |path: &Path| {
            let real = self.resolve(path)?;
            self.data(&real)?;
            (self.entries.get(&real)?.mode & 0o111 != 0).then(|| path.to_path_buf())
        };
        if name.as_bytes().contains(&b'/') {
            return is_program(&cwd.join(name));
        }
        let folders = search_path.as_bytes().split(|byte| *byte == b':');
        folders
            .filter(|folder| folder.starts_with(b"/"))
            .find_map(|folder| is_program(&Path::new(OsStr::from_bytes(folder)).join(name)))
    }
}

/// Resolves a path below `/` with the links that `link` knows; a step above `/` stays there, as for a process with this root. `None`:
/// too many links.
fn resolved(path: &Path, link: &dyn Fn(&Path) -> Option<PathBuf>) -> Option<PathBuf> {
    let parts = |path: &Path| -> Vec<OsString> {
        let steps = path.components().rev();
        steps
            .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
            .map(|part| part.as_os_str().to_os_string())
            .collect()
    };
    // The next step is the last.
    let mut left = parts(path);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        match link(&next) {
            Some(_) if links == LINKS_MAX => return None,
            Some(target) => {
                links += 1;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(parts(&target));
            }
            None => at = next,
        }
    }
    Some(at)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[path = "lib_tests.rs"]
mod tests;
