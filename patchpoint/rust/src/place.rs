//! Sites of any process: what they hold and would hold, by the library's own code.
//!
//! For tools that look at or change sites from outside. Code is read through a function, which returns
//! the byte at an address, of this process or of another, and `None` if there is none.

use crate::abi::{self, BODY_SIZE, LENGTH_MAX, RawPlace, RawState, Reader};
use std::ffi::{CStr, c_void};

/// The bytes of a call's site if the function's body takes the place of the call.
pub type Body = [u8; BODY_SIZE];

/// A site's record (`struct patchpoint_site`), its addresses resolved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The address of its instruction.
    pub code: u64,
    /// The key in the site's own object, which the form as compiled reads.
    pub key: u64,
    /// Branch and switch: the code that tests the key; preserving call: the thunk; else 0.
    pub aux: u64,
    /// The kind of its key: 1 call, 2 value, 3 branch, 4 switch.
    pub kind: u8,
    /// The length of its instruction, in bytes.
    pub length: u8,
    /// 1: a branch that falls through when true; 2: a call that preserves the general registers.
    pub flags: u8,
}

/// The part of a key that decides the bytes of its sites (`struct patchpoint_key`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// The slot: a function's address, a value's bits, 0 or 1, a way's number.
    pub value: u64,
    /// Call: the form of its patched sites.
    pub form: Form,
    /// Call: the bytes of its patched sites if the form is [`Form::INLINE`].
    pub body: Body,
}

/// The form of a call key's patched sites (`enum patchpoint_form`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Form(pub u8);

impl Form {
    /// No site was patched yet.
    pub const AS_COMPILED: Form = Form(0);
    /// Sites call the function, register-preserving sites through a thunk.
    pub const DIRECT: Form = Form(1);
    /// Sites hold the function's body.
    pub const INLINE: Form = Form(2);
    /// All sites call the function, which keeps the registers itself.
    pub const PRESERVING: Form = Form(3);
}

/// The reason why there are no bytes for a site.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unfit {
    /// The function is more than 2 GiB away, and no jump near the site leads to it.
    Far,
    /// The library does not know such a site, or the site holds bytes of no form.
    Unknown,
}

/// Returns the bytes that a change to `function` puts in the place of its calls; `None` if sites call it.
///
/// Nothing is called. The function of a [`Missing::Trap`](crate::Missing::Trap) is recognised by its address, so only in its own
/// process.
pub fn body(function: u64, mut read: impl FnMut(u64) -> Option<u8>) -> Option<Body> {
    let mut body = [0; BODY_SIZE];
    let (reader, context) = reader(&mut read);
    // SAFETY: the reader goes with its context, and `body` has as many bytes as the library writes; it
    // uses both before it returns, and keeps neither.
    let found = unsafe { abi::patchpoint_body(reader, context, function, &raw mut body) };
    (found == 1).then_some(body)
}

impl Place {
    /// Returns the site's bytes as compiled; `now`, its present bytes, tells the register of a value.
    ///
    /// # Errors
    /// [`Unfit::Unknown`].
    pub fn compiled(
        &self,
        now: &[u8],
        mut read: impl FnMut(u64) -> Option<u8>,
    ) -> Result<Vec<u8>, Unfit> {
        let (now, mut bytes) = (self.held(now)?, [0; LENGTH_MAX]);
        let (reader, context) = reader(&mut read);
        // SAFETY: as in `body`; `now` has as many bytes as the longest site.
        let error = unsafe {
            abi::patchpoint_place_compiled(
                reader,
                context,
                &self.raw(),
                now.as_ptr(),
                &raw mut bytes,
            )
        };
        self.outcome(error, &bytes)
    }

