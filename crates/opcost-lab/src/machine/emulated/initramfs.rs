//! The initramfs of a job: the guest's /init, its request, and the files that the work needs.

use super::cpio;
use super::data::WorkData;
use super::large_files::LargeFiles;
use super::libraries::Elf;
pub use super::libraries::LibraryError;
pub use super::packing::{CommandPack, PackError, PackItem, WorkloadPack};
use super::packing::{Programs, pack_command, pack_workload};
use super::root::Rooted;
use super::tree::{Node, Tree, moved};
pub use super::tree::{PACK_BYTES_MAX, PackedFile, TreeError};
use crate::machine::state;
use opcost_model::recording::DataState;
use opcost_record::Architecture;
use opcost_record::disk::{self, GuestDisk};
use opcost_record::request::{self, GuestJob, GuestOutput, GuestRequest};
use opcost_record::service;
use std::path::{Path, PathBuf};

/// The path of the guest's first program (`rdinit=`).
pub const INIT: &str = "/init";

/// The memory that a kernel uses before it unpacks anything, roughly, MiB.
const KERNEL_MIB: u64 = 32;

/// The limit for an archive, bytes. QEMU puts it below 2 GiB.
const ARCHIVE_BYTES_MAX: u64 = 1536 << 20;

/// Directories of every guest.
const DIRECTORIES: [&str; 7] = ["/dev", "/etc", "/opcost", "/proc", "/root", "/sys", "/tmp"];

/// Devices for kernels without devtmpfs: path, mode, major and minor number
/// (Documentation/admin-guide/devices.txt).
const DEVICES: [(&str, u32, (u32, u32)); 8] = [
    ("/dev/console", 0o600, (5, 1)),
    ("/dev/full", 0o666, (1, 7)),
    ("/dev/kmsg", 0o600, (1, 11)),
    ("/dev/null", 0o666, (1, 3)),
    ("/dev/random", 0o666, (1, 8)),
    ("/dev/tty", 0o666, (5, 0)),
    ("/dev/urandom", 0o666, (1, 9)),
    ("/dev/zero", 0o666, (1, 5)),
];

/// The minimum of /etc for programs; files that were packed replace these.
const ETC: [(&str, &str); 4] = [
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    (
        "/etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    ),
];

/// An initramfs that can be written for QEMU.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Initramfs {
    tree: Tree,
    job: GuestJob,
    cpus: Option<u32>,
    programs: Programs,
    /// The root and its digest, if the guest has one.
    root: Option<DataState>,
}

/// A disk to be packed into an initramfs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PackedDisk {
    /// The description for the guest's init.
    pub description: GuestDisk,
    /// The contents, as packed by [`disk::pack`].
    pub contents: Vec<u8>,
    /// The files of the modules in the description, in its order.
    pub modules: Vec<Vec<u8>>,
}

impl PackedDisk {
    /// SHA-256 of the modules in their order, hexadecimal; they determine their addresses in the kernel.
    pub(super) fn modules_digest(&self) -> String {
        opcost_kernel::digest(&self.modules.concat())
    }
}

/// Adds the directories of every guest that are missing.
fn put_directories(tree: &mut Tree) {
    for directory in DIRECTORIES {
        tree.put_directory(Path::new(directory));
    }
}

impl Initramfs {
    /// The initramfs for the job of sending the kernel's symbols.
    ///
    /// `guest`: the path of the static /init on this machine.
    ///
    /// # Errors
    /// [`PackError::Guest`]: the /init is missing or not static.
    pub fn for_symbols(guest: &Path) -> Result<Initramfs, PackError> {
        Initramfs::new(guest, Tree::default(), GuestJob::Symbols, Programs::default())
    }

