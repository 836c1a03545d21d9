//! Strips names of functions of what compilers and linkers append.
//!
//! One function of a source file can become several in a program: a copy for constant arguments
//! (`f.constprop.0`), a part that is seldom run (`f.cold`). The set of copies and their numbers
//! change from build to build although the source does not.

use super::alias;

/// Suffixes of parts and copies of a function, by GCC (gcc/cgraphclones.cc, gcc/ipa-split.cc,
/// gcc/bb-reorder.cc) and LLVM (HotColdSplitting.cpp, FunctionSpecialization.cpp, ThinLTO's
/// promotion, coroutines).
const CLONES: [&str; 10] = [
    "isra",
    "constprop",
    "part",
    "cold",
    "llvm",
    "simdclone",
    "localalias",
    "specialized",
    "resume",
    "destroy",
];
/// Suffixes without a number.
const UNNUMBERED: [&str; 4] = ["cold", "localalias", "resume", "destroy"];
/// GCC's suffix for local functions that have the same name in two files of a program
/// (gcc/lto/lto-partition.cc); they are different functions.
const RENAMED: &str = "lto_priv";

/// A symbol, taken apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stem<'s> {
    /// The function's name in its source.
    pub base: &'s str,
    /// The part that tells functions of the same name apart: `lto_priv.0`, `h0123456789abcdef`.
    pub copy: Option<&'s str>,
}

/// Returns the symbol of the function that a part or copy was made of; other symbols stay.
///
/// `symbol`: as in the symbol table, or readable, where C++ appends ` [clone .cold]`.
pub fn folded(symbol: &str) -> &str {
    let mut rest = symbol;
    while let Some((shorter, _)) = without(rest, &CLONES) {
        rest = shorter;
    }
    rest
}

/// Takes a symbol apart; parts and copies of a function have the function's stem.
pub fn stem(symbol: &str) -> Stem<'_> {
    let (mut base, mut copy) = (folded(symbol), None);
    while let Some((shorter, renamed)) = without(base, &[RENAMED]).or_else(|| without_hash(base)) {
        copy = copy.or(Some(renamed));
        base = folded(shorter);
    }
    Stem { base, copy }
}

/// Returns the function whose part, copy or padding a symbol is; `None` for a function itself.
///
/// `symbol`: as in the symbol table.
pub fn origin(symbol: &[u8]) -> Option<&[u8]> {
    let text = str::from_utf8(symbol).ok()?;
    let function = stem(alias::padded(text).unwrap_or(text)).base;
    (function.len() < symbol.len()).then_some(function.as_bytes())
}

