//! A modelled core gets a program's real execution: every instruction once, with its accesses.

use crate::emulator::{Emulator, Run, USER, count};
use opcost_core_model::Core;
use opcost_record::Domain;
use opcost_record::emulation::RegionCost;
use opcost_record::metric::{
    CYCLE_PARTS, CYCLES_ERROR, CYCLES_SLICES, CYCLES_UNKNOWN, MODEL_CYCLES,
};

const PROLOGUE: &str = "
.macro START
 .byte 0x0f,0x1f,0x80,0x00,0x01,0x63,0x6f
.endm
.macro STOP
 .byte 0x0f,0x1f,0x80,0x00,0x02,0x63,0x6f
.endm
.macro EXIT
 mov $60,%eax
 xor %edi,%edi
 syscall
.endm
.globl _start
.bss
.balign 4096
buffer: .skip 8388608
.text
";

/// Assembles a program and runs it on a modelled core.
fn run(source: &str) -> Option<Run> {
    run_sliced(source, 1)
}

/// Assembles a program and runs it on a core that models one in `one_in` slices of instructions.
fn run_sliced(source: &str, one_in: u64) -> Option<Run> {
    let emulator = Emulator::find(USER)?;
    let program = emulator.build("program.S", &format!("{PROLOGUE}{source}"), &[])?;
    let core = emulator.file("core.toml", Core::shipped_text("zen4").unwrap().as_bytes());
    Some(emulator.run(&[&format!("cycles={core}"), &format!("one-in={one_in}")], &[&program]))
}

/// Returns the cycles of a program's region.
fn cycles(source: &str) -> Option<u64> {
    let run = run(source)?;
    Some(count(&run.work(), MODEL_CYCLES))
}

fn parts(work: &RegionCost) -> [u64; 5] {
    CYCLE_PARTS.map(|name| count(work, name))
}

/// Returns a loop of 1,000 turns with a body of ten instructions.
fn turns(body: &str) -> String {
    format!(
        "_start: mov $1000,%ecx\n START\n1: .rept 10\n {body}\n .endr\n dec %ecx\n jnz 1b\n STOP\n EXIT"
    )
}

#[test]
fn a_chain_waits_for_its_results_and_what_is_independent_does_not() {
    let Some(chain) = run(&turns("add $1,%rax")) else { return };
    let work = chain.work();
    let [issue, dependencies, branches, frontend, memory] = parts(&work);
    // Ten additions a turn, one cycle each; the remainder is the beginning.
    let chained = count(&work, MODEL_CYCLES);
    assert!((10_000..10_400).contains(&chained), "{chained}");
    assert!(dependencies > 9_000, "{dependencies}");
    assert_eq!(issue + dependencies + branches + frontend + memory, chained);
    assert_eq!(work.count(MODEL_CYCLES, Domain::User), Some(chained));
    assert_eq!(count(&work, CYCLES_UNKNOWN), 0);
    // At most four additions and one taken branch a cycle.
    let independent = cycles(&turns("mov $1,%eax")).unwrap();
    assert!(independent < 3_500, "{independent}");
    assert_eq!(count(&run(&turns("add $1,%rax")).unwrap().work(), MODEL_CYCLES), chained);
}

#[test]
fn cycles_stand_beside_the_contexts_that_spent_them() {
    let source = ".type f,@function\nf: .rept 50\n imul %rax,%rax\n .endr\n ret\n.size f,.-f
 .type _start,@function\n_start: START\n mov $100,%ebx\n1: call f\n dec %ebx\n jnz 1b\n STOP\n EXIT";
    let Some(run) = run(source) else { return };
    let work = run.work();
    let profile = &work.profile;
    assert_eq!(profile.cycles.len(), profile.contexts.len());
    let sum: u64 = profile.cycles.iter().flat_map(|cycles| &cycles[..5]).sum();
    assert_eq!(sum, count(&work, MODEL_CYCLES));
    // 100 calls of 50 multiplications of 3 cycles.
    assert!((15_000..15_600).contains(&sum), "{sum}");
}

/// Returns alternating phases of 150,000 instructions: a chain of additions, and loads of a new line each from 1 MiB.
fn phases(rounds: u64) -> String {
    format!(
        "_start: mov ${rounds},%ebx\n START\n0: mov $30000,%ecx
1: add $1,%rax\n add $1,%rax\n add $1,%rax\n dec %ecx\n jnz 1b
 mov $30000,%ecx\n lea buffer(%rip),%rsi\n2: imul $12345,%edx\n add $6789,%edx\n mov %edx,%edi
 and $0xfffc0,%edi\n mov (%rsi,%rdi),%rax\n dec %ecx\n jnz 2b\n dec %ebx\n jnz 0b\n STOP\n EXIT"
    )
}

