//! The emulated machine of each variant.

use super::Counted;
use super::SteppedOperation;
use super::service::ServicePlan;
use super::validation::Validation;
use crate::guest_settings::GuestSettings;
use opcost_core_model::{Core, CoreError};
use opcost_kernel::KernelSpec;
use opcost_kernel::disk::DiskSpec;
use opcost_record::architecture::Architecture;
use opcost_record::metric::{
    CYCLE_PARTS, CYCLES_FAR, CYCLES_UNKNOWN, DEFERRED, DEFERRED_AFTER, EMULATOR, FOOTPRINT,
    FOOTPRINT_REGION, MODEL_CACHE_MISSES, MODEL_CYCLES, SYNCHRONOUS, TICK,
};
use opcost_record::printable::printable;
use opcost_record::{Domain, MetricKey};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::ops::Deref;
use std::path::PathBuf;

/// The core that is modelled by default, the same on every computer.
pub const CORE_DEFAULT: &str = "zen4";

/// The kernel that is booted by default.
pub const DEFAULT_KERNEL: &str = "command";

/// The value of `--kernel` that boots no kernel.
pub const NO_KERNEL: &str = "none";

/// The question that the sides of a comparison, a gate, a series or a search put by their differences.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question {
    /// The cost of a kernel's paths to the programs that ask for them.
    KernelPath,
    /// The cost of the whole work.
    Whole,
}

impl Question {
    /// `kernels`: kernels, their options or their command lines differ; `cpus`: CPU models differ; `command`: the work is a command.
    /// A command, unlike a workload, has code of its own that depends on the CPU.
    pub fn of(kernels: bool, cpus: bool, command: bool) -> Question {
        if kernels || cpus && !command { Question::KernelPath } else { Question::Whole }
    }

    /// The metric that decides, unless the user names another. `apart`: whether the machine counts ticks and deferred work apart.
    pub fn metric(self, apart: bool) -> String {
        match (self, apart) {
            (Question::KernelPath, true) => format!("{SYNCHRONOUS}{}", Domain::Kernel.suffix()),
            _ => "instructions".into(),
        }
    }
}

/// Whether a machine counts ticks and deferred work apart. `kernel`: whether a kernel is booted; `no_functions`: whether totals only
/// are counted.
pub fn counts_apart(kernel: bool, no_functions: bool) -> bool {
    kernel && !no_functions
}

/// The settings that all emulated machines of a plan share.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct EmulationPlan {
    /// Whether only the caches and predictors of `core` are modelled, without cycles. Without `core`, an earlier version modelled
    /// caches of their own.
    #[serde(deserialize_with = "was_modelled")]
    pub model: bool,
    /// The core that is modelled; `None` models none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<CorePlan>,
    /// The number of instructions for which each modelled instruction stands; `None` models all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_one_in: Option<u16>,
    /// Whether totals only are counted, without functions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_functions: bool,
    /// Whether each instruction is counted by its address, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub addresses: bool,
    /// The operation whose steps are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<SteppedOperation>,
    /// The events and the functions whose calls are metrics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub count: Vec<Counted>,
    /// Machines that run at the same time.
    pub jobs: usize,
    /// Files and folders that every guest contains, as `PATH` or `PATH:PATH_IN_GUEST`.
    pub pack: Vec<String>,
    /// Whether each command first runs once on this computer, and its guest then contains every file that it used.
    #[serde(default)]
    pub pack_used: bool,
    /// Whether guests are booted once, and runs continue from the saved state if it can be saved.
    #[serde(default)]
    pub booted_once: bool,
}

/// Reads whether there was a model: earlier versions wrote the shapes of its caches, or null.
fn was_modelled<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::Bool(model) => model,
        shapes => !shapes.is_null(),
    })
}

impl EmulationPlan {
    /// The core whose cycles are modelled.
    pub fn timed_core(&self) -> Option<&CorePlan> {
        self.core.as_ref().filter(|_| !self.model)
    }

    /// Whether the lines and pages that the work touches are counted.
    pub fn counts_footprint(&self) -> bool {
        self.count.contains(&Counted::Footprint)
    }
}

/// A core that is modelled.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CorePlan {
    /// The name, as the core's file has it.
    pub name: String,
    /// The name or file by which the user chose the core.
    pub given: String,
    /// Identifies the core: a hash of all figures of its file.
    pub fingerprint: String,
    /// The whole text of the core's file with the caches below, so that a recording can be repeated.
    pub text: String,
    /// The caches that the user changed, as in `l1d=48K:12`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<String>,
    /// The fingerprint of the core as its file has it, if the user changed caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_fingerprint: Option<String>,
    /// The known errors of the core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
}

/// The names of caches, each with its key in a core's file.
const CACHES: [(&str, &str); 4] = [("l1i", "code"), ("l1d", "l1"), ("l2", "l2"), ("llc", "l3")];

