//! Finds the names that a mistyped name may have meant.

/// Returns the names nearest to a mistyped word.
///
/// `word`: the word as typed; `names`: the valid names. The result is the names at the smallest
/// edit distance (Levenshtein), in the order given, if the distance is at most a third of the
/// longer word's length and at least one letter is right; otherwise empty.
///
/// If no name is near, the result is the names that the word begins with, or that begin with the word (three letters or more).
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut best = usize::MAX;
    let mut found = Vec::new();
    let mut beginning = Vec::new();
    for name in names {
        let shared = word.len().min(name.len());
        if shared >= 3 && (word.starts_with(name) || name.starts_with(word)) {
            beginning.push(name);
        }
        let distance = strsim::levenshtein(word, name);
        if distance > word.len().max(name.len()).div_ceil(3) || distance > best {
            continue;
        }
        if distance < best {
            best = distance;
            found.clear();
        }
        found.push(name);
    }
    if found.is_empty() { beginning } else { found }
}

/// Returns " (did you mean …?)" with up to three of the [`nearest`] names, or nothing.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut near = nearest(word, names);
    near.truncate(3);
    if near.is_empty() { String::new() } else { format!(" (did you mean {}?)", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_offered_and_far_ones_are_not() {
        let names = ["ops", "slots", "pages", "procs"];
        assert_eq!(nearest("slot", names), ["slots"]);
        assert_eq!(nearest("prcs", names), ["procs"]);
        assert_eq!(nearest("op", names), ["ops"]);
        assert!(nearest("temperature", names).is_empty());
        assert!(nearest("", names).is_empty());
        assert_eq!(nearest("walltime", ["wall", "tsc"]), ["wall"]);
    }
}
