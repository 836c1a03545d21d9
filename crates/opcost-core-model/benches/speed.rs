//! The cost of the model, in nanoseconds per instruction.
//!
//! `cargo bench -p opcost-core-model --bench speed` measures. `cargo test` and `--tiny` run the same code with sizes that take a
//! moment. No time is asserted.

use opcost_core_model::{Access, Code, Core, Machine};
use std::time::Instant;

/// The kinds of instructions in a compiled program; each block's body begins at another place of this list.
const BODY: &[(&[u8], usize, usize)] = &[
    (&[0x48, 0x8b, 0x07], 1, 0),             // mov rax, [rdi]
    (&[0x48, 0x01, 0xc3], 0, 0),             // add rbx, rax
    (&[0x8d, 0x54, 0x0b, 0x08], 0, 0),       // lea edx, [rbx+rcx+8]
    (&[0x48, 0x89, 0x16], 0, 1),             // mov [rsi], rdx
    (&[0x49, 0x89, 0xd0], 0, 0),             // mov r8, rdx
    (&[0x49, 0xc1, 0xe8, 0x05], 0, 0),       // shr r8, 5
    (&[0x4c, 0x33, 0x44, 0x24, 0x10], 1, 0), // xor r8, [rsp+16]
    (&[0x4c, 0x0f, 0xaf, 0xc1], 0, 0),       // imul r8, rcx
    (&[0x0f, 0xb6, 0x0c, 0x3e], 1, 0),       // movzx ecx, byte [rsi+rdi]
    (&[0x31, 0xc0], 0, 0),                   // xor eax, eax
    (&[0xf3, 0x0f, 0x6f, 0x04, 0x24], 1, 0), // movdqu xmm0, [rsp]
    (&[0x66, 0x0f, 0xfe, 0xc1], 0, 0),       // paddd xmm0, xmm1
    (&[0x48, 0x83, 0xc7, 0x08], 0, 0),       // add rdi, 8
    (&[0x44, 0x89, 0x44, 0x24, 0x18], 0, 1), // mov [rsp+24], r8d
];
/// The end of each block: `cmp rdi, rcx; jne`.
const END: [&[u8]; 2] = [&[0x48, 0x39, 0xcf], &[0x0f, 0x85, 0, 1, 0, 0]];

struct Block {
    code: Code,
    instructions: usize,
    /// Numbers of the instructions that access memory, and whether each stores.
    transfers: Vec<(u16, bool)>,
}

fn blocks(core: &Core) -> Vec<Block> {
    (0..256_usize)
        .map(|number| {
            let body: Vec<_> =
                (0..3 + number % 8).map(|place| BODY[(number * 5 + place) % BODY.len()]).collect();
            let mut codes: Vec<&[u8]> = body.iter().map(|(code, ..)| *code).collect();
            codes.extend(END);
            let mut transfers = Vec::new();
            for (place, (_, loads, stores)) in body.iter().enumerate() {
                transfers.extend((0..*loads).map(|_| (place as u16, false)));
                transfers.extend((0..*stores).map(|_| (place as u16, true)));
            }
            let code = core.decode(0x40_1000 + number as u64 * 0x48, &codes);
            Block { code, instructions: codes.len(), transfers }
        })
        .collect()
}

/// Executes about `instructions`; accesses stay within `bytes`, and one in four is far from the last.
fn measure(name: &str, core: &Core, instructions: usize, bytes: u64, surprise: u64) {
    let blocks = blocks(core);
    let mut machine = Machine::new(core);
    let mut draw = 0x2545_f491_4f6c_dd1d_u64;
    // The stream is drawn before the clock starts.
    let mut stream = Vec::new();
    let mut accesses = Vec::new();
    let (mut total, mut place, mut block) = (0, 0_u64, 0_usize);
    while total < instructions {
        let from = accesses.len();
        for (instruction, store) in &blocks[block].transfers {
            draw ^= draw << 13;
            draw ^= draw >> 7;
            draw ^= draw << 17;
            place = if draw.is_multiple_of(4) { draw >> 20 } else { place + 8 } % bytes;
            let address = 0x7f00_0000_0000 + place / 8 * 8;
            accesses.push(Access { instruction: *instruction, store: *store, bytes: 8, address });
        }
        let taken = (draw >> 33) % 100 < surprise || block % 3 == 0;
        let next = if taken { (block * 7 + 3) % blocks.len() } else { (block + 1) % blocks.len() };
        stream.push((block, from, accesses.len(), taken));
        total += blocks[block].instructions;
        block = next;
    }
    let begun = Instant::now();
    for (at, (block, from, to, taken)) in stream.iter().enumerate() {
        let block = &blocks[*block];
        let next = match stream.get(at + 1) {
            Some((next, ..)) if *taken => blocks[*next].code.start(),
            _ => block.code.end(),
        };
        machine.execute(&block.code, 0..block.instructions, &accesses[*from..*to], next);
    }
    let ns = begun.elapsed().as_nanos() as f64 / total as f64;
    let cycles = machine.cycle() as f64 / total as f64;
    let events = machine.events();
    let per = |count: u64| count as f64 * 1000.0 / total as f64;
    println!(
        "{name:<24} {ns:6.1} ns an instruction; {cycles:.2} modelled cycles each, \
         {:.1} mispredictions and {:.1} L1 misses in 1000",
        per(events.branch_misses),
        per(events.l1_misses)
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let instructions = if has("--bench") && !has("--tiny") { 10_000_000 } else { 20_000 };
    let core = Core::shipped("zen4").expect("a core that ships");
    measure("in L1, predictable", &core, instructions, 16 << 10, 0);
    measure("in L2, few surprises", &core, instructions, 256 << 10, 3);
    measure("in memory, surprises", &core, instructions, 64 << 20, 20);
}