/// Reads `NAME=SIZE:WAYS[:64]`: the key in a core's file, the size in bytes and the ways.
fn cache_shape(text: &str) -> Result<(&'static str, i64, i64), String> {
    let (name, shape) = text.split_once('=').ok_or("expected NAME=SIZE:WAYS, as in l1d=48K:12")?;
    let known = CACHES.iter().find(|(known, _)| *known == name);
    let (_, key) = known.ok_or("there are l1i, l1d, l2 and llc")?;
    let fields: Vec<&str> = shape.split(':').collect();
    let (size, ways) = match fields[..] {
        [size, ways] | [size, ways, "64"] => (size, ways),
        [_, _, line] => return Err(format!("lines have 64 bytes, not {line}")),
        _ => return Err("expected NAME=SIZE:WAYS, as in l1d=48K:12".into()),
    };
    let (digits, scale) = match size.strip_suffix(['K', 'M']) {
        Some(digits) => (digits, if size.ends_with('K') { 1 << 10 } else { 1 << 20 }),
        None => (size, 1),
    };
    let number = |text: &str| {
        text.parse::<u32>().map(i64::from).map_err(|_| format!("'{text}' is no number"))
    };
    Ok((key, number(digits)? * scale, number(ways)?))
}

impl CorePlan {
    /// Reads a core from the text of its file; `given`: the name or file that the user gave.
    ///
    /// # Errors
    /// The fault in the file.
    pub fn new(given: String, text: &str) -> Result<CorePlan, CoreError> {
        let core = Core::parse(text)?;
        let (name, fingerprint) = (core.name().into(), core.fingerprint());
        Ok(CorePlan {
            name,
            given,
            fingerprint,
            text: text.into(),
            caches: Vec::new(),
            file_fingerprint: None,
            validation: None,
        })
    }

    /// The same core with other caches, which nobody has validated.
    ///
    /// `caches`: `NAME=SIZE:WAYS` with an optional `:64`, the bytes of a line; a NAME of [`CACHES`].
    ///
    /// # Errors
    /// In words: a cache that is not understood, or that no core can have.
    pub fn with_caches(self, caches: &[String]) -> Result<CorePlan, String> {
        if caches.is_empty() {
            return Ok(self);
        }
        let mut file: toml::Table =
            toml::from_str(&self.text).map_err(|error| error.to_string())?;
        for cache in caches {
            let (key, bytes, ways) =
                cache_shape(cache).map_err(|what| format!("--cache {cache}: {what}"))?;
            let shape = file.get_mut("cache").and_then(|caches| caches.get_mut(key));
            let shape = shape.and_then(toml::Value::as_table_mut);
            let shape = shape.ok_or_else(|| format!("the core's file has no cache '{key}'"))?;
            shape.insert("bytes".into(), toml::Value::Integer(bytes));
            shape.insert("ways".into(), toml::Value::Integer(ways));
        }
        let text = toml::to_string(&file).map_err(|error| error.to_string())?;
        let core = CorePlan::new(self.given, &text).map_err(|error| error.to_string())?;
        let file_fingerprint = Some(self.fingerprint);
        Ok(CorePlan { caches: caches.to_vec(), file_fingerprint, ..core })
    }
}

/// The emulated machine of one variant.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct GuestPlan {
    /// The kernel to boot; `None` runs the command under user-mode emulation.
    pub kernel: Option<KernelSpec>,
    /// The kernel as the user named it.
    pub kernel_name: String,
    /// Options appended to the kernel's command line.
    pub boot: String,
    /// CPU model, by QEMU's name.
    pub cpu_model: String,
    /// The settings that have one value.
    #[serde(flatten)]
    pub settings: GuestSettings,
    /// The disk, if the machine has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSpec>,
    /// The root file system: a folder, a tar or an image of this computer, absolute; `None` packs what the work needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    /// The program that runs beside the work, in the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServicePlan>,
}

impl Default for GuestPlan {
    /// The machine without a kernel that nobody chose anything of.
    fn default() -> GuestPlan {
        GuestPlan {
            kernel: None,
            kernel_name: NO_KERNEL.into(),
            boot: String::new(),
            cpu_model: Architecture::default().row().cpu_model.into(),
            settings: GuestSettings::default(),
            disk: None,
            root: None,
            service: None,
        }
    }
}

impl Deref for GuestPlan {
    type Target = GuestSettings;

    fn deref(&self) -> &GuestSettings {
        &self.settings
    }
}

/// The smallest number of CPUs of any machine; 1 if there is no machine.
pub fn fewest_cpus<'a>(guests: impl Iterator<Item = Option<&'a GuestPlan>>) -> u32 {
    guests.flatten().map(|guest| guest.cpus).min().unwrap_or(1)
}

impl GuestPlan {
    /// The number of CPUs that the kernel must start; `None` for one CPU, which it starts in any case.
    pub fn cpus_wanted(&self) -> Option<u32> {
        Some(self.cpus).filter(|cpus| *cpus > 1)
    }

