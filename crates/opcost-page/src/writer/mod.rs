//! From a document to bytes: one file for each format.

pub mod html;
pub mod mail;
pub mod markdown;
mod table;
pub mod text;
