//! The emulated machine: runs under QEMU, whose plugin counts every instruction.
//!
//! A variant with a kernel boots with an initramfs that holds the work. The command of a variant
//! without a kernel runs under user-mode emulation. The same plugin counts in both, and identical
//! inputs give identical counts.

mod alike;
pub mod booted;
mod command_line;
mod cpio;
mod cpu;
mod data;
mod disk;
mod flight;
pub mod initramfs;
mod large_files;
mod libraries;
mod loader_cache;
mod monitor;
mod musl;
mod outcome;
mod packing;
mod prepared;
pub mod probe;
mod probe_aarch64;
mod root;
mod seconds;
mod self_test;
mod tools;
mod tree;

pub use cpu::CpuError;
pub use self_test::Unusable;
pub use tools::{Artefact, Emulator, ToolError, Tools, artefact, default_kernel};

use super::program_regions;
use super::{Machine, RunEnd, Together};
use crate::machine::illegal;
use crate::machine::printed::Printed;
use crate::machine::streams::{Kept, Streams};
use anyhow::{Context, Result};
use booted::BootedState;
use command_line::{GuestFiles, Inputs, Start};
use flight::{Files, Flight};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::scratch::Scratch;
use opcost_model::plan::{EnvironmentPolicy, Group, GuestPlan, Plan, Slot, VariantPlan, WorkPlan};
use opcost_model::recording::{Alternatives, GuestState, MachineState};
use opcost_record::emulation::last_path;
use opcost_record::printable::hexadecimal;
use opcost_record::profile::Function;
use opcost_record::request::{GuestRequest, PADDING, Variation};
use opcost_record::{Architecture, Failure, Family, MetricKey, Outcome, Reading, WORKLOAD};
use opcost_size::Ran;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::spawn::Spawn;
use opcost_sys::xdg;
use outcome::Traces;
use prepared::{Boot, Initrd, Prepared};
use seconds::{Lap, Seconds, Spent};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Finds an emulator and runs its self-test, even if an earlier result is kept.
///
/// # Errors
/// A tool is missing ([`ToolError`]), or the emulator cannot count ([`Unusable`]).
pub fn try_out(
    emulator: Emulator,
    architecture: Architecture,
    interrupt: &Interrupt,
) -> Result<Tools> {
    let tools = Tools::find(emulator, architecture).map_err(HasStatus::carried)?;
    let folder = Scratch::new()
        .context("cannot make a folder for temporary files")
        .status(Status::Missing)?;
    self_test::test(&tools, emulator, folder.path(), interrupt)?;
    Ok(tools)
}

/// What makes and counts guests of one architecture.
struct Equipment {
    tools: Tools,
    /// The plugin's arguments that are the same for all runs.
    plugin_arguments: Vec<String>,
    /// QEMU's own environment.
    qemu_environment: Vec<(OsString, OsString)>,
    /// The features that QEMU leaves out of each CPU model.
    left_out: BTreeMap<String, Vec<String>>,
}

/// Emulated machines, ready to run a plan.
pub struct Emulated<'a> {
    interrupt: &'a Interrupt,
    /// The equipment for each architecture, that of the first variant first.
    equipment: Vec<Rc<Equipment>>,
    /// Direct boots, to be compared with runs that go on from a kept state.
    direct: Vec<Direct>,
    /// The file of the core model for cycles.
    core: Option<PathBuf>,
    prepared: Vec<Prepared>,
    /// The machines of the guests that ran.
    guests: Vec<GuestState>,
    /// Whether a run mapped code of files that were unknown before.
    learned: bool,
    /// The variables that runs inherit, in words; `None` if they inherit none.
    inherited: Option<String>,
    environments: Vec<Vec<(OsString, OsString)>>,
    jobs: usize,
    /// The folder of all files that runs write; removed with this value.
    folder: Scratch,
    /// The times of all phases so far.
    seconds: RefCell<Seconds>,
    /// Whether guests are watched, to measure the phases of runs.
    watching: bool,
}

