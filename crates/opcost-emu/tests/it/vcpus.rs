//! A bare machine with two CPUs: the instructions of each, counted by hand.

use crate::emulator::{Emulator, MODEL, Run, SYSTEM, check, count, paths, skip};

/// A multiboot image of 32-bit code. CPU 0 starts CPU 1 (Intel SDM volume 3, section 9.4.4: INIT, then
/// STARTUP with the page of the code), and both CPUs count down, each for several turns.
const IMAGE: &str = "
_start: cli
 mov $stack,%esp
 mov $start16,%esi
 mov $0x8000,%edi
 mov $end16-start16,%ecx
 rep movsb
 movl $0xc4500,0xfee00300    # INIT, to all but this CPU
 mov $100000,%ecx
1: loop 1b
 movl $0xc4608,0xfee00300    # STARTUP at 0x8000
1: pause
 cmpl $1,ready
 jne 1b
 .byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f
MORE
 movl $1,go
 mov $3,%edx
2: mov $1000000,%ecx
1: loop 1b
 pause
 dec %edx
 jnz 2b
1: pause
 cmpl $1,done
 jne 1b
 .byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f
 mov $1,%eax
 out %eax,$0xf4
1: hlt
 jmp 1b
second: movl $1,ready
1: pause
 cmpl $1,go
 jne 1b
 mov $5,%edx
2: mov $1000000,%ecx
1: loop 1b
 pause
 dec %edx
 jnz 2b
 movl $1,done
1: hlt
 jmp 1b
gdt: .quad 0
 .quad 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_register: .word 23
 .long gdt
.code16
start16: cli
 xor %ax,%ax
 mov %ax,%ds
 lgdtl register16-start16+0x8000
 mov %cr0,%eax
 or $1,%al
 mov %eax,%cr0
 ljmpl $8,$start32-start16+0x8000
register16: .word 23
 .long gdt
.code32
start32: mov $16,%ax
 mov %ax,%ds
 mov $second,%eax
 jmp *%eax
end16:
.bss
.balign 4
ready: .skip 4
go: .skip 4
done: .skip 4
.skip 4096
stack:
";

/// Builds the image with some code at the region's start; `None`: the test is skipped.
fn image(emulator: &Emulator, more: &str) -> Option<String> {
    if emulator.major_version() < 10 {
        skip("two CPUs hang in this QEMU; 10.0 and later have no such fault");
        return None;
    }
    emulator.build_image("vcpus.S", &IMAGE.replace("MORE", more), &[])
}

/// Runs the image on two CPUs; `buffer_mib`: the size of the buffer for translated code.
fn run(emulator: &Emulator, image: &str, buffer_mib: u32, options: &[&str]) -> Run {
    let accelerator = format!("tcg,thread=single,tb-size={buffer_mib}");
    let machine = ["-accel", &accelerator, "-icount", "shift=0,sleep=off", "-smp", "2", "-m", "16"];
    let quiet = ["-nodefaults", "-display", "none", "-kernel", image];
    let exit = ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"];
    let run = emulator.run(options, &[&machine[..], &quiet, &exit].concat());
    assert_eq!(run.status, Some(3), "{}", run.errors);
    run
}

#[test]
fn two_cpus_are_counted_apart_and_repeat_to_the_digit() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    let Some(image) = image(&emulator, "") else { return };
    let run = |options: &[&str]| run(&emulator, &image, 64, options);
    let first = run(&[]);
    let work = first.work();
    let looks = count(&work, "pauses") - 3 - 5;
    let cpu0 = 2 + 3 * 1_000_004 + 3 * looks;
    // CPU 1 had paused when the region began, and halts after it reported its end.
    let cpu1 = 2 + 1 + 5 * 1_000_004 + 1 + 1;
    check(
        &work,
        &[
            ("instructions-cpu0", cpu0),
            ("instructions-cpu1", cpu1),
            ("instructions", cpu0 + cpu1),
            ("branches", 8 * 1_000_001 + looks + 1),
            ("halts", 1),
        ],
    );
    assert!(count(&work, "cpu-turns") >= 8, "{work:?}");
    assert_eq!(
        paths(&work.profile),
        [
            "[CPU 0] 0 0".to_string(),
            format!("[CPU 0]/[unknown] 0 {cpu0}"),
            "[CPU 1] 0 0".to_string(),
            format!("[CPU 1]/[unknown] 0 {cpu1}"),
        ]
    );
    assert_eq!(run(&[]).report, first.report);
    let refused = emulator.run(&[MODEL], &["-smp", "2", "-accel", "tcg,thread=single"]);
    assert!(refused.errors.contains("one core is modelled: give the machine one CPU"));
}

#[test]
fn a_buffer_emptied_in_a_region_of_two_cpus_is_an_error() {
    let Some(emulator) = Emulator::find(SYSTEM) else { return };
    let more = ".rept 60000\n jmp 2f\n2:\n.endr";
    let Some(image) = image(&emulator, more) else { return };
    assert_eq!(count(&run(&emulator, &image, 64, &[]).work(), "halts"), 1);
    let error = run(&emulator, &image, 1, &[]).error();
    assert!(
        error.contains("emptied its buffer of translated code inside region 'work'"),
        "{error}"
    );
}
