//! The integration tests of opcost-gauge: one program, so that it is linked once.

mod archives;
mod program;
#[path = "../../../../patchpoint/tests/skip.rs"]
mod skip;
