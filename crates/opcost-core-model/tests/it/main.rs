//! The model from outside: streams of instructions with known cycles.

mod any;
mod control;
mod core_file;
mod fixture;
mod stream;
mod transfers;
