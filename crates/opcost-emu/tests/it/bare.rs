//! A bare machine with paging and interrupts: faults and interrupts everywhere, counted by hand.

use crate::emulator::{Emulator, MODEL, Run, SYSTEM, check, count};
use opcost_record::symbols::{Landmark, LandmarkAt, Symbols};

/// A multiboot image of 32-bit code. The first 4 MiB are mapped one to one. The fault handler maps pages from 0x800000 on to memory
/// from 0x200000 on.
///
/// Handlers, in instructions: `fault` 13 with 3 stores, `timer` 6, `software` 2.
const IMAGE: &str = "
.macro START
 .byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f
.endm
.macro STOP
 .byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f
.endm
.set NEW, 0x800000
_start: cli
 mov $stack,%esp
 lgdt gdt_register
 ljmp $8,$1f
1: mov $16,%eax
 mov %eax,%ds
 mov %eax,%es
 mov %eax,%ss
 lidt idt_register
 mov $3,%eax
 mov $low,%edi
1: stosl
 add $4096,%eax
 cmp $0x400003,%eax
 jne 1b
 movl $low+3,directory
 movl $new+3,directory+8
 mov $directory,%eax
 mov %eax,%cr3
 mov %cr0,%eax
 or $0x80010000,%eax
 mov %eax,%cr0
 movb $0xc3,0x20f000         # a ret for the page that is called
 mov $NEW,%edi
 mov $NEW+0x100000,%esi
 xor %ebp,%ebp
 WORK
 mov %ebp,%eax
 call send
 mov ticks,%eax
 call send
 mov $1,%eax
 out %eax,$0xf4
1: hlt
 jmp 1b
send: mov $4,%ecx
1: out %al,$0xe9
 shr $8,%eax
 loop 1b
 ret
.section .handlers,\"ax\"
fault: push %eax             # at 0x140000
 push %ebx
 mov %cr2,%eax
 shr $12,%eax
 and $1023,%eax
 mov %eax,%ebx
 shl $12,%ebx
 add $0x200003,%ebx
 mov %ebx,new(,%eax,4)
 pop %ebx
 pop %eax
 add $4,%esp
 iret
.balign 256
timer: push %eax             # at 0x140100
 incl ticks
 mov $0x20,%al
 out %al,$0x20
 pop %eax
 iret
.balign 256
software: incl ticks         # at 0x140200
 iret
.data
.balign 8
gdt: .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdt_register: .word 23
 .long gdt
idt: .fill 14,8,0
 .word 0x0000,8,0x8e00,0x14
 .fill 17,8,0
 .word 0x0100,8,0x8e00,0x14
 .fill 15,8,0
 .word 0x0200,8,0x8e00,0x14
idt_register: .word 49*8-1
 .long idt
ticks: .long 0
.bss
.balign 4096
directory: .skip 4096
low: .skip 4096
new: .skip 4096
.skip 4096
stack:
";

/// The handlers of the image.
const HANDLERS: [(u64, Landmark, &str); 3] = [
    (0x14_0000, Landmark::Fault, "page-faults"),
    (0x14_0100, Landmark::Interrupt, "interrupts"),
    (0x14_0200, Landmark::SystemCall, "system-calls"),
];

/// Interrupts of the timer every 23 ticks of its clock, about 19,000 instructions.
const TIMER: &str = "
.macro PORT number value
 mov $\\value,%al
 out %al,$\\number
.endm
 PORT 0x20 0x11
 PORT 0x21 0x20
 PORT 0x21 4
 PORT 0x21 1
 PORT 0xa1 0xff
 PORT 0x21 0xfe
 PORT 0x43 0x34
 PORT 0x40 23
 PORT 0x40 0
";

/// A run, and the two numbers that the guest sent: `ebp` and its number of interrupts.
struct Bare {
    run: Run,
    sent: [u64; 2],
}

/// Runs the image with some work in it.
fn run(work: &str, options: &[&str]) -> Option<Bare> {
    let emulator = Emulator::find(SYSTEM)?;
    let link = ["-Wl,--section-start=.handlers=0x140000", "-Wl,-Tdata=0x150000"];
    let source = IMAGE.replace(" WORK\n", &format!("{work}\n"));
    let image = emulator.build_image("bare.S", &source, &link)?;
    let landmarks = HANDLERS.map(|(address, landmark, metric)| LandmarkAt {
        address,
        landmark,
        metric: Some(metric.into()),
    });
    let symbols = Symbols { landmarks: landmarks.into(), ..Symbols::default() };
    let symbols = emulator.file("symbols", &symbols.encode());
    let sent = emulator.folder().join("sent");
    let debug = format!("file:{}", sent.display());
    let machine = ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off", "-m", "16"];
    let quiet = ["-nodefaults", "-display", "none", "-kernel", &image, "-debugcon", &debug];
    let exit = ["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"];
    let symbols = format!("symbols={symbols}");
    let options = [&[symbols.as_str()], options].concat();
    let run = emulator.run(&options, &[&machine[..], &quiet, &exit].concat());
    assert_eq!(run.status, Some(3), "{}{}", run.output, run.errors);
    let bytes = std::fs::read(sent).unwrap();
    let word = |at: usize| u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()));
    Some(Bare { sent: [word(0), word(4)], run })
}

