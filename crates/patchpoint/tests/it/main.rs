//! The integration tests of patchpoint: one program, so that it is linked once.

mod builds;
mod depends;
mod instructions;
mod with_c;
