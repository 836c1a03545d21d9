//! A report as data ([`document::Document`]), and the writers that turn it into text of any width, Markdown, HTML and mail.
//!
//! A report is built once, without regard to a format. Writers decide on width, colour, markup and shortened names, and make
//! foreign text harmless for their kind of output. Nothing here opens a file or looks at the environment.

#![forbid(unsafe_code)]

pub mod ascii;
pub mod document;
pub mod names;
pub mod page;
pub mod plot;
pub mod style;
pub mod writer;
