//! What the running kernel says of itself.

use crate::init::JobError;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

const KALLSYMS: &str = "/proc/kallsyms";
const MODULES: &str = "/proc/modules";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// Release and version, as `uname -rv` prints them.
pub(crate) fn uname() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.release().to_string_lossy(), uname.version().to_string_lossy())
}

/// The flags of the first processor, and a line for each vulnerability, by name; what the kernel
/// does not say is left out.
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

/// The functions of `/proc/kallsyms`, as its lines.
pub(crate) fn functions() -> Result<Vec<u8>, JobError> {
    let mut all = Vec::with_capacity(8 << 20);
    // In large pieces: the kernel starts each read by looking for its place.
    let mut file = File::open(KALLSYMS).map_err(|source| JobError::System {
        what: format!("read {KALLSYMS} (the kernel needs CONFIG_KALLSYMS)"),
        source,
    })?;
    file.read_to_end(&mut all).map_err(JobError::system(format!("read {KALLSYMS}")))?;
    Ok(functions_of(&all))
}

/// The lines `ADDRESS TYPE NAME` whose type is that of code: text or weak (nm(1)).
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

/// The modules that were loaded and where they are: a line for each, `NAME ADDRESS`.
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

/// Lines from the kernel's log, as many as tell of one killing.
const OUT_OF_MEMORY_LINES_MAX: usize = 10;

/// The last lines of the kernel's log, if it killed something for lack of memory.
pub(crate) fn out_of_memory() -> Option<String> {
    told_of_killing(&log().ok()?)
}

/// The messages of the kernel's log.
pub(crate) fn log() -> io::Result<Vec<String>> {
    // At the end of the log a read would wait for more (Documentation/ABI/testing/dev-kmsg).
    const O_NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut file = File::options().read(true).custom_flags(O_NONBLOCK).open("/dev/kmsg")?;
    let mut lines = Vec::new();
    let mut record = vec![0; 8192];
    loop {
        match file.read(&mut record) {
            Ok(0) => return Ok(lines),
            Ok(length) => {
                let text = String::from_utf8_lossy(&record[..length]);
                // "priority,number,time,flags;message", then lines of details.
                let message = text.lines().next().and_then(|line| line.split_once(';'));
                lines.extend(message.map(|(_, message)| message.to_string()));
            }
            // Records were lost in the meantime; the next read goes on behind them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(_) => return Ok(lines),
        }
    }
}

fn told_of_killing(lines: &[String]) -> Option<String> {
    let at = lines.iter().rposition(|line| line.contains("Out of memory"))?;
    let first = (at + 1).saturating_sub(OUT_OF_MEMORY_LINES_MAX);
    Some(format!("{}\ngive the guest more memory (--memory-mib)", lines[first..].join("\n")))
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
    fn a_killing_is_told_with_what_stands_before() {
        let mut lines: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        assert_eq!(told_of_killing(&lines), None);
        lines.push("Out of memory: Killed process 40 (sh)".into());
        lines.push("oom_reaper: reaped process 40 (sh)".into());
        let told = told_of_killing(&lines).unwrap();
        assert_eq!(told.lines().count(), OUT_OF_MEMORY_LINES_MAX + 2);
        assert!(told.starts_with("line 11\n") && told.contains("Killed process 40"));
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
