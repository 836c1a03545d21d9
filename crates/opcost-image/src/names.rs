//! The names of a root while layers and members are laid over one another.

use crate::stream::Limits;
use crate::tar::{Member, MemberKind, Tar};
use crate::{Data, Dropped, ENTRIES_MAX, Entry, Fault, Kind, Root, resolved};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

/// The folders of a root of which guests have their own.
pub(crate) const OF_THE_KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What marks a file of a layer below as removed, and what all files of a folder (OCI image specification, layer.md, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Files of this machine with contents are in folders of so many.
const FILES_OF_FOLDER: usize = 1000;

/// The bytes that one system call reads.
const PIECE_BYTES: usize = 1 << 16;

/// A file, which may have several names.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) changed_s: u32,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Folder,
    File(Data),
    Link(PathBuf),
}

#[derive(Debug)]
struct Name {
    /// The layer that gave it.
    layer: usize,
    inode: Rc<Inode>,
}

/// The names of a root.
#[derive(Debug)]
pub(crate) struct Names {
    names: BTreeMap<PathBuf, Name>,
    pub(crate) layer: usize,
    pub(crate) dropped: Dropped,
    pub(crate) limits: Limits,
    scratch: PathBuf,
    /// The number of files with contents in the scratch folder.
    written: usize,
}

impl Names {
    pub(crate) fn new(scratch: PathBuf, limits: Limits) -> Names {
        let dropped = Dropped::default();
        Names { names: BTreeMap::new(), layer: 0, dropped, limits, scratch, written: 0 }
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Lays the members of a tar over what is there; `is_layer`: whether names may be whiteouts.
    pub(crate) fn add_tar(&mut self, input: impl Read, is_layer: bool) -> Result<(), Fault> {
        let mut tar = Tar::new(input, self.limits);
        while let Some(member) = tar.next()? {
            if is_layer && self.removes(&member.path)? {
                continue;
            }
            self.add_member(member, &mut tar)?;
        }
        Ok(())
    }

    fn add_member<R: Read>(&mut self, member: Member, tar: &mut Tar<R>) -> Result<(), Fault> {
        let Some(path) = self.place(&member.path)? else {
            // The root itself.
            return Ok(());
        };
        if is_of_the_kernel(&path) {
            return Ok(());
        }
        let wrong = |what: String| Fault::Member { path: member.path.clone(), what };
        let what = match member.kind {
            MemberKind::Device => {
                self.dropped.devices += 1;
                return Ok(());
            }
            MemberKind::Pipe => {
                self.dropped.pipes += 1;
                return Ok(());
            }
            MemberKind::Same(target) => {
                let first = self.place(&target).map_err(|_| Fault::Outside(target.clone()))?;
                let found = first.as_ref().and_then(|first| self.names.get(first));
                let target = target.display();
                let inode = match found {
                    Some(name) if !matches!(name.inode.what, What::Folder) => name.inode.clone(),
                    Some(_) => {
                        return Err(wrong(format!("is a hard link to the folder '{target}'")));
                    }
                    None => {
                        let what = format!(
                            "is a hard link to '{target}', which is not there; make the tar of the whole root"
                        );
                        return Err(wrong(what));
                    }
                };
                return self.put(path, inode);
            }
            MemberKind::Folder => What::Folder,
            MemberKind::Link(target) => What::Link(target),
            MemberKind::File => {
                let data = self.keep(member.length, tar)?;
                if data.length < member.length {
                    let what = format!("in the contents of '{}'", member.path.display());
                    return Err(Fault::CutShort(what));
                }
                What::File(data)
            }
        };
        self.dropped.attributes += usize::from(member.has_attributes);
        let Member { mode, owner, changed_s, .. } = member;
        self.put(path, Rc::new(Inode { mode, owner, changed_s, what }))
    }

    /// Writes the contents of a tar's member to a file of the scratch folder.
    fn keep<R: Read>(&mut self, length: u64, tar: &mut Tar<R>) -> Result<Data, Fault> {
        self.limits.take(length)?;
        let folder = self.scratch.join((self.written / FILES_OF_FOLDER).to_string());
        let host = folder.join((self.written % FILES_OF_FOLDER).to_string());
        let failed = |source| Fault::System {
            what: format!("cannot write its files to '{}'", folder.display()),
            source,
            hint: "; free some space, or set TMPDIR to a folder with more",
        };
        if self.written.is_multiple_of(FILES_OF_FOLDER) {
            fs::create_dir(&folder).map_err(failed)?;
        }
        self.written += 1;
        let mut file = File::options().write(true).create_new(true).open(&host).map_err(failed)?;
        let (mut sha256, mut written) = (Sha256::new(), 0);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = tar.read(&mut piece).map_err(|error| tar.fault(error))?;
            if read == 0 {
                break;
            }
            sha256.update(&piece[..read]);
            file.write_all(&piece[..read]).map_err(failed)?;
            written += read as u64;
        }
        Ok(Data { host, length: written, sha256: sha256.finalize().to_vec() })
    }

