//! The settings and surroundings on which the figures of a run depend: one table. The keys of a gate, comparisons of two recordings,
//! histories, gathered shards and the ledger read it.

use super::{KernelState, MachineState, ProgramState, Recording};
use crate::guest_settings::{guest_settings, rows};
use crate::plan::{EmulationPlan, GuestPlan, MachineKind, OutputPlan, Plan, VariantPlan, WorkPlan};
use opcost_kernel::{KernelSpec, digest};
use opcost_record::emulation::COUNTING_VERSION;
use opcost_record::printable::printable;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One setting, or one kind of surroundings.
pub struct Setting {
    /// The name in keys. Where a setting has several values, each has a name of its own behind it.
    pub name: &'static str,
    /// The name in sentences.
    pub words: &'static str,
    /// The fields of an experiment and of its variants that choose it.
    pub fields: &'static [&'static str],
    /// The meaning of a difference between two recordings.
    pub difference: Meaning,
    /// The way in which keys show it.
    pub in_key: InKey,
    machines: Machines,
    /// Whether an update of the machine's packages changes it, without anybody's choice.
    packaged: bool,
    /// Whether the fields have a meaning on the emulated machine only.
    of_guests: bool,
    values: fn(&Of<'_>) -> Vec<Named>,
}

/// The meaning of a difference in a setting where two recordings are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meaning {
    /// The figures have nothing in common; the text is the ledger's rule that refuses the comparison.
    Refused(&'static str),
    /// The environment changed, which explains a change of figures.
    Environment,
    /// The contents of the work changed, which is usually what the comparison is about.
    Work,
    /// Another part of the comparison deals with it.
    Judged,
}

/// The way in which a key shows a setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InKey {
    /// By its value.
    Value,
    /// By a digest of its value, which is long or private.
    Digest,
    /// Not at all.
    Absent,
}

/// The machines whose figures depend on a setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Machines {
    Emulated,
    Host,
    All,
}

/// A value with the name that tells it from the other values of its setting; the name of a single value is empty.
type Named = (String, String);

/// A variant of a recording, whose settings are asked for. An absent part has none.
#[derive(Clone, Copy, Default)]
pub struct Of<'a> {
    /// The plan.
    pub plan: Option<&'a Plan>,
    /// Index of the variant in the plan.
    pub variant: usize,
    /// The state of the machine.
    pub state: Option<&'a MachineState>,
    /// The revision that a gate counted; `None` asks for the settings of the recording as it is.
    pub revision: Option<Revision<'a>>,
}

/// A revision that a gate counted.
#[derive(Clone, Copy)]
pub struct Revision<'a> {
    /// The folder of the revision. Its files are under test, and no settings.
    pub tree: &'a Path,
    /// The folder of the revision that it was compared with, if any; its files are under test, too.
    pub other_tree: Option<&'a Path>,
    /// The compiler that built it, if any.
    pub compiler: Option<&'a str>,
    /// Whether the revision is the kernel that was booted.
    pub is_kernel: bool,
}

/// A setting in which two recordings differ.
#[derive(Clone)]
pub struct Difference {
    /// The setting.
    pub setting: &'static Setting,
    name: String,
    /// The values of the two sides; `None` if a side has none.
    pub values: [Option<String>; 2],
}

/// The rules of the ledger that refuse comparisons of two recordings.
const MACHINE: &str = "machine";
const ENVIRONMENT: &str = "environment";
const WORK: &str = "work";

/// The digits of a digest in keys and sentences.
const DIGITS: usize = 12;

