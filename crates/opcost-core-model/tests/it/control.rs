//! Branches, jumps, returns and entries into the kernel.

use crate::fixture::*;
use opcost_core_model::{Class, Code, Core, Cycles, Machine};

const START: u64 = 0x40_1000;

fn block(core: &Core, start: u64, codes: &[Bytes]) -> Code {
    let codes: Vec<&[u8]> = codes.iter().map(Vec::as_slice).collect();
    core.decode(start, &codes)
}

/// Executes a block whose branch goes on or behind; returns the cycles and mispredictions of the turns after `warm`.
fn branching(core: &Core, outcomes: &[bool], warm: usize) -> (Cycles, u64) {
    let code = block(core, START, &[cmp(RAX, RCX), jne()]);
    let mut machine = Machine::new(core);
    let mut cycles = Cycles::default();
    let mut missed = 0;
    for (turn, taken) in outcomes.iter().enumerate() {
        let next = if *taken { code.end() + 0x10 } else { code.end() };
        let before = machine.events().branch_misses;
        let took = machine.execute(&code, 0..2, &[], next);
        if turn >= warm {
            cycles += took;
            missed += machine.events().branch_misses - before;
        }
    }
    (cycles, missed)
}

fn random(count: usize) -> Vec<bool> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 33 & 1 == 1
    };
    (0..count).map(|_| draw()).collect()
}

/// Executes turns of a chain that each random branch waits for; returns cycles, and mispredictions whose restart is among them.
fn chained(core: &Core, chain: &[Bytes]) -> (Cycles, u64) {
    let mut codes = chain.to_vec();
    codes.extend([cmp(RAX, RCX), jne()]);
    let code = block(core, START, &codes);
    let mut machine = Machine::new(core);
    let (mut cycles, mut missed, mut before) = (Cycles::default(), 0, 0);
    for (turn, taken) in random(3000).into_iter().enumerate() {
        let next = if taken { code.end() + 0x10 } else { code.end() };
        let restarts = machine.events().branch_misses - before;
        before = machine.events().branch_misses;
        let took = machine.execute(&code, 0..codes.len(), &[], next);
        if turn >= 1000 {
            cycles += took;
            missed += restarts;
        }
    }
    (cycles, missed)
}

#[test]
fn a_mispredicted_branch_costs_its_restart() {
    let core = zen4();
    let (cycles, missed) = chained(&core, &[add(RAX, RAX)]);
    assert!((900..1100).contains(&missed), "about half of 2000: {missed}");
    // The comparison and the first addition behind the restart are no longer part of the chain.
    assert_eq!(cycles.total(), 2000 + missed * (1 + core.prediction.restart));
    assert_eq!(cycles.by_cause[2], missed * (1 + core.prediction.restart));
}

#[test]
fn a_late_branch_costs_what_it_waited_for_as_well() {
    let core = zen4();
    let (cycles, missed) = chained(&core, &[imul(RAX, RAX), imul(RAX, RAX)]);
    // A chain of 6 in each turn; a misprediction waits for the chain's end and a comparison.
    assert_eq!(cycles.total(), 2000 * 6 + missed * (1 + core.prediction.restart));
}

#[test]
fn an_alternating_branch_is_learnt() {
    let core = zen4();
    let outcomes: Vec<bool> = (0..2000).map(|turn| turn % 2 == 0).collect();
    let (cycles, missed) = branching(&core, &outcomes, 1000);
    assert_eq!(missed, 0);
    assert_eq!(cycles.by_cause[2], 0);
    // Each cycle has one taken branch and one that is not taken.
    assert_eq!(cycles.total(), 500);
}

#[test]
fn an_unknown_target_costs_its_decoding_once() {
    let core = zen4();
    let mut machine = Machine::new(&core);
    let jump = vec![0xeb, 0x3e];
    let blocks: Vec<Code> = (0..8000)
        .map(|number| block(&core, START + number * 64, std::slice::from_ref(&jump)))
        .collect();
    for code in &blocks {
        machine.execute(code, 0..1, &[], code.start() + 64);
    }
    assert_eq!(machine.events().target_misses, 8000);
    let mut few = Machine::new(&core);
    for _ in 0..10 {
        for code in &blocks[..100] {
            few.execute(code, 0..1, &[], code.start() + 64);
        }
    }
    assert_eq!(few.events().target_misses, 100);
}

