//! `opcost doctor`: what can be measured here, what cannot, why, and what would help.

mod calibrate;
mod gauge;
mod noise;
mod validate;

use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{Status, WithStatus, cause};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_command::seconds::seconds;
use opcost_lab::load::Load;
use opcost_lab::machine::emulated::{Emulator, ToolError, Unusable, default_kernel, try_out};
use opcost_lab::machine::host::HostSurroundings;
use opcost_lab::resolve::Surroundings;
use opcost_page::document::{Cell, Document, Tone};
use opcost_page::writer::text::text;
use opcost_record::Architecture;
use opcost_source::source::perf_event::{DEFAULT_EVENTS, syntax};
use opcost_store::store::{Store, StoreErrorKind};
use opcost_sys::clock::tsc_is_constant;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::{has_cpu_pmu, nmi_watchdog, perf_event_paranoid};
use opcost_sys::presence::Presence;
use opcost_sys::scheduling::{NoRealTime, no_real_time};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `opcost doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Listen to each CPU in turn; report which CPU is the quietest and what disturbs the others
    #[arg(long)]
    pub cpus: bool,

    /// How long to listen to each CPU
    #[arg(long, value_name = "N", default_value = "1", requires = "cpus", value_parser = seconds)]
    pub seconds: f64,

    /// Hold modelled cycles (--cycles) against this CPU: run more than 200 small kernels here and
    /// emulated, report the errors by class and how often directions are right, and keep the result,
    /// which later estimates cite. Takes a minute or two on a quiet machine
    #[arg(long, conflicts_with = "cpus", group = "core_job")]
    pub validate: bool,

    /// Measure what instructions cost on this CPU, and write a core's file for --cycles --core FILE.
    /// Begins with the core that ships and fits best; takes seconds on a quiet machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cpus", "validate"], group = "core_job")]
    pub calibrate_core: Option<PathBuf>,

    /// The core to validate, or the core that a calibration begins with: a file, or the name of one that
    /// ships [default: zen4; for a calibration the one that fits this CPU best]
    #[arg(long, value_name = "CORE", requires = "core_job")]
    pub core: Option<String>,

    /// Validate by the kernels alone whose names have this text, as opcost-gauge list prints them; the
    /// result is then shown and not kept
    #[arg(long, value_name = "TEXT", requires = "validate")]
    pub kernels: Option<String>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long)]
    pub json: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    /// The subject works well.
    Good,
    /// The subject works, but results are poorer.
    Poor,
    /// The subject is not available.
    Missing,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    subject: &'static str,
    health: Health,
    what: String,
    /// The remedy; absent if nothing has to be done.
    remedy: Option<String>,
}

impl Finding {
    fn good(subject: &'static str, what: impl Into<String>) -> Finding {
        Finding { subject, health: Health::Good, what: what.into(), remedy: None }
    }

    fn bad(
        subject: &'static str,
        health: Health,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { subject, health, what: what.into(), remedy: Some(remedy.into()) }
    }
}

/// Examines this machine.
pub fn doctor(globals: &Globals, args: &DoctorArgs) -> Result<Status> {
    if args.cpus {
        return noise::noise(globals, args.seconds, args.json);
    }
    if let Some(path) = &args.calibrate_core {
        return calibrate::calibrate_core(globals, path, args.core.as_deref(), args.json);
    }
    if args.validate {
        let core = args.core.as_deref();
        return validate::validate(globals, core, args.kernels.as_deref(), args.json);
    }
    let root = Path::new("/");
    let mut findings = vec![counters(root)];
    findings.extend(events());
    findings.push(rights(root));
    findings.push(watchdog(root));
    findings.push(clock(root));
    findings.push(layout(root));
    findings.push(frequency(root));
    findings.push(processors());
    findings.push(load(root));
    findings.extend(other_recordings());
    findings.push(real_time());
    findings.push(steal(root));
    findings.push(seccomp(root));
    let interrupt = Interrupt::install().context("cannot catch signals").status(Status::Missing)?;
    let default = Architecture::default();
    findings.extend(emulation("emulated machine", Emulator::System, default, &interrupt));
    findings.extend(emulation("emulated programs", Emulator::User, default, &interrupt));
    findings.extend(emulation(
        "emulated arm64",
        Emulator::System,
        Architecture::Aarch64,
        &interrupt,
    ));
    let root = std::env::var_os(FOREIGN_ROOT).map(PathBuf::from);
    findings.push(foreign_programs("arm64 programs", Architecture::Aarch64, root));
    findings.push(guests());
    findings.push(store(globals)?);
    let text = if args.json {
        opcost_base::json::document(&findings, "findings")?
    } else {
        text(&document(&findings), &globals.style())
    };
    print(&text)?;
    Ok(Status::Done)
}

fn document(findings: &[Finding]) -> Document {
    let mut document = Document::default();
    document.rows(findings.iter().flat_map(|finding| {
        let (mark, tone) = match finding.health {
            Health::Good => ("ok", Tone::Better),
            Health::Poor => ("!", Tone::Unsure),
            Health::Missing => ("–", Tone::Unsure),
        };
        let found =
            [Cell::verdict("", mark, tone), Cell::text(finding.subject), Cell::text(&finding.what)];
        let remedy = finding
            .remedy
            .iter()
            .map(|remedy| vec![Cell::Empty, Cell::Empty, Cell::text(format!("→ {remedy}"))]);
        [found.to_vec()].into_iter().chain(remedy)
    }));
    document
}

fn read(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(root.join(path)).ok().map(|text| text.trim().to_string())
}

fn counters(root: &Path) -> Finding {
    if has_cpu_pmu(&root.join("sys")) {
        return Finding::good("hardware counters", "the kernel drives this CPU's counters");
    }
    let virtual_machine = read(root, "proc/cpuinfo")
        .is_some_and(|text| text.split_whitespace().any(|flag| flag == "hypervisor"));
    let remedy = if virtual_machine {
        "this is a virtual machine: let the hypervisor give it a PMU (KVM: -cpu host,pmu=on). Without a PMU \
         opcost measures times and software events here, but no instructions or cycles. The emulated \
         machine counts instructions without a PMU: --machine emulated"
    } else {
        "boot a kernel with CONFIG_PERF_EVENTS and this CPU's PMU driver"
    };
    Finding::bad("hardware counters", Health::Missing, "none: no PMU here", remedy)
}

/// Whether the emulator counts every instruction, as its self-test shows; and the reason if a
/// machine cannot have several CPUs.
fn emulation(
    subject: &'static str,
    emulator: Emulator,
    architecture: Architecture,
    interrupt: &Interrupt,
) -> Vec<Finding> {
    let tools = match try_out(emulator, architecture, interrupt) {
        Ok(tools) => tools,
        Err(error) => {
            let (what, remedy) = refusal(&error);
            return vec![Finding::bad(subject, Health::Missing, what, remedy)];
        }
    };
    let default = architecture == Architecture::default();
    let flag = if default { String::new() } else { format!(" --architecture {architecture}") };
    let what = format!(
        "its self-test counted exactly: {} {}; no PMU or root needed: --machine emulated{flag}",
        tools.qemu.display(),
        tools.qemu_version
    );
    let mut findings = vec![Finding::good(subject, what)];
    if let (Emulator::System, true, Err(error)) = (emulator, default, tools.check_cpus(2)) {
        let (what, remedy) = (error.what(), error.remedy());
        findings.push(Finding::bad("several CPUs", Health::Missing, what, remedy));
    }
    findings
}

/// The variable with which QEMU's user mode, and opcost, are told where another system's files are.
const FOREIGN_ROOT: &str = "QEMU_LD_PREFIX";

/// Whether dynamic programs of another architecture find their loader and libraries.
fn foreign_programs(
    subject: &'static str,
    architecture: Architecture,
    root: Option<PathBuf>,
) -> Finding {
    let row = architecture.row();
    let root = root.unwrap_or_else(|| Path::new("/usr").join(row.triple));
    let loader = root.join(row.loader.trim_start_matches('/'));
    match loader.exists() {
        true => Finding::good(subject, format!("their libraries are below {}", root.display())),
        false => Finding::bad(
            subject,
            Health::Missing,
            format!("{} is not there, so only static programs run", loader.display()),
            format!(
                "install Debian's package libc6-{}-cross, or name a folder with the files of such a system: \
                 {FOREIGN_ROOT}=FOLDER",
                row.debian
            ),
        ),
    }
}

/// The kernel of guests if the user names none.
fn guests() -> Finding {
    let subject = "kernel of guests";
    match default_kernel() {
        Ok(kernel) => Finding::good(subject, format!("{kernel}, where no --kernel is given")),
        Err(error) => Finding::bad(subject, Health::Missing, error.what(), error.remedy()),
    }
}

/// The problem that kept an emulator from its self-test or that the self-test found, and a remedy.
fn refusal(error: &anyhow::Error) -> (String, String) {
    if let Some(tool) = cause::<ToolError>(error) {
        return (tool.what(), tool.remedy());
    }
    if let Some(Unusable { what, remedy }) = cause(error) {
        return (what.clone(), remedy.clone());
    }
    (format!("{error:#}"), "mend that, then ask again".into())
}

/// The default events; events with the same answer share a finding.
fn events() -> Vec<Finding> {
    let here = HostSurroundings;
    let mut available = Vec::new();
    let mut refused: Vec<(String, String, Vec<String>)> = Vec::new();
    let events = syntax::parse(&DEFAULT_EVENTS, &here.sysfs()).unwrap_or_default();
    for (event, refusal) in events.iter().zip(here.refusals(&events)) {
        let name = event.key.label();
        match refusal {
            None => available.push(name),
            Some(refusal) => {
                match refused.iter_mut().find(|(reason, ..)| *reason == refusal.reason) {
                    Some((_, _, names)) => names.push(name),
                    None => refused.push((refusal.reason, refusal.remedy, vec![name])),
                }
            }
        }
    }
    let mut findings = Vec::new();
    if !available.is_empty() {
        findings.push(Finding::good("events", format!("counted here: {}", available.join(", "))));
    }
    for (reason, remedy, names) in refused {
        findings.push(Finding::bad(
            "events",
            Health::Missing,
            format!("{}: {reason}", names.join(", ")),
            remedy,
        ));
    }
    findings
}

fn rights(root: &Path) -> Finding {
    let level = perf_event_paranoid(&root.join("proc"));
    let context = opcost_sys::perf::OpenContext::detect(&root.join("proc"), &root.join("sys"));
    match level {
        None => Finding::bad(
            "rights",
            Health::Missing,
            "this kernel has no performance events",
            "boot a kernel with CONFIG_PERF_EVENTS",
        ),
        Some(level) if context.privileged => Finding::good(
            "rights",
            format!("privileged: perf_event_paranoid = {level} does not bind this user"),
        ),
        Some(level) if level <= 1 => Finding::good(
            "rights",
            format!("perf_event_paranoid = {level}: user and kernel of own processes"),
        ),
        Some(2) => Finding::bad(
            "rights",
            Health::Poor,
            "perf_event_paranoid = 2: user mode of own processes only",
            "to count the kernel too: sysctl kernel.perf_event_paranoid=1, or run as root",
        ),
        Some(level) => Finding::bad(
            "rights",
            Health::Missing,
            format!("perf_event_paranoid = {level}: no events for this user"),
            "sysctl kernel.perf_event_paranoid=2 or lower, or run as root",
        ),
    }
}

fn watchdog(root: &Path) -> Finding {
    match nmi_watchdog(&root.join("proc")) {
        Some(true) if has_cpu_pmu(&root.join("sys")) => Finding::bad(
            "NMI watchdog",
            Health::Poor,
            "the watchdog holds one hardware counter",
            "to free the counter: sysctl kernel.nmi_watchdog=0",
        ),
        Some(true) => {
            Finding::good("NMI watchdog", "on, but there is no hardware counter for it to hold")
        }
        Some(false) => Finding::good("NMI watchdog", "off: all counters are free"),
        None => Finding::good("NMI watchdog", "none in this kernel"),
    }
}

fn clock(root: &Path) -> Finding {
    let source = read(root, "sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.unwrap_or_else(|| "unknown".into());
    let flags = read(root, "proc/cpuinfo").unwrap_or_default();
    let constant = tsc_is_constant(&flags) || !cfg!(target_arch = "x86_64");
    if constant {
        Finding::good(
            "clock",
            format!("constant time stamp counter; kernel clock source: {source}"),
        )
    } else {
        Finding::bad(
            "clock",
            Health::Poor,
            format!(
                "the time stamp counter follows the core's frequency; kernel clock source: {source}"
            ),
            "trust wall, not tsc",
        )
    }
}

fn layout(root: &Path) -> Finding {
    match read(root, "proc/sys/kernel/randomize_va_space").as_deref() {
        Some("0") => Finding::bad(
            "address layout",
            Health::Poor,
            "randomisation is off for the whole machine, so --aslr randomised has no effect",
            "sysctl kernel.randomize_va_space=2",
        ),
        Some(level) => Finding::good(
            "address layout",
            format!("randomisation level {level}; opcost sets it per run"),
        ),
        None => Finding::bad("address layout", Health::Poor, "not known", "mount /proc"),
    }
}

fn frequency(root: &Path) -> Finding {
    match read(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => Finding::good("frequency", "no governor in sight (usual in a virtual machine)"),
        Some(governor) if governor == "performance" => {
            Finding::good("frequency", "governor: performance")
        }
        Some(governor) => Finding::bad(
            "frequency",
            Health::Poor,
            format!("governor: {governor}; the clock follows the load"),
            "cpupower frequency-set -g performance",
        ),
    }
}

fn processors() -> Finding {
    let cpus = HostSurroundings.allowed_cpus();
    if cpus.len() > 1 {
        Finding::good(
            "CPUs",
            format!("{} usable: {cpus:?}; opcost doctor --cpus finds the quietest", cpus.len()),
        )
    } else {
        Finding::bad(
            "CPUs",
            Health::Poor,
            "one usable CPU: opcost shares it with what it measures",
            "allow a second CPU (taskset, cpuset), and pin runs with --cpu",
        )
    }
}

fn steal(root: &Path) -> Finding {
    let stat = read(root, "proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    let busy: u64 = ticks.iter().take(3).sum();
    match ticks.get(7) {
        Some(steal) if *steal * 50 > busy => Finding::bad(
            "other guests",
            Health::Poor,
            format!(
                "the hypervisor took {:.1} % of the CPU time asked for since boot",
                *steal as f64 * 100.0 / (*steal + busy) as f64
            ),
            "measure when the host is quieter; interleaving cancels slow drifts, not sudden bursts",
        ),
        Some(_) => Finding::good("other guests", "the hypervisor takes next to nothing"),
        None => Finding::bad("other guests", Health::Poor, "not known", "mount /proc"),
    }
}

fn seccomp(root: &Path) -> Finding {
    let actions = read(root, "proc/sys/kernel/seccomp/actions_avail");
    match actions {
        Some(actions) if actions.contains("allow") => {
            Finding::good("seccomp", "filters can be installed")
        }
        _ => Finding::bad(
            "seccomp",
            Health::Missing,
            "this kernel has no seccomp filters, so the seccomp parameter of workloads fails",
            "boot a kernel with CONFIG_SECCOMP_FILTER",
        ),
    }
}

/// Whether other programs want the CPUs now.
fn load(root: &Path) -> Finding {
    let Some(load) = Load::read(root) else {
        return Finding::bad(
            "load",
            Health::Missing,
            "/proc/loadavg cannot be read",
            "mount /proc; until then look at the ledger's rules load and pressure",
        );
    };
    let text = load.in_words();
    if !load.is_high() {
        return Finding::good("load", text);
    }
    Finding::bad(
        "load",
        Health::Poor,
        text,
        "other programs compete for the CPUs, so times measured now are doubtful: stop the programs (ps -e \
         --sort -pcpu lists them), choose a quiet CPU (opcost doctor --cpus), or own one (--priority real-time)",
    )
}

/// Whether runs can own a CPU.
fn real_time() -> Finding {
    let subject = "real-time priority";
    match no_real_time().map(NoRealTime::in_words) {
        None => Finding::good(
            subject,
            "allowed: with --priority real-time no ordinary program takes the CPU from a run",
        ),
        Some((what, remedy)) => Finding::bad(subject, Health::Missing, what, remedy),
    }
}

/// Whether another opcost of this user makes a recording now.
fn other_recordings() -> Option<Finding> {
    let others = Presence::open().and_then(|presence| presence.others()).unwrap_or(0);
    let what = match others {
        0 => return None,
        1 => "another opcost makes a recording now".to_string(),
        _ => format!("{others} other opcosts make recordings now"),
    };
    let remedy = "both disturb each other: make recordings one after the other";
    Some(Finding::bad("other recordings", Health::Poor, what, remedy))
}

fn store(globals: &Globals) -> Result<Finding> {
    let path = globals.store_path()?;
    Ok(match Store::open_for_reading(&path).and_then(|store| store.list()) {
        Ok(heads) => {
            Finding::good("store", format!("{} recordings in {}", heads.len(), path.display()))
        }
        Err(error) if error.kind == StoreErrorKind::Absent => {
            Finding::good("store", format!("none yet; will be {}", path.display()))
        }
        Err(error) => Finding::bad(
            "store",
            Health::Missing,
            error.to_string(),
            "choose another store with --store PATH",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn programs_of_another_architecture_need_its_loader() {
        let root = tempfile::tempdir().unwrap();
        let found =
            || foreign_programs("arm64 programs", Architecture::Aarch64, Some(root.path().into()));
        let missing = found();
        assert_eq!(missing.health, Health::Missing);
        assert!(missing.what.contains("/lib/ld-linux-aarch64.so.1 is not there, so only static"));
        assert!(missing.remedy.unwrap().contains("libc6-arm64-cross"));
        std::fs::create_dir(root.path().join("lib")).unwrap();
        std::fs::write(root.path().join("lib/ld-linux-aarch64.so.1"), "").unwrap();
        assert_eq!(found().health, Health::Good);
    }

    #[test]
    fn a_machine_that_others_use_is_said_to_be_loaded() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(load(root.path()).health, Health::Missing);
        write("sys/devices/system/cpu/online", "0-3\n");
        write("proc/loadavg", "7.25 3.00 1.00 9/300 4711\n");
        let finding = load(root.path());
        assert_eq!(
            (finding.health, finding.what.as_str()),
            (Health::Poor, "load average 7.25 on 4 CPUs")
        );
        write("proc/loadavg", "0.10 3.00 1.00 1/300 4711\n");
        assert_eq!(load(root.path()).health, Health::Good);
        write("proc/pressure/cpu", "some avg10=31.40 avg60=2.00 avg300=1.00 total=5\n");
        let finding = load(root.path());
        assert_eq!(finding.health, Health::Poor);
        assert!(finding.what.ends_with("tasks waited for a CPU in 31 % of the last 10 s"));
        assert!(finding.remedy.unwrap().contains("--cpus"));
    }
}
