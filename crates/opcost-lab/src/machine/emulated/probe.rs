//! The self-test of the emulator's counting: a program of known cost.
//!
//! QEMUs differ in the memory accesses that their inline filters let through. The plugin is therefore
//! told which filter counts the iterations of each repeated string instruction. The filters are
//! measured, not derived from a version: the program runs once with `probe=on`, [`derive()`] finds
//! the filters, the program runs again with them, and [`verify`] accepts only the exact numbers.
//!
//! The program has the same bytes in 32 and 64 bits: a static ELF program for user mode, a
//! multiboot image for a whole machine (Multiboot Specification 0.6.96, section 3.1). The image
//! ends through QEMU's debug exit device: run it with [`SYSTEM_ARGUMENTS`].
//!
//! **The plugin learns how to count.** QEMU's versions differ in which accesses their inline filters let through. Before the
//! first use of a QEMU with a plugin, opcost runs a program of known cost. Its counts show which filter counts the iterations
//! of string instructions, and whether everything else is exact.

use opcost_record::emulation::{Emulation, RegionCost};
use opcost_record::message::MessageError;
use opcost_record::{Architecture, Domain, WORK, marker};

/// The device that QEMU needs so that the image can end.
pub const SYSTEM_ARGUMENTS: [&str; 2] = ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"];

/// QEMU's exit status if the image ended as it should: the value written, 1, shifted, plus 1.
pub const SYSTEM_EXIT: i32 = 3;

/// The address of the code, and of 8 KiB of zeros for the strings.
const CODE: u32 = 0x40_0000;
pub(super) const DATA: u32 = 0x50_0000;
const DATA_BYTES: u32 = 0x2000;

/// The code between the markers; its bytes mean the same in 32 and in 64 bits.
#[rustfmt::skip] // one instruction a line
const BODY: &[u8] = &[
    0xb9, 10, 0, 0, 0,              //     mov ecx, 10
    0xe8, 6, 0, 0, 0,               // 1:  call f
    0xff, 0xc9,                     //     dec ecx
    0x75, 0xf7,                     //     jnz 1b
    0xeb, 3,                        //     jmp 2f
    0x50,                           // f:  push rax
    0x58,                           //     pop rax
    0xc3,                           //     ret
    0xbe, 0, 0, 0x50, 0,            // 2:  mov esi, DATA
    0xbf, 0, 4, 0x50, 0,            //     mov edi, DATA + 1024
    0xb9, 0, 0, 0, 0,               //     mov ecx, 0
    0xf3, 0xa4,                     //     rep movsb
    0xb9, 1, 0, 0, 0,               //     mov ecx, 1
    0xf3, 0xa4,                     //     rep movsb
    0xb9, 100, 0, 0, 0,             //     mov ecx, 100
    0xf3, 0xa4,                     //     rep movsb
    0xbf, 0, 0, 0x50, 0,            //     mov edi, DATA
    0xb8, 0x41, 0, 0, 0,            //     mov eax, 'A'
    0xb9, 0, 0, 0, 0,               //     mov ecx, 0
    0xf3, 0xaa,                     //     rep stosb
    0xb9, 1, 0, 0, 0,               //     mov ecx, 1
    0xf3, 0xaa,                     //     rep stosb
    0xb9, 50, 0, 0, 0,              //     mov ecx, 50
    0xf3, 0xaa,                     //     rep stosb           51 times 'A' from DATA on
    0xbe, 0, 0, 0x50, 0,            //     mov esi, DATA
    0xb9, 0, 0, 0, 0,               //     mov ecx, 0
    0xf3, 0xac,                     //     rep lodsb
    0xb9, 1, 0, 0, 0,               //     mov ecx, 1
    0xf3, 0xac,                     //     rep lodsb
    0xb9, 30, 0, 0, 0,              //     mov ecx, 30
    0xf3, 0xac,                     //     rep lodsb
    0xbf, 0, 0, 0x50, 0,            //     mov edi, DATA
    0xb9, 0, 0, 0, 0,               //     mov ecx, 0
    0xf2, 0xae,                     //     repne scasb         not at all
    0xb9, 20, 0, 0, 0,              //     mov ecx, 20
    0xb8, 0x42, 0, 0, 0,            //     mov eax, 'B'
    0xf2, 0xae,                     //     repne scasb         20 times, ended by the count
    0xb9, 100, 0, 0, 0,             //     mov ecx, 100
    0xb8, 0, 0, 0, 0,               //     mov eax, 0
    0xf2, 0xae,                     //     repne scasb         32 times, ended by the flag
    0xbe, 0, 0, 0x50, 0,            //     mov esi, DATA
    0xbf, 0, 0, 0x50, 0,            //     mov edi, DATA
    0xb9, 0, 0, 0, 0,               //     mov ecx, 0
    0xf3, 0xa6,                     //     repe cmpsb          not at all
    0xb9, 12, 0, 0, 0,              //     mov ecx, 12
    0xf3, 0xa6,                     //     repe cmpsb          12 times, ended by the count
    0xb9, 100, 0, 0, 0,             //     mov ecx, 100
    0xbe, 0x30, 0, 0x50, 0,         //     mov esi, DATA + 48
    0xf3, 0xa6,                     //     repe cmpsb          4 times, ended by the flag
];

