//! The instructions of x86-64 sites: as compiled, and for each value of their key.
//!
//! The same forms as `patchpoint/src/arch/x86_64.c` makes; tests compare the two in running
//! programs. Which functions are called, and what takes the place of other calls: [`crate::body`].

use crate::memory::Fields;
use crate::survey::Kind;

/// A site as its record describes it (`struct patchpoint_site`), addresses resolved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    /// Where its instruction is.
    pub address: u64,
    /// The key by its symbol in the site's own object: what the form as compiled reads.
    pub key: u64,
    /// Branch: the code that tests the key; saved call: the thunk.
    pub aux: u64,
    /// What it asks of its key.
    pub kind: Kind,
    /// Bytes of its instruction.
    pub length: u8,
    /// Branch: falls through when true (`PATCHPOINT_SITE_LIKELY`).
    pub likely: bool,
    /// Call: preserves the general registers (`PATCHPOINT_SITE_SAVED`).
    pub saved: bool,
    /// Branch: where the other side is, if the code at `aux` says so.
    pub other: Option<u64>,
}

/// What a key makes of its sites (`struct patchpoint_key`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyState {
    /// The slot: a function's address, a value's bits, 0 or 1.
    pub slot: u64,
    /// Call: which form its patched sites have.
    pub form: u8,
    /// Call: their bytes where the form is [`INLINE`].
    pub body: [u8; 6],
}

impl KeyState {
    /// From the bytes of a key's slot, and of its form and body where it is a call.
    pub(crate) fn from_bytes(slot: &[u8], form: Option<&[u8]>) -> KeyState {
        let form = Fields(form.unwrap_or_default());
        let body = std::array::from_fn(|index| form.u8(1 + index));
        KeyState { slot: Fields(slot).u64(0), form: form.u8(0), body }
    }
}

/// No site was patched yet (`enum patchpoint_form`).
pub const AS_COMPILED: u8 = 0;
/// Patched sites call the function.
pub const DIRECT: u8 = 1;
/// Patched sites hold what the function's body does.
pub const INLINE: u8 = 2;

/// A breakpoint's byte.
pub const BREAKPOINT: u8 = 0xcc;
/// The most bytes of a site.
pub const LENGTH_MAX: usize = 10;

const CALL_LENGTH: u8 = 6;
const BRANCH_LENGTH: u8 = 5;
const LOAD_64_LENGTH: u8 = 10;
const NOP_5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
const NOP_6: [u8; 6] = [0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00];
pub(crate) const TRAP_6: [u8; 6] = [0x67, 0x67, 0x67, 0x67, 0x0f, 0x0b];

/// Why there are no bytes for a site.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unfit {
    /// The target is more than 2 GiB away.
    Far,
    /// The site is none that this knows, or holds what no site holds.
    Unknown,
}

/// What a site holds as compiled; `now`, what it holds, tells the register of a value.
///
/// # Errors
/// [`Unfit::Unknown`].
pub fn original(record: &Record, now: &[u8]) -> Result<Vec<u8>, Unfit> {
    match (record.kind, record.length) {
        (Kind::Call, CALL_LENGTH) if record.saved => relative(record, &[0x67, 0xe8], record.aux),
        (Kind::Call, CALL_LENGTH) => relative(record, &[0xff, 0x15], record.key),
        (Kind::Branch, BRANCH_LENGTH) if record.other.is_some() => {
            relative(record, &[0xe9], record.aux)
        }
        (Kind::Value, length) => {
            let register = value_register(length, now).ok_or(Unfit::Unknown)?;
            let operation = [0x8b, 0x05 | (register & 7) << 3];
            let before: &[u8] = match (length, register >= 8) {
                (LOAD_64_LENGTH, false) => &[0x2e, 0x2e, 0x2e, 0x48],
                (LOAD_64_LENGTH, true) => &[0x2e, 0x2e, 0x2e, 0x4c],
                (_, true) => &[0x44],
                (_, false) => &[],
            };
            relative(record, &[before, &operation].concat(), record.key)
        }
        _ => Err(Unfit::Unknown),
    }
}

