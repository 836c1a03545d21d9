//! Packs the files that work needs in the guest: programs with interpreters and libraries, files
//! named by a command, and the user's additions.

use super::libraries::{Elf, LibraryError, ROOT, Search, split, unsuitable};
use super::loader_cache;
use super::musl::Musl;
use super::root::RootedError;
use super::tree::{Node, PackedFile, Tree, TreeError};
use crate::inputs::OF_THE_KERNEL;
use opcost_record::Architecture;
use opcost_record::request::{GuestCommand, GuestOutput};
use opcost_sys::spawn::{FindError, find_program};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file or directory that the user wants in the guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PackItem {
    /// The path on this machine; a relative path starts at the command's working directory.
    pub host: PathBuf,
    /// The path in the guest, absolute; `None` is the same path.
    pub guest: Option<PathBuf>,
}

/// A command with everything that it needs in the guest.
#[derive(Clone, Debug)]
pub struct CommandPack {
    /// The program, as found by [`find_program`]: a relative path starts at `cwd`.
    pub program: PathBuf,
    /// The arguments, the program's own name first. Arguments that are paths of regular files are
    /// packed, too.
    pub argv: Vec<OsString>,
    /// The whole environment of the command.
    pub env: Vec<(OsString, OsString)>,
    /// The command's working directory, absolute.
    pub cwd: PathBuf,
    /// Additional files to pack.
    pub pack: Vec<PackItem>,
    /// Files used in a run on this machine, absolute; files that a guest cannot have are left out.
    pub used: Vec<PathBuf>,
    /// The file of standard input, absolute.
    pub input: Option<PathBuf>,
    /// The destination of standard output.
    pub output: GuestOutput,
    /// Whether the host gets what the program prints.
    pub sends: bool,
}

/// The files packed with a built-in workload.
#[derive(Clone, Debug, Default)]
pub struct WorkloadPack {
    /// The programs that the workload starts, absolute paths.
    pub programs: Vec<PathBuf>,
    /// The whole environment of the workload and of its programs.
    pub env: Vec<(OsString, OsString)>,
    /// The folder in which relative paths of `pack` start, absolute.
    pub cwd: PathBuf,
    /// Additional files to pack.
    pub pack: Vec<PackItem>,
}

/// Why work cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A file cannot be packed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A library or loader is missing.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A root cannot be read, or lacks what the work needs.
    #[error(transparent)]
    Rooted(#[from] RootedError),
    /// A program is missing or not executable.
    #[error(transparent)]
    Find(#[from] FindError),
    /// A file is no program.
    #[error(
        "'{}' is neither an ELF program for x86-64 or arm64 nor a script with a '#!' line; the emulator cannot run it",
        .0.display()
    )]
    NotAProgram(PathBuf),
    /// A program for a machine that no guest is.
    #[error(
        "'{}' is {found}; guests run 64-bit little-endian programs for x86-64 or arm64: build it for one of them", .path.display()
    )]
    OtherMachine {
        /// The program.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// A program is for another architecture than the guest.
    #[error("'{}' is a program for {found}, and the guest is {wanted}; give a program for {wanted}, or --architecture {found}", .path.display())]
    Architecture {
        /// The program.
        path: PathBuf,
        /// The architecture of the program.
        found: Architecture,
        /// The architecture of the guest.
        wanted: Architecture,
    },
    /// A script's interpreter is for another architecture than the guest.
    #[error(
        "'{}' is a script for '{}', which here is a program for {found}, and the guest is {wanted}; \
         name a folder that has the files of such a system: {ROOT}=FOLDER", .script.display(), .path.display()
    )]
    Interpreter {
        /// The script.
        script: PathBuf,
        /// The interpreter.
        path: PathBuf,
        /// The architecture of the interpreter.
        found: Architecture,
        /// The architecture of the guest.
        wanted: Architecture,
    },
    /// A script without a kernel: only a kernel reads a script's first line.
    #[error(
        "'{}' is a script, which user-mode emulation cannot run; name its interpreter in front of it, \
         or use --kernel to run it on a whole emulated machine", .0.display()
    )]
    ScriptWithoutKernel(PathBuf),
    /// A script's interpreter is a script, too, and so on.
    #[error("'{}' is a script whose interpreters are scripts, too, more than {INTERPRETERS_MAX} in a row", .0.display())]
    Interpreters(PathBuf),
    /// An item that the user wants packed is malformed.
    #[error("'{}' names nothing to pack; write PATH or PATH:GUESTPATH with an absolute GUESTPATH", .0.display())]
    Item(OsString),
    /// The files do not fit into the guest's memory.
    #[error(
        "the {packed_mib} MiB that are packed into the guest do not fit into its memory of {memory_mib} MiB: \
         give it --memory-mib {enough_mib} or more"
    )]
    Memory {
        /// The packed files, MiB.
        packed_mib: u64,
        /// The guest's memory, MiB.
        memory_mib: u32,
        /// The least memory that suffices, MiB.
        enough_mib: u64,
    },
    /// This machine has too little memory.
    #[error(
        "the guest would have {memory_mib} MiB of memory for {packed_mib} MiB of files, and this machine has {host_mib} MiB: \
         pack less, or use a larger machine"
    )]
    Host {
        /// The packed files, MiB.
        packed_mib: u64,
        /// The guest's memory, MiB.
        memory_mib: u32,
        /// The memory of this machine, MiB.
        host_mib: u64,
    },
    /// The image of large files cannot be written.
    #[error(
        "cannot write the {mib} MiB of files for the guest to '{}': {source}; free some space, or set TMPDIR to a folder with more",
        .path.display()
    )]
    Image {
        /// The image.
        path: PathBuf,
        /// The length of the files, MiB.
        mib: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The guest's init is not usable.
    #[error("'{}' {}; build the guest with script/build", .path.display(), .what)]
    Guest {
        /// The path where it should be.
        path: PathBuf,
        /// The reason.
        what: String,
    },
}