    /// The initramfs for a built-in workload with the given parameters, its seed and its packed files.
    ///
    /// `guest`: the path of the static /init on this machine.
    ///
    /// # Errors
    /// [`PackError`] names the file that is missing, too large or no program.
    pub fn for_workload(
        guest: &Path,
        name: &str,
        params: &[(String, String)],
        seed: u64,
        pack: &WorkloadPack,
    ) -> Result<Initramfs, PackError> {
        let mut tree = Tree::default();
        let programs = pack_workload(&mut tree, static_program(guest)?.1, pack)?;
        let (name, params, env) = (name.into(), params.to_vec(), pack.env.clone());
        let job = GuestJob::Workload { name, params, seed, paths: Vec::new(), env };
        Initramfs::new(guest, tree, job, programs)
    }

    /// The same initramfs for a process that switches code paths, one for each run.
    pub fn with_paths(&self, of_runs: Vec<String>) -> Initramfs {
        let mut with = self.clone();
        with.job = with.job.with_paths(of_runs);
        with.put_request();
        with
    }

    /// The initramfs for a command, with its program, interpreters, libraries and files.
    ///
    /// `guest`: the path of the static /init on this machine.
    ///
    /// # Errors
    /// [`PackError`] names the file that is missing, too large or no program.
    pub fn for_command(guest: &Path, command: &CommandPack) -> Result<Initramfs, PackError> {
        let mut tree = Tree::default();
        let (request, programs) = pack_command(&mut tree, static_program(guest)?.1, command)?;
        Initramfs::new(guest, tree, GuestJob::Command(request), programs)
    }

    /// The initramfs for a command in a root.
    ///
    /// `guest`: the path of the static /init on this machine; `root`: the path of the root on this machine.
    pub(super) fn for_root(
        guest: &Path,
        root: &Path,
        rooted: Rooted,
    ) -> Result<Initramfs, PackError> {
        let Rooted { mut tree, request, programs, system, digest } = rooted;
        tree.put(service::PATH, Node::File { mode: 0o600, contents: system.encode() });
        let job = GuestJob::Command(request);
        let root = Some(DataState { path: root.to_path_buf(), sha256: digest });
        Initramfs::new(guest, tree, job, programs).map(|initramfs| Initramfs { root, ..initramfs })
    }

    fn new(
        guest: &Path,
        mut tree: Tree,
        job: GuestJob,
        mut programs: Programs,
    ) -> Result<Initramfs, PackError> {
        let (contents, _) = static_program(guest)?;
        let init = PackedFile { host: guest.to_path_buf(), guest: INIT.into() };
        programs.files.insert(0, init);
        put_directories(&mut tree);
        for (path, mode, number) in DEVICES {
            tree.put(path, Node::Device { mode, number });
        }
        // A root has its own, or none.
        let has_etc = tree.has_root();
        for (path, text) in ETC {
            if !has_etc && !tree.has(Path::new(path)) {
                tree.put(path, Node::File { mode: 0o644, contents: text.into() });
            }
        }
        tree.put(INIT, Node::File { mode: 0o755, contents });
        let mut initramfs = Initramfs { tree, job, cpus: None, programs, root: None };
        initramfs.put_request();
        Ok(initramfs)
    }

    fn put_request(&mut self) {
        let (cpus, job) = (self.cpus, self.job.clone());
        let contents = GuestRequest { variation: None, cpus, job }.encode();
        self.tree.put(request::PATH, Node::File { mode: 0o600, contents });
    }

    /// Makes the guest fail unless its kernel started exactly `cpus` CPUs.
    pub fn with_cpus(mut self, cpus: Option<u32>) -> Initramfs {
        self.cpus = cpus;
        self.put_request();
        self
    }

    /// Adds a disk.
    pub fn with_disk(mut self, packed: &PackedDisk) -> Initramfs {
        self.tree.put_directory(Path::new(disk::MOUNT_POINT));
        let mut put = |path: &str, contents: &[u8]| {
            self.tree.put(path, Node::File { mode: 0o600, contents: contents.to_vec() });
        };
        put(disk::PATH, &packed.description.encode());
        put(disk::IMAGE_PATH, &packed.contents);
        for (module, contents) in packed.description.modules.iter().zip(&packed.modules) {
            put(&module.path, contents);
        }
        self
    }

