//! Programs of AArch64 in user mode, counted by hand.

use super::MARKERS;
use crate::emulator::{Emulator, Run, USER_AARCH64, check, paths};
use opcost_record::Function;
use opcost_record::symbols::{FileSymbols, PAGE_BYTES, Range, Symbols, page_hash};

const END: &str = "
 mov x0,#0
 mov x8,#93
 svc #0
.bss
.balign 4096
buffer: .skip 65536
";

/// Assembles a program and runs it.
fn run(source: &str, options: &[&str]) -> Option<Run> {
    let emulator = Emulator::find(USER_AARCH64)?;
    let source = format!("{MARKERS}.globl _start\n.text\n{source}{END}");
    let program = emulator.build("program.S", &source, &["-march=armv8.2-a"])?;
    Some(emulator.run_with_totals(options, &["-cpu", "neoverse-n1", &program]))
}

#[test]
fn loops_calls_and_accesses() {
    let source = "
_start: ldr x20,=buffer
 START
 mov x19,#1000
1: bl f
 ldadd x19,x2,[x20]
 ldp x0,x1,[x20]
 cbz x0,2f
2: subs x19,x19,#1
 b.ne 1b
 STOP
 b 3f
f: stp x29,x30,[sp,#-16]!
 ldp x29,x30,[sp],#16
 ret
.ltorg
3:";
    let Some(run) = run(source, &[]) else { return };
    check(
        &run.work(),
        &[
            ("instructions", 1 + 1000 * 9),
            ("instruction-starts", 1 + 1000 * 9),
            ("branches", 1000 * 4),
            ("conditional-branches", 1000 * 2),
            ("loads", 1000 * 3),
            ("stores", 1000 * 2),
        ],
    );
}

#[test]
fn faults_that_a_handler_mends_and_an_instruction_that_the_cpu_lacks() {
    // The handler steps over the instruction: sigcontext's pc is at 128 + 40 + 8 + 31 * 8 + 8 in the frame (asm/sigcontext.h).
    let source = "
handler: ldr x3,[x2,#440]
 add x3,x3,#4
 str x3,[x2,#440]
 ret
restorer: mov x8,#139
 svc #0
_start: adr x0,handler
 ldr x20,=buffer
 str x0,[x20]
 mov x0,#4                   // SA_SIGINFO
 str x0,[x20,#8]
 mov x8,#134                 // rt_sigaction
 EARLY
 mov x0,#11                  // SIGSEGV
 mov x1,x20
 mov x2,#0
 mov x3,#8
 svc #0
 mov x8,#134
 mov x0,#4                   // SIGILL
 mov x1,x20
 mov x2,#0
 mov x3,#8
 svc #0
 mov x9,#0
 LATE
 nop
 ldr x0,[x9]                 // faults
 nop
 stp x0,x1,[x9]              // faults
 udf #0                      // never finishes
 nop
 STOP
 b 1f
.ltorg
1:";
    // The region begins behind the calls that install the handlers, and in front of them.
    for (early, late, before, calls) in [("", "START", 0, 0), ("START", "", 12, 2)] {
        let source = source.replace("EARLY", early).replace("LATE", late);
        let Some(run) = run(&source, &[]) else { return };
        assert_eq!(run.status, Some(0), "{}", run.errors);
        // QEMU's own return from a handler is two instructions: mov and svc.
        let handled = 3 * (4 + 2);
        let expected = [("instructions", before + 3 + handled), ("system-calls", calls + 3)];
        check(&run.work(), &expected);
    }
}

#[test]
fn a_system_call_in_the_middle_counts() {
    let source = "
_start: START
 mov x8,#172                 // getpid
 svc #0
 mov x8,#178                 // gettid
 svc #0
 STOP";
    let Some(run) = run(source, &[]) else { return };
    check(&run.work(), &[("instructions", 4), ("branches", 2), ("system-calls", 2)]);
}

/// Runs a program with the names of its functions `outer`, `inner` and `leaf`, each in a section of its own.
#[test]
fn callers_are_followed_by_the_stack_pointer() {
    let Some(emulator) = Emulator::find(USER_AARCH64) else { return };
    let source = format!(
        "{MARKERS}.globl _start\n.text
_start:
 .rept 40
 bl leaf
 .endr
 START
 mov x19,#10
1: bl outer
 subs x19,x19,#1
 b.ne 1b
 STOP
 b 2f
 .balign 4096
outer: stp x29,x30,[sp,#-16]!
 bl inner
 bl leaf
 ldp x29,x30,[sp],#16
 ret
 .balign 256
inner: mov x15,x30           // calls without a frame of its own
 bl leaf
 mov x30,x15
 b leaf
 .balign 256
leaf: ret
2:{END}"
    );
    let Some(program) = emulator.build("program.S", &source, &["-Wl,-z,max-page-size=4096"]) else {
        return;
    };
    let contents = std::fs::read(&program).unwrap();
    let start = 2 * PAGE_BYTES;
    let part = |place: u64, end: u64| {
        let start = start as u64 + place * 256;
        Range { start, end: start + end, function: place as u32 }
    };
    let symbols = Symbols {
        functions: ["outer", "inner", "leaf"].map(|name| Function::new(name, "/program")).to_vec(),
        files: vec![FileSymbols {
            parts: vec![part(0, 256), part(1, 256), part(2, 4)],
            pages: vec![(
                start as u64,
                page_hash(&contents[start..contents.len().min(start + PAGE_BYTES)]),
            )],
            ..FileSymbols::default()
        }],
        ..Symbols::default()
    };
    let symbols = emulator.file("symbols", &symbols.encode());
    let run = emulator.run(&[&format!("symbols={symbols}")], &[&program]);
    let work = run.work();
    assert_eq!(
        paths(&work.profile),
        [
            "[unknown] 0 31",
            "[unknown]/outer 10 50",
            "[unknown]/outer/inner 10 40",
            "[unknown]/outer/inner/leaf 10 10",
            "[unknown]/outer/leaf 20 20",
        ]
    );
}