/// The instructions that every fault adds to a count.
const FAULT: u64 = 13;
/// Two pops, and an `iret`: the decoder counts the five words that `iret` reads in 64-bit mode.
const FAULT_LOADS: u64 = 2 + 5;

#[test]
fn instructions_that_fault_count_once_wherever_they_fault() {
    let work = "
 mov $0x806ffe,%ebx
 START
 nop
 mov %eax,(%edi)             # faults
 nop
 mov 0x1000(%edi),%eax       # faults, a load
 incl 0x2000(%edi)           # faults
 nop
 nop
 mov %eax,(%ebx)             # faults on both of its pages
 push 0x8000(%edi)           # faults
 pop 0x9000(%edi)            # faults
 mov $0x80f000,%eax
 call *%eax                  # what is called faults before it starts
 call f
 mov $0x80b000,%edi
 movsb                       # faults on both sides
 STOP
 jmp 1f
f: cmpl $0,0xa000(%edi)      # faults
 ret
1: ";
    let Some(bare) = run(work, &[]) else { return };
    let (retired, faults) = (18, 3 + 2 + 2 + 1 + 1 + 2);
    check(
        &bare.run.work(),
        &[
            ("page-faults", faults),
            ("instructions", retired + faults * FAULT),
            // The faulting fetch is no start.
            ("instruction-starts", retired + (faults - 1) + faults * FAULT),
            ("string-iterations", 0),
            ("branches", 4 + faults),
            // mov, inc, push, pop, two rets, movsb, cmp.
            ("loads", 8 + faults * FAULT_LOADS),
            // mov, inc, mov, push, pop, two calls, movsb.
            ("stores", 8 + faults * 3),
        ],
    );
}

#[test]
fn string_instructions_that_fault_between_iterations_count_once() {
    let work = "
 START
 mov $10000,%ecx
 rep movsb                   # three pages on each side
 mov $0x820ffc,%edi
 mov $3,%ecx
 rep stosl                   # a fault at once, and one at the second iteration
 mov $0x840000,%esi
 mov $0x850000,%edi
 mov $5000,%ecx
 repe cmpsb                  # two pages on each side, of zeros
 mov $0x860ff0,%esi
 mov $100,%ecx
 rep lodsb
 mov $0x870ff0,%edi
 mov $1,%al
 mov $100,%ecx
 repne scasb
 xor %ecx,%ecx
 mov $0x890000,%edi
 rep stosb                   # no iteration, no fault
 STOP";
    let Some(bare) = run(work, &[]) else { return };
    let faults = 6 + 2 + 4 + 2 + 2;
    let iterations = 10_000 + 3 + 5000 + 100 + 100;
    check(
        &bare.run.work(),
        &[
            ("page-faults", faults),
            ("instructions", 19 + faults * FAULT),
            ("string-iterations", iterations),
            // Six string instructions begin once more than they iterate.
            ("instruction-starts", 13 + iterations + 6 + faults + faults * FAULT),
            ("loads", 10_000 + 2 * 5000 + 100 + 100 + faults * FAULT_LOADS),
            ("stores", 10_000 + 3 + faults * 3),
        ],
    );
}

#[test]
fn an_instruction_in_front_of_a_string_instruction_counts_once_though_it_faults() {
    let work = "
 START
 mov $0x300000,%edi
 mov $3,%ecx
 mov %eax,0x500000(%edi)     # faults, and the block ends with what is behind it
 rep stosb
 STOP";
    let Some(bare) = run(work, &[]) else { return };
    check(
        &bare.run.work(),
        &[
            ("page-faults", 1),
            ("instructions", 4 + FAULT),
            ("string-iterations", 3),
            ("instruction-starts", 3 + 4 + 1 + FAULT),
            ("stores", 1 + 3 + 3),
        ],
    );
}

#[test]
fn software_interrupts_in_a_loop() {
    let work = "
 START
 mov $1000,%ecx
1: int $0x30
 nop
 dec %ecx
 jnz 1b
 STOP";
    let Some(bare) = run(work, &[]) else { return };
    assert_eq!(bare.sent[1], 1000);
    check(
        &bare.run.work(),
        &[
            ("system-calls", 1000),
            ("instructions", 1 + 1000 * (4 + 2)),
            ("instruction-starts", 1 + 1000 * (4 + 2)),
            ("branches", 1000 * 3),
            ("conditional-branches", 1000),
        ],
    );
}

/// Loops, calls and string instructions under a timer; `ebp` holds the clock's advance.
const TICKING: &str = "
 sti
 rdtsc
 mov %eax,%ebp
 START
 mov $200000,%ecx
1: call f
 dec %ecx
 jnz 1b
 mov $20,%edx
