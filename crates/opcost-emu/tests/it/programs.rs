//! Programs in user mode, counted by hand, give the exact numbers.

use crate::emulator;
use crate::emulator::{Emulator, MODEL, USER, check, count, have, paths, skip};
use opcost_record::Domain;
use opcost_record::emulation::Emulation;
use opcost_record::profile::Profile;
use opcost_record::symbols::{FileSymbols, PAGE_BYTES, Range, Symbols, page_hash};

/// Assembler's macros: markers, and the end.
const PROLOGUE: &str = "
.macro START
 .byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f
.endm
.macro STOP
 .byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f
.endm
.macro RUN_END
 .byte 0x0f,0x1f,0x80,0x00,0x03,0x63,0x6f
.endm
.macro MARK number
 .byte 0x0f,0x1f,0x80,\\number,0x04,0x63,0x6f
.endm
.macro DIGITS byte
 MARK (\\byte&15)
 MARK (\\byte>>4)
.endm
.macro ENTER name
 MARK 0x10
 DIGITS \\name
 MARK 0x11
.endm
.macro LEAVE name, operations
 MARK 0x20
 DIGITS \\name
 MARK 0x21
 DIGITS \\operations
 MARK 0x22
.endm
.macro EXIT
 mov $60,%eax
 xor %edi,%edi
 syscall
.endm
.globl _start
.bss
.balign 4096
buffer: .skip 524288
.text
";

/// Calls in 64 stack slots in front of the program, from which the plugin learns where QEMU keeps the stack pointer.
const CALLS: &str = "
.type early,@function
early: mov $64,%ebx
1: push %rbx\n call 2f\n dec %ebx\n jnz 1b
 add $512,%rsp\n xor %ebx,%ebx\n jmp _start
2: ret
.size early,.-early
.globl early
";

/// Assembles a program and runs it: once as it is, where the plugin follows blocks by steps, and once behind [`CALLS`], where signals
/// tell where a block was cut, both also for totals alone. Counts between markers are the same.
fn run(source: &str, plugin_arguments: &[&str]) -> Option<emulator::Run> {
    let emulator = Emulator::find(USER)?;
    let program = emulator.build("program.S", &format!("{PROLOGUE}{source}"), &[])?;
    let run = emulator.run_with_totals(plugin_arguments, &[&program]);
    if !plugin_arguments.contains(&"window=whole") {
        let source = format!("{PROLOGUE}{source}\n.text\n{CALLS}");
        let program = emulator.build("program.S", &source, &["-Wl,-e,early"])?;
        let learned = emulator.run_with_totals(plugin_arguments, &[&program]);
        assert_eq!(learned.report, run.report);
    }
    Some(run)
}

#[test]
fn a_loop_between_markers() {
    let source =
        "_start: mov $7,%ecx\n START\n mov $1000,%ecx\n1: dec %ecx\n jnz 1b\n nop\n STOP\n EXIT";
    let Some(run) = run(source, &[MODEL]) else { return };
    let work = run.work();
    check(
        &work,
        &[
            ("instructions", 1 + 2 * 1000 + 1),
            ("instruction-starts", 2002),
            ("branches", 1000),
            ("conditional-branches", 1000),
            ("conditional-branches-taken", 999),
            ("loads", 0),
            ("stores", 0),
            ("string-iterations", 0),
            ("system-calls", 0),
        ],
    );
    assert_eq!(work.count("instructions", Domain::User), Some(2002));
    assert_eq!(work.count("instructions", Domain::Kernel), None, "there is no kernel to count");
    assert_eq!(work.count("page-faults", Domain::All), None);
}

#[test]
fn a_region_that_is_counted_twice_has_the_sum() {
    let source = "_start: mov $2,%ebx\n1: START\n nop\n nop\n STOP\n dec %ebx\n jnz 1b\n EXIT";
    let Some(run) = run(source, &[]) else { return };
    check(&run.work(), &[("instructions", 4)]);
}

#[test]
fn each_run_of_several_is_counted_by_itself() {
    // Three runs of 3, 2 and 1 turns; the second call in a run adds to the same region.
    let source = "FUNCTION turns\n1: dec %ecx\n jnz 1b\n ret\nEND turns
FUNCTION _start\n mov $3,%ebx
2: mov %ebx,%ecx\n START\n call turns\n STOP\n START\n nop\n STOP\n RUN_END\n dec %ebx\n jnz 2b
 EXIT\nEND _start";
    let Some(run) = profiled_with(source, &["addresses=on"]) else { return };
    let works = run.works();
    let counts: Vec<u64> = works.iter().map(|work| count(work, "instructions")).collect();
    assert_eq!(counts, [9, 7, 5]);
    for (work, turns) in works.iter().zip([3, 2, 1]) {
        let expected = ["_start 0 2".to_string(), format!("_start/turns 1 {}", 2 * turns + 1)];
        assert_eq!(paths(&work.profile), expected);
        let costs: Vec<u64> = work.profile.addresses.iter().map(|one| one.cost).collect();
        assert_eq!(costs, [1, 1, turns, turns, 1]);
    }
}

#[test]
fn a_program_that_changes_its_own_code_between_runs_is_counted_as_it_is() {
    // mprotect of the program's code; then two nops become a jump to the next instruction, and two nops again.
    let source = "_start: mov $10,%eax\n lea _start(%rip),%rdi\n and $-4096,%rdi\n mov $4096,%esi
 mov $7,%edx\n syscall\n mov $3,%ebx
1: mov $5,%ecx\n START\n2: nop\n nop\n dec %ecx\n jnz 2b\n STOP\n RUN_END
 xorw $0x907b,2b(%rip)\n dec %ebx\n jnz 1b\n EXIT";
    let Some(run) = run(source, &[]) else { return };
    let figures = ["instructions", "branches"];
    let counts = run.works().into_iter().map(|work| figures.map(|name| count(&work, name)));
    assert_eq!(counts.collect::<Vec<_>>(), [[20, 5], [15, 10], [20, 5]]);
}

