//! `--match`: pairs of corresponding files of the baseline and the variant.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A file of the baseline and the same file of the variant, written `OLD=NEW`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct SameFile {
    /// The baseline's file, by path or name.
    pub old: String,
    /// The variant's file, by path or name.
    pub new: String,
}

impl FromStr for SameFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((old, new)) if !old.is_empty() && !new.is_empty() => {
                Ok(SameFile { old: old.into(), new: new.into() })
            }
            _ => Err("expected OLD=NEW, two files by path or name, as prog-1.2=prog-1.3".into()),
        }
    }
}

impl fmt::Display for SameFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.old, self.new)
    }
}
