//! Finds the shared libraries that a program needs, as the dynamic loader does: glibc's (`ld.so(8)`) or musl's.

use super::musl::{self, Musl};
use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, ET_DYN, ET_EXEC, FileHeader64,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, StringTable};
use opcost_record::Architecture;
use std::collections::{HashSet, VecDeque};
use std::env::consts::ARCH;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The variable with which QEMU's user mode names a folder that has another system's files.
pub(super) const ROOT: &str = "QEMU_LD_PREFIX";

/// The folder with the files of another system, for programs that this machine does not run.
pub(super) fn root_of(architecture: Architecture, cwd: &Path) -> Option<PathBuf> {
    let row = architecture.row();
    (row.machine != ARCH).then(|| match std::env::var_os(ROOT) {
        Some(root) => cwd.join(root),
        None => Path::new("/usr").join(row.triple),
    })
}

/// Subfolders with libraries for newer processors; the guest's loader chooses among them (glibc 2.33).
fn variants_of(architecture: Architecture) -> &'static [&'static str] {
    match architecture {
        Architecture::X86_64 => {
            &["glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v2"]
        }
        Architecture::Aarch64 => &[],
    }
}

/// Why a program's libraries are incomplete.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// A library is in none of the folders.
    #[error(
        "'{}' needs the library '{}', which is not in its search path, LD_LIBRARY_PATH, \
         the loader's list of folders (/etc/ld.so.conf, /etc/ld-musl-….path) or the default folders: install it, or set LD_LIBRARY_PATH for the command",
        .needed_by.display(), .name.display()
    )]
    Missing {
        /// The library.
        name: OsString,
        /// The program or library that names it.
        needed_by: PathBuf,
    },
    /// A library that is named by a path is missing.
    #[error(
        "'{}' needs the library '{}', which is not at '{}', where the command's working directory puts \
         it: run it in another directory (--cwd)",
        .needed_by.display(), .name.display(), .place.display()
    )]
    MissingAt {
        /// The library.
        name: OsString,
        /// The path where it should be.
        place: PathBuf,
        /// The program or library that names it.
        needed_by: PathBuf,
    },
    /// The program's loader is missing.
    #[error("'{}' needs the dynamic loader '{}', which is not there: install it", .needed_by.display(), .loader.display())]
    Loader {
        /// The loader.
        loader: PathBuf,
        /// The program.
        needed_by: PathBuf,
    },
    /// A library or loader of a program for another architecture than this computer's is missing.
    #[error(
        "{what}; for a program of {architecture}, install Debian's package libc6-{}-cross, or name a folder with the files of such a system: {ROOT}=FOLDER",
        .architecture.row().debian
    )]
    Foreign {
        /// What is missing.
        what: Box<LibraryError>,
        /// The program's architecture.
        architecture: Architecture,
    },
    /// The file is damaged.
    #[error("'{}' is a damaged ELF file: {source}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        source: object::Error,
    },
}

/// The fields of a program or library that the dynamic loader reads.
#[derive(Debug, Default)]
pub(super) struct Elf {
    pub(super) architecture: Architecture,
    /// The dynamic loader that the program names.
    pub(super) loader: Option<PathBuf>,
    pub(super) needed: Vec<OsString>,
    rpath: Vec<OsString>,
    runpath: Option<Vec<OsString>>,
}

/// What an ELF program is that no guest runs: its word size, its byte order, its architecture. `None` for other files.
pub(super) fn unsuitable(contents: &[u8]) -> Option<String> {
    let header = contents.get(..0x14).filter(|header| header.starts_with(b"\x7fELF"))?;
    let (bits, is_big) = (header[4], header[5] == 2);
    let two = [header[0x12], header[0x13]];
    let machine = if is_big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) };
    let architecture = match (machine, Architecture::of_elf(machine)) {
        (_, Some(known)) => format!("for {known}"),
        (3, _) => "for i386".into(),
        (40, _) => "for 32-bit Arm".into(),
        (243, _) => "for RISC-V".into(),
        _ => format!("for ELF machine {machine}"),
    };
    let order = if is_big { "big-endian " } else { "" };
    let size = if bits == 1 { "32-bit " } else { "" };
    Some(format!("a {size}{order}program {architecture}"))
}