/// The settings and surroundings, without those of guests that have one value.
static SETTINGS: &[Setting] = &[
    setting("arch", "architecture", |of| {
        let architecture = of.guest().map(|guest| guest.architecture).unwrap_or_default();
        of.counted(|| architecture.row().machine)
    })
    .judged(),
    setting("opcost", "way of counting", |of| of.counted(|| COUNTING_VERSION)).judged().packaged(),
    setting("version", "opcost", |of| of.fact(|state| Some(&state.opcost_version)))
        .refused(MACHINE)
        .unkeyed(),
    setting("version", "opcost", |of| of.fact(|state| Some(&state.opcost_version))).host(),
    setting("emulator", "QEMU", |of| of.fact(|state| state.emulator_version.as_ref()))
        .refused(MACHINE)
        .packaged(),
    setting("compiler", "compiler", |of| one(of.revision.and_then(|of| of.compiler)))
        .judged()
        .packaged(),
    setting("seed", "seed", |of| one(of.plan.map(|plan| plan.seed))).of(&["seed"]).judged(),
    setting("cpu", "emulated CPU", |of| one(of.guest().map(|guest| &guest.cpu_model)))
        .of_guests(&["cpu-model", "like"])
        .refused(MACHINE),
    setting("boot", "boot options", |of| one(of.guest().map(|guest| &guest.boot)))
        .of_guests(&["boot"]),
    setting("disk", "disk", |of| one(of.guest().and_then(|guest| guest.disk.as_ref())))
        .of_guests(&["disk"]),
    // Its contents are in the key.
    setting("root", "root", |of| {
        one(of.guest().and_then(|guest| guest.root.as_ref()).map(|root| root.to_string_lossy()))
    })
    .of_guests(&["root"])
    .unkeyed(),
    setting("service", "service", |of| {
        let service = of.guest().and_then(|guest| guest.service.as_ref());
        one(service.map(|service| format!("{} ({})", service.line, service.ready)))
    })
    .of_guests(&["service", "ready"])
    .refused(WORK)
    .digest(),
    // Its contents are in the key.
    setting("kernel-name", "kernel", |of| one(of.guest().map(|guest| &guest.kernel_name)))
        .of_guests(&["kernel", "kernels", "kernel-tree", "kernel-config"])
        .unkeyed(),
    setting("kernel", "kernel", kernels).contents().packaged(),
    setting("core", "modelled core", |of| {
        let core = of.emulation().and_then(|emulation| emulation.core.as_ref());
        one(core.map(|core| {
            let fingerprint = core.file_fingerprint.as_ref().unwrap_or(&core.fingerprint);
            format!("{} ({fingerprint})", core.name)
        }))
    })
    .of_guests(&["cycles", "core"]),
    setting("cache", "modelled cache", |of| {
        let core = of.emulation().and_then(|emulation| emulation.core.as_ref());
        let caches = core.into_iter().flat_map(|core| &core.caches);
        let named = caches.filter_map(|cache| cache.split_once('='));
        named.map(|(name, shape)| (name.to_string(), shape.to_string())).collect()
    })
    .of_guests(&["cache"]),
    setting("cycles-one-in", "one slice of the modelled core in", |of| {
        one(of.emulation().and_then(|emulation| emulation.cycles_one_in))
    })
    .of_guests(&["cycles-one-in"]),
    setting("model", "model of caches and predictors alone", |of| {
        one(of.emulation().map(|emulation| yes_or_no(emulation.model)))
    })
    .of_guests(&["model"]),
    // A gate decides it.
    setting("kept-state", "a kept state", |of| {
        let booted = of.emulation().filter(|_| of.computer().is_some());
        one(booted.map(|emulation| yes_or_no(emulation.booted_once)))
    })
    .of_guests(&["fresh-boots"])
    .unkeyed(),
    setting("one-process", "blocks in one process", |of| {
        one(of.plan.and_then(|plan| plan.in_process).map(|process| process.blocks))
    })
    .of(&["in-process", "blocks-per-process"])
    .everywhere(),
    setting("block", "runs behind one another", |of| one(of.plan.and_then(|plan| plan.block)))
        .of(&["block"])
        .host(),
    setting("environment", "environment of the runs", |of| {
        one(of.plan.map(|plan| word(&plan.environment)))
    })
    .of(&["environment"])
    .refused(ENVIRONMENT),
    setting("inherited-environment", "inherited environment", |of| {
        of.fact(|state| state.inherited_environment.as_ref())
    })
    .refused(ENVIRONMENT),
    setting("env", "variable", |of| of.variant().map_or(Vec::new(), |variant| variant.env.clone()))
        .of(&["env", "regions"])
        .everywhere()
        .digest(),
    setting("aslr", "address space layout", |of| one(of.plan.map(|plan| word(&plan.aslr))))
        .of(&["aslr"])
        .everywhere(),
    setting("pinned", "CPU of the runs", |of| one(of.plan.and_then(|plan| plan.cpu)))
        .of(&["cpu"])
        .host(),
    setting("priority", "priority", |of| {
        one(of.plan.filter(|plan| plan.real_time()).map(|_| "real-time"))
    })
    .of(&["priority"])
    .host(),
    setting("sampling", "sampling", |of| {
        let sampling = of.plan.and_then(Plan::sampling);
        one(sampling.map(|sampling| serde_json::to_string(&sampling).unwrap_or_default()))
    })
    .of(&["profile", "frequency", "call-graph", "stack-bytes"])
    .host(),
    setting("work", "work", work)
        .of(&["command", "workload", "params", "shell"])
        .everywhere()
        .digest(),
    // Recordings from two checkouts have different ones.
    setting("cwd", "working directory", |of| {
        let cwd = of.variant().and_then(|variant| variant.cwd.as_deref());
        one(cwd.filter(|_| of.revision.is_some()).map(|cwd| of.below(cwd)))
    })
    .of(&["cwd"])
    .judged()
    .digest(),
    // Nothing shifts a program without a kernel in memory, so the length of its path matters: the path is on its stack.
    setting("path", "length of the path", |of| {
        let alone = of.guest().is_some() && of.computer().is_none();
        one(of.revision.filter(|_| alone).map(|of| of.tree.as_os_str().len()))
    })
    .judged(),
    // A gate decides it.
    setting("tree", "the work at the guest's /tree", |of| {
        one(of.computer().and(of.variant()).map(|variant| yes_or_no(variant.tree.is_some())))
    })
    .of_guests(&["tree"])
    .unkeyed(),
    setting("input", "standard input", |of| {
        one(of.variant().and_then(|variant| variant.input.as_deref()).map(|path| of.below(path)))
    })
    .of(&["input"])
    .everywhere()
    .refused(WORK)
    .digest(),
    setting("output", "standard output", output)
        .of(&["output", "show-output"])
        .everywhere()
        .digest(),
    setting("ops", "pattern of --ops", |of| {
        one(of.variant().and_then(|variant| variant.ops.as_ref()))
    })
    .of(&["ops"])
    .everywhere()
    .refused(WORK)
    .digest(),
    setting("pack", "files packed", packed).of_guests(&["pack", "pack-used", "pack-only"]).digest(),
    setting("hook", "command to", hooks)
        .of(&["prepare", "conclude", "setup", "cleanup", "rebuild", "blocks-per-build"])
        .everywhere()
        .digest(),
    setting("kernel-release", "kernel", |of| of.fact(|state| state.kernel_release.as_ref())).host(),
    setting("kernel-version", "kernel build", |of| of.fact(|state| state.kernel_version.as_ref()))
        .host(),
    setting("boot-parameters", "boot parameters", |of| {
        of.fact(|state| state.boot_parameters.as_ref())
    })
    .host(),
    setting("cpu-name", "CPU", |of| of.fact(|state| state.cpu_model.as_ref()))
        .host()
        .refused(MACHINE),
    setting("microcode", "microcode", |of| of.fact(|state| state.cpu_microcode.as_ref())).host(),
    setting("cpus-online", "CPUs online", |of| of.fact(|state| state.cpus_online.as_ref())).host(),
    setting("smt", "SMT", |of| of.fact(|state| state.smt.as_ref())).host(),
    setting("governor", "governor", |of| of.fact(|state| state.governor.as_ref())).host(),
    setting("turbo", "turbo", |of| {
        of.fact(|state| state.turbo.map(|on| if on { "on" } else { "off" }))
    })
    .host(),
    setting("huge-pages", "transparent huge pages", |of| {
        of.fact(|state| state.transparent_hugepage.as_ref())
    })
    .host(),
    setting("randomisation", "address randomisation", |of| {
        of.fact(|state| state.randomize_va_space.as_ref())
    })
    .host(),
    setting("mitigation", "mitigation of", |of| {
        let mitigations = of.state.map(|state| state.mitigations.clone());
        mitigations.unwrap_or_default().into_iter().collect()
    })
    .host(),
    // The emulator's version and the way of counting are in the key.
    setting("tool", "program", |of| match (of.state, of.revision) {
        (Some(state), None) if state.emulator_version.is_some() => {
            state.tools().map(by_path).collect()
        }
        _ => Vec::new(),
    })
    .contents()
    .unkeyed(),
    setting("file", "program", programs).contents().everywhere().packaged(),
    setting("data", "file", data).contents().everywhere(),
];

