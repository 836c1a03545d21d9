//! `opcost gate`, as far as it is pure: what a suite asks, what a baseline file says, and whether a change
//! may land.

pub mod baseline;
pub mod bisect;
pub mod counts;
pub mod edits;
pub mod judge;
pub mod key;
pub mod notes;
pub mod report;
pub mod search;
pub mod series;
pub mod suite;
pub mod trailer;
