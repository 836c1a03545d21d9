//! The destination of a command's standard output.

use opcost_record::printable::printable;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The destination of a command's standard output.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputPlan {
    /// /dev/null; some programs recognise it and then write nothing.
    Null,
    /// A pipe that opcost reads and discards.
    Pipe,
    /// The destination of opcost's own output, for standard error too.
    Inherit,
    /// A file, by absolute path, which each run creates anew; in a guest, a file of the guest.
    File(PathBuf),
}

impl OutputPlan {
    /// Reads a word, or a path relative to `cwd`.
    pub fn of_text(text: &str, cwd: &Path) -> OutputPlan {
        match text {
            "null" => OutputPlan::Null,
            "pipe" => OutputPlan::Pipe,
            "inherit" => OutputPlan::Inherit,
            path => OutputPlan::File(cwd.join(path).components().collect()),
        }
    }

    /// The text that [`of_text`](Self::of_text) reads.
    pub fn text(&self) -> String {
        match self {
            OutputPlan::Null => "null".into(),
            OutputPlan::Pipe => "pipe".into(),
            OutputPlan::Inherit => "inherit".into(),
            OutputPlan::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// The redirection behind a command: ` > FILE`; empty if there is none.
    pub fn as_redirection(&self) -> String {
        match self {
            OutputPlan::Null | OutputPlan::Inherit => String::new(),
            OutputPlan::Pipe => " | (opcost)".into(),
            OutputPlan::File(path) => format!(" > {}", printable(&path.to_string_lossy())),
        }
    }
}