macro_rules! rows {
    ([ $( $(#[$($help:tt)*])* $field:ident $value:tt: $type:ident = $row:expr; )* ]) => {
        /// The settings of guests that have one value.
        static GUEST_SETTINGS: &[Setting] = &[$({
            const FIELDS: &[&str] = &[rows::$field().field];
            setting(rows::$field().key, rows::$field().words, |of| {
                let in_key = of.revision.is_some();
                one(of.computer().and_then(|guest| rows::$field().value_of_setting(&guest.$field, in_key)))
            })
            .of_guests(FIELDS)
            .refused(MACHINE)
        }),*];
    };
}
guest_settings! { rows }

/// All settings and surroundings.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(GUEST_SETTINGS)
}

/// A setting of emulated machines whose value is in keys, and whose change explains a change of figures.
const fn setting(
    name: &'static str,
    words: &'static str,
    values: fn(&Of<'_>) -> Vec<Named>,
) -> Setting {
    let (difference, in_key) = (Meaning::Environment, InKey::Value);
    let machines = Machines::Emulated;
    let (packaged, of_guests) = (false, false);
    Setting { name, words, fields: &[], difference, in_key, machines, packaged, of_guests, values }
}

impl Setting {
    const fn of(self, fields: &'static [&'static str]) -> Setting {
        Setting { fields, ..self }
    }

    /// Chosen by fields that no other machine has.
    const fn of_guests(self, fields: &'static [&'static str]) -> Setting {
        Setting { of_guests: true, ..self.of(fields) }
    }

    const fn refused(self, rule: &'static str) -> Setting {
        Setting { difference: Meaning::Refused(rule), ..self }
    }

    const fn judged(self) -> Setting {
        Setting { difference: Meaning::Judged, ..self }
    }

    const fn contents(self) -> Setting {
        Setting { difference: Meaning::Work, in_key: InKey::Digest, ..self }
    }

    const fn digest(self) -> Setting {
        Setting { in_key: InKey::Digest, ..self }
    }

    const fn unkeyed(self) -> Setting {
        Setting { in_key: InKey::Absent, ..self }
    }

    /// Changed by updates of the machine's packages.
    const fn packaged(self) -> Setting {
        Setting { packaged: true, ..self }
    }

    const fn everywhere(self) -> Setting {
        Setting { machines: Machines::All, ..self }
    }

    const fn host(self) -> Setting {
        Setting { machines: Machines::Host, ..self }.unkeyed()
    }

    fn matters(&self, emulated: bool) -> bool {
        match self.machines {
            Machines::All => true,
            Machines::Emulated => emulated,
            Machines::Host => !emulated,
        }
    }
}

/// The fields of the emulated machine that choose no figure.
const IDLE_FIELDS: [&str; 5] = ["jobs", "no-functions", "addresses", "steps", "count"];

fn fields_of_guests() -> impl Iterator<Item = &'static str> {
    let settings = all().filter(|setting| setting.of_guests);
    settings.flat_map(|setting| setting.fields).chain(&IDLE_FIELDS).copied()
}

