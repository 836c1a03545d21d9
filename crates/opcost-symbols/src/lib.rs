//! Symbols of kernels and programs: the function of each byte of code.
//!
//! Data flow one way: text of `kallsyms` → [`kernel`], files → [`program`] (by way of [`elf`]),
//! both → [`assemble`](assemble::assemble) → [`opcost_record::symbols::Symbols`]. The emulator's
//! plugin and sampled profiles get the same names.
//!
//! A name is never guessed: code without a symbol is `[at 0x4a10]` where unwind information says
//! that a function starts there, `[plt]` in a linkage table, and `[text]` otherwise.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod alias;
pub mod assemble;
pub mod clone;
pub mod debug_files;
pub mod debug_package;
mod debuginfod;
pub mod demangle;
pub mod elf;
pub mod kernel;
pub mod keyed;
mod label;
mod landmark;
pub mod naming;
pub mod program;
pub mod readable;
pub mod section;
pub mod span;

#[cfg(test)]
#[path = "../../../patchpoint/tests/skip.rs"]
mod skip;

use opcost_record::Function;

/// A range of addresses or file offsets that belongs to one function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Part {
    /// First address or offset, bytes.
    pub start: u64,
    /// The first address or offset behind the part.
    pub end: u64,
    /// The function.
    pub function: Function,
}
