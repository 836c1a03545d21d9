//! Sites in memory: each is the one instruction that it should be, as compiled and patched.
#![cfg(all(patchpoint_native, target_arch = "x86_64"))]

use iced_x86::{Decoder, DecoderOptions, Formatter, NasmFormatter};
use patchpoint::{Branch, Call, Missing, RawKey, Site, Switch, Value};
use patchpoint::{call, call_saved, likely, sites, switch, unlikely, value};

type Unary = extern "C" fn(u64) -> u64;

extern "C" fn identity(a: u64) -> u64 {
    a
}
extern "C" fn low(a: u32) -> u32 {
    a
}
extern "C" fn five(_: u64) -> u64 {
    5
}
extern "C" fn work(a: u64) -> u64 {
    a.rotate_left(3) ^ 0x1234
}

static PLAIN: Call<Unary> = Call::or(c"plain", work, Missing::Zero);
static SAVED: Call<Unary> = Call::new(c"saved", work);
static LOW: Call<extern "C" fn(u32) -> u32> = Call::or(c"low", low, Missing::Nothing);
static TRAP: Call<Unary> = Call::new(c"trap", work);
static NARROW: Value<u32> = Value::new(c"narrow", 7);
static WIDE: Value<u64> = Value::new(c"wide", 7);
static SELDOM: Branch = Branch::new(c"seldom", false);
static OFTEN: Branch = Branch::new(c"often", true);
static WAY: Switch<3> = Switch::new(c"way", 0);

/// Executes one site of each key but `TRAP`, whose site is skipped if `never` is set.
#[inline(never)]
fn all(a: u64, never: bool) -> u64 {
    if !never {
        return call!(TRAP, a);
    }
    let low = u64::from(call!(LOW, a as u32));
    let values = u64::from(value!(NARROW)) + value!(WIDE);
    let branches = u64::from(unlikely!(SELDOM)) + 2 * u64::from(likely!(OFTEN));
    let branches = branches + switch!(WAY) as u64;
    call!(PLAIN, a) + call_saved!(SAVED, a) + low + values + branches
}

