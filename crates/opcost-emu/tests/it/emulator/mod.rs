//! Runs the real QEMU with the plugin that cargo built for these tests.

use opcost_record::emulation::{self, Emulation, RegionCost};
use opcost_record::{Domain, profile::Profile};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

// Crate opcost owns the module and does not link to QEMU; the file has no dependencies.
#[path = "../../../../opcost-lab/src/machine/emulated/probe.rs"]
#[allow(unreachable_pub, reason = "in crate opcost the items are public")]
pub(crate) mod probe;

/// The head of an image that a boot loader accepts (Multiboot Specification 0.6.96, section 3.1).
const MULTIBOOT: &str = "
.code32
.globl _start
.text
.balign 4
.long 0x1badb002, 0, -0x1badb002
";

/// Emulates one program.
pub(crate) const USER: &str = "qemu-x86_64";
/// Emulates a whole machine.
pub(crate) const SYSTEM: &str = "qemu-system-x86_64";

/// Emulates one program of AArch64.
pub(crate) const USER_AARCH64: &str = "qemu-aarch64";
/// Emulates a whole machine of AArch64.
pub(crate) const SYSTEM_AARCH64: &str = "qemu-system-aarch64";

/// The image and program of AArch64 that ends at once; the image calls PSCI's SYSTEM_OFF.
const END_IMAGE: &str = ".globl _start\n_start: mov w0,#8\n movk w0,#0x8400,lsl #16\n hvc #0\n";
const END_PROGRAM: &str = ".globl _start\n_start: mov x8,#93\n svc #0\n";

/// The plugin's argument that has it model the caches and predictors of the default core.
pub(crate) const MODEL: &str =
    concat!("model=", env!("CARGO_MANIFEST_DIR"), "/../opcost-core-model/cores/zen4.toml");

/// A QEMU and a folder of its own.
pub(crate) struct Emulator {
    qemu: &'static str,
    folder: TempDir,
}

/// The results of a run.
pub(crate) struct Run {
    /// The report; empty if the plugin wrote none.
    pub(crate) report: Vec<u8>,
    /// QEMU's exit status, if it ended by itself.
    pub(crate) status: Option<i32>,
    /// Standard output.
    pub(crate) output: String,
    /// Standard error.
    pub(crate) errors: String,
}

/// Prints the reason why a test does nothing.
pub(crate) fn skip(why: &str) {
    crate::skip::skip!("{why}");
}

/// Whether a program can be started at all.
pub(crate) fn have(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Returns the path of the plugin: cargo puts the plugin beside the test's own folder.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libopcost_emu.so")
}

impl Emulator {
    /// Finds a QEMU; without one the test is skipped.
    pub(crate) fn find(qemu: &'static str) -> Option<Emulator> {
        if !have(qemu) {
            skip(&format!("{qemu} is not installed"));
            return None;
        }
        if !Learned::of(qemu).takes_plugins {
            skip(&format!("{qemu} was built without plugins"));
            return None;
        }
        Some(Emulator { qemu, folder: TempDir::new().unwrap() })
    }

    fn is_aarch64(&self) -> bool {
        self.qemu.ends_with("aarch64")
    }

    /// Returns the first number of QEMU's version.
    pub(crate) fn major_version(&self) -> u32 {
        let told = Command::new(self.qemu).arg("--version").output().unwrap().stdout;
        let told = String::from_utf8_lossy(&told).into_owned();
        let version = told.split_once("version ").and_then(|(_, rest)| rest.split_once('.'));
        version.and_then(|(major, _)| major.parse().ok()).expect(&told)
    }

