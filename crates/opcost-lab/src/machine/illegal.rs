//! Names the instruction for which SIGILL killed a program, and the CPU feature that it needs.

use super::RunEnd;
use object::elf::{PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use opcost_record::emulation::LastInstruction;
use opcost_record::printable::printable;
use opcost_record::{Architecture, Failure, Outcome};
use opcost_size::{Ran, Refused};
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's word for the trap (arch/x86/kernel/traps.c of Linux, handle_invalid_op).
pub(super) const TRAP: &str = "trap invalid opcode";

/// The arm64 kernel's words for it (arch/arm64/kernel/traps.c, arm64_show_signal), and those before the address, which the guest
/// takes from another line.
const UNDEFINED: &str = "undefined instruction in ";
const UNDEFINED_AT: &str = " pc : ";

const SIGILL: i32 = 4;

/// The exit status of a shell whose command SIGILL killed.
const SHELL_STATUS: i32 = 128 + SIGILL;

const PAGE_BYTES: u64 = 4096;

/// A trap in the kernel's log: `traps: prog[7] trap invalid opcode ip:401136 sp:7ffd error:0 in prog[401000+1000]`. Since Linux 6.9
/// the offset in the file stands in front of the mapping's start: `prog[1136,401000+1000]`. On arm64:
/// `prog[7]: unhandled exception: …, undefined instruction in prog[400000+1000] pc : 0000000000400716`.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Trap {
    address: u64,
    mapped: Option<Mapped>,
    /// The code at the address, if it is known without a file.
    code: Option<[u8; LastInstruction::BYTES]>,
}

/// The mapping that contains a trap's address.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Mapped {
    /// The last part of the file's path.
    file: String,
    /// The address's offset in the file, if the kernel names it.
    offset: Option<u64>,
    start: u64,
    size: u64,
}

/// Says why a program died of SIGILL, if it did.
///
/// `log`: the lines of the kernel's log about traps, empty if nothing is known of them; `files`: programs and libraries of the run.
pub(super) fn explain(end: &mut RunEnd, log: &str, files: &[PathBuf], ran: Ran<'_>) {
    let trap = log.lines().rev().find_map(Trap::parse);
    let killed = match &end.outcome {
        Outcome::Failed(Failure::Signal { signal: SIGILL, .. }) => "signal 4 (SIGILL) killed it",
        Outcome::Failed(Failure::ExitStatus { code: SHELL_STATUS, .. }) if trap.is_some() => {
            "it ended with status 132, since SIGILL killed a program"
        }
        _ => return,
    };
    let detail = format!("{killed}: {}", cause(trap.as_ref(), files, ran));
    end.outcome = Outcome::Failed(Failure::IllegalInstruction { detail });
}

/// Says why a program without a kernel died of SIGILL, if it did.
///
/// `last`: the message with its last instruction.
pub(super) fn explain_alone(end: &mut RunEnd, last: &[u8], ran: Ran<'_>) {
    if !matches!(end.outcome, Outcome::Failed(Failure::Signal { signal: SIGILL, .. })) {
        return;
    }
    let trap = LastInstruction::decode(last).map(|LastInstruction { address, code }| Trap {
        address,
        mapped: None,
        code: Some(code),
    });
    let detail = format!("signal 4 (SIGILL) killed it: {}", cause(trap.as_ref(), &[], ran));
    end.outcome = Outcome::Failed(Failure::IllegalInstruction { detail });
}

fn cause(trap: Option<&Trap>, files: &[PathBuf], ran: Ran<'_>) -> String {
    let architecture = match ran {
        Ran::Here => Architecture::of_machine(std::env::consts::ARCH).unwrap_or_default(),
        Ran::Emulated { architecture, .. } => architecture,
        Ran::Callgrind { .. } => Architecture::X86_64,
    };
    let refused = trap.and_then(|trap| trap.refused(files, architecture));
    ran.cause(refused.as_ref(), trap.map(Trap::place).as_deref())
}

