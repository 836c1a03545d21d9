//! What a key makes of its sites for a function that is asked for: a call, or what the function does.
//!
//! The library's own recogniser decides, the same C function that `patchpoint_set_call` uses, on the
//! bytes of the other process.

use crate::memory::{Memory, code_of};
use crate::survey::{Key, Kind, Survey};
use patchpoint::{Body, Form, State};

/// Stands for a missing operation (`patchpoint_null_trap`).
const TRAP: Body = [0x40, 0x67, 0x67, 0x67, 0x67, 0x0f, 0x0b];

/// What takes the place of calls of a function; `None` where sites call it.
fn body(memory: &impl Memory, function: u64) -> Option<Body> {
    patchpoint::body(function, code_of(memory))
}

/// Whether the library in the process made of the key's present function what this one makes of it.
///
/// Then it is taken to agree on other functions, too. The body that stands for a missing operation is
/// not made from code, and says nothing.
pub fn agrees(memory: &impl Memory, key: &Key) -> bool {
    if key.kind != Kind::Call || key.state.form == Form::AS_COMPILED {
        return true;
    }
    let theirs = (key.state.form == Form::INLINE).then_some(key.state.body);
    theirs == Some(TRAP) || theirs == body(memory, key.state.value)
}

/// The state of a key that has the value `asked`.
///
/// Sites that were never patched stay so. Where the two libraries do not agree a function is called,
/// which is right whatever it does.
pub fn asked(memory: &impl Memory, survey: &Survey, key: &Key, asked: u64) -> State {
    if key.kind != Kind::Call || key.state.form == Form::AS_COMPILED {
        return State { value: asked, ..key.state };
    }
    if let Some(body) = body(memory, asked).filter(|_| agrees(memory, key)) {
        return State { value: asked, form: Form::INLINE, body };
    }
    let preserving = survey.registries[key.registry].preserves(asked);
    let form = if preserving { Form::PRESERVING } else { Form::DIRECT };
    State { value: asked, form, body: Body::default() }
}
