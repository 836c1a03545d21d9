//! The parts of a variant that are made once, before its first run: kernel, guest's files, symbols.
//!
//! **opcost boots once to read module addresses.** They exist only in a running kernel. Every run reports its own addresses,
//! and fails if they differ.
//!
//! **opcost boots kernels without a System.map once to read their symbols** and keeps the symbols by the image's hash.
//!
//! **Each variant has its own symbols**, since two builds of one program share pages with different names.

use super::booted::{self, BootedState};
use super::command_line::{self, GuestFiles, Inputs, Start};
use super::data::{self, WorkData};
use super::flight::{Files, Flight};
use super::initramfs::{CommandPack, Initramfs, PackItem, PackedDisk, WorkloadPack};
use super::large_files::LargeFiles;
use super::libraries::Elf;
use super::outcome::{self, Traces};
use super::packing::{LOADER_CACHE, Programs, is_foreign, programs_here};
use super::root;
use super::seconds::{Lap, Spent};
use super::tree::PackedFile;
use super::{Emulated, Tools, cache_folder};
use crate::hook::{Hook, HookEnd, HookRunner, HookShell, HookVariant};
use crate::machine::state::{program_state, tool_state};
use crate::machine::streams::Streams;
use crate::shipped;
use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use opcost_analysis::calls::CountedCalls;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::message::announce;
use opcost_kernel::disk::DiskSpec;
use opcost_kernel::{Kernel, KernelSpec};
use opcost_model::plan::{
    Aslr, Counted, GUEST_TREE, GuestPlan, OutputPlan, Plan, VariantPlan, WorkPlan,
};
use opcost_model::recording::{DataState, GuestBuild, KernelState, MachineState, ProgramState};
use opcost_record::channel::FrameKind;
use opcost_record::printable::hexadecimal;
use opcost_record::request::{GuestJob, GuestOutput};
use opcost_record::symbols::Landmark;
use opcost_record::{Architecture, Domain, Module, Outcome, Profile};
use opcost_size::Totals;
use opcost_symbols::assemble::assemble;
use opcost_symbols::debug_files::DebugFiles;
use opcost_symbols::demangle::printable;
use opcost_symbols::elf;
use opcost_symbols::kernel::KernelSymbols;
use opcost_sys::budget::LIMIT_BYTES;
use opcost_sys::ptrace::files_used;
use opcost_sys::spawn::{EndedBy, Spawn};
use opcost_work::WorkloadSpec;
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The limit for a boot that only asks the kernel for its symbols, which takes much less.
const SYMBOLS_LIMIT: Duration = Duration::from_secs(300);

/// The name of the phase in which the plugin's symbols are written.
const SYMBOLS: &str = "symbols of programs are read";
/// The phase of reading what the work reads.
const DATA: &str = "files that the work reads are identified";

/// A kernel with the files of its guest.
pub(super) struct Boot {
    pub(super) kernel: Kernel,
    /// The specification of the kernel in the plan.
    spec: KernelSpec,
    /// The disk in the plan.
    disk: Option<DiskSpec>,
    /// The architecture and the CPU in the plan.
    architecture: Architecture,
    cpu_model: String,
    /// The kernel's functions.
    known: Rc<Known>,
    pub(super) initrd: Initrd,
    /// The files that the initramfs cannot hold.
    pub(super) large: Option<LargeFiles>,
}

/// The files of a guest, as an initramfs.
pub(super) enum Initrd {
    /// The same file for every run: its path.
    Written(PathBuf),
    /// For processes that make several runs: the files, still without the order of the code paths.
    OfProcess(Box<Initramfs>),
    /// A kept state of a guest that waits for a request.
    Booted {
        /// The state that runs go on from.
        state: BootedState,
        /// The file of the initramfs, for direct boots.
        initrd: PathBuf,
        /// The job of the guests.
        job: Box<GuestJob>,
    },
}

impl Boot {
    /// The modules' addresses that every run must have; `None` if the kernel loads no modules.
    pub(super) fn modules(&self) -> Option<&str> {
        self.known.modules.as_deref()
    }

    /// The levels of page tables by the kernel's configuration, if the CPU does not decide them: a kernel for five also runs with four.
    pub(super) fn page_table_levels(&self) -> Option<u8> {
        let config = fs::read_to_string(self.kernel.config.as_ref()?).ok()?;
        let mut lines = config.lines();
        let levels = lines.find_map(|line| line.strip_prefix("CONFIG_PGTABLE_LEVELS="))?;
        levels.parse().ok().filter(|levels| *levels < 5)
    }