/// More code between the image's markers, after [`BODY`]: only a whole machine has ports.
#[rustfmt::skip] // one instruction a line
const PORTS: &[u8] = &[
    0xba, 0x80, 0, 0, 0,            //     mov edx, 0x80       the port of POST codes
    0xbf, 0, 0, 0x50, 0,            //     mov edi, DATA
    0xb9, 9, 0, 0, 0,               //     mov ecx, 9
    0xf3, 0x6c,                     //     rep insb
    0xbe, 0, 0, 0x50, 0,            //     mov esi, DATA
    0xb9, 6, 0, 0, 0,               //     mov ecx, 6
    0xf3, 0x6e,                     //     rep outsb
];

/// The code after the program's markers.
#[rustfmt::skip] // one instruction a line
const EXIT: &[u8] = &[
    0xb8, 60, 0, 0, 0,              //     mov eax, 60         exit
    0x31, 0xff,                     //     xor edi, edi
    0x0f, 0x05,                     //     syscall
];

/// The code before the image's markers.
#[rustfmt::skip] // one instruction a line
const STACK: &[u8] = &[
    0xbc, 0, 0, 0x60, 0,            //     mov esp, 0x600000
];

/// The code after the image's markers.
#[rustfmt::skip] // one instruction a line
const SWITCH_OFF: &[u8] = &[
    0xba, 0xf4, 0, 0, 0,            //     mov edx, 0xf4
    0xb8, 1, 0, 0, 0,               //     mov eax, 1
    0xef,                           //     out dx, eax
    0xf4,                           // 1:  hlt
    0xeb, 0xfd,                     //     jmp 1b
];

/// An exact cost of the code between the markers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Expected {
    /// The metric's name.
    pub name: &'static str,
    /// The metric's value, user and kernel together.
    pub value: u64,
}

/// The costs of the code between the markers.
///
/// `system`: whether of the image.
pub fn expected(system: bool) -> [Expected; 7] {
    // Instructions other than string instructions: the loop of 10, the jump, the loading of registers.
    let plain = 1 + 10 * 6 + 1 + 5 + 5 + 4 + 6 + 6;
    let iterations: u64 = ITERATIONS.iter().map(|(_, times)| times).sum();
    // Each string instruction begins once more than it iterates, except the two that a flag ends.
    let begun = iterations + 15 - 2;
    let loads = 10 * 2 + 101 + 31 + 52 + 2 * 16;
    let stores = 10 * 2 + 101 + 51;
    let ports = u64::from(system);
    let (inputs, outputs) = (INPUTS * ports, OUTPUTS * ports);
    let expected = |name, value| Expected { name, value };
    [
        expected("instructions", plain + 15 + 7 * ports),
        expected("instruction-starts", plain + begun + 5 * ports + inputs + outputs + 2 * ports),
        expected("string-iterations", iterations + inputs + outputs),
        expected("branches", 10 * 3 + 1),
        expected("conditional-branches", 10),
        expected("loads", loads + outputs),
        expected("stores", stores + inputs),
    ]
}

