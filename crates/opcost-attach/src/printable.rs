//! Text of another program as it may be shown.

/// A text in which nothing moves a terminal's cursor or hides what is there: control characters and those
/// that turn the direction of writing are escaped (`\u{1b}`).
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match char.is_control() || turns {
            true => shown.extend(char.escape_unicode()),
            false => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(printable("a key/ä"), "a key/ä");
        assert_eq!(printable("\x1b[2Jx\n\u{202e}"), "\\u{1b}[2Jx\\u{a}\\u{202e}");
    }
}
