//! Dependencies, units and widths, in exact cycles.

use crate::fixture::*;
use opcost_core_model::{Class, Cycles, Machine};

fn hundred(codes: &[Bytes]) -> u64 {
    Again::new(&zen4(), codes).hundred()
}

#[test]
fn the_first_line_of_code_comes_from_l3() {
    let core = zen4();
    let codes = vec![add(RAX, RAX); 200];
    let got = Again::new(&core, &codes).turns_after(0, 1).0;
    // The other lines arrive while the first additions execute.
    assert_eq!(got.total(), core.cache.l3.latency + 200);
    assert_eq!(got.by_cause, [0, 200 - 1, 0, core.cache.l3.latency + 1, 0]);
}

#[test]
fn a_chain_costs_the_sum_of_its_latencies() {
    assert_eq!(hundred(&[add(RAX, RAX)]), 100);
    assert_eq!(hundred(&[add(RAX, RAX), add(RAX, RAX)]), 200);
    assert_eq!(hundred(&[imul(RAX, RAX), add(RAX, RAX)]), 400);
    let core = zen4();
    let (cycles, _) = Again::new(&core, &[imul(RAX, RAX)]).turns(100);
    assert_eq!(cycles.by_cause, [0, 300, 0, 0, 0]);
}

#[test]
fn two_chains_cost_as_one() {
    assert_eq!(hundred(&[imul(RAX, RAX), imul(RCX, RCX)]), 300);
    assert_eq!(hundred(&[imul(RAX, RAX), imul(RCX, RCX), imul(RDX, RDX)]), 300);
    // The only multiplier is taken in each cycle.
    let four = [imul(RAX, RAX), imul(RCX, RCX), imul(RDX, RDX), imul(RBX, RBX)];
    assert_eq!(hundred(&four), 400);
}

#[test]
fn independent_additions_cost_their_units_or_the_width() {
    let core = zen4();
    let codes: Vec<Bytes> = (8..16).map(|register| add(register, RAX)).collect();
    let again = Again::new(&core, &codes);
    let (cycles, _) = again.turns(100);
    // Eight additions on four units.
    assert_eq!(cycles.total(), 200);
    assert_eq!(cycles.by_cause[0], 200, "issue");
    let nops = vec![vec![0x90]; 12];
    assert_eq!(hundred(&nops), 200, "six a cycle enter the window");
}

#[test]
fn a_move_costs_a_place_and_no_time() {
    assert_eq!(hundred(&[mov(RCX, RAX), mov(RAX, RCX), add(RAX, RAX)]), 100);
    let mut core = zen4();
    core.rename.moves = false;
    let codes = [mov(RCX, RAX), mov(RAX, RCX), add(RAX, RAX)];
    assert_eq!(Again::new(&core, &codes).hundred(), 300);
    // A byte is merged with the register.
    assert_eq!(hundred(&[mov_byte(), add(RAX, RAX)]), 200);
}

#[test]
fn a_zero_idiom_ends_a_chain() {
    assert_eq!(hundred(&[imul(RAX, RAX), imul(RAX, RAX)]), 600);
    let broken = [imul(RAX, RAX), imul(RAX, RAX), xor(RAX, RAX)];
    assert_eq!(hundred(&broken), 200, "the multiplier");
    let mut core = zen4();
    core.rename.zero_idioms = false;
    // The core still knows that the result does not depend on the operand, but executes the instruction.
    assert_eq!(Again::new(&core, &broken).hundred(), 200);
    assert_eq!(hundred(&[imul(RAX, RAX), imul(RAX, RAX), xor(RAX, RCX)]), 700);
}

#[test]
fn carry_and_the_other_flags_are_apart() {
    // `inc` leaves the carry flag alone, so the chain of carries does not go through it.
    let inc = vec![0x48, 0xff, 0xc1];
    assert_eq!(hundred(&[adc(RAX, RDX), inc]), 100);
    assert_eq!(hundred(&[adc(RAX, RDX), adc(RBX, RDX)]), 200);
}

#[test]
fn a_division_keeps_its_unit() {
    let core = zen4();
    let row = core.row(Class::Divide64);
    // rax and rdx are operands and results: a chain.
    assert_eq!(Again::new(&core, &[div(RCX)]).hundred(), row.latency * 100);
    let apart = [xor(RDX, RDX), mov(RAX, RSI), div(RCX)];
    let (cycles, _) = Again::new(&core, &apart).turns(100);
    assert_eq!(cycles.total(), row.occupancy * 100);
    assert_eq!(cycles.by_cause[0], row.occupancy * 100, "issue");
}

