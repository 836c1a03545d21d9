//! Kernel source, from Debian's package or a user's tree, unpacked and patched in the cache.
//!
//! **The default source of kernels is the release's own version of Linux.** The newest package in `/usr/src` depended on what
//! else was installed, and with it every count of a build.

use super::cache::{Cache, move_into_place};
use super::error::KernelError;
use super::git;
use super::image::digest;
use super::spec::Revision;
use super::step::{Steps, words};
use opcost_record::printable::hexadecimal;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder in which Debian's linux-source packages put their tarballs.
const TARBALLS: &str = "usr/src";

/// The origin of the source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Source {
    /// A linux-source package's tarball.
    Tarball(PathBuf),
    /// A user's tree, which opcost never writes to.
    Tree(PathBuf),
    /// A commit of a user's git tree, checked out in the cache.
    Commit(Revision),
}

impl Source {
    /// Returns the given tree or tarball, or the tarball of Debian's linux-source package.
    ///
    /// `system`: the root folder of this system.
    pub(super) fn find(given: Option<&Path>, system: &Path) -> Result<Source, KernelError> {
        let Some(tree) = given else {
            return default_tarball(system).map(Source::Tarball);
        };
        let wrong =
            |what: String| Err(KernelError::Usage(format!("--source {}: {what}", tree.display())));
        if tree.is_file() {
            return match has_tarballs_name(tree) {
                true => Ok(Source::Tarball(tree.to_path_buf())),
                false => wrong("it is a file, but no *.tar.xz, .gz, .bz2 or .zst".into()),
            };
        }
        if !tree.is_dir() {
            return wrong("there is no such folder or tarball".into());
        }
        if let Some(missing) =
            ["Makefile", "Kconfig"].iter().find(|name| !tree.join(name).is_file())
        {
            return wrong(format!("it is no kernel source: it has no {missing}"));
        }
        // Linux takes a tree with these files for one that was built in (Makefile, outputmakefile).
        let marks = [
            ".config",
            "include/config",
            "arch/arm64/include/generated",
            "arch/x86/include/generated",
        ];
        if let Some(mark) = marks.iter().find(|mark| tree.join(mark).exists()) {
            return wrong(format!(
                "a kernel was configured or built in it (it has {mark}), so no other can be built from it; make mrproper there, or give a clean checkout (git worktree add)"
            ));
        }
        let tree = tree.canonicalize().map_err(KernelError::file("read", tree))?;
        Ok(Source::Tree(tree))
    }

    /// The name in `kernel list`.
    pub(super) fn name(&self) -> String {
        match self {
            Source::Tarball(path) => path.file_name().unwrap_or_default().to_string_lossy().into(),
            Source::Tree(path) => path.display().to_string(),
            Source::Commit(revision) => {
                format!("{} at {}", revision.tree.display(), git::short(&revision.commit))
            }
        }
    }

    /// The commit, if the source is one.
    pub(super) fn commit(&self) -> Option<&str> {
        match self {
            Source::Commit(revision) => Some(&revision.commit),
            Source::Tarball(_) | Source::Tree(_) => None,
        }
    }

    /// A digest of the contents: the bytes of a tarball; names, modes and contents of a tree's
    /// files without git's own. Times and git's state are left out, since the build does not read
    /// them (LOCALVERSION is set).
    pub(super) fn identity(&self) -> Result<String, KernelError> {
        let mut hash = Sha256::new();
        match self {
            // Git's hash covers the same data: names, modes and contents.
            Source::Commit(revision) => hash.update(format!("git tree {}", revision.hash)),
            Source::Tarball(path) => {
                let mut file = File::open(path).map_err(KernelError::file("read", path))?;
                let mut piece = vec![0; 1 << 20];
                loop {
                    let bytes = file.read(&mut piece).map_err(KernelError::file("read", path))?;
                    if bytes == 0 {
                        break;
                    }
                    hash.update(&piece[..bytes]);
                }
            }
            Source::Tree(tree) => {
                for found in walk(tree)? {
                    let path = tree.join(&found.path);
                    let content = match found.kind {
                        Kind::Folder => continue,
                        Kind::Link => fs::read_link(&path)
                            .map_err(KernelError::file("read", &path))?
                            .as_os_str()
                            .as_bytes()
                            .to_vec(),
                        Kind::File { .. } => {
                            fs::read(&path).map_err(KernelError::file("read", &path))?
                        }
                    };
                    hash.update(found.path.as_os_str().as_bytes());
                    hash.update([0, found.kind.number()]);
                    hash.update((content.len() as u64).to_le_bytes());
                    hash.update(content);
                }
            }
        }
        Ok(hexadecimal(&hash.finalize()))
    }