#[test]
fn a_store_into_its_own_block_counts_once() {
    // After mprotect the store changes the operand of the next instruction, in each of five turns.
    let source = "_start: mov $10,%eax\n lea _start(%rip),%rdi\n and $-4096,%rdi\n mov $4096,%esi
 mov $7,%edx\n syscall\n mov $5,%ecx\n START
1: nop\n movb $7,3f+1(%rip)\n2: nop\n3: mov $1,%eax\n dec %ecx\n jnz 1b\n STOP\n EXIT";
    let Some(run) = run(source, &[]) else { return };
    check(&run.work(), &[("instructions", 5 * 6), ("stores", 5), ("branches", 5)]);
}

#[test]
fn code_on_two_pages_that_is_written_in_turns_or_by_itself_counts_once() {
    // In each of three turns code of four instructions is written, made executable and called.
    let protect = |protection| {
        format!(
            "mov $10,%eax\n lea buffer(%rip),%rdi\n mov $8192,%esi\n mov ${protection},%edx\n syscall\n"
        )
    };
    let source = format!(
        "_start: mov $3,%ebx\n lea buffer+4092(%rip),%rbp\n START
1: {} movl $0x00b89090,(%rbp)\n movl $0xc3000000,4(%rbp)\n {} call *%rbp\n dec %ebx\n jnz 1b\n STOP\n EXIT",
        protect(3),
        protect(5)
    );
    let Some(by_turns) = run(&source, &[]) else { return };
    check(&by_turns.work(), &[("instructions", 3 * (5 + 2 + 5 + 1 + 4 + 2)), ("stores", 3 * 3)]);
    // The store stands on two pages and writes to itself.
    let source = "_start: mov $10,%eax\n lea own(%rip),%rdi\n and $-4096,%rdi\n mov $8192,%esi\n mov $7,%edx\n syscall
 mov $5,%ebx\n START\n1: call own\n dec %ebx\n jnz 1b\n STOP\n EXIT
.data\n.balign 4096\n.skip 4092\nown: nop\n2: movb $7,2b+6(%rip)\n nop\n ret\n.balign 4096";
    let Some(own) = run(source, &[]) else { return };
    check(&own.work(), &[("instructions", 5 * (1 + 4 + 2)), ("stores", 5 * 2)]);
}

#[test]
fn a_whole_life_is_counted() {
    let Some(run) = run("_start: nop\n START\n nop\n EXIT", &["window=whole"]) else { return };
    check(&run.work(), &[("instructions", 6), ("system-calls", 1)]);
}

#[test]
fn memory_operands() {
    let source = "_start: lea buffer(%rip),%rdi\n START
 mov (%rdi),%rax
 mov %rax,(%rdi)
 incq (%rdi)
 push (%rdi)
 pop 8(%rdi)
 lea 8(%rdi),%rax
 movsb
 movdqu (%rdi),%xmm0
 STOP\n EXIT";
    let Some(run) = run(&source.replace("movsb", "mov %rdi,%rsi\n movsb"), &[]) else { return };
    // Loads: mov, inc, push, pop, movsb, movdqu; stores: mov, inc, push, pop, movsb.
    check(&run.work(), &[("instructions", 9), ("loads", 6), ("stores", 5)]);
}

#[test]
fn repeated_string_instructions_back_to_back() {
    let source = "_start: lea buffer(%rip),%rdi\n lea buffer(%rip),%rsi\n START
 mov $5,%ecx
 rep movsb
 rep stosb
 rep lodsb
 mov $3,%ecx
 rep stosq
 jmp 1f
1: mov $2,%ecx
 rep movsq
 STOP\n EXIT";
    let Some(run) = run(source, &[]) else { return };
    check(
        &run.work(),
        &[
            ("instructions", 9),
            ("string-iterations", 5 + 3 + 2),
            ("instruction-starts", 4 + 6 + 1 + 1 + 4 + 3),
            ("loads", 7),
            ("stores", 10),
        ],
    );
}

/// A handler that makes the faulting page accessible and returns to try again.
const HANDLER: &str = "
handler:                    # 9 instructions each time, and 2 of the restorer
 mov 16(%rsi),%rdi
 and $-4096,%rdi
 mov $4096,%esi
 mov $3,%edx
 mov $10,%eax
 syscall
 incl faults(%rip)
 nop
 ret
restorer: mov $15,%eax
 syscall
.data
faults: .long 0
.balign 8
action: .quad handler, 0x04000004, restorer, 0
.text
.macro CATCH                # rt_sigaction(SIGSEGV), mprotect(buffer, 4 pages, none)
 mov $13,%eax
 mov $11,%edi
 lea action(%rip),%rsi
 xor %edx,%edx
 mov $8,%r10d
 syscall
.endm
.macro PROTECT
 mov $10,%eax
 lea buffer(%rip),%rdi
 mov $16384,%esi
 xor %edx,%edx
 syscall
.endm
";

#[test]
fn a_faulting_instruction_counts_once() {
    let source = format!(
        "{HANDLER}_start: CATCH\n PROTECT\n lea buffer(%rip),%rbx\n START
 nop
 mov %rax,(%rbx)            # faults
 mov %rax,8(%rbx)
 nop
 push %rax
 mov 4096(%rbx),%rax        # faults
 pop %rcx
 incl 8192(%rbx)            # faults
 STOP\n EXIT"
    );
    let Some(run) = run(&source, &[]) else { return };
    check(
        &run.work(),
        &[
            ("instructions", 8 + 3 * 11),
            ("instruction-starts", 8 + 3 + 3 * 11),
            // mov, pop, inc; in the handler mov, inc and ret.
            ("loads", 3 + 3 * 3),
            // mov, mov, push, inc; in the handler inc.
            ("stores", 4 + 3),
            ("system-calls", 3 * 2),
        ],
    );
}

