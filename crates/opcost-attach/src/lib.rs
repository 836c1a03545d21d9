//! Running programs that use patchpoint, seen and changed from outside.
//!
//! ```text
//! Process → Survey (keys, sites) → Change (what to write, and what it replaces) → Side, one of two or more
//! ```
//!
//! Everything up to [`change::Change`] is pure but for a [`memory::Memory`] to read; [`target`]
//! stops the process and writes. [`guardian`] is the part of another process that puts back what a
//! killed one left changed.
//!
//! What sites hold and would hold is told by the library's own code, which the crate `patchpoint` has.
//! The formats are those of `patchpoint/include/patchpoint.h`, format 2; no symbols are needed.

#![forbid(unsafe_code)]

pub mod body;
pub mod change;
pub mod error;
pub mod guardian;
pub mod image;
pub mod maps;
pub mod memory;
pub mod process;
pub mod registry;
pub mod span;
pub mod survey;
pub mod symbol;
pub mod target;
pub mod value;
pub mod writes;

pub use error::{AttachError, ChangeError};
pub use patchpoint::{Form, State};