/// What a site holds when it is patched for a key's state.
///
/// `stub`: the jump near the site's object that leads to the function, for one out of reach.
///
/// # Errors
/// [`Unfit`]; without a stub, a site whose target is far stays as compiled.
pub fn patched(
    record: &Record,
    now: &[u8],
    key: &KeyState,
    stub: Option<u64>,
) -> Result<Vec<u8>, Unfit> {
    match (record.kind, record.length) {
        (Kind::Call, CALL_LENGTH) if key.form == INLINE => Ok(key.body.to_vec()),
        (Kind::Call, CALL_LENGTH) if key.form != DIRECT => Err(Unfit::Unknown),
        // The thunk is as near as it was, and its own call is patched.
        (Kind::Call, CALL_LENGTH) if record.saved => original(record, now),
        (Kind::Call, CALL_LENGTH) => match relative(record, &[0x67, 0xe8], key.slot) {
            Err(Unfit::Far) => relative(record, &[0x67, 0xe8], stub.ok_or(Unfit::Far)?),
            bytes => bytes,
        },
        (Kind::Branch, BRANCH_LENGTH) => {
            let other = record.other.ok_or(Unfit::Unknown)?;
            if (key.slot != 0) == record.likely {
                return Ok(NOP_5.to_vec());
            }
            relative(record, &[0xe9], other).map_err(|_| Unfit::Unknown)
        }
        (Kind::Value, length) => {
            let register = value_register(length, now).ok_or(Unfit::Unknown)?;
            let (low, high) = (register & 7, register >= 8);
            Ok(match length {
                LOAD_64_LENGTH => {
                    let head = [0x48 | u8::from(high), 0xb8 | low];
                    [&head[..], &key.slot.to_le_bytes()].concat()
                }
                _ => {
                    let head =
                        if high { vec![0x41, 0xc7, 0xc0 | low] } else { vec![0xc7, 0xc0 | low] };
                    [&head[..], &(key.slot as u32).to_le_bytes()].concat()
                }
            })
        }
        _ => Err(Unfit::Unknown),
    }
}

/// A word for what a site holds, the library's own (`patchpoint_site_iterate`).
pub fn state(record: &Record, now: &[u8], key: &KeyState, stub: Option<u64>) -> &'static str {
    if original(record, now).is_ok_and(|bytes| bytes == now) {
        return if record.saved { "thunk" } else { "data" };
    }
    if patched(record, now, key, stub).is_ok_and(|bytes| bytes == now) {
        return match record.kind {
            Kind::Value => "immediate",
            Kind::Branch if now[0] == 0xe9 => "jump",
            Kind::Branch => "nop",
            Kind::Call if key.form == INLINE => body_state(now),
            Kind::Call if relative(record, &[0x67, 0xe8], key.slot).is_ok() => "call",
            Kind::Call => "stub",
        };
    }
    "foreign"
}

fn body_state(body: &[u8]) -> &'static str {
    match body {
        body if body == NOP_6 => "nop",
        body if body == TRAP_6 => "trap",
        [0xc7, 0xc0, ..] => "constant",
        [0x2e, 0x2e, 0x2e, _, 0x89, registers, ..] if *registers >= 0xc0 => "move",
        _ => "inline",
    }
}

/// An instruction whose last 4 bytes lead to `target`, relative to its end.
fn relative(record: &Record, operation: &[u8], target: u64) -> Result<Vec<u8>, Unfit> {
    if operation.len() + 4 != usize::from(record.length) {
        return Err(Unfit::Unknown);
    }
    let end = record.address.wrapping_add(u64::from(record.length));
    let distance = target.wrapping_sub(end) as i64;
    let near = i32::try_from(distance).map_err(|_| Unfit::Far)?;
    Ok([operation, &near.to_le_bytes()].concat())
}