impl Elf {
    /// Reads a file's contents; `None` if the file is no program or library for an architecture of guests.
    pub(super) fn read(contents: &[u8]) -> object::Result<Option<Elf>> {
        let Ok(header) = FileHeader64::<Endianness>::parse(contents) else {
            return Ok(None);
        };
        let endian = header.endian()?;
        // An object file counts as data: no loader maps it.
        let is_mapped = [ET_EXEC, ET_DYN].contains(&header.e_type(endian));
        let architecture = Architecture::of_elf(header.e_machine(endian).0);
        let architecture = architecture.filter(|_| is_mapped && header.is_little_endian());
        let Some(architecture) = architecture else { return Ok(None) };
        let mut elf = Elf { architecture, ..Elf::default() };
        let segments = header.program_headers(endian, contents)?;
        for segment in segments {
            if let Some(loader) = segment.interpreter(endian, contents)? {
                elf.loader = Some(OsStr::from_bytes(loader).into());
            }
            let Some(entries) = segment.dynamic(endian, contents)? else { continue };
            let entries = || {
                let entries =
                    entries.iter().map(|entry| (entry.d_tag(endian), entry.d_val(endian)));
                entries.take_while(|(tag, _)| *tag != DT_NULL)
            };
            let value = |wanted| entries().find(|(tag, _)| *tag == wanted).map(|(_, value)| value);
            let (Some(address), Some(bytes)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
                continue;
            };
            let mut strings = StringTable::default();
            for segment in segments {
                if let Ok(Some(data)) = segment.data_range(endian, contents, address, bytes) {
                    strings = StringTable::new(data, 0, data.len() as u64);
                    break;
                }
            }
            for (tag, value) in entries() {
                let string = || {
                    let bytes = u32::try_from(value).ok().and_then(|at| strings.get(at).ok());
                    OsStr::from_bytes(bytes.unwrap_or_default()).to_os_string()
                };
                match tag {
                    DT_NEEDED => elf.needed.push(string()),
                    DT_RPATH => elf.rpath = split(&string(), b":"),
                    DT_RUNPATH => elf.runpath = Some(split(&string(), b":")),
                    _ => {}
                }
            }
        }
        Ok(Some(elf))
    }
}

/// The folders that are searched for libraries.
#[derive(Debug)]
pub(super) struct Search {
    /// That of the programs.
    pub(super) architecture: Architecture,
    /// The folder of another architecture's system, if programs here are not for the same.
    root: Option<PathBuf>,
    /// The command's working directory: the start of relative names and folders (`dlopen(3)`).
    cwd: PathBuf,
    library_path: Vec<PathBuf>,
    system: Vec<PathBuf>,
}

/// A file whose libraries are still to be found.
struct Needy {
    path: PathBuf,
    names: Vec<OsString>,
    /// Folders that the file inherits from the file that loaded it, and passes on (DT_RPATH).
    rpath: Vec<PathBuf>,
    /// Folders for this file's own libraries only (DT_RUNPATH), in place of the inherited folders.
    runpath: Option<Vec<PathBuf>>,
}

impl Search {
    /// The folders for programs that run on this machine; `library_path`: LD_LIBRARY_PATH of the command; `cwd`: its working
    /// directory.
    #[cfg(test)]
    pub(super) fn new(library_path: Option<&OsStr>, cwd: &Path) -> Search {
        Search::of_guest(Architecture::of_machine(ARCH).unwrap_or_default(), library_path, cwd)
    }

    /// The folders for programs of an architecture. If this machine does not run them, these are also the folders below
    /// QEMU_LD_PREFIX, or of Debian's libraries for the cross compiler.
    pub(super) fn of_guest(
        architecture: Architecture,
        library_path: Option<&OsStr>,
        cwd: &Path,
    ) -> Search {
        let row = architecture.row();
        let root = root_of(architecture, cwd);
        let mut system = Vec::new();
        if root.is_none() {
            configured(Path::new("/etc/ld.so.conf"), &mut system, 0);
        }
        system.extend(row.library_folders.iter().map(PathBuf::from));
        system.push("/usr/local/lib".into());
        let library_path = library_path.map(|path| split(path, b":;")).unwrap_or_default();
        let library_path = library_path.into_iter().map(PathBuf::from).collect();
        Search { architecture, root, cwd: cwd.to_path_buf(), library_path, system }
    }

