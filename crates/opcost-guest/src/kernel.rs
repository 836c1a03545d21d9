//! Information about the running kernel.

use crate::error::JobError;
use opcost_sys::affinity;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

const KALLSYMS: &str = "/proc/kallsyms";
const MODULES: &str = "/proc/modules";
/// The fields of /proc/cpuinfo that are sent.
const CPU_FIELDS: [&str; 12] = [
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "flags",
    "bugs",
    // arm64's (arch/arm64/kernel/cpuinfo.c).
    "Features",
    "CPU implementer",
    "CPU variant",
    "CPU part",
    "CPU revision",
];

/// Release and version, as `uname -rv` prints them.
pub(crate) fn uname() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy())
}

/// The lines of /proc/cpuinfo about the first processor that say what it is and has; empty if there
/// are none.
pub(crate) fn cpuinfo(root: &Path) -> String {
    let info = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let first = info.lines().take_while(|line| !line.is_empty());
    let wanted = first.filter(|line| {
        line.split_once(':').is_some_and(|(key, _)| CPU_FIELDS.contains(&key.trim()))
    });
    wanted.collect::<Vec<_>>().join("\n")
}

/// A line for each vulnerability, by name: `NAME: STATE`; `None` if the kernel has no list (before
/// Linux 4.15, or without sysfs).
pub(crate) fn vulnerabilities(root: &Path) -> Option<String> {
    let entries = fs::read_dir(root.join("sys/devices/system/cpu/vulnerabilities")).ok()?;
    let mut lines: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path()).ok()?;
            Some(format!("{}: {}", entry.file_name().display(), text.trim_end()))
        })
        .collect();
    lines.sort();
    Some(lines.join("\n"))
}

/// The kernel's clock source; `None` if the kernel does not say.
pub(crate) fn clocksource(root: &Path) -> Option<String> {
    let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    Some(fs::read_to_string(root.join(path)).ok()?.trim_end().to_string())
}

/// The boot options that the kernel does not know, by its log (init/main.c, print_unknown_bootoptions;
/// from Linux 5.14 on). An option with a dot is for a module, and the kernel does not check it.
pub(crate) fn unknown_options(log: &[String]) -> Option<String> {
    log.iter().find_map(|line| {
        let (_, rest) = line.split_once("Unknown kernel command line parameters \"")?;
        Some(rest.rsplit_once('"')?.0.trim().to_string())
    })
}

/// The CPU's features and faults that the kernel found and has code for, a line for each, by its log (arch/arm64/kernel/cpufeature.c);
/// `None` if the log names none.
pub(crate) fn detected(log: &[String]) -> Option<String> {
    let found = log.iter().filter_map(|line| line.split_once("CPU features: detected: "));
    let names: Vec<&str> = found.map(|(_, name)| name.trim_end()).collect();
    (!names.is_empty()).then(|| names.join("\n"))
}

/// The options with which the kernel was booted.
pub(crate) fn command_line() -> String {
    fs::read_to_string("/proc/cmdline").unwrap_or_default()
}

/// Checks that exactly `wanted` CPUs run.
pub(crate) fn check_cpus(wanted: u32) -> Result<(), JobError> {
    let allowed = affinity::allowed_cpus().map_err(JobError::system("ask which CPUs there are"))?;
    let started = allowed.len();
    match started == wanted as usize {
        true => Ok(()),
        false => Err(JobError::Cpus { started, wanted }),
    }
}

/// The functions of `/proc/kallsyms`, as its lines.
pub(crate) fn functions() -> Result<Vec<u8>, JobError> {
    let mut all = Vec::with_capacity(8 << 20);
    // Large pieces save time: the kernel starts each read by searching for its place.
    let mut file = File::open(KALLSYMS).map_err(|source| JobError::System {
        what: format!("read {KALLSYMS} (the kernel needs CONFIG_KALLSYMS)"),
        source,
    })?;
    file.read_to_end(&mut all).map_err(JobError::system(format!("read {KALLSYMS}")))?;
    Ok(functions_of(&all))
}