    /// Returns the folder for the test's files.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes an executable file and returns its path.
    pub(crate) fn file(&self, name: &str, contents: &[u8]) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder().join(name);
        std::fs::write(&path, contents).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().into()
    }

    /// Assembles or compiles a program without libraries and returns its path, or `None` without gcc.
    ///
    /// `name`: the source's name; its extension tells the language.
    pub(crate) fn build(&self, name: &str, source: &str, options: &[&str]) -> Option<String> {
        let gcc = if self.is_aarch64() { "aarch64-linux-gnu-gcc" } else { "gcc" };
        if !have(gcc) {
            skip(&format!("{gcc} is not installed"));
            return None;
        }
        let path = self.file(name, source.as_bytes());
        let program = format!("{path}.program");
        let built = Command::new(gcc)
            .args(["-static", "-nostdlib", "-nostartfiles", "-Wl,--build-id=none", "-o", &program])
            .args(options)
            .arg(&path)
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(program)
    }

    /// Builds a multiboot image of 32-bit code; the image begins at `_start` and at 1 MiB.
    pub(crate) fn build_image(&self, name: &str, code: &str, more: &[&str]) -> Option<String> {
        let flat = ["-m32", "-Wl,-Ttext=0x100000", "-Wl,-m,elf_i386", "-no-pie", "-Wl,-n"];
        self.build(name, &format!("{MULTIBOOT}{code}"), &[&flat[..], more].concat())
    }

    /// Runs QEMU with the filters that the self-test found.
    ///
    /// `plugin_arguments`: each `key=value`; `arguments`: QEMU's own arguments, or the program with its arguments.
    pub(crate) fn run(&self, plugin_arguments: &[&str], arguments: &[&str]) -> Run {
        self.run_in(&[], plugin_arguments, arguments)
    }

    /// Runs QEMU as [`run`](Self::run) does, with variables in QEMU's environment.
    pub(crate) fn run_in(
        &self,
        environment: &[(&str, &str)],
        plugin_arguments: &[&str],
        arguments: &[&str],
    ) -> Run {
        let learned = Learned::of(self.qemu);
        let filters = learned.filters.iter().map(String::as_str);
        let plugin_arguments: Vec<&str> = filters.chain(plugin_arguments.iter().copied()).collect();
        self.start(environment, learned.api, &plugin_arguments, arguments)
    }

    /// Runs QEMU as [`run`](Self::run) does, and once more for totals alone, which are the same.
    pub(crate) fn run_with_totals(&self, plugin_arguments: &[&str], arguments: &[&str]) -> Run {
        let run = self.run(plugin_arguments, arguments);
        // These need contexts.
        let needs = |argument: &&str| argument.starts_with("model=") || *argument == "addresses=on";
        if !plugin_arguments.iter().any(needs) {
            let alone: Vec<&str> =
                plugin_arguments.iter().copied().chain(["profile=off"]).collect();
            let totals = self.run(&alone, arguments);
            match (Emulation::decode(&totals.report), Emulation::decode(&run.report)) {
                (Ok(totals), Ok(run)) => {
                    let counts = |emulation: Emulation| -> Vec<_> {
                        let regions = emulation.runs.into_iter().flatten();
                        regions.map(|region| (region.region, region.counts)).collect()
                    };
                    assert_eq!(counts(totals), counts(run));
                }
                _ => assert_eq!(totals.report, run.report),
            }
        }
        run
    }

    /// Runs the self-test's program or image.
    pub(crate) fn run_probe(&self, api: Option<i32>, plugin_arguments: &[&str]) -> Run {
        if self.qemu == USER {
            let program = self.file("probe", &probe::user_program());
            return self.start(&[], api, plugin_arguments, &[&program]);
        }
        if self.is_aarch64() {
            let system = self.qemu == SYSTEM_AARCH64;
            let source = if system { END_IMAGE } else { END_PROGRAM };
            let Some(program) = self.build("probe.S", source, &[]) else {
                return self.start(&[], api, plugin_arguments, &["--version"]);
            };
            let machine = ["-M", "virt", "-cpu", "cortex-a72", "-display", "none", "-kernel"];
            let machine = if system { &machine[..] } else { &[] };
            return self.start(&[], api, plugin_arguments, &[machine, &[&program]].concat());
        }
        let image = self.file("probe", &probe::system_image());
        let machine = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-m", "16"];
        let quiet = ["-nodefaults", "-display", "none", "-kernel", &image];
        let arguments = [&machine[..], &quiet, &probe::SYSTEM_ARGUMENTS].concat();
        self.start(&[], api, plugin_arguments, &arguments)
    }

    /// Runs QEMU without the plugin.
    pub(crate) fn run_plain(&self, arguments: &[&str]) -> Run {
        self.execute(Command::new("timeout").args(["600", self.qemu]).args(arguments))
    }

    fn start(
        &self,
        environment: &[(&str, &str)],
        api: Option<i32>,
        plugin_arguments: &[&str],
        arguments: &[&str],
    ) -> Run {
        let report = self.folder().join("report");
        let _ = std::fs::remove_file(&report);
        let mut plugin = format!("{},out={}", plugin().display(), report.display());
        for argument in plugin_arguments {
            plugin.push(',');
            plugin.push_str(argument);
        }
        // A machine that hangs must not hang the tests.
        let mut command = Command::new("timeout");
        command.args(["600", self.qemu, "-plugin", &plugin]).args(arguments).env_clear();
        command.envs(environment.iter().copied());
        command.envs(api.map(|version| (emulation::API_VARIABLE, version.to_string())));
        self.execute(&mut command)
    }

    fn execute(&self, command: &mut Command) -> Run {
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let run = command.stdin(Stdio::null()).output().unwrap();
        Run {
            report: std::fs::read(self.folder().join("report")).unwrap_or_default(),
            status: run.status.code(),
            output: String::from_utf8_lossy(&run.stdout).into_owned(),
            errors: String::from_utf8_lossy(&run.stderr).into_owned(),
        }
    }
}