impl Equipment {
    /// Checks the CPUs of a plan's guests of one architecture, and learns how to count with its tools.
    fn new(
        plan: &Plan,
        emulator: Emulator,
        tools: Tools,
        folder: &Path,
        interrupt: &Interrupt,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Equipment> {
        let emulation = plan.emulation().context("the plan is not for this machine")?;
        let mut left_out = BTreeMap::new();
        if emulator == Emulator::System {
            let guests = plan.variants.iter().filter_map(|variant| variant.guest.as_ref());
            let guests = guests.filter(|guest| guest.architecture == tools.architecture);
            let cpus = guests.clone().map(|guest| guest.cpus).max().unwrap_or(1);
            tools.check_cpus(cpus).status(Status::Missing)?;
            let models: BTreeSet<&str> = guests.map(|guest| guest.cpu_model.as_str()).collect();
            for model in models {
                let features = cpu::check(&tools, model).map_err(HasStatus::carried)?;
                left_out.insert(model.to_string(), features);
            }
        }
        let learned = self_test::learn(&tools, emulator, folder, interrupt, say)?;
        let mut plugin_arguments = learned.filters.arguments();
        plugin_arguments.extend(emulation.cycles_one_in.map(|one_in| format!("one-in={one_in}")));
        let profile = if emulation.no_functions { "profile=off" } else { "profile=on" };
        plugin_arguments.push(profile.into());
        plugin_arguments.extend(emulation.addresses.then(|| "addresses=on".to_string()));
        if let Some(steps) = &emulation.steps {
            let number = steps.number().map_or("median".into(), |number| number.to_string());
            plugin_arguments.push(format!("steps={number}"));
            // Commas, as in the names of templates, would end the argument.
            let hex =
                |name: &str| name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
            plugin_arguments
                .extend(steps.function().map(|name| format!("stepped-call={}", hex(name))));
        }
        plugin_arguments.extend(emulation.counts_footprint().then(|| "footprint=on".to_string()));
        plugin_arguments.push(Emulated::mode_argument(emulator));
        plugin_arguments.push(match emulator {
            Emulator::System => "window=markers".into(),
            Emulator::User => "window=whole".into(),
        });
        Ok(Equipment { tools, plugin_arguments, qemu_environment: learned.environment(), left_out })
    }
}

impl<'a> Emulated<'a> {
    /// Prepares to run a plan: finds the tools, tests the emulator, builds kernels and the guests'
    /// files.
    ///
    /// `say` is called with each phase that takes long, and with how far it is.
    ///
    /// # Errors
    /// A tool is missing, the emulator fails its self-test, a kernel is not available, or a program
    /// cannot be packed.
    pub fn new(
        plan: &Plan,
        interrupt: &'a Interrupt,
        say: &mut dyn FnMut(&str, Option<&str>),
    ) -> Result<Emulated<'a>> {
        let emulation = plan.emulation().context("the plan is not for this machine")?;
        let mut lap = Lap::begin();
        let emulator = if plan.boots_kernels() { Emulator::System } else { Emulator::User };
        let folder = Scratch::new()
            .context("cannot make a folder for temporary files")
            .status(Status::Missing)?;
        let environments: Vec<_> =
            plan.variants.iter().map(|variant| environment(plan, variant)).collect();
        let mut equipment: Vec<Rc<Equipment>> = Vec::new();
        for guest in plan.variants.iter().filter_map(|variant| variant.guest.as_ref()) {
            let architecture = guest.architecture;
            if equipment.iter().all(|known| known.tools.architecture != architecture) {
                let tools = Tools::find(emulator, architecture).status(Status::Missing)?;
                let made = Equipment::new(plan, emulator, tools, folder.path(), interrupt, say)?;
                equipment.push(Rc::new(made));
            }
        }
        let core = match &emulation.core {
            None => None,
            Some(core) => {
                let path = folder.path().join("core.toml");
                std::fs::write(&path, &core.text)
                    .with_context(|| format!("cannot write {}", path.display()))
                    .status(Status::Missing)?;
                Some(path)
            }
        };
        let mut emulated = Emulated {
            interrupt,
            equipment,
            direct: Vec::new(),
            core,
            prepared: Vec::new(),
            guests: Vec::new(),
            learned: false,
            inherited: inherited(plan.environment),
            environments,
            jobs: emulation.jobs,
            folder,
            seconds: RefCell::default(),
            watching: false,
        };
        emulated.note("QEMU is found and tested", lap.end());
        for index in 0..plan.variants.len() {
            let prepared = emulated
                .prepare(plan, index, say)
                .with_context(|| format!("variant '{}'", plan.variants[index].name))?;
            emulated.prepared.push(prepared);
        }
        Ok(emulated)
    }