/// Splits off the last suffix of a symbol, if it is one of `appendices`.
fn without<'s>(symbol: &'s str, appendices: &[&str]) -> Option<(&'s str, &'s str)> {
    let (before, appendix) = match symbol.strip_suffix(']') {
        Some(open) => {
            let (before, appendix) = open.rsplit_once(" [clone ")?;
            (before, appendix.strip_prefix('.')?)
        }
        None => {
            let (before, last) = symbol.rsplit_once('.')?;
            match before.rsplit_once('.') {
                Some((before, word)) if is_number(last) => {
                    (before, &symbol[symbol.len() - word.len() - 1 - last.len()..])
                }
                _ => (before, last),
            }
        }
    };
    let known = match appendix.split_once('.') {
        Some((word, number)) => appendices.contains(&word) && is_number(number),
        None => appendices.contains(&appendix) && UNNUMBERED.contains(&appendix),
    };
    (known && !before.is_empty()).then_some((before, appendix))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits off the hash of Rust's older mangling, where another program made the name readable.
fn without_hash(name: &str) -> Option<(&str, &str)> {
    let (before, hash) = name.rsplit_once("::")?;
    let digits = hash.strip_prefix('h')?;
    let is_hash = digits.len() == 16
        && digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    (is_hash && !before.is_empty()).then_some((before, hash))
}

/// Strips a symbol of the numbers that change from build to build: `count.3` and
/// `f.constprop.1.llvm.77` become `count.` and `f.constprop.`.
pub fn without_numbers(symbol: &[u8]) -> Vec<u8> {
    let mut parts = symbol.split(|byte| *byte == b'.');
    let mut kept = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        if part == b"llvm" {
            continue;
        }
        if part.iter().all(u8::is_ascii_digit) {
            if kept.last() != Some(&b'.') {
                kept.push(b'.');
            }
            continue;
        }
        kept.push(b'.');
        kept.extend_from_slice(part);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_copies_are_folded_and_nothing_else() {
        for (symbol, source) in [
            ("copy_page", "copy_page"),
            ("copy_page.isra.0", "copy_page"),
            ("copy_page.constprop.12.isra.3", "copy_page"),
            ("copy_page.part.0.cold", "copy_page"),
            ("copy_page.cold.7", "copy_page"),
            ("vfs_read.llvm.1234567890", "vfs_read"),
            ("ns::f(int) [clone .isra.0]", "ns::f(int)"),
            ("ns::f(int) [clone .constprop.0] [clone .cold]", "ns::f(int)"),
            ("ns::f(int) [clone .lto_priv.0]", "ns::f(int) [clone .lto_priv.0]"),
            ("a.cold.b", "a.cold.b"),
            ("counter.0", "counter.0"),
            ("x.lto_priv.0", "x.lto_priv.0"),
            ("x.isra.", "x.isra."),
            ("x.isra.y", "x.isra.y"),
            ("x.isra", "x.isra"),
            ("f.partial", "f.partial"),
            (".cold", ".cold"),
            ("[text]", "[text]"),
            ("", ""),
        ] {
            assert_eq!(folded(symbol), source);
        }
    }

    #[test]
    fn functions_that_were_renamed_are_told_apart() {
        let of = |symbol| {
            let Stem { base, copy } = stem(symbol);
            (base, copy.unwrap_or("-"))
        };
        for (symbol, base, copy) in [
            ("f", "f", "-"),
            ("f.cold", "f", "-"),
            ("f.lto_priv.0", "f", "lto_priv.0"),
            ("f.lto_priv.1.isra.0", "f", "lto_priv.1"),
            ("f.isra.0.lto_priv.1", "f", "lto_priv.1"),
            ("f(int) [clone .lto_priv.0]", "f(int)", "lto_priv.0"),
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write", "h0123456789abcdef"),
            ("a::h0123456789abcde", "a::h0123456789abcde", "-"),
            ("::h0123456789abcdef", "::h0123456789abcdef", "-"),
        ] {
            assert_eq!(of(symbol), (base, copy), "{symbol}");
        }
    }

    #[test]
    fn parts_and_clones_lead_to_their_function() {
        for (name, expected) in [
            ("f.cold", Some("f")),
            ("f.constprop.0", Some("f")),
            ("f.isra.0.cold", Some("f")),
            ("f.part.0.constprop.1", Some("f")),
            ("f.llvm.1234", Some("f")),
            ("f.constprop.0.llvm.99", Some("f")),
            ("f.lto_priv.3", Some("f")),
            ("f.resume", Some("f")),
            ("__pfx_f", Some("f")),
            ("__cfi_f", Some("f")),
            ("f", None),
            ("f.partial", None),
            ("count.3", None),
            ("f.llvm.x", None),
            (".cold", None),
            ("", None),
        ] {
            let found = origin(name.as_bytes()).map(|name| str::from_utf8(name).unwrap());
            assert_eq!(found, expected, "{name}");
        }
        assert_eq!(origin(b"\xff.cold"), None);
    }

    #[test]
    fn numbers_of_one_build_are_left_out() {
        for (name, expected) in [
            ("count.3", "count."),
            ("count", "count"),
            ("f.constprop.1.cold", "f.constprop..cold"),
            ("f.llvm.77", "f."),
            ("__func__.12.34", "__func__."),
        ] {
            assert_eq!(without_numbers(name.as_bytes()), expected.as_bytes(), "{name}");
        }
    }
}