#[test]
fn a_signal_from_outside_is_no_fault() {
    // A timer's SIGSEGV comes between two blocks of a loop whose first instruction may fault. The program writes the number of turns.
    let source = "
tick: incl ticks(%rip)
 ret
restorer: mov $15,%eax
 syscall
_start: mov $13,%eax\n mov $11,%edi\n lea action(%rip),%rsi\n xor %edx,%edx\n mov $8,%r10d\n syscall
 mov $222,%eax\n mov $1,%edi\n lea event(%rip),%rsi\n lea timer(%rip),%rdx\n syscall
 mov $223,%eax\n mov timer(%rip),%edi\n xor %esi,%esi\n lea times(%rip),%rdx\n xor %r10d,%r10d\n syscall
 xor %ebx,%ebx\n START
1: mov ticks(%rip),%eax
 inc %ebx
 cmp $20,%eax
 jb 1b
 STOP
 mov $223,%eax\n mov timer(%rip),%edi\n lea never(%rip),%rdx\n syscall
 mov $8,%ecx\n lea buffer+8(%rip),%rdi
2: dec %rdi\n mov %ebx,%eax\n and $15,%eax\n add $97,%eax\n mov %al,(%rdi)\n shr $4,%ebx\n dec %ecx\n jnz 2b
 mov $1,%eax\n mov $1,%edi\n lea buffer(%rip),%rsi\n mov $8,%edx\n syscall
 EXIT
.data
.balign 8
action: .quad tick, 0x04000004, restorer, 0
event: .quad 0\n .long 11, 0\n .skip 48
times: .quad 0, 2000000, 0, 2000000
never: .quad 0, 0, 0, 0
timer: .long 0
ticks: .long 0
";
    let Some(emulator) = Emulator::find(USER) else { return };
    let source = format!("{PROLOGUE}{source}\n.text\n{CALLS}");
    let Some(program) = emulator.build("program.S", &source, &["-Wl,-e,early"]) else { return };
    for arguments in [&[][..], &["profile=off"]] {
        let run = emulator.run(arguments, &[&program]);
        let turns =
            run.output.bytes().fold(0, |turns, letter| 16 * turns + u64::from(letter - b'a'));
        assert!(turns > 20, "{} {}", run.output, run.errors);
        // The handler's two instructions and the restorer's; its store tells how often.
        let work = run.work();
        let signals = count(&work, "stores");
        assert!(signals >= 20, "{signals}");
        check(&work, &[("instructions", 4 * (turns + signals)), ("loads", turns + 2 * signals)]);
    }
}

#[test]
fn a_string_instruction_that_a_timer_interrupts_for_good_never_retires() {
    // The handler sets the timer again unless the string instruction was interrupted.
    let source = "
alarm: lea 1f(%rip),%rax
 cmp %rax,168(%rdx)
 jne 3f
 lea 2f(%rip),%rax
 mov %rax,168(%rdx)
 ret
3: mov $38,%eax\n xor %edi,%edi\n lea time(%rip),%rsi\n xor %edx,%edx\n syscall\n ret
restorer: mov $15,%eax
 syscall
_start: mov $9,%eax\n xor %edi,%edi\n mov $1<<30,%esi\n mov $1,%edx\n mov $0x4022,%r10d\n mov $-1,%r8\n xor %r9d,%r9d
 syscall\n mov %rax,%rbx
 mov $13,%eax\n mov $14,%edi\n lea action(%rip),%rsi\n xor %edx,%edx\n mov $8,%r10d\n syscall
 mov $38,%eax\n xor %edi,%edi\n lea time(%rip),%rsi\n xor %edx,%edx\n syscall
 mov %rbx,%rsi\n mov $1<<30,%ecx
 START
1: rep lodsb
2: nop
 STOP
 EXIT
.data
.balign 8
action: .quad alarm, 0x04000004, restorer, 0
time: .quad 0, 0, 0, 20000
";
    let Some(emulator) = Emulator::find(USER) else { return };
    for (more, options) in [(CALLS, &["-Wl,-e,early"][..]), ("", &[])] {
        let source = format!("{PROLOGUE}{source}\n.text\n{more}");
        let Some(program) = emulator.build("program.S", &source, options) else { return };
        for arguments in [&[][..], &["profile=off"]] {
            let run = emulator.run(arguments, &[&program]);
            // The nop, the handler's six instructions and the restorer's two.
            check(&run.work(), &[("instructions", 1 + 6 + 2), ("stores", 1)]);
        }
    }
}

#[test]
fn a_locked_instruction_of_shared_memory_counts_once() {
    // The operand crosses eight bytes, so QEMU executes the instruction by itself.
    let source = "_start: mov $9,%eax\n xor %edi,%edi\n mov $4096,%esi\n mov $3,%edx\n mov $0x21,%r10d\n mov $-1,%r8
 xor %r9d,%r9d\n syscall\n mov %rax,%rbx\n START
 nop\n lock incl 5(%rbx)\n nop\n STOP\n EXIT";
    let Some(run) = run(source, &[]) else { return };
    check(&run.work(), &[("instructions", 3), ("loads", 1), ("stores", 1)]);
}

#[test]
fn a_handler_that_is_a_loop_settles_its_fault_once() {
    let source = format!(
        "{HANDLER}skip: decl turns(%rip)\n jnz skip\n movl $3,turns(%rip)\n addq $3,168(%rdx)\n ret
_start: mov $13,%eax\n mov $11,%edi\n lea other(%rip),%rsi\n xor %edx,%edx\n mov $8,%r10d\n syscall
 PROTECT\n lea buffer(%rip),%rbx\n mov $4,%ecx\n START
1: nop\n mov (%rbx),%rax\n nop\n nop\n dec %ecx\n jnz 1b\n STOP\n EXIT
.data\n.balign 8\nother: .quad skip, 0x04000004, restorer, 0\nturns: .long 3"
    );
    let Some(run) = run(&source, &[]) else { return };
    check(&run.work(), &[("instructions", 4 * (5 + 9 + 2)), ("branches", 4 * (1 + 4 + 1))]);
}

