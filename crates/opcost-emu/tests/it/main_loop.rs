//! A main loop of QEMU that never sleeps does not move the guest's clock or the turns of its CPUs.

use crate::emulator::{Emulator, SYSTEM, skip};

/// A multiboot image of 32-bit code that halts and works by turns. The timer (8254, channel 0) wakes the CPU through the interrupt
/// controller (8259). The image sends a digest of the time stamp counter's values after each halt.
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
START sti
2: hlt
 rdtsc
 rol $5,%edi
 add %eax,%edi
 mov $20000,%ecx
3: loop 3b
READ dec %esi
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
TELL mov $0x20,%al
 out %al,$0x20
 pop %eax
 iret
SECOND.balign 8
gdt: .quad 0
 .quad 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_register: .word 23
 .long gdt
idt_register: .word 0x7ff
 .long idt
.bss
.balign 8
idt: .skip 2048
woken: .skip 8
.skip 4096
stack:
";

/// The changes to the image for a second CPU, which halts as well. The first CPU wakes the second at each tick, and adds to the
/// digest how often the second reached the end of its work.
const SECOND: [(&str, &str); 4] = [
    (
        "START",
        "
 mov $tick,%eax               # the gate of vector 0x30
 mov %ax,idt+0x30*8
 movw $8,idt+0x30*8+2
 movw $0x8e00,idt+0x30*8+4
 shr $16,%eax
 mov %ax,idt+0x30*8+6
 push %esi
 push %edi
 mov $start16,%esi
 mov $0x8000,%edi
 mov $end16-start16,%ecx
 rep movsb
 pop %edi
 pop %esi
 movl $0xc4500,0xfee00300     # INIT, to all but this CPU
 mov $100000,%ecx
1: loop 1b
 movl $0xc4608,0xfee00300     # STARTUP at 0x8000
1: pause
 cmpl $1,woken+4
 jne 1b
",
    ),
    ("READ", " add woken,%edi\n"),
    ("TELL", " movl $0xc4030,0xfee00300      # vector 0x30, to all but this CPU\n"),
    (
        "SECOND",
        "
second: mov $second_stack,%esp
 lidt idt_register
 movl $0x1ff,0xfee000f0
 movl $1,woken+4
 sti
1: hlt
 mov $15000,%ecx
2: loop 2b
 incl woken
 jmp 1b
tick: movl $0,0xfee000b0
 iret
.code16
start16: cli
 xor %ax,%ax
 mov %ax,%ds
 lgdtl gdt16-start16+0x8000
 mov %cr0,%eax
 or $1,%al
 mov %eax,%cr0
 ljmpl $8,$start32-start16+0x8000
gdt16: .word 23
 .long gdt
.code32
start32: mov $16,%ax
 mov %ax,%ds
 mov %ax,%ss
 mov $second,%eax
 jmp *%eax
end16:
.bss
.skip 4096
second_stack:
.data
",
    ),
];

const SHARED: [&str; 3] = ["-shared", "-fPIC", "-O2"];

/// A library that keeps QEMU's main loop from sleeping, as on a host that always has something for QEMU.
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

/// Returns the digests of an undisturbed run, and of runs under a main loop that never sleeps.
fn digests(emulator: &Emulator, image: &str, cpus: &str) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let library = emulator.build("busy.c", NEVER_SLEEPS, &SHARED)?;
    let clock = emulator.folder().join("clock");
    let debug = format!("file:{}", clock.display());
    let machine = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-m", "16"];
    let quiet = ["-nodefaults", "-display", "none", "-kernel", image, "-debugcon", &debug];
    let exit = ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04", "-smp", cpus];
    let arguments = [&machine[..], &quiet, &exit].concat();
    let digest = |environment: &[(&str, &str)], plugin: &[&str]| {
        let run = emulator.run_in(environment, plugin, &arguments);
        assert_eq!(run.status, Some(3), "{}", run.errors);
        std::fs::read(&clock).unwrap()
    };
    let busy = [("LD_PRELOAD", library.as_str())];
    let plugins = [&[][..], &["window=never"], &[], &["window=never"]];
    Some((digest(&[], &[]), plugins.map(|plugin| digest(&busy, plugin)).to_vec()))
}

#[test]
fn halts_leave_the_same_clock_however_busy_qemus_main_loop_is() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    let image = SECOND.iter().fold(HALTS.to_string(), |image, (place, _)| image.replace(place, ""));
    let Some(image) = emulator.build_image("halts.S", &image, &[]) else { return };
    let Some((quiet, busy)) = digests(&emulator, &image, "1") else { return };
    assert_eq!(busy, vec![quiet; busy.len()]);
}

#[test]
fn two_cpus_take_the_same_turns_however_busy_qemus_main_loop_is() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    if emulator.major_version() < 10 {
        skip("two CPUs hang in this QEMU; 10.0 and later have no such fault");
        return;
    }
    let with = |image: String, (place, code): &(&str, &str)| image.replace(place, code);
    let image = SECOND.iter().fold(HALTS.to_string(), with);
    let Some(image) = emulator.build_image("halts.S", &image, &[]) else { return };
    let Some((quiet, busy)) = digests(&emulator, &image, "2") else { return };
    assert_eq!(busy, vec![quiet; busy.len()]);
}
