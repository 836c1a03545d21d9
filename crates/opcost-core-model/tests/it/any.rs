//! Arbitrary input: bytes that are no code, accesses that no instruction made, blocks cut anywhere.

use crate::fixture::*;
use opcost_core_model::{Access, Core, Cycles, Events, Machine, confidence};
use proptest::prelude::*;

/// Blocks as a caller passes them: bytes of instructions, accesses, address of the next instruction.
type Stream = Vec<(u64, Vec<Bytes>, Vec<Access>, u64, usize)>;

fn known() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec![
        add(RAX, RCX),
        imul(RAX, RCX),
        mov(RDX, RAX),
        load(RAX, RBX, 8),
        store(RAX, RSP, 8),
        load(RCX, RSP, 8),
        store_byte(RBX, 1),
        lock_add(RBX, RAX),
        div(RCX),
        cmp(RAX, RCX),
        jne(),
        ret(),
        call(),
        jmp_rax(),
        vec![0xf3, 0xa4],
        vec![0xf2, 0xae],
        vec![0x0f, 0x05],
        vec![0x0f, 0xa2],
        vec![0x0f, 0xae, 0xf0],
        vec![0xf3, 0x90],
        vec![0xc4, 0xe2, 0x6d, 0x92, 0x04, 0x08],
    ])
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![4 => known(), 1 => prop::collection::vec(any::<u8>(), 0..16)]
}

fn place() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0x7000_u64..0x7080, 2 => 0x1_0000_u64..0x100_0000, 1 => any::<u64>()]
}

fn access_of(count: u16) -> impl Strategy<Value = Access> {
    let bytes = prop_oneof![prop::sample::select(vec![1, 2, 4, 8, 16, 32]), any::<u16>()];
    (0..count + 2, any::<bool>(), bytes, place()).prop_map(
        |(instruction, store, bytes, address)| Access { instruction, store, bytes, address },
    )
}

fn stream() -> impl Strategy<Value = Stream> {
    let code = prop::collection::vec(bytes(), 1..12);
    let block = code.prop_flat_map(|code| {
        let count = code.len() as u16;
        let start = prop_oneof![Just(0x40_1000_u64), 0x40_0000_u64..0x40_2000, any::<u64>()];
        let accesses = prop::collection::vec(access_of(count), 0..20);
        let next = prop_oneof![Just(0x40_1000_u64), 0x40_0000_u64..0x40_2000, any::<u64>()];
        (start, Just(code), accesses, next, 0..count as usize + 2)
    });
    prop::collection::vec(block, 1..40)
}

