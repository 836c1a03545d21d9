//! A guest with a root file system of its own, and the service beside its work.
//!
//! **The root is the guest's initramfs**, with owners, hard links and modification times. The work's and the service's programs are
//! looked for in the root, as the guest's kernel does. No file of this machine's system gets into the guest, and only `--input`
//! and `--pack` add files.

use super::initramfs::{CommandPack, PackItem};
use super::libraries::Elf;
use super::packing::{PackError, Programs};
use super::tree::{PackedFile, Tree, TreeError};
use opcost_base::message::announce;
use opcost_image::{Entry, Kind, Root, RootError};
use opcost_model::plan::service::ServicePlan;
use opcost_record::Architecture;
use opcost_record::printable::printable;
use opcost_record::request::GuestCommand;
use opcost_record::service::{GuestService, GuestSystem, HOST_NAME, Ready};
use opcost_symbols::elf;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where programs of a root are, unless its image or `--env` says so.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a root's work cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum RootedError {
    /// The root cannot be read.
    #[error(transparent)]
    Root(#[from] RootError),
    /// A program is not in the root.
    #[error("the root '{}' has no program '{program}' ({searched}); install it there, or give its path in the root", .root.display())]
    NoProgram {
        /// The root.
        root: PathBuf,
        /// The program's name.
        program: String,
        /// Where it was looked for.
        searched: String,
    },
    /// The root is of another architecture.
    #[error("'{}' in the root '{}' is a program for {found}, and the guest is {wanted}; give a root for {wanted}, or --architecture {found}", .program.display(), .root.display())]
    Architecture {
        /// The root.
        root: PathBuf,
        /// The program.
        program: PathBuf,
        /// Its architecture.
        found: Architecture,
        /// The guest's.
        wanted: Architecture,
    },
    /// The working directory is not in the root.
    #[error("the root '{}' has no folder '{}' to work in; give another with --cwd", .root.display(), .cwd.display())]
    NoFolder {
        /// The root.
        root: PathBuf,
        /// The folder.
        cwd: PathBuf,
    },
}

/// The work in a root.
pub(super) struct Rooted {
    /// All files of the guest.
    pub(super) tree: Tree,
    pub(super) request: GuestCommand,
    /// The programs and libraries of the root.
    pub(super) programs: Programs,
    pub(super) system: GuestSystem,
    /// SHA-256 of the root, hexadecimal.
    pub(super) digest: String,
}

/// A root that is read, with the environment and the folder of its programs.
struct InRoot<'a> {
    /// The path of the root on this machine.
    path: &'a Path,
    root: &'a Root,
    architecture: Architecture,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
}

/// Packs a command and a service with their root.
///
/// `path`: the root; `command`: its program is a name or a path in the root; `given_env`: the names of variables that the user gave, which
/// an image's do not replace; `cwd`: the folder in the root that the user chose; `scratch`: a folder for the contents of archives.
pub(super) fn pack(
    path: &Path,
    (architecture, memory_mib): (Architecture, u32),
    command: &CommandPack,
    given_env: &[(String, String)],
    cwd: Option<&Path>,
    service: Option<&ServicePlan>,
    scratch: &Path,
) -> Result<Rooted, PackError> {
    let read = |source| TreeError::Read { path: scratch.to_path_buf(), source };
    fs::create_dir_all(scratch).map_err(read)?;
    let root =
        opcost_image::read(path, architecture, memory_mib, scratch).map_err(RootedError::from)?;
    if root.dropped != opcost_image::Dropped::default() {
        announce!(
            "the guest does not get these of the root '{}': {}",
            path.display(),
            root.dropped
        );
    }
    let mut env = command.env.clone();
    let mut set = |key: &OsStr, value: &OsStr| {
        if given_env.iter().all(|(given, _)| key != given.as_str()) {
            env.retain(|(known, _)| known != key);
            env.push((key.into(), value.into()));
        }
    };
    set("PATH".as_ref(), SEARCH_PATH.as_ref());
    root.environment.iter().for_each(|(key, value)| set(key, value));
    env.sort();
    let cwd = cwd.or(root.cwd.as_deref()).unwrap_or(Path::new("/")).to_path_buf();
    let within = InRoot { path, root: &root, architecture, env, cwd };
    let is_folder = |folder: &Path| {
        root.resolve(folder).is_some_and(|real| {
            let entry = root.entries.get(&real);
            entry.is_none_or(|entry| entry.kind == Kind::Folder)
        })
    };
    if !is_folder(&within.cwd) {
        let (root, cwd) = (path.to_path_buf(), within.cwd.clone());
        return Err(RootedError::NoFolder { root, cwd }.into());
    }
    let mut tree = Tree::default();
    tree.add_root(&root);
    let mut items = command.pack.clone();
    items.extend(command.input.iter().map(|input| PackItem { host: input.clone(), guest: None }));
    let mut programs = within.programs();
    for item in &items {
        add(&mut tree, item, &command.cwd, &mut programs)?;
    }
    // A program may come from --pack.
    let (program, executed) = within.program(&command.argv[0], &tree)?;
    let service = service.map(|service| within.service(service, &tree)).transpose()?;
    programs.sort();
    // A program may lie there several times; its functions are named after the first of these files.
    let served = service.as_ref().map(|(_, served)| served);
    programs.sort_by_key(|file| file.guest != executed && Some(&file.guest) != served);
    let programs =
        Programs { files: programs, executed: Some(executed), loader_cache: None, of_root: true };
    let service = service.map(|(service, _)| service);
    let system = GuestSystem { host_name: Some(HOST_NAME.into()), service };
    let request = GuestCommand {
        program,
        argv: command.argv.clone(),
        env: within.env.clone(),
        cwd: within.cwd.clone(),
        input: command.input.clone(),
        output: command.output.clone(),
        sends: command.sends,
    };
    Ok(Rooted { tree, request, programs, system, digest: root.digest() })
}