    /// The equipment for guests of an architecture.
    fn equipment(&self, architecture: Architecture) -> Rc<Equipment> {
        let mut all = self.equipment.iter();
        let own = all.find(|one| one.tools.architecture == architecture);
        own.cloned().expect("each variant's architecture is equipped")
    }

    /// The plugin's argument by which it checks that the right kind of QEMU loaded it.
    fn mode_argument(emulator: Emulator) -> String {
        match emulator {
            Emulator::System => "mode=system".into(),
            Emulator::User => "mode=user".into(),
        }
    }

    /// The machine's state for the recording: tools and kernels, and nothing of the host, which has
    /// no influence on counts.
    pub fn state(&self) -> MachineState {
        let guests = self.guests.clone();
        let inherited_environment = self.inherited.clone();
        let tools: Vec<&Tools> = self.equipment.iter().map(|one| &one.tools).collect();
        let state = prepared::state(&tools, &self.prepared);
        MachineState { guests, inherited_environment, ..state }
    }

    /// Starts one machine; `None` if a signal came. `runs`: the runs that its work makes, one or
    /// those of a process.
    fn start(&mut self, plan: &Plan, runs: &[Slot]) -> Result<Option<Flight>> {
        let mut lap = Lap::begin();
        let slot = &runs[0];
        let index = usize::from(slot.variant);
        let prepared = &self.prepared[index];
        let files = self.files(&format!("run-{}", slot.slot))?;
        let inputs =
            Inputs { seed: slot.guest_seed, padding_bytes: slot.padding_bytes, aslr: plan.aslr };
        let variant = &plan.variants[index];
        let guest = variant.guest.as_ref().context("the variant has no machine")?;
        let report = files.path("report");
        let paths = [("out", report.as_path()), ("symbols", &prepared.symbols)];
        let only_learns = plan.emulation().is_some_and(|emulation| emulation.model);
        let key = if only_learns { "model" } else { "cycles" };
        let core = self.core.as_deref().map(|core| (key, core));
        let watch = prepared.watch.as_deref().map(|watch| ("watch", watch));
        let paths: Vec<(&str, &Path)> = paths.into_iter().chain(core).chain(watch).collect();
        let equipment = self.equipment(guest.architecture);
        let tools = &equipment.tools;
        let mut arguments = equipment.plugin_arguments.clone();
        match &variant.work {
            WorkPlan::Command { .. } => arguments.push("once=on".into()),
            WorkPlan::Workload { params, .. } => {
                let ops = params.iter().find(|(key, _)| key == "ops");
                arguments.extend(ops.map(|(_, ops)| format!("operations={ops}")));
            }
        }
        let plugin = command_line::plugin(&tools.plugin, &arguments, &paths);
        let mut argv: Vec<OsString> = vec![tools.qemu.clone().into()];
        let (mut restored, mut kept) = (None, None);
        let mut spawn = match (&prepared.boot, &variant.work) {
            (Some(boot), _) => {
                let (console, channel) = (files.path("console"), files.path("channel"));
                let paths = runs.iter().filter_map(|run| {
                    plan.variants[usize::from(run.variant)].work.path().map(str::to_string)
                });
                let (own, request);
                let (start, inputs) = match &boot.initrd {
                    Initrd::Written(initrd) => (Start::Boot { initrd }, inputs),
                    Initrd::OfProcess(initramfs) => {
                        let bytes = initramfs.with_paths(paths.collect()).bytes();
                        own = files.write("initrd", &bytes.status(Status::Usage)?)?;
                        (Start::Boot { initrd: &own }, inputs)
                    }
                    Initrd::Booted { state, initrd, job } => {
                        let Inputs { seed, padding_bytes, aslr } = inputs;
                        let variation = Some(Variation { seed, padding_bytes });
                        let job = (**job).clone().with_paths(paths.collect());
                        let cpus = guest.cpus_wanted();
                        let bytes = GuestRequest { variation, cpus, job }.encode();
                        request = files.write("request", &bytes)?;
                        let start = if let Some(direct) = Direct::of(slot, state, &self.direct) {
                            self.direct.push(direct);
                            Start::Pass { initrd, request: &request }
                        } else {
                            restored = Some(state);
                            Start::Restore { request: &request }
                        };
                        (start, booted::boot_inputs(aslr))
                    }
                };
                let large = match (&boot.large, start) {
                    (None, _) => None,
                    // The guest has written the files before it stopped.
                    (Some(large), Start::Restore { .. }) => {
                        Some((Path::new(""), large.memory_bytes()))
                    }
                    (Some(large), _) => {
                        Some((large.image().status(Status::WorkFailed)?, large.memory_bytes()))
                    }
                };
                let guest_files = GuestFiles {
                    kernel: &boot.kernel.image,
                    start,
                    large,
                    console: &console,
                    channel: &channel,
                };
                argv.extend(command_line::system(guest, &guest_files, inputs));
                argv.extend(plugin);
                let env = Some(equipment.qemu_environment.clone());
                Spawn { env, ..Spawn::new(&tools.qemu, argv) }
            }
            (None, WorkPlan::Command { program, argv: words, .. }) => {
                argv.extend(plugin);
                let cwd = variant.cwd.as_deref().unwrap_or(Path::new("/"));
                let root = libraries::root_of(guest.architecture, cwd);
                argv.extend(command_line::user(guest, root.as_deref(), &words[0], inputs));
                argv.push(program.into());
                argv.extend(words[1..].iter().map(OsString::from));
                let mut env = self.environments[index].clone();
                env.push((PADDING.into(), "x".repeat(slot.padding_bytes.into()).into()));
                let Streams { stdin, stdout, kept: files_kept, .. } =
                    Streams::open(plan, variant, false)?;
                kept = files_kept;
                Spawn {
                    env: Some(env),
                    cwd: variant.cwd.clone(),
                    stdin,
                    stdout,
                    ..Spawn::new(&tools.qemu, argv)
                }
            }
            (None, WorkPlan::Workload { .. }) => {
                return Err(fail(Status::Usage, "a workload needs a kernel"));
            }
        };
        spawn.cpu = plan.cpu;
        spawn.aslr = opcost_sys::spawn::Aslr::Fixed;
        self.note("opcost writes what a run needs", lap.end());
        let Some(state) = restored else {
            let flight = Flight::launch(spawn, files)?.keeping(kept);
            return Ok(Some(self.started(flight, guest)));
        };
        spawn.pass_fds = state
            .passed()
            .context("cannot pass a kept state on to the emulator")
            .status(Status::Missing)?;
        let (flight, monitor) = booted::launch(spawn, files, self.interrupt)?;
        let mut flight = self.started(flight, guest);
        let going_on = state.restore(&mut flight, monitor, self.interrupt)?;
        Ok(going_on.then_some(flight))
    }