    /// Returns the site's bytes when it is patched for a key's state.
    ///
    /// `stub`: the jump near the site's object to the function, if the function is out of reach.
    ///
    /// # Errors
    /// [`Unfit`]; without a stub, a site whose function is far stays as compiled.
    pub fn patched(
        &self,
        now: &[u8],
        state: &State,
        stub: Option<u64>,
        mut read: impl FnMut(u64) -> Option<u8>,
    ) -> Result<Vec<u8>, Unfit> {
        let (now, mut bytes) = (self.held(now)?, [0; LENGTH_MAX]);
        let (reader, context) = reader(&mut read);
        // SAFETY: as in `compiled`.
        let error = unsafe {
            abi::patchpoint_place_patched(
                reader,
                context,
                &self.raw(),
                now.as_ptr(),
                &state.raw(),
                stub.unwrap_or(0),
                &raw mut bytes,
            )
        };
        self.outcome(error, &bytes)
    }

    /// Returns the word for what the site holds, as [`Site::state`](crate::Site::state); `foreign` also for an unknown record.
    pub fn word(
        &self,
        now: &[u8],
        state: &State,
        stub: Option<u64>,
        mut read: impl FnMut(u64) -> Option<u8>,
    ) -> &'static str {
        let Ok(now) = self.held(now) else { return "foreign" };
        let (reader, context) = reader(&mut read);
        // SAFETY: as in `compiled`; the words are constants of the library.
        let word = unsafe {
            CStr::from_ptr(abi::patchpoint_place_word(
                reader,
                context,
                &self.raw(),
                now.as_ptr(),
                &state.raw(),
                stub.unwrap_or(0),
            ))
        };
        word.to_str().unwrap_or("foreign")
    }

    /// Copies the bytes that the site holds, with room for the longest site.
    fn held(&self, now: &[u8]) -> Result<[u8; LENGTH_MAX], Unfit> {
        let mut held = [0; LENGTH_MAX];
        let fits = now.len() == usize::from(self.length) && now.len() <= LENGTH_MAX;
        held.get_mut(..now.len()).filter(|_| fits).ok_or(Unfit::Unknown)?.copy_from_slice(now);
        Ok(held)
    }

    fn raw(&self) -> RawPlace {
        let Place { code, key, aux, kind, length, flags } = *self;
        RawPlace { code, key, aux, kind, length, flags }
    }

    fn outcome(&self, error: i32, bytes: &[u8; LENGTH_MAX]) -> Result<Vec<u8>, Unfit> {
        const ERANGE: i32 = 34;
        match error {
            0 => Ok(bytes[..usize::from(self.length)].to_vec()),
            error if error == -ERANGE => Err(Unfit::Far),
            _ => Err(Unfit::Unknown),
        }
    }
}

impl State {
    fn raw(&self) -> RawState {
        RawState { value: self.value, form: self.form.0, body: self.body }
    }
}

/// Makes a Rust closure the library's reader, and returns the reader with its context.
fn reader<F: FnMut(u64) -> Option<u8>>(read: &mut F) -> (Reader, *mut c_void) {
    (byte_at::<F>, (&raw mut *read).cast())
}

/// # Safety
/// `context` is an `F` that nobody else uses, `byte` one byte to be written.
unsafe extern "C" fn byte_at<F: FnMut(u64) -> Option<u8>>(
    context: *mut c_void,
    address: u64,
    byte: *mut u8,
) -> bool {
    // SAFETY: `reader` made the context of an `F`, which lives until the library returns to `reader`'s caller.
    let read = unsafe { &mut *context.cast::<F>() };
    let Some(found) = read(address) else { return false };
    // SAFETY: the library passes the address of a byte of its own.
    unsafe { *byte = found };
    true
}