    /// The landmarks that the kernel's symbols do not name.
    pub(super) fn unnamed(&self) -> Vec<String> {
        let missing = self.known.symbols.missing().into_iter();
        missing.map(|landmark| Landmark::NAMES[landmark as usize].1.to_string()).collect()
    }
}

/// A kernel's functions and modules.
struct Known {
    symbols: KernelSymbols,
    /// The loaded modules with their addresses, as reported by the guest; `None` if there are none.
    modules: Option<String>,
}

/// The answer of a kernel that was booted to ask for its symbols.
struct Told {
    kallsyms: String,
    modules: Option<String>,
}

/// A variant that is ready to run.
pub(super) struct Prepared {
    /// The kernel and its guest; `None` under user-mode emulation.
    pub(super) boot: Option<Boot>,
    /// The file of symbols for the plugin.
    pub(super) symbols: PathBuf,
    /// The file of the functions at whose entries the plugin reads amounts, if there are any.
    pub(super) watch: Option<PathBuf>,
    /// Programs and libraries whose code runs.
    programs: Programs,
    /// Facts about these files for profiles; their paths are those in the guest.
    modules: Vec<Module>,
    /// The other files that the work reads.
    data: WorkData,
    /// The number of places at which the kernel may replace its code; 0 if they are not known.
    pub(super) alternatives: u64,
    /// The functions whose calls are metrics.
    pub(super) calls: CountedCalls,
}

impl Prepared {
    /// Prepares a variant with these programs, and writes the symbols.
    fn of(
        programs: &Programs,
        boot: Option<Boot>,
        kernel: Option<&KernelSymbols>,
        symbols: PathBuf,
        count: &[Counted],
    ) -> Result<Prepared> {
        let programs = programs.clone();
        let paths: Vec<(PathBuf, String)> = programs
            .files
            .iter()
            .map(|file| (file.host.clone(), file.guest.to_string_lossy().into_owned()))
            .collect();
        let modules = modules(&paths, programs.executed.as_deref());
        let debug_files = DebugFiles::of_environment(Some(|text| announce!("{text}")));
        let mut known = assemble(kernel, &paths, &debug_files).status(Status::Missing)?;
        if let Some(boot) = &boot {
            let image = &boot.kernel.image;
            known.alternatives = opcost_kernel::alternatives(image, boot.architecture)
                .map_err(HasStatus::carried)?;
        }
        let alternatives = known.alternatives.len() as u64;
        let whole = if kernel.is_some() { Domain::All } else { Domain::User };
        let calls = CountedCalls::of(count, &known.functions, whole).map_err(HasStatus::carried)?;
        fs::write(&symbols, known.encode())
            .with_context(|| format!("cannot write '{}'", symbols.display()))
            .status(Status::Missing)?;
        let watch = match calls.watch.watched.is_empty() {
            true => None,
            false => {
                let path = symbols.with_extension("watch");
                fs::write(&path, calls.watch.encode())
                    .with_context(|| format!("cannot write '{}'", path.display()))
                    .status(Status::Missing)?;
                Some(path)
            }
        };
        let data = WorkData::default();
        Ok(Prepared { boot, symbols, watch, programs, modules, data, alternatives, calls })
    }

    /// Adds files whose code a program without a kernel mapped during its run. Returns whether new
    /// functions have names now; then the run is worth repeating.
    pub(super) fn learn(&mut self, mapped: &[String]) -> Result<bool> {
        let known = |path: &Path| self.programs.files.iter().any(|file| file.guest == path);
        let is_program = |path: &Path| {
            // A file that was replaced by data or deleted meanwhile has no names.
            fs::read(path).is_ok_and(|bytes| matches!(Elf::read(&bytes), Ok(Some(_))))
        };
        let fresh: Vec<PackedFile> = mapped
            .iter()
            .map(PathBuf::from)
            .filter(|path| !known(path) && is_program(path))
            .map(|path| PackedFile { host: path.clone(), guest: path })
            .collect();
        if fresh.is_empty() {
            return Ok(false);
        }
        self.programs.files.extend(fresh);
        self.programs.files.sort();
        let data = std::mem::take(&mut self.data);
        let (symbols, count) = (self.symbols.clone(), &self.calls.called);
        let learned = Prepared::of(&self.programs, None, None, symbols, count)?;
        *self = Prepared { data, ..learned };
        Ok(true)
    }