    /// Adds the time of a phase.
    fn note(&self, what: &'static str, spent: Spent) {
        self.seconds.borrow_mut().add(what, spent);
    }

    /// Limits a process that was just started, and begins to watch it if phases are measured.
    fn started(&self, flight: Flight, guest: &GuestPlan) -> Flight {
        // A program without a kernel writes its own files.
        let flight = match guest.kernel {
            Some(_) => flight.limited(guest.file_bytes_max()),
            None => flight,
        };
        if self.watching { flight.watched() } else { flight }
    }

    /// Makes a folder for the files of one run.
    fn files(&self, name: &str) -> Result<Files> {
        Files::new(self.folder.path(), name)
    }

    /// Waits for the end of a machine's runs; `None` if a signal interrupted the wait.
    ///
    /// Also returns the files whose code a program without a kernel mapped.
    fn finish(
        &mut self,
        plan: &Plan,
        runs: &[Slot],
        mut flight: Flight,
    ) -> Result<Option<(Vec<RunEnd>, Vec<String>)>> {
        let limit_ms = plan.timeout_ms.map(|ms| ms.saturating_mul(runs.len() as u64));
        let limit = limit_ms.map(Duration::from_millis);
        let Some(exit) = flight.wait(limit, self.interrupt)? else { return Ok(None) };
        for (what, spent) in flight.watch.take().into_iter().flat_map(|watch| watch.end(&exit)) {
            self.note(what, spent);
        }
        let mut lap = Lap::begin();
        let files = &flight.files;
        let (stderr, console) = (files.tail("stderr"), files.tail("console"));
        let report = fs::read(files.path("report")).ok();
        let last = fs::read(last_path(&files.path("report"))).unwrap_or_default();
        let boot = self.prepared[usize::from(runs[0].variant)].boot.as_ref();
        let traces = Traces {
            exit: &exit,
            limit_ms,
            stderr: &stderr,
            console: &console,
            plugin: report.as_deref(),
            modules: boot.and_then(Boot::modules),
        };
        let variant = &plan.variants[usize::from(runs[0].variant)];
        let (printed, notes);
        let mut mapped = Vec::new();
        let mut died = false;
        let mut ends = if boot.is_some() {
            let channel = fs::read(files.path("channel")).unwrap_or_default();
            died = outcome::guest_died(&traces, &channel);
            printed = outcome::printed(&channel);
            notes = outcome::notes(&channel);
            let variant = usize::from(runs[0].variant);
            if self.guests.iter().all(|known| known.variant != variant)
                && let (Some(state), Some(guest)) =
                    (outcome::guest_state(&channel), &plan.variants[variant].guest)
            {
                let cpu_model = guest.cpu_model.clone();
                let equipment = self.equipment(guest.architecture);
                let left_out = equipment.left_out.get(&cpu_model).cloned().unwrap_or_default();
                let unnamed = boot.map(Boot::unnamed).unwrap_or_default();
                let page_table_levels =
                    state.page_table_levels.or_else(|| boot.and_then(Boot::page_table_levels));
                let all = self.prepared[variant].alternatives;
                let patched = outcome::patched(traces.plugin);
                let alternatives = patched.map(|patched| Alternatives { all, patched });
                self.guests.push(GuestState {
                    variant,
                    cpu_model,
                    left_out,
                    unnamed,
                    alternatives,
                    page_table_levels,
                    ..state
                });
                self.guests.sort_by_key(|guest| guest.variant);
            }
            let (ignored, started_unix_ns) = (&plan.ignore_failure, flight.started_unix_ns);
            outcome::of_guest(&traces, &channel, ignored, runs.len(), started_unix_ns)
        } else {
            notes = String::new();
            if let Some(guest) = &variant.guest {
                let tools = &self.equipment(guest.architecture).tools;
                if let Some(refused) = cpu::refused(tools, &guest.cpu_model, &stderr) {
                    return Err(refused.carried());
                }
            }
            // The emulator's standard error is also the program's.
            let kept = flight.kept.as_ref().map(Kept::read).unwrap_or_default();
            printed = Printed { stderr: stderr.clone().into_bytes(), ..kept };
            let (end, of_program) =
                outcome::of_program(&traces, &plan.ignore_failure, flight.started_unix_ns);
            mapped = of_program;
            vec![end]
        };
        if plan.shows_output(variant) {
            printed.show();
        }
        let prepared = &self.prepared[usize::from(runs[0].variant)];
        let guest = variant.guest.as_ref().context("the variant has no machine")?;
        let (model, architecture) = (guest.cpu_model.as_str(), guest.architecture);
        let kept = matches!(boot, Some(Boot { initrd: Initrd::Booted { .. }, .. }));
        for end in &mut ends {
            let ran = Ran::Emulated { model, architecture, kept };
            match boot {
                Some(_) => illegal::explain(end, &notes, &prepared.files_here(), ran),
                None => illegal::explain_alone(end, &last, ran),
            }
        }
        ends.iter_mut().for_each(|end| printed.explain(end));
        if let Some(pattern) = &variant.ops {
            ends.iter_mut().for_each(|end| printed.count(pattern, end));
        }
        let planned = plan.metrics();
        let is_wanted = |key: &MetricKey| {
            let same = |known: &MetricKey| known.name == key.name && known.domain == key.domain;
            let unasked = key.row().family == Family::Control || key.source == WORKLOAD;
            unasked || prepared.calls.reads(key) || planned.iter().any(same)
        };
        for end in &mut ends {
            end.report.readings.retain(|reading| is_wanted(&reading.key));
            if let Some(profile) = &mut end.profile {
                profile.modules = prepared.modules_of(profile);
                end.report.readings.extend(prepared.calls.readings(profile));
            }
        }
        if plan.regions() {
            ends.iter_mut().for_each(program_regions::require);
        }
        flight.files.remove();
        self.note("opcost reads what runs left", lap.end());
        if let Some(Boot { initrd: Initrd::Booted { state, .. }, kernel, .. }) = &prepared.boot {
            let direct = self.direct.iter().any(|direct| direct.slot.slot == runs[0].slot);
            if died && !direct {
                // The work may have killed the guest, but making the state again takes only a second.
                state.forget();
                for end in &mut ends {
                    if let Outcome::Failed(Failure::Work { detail }) = &mut end.outcome {
                        *detail += &format!("\nit went on from a kept state; {}", booted::REMOVED);
                    }
                }
            }
            Direct::compare(&mut self.direct, &runs[0], &ends, state)
                .with_context(|| format!("kernel {}", kernel.name))?;
        }
        Ok(Some((ends, mapped)))
    }
}