// The bytes of x86-64 sites; tests/sites_aarch64.c has those of arm64.
#[cfg(all(test, patchpoint_native, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Code at an address.
    fn code(start: u64, bytes: &[u8]) -> impl FnMut(u64) -> Option<u8> {
        move |address| bytes.get(usize::try_from(address.checked_sub(start)?).ok()?).copied()
    }

    #[test]
    fn code_elsewhere_is_recognised_and_never_beyond_its_end() {
        let of = |bytes: &[u8]| body(0x1000, code(0x1000, bytes));
        // mov %rdi,%rax; ret, behind endbr64; and mov $5,%eax; ret.
        let identity = [0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0xc3];
        assert_eq!(of(&identity), Some([0x40, 0x2e, 0x2e, 0x2e, 0x48, 0x89, 0xf8]));
        assert_eq!(of(&[0xb8, 5, 0, 0, 0, 0xc3]), Some([0x40, 0xc7, 0xc0, 5, 0, 0, 0]));
        assert_eq!(of(&[0xc3]), Some([0x40, 0x66, 0x0f, 0x1f, 0x44, 0, 0]));
        for length in 0..identity.len() {
            assert_eq!(of(&identity[..length]), None, "{length} bytes");
        }
        // lea 1(%rdi),%rax; imul %rdi,%rax; ret.
        assert_eq!(of(&[0x48, 0x8d, 0x47, 1, 0x48, 0x0f, 0xaf, 0xc7, 0xc3]), None);
        // A patched site of its own, which may hold another instruction later: mov $5,%eax; ret.
        assert_eq!(of(&[0x40, 0xc7, 0xc0, 5, 0, 0, 0, 0xc3]), None);
    }

    fn place(kind: u8, length: u8, flags: u8) -> Place {
        Place { code: 0x1000, key: 0x5000, aux: 0x2000, kind, length, flags }
    }

    fn state(value: u64, form: Form) -> State {
        State { value, form, body: [0x40, 0x2e, 0x2e, 0x2e, 0x48, 0x89, 0xf8] }
    }

    fn check(
        place: &Place,
        now: &[u8],
        state: &State,
        compiled: &[u8],
        made: &[u8],
        at_aux: &[u8],
    ) {
        let read = || code(0x2000, at_aux);
        assert_eq!(place.compiled(now, read()).as_deref(), Ok(compiled));
        assert_eq!(place.patched(now, state, None, read()).as_deref(), Ok(made));
    }

    // The bytes of docs/patchpoint.md, which a test of the library compares with a program's.
    #[test]
    fn values_keep_their_register_both_ways() {
        let narrow = place(2, 7, 0);
        let compiled = [0x40, 0x8b, 0x15, 0xf9, 0x3f, 0, 0];
        let made = [0x40, 0xc7, 0xc2, 0x2a, 0, 0, 0];
        for now in [&compiled, &made] {
            check(&narrow, now, &state(42, Form(0)), &compiled, &made, &[]);
        }
        let wide = place(2, 11, 0);
        let compiled = [0x66, 0x66, 0x66, 0x66, 0x4c, 0x8b, 0x05, 0xf5, 0x3f, 0, 0];
        let made = [0x66, 0x49, 0xb8, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];
        for now in [&compiled, &made] {
            let state = state(0x1122_3344_5566_7788, Form(0));
            check(&wide, now, &state, &compiled, &made, &[]);
        }
        assert_eq!(narrow.compiled(&[0x90; 7], |_| None), Err(Unfit::Unknown));
        assert_eq!(narrow.compiled(&[0x90; 6], |_| None), Err(Unfit::Unknown));
        assert_eq!(place(2, 9, 0).compiled(&[0x90; 9], |_| None), Err(Unfit::Unknown));
        assert_eq!(place(9, 7, 0).compiled(&compiled[..7], |_| None), Err(Unfit::Unknown));
        assert_eq!(place(2, 255, 0).compiled(&[0; 255], |_| None), Err(Unfit::Unknown));
    }

    #[test]
    fn branches_and_switches_follow_the_code_that_tests_the_key() {
        let compiled = [0x40, 0xe9, 0xfa, 0x0f, 0, 0];
        let nop = [0x40, 0x0f, 0x1f, 0x44, 0, 0];
        // testb $1,…(%rip); je or jne to 0x1100.
        let test = |condition| {
            [&[0xf6, 5, 0, 0, 0, 0, 1, 0x0f, condition][..], &(-0xf0d_i32).to_le_bytes()].concat()
        };
        let jump = [0x40, 0xe9, 0xfa, 0, 0, 0];
        for (likely, value, made) in [(0, 0, nop), (0, 1, jump), (1, 1, nop), (1, 0, jump)] {
            let at_aux = test(0x85 - likely);
            check(
                &place(3, 6, likely),
                &compiled,
                &state(value, Form(0)),
                &compiled,
                &made,
                &at_aux,
            );
        }
        assert_eq!(place(3, 6, 0).compiled(&compiled, |_| None), Err(Unfit::Unknown));
        // cmpb $way,…(%rip); je: two of them.
        let compare = |way: u8, to: i32| {
            [&[0x80, 0x3d, 0, 0, 0, 0, way, 0x0f, 0x84][..], &to.to_le_bytes()].concat()
        };
        let ways = [compare(1, -0xf0d), compare(2, -0xe1a)].concat();
        for (value, made) in [(0, nop), (1, jump), (2, [0x40, 0xe9, 0xfa, 1, 0, 0])] {
            check(&place(4, 6, 0), &compiled, &state(value, Form(0)), &compiled, &made, &ways);
        }
        let beyond =
            place(4, 6, 0).patched(&compiled, &state(3, Form(0)), None, code(0x2000, &ways));
        assert_eq!(beyond, Err(Unfit::Unknown));
    }

    #[test]
    fn calls_are_direct_inline_or_through_a_stub() {
        let (plain, saved) = (place(1, 7, 0), place(1, 7, 2));
        let compiled = [0x40, 0xff, 0x15, 0xf9, 0x3f, 0, 0];
        let direct = state(0x1234, Form::DIRECT);
        check(&plain, &compiled, &direct, &compiled, &[0x40, 0x67, 0xe8, 0x2d, 2, 0, 0], &[]);
        let inline = state(9, Form::INLINE);
        check(&plain, &compiled, &inline, &compiled, &inline.body, &[]);
        let thunk = [0x40, 0x67, 0xe8, 0xf9, 0x0f, 0, 0];
        check(&saved, &thunk, &direct, &thunk, &thunk, &[]);
        let preserving = state(0x1234, Form::PRESERVING);
        check(&saved, &thunk, &preserving, &thunk, &[0x40, 0x67, 0xe8, 0x2d, 2, 0, 0], &[]);
        let far = state(1 << 40, Form::DIRECT);
        assert_eq!(plain.patched(&compiled, &far, None, |_| None), Err(Unfit::Far));
        let through = plain.patched(&compiled, &far, Some(0x1107), |_| None);
        assert_eq!(through, Ok(vec![0x40, 0x67, 0xe8, 0, 1, 0, 0]));
        let never = state(1, Form::AS_COMPILED);
        assert_eq!(plain.patched(&compiled, &never, None, |_| None), Err(Unfit::Unknown));
    }

    #[test]
    fn places_have_the_librarys_words() {
        let plain = place(1, 7, 0);
        let word = |now: &[u8], state: &State| plain.word(now, state, Some(0x1107), |_| None);
        let direct = state(0x1234, Form::DIRECT);
        assert_eq!(word(&[0x40, 0xff, 0x15, 0xf9, 0x3f, 0, 0], &direct), "data");
        assert_eq!(word(&[0x40, 0x67, 0xe8, 0x2d, 2, 0, 0], &direct), "call");
        assert_eq!(word(&[0x40, 0x67, 0xe8, 0, 1, 0, 0], &state(1 << 40, Form::DIRECT)), "stub");
        let inline = state(1, Form::INLINE);
        assert_eq!(word(&inline.body, &inline), "move");
        assert_eq!(word(&[0xcc, 0x67, 0xe8, 0x2d, 2, 0, 0], &direct), "foreign");
        assert_eq!(word(&[], &direct), "foreign");
        let nop = State { body: [0x40, 0x66, 0x0f, 0x1f, 0x44, 0, 0], ..inline };
        assert_eq!(word(&nop.body, &nop), "nop");
    }
}
