//! Information about the running kernel.

use crate::error::JobError;
use opcost_sys::affinity;
use std::fs::{self, File};
use std::io::Read;

const KALLSYMS: &str = "/proc/kallsyms";
const MODULES: &str = "/proc/modules";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// Release and version, as `uname -rv` prints them.
pub(crate) fn uname() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy())
}

/// The flags of the first processor, and a line for each vulnerability, by name. Information that
/// the kernel lacks is left out.
pub(crate) fn cpuinfo() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines: Vec<String> = info
        .lines()
        .find(|line| line.starts_with("flags"))
        .map(str::to_string)
        .into_iter()
        .collect();
    let mut names: Vec<_> = fs::read_dir(VULNERABILITIES)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    names.sort();
    for path in names {
        if let (Some(name), Ok(text)) = (path.file_name(), fs::read_to_string(&path)) {
            lines.push(format!("{}: {}", name.display(), text.trim_end()));
        }
    }
    lines.join("\n")
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
            assert!(cpuinfo().contains("flags"));
        }
    }
}
