//! Suites, gates, series and bisections: data, judgement and search.

#![forbid(unsafe_code)]

pub mod gate;
