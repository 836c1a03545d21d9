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

/// The parts of a key that are files of the work begin so.
const OF_FILE: &str = "file:";

/// The name of a library without version: `libfoo` of `libfoo.so.1.2`; `None` for other parts.
fn library(part: &str) -> Option<&str> {
    let name = part.strip_prefix(OF_FILE)?;
    name.find(".so")
        .filter(|at| name[at + 3..].chars().all(|char| char == '.' || char.is_ascii_digit()))
        .map(|at| &name[..at])
}

impl FigureKey {
    /// The libraries that only one side loads. The revision itself took or left them, so their cost is a part of the change.
    /// A library in place of another version of itself is none: an upgrade of the computer does the same.
    fn libraries(&self, now: &FigureKey) -> Vec<KeyDifference> {
        let one_sided =
            |difference: &KeyDifference| difference.baseline.is_none() != difference.now.is_none();
        let differences: Vec<KeyDifference> =
            self.differences(now).into_iter().filter(one_sided).collect();
        let versions = |name: &str| {
            differences.iter().filter(|other| library(&other.part) == Some(name)).count()
        };
        let is_result = |difference: &&KeyDifference| {
            library(&difference.part).is_some_and(|name| versions(name) == 1)
        };
        differences.iter().filter(is_result).cloned().collect()
    }

    /// The differences because of which figures cannot be compared.
    pub fn obstacles(&self, now: &FigureKey) -> Vec<KeyDifference> {
        let libraries = self.libraries(now);
        let all = self.differences(now).into_iter();
        all.filter(|difference| !libraries.contains(difference)).collect()
    }

    /// Whether figures with these keys can be compared.
    pub fn is_comparable(&self, now: &FigureKey) -> bool {
        self.obstacles(now).is_empty()
    }

    /// A sentence about the libraries that only one side loads; `None` if there are none.
    ///
    /// `sides`: the names of the earlier and of the later side.
    pub fn libraries_in_words(&self, now: &FigureKey, sides: [&str; 2]) -> Option<String> {
        let libraries = self.libraries(now);
        let names = |appeared: bool| {
            let those = libraries.iter().filter(|library| library.now.is_some() == appeared);
            let name = |part: &str| printable(part.strip_prefix(OF_FILE).unwrap_or(part));
            those.map(|library| name(&library.part)).collect::<Vec<_>>().join(", ")
        };
        let loads = |side: &str, names: String| {
            (!names.is_empty()).then(|| format!("only {side} loads {names}"))
        };
        let parts = [loads(sides[1], names(true)), loads(sides[0], names(false))];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
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
    fn a_library_that_a_revision_takes_or_leaves_is_no_obstacle() {
        let key = |files: &[(&str, &str)]| {
            let files = files.iter().map(|(name, digest)| (format!("file:{name}"), *digest));
            FigureKey::new(files.chain([("arch".to_string(), "x86_64")]))
        };
        let base = key(&[("libc.so.6", "aa"), ("libz.so.1.2.13", "bb"), ("tool", "cc")]);
        let obstacles = |now: &FigureKey| -> Vec<String> {
            base.obstacles(now).into_iter().map(|difference| difference.part).collect()
        };
        let more = key(&[
            ("libc.so.6", "aa"),
            ("libz.so.1.2.13", "bb"),
            ("tool", "cc"),
            ("libcrypto.so.3", "dd"),
        ]);
        assert!(base.is_comparable(&more) && more.is_comparable(&base));
        let words = |one: &FigureKey, other: &FigureKey| {
            one.libraries_in_words(other, ["the base", "the tip"])
        };
        assert_eq!(words(&base, &more).unwrap(), "only the tip loads libcrypto.so.3");
        assert_eq!(words(&more, &base).unwrap(), "only the base loads libcrypto.so.3");
        assert_eq!(words(&base, &base), None);
        // Another version, another content and another program may come from the computer.
        let upgraded = key(&[("libc.so.6", "aa"), ("libz.so.1.3.1", "bb"), ("tool", "cc")]);
        assert_eq!(obstacles(&upgraded), ["file:libz.so.1.2.13", "file:libz.so.1.3.1"]);
        let changed = key(&[("libc.so.6", "ee"), ("libz.so.1.2.13", "bb"), ("tool", "cc")]);
        assert_eq!(obstacles(&changed), ["file:libc.so.6"]);
        assert_eq!(
            obstacles(&key(&[("libc.so.6", "aa"), ("libz.so.1.2.13", "bb")])),
            ["file:tool"]
        );
        assert_eq!(library("file:ld-linux-x86-64.so.2"), Some("ld-linux-x86-64"));
        assert_eq!((library("file:x.sound"), library("data:libz.so")), (None, None));
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
