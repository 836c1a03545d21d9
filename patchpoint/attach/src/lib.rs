//! Inspects and changes running programs that use patchpoint, from outside.
//!
//! ```text
//! Process → Survey (keys, sites) → Change (what to write, and what it replaces) → Side, one of two or more
//! ```
//!
//! Everything up to [`change::Change`] is pure, except that it reads a [`memory::Memory`].
//! [`target`] stops the process and writes. [`guardian`] runs in another process and restores a
//! target whose changer was killed.
//!
//! The library's own code, in the crate `patchpoint`, decides what sites hold and would hold. The
//! formats are those of `include/patchpoint.h`, format 2; no symbols are needed.

mod arch;
pub mod body;
pub mod change;
pub mod error;
pub mod guardian;
pub mod image;
pub mod maps;
pub mod memory;
mod printable;
pub mod process;
pub mod registry;
pub mod span;
pub mod stop;
pub mod survey;
pub mod symbol;
pub mod target;
pub mod value;
pub mod writes;

pub use error::{AttachError, ChangeError};
pub use patchpoint::{Form, State};
