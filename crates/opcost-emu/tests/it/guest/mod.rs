//! Boots the kernel that `OPCOST_TEST_KERNEL` names with a small program as the first process.

use crate::emulator::{Emulator, Run, SYSTEM, SYSTEM_AARCH64, have, skip};
use opcost_record::symbols::{FileSymbols, PAGE_BYTES, Range, Symbols, page_hash};
use opcost_record::{Context, Function, Profile};
use opcost_symbols::assemble::join;
use opcost_symbols::kernel::KernelSymbols;
use std::process::Command;
use std::sync::OnceLock;

/// The parts that every program shares: system calls, markers, a port to send through, and the end.
pub(crate) const PRELUDE: &str = include_str!("prelude.c");

/// Sends `/proc/kallsyms`.
const DUMP: &str = r#"
static char bytes[1 << 16];
void program(char **arguments) {
    long file = call(SYS_open, "/proc/kallsyms", 0, 0), size;
    while ((size = call(SYS_read, file, bytes, sizeof bytes)) > 0)
        for (long at = 0; at < size; at++) send(bytes[at]);
}
"#;

/// The compiler's options for programs without libraries, and those that keep functions whole.
const COMPILE: [&str; 7] = [
    "-O1",
    "-fno-inline",
    "-fno-optimize-sibling-calls",
    "-fno-pic",
    "-no-pie",
    "-fno-stack-protector",
    "-ffreestanding",
];
const WHOLE: [&str; 4] =
    ["-fno-ipa-cp", "-fno-ipa-sra", "-fno-partial-inlining", "-Wl,-z,separate-code"];

/// A kernel that can be booted, and its symbols.
pub(crate) struct Guest {
    emulator: Emulator,
    kernel: String,
    kallsyms: &'static str,
}

/// A boot with its program.
pub(crate) struct Work<'a> {
    emulator: &'a Emulator,
    /// The plugin's argument for the symbols.
    symbols: String,
    /// QEMU's arguments.
    arguments: Vec<String>,
}

impl Work<'_> {
    /// Boots; `options`: the plugin's options, or `None` for a QEMU without the plugin.
    pub(crate) fn run(&self, options: Option<&[&str]>) -> Run {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        match options {
            Some(options) => {
                self.emulator.run(&[&[self.symbols.as_str()], options].concat(), &arguments)
            }
            None => self.emulator.run_plain(&arguments),
        }
    }
}

/// The results of a guest.
pub(crate) struct Booted {
    pub(crate) run: Run,
    /// The lines of `name number` that the program sent.
    pub(crate) sent: String,
}

static KALLSYMS: OnceLock<String> = OnceLock::new();
static KALLSYMS_AARCH64: OnceLock<String> = OnceLock::new();

/// Sends `/proc/kallsyms` of AArch64.
const DUMP_AARCH64: &str = r#"
static char bytes[1 << 16];
void program(char **arguments) {
    long file = call(SYS_openat, -100, "/proc/kallsyms", 0), size;
    while ((size = call(SYS_read, file, bytes, sizeof bytes)) > 0) send(bytes, size);
}
"#;

/// The kernel's options in a guest of AArch64.
const BOOT_AARCH64: &str =
    "console=ttyAMA0 quiet loglevel=0 panic=-1 rdinit=/init nokaslr norandmaps";

/// The CPU models on which a guest of AArch64 is tested; without `script/test --all` only [`MODEL_AARCH64`] is.
pub(crate) const MODELS_AARCH64: [&str; 3] = [MODEL_AARCH64, "cortex-a72", "max"];
pub(crate) const MODEL_AARCH64: &str = "neoverse-n1";

/// The CPU models of this run of the tests.
pub(crate) fn models_aarch64() -> &'static [&'static str] {
    match std::env::var_os("OPCOST_TEST_ALL") {
        Some(_) => &MODELS_AARCH64,
        None => &MODELS_AARCH64[..1],
    }
}

