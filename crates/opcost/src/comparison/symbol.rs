//! Symbols of functions that compilers split or copied, as their source names them.

/// The symbol without what GCC and LLVM append to copies and parts of a function: `.isra.N`,
/// `.constprop.N`, `.part.N`, `.llvm.N`, `.cold`, `.cold.N`, also several in a row.
///
/// Which of these exist changes from build to build without the source having changed, so cost is
/// summed over them. Anything else behind a dot is kept.
pub(super) fn folded(symbol: &str) -> &str {
    let mut rest = symbol;
    while let Some(shorter) = without_suffix(rest) {
        rest = shorter;
    }
    rest
}

fn without_suffix(symbol: &str) -> Option<&str> {
    const NUMBERED: [&str; 5] = ["isra", "constprop", "part", "llvm", "cold"];
    let (before, last) = symbol.rsplit_once('.')?;
    let shorter = if last == "cold" {
        before
    } else {
        let (before, word) = before.rsplit_once('.')?;
        let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
        (number && NUMBERED.contains(&word)).then_some(before)?
    };
    (!shorter.is_empty()).then_some(shorter)
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn parts_and_copies_are_folded_and_nothing_else() {
        for (symbol, source) in [
            ("copy_page", "copy_page"),
            ("copy_page.isra.0", "copy_page"),
            ("copy_page.constprop.12.isra.3", "copy_page"),
            ("copy_page.part.0.cold", "copy_page"),
            ("copy_page.cold.7", "copy_page"),
            ("vfs_read.llvm.1234567890", "vfs_read"),
            ("a.cold.b", "a.cold.b"),
            ("counter.0", "counter.0"),
            ("x.lto_priv.0", "x.lto_priv.0"),
            ("x.isra.", "x.isra."),
            ("x.isra.y", "x.isra.y"),
            (".cold", ".cold"),
            ("", ""),
        ] {
            assert_eq!(folded(symbol), source);
        }
    }
}
