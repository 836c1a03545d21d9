//! The pure part of `opcost gate`: the cases of a suite, the figures of a baseline file, and the decision whether a change may
//! land.

pub mod baseline;
pub mod bisect;
pub mod branch;
pub mod counts;
pub mod edits;
pub mod exact;
pub mod fixup;
pub mod floor;
pub mod judge;
pub mod key;
pub mod notes;
pub mod report;
pub mod search;
pub mod series;
pub mod suite;
pub mod suite_change;
pub mod trailer;