    /// The places of a file of the guest's system, in order.
    fn places<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let below = path.strip_prefix("/").ok();
        let in_root = self.root.iter().zip(below).map(|(root, below)| root.join(below));
        in_root.chain([self.cwd.join(path)])
    }

    /// The place of a file of the guest's system, if the file exists.
    pub(super) fn place(&self, path: &Path) -> Option<PathBuf> {
        self.places(path).find(|place| place.exists())
    }

    /// The path in the guest of a file that was found.
    pub(super) fn in_guest(&self, found: &Path) -> PathBuf {
        let below = self.root.as_ref().and_then(|root| found.strip_prefix(root).ok());
        below.map_or_else(|| found.to_path_buf(), |below| Path::new("/").join(below))
    }

    /// An error with the advice for programs that this machine does not run.
    pub(super) fn advised(&self, error: LibraryError) -> LibraryError {
        match (&self.root, error) {
            (Some(_), what @ (LibraryError::Missing { .. } | LibraryError::Loader { .. })) => {
                LibraryError::Foreign { what: what.into(), architecture: self.architecture }
            }
            (_, error) => error,
        }
    }

    /// All direct and indirect libraries of an ELF file, each under every path at which the guest's
    /// loader may look for it.
    ///
    /// # Errors
    /// [`LibraryError::Missing`] names the first library that is not found.
    pub(super) fn libraries(&self, path: &Path, elf: &Elf) -> Result<Vec<PathBuf>, LibraryError> {
        let mut found = Vec::new();
        let mut seen: HashSet<OsString> = HashSet::new();
        // The loader is packed anyway, and some libraries name it as a library.
        let loader = elf.loader.as_ref().and_then(|loader| loader.file_name());
        seen.extend(loader.map(OsStr::to_os_string));
        let musl = Musl::of(elf).map(|musl| musl.folders(self.place(&musl.list()).as_deref()));
        let needy = |path: &Path, elf: &Elf, inherited: &[PathBuf]| match musl {
            None => needy(path, elf, inherited),
            Some(_) => needy_of_musl(path, elf, inherited),
        };
        let mut queue = VecDeque::from([needy(path, elf, &[])]);
        while let Some(Needy { path, names, rpath, runpath }) = queue.pop_front() {
            for name in names {
                if !seen.insert(name.clone()) || musl.is_some() && musl::is_own(&name) {
                    continue;
                }
                let files = match &musl {
                    Some(system) => {
                        let folders = [&self.library_path[..], &rpath, system].concat();
                        self.find(&name, &folders, &[])
                    }
                    None => {
                        let before = if runpath.is_some() { &[][..] } else { &rpath };
                        let behind = runpath.as_deref().unwrap_or_default();
                        let folders = [before, &self.library_path, behind, &self.system].concat();
                        self.find(&name, &folders, variants_of(self.architecture))
                    }
                };
                if files.is_empty() && is_path(&name) {
                    let place = self.cwd.join(&name);
                    return Err(LibraryError::MissingAt { name, place, needed_by: path });
                }
                if files.is_empty() {
                    return Err(self.advised(LibraryError::Missing { name, needed_by: path }));
                }
                for (file, elf) in files {
                    queue.push_back(needy(&file, &elf, &rpath));
                    found.push(file);
                }
            }
        }
        Ok(found)
    }

    /// Finds a library in the first folder that has it, with its variants for newer processors in
    /// that folder.
    fn find(&self, name: &OsStr, folders: &[PathBuf], variants: &[&str]) -> Vec<(PathBuf, Elf)> {
        let usable = |path: PathBuf| {
            let elf = Elf::read(&fs::read(&path).ok()?).ok()??;
            (elf.architecture == self.architecture).then_some((path, elf))
        };
        if is_path(name) {
            return usable(self.cwd.join(name)).into_iter().collect();
        }
        for folder in folders.iter().flat_map(|folder| self.places(folder)) {
            let variants = variants.iter().map(|variant| folder.join(variant));
            let places = variants.chain([folder.clone()]);
            let files: Vec<_> = places.filter_map(|place| usable(place.join(name))).collect();
            if !files.is_empty() {
                return files;
            }
        }
        Vec::new()
    }
}

/// Whether a library's name is a path, for which no folders are searched (`ld.so(8)`).
fn is_path(name: &OsStr) -> bool {
    name.as_bytes().contains(&b'/')
}