#[test]
fn a_handler_that_is_not_told_the_cause_is_counted_too() {
    // Without SA_SIGINFO the frame has no cause; the stack's contents decide nothing.
    let source = format!(
        "{HANDLER}skip: addq $3,168(%rdx)\n ret
_start: mov $13,%eax\n mov $11,%edi\n lea other(%rip),%rsi\n xor %edx,%edx\n mov $8,%r10d\n syscall
 PROTECT\n lea buffer(%rip),%rbx
 mov $4,%edx\n START
1: lea -4096(%rsp),%rdi\n mov $512,%ecx\n xor %eax,%eax\n rep stosq
 nop\n mov (%rbx),%rax\n nop\n nop\n dec %edx\n jnz 1b\n STOP\n EXIT
.data\n.balign 8\nother: .quad skip, 0x04000000, restorer, 0"
    );
    let Some(run) = run(&source, &[]) else { return };
    check(&run.work(), &[("instructions", 4 * (4 + 5 + 2 + 2)), ("string-iterations", 4 * 512)]);
}

#[test]
fn a_fetch_that_faults_begins_nothing() {
    // The load stands on two pages; the second is taken away behind the first of three calls, and the handler gives it back.
    let source = format!(
        "{HANDLER}_start: CATCH\n mov $3,%ebx\n START
1: call cross\n mov $10,%eax\n lea cross+2(%rip),%rdi\n mov $4096,%esi\n mov $1,%edx\n syscall
 dec %ebx\n jnz 1b\n STOP\n EXIT
.balign 4096\n.skip 4094\ncross: mov 0x100(%rsp),%rax\n ret"
    )
    // The handler makes the page of the address that faulted executable.
    .replace(" mov $3,%edx\n mov $10", " mov $5,%edx\n mov $10");
    let Some(run) = run(&source, &[]) else { return };
    check(&run.work(), &[("instructions", 3 * (1 + 2 + 5 + 2) + 2 * 11), ("loads", 3 * 2 + 2 * 3)]);
}

#[test]
fn cuts_are_followed_from_within_a_region() {
    // In the region: a handler, a fault, repeated string instructions, writable code that stores into itself, shared memory.
    let source = format!(
        "{HANDLER}_start: PROTECT\n lea buffer(%rip),%rbx\n START
 lea buffer+32768(%rip),%rdi\n mov $5,%ecx\n rep stosb
 CATCH                      # 6
 lea buffer+32768(%rip),%rdi\n mov $7,%ecx\n rep stosb
 nop\n mov %rax,(%rbx)\n nop # faults
 STOP\n EXIT"
    );
    let Some(fault) = run(&source, &[]) else { return };
    check(
        &fault.work(),
        &[("instructions", 3 + 6 + 3 + 3 + 11), ("string-iterations", 12), ("stores", 12 + 1 + 1)],
    );
    for (call, sum) in [
        // mprotect of the program's code, and mmap of shared memory.
        (
            "mov $10,%eax\n lea _start(%rip),%rdi\n and $-4096,%rdi\n mov $4096,%esi\n mov $7,%edx\n syscall",
            6,
        ),
        (
            "mov $9,%eax\n xor %edi,%edi\n mov $4096,%esi\n mov $3,%edx\n mov $0x21,%r10d\n mov $-1,%r8\n xor %r9d,%r9d\n syscall",
            8,
        ),
    ] {
        let store = if sum == 6 { "movb $7,3f+1(%rip)" } else { "lock incl 5(%rbx)" };
        let source = format!(
            "_start: lea buffer(%rip),%rbx\n START
 mov %rbx,%rdi\n mov $5,%ecx\n rep stosb
 {call}
 mov %rbx,%rdi\n mov $7,%ecx\n rep stosb
 mov $5,%ecx
1: nop\n {store}\n2: nop\n3: mov $1,%eax\n dec %ecx\n jnz 1b
 STOP\n EXIT"
        );
        let Some(run) = run(&source, &[]) else { return };
        let expected = [("instructions", 3 + sum + 3 + 1 + 5 * 6), ("stores", 12 + 5)];
        check(&run.work(), &expected);
    }
}

#[test]
fn totals_that_cannot_be_settled_are_an_error() {
    let Some(emulator) = Emulator::find(USER) else { return };
    let caught = format!("{PROLOGUE}{HANDLER}_start: CATCH\n lea buffer(%rip),%rbx\n START\n");
    let fault = "PROTECT\n mov (%rbx),%rax\n";
    // Two blocks of 512 instructions, one of which begins behind the other's first; and a handler behind a fault.
    let ends = " call 1f\n call 2f\n PROTECT\n call 1f\n STOP\n EXIT
.balign 4096\n1: nop\n2: .rept 100\n nop\n .endr\n mov (%rbx),%rax\n .rept 600\n nop\n .endr\n ret";
    let later = " mov $13,%eax\n mov $5,%edi\n lea action(%rip),%rsi\n xor %edx,%edx\n mov $8,%r10d\n syscall\n STOP\n EXIT";
    for (rest, message) in [
        (ends.to_string(), "blocks of code that contain it end differently"),
        (format!("{fault}{later}"), "the program handled a fault, and later"),
    ] {
        let Some(program) = emulator.build("program.S", &format!("{caught}{rest}"), &[]) else {
            return;
        };
        emulator.run(&[], &[&program]).work();
        let error = emulator.run(&["profile=off"], &[&program]).error();
        assert!(error.contains(message) && error.contains("count with functions"), "{error}");
    }
}

