//! Reads a folder of this machine as a root.

use crate::names::{Inode, Names, OF_THE_KERNEL, What};
use crate::stream::open;
use crate::{Data, Fault, Root};
use rustix::fs::llistxattr;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The attributes that guests are not missed for: labels of SELinux.
const LABEL: &[u8] = b"security.selinux";

pub(crate) fn read(folder: &Path, mut names: Names) -> Result<Root, Fault> {
    let mut firsts: BTreeMap<(u64, u64), Rc<Inode>> = BTreeMap::new();
    let mut waiting = vec![PathBuf::from("/")];
    while let Some(below) = waiting.pop() {
        let here = folder.join(below.strip_prefix("/").unwrap_or(&below));
        let what = || format!("cannot read '{}'", here.display());
        let hint = "; run as its owner or as root, or give a tar that root made of it";
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => Fault::System { what: what(), source, hint },
            _ => Fault::System { what: what(), source, hint: "" },
        };
        for entry in fs::read_dir(&here).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, host) = (below.join(entry.file_name()), entry.path());
            let metadata = fs::symlink_metadata(&host).map_err(failed)?;
            let kind = metadata.file_type();
            let what = if kind.is_dir() {
                if !OF_THE_KERNEL.iter().any(|own| path == Path::new(own)) {
                    waiting.push(path.clone());
                }
                What::Folder
            } else if kind.is_symlink() {
                What::Link(fs::read_link(&host).map_err(failed)?)
            } else if kind.is_file() {
                let key = (metadata.dev(), metadata.ino());
                if let Some(inode) = firsts.get(&key) {
                    names.put(path, inode.clone())?;
                    continue;
                }
                names.limits.take(metadata.len())?;
                What::File(data(&host)?)
            } else {
                match kind.is_fifo() || kind.is_socket() {
                    true => names.dropped.pipes += 1,
                    false => names.dropped.devices += 1,
                }
                continue;
            };
            names.dropped.attributes += usize::from(has_attributes(&host));
            let inode = Rc::new(Inode {
                mode: metadata.mode() & 0o7777,
                owner: (metadata.uid(), metadata.gid()),
                changed_s: changed_s(&metadata),
                what,
            });
            if metadata.nlink() > 1 && kind.is_file() {
                firsts.insert((metadata.dev(), metadata.ino()), inode.clone());
            }
            names.put(path, inode)?;
        }
    }
    Ok(names.finish())
}

fn data(host: &Path) -> Result<Data, Fault> {
    let failed = |error| Fault::system(format!("cannot read '{}'", host.display()))(error);
    let (mut sha256, mut length) = (Sha256::new(), 0);
    let mut file = open(host)?;
    let mut piece = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut piece).map_err(failed)?;
        if read == 0 {
            break;
        }
        sha256.update(&piece[..read]);
        length += read as u64;
    }
    Ok(Data { host: host.to_path_buf(), length, sha256: sha256.finalize().to_vec() })
}

fn changed_s(metadata: &Metadata) -> u32 {
    metadata.mtime().clamp(0, u32::MAX.into()) as u32
}

/// Whether a file has attributes beside its permissions.
fn has_attributes(path: &Path) -> bool {
    let mut list = [0_u8; 4096];
    // A file system without attributes has none; a longer list than this is not empty.
    match llistxattr(path, &mut list[..]) {
        Ok(length) => {
            let mut names = list[..length].split(|byte| *byte == 0);
            names.any(|name| !name.is_empty() && name != LABEL)
        }
        Err(error) => error == rustix::io::Errno::RANGE,
    }
}
