//! The emulated machine.

pub mod probe;