#[test]
fn slices_stand_for_the_whole_within_their_error() {
    let source = phases(60);
    let Some(whole) = run(&source) else { return };
    let (whole, sliced) = (whole.work(), run_sliced(&source, 16).unwrap().work());
    let [all, estimated] = [&whole, &sliced].map(|work| count(work, MODEL_CYCLES));
    assert_eq!(count(&whole, "instructions"), count(&sliced, "instructions"));
    let (slices, error) = (count(&sliced, CYCLES_SLICES), count(&sliced, CYCLES_ERROR));
    // Slices begin behind the first ten of 21 million instructions.
    assert!((150..300).contains(&slices), "{slices}");
    assert!(error > 0 && error < all / 10, "{error} of {all}");
    assert!(all.abs_diff(estimated) < 3 * error, "{all}, by slices {estimated} ± {error}");
    let contexts = sliced.profile.cycles.iter().flat_map(|cycles| &cycles[..5]);
    assert_eq!(contexts.sum::<u64>(), estimated);
    let again = run_sliced(&source, 16).unwrap().work();
    assert_eq!(count(&again, MODEL_CYCLES), estimated, "the same in every run");
    assert_eq!(whole.count(CYCLES_SLICES, Domain::User), None);
}

#[test]
fn what_is_short_is_modelled_whole() {
    let source = phases(2);
    let Some(whole) = run(&source) else { return };
    let sliced = run_sliced(&source, 16).unwrap().work();
    assert_eq!(count(&sliced, MODEL_CYCLES), count(&whole.work(), MODEL_CYCLES));
    assert_eq!((count(&sliced, CYCLES_SLICES), count(&sliced, CYCLES_ERROR)), (0, 0));
}

#[test]
fn loads_have_the_addresses_that_they_read() {
    // A chase through one line, and one through 64 KiB of lines, which L1 does not hold.
    let chase = |lines: u32| {
        format!(
            "_start: lea buffer(%rip),%rsi\n mov %rsi,%rdi\n mov ${lines},%ecx
1: lea 4096+64(%rdi),%rax\n cmp $1,%ecx\n cmove %rsi,%rax\n mov %rax,(%rdi)\n mov %rax,%rdi\n dec %ecx\n jnz 1b
 mov $4000,%ecx\n mov %rsi,%rdi\n2: mov (%rdi),%rdi\n dec %ecx\n jnz 2b\n mov $4000,%ecx\n START
3: mov (%rdi),%rdi\n dec %ecx\n jnz 3b\n STOP\n EXIT"
        )
    };
    let (Some(near), Some(far)) = (run(&chase(1)), run(&chase(1000))) else { return };
    let (near, far) = (near.work(), far.work());
    let [one, many] = [&near, &far].map(|work| count(work, MODEL_CYCLES));
    assert!((16_000..17_000).contains(&one), "four cycles a load: {one}");
    assert!(many > 3 * one, "L1 does not hold them: {many}");
    assert!(parts(&far)[4] > many / 2, "{:?}", parts(&far));
    assert_eq!(count(&near, "instructions"), count(&far, "instructions"));
}

#[test]
fn a_string_instruction_is_executed_in_pieces_and_moves_lines() {
    let store = |bytes: u32| {
        format!(
            "_start: lea buffer(%rip),%rdi\n mov ${bytes},%ecx\n xor %eax,%eax\n rep stosb
 lea buffer(%rip),%rdi\n mov ${bytes},%ecx\n START\n rep stosb\n STOP\n EXIT"
        )
    };
    // 8 MiB are twice the number of kept accesses; a line takes some cycles, not 64 or more.
    let (Some(small), Some(large)) = (cycles(&store(1 << 16)), cycles(&store(1 << 23))) else {
        return;
    };
    let lines = |bytes: u64| bytes / 64;
    assert!(small < 16 * lines(1 << 16), "{small}");
    assert!(large > 100 * small && large < 64 * lines(1 << 23), "{large} and {small}");
}

#[test]
fn code_that_a_program_wrote_anew_is_decoded_anew() {
    // Ten nops become five chained additions of two bytes (add %eax,%eax), and back.
    let source = "_start: mov $10,%eax\n lea _start(%rip),%rdi\n and $-4096,%rdi\n mov $8192,%esi
 mov $7,%edx\n syscall\n mov $1,%eax\n lea 2f(%rip),%rsi\n mov $2,%ebp
1: START\n mov $2000,%ecx\n.balign 64\n2: .rept 10\n nop\n .endr\n dec %ecx\n jnz 2b\n STOP
 .byte 0x0f,0x1f,0x80,0x00,0x03,0x63,0x6f
 movabs $0xc001c001c001c001,%rax\n mov %rax,(%rsi)\n movw $0xc001,8(%rsi)\n dec %ebp\n jnz 1b\n EXIT";
    let Some(run) = run(source) else { return };
    let works = run.works();
    let [nops, chain] = [&works[0], &works[1]].map(|work| count(work, MODEL_CYCLES));
    assert!((9_500..11_000).contains(&chain), "five additions a turn: {chain}");
    assert!(nops < 5_000, "{nops}");
}

#[test]
fn what_makes_no_core_is_refused() {
    let Some(emulator) = Emulator::find(USER) else { return };
    let missing = emulator.run(&["cycles=/nonexistent/core"], &["/bin/true"]);
    assert!(
        missing.errors.contains("cannot read the core /nonexistent/core"),
        "{}",
        missing.errors
    );
    let text = Core::shipped_text("zen4").unwrap().replace("dispatch =", "dispach =");
    let wrong = emulator.file("core.toml", text.as_bytes());
    let refused = emulator.run(&[&format!("cycles={wrong}")], &["/bin/true"]);
    assert!(refused.errors.contains("dispach"), "{}", refused.errors);
    let both = emulator.run(&["model=/c", &format!("cycles={wrong}")], &["/bin/true"]);
    assert!(both.errors.contains("exclude one another"), "{}", both.errors);
}