/// The lines `ADDRESS TYPE NAME` whose type is code: text or weak (nm(1)).
fn functions_of(kallsyms: &[u8]) -> Vec<u8> {
    let mut functions = Vec::with_capacity(kallsyms.len());
    for line in kallsyms.split_inclusive(|byte| *byte == b'\n') {
        let space = line.iter().position(|byte| *byte == b' ');
        let kind = space.and_then(|space| line.get(space + 1));
        if matches!(kind, Some(b't' | b'T' | b'w' | b'W')) {
            functions.extend_from_slice(line);
        }
    }
    functions
}

/// The loaded modules and their addresses: a line for each, `NAME ADDRESS`.
pub(crate) fn modules() -> Result<String, JobError> {
    let text = fs::read_to_string(MODULES).map_err(JobError::system(format!("read {MODULES}")))?;
    Ok(places_of(&text))
}

/// The first and the sixth word of each line (proc_modules(5)).
fn places_of(modules: &str) -> String {
    let lines = modules.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let places = lines.filter_map(|words| Some(format!("{} {}\n", words.first()?, words.get(5)?)));
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_kept() {
        let text = b"ffffffff81000000 T _stext\nffffffff82000000 D data\n\
                     ffffffff81000010 t local\n0 A abs\nffffffff81000020 W weak\nbroken\n";
        let kept = "ffffffff81000000 T _stext\nffffffff81000010 t local\nffffffff81000020 W weak\n";
        assert_eq!(String::from_utf8(functions_of(text)).unwrap(), kept);
    }

    #[test]
    fn modules_have_their_places() {
        let text = "ext4 983040 1 - Live 0xffffffffc0290000\n\
                    jbd2 167936 1 ext4, Live 0xffffffffc0260000 (E)\nodd\n";
        assert_eq!(places_of(text), "ext4 0xffffffffc0290000\njbd2 0xffffffffc0260000\n");
    }

    #[test]
    fn this_kernel_describes_itself() {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(uname().starts_with(release.trim()));
        if fs::read_to_string("/proc/cpuinfo").unwrap().contains("flags") {
            assert!(cpuinfo(Path::new("/")).contains("flags"));
        }
    }

    #[test]
    fn the_processor_and_its_faults_are_described_as_far_as_the_kernel_does() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // A guest without /sys, and with a kernel that lacks the files.
        assert_eq!(cpuinfo(root.path()), "");
        assert_eq!((vulnerabilities(root.path()), clocksource(root.path())), (None, None));
        write(
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: A\ncpu MHz\t: 1.5\nmodel\t\t: 49\nflags\t\t: fpu de\n\n\
             processor\t: 1\nvendor_id\t: B\n",
        );
        assert_eq!(cpuinfo(root.path()), "vendor_id\t: A\nmodel\t\t: 49\nflags\t\t: fpu de");
        let folder = "sys/devices/system/cpu/vulnerabilities";
        write(&format!("{folder}/spectre_v2"), "Mitigation: Retpolines\n");
        write(&format!("{folder}/l1tf"), "Not affected\n");
        write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc \n");
        let lines = "l1tf: Not affected\nspectre_v2: Mitigation: Retpolines";
        assert_eq!(vulnerabilities(root.path()).as_deref(), Some(lines));
        assert_eq!(clocksource(root.path()).as_deref(), Some("tsc"));
    }

    #[test]
    fn options_that_the_kernel_does_not_know_are_found_in_its_log() {
        let log = [
            "Kernel command line: quiet foo=1 bar",
            "Unknown kernel command line parameters \"foo=1 bar\", will be passed to user space.",
        ];
        let log = log.map(String::from);
        assert_eq!(unknown_options(&log).as_deref(), Some("foo=1 bar"));
        assert_eq!(unknown_options(&log[..1]), None);
    }

    #[test]
    fn features_that_the_kernel_found_are_in_its_log() {
        let log = [
            "CPU features: detected: GIC system register CPU interface",
            "CPU features: kernel page table isolation forced ON by command line option",
            "CPU features: detected: Spectre-v4 ",
        ];
        let log = log.map(String::from);
        let names = "GIC system register CPU interface\nSpectre-v4";
        assert_eq!(detected(&log).as_deref(), Some(names));
        assert_eq!(detected(&log[1..2]), None);
    }
}