/// The register of a value site, in its form as compiled or its immediate form.
fn value_register(length: u8, now: &[u8]) -> Option<u8> {
    if now.len() != usize::from(length) {
        return None;
    }
    match (length, now) {
        (LOAD_64_LENGTH, [rex @ (0x48 | 0x49), move_ @ 0xb8..=0xbf, ..]) => {
            Some(move_ & 7 | (rex & 1) << 3)
        }
        (LOAD_64_LENGTH, [0x2e, 0x2e, 0x2e, rex @ (0x48 | 0x4c), 0x8b, place, ..])
            if place & 0xc7 == 0x05 =>
        {
            Some(place >> 3 & 7 | (rex & 4) << 1)
        }
        (7, [0x41, 0xc7, place @ 0xc0..=0xc7, ..]) => Some(place & 7 | 8),
        (7, [0x44, 0x8b, place, ..]) if place & 0xc7 == 0x05 => Some(place >> 3 & 7 | 8),
        (6, [0xc7, place @ 0xc0..=0xc7, ..]) => Some(place & 7),
        (6, [0x8b, place, ..]) if place & 0xc7 == 0x05 => Some(place >> 3 & 7),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind, length: u8) -> Record {
        Record {
            address: 0x1000,
            key: 0x5000,
            aux: 0x2000,
            kind,
            length,
            likely: false,
            saved: false,
            other: Some(0x1100),
        }
    }

    fn key(slot: u64, form: u8) -> KeyState {
        KeyState { slot, form, body: [0x2e, 0x2e, 0x2e, 0x48, 0x89, 0xf8] }
    }

    fn check(record: &Record, now: &[u8], key: KeyState, compiled: &[u8], made: &[u8]) {
        assert_eq!(original(record, now).as_deref(), Ok(compiled));
        assert_eq!(patched(record, now, &key, None).as_deref(), Ok(made));
    }

    // The bytes of docs/patchpoint.md, which a test of the library compares with a program's.
    #[test]
    fn values_keep_their_register_both_ways() {
        let compiled = [0x8b, 0x05, 0xfa, 0x3f, 0, 0];
        let made = [0xc7, 0xc0, 0x2a, 0, 0, 0];
        check(&record(Kind::Value, 6), &compiled, key(42, 0), &compiled, &made);
        check(&record(Kind::Value, 6), &made, key(42, 0), &compiled, &made);
        let compiled = [0x44, 0x8b, 0x2d, 0xf9, 0x3f, 0, 0];
        let made = [0x41, 0xc7, 0xc5, 0xff, 0xff, 0xff, 0xff];
        check(&record(Kind::Value, 7), &compiled, key(0xffff_ffff, 0), &compiled, &made);
        check(&record(Kind::Value, 7), &made, key(0xffff_ffff, 0), &compiled, &made);
        let compiled = [0x2e, 0x2e, 0x2e, 0x4c, 0x8b, 0x05, 0xf6, 0x3f, 0, 0];
        let made = [0x49, 0xb8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];
        let wide = key(0x1122_3344_5566_7788, 0);
        check(&record(Kind::Value, 10), &compiled, wide, &compiled, &made);
        check(&record(Kind::Value, 10), &made, wide, &compiled, &made);
        assert_eq!(original(&record(Kind::Value, 6), &[0x90; 6]), Err(Unfit::Unknown));
        assert_eq!(original(&record(Kind::Value, 9), &[0x90; 9]), Err(Unfit::Unknown));
    }

    #[test]
    fn branches_follow_the_truth_table() {
        let jump = [0xe9, 0xfb, 0, 0, 0];
        let compiled = [0xe9, 0xfb, 0x0f, 0, 0];
        for (likely, slot, made) in
            [(false, 0, NOP_5), (false, 1, jump), (true, 1, NOP_5), (true, 0, jump)]
        {
            let record = Record { likely, ..record(Kind::Branch, 5) };
            check(&record, &compiled, key(slot, 0), &compiled, &made);
        }
        let without = Record { other: None, ..record(Kind::Branch, 5) };
        assert_eq!(original(&without, &compiled), Err(Unfit::Unknown));
    }

    #[test]
    fn calls_are_direct_inline_or_through_a_stub() {
        let compiled = [0xff, 0x15, 0xfa, 0x3f, 0, 0];
        let plain = record(Kind::Call, 6);
        check(&plain, &compiled, key(0x1234, DIRECT), &compiled, &[0x67, 0xe8, 0x2e, 2, 0, 0]);
        check(&plain, &compiled, key(9, INLINE), &compiled, &key(9, INLINE).body);
        let saved = Record { saved: true, ..plain };
        let thunk = [0x67, 0xe8, 0xfa, 0x0f, 0, 0];
        check(&saved, &thunk, key(0x1234, DIRECT), &thunk, &thunk);
        let far = key(1 << 40, DIRECT);
        assert_eq!(patched(&plain, &compiled, &far, None), Err(Unfit::Far));
        let through = patched(&plain, &compiled, &far, Some(0x1106));
        assert_eq!(through, Ok(vec![0x67, 0xe8, 0, 1, 0, 0]));
        assert_eq!(patched(&plain, &compiled, &key(1, AS_COMPILED), None), Err(Unfit::Unknown));
    }

    #[test]
    fn states_have_the_librarys_words() {
        let plain = record(Kind::Call, 6);
        let words = |now: &[u8], key: KeyState| state(&plain, now, &key, Some(0x1106));
        assert_eq!(words(&[0xff, 0x15, 0xfa, 0x3f, 0, 0], key(1, DIRECT)), "data");
        assert_eq!(words(&[0x67, 0xe8, 0x2e, 2, 0, 0], key(0x1234, DIRECT)), "call");
        assert_eq!(words(&[0x67, 0xe8, 0, 1, 0, 0], key(1 << 40, DIRECT)), "stub");
        assert_eq!(words(&key(1, INLINE).body, key(1, INLINE)), "move");
        assert_eq!(words(&[0xcc, 0xe8, 0x2e, 2, 0, 0], key(0x1234, DIRECT)), "foreign");
        assert_eq!(words(&[], key(0x1234, DIRECT)), "foreign");
        let nop = KeyState { body: NOP_6, ..key(1, INLINE) };
        assert_eq!(words(&NOP_6, nop), "nop");
    }
}