/// Iterations of each kind of string instruction in [`BODY`].
const ITERATIONS: [(&str, u64); 5] =
    [("movs", 101), ("stos", 51), ("lods", 31), ("scas", 52), ("cmps", 16)];

/// Iterations of the input and output in [`PORTS`].
const INPUTS: u64 = 9;
const OUTPUTS: u64 = 6;

/// The program for user mode: a static x86-64 ELF file.
pub fn user_program() -> Vec<u8> {
    let code = [&mark(marker::START), BODY, &mark(marker::STOP), EXIT].concat();
    elf(Architecture::X86_64, &code)
}

/// The image for `qemu-system-x86_64 -kernel`: a multiboot image of 32-bit code.
pub fn system_image() -> Vec<u8> {
    const MAGIC: u32 = 0x1bad_b002;
    // The header itself has the addresses; there is no ELF header.
    const FLAGS: u32 = 1 << 16;
    const HEADER_BYTES: u32 = 32;
    let code = [STACK, &mark(marker::START), BODY, PORTS, &mark(marker::STOP), SWITCH_OFF].concat();
    let header = [
        MAGIC,
        FLAGS,
        0u32.wrapping_sub(MAGIC).wrapping_sub(FLAGS),
        CODE,                // where this header is loaded
        CODE,                // where loading starts
        0,                   // load to the end of the file
        DATA + DATA_BYTES,   // zeros up to here
        CODE + HEADER_BYTES, // the entry
    ];
    [header.map(u32::to_le_bytes).concat(), code].concat()
}

fn mark(displacement: u32) -> Vec<u8> {
    [marker::OPCODE.as_slice(), &displacement.to_le_bytes()].concat()
}

/// A static ELF program of one segment of code and one of zeros (System V ABI, chapter 4 and 5).
pub(super) fn elf(architecture: Architecture, code: &[u8]) -> Vec<u8> {
    const HEADERS_BYTES: u32 = 64 + 2 * 56;
    let half = |value: u16| value.to_le_bytes().to_vec();
    let word = |value: u32| value.to_le_bytes().to_vec();
    let long = |value: u32| u64::from(value).to_le_bytes().to_vec();
    let segment = |flags: u32, offset: u32, address: u32, in_file: u32, in_memory: u32| {
        let addresses = [offset, address, address, in_file, in_memory, 0x1000].map(long).concat();
        [word(1), word(flags), addresses].concat() // PT_LOAD
    };
    let length = HEADERS_BYTES + code.len() as u32;
    [
        // 64 bits, little endian, version 1.
        vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [half(2), half(architecture.row().elf), word(1)].concat(), // ET_EXEC
        [long(CODE + HEADERS_BYTES), long(64), long(0), word(0)].concat(),
        [64, 56, 2, 0, 0, 0].map(half).concat(),
        segment(5, 0, CODE, length, length),
        segment(6, 0, DATA, 0, DATA_BYTES),
        code.to_vec(),
    ]
    .concat()
}

/// The filters that count the iterations of each kind of repeated string instruction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Filters {
    /// Kind, filter (`R`, `W`, `RW`), accesses in an iteration.
    by_kind: Vec<(&'static str, &'static str, u64)>,
}

impl Filters {
    /// The plugin's arguments, for example `filter-movs=R/1`.
    pub fn arguments(&self) -> Vec<String> {
        self.by_kind
            .iter()
            .map(|(kind, filter, divisor)| format!("filter-{kind}={filter}/{divisor}"))
            .collect()
    }
}

/// Why this QEMU cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProbeError {
    /// The report cannot be read.
    #[error("the emulator's self-test failed: {0}")]
    Report(#[from] MessageError),
    /// A count is missing.
    #[error("the emulator's self-test reports no {0}; plugin and opcost are of different versions")]
    Missing(String),
    /// A count differs from the known one.
    #[error(
        "opcost cannot count exactly with this QEMU: a program of {expected} {name} has {counted} \
         according to the plugin"
    )]
    Wrong {
        /// The metric.
        name: String,
        /// The known number.
        expected: u64,
        /// The plugin's number.
        counted: u64,
    },
    /// No filter counts a kind.
    #[error(
        "opcost cannot count exactly with this QEMU: its accesses of rep {kind} are {counts:?} for \
         {iterations} iterations"
    )]
    NoFilter {
        /// The kind.
        kind: &'static str,
        /// The known number of iterations.
        iterations: u64,
        /// The accesses that the filters R, W and RW let through.
        counts: [u64; 3],
    },
}

