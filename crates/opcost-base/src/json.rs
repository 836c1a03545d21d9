//! Documents of JSON for people and programs. Strings keep their values, and no character of a document moves a
//! terminal's cursor or hides text: it stands as JSON's escape.

use anyhow::{Context, Result};
use opcost_record::printable::printable_json;
use serde::Serialize;
use std::io;

/// A value as a document of several lines.
///
/// `what` names the value in an error.
///
/// # Errors
/// The value has no form in JSON.
pub fn document(value: &impl Serialize, what: &str) -> Result<String> {
    let mut text = Printable(Vec::new());
    serde_json::to_writer_pretty(&mut text, value).with_context(|| format!("{what} to JSON"))?;
    text.0.push(b'\n');
    String::from_utf8(text.0).with_context(|| format!("{what} to JSON"))
}

/// A value as a document of one line.
///
/// # Errors
/// The value has no form in JSON.
pub fn line(value: &impl Serialize, what: &str) -> Result<String> {
    let text = serde_json::to_string(value).with_context(|| format!("{what} to JSON"))?;
    Ok(printable_json(&text))
}

/// Makes a document printable while it is written: documents of many variants are long, and a copy would take as much again.
struct Printable(Vec<u8>);

impl io::Write for Printable {
    /// Takes a piece as a whole. A piece of a string is whole characters, and ends only at an escape, which no mark of a runner has.
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let is_plain = |byte: &u8| *byte == b'\n' || matches!(byte, b' '..=b'~');
        if piece.iter().all(is_plain) && !piece.windows(2).any(|pair| pair == b"##") {
            self.0.extend_from_slice(piece);
        } else {
            let text = std::str::from_utf8(piece).map_err(io::Error::other)?;
            self.0.extend_from_slice(printable_json(text).as_bytes());
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::document;

    #[test]
    fn a_document_is_printable_and_keeps_its_values() {
        let value =
            serde_json::json!({ "a": "\u{202e}é\n##[x] \"##vso[y]", "\u{9b}": [1.5, "##"] });
        let text = document(&value, "value").unwrap();
        assert_eq!(
            text,
            "{\n  \"a\": \"\\u202eé\\n#\\u0023[x] \\\"#\\u0023vso[y]\",\n  \"\\u009b\": [\n    1.5,\n    \"##\"\n  ]\n}\n"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