impl Trap {
    fn parse(line: &str) -> Option<Trap> {
        if let Some((_, rest)) = line.split_once(UNDEFINED) {
            let (place, address) = rest.rsplit_once(UNDEFINED_AT)?;
            let address = hexadecimal(address.trim_end())?;
            return Some(Trap { address, mapped: Mapped::parse(place), code: None });
        }
        let (_, rest) = line.split_once(TRAP)?;
        let (_, rest) = rest.split_once("ip:")?;
        let address = hexadecimal(rest.split(' ').next()?)?;
        let mapped = rest.split_once(" in ").and_then(|(_, place)| Mapped::parse(place));
        Some(Trap { address, mapped, code: None })
    }

    fn place(&self) -> String {
        match &self.mapped {
            Some(mapped) => format!("{:#x} in {}", self.address, printable(&mapped.file)),
            None => format!("{:#x}", self.address),
        }
    }

    /// The instruction at the trap's address, if its file is known.
    fn refused(&self, files: &[PathBuf], architecture: Architecture) -> Option<Refused> {
        let described = |code: &[u8]| Refused::read(code, self.address, architecture);
        if let Some(code) = &self.code {
            return described(code);
        }
        let mapped = self.mapped.as_ref()?;
        let is_named = |path: &&PathBuf| path.file_name().is_some_and(|name| *name == *mapped.file);
        let bytes = fs::read(files.iter().find(is_named)?).ok()?;
        let offset = match mapped.offset {
            Some(offset) => offset,
            None => mapped.file_start(&bytes)? + self.address.checked_sub(mapped.start)?,
        };
        described(bytes.get(usize::try_from(offset).ok()?..)?)
    }
}

impl Mapped {
    /// Parses `NAME[START+SIZE]` or `NAME[OFFSET,START+SIZE]`.
    fn parse(text: &str) -> Option<Mapped> {
        let (file, rest) = text.trim_end().strip_suffix(']')?.rsplit_once('[')?;
        let (start, size) = rest.split_once('+')?;
        let (offset, start) = match start.split_once(',') {
            Some((offset, start)) => (Some(hexadecimal(offset)?), start),
            None => (None, start),
        };
        Some(Mapped {
            file: file.to_string(),
            offset,
            start: hexadecimal(start)?,
            size: hexadecimal(size)?,
        })
    }