/// The first field of an experiment or of a variant that has a meaning on the emulated machine only.
///
/// `given`: the experiment or variant, which writes the fields that were given.
///
/// # Errors
/// It holds a path that is no UTF-8, which no plan can hold either.
pub fn field_of_guests(given: &impl Serialize) -> serde_json::Result<Option<&'static str>> {
    let written = serde_json::to_value(given)?;
    Ok(fields_of_guests().find(|field| written.get(field).is_some()))
}

impl<'a> Of<'a> {
    /// A variant of a recording. The machine's state is the first that was recorded.
    pub fn recording(recording: &'a Recording, variant: usize) -> Of<'a> {
        let state = recording.machine.first();
        Of { plan: Some(&recording.plan), variant, state, revision: None }
    }

    fn variant(&self) -> Option<&'a VariantPlan> {
        self.plan?.variants.get(self.variant)
    }

    fn guest(&self) -> Option<&'a GuestPlan> {
        self.variant()?.guest.as_ref()
    }

    /// The guest, if it boots a kernel.
    fn computer(&self) -> Option<&'a GuestPlan> {
        self.guest().filter(|guest| guest.kernel.is_some())
    }

    fn emulation(&self) -> Option<&'a EmulationPlan> {
        self.plan?.emulation()
    }

    fn fact<T: ToString>(&self, fact: impl FnOnce(&'a MachineState) -> Option<T>) -> Vec<Named> {
        one(self.state.and_then(fact))
    }

    /// A value that only keys have.
    fn counted<T: ToString>(&self, value: impl FnOnce() -> T) -> Vec<Named> {
        one(self.revision.map(|_| value()))
    }

    /// A path; in the revision's tree from there on.
    fn below(&self, path: &Path) -> String {
        let tree = self.revision.map(|revision| revision.tree);
        let below = tree.and_then(|tree| path.strip_prefix(tree).ok()).unwrap_or(path);
        below.to_string_lossy().into_owned()
    }

    fn is_under_test(&self, path: &Path) -> bool {
        self.revision.is_some_and(|revision| {
            let trees = [Some(revision.tree), revision.other_tree];
            trees.into_iter().flatten().any(|tree| path.starts_with(tree))
        })
    }
}

