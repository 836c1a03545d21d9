//! The integration tests of patchpoint-attach: one program, so that it is linked once.

mod change;
mod hostile;
#[path = "../made/mod.rs"]
mod made;
mod meanwhile;
mod others;
mod programs;
mod refusals;
#[path = "../../../tests/skip.rs"]
mod skip;
