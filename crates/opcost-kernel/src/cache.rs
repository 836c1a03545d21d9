//! The cache of built and fetched kernels on disk.
//!
//! ```text
//! KEY/                 a built kernel: bzImage, System.map, vmlinux, .config, functions, kernel.json
//! debian/PACKAGE_VER/  an image package: bzImage, .config, kernel.json, disk-modules/
//! names/NAME           the key of the kernel that was last built under that name
//! same/KEY             the key of the entry that the inputs of KEY build as well, and the commit, if it is one
//! apt/PACKAGE          apt's last answer, and the state of its lists at that time
//! source/ID/           unpacked source, as it was or patched
//! trees/ID/            a worktree of a user's git repository
//! ccache/              compiled objects, where ccache is installed
//! building/ locks/ logs/
//! ```
//! An entry is built in `building/` and renamed when it is complete, so every entry is complete.
//!
//! **A kernel is recognised twice in the cache**: by its inputs, which costs a second, and by its configuration or image,
//! before or after the build. Comments and order of fragments then make no second kernel.

use super::error::KernelError;
use super::{Kernel, image};
use opcost_record::nearest::did_you_mean;
use opcost_sys::interrupt::Interrupt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of the files of an entry; an Image of arm64 has the name of x86-64's.
pub(crate) const IMAGE: &str = "bzImage";
pub(crate) const SYSTEM_MAP: &str = "System.map";
pub(crate) const VMLINUX: &str = "vmlinux";
pub(crate) const CONFIG: &str = ".config";
/// Entries of earlier versions have a folder `modules`, without the modules for the CPU.
pub(crate) const MODULES: &str = "disk-modules";
pub(crate) const FUNCTIONS: &str = "functions";
const DESCRIPTION: &str = "kernel.json";

const RETRY_LOCK_EVERY: Duration = Duration::from_millis(200);
/// How many characters of a key or commit are shown.
pub(crate) const KEY_SHOWN: usize = 12;

/// Locks `id` by a file in `folder` and waits while another process holds the lock. The lock ends
/// when the result is dropped or this process ends.
///
/// # Errors
/// A signal came, or the file cannot be made or locked.
pub fn lock(
    folder: &Path,
    id: &str,
    interrupt: &Interrupt,
    progress: &mut dyn FnMut(&str, Option<&str>),
) -> Result<File, KernelError> {
    let path = folder.join(id);
    fs::create_dir_all(folder).map_err(KernelError::file("make", folder))?;
    let open = OpenOptions::new().create(true).append(true).open(&path);
    let file = open.map_err(KernelError::file("open", &path))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if interrupt.is_set() => {
                return Err(KernelError::Interrupted);
            }
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut told, true) {
                    progress("another opcost is making it: waiting", None);
                }
                std::thread::sleep(RETRY_LOCK_EVERY);
            }
            Err(TryLockError::Error(error)) => {
                return Err(KernelError::file("lock", &path)(error));
            }
        }
    }
}

/// The description of an entry, stored beside its files.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Description {
    /// The name at the time of the build; for a commit, the revision that was asked for.
    pub name: String,
    /// The names that stand for the kernel today; empty for packages and commits.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The commit that it was built from, if it was built from a git tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Other commits whose build is the same kernel.
    #[serde(skip)]
    pub same_commits: Vec<String>,
    /// The digest of source, final configuration and tools; absent for a package and in older entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured: Option<String>,
    /// The digest of all inputs.
    pub key: String,
    /// The release, as `uname -r` shows it, if the image contains it.
    pub release: Option<String>,
    /// SHA-256 of the image, hexadecimal.
    pub digest: String,
    /// The length of the image.
    pub image_bytes: u64,
    /// Names of the source, fragments and patches, or of the package.
    pub made_from: Vec<String>,
    /// The compiler; absent for a package.
    pub compiler: Option<String>,
    /// When it was built or fetched, nanoseconds since 1970.
    pub made_unix_ns: u64,
    /// The build time in nanoseconds; absent for a package.
    pub build_ns: Option<u64>,
    /// The number of objects in the build; absent for a package and in older entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
}

