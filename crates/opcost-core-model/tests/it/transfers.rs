//! Loads, stores, caches and TLBs, in exact cycles.

use crate::fixture::*;
use opcost_core_model::{Access, Class, Core};

/// Returns the addresses of `count` places, each once, in an order that no prefetcher follows.
fn hops(count: u64, step: u64) -> Vec<u64> {
    // An odd multiplier visits every place of a power of two, in a permuted order.
    (0..count).map(|hop| 0x1000_0000 + hop * 2_654_435_761 % count * step).collect()
}

/// Returns the cycles per load of a chain of loads through `count` places `step` bytes apart.
fn chain(core: &Core, count: u64, step: u64) -> u64 {
    let places = hops(count, step);
    let again = Again::new(core, &[load(RAX, RAX, 0)])
        .with(|turn| vec![access(0, false, 8, places[(turn % count) as usize])]);
    again.turns_after(4 * count, count).0.total() / count
}

/// Returns a core without prefetchers, with TLB room for every page.
fn plain_core() -> Core {
    let mut core = zen4();
    core.prefetch.stride_distance = 0;
    core.prefetch.stream_distance = 0;
    core.translation.first.entries = 1 << 16;
    core.translation.first.ways = 1;
    core.translation.walk = 0;
    core.translation.walk_cycles = 1;
    core
}

#[test]
fn a_chain_of_loads_costs_the_level_that_holds_it() {
    let core = plain_core();
    let l1 = core.row(Class::Load).latency;
    assert_eq!(chain(&core, 256, 64), l1);
    assert_eq!(chain(&core, 1 << 12, 64), core.cache.l2.latency);
    assert_eq!(chain(&core, 1 << 16, 64), core.cache.l3.latency);
    let far = Again::new(&core, &[load(RAX, RAX, 0)])
        .with(|turn| vec![access(0, false, 8, 0x1000_0000 + turn * 7919 * 64)]);
    let (cycles, events) = far.turns(100);
    assert_eq!(cycles.total(), 100 * core.cache.memory.latency);
    assert_eq!(cycles.by_cause[4], 100 * core.cache.memory.latency, "memory");
    assert_eq!((events.l1_misses, events.l2_misses, events.l3_misses), (100, 100, 100));
}

#[test]
fn a_load_without_its_access_hits_l1() {
    let core = zen4();
    let l1 = core.row(Class::Load).latency;
    assert_eq!(Again::new(&core, &[load(RAX, RAX, 0)]).hundred(), 100 * l1);
}

#[test]
fn independent_misses_overlap_as_far_as_the_window_reaches() {
    let mut core = plain_core();
    core.cache.memory.line_cycles = 1;
    // Two misses with some places between them, then a chain that waits for the second.
    let pair = |between: usize| {
        let mut codes = vec![load(RAX, RBX, 0)];
        codes.extend(vec![vec![0x90]; between]);
        codes.push(load(RCX, RBX, 0));
        let last = codes.len() - 1;
        let again = Again::new(&core, &codes).with(move |turn| {
            // The first turn only fetches code.
            let line = |number: u64| 0x1000_0000 + (turn * 2 + number) * 7919 * 64;
            if turn < 2 {
                vec![]
            } else {
                vec![access(0, false, 8, line(0)), access(last, false, 8, line(1))]
            }
        });
        again.turns_after(2, 1).0.total()
    };
    let latency = core.cache.memory.latency;
    let near = pair(300);
    assert!((latency..latency + 80).contains(&near), "{near}: they overlap");
    let far = pair(330);
    assert!((2 * latency - 8..2 * latency + 80).contains(&far), "{far}: one after the other");
}