/// The most functions that an error about a kept state names.
const FUNCTIONS_NAMED_MAX: usize = 12;

/// A direct boot, made although a state is kept, to check the state.
struct Direct {
    slot: Slot,
    /// The folder of the state.
    state: PathBuf,
    /// The readings of the process's runs, if all runs finished.
    readings: Option<Vec<Vec<Reading>>>,
    /// Each function's own instructions in the process's runs.
    functions: BTreeMap<Function, u64>,
    /// Whether a run from the state gave the same readings. If readings differ later, the work does
    /// not repeat, which the ledger reports; the state is not to blame.
    agreed: bool,
}

impl Direct {
    /// Decides whether a run boots directly: the first warm-up run does if its state was not
    /// compared lately.
    fn of(slot: &Slot, state: &BootedState, earlier: &[Direct]) -> Option<Direct> {
        let known = |direct: &Direct| direct.state == state.folder();
        let wanted = slot.block.is_none() && !state.is_checked() && !earlier.iter().any(known);
        wanted.then(|| Direct {
            slot: *slot,
            state: state.folder().into(),
            readings: None,
            functions: BTreeMap::new(),
            agreed: false,
        })
    }

    /// Compares the runs of a process with a direct boot that had the same inputs.
    ///
    /// # Errors
    /// They differ: the state is wrong.
    fn compare(
        all: &mut [Direct],
        slot: &Slot,
        ends: &[RunEnd],
        state: &BootedState,
    ) -> Result<()> {
        if ends.iter().any(|end| end.outcome != Outcome::Finished) {
            return Ok(());
        }
        let readings: Vec<Vec<Reading>> =
            ends.iter().map(|end| end.report.readings.clone()).collect();
        let inputs = |slot: &Slot| (slot.variant, slot.guest_seed, slot.padding_bytes);
        let same = |direct: &&mut Direct| !direct.agreed && inputs(&direct.slot) == inputs(slot);
        let Some(direct) = all.iter_mut().find(same) else { return Ok(()) };
        let Some(known) = &direct.readings else {
            if direct.slot.slot == slot.slot {
                direct.readings = Some(readings);
                direct.functions = own_costs(ends);
            }
            return Ok(());
        };
        let pairs = known.iter().flatten().zip(readings.iter().flatten());
        let Some((booted, restored)) = pairs.into_iter().find(|(one, other)| one != other) else {
            direct.agreed = true;
            state.set_checked();
            return Ok(());
        };
        state.forget();
        let figure = |reading: &Reading| format!("{} {}", reading.value, reading.key.name);
        let moved = moved_functions(&direct.functions, &own_costs(ends));
        Err(fail(
            Status::WorkFailed,
            format!(
                "a run that goes on from the kept state of a booted guest has {}, one that boots by \
                 itself has {}{moved}: the state is removed; run this again, or with --fresh-boots",
                figure(restored),
                figure(booted)
            ),
        ))
    }
}