/// The limit of Linux (fs/exec.c, exec_binprm).
const INTERPRETERS_MAX: usize = 5;

/// The file in which glibc's loader looks up libraries; without it, the loader searches only the default folders.
pub(super) const LOADER_CACHE: &str = "/etc/ld.so.cache";

impl PackItem {
    /// Parses `PATH` or `PATH:GUESTPATH`.
    ///
    /// # Errors
    /// [`PackError::Item`]: no path, or a guest path that is not absolute.
    pub fn parse(text: &OsStr) -> Result<PackItem, PackError> {
        let wrong = || PackError::Item(text.to_os_string());
        let mut parts = text.as_bytes().splitn(2, |byte| *byte == b':').map(OsStr::from_bytes);
        let host = parts.next().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let guest = match parts.next() {
            Some(guest) if guest.as_bytes().starts_with(b"/") => Some(PathBuf::from(guest)),
            Some(_) => return Err(wrong()),
            None => None,
        };
        Ok(PackItem { host: host.into(), guest })
    }
}

/// The programs and libraries that were packed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Programs {
    /// All programs and libraries, by their paths on this machine.
    pub(super) files: Vec<PackedFile>,
    /// The file that the command executes, in the guest; for a script, its interpreter.
    pub(super) executed: Option<PathBuf>,
    /// The loader's list of libraries in the guest, if it was made from those that are packed: then it is no condition of its own.
    pub(super) loader_cache: Option<PathBuf>,
    /// Whether they are those of a root, whose digest stands for them all.
    pub(super) of_root: bool,
}

/// Packs a command. Returns the request for it, and the programs and libraries among its files.
pub(super) fn pack_command(
    tree: &mut Tree,
    architecture: Architecture,
    command: &CommandPack,
) -> Result<(GuestCommand, Programs), PackError> {
    let mut packing = Packing::into(tree, architecture, &command.env, &command.cwd);
    packing.tree.pack(&command.cwd)?;
    // An absolute name may be a link; a relative name starts at the command's working directory.
    let executed = packing.program(&command.cwd.join(&command.program), 0)?;
    for argument in command.argv.iter().skip(1) {
        let path = command.cwd.join(argument);
        if is_packable_file(&path) {
            packing.named(&path, false)?;
        }
    }
    if let Some(input) = &command.input {
        packing.tree.pack(input)?;
    }
    for path in &command.used {
        packing.used(path)?;
    }
    let programs = packing.finish(&command.pack)?;
    let request = GuestCommand {
        program: command.program.clone(),
        argv: command.argv.clone(),
        env: command.env.clone(),
        cwd: command.cwd.clone(),
        input: command.input.clone(),
        output: command.output.clone(),
        sends: command.sends,
    };
    Ok((request, Programs { executed: Some(executed), ..programs }))
}

