//! Text for terminals whose locale is not UTF-8.

/// Whether a locale has other characters than ASCII: `LC_ALL`, `LC_CTYPE` and `LANG` as the environment has them. The first that is
/// set and not empty decides (POSIX.1-2024, section 8.2). If none is set, nothing says that UTF-8 is not shown.
pub fn shows_utf8(variables: [Option<&str>; 3]) -> bool {
    let locale = variables.into_iter().flatten().find(|value| !value.is_empty());
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// A text in ASCII: opcost's own signs become signs of ASCII, other characters their numbers (`\u{e9}`).
pub fn ascii(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        match sign(char) {
            _ if char.is_ascii() => shown.push(char),
            Some(sign) => shown.push_str(sign),
            None => shown.extend(char.escape_unicode()),
        }
    }
    shown
}

fn sign(char: char) -> Option<&'static str> {
    Some(match char {
        '·' | '–' | '−' | '─' => "-",
        '—' => "--",
        '…' => "...",
        '→' => "->",
        '←' => "<-",
        '↔' => "<->",
        '▲' => "^",
        '▼' => "v",
        '≥' => ">=",
        '≤' => "<=",
        '≠' => "!=",
        '≈' => "~",
        '±' => "+-",
        '×' => "x",
        'µ' => "u",
        '✓' => "+",
        '✗' => "x",
        '│' | '├' => "|",
        '└' => "`",
        '“' | '”' => "\"",
        '‘' | '’' => "'",
        '●' => "o",
        '²' => "^2",
        '³' => "^3",
        '₂' => "2",
        '▁' => "_",
        '▂' => ".",
        '▃' => "-",
        '▄' => "=",
        '▅' => "+",
        '▆' => "*",
        '▇' => "%",
        '█' => "#",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        for (variables, utf8) in [
            ([None, None, None], true),
            ([None, None, Some("C.UTF-8")], true),
            ([Some("C"), None, Some("en_US.UTF-8")], false),
            ([Some(""), Some("de_DE.utf8"), Some("C")], true),
            ([None, Some("POSIX"), Some("C.UTF-8")], false),
            ([None, None, Some("de_DE.ISO-8859-1")], false),
        ] {
            assert_eq!(shows_utf8(variables), utf8, "{variables:?}");
        }
    }

    #[test]
    fn signs_have_their_like_and_letters_their_number() {
        assert_eq!(ascii("−3.1 % · 2 µs … ±1 → ▲ real"), "-3.1 % - 2 us ... +-1 -> ^ real");
        assert_eq!(ascii("né"), "n\\u{e9}");
    }
}
