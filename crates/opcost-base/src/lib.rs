//! Numbers, times, exit statuses, messages and temporary folders of opcost.

#![forbid(unsafe_code)]

pub mod exit;
pub mod failure;
pub mod json;
pub mod listing;
pub mod message;
pub mod number;
pub mod os_text;
pub mod phases;
pub mod scratch;
pub mod time;