/// Finds the program of a command that runs without a kernel, its loader, and those libraries of its
/// list that exist. Other files that it maps show when it runs.
///
/// # Errors
/// [`PackError`]: the program cannot be read, or cannot run without a kernel.
pub(super) fn programs_here(
    architecture: Architecture,
    command: &CommandPack,
) -> Result<Programs, PackError> {
    let path = command.cwd.join(&command.program);
    let read = |source| TreeError::Read { path: path.clone(), source };
    let real = path.canonicalize().map_err(read)?;
    let contents = fs::read(&real).map_err(read)?;
    if contents.starts_with(b"#!") {
        return Err(PackError::ScriptWithoutKernel(path));
    }
    let damaged = |source| LibraryError::Damaged { path: real.clone(), source };
    let elf = Elf::read(&contents).map_err(damaged)?;
    let elf = elf.ok_or_else(|| no_program(&path, &contents))?;
    let library_path = variable(&command.env, "LD_LIBRARY_PATH");
    let search = Search::of_guest(architecture, library_path, &command.cwd);
    check_architecture(&path, &elf, architecture)?;
    // The loader reports missing libraries in the program's own output.
    let libraries = search.libraries(&real, &elf).unwrap_or_default();
    let loader = elf.loader.as_ref().and_then(|loader| search.place(loader));
    let files: BTreeSet<PackedFile> = [real.clone()]
        .into_iter()
        .chain(loader)
        .chain(libraries)
        .filter_map(|file| file.canonicalize().ok())
        .map(|file| PackedFile { host: file.clone(), guest: file })
        .collect();
    let files = files.into_iter().collect();
    Ok(Programs { files, executed: Some(real), ..Programs::default() })
}

/// Why a file is no program for a guest.
fn no_program(path: &Path, contents: &[u8]) -> PackError {
    let path = path.to_path_buf();
    match unsuitable(contents) {
        Some(found) => PackError::OtherMachine { path, found },
        None => PackError::NotAProgram(path),
    }
}

fn check_architecture(path: &Path, elf: &Elf, wanted: Architecture) -> Result<(), PackError> {
    match elf.architecture {
        found if found == wanted => Ok(()),
        found => Err(PackError::Architecture { path: path.to_path_buf(), found, wanted }),
    }
}

/// Whether a file is a program that this machine does not run.
pub(super) fn is_foreign(path: &Path) -> bool {
    let elf = fs::read(path).ok().and_then(|contents| Elf::read(&contents).ok()?);
    elf.is_some_and(|elf| elf.architecture.row().machine != std::env::consts::ARCH)
}

/// Packs the files of a workload. Returns the programs and libraries among them.
pub(super) fn pack_workload(
    tree: &mut Tree,
    architecture: Architecture,
    workload: &WorkloadPack,
) -> Result<Programs, PackError> {
    let mut packing = Packing::into(tree, architecture, &workload.env, &workload.cwd);
    for program in &workload.programs {
        packing.program(program, 0)?;
    }
    packing.finish(&workload.pack)
}

fn variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
}

/// Whether an argument is the path of a file that the guest does not have itself.
fn is_packable_file(path: &Path) -> bool {
    let Ok(real) = path.canonicalize() else { return false };
    real.is_file() && !OF_THE_KERNEL.iter().any(|folder| real.starts_with(folder))
}

struct Packing<'a> {
    tree: &'a mut Tree,
    env: &'a [(OsString, OsString)],
    cwd: &'a Path,
    search: Search,
    programs: BTreeSet<PackedFile>,
    /// Whether any program needs glibc's dynamic loader.
    dynamic: bool,
}

