//! What a key makes of its sites for a function that is asked for: a call, or what the function does.
//!
//! The library's own recogniser decides, the same C function that `patchpoint_set_call` uses, on the
//! bytes of the other process.

use crate::instruction::{AS_COMPILED, DIRECT, INLINE, KeyState, TRAP_6};
use crate::memory::Memory;
use crate::survey::{Key, Kind};

/// What takes the place of calls of a function; `None` where sites call it.
fn body(memory: &impl Memory, function: u64) -> Option<[u8; 6]> {
    patchpoint::body(function, |address| memory.array::<1>(address).ok().map(|[byte]| byte))
}

/// Whether the library in the process made of the key's present function what this one makes of it.
///
/// Then it is taken to agree on other functions, too. The body that stands for a missing operation is
/// not made from code, and says nothing.
pub fn agrees(memory: &impl Memory, key: &Key) -> bool {
    if key.kind != Kind::Call || key.state.form == AS_COMPILED {
        return true;
    }
    let theirs = (key.state.form == INLINE).then_some(key.state.body);
    theirs == Some(TRAP_6) || theirs == body(memory, key.state.slot)
}

/// The state of a key that has the value `asked`.
///
/// Sites that were never patched stay so. Where the two libraries do not agree a function is called,
/// which is right whatever it does.
pub fn asked(memory: &impl Memory, key: &Key, asked: u64) -> KeyState {
    if key.kind != Kind::Call || key.state.form == AS_COMPILED {
        return KeyState { slot: asked, ..key.state };
    }
    match body(memory, asked).filter(|_| agrees(memory, key)) {
        Some(body) => KeyState { slot: asked, form: INLINE, body },
        None => KeyState { slot: asked, form: DIRECT, body: [0; 6] },
    }
}