#[test]
fn misses_share_the_places_for_lines_on_their_way() {
    let mut core = plain_core();
    core.cache.memory.line_cycles = 1;
    let again = |misses: u64| core_with(&core, misses).hundred();
    fn core_with(core: &Core, misses: u64) -> Again<'static> {
        let mut core = core.clone();
        core.cache.misses = misses;
        let core: &'static Core = Box::leak(Box::new(core));
        Again::new(core, &[load(RAX, RBX, 0)])
            .with(|turn| vec![access(0, false, 8, 0x1000_0000 + turn * 7919 * 64)])
    }
    let latency = core.cache.memory.latency - core.row(Class::Load).latency;
    assert_eq!(again(1), 100 * latency);
    assert_eq!(again(2), 50 * latency);
    assert_eq!(again(10), 10 * latency);
}

#[test]
fn lines_of_one_set_come_apart() {
    let mut core = plain_core();
    core.cache.same_set = 9;
    // 16 lines of one set, which has room for 8; L2 holds them all.
    let sets = core.cache.l1.bytes / 64 / core.cache.l1.ways;
    let turns = |core: &Core| {
        let again = Again::new(core, &[load(RAX, RBX, 0)])
            .with(|turn| vec![access(0, false, 8, 0x1000_0000 + turn % 16 * sets * 64)]);
        again.hundred()
    };
    assert_eq!(turns(&core), 900);
    core.cache.same_set = 0;
    assert_eq!(turns(&core), 100 * core.cache.l2.line_cycles);
}

#[test]
fn a_scaled_index_costs_more() {
    let mut core = zen4();
    core.cache.scaled = 2;
    // mov rax, [rbx+rax*8] and mov rax, [rbx+rax]
    let scaled = vec![0x48, 0x8b, 0x04, 0xc3];
    let plain = vec![0x48, 0x8b, 0x04, 0x03];
    let l1 = core.row(Class::Load).latency;
    assert_eq!(Again::new(&core, &[scaled]).hundred(), 100 * (l1 + 2));
    assert_eq!(Again::new(&core, &[plain]).hundred(), 100 * l1);
}

#[test]
fn lines_from_memory_come_one_after_the_other() {
    let mut core = plain_core();
    core.cache.memory.line_cycles = 50;
    let again = Again::new(&core, &[load(RAX, RBX, 0)])
        .with(|turn| vec![access(0, false, 8, 0x1000_0000 + turn * 7919 * 64)]);
    assert_eq!(again.hundred(), 5000);
}

#[test]
fn a_tlb_miss_costs_its_walk() {
    let mut core = plain_core();
    core.translation = zen4().translation;
    let l1 = core.row(Class::Load).latency;
    // One line of each page, in different sets.
    let pages = |count: u64| chain(&core, count, 4096 + 64);
    assert_eq!(pages(64), l1);
    assert_eq!(pages(256), l1 + core.translation.second.latency);
    let mut small = core.clone();
    small.translation.second.entries = 64;
    small.translation.second.ways = 64;
    assert_eq!(chain(&small, 256, 4096 + 64), l1 + core.translation.walk);
}

#[test]
fn a_prefetched_stream_costs_less_than_its_misses() {
    let mut core = zen4();
    let stream = |core: &Core| {
        let again = Again::new(core, &[load(RAX, RBX, 0), add(RCX, RAX)])
            .with(|turn| vec![access(0, false, 8, 0x1000_0000 + turn * 8)]);
        again.turns_after(10_000, 8000).0.total()
    };
    let with = stream(&core);
    core.prefetch.stride_distance = 0;
    core.prefetch.stream_distance = 0;
    let without = stream(&core);
    assert!(with * 10 < without * 6, "{with} and {without}");
    // A thousand lines take at most the time of their lane, plus the misses of each page's first line.
    let lines = 1000 * core.cache.memory.line_cycles;
    assert!(with < lines + 16 * 2 * core.cache.memory.latency, "{with}");
}

#[test]
fn a_stride_within_pages_is_prefetched_into_l1() {
    let core = zen4();
    // 256 KiB that L2 holds, in strides of two lines.
    let again = Again::new(&core, &[load(RAX, RBX, 0)])
        .with(|turn| vec![access(0, false, 8, 0x1000_0000 + turn * 128 % (256 << 10))]);
    let (_, events) = again.turns_after(4096, 4096);
    assert!(events.l1_misses < 1000, "{} of 4096", events.l1_misses);
}