#[test]
fn a_call_that_faults_counts_once() {
    let source = format!(
        "{HANDLER}f: ret\n_start: CATCH\n PROTECT\n lea buffer+8192(%rip),%rbx
 mov $131,%eax\n lea alternate(%rip),%rdi\n xor %esi,%esi\n syscall
 mov %rsp,%rbp\n mov %rbx,%rsp\n START
 nop
 call f                     # faults
 nop
 STOP\n mov %rbp,%rsp\n EXIT
.data\n.balign 16\nstack: .skip 65536\nalternate: .quad stack, 0, 65536"
    );
    // SA_ONSTACK beside SA_RESTORER and SA_SIGINFO.
    let source = source.replace("0x04000004", "0x0c000004");
    let Some(run) = run(&source, &[]) else { return };
    check(&run.work(), &[("instructions", 4 + 11), ("instruction-starts", 5 + 11)]);
}

#[test]
fn faults_between_the_iterations_of_a_string_instruction() {
    let source = format!(
        "{HANDLER}_start: CATCH\n PROTECT\n lea buffer(%rip),%rdi\n START
 mov $10000,%ecx
 rep stosb                  # faults on three pages
 nop
 STOP\n EXIT"
    );
    let Some(run) = run(&source, &[]) else { return };
    check(
        &run.work(),
        &[
            ("instructions", 3 + 3 * 11),
            ("string-iterations", 10_000),
            ("instruction-starts", 2 + 10_001 + 3 + 3 * 11),
            ("stores", 10_000 + 3),
        ],
    );
}

#[test]
fn an_undefined_instruction_never_retires() {
    let source = format!(
        "{HANDLER}skip: addq $2,168(%rdx)\n ret\n_start:
 mov $13,%eax\n mov $4,%edi\n lea other(%rip),%rsi\n xor %edx,%edx\n mov $8,%r10d\n syscall
 START\n nop\n ud2\n nop\n STOP\n EXIT
.data\n.balign 8\nother: .quad skip, 0x04000004, restorer, 0"
    );
    let Some(run) = run(&source, &[]) else { return };
    check(&run.work(), &[("instructions", 2 + 2 + 2), ("instruction-starts", 2 + 1 + 4)]);
}

/// A handler that resumes behind the instruction; `step` holds the instruction's length.
const SKIP: &str = "skip: mov step(%rip),%rax\n add %rax,168(%rdx)\n ret
.macro SKIPPED signal
 mov $13,%eax\n mov $\\signal,%edi\n lea other(%rip),%rsi\n xor %edx,%edx\n mov $8,%r10d\n syscall
.endm
.data\n.balign 8\nother: .quad skip, 0x04000004, restorer, 0\nstep: .quad 0\n.text\n";

#[test]
fn instructions_that_a_program_may_not_execute_never_retire() {
    for (code, bytes) in [("hlt", 1), ("int $0x30", 2), (".byte 0x0f,0x01,0xc1", 3)] {
        let source = format!(
            "{HANDLER}{SKIP}_start: SKIPPED 11\n SKIPPED 4\n movq ${bytes},step(%rip)
 START\n nop\n {code}\n nop\n STOP\n EXIT"
        );
        let Some(run) = run(&source, &[]) else { return };
        // Two nops, the handler's three instructions, and two of the code to which the handler returns.
        let expected = [("instructions", 2 + 3 + 2), ("instruction-starts", 2 + 1 + 3 + 2)];
        check(&run.work(), &expected);
    }
}

#[test]
fn a_string_instruction_whose_handler_goes_on_behind_it_never_retires() {
    let source = format!(
        "{HANDLER}{SKIP}_start: SKIPPED 11\n movq $2,step(%rip)\n PROTECT\n lea buffer(%rip),%rdi
 START
 mov $100,%ecx
 rep stosb                  # faults at once
 nop
 STOP\n EXIT"
    );
    let Some(run) = run(&source, &[]) else { return };
    check(
        &run.work(),
        &[
            ("instructions", 2 + 3 + 2),
            ("string-iterations", 0),
            ("instruction-starts", 2 + 1 + 3 + 2),
        ],
    );
}

#[test]
fn a_string_instruction_is_skipped_as_often_as_its_handler_skips_it() {
    let source = format!(
        "{HANDLER}{SKIP}_start: SKIPPED 11\n movq $2,step(%rip)\n PROTECT\n mov $5,%ebx
 START
1: lea buffer(%rip),%rdi
 mov $100,%ecx
 rep stosb                  # faults at once, each time
 dec %ebx
 jnz 1b
 STOP\n EXIT"
    );
    let Some(run) = run(&source, &[]) else { return };
    check(
        &run.work(),
        &[
            ("instructions", 5 * (4 + 3 + 2)),
            ("string-iterations", 0),
            ("instruction-starts", 5 * (5 + 3 + 2)),
        ],
    );
}

/// Returns symbols for the functions of a program, by `nm`.
fn symbols(emulator: &Emulator, program: &str) -> Option<String> {
    if !have("nm") {
        skip("nm is not installed");
        return None;
    }
    let run =
        std::process::Command::new("nm").args(["-n", "-f", "sysv", program]).output().unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let bytes = std::fs::read(program).unwrap();
    // The text of these programs is loaded at 0x401000 from offset 0x1000.
    const BASE: u64 = 0x40_0000;
    let mut file = FileSymbols::default();
    let mut functions = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [name, address, _, "FUNC", size, ..] = fields[..] else { continue };
        let start = u64::from_str_radix(address, 16).unwrap() - BASE;
        let size = u64::from_str_radix(size, 16).unwrap();
        let function = functions.len() as u32;
        functions.push(opcost_record::Function::new(name, "program"));
        file.parts.push(Range { start, end: start + size, function });
    }
    let page = &bytes[PAGE_BYTES..bytes.len().min(2 * PAGE_BYTES)];
    file.pages.push((PAGE_BYTES as u64, page_hash(page)));
    let symbols = Symbols { functions, files: vec![file], ..Symbols::default() };
    Some(emulator.file("symbols", &symbols.encode()))
}

