//! Symbols of kernels and programs: which function each byte of code belongs to.
//!
//! The way is one line: text of `kallsyms` → [`kernel`], files → [`program`] (by way of [`elf`]),
//! both → [`assemble`](assemble::assemble) → [`opcost_record::symbols::Symbols`]. Nothing here
//! knows who asks: the emulator's plugin and sampled profiles get the same names.
//!
//! A name is never guessed: code without a symbol is `[at 0x4a10]` where unwind information says
//! that a function starts there, `[plt]` in a linkage table, and `[text]` otherwise.

pub mod alias;
pub mod assemble;
pub mod clone;
pub mod demangle;
pub mod elf;
pub mod kernel;
mod label;
mod landmark;
pub mod naming;
pub mod program;
pub mod readable;
pub mod section;
pub mod span;

use opcost_record::Function;

/// A range of addresses or file offsets that belongs to one function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// First address or offset, bytes.
    pub start: u64,
    /// The one behind the last.
    pub end: u64,
    /// Whose it is.
    pub function: Function,
}
