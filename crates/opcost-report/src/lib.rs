//! From analyses to reports in every format; pure.

#![forbid(unsafe_code)]

pub mod render;
