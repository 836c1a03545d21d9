//! The archive that Linux unpacks as its initramfs: cpio in "newc" format, uncompressed, since
//! decompression would cost the guest instructions
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use super::tree::{Node, Tree, TreeError};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The modification time of files for which the tree has none: 2020-01-01, the time at which
/// emulated machines start.
pub(super) const CHANGED_S: u32 = 1_577_836_800;

/// The length of what stands in front of an entry's name.
const HEADER_BYTES: usize = 110;

/// The name of the archive's last entry.
const TRAILER: &[u8] = b"TRAILER!!!";

// File types (inode(7)).
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// Writes a tree as an archive; the same tree always gives the same bytes.
///
/// # Errors
/// A file with large data cannot be read, or has changed.
pub(super) fn archive(tree: &Tree) -> Result<Vec<u8>, TreeError> {
    let mut archive = Archive { changed_s: CHANGED_S, ..Archive::default() };
    let shared = tree.with_other_names();
    for (path, node) in tree.nodes() {
        archive.changed_s = tree.changed_s(path).unwrap_or(CHANGED_S);
        archive.owner = tree.owner(path);
        archive.entry(path, node, shared.contains(path))?;
    }
    (archive.changed_s, archive.owner) = (CHANGED_S, (0, 0));
    archive.write(TRAILER, 0, 1, (0, 0), &[]);
    Ok(archive.bytes)
}

/// The length of a tree's archive in bytes, within the padding of its entries.
pub(super) fn archive_bytes(tree: &Tree) -> u64 {
    let entry = |(path, node): (&Path, &Node)| {
        let contents = match node {
            Node::File { contents, .. } => contents.len() as u64,
            Node::Large { data, .. } => data.length,
            _ => 0,
        };
        (HEADER_BYTES + path.as_os_str().len()) as u64 + contents
    };
    tree.nodes().map(entry).sum()
}

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    /// The modification time of the entry being written, seconds since 1970.
    changed_s: u32,
    /// User and group of the entry being written.
    owner: (u32, u32),
    /// The numbers of regular files that have other names, too, with their type and permissions.
    shared: BTreeMap<PathBuf, (u32, u32)>,
    /// The number of the entry being written, if it is another name of an earlier entry.
    inode: Option<u32>,
}

impl Archive {
    /// `is_shared`: whether the file has other names, too.
    fn entry(&mut self, path: &Path, node: &Node, is_shared: bool) -> Result<(), TreeError> {
        // Names are relative to the root.
        let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes();
        // The kernel links entries of one number if they say that they have several names (init/initramfs.c, maybe_link).
        let links = if is_shared { 2 } else { 1 };
        if let (true, Node::File { mode, .. } | Node::Large { mode, .. }) = (is_shared, node) {
            self.shared.insert(path.to_path_buf(), (self.entries, REGULAR | mode));
        }
        match node {
            Node::Directory { mode } => self.write(name, DIRECTORY | mode, 2, (0, 0), &[]),
            Node::File { mode, contents } => {
                self.write(name, REGULAR | mode, links, (0, 0), contents);
            }
            Node::Large { mode, data } => {
                self.head(name, REGULAR | mode, links, (0, 0), data.length);
                data.read(|piece| self.bytes.extend_from_slice(piece))?;
                self.pad();
            }
            Node::Same { first } => {
                if let Some((inode, mode)) = self.shared.get(first).copied() {
                    self.inode = Some(inode);
                    self.write(name, mode, 2, (0, 0), &[]);
                }
            }
            Node::Link { target } => {
                self.write(name, LINK | 0o777, 1, (0, 0), target.as_os_str().as_bytes());
            }
            Node::Device { mode, number } => {
                self.write(name, CHARACTER_DEVICE | mode, 1, *number, &[]);
            }
        }
        Ok(())
    }

    /// Writes an entry.
    fn write(&mut self, name: &[u8], mode: u32, links: u32, device: (u32, u32), contents: &[u8]) {
        self.head(name, mode, links, device, contents.len() as u64);
        self.bytes.extend_from_slice(contents);
        self.pad();
    }

