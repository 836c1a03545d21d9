//! Makes text of users and other programs safe to show.

/// Returns a text in which nothing moves a terminal's cursor or hides text: control characters, and
/// characters that change the direction of writing, are escaped (`\u{1b}`).
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match is_obeyed(char) {
            true => shown.extend(char.escape_unicode()),
            false => shown.push(char),
        }
    }
    shown
}

/// Makes each line of a text printable, and keeps the line breaks.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// Makes bytes printable; those that are not UTF-8 are escaped (`\xff`).
pub fn printable_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown += &printable(chunk.valid());
        for byte in chunk.invalid() {
            shown += &format!("\\x{byte:02x}");
        }
    }
    shown
}

/// Writes two digits a byte, as in digests and build identifiers.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a terminal would not show a character but act on it.
pub fn is_obeyed(char: char) -> bool {
    let turns =
        matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    char.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(printable("a key/ä"), "a key/ä");
        assert_eq!(printable("\x1b[2Jx\n\u{202e}"), "\\u{1b}[2Jx\\u{a}\\u{202e}");
        assert_eq!(printable_lines("a\x07\nb"), "a\\u{7}\nb");
        assert_eq!(printable_bytes(b"caf\xe9 \xc3\xa9\x1b"), "caf\\xe9 é\\u{1b}");
        assert_eq!(hexadecimal(&[0, 0x0a, 0xff]), "000aff");
    }
}