/// Adds a file or folder of this machine, in place of what the root has there.
fn add(
    tree: &mut Tree,
    item: &PackItem,
    here: &Path,
    programs: &mut Vec<PackedFile>,
) -> Result<(), PackError> {
    let host = here.join(&item.host);
    let read = |source| TreeError::Read { path: host.clone(), source };
    let metadata = fs::metadata(&host).map_err(read)?;
    let guest = tree.place(item.guest.as_ref().unwrap_or(&host))?;
    let added = match metadata.is_dir() {
        true => tree.pack_directory(&host, &guest)?,
        false => {
            tree.pack_file(&host, &guest, &metadata)?;
            vec![PackedFile { host: host.clone(), guest }]
        }
    };
    for file in added {
        programs.retain(|known| known.guest != file.guest);
        programs.extend(Some(file).filter(|file| architecture_of(&file.host).is_some()));
    }
    Ok(())
}

impl InRoot<'_> {
    /// The programs and libraries of the root for the guest's architecture, by their paths here and in the guest.
    fn programs(&self) -> Vec<PackedFile> {
        let program = |(path, entry): (&PathBuf, &Entry)| match &entry.kind {
            Kind::File(data) if architecture_of(&data.host) == Some(self.architecture) => {
                Some(PackedFile { host: data.host.clone(), guest: path.clone() })
            }
            _ => None,
        };
        self.root.entries.iter().filter_map(program).collect()
    }

    /// Finds a program. Returns the path by which it is started, and the file that is executed in the end: of a script its interpreter.
    fn program(&self, name: &OsStr, tree: &Tree) -> Result<(PathBuf, PathBuf), RootedError> {
        let paths = self.env.iter().rev().find(|(key, _)| key == "PATH");
        let paths = paths.map_or(OsStr::new(SEARCH_PATH), |(_, paths)| paths);
        let named = Path::new(name);
        let started = self.root.program(name, paths, &self.cwd).or_else(|| {
            let packed = self.cwd.join(named);
            tree.has(&packed).then_some(packed)
        });
        let Some(started) = started else {
            let searched = match named.components().count() > 1 || named.is_absolute() {
                true => format!("below '{}'", self.cwd.display()),
                false => format!("PATH is {}", printable(&paths.to_string_lossy())),
            };
            let (root, program) = (self.path.to_path_buf(), printable(&name.to_string_lossy()));
            return Err(RootedError::NoProgram { root, program, searched });
        };
        let mut executed = started.clone();
        // A script's interpreter may be a script (fs/exec.c allows five).
        for _ in 0..5 {
            let Some(real) = self.root.resolve(&executed) else { break };
            executed = match self.root.entries.get(&real).map(|entry| &entry.kind) {
                Some(Kind::Same(first)) => first.clone(),
                _ => real,
            };
            let Some(data) = self.root.data(&executed) else { break };
            if let Some(found) =
                architecture_of(&data.host).filter(|found| *found != self.architecture)
            {
                let (root, program, wanted) = (self.path.into(), executed, self.architecture);
                return Err(RootedError::Architecture { root, program, found, wanted });
            }
            match interpreter(&data.host) {
                Some(interpreter) => executed = interpreter,
                None => break,
            }
        }
        Ok((started, executed))
    }

    /// The service, and the file that is executed in the end.
    fn service(
        &self,
        plan: &ServicePlan,
        tree: &Tree,
    ) -> Result<(GuestService, PathBuf), RootedError> {
        let words = shlex::split(&plan.line).unwrap_or_default();
        let argv: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let (program, executed) = self.program(&argv[0], tree)?;
        let ready = plan.ready.of_guest();
        let ready_program = match &ready {
            Ready::Command(words) => Some(self.program(words[0].as_ref(), tree)?.0),
            _ => None,
        };
        let (env, cwd) = (self.env.clone(), self.cwd.clone());
        Ok((GuestService { program, argv, env, cwd, ready, ready_program }, executed))
    }
}

/// The architecture of a program or library whose symbols can be read.
fn architecture_of(path: &Path) -> Option<Architecture> {
    let mut start = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).ok()?;
    if &start != b"\x7fELF" {
        return None;
    }
    let contents = fs::read(path).ok()?;
    let elf = Elf::read(&contents).ok()??;
    elf::has_symbol_table(&contents).ok().map(|_| elf.architecture)
}

/// The interpreter in a script's first line.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(256).read_to_end(&mut start)).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.split_ascii_whitespace().next().map(PathBuf::from)
}
