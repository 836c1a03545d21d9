//! A bare machine with paging and interrupts in the upper half of the address space: faults and interrupts everywhere, counted by
//! hand.

use super::MARKERS;
use crate::emulator::{Emulator, Run, SYSTEM_AARCH64, check, count, paths};
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_record::symbols::{Landmark, LandmarkAt, Range, Symbols};

/// An image that turns paging on and goes on in the upper half. There, pages from `NEW` on are mapped by the fault handler to memory
/// from 0x60000000 on. Calls and returns from exceptions show the plugin QEMU's registers before the work.
///
/// Handlers, in instructions: a fault 17, `svc` 7, the timer 13.
const IMAGE: &str = "
.set HIGH, 0xffffff8000000000
.set NEW, HIGH+0x80000000
.globl _start
_start: adr x0,low
 mov x1,#0x401               // gigabyte of devices: attribute 0
 str x1,[x0]
 mov x1,#0x705               // memory: attribute 1
 movk x1,#0x4000,lsl #16
 str x1,[x0,#8]
 adr x1,directory
 orr x1,x1,#3
 str x1,[x0,#16]
 adr x2,pages
 orr x2,x2,#3
 adr x1,directory
 str x2,[x1]
 msr ttbr0_el1,x0
 msr ttbr1_el1,x0
 mov x1,#0xff00
 msr mair_el1,x1
 ldr x1,=0x5b5193519 // two halves of 39 bits, pages of 4 KiB
 msr tcr_el1,x1
 mov x1,#0x300000
 msr cpacr_el1,x1
 isb
 mrs x1,sctlr_el1
 orr x1,x1,#1
 msr sctlr_el1,x1
 isb
 ldr x1,=HIGH
 adr x0,1f
 orr x0,x0,x1
 br x0
1: adr x0,stack
 mov sp,x0
 adr x0,vectors
 msr vbar_el1,x0
 .rept 40
 bl f
 .endr
 .rept 40
 adr x0,1f
 msr elr_el1,x0
 mov x0,#0x3c5
 msr spsr_el1,x0
 eret
1:
 .endr
 ldr x20,=NEW
 mov x21,#0
 bl work
 mov x0,x21
 bl send
 adr x0,ticks
 ldr x0,[x0]
 bl send
 mov w0,#8
 movk w0,#0x8400,lsl #16
 hvc #0
send: ldr x1,=HIGH+0x09000000
 mov x2,#8
1: str w0,[x1]
 lsr x0,x0,#8
 subs x2,x2,#1
 b.ne 1b
 ret
.ltorg
.section .work,\"ax\"
work: stp x29,x30,[sp,#-16]!
 WORK
 ldp x29,x30,[sp],#16
 ret
.ltorg
.section .function,\"ax\"
f: ret
g: stp x29,x30,[sp,#-16]!
 bl f
 ldp x29,x30,[sp],#16
 b f
.section .vectors,\"ax\"
vectors: .skip 0x200
 stp x0,x1,[sp,#-32]!        // a synchronous exception in the kernel
 mrs x0,esr_el1
 lsr x0,x0,#26
 cmp x0,#0x15
 b.eq 1f
 str x2,[sp,#16]
 mrs x0,far_el1
 ubfx x0,x0,#12,#9
 lsl x1,x0,#12
 orr x1,x1,#0x60000000
 add x1,x1,#0x707
 adr x2,pages
 str x1,[x2,x0,lsl #3]
 dsb ish
 ldr x2,[sp,#16]
 ldp x0,x1,[sp],#32
 eret
1: ldp x0,x1,[sp],#32
 eret
.balign 128
 stp x0,x1,[sp,#-16]!        // an interrupt
 ldr x0,=HIGH+0x08010000
 ldr w1,[x0,#12]
 str w1,[x0,#16]
 mov x0,#1000
 msr cntv_tval_el0,x0
 adr x0,ticks
 ldr x1,[x0]
 add x1,x1,#1
 str x1,[x0]
 nop
 ldp x0,x1,[sp],#16
 eret
.ltorg
.data
.balign 8
ticks: .quad 0
.bss
.balign 4096
low: .skip 4096
directory: .skip 4096
pages: .skip 4096
.skip 4096
stack:
";

/// The sections' addresses, and what links the image.
const LINK: [&str; 6] = [
    "-Wl,-Ttext=0x40100000",
    "-Wl,--section-start=.vectors=0x40110000",
    "-Wl,--section-start=.function=0x40111000",
    "-Wl,--section-start=.work=0x40112000",
    "-Wl,-Tdata=0x40120000",
    "-Wl,-Tbss=0x40121000",
];

const HIGH: u64 = 0xffff_ff80_0000_0000;

/// Interrupts of the virtual timer (interrupt 27 of GICv2).
const TIMER: &str = "
 ldr x0,=HIGH+0x08000000
 mov w1,#1
 str w1,[x0]
 mov w1,#0x08000000
 str w1,[x0,#0x100]
 ldr x0,=HIGH+0x08010000
 mov w1,#1
 str w1,[x0]
 mov w1,#0xf0
 str w1,[x0,#4]
 mov x0,#1000
 msr cntv_tval_el0,x0
 mov x0,#1
 msr cntv_ctl_el0,x0
 msr daifclr,#2
";

const MODELS: [&str; 3] = ["cortex-a72", "neoverse-n1", "max"];

/// A run, and the two numbers that the guest sent: `x21` and its number of interrupts.
struct Bare {
    run: Run,
    sent: [u64; 2],
}

fn symbols() -> Symbols {
    let functions = ["vectors", "function", "work"];
    let high = |address: u64| HIGH + address;
    let landmark = |address, landmark, metric: &str| LandmarkAt {
        address: high(address),
        landmark,
        metric: Some(metric.into()),
    };
    Symbols {
        functions: functions.map(|name| Function::new(name, KERNEL)).to_vec(),
        kernel: (0..3)
            .map(|place| {
                let start = high(0x4011_0000 + u64::from(place) * 0x1000);
                Range { start, end: start + 0x1000, function: place }
            })
            .collect(),
        landmarks: vec![
            landmark(0x4011_0200, Landmark::Fault, "page-faults"),
            landmark(0x4011_0280, Landmark::Interrupt, "interrupts"),
        ],
        ..Symbols::default()
    }
}

/// Runs the image with some work in it.
fn run(model: &str, work: &str, options: &[&str]) -> Option<Bare> {
    let emulator = Emulator::find(SYSTEM_AARCH64)?;
    let source = format!("{MARKERS}{}", IMAGE.replace(" WORK\n", &format!("{work}\n")));
    let march = "-march=armv8.2-a+sve";
    let image = emulator.build("bare.S", &source, &[&LINK[..], &[march]].concat())?;
    let symbols = emulator.file("symbols", &symbols().encode());
    let sent = emulator.folder().join("sent");
    let serial = format!("file:{}", sent.display());
    let machine = ["-M", "virt", "-cpu", model, "-m", "1024", "-accel", "tcg,thread=single"];
    let quiet = ["-icount", "shift=0,sleep=off", "-nodefaults", "-display", "none"];
    let image = ["-kernel", &image, "-serial", &serial];
    let symbols = format!("symbols={symbols}");
    let options = [&[symbols.as_str()], options].concat();
    let run = emulator.run(&options, &[&machine[..], &quiet, &image].concat());
    assert_eq!(run.status, Some(0), "{}{}", run.output, run.errors);
    let bytes = std::fs::read(sent).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    Some(Bare { sent: [word(0), word(8)], run })
}

/// The instructions that every fault adds, with their loads, stores and branches.
const FAULT: u64 = 17;
const FAULT_LOADS: u64 = 2;
const FAULT_STORES: u64 = 3;
const FAULT_BRANCHES: u64 = 2;

#[test]
fn instructions_that_fault_count_once_wherever_they_fault() {
    let work = "
 add x9,x20,#0x40,lsl #12
 add x9,x9,#0xff8
 ldr x10,=0xd65f03c0         // a ret for the page that is called
 ldr x11,=HIGH+0x60080000
 str w10,[x11]
 START
 nop
 str x0,[x20]                // faults
 nop
 add x1,x20,#1,lsl #12
 ldr x2,[x1]                 // faults
 add x1,x20,#2,lsl #12
 ldp x2,x3,[x1]              // faults
 nop
 nop
 stp x2,x3,[x9]              // faults on both of its pages
 stur x2,[x9,#4]
 add x1,x20,#3,lsl #12
 ldxr x2,[x1]                // faults
 stxr w3,x2,[x1]
 add x1,x20,#4,lsl #12
 ld1 {v0.16b},[x1]           // faults
 add x1,x20,#5,lsl #12
 dc zva,x1                   // faults
 add x1,x20,#0x80,lsl #12
 blr x1                      // what is called faults before it starts
 STOP";
    for model in MODELS {
        let Some(bare) = run(model, work, &[]) else { return };
        let (retired, faults) = (20 + 1, 3 + 2 + 1 + 1 + 1 + 1);
        check(
            &bare.run.work(),
            &[
                ("page-faults", faults),
                ("instructions", retired + faults * FAULT),
                // The faulting fetch is no start.
                ("instruction-starts", retired + (faults - 1) + faults * FAULT),
                ("branches", 2 + faults * FAULT_BRANCHES),
                // ldr, ldp, ldxr, ld1.
                ("loads", 4 + faults * FAULT_LOADS),
                // str, stp, stur, stxr, dc zva.
                ("stores", 5 + faults * FAULT_STORES),
            ],
        );
    }
}

#[test]
fn a_pair_at_the_end_of_a_page_counts_once_though_it_faults_twice() {
    let work = "
 add x9,x20,#1,lsl #12
 sub x9,x9,#8
 START
 b 1f
 .balign 4096
 .skip 4096-8
1: nop
 stp x0,x1,[x9]              // faults on both of its pages, and ends its block
 nop
 STOP";
    for model in MODELS {
        let Some(bare) = run(model, work, &[]) else { return };
        let expected =
            [("page-faults", 2), ("instructions", 4 + 2 * FAULT), ("stores", 1 + 2 * FAULT_STORES)];
        check(&bare.run.work(), &expected);
    }
}

#[test]
fn atomics_count_once_where_the_model_has_them() {
    let work = "
 START
 mov x1,#1
 ldadd x1,x2,[x20]           // faults
 add x3,x20,#1,lsl #12
 swpal x1,x2,[x3]            // faults
 add x3,x20,#2,lsl #12
 cas x1,x2,[x3]              // faults
 add x3,x20,#3,lsl #12
 casp x0,x1,x4,x5,[x3]       // faults
 stadd x1,[x20]
 STOP";
    for model in &MODELS[1..] {
        let Some(bare) = run(model, work, &[]) else { return };
        let expected = [
            ("page-faults", 4),
            ("instructions", 9 + 4 * FAULT),
            ("loads", 5 + 4 * FAULT_LOADS),
            ("stores", 5 + 4 * FAULT_STORES),
        ];
        check(&bare.run.work(), &expected);
    }
}

#[test]
fn system_calls_in_a_loop_count_and_finish() {
    let work = "
 START
 mov x9,#1000
1: svc #0
 nop
 subs x9,x9,#1
 b.ne 1b
 STOP";
    for model in MODELS {
        let Some(bare) = run(model, work, &[]) else { return };
        let retired = 1 + 1000 * (4 + 7);
        check(
            &bare.run.work(),
            &[
                ("instructions", retired),
                ("instruction-starts", retired),
                ("branches", 1000 * (2 + 2)),
                ("conditional-branches", 1000 * 2),
                ("loads", 1000),
                ("stores", 1000),
            ],
        );
    }
}

#[test]
fn calls_and_tail_calls_stand_below_their_callers_also_under_interrupts() {
    let work = format!(
        "{TIMER}
 START
 ldr x19,=100000
1: bl g
 subs x19,x19,#1
 b.ne 1b
 STOP
 msr daifset,#2"
    );
    for model in MODELS {
        let Some(bare) = run(model, &work, &[]) else { return };
        let work = bare.run.work();
        let interrupts = count(&work, "interrupts");
        assert!(interrupts > 40 && interrupts <= bare.sent[1], "{interrupts} of {}", bare.sent[1]);
        let plain = 1 + 100_000 * (3 + 4 + 2);
        let expected = [
            ("instructions", plain + interrupts * 13),
            ("instruction-starts", plain + interrupts * 13),
            ("branches", 100_000 * 6 + interrupts),
        ];
        check(&work, &expected);
        // The tail call goes to the function's own entry.
        let expected = [
            "[unknown] 0 0".to_owned(),
            format!("[unknown]/work 0 {}", 1 + 100_000 * 3),
            format!("[unknown]/work/function 100000 {}", 100_000 * 5),
            format!("[unknown]/work/function/function 100000 {}", 100_000),
            format!("vectors {interrupts} {}", interrupts * 13),
        ];
        assert_eq!(paths(&work.profile), expected);
    }
}

#[test]
fn a_run_repeats_and_options_change_no_count() {
    let work = format!(
        "{TIMER}
 mrs x21,cntvct_el0
 START
 mov x19,#100
1: bl g
 add x20,x20,#0x1,lsl #12
 ldr x0,[x20]                // faults
 yield
 subs x19,x19,#1
 b.ne 1b
 STOP
 msr daifset,#2"
    );
    let Some(first) = run("neoverse-n1", &work, &[]) else { return };
    assert_eq!(count(&first.run.work(), "page-faults"), 100);
    for options in [&[][..], &["addresses=on"], &["profile=off"]] {
        let Some(again) = run("neoverse-n1", &work, options) else { return };
        assert_eq!(again.sent, first.sent, "{options:?}");
        assert_eq!(again.run.work().counts, first.run.work().counts, "{options:?}");
    }
}