/// For musl, a DT_RUNPATH is in place of a DT_RPATH, and each is passed on.
fn needy_of_musl(path: &Path, elf: &Elf, inherited: &[PathBuf]) -> Needy {
    let mut needy = needy(path, elf, inherited);
    if let Some(runpath) = needy.runpath.take() {
        needy.rpath = [runpath, inherited.to_vec()].concat();
    }
    needy
}

fn needy(path: &Path, elf: &Elf, inherited: &[PathBuf]) -> Needy {
    let origin = path.parent().unwrap_or(Path::new("/")).as_os_str();
    let folders = |texts: &[OsString]| -> Vec<PathBuf> {
        texts.iter().map(|text| with_origin(text, origin).into()).collect()
    };
    Needy {
        path: path.to_path_buf(),
        names: elf.needed.clone(),
        rpath: [folders(&elf.rpath), inherited.to_vec()].concat(),
        runpath: elf.runpath.as_deref().map(folders),
    }
}

/// Replaces `$ORIGIN` in a folder of a search path.
fn with_origin(text: &OsStr, origin: &OsStr) -> OsString {
    let mut bytes = text.as_bytes();
    let mut path = Vec::new();
    while let Some(first) = bytes.first() {
        let token =
            [b"${ORIGIN}".as_slice(), b"$ORIGIN"].into_iter().find(|t| bytes.starts_with(t));
        match token {
            Some(_) => path.extend_from_slice(origin.as_bytes()),
            None => path.push(*first),
        }
        bytes = &bytes[token.map_or(1, <[u8]>::len)..];
    }
    OsString::from_vec(path)
}

/// The non-empty parts of a path list.
pub(super) fn split(list: &OsStr, separators: &[u8]) -> Vec<OsString> {
    let parts = list.as_bytes().split(|byte| separators.contains(byte));
    parts.filter(|part| !part.is_empty()).map(|part| OsStr::from_bytes(part).into()).collect()
}

/// How deep configuration files may include each other.
const INCLUDES_MAX: usize = 8;

/// Reads the folders in a configuration file of `ldconfig(8)`.
fn configured(file: &Path, folders: &mut Vec<PathBuf>, depth: usize) {
    let Ok(text) = fs::read_to_string(file) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        match line.strip_prefix("include ") {
            Some(pattern) if depth < INCLUDES_MAX => {
                for file in matching(Path::new(pattern.trim())) {
                    configured(&file, folders, depth + 1);
                }
            }
            Some(_) => {}
            None if line.starts_with('/') => folders.push(line.into()),
            None => {}
        }
    }
}

