//! The kernel's log.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

/// The most lines of the kernel's log that are reported; one killing takes about as many.
const OUT_OF_MEMORY_LINES_MAX: usize = 10;

/// The kernel's words for an instruction that the CPU does not have (arch/x86/kernel/traps.c).
const TRAP: &str = "trap invalid opcode";

/// The same of arm64 (arch/arm64/kernel/traps.c), which shows the address some lines further on.
const UNDEFINED: &str = "undefined instruction in ";
const UNDEFINED_AT: &str = "pc : ";

/// The file by which an arm64 kernel is asked to log signals that kill a program; the others do by default.
#[cfg(target_arch = "aarch64")]
const SIGNALS: &str = "/proc/sys/debug/exception-trace";

/// Asks the kernel to log the instructions that the CPU refuses. Without such a log, the instruction has no name.
#[cfg(target_arch = "aarch64")]
pub(crate) fn ask_for_traps() {
    let _ = std::fs::write(SIGNALS, "1");
}

/// The kernel logs the instructions that the CPU refuses.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) fn ask_for_traps() {}

/// The messages of the kernel's log about processes that it killed for lack of memory, or for an
/// instruction that the CPU does not have.
pub(crate) fn killings() -> impl Iterator<Item = String> {
    let lines = lines().unwrap_or_default();
    let trap = lines.iter().rfind(|line| line.contains(TRAP)).cloned();
    killing_in(&lines).into_iter().chain(trap).chain(undefined_in(&lines))
}

/// The messages of the kernel's log.
pub(crate) fn lines() -> io::Result<Vec<String>> {
    // Without this flag, a read at the log's end waits (Documentation/ABI/testing/dev-kmsg).
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
            // Records were lost in the meantime; the next read continues behind them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(_) => return Ok(lines),
        }
    }
}

fn undefined_in(lines: &[String]) -> Option<String> {
    let at = lines.iter().rposition(|line| line.contains(UNDEFINED))?;
    let address = lines[at..].iter().find(|line| line.starts_with(UNDEFINED_AT))?;
    Some(format!("{} {address}", lines[at]))
}

fn killing_in(lines: &[String]) -> Option<String> {
    let at = lines.iter().rposition(|line| line.contains("Out of memory"))?;
    let first = (at + 1).saturating_sub(OUT_OF_MEMORY_LINES_MAX);
    Some(format!("{}\ngive the guest more memory (--memory-mib)", lines[first..].join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undefined_instruction_is_told_with_its_address() {
        let lines = |pc: &str| {
            [
                "x",
                "prog[7]: unhandled exception: undefined instruction in prog[400000+1000]",
                "CPU: 0",
                pc,
            ]
            .map(String::from)
        };
        let told = undefined_in(&lines("pc : 0000000000400716")).unwrap();
        assert!(told.ends_with("in prog[400000+1000] pc : 0000000000400716"), "{told}");
        assert_eq!(undefined_in(&lines("sp : 0")), None);
    }

    #[test]
    fn a_killing_is_told_with_what_stands_before() {
        let mut lines: Vec<String> = (0..20).map(|number| format!("line {number}")).collect();
        assert_eq!(killing_in(&lines), None);
        lines.push("Out of memory: Killed process 40 (sh)".into());
        lines.push("oom_reaper: reaped process 40 (sh)".into());
        let told = killing_in(&lines).unwrap();
        assert_eq!(told.lines().count(), OUT_OF_MEMORY_LINES_MAX + 2);
        assert!(told.starts_with("line 11\n") && told.contains("Killed process 40"));
    }
}