const FILTERS: [&str; 3] = ["R", "W", "RW"];

/// Finds the filters.
///
/// `report`: the report of the program, run with `probe=on`.
///
/// # Errors
/// [`ProbeError`]: the report is malformed, or no filter counts some kind.
pub fn derive(report: &[u8]) -> Result<Filters, ProbeError> {
    let cost = work(report)?;
    let raw = |kind: &str| -> Result<[u64; 3], ProbeError> {
        let counts: Result<Vec<u64>, _> =
            FILTERS.iter().map(|filter| count(&cost, &format!("probe-{kind}-{filter}"))).collect();
        let counts = counts?;
        Ok([counts[0], counts[1], counts[2]])
    };
    let iterations = |kind: &str| {
        ITERATIONS.iter().find(|(known, _)| *known == kind).map_or(0, |(_, times)| *times)
    };
    let (stored, loaded) = (raw("stos")?, raw("lods")?);
    let (stores, loads) = (iterations("stos"), iterations("lods"));
    // A filter that lets every store through and no load: an iteration ends with its store.
    let on_store = (0..3).find(|place| stored[*place] == stores && loaded[*place] == 0);
    let on_load = (0..3).find(|place| loaded[*place] == loads);
    let no_filter = |kind, counts| {
        let iterations = iterations(kind);
        ProbeError::NoFilter { kind, iterations, counts }
    };
    let on_store = on_store.ok_or_else(|| no_filter("stos", stored))?;
    let on_load = on_load.ok_or_else(|| no_filter("lods", loaded))?;
    let mut by_kind = Vec::new();
    for (kind, place) in
        [("movs", on_store), ("stos", on_store), ("lods", on_load), ("scas", on_load)]
    {
        let counts = raw(kind)?;
        if counts[place] != iterations(kind) {
            return Err(no_filter(kind, counts));
        }
        by_kind.push((kind, FILTERS[place], 1));
    }
    // Only whole machines have ports. For an input, QEMU 7.2 writes twice: first to see whether it may.
    for (kind, place, iterations) in [("ins", on_store, INPUTS), ("outs", on_load, OUTPUTS)] {
        let counts = raw(kind)?;
        if counts == [0; 3] {
            continue;
        }
        let divisor = counts[place] / iterations;
        if counts[place] % iterations != 0 || !(1..=4).contains(&divisor) {
            return Err(ProbeError::NoFilter { kind, iterations, counts });
        }
        by_kind.push((kind, FILTERS[place], divisor));
    }
    Ok(Filters { by_kind })
}