/// Each function's own instructions in several runs.
fn own_costs(ends: &[RunEnd]) -> BTreeMap<Function, u64> {
    let mut costs = BTreeMap::new();
    for profile in ends.iter().filter_map(|end| end.profile.as_ref()) {
        for context in &profile.contexts {
            let function = &profile.functions[context.function as usize];
            *costs.entry(function.clone()).or_default() += context.cost;
        }
    }
    costs
}

/// The functions whose instructions differ most between a boot and a run from its state, in words.
fn moved_functions(booted: &BTreeMap<Function, u64>, kept: &BTreeMap<Function, u64>) -> String {
    let cost =
        |costs: &BTreeMap<Function, u64>, function| costs.get(function).copied().unwrap_or(0);
    let all: BTreeSet<&Function> = booted.keys().chain(kept.keys()).collect();
    let mut moved: Vec<(i128, &Function)> = all
        .into_iter()
        .map(|one| (i128::from(cost(kept, one)) - i128::from(cost(booted, one)), one))
        .filter(|(change, _)| *change != 0)
        .collect();
    if moved.is_empty() {
        return String::new();
    }
    moved.sort_by_key(|(change, one)| (Reverse(change.abs()), *one));
    let names: Vec<String> = moved
        .iter()
        .take(FUNCTIONS_NAMED_MAX)
        .map(|(change, one)| format!("{change:+} {}", one.symbol))
        .collect();
    format!(" ({}{})", names.join(", "), if moved.len() > names.len() { ", …" } else { "" })
}

