//! Lists of names in sentences.

/// The most names that a sentence has.
const NAMES_MAX: usize = 3;

/// The names, joined by commas; of many the first three and how many more there are.
pub fn few(names: &[impl AsRef<str>]) -> String {
    let joined = |names: &[_]| names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len() {
        // A name takes no more room than its number.
        count if count <= NAMES_MAX + 1 => joined(names),
        count => format!("{} and {} more", joined(&names[..NAMES_MAX]), count - NAMES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::few;

    #[test]
    fn many_names_are_a_few_and_a_number() {
        assert_eq!(few(&["a"]), "a");
        assert_eq!(few(&["a", "b", "c", "d"]), "a, b, c, d");
        assert_eq!(few(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
        assert_eq!(few(&[] as &[String]), "");
    }
}