/// The version of its plugin API that QEMU asks for, if it refused the plugin because of the version.
///
/// `said`: QEMU's messages, for example "plugin requires API version 2, but this QEMU supports only a
/// minimum version of 7" (`plugins/loader.c` of QEMU).
pub fn api_wanted(said: &str) -> Option<i32> {
    let (_, version) = said.split_once("supports only a minimum version of ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Checks that all counts are exact.
///
/// `report`: of the program or the image, run with the [`Filters`]; `expected`: its costs.
///
/// # Errors
/// [`ProbeError`] names the first wrong count: this QEMU must not be used.
pub fn verify(report: &[u8], expected: &[Expected]) -> Result<(), ProbeError> {
    let cost = work(report)?;
    for &Expected { name, value } in expected {
        let counted = count(&cost, name)?;
        if counted != value {
            return Err(ProbeError::Wrong { name: name.into(), expected: value, counted });
        }
    }
    Ok(())
}

fn work(report: &[u8]) -> Result<RegionCost, ProbeError> {
    let runs = Emulation::decode(report)?.runs;
    let work = runs.into_iter().flatten().find(|cost| cost.region == WORK);
    work.ok_or_else(|| ProbeError::Missing(format!("region '{WORK}'")))
}

fn count(cost: &RegionCost, name: &str) -> Result<u64, ProbeError> {
    cost.count(name, Domain::All).ok_or_else(|| ProbeError::Missing(name.into()))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A report with raw counts: for each kind the accesses that R, W and RW let through.
    fn report(raw: &[(&str, [u64; 3])]) -> Vec<u8> {
        let mut counts: Vec<(String, Domain, u64)> = Vec::new();
        for (kind, values) in raw {
            for (filter, value) in FILTERS.iter().zip(values) {
                counts.push((format!("probe-{kind}-{filter}"), Domain::All, *value));
            }
        }
        let region = RegionCost { region: WORK.into(), counts, ..RegionCost::default() };
        Emulation::from(vec![region]).encode()
    }

    /// The report of QEMU 7.2 on the image.
    pub fn report_of_7_2() -> Vec<u8> {
        report(&[
            ("movs", [101, 202, 202]),
            ("stos", [51, 51, 51]),
            ("lods", [0, 31, 31]),
            ("scas", [0, 52, 52]),
            ("cmps", [0, 32, 32]),
            ("ins", [18, 18, 18]),
            ("outs", [0, 6, 6]),
        ])
    }

    #[test]
    fn the_filters_of_qemu_7_2_are_derived() {
        let filters = derive(&report_of_7_2()).unwrap().arguments();
        assert_eq!(
            filters,
            [
                "filter-movs=R/1",
                "filter-stos=R/1",
                "filter-lods=W/1",
                "filter-scas=W/1",
                "filter-ins=R/2",
                "filter-outs=W/1"
            ]
        );
    }

    #[test]
    fn the_wanted_version_is_read() {
        let said =
            "plugin requires API version 2, but this QEMU supports only a minimum version of 7\nx";
        assert_eq!(api_wanted(said), Some(7));
        assert_eq!(api_wanted("Could not load plugin"), None);
    }

    #[test]
    fn the_filters_of_a_qemu_without_the_fault_are_derived() {
        let text = report(&[
            ("movs", [101, 101, 202]),
            ("stos", [0, 51, 51]),
            ("lods", [31, 0, 31]),
            ("scas", [52, 0, 52]),
            ("cmps", [32, 0, 32]),
            ("ins", [0, 0, 0]),
            ("outs", [0, 0, 0]),
        ]);
        let filters = derive(&text).unwrap().arguments();
        let expected = ["filter-movs=W/1", "filter-stos=W/1", "filter-lods=R/1", "filter-scas=R/1"];
        assert_eq!(filters, expected, "no ports, no filters for them");
    }

    #[test]
    fn a_qemu_that_no_filter_fits_is_refused() {
        let mut raw = [
            ("movs", [101, 202, 202]),
            ("stos", [51, 51, 51]),
            ("lods", [0, 31, 31]),
            ("scas", [0, 52, 52]),
            ("cmps", [0, 32, 32]),
            ("ins", [0, 0, 0]),
            ("outs", [0, 0, 0]),
        ];
        raw[0].1[0] = 100;
        let message = derive(&report(&raw)).unwrap_err().to_string();
        assert!(message.contains("rep movs") && message.contains("101 iterations"), "{message}");
        assert!(matches!(derive(b""), Err(ProbeError::Report(_))));
        let none = Emulation::default().encode();
        assert!(matches!(derive(&none), Err(ProbeError::Missing(_))));
    }

    #[test]
    fn one_wrong_count_is_refused() {
        let counts = |off: u64| {
            let counts = expected(true).map(|Expected { name, value }| {
                (name.to_string(), Domain::All, value + if name == "loads" { off } else { 0 })
            });
            let counts = counts.to_vec();
            let region = RegionCost { region: WORK.into(), counts, ..RegionCost::default() };
            Emulation::from(vec![region]).encode()
        };
        assert_eq!(verify(&counts(0), &expected(true)), Ok(()));
        let message = verify(&counts(1), &expected(true)).unwrap_err().to_string();
        assert!(message.contains("242 loads has 243"), "{message}");
    }

    #[test]
    fn programs_are_well_formed() {
        let program = user_program();
        assert_eq!(&program[..4], b"\x7fELF");
        assert_eq!(program.windows(3).filter(|bytes| *bytes == marker::OPCODE).count(), 2);
        let image = system_image();
        let words = image[..12].chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        assert_eq!(words.fold(0, u32::wrapping_add), 0, "the header's checksum");
    }
}