    /// The path of a member in the root: its folder is found through links, as when it is unpacked with this root; `None` is the root itself.
    fn place(&self, member: &Path) -> Result<Option<PathBuf>, Fault> {
        let outside = || Fault::Outside(member.to_path_buf());
        if member.components().any(|part| part == Component::ParentDir) {
            return Err(outside());
        }
        let Some(name) = member.file_name() else { return Ok(None) };
        let folder = member.parent().unwrap_or(Path::new(""));
        let folder = resolved(folder, &|at| match &self.names.get(at)?.inode.what {
            What::Link(target) => Some(target.clone()),
            _ => None,
        });
        match folder {
            Some(folder) => Ok(Some(folder.join(name))),
            None => Err(Fault::Member {
                path: member.to_path_buf(),
                what: format!("lies behind more than {} symbolic links", crate::LINKS_MAX),
            }),
        }
    }

    /// Puts a name, and the folders above it that are missing.
    pub(crate) fn put(&mut self, path: PathBuf, inode: Rc<Inode>) -> Result<(), Fault> {
        if self.names.len() >= ENTRIES_MAX {
            return Err(Fault::TooMany);
        }
        for folder in path.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
            match self.names.get(folder).map(|name| &name.inode.what) {
                Some(What::Folder) => break,
                Some(_) => {
                    let what = format!("lies below '{}', which is no folder", folder.display());
                    return Err(Fault::Member { path, what });
                }
                None => {
                    let inode =
                        Inode { mode: 0o755, owner: (0, 0), changed_s: 0, what: What::Folder };
                    let name = Name { layer: self.layer, inode: Rc::new(inode) };
                    self.names.insert(folder.to_path_buf(), name);
                }
            }
        }
        // A folder over a folder changes its permissions only.
        if !matches!(inode.what, What::Folder) {
            self.remove_below(&path, usize::MAX);
        }
        self.names.insert(path, Name { layer: self.layer, inode });
        Ok(())
    }

    /// Removes the contents of a folder that layers before `layer` gave.
    fn remove_below(&mut self, folder: &Path, layer: usize) {
        let below =
            self.names.range(folder.to_path_buf()..).skip_while(|(path, _)| *path == folder);
        let below = below.take_while(|(path, _)| path.starts_with(folder));
        let gone: Vec<PathBuf> =
            below.filter(|(_, name)| name.layer < layer).map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| drop(self.names.remove(path)));
    }

    /// If a member is a whiteout, removes what it names of the layers below.
    fn removes(&mut self, member: &Path) -> Result<bool, Fault> {
        let Some(name) = member.file_name().map(OsStrExt::as_bytes) else { return Ok(false) };
        let Some(removed) = name.strip_prefix(WHITEOUT) else { return Ok(false) };
        let folder = member.parent().unwrap_or(Path::new(""));
        if name == OPAQUE {
            let folder = match self.place(folder)? {
                Some(folder) => folder,
                None => PathBuf::from("/"),
            };
            self.remove_below(&folder, self.layer);
            return Ok(true);
        }
        // Other names of this kind are aufs' own.
        if removed.starts_with(WHITEOUT) {
            return Ok(true);
        }
        if removed.is_empty() || removed == b"." || removed == b".." {
            let what = "removes no file; the image is damaged".to_string();
            return Err(Fault::Member { path: member.to_path_buf(), what });
        }
        let gone = folder.join(std::ffi::OsStr::from_bytes(removed));
        if let Some(path) = self.place(&gone)? {
            self.remove_below(&path, self.layer);
            if self.names.get(&path).is_some_and(|name| name.layer < self.layer) {
                // A folder stays if this layer has put something into it.
                let mut below = self.names.range(path.clone()..).skip(1);
                if !below.next().is_some_and(|(below, _)| below.starts_with(&path)) {
                    self.names.remove(&path);
                }
            }
        }
        Ok(true)
    }

    /// The finished root.
    pub(crate) fn finish(self) -> Root {
        let mut firsts: BTreeMap<*const Inode, PathBuf> = BTreeMap::new();
        let mut entries = BTreeMap::new();
        for (path, Name { inode, .. }) in &self.names {
            let kind = match &inode.what {
                What::Folder => Kind::Folder,
                What::Link(target) => Kind::Link(target.clone()),
                What::File(data) => match firsts.get(&Rc::as_ptr(inode)) {
                    Some(first) => Kind::Same(first.clone()),
                    None => {
                        firsts.insert(Rc::as_ptr(inode), path.clone());
                        Kind::File(data.clone())
                    }
                },
            };
            let Inode { mode, owner, changed_s, .. } = **inode;
            entries.insert(path.clone(), Entry { mode, owner, changed_s, kind });
        }
        Root { entries, environment: Vec::new(), cwd: None, dropped: self.dropped }
    }
}

/// Whether a path belongs to a file system that guests have of their own.
pub(crate) fn is_of_the_kernel(path: &Path) -> bool {
    OF_THE_KERNEL.iter().any(|folder| path.starts_with(folder) && path != Path::new(folder))
}
