//! Text for XML.

use opcost_record::printable::is_obeyed;

/// Escapes a text for elements and attributes. XML 1.0 does not allow control characters (section
/// 2.2): they become their numbers.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push('\n'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ if is_obeyed(char) => escaped.extend(char.escape_unicode()),
            _ => escaped.push(char),
        }
    }
    escaped
}