/// Facts about a QEMU that the plugin needs for counting.
pub(crate) struct Learned {
    /// The version of the plugin API, if the plugin must be told.
    pub(crate) api: Option<i32>,
    /// Whether this QEMU takes plugins. Debian's QEMU for programs takes none from 10.0 on.
    takes_plugins: bool,
    /// The filters that count the iterations of string instructions.
    pub(crate) filters: Vec<String>,
}

impl Learned {
    /// Returns the facts about a QEMU, learnt once for each.
    pub(crate) fn of(qemu: &'static str) -> &'static Learned {
        static USERS: OnceLock<Learned> = OnceLock::new();
        static SYSTEMS: OnceLock<Learned> = OnceLock::new();
        static USERS_AARCH64: OnceLock<Learned> = OnceLock::new();
        static SYSTEMS_AARCH64: OnceLock<Learned> = OnceLock::new();
        let kept = match qemu {
            USER => &USERS,
            USER_AARCH64 => &USERS_AARCH64,
            SYSTEM_AARCH64 => &SYSTEMS_AARCH64,
            _ => &SYSTEMS,
        };
        kept.get_or_init(|| {
            let emulator = Emulator { qemu, folder: TempDir::new().unwrap() };
            let mut run = emulator.run_probe(None, &["probe=on"]);
            let api = probe::api_wanted(&run.errors);
            if api.is_some() {
                run = emulator.run_probe(api, &["probe=on"]);
            }
            if run.errors.contains("unknown option 'plugin'") {
                return Learned { api, takes_plugins: false, filters: Vec::new() };
            }
            if emulator.is_aarch64() {
                // No instruction repeats itself.
                return Learned { api, takes_plugins: true, filters: Vec::new() };
            }
            let filters = probe::derive(&run.report)
                .unwrap_or_else(|error| panic!("{error}: {}", run.errors));
            Learned { api, takes_plugins: true, filters: filters.arguments() }
        })
    }
}

impl Run {
    /// Returns the only counted region of the only run.
    pub(crate) fn work(&self) -> RegionCost {
        match <[RegionCost; 1]>::try_from(self.works()) {
            Ok([work]) => work,
            Err(works) => panic!("{} runs: {works:?}", works.len()),
        }
    }

    /// Returns the only counted region of each run.
    pub(crate) fn works(&self) -> Vec<RegionCost> {
        let parsed = Emulation::decode(&self.report)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.output, self.errors));
        let of_run = |regions: Vec<RegionCost>| match <[RegionCost; 1]>::try_from(regions) {
            Ok([work]) => {
                let total = work.count("instructions", Domain::All).unwrap();
                if !work.profile.contexts.is_empty() {
                    assert_eq!(work.profile.total(), total, "contexts and total differ");
                }
                check_addresses(&work.profile);
                work
            }
            Err(regions) => panic!("{regions:?}"),
        };
        parsed.runs.into_iter().map(of_run).collect()
    }

    /// Returns every region of the only run.
    pub(crate) fn regions(&self) -> Vec<RegionCost> {
        let mut parsed = Emulation::decode(&self.report)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.output, self.errors));
        assert_eq!(parsed.runs.len(), 1);
        parsed.runs.remove(0)
    }

    /// Returns the error that the plugin reported.
    pub(crate) fn error(&self) -> String {
        Emulation::decode(&self.report).expect_err("an error was expected").to_string()
    }
}

/// Checks that the instructions of each function sum to the function's own cost, if instructions were counted by address.
fn check_addresses(profile: &Profile) {
    if profile.addresses.is_empty() {
        return;
    }
    let mut sums = vec![(0u64, 0u64); profile.functions.len()];
    profile.contexts.iter().for_each(|one| sums[one.function as usize].0 += one.cost);
    profile.addresses.iter().for_each(|one| sums[one.function as usize].1 += one.cost);
    let differ = profile.functions.iter().zip(sums).filter(|(_, (own, sum))| own != sum);
    let differ: Vec<_> = differ.map(|(function, sums)| (function.format(), sums)).collect();
    assert!(differ.is_empty(), "functions and their instructions differ: {differ:?}");
}

/// Returns one count of a region, user and kernel together.
pub(crate) fn count(work: &RegionCost, name: &str) -> u64 {
    work.count(name, Domain::All).unwrap_or_else(|| panic!("no {name}"))
}

/// Checks several counts at once.
pub(crate) fn check(work: &RegionCost, expected: &[(&str, u64)]) {
    let got: Vec<(&str, u64)> =
        expected.iter().map(|(name, _)| (*name, count(work, name))).collect();
    assert_eq!(got, expected);
}

/// Returns the contexts as lines `path calls cost`; a path lists the functions from the root on.
pub(crate) fn paths(profile: &Profile) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for context in &profile.contexts {
        let own = profile.functions[context.function as usize].symbol.clone();
        let path = match context.parent {
            Some(parent) => format!("{}/{own}", names[parent as usize]),
            None => own,
        };
        lines.push(format!("{path} {} {}", context.calls, context.cost));
        names.push(path);
    }
    lines.sort();
    lines
}