#[test]
fn indirect_jumps_are_learnt_by_history() {
    let core = zen4();
    let code = block(&core, START, &[jmp_rax()]);
    let targets = [0x50_0000, 0x51_0040, 0x52_0080, 0x51_0040, 0x50_0000];
    let mut machine = Machine::new(&core);
    for turn in 0..2000 {
        machine.execute(&code, 0..1, &[], targets[turn % targets.len()]);
    }
    let missed = machine.events().branch_misses;
    assert!(missed < 60, "{missed} of 2000");
    // Targets without an order are not learnt.
    let mut machine = Machine::new(&core);
    for draw in random(2000).chunks(2) {
        let target = 0x50_0000 + u64::from(draw[0]) * 64 + u64::from(draw[1]) * 128;
        machine.execute(&code, 0..1, &[], target);
    }
    let missed = machine.events().branch_misses;
    assert!((600..900).contains(&missed), "about three quarters of 1000: {missed}");
}

#[test]
fn returns_go_back_to_their_calls() {
    let core = zen4();
    let mut machine = Machine::new(&core);
    let callee = block(&core, 0x60_0000, &[ret()]);
    let callers: Vec<Code> =
        (0..20).map(|number| block(&core, START + number * 0x40, &[call()])).collect();
    let call_and_return = |machine: &mut Machine, caller: &Code| {
        machine.execute(caller, 0..1, &[access(0, true, 8, 0x7ff0)], callee.start());
        machine.execute(&callee, 0..1, &[access(0, false, 8, 0x7ff0)], caller.end());
    };
    for turn in 0..100 {
        call_and_return(&mut machine, &callers[turn * 7 % 20]);
    }
    assert_eq!(machine.events().branch_misses, 0);
    machine.execute(&callee, 0..1, &[], 0x1234);
    assert_eq!(machine.events().branch_misses, 1);
}

#[test]
fn a_taken_jump_ends_its_cycle() {
    let core = zen4();
    // A loop of one addition and a jump: one cycle a turn.
    let code = block(&core, START, &[add(RAX, RCX), vec![0xeb, 0xfb]]);
    let mut machine = Machine::new(&core);
    let turns: Vec<u64> =
        (0..200).map(|_| machine.execute(&code, 0..2, &[], START).total()).collect();
    assert_eq!(turns[100..].iter().sum::<u64>(), 100);
    let mut core = zen4();
    core.prediction.taken = 1;
    let mut machine = Machine::new(&core);
    let took: Vec<Cycles> = (0..200).map(|_| machine.execute(&code, 0..2, &[], START)).collect();
    let sum = took[100..].iter().fold(Cycles::default(), |sum, one| sum + *one);
    assert_eq!(sum.total(), 200);
    assert_eq!(sum.by_cause[3], 200, "frontend");
}

#[test]
fn a_loop_in_two_lines_takes_a_cycle_for_each() {
    let core = zen4();
    // Three additions and a jump back to the first, within one line and across the end of a line.
    let codes = [add(RAX, RCX), add(RDX, RCX), add(RBX, RCX), vec![0xeb, 0xf5]];
    let turns = |start: u64| {
        let code = block(&core, start, &codes);
        let mut machine = Machine::new(&core);
        let took: Vec<u64> =
            (0..200).map(|_| machine.execute(&code, 0..4, &[], start).total()).collect();
        took[100..].iter().sum::<u64>()
    };
    assert_eq!(turns(START), 100);
    assert_eq!(turns(START + 64 - 6), 200, "the end of a line is between instructions");
    assert_eq!(turns(START + 64 - 1), 200, "the end of a line is within the first");
    assert_eq!(turns(START + 64 - 9), 200, "the jump is in the other line");
}