/// A single value without a name; none if there is no value, or an empty one.
fn one<T: ToString>(value: Option<T>) -> Vec<Named> {
    let text = value.map(|value| value.to_string()).filter(|text| !text.is_empty());
    text.map(|text| (String::new(), text)).into_iter().collect()
}

fn yes_or_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// The word of a choice, as plans store it.
fn word(choice: &impl Serialize) -> String {
    let stored = serde_json::to_value(choice).unwrap_or_default();
    stored.as_str().map_or_else(|| stored.to_string(), str::to_string)
}

fn kernels(of: &Of<'_>) -> Vec<Named> {
    let kernels = of.state.into_iter().flat_map(|state| &state.kernels);
    let Some(revision) = of.revision else {
        // Kernels of two architectures may have one name.
        let is_shared = |kernel: &KernelState| {
            let other = |one: &KernelState| one.name == kernel.name && one.digest != kernel.digest;
            kernels.clone().any(other)
        };
        let name = |kernel: &KernelState| match is_shared(kernel) {
            true => format!("{} ({})", kernel.name, kernel.release),
            false => kernel.name.clone(),
        };
        return kernels.clone().map(|kernel| (name(kernel), kernel.digest.clone())).collect();
    };
    // A kernel that was built from the revision is the thing under test.
    let is_tested = match of.guest().and_then(|guest| guest.kernel.as_ref()) {
        Some(KernelSpec::Image(path) | KernelSpec::BuildDir(path)) => of.is_under_test(path),
        _ => revision.is_kernel,
    };
    let own = kernels.filter(|kernel| kernel.variant == of.variant && !is_tested);
    own.map(|kernel| (String::new(), kernel.digest.clone())).collect()
}

