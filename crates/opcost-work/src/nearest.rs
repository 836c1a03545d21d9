//! What a mistyped name may have meant.

/// The names nearest to a word that was mistyped.
///
/// `word`: what was typed; `names`: what could have been meant. Result: the names at the smallest
/// edit distance (Levenshtein), in the order given, if that is at most a third of the longer
/// word's length and at least one letter is right; empty otherwise.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut best = usize::MAX;
    let mut found = Vec::new();
    for name in names {
        let distance = edits(word.as_bytes(), name.as_bytes());
        if distance > word.len().max(name.len()).div_ceil(3) || distance > best {
            continue;
        }
        if distance < best {
            best = distance;
            found.clear();
        }
        found.push(name);
    }
    found
}

fn edits(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_known() {
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"", b"abc"), 3);
        assert_eq!(edits(b"slots", b"slots"), 0);
    }

    #[test]
    fn the_nearest_names_are_offered_and_far_ones_are_not() {
        let names = ["ops", "slots", "pages", "procs"];
        assert_eq!(nearest("slot", names), ["slots"]);
        assert_eq!(nearest("prcs", names), ["procs"]);
        assert_eq!(nearest("op", names), ["ops"]);
        assert!(nearest("temperature", names).is_empty());
        assert!(nearest("", names).is_empty());
    }
}
