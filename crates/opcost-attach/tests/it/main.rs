//! The integration tests of opcost-attach: one program, so that it is linked once.

mod change;
mod hostile;
#[path = "../made/mod.rs"]
mod made;
mod meanwhile;
mod others;
mod programs;
mod refusals;
