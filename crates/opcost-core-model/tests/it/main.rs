//! The model from outside: streams of instructions with known cycles.

mod stream;