/// Returns the accesses of a store and a load that overlap.
fn pair(bytes: (u16, u16), offset: u64) -> impl Fn(u64) -> Vec<Access> {
    move |_| vec![access(0, true, bytes.0, 0x5000), access(1, false, bytes.1, 0x5000 + offset)]
}

#[test]
fn a_forwarded_store_costs_its_latency() {
    let mut core = zen4();
    core.rename.stored_values = false;
    let codes = [store(RAX, RBX, 0), load(RAX, RBX, 0)];
    let (cycles, events) = Again::new(&core, &codes).with(pair((8, 8), 0)).turns(100);
    assert_eq!(cycles.total(), 100 * core.forward.latency);
    assert_eq!(cycles.by_cause[1], cycles.total(), "dependencies");
    assert_eq!((events.forwarded, events.forward_failures), (100, 0));
    // A load of a part of the store is covered as well.
    let again = Again::new(&core, &codes).with(pair((8, 4), 4));
    assert_eq!(again.hundred(), 100 * core.forward.latency);
}

#[test]
fn a_store_of_a_part_fails_to_forward() {
    let core = zen4();
    let codes = [store_byte(RBX, 0), load(RAX, RBX, 0)];
    let (cycles, events) = Again::new(&core, &codes).with(pair((1, 8), 0)).turns(100);
    assert_eq!(cycles.total(), 100 * core.forward.failure);
    assert_eq!(cycles.by_cause[4], cycles.total(), "memory");
    assert_eq!(events.forward_failures, 100);
}

#[test]
fn a_value_from_as_many_stores_back_as_before_is_renamed() {
    let mut core = zen4();
    core.forward.renamed = 2;
    core.forward.renamed_operand = 3;
    let codes = [store(RAX, RBX, 0), load(RAX, RBX, 0)];
    assert_eq!(Again::new(&core, &codes).with(pair((8, 8), 0)).hundred(), 200);
    // add rax, [rbx]
    let codes = [store(RAX, RBX, 0), vec![0x48, 0x03, 0x03]];
    assert_eq!(Again::new(&core, &codes).with(pair((8, 8), 0)).hundred(), 600);
    // The value is one store back, then two, and so on.
    let codes = [store(RAX, RBX, 0), store(RAX, RCX, 0), load(RAX, RBX, 0)];
    let turns = Again::new(&core, &codes).with(|turn| {
        let from = 0x5000 + turn % 2 * 64;
        vec![access(0, true, 8, 0x5000), access(1, true, 8, 0x5040), access(2, false, 8, from)]
    });
    assert_eq!(turns.hundred(), 100 * core.forward.latency);
}

#[test]
fn a_stack_slot_is_renamed() {
    let mut core = zen4();
    core.rename.stored_values = false;
    core.rename.stack_slots = true;
    let codes = [store(RAX, RSP, 8), load(RAX, RSP, 8), imul(RAX, RAX)];
    let again = |core: &Core| Again::new(core, &codes).with(pair((8, 8), 0)).hundred();
    assert_eq!(again(&core), 100 * (core.forward.renamed + 3));
    core.rename.stack_slots = false;
    assert_eq!(again(&core), 100 * (core.forward.latency + 3));
}

