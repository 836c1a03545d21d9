//! Names of another process, safe to show on a terminal.

/// Replaces the characters that a terminal would obey by their numbers (`\u{1b}`).
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match char.is_control() {
            true => shown.extend(char.escape_unicode()),
            false => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(super::printable("a key/ä"), "a key/ä");
        assert_eq!(super::printable("\x1b[2Jx\n"), "\\u{1b}[2Jx\\u{a}");
    }
}
