//! A bare machine: device accesses within blocks, and the guest's own clock as a second witness.

use crate::emulator::{Emulator, SYSTEM, check};

/// A multiboot image of 32-bit code; it sends how far the time stamp counter went to a file.
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

/// A multiboot image of 32-bit code that halts and works in turn. The timer (8254, channel 0) wakes it
/// through the interrupt controller (8259). It sends a digest of the time stamp counter as it was after
/// each halt.
const HALTS: &str = "
_start: cli
 mov $stack,%esp
 lgdt gdt_register
 ljmpl $8,$1f
1: mov $16,%ax
 mov %ax,%ds
 mov %ax,%es
 mov %ax,%ss
 mov $handler,%eax
 mov %ax,idt+0x20*8
 movw $8,idt+0x20*8+2
 movw $0x8e00,idt+0x20*8+4
 shr $16,%eax
 mov %ax,idt+0x20*8+6
 lidt idt_register
 mov $0x11,%al ; out %al,$0x20    # vectors from 0x20 on, and the first line alone
 mov $0x20,%al ; out %al,$0x21
 mov $4,%al ; out %al,$0x21
 mov $1,%al ; out %al,$0x21
 mov $0xfe,%al ; out %al,$0x21
 mov $0xff,%al ; out %al,$0xa1
 mov $0x34,%al ; out %al,$0x43    # again and again, every 255 ticks
 mov $0xff,%al ; out %al,$0x40
 mov $0,%al ; out %al,$0x40
 xor %edi,%edi
 mov $3000,%esi
 sti
2: hlt
 rdtsc
 rol $5,%edi
 add %eax,%edi
 mov $20000,%ecx
3: loop 3b
 dec %esi
 jnz 2b
 cli
 .byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f
 nop
 .byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f
 mov %edi,%eax
 mov $4,%ecx
4: out %al,$0xe9
 shr $8,%eax
 loop 4b
 mov $1,%eax
 out %eax,$0xf4
handler: push %eax
 mov $0x20,%al
 out %al,$0x20
 pop %eax
 iret
.balign 8
gdt: .quad 0
 .quad 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_register: .word 23
 .long gdt
idt_register: .word 0x7ff
 .long idt
.bss
.balign 8
idt: .skip 2048
.skip 4096
stack:
";

const SHARED: [&str; 3] = ["-shared", "-fPIC", "-O2"];

/// A library for QEMU whose main loop then never sleeps, as on a host that always has something for it.
const NEVER_SLEEPS: &str = "
int ppoll(void *files, unsigned long count, const void *limit, const void *mask) {
    long none[2] = {0, 0}, result;
    register long *shortest __asm__(\"rdx\") = none;
    register long signals __asm__(\"r10\") = 0;
    __asm__ volatile(\"syscall\" : \"=a\"(result)
        : \"a\"(271L), \"D\"(files), \"S\"(count), \"r\"(shortest), \"r\"(signals)
        : \"rcx\", \"r11\", \"memory\");
    return result < 0 ? 0 : result;
}
";

#[test]
fn halts_leave_the_same_clock_however_busy_qemus_main_loop_is() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    let Some(image) = emulator.build_image("halts.S", HALTS, &[]) else { return };
    let Some(library) = emulator.build("busy.c", NEVER_SLEEPS, &SHARED) else { return };
    let clock = emulator.folder().join("clock");
    let debug = format!("file:{}", clock.display());
    let machine = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-m", "16"];
    let quiet = ["-nodefaults", "-display", "none", "-kernel", &image, "-debugcon", &debug];
    let exit = ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"];
    let arguments = [&machine[..], &quiet, &exit].concat();
    let digest = |environment: &[(&str, &str)], plugin: &[&str]| {
        let run = emulator.run_in(environment, plugin, &arguments);
        assert_eq!(run.status, Some(3), "{}", run.errors);
        std::fs::read(&clock).unwrap()
    };
    let quiet = digest(&[], &[]);
    let busy = [("LD_PRELOAD", library.as_str())];
    for plugin in [&[][..], &["window=never"], &[], &["window=never"]] {
        assert_eq!(digest(&busy, plugin), quiet, "{plugin:?}");
    }
}