impl Guest {
    /// Finds a kernel; without one the test is skipped.
    pub(crate) fn find() -> Option<Guest> {
        let emulator = Emulator::find(SYSTEM)?;
        let Ok(kernel) = std::env::var("OPCOST_TEST_KERNEL") else {
            skip("OPCOST_TEST_KERNEL names no kernel image to boot");
            return None;
        };
        if !have("nm") || !have("gcc") {
            skip("gcc or nm is not installed");
            return None;
        }
        let mut guest = Guest { emulator, kernel, kallsyms: "" };
        guest.kallsyms = KALLSYMS.get_or_init(|| guest.boot(DUMP, &["profile=off"], &[]).sent);
        Some(guest)
    }

    /// Finds a kernel of AArch64, an uncompressed image; without one the test is skipped.
    pub(crate) fn find_aarch64() -> Option<Guest> {
        let emulator = Emulator::find(SYSTEM_AARCH64)?;
        let Ok(kernel) = std::env::var("OPCOST_TEST_KERNEL_ARM64") else {
            skip("OPCOST_TEST_KERNEL_ARM64 names no kernel image to boot");
            return None;
        };
        if !have("nm") || !have("aarch64-linux-gnu-gcc") {
            skip("aarch64-linux-gnu-gcc or nm is not installed");
            return None;
        }
        let mut guest = Guest { emulator, kernel, kallsyms: "" };
        guest.kallsyms = KALLSYMS_AARCH64.get_or_init(|| {
            guest.boot_aarch64(DUMP_AARCH64, MODEL_AARCH64, &["profile=off", "window=never"]).sent
        });
        Some(guest)
    }

    /// Boots a program on a CPU model of AArch64; otherwise as [`boot`](Self::boot).
    pub(crate) fn boot_aarch64(&self, source: &str, model: &str, options: &[&str]) -> Booted {
        self.boot_aarch64_with(source, model, options, "")
    }

    /// Boots as [`boot_aarch64`](Self::boot_aarch64) does; `more`: further options of the kernel.
    pub(crate) fn boot_aarch64_with(
        &self,
        source: &str,
        model: &str,
        options: &[&str],
        more: &str,
    ) -> Booted {
        let work = self.work_aarch64(source, model, more);
        let run = work.run(Some(options));
        assert_eq!(run.status, Some(0), "{}{}", run.output, run.errors);
        let sent = run.output.replace('\r', "");
        Booted { run, sent }
    }

