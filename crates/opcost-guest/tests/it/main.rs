//! The integration tests of opcost-guest: one program, so that it is linked once.

mod work;
