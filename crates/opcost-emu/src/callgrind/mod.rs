//! Counting as callgrind does, for `opcost callgrind`: programs without a kernel, with threads and children, that turn counting on
//! and off themselves by Valgrind's client requests.
//!
//! This way of counting shares the decoder and QEMU's functions with the rest of the plugin and nothing else: each block calls the
//! plugin, so counts belong to the thread that executes, and the call stack is kept as callgrind keeps it.
//!
//! **Costs and calls follow callgrind's rules** (callgrind/bbcc.c and callstack.c of Valgrind 3.19): a call ends when the stack
//! pointer passes it; a jump to a function's first instruction, or to another file, is a call; linkage tables are skipped. A repeated
//! string instruction counts once, as on a processor; Valgrind counts its iterations.
//!
//! **Registers are read where a block begins**, as `stack.rs` explains. The program's first block finds their place: its instruction
//! pointer is known, and all other registers but the stack pointer are 0.

mod callbacks;
mod child;
mod code;
mod dump;
mod fatal;
mod files;
mod log;
pub(crate) mod registers;
mod request;
mod thread;

pub(crate) use callbacks::install;
