//! Where the standard output of a command goes.

use opcost_record::printable::printable;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where the standard output of a command goes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputPlan {
    /// /dev/null, which some programs know and then write nothing.
    Null,
    /// A pipe that opcost reads and forgets.
    Pipe,
    /// Where opcost's own goes; standard error as well.
    Inherit,
    /// A file, absolute, which each run makes anew; in a guest it is the guest's.
    File(PathBuf),
}

impl OutputPlan {
    /// Reads a word, or a path that begins at `cwd`.
    pub(crate) fn of_text(text: &str, cwd: &Path) -> OutputPlan {
        match text {
            "null" => OutputPlan::Null,
            "pipe" => OutputPlan::Pipe,
            "inherit" => OutputPlan::Inherit,
            path => OutputPlan::File(cwd.join(path).components().collect()),
        }
    }

    /// The text that [`of_text`](Self::of_text) reads.
    pub(crate) fn text(&self) -> String {
        match self {
            OutputPlan::Null => "null".into(),
            OutputPlan::Pipe => "pipe".into(),
            OutputPlan::Inherit => "inherit".into(),
            OutputPlan::File(path) => path.to_string_lossy().into_owned(),
        }
    }

    /// As it stands behind a command: ` > FILE`; empty where nothing is redirected.
    pub(crate) fn as_redirection(&self) -> String {
        match self {
            OutputPlan::Null | OutputPlan::Inherit => String::new(),
            OutputPlan::Pipe => " | (opcost)".into(),
            OutputPlan::File(path) => format!(" > {}", printable(&path.to_string_lossy())),
        }
    }
}