    /// Prepares a boot as [`boot_aarch64_with`](Self::boot_aarch64_with) does.
    pub(crate) fn work_aarch64(&self, source: &str, model: &str, more: &str) -> Work<'_> {
        let program = self.program_aarch64(source);
        let contents = std::fs::read(&program).unwrap();
        let archive = self.emulator.file("archive", &archive(&contents));
        let symbols = self.symbols(&program, &contents);
        let symbols = format!("symbols={}", self.emulator.file("symbols", &symbols));
        let arguments = self.machine_aarch64(model, &archive, more);
        Work { emulator: &self.emulator, symbols, arguments }
    }

    /// Boots a program under the counter that shares no code with the plugin, and returns the count at each marker.
    pub(crate) fn count_aarch64(&self, source: &str, model: &str, more: &str) -> Vec<u64> {
        let program = self.program_aarch64(source);
        let archive = self.emulator.file("archive", &archive(&std::fs::read(program).unwrap()));
        let folder = self.emulator.folder();
        let (counter, marks) = (folder.join("counter.so"), folder.join("marks"));
        // QEMU refuses plugins of other versions of the API.
        for api in [7, 3, 2, 1] {
            let source =
                concat!(env!("CARGO_MANIFEST_DIR"), "/../opcost/tests/it/independent/counter.c");
            let built = Command::new("gcc")
                .args(["-O2", "-shared", "-fPIC", &format!("-DAPI={api}"), source, "-o"])
                .arg(&counter)
                .status()
                .unwrap();
            assert!(built.success());
            let plugin = format!("{},out={}", counter.display(), marks.display());
            let mut qemu = Command::new("timeout");
            qemu.args(["600", SYSTEM_AARCH64, "-plugin", &plugin]);
            if qemu
                .args(self.machine_aarch64(model, &archive, more))
                .output()
                .unwrap()
                .status
                .success()
            {
                break;
            }
        }
        let marks = std::fs::read_to_string(marks).unwrap();
        marks.lines().map(|line| line.trim().parse().unwrap()).collect()
    }

    fn program_aarch64(&self, source: &str) -> String {
        let source = format!("{}{source}", include_str!("../aarch64/prelude.c"));
        let pages = ["-Wl,-z,max-page-size=4096"];
        let all = [&COMPILE[..], &WHOLE, &pages].concat();
        self.emulator.build("init.c", &source, &all).expect("gcc is there")
    }

    /// Returns QEMU's arguments for a guest with an initramfs; `more`: further options of the kernel.
    fn machine_aarch64(&self, model: &str, archive: &str, more: &str) -> Vec<String> {
        let boot = format!("{BOOT_AARCH64} {more}");
        let time = ["-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01T00:00:00,clock=vm"];
        let machine = ["-M", "virt,dtb-randomness=off", "-cpu", model, "-m", "256", "-seed", "1"];
        let quiet =
            ["-accel", "tcg,thread=single", "-nodefaults", "-no-reboot", "-display", "none"];
        let image = ["-kernel", &self.kernel, "-initrd", archive, "-append", &boot];
        let all = [&time[..], &machine, &quiet, &image, &["-serial", "stdio"]].concat();
        all.into_iter().map(str::to_owned).collect()
    }

    /// Boots a program; `source`: C with a function `program`; `options`: the plugin's options; `machine`: QEMU's options.
    pub(crate) fn boot(&self, source: &str, options: &[&str], machine: &[&str]) -> Booted {
        let run = self.work(source, machine).run(Some(options));
        assert_eq!(run.status, Some(3), "{}{}", run.output, run.errors);
        let sent = std::fs::read_to_string(self.emulator.folder().join("sent")).unwrap();
        Booted { run, sent }
    }

    /// Prepares a boot as [`boot`](Self::boot) does.
    pub(crate) fn work(&self, source: &str, machine: &[&str]) -> Work<'_> {
        let all = [&COMPILE[..], &WHOLE, &["-fcf-protection=none", "-mno-sse"]].concat();
        let source = format!("{PRELUDE}{source}");
        let program = self.emulator.build("init.c", &source, &all).expect("gcc is there");
        let contents = std::fs::read(&program).unwrap();
        let archive = self.emulator.file("archive", &archive(&contents));
        let symbols = self.symbols(&program, &contents);
        let symbols = format!("symbols={}", self.emulator.file("symbols", &symbols));
        let sent = self.emulator.folder().join("sent");
        let debug = format!("file:{}", sent.display());
        let boot = "console=ttyS0 quiet panic=-1 rdinit=/init nokaslr norandmaps \
                    nolapic_timer no_timer_check";
        let time = ["-icount", "shift=0,sleep=off", "-rtc", "base=2020-01-01T00:00:00,clock=vm"];
        let fixed =
            ["-accel", "tcg,thread=single", "-cpu", "EPYC-Rome-v2", "-m", "256", "-seed", "1"];
        let quiet = ["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"];
        let image = ["-kernel", &self.kernel, "-initrd", &archive, "-append", boot];
        let ports = ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04", "-debugcon", &debug];
        let all = [&time[..], &fixed, &quiet, &image, &ports, machine].concat();
        let arguments = all.into_iter().map(str::to_owned).collect();
        Work { emulator: &self.emulator, symbols, arguments }
    }

    fn symbols(&self, program: &str, contents: &[u8]) -> Vec<u8> {
        let mut symbols = Symbols::default();
        if !self.kallsyms.is_empty() {
            symbols = join(Some(&KernelSymbols::parse(self.kallsyms).unwrap()), &[]);
        }
        name(&mut symbols, program, contents, "/init");
        symbols.encode()
    }
}

