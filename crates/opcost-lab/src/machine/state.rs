//! The part of the machine's state that should stay the same during a recording. Each process that
//! works on the recording reads it before and after, and stores it again if it changed.

use opcost_model::plan::{Plan, WorkPlan};
use opcost_model::recording::{MachineState, ProgramState};
use opcost_size::Totals;
use opcost_symbols::elf::WHOLE_BYTES_MAX;
use opcost_sys::foreign_file;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Reads the state of this machine.
///
/// `root`: the root of the file system, `/`; tests use another. `environment_bytes`: the size of
/// each variant's environment.
pub fn read_state(root: &Path, plan: &Plan, environment_bytes: Vec<usize>) -> MachineState {
    let text = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_string()).filter(|text| !text.is_empty())
    };
    let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
    let cpu = |names: &[&str]| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            names.contains(&name.trim()).then(|| value.trim().to_string())
        })
    };
    MachineState {
        opcost_version: env!("CARGO_PKG_VERSION").to_string(),
        kernel_release: text("proc/sys/kernel/osrelease"),
        kernel_version: text("proc/sys/kernel/version"),
        boot_id: text("proc/sys/kernel/random/boot_id"),
        boot_parameters: text("proc/cmdline"),
        cpu_model: cpu(&["model name", "CPU part"]),
        cpu_microcode: cpu(&["microcode"]),
        cpu_flags: cpu(&["flags", "Features"]),
        cpus_online: text("sys/devices/system/cpu/online"),
        smt: text("sys/devices/system/cpu/smt/control"),
        governor: governors(root),
        turbo: turbo(&text),
        mitigations: mitigations(root),
        randomize_va_space: text("proc/sys/kernel/randomize_va_space"),
        transparent_hugepage: text("sys/kernel/mm/transparent_hugepage/enabled"),
        clocksource: text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        perf_event_paranoid: text("proc/sys/kernel/perf_event_paranoid"),
        nmi_watchdog: text("proc/sys/kernel/nmi_watchdog"),
        memory_bytes: text("proc/meminfo").and_then(|text| memory_bytes(&text)),
        load_average: text("proc/loadavg")
            .and_then(|text| text.split(' ').next().map(str::to_string)),
        programs: programs(plan),
        environment_bytes,
        inherited_environment: None,
        data: Vec::new(),
        emulator_version: None,
        shard: None,
        kernels: Vec::new(),
        guest_build: None,
        guests: Vec::new(),
    }
}

fn governors(root: &Path) -> Option<String> {
    let mut governors: Vec<String> = fs::read_dir(root.join("sys/devices/system/cpu"))
        .ok()?
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok())
        .map(|governor| governor.trim().to_string())
        .collect();
    governors.sort();
    governors.dedup();
    (!governors.is_empty()).then(|| governors.join(","))
}

/// `intel_pstate/no_turbo` is 1 when turbo is off; `cpufreq/boost` is 1 when boost is on.
fn turbo(text: &dyn Fn(&str) -> Option<String>) -> Option<bool> {
    let intel = text("sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == "0");
    intel.or_else(|| text("sys/devices/system/cpu/cpufreq/boost").map(|on| on == "1"))
}

fn mitigations(root: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(root.join("sys/devices/system/cpu/vulnerabilities"));
    let pair = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, fs::read_to_string(entry.path()).ok()?.trim().to_string()))
    };
    entries.into_iter().flatten().flatten().filter_map(pair).collect()
}