    /// The folder or file of the origin.
    pub(super) fn path(&self) -> &Path {
        match self {
            Source::Tarball(path) | Source::Tree(path) => path,
            Source::Commit(revision) => &revision.tree,
        }
    }

    /// Prepares the tree to build from. It is unpacked and patched in the cache, unless it is the
    /// user's own without patches. The lock, if any, keeps others from changing the tree.
    pub(super) fn prepare(
        &self,
        identity: &str,
        patches: &[(PathBuf, Vec<u8>)],
        cache: &Cache,
        steps: &mut Steps<'_>,
    ) -> Result<(PathBuf, Option<File>), KernelError> {
        if let Source::Commit(revision) = self {
            let (tree, lock) = check_out(revision, cache, steps)?;
            return Ok((tree, Some(lock)));
        }
        let tree = self.prepare_tree(identity, patches, cache, steps)?;
        Ok((tree, None))
    }

    fn prepare_tree(
        &self,
        identity: &str,
        patches: &[(PathBuf, Vec<u8>)],
        cache: &Cache,
        steps: &mut Steps<'_>,
    ) -> Result<PathBuf, KernelError> {
        let pristine = match self {
            Source::Tree(_) | Source::Commit(_) => self.path().to_path_buf(),
            Source::Tarball(tarball) => make(&identity[..16], cache, steps, |folder, steps| {
                let what = format!("unpacking {}", self.name());
                let argv = words(&[
                    &"tar",
                    &"-xf",
                    tarball,
                    &"--strip-components=1",
                    &"--no-same-owner",
                    &"-C",
                    &folder,
                ]);
                steps.run(&what, Path::new("/"), &argv, &[]).map(drop)
            })?,
        };
        if patches.is_empty() {
            return Ok(pristine);
        }
        let all: Vec<u8> = patches
            .iter()
            .flat_map(|(_, content)| [&(content.len() as u64).to_le_bytes()[..], content].concat())
            .collect();
        let id = format!("{}-{}", &identity[..16], &digest(&all)[..16]);
        make(&id, cache, steps, |folder, steps| {
            (steps.progress)("copying the source", None);
            // patch writes each file that it changes anew. Unpatched files can therefore be shared
            // with our own pristine tree, but never with the user's.
            copy(&pristine, folder, matches!(self, Source::Tarball(_)), steps)?;
            for (path, _) in patches {
                let path = path.canonicalize().map_err(KernelError::file("read", path))?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let argv = words(&[
                    &"patch",
                    &"-p1",
                    &"--batch",
                    &"--forward",
                    &"--reject-file=-",
                    &"-i",
                    &path,
                ]);
                steps.run(&format!("applying {name}"), folder, &argv, &[])?;
            }
            Ok(())
        })
    }
}