/// The least characters of a key or commit that select a kernel.
const BEGINNING_MIN: usize = 6;

impl Description {
    /// Whether a user's word selects this kernel: one of its names of today, a package's name, the
    /// beginning of its key or commit, or its whole name in lists.
    ///
    /// A revision such as HEAD selects no kernel, since it may name another commit tomorrow.
    pub fn is_meant_by(&self, word: &str) -> bool {
        let begins = |whole: &String| word.len() >= BEGINNING_MIN && whole.starts_with(word);
        self.names.iter().any(|name| name == word)
            || (self.compiler.is_none() && self.name == word)
            || self.shown_name() == word
            || begins(&self.key)
            || self.commit.iter().chain(&self.same_commits).any(begins)
    }

    /// The name in lists and messages.
    pub fn shown_name(&self) -> String {
        match (&self.commit, &self.names[..]) {
            (_, names @ [_, ..]) => names.join(", "),
            (Some(commit), []) => {
                format!("{} ({})", commit.get(..KEY_SHOWN).unwrap_or(commit), self.name)
            }
            (None, []) if self.compiler.is_some() => format!("(formerly {})", self.name),
            (None, []) => self.name.clone(),
        }
    }
}

/// The cache's folder.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn new(root: &Path) -> Cache {
        Cache { root: root.to_path_buf() }
    }

    pub(crate) fn path(&self, parts: &[&str]) -> PathBuf {
        parts.iter().fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Makes an empty folder in which a build of this key, or other data, is made until it is
    /// complete.
    ///
    /// Each build has a folder of its own: compilers of a killed opcost may still write to theirs.
    pub(crate) fn workplace(&self, id: &str) -> Result<PathBuf, KernelError> {
        let folder = self.path(&["building"]);
        fs::create_dir_all(&folder).map_err(KernelError::file("make", &folder))?;
        let prefix = format!("{id}~");
        for left in folder_of(&folder) {
            let name = left.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&prefix) || name == id {
                // If a process still writes there, this fails, and the next build tries again.
                let _ = remove(&left);
            }
        }
        // Mode as of other new folders: the umask decides about other users' rights.
        let usual = fs::Permissions::from_mode(0o777);
        let made = tempfile::Builder::new().prefix(&prefix).permissions(usual).tempdir_in(&folder);
        Ok(made.map_err(KernelError::file("make", &folder))?.keep())
    }

    /// Locks `id` and waits while another process holds the lock. The lock ends when the result is
    /// dropped or this process ends.
    pub(crate) fn lock(
        &self,
        id: &str,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<File, KernelError> {
        lock(&self.path(&["locks"]), id, interrupt, progress)
    }

    /// The kernel of an entry; `None` if the entry is missing or damaged.
    pub(crate) fn find(&self, entry: &Path, name: &str) -> Option<Kernel> {
        let description = describe(entry)?;
        let found = image::read(&entry.join(IMAGE)).ok()?;
        (found.digest == description.digest).then(|| {
            let file = |name: &str| Some(entry.join(name)).filter(|path| path.is_file());
            Kernel {
                name: name.to_string(),
                image: entry.join(IMAGE),
                system_map: file(SYSTEM_MAP),
                vmlinux: file(VMLINUX),
                config: file(CONFIG),
                modules: Some(entry.join(MODULES)).filter(|path| path.is_dir()),
                digest: found.digest,
                release: found.release,
            }
        })
    }

    /// Turns a finished folder with an image into an entry.
    pub(crate) fn keep(
        &self,
        made: &Path,
        entry: &Path,
        description: Description,
    ) -> Result<Kernel, KernelError> {
        let text = serde_json::to_string_pretty(&description).unwrap_or_default();
        let path = made.join(DESCRIPTION);
        fs::write(&path, text + "\n").map_err(KernelError::file("write", &path))?;
        move_into_place(made, entry)?;
        self.find(entry, &description.name).ok_or_else(|| {
            KernelError::file("read back", entry)(std::io::Error::other(
                "it is not what was just written; the disk or another program changed it",
            ))
        })
    }

    /// Lets `name` stand for `key` from now on.
    pub(crate) fn set_name(&self, name: &str, key: &str) -> Result<(), KernelError> {
        self.write_whole("names", name, key)
    }

    /// Writes a small file of the cache.
    pub(crate) fn write_whole(
        &self,
        folder: &str,
        name: &str,
        text: &str,
    ) -> Result<(), KernelError> {
        let (folder, path) = (self.path(&[folder]), self.path(&[folder, name]));
        fs::create_dir_all(&folder).map_err(KernelError::file("make", &folder))?;
        // Renaming the file into place keeps readers from seeing half of it.
        let fail = KernelError::file("write", &path);
        let made = tempfile::Builder::new().prefix(".").tempfile_in(&folder);
        made.and_then(|mut made| {
            made.write_all(text.as_bytes())?;
            Ok(made.persist(&path)?)
        })
        .map(drop)
        .map_err(fail)
    }

    /// The key of each name.
    fn names(&self) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for path in folder_of(&self.path(&["names"])) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let (false, Ok(key)) = (name.starts_with('.'), fs::read_to_string(&path)) {
                names.insert(name, key);
            }
        }
        names
    }

    /// The kernel that a word selects by [`Description::is_meant_by`].
    pub(crate) fn find_built(&self, name: &str) -> Result<Kernel, KernelError> {
        let mut meant = self.entries();
        meant.retain(|(_, entry)| entry.is_meant_by(name));
        // A name is more than the beginning of another kernel's key or commit.
        let has_name = |entry: &Description| entry.names.iter().any(|one| one == name);
        if meant.iter().any(|(_, entry)| has_name(entry)) {
            meant.retain(|(_, entry)| has_name(entry));
        }
        if meant.len() > 1 {
            let shown = |(_, entry): &(PathBuf, Description)| {
                let key = &entry.key[..entry.key.len().min(KEY_SHOWN)];
                format!("{key} ({})", entry.shown_name())
            };
            let kernels = meant.iter().map(shown).collect();
            return Err(KernelError::Ambiguous { name: name.to_string(), kernels });
        }
        let shown = |entry: &Description| match has_name(entry) {
            true => name.to_string(),
            false => entry.shown_name(),
        };
        let one = meant.first();
        one.and_then(|(path, entry)| self.find(path, &shown(entry))).ok_or_else(|| {
            KernelError::NotBuilt {
                name: name.to_string(),
                nearest: did_you_mean(name, self.names().keys().map(String::as_str)),
            }
        })
    }

    /// The key of the entry that holds the kernel of these inputs.
    pub(crate) fn entry_of(&self, key: &str) -> String {
        let same = fs::read_to_string(self.path(&["same", key])).unwrap_or_default();
        same.split_whitespace().next().unwrap_or(key).to_string()
    }

    /// Lets the inputs of `key`, a commit if there is one, stand for the kernel of `entry` from now on.
    pub(crate) fn set_same(
        &self,
        key: &str,
        entry: &str,
        commit: Option<&str>,
    ) -> Result<(), KernelError> {
        self.write_whole("same", key, &format!("{entry} {}\n", commit.unwrap_or_default()))
    }

    /// The commits whose inputs stand for other keys' entries, with these keys.
    fn same_commits(&self) -> Vec<(String, String)> {
        let pair = |path: PathBuf| {
            let text = fs::read_to_string(path).ok()?;
            let (key, commit) = text.trim_end().split_once(' ')?;
            Some((key.to_string(), commit.to_string()))
        };
        folder_of(&self.path(&["same"])).into_iter().filter_map(pair).collect()
    }

    /// Removes the kernels that a word selects. Returns their descriptions.
    pub(crate) fn forget(&self, name: &str) -> Result<Vec<Description>, KernelError> {
        let mut removed = Vec::new();
        for (path, entry) in self.entries() {
            if entry.is_meant_by(name) {
                remove(&path)?;
                for one in &entry.names {
                    let path = self.path(&["names", one]);
                    fs::remove_file(&path).map_err(KernelError::file("remove", &path))?;
                }
                removed.push(entry);
            }
        }
        Ok(removed)
    }

    /// All readable entries: built kernels by name, then packages.
    pub(crate) fn entries(&self) -> Vec<(PathBuf, Description)> {
        let (names, same) = (self.names(), self.same_commits());
        let mut found: Vec<(PathBuf, Description)> = Vec::new();
        for path in [folder_of(&self.root), folder_of(&self.path(&["debian"]))].concat() {
            if let Some(mut description) = describe(&path) {
                let of_key = names.iter().filter(|(_, key)| **key == description.key);
                description.names = of_key.map(|(name, _)| name.clone()).collect();
                let commits = same
                    .iter()
                    .filter(|(key, commit)| *key == description.key && !commit.is_empty());
                description.same_commits = commits.map(|(_, commit)| commit.clone()).collect();
                found.push((path, description));
            }
        }
        found.sort_by(|(_, a), (_, b)| {
            let place =
                |one: &Description| (one.compiler.is_none(), one.shown_name(), one.key.clone());
            place(a).cmp(&place(b))
        });
        found
    }
}