/// Returns the contexts with the names of their functions.
fn named(profile: &Profile) -> impl Iterator<Item = (Option<u32>, &str, u64, u64)> {
    let name = |function: u32| profile.functions[function as usize].symbol.as_str();
    profile.contexts.iter().map(move |one| (one.parent, name(one.function), one.calls, one.cost))
}

/// Runs a program with symbols and returns the contexts as lines.
fn contexts(source: &str) -> Option<Vec<String>> {
    Some(paths(&profiled(source)?.work().profile))
}

/// Runs a program with symbols.
fn profiled(source: &str) -> Option<emulator::Run> {
    profiled_with(source, &[])
}

/// Does the same with further arguments of the plugin.
pub(crate) fn profiled_with(source: &str, arguments: &[&str]) -> Option<emulator::Run> {
    let emulator = Emulator::find(USER)?;
    let source = format!(
        ".macro FUNCTION name\n.type \\name,@function\n\\name:\n.endm
.macro END name\n.size \\name,.-\\name\n.endm\n{PROLOGUE}{source}"
    );
    // Zeros behind the code on its page, as the file has them.
    let run = |source: &str, options: &[&str], arguments: &[&str]| {
        let options = [&["-Wl,-z,separate-code"], options].concat();
        let program = emulator.build("program.S", source, &options)?;
        let symbols = format!("symbols={}", symbols(&emulator, &program)?);
        Some(emulator.run(&[&[symbols.as_str()], arguments].concat(), &[&program]))
    };
    let learned = run(&format!("{source}\n.text\n{CALLS}"), &["-Wl,-e,early"], arguments)?;
    let without_stubs = run(&source, &[], &[arguments, &["stubs=off"]].concat())?;
    let run = run(&source, &[], arguments)?;
    assert_eq!(without_stubs.report, run.report);
    if Emulation::decode(&run.report).is_ok() && !arguments.contains(&"window=whole") {
        for (first, again) in run.works().iter().zip(learned.works()) {
            assert_eq!(again.counts, first.counts);
            // A full tree has less room behind the calls.
            let full = first.profile.contexts.len() > 1 << 19;
            assert!(full || named(&again.profile).eq(named(&first.profile)));
        }
    }
    Some(run)
}

#[test]
fn branches_and_indirect_calls_are_counted_by_target() {
    // In ten turns: two functions by turns, a branch that skips every other nop, and a string instruction behind a branch that is
    // never taken.
    let source = "FUNCTION leaf\n ret\nEND leaf\nFUNCTION other\n ret\nEND other
FUNCTION _start\n lea buffer(%rip),%rdi\n START\n mov $10,%ebx\n lea leaf(%rip),%rax\n lea other(%rip),%rdx
1: call *%rax\n xchg %rax,%rdx\n test $1,%bl\n jz 2f\n nop
2: mov $3,%ecx\n test %ecx,%ecx\n jz 3f\n rep stosb
3: lea 4f(%rip),%rsi\n jmp *%rsi
4: dec %ebx\n jnz 1b\n STOP\n EXIT\nEND _start";
    let Some(run) = profiled_with(source, &["addresses=on"]) else { return };
    let Some(plain) = profiled(source) else { return };
    let (work, plain) = (run.work(), plain.work());
    assert_eq!(work.counts, plain.counts);
    let profile = &work.profile;
    let name = |function: u32| profile.functions[function as usize].symbol.as_str();
    let of_start: Vec<_> =
        profile.addresses.iter().filter(|one| name(one.function) == "_start").collect();
    let costs: Vec<u64> = of_start.iter().map(|one| one.cost).collect();
    assert_eq!(costs, [1, 1, 1, 10, 10, 10, 10, 5, 10, 10, 10, 10, 10, 10, 10, 10]);
    assert!(of_start.iter().all(|one| one.executions == one.cost), "{of_start:?}");
    // The place of an instruction among those of `_start`, or another function.
    let place = |(function, address): (u32, u64)| match of_start
        .iter()
        .position(|one| one.address == address)
    {
        Some(place) => place.to_string(),
        None => name(function).to_string(),
    };
    let mut went: Vec<(String, String, u64)> =
        profile.transfers.iter().map(|one| (place(one.from), place(one.to), one.times)).collect();
    let mut expected =
        [("3", "leaf", 5), ("3", "other", 5), ("6", "8", 5), ("13", "14", 10), ("15", "3", 9)]
            .map(|(from, to, times)| (from.to_string(), to.to_string(), times));
    went.sort();
    expected.sort();
    assert_eq!(went, expected);
}

#[test]
fn calls_returns_and_recursion() {
    let source = "FUNCTION leaf\n nop\n ret\nEND leaf
FUNCTION down\n dec %edi\n jz 1f\n call down\n1: ret\nEND down
FUNCTION _start\n START\n call leaf\n call leaf\n mov $3,%edi\n call down\n STOP\n EXIT\nEND _start";
    let Some(contexts) = contexts(source) else { return };
    assert_eq!(
        contexts,
        [
            "_start 0 4",
            "_start/down 1 4",
            "_start/down/down 1 4",
            "_start/down/down/down 1 3",
            "_start/leaf 2 4",
        ]
    );
}

