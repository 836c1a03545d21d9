//! Commands, one file or folder each: its arguments and its flow from them to bytes.

pub mod attach;
pub mod compare;
pub mod completions;
pub mod diff;
pub mod doctor;
pub mod forget;
mod function_option;
pub mod globals;
pub mod history;
pub mod import;
pub mod kernel;
pub mod list;
pub mod man;
pub mod measure;
pub mod output;
pub mod profile;
mod record;
pub mod report;
pub mod resume;
pub mod run;
mod seconds;
pub mod selftest;
pub mod show;
pub mod size;
mod subject;
pub mod top;
mod variant;