fn run(core: &Core, stream: &Stream) -> (Vec<Cycles>, Machine) {
    let mut machine = Machine::new(core);
    let mut all = Vec::new();
    for (start, codes, accesses, next, executed) in stream {
        let codes: Vec<&[u8]> = codes.iter().map(Vec::as_slice).collect();
        let code = core.decode(*start, &codes);
        let before = machine.cycle();
        let took = machine.execute(&code, 0..*executed, accesses, *next);
        assert_eq!(machine.cycle() - before, took.total(), "the causes' sum is the advance");
        all.push(took);
        if next % 5 == 0 {
            all.push(machine.interrupted());
        }
    }
    (all, machine)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_stream_has_its_cycles(stream in stream()) {
        for name in ["zen4", "zen5"] {
            let core = Core::shipped(name).unwrap();
            let (first, machine) = run(&core, &stream);
            let (again, _) = run(&core, &stream);
            prop_assert_eq!(&first, &again, "the same in every run");
            let sum = first.iter().fold(Cycles::default(), |sum, one| sum + *one);
            prop_assert_eq!(sum.total(), machine.cycle());
            confidence(&sum);
        }
    }

    // If a cut separates a comparison from its branch, the two still fuse, but the comparison is placed before its branch is known.
    #[test]
    fn a_block_in_two_pieces_costs_as_whole(
        codes in prop::collection::vec(known(), 2..20),
        cut in 1_usize..19,
        places in prop::collection::vec(place(), 20),
        turns in 1_usize..20,
    ) {
        let cut = cut.min(codes.len() - 1);
        let core = zen4();
        let codes: Vec<&[u8]> = codes.iter().map(Vec::as_slice).collect();
        let whole = core.decode(0x40_1000, &codes);
        let front = core.decode(0x40_1000, &codes[..cut]);
        let back = core.decode(front.end(), &codes[cut..]);
        let accesses: Vec<Access> = (0..codes.len())
            .flat_map(|place| {
                let address = places[place % places.len()];
                [access(place, false, 8, address), access(place, true, 8, address ^ 8)]
            })
            .collect();
        let at = accesses.partition_point(|access| usize::from(access.instruction) < cut);
        let mut later = accesses[at..].to_vec();
        for access in &mut later {
            access.instruction -= cut as u16;
        }
        let parts_a_pair = codes[cut] == jne() && codes[cut - 1] != jne();
        let (mut one, mut two) = (Machine::new(&core), Machine::new(&core));
        for _ in 0..turns {
            let next = whole.start();
            let took = one.execute(&whole, 0..codes.len(), &accesses, next);
            let first = two.execute(&front, 0..cut, &accesses[..at], back.start());
            let second = two.execute(&back, 0..codes.len() - cut, &later, next);
            if parts_a_pair {
                prop_assert!(one.cycle().abs_diff(two.cycle()) <= turns as u64);
            } else {
                prop_assert_eq!(first + second, took);
            }
        }
        prop_assert_eq!(one.events(), two.events());
        prop_assert_eq!(one.unknown(), two.unknown());
    }

    #[test]
    fn what_is_learnt_untimed_is_what_execution_learns(
        blocks in prop::collection::vec((prop::collection::vec(plain(), 1..8), 0_u64..0x8000, any::<bool>()), 1..6),
        places in prop::collection::vec(place(), 64),
        step in prop_oneof![Just(0_u64), Just(8), Just(24), Just(256), Just(5000)],
        turns in 1_u64..60,
    ) {
        let core = zen4();
        let (mut timed, mut untimed) = (Machine::new(&core), Machine::new(&core));
        for turn in 0..turns {
            for (number, (codes, at, taken)) in blocks.iter().enumerate() {
                let mut codes = codes.clone();
                codes.push([jne(), ret(), call(), jmp_rax()][number % 4].clone());
                let bytes: Vec<&[u8]> = codes.iter().map(Vec::as_slice).collect();
                let code = core.decode(0x40_0000 + at, &bytes);
                let made = codes.iter().enumerate().flat_map(|(place, code)| {
                    let address = places[(number * 8 + place) % 64] % (1 << 47) + turn * step;
                    let to = |store| access(place, store, 8, address);
                    match code {
                        _ if *code == load(RAX, RBX, 8) => vec![to(false)],
                        // QEMU splits loads of sixteen bytes.
                        _ if *code == wide_load() => vec![to(false), access(place, false, 8, address + 8)],
                        _ if *code == store(RAX, RSP, 8) => vec![to(true)],
                        _ if *code == lock_add(RBX, RAX) => vec![to(false), to(true)],
                        _ => vec![],
                    }
                });
                let accesses: Vec<Access> = made.collect();
                let next = code.end() + if *taken || turn % 3 == 0 { 0x40 } else { 0 };
                timed.execute(&code, 0..codes.len(), &accesses, next);
                untimed.learn(&code, 0..codes.len(), &accesses, next);
            }
        }
        let (one, other) = (timed.events(), untimed.events());
        // Timing decides which lines are late and which stores forward.
        let of_time = |events: Events| Events {
            late_lines: 0,
            forwarded: 0,
            forward_failures: 0,
            ..events
        };
        prop_assert_eq!(of_time(one), of_time(other));
        prop_assert_eq!(untimed.cycle(), 0);
    }
}

/// Instructions that a core reorders.
fn plain() -> impl Strategy<Value = Bytes> {
    prop::sample::select(vec![
        add(RAX, RCX),
        load(RAX, RBX, 8),
        wide_load(),
        store(RAX, RSP, 8),
        lock_add(RBX, RAX),
    ])
}

/// `movups xmm0, [rbx]`.
fn wide_load() -> Bytes {
    vec![0x0f, 0x10, 0x03]
}
