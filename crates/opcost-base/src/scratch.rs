//! Folders for temporary files. The owner removes its folder when it ends. If the owner was killed,
//! the next opcost removes the folder.

use opcost_sys::user;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use tempfile::TempDir;

/// The beginning of the folders' names.
const PREFIX: &str = "opcost-";
/// The file in each folder on which the owner holds a lock; the kernel releases the lock when the owner ends.
const OWNER: &str = "owner";
/// The name of this file until it is locked; nobody looks for a file of this name.
const UNOWNED: &str = "owner.new";

/// A folder that is removed with this value.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _owner: File,
}

impl Scratch {
    /// Makes a folder where temporary files belong, and removes the folders that nobody owns any more.
    ///
    /// # Errors
    /// The folder or its locked file cannot be made.
    pub fn new() -> io::Result<Scratch> {
        sweep();
        Scratch::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> io::Result<Scratch> {
        let private = Permissions::from_mode(0o700);
        let folder =
            tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir_in(parent)?;
        let owner = File::create(folder.path().join(UNOWNED))?;
        owner.lock()?;
        fs::rename(folder.path().join(UNOWNED), folder.path().join(OWNER))?;
        Ok(Scratch { folder, _owner: owner })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of owners that were killed; a folder that cannot be removed stays.
pub fn sweep() {
    sweep_below(&std::env::temp_dir());
}

fn sweep_below(parent: &Path) {
    let user = user::effective();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        // If the entry is a link, this is the link itself: anybody may write to a folder of temporary files.
        let is_folder = entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        if !ours || !is_folder {
            continue;
        }
        let Ok(owner) = File::open(entry.path().join(OWNER)) else { continue };
        if owner.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_folders_without_an_owner_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let alive = Scratch::below(parent).unwrap();
        fs::write(alive.path().join("report"), "counts").unwrap();
        // A killed process leaves this behind: the lock is gone, the folder is not.
        let killed = Scratch::below(parent).unwrap();
        let Scratch { folder, _owner } = killed;
        let killed = folder.keep();
        drop(_owner);
        fs::create_dir(killed.join("run")).unwrap();
        // Others' folders, and a folder that is just being made.
        for name in ["opcost-notes", "other"] {
            fs::create_dir(parent.join(name)).unwrap();
        }
        fs::write(parent.join("other").join(OWNER), "").unwrap();
        symlink(parent.join("other"), parent.join("opcost-link")).unwrap();
        sweep_below(parent);
        let mut left: Vec<String> = fs::read_dir(parent)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let own = alive.path().file_name().unwrap().to_str().unwrap().to_string();
        let mut expected = vec![own, "opcost-link".into(), "opcost-notes".into(), "other".into()];
        left.sort();
        expected.sort();
        assert_eq!(left, expected);
        assert!(alive.path().join("report").exists());
    }
}