    /// Moves a folder of this machine to another place in the guest, with the paths in the command.
    /// The guest's work then does not depend on the folder's place on this machine.
    pub(super) fn relocated(mut self, from: &Path, to: &Path) -> Initramfs {
        self.tree.relocate(from, to);
        // The folder may have been inside one of these directories.
        put_directories(&mut self.tree);
        if let GuestJob::Command(command) = &mut self.job {
            for path in
                [&mut command.program, &mut command.cwd].into_iter().chain(&mut command.input)
            {
                *path = moved(path, from, to);
            }
            if let GuestOutput::File(path) = &mut command.output {
                *path = moved(path, from, to);
            }
        }
        // The loader's list is below /etc.
        let Programs { files, executed, .. } = &mut self.programs;
        for path in files.iter_mut().map(|file| &mut file.guest).chain(executed) {
            *path = moved(path, from, to);
        }
        self.put_request();
        self
    }

    /// Takes the files out that a guest with this memory, MiB, cannot unpack; `image`: the path for their image.
    ///
    /// # Errors
    /// The guest, or this machine, has too little memory for the files.
    pub(super) fn split(
        mut self,
        memory_mib: u32,
        image: PathBuf,
    ) -> Result<(Initramfs, Option<LargeFiles>), PackError> {
        let all_bytes = cpio::archive_bytes(&self.tree);
        if all_bytes <= ARCHIVE_BYTES_MAX && self.needed_mib() <= u64::from(memory_mib) {
            return Ok((self, None));
        }
        let large = LargeFiles::taken_from(&mut self.tree, image);
        let packed_mib = all_bytes.div_ceil(1 << 20);
        // A kernel takes a 64th of its memory for its descriptions of pages, and a file system at most 95 % of the rest.
        let files_mib = large.file_bytes().div_ceil(1 << 20);
        let needed_mib = (self.needed_mib() + KERNEL_MIB + files_mib) * 15 / 14;
        check_memory(packed_mib, needed_mib, memory_mib, state::memory_mib())?;
        Ok((self, Some(large)))
    }

    /// The memory that a guest needs to unpack the archive, MiB.
    fn needed_mib(&self) -> u64 {
        // The kernel unpacks it into a tmpfs, which takes at most half of the memory beside it (tmpfs(5)).
        3 * cpio::archive_bytes(&self.tree).div_ceil(1 << 20) + KERNEL_MIB
    }

    /// The archive; the same files always give the same bytes.
    ///
    /// # Errors
    /// A file with large data cannot be read, or has changed.
    pub fn bytes(&self) -> Result<Vec<u8>, PackError> {
        Ok(cpio::archive(&self.tree)?)
    }

    /// The guest's job.
    pub fn job(&self) -> &GuestJob {
        &self.job
    }

    /// The same files without the job; the guest waits for one.
    pub fn waiting(&self) -> Initramfs {
        let mut without = self.clone();
        without.tree.remove(Path::new(request::PATH));
        without
    }

    /// Whether a file inside may not be read by everybody, so that no copy of it may be kept.
    pub(super) fn has_private_files(&self) -> bool {
        let private = |node: &Node| matches!(node, Node::File { mode, .. } | Node::Large { mode, .. } if mode & 0o004 == 0);
        // opcost's own files are no secret.
        self.tree.nodes().any(|(path, node)| private(node) && !path.starts_with("/opcost"))
    }

    /// The files inside that are neither programs or libraries nor made from these; `named`: those that the command's arguments name, by their paths here;
    /// `tree`: the folder of this machine that was moved.
    pub(super) fn data(&self, named: &[PathBuf], tree: Option<&Path>) -> WorkData {
        let files = self.programs.files.iter().map(|file| file.guest.as_path());
        let programs: Vec<&Path> = files.chain(self.programs.loader_cache.as_deref()).collect();
        WorkData::of_guest(&self.tree, &programs, named, tree).with(self.root.clone())
    }