/// The memory of this machine, MiB.
pub(super) fn memory_mib() -> Option<u64> {
    Some(memory_bytes(&fs::read_to_string("/proc/meminfo").ok()?)? >> 20)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// The distinct programs of the plan's commands.
fn programs(plan: &Plan) -> Vec<ProgramState> {
    let mut states: Vec<ProgramState> = Vec::new();
    for variant in &plan.variants {
        let WorkPlan::Command { program, .. } = &variant.work else { continue };
        if states.iter().any(|state| &state.path == program) {
            continue;
        }
        if let Some(state) = program_state(program) {
            states.push(state);
        }
    }
    states
}

/// A program's length, hash and sizes; `None` if it cannot be read.
pub(super) fn program_state(path: &Path) -> Option<ProgramState> {
    let bytes = foreign_file::read(path, WHOLE_BYTES_MAX).ok()?;
    Some(ProgramState {
        path: path.to_path_buf(),
        length_bytes: bytes.len() as u64,
        sha256: opcost_kernel::digest(&bytes),
        sizes: Totals::read(&bytes).ok(),
    })
}

/// The state of a file that one process asks for again and again: [`program_state`], read once while the file stays the same.
pub(super) fn tool_state(path: &Path) -> Option<ProgramState> {
    static KNOWN: OfFiles<ProgramState> = OfFiles::new();
    KNOWN.get(path, "", || program_state(path).ok_or(())).ok()
}

/// What one process asks of files again and again, kept while each file stays the same.
pub(super) struct OfFiles<T>(Mutex<BTreeMap<(PathBuf, String), (Stamp, T)>>);

/// Length, inode and time of the last change, which tell a file from the one that takes its place.
type Stamp = (u64, u64, i64, i64);

impl<T: Clone> OfFiles<T> {
    pub(super) const fn new() -> OfFiles<T> {
        OfFiles(Mutex::new(BTreeMap::new()))
    }

    /// The answer of a file to a question.
    ///
    /// `ask`: asks for it, unless the file answered before. An error is not kept.
    pub(super) fn get<E>(
        &self,
        path: &Path,
        question: &str,
        ask: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Ok(file) = fs::metadata(path) else { return ask() };
        let stamp = (file.len(), file.ino(), file.mtime(), file.mtime_nsec());
        let key = (path.to_path_buf(), question.to_string());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = known.get(&key).filter(|(before, _)| *before == stamp) {
            return Ok(answer.clone());
        }
        let answer = ask()?;
        known.insert(key, (stamp, answer.clone()));
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::resolve::fixture::{FakeSurroundings, commands, plan, script};
    use crate::resolve::resolve;

    /// A root folder with some files of an Intel machine's /proc and /sys.
    fn root() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let cpu = "sys/devices/system/cpu";
        let files = [
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian\n"),
            ("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n"),
            ("proc/sys/kernel/randomize_va_space", "2\n"),
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("proc/sys/kernel/nmi_watchdog", "0\n"),
            ("proc/cmdline", "quiet mitigations=off\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Imaginary 9000 @ 3.00GHz\n\
                 microcode\t: 0x2006b06\nflags\t\t: fpu sse2\n\nprocessor\t: 1\n\
                 model name\t: Another\n",
            ),
            ("proc/meminfo", "MemTotal:       24684092 kB\nMemFree:  1 kB\n"),
            ("proc/loadavg", "0.52 0.10 0.01 1/200 4000\n"),
            (&format!("{cpu}/online"), "0-1\n"),
            (&format!("{cpu}/smt/control"), "on\n"),
            (&format!("{cpu}/cpu0/cpufreq/scaling_governor"), "powersave\n"),
            (&format!("{cpu}/cpu1/cpufreq/scaling_governor"), "performance\n"),
            (&format!("{cpu}/intel_pstate/no_turbo"), "1\n"),
            (&format!("{cpu}/vulnerabilities/meltdown"), "Mitigation: PTI\n"),
            (&format!("{cpu}/vulnerabilities/l1tf"), "Not affected\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ];
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_file_answers_once_while_it_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qemu");
        let answers: OfFiles<u32> = OfFiles::new();
        let ask = |question: &str, answer| answers.get(&path, question, || answer);
        assert_eq!(ask("", Err(())), Err(()), "no file");
        assert_eq!(ask("", Ok(1)), Ok(1), "an answer without a file is not kept");
        fs::write(&path, "1").unwrap();
        assert_eq!(ask("", Err(())), Err(()));
        assert_eq!([ask("", Ok(2)), ask("", Ok(3)), ask("x", Ok(4))], [Ok(2), Ok(2), Ok(4)]);
        fs::write(&path, "22").unwrap();
        assert_eq!(ask("", Ok(5)), Ok(5), "another file");
    }

    #[test]
    fn every_file_reaches_its_field() {
        let text = |text: &str| Some(text.to_string());
        let expected = MachineState {
            opcost_version: env!("CARGO_PKG_VERSION").into(),
            kernel_release: text("6.1.0-18-amd64"),
            kernel_version: text("#1 SMP PREEMPT_DYNAMIC Debian"),
            boot_id: text("11111111-2222-3333-4444-555555555555"),
            boot_parameters: text("quiet mitigations=off"),
            cpu_model: text("Imaginary 9000 @ 3.00GHz"),
            cpu_microcode: text("0x2006b06"),
            cpu_flags: text("fpu sse2"),
            cpus_online: text("0-1"),
            smt: text("on"),
            governor: text("performance,powersave"),
            turbo: Some(false),
            mitigations: BTreeMap::from([
                ("l1tf".into(), "Not affected".into()),
                ("meltdown".into(), "Mitigation: PTI".into()),
            ]),
            randomize_va_space: text("2"),
            transparent_hugepage: text("always [madvise] never"),
            clocksource: text("tsc"),
            perf_event_paranoid: text("-1"),
            nmi_watchdog: text("0"),
            memory_bytes: Some(24_684_092 * 1024),
            load_average: text("0.52"),
            programs: vec![],
            environment_bytes: vec![10, 20],
            inherited_environment: None,
            data: vec![],
            emulator_version: None,
            shard: None,
            kernels: vec![],
            guest_build: None,
            guests: vec![],
        };
        let state = read_state(root().path(), &plan(2, 2), vec![10, 20]);
        assert_eq!(state, expected);
        let stored = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<MachineState>(&stored).unwrap(), state);
    }

    #[test]
    fn what_the_kernel_does_not_say_is_absent() {
        let empty = tempfile::tempdir().unwrap();
        let state = read_state(empty.path(), &plan(2, 2), vec![]);
        let nothing = MachineState {
            opcost_version: env!("CARGO_PKG_VERSION").into(),
            ..MachineState::default()
        };
        assert_eq!(state, nothing);
    }

    #[test]
    fn amd_says_boost_where_intel_says_no_turbo() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("sys/devices/system/cpu/cpufreq");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("boost"), "1\n").unwrap();
        assert_eq!(read_state(root.path(), &plan(2, 2), vec![]).turbo, Some(true));
    }

    #[test]
    fn the_programs_of_commands_are_hashed_where_they_run() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        script(&dir, "sub/tool", "abc");
        let surroundings = FakeSurroundings { dir: dir.clone(), ..FakeSurroundings::default() };
        let mut asked = commands(&["./tool one", "./tool two"]);
        asked.cwd = Some("sub".into());
        let plan = resolve(&asked, &surroundings).unwrap();
        let state = read_state(root().path(), &plan, vec![]);
        // FIPS 180-2, appendix B.1.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let tool = ProgramState {
            path: dir.join("sub/tool"),
            length_bytes: 3,
            sha256: sha256.into(),
            sizes: None,
        };
        assert_eq!(state.programs, [tool]);
        assert_eq!(program_state(&dir.join("none")), None);
        assert_eq!(program_state(&dir), None);
    }

    #[test]
    fn programs_are_measured_and_recordings_from_before_that_are_read() {
        let here = program_state(&std::env::current_exe().unwrap()).unwrap();
        assert!(here.sizes.is_some_and(|sizes| sizes.text_bytes > sizes.data_bytes));
        let stored = serde_json::to_string(&here).unwrap();
        assert_eq!(serde_json::from_str::<ProgramState>(&stored).unwrap(), here);
        let older = r#"{"path":"/bin/gzip","length_bytes":1,"sha256":"aa"}"#;
        assert_eq!(serde_json::from_str::<ProgramState>(older).unwrap().sizes, None);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(
            memory_bytes("MemTotal:       24684092 kB\nMemFree: 1 kB\n"),
            Some(24_684_092 * 1024)
        );
        assert_eq!(memory_bytes("nonsense"), None);
    }

    #[test]
    fn a_changed_program_or_kernel_is_a_difference() {
        let program = |sha256: &str| ProgramState {
            path: "/bin/gzip".into(),
            length_bytes: 1,
            sha256: sha256.into(),
            sizes: None,
        };
        let before = MachineState {
            programs: vec![program("aa")],
            kernel_release: Some("6.1".into()),
            ..Default::default()
        };
        let after = MachineState {
            programs: vec![program("bb")],
            kernel_release: Some("6.2".into()),
            ..Default::default()
        };
        assert_eq!(
            before.differences(&after, false),
            ["kernel: 6.1 → 6.2", "the program /bin/gzip was changed"]
        );
        assert!(before.differences(&before, false).is_empty());
    }

    #[test]
    fn settings_that_shift_figures_are_differences() {
        let before = read_state(root().path(), &plan(2, 2), vec![]);
        let mut after = before.clone();
        after.turbo = Some(true);
        after.mitigations.insert("meltdown".into(), "Vulnerable".into());
        after.mitigations.remove("l1tf");
        after.randomize_va_space = None;
        assert_eq!(
            before.differences(&after, false),
            [
                "turbo: off → on",
                "address randomisation: 2 → unknown",
                "mitigation of l1tf: Not affected → unknown",
                "mitigation of meltdown: Mitigation: PTI → Vulnerable",
            ]
        );
        // The load differs between any two moments.
        let mut later = before.clone();
        later.load_average = Some("3.00".into());
        assert!(before.differences(&later, false).is_empty() && !before.has_become(&later));
        later.clocksource = Some("hpet".into());
        assert!(before.differences(&later, false).is_empty() && before.has_become(&later));
    }
}
