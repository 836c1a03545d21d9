//! The live view of `opcost top`: what runs at this moment, function by function.
//!
//! ```text
//! Live (samples) → Interval → State ← keys
//!                               ↓
//!                             screen
//! ```
//!
//! State and screen are pure; only `live` samples, only `terminal` knows a terminal. opcost has this crate by its cargo feature `top`.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod interval;
pub mod live;
pub mod screen;
pub mod state;
pub mod terminal;