/// Adds the functions of a program, which is loaded at 0x400000, to symbols; `module`: the program's name in them.
pub(crate) fn name(symbols: &mut Symbols, program: &str, contents: &[u8], module: &str) {
    let mut number = |function: Function| {
        symbols.functions.push(function);
        symbols.functions.len() as u32 - 1
    };
    let mut file = FileSymbols::default();
    for (symbol, start, size) in functions(program) {
        let function = number(Function::new(symbol, module));
        file.parts.push(Range { start, end: start + size, function });
    }
    let end = file.parts.last().map_or(0, |part| part.end as usize);
    for offset in (PAGE_BYTES..end).step_by(PAGE_BYTES) {
        let page = &contents[offset..contents.len().min(offset + PAGE_BYTES)];
        file.pages.push((offset as u64, page_hash(page)));
    }
    symbols.files.push(file);
}

/// Returns name, file offset and size of a program's functions; its text is loaded at 0x400000.
fn functions(program: &str) -> Vec<(String, u64, u64)> {
    let run = Command::new("nm").args(["-n", "-f", "sysv", program]).output();
    let text = String::from_utf8(run.unwrap().stdout).unwrap();
    let mut functions = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, address, _, "FUNC", size, ..] = fields[..] else { continue };
        let hex = |text| u64::from_str_radix(text, 16).unwrap();
        functions.push((name.to_string(), hex(address) - 0x40_0000, hex(size)));
    }
    functions
}

/// Returns an initramfs with a folder for proc, and the program.
fn archive(init: &[u8]) -> Vec<u8> {
    let mut archive = Vec::new();
    let folder = 0o040_755;
    for (name, mode, contents) in [
        ("proc", folder, &[][..]),
        ("dev", folder, &[]),
        ("init", 0o100_755, init),
        ("TRAILER!!!", 0, &[]),
    ] {
        archive.extend(b"070701");
        let (size, length) = (contents.len(), name.len() + 1);
        for number in [0, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0] {
            archive.extend(format!("{number:08X}").bytes());
        }
        archive.extend(name.bytes());
        archive.push(0);
        archive.resize(archive.len().next_multiple_of(4), 0);
        archive.extend(contents);
        archive.resize(archive.len().next_multiple_of(4), 0);
    }
    archive
}

impl Booted {
    /// Returns a number that the program sent.
    pub(crate) fn sent(&self, name: &str) -> u64 {
        let found = self.sent.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        found.unwrap_or_else(|| panic!("no {name} in {:?}", self.sent)).parse().unwrap()
    }
}

/// Returns the number of calls of a function, from one caller or from all.
///
/// `caller`: a function, or "" for all; the caller of a context without a caller is "-".
pub(crate) fn calls(profile: &Profile, caller: &str, symbol: &str) -> u64 {
    let name = |context: u32| {
        profile.functions[profile.contexts[context as usize].function as usize].symbol.as_str()
    };
    let mut sum = 0;
    for context in &profile.contexts {
        let from = context.parent.map_or("-", name);
        let own = &profile.functions[context.function as usize].symbol;
        if own == symbol && (caller.is_empty() || from == caller) {
            sum += context.calls;
        }
    }
    sum
}

/// Returns the instructions of a function itself, in all contexts.
pub(crate) fn own_cost(profile: &Profile, symbol: &str) -> u64 {
    let is_it = |context: &&Context| profile.functions[context.function as usize].symbol == symbol;
    profile.contexts.iter().filter(is_it).map(|one| one.cost).sum()
}

/// Returns each chain of callers of a function, outermost first, with the number of calls.
pub(crate) fn chains(profile: &Profile, symbol: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for context in &profile.contexts {
        if profile.functions[context.function as usize].symbol != symbol {
            continue;
        }
        let mut chain = Vec::new();
        let mut at = Some(context);
        while let Some(context) = at {
            chain.push(profile.functions[context.function as usize].symbol.as_str());
            at = context.parent.map(|parent| &profile.contexts[parent as usize]);
        }
        chain.reverse();
        found.push((chain.join("/"), context.calls));
    }
    found.sort();
    found
}