#[test]
fn the_store_queue_is_bounded() {
    let mut core = plain_core();
    let again = |core: &Core| {
        Again::new(core, &[store(RAX, RBX, 0)])
            .with(|turn| vec![access(0, true, 8, 0x1000_0000 + turn * 7919 * 64)])
            .hundred()
    };
    core.cache.memory.line_cycles = 40;
    let (cycles, _) = Again::new(&core, &[store(RAX, RBX, 0)])
        .with(|turn| vec![access(0, true, 8, 0x1000_0000 + turn * 7919 * 64)])
        .turns(100);
    assert_eq!(cycles.by_cause[4], cycles.total(), "memory");
    assert_eq!(again(&core), 4000);
    // Without misses, two stores a cycle.
    let hits = Again::new(&core, &[store(RAX, RBX, 0), store(RAX, RBX, 8)])
        .with(|_| vec![access(0, true, 8, 0x5000), access(1, true, 8, 0x5008)]);
    assert_eq!(hits.hundred(), 100);
}

#[test]
fn a_load_that_reaches_into_another_line_is_later() {
    let core = zen4();
    let again = Again::new(&core, &[load(RAX, RAX, 0)]).with(|_| vec![access(0, false, 8, 0x503c)]);
    assert_eq!(again.hundred(), 100 * (core.row(Class::Load).latency + core.cache.split));
}

#[test]
fn accesses_that_qemu_split_are_one() {
    let core = zen4();
    // movdqu xmm0, [rbx], as QEMU 7.2 reports it.
    let codes = vec![vec![0xf3, 0x0f, 0x6f, 0x03]; 4];
    let whole = Again::new(&core, &codes)
        .with(|_| (0..4).map(|place| access(place, false, 16, 0x5000)).collect());
    let halves = Again::new(&core, &codes).with(|_| {
        (0..8).map(|half| access(half / 2, false, 8, 0x5000 + half as u64 % 2 * 8)).collect()
    });
    assert_eq!(whole.hundred(), 200, "two a cycle");
    assert_eq!(halves.hundred(), 200);
}

#[test]
fn locked_instructions_wait_for_one_another() {
    let core = zen4();
    let latency = core.row(Class::Locked).latency;
    let locked = || vec![access(0, false, 8, 0x5000), access(0, true, 8, 0x5000)];
    let with = |codes: &[Bytes], more: Vec<Access>| {
        let accesses = move |_| [locked(), more.clone()].concat();
        Again::new(&core, codes).with(accesses).hundred()
    };
    let lock = || lock_add(RBX, RCX);
    // The result is ready a cycle after the instruction's end.
    assert_eq!(with(&[lock()], vec![]), 100 * (latency - 1));
    // Stores in between reach L1 meanwhile; loads of known addresses were executed before.
    let stores = [lock(), store(RAX, RSP, 8), store(RAX, RSP, 16)];
    let stored = vec![access(1, true, 8, 0x6008), access(2, true, 8, 0x6010)];
    assert_eq!(with(&stores, stored), 100 * (latency - 1));
    let loads = [lock(), load(RAX, RSP, 8), load(RDX, RSP, 16)];
    let loaded = vec![access(1, false, 8, 0x6008), access(2, false, 8, 0x6010)];
    assert_eq!(with(&loads, loaded), 100 * (latency - 1));
}

#[test]
fn a_load_whose_address_comes_late_waits_for_the_locked_instruction() {
    let core = zen4();
    let row = |class| core.row(class).latency;
    // A chain of loads through rax, 20 a turn: the first waits until the locked instruction has its own load.
    let chain = vec![load(RAX, RAX, 0); 20];
    let loads = |first: usize| (first..first + 20).map(|place| access(place, false, 8, 0x6000));
    let alone = Again::new(&core, &chain).with(|_| loads(0).collect()).hundred();
    assert_eq!(alone, 100 * 20 * row(Class::Load));
    let codes = [vec![lock_add(RBX, RCX)], chain].concat();
    let accesses = |_| {
        let locked = [access(0, false, 8, 0x5000), access(0, true, 8, 0x5000)];
        locked.into_iter().chain(loads(1)).collect()
    };
    let both = Again::new(&core, &codes).with(accesses).hundred();
    assert_eq!(both, alone + 100 * row(Class::Load));
}

