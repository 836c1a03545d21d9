//! One operation step by step: its tree of calls, the trees of two variants side by side, and the place where they part.
//!
//! The caller reads files and clocks; this crate sees only what a run recorded ([`opcost_record::steps`]).

#![forbid(unsafe_code)]

mod align;
pub mod chrome;
mod page;
mod parting;
mod tree;

pub use align::{Line, LineKind, SteppedDifference, alone, compare};
pub use page::{add, json, tree_of, whole};
pub use parting::{Branched, Parted, Parting, Why};
pub use tree::Side;