    /// Writes what stands in front of an entry's contents: 13 numbers of 8 hexadecimal digits, the name with a NUL.
    /// Padding lets name and contents each end at a multiple of 4 bytes.
    fn head(&mut self, name: &[u8], mode: u32, links: u32, device: (u32, u32), length: u64) {
        let inode = self.inode.take().unwrap_or(self.entries);
        self.entries += 1;
        // The limit of archives is far below 4 GiB.
        let (length, name_length) = (length as u32, name.len() as u32 + 1);
        let (major, minor) = device;
        self.bytes.extend_from_slice(b"070701");
        for number in [
            inode,
            mode,
            self.owner.0,
            self.owner.1,
            links,
            self.changed_s,
            length,
            0,
            0,
            major,
            minor,
            name_length,
            0,
        ] {
            self.bytes.extend_from_slice(format!("{number:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.put("/dev/console", Node::Device { mode: 0o600, number: (5, 1) });
        tree.put("/a/odd", Node::File { mode: 0o644, contents: b"five!".to_vec() });
        tree.put("/a/run", Node::File { mode: 0o4755, contents: vec![] });
        tree.put("/link", Node::Link { target: "a/odd".into() });
        tree
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut tree = Tree::default();
        tree.put("/ab", Node::File { mode: 0o644, contents: b"xyz".to_vec() });
        // Magic, inode, mode, owner, group, links, time, size, device, device node, length of the
        // name, checksum.
        let header = "070701 00000000 000081A4 00000000 00000000 00000001 5E0BE100 00000003 \
                      00000000 00000000 00000000 00000000 00000003 00000000";
        let bytes = archive(&tree).unwrap();
        assert_eq!(&bytes[..110], header.replace(' ', "").as_bytes());
        assert_eq!(&bytes[110..120], b"ab\0\0\0\0xyz\0");
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
    }

    #[test]
    fn names_of_one_file_have_one_number_and_files_of_roots_their_owners() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("b"), "text").unwrap();
        std::fs::hard_link(root.join("b"), root.join("a")).unwrap();
        let of = opcost_record::Architecture::X86_64;
        let mut root = opcost_image::read(&root, of, 64, folder.path()).unwrap();
        for entry in root.entries.values_mut() {
            (entry.mode, entry.owner, entry.changed_s) = (0o640, (5, 0xabcd), 1);
        }
        let mut tree = Tree::default();
        tree.add_root(&root);
        let bytes = archive(&tree).unwrap();
        let head = |name: &str, length: &str| {
            let fields = format!(
                "070701 00000000 000081A0 00000005 0000ABCD 00000002 00000001 {length} \
                 00000000 00000000 00000000 00000000 00000002 00000000"
            );
            fields.replace(' ', "") + name + "\0"
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.starts_with(&(head("a", "00000004") + "text")), "{text}");
        assert!(text.contains(&head("b", "00000000")), "{text}");
        let (at, last) = text.split_at(text.rfind("070701").unwrap());
        assert!(at.len() > 200 && last.contains("0000000000000000000000000001"), "{last}");
    }

    #[test]
    fn the_program_cpio_reads_it() {
        let list = Command::new("cpio")
            .args(["--list", "--verbose", "--numeric-uid-gid", "--quiet"])
            .env("TZ", "UTC")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut list) = list else {
            crate::skip::skip!("there is no program cpio here");
            return;
        };
        list.stdin.take().unwrap().write_all(&archive(&tree()).unwrap()).unwrap();
        let output = list.wait_with_output().unwrap();
        assert!(output.status.success());
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Vec<&str>> =
            lines.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            "drwxr-xr-x 2 0 0 0 Jan 1 2020 a",
            "-rw-r--r-- 1 0 0 5 Jan 1 2020 a/odd",
            "-rwsr-xr-x 1 0 0 0 Jan 1 2020 a/run",
            "drwxr-xr-x 2 0 0 0 Jan 1 2020 dev",
            "crw------- 1 0 0 5, 1 Jan 1 2020 dev/console",
            "lrwxrwxrwx 1 0 0 5 Jan 1 2020 link -> a/odd",
        ];
        assert_eq!(lines, expected.map(|line| line.split(' ').collect::<Vec<_>>()));
    }
}