    /// Whether a run has written a file that the work reads.
    pub(super) fn has_results(&self) -> bool {
        self.data.is_written()
    }

    /// The programs and libraries by their paths on this machine.
    pub(super) fn files_here(&self) -> Vec<PathBuf> {
        self.programs.files.iter().map(|file| file.host.clone()).collect()
    }

    /// The facts about the files of a profile's functions.
    pub(super) fn modules_of(&self, profile: &Profile) -> Vec<Module> {
        let has = |module: &&Module| profile.functions.iter().any(|one| one.module == module.path);
        self.modules.iter().filter(has).cloned().collect()
    }
}

/// Reads a file of symbols, which is compressed if its name ends in `.gz`.
fn symbols_text(path: &Path) -> io::Result<String> {
    if path.extension() != Some(OsStr::new("gz")) {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path)?).read_to_string(&mut text)?;
    Ok(text)
}

impl Emulated<'_> {
    /// Prepares one variant.
    pub(super) fn prepare(
        &self,
        plan: &Plan,
        index: usize,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Prepared> {
        let variant = &plan.variants[index];
        let guest = variant.guest.as_ref().context("the variant has no machine")?;
        let mut lap = Lap::begin();
        let files = self.files(&format!("variant-{index}"))?;
        let pack = plan.emulation().into_iter().flat_map(|emulation| &emulation.pack);
        let pack: Result<Vec<PackItem>, _> =
            pack.map(|text| PackItem::parse(OsStr::new(text))).collect();
        let pack = pack.status(Status::Usage)?;
        let count = plan.emulation().map_or(&[][..], |emulation| &emulation.count);
        let cwd = variant.cwd.clone().unwrap_or_else(|| "/".into());
        let command = |pack| match &variant.work {
            WorkPlan::Command { program, argv, .. } => Some(CommandPack {
                program: program.clone(),
                argv: argv.iter().map(OsString::from).collect(),
                env: self.environments[index].clone(),
                cwd: cwd.clone(),
                pack,
                used: Vec::new(),
                input: variant.input.clone(),
                output: match &variant.output {
                    Some(OutputPlan::Null) => GuestOutput::Null,
                    Some(OutputPlan::File(path)) => GuestOutput::File(path.clone()),
                    // The plan refuses pipes, since nobody would read their other end.
                    Some(OutputPlan::Inherit | OutputPlan::Pipe) | None => GuestOutput::Kept,
                },
                sends: plan.shows_output(variant) || variant.ops.is_some(),
            }),
            WorkPlan::Workload { .. } => None,
        };
        if guest.kernel.is_none()
            && let Some(command) = command(Vec::new())
        {
            let programs =
                programs_here(guest.architecture, &command).status(Status::WorkFailed)?;
            let symbols = files.path("symbols");
            let prepared = Prepared::of(&programs, None, None, symbols, count)?;
            self.note(SYMBOLS, lap.end());
            // A static program has no file beside it.
            let loader = programs.files.len() > 1;
            let loader_cache = Some(Path::new(LOADER_CACHE)).filter(|_| loader);
            let data = WorkData::of_command(&command, loader_cache);
            self.note(DATA, lap.end());
            return Ok(Prepared { data, ..prepared });
        }
        let pack_used = plan.emulation().is_some_and(|emulation| emulation.pack_used);
        let used = match pack_used && guest.root.is_none() {
            true => self.files_used(plan, index, say)?,
            false => Vec::new(),
        };
        self.note("commands run here to see which files they use", lap.end());
        let equipment = self.equipment(guest.architecture);
        let init = &equipment.tools.guest;
        let initramfs = match (&variant.work, guest.root.as_deref()) {
            (WorkPlan::Command { argv, .. }, Some(root)) => {
                let command = command(pack).context("a command")?;
                // What is packed beside the root lies where the recording began.
                let here = plan.hooks.cwd.clone().unwrap_or_else(|| "/".into());
                let command = CommandPack { argv: argv.clone(), cwd: here, ..command };
                say(&format!("reading the root '{}'", root.display()), None);
                let rooted = root::pack(
                    root,
                    (guest.architecture, guest.memory_mib),
                    &command,
                    &variant.env,
                    variant.cwd.as_deref(),
                    guest.service.as_ref(),
                    &files.path("root"),
                );
                rooted.and_then(|rooted| Initramfs::for_root(init, root, rooted))
            }
            (WorkPlan::Workload { name, params }, _) => {
                let pack =
                    workload_pack(name, params, &self.environments[index], cwd.clone(), pack)?;
                Initramfs::for_workload(init, name, params, plan.seed, &pack)
            }
            (WorkPlan::Command { .. }, None) => {
                let command = command(pack).context("a command")?;
                Initramfs::for_command(init, &CommandPack { used, ..command })
            }
        }
        .status(Status::WorkFailed)?
        .with_cpus(guest.cpus_wanted());
        let initramfs = match &variant.tree {
            Some(tree) => initramfs.relocated(tree, Path::new(GUEST_TREE)),
            None => initramfs,
        };
        let programs = initramfs.programs().clone();
        self.note("files are packed", lap.end());
        // Arguments name files of this machine, unless there is a root.
        let named = command(Vec::new()).filter(|_| guest.root.is_none());
        let named = named.map(|command| data::named(&command)).unwrap_or_default();
        let data = initramfs.data(&named, variant.tree.as_deref());
        self.note(DATA, lap.end());
        let boot = match &guest.kernel {
            Some(spec) => {
                let cache = opcost_kernel::default_cache().map_err(HasStatus::carried)?;
                let for_disk = guest.disk.is_some();
                let kernel = opcost_kernel::prepare(
                    spec,
                    guest.architecture,
                    &cache,
                    for_disk,
                    self.interrupt,
                    say,
                );
                let kernel = kernel.map_err(HasStatus::carried)?;
                let disk = guest.disk.as_ref().map(|disk| self.disk(disk, &kernel)).transpose()?;
                let known = self.known(spec, &kernel, guest, disk.as_ref(), say)?;
                let initramfs = match &disk {
                    Some(disk) => initramfs.with_disk(disk),
                    None => initramfs,
                };
                let image = files.path("large-files");
                let split = initramfs.split(guest.memory_mib, image);
                let (initramfs, large) = split.status(Status::Usage)?;
                self.note("kernels and their symbols are found", lap.end());
                let booted_once = plan.emulation().is_some_and(|emulation| emulation.booted_once);
                let state = match booted_once {
                    true => {
                        let wanted = (&initramfs, large.as_ref());
                        self.waiting(plan, &kernel, guest, wanted, &files, say)?
                    }
                    false => None,
                };
                let initrd = match (state, plan.in_process) {
                    (Some((state, initrd)), _) => {
                        Initrd::Booted { state, initrd, job: Box::new(initramfs.job().clone()) }
                    }
                    (None, Some(_)) => Initrd::OfProcess(Box::new(initramfs)),
                    (None, None) => {
                        let bytes = initramfs.bytes().status(Status::Usage)?;
                        Initrd::Written(files.write("initrd", &bytes)?)
                    }
                };
                self.note("kept states are found or made", lap.end());
                let cpu_model = guest.cpu_model.clone();
                let disk = guest.disk.clone();
                let architecture = guest.architecture;
                Some(Boot {
                    kernel,
                    spec: spec.clone(),
                    disk,
                    architecture,
                    cpu_model,
                    known,
                    initrd,
                    large,
                })
            }
            None => None,
        };
        let known = boot.as_ref().map(|boot| boot.known.clone());
        let kernel = known.as_ref().map(|known| &known.symbols);
        let prepared = Prepared::of(&programs, boot, kernel, files.path("symbols"), count)?;
        self.note(SYMBOLS, lap.end());
        Ok(Prepared { data, ..prepared })
    }

    /// The kept state of a guest that has these files and waits for a request, and the path of the
    /// files; `None`, with a message, if no state can be kept.
    fn waiting(
        &self,
        plan: &Plan,
        kernel: &Kernel,
        guest: &GuestPlan,
        (initramfs, large): (&Initramfs, Option<&LargeFiles>),
        files: &Files,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Option<(BootedState, PathBuf)>> {
        let bytes = initramfs.waiting().bytes().status(Status::Usage)?;
        let initrd = files.write("initrd", &bytes)?;
        // A state contains the files. Those that others may not read go with this recording.
        let folder = match initramfs.has_private_files() {
            true => self.folder.path().join("booted"),
            false => booted::folder()?,
        };
        match self.booted((kernel, guest, plan.aslr), (&initrd, &bytes, large), folder, say)? {
            Ok(state) => Ok(Some((state, initrd))),
            Err(why) => {
                let name = &kernel.name;
                say(&format!("kernel {name} is booted for every run, as no state is kept"), None);
                announce!("no state of a guest with kernel {name} can be kept: {why}");
                Ok(None)
            }
        }
    }

    /// Runs a variant's `prepare` and its command on this machine. Returns the files that they used.
    fn files_used(
        &self,
        plan: &Plan,
        index: usize,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Vec<PathBuf>> {
        let variant = &plan.variants[index];
        let WorkPlan::Command { program, argv, line } = &variant.work else {
            return Ok(Vec::new());
        };
        let line = printable(line);
        let here = variant.cwd.clone().unwrap_or_default().join(program);
        if is_foreign(&here) {
            say(
                &format!(
                    "'{line}' does not run on this machine; only the files that it names are packed"
                ),
                None,
            );
            return Ok(Vec::new());
        }
        say(&format!("running '{line}' on this machine to see which files it uses"), None);
        if let Some(prepare) = &variant.prepare {
            let variant = Some(HookVariant { index, environment: &self.environments[index] });
            let hook = Hook { name: "prepare", command: prepare, variant, iteration: None };
            let mut shell = HookShell { interrupt: self.interrupt };
            if shell.run(plan, &hook)? == HookEnd::Interrupted {
                return Err(fail(Status::Interrupted, "interrupted"));
            }
        }
        // An output file's path is one in the guest, and may not exist here.
        let shown = matches!(variant.output, Some(OutputPlan::Inherit));
        let here = VariantPlan {
            output: shown.then_some(OutputPlan::Inherit),
            ops: None,
            ..variant.clone()
        };
        let Streams { stdin, stdout, stderr, .. } = Streams::open(plan, &here, false)?;
        let spawn = Spawn {
            env: Some(self.environments[index].clone()),
            cwd: variant.cwd.clone(),
            stdin,
            stdout,
            stderr,
            ..Spawn::new(program, argv.clone())
        };
        let limit = plan.timeout_ms.map(Duration::from_millis);
        let uses = files_used(spawn, limit, self.interrupt).status(Status::WorkFailed)?;
        if uses.ended_by == EndedBy::Interrupt {
            return Err(fail(Status::Interrupted, "interrupted"));
        }
        let Outcome::Failed(failure) = crate::machine::outcome(plan, uses.ended_by, uses.status)
        else {
            return Ok(uses.paths);
        };
        let what = opcost_base::failure::in_words(&failure);
        Err(fail(
            Status::WorkFailed,
            format!("'{line}', run on this machine for --pack-used: {what}"),
        ))
    }

    /// A kernel's functions; an earlier variant with the same kernel and disk has them already.
    fn known(
        &self,
        spec: &KernelSpec,
        kernel: &Kernel,
        guest: &GuestPlan,
        disk: Option<&PackedDisk>,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Rc<Known>> {
        let mut earlier = self.prepared.iter().filter_map(|prepared| prepared.boot.as_ref());
        // The CPU decides which modules load.
        let same = |boot: &&Boot| {
            boot.spec == *spec
                && boot.disk == guest.disk
                && boot.architecture == guest.architecture
                && boot.cpu_model == guest.cpu_model
        };
        if let Some(boot) = earlier.find(same) {
            return Ok(boot.known.clone());
        }
        let disk = disk.filter(|disk| !disk.modules.is_empty());
        if let (Some(map), None) = (&kernel.system_map, disk) {
            let text = symbols_text(map)
                .with_context(|| format!("cannot read '{}'", map.display()))
                .status(Status::Missing)?;
            let symbols = KernelSymbols::parse(&text)
                .with_context(|| format!("'{}'", map.display()))
                .status(Status::Missing)?;
            return Ok(Rc::new(Known { symbols, modules: None }));
        }
        let listed = self.listed(kernel, guest, disk, say)?;
        let symbols = KernelSymbols::parse(&listed.kallsyms)
            .with_context(|| format!("kernel {}", kernel.name))
            .status(Status::Missing)?;
        Ok(Rc::new(Known { symbols, modules: listed.modules }))
    }

    /// The kernel's own list of functions, including those of modules for a disk. The kernel boots
    /// once for this list.
    fn listed(
        &self,
        kernel: &Kernel,
        guest: &GuestPlan,
        disk: Option<&PackedDisk>,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Told> {
        let folder = cache_folder()?.join("symbols");
        let name = match disk {
            // The guest's init influences the modules' addresses, too, and the CPU decides which modules load.
            Some(disk) => {
                let cpu_model = &guest.cpu_model;
                let init = &self.equipment(guest.architecture).tools.guest;
                let guest = tool_state(init).map(|state| state.sha256);
                let guest = guest.unwrap_or_default();
                let modules = disk.modules_digest();
                let cpu = hexadecimal(&Sha256::digest(cpu_model));
                format!("{}-{modules:.16}-{guest:.16}-{cpu:.16}", kernel.digest)
            }
            None => kernel.digest.clone(),
        };
        let place = |ending: &str| folder.join(format!("{name}.{ending}"));
        let modules = disk.map(|_| fs::read_to_string(place("modules"))).transpose();
        if let (Ok(kallsyms), Ok(modules)) = (fs::read_to_string(place("kallsyms")), modules) {
            return Ok(Told { kallsyms, modules });
        }
        say(&format!("asking kernel {} for its symbols", kernel.name), None);
        let told = self.boot_for_symbols(kernel, guest, disk)?;
        let keep = |ending: &str, text: &str| {
            let fresh = place(&format!("{ending}.new"));
            fs::write(&fresh, text)?;
            fs::rename(&fresh, place(ending))
        };
        // Without a cache, the kernel is asked again next time.
        let _ = fs::create_dir_all(&folder)
            .and_then(|()| told.modules.iter().try_for_each(|text| keep("modules", text)))
            .and_then(|()| keep("kallsyms", &told.kallsyms));
        Ok(told)
    }

    fn boot_for_symbols(
        &self,
        kernel: &Kernel,
        guest: &GuestPlan,
        disk: Option<&PackedDisk>,
    ) -> Result<Told> {
        let files = self.files("symbols")?;
        let equipment = self.equipment(guest.architecture);
        let tools = &equipment.tools;
        let mut initramfs = Initramfs::for_symbols(&tools.guest).status(Status::Missing)?;
        if let Some(disk) = disk {
            initramfs = initramfs.with_disk(disk);
        }
        let bytes = initramfs.bytes().status(Status::Usage)?;
        let initrd = files.write("initrd", &bytes)?;
        let (console, channel) = (files.path("console"), files.path("channel"));
        let guest_files = GuestFiles {
            kernel: &kernel.image,
            start: Start::Boot { initrd: &initrd },
            large: None,
            console: &console,
            channel: &channel,
        };
        let inputs = Inputs { seed: 1, padding_bytes: 0, aslr: Aslr::Fixed };
        let mut argv: Vec<OsString> = vec![tools.qemu.clone().into()];
        argv.extend(command_line::system(guest, &guest_files, inputs));
        let spawn = Spawn { env: Some(Vec::new()), ..Spawn::new(&tools.qemu, argv) };
        let mut flight = Flight::launch(spawn, files)?;
        let exit = flight.wait_in_preparation(SYMBOLS_LIMIT, self.interrupt)?;
        self.note("  a boot asks a kernel for its symbols", Spent::of_emulator(&exit));
        let (stderr, console) = (flight.files.tail("stderr"), flight.files.tail("console"));
        let traces = Traces {
            exit: &exit,
            limit_ms: Some(SYMBOLS_LIMIT.as_millis() as u64),
            stderr: &stderr,
            console: &console,
            plugin: None,
            modules: None,
        };
        let frames = outcome::guest_frames(&traces, &fs::read(&channel).unwrap_or_default())
            .map_err(|failure| {
                let what = opcost_base::failure::in_words(&failure);
                fail(Status::WorkFailed, format!("kernel {}: {what}", kernel.name))
            })?;
        let kallsyms = outcome::text_of(&frames, FrameKind::Kallsyms).ok_or_else(|| {
            fail(
                Status::Missing,
                format!(
                    "kernel {} does not tell its symbols; it needs CONFIG_KALLSYMS, or give its \
                     build folder, which has System.map",
                    kernel.name
                ),
            )
        })?;
        Ok(Told { kallsyms, modules: outcome::text_of(&frames, FrameKind::Modules) })
    }
}

/// The facts about programs and libraries for profiles; files without any are left out.
///
/// `programs`: their paths here and in the guest; `executed`: the program asked for.
fn modules(programs: &[(PathBuf, String)], executed: Option<&Path>) -> Vec<Module> {
    let module = |(host, path): &(PathBuf, String)| {
        let soname =
            elf::excerpt(host, &[], LIMIT_BYTES).ok().and_then(|file| elf::soname(&file).ok()?);
        let soname =
            soname.filter(|soname| Some(OsStr::new(soname)) != Path::new(path).file_name());
        let program = executed.is_some_and(|executed| executed == Path::new(path));
        (program || soname.is_some()).then(|| Module { path: printable(path), soname, program })
    };
    programs.iter().filter_map(module).collect()
}

/// The files for a workload: the programs that it starts with their environment, if any, and the
/// user's additions.
fn workload_pack(
    name: &str,
    params: &[(String, String)],
    environment: &[(OsString, OsString)],
    cwd: PathBuf,
    pack: Vec<PackItem>,
) -> Result<WorkloadPack> {
    let spec = WorkloadSpec::find(name).with_context(|| format!("no workload '{name}'"))?;
    let mut packed = WorkloadPack { cwd, pack, ..WorkloadPack::default() };
    if let Some(programs) = spec.programs {
        packed.programs = programs(&spec.resolve(params)?, environment).status(Status::Missing)?;
        packed.env = environment.to_vec();
    }
    Ok(packed)
}

/// The state of the tools, kernels and programs for the recording.
///
/// `tools`: those of each architecture; those of the first variant stand before all others.
pub(super) fn state(tools: &[&Tools], prepared: &[Prepared]) -> MachineState {
    let mut programs: Vec<ProgramState> = Vec::new();
    let mut add = |path: &Path, state: fn(&Path) -> Option<ProgramState>| {
        if !programs.iter().any(|known| known.path == path) {
            programs.extend(state(path));
        }
    };
    for tools in tools {
        for path in [&tools.qemu, &tools.plugin, &tools.guest] {
            add(path, tool_state);
        }
    }
    let files = prepared.iter().filter(|prepared| !prepared.programs.of_root);
    let files = files.flat_map(|prepared| &prepared.programs.files);
    files.for_each(|file| add(&file.host, program_state));
    let mut data: Vec<DataState> = Vec::new();
    for state in prepared.iter().flat_map(|prepared| prepared.data.unwritten()) {
        if !data.iter().any(|known| known.path == state.path) {
            data.push(state.clone());
        }
    }
    let kernel_of = |(variant, prepared): (usize, &Prepared)| {
        let kernel = &prepared.boot.as_ref()?.kernel;
        let config = kernel.config.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let vmlinux = kernel.vmlinux.as_ref().and_then(|path| fs::read(path).ok());
        Some(KernelState {
            variant,
            name: kernel.name.clone(),
            release: kernel.release.clone().unwrap_or_default(),
            digest: kernel.digest.clone(),
            config,
            sizes: vmlinux.and_then(|bytes| Totals::read(&bytes).ok()),
        })
    };
    let mut versions: Vec<&str> = tools.iter().map(|tools| tools.qemu_version.as_str()).collect();
    versions.dedup();
    MachineState {
        opcost_version: env!("CARGO_PKG_VERSION").to_string(),
        emulator_version: Some(versions.join(", ")),
        programs,
        data,
        kernels: prepared.iter().enumerate().filter_map(kernel_of).collect(),
        guest_build: tools.first().filter(|_| prepared.iter().any(|one| one.boot.is_some())).map(
            |tools| {
                let file = fs::read(&tools.guest).unwrap_or_default();
                GuestBuild::read(&file, shipped::is_of_a_package(&tools.guest))
            },
        ),
        ..MachineState::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    #[test]
    fn symbols_may_be_compressed_and_damage_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let [plain, packed] = ["k.map", "k.map.gz"].map(|name| folder.path().join(name));
        let text = "ffffffff81000000 T _text\n";
        fs::write(&plain, text).unwrap();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        let bytes = encoder.finish().unwrap();
        fs::write(&packed, &bytes).unwrap();
        assert_eq!([&plain, &packed].map(|path| symbols_text(path).unwrap()), [text; 2]);
        fs::write(&packed, &bytes[..bytes.len() - 9]).unwrap();
        assert!(symbols_text(&packed).is_err());
    }
}