fn work(of: &Of<'_>) -> Vec<Named> {
    let Some(variant) = of.variant() else { return Vec::new() };
    if of.revision.is_none() {
        return one(Some(variant.work.describe()));
    }
    // A key leaves the tree's place out of the program's path, and has every parameter.
    let words: Vec<String> = match &variant.work {
        WorkPlan::Command { program, argv, .. } => {
            let argv = argv.iter().map(|word| word.to_string_lossy().into_owned());
            std::iter::once(of.below(program)).chain(argv).collect()
        }
        WorkPlan::Workload { name, params } => {
            let params = params.iter().map(|(key, value)| format!("{key}={value}"));
            std::iter::once(name.clone()).chain(params).collect()
        }
    };
    one(Some(serde_json::Value::from(words)))
}

fn output(of: &Of<'_>) -> Vec<Named> {
    let Some((plan, variant)) = of.plan.zip(of.variant()) else { return Vec::new() };
    one(match &variant.output {
        Some(OutputPlan::File(path)) => Some(of.below(path)),
        Some(output) => Some(output.text()),
        None => plan.show_output.then(|| "shown".into()),
    })
}

fn packed(of: &Of<'_>) -> Vec<Named> {
    let Some(emulation) = of.emulation() else { return Vec::new() };
    let used = emulation.pack_used.then(|| "what a run here uses".to_string());
    let all: Vec<String> = emulation.pack.iter().cloned().chain(used).collect();
    one(Some(all.join(", ")))
}

fn hooks(of: &Of<'_>) -> Vec<Named> {
    let Some((plan, variant)) = of.plan.zip(of.variant()) else { return Vec::new() };
    let rebuild = plan.build().map(|build| format!("{} ({} blocks)", build.command, build.blocks));
    let all = [
        ("prepare", variant.prepare.clone()),
        ("conclude", plan.conclude(of.variant).cloned()),
        ("set up", plan.hooks.setup.clone()),
        ("clean up", plan.hooks.cleanup.clone()),
        ("set up this variant", variant.setup.clone()),
        ("clean up this variant", variant.cleanup.clone()),
        ("rebuild", rebuild),
    ];
    let given = all.into_iter().filter_map(|(name, hook)| Some((name.to_string(), hook?)));
    given.collect()
}

fn by_path(file: &ProgramState) -> Named {
    (file.path.display().to_string(), file.sha256.clone())
}

fn programs(of: &Of<'_>) -> Vec<Named> {
    let Some(state) = of.state else { return Vec::new() };
    let is_emulated = state.emulator_version.is_some();
    let files: Vec<&ProgramState> = match is_emulated {
        true => state.files_of_work().collect(),
        false => state.programs.iter().collect(),
    };
    if of.revision.is_none() {
        return files.into_iter().map(by_path).collect();
    }
    // The guest's init contains the code of workloads.
    let workload =
        of.variant().is_some_and(|variant| matches!(variant.work, WorkPlan::Workload { .. }));
    let init = state.guest_init().filter(|_| workload && is_emulated);
    let others = files.into_iter().filter(|file| !of.is_under_test(&file.path));
    by_name(init.into_iter().chain(others).map(|file| (file.path.as_path(), &file.sha256)))
}

fn data(of: &Of<'_>) -> Vec<Named> {
    let data = of.state.into_iter().flat_map(|state| &state.data);
    if of.revision.is_none() {
        return data.map(|data| (data.path.display().to_string(), data.sha256.clone())).collect();
    }
    let others = data.filter(|data| !of.is_under_test(&data.path));
    by_name(others.map(|data| (data.path.as_path(), &data.sha256)))
}

/// Contents by the names of files, whose folders differ from computer to computer; files of one name count together.
fn by_name<'a>(files: impl Iterator<Item = (&'a Path, &'a String)>) -> Vec<Named> {
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (path, digest) in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        names.entry(name).or_default().push_str(digest);
    }
    names.into_iter().collect()
}