/// Checks out a commit in the cache's worktree of the user's repository: going on to another commit
/// writes only the differences. The lock is for the time of the build.
fn check_out(
    revision: &Revision,
    cache: &Cache,
    steps: &mut Steps<'_>,
) -> Result<(PathBuf, File), KernelError> {
    let id = digest(revision.tree.as_os_str().as_bytes())[..16].to_string();
    let place = cache.path(&["trees", &id]);
    let lock = cache.lock(&format!("tree-{id}"), steps.interrupt, steps.progress)?;
    let home = std::env::var("HOME").ok();
    let env: Vec<(&str, &str)> = home.iter().map(|home| ("HOME", home.as_str())).collect();
    let what = format!("checking out {} ({})", revision.name, git::short(&revision.commit));
    let mut git = |folder: &Path, args: &[&dyn AsRef<std::ffi::OsStr>]| {
        let mut argv = words(&[&"git", &"-C", &folder]);
        argv.extend(words(&git::QUIET.each_ref().map(|word| word as &dyn AsRef<std::ffi::OsStr>)));
        argv.extend(words(args));
        steps.run(&what, Path::new("/"), &argv, &env)
    };
    if let Ok(text) = fs::read_to_string(place.join(".git")) {
        // A killed git leaves its own lock; our lock shows that no git runs.
        let folder = Path::new(text.trim_start_matches("gitdir:").trim());
        let _ = fs::remove_file(folder.join("index.lock"));
        let there =
            git(&place, &[&"checkout", &"--quiet", &"--detach", &"--force", &revision.commit])
                .and_then(|_| git(&place, &[&"clean", &"-ffdxq"]));
        match there {
            Ok(_) => return Ok((place, lock)),
            Err(KernelError::Interrupted) => return Err(KernelError::Interrupted),
            // The worktree is made anew.
            Err(_) => {}
        }
    }
    super::cache::remove(&place)?;
    let folder = cache.path(&["trees"]);
    fs::create_dir_all(&folder).map_err(KernelError::file("make", &folder))?;
    // One --force is not enough: a worktree whose git was killed is registered, missing and locked.
    git(
        &revision.tree,
        &[
            &"worktree",
            &"add",
            &"--quiet",
            &"--force",
            &"--force",
            &"--detach",
            &place,
            &revision.commit,
        ],
    )?;
    Ok((place, lock))
}

/// Finds a tree in the cache, or makes it under a lock.
fn make(
    id: &str,
    cache: &Cache,
    steps: &mut Steps<'_>,
    fill: impl FnOnce(&Path, &mut Steps<'_>) -> Result<(), KernelError>,
) -> Result<PathBuf, KernelError> {
    let place = cache.path(&["source", id]);
    let id = format!("source-{id}");
    let _lock = cache.lock(&id, steps.interrupt, steps.progress)?;
    if !place.is_dir() {
        let made = cache.workplace(&id)?;
        fill(&made, steps).inspect_err(|_| {
            // The error of filling is more useful than an error here.
            let _ = super::cache::remove(&made);
        })?;
        move_into_place(&made, &place)?;
    }
    Ok(place)
}

/// The version of Linux that each release of Debian has for its lifetime (package `linux-source`), by the release's codename.
const OWN_VERSIONS: [(&str, &str); 2] = [("bookworm", "6.1"), ("trixie", "6.12")];

/// The only tarball of Debian's linux-source packages, or, of several, the one of the release's own version.
///
/// The newest one would make a default kernel depend on packages that were installed for other reasons.
fn default_tarball(system: &Path) -> Result<PathBuf, KernelError> {
    let folder = system.join(TARBALLS);
    let mut found: Vec<(Vec<u32>, PathBuf)> =
        (fs::read_dir(&folder).into_iter().flatten().flatten())
            .filter_map(|entry| Some((version_of(&entry.path())?, entry.path())))
            .collect();
    found.sort();
    let release = fs::read_to_string(system.join("etc/os-release")).unwrap_or_default();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let own = OWN_VERSIONS.iter().find(|(name, _)| Some(*name) == codename);
    let own = own.and_then(|(_, own)| {
        found.iter().find(|(version, _)| numbers(own).as_ref() == Some(version))
    });
    match (&found[..], own) {
        ([], _) => Err(KernelError::NoSource(folder)),
        ([(_, only)], _) | (_, Some((_, only))) => Ok(only.clone()),
        (several, None) => {
            let names: Vec<String> =
                several.iter().map(|(_, path)| path.display().to_string()).collect();
            Err(KernelError::Usage(format!(
                "there are several kernel sources, and none is known as this system's own: {}; name one with --source",
                names.join(", ")
            )))
        }
    }
}

/// The version in the name of a linux-source tarball.
fn version_of(path: &Path) -> Option<Vec<u32>> {
    let name = path.file_name()?.to_str()?.strip_prefix("linux-source-")?;
    let (version, _) = name.split_once(".tar.")?;
    numbers(version).filter(|_| has_tarballs_name(path))
}

fn numbers(version: &str) -> Option<Vec<u32>> {
    version.split('.').map(|number| number.parse().ok()).collect()
}

fn has_tarballs_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["xz", "gz", "bz2", "zst"].iter().any(|ending| name.ends_with(&format!(".tar.{ending}")))
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Folder,
    Link,
    File { executable: bool },
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Folder => 0,
            Kind::Link => 1,
            Kind::File { executable } => 2 + u8::from(executable),
        }
    }
}