impl<'a> Packing<'a> {
    fn into(
        tree: &'a mut Tree,
        architecture: Architecture,
        env: &'a [(OsString, OsString)],
        cwd: &'a Path,
    ) -> Packing<'a> {
        Packing {
            tree,
            env,
            cwd,
            search: Search::of_guest(architecture, variable(env, "LD_LIBRARY_PATH"), cwd),
            programs: BTreeSet::new(),
            dynamic: false,
        }
    }

    /// Packs the files beside the programs. Returns all programs and libraries.
    fn finish(mut self, pack: &[PackItem]) -> Result<Programs, PackError> {
        let mut made = None;
        if let Some(preload) = variable(self.env, "LD_PRELOAD") {
            let names = split(preload, b": ");
            for library in names.iter().filter(|name| name.as_bytes().contains(&b'/')) {
                self.named(&self.cwd.join(library), true)?;
            }
        }
        for item in pack {
            self.item(item)?;
        }
        if self.dynamic && Path::new(LOADER_CACHE).exists() {
            let real = self.tree.pack(Path::new(LOADER_CACHE))?;
            let is_packed = |path: &[u8]| {
                let place = self.tree.place(Path::new(OsStr::from_bytes(path)));
                place.is_ok_and(|place| self.tree.contents(&place).is_some())
            };
            let cache = self.tree.contents(&real).unwrap_or_default();
            if let Some(contents) = loader_cache::cut_down(cache, is_packed) {
                self.tree.put(&real, Node::File { mode: 0o644, contents });
                made = Some(real);
            }
        }
        let files = self.programs.into_iter().collect();
        Ok(Programs { files, loader_cache: made, ..Programs::default() })
    }

    /// Packs a program with everything that is needed to execute it. Returns the file that is
    /// finally executed, in the guest.
    fn program(&mut self, path: &Path, interpreters: usize) -> Result<PathBuf, PackError> {
        if interpreters > INTERPRETERS_MAX {
            return Err(PackError::Interpreters(path.to_path_buf()));
        }
        // A command is at the same path in the guest; only the system's own files come from another root.
        let (host, real) = match interpreters {
            0 => self.tree.pack(path).map(|real| (real.clone(), real))?,
            _ => self.of_root(path)?,
        };
        let mode = host.metadata().map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o111 == 0) {
            return Err(FindError::NotExecutable(path.to_path_buf()).into());
        }
        let contents = self.tree.contents(&real).unwrap_or_default();
        if let Some(line) = contents.strip_prefix(b"#!") {
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let line = OsStr::from_bytes(line).to_os_string();
            return self.interpreter(path, &line, interpreters);
        }
        match self.elf(&real)? {
            Some(elf) => {
                check_architecture(path, &elf, self.search.architecture)?;
                self.libraries(&host, &real, &elf).map(|()| real)
            }
            None => Err(no_program(path, self.tree.contents(&real).unwrap_or_default())),
        }
    }

    /// Packs the interpreter in a script's first line; for `env`, also the program that it starts.
    fn interpreter(
        &mut self,
        script: &Path,
        line: &OsStr,
        interpreters: usize,
    ) -> Result<PathBuf, PackError> {
        let words = split(line, b" \t\r");
        let Some((interpreter, arguments)) = words.split_first() else {
            return Err(PackError::NotAProgram(script.to_path_buf()));
        };
        let interpreter = self.cwd.join(interpreter);
        let executed = self.of_script(script, &interpreter, interpreters)?;
        if interpreter.file_name() == Some(OsStr::new("env")) {
            let is_name = |word: &&OsString| {
                !word.as_bytes().starts_with(b"-") && !word.as_bytes().contains(&b'=')
            };
            if let Some(name) = arguments.iter().find(is_name) {
                let program = find_program(name, variable(self.env, "PATH"), self.cwd)?;
                return self.of_script(script, &self.cwd.join(program), interpreters);
            }
        }
        Ok(executed)
    }

    /// Packs a program that a script needs.
    fn of_script(
        &mut self,
        script: &Path,
        program: &Path,
        interpreters: usize,
    ) -> Result<PathBuf, PackError> {
        let found = self.search.place(program).unwrap_or_else(|| program.to_path_buf());
        self.program(&found, interpreters + 1).map_err(|error| match error {
            PackError::Architecture { path, found, wanted } => {
                PackError::Interpreter { script: script.to_path_buf(), path, found, wanted }
            }
            error => error,
        })
    }

    /// Packs a file; if the file is a program or library, also its loader and libraries. `strict`:
    /// all of them must exist. Files that are only data to the command need not have theirs.
    fn named(&mut self, path: &Path, strict: bool) -> Result<(), PackError> {
        let real = self.tree.pack(path)?;
        self.needs_of(&real, &real, strict)
    }

    /// Packs a file or folder that a command used here, with a file's modification time. Leaves it out if the guest
    /// has its own, if it is gone, or if it is special or unreadable: then the command could not read it either.
    fn used(&mut self, path: &Path) -> Result<(), PackError> {
        let Ok(real) = path.canonicalize() else { return Ok(()) };
        let Ok(metadata) = real.metadata() else { return Ok(()) };
        let of_guest = OF_THE_KERNEL.iter().any(|folder| real.starts_with(folder))
            || path == Path::new(LOADER_CACHE);
        let is_readable = || metadata.is_dir() || (metadata.is_file() && File::open(&real).is_ok());
        if of_guest || !is_readable() {
            return Ok(());
        }
        // A folder's time changes with every file made in it, and the initramfs would change, too.
        if metadata.is_file() {
            self.tree.keep_time(real, &metadata);
        }
        match self.named(path, false) {
            // The path leads through such a file system, as /proc/self/exe does.
            Err(PackError::Tree(TreeError::OwnFileSystem(_))) => Ok(()),
            named => named,
        }
    }

    fn needs_of(&mut self, host: &Path, guest: &Path, strict: bool) -> Result<(), PackError> {
        let result = match self.elf(guest) {
            Ok(Some(elf)) => self.libraries(host, guest, &elf),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match result {
            Err(PackError::Library(_)) if !strict => Ok(()),
            result => result,
        }
    }

    fn item(&mut self, item: &PackItem) -> Result<(), PackError> {
        let host = self.cwd.join(&item.host);
        let read = |source| TreeError::Read { path: host.clone(), source };
        let metadata = fs::metadata(&host).map_err(read)?;
        let real = match &item.guest {
            None => self.tree.pack(&host)?,
            Some(guest) => self.tree.place(guest)?,
        };
        if metadata.is_dir() {
            for PackedFile { host, guest } in self.tree.pack_directory(&host, &real)? {
                self.needs_of(&host, &guest, false)?;
            }
            return Ok(());
        }
        if item.guest.is_some() {
            self.tree.pack_file(&host, &real, &metadata)?;
        }
        let host = host.canonicalize().map_err(read)?;
        let contents = self.tree.contents(&real).unwrap_or_default();
        if contents.starts_with(b"#!") && metadata.permissions().mode() & 0o111 != 0 {
            return self.program(&host, 0).map(drop);
        }
        self.needs_of(&host, &real, true)
    }

    fn elf(&self, guest: &Path) -> Result<Option<Elf>, PackError> {
        let contents = self.tree.contents(guest).unwrap_or_default();
        let damaged = |source| LibraryError::Damaged { path: guest.to_path_buf(), source };
        Ok(Elf::read(contents).map_err(damaged)?)
    }

    /// Notes a program or library and packs its loader and libraries.
    fn libraries(&mut self, host: &Path, guest: &Path, elf: &Elf) -> Result<(), PackError> {
        if elf.architecture != self.search.architecture {
            return Ok(()); // The file is data here.
        }
        self.note(host, guest);
        if let Some(loader) = &elf.loader {
            let Some(found) = self.search.place(loader) else {
                let (loader, needed_by) = (loader.clone(), host.to_path_buf());
                return Err(self.search.advised(LibraryError::Loader { loader, needed_by }).into());
            };
            self.of_system(&found)?;
            match Musl::of(elf).map(|musl| self.search.place(&musl.list())) {
                // The loader's cache here lists no libraries of another root.
                None => self.dynamic |= found == *loader,
                Some(Some(list)) => self.of_root(&list).map(drop)?,
                Some(None) => {}
            }
        }
        for library in self.search.libraries(host, elf)? {
            self.of_system(&library)?;
        }
        Ok(())
    }

    /// Packs a loader or library at its path in the guest.
    fn of_system(&mut self, found: &Path) -> Result<(), PackError> {
        let (host, guest) = self.of_root(found)?;
        self.note(&host, &guest);
        Ok(())
    }

    /// Packs a file of the guest's system at its path in the guest. Returns its real path here, and the other.
    fn of_root(&mut self, found: &Path) -> Result<(PathBuf, PathBuf), PackError> {
        let guest = self.search.in_guest(found);
        if guest == found {
            let place = self.tree.pack(found)?;
            return Ok((place.clone(), place));
        }
        let read = |source| TreeError::Read { path: found.to_path_buf(), source };
        let place = self.tree.place(&guest)?;
        let real = found.canonicalize().map_err(read)?;
        self.tree.pack_file(&real, &place, &real.metadata().map_err(read)?)?;
        Ok((real, place))
    }

    fn note(&mut self, host: &Path, guest: &Path) {
        self.programs.insert(PackedFile { host: host.into(), guest: guest.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_work::WorkloadSpec;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, UNIX_EPOCH};

    fn command(program: impl Into<PathBuf>, argv: &[&str], cwd: &Path) -> CommandPack {
        CommandPack {
            program: program.into(),
            argv: argv.iter().map(OsString::from).collect(),
            env: vec![("PATH".into(), "/usr/bin:/bin".into())],
            cwd: cwd.into(),
            pack: Vec::new(),
            used: Vec::new(),
            input: None,
            output: GuestOutput::Kept,
            sends: false,
        }
    }

    fn packed(command: &CommandPack) -> (Tree, GuestCommand, Vec<PathBuf>) {
        let mut tree = Tree::default();
        let (request, programs) = pack_command(&mut tree, Architecture::X86_64, command).unwrap();
        (tree, request, programs.files.into_iter().map(|file| file.guest).collect())
    }

    fn fault(command: &CommandPack) -> String {
        pack_command(&mut Tree::default(), Architecture::X86_64, command).unwrap_err().to_string()
    }

    fn script(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Whether the shell here is a program for x86-64, which most tests need.
    fn can_pack() -> bool {
        let elf = fs::read("/bin/sh").ok().and_then(|shell| Elf::read(&shell).ok()?);
        if elf.is_none() {
            crate::skip::skip!("/bin/sh is no program for x86-64 here");
        }
        elf.is_some()
    }

    #[test]
    fn a_program_comes_with_its_loader_libraries_and_named_files() {
        if !can_pack() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        fs::write(cwd.join("data"), "x").unwrap();
        fs::create_dir(cwd.join("sub")).unwrap();
        let (tree, request, programs) =
            packed(&command("/bin/sh", &["sh", "data", "sub", "-x", "/proc/version"], &cwd));
        assert_eq!((&request.cwd, request.argv.len()), (&cwd, 5));
        assert!(tree.has(&cwd.join("data")));
        assert!(!tree.has(&cwd.join("sub")) && !tree.has(Path::new("/proc/version")));
        assert!(tree.has(Path::new("/bin")), "the way to the program is kept");
        for program in &programs {
            assert!(tree.contents(program).is_some(), "{}", program.display());
        }
        let real = Path::new("/bin/sh").canonicalize().unwrap();
        assert!(programs.contains(&real), "{programs:?}");
        assert!(programs.iter().any(|path| path.to_string_lossy().contains("libc")));
    }

    /// A revision that takes a library of the system is compared with one that does not.
    #[test]
    fn the_list_of_packed_libraries_is_no_condition_of_its_own() {
        if !can_pack() || !Path::new(LOADER_CACHE).exists() {
            return;
        }
        let mut tree = Tree::default();
        let shell = command("/bin/sh", &["sh"], Path::new("/"));
        let (_, programs) = pack_command(&mut tree, Architecture::X86_64, &shell).unwrap();
        let cache = Path::new(LOADER_CACHE);
        assert_eq!(programs.loader_cache.as_deref(), Some(cache));
        let whole = fs::metadata(cache).unwrap().len();
        assert!((tree.contents(cache).unwrap().len() as u64) < whole);
        let guests: Vec<&Path> = vec![cache];
        let states = |own: &[&Path]| {
            let data = super::super::data::WorkData::of_guest(&tree, own, &[cache.into()], None);
            data.unwritten().any(|state| state.path == cache)
        };
        assert!(states(&[]) && !states(&guests));
    }

    #[test]
    fn what_a_command_used_comes_with_its_time_and_what_cannot_be_had_is_left_out() {
        if !can_pack() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        fs::create_dir(cwd.join("sub")).unwrap();
        fs::write(cwd.join("sub/data"), "x").unwrap();
        symlink("sub/data", cwd.join("link")).unwrap();
        let written = File::options().write(true).open(cwd.join("sub/data")).unwrap();
        written.set_modified(UNIX_EPOCH + Duration::from_secs(1_234_567_890)).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(cwd.join("socket")).unwrap();
        let mut command = command("/bin/sh", &["sh"], &cwd);
        command.used = ["link", "gone", "socket", "sub"].map(|name| cwd.join(name)).to_vec();
        symlink("/proc/self/exe", cwd.join("itself")).unwrap();
        command.used.extend(["/proc/version", "/proc/self/exe"].map(PathBuf::from));
        command.used.push(cwd.join("itself"));
        let (tree, ..) = packed(&command);
        drop(socket);
        assert!(tree.has(&cwd.join("link")) && tree.has(&cwd.join("sub")));
        assert_eq!(tree.contents(&cwd.join("sub/data")), Some(&b"x"[..]));
        assert_eq!(tree.changed_s(&cwd.join("sub/data")), Some(1_234_567_890));
        for name in ["gone", "socket", "/proc/version", "/proc/self/exe"] {
            assert!(!tree.has(&cwd.join(name)), "{name}");
        }
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert_eq!([tree.changed_s(&shell), tree.changed_s(&cwd.join("sub"))], [None; 2]);
    }

    #[test]
    fn a_program_of_another_architecture_comes_with_the_libraries_of_its_root() {
        let root = Path::new("/usr/aarch64-linux-gnu");
        let compiler = "aarch64-linux-gnu-gcc";
        let has_compiler = std::process::Command::new(compiler).arg("--version").output().is_ok();
        if !has_compiler || !root.join("lib/libm.so.6").exists() || !can_pack() {
            crate::skip::skip!("no {compiler} with its libraries here");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        let text =
            "#include <math.h>\nint main(int argc, char **argv) { return (int)cos(argc); }\n";
        fs::write(cwd.join("program.c"), text).unwrap();
        let mut build = std::process::Command::new(compiler);
        build.args(["-Wl,--no-as-needed", "-o", "program", "program.c", "-lm"]).current_dir(&cwd);
        assert!(build.status().unwrap().success());
        let command = command("./program", &["program"], &cwd);
        let mut tree = Tree::default();
        let packed = pack_command(&mut tree, Architecture::Aarch64, &command);
        let files = packed.unwrap().1.files;
        for name in ["ld-linux-aarch64.so.1", "libm.so.6", "libc.so.6"] {
            let guest = Path::new("/lib").join(name);
            let file = files.iter().find(|file| file.guest == guest).unwrap();
            assert_eq!(file.host, root.join("lib").join(name).canonicalize().unwrap());
            assert!(tree.contents(&guest).is_some());
        }
        assert!(!tree.has(Path::new(LOADER_CACHE)) && is_foreign(&cwd.join("program")));
        let error = fault(&command);
        assert!(error.contains("program for arm64, and the guest is x86-64"), "{error}");
        let fault = |program: &str| {
            let command = CommandPack { program: program.into(), ..command.clone() };
            let packed = pack_command(&mut Tree::default(), Architecture::Aarch64, &command);
            packed.unwrap_err().to_string()
        };
        let error = fault("/bin/sh");
        assert!(error.contains("'/bin/sh' is a program for x86-64"), "{error}");
        script(&cwd.join("script"), "#!/bin/sh\n");
        let error = fault("./script");
        assert!(
            error.contains("is a script for '/bin/sh', which here is a program for x86-64"),
            "{error}"
        );
    }

    #[test]
    fn scripts_bring_their_interpreters() {
        if !can_pack() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        script(&cwd.join("plain"), "#!/bin/sh -e\n");
        script(&cwd.join("found"), "#! /usr/bin/env -S A=1 gzip -d\n");
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        let (_, request, programs) = packed(&command("./plain", &["plain"], &cwd));
        assert_eq!(request.program, Path::new("./plain"));
        assert!(programs.contains(&shell));
        let (tree, _, programs) = packed(&command(cwd.join("found"), &["found"], &cwd));
        let env = Path::new("/usr/bin/env").canonicalize().unwrap();
        assert!(programs.contains(&env) && tree.has(Path::new("/usr/bin/gzip")), "{programs:?}");

        script(&cwd.join("a"), &format!("#!{}\n", cwd.join("b").display()));
        script(&cwd.join("b"), &format!("#!{}\n", cwd.join("a").display()));
        assert!(fault(&command("./a", &["a"], &cwd)).contains("more than 5 in a row"));
        script(&cwd.join("empty"), "#!\n");
        assert!(fault(&command("./empty", &["x"], &cwd)).contains("neither an ELF program for"));
    }

    #[test]
    fn a_workloads_programs_come_with_all_that_they_load() {
        let spec = WorkloadSpec::find("build").unwrap();
        let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let programs = spec.programs.unwrap()(&spec.resolve(&[]).unwrap(), &env);
        let Ok(programs) = programs else {
            crate::skip::skip!("no C compiler here: {}", programs.unwrap_err());
            return;
        };
        let mut tree = Tree::default();
        let mut pack = WorkloadPack { programs, env, cwd: "/".into(), pack: Vec::new() };
        pack.pack.push(PackItem { host: "/etc/passwd".into(), guest: Some("/data/f".into()) });
        let files = pack_workload(&mut tree, Architecture::X86_64, &pack).unwrap().files;
        assert!(tree.has(Path::new("/data/f")));
        for program in &pack.programs {
            let real = program.canonicalize().unwrap();
            assert!(tree.has(program) && tree.contents(&real).is_some(), "{}", program.display());
            assert!(files.iter().any(|file| file.guest == real), "{}", program.display());
            // The loader's own list of libraries.
            let list = std::process::Command::new("ldd").arg(&real).output().unwrap();
            for line in String::from_utf8_lossy(&list.stdout).lines() {
                let Some((_, rest)) = line.split_once("=> ") else { continue };
                let library = Path::new(rest.split(' ').next().unwrap());
                let place = tree.place(library).unwrap();
                assert_eq!(place, library.canonicalize().unwrap());
                assert!(tree.has(&place), "{} needs {}", real.display(), library.display());
            }
        }
        let absent = WorkloadPack { programs: vec!["/no/cc1".into()], ..WorkloadPack::default() };
        let said = pack_workload(&mut Tree::default(), Architecture::X86_64, &absent)
            .unwrap_err()
            .to_string();
        assert!(said.contains("cannot pack '/no'"), "{said}");
    }

    #[test]
    fn what_is_no_program_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path();
        script(&cwd.join("text"), "echo hi\n");
        fs::write(cwd.join("plain"), "#!/bin/sh\n").unwrap();
        assert!(fault(&command("./text", &["text"], cwd)).contains("text' is neither"));
        // The class, the byte order and the machine of an ELF header (elf.h).
        for (class, order, machine, words) in [
            (1, 1, [40, 0], "is a 32-bit program for 32-bit Arm;"),
            (1, 1, [3, 0], "is a 32-bit program for i386;"),
            (2, 2, [0, 183], "is a big-endian program for arm64;"),
            (2, 1, [243, 0], "is a program for RISC-V;"),
            (2, 2, [0, 21], "is a big-endian program for ELF machine 21;"),
        ] {
            let mut header = [&b"\x7fELF"[..], &[class, order, 1], &[0; 57]].concat();
            header[0x10] = 2;
            header[0x12..0x14].copy_from_slice(&machine);
            fs::write(cwd.join("other"), header).unwrap();
            fs::set_permissions(cwd.join("other"), fs::Permissions::from_mode(0o755)).unwrap();
            let said = fault(&command("./other", &["other"], cwd));
            assert!(said.contains(words) && said.contains("64-bit little-endian"), "{said}");
        }
        assert!(fault(&command("./plain", &["plain"], cwd)).contains("is not executable"));
        assert!(fault(&command("/no/program", &["x"], cwd)).contains("cannot pack '/no'"));
        let mut elsewhere = command("/bin/sh", &["sh"], cwd);
        elsewhere.cwd = "/no/folder".into();
        assert!(fault(&elsewhere).contains("cannot pack '/no'"));
    }

    #[test]
    fn added_files_and_directories_are_where_they_shall_be() {
        if !can_pack() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().canonicalize().unwrap();
        fs::create_dir(cwd.join("sub")).unwrap();
        fs::write(cwd.join("sub/file"), "x").unwrap();
        symlink("file", cwd.join("sub/link")).unwrap();
        let mut command = command("/bin/sh", &["sh"], &cwd);
        let items = ["sub", "sub/file:/data/f", "sub:/all", "/usr/bin/env:/bin/env"];
        command.pack = items.map(|text| PackItem::parse(OsStr::new(text)).unwrap()).into();
        let (tree, _, programs) = packed(&command);
        for path in ["/data/f", "/all/file", "/all/link"] {
            assert!(tree.has(Path::new(path)), "{path}");
        }
        assert!(tree.has(&cwd.join("sub/link")));
        let env = tree.place(Path::new("/bin/env")).unwrap();
        assert!(programs.contains(&env), "{programs:?}");

        command.pack = vec![PackItem { host: "none".into(), guest: None }];
        assert!(fault(&command).contains("none' into the guest: No such file"));
    }

    #[test]
    fn items_are_read() {
        let read = |text: &str| PackItem::parse(OsStr::new(text));
        let item = PackItem { host: "a".into(), guest: Some("/b:c".into()) };
        assert_eq!(read("a:/b:c").unwrap(), item);
        assert_eq!(read("a").unwrap().guest, None);
        for wrong in ["", ":/b", "a:", "a:b"] {
            assert!(matches!(read(wrong), Err(PackError::Item(_))), "{wrong}");
        }
    }
}