/// The parts of a gate's key for a revision's recording.
pub fn key_parts(of: &Of<'_>) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    for setting in all().filter(|setting| setting.in_key != InKey::Absent) {
        for (name, value) in (setting.values)(of) {
            let value = match setting.in_key {
                InKey::Digest => format!("{:.DIGITS$}", digest(value.as_bytes())),
                InKey::Value | InKey::Absent => value,
            };
            let part = match name.as_str() {
                "" => setting.name.to_string(),
                name => format!("{}:{name}", setting.name),
            };
            parts.push((part, value));
        }
    }
    parts
}

/// The loader's list of libraries as keys name it: in a guest's /etc, and by itself.
const LISTS_OF_LIBRARIES: [&str; 2] = ["data:etc", "data:ld.so.cache"];

/// Whether an update of the machine's packages changes a part of a gate's key, without anybody's choice.
pub fn is_packaged(part: &str) -> bool {
    let name = part.split_once(':').map_or(part, |(name, _)| name);
    LISTS_OF_LIBRARIES.contains(&part)
        || SETTINGS.iter().any(|setting| setting.packaged && setting.name == name)
}

/// The settings on which the figures of these machines depend, and in which two sides differ.
pub fn differences(sides: [Of<'_>; 2], emulated: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    for setting in all().filter(|setting| setting.matters(emulated)) {
        let [one, two] = sides.map(|of| (setting.values)(&of));
        let find = |values: &[Named], name: &str| {
            values.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let names = one.iter().chain(&two).map(|(name, _)| name);
        let mut seen: Vec<&String> = Vec::new();
        for name in names {
            let values = [find(&one, name), find(&two, name)];
            if values[0] == values[1] || seen.contains(&name) {
                continue;
            }
            seen.push(name);
            found.push(Difference { setting, name: name.clone(), values });
        }
    }
    found
}

/// Whether figures of these machines come from an emulator.
pub fn is_emulated(plan: &Plan) -> bool {
    plan.machine() == MachineKind::Emulated
}

impl Difference {
    /// The name of the value among those of its setting; empty if the setting has one value.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the difference, in words.
    pub fn what(&self) -> String {
        let words = self.setting.words;
        match self.name.as_str() {
            "" => words.to_string(),
            name => format!("{words} {}", printable(name)),
        }
    }

    /// The value of a side, in words.
    pub fn value(&self, side: usize) -> String {
        let value = self.values[side].as_deref();
        match (value, self.setting.difference) {
            (None, _) => "none".into(),
            (Some(digest), Meaning::Work) => format!("{:.DIGITS$}", printable(digest)),
            (Some(value), _) => printable(value),
        }
    }

    /// The change from the first side to the second; `None` for contents that a side does not have.
    pub fn change(&self) -> Option<String> {
        if self.setting.difference == Meaning::Work {
            let both = self.values.iter().all(Option::is_some);
            return both.then(|| format!("the {} was changed", self.what()));
        }
        let word = |side| match &self.values[side] {
            None if self.setting.machines == Machines::Host => "unknown".to_string(),
            _ => self.value(side),
        };
        Some(format!("{}: {} → {}", self.what(), word(0), word(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use clap::{Arg, Args, Command};
    use std::collections::BTreeSet;

    #[test]
    fn flags_of_the_emulated_machine_are_fields_of_guests() {
        let command = Experiment::augment_args(Command::new("experiment"));
        let of_guests = command
            .get_arguments()
            .filter(|arg| arg.get_help_heading() == Some("Emulated machine"));
        let flags: BTreeSet<&str> = of_guests.filter_map(Arg::get_long).collect();
        // A file of an experiment has kernels to build; a command line has none.
        let fields = fields_of_guests().filter(|field| *field != "kernels");
        assert_eq!(flags, fields.collect());
    }
}