impl Machine for Emulated<'_> {
    fn width(&self) -> usize {
        self.jobs
    }

    fn run_together(&mut self, plan: &Plan, group: &Group<'_>) -> Result<Together> {
        let mut flights = Vec::new();
        for runs in group.processes() {
            let flight = match self.interrupt.is_set() {
                true => None,
                false => self.start(plan, runs)?,
            };
            let Some(flight) = flight else {
                return Ok(Together::Interrupted { processes: Vec::new() });
            };
            flights.push(flight);
        }
        let (mut processes, mut learned, mut interrupted) = (Vec::new(), false, false);
        for (runs, flight) in group.processes().iter().zip(flights) {
            match self.finish(plan, runs, flight)? {
                Some((ends, mapped)) => {
                    learned |= self.prepared[usize::from(runs[0].variant)].learn(&mapped)?;
                    if !interrupted {
                        processes.push(ends);
                    }
                }
                None => interrupted = true,
            }
        }
        self.learned |= learned;
        Ok(match (interrupted, learned) {
            // Counts and times of a guest do not contain a pause of opcost.
            (false, learned) => Together::Made { processes, learned, suspended: false },
            (true, false) => Together::Interrupted { processes },
            // Runs whose profiles lack names are not kept.
            (true, true) => Together::Interrupted { processes: Vec::new() },
        })
    }

    fn inputs(&self, plan: &Plan) -> Option<String> {
        self.digest_of_inputs(plan)
    }

    fn environment(&self, variant: usize) -> Option<&[(OsString, OsString)]> {
        Some(&self.environments[variant])
    }

    fn keep_seconds(&mut self) {
        self.watching = true;
    }

    fn seconds(&self) -> Option<String> {
        Some(self.seconds.borrow().text())
    }

    fn state_now(&self) -> Option<MachineState> {
        let results = self.prepared.iter().any(Prepared::has_results);
        (self.learned || results || !self.guests.is_empty()).then(|| self.state())
    }
}

/// The environment of a variant's command.
///
/// The fixed environment is the same on every computer, so that counts are, too.
fn environment(plan: &Plan, variant: &VariantPlan) -> Vec<(OsString, OsString)> {
    let mut pairs: Vec<(OsString, OsString)> = match plan.environment {
        EnvironmentPolicy::Fixed => {
            [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/root"), ("LANG", "C")]
                .map(|(key, value)| (key.into(), value.into()))
                .to_vec()
        }
        EnvironmentPolicy::Inherit | EnvironmentPolicy::Randomised => std::env::vars_os().collect(),
    };
    for (key, value) in &variant.env {
        pairs.retain(|(known, _)| known.to_str() != Some(key));
        pairs.push((key.into(), value.into()));
    }
    pairs.sort();
    pairs
}

/// The variables that runs inherit, as their number and a digest of them all; `None` if they inherit none.
fn inherited(policy: EnvironmentPolicy) -> Option<String> {
    if policy == EnvironmentPolicy::Fixed {
        return None;
    }
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    all.sort();
    let mut digest = Sha256::new();
    for (key, value) in &all {
        data::entry(&mut digest, Path::new(key), value.as_bytes());
    }
    let digest = hexadecimal(&digest.finalize());
    Some(format!("{} variables ({digest:.12})", all.len()))
}

/// The folder for kept facts about emulators and kernels.
fn cache_folder() -> Result<PathBuf> {
    xdg::cache_folder().status(Status::Usage)
}