/// The files that match a pattern with at most one `*` in its last part, as in ldconfig's files.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    let Some((start, end)) = name.split_once('*') else { return vec![pattern.to_path_buf()] };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
    });
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_real_program_are_found() {
        let program = Path::new("/bin/ls");
        let Ok(Some(elf)) = Elf::read(&fs::read(program).unwrap()) else {
            crate::skip::skip!("/bin/ls is no program for x86-64 here");
            return;
        };
        if elf.needed.is_empty() {
            crate::skip::skip!("/bin/ls is static here");
            return;
        }
        let ours = Search::new(None, Path::new("/")).libraries(program, &elf).unwrap();
        let ours: HashSet<PathBuf> = ours.iter().map(|path| path.canonicalize().unwrap()).collect();
        // The loader's own list of libraries.
        let loader = elf.loader.unwrap();
        let list = std::process::Command::new(&loader).arg("--list").arg(program).output().unwrap();
        let list = String::from_utf8(list.stdout).unwrap();
        let theirs = list.lines().filter_map(|line| line.split_once("=> ")?.1.split(' ').next());
        let theirs: HashSet<PathBuf> =
            theirs.map(|path| Path::new(path).canonicalize().unwrap()).collect();
        assert!(!theirs.is_empty());
        // Our list may also have variants for newer processors.
        assert!(theirs.is_subset(&ours), "{theirs:?} {ours:?}");
    }

    #[test]
    fn a_missing_library_is_named() {
        let elf = Elf { needed: vec!["libnowhere.so.7".into()], ..Elf::default() };
        let error =
            Search::new(None, Path::new("/")).libraries(Path::new("/opt/prog"), &elf).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with("'/opt/prog' needs the library 'libnowhere.so.7'"), "{text}");
    }

    #[test]
    fn search_paths_come_in_the_loaders_order() {
        let Ok(Some(_)) = Elf::read(&fs::read("/proc/self/exe").unwrap()) else {
            crate::skip::skip!("programs here are not for x86-64");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        // An ELF header alone passes for a library without needs.
        let mut header = fs::read("/proc/self/exe").unwrap()[..64].to_vec();
        header[56..58].fill(0);
        for place in ["rpath", "runpath", "env/glibc-hwcaps/x86-64-v3", "env"] {
            fs::create_dir_all(root.join(place)).unwrap();
            fs::write(root.join(place).join("libx.so"), &header).unwrap();
        }
        let elf = |rpath: &[&str], runpath: Option<&str>| Elf {
            needed: vec!["libx.so".into()],
            rpath: rpath.iter().map(OsString::from).collect(),
            runpath: runpath.map(|folder| vec![folder.into()]),
            ..Elf::default()
        };
        let program = root.join("prog");
        let found = |search: &Search, elf: &Elf| search.libraries(&program, elf).unwrap();
        let search = |path: Option<&OsStr>| Search::new(path, root);
        let (bare, env) = (search(None), search(Some(root.join("env").as_os_str())));
        let rpath = elf(&["/none", "$ORIGIN/rpath"], None);
        assert_eq!(found(&env, &rpath), [root.join("rpath/libx.so")]);
        // A RUNPATH disables the RPATH of the same file, and LD_LIBRARY_PATH is searched before it.
        let both = elf(&["$ORIGIN/rpath"], Some("${ORIGIN}/runpath"));
        assert_eq!(found(&bare, &both), [root.join("runpath/libx.so")]);
        let variants = ["env/glibc-hwcaps/x86-64-v3/libx.so", "env/libx.so"];
        assert_eq!(found(&env, &both), variants.map(|path| root.join(path)));
    }

    #[test]
    fn relative_names_and_folders_begin_in_the_commands_directory() {
        let Ok(Some(_)) = Elf::read(&fs::read("/proc/self/exe").unwrap()) else {
            crate::skip::skip!("programs here are not for x86-64");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let mut header = fs::read("/proc/self/exe").unwrap()[..64].to_vec();
        header[56..58].fill(0);
        fs::create_dir(root.join("lib")).unwrap();
        for place in ["lib1.so", "lib/lib2.so"] {
            fs::write(root.join(place), &header).unwrap();
        }
        let elf = |needed: &str| Elf { needed: vec![needed.into()], ..Elf::default() };
        let search = Search::new(Some(OsStr::new("lib")), root);
        let found = |needed| search.libraries(Path::new("/opt/prog"), &elf(needed)).unwrap();
        assert_eq!(found("./lib1.so"), [root.join("./lib1.so")]);
        assert_eq!(found("lib2.so"), [root.join("lib/lib2.so")]);
        // An object file is no library.
        header[16..18].copy_from_slice(&1u16.to_le_bytes());
        fs::write(root.join("lib1.so"), &header).unwrap();
        let error = search.libraries(Path::new("/opt/prog"), &elf("./lib1.so")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("needs the library './lib1.so', which is not at '"), "{text}");
    }

    #[test]
    fn configuration_files_include_others() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir(root.join("conf.d")).unwrap();
        let include = format!("include {}/conf.d/*.conf\n/last # why\n", root.display());
        fs::write(root.join("ld.so.conf"), include).unwrap();
        for (name, text) in [("b.conf", "/b\n"), ("a.conf", "# none\n/a\n"), ("c.old", "/c\n")] {
            fs::write(root.join("conf.d").join(name), text).unwrap();
        }
        let mut folders = Vec::new();
        configured(&root.join("ld.so.conf"), &mut folders, 0);
        assert_eq!(folders, ["/a", "/b", "/last"].map(PathBuf::from));
        // A file that includes itself does not loop for ever.
        fs::write(root.join("loop"), format!("include {}/loop\n", root.display())).unwrap();
        configured(&root.join("loop"), &mut folders, 0);
    }

    #[test]
    fn other_files_are_no_elf_files() {
        for contents in [b"".as_slice(), b"#!/bin/sh\n", b"\x7fELF", &[0x7f; 64]] {
            assert!(Elf::read(contents).unwrap().is_none());
        }
    }
}
