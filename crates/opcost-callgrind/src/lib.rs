//! Callgrind's options, caches and files: what `opcost callgrind` shares with the emulator's plugin.
//!
//! Data flow one way: the command line → [`options`] → [`settings`] → the plugin, which counts → [`mod@write`] → `callgrind.out`.
//!
//! **An option is never ignored.** [`options::OPTIONS`] has a row for each of Valgrind's options. A row acts on the option, says why
//! nothing would change, or refuses the option with the reason.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod cache;
pub mod names;
pub mod options;
pub mod program;
pub mod settings;
pub mod write;