    /// The offset in the file at which the mapping starts: that of the executable segment of this size.
    fn file_start(&self, bytes: &[u8]) -> Option<u64> {
        let elf = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
        let endian = elf.endian();
        let down = |address: u64| address / PAGE_BYTES * PAGE_BYTES;
        let executable = elf.elf_program_headers().iter().filter(|header| {
            header.p_type(endian) == PT_LOAD && header.p_flags(endian).contains(PF_X)
        });
        let segments: Vec<(u64, u64)> = executable
            .map(|header| {
                let end = header.p_vaddr(endian).saturating_add(header.p_filesz(endian));
                let size =
                    end.saturating_add(PAGE_BYTES - 1).saturating_sub(down(header.p_vaddr(endian)));
                (down(header.p_offset(endian)), down(size))
            })
            .collect();
        let same = segments.iter().find(|(_, size)| *size == self.size);
        Some(same.or(segments.first())?.0)
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// The lines about traps in the log of this computer's kernel, since a time; empty if the log cannot be read.
///
/// `since_ns`: nanoseconds of the monotonic clock.
pub(super) fn log_here(since_ns: u64) -> String {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    // Without this flag, a read at the log's end waits (Documentation/ABI/testing/dev-kmsg).
    const O_NONBLOCK: i32 = 0o4000;
    let options =
        fs::File::options().read(true).custom_flags(O_NONBLOCK).open(Path::new("/dev/kmsg"));
    let Ok(mut file) = options else { return String::new() };
    let mut found = String::new();
    let mut record = vec![0; 8192];
    loop {
        match file.read(&mut record) {
            Ok(length @ 1..) => {
                let text = String::from_utf8_lossy(&record[..length]);
                found += trap_since(&text, since_ns / 1000).unwrap_or_default();
            }
            // Records were lost in the meantime; the next read goes on behind them.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            _ => return found,
        }
    }
}

/// The first line of a record "priority,number,microseconds,flags;message", if it is about a trap and not older than a time.
fn trap_since(record: &str, since_us: u64) -> Option<&str> {
    let (head, message) = record.split_once(';')?;
    let time_us: u64 = head.split(',').nth(2)?.parse().ok()?;
    let line = message.split_inclusive('\n').next()?;
    (time_us >= since_us && line.contains(TRAP)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::Report;
    use proptest::prelude::*;

    const LINE: &str =
        "traps: prog[57] trap invalid opcode ip:401136 sp:7ffe0 error:0 in prog[401000+1000]";

    fn died(outcome: Outcome, log: &str, files: &[PathBuf], ran: Ran<'_>) -> Outcome {
        let report = Report::default();
        let mut end =
            RunEnd { started_unix_ns: 0, outcome, exit_code: None, report, profile: None };
        explain(&mut end, log, files, ran);
        end.outcome
    }

    fn detail(log: &str, files: &[PathBuf], ran: Ran<'_>) -> String {
        match died(Outcome::Failed(Failure::Signal { signal: 4, stderr: None }), log, files, ran) {
            Outcome::Failed(Failure::IllegalInstruction { detail }) => detail,
            other => panic!("{other:?}"),
        }
    }

    const MAX: Ran<'_> =
        Ran::Emulated { model: "max", architecture: Architecture::X86_64, kept: true };

    /// A file with these bytes at an offset, as a program of this name.
    fn program(code: &[u8]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prog");
        fs::write(&path, [&[0; 0x136], code].concat()).unwrap();
        (folder, vec![path])
    }

    #[test]
    fn both_forms_of_a_trap_are_read() {
        let mapped =
            |offset| Some(Mapped { file: "prog".into(), offset, start: 0x40_1000, size: 0x1000 });
        let trap = Trap { address: 0x40_1136, mapped: mapped(None), code: None };
        assert_eq!(Trap::parse(LINE), Some(trap.clone()));
        let newer = LINE.replace("[401000", "[136,401000");
        assert_eq!(Trap::parse(&newer), Some(Trap { mapped: mapped(Some(0x136)), ..trap.clone() }));
        let nowhere = LINE.split(" in ").next().unwrap();
        assert_eq!(Trap::parse(nowhere), Some(Trap { mapped: None, ..trap }));
        assert_eq!(Trap::parse("traps: prog[57] general protection ip:0 sp:0 error:0"), None);
    }

    #[test]
    fn instruction_feature_and_remedy_are_named() {
        let log = LINE.replace("[401000", "[136,401000");
        // vpaddd zmm0, zmm1, zmm2
        let (_folder, files) = program(&[0x62, 0xf1, 0x75, 0x48, 0xfe, 0xc2]);
        let text = detail(&log, &files, MAX);
        let expected = "signal 4 (SIGILL) killed it: it executed 'vpaddd zmm0,zmm1,zmm2' at 0x401136 in prog, \
                        which needs AVX512F; the CPU model max lacks it; QEMU emulates it for no model";
        assert!(text.starts_with(expected), "{text}");
        // rdrand eax
        let (_folder, files) = program(&[0x0f, 0xc7, 0xf0]);
        let text = detail(&log, &files, MAX);
        assert!(text.contains("'rdrand eax'") && text.contains("give --fresh-boots"), "{text}");
        let text = detail(&log, &files, Ran::Here);
        assert!(text.contains("needs RDRAND; this computer's CPU lacks it; build it"), "{text}");
        let (_folder, files) = program(&[0x0f, 0x0b]);
        assert!(detail(&log, &files, MAX).contains("executed ud2 at 0x401136 in prog, by which"));
    }

    #[test]
    fn a_guest_of_arm64_names_instruction_and_feature() {
        let n1 = Ran::Emulated {
            model: "neoverse-n1",
            architecture: Architecture::Aarch64,
            kept: false,
        };
        let log = "prog[57]: unhandled exception: UNKNOWN/Uncategorized, ESR 0x0000000002000000, undefined \
                   instruction in prog[401000+1000] pc : 0000000000401136";
        let newer = log.replace("[401000", "[136,401000");
        // smmla v0.4s, v1.16b, v2.16b
        let (_folder, files) = program(&0x4e82_a420u32.to_le_bytes());
        let said = detail(&newer, &files, n1);
        assert!(
            said.contains("at 0x401136 in prog, which needs I8MM; the CPU model neoverse-n1"),
            "{said}"
        );
        assert!(said.contains("--cpu-model max") && !said.contains("x86"), "{said}");
        // cntd x0
        let (_folder, files) = program(&0x04e0_e3e0u32.to_le_bytes());
        let said = detail(&newer, &files, n1);
        assert!(
            said.contains("executed '.inst 0x04e0e3e0' at 0x401136 in prog, which needs SVE;"),
            "{said}"
        );
        let (_folder, files) = program(&7u32.to_le_bytes());
        assert!(detail(&newer, &files, n1).contains("by which programs end themselves"));
        let said = detail(log, &[], n1);
        assert!(said.contains("an instruction at 0x401136 in prog that the CPU model"), "{said}");
    }

    #[test]
    fn a_program_without_a_kernel_has_its_last_instruction() {
        let said = |last: &[u8], signal: i32| {
            let outcome = Outcome::Failed(Failure::Signal { signal, stderr: None });
            let report = Report::default();
            let mut end =
                RunEnd { started_unix_ns: 0, outcome, exit_code: None, report, profile: None };
            let architecture = Architecture::X86_64;
            let ran = Ran::Emulated { model: "Nehalem", architecture, kept: false };
            explain_alone(&mut end, last, ran);
            match end.outcome {
                Outcome::Failed(Failure::IllegalInstruction { detail }) => detail,
                other => format!("{other:?}"),
            }
        };
        // vpaddd ymm0, ymm1, ymm2, and what follows
        let last = LastInstruction::of(0x40_1136, &[0xc5, 0xf5, 0xfe, 0xc2, 0xc3]).encode();
        let expected = "it executed 'vpaddd ymm0,ymm1,ymm2' at 0x401136, which needs AVX2; the CPU model Nehalem lacks it; give";
        assert!(said(&last, 4).contains(expected), "{}", said(&last, 4));
        for torn in [&b""[..], &last[..30], b"zz c5\n"] {
            let said = said(torn, 4);
            assert!(
                said.contains("an instruction that the CPU model Nehalem does not have"),
                "{said}"
            );
        }
        assert!(said(&last, 11).contains("Signal"));
    }

    #[test]
    fn without_a_file_or_a_log_the_cpu_is_named() {
        let text = detail(LINE, &[], MAX);
        assert!(
            text.contains("an instruction at 0x401136 in prog that the CPU model max"),
            "{text}"
        );
        let text = detail("", &[], Ran::Here);
        assert!(text.contains("an instruction that this computer's CPU does not have"), "{text}");
    }

    #[test]
    fn a_shells_status_counts_if_the_log_has_a_trap() {
        let status = Outcome::Failed(Failure::ExitStatus { code: 132, stderr: None });
        assert_eq!(died(status.clone(), "", &[], MAX), status);
        assert_ne!(
            died(status, LINE, &[], MAX),
            Outcome::Failed(Failure::ExitStatus { code: 132, stderr: None })
        );
        let other = Outcome::Failed(Failure::Signal { signal: 11, stderr: None });
        assert_eq!(died(other.clone(), LINE, &[], MAX), other);
    }

    #[test]
    fn old_traps_are_of_other_programs() {
        let record = format!("6,4711,5000,-;{LINE}\n SUBSYSTEM=x\n");
        assert_eq!(trap_since(&record, 5000), Some(&*format!("{LINE}\n")));
        assert_eq!(trap_since(&record, 5001), None);
        assert_eq!(trap_since("6,4711,5000,-;other\n", 0), None);
    }

    proptest! {
        #[test]
        fn no_log_makes_it_panic(line in "\\PC*", place in "\\PC{0,20}") {
            let _ = Trap::parse(&line);
            let _ = Trap::parse(&format!("{TRAP} ip:1 in {place}"));
            let _ = Trap::parse(&format!("{UNDEFINED}{place}{UNDEFINED_AT}1"));
        }
    }
}