/// An entry of a tree, with its path from the top.
#[derive(Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Found {
    path: PathBuf,
    kind: Kind,
}

/// All entries of a tree except git's own, folders before their contents, in a fixed order.
fn walk(tree: &Path) -> Result<Vec<Found>, KernelError> {
    let mut all = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = tree.join(&folder);
        for entry in fs::read_dir(&path).map_err(KernelError::file("read", &path))? {
            let entry = entry.map_err(KernelError::file("read", &path))?;
            let found = folder.join(entry.file_name());
            let metadata = entry.metadata().map_err(KernelError::file("read", &entry.path()))?;
            let kind = if metadata.is_dir() {
                if entry.file_name() == ".git" {
                    continue;
                }
                folders.push(found.clone());
                Kind::Folder
            } else if metadata.is_symlink() {
                Kind::Link
            } else if !metadata.is_file() {
                // Sockets and devices are no source, and reading one may block for ever.
                continue;
            } else {
                Kind::File { executable: metadata.permissions().mode() & 0o100 != 0 }
            };
            all.push(Found { path: found, kind });
        }
    }
    all.sort();
    Ok(all)
}

/// Copies a tree, or makes hard links of its files.
fn copy(from: &Path, to: &Path, link: bool, steps: &Steps<'_>) -> Result<(), KernelError> {
    for found in walk(from)? {
        if steps.interrupt.is_set() {
            return Err(KernelError::Interrupted);
        }
        let (old, new) = (from.join(&found.path), to.join(&found.path));
        match found.kind {
            Kind::Folder => fs::create_dir(&new),
            Kind::Link => fs::read_link(&old).and_then(|to| std::os::unix::fs::symlink(to, &new)),
            Kind::File { .. } if link => fs::hard_link(&old, &new),
            Kind::File { .. } => fs::copy(&old, &new).map(drop),
        }
        .map_err(KernelError::file("write", &new))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a system with these tarballs, whose release has this codename.
    fn system(codename: &str, versions: &[&str]) -> tempfile::TempDir {
        let system = tempfile::tempdir().unwrap();
        fs::create_dir_all(system.path().join(TARBALLS)).unwrap();
        fs::create_dir_all(system.path().join("etc")).unwrap();
        let release = format!("NAME=\"X\"\nVERSION_CODENAME={codename}\n");
        fs::write(system.path().join("etc/os-release"), release).unwrap();
        for version in versions {
            let name = format!("linux-source-{version}");
            fs::write(system.path().join(TARBALLS).join(name), "").unwrap();
        }
        fs::write(system.path().join(TARBALLS).join("other-7.0.tar.xz"), "").unwrap();
        system
    }

    #[test]
    fn the_releases_own_tarball_is_the_default_whatever_else_is_installed() {
        let both = ["6.1.tar.xz", "6.12.tar.xz", "6.9.tar.gz", "6.99.tar.xz.part", "x.tar.xz"];
        let found = |codename: &str, versions: &[&str]| -> Result<String, String> {
            let system = system(codename, versions);
            let found = Source::find(None, system.path()).map_err(|error| error.to_string())?;
            Ok(found.name())
        };
        assert_eq!(found("bookworm", &both), Ok("linux-source-6.1.tar.xz".to_string()));
        assert_eq!(found("trixie", &both), Ok("linux-source-6.12.tar.xz".into()));
        assert_eq!(found("sid", &both[1..2]), Ok("linux-source-6.12.tar.xz".into()));
        assert_eq!(found("bookworm", &both[1..2]), Ok("linux-source-6.12.tar.xz".into()));
        let several = found("sid", &both).unwrap_err();
        for part in ["several kernel sources", "linux-source-6.1.tar.xz", "6.9.tar.gz", "--source"]
        {
            assert!(several.contains(part), "{several}");
        }
        assert!(!several.contains("6.99") && !several.contains("other"), "{several}");
        let none = found("bookworm", &[]).unwrap_err();
        assert!(none.contains("apt-get install linux-source"), "{none}");
    }

    #[test]
    fn a_named_tarball_is_taken_and_another_file_refused() {
        let system = system("bookworm", &["6.1.tar.xz", "6.12.tar.xz"]);
        let named = system.path().join(TARBALLS).join("linux-source-6.12.tar.xz");
        let found = Source::find(Some(&named), system.path()).unwrap();
        assert_eq!(found, Source::Tarball(named));
        let file = system.path().join("etc/os-release");
        let error = Source::find(Some(&file), system.path()).unwrap_err().to_string();
        assert!(error.contains("it is a file, but no *.tar.xz"), "{error}");
    }

    #[test]
    fn a_tree_that_cannot_be_built_from_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        let refused = |tree: &Path| Source::find(Some(tree), tree).unwrap_err().to_string();
        assert!(refused(&tree.join("none")).contains("no such folder or tarball"));
        assert!(refused(tree).contains("it has no Makefile"));
        fs::write(tree.join("Makefile"), "").unwrap();
        assert!(refused(tree).contains("it has no Kconfig"));
        fs::write(tree.join("Kconfig"), "").unwrap();
        assert!(Source::find(Some(tree), tree).is_ok());
        fs::write(tree.join(".config"), "").unwrap();
        assert!(refused(tree).contains("make mrproper"));
    }

    #[test]
    fn a_trees_identity_is_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path();
        fs::create_dir_all(tree.join("mm")).unwrap();
        fs::write(tree.join("mm/mmap.c"), "one").unwrap();
        fs::write(tree.join("a.sh"), "").unwrap();
        let identity = || Source::Tree(tree.to_path_buf()).identity().unwrap();
        let first = identity();
        fs::create_dir(tree.join(".git")).unwrap();
        fs::write(tree.join(".git/HEAD"), "x").unwrap();
        assert_eq!(identity(), first, "git's files do not count");
        let mut seen = vec![first.clone()];
        let mut differs = |change: &str| {
            assert!(!seen.contains(&identity()), "{change}");
            seen.push(identity());
        };
        fs::write(tree.join("mm/mmap.c"), "two").unwrap();
        differs("contents");
        fs::rename(tree.join("mm/mmap.c"), tree.join("mm/other.c")).unwrap();
        differs("a name");
        fs::set_permissions(tree.join("a.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        differs("a mode");
        std::os::unix::fs::symlink("a.sh", tree.join("link")).unwrap();
        differs("a link");
        fs::remove_file(tree.join("link")).unwrap();
        fs::set_permissions(tree.join("a.sh"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(tree.join("mm/other.c"), tree.join("mm/mmap.c")).unwrap();
        fs::write(tree.join("mm/mmap.c"), "one").unwrap();
        assert_eq!(identity(), first);
    }
}
