//! Streams of instructions through a core, with exact cycles.

use opcost_core_model::{Access, Core, Cycles, Machine};

/// `add rax, rax`.
const ADD: &[u8] = &[0x48, 0x01, 0xc0];

/// Executes straight code; the cycles of it.
fn straight(core: &Core, codes: &[&[u8]], accesses: &[Access]) -> Cycles {
    let mut machine = Machine::new(core);
    let code = core.decode(0x40_1000, codes);
    machine.execute(&code, 0..codes.len(), accesses, code.end())
}

#[test]
fn a_chain_of_additions_costs_one_cycle_each() {
    let core = Core::shipped("zen4").unwrap();
    // The first line of code comes from L2, the others while the first additions execute.
    assert_eq!(straight(&core, &[ADD; 200], &[]).total(), 14 + 200);
}