    /// The most bytes of any file that the emulator of this machine writes: memory and disk, with a GiB for messages.
    pub fn file_bytes_max(&self) -> u64 {
        let disk_mib = self.disk.as_ref().map_or(0, |disk| disk.size_mib);
        (u64::from(self.memory_mib) + u64::from(disk_mib) + 1024) << 20
    }

    /// The differences of the machine from the default, in one line.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        match &self.kernel {
            Some(KernelSpec::Revision(revision)) => {
                let commit = opcost_kernel::short_commit(&revision.commit);
                parts.push(format!("kernel {} ({commit})", self.kernel_name));
            }
            Some(_) => parts.push(format!("kernel {}", self.kernel_name)),
            None => parts.push("user-mode emulation".to_string()),
        }
        if !self.boot.is_empty() {
            parts.push(format!("boot options {}", self.boot));
        }
        if self.cpu_model != self.architecture.row().cpu_model {
            parts.push(format!("CPU {}", self.cpu_model));
        }
        if self.kernel.is_some() {
            let shown = self.settings.values().into_iter().filter(|value| value.shown);
            parts.extend(shown.map(|value| format!("{} {}", value.text, value.unit)));
        }
        if let Some(disk) = &self.disk {
            parts.push(format!("disk {disk} in memory"));
        }
        if let Some(root) = &self.root {
            parts.push(format!("root {}", printable(&root.to_string_lossy())));
        }
        if let Some(service) = &self.service {
            parts.push(format!("service {}", printable(&service.line)));
        }
        parts.join(", ")
    }
}

/// The metrics that runs on an emulated machine have because of an option; arguments as for [`metrics`].
pub fn metrics_chosen(emulation: &EmulationPlan, kernel: bool, cpus: u32) -> Vec<MetricKey> {
    let plain = EmulationPlan { model: false, core: None, count: Vec::new(), ..emulation.clone() };
    let unasked = metrics(&plain, kernel, 1);
    let mut chosen = metrics(emulation, kernel, cpus);
    chosen.retain(|key| !unasked.contains(key));
    chosen
}

/// The metrics that runs on an emulated machine have.
///
/// `kernel`: whether a kernel is booted; user-mode emulation sees no kernel events. `cpus`: the smallest number of CPUs of any
/// machine.
pub fn metrics(emulation: &EmulationPlan, kernel: bool, cpus: u32) -> Vec<MetricKey> {
    let both: &[Domain] =
        if kernel { &[Domain::All, Domain::User, Domain::Kernel] } else { &[Domain::User] };
    let whole = if kernel { Domain::All } else { Domain::User };
    let mut metrics: Vec<MetricKey> =
        both.iter().map(|domain| MetricKey::new("instructions", *domain, EMULATOR)).collect();
    if counts_apart(kernel, emulation.no_functions) {
        let parts = [SYNCHRONOUS, DEFERRED, TICK, DEFERRED_AFTER];
        metrics.extend(parts.map(|name| MetricKey::new(name, Domain::Kernel, EMULATOR)));
    }
    let mut add = |names: &[&str]| {
        metrics.extend(names.iter().map(|name| MetricKey::new(name, whole, EMULATOR)));
    };
    add(&["branches", "conditional-branches", "loads", "stores", "string-iterations"]);
    if kernel {
        add(&["page-faults", "interrupts"]);
    }
    if emulation.timed_core().is_some() {
        add(&[MODEL_CYCLES]);
        add(&CYCLE_PARTS);
        add(&[CYCLES_FAR, CYCLES_UNKNOWN]);
    }
    if emulation.model {
        add(&["conditional-branches-taken", "model-branch-misses"]);
        add(&MODEL_CACHE_MISSES);
    }
    if kernel && emulation.timed_core().is_some() {
        // Only the model of user code was validated.
        let apart = [Domain::User, Domain::Kernel];
        metrics.extend(apart.map(|domain| MetricKey::new(MODEL_CYCLES, domain, EMULATOR)));
    }
    if cpus > 1 {
        let whole = |name: &str| MetricKey::new(name, Domain::All, EMULATOR);
        metrics.extend(["pauses", "halts", "cpu-turns"].map(whole));
        metrics.extend((0..cpus).map(|cpu| whole(&format!("instructions-cpu{cpu}"))));
    }
    if emulation.counts_footprint() {
        let names = [FOOTPRINT, FOOTPRINT_REGION].concat();
        let keys = names
            .iter()
            .flat_map(|name| both.iter().map(|one| MetricKey::new(name, *one, EMULATOR)));
        metrics.extend(keys);
    }
    // A pattern's functions are known when symbols have been read.
    metrics.extend(emulation.count.iter().filter_map(|counted| counted.metric(whole)));
    // A system call belongs to both the program and the kernel.
    metrics.push(MetricKey::new("system-calls", Domain::All, EMULATOR));
    metrics
}