#[test]
fn recursion_a_million_deep_is_bounded_and_returns_to_its_caller() {
    let source = "FUNCTION down\n dec %edi\n jz 1f\n call down\n1: ret\nEND down
FUNCTION leaf\n nop\n ret\nEND leaf
FUNCTION _start\n START\n lea deep+16777216(%rip),%rsp\n call leaf\n mov $1500000,%edi\n call down
 call leaf\n nop\n STOP\n EXIT\nEND _start
.bss\n.balign 16\ndeep: .skip 16777216";
    let Some(run) = profiled(source) else { return };
    let work = run.work();
    check(&work, &[("instructions", 6 + 1_500_000 * 4 - 1 + 4)]);
    let profile = &work.profile;
    // The tree ends at 2^20 nodes; one context gets the remaining cost.
    assert!(profile.contexts.len() <= 1 << 20, "{}", profile.contexts.len());
    let cost = |symbol: &str| -> u64 {
        let of = |context: &&opcost_record::Context| {
            profile.functions[context.function as usize].symbol == symbol
        };
        profile.contexts.iter().filter(of).map(|context| context.cost).sum()
    };
    assert!(cost("[other contexts]") > 0);
    assert_eq!(cost("down") + cost("[other contexts]"), 1_500_000 * 4 - 1);
    assert_eq!((cost("_start"), cost("leaf")), (6, 4));
    // Functions called after the recursion have the same callers as without the recursion.
    let name = |number: u32| {
        profile.functions[profile.contexts[number as usize].function as usize].symbol.as_str()
    };
    let places = |symbol: &str| -> Vec<Option<&str>> {
        let numbers = 0..profile.contexts.len() as u32;
        let of = numbers.filter(|number| name(*number) == symbol);
        of.map(|number| profile.contexts[number as usize].parent.map(name)).collect()
    };
    assert_eq!(places("_start"), [None]);
    assert_eq!(places("leaf"), [Some("_start")]);
}

#[test]
fn tail_calls_stand_beside_their_callers() {
    let source = "FUNCTION second\n nop\n ret\nEND second
FUNCTION first\n nop\n jmp second\nEND first
FUNCTION _start\n START\n call first\n nop\n STOP\n EXIT\nEND _start";
    let Some(contexts) = contexts(source) else { return };
    assert_eq!(contexts, ["_start 0 2", "_start/first 1 2", "_start/second 1 2"]);
}

#[test]
fn a_retpoline_calls_what_it_returns_to() {
    let source = "FUNCTION target\n nop\n ret\nEND target
FUNCTION thunk\n call 1f\n2: pause\n jmp 2b\n1: mov %rax,(%rsp)\n ret\nEND thunk
FUNCTION _start\n START\n lea target(%rip),%rax\n call thunk\n nop\n STOP\n EXIT\nEND _start";
    let Some(contexts) = contexts(source) else { return };
    assert_eq!(contexts, ["_start 0 3", "_start/target 1 2", "_start/thunk 1 3"]);
}

#[test]
fn a_retpoline_that_returns_safely_calls_what_it_returns_to() {
    // As Linux returns on CPUs with the fault SRSO: through a function that skips its own return address.
    let source = "FUNCTION target\n nop\n jmp goback\nEND target
FUNCTION safe\n lea 8(%rsp),%rsp\n ret\n int3\nEND safe
FUNCTION goback\n call safe\n ud2\nEND goback
FUNCTION thunk\n call 1f\n2: pause\n jmp 2b\n1: mov %rax,(%rsp)\n jmp goback\nEND thunk
FUNCTION _start\n START\n lea target(%rip),%rax\n call thunk\n nop\n STOP\n EXIT\nEND _start";
    let Some(contexts) = contexts(source) else { return };
    assert_eq!(
        contexts,
        [
            "_start 0 3",
            "_start/goback 2 2",
            "_start/goback/safe 2 4",
            "_start/target 1 2",
            "_start/thunk 1 3"
        ]
    );
}

#[test]
fn a_jump_out_of_nested_calls_finds_its_function() {
    let source = "FUNCTION inner\n mov %rbp,%rsp\n jmp *%rbx\nEND inner
FUNCTION outer\n call inner\n ret\nEND outer
FUNCTION _start\n START\n mov %rsp,%rbp\n lea 1f(%rip),%rbx\n call outer\n nop\n1: nop\n call outer\n STOP\n EXIT\nEND _start";
    let source =
        source.replace("call outer\n STOP", "lea 2f(%rip),%rbx\n call outer\n nop\n2: nop\n STOP");
    let Some(contexts) = contexts(&source) else { return };
    assert_eq!(contexts, ["_start 0 7", "_start/outer 2 2", "_start/outer/inner 2 4"]);
}

#[test]
fn what_cannot_be_counted_is_refused() {
    let child = "_start: START\n mov $57,%eax\n syscall\n STOP\n EXIT";
    let Some(child) = run(child, &[]) else { return };
    assert!(child.error().contains("child process") && child.error().contains("--kernel"));
    let flags = 0x50f00; // VM, FS, FILES, SIGHAND, THREAD, SYSVSEM
    let thread = format!(
        "_start: START\n mov $56,%eax\n mov ${flags},%edi\n lea buffer+8192(%rip),%rsi
 xor %edx,%edx\n xor %r10d,%r10d\n xor %r8d,%r8d\n syscall\n test %eax,%eax\n jz 2f
 mov $2000000,%ecx\n1: dec %ecx\n jnz 1b\n STOP\n mov $231,%eax\n xor %edi,%edi\n syscall
2: jmp 2b"
    );
    let Some(thread) = run(&thread, &[]) else { return };
    assert!(thread.error().contains("second thread"), "{}", thread.error());
    let replaced = "_start: START\n mov $59,%eax\n lea path(%rip),%rdi\n xor %esi,%esi\n xor %edx,%edx\n syscall\n STOP\n EXIT\npath: .asciz \"/bin/true\"";
    let Some(replaced) = run(replaced, &[]) else { return };
    assert!(replaced.error().contains("execve"), "{}", replaced.error());
}

#[test]
fn an_execve_that_fails_is_no_reason() {
    let source = "_start: START\n mov $59,%eax\n lea path(%rip),%rdi\n xor %esi,%esi\n xor %edx,%edx\n syscall\n STOP\n EXIT\npath: .asciz \"/no/such\"";
    let Some(run) = run(source, &[]) else { return };
    check(&run.work(), &[("instructions", 5)]);
}

