//! The archive that Linux unpacks as its initramfs: cpio in "newc" format, uncompressed, since
//! decompression would cost the guest instructions
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use super::tree::{Node, Tree, TreeError};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
    let mut archive = Archive { bytes: Vec::new(), entries: 0, changed_s: CHANGED_S };
    for (path, node) in tree.nodes() {
        archive.changed_s = tree.changed_s(path).unwrap_or(CHANGED_S);
        archive.entry(path, node)?;
    }
    archive.changed_s = CHANGED_S;
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

struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    /// The modification time of the entry being written, seconds since 1970.
    changed_s: u32,
}

impl Archive {
    fn entry(&mut self, path: &Path, node: &Node) -> Result<(), TreeError> {
        // Names are relative to the root.
        let name = path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes();
        match node {
            Node::Directory { mode } => self.write(name, DIRECTORY | mode, 2, (0, 0), &[]),
            Node::File { mode, contents } => self.write(name, REGULAR | mode, 1, (0, 0), contents),
            Node::Large { mode, data } => {
                self.head(name, REGULAR | mode, 1, (0, 0), data.length);
                data.read(|piece| self.bytes.extend_from_slice(piece))?;
                self.pad();
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
        let inode = self.entries;
        self.entries += 1;
        // The limit of archives is far below 4 GiB.
        let (length, name_length) = (length as u32, name.len() as u32 + 1);
        let (major, minor) = device;
        self.bytes.extend_from_slice(b"070701");
        for number in
            [inode, mode, 0, 0, links, self.changed_s, length, 0, 0, major, minor, name_length, 0]
        {
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
