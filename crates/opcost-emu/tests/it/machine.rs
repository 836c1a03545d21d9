//! A bare machine: device accesses within blocks, and the guest's own clock as a second witness.

use crate::emulator::{Emulator, SYSTEM, check};

/// A multiboot image of 32-bit code; it writes the advance of the time stamp counter to a file.
const IMAGE: &str = "
_start: mov $stack,%esp
 mov $buffer,%edi
 mov $buffer,%esi
 rdtsc
 mov %eax,%ebx
 .byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f
 nop
 mov 0xfec00000,%eax        # the I/O APIC, in the middle of a block
 nop
 mov %eax,0xfec00000        # and again
 mov %eax,(%edi)
 mov $100,%ecx
1: call f
 loop 1b
 mov $50,%ecx
 rep movsb
 nop
 .byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f
 rdtsc
 sub %ebx,%eax
 mov $4,%ecx
2: out %al,$0xe9
 shr $8,%eax
 loop 2b
 mov $1,%eax
 out %eax,$0xf4
3: hlt
 jmp 3b
f: push %eax
 pop %eax
 ret
.bss
buffer: .skip 4096
.skip 4096
stack:
";

#[test]
fn the_guests_clock_goes_on_by_the_starts() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    let Some(image) = emulator.build_image("machine.S", IMAGE, &[]) else { return };
    let clock = emulator.folder().join("clock");
    let debug = format!("file:{}", clock.display());
    let arguments = [
        "-accel",
        "tcg,thread=single",
        "-icount",
        "shift=0,sleep=off",
        "-m",
        "16",
        "-nodefaults",
        "-display",
        "none",
        "-kernel",
        &image,
        "-debugcon",
        &debug,
        "-device",
        "isa-debug-exit,iobase=0xf4,iosize=0x04",
    ];
    let run = emulator.run(&[], &arguments);
    assert_eq!(run.status, Some(3), "{}", run.errors);
    let plain = 6 + 100 * 5;
    let work = run.work();
    let starts = plain + 1 + 51 + 1;
    check(
        &work,
        &[
            ("instructions", plain + 3),
            ("instruction-starts", starts),
            ("string-iterations", 50),
            ("loads", 1 + 200 + 50),
            ("stores", 2 + 200 + 50),
        ],
    );
    let clock = u32::from_le_bytes(std::fs::read(clock).unwrap().try_into().unwrap());
    // One of the two rdtsc, a move and the two markers lie between the readings as well.
    assert_eq!(u64::from(clock), starts + 4);
    assert_eq!(emulator.run(&[], &arguments).report, run.report);
}