#[test]
fn markers_out_of_order_are_reported() {
    for (source, part) in [
        ("_start: EXIT", "no marker seen"),
        ("_start: START\n EXIT", "never stopped"),
        ("_start: STOP\n EXIT", "not started"),
        ("_start: START\n START\n EXIT", "started twice"),
        ("_start: RUN_END\n EXIT", "no region was counted"),
        ("_start: START\n STOP\n RUN_END\n RUN_END\n EXIT", "no region was counted"),
        ("_start: START\n RUN_END\n STOP\n EXIT", "ended inside region 'work'"),
        ("_start: START\n STOP\n RUN_END\n START\n EXIT", "never stopped"),
        ("_start: START\n STOP\n RUN_END\n START\n STOP\n EXIT", "in the middle of a run"),
        ("_start: START\n .byte 0x0f,0x1f,0x80,0x01,0x01,0x63,0x6f\n EXIT", "inside region 'work'"),
    ] {
        let Some(run) = run(source, &[]) else { return };
        assert!(run.error().contains(part), "{source}: {}", run.error());
    }
}

#[test]
fn a_counted_program_cannot_open_or_close_its_own_region() {
    for source in [
        "_start: START\n STOP\n nop\n START\n STOP\n EXIT",
        "_start: START\n STOP\n nop\n STOP\n EXIT",
        "_start: START\n START\n STOP\n EXIT",
        "_start: START\n STOP\n RUN_END\n EXIT",
    ] {
        let Some(run) = run(source, &["once=on"]) else { return };
        assert!(run.error().contains("a marker of opcost's"), "{source}: {}", run.error());
    }
    let Some(run) = run("_start: START\n nop\n STOP\n EXIT", &["once=on"]) else { return };
    check(&run.work(), &[("instructions", 1)]);
}

#[test]
fn regions_of_the_program_are_counted_each_by_itself() {
    // Region a has 2 + 3 nops twice, region b has 4; marks do not count.
    let source = "_start: ENTER 'x'\n nop\n LEAVE 'x',0\n START\n mov $2,%ebx
1: ENTER 'a'\n nop\n nop\n ENTER 'b'\n nop\n nop\n nop\n nop\n LEAVE 'b',0\n nop\n nop\n nop\n LEAVE 'a',5
 dec %ebx\n jnz 1b\n STOP\n ENTER 'y'\n EXIT";
    let Some(run) = run(source, &["addresses=on"]) else { return };
    let emulation = run.regions();
    let names: Vec<&str> = emulation.iter().map(|region| region.region.as_str()).collect();
    assert_eq!(names, ["work", "a", "b"]);
    check(&emulation[1], &[("instructions", 18), ("region-entries", 2), ("region-ops", 10)]);
    check(&emulation[2], &[("instructions", 8), ("region-entries", 2)]);
    assert_eq!(emulation[2].count("region-ops", Domain::All), None);
    // The whole includes the marks: 4 instructions at each begin, 6 or 7 at each end.
    check(&emulation[0], &[("instructions", 1 + 2 * (9 + 2 * 4 + 2 * 7 + 2))]);
}

#[test]
fn regions_of_a_whole_program_are_counted() {
    let source = "_start: ENTER 'a'\n nop\n nop\n LEAVE 'a',0\n EXIT";
    let Some(run) = run(source, &["window=whole"]) else { return };
    check(&run.regions()[1], &[("instructions", 2), ("loads", 0), ("region-entries", 1)]);
}

#[test]
fn wrong_marks_of_a_program_are_reported() {
    for (source, part) in [
        ("LEAVE 'a',1", "region 'a' was ended, but it was not open"),
        ("ENTER 'a'\n ENTER 'a'", "region 'a' was begun again"),
        ("ENTER 'a'", "region 'a' was begun and never ended"),
        ("ENTER 'a'\n LEAVE 'a',1\n ENTER 'a'\n LEAVE 'a',0", "and also without"),
        ("MARK 0x10\n MARK 0x10", "at the same moment"),
        ("ENTER ' '", "a blank"),
        ("MARK 0x10\n MARK 0x11", "it is empty"),
        ("MARK 0x10\n .rept 201\n DIGITS 'a'\n .endr\n MARK 0x11", "longer than 200"),
    ] {
        let source = format!("_start: START\n {source}\n STOP\n EXIT");
        let Some(run) = run(&source, &[]) else { return };
        assert!(run.error().contains(part), "{source}: {}", run.error());
    }
}

#[test]
fn bad_arguments_are_refused_at_start() {
    for (argument, part) in [
        ("lunch=1", "unknown argument 'lunch=1'"),
        ("mode=system", "emulates one program"),
        ("symbols=/no/such/file", "cannot read symbols /no/such/file"),
        ("model=/no/such/file", "cannot read the core /no/such/file"),
    ] {
        let Some(run) = run("_start: EXIT", &[argument]) else { return };
        assert_ne!(run.status, Some(0));
        assert!(run.errors.contains(part), "{argument}: {}", run.errors);
        assert!(run.report.is_empty());
    }
}

#[test]
fn the_model_changes_no_count_and_runs_repeat() {
    // Each store has a page of its own, so that nothing is prefetched, and a set of the caches of its own.
    let source = ".balign 64\n_start: START\n mov $100,%ecx\n lea buffer(%rip),%rdi\n1: mov %rcx,(%rdi)\n add $4160,%rdi\n dec %ecx\n jnz 1b\n STOP\n EXIT";
    let Some(plain) = run(source, &[]) else { return };
    let Some(modelled) = run(source, &[MODEL]) else { return };
    let Some(again) = run(source, &[MODEL]) else { return };
    assert_eq!(modelled.report, again.report);
    let (plain, modelled) = (plain.work(), modelled.work());
    for (name, domain, value) in &plain.counts {
        assert_eq!(modelled.count(name, *domain), Some(*value), "{name}");
    }
    assert_eq!(plain.profile, modelled.profile);
    // The model begins cold at the marker; the code is one line.
    check(&modelled, &[("model-L1-dcache-misses", 100), ("model-L1-icache-misses", 1)]);
    check(&modelled, &[("model-LLC-misses", 101), ("conditional-branches-taken", 99)]);
}