2: mov $0x300000,%edi
 mov $60000,%ecx
 rep stosb
 mov $0x300000,%esi
 mov $0x310000,%edi
 mov $10000,%ecx
 rep movsl
 dec %edx
 jnz 2b
 STOP
 rdtsc
 cli
 sub %ebp,%eax
 mov %eax,%ebp
 jmp 1f
f: push %eax
 pop %eax
 ret
1: ";

#[test]
fn interrupts_between_blocks_and_between_iterations() {
    let work = format!("{TIMER}{TICKING}");
    let Some(bare) = run(&work, &[]) else { return };
    let [clock, ticks] = bare.sent;
    let iterations = 20 * (60_000 + 10_000);
    let plain = 1 + 200_000 * 6 + 1 + 20 * 7;
    // The loop is 1.2 million instructions, the strings are 1.4 million iterations.
    assert!(ticks > 100, "{ticks}");
    let work = bare.run.work();
    let counted = count(&work, "interrupts");
    // One interrupt may have come between the markers and the two readings of the clock.
    assert!(counted <= ticks && ticks <= counted + 1, "{counted} of {ticks}");
    let starts = plain + iterations + 40 + counted * 6;
    check(
        &work,
        &[
            ("instructions", plain + 40 + counted * 6),
            ("string-iterations", iterations),
            ("instruction-starts", starts),
            ("page-faults", 0),
        ],
    );
    // One of the two rdtsc, a move and the two markers lie between the readings as well.
    assert_eq!(clock, starts + 4 + (ticks - counted) * 6);
}

#[test]
fn options_and_repetition_change_no_count() {
    let work = format!("{TIMER}{TICKING}").replace("0x300000", "0x900000");
    let Some(first) = run(&work, &[]) else { return };
    // Totals alone (`profile=off` by itself) need a guest whose calls show where the stack pointer is; tests with a kernel have one.
    for options in [&[][..], &["addresses=on"], &[MODEL], &["profile=off", MODEL]] {
        let Some(again) = run(&work, options) else { return };
        assert_eq!(again.sent, first.sent, "{options:?}: the guest went another way");
        let (first, again) = (first.run.work(), again.run.work());
        assert!(count(&first, "page-faults") > 0 && count(&first, "interrupts") > 0);
        for (name, domain, value) in &first.counts {
            assert_eq!(again.count(name, *domain), Some(*value), "{options:?}: {name}");
        }
    }
}

#[test]
fn a_branch_that_falls_into_a_string_instruction_is_not_taken() {
    // Each branch goes past its instruction in one of eight turns. The first instruction runs on mapped pages; the second faults on
    // two new ones. Ticks come between the iterations of both.
    let turns = "
 sti
 mov %edi,%ebx
 START
 mov $64,%edx
1: mov $0x300000,%edi
 mov $6000,%ecx
 test $7,%edx
 jz 2f
 rep stosb
2: mov %ebx,%edi
 add $0x2000,%ebx
 mov $6000,%ecx
 test $7,%edx
 jz 3f
 rep stosb
3: dec %edx
 jnz 1b
 STOP
 cli";
    let work = format!("{TIMER}{turns}");
    let Some(bare) = run(&work, &[MODEL]) else { return };
    let work = bare.run.work();
    let (interrupts, faults) = (count(&work, "interrupts"), 56 * 2);
    assert!(interrupts > 10, "{interrupts}");
    check(
        &work,
        &[
            ("instructions", 1 + 64 * 11 + 2 * 56 + faults * FAULT + interrupts * 6),
            ("string-iterations", 2 * 56 * 6000),
            ("page-faults", faults),
            ("conditional-branches", 3 * 64),
            ("conditional-branches-taken", 2 * 8 + 63),
        ],
    );
}

#[test]
fn instructions_on_two_pages_count_once() {
    // Each case: nop, an instruction, then an instruction of five bytes that reaches into the next page.
    let cases =
        [("nop", 1), ("mov (%esp),%eax", 3), ("push %eax", 1), ("out %al,$0x80", 2), ("cpuid", 2)];
    let mut work = String::from("\n START\n jmp 1f\n");
    for (before, bytes) in cases {
        for within in 1..5 {
            work += &format!(
                ".balign 4096\n.skip 4096-{within}-{bytes}-1\n\
                 1: nop\n {before}\n mov $1,%edx\n nop\n jmp 1f\n"
            );
        }
    }
    // A call, a branch and a string instruction that reach into the next page.
    work += ".balign 4096\n.skip 4096-3\n1: nop\n call f\n jmp 1f\n";
    work +=
        ".balign 4096\n.skip 4096-3\n1: nop\n .byte 0x0f,0x84,0,0,0,0\n xor %ecx,%ecx\n jmp 1f\n";
    work += ".balign 4096\n.skip 4096-2\n1: nop\n rep stosb\n jmp 1f\n";
    work += "1: jmp 1f\nf: ret\n1: STOP";
    let Some(bare) = run(&work, &[]) else { return };
    let (cases, calls, branches, strings) = (4 * 5 * 5, 4, 4, 3);
    let retired = 1 + cases + calls + branches + strings + 1;
    check(&bare.run.work(), &[("instructions", retired), ("instruction-starts", retired)]);
}
