//! The integration tests of patchpoint-log: one program, so that it is linked once.

mod levels;
