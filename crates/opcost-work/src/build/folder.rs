//! The folder of a source tree and of its objects, for as long as the work lasts.

use crate::error::WorkError;
use crate::random::fold;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const ADVICE: &str = "free space there, or name another directory with --env TMPDIR=DIR";

/// A folder of this process; dropping the value removes the folder with its contents.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes a folder in the directory for temporary files.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: the directory does not exist, is full or read-only.
    pub(super) fn make() -> Result<Folder, WorkError> {
        let parent = std::env::temp_dir();
        let what = || format!("make a folder in {}", parent.display());
        let name = parent.join("opcost-build-XXXXXX").into_os_string().into_vec();
        let name =
            CString::new(name).map_err(|_| cannot(what(), io::ErrorKind::InvalidInput.into()))?;
        let mut name = name.into_bytes_with_nul();
        // SAFETY: a writable C string that ends as mkdtemp(3) demands.
        let made = unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) };
        if made.is_null() {
            return Err(cannot(what(), io::Error::last_os_error()));
        }
        name.pop();
        Ok(Folder(std::ffi::OsString::from_vec(name).into()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), WorkError> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|source| cannot(format!("write {}", path.display()), source))
    }

    /// Returns a hash over the objects, in the order of their names.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: an object cannot be read.
    pub(super) fn hash_objects(&self) -> Result<u64, WorkError> {
        let failed = |source| cannot(format!("read the objects in {}", self.0.display()), source);
        let mut objects: Vec<PathBuf> = fs::read_dir(&self.0)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(failed)?;
        objects.retain(|path| path.extension().is_some_and(|ending| ending == "o"));
        objects.sort();
        objects.iter().try_fold(objects.len() as u64, |hash, path| {
            Ok(hash_bytes(hash, &fs::read(path).map_err(failed)?))
        })
    }
}

/// Adds bytes and their number to a hash.
pub(super) fn hash_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    fold(words.fold(hash, fold), bytes.len() as u64)
}

fn cannot(what: String, source: io::Error) -> WorkError {
    WorkError::Setup { what, source, advice: ADVICE }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed stays in the directory for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_what_is_in_it() {
        let folder = Folder::make().unwrap();
        folder.write("a.o", "object").unwrap();
        let path = folder.path().to_path_buf();
        assert!(path.join("a.o").exists());
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn one_bit_of_an_object_is_another_hash() {
        let folder = Folder::make().unwrap();
        folder.write("a.o", "object").unwrap();
        folder.write("a.c", "source").unwrap();
        let before = folder.hash_objects().unwrap();
        folder.write("a.c", "sourcf").unwrap();
        assert_eq!(folder.hash_objects().unwrap(), before);
        folder.write("a.o", "objecu").unwrap();
        assert_ne!(folder.hash_objects().unwrap(), before);
        assert_ne!(hash_bytes(0, b"a"), hash_bytes(0, b"a\0"));
    }
}