#[test]
fn returns_and_jumps_by_turns_cost_more() {
    let mut core = zen4();
    (core.prediction.returned, core.prediction.indirect) = (0, 0);
    let callee = block(&core, 0x60_0000, &[ret()]);
    let caller = block(&core, START, &[call(), vec![0xeb, 0xf9]]);
    let turns = |core: &Core| {
        let mut machine = Machine::new(core);
        let turn = |machine: &mut Machine| {
            let called = machine.execute(&caller, 0..1, &[], callee.start());
            let returned = machine.execute(&callee, 0..1, &[], START + 5);
            (called + returned + machine.execute(&caller, 1..2, &[], START)).total()
        };
        let took: Vec<u64> = (0..200).map(|_| turn(&mut machine)).collect();
        took[100..].iter().sum::<u64>()
    };
    assert_eq!(turns(&core), 300, "three taken jumps");
    core.prediction.returned = 2;
    assert_eq!(turns(&core), 500);
    let alternating = |core: &Core| {
        let jump = block(core, START, &[jmp_rax()]);
        let back = [0x50_0000, 0x51_0040].map(|start| block(core, start, &[vec![0xeb, 0x10]]));
        let mut machine = Machine::new(core);
        let mut took = Vec::new();
        for turn in 0..400 {
            let back = &back[turn % 2];
            took.push(machine.execute(&jump, 0..1, &[], back.start()).total());
            took.push(machine.execute(back, 0..1, &[], START).total());
        }
        took[400..].iter().sum::<u64>()
    };
    assert_eq!(alternating(&core), 400);
    core.prediction.indirect = 3;
    assert_eq!(alternating(&core), 400 + 200 * 3);
}

#[test]
fn code_beyond_the_instruction_cache_is_fetched() {
    let core = zen4();
    let nops: Vec<Bytes> = vec![vec![0x0f, 0x1f, 0x40, 0x00]; 16];
    let blocks: Vec<Code> = (0..2048).map(|line| block(&core, START + line * 64, &nops)).collect();
    let mut machine = Machine::new(&core);
    let go = |machine: &mut Machine, lines: usize| {
        blocks[..lines].iter().map(|code| machine.execute(code, 0..16, &[], code.end())).last();
    };
    go(&mut machine, 256);
    let cold = machine.events().code_misses;
    go(&mut machine, 256);
    assert_eq!(machine.events().code_misses, cold, "16 KiB fit");
    go(&mut machine, 2048);
    let before = machine.events().code_misses;
    go(&mut machine, 2048);
    let missed = machine.events().code_misses - before;
    assert_eq!(missed, 2048);
}

/// Returns the cycles of 1024 lines of code that L2 holds and the instruction cache does not, after a first pass.
fn straight_code(core: &Core) -> Cycles {
    let nops: Vec<Bytes> = vec![vec![0x0f, 0x1f, 0x40, 0x00]; 16];
    let blocks: Vec<Code> = (0..1024).map(|line| block(core, START + line * 64, &nops)).collect();
    let mut machine = Machine::new(core);
    let mut sums = [Cycles::default(); 2];
    for sum in &mut sums {
        for code in &blocks {
            *sum += machine.execute(code, 0..16, &[], code.end());
        }
    }
    sums[1]
}

#[test]
fn prediction_asks_for_code_before_it_is_fetched() {
    let mut core = zen4();
    // A line has sixteen operations; the decoders take four in a cycle.
    assert_eq!((core.width.decode, straight_code(&core).total()), (4, 1024 * 4));
    core.width.decode = 16;
    let by_places = straight_code(&core);
    assert_eq!(by_places.total(), (1024 * 16_u64).div_ceil(core.width.dispatch), "the window");
    // Prediction waits for the previous line: each line takes as long as L2.
    core.window.lines_ahead = 1;
    let alone = straight_code(&core);
    assert_eq!(alone.total(), 1024 * core.cache.l2.latency);
    assert!(alone.by_cause[3] > 1024 * 10, "frontend: {:?}", alone.by_cause);
}

#[test]
fn entries_into_the_kernel_wait_for_everything() {
    let core = zen4();
    let enter = core.row(Class::Enter).latency;
    let mut machine = Machine::new(&core);
    let code = block(&core, START, &[imul(RAX, RAX)]);
    machine.execute(&code, 0..1, &[], code.end());
    let before = machine.cycle();
    assert_eq!(machine.interrupted().total(), enter);
    assert_eq!(machine.cycle(), before + enter);
    assert_eq!(machine.events().interrupts, 1);
    // `syscall` itself costs the entry, once.
    let syscall = block(&core, START, &[vec![0x0f, 0x05]]);
    let took = machine.execute(&syscall, 0..1, &[], 0xffff_ffff_8100_0000);
    assert_eq!(took.total(), enter);
    assert_eq!(machine.interrupted(), Cycles::default());
    assert_eq!(machine.interrupted().total(), enter);
}
