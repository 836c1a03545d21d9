//! The self-test's code for arm64, as [`probe`](super::probe) has it for x86-64. No instruction of arm64 repeats itself, so no
//! filters are learned.

use super::probe::{DATA, Expected, elf};
use opcost_record::Architecture;

/// The code from marker to marker; `x1` points into memory.
#[rustfmt::skip] // one instruction a line
const BODY: [u32; 17] = [
    0xd2e0_201f, //    the marker that starts
    0xd280_0142, //    movz x2, #10
    0x9400_0004, // 1: bl f
    0xf100_0442, //    subs x2, x2, #1
    0x54ff_ffc1, //    b.ne 1b
    0x1400_0004, //    b 2f
    0xf900_0022, // f: str x2, [x1]
    0xf940_0023, //    ldr x3, [x1]
    0xd65f_03c0, //    ret
    0xa9bf_0c22, // 2: stp x2, x3, [x1, #-16]!
    0xa8c1_0c22, //    ldp x2, x3, [x1], #16
    0xc85f_7c23, //    ldxr x3, [x1]
    0xc804_7c23, //    stxr w4, x3, [x1]              succeeds
    0x3500_0064, //    cbnz w4, 3f                    goes on
    0xb6f8_0043, //    tbz x3, #63, 3f                jumps
    0xd503_201f, //    nop
    0xd2e0_401f, // 3: the marker that stops
];

/// The image for `qemu-system-aarch64 -kernel`, which starts at its first byte and ends by PSCI (Arm DEN 0022, SYSTEM_OFF).
pub(super) fn image() -> Vec<u8> {
    let memory = [
        0xd2a8_0401, // movz x1, #0x4020, lsl #16         2 MiB from the begin of memory
    ];
    let switch_off = [
        0x5280_0100, // movz w0, #8
        0x72b0_8000, // movk w0, #0x8400, lsl #16
        0xd400_0002, // hvc #0
        0x1400_0000, // b .
    ];
    bytes(&[&memory, &BODY, &switch_off])
}

/// The program for user mode: a static ELF file.
pub(super) fn user_program() -> Vec<u8> {
    let memory = [
        0xd280_0001 | (DATA >> 16) << 5 | 1 << 21, // movz x1, #DATA >> 16, lsl #16
        0xf282_0001,                               // movk x1, #0x1000
    ];
    let exit = [
        0xd280_0000, // mov x0, #0
        0xd280_0ba8, // mov x8, #93                       exit
        0xd400_0001, // svc #0
    ];
    elf(Architecture::Aarch64, &bytes(&[&memory, &BODY, &exit]))
}

fn bytes(parts: &[&[u32]]) -> Vec<u8> {
    parts.iter().copied().flatten().flat_map(|word| word.to_le_bytes()).collect()
}

/// The costs of the code between the markers.
pub(super) fn expected() -> [Expected; 6] {
    let expected = |name, value| Expected { name, value };
    let instructions = 1 + 10 * 6 + 1 + 6;
    [
        expected("instructions", instructions),
        expected("instruction-starts", instructions),
        expected("branches", 10 * 3 + 1 + 2),
        expected("conditional-branches", 10 + 2),
        expected("loads", 10 + 2),
        expected("stores", 10 + 2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::WORK;
    use opcost_record::marker::Marker;

    #[test]
    fn image_and_program_have_both_markers() {
        for code in [image(), user_program()] {
            let markers =
                code.chunks(4).filter_map(|code| Marker::decode(Architecture::Aarch64, code));
            assert_eq!(markers.collect::<Vec<_>>(), [Marker::Start(WORK), Marker::Stop(WORK)]);
        }
    }
}
