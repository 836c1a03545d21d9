//! Words of commands and paths in JSON and TOML. Both formats hold text only, so a word that is not
//! UTF-8 is a list of its bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "a string, or a list of bytes")]
enum Word {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for Word {
    fn from(word: &OsStr) -> Word {
        match word.to_str() {
            Some(text) => Word::Text(text.to_string()),
            None => Word::Bytes(word.as_bytes().to_vec()),
        }
    }
}

impl From<Word> for OsString {
    fn from(word: Word) -> OsString {
        match word {
            Word::Text(text) => text.into(),
            Word::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

/// Serde's functions for a list of words.
pub mod words {
    use super::*;

    pub fn serialize<S: Serializer>(words: &[OsString], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(words.iter().map(|word| Word::from(word.as_os_str())))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(words: D) -> Result<Vec<OsString>, D::Error> {
        let words = Vec::<Word>::deserialize(words)?;
        Ok(words.into_iter().map(OsString::from).collect())
    }
}

/// Serde's functions for a path.
pub mod path {
    use super::*;
    use std::path::{Path, PathBuf};

    pub fn serialize<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        Word::from(path.as_os_str()).serialize(out)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(path: D) -> Result<PathBuf, D::Error> {
        Ok(OsString::from(Word::deserialize(path)?).into())
    }
}
