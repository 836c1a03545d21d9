//! Decides how sites of a call key hold a function: as a call, or as the function's own body.
//!
//! The library's own recogniser decides, on the bytes of the other process. It is the C function
//! that `patchpoint_set_call` uses.

use crate::arch::TRAP;
use crate::memory::{Memory, code_of};
use crate::survey::{Key, Kind, Survey};
use patchpoint::{Body, Form, State};

/// The body that replaces calls of a function; `None` if sites call the function.
fn body(memory: &impl Memory, function: u64) -> Option<Body> {
    patchpoint::body(function, code_of(memory))
}

/// Whether the process's library and this one put the key's present function into sites in the same way.
///
/// If they do, opcost takes them to agree on every function. The body that stands for a missing
/// operation is not made from code, so it is no evidence and counts as agreement.
pub fn agrees(memory: &impl Memory, key: &Key) -> bool {
    if key.kind != Kind::Call || key.state.form == Form::AS_COMPILED {
        return true;
    }
    let theirs = (key.state.form == Form::INLINE).then_some(key.state.body);
    theirs == Some(TRAP) || theirs == body(memory, key.state.value)
}

/// The state of a key once it has the value `asked`.
///
/// Sites that were never patched stay so. If the two libraries disagree, sites call the function,
/// which is right for every function.
pub fn state_with(memory: &impl Memory, survey: &Survey, key: &Key, asked: u64) -> State {
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