#[test]
fn a_comparison_and_its_branch_are_one() {
    // Twelve places of comparisons; twelve more for branches if they did not fuse.
    let pairs =
        |count: usize| -> Vec<Bytes> { (0..count).flat_map(|_| [cmp(RAX, RCX), jne()]).collect() };
    let mut core = zen4();
    assert_eq!(Again::new(&core, &pairs(12)).hundred(), 600, "two branches a cycle");
    let with_nops: Vec<Bytes> =
        (0..6).flat_map(|_| [cmp(RAX, RCX), jne(), vec![0x90], vec![0x90]]).collect();
    assert_eq!(Again::new(&core, &with_nops).hundred(), 300, "18 places");
    core.rename.fuses_comparisons = false;
    assert_eq!(Again::new(&core, &with_nops).hundred(), 400, "24 places");
}

#[test]
fn upper_halves_of_products_are_later() {
    let core = zen4();
    let high = core.row(Class::MultiplyHigh).latency;
    let low = core.row(Class::Multiply64).latency;
    // mul rcx; mov rax, rdx: through the upper half.
    let mul = vec![0x48, 0xf7, 0xe1];
    assert_eq!(Again::new(&core, &[mul.clone(), mov(RAX, RDX)]).hundred(), high * 100);
    assert_eq!(Again::new(&core, &[mul]).hundred(), low * 100);
    // mulx rdx, r8, rcx: the first operand is the upper half.
    let mulx = vec![0xc4, 0xe2, 0xbb, 0xf6, 0xd1];
    assert_eq!(Again::new(&core, std::slice::from_ref(&mulx)).hundred(), high * 100);
    assert_eq!(Again::new(&core, &[mulx, mov(RDX, R8)]).hundred(), low * 100);
}

#[test]
fn a_class_may_be_faster_towards_itself() {
    let mut core = opcost_core_model::Core::shipped("zen5").unwrap();
    let addsd = || vector(0xf2, 0x58, 0, 0);
    let mulsd = || vector(0xf2, 0x59, 0, 0);
    assert_eq!(Again::new(&core, &[addsd()]).hundred(), 200);
    assert_eq!(Again::new(&core, &[addsd(), mulsd()]).hundred(), 600);
    core.set_row(Class::FloatAdd, 4, 1).unwrap();
    assert_eq!(Again::new(&core, &[addsd(), addsd(), mulsd()]).hundred(), 900);
}

#[test]
fn wider_registers_than_the_units_take_them_twice() {
    let mut core = zen4();
    // vaddps zmm0, zmm1, zmm2 and vaddps with ymm.
    let wide = vec![0x62, 0xf1, 0x74, 0x48, 0x58, 0xc2];
    let narrow = vec![0xc5, 0xf4, 0x58, 0xc2];
    assert_eq!(Again::new(&core, &[wide.clone(), wide.clone()]).hundred(), 200);
    assert_eq!(Again::new(&core, &[narrow.clone(), narrow]).hundred(), 100);
    core.width.vector_bytes = 64;
    assert_eq!(Again::new(&core, &[wide.clone(), wide]).hundred(), 100);
}

#[test]
fn an_instruction_of_many_places_takes_as_many_cycles() {
    let core = zen4();
    let slots = core.row(Class::Random).slots;
    let rdrand = vec![0x48, 0x0f, 0xc7, 0xf0];
    let row = core.row(Class::Random);
    let (cycles, _) = Again::new(&core, &[rdrand]).turns(10);
    assert_eq!(cycles.total(), 10 * row.occupancy.max(slots.div_ceil(core.width.dispatch)));
}

#[test]
fn what_no_class_fits_is_counted() {
    let core = zen4();
    let mut machine = Machine::new(&core);
    // tdpbuud is no instruction of this core; 0f ff, ud2's neighbour, is no instruction at all.
    let code = core.decode(0x1000, &[&[0x0f, 0xff], &[0x90], &[0xc4, 0xe2, 0x60, 0x5e, 0xca]]);
    assert_eq!(code.instructions(), 3);
    machine.execute(&code, 0..3, &[], code.end());
    assert_eq!(machine.unknown(), 2);
    assert_eq!(machine.events().instructions, 3);
}

#[test]
fn nothing_executed_costs_nothing() {
    let core = zen4();
    let mut machine = Machine::new(&core);
    let code = core.decode(0x1000, &[&[0x90]]);
    assert_eq!(machine.execute(&code, 0..0, &[], 0), Cycles::default());
    assert_eq!(machine.execute(&code, 5..7, &[], 0), Cycles::default());
    let empty = core.decode(0x1000, &[]);
    assert_eq!(machine.execute(&empty, 0..7, &[], 0), Cycles::default());
    assert_eq!(empty.end(), 0x1000);
}
