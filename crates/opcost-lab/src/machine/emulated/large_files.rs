//! The files of a guest that its initramfs cannot hold, as the memory of a device ([`file_image`]).
//!
//! **A guest whose files fit into its initramfs has no such device**, so its counts are those of any guest with these files.

use super::cpio::CHANGED_S;
use super::packing::PackError;
use super::tree::{LargeData, Node, Tree};
use opcost_record::file_image::{self, ALIGNED_BYTES, FileImage, ImageFile};
use opcost_record::printable::hexadecimal;
use sha2::{Digest, Sha256};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The length from which on files leave the initramfs, bytes.
const LENGTH_MIN: u64 = ALIGNED_BYTES;

/// The files, and the place of their image.
#[derive(Debug)]
pub(super) struct LargeFiles {
    list: FileImage,
    contents: Vec<Data>,
    path: PathBuf,
    written: OnceCell<()>,
}

#[derive(Debug)]
enum Data {
    Here(Vec<u8>),
    Elsewhere(LargeData),
}

impl LargeFiles {
    /// Takes the contents of all files but the shortest and opcost's own out of a tree, and leaves their list there.
    ///
    /// `path`: of the image, for when a guest needs it.
    pub(super) fn taken_from(tree: &mut Tree, path: PathBuf) -> LargeFiles {
        let (mut files, mut contents, mut end) = (Vec::new(), Vec::new(), 0);
        let mut digest = Sha256::new();
        for (path, node, changed_s) in tree.nodes_mut() {
            let own = path.starts_with("/opcost") || path == Path::new(super::initramfs::INIT);
            let (length, mode) = match node {
                Node::File { contents, mode } => (contents.len() as u64, *mode),
                Node::Large { data, mode } => (data.length, *mode),
                _ => continue,
            };
            if own || length < LENGTH_MIN {
                continue;
            }
            let data = match std::mem::replace(node, Node::File { mode, contents: Vec::new() }) {
                Node::Large { data, .. } => Data::Elsewhere(data),
                Node::File { contents, .. } => Data::Here(contents),
                _ => continue,
            };
            match &data {
                Data::Here(contents) => digest.update(Sha256::digest(contents)),
                Data::Elsewhere(data) => digest.update(&data.sha256),
            }
            let changed_s = changed_s.unwrap_or(CHANGED_S);
            files.push(ImageFile { path: path.to_path_buf(), offset: end, length, changed_s });
            contents.push(data);
            end += length.next_multiple_of(ALIGNED_BYTES);
        }
        let bytes = end.max(ALIGNED_BYTES).next_power_of_two();
        let list = FileImage { bytes, sha256: hexadecimal(&digest.finalize()), files };
        tree.put(file_image::PATH, Node::File { mode: 0o600, contents: list.encode() });
        LargeFiles { list, contents, path, written: OnceCell::new() }
    }

    /// The size of the device's memory, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.list.bytes
    }

    /// The length of all files, bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        self.list.files.iter().map(|file| file.length).sum()
    }

    /// The image, which is written when it is first asked for.
    ///
    /// # Errors
    /// It cannot be written, or a file is not what it was.
    pub(super) fn image(&self) -> Result<&Path, PackError> {
        if self.written.get().is_none() {
            self.write()?;
            let _ = self.written.set(());
        }
        Ok(&self.path)
    }

    fn write(&self) -> Result<(), PackError> {
        let failed = |source| PackError::Image {
            path: self.path.clone(),
            mib: self.file_bytes().div_ceil(1 << 20),
            source,
        };
        let mut image = File::create(&self.path).map_err(failed)?;
        for (file, data) in self.list.files.iter().zip(&self.contents) {
            image.seek(SeekFrom::Start(file.offset)).map_err(failed)?;
            match data {
                Data::Here(contents) => image.write_all(contents).map_err(failed)?,
                Data::Elsewhere(data) => {
                    let mut written = Ok(());
                    data.read(|piece| {
                        if written.is_ok() {
                            written = image.write_all(piece);
                        }
                    })?;
                    written.map_err(failed)?;
                }
            }
        }
        image.set_len(self.list.bytes).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_leave_the_tree_and_their_image_has_what_they_had() {
        let folder = tempfile::tempdir().unwrap();
        let host = folder.path().join("large");
        fs::write(&host, vec![7; 17 << 20]).unwrap();
        let mut tree = Tree::default();
        let file =
            |byte: u8, length: usize| Node::File { mode: 0o640, contents: vec![byte; length] };
        tree.put("/data/small", file(1, 4095));
        tree.put("/data/some", file(2, 5000));
        tree.put("/opcost/request", file(3, 5000));
        tree.pack_file(&host, Path::new("/data/large"), &host.metadata().unwrap()).unwrap();
        let before = tree.clone();
        let path = folder.path().join("image");
        let taken = LargeFiles::taken_from(&mut tree, path.clone());
        assert_eq!((taken.memory_bytes(), taken.file_bytes()), (32 << 20, (17 << 20) + 5000));
        for (name, left) in [("small", 4095), ("some", 0), ("large", 0)] {
            let at = Path::new("/data").join(name);
            assert_eq!(tree.contents(&at).unwrap().len(), left, "{name}");
        }
        assert_eq!(tree.contents(Path::new("/opcost/request")).unwrap().len(), 5000);
        let list = FileImage::decode(tree.contents(Path::new(file_image::PATH)).unwrap()).unwrap();
        let places: Vec<_> = list.files.iter().map(|file| (file.offset, file.length)).collect();
        assert_eq!(places, [(0, 17 << 20), (17 << 20, 5000)]);
        let image = fs::read(taken.image().unwrap()).unwrap();
        assert_eq!(image.len(), 32 << 20);
        assert!(image[..17 << 20].iter().all(|byte| *byte == 7));
        assert!(image[17 << 20..][..5000].iter().all(|byte| *byte == 2));
        // It is written once.
        fs::remove_file(&path).unwrap();
        assert!(taken.image().is_ok() && !path.exists());

        // Other contents of the same length give another list, and those that change meanwhile are refused.
        let again = LargeFiles::taken_from(&mut before.clone(), path.clone());
        assert_eq!(again.list, list);
        fs::write(&host, vec![8; 17 << 20]).unwrap();
        let said = again.image().unwrap_err().to_string();
        assert!(said.contains("large' changed while it was packed into the guest"), "{said}");
        let nowhere = LargeFiles::taken_from(&mut before.clone(), folder.path().join("no/image"));
        let said = nowhere.image().unwrap_err().to_string();
        assert!(said.contains("cannot write the 18 MiB") && said.contains("TMPDIR"), "{said}");
    }
}
