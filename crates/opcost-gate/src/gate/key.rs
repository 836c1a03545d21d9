//! The conditions on which a count depends beside the work itself. Figures with different keys cannot be compared.

use opcost_record::printable::printable;
use std::collections::BTreeMap;
use std::fmt;

/// The conditions on which a count depends, apart from the thing under test, by name.
///
/// In a baseline file a key is one word: `arch=x86_64;cpu=max;emulator=7.2.22;…`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FigureKey {
    parts: BTreeMap<String, String>,
}

/// A condition in which two keys differ; `None` if a side lacks the condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyDifference {
    /// The condition's name.
    pub part: String,
    /// The value in the baseline.
    pub baseline: Option<String>,
    /// The value now.
    pub now: Option<String>,
}

impl FigureKey {
    /// Creates a key from these parts; a part with an empty value is left out.
    pub fn new<N: Into<String>, V: Into<String>>(
        parts: impl IntoIterator<Item = (N, V)>,
    ) -> FigureKey {
        let parts = parts.into_iter().map(|(name, value)| (name.into(), value.into()));
        FigureKey { parts: parts.filter(|(_, value)| !value.is_empty()).collect() }
    }

    /// Reads the form that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// The part that is malformed or given twice.
    pub fn parse(word: &str) -> Result<FigureKey, String> {
        let mut parts = BTreeMap::new();
        for part in word.split(';') {
            let pair =
                part.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
            let pair = pair.and_then(|(name, value)| Some((unescaped(name)?, unescaped(value)?)));
            let Some((name, value)) = pair else { return Err(part.to_string()) };
            if parts.insert(name, value).is_some() {
                return Err(part.to_string());
            }
        }
        Ok(FigureKey { parts })
    }

    /// The parts by name.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parts.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The parts in which the later key `now` differs.
    pub fn differences(&self, now: &FigureKey) -> Vec<KeyDifference> {
        let mut names: Vec<&String> = self.parts.keys().chain(now.parts.keys()).collect();
        names.sort();
        names.dedup();
        let pair = |name: &String| (self.parts.get(name).cloned(), now.parts.get(name).cloned());
        let differing = names.into_iter().filter_map(|name| match pair(name) {
            (baseline, now) if baseline == now => None,
            (baseline, now) => Some(KeyDifference { part: name.clone(), baseline, now }),
        });
        differing.collect()
    }
}

impl fmt::Display for FigureKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts.iter();
        let words: Vec<String> =
            parts.map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect();
        f.write_str(&words.join(";"))
    }
}

impl fmt::Display for KeyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |side: &Option<String>| side.as_deref().map_or("none".into(), printable);
        let (part, baseline, now) = (printable(&self.part), word(&self.baseline), word(&self.now));
        write!(f, "{part} is {now}, the baseline has {baseline}")
    }
}

/// Escapes a text as one word of a baseline file: each byte of a separator becomes a percent sign and two digits.
pub(super) fn escaped(text: &str) -> String {
    let is_plain = |char: char| {
        char.is_ascii_graphic() && !['%', ';', '='].contains(&char)
            || char.is_alphanumeric() && !char.is_ascii()
    };
    let mut word = String::with_capacity(text.len());
    for char in text.chars() {
        match is_plain(char) {
            true => word.push(char),
            false => {
                let mut bytes = [0; 4];
                let bytes = char.encode_utf8(&mut bytes).bytes();
                word.extend(bytes.map(|byte| format!("%{byte:02X}")));
            }
        }
    }
    word
}

/// Reads the form that [`escaped`] writes; `None` for any other text.
pub(super) fn unescaped(word: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(parts in prop::collection::btree_map("\\PC{1,9}", "\\PC{1,9}", 1..5)) {
            let key = FigureKey::new(parts);
            let word = key.to_string();
            prop_assert!(!word.contains(char::is_whitespace));
            prop_assert_eq!(FigureKey::parse(&word), Ok(key));
        }

        #[test]
        fn any_word_is_read_or_refused(word in "\\PC*") {
            if let Ok(key) = FigureKey::parse(&word) {
                prop_assert_eq!(FigureKey::parse(&key.to_string()), Ok(key));
            }
        }
    }

    #[test]
    fn both_values_of_a_difference_are_named() {
        let key = |cpu: &str, more: &[(&str, &str)]| {
            let all = [&[("arch", "x86_64"), ("cpu", cpu)], more].concat();
            FigureKey::new(all)
        };
        let baseline = key("max,-avx512f", &[("compiler", "cc (Debian) 12")]);
        assert_eq!(
            baseline.to_string(),
            "arch=x86_64;compiler=cc%20(Debian)%2012;cpu=max,-avx512f"
        );
        let words: Vec<String> = baseline
            .differences(&key("max", &[("libc.so.6", "1a2b")]))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            words,
            [
                "compiler is none, the baseline has cc (Debian) 12",
                "cpu is max, the baseline has max,-avx512f",
                "libc.so.6 is 1a2b, the baseline has none",
            ]
        );
        assert_eq!(baseline.differences(&baseline), []);
        for wrong in ["", "arch", "arch=", "=x", "a=1;a=2", "a=%zz", "a=1;;b=2"] {
            assert!(FigureKey::parse(wrong).is_err(), "{wrong}");
        }
    }
}