    /// All ELF programs and libraries inside: /init first, then by their paths on this machine.
    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }
}

/// Checks that a guest's memory holds its files, and this machine's the guest.
fn check_memory(
    packed_mib: u64,
    needed_mib: u64,
    memory_mib: u32,
    host_mib: Option<u64>,
) -> Result<(), PackError> {
    if u64::from(memory_mib) < needed_mib {
        let enough_mib = needed_mib.next_multiple_of(128);
        return Err(PackError::Memory { packed_mib, memory_mib, enough_mib });
    }
    match host_mib {
        Some(host_mib) if host_mib < u64::from(memory_mib) => {
            Err(PackError::Host { packed_mib, memory_mib, host_mib })
        }
        _ => Ok(()),
    }
}

/// Contents and architecture of the guest's /init, which decides which programs the guest runs.
fn static_program(path: &Path) -> Result<(Vec<u8>, Architecture), PackError> {
    let wrong = |what: String| PackError::Guest { path: path.to_path_buf(), what };
    let contents =
        std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    match Elf::read(&contents) {
        Ok(Some(Elf { loader: None, architecture, .. })) => Ok((contents, architecture)),
        Ok(Some(_)) => Err(wrong("is not linked statically".into())),
        _ => Err(wrong("is no ELF program for a guest".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::disk::GuestModule;
    use std::fs;

    /// An ELF header without segments, which this module takes for a static program.
    fn guest() -> Option<tempfile::NamedTempFile> {
        let own = fs::read("/proc/self/exe").unwrap();
        if Elf::read(&own).unwrap().is_none() {
            crate::skip::skip!("programs here are not for x86-64");
            return None;
        }
        let mut header = own[..64].to_vec();
        // e_phnum (elf(5)).
        header[56..58].fill(0);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), header).unwrap();
        Some(file)
    }

    #[test]
    fn the_same_job_always_gives_the_same_bytes() {
        let Some(guest) = guest() else { return };
        let params = [("ops".to_string(), "7".to_string())];
        let pack = WorkloadPack::default();
        let make =
            |seed| Initramfs::for_workload(guest.path(), "mmap", &params, seed, &pack).unwrap();
        let bytes = |seed| make(seed).bytes().unwrap();
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
        let text = String::from_utf8_lossy(&bytes(1)).into_owned();
        for part in [INIT, "dev/console", "etc/passwd", "opcost/request"] {
            assert!(text.contains(part.trim_start_matches('/')), "{part}");
        }
        let request = |of: &Initramfs| {
            GuestRequest::decode(of.tree.contents(Path::new(request::PATH)).unwrap()).unwrap()
        };
        let env = Vec::new();
        let job = GuestJob::Workload {
            name: "mmap".into(),
            params: params.to_vec(),
            seed: 1,
            paths: Vec::new(),
            env,
        };
        assert_eq!(request(&make(1)), GuestRequest::from(job.clone()));
        let paths = ["a", "b", "a"].map(str::to_string);
        let several = make(1).with_paths(paths.to_vec());
        assert_eq!(request(&several), GuestRequest::from(job.with_paths(paths.to_vec())));
        assert_eq!(several.with_paths(Vec::new()), make(1));
        let programs = make(1).programs().files.clone();
        assert_eq!(programs, [PackedFile { host: guest.path().into(), guest: INIT.into() }]);
    }

    #[test]
    fn a_guest_that_cannot_hold_its_files_is_refused() {
        let Some(guest) = guest() else { return };
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(20 << 20).unwrap();
        let item = PackItem { host: file.path().into(), guest: Some("/data".into()) };
        let pack = WorkloadPack { pack: vec![item], ..WorkloadPack::default() };
        let made = Initramfs::for_workload(guest.path(), "mmap", &[], 1, &pack).unwrap();
        let split = |made: &Initramfs, mib| made.clone().split(mib, "/image".into());
        let (same, large) = split(&made, 128).unwrap();
        assert!(same == made && large.is_none());
        // Twice in memory it does not fit, once it does.
        let (less, large) = split(&made, 94).unwrap();
        assert!(less != made && large.unwrap().file_bytes() == 20 << 20);
        let said = split(&made, 64).unwrap_err().to_string();
        let expected = "the 21 MiB that are packed into the guest do not fit into its memory of 64 MiB: \
                        give it --memory-mib 128 or more";
        assert_eq!(said, expected);
        assert!(
            check_memory(3000, 3500, 4096, Some(4096)).is_ok()
                && check_memory(1, 1, 1, None).is_ok()
        );
        let said = check_memory(3000, 3500, 4096, Some(4095)).unwrap_err().to_string();
        assert!(said.starts_with("the guest would have 4096 MiB of memory for 3000 MiB"), "{said}");
    }

    #[test]
    fn a_folder_with_another_place_leaves_nothing_of_its_own_one() {
        let Some(guest) = guest() else { return };
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "bench").unwrap();
        let bytes = |from: &str| {
            let item =
                PackItem { host: file.path().into(), guest: Some(Path::new(from).join("bench")) };
            let pack = WorkloadPack { pack: vec![item], ..WorkloadPack::default() };
            let made = Initramfs::for_workload(guest.path(), "mmap", &[], 1, &pack).unwrap();
            made.relocated(Path::new(from), Path::new("/tree")).bytes().unwrap()
        };
        let expected = bytes("/srv/tree");
        let text = String::from_utf8_lossy(&expected).into_owned();
        assert!(text.contains("tree/bench") && !text.contains("srv"), "{text}");
        // Every guest has /tmp and /root, even if they are empty otherwise.
        for from in ["/tmp/cache/tree", "/root/.cache/opcost/tree"] {
            assert!(bytes(from) == expected, "{from}");
        }
    }

    #[test]
    fn a_disk_is_packed_with_its_modules() {
        let Some(guest) = guest() else { return };
        let module = |path: &str| GuestModule {
            path: path.into(),
            parameters: "rd_nr=1".into(),
            needed: true,
        };
        let description = GuestDisk {
            file_system: "ext4".into(),
            options: "data=journal".into(),
            size_kib: 16384,
            modules: vec![module("/opcost/modules/a.ko"), module("/opcost/modules/b.ko")],
        };
        let modules = vec![b"first module".to_vec(), b"second module".to_vec()];
        let packed = PackedDisk { description, contents: b"contents".to_vec(), modules };
        let initramfs = Initramfs::for_symbols(guest.path()).unwrap().with_disk(&packed);
        let file = |path: &str| initramfs.tree.contents(Path::new(path)).unwrap();
        assert_eq!(file("/opcost/modules/b.ko"), b"second module");
        assert_eq!(file(disk::IMAGE_PATH), b"contents");
        assert_eq!(GuestDisk::decode(file(disk::PATH)).unwrap(), packed.description);
        assert!(initramfs.tree.has(Path::new(disk::MOUNT_POINT)));
    }

    #[test]
    fn an_unusable_guest_is_named() {
        let fault = |path: &str| Initramfs::for_symbols(Path::new(path)).unwrap_err().to_string();
        assert!(fault("/no/guest").contains("'/no/guest' cannot be read: No such file"));
        assert!(fault("/etc/passwd").contains("is no ELF program for a guest; build the guest"));
        if Elf::read(&fs::read("/bin/ls").unwrap()).unwrap().is_some_and(|elf| elf.loader.is_some())
        {
            assert!(fault("/bin/ls").contains("is not linked statically"));
        }
    }
}