#[test]
fn fences_order_what_they_say() {
    let core = zen4();
    let mfence = vec![0x0f, 0xae, 0xf0];
    let lfence = vec![0x0f, 0xae, 0xe8];
    let row = |class| core.row(class).latency;
    assert_eq!(Again::new(&core, &[mfence]).hundred(), 100 * row(Class::Fence));
    assert_eq!(
        Again::new(&core, std::slice::from_ref(&lfence)).hundred(),
        100 * row(Class::FenceLoad)
    );
    // Independent multiplications cannot overlap.
    let codes = [imul(RAX, RCX), lfence];
    assert_eq!(Again::new(&core, &codes).hundred(), 100 * (3 + row(Class::FenceLoad)));
}

#[test]
fn string_instructions_move_lines() {
    let core = zen4();
    // rep movsb of 4096 bytes, element by element.
    let moved = |bytes: u64| -> Vec<Access> {
        (0..bytes)
            .flat_map(|byte| {
                [access(0, false, 1, 0x10_0000 + byte), access(0, true, 1, 0x20_0000 + byte)]
            })
            .collect()
    };
    let codes = [vec![0xf3, 0xa4]];
    let turns = |bytes| Again::new(&core, &codes).with(move |_| moved(bytes)).turns(20).0.total();
    let line = core.row(Class::StringLine).occupancy;
    assert_eq!(turns(8192) - turns(4096), 20 * 64 * line, "64 lines more, one unit");
    // Other string instructions cost each element.
    let scasb = [vec![0xf2, 0xae]];
    let scanned = |bytes: u64| -> Vec<Access> {
        (0..bytes).map(|byte| access(0, false, 1, 0x10_0000 + byte)).collect()
    };
    let long = Again::new(&core, &scasb).with(|_| scanned(1024)).turns(20).0.total();
    let short = Again::new(&core, &scasb).with(|_| scanned(512)).turns(20).0.total();
    // An instruction's places fill a cycle, as no other has room beside it.
    let slots = core.row(Class::StringElement).slots;
    assert!(slots * 2 > core.width.dispatch && slots <= core.width.dispatch);
    assert_eq!(long - short, 20 * 512);
}

#[test]
fn a_string_instruction_in_pieces_costs_as_whole() {
    let core = zen4();
    let code = core.decode(0x1000, &[&[0xf3, 0xaa]]);
    let stored: Vec<Access> = (0..1000).map(|byte| access(0, true, 1, 0x9000 + byte)).collect();
    let mut whole = opcost_core_model::Machine::new(&core);
    whole.execute(&code, 0..1, &stored, code.end());
    let mut pieces = opcost_core_model::Machine::new(&core);
    for piece in stored.chunks(7) {
        pieces.execute(&code, 0..1, piece, code.start());
    }
    assert_eq!(pieces.cycle(), whole.cycle());
    assert_eq!(pieces.events(), whole.events());
}

#[test]
fn the_load_queue_is_bounded() {
    let mut core = plain_core();
    core.cache.memory.line_cycles = 1;
    core.window.load_queue = 4;
    core.cache.misses = 100;
    let again = Again::new(&core, &[load(RAX, RBX, 0)])
        .with(|turn| vec![access(0, false, 8, 0x1000_0000 + turn * 7919 * 64)]);
    assert_eq!(again.hundred(), 25 * core.cache.memory.latency);
}

#[test]
fn a_counter_in_memory_is_a_chain() {
    let mut core = zen4();
    (core.forward.renamed, core.forward.renamed_operand) = (0, 1);
    // add dword [rcx+rdx*4], 1: load and store belong to one instruction.
    let codes = [vec![0x83, 0x04, 0x91, 0x01]];
    let turns = |core: &Core| {
        let again = Again::new(core, &codes)
            .with(|_| vec![access(0, false, 4, 0x5000), access(0, true, 4, 0x5000)]);
        again.hundred()
    };
    assert_eq!(turns(&core), 200);
    core.rename.stored_values = false;
    assert_eq!(turns(&core), 100 * (core.forward.latency + 1));
}
