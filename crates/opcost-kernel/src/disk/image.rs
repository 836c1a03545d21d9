//! The contents of a disk: an empty file system, the same bytes on every computer.

use super::error::DiskError;
use super::file_system::FileSystem;
use super::spec::DiskSpec;
use opcost_record::disk::{BLOCK_BYTES, pack};
use opcost_sys::spawn::find_program;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::NamedTempFile;

/// Fixed values for fields that mke2fs would draw at random: the file system's identity, and the
/// key that spreads names over directories.
const UUID: &str = "6f70636f-7374-4000-8000-6469736b0001";
const HASH_SEED: &str = "6f70636f-7374-4000-8000-6469736b0002";

/// When the file system is made: 2020-01-01, the time at which emulated machines start.
const MADE_UNIX_S: &str = "1577836800";

/// Folders of administrators' programs, which a user's PATH may lack.
const TOOL_FOLDERS: &str = "/usr/sbin:/sbin";

/// Replaces this computer's mke2fs.conf(5), for settings that the arguments leave open.
const CONFIGURATION: &str = "[defaults]
default_mntopts = acl,user_xattr
[fs_types]
ext4 = {
inode_size = 256
}
ext3 = {
inode_size = 256
}
ext2 = {
inode_size = 256
}
";

/// The largest journal, MiB. A journal takes a quarter of the disk: mke2fs would give so small a
/// disk the smallest journal, which work fills at once.
const JOURNAL_MIB_MAX: u32 = 128;

/// Makes a disk's contents in the form of [`pack`].
///
/// `path_env`: where programs are searched; `folder`: for temporary files, one of them sparse and
/// as long as the disk.
///
/// # Errors
/// mke2fs is missing or fails.
pub fn make(
    spec: &DiskSpec,
    path_env: Option<&OsStr>,
    folder: &Path,
) -> Result<Vec<u8>, DiskError> {
    let failed = |said: String| DiskError::Make { spec: spec.clone(), said };
    let row = FileSystem::find(&spec.file_system)
        .ok_or_else(|| failed(format!("there is no row for '{}'", spec.file_system)))?;
    let mut path = path_env.unwrap_or_default().to_os_string();
    path.push(":");
    path.push(TOOL_FOLDERS);
    let program = find_program("mke2fs".as_ref(), Some(&path), Path::new("/"));
    let program = program.map_err(|_| DiskError::Tool)?;
    let (file, configuration) =
        files(folder, spec.size_mib).map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .args(arguments(row, spec.size_mib))
        .arg(file.path())
        .env_clear()
        .env("LC_ALL", "C")
        .env("MKE2FS_CONFIG", configuration.path())
        // Versions before 1.47.1 read the first variable; later ones also read the second.
        .env("E2FSPROGS_FAKE_TIME", MADE_UNIX_S)
        .env("SOURCE_DATE_EPOCH", MADE_UNIX_S)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        // mke2fs prints some errors to standard output.
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        return Err(failed(if said.is_empty() { output.status.to_string() } else { said }));
    }
    let contents = File::open(file.path()).map_err(|error| failed(error.to_string()))?;
    pack(std::io::BufReader::with_capacity(1 << 20, contents))
        .map_err(|error| failed(error.to_string()))
}

/// An empty file as long as the disk, and the configuration's file.
fn files(folder: &Path, size_mib: u32) -> std::io::Result<(NamedTempFile, NamedTempFile)> {
    let file = NamedTempFile::new_in(folder)?;
    file.as_file().set_len(u64::from(size_mib) << 20)?;
    let mut configuration = NamedTempFile::new_in(folder)?;
    configuration.write_all(CONFIGURATION.as_bytes())?;
    Ok((file, configuration))
}

/// mke2fs's arguments up to the file (mke2fs(8)).
fn arguments(row: &FileSystem, size_mib: u32) -> Vec<OsString> {
    let extended = format!(
        "hash_seed={HASH_SEED},root_owner=0:0,nodiscard,lazy_itable_init=0,lazy_journal_init=0"
    );
    let mut words = vec!["-q".to_string(), "-t".into(), row.name.into()];
    words.extend(["-O".into(), format!("none,{}", row.features)]);
    words.extend(["-E".into(), extended, "-U".into(), UUID.into()]);
    words.extend(["-b".into(), BLOCK_BYTES.to_string()]);
    // One inode for each 16 KiB; no blocks reserved for the superuser.
    words.extend(["-i", "16384", "-m", "0", "-o", "Linux"].map(String::from));
    if row.has_journal() {
        let journal_mib = (size_mib / 4).min(JOURNAL_MIB_MAX);
        words.extend(["-J".into(), format!("size={journal_mib}")]);
    }
    words.into_iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::super::FILE_SYSTEMS;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn made(text: &str) -> Option<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        let path = std::env::var_os("PATH");
        match make(&DiskSpec::parse(text).unwrap(), path.as_deref(), folder.path()) {
            Err(DiskError::Tool) => {
                crate::skip::skip!("{}", DiskError::Tool);
                None
            }
            made => {
                assert_eq!(folder.path().read_dir().unwrap().count(), 0, "a file is left behind");
                Some(made.unwrap())
            }
        }
    }

    #[test]
    fn the_same_disk_always_has_the_same_bytes() {
        for row in FILE_SYSTEMS {
            let text = format!("{}:16M", row.name);
            let Some(first) = made(&text) else { return };
            assert!(first == made(&text).unwrap(), "{text}");
            // The superblock: magic number and creation time (Documentation/filesystems/ext4).
            let (at, block) = opcost_record::disk::blocks(&first).unwrap().next().unwrap();
            assert_eq!((at, &block[1024 + 0x38..][..2]), (0, &[0x53, 0xef][..]));
            let made_s = u32::from_le_bytes(block[1024 + 0x108..][..4].try_into().unwrap());
            assert_eq!(made_s.to_string(), MADE_UNIX_S);
            // Mount options do not change the contents, and empty blocks are left out.
            assert!(first == made(&format!("{},noatime:16M", row.name)).unwrap());
            assert!(first.len() < 1 << 20, "{} bytes", first.len());
        }
    }

    #[test]
    fn disks_differ_by_file_system_and_size() {
        let Some(one) = made("ext4:16M") else { return };
        assert!(one != made("ext4:32M").unwrap());
        assert!(one != made("ext3:16M").unwrap());
        assert!(made("ext3:16M").unwrap() != made("ext2:16M").unwrap());
    }

    #[test]
    fn what_mke2fs_says_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let spec = DiskSpec::parse("ext4:16M").unwrap();
        let tool = folder.path().join("mke2fs");
        for (script, said) in
            [("echo no; echo room >&2; exit 1", "no; room"), ("exit 3", "exit status: 3")]
        {
            std::fs::write(&tool, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
            let path = Some(folder.path().as_os_str());
            let error = make(&spec, path, folder.path()).unwrap_err().to_string();
            assert_eq!(error, format!("mke2fs cannot make the disk ext4:16M: {said}"));
        }
    }
}