fn describe(entry: &Path) -> Option<Description> {
    serde_json::from_str(&fs::read_to_string(entry.join(DESCRIPTION)).ok()?).ok()
}

fn folder_of(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Removes a folder if it exists.
pub(crate) fn remove(path: &Path) -> Result<(), KernelError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(KernelError::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Renames a finished folder to its final place; a folder that was there was damaged.
pub(crate) fn move_into_place(made: &Path, place: &Path) -> Result<(), KernelError> {
    remove(place)?;
    let folder = place.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(KernelError::file("make", folder))?;
    fs::rename(made, place).map_err(KernelError::file("write", place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, key: &str, names: &[&str], commit: Option<&str>) -> Description {
        Description {
            name: name.into(),
            names: names.iter().map(|name| name.to_string()).collect(),
            commit: commit.map(str::to_string),
            same_commits: Vec::new(),
            configured: None,
            key: key.into(),
            release: None,
            digest: String::new(),
            image_bytes: 0,
            made_from: Vec::new(),
            compiler: Some("gcc".into()),
            made_unix_ns: 0,
            build_ns: None,
            objects: None,
        }
    }

    #[test]
    fn a_word_means_a_name_of_today_or_the_beginning_of_a_key_or_commit() {
        let check = |entry: &Description, shown: &str, means: &[&str], not: &[&str]| {
            assert_eq!(entry.shown_name(), shown);
            for word in means {
                assert!(entry.is_meant_by(word), "{word} is {shown}");
            }
            for word in not {
                assert!(!entry.is_meant_by(word), "{word} is not {shown}");
            }
        };
        let named = entry("old", "0123456789abcdef", &["command", "mine"], None);
        let means = ["command", "mine", "012345", "0123456789abcdef", "command, mine"];
        check(&named, "command, mine", &means, &["old", "01234", "command,", "", "comm"]);
        // Another kernel was built under the same name later.
        let replaced = entry("mine", "aabbccddee", &[], None);
        check(&replaced, "(formerly mine)", &["aabbcc", "(formerly mine)"], &["mine"]);
        let commit = "c1b8f55a0d0e9f3bc1b8f55a0d0e9f3bc1b8f55a";
        let revision = entry("HEAD", "ffeeddccbb", &[], Some(commit));
        let means = ["c1b8f5", "c1b8f55a0d0e", commit, "ffeedd", "c1b8f55a0d0e (HEAD)"];
        check(&revision, "c1b8f55a0d0e (HEAD)", &means, &["HEAD", "c1b8f"]);
        let package =
            Description { compiler: None, ..entry("debian:cloud", "dddddddd", &[], None) };
        check(&package, "debian:cloud", &["debian:cloud", "dddddd"], &["debian"]);
    }
}
