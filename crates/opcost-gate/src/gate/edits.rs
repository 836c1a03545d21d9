//! The edits that turn one list of words into another.

/// One edit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Edit {
    /// Removes the word at this place of the first list.
    Remove(usize, String),
    /// Inserts a word before this place of the first list.
    Insert(usize, String),
    /// Replaces the word at this place of the first list.
    Replace(usize, String, String),
}

impl Edit {
    /// The word that the edit removes, inserts or puts in place.
    pub fn word(&self) -> &str {
        match self {
            Edit::Remove(_, word) | Edit::Insert(_, word) | Edit::Replace(_, _, word) => word,
        }
    }

    /// The effect in words.
    pub fn title(&self) -> String {
        match self {
            Edit::Remove(..) => "removed".into(),
            Edit::Insert(..) => "added".into(),
            Edit::Replace(_, old, _) => format!("in place of {old}"),
        }
    }
}

/// Whether two words are values of one setting: `mce=off` and `mce=on`, `-O1` and `-O2`.
pub fn is_setting(one: &str, other: &str) -> bool {
    if [one, other].iter().all(|word| word.starts_with("-O")) {
        return true;
    }
    let name = |word: &str| word.split_once('=').map(|(name, _)| name.to_string());
    name(one).is_some() && name(one) == name(other)
}

/// The fewest edits from one list to another, in the order of their places (longest common subsequence).
///
/// `replaces`: whether a removed word and a word inserted in its place are merged into a replacement.
pub fn edits(from: &[String], to: &[String], replaces: impl Fn(&str, &str) -> bool) -> Vec<Edit> {
    // `common[one][other]`: length of the longest common subsequence of `from[one..]` and `to[other..]`.
    let mut common = vec![vec![0usize; to.len() + 1]; from.len() + 1];
    for one in (0..from.len()).rev() {
        for other in (0..to.len()).rev() {
            common[one][other] = match from[one] == to[other] {
                true => common[one + 1][other + 1] + 1,
                false => common[one + 1][other].max(common[one][other + 1]),
            };
        }
    }
    let (mut one, mut other) = (0, 0);
    let mut found: Vec<Edit> = Vec::new();
    while one < from.len() || other < to.len() {
        if one < from.len() && other < to.len() && from[one] == to[other] {
            (one, other) = (one + 1, other + 1);
        } else if other == to.len()
            || (one < from.len() && common[one + 1][other] >= common[one][other + 1])
        {
            found.push(Edit::Remove(one, from[one].clone()));
            one += 1;
        } else {
            found.push(Edit::Insert(one, to[other].clone()));
            other += 1;
        }
    }
    merge_replaced(found, replaces)
}

fn merge_replaced(mut found: Vec<Edit>, replaces: impl Fn(&str, &str) -> bool) -> Vec<Edit> {
    let mut merged: Vec<Edit> = Vec::new();
    while !found.is_empty() {
        let edit = found.remove(0);
        let Edit::Remove(place, old) = &edit else {
            merged.push(edit);
            continue;
        };
        // Only neighbours are merged, so that the order of the other words stays.
        match found.first().cloned() {
            Some(Edit::Insert(at, new)) if at == place + 1 && replaces(old, &new) => {
                found.remove(0);
                merged.push(Edit::Replace(*place, old.clone(), new));
            }
            _ => merged.push(edit),
        }
    }
    merged
}

/// Applies some of the edits to the first list.
///
/// `applied`: for each edit, whether to apply it.
pub fn with_edits(from: &[String], edits: &[Edit], applied: &[bool]) -> Vec<String> {
    let made: Vec<&Edit> =
        edits.iter().zip(applied).filter(|(_, applied)| **applied).map(|(edit, _)| edit).collect();
    let mut words = Vec::new();
    for place in 0..=from.len() {
        words.extend(made.iter().filter_map(|edit| match edit {
            Edit::Insert(at, word) if *at == place => Some(word.clone()),
            _ => None,
        }));
        let Some(word) = from.get(place) else { break };
        let of_place = made.iter().find_map(|edit| match edit {
            Edit::Remove(at, _) if *at == place => Some(None),
            Edit::Replace(at, _, new) if *at == place => Some(Some(new.clone())),
            _ => None,
        });
        words.extend(of_place.unwrap_or_else(|| Some(word.clone())));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn words_come_go_and_are_replaced() {
        let (from, to) = (words("a x=1 b"), words("x=2 b c"));
        let found = edits(&from, &to, is_setting);
        assert_eq!(
            found,
            [
                Edit::Remove(0, "a".into()),
                Edit::Replace(1, "x=1".into(), "x=2".into()),
                Edit::Insert(3, "c".into()),
            ]
        );
        assert_eq!(with_edits(&from, &found, &[true, false, true]), words("x=1 b c"));
        assert_eq!((found[1].word(), found[1].title()), ("x=2", "in place of x=1".to_string()));
        assert_eq!(edits(&from, &from, is_setting), []);
        assert!(is_setting("-O1", "-O2") && is_setting("-march=a", "-march=b"));
        assert!(!is_setting("quiet", "quiet") && !is_setting("a=1", "b=1"));
    }

    proptest! {
        #[test]
        fn all_edits_make_the_second_list_and_none_leave_the_first(
            from in prop::collection::vec("[ab](=[12])?", 0..8),
            to in prop::collection::vec("[ab](=[12])?", 0..8),
        ) {
            let found = edits(&from, &to, is_setting);
            prop_assert_eq!(with_edits(&from, &found, &vec![true; found.len()]), to.clone());
            prop_assert_eq!(with_edits(&from, &found, &vec![false; found.len()]), from.clone());
            prop_assert_eq!(found.is_empty(), from == to);
        }
    }
}