/// Decodes the bytes as one instruction, in words.
fn decoded(bytes: &[u8], address: usize) -> String {
    let mut decoder = Decoder::with_ip(64, bytes, address as u64, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert_eq!(instruction.len(), bytes.len(), "{bytes:02x?} is not one instruction");
    let mut text = String::new();
    NasmFormatter::new().format(&instruction, &mut text);
    text
}

/// Finds the key's site in `all`, which comes before a thunk's.
fn site(key: *const RawKey) -> Site {
    let sites = sites().unwrap().into_iter().filter(|site| site.key == key);
    sites.min_by_key(|site| site.address.wrapping_sub(all as *const () as usize)).unwrap()
}

/// Checks the site's bytes and its instruction, without operands that are addresses.
fn check(key: *const RawKey, state: &str, bytes: &str, instruction: &str) {
    let site = site(key);
    assert_eq!(site.state, state, "{site:?}");
    let hexadecimal: Vec<String> =
        site.bytes_now.iter().map(|byte| format!("{byte:02x}")).collect();
    let found = hexadecimal.join(" ");
    assert!(found.starts_with(bytes), "{found} is not {bytes} …: {site:?}");
    let text = decoded(&site.bytes_now, site.address);
    assert!(text.starts_with(instruction), "{text} is not {instruction}");
    decoded(&site.bytes_original, site.address);
}

#[test]
fn a_patched_site_is_the_instruction_it_should_be() {
    let _alone = crate::alone();
    std::hint::black_box(all(1, true));
    patchpoint::init().unwrap();
    PLAIN.set(identity).unwrap();
    SAVED.set(identity).unwrap();
    check(PLAIN.raw(), "move", "40 2e 2e 2e 48 89 f8", "mov rax,rdi");
    check(SAVED.raw(), "move", "40 2e 2e 2e 48 89 f8", "mov rax,rdi");
    check(LOW.raw(), "move", "40 2e 2e 2e 2e 89 f8", "mov eax,edi");
    PLAIN.set(five).unwrap();
    check(PLAIN.raw(), "constant", "40 c7 c0 05 00 00 00", "mov eax,5");
    PLAIN.remove().unwrap();
    check(PLAIN.raw(), "constant", "40 c7 c0 00 00 00 00", "mov eax,0");
    PLAIN.set(work).unwrap();
    check(PLAIN.raw(), "call", "40 67 e8", "call");
    SAVED.set(work).unwrap();
    check(SAVED.raw(), "thunk", "40 67 e8", "call");
    LOW.remove().unwrap();
    check(LOW.raw(), "nop", "40 66 0f 1f 44 00 00", "nop");
    LOW.set(low).unwrap();
    TRAP.remove().unwrap();
    check(TRAP.raw(), "trap", "40 67 67 67 67 0f 0b", "ud2");
    TRAP.set(work).unwrap();
    WIDE.set(0x1122_3344_5566_7788).unwrap();
    check(WIDE.raw(), "immediate", "66 4", "mov r");
    assert_eq!(site(WIDE.raw()).bytes_now[3..], 0x1122_3344_5566_7788u64.to_le_bytes());
    NARROW.set(0xaabb_ccdd).unwrap();
    assert!(site(NARROW.raw()).bytes_now.ends_with(&0xaabb_ccddu32.to_le_bytes()));
    check(NARROW.raw(), "immediate", "40 c7", "mov ");
    check(SELDOM.raw(), "nop", "40 0f 1f 44 00 00", "nop");
    check(OFTEN.raw(), "nop", "40 0f 1f 44 00 00", "nop");
    SELDOM.set(true).unwrap();
    OFTEN.set(false).unwrap();
    check(SELDOM.raw(), "jump", "40 e9", "jmp");
    check(OFTEN.raw(), "jump", "40 e9", "jmp");
    SELDOM.set(false).unwrap();
    OFTEN.set(true).unwrap();
    check(WAY.raw(), "nop", "40 0f 1f 44 00 00", "nop");
    WAY.set(2).unwrap();
    check(WAY.raw(), "jump", "40 e9", "jmp");
    WAY.set(0).unwrap();
}

/// The optimiser's code around a site. `script/test` builds these tests with the optimiser, too.
#[cfg(not(debug_assertions))]
mod optimised {
    use super::SELDOM;
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};
    use patchpoint::{sites, unlikely};

    #[inline(never)]
    fn traced() -> u64 {
        std::hint::black_box(1)
    }

    /// The same function with a tracepoint at its end and without.
    #[inline(never)]
    extern "C" fn mix_traced(n: u64) -> u64 {
        let sum = n.wrapping_mul(3) ^ n.rotate_left(7);
        if unlikely!(SELDOM) {
            return traced();
        }
        sum
    }

    #[inline(never)]
    extern "C" fn mix_plain(n: u64) -> u64 {
        n.wrapping_mul(3) ^ n.rotate_left(7)
    }

    /// The instructions of a function in memory, in their order up to the first return.
    fn instructions(function: extern "C" fn(u64) -> u64) -> Vec<Instruction> {
        let start = function as *const () as usize;
        // SAFETY: code of this program, which goes on for more than these bytes.
        let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, 512) };
        let mut decoder = Decoder::with_ip(64, bytes, start as u64, DecoderOptions::NONE);
        let mut found = Vec::new();
        loop {
            let instruction = decoder.decode();
            found.push(instruction);
            if instruction.mnemonic() == Mnemonic::Ret || found.len() == 128 {
                return found;
            }
        }
    }

    #[test]
    fn a_disabled_branch_is_one_nop_and_nothing_else() {
        let _alone = crate::alone();
        SELDOM.set(false).unwrap();
        assert_eq!(mix_traced(10), mix_plain(10));
        let (traced, plain) = (instructions(mix_traced), instructions(mix_plain));
        // The same operations, and moves between registers as the compiler likes.
        let operations = |list: &[Instruction]| -> Vec<Mnemonic> {
            let mnemonics = list.iter().map(|instruction| instruction.mnemonic());
            mnemonics.filter(|mnemonic| *mnemonic != Mnemonic::Mov).collect()
        };
        let (mut with_site, mut without) = (operations(&traced), operations(&plain));
        without.push(Mnemonic::Nop);
        with_site.sort();
        without.sort();
        assert_eq!(with_site, without);
        let nop = SELDOM.raw();
        let site = sites().unwrap().into_iter().find(|site| {
            site.key == nop
                && traced.iter().any(|instruction| instruction.ip() == site.address as u64)
        });
        assert_eq!(site.unwrap().state, "nop");
    }
}
