//! Documents of JSON for people and programs. Strings keep their values, and no character of a document moves a
//! terminal's cursor or hides text: it stands as JSON's escape.

use anyhow::{Context, Result};
use opcost_record::printable::printable_json;
use serde::Serialize;

/// A value as a document of several lines.
///
/// `what` names the value in an error.
///
/// # Errors
/// The value has no form in JSON.
pub fn document(value: &impl Serialize, what: &str) -> Result<String> {
    let text = serde_json::to_string_pretty(value).with_context(|| format!("{what} to JSON"))?;
    Ok(printable_json(&text) + "\n")
}

/// A value as a document of one line.
///
/// # Errors
/// The value has no form in JSON.
pub fn line(value: &impl Serialize, what: &str) -> Result<String> {
    let text = serde_json::to_string(value).with_context(|| format!("{what} to JSON"))?;
    Ok(printable_json(&text))
}
