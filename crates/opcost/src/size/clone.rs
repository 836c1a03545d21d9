//! Functions that the compiler made out of others, told by their names.

use opcost_profile::symbols::alias;

/// What compilers append to the name of a part or clone of a function: GCC's
/// (gcc/cgraphclones.cc, gcc/ipa-split.cc, gcc/bb-reorder.cc, gcc/lto/lto-partition.cc) and LLVM's
/// (llvm/lib/Transforms/IPO/HotColdSplitting.cpp, FunctionSpecialization.cpp).
const SUFFIXES: [&str; 10] = [
    ".constprop",
    ".isra",
    ".part",
    ".cold",
    ".lto_priv",
    ".simdclone",
    ".localalias",
    ".specialized",
    ".resume",
    ".destroy",
];

/// The function that a part, clone or padding was made of; `None` for a function itself.
pub(super) fn origin(name: &[u8]) -> Option<&[u8]> {
    let text = std::str::from_utf8(name).ok()?;
    let stem = alias::padded(text).unwrap_or(text);
    let cut = SUFFIXES.iter().filter_map(|suffix| place(stem, suffix)).min();
    let stem = cut.map_or(stem, |cut| &stem[..cut]);
    let stem = without_llvm(stem);
    (stem.len() < text.len() && !stem.is_empty()).then_some(stem.as_bytes())
}

/// Where a suffix begins in a name; another suffix, a number or the end follows.
fn place(name: &str, suffix: &str) -> Option<usize> {
    let found = name.match_indices(suffix).find(|(at, _)| {
        *at > 0 && matches!(name.as_bytes().get(at + suffix.len()), None | Some(b'.'))
    });
    found.map(|(at, _)| at)
}

/// A name without the hash that ThinLTO gives to a promoted static (`.llvm.1234`).
fn without_llvm(name: &str) -> &str {
    match name.split_once(".llvm.") {
        Some((stem, hash))
            if !stem.is_empty() && hash.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            stem
        }
        _ => name,
    }
}

/// A name without the numbers that change from build to build: `count.3` and `f.constprop.1.llvm.77`
/// are `count.` and `f.constprop.`.
pub(super) fn without_numbers(name: &[u8]) -> Vec<u8> {
    let mut parts = name.split(|byte| *byte == b'.');
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
    fn parts_and_clones_lead_to_their_function() {
        for (name, expected) in [
            ("f.cold", Some("f")),
            ("f.constprop.0", Some("f")),
            ("f.isra.0.cold", Some("f")),
            ("f.part.0.constprop.1", Some("f")),
            ("f.llvm.1234", Some("f")),
            ("f.constprop.0.llvm.99", Some("f")),
            ("__pfx_f", Some("f")),
            ("__cfi_f", Some("f")),
            ("f", None),
            ("f.partial", None),
            ("count.3", None),
            ("f.llvm.x", None),
            (".cold", None),
            ("", None),
        ] {
            let found =
                origin(name.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned());
            assert_eq!(found.as_deref(), expected, "{name}");
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
