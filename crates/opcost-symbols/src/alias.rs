//! Chooses the name to show among several names of one address.

/// Prefixes of the padding in front of a function, for call depth tracking and kCFI
/// (`scripts/kallsyms.c`, `tools/objtool/elf.c`).
const PADDING: [&str; 2] = ["__pfx_", "__cfi_"];

/// Returns the function whose padding `name` is, if it is padding.
pub fn padded(name: &str) -> Option<&str> {
    PADDING.iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Returns the rank of a name; the name of an address with the least rank is shown.
///
/// In order: names of functions before names of their cold halves, of padding and of sections'
/// limits; global and weak before local; fewer leading underscores; shorter; first by bytes. The
/// last criterion makes the order total: the choice does not depend on the order of the symbols.
pub fn rank(name: &str, local: bool) -> impl Ord + use<> {
    let class = match name {
        name if is_mark(name) => 3,
        name if padded(name).is_some() => 2,
        name if name.contains(".cold") => 1,
        _ => 0,
    };
    let underscores = name.len() - name.trim_start_matches('_').len();
    (class, local, underscores, name.len(), name.as_bytes().to_vec())
}

/// Whether a name marks the limit of a section instead of a function
/// (`include/asm-generic/vmlinux.lds.h`, `arch/x86/kernel/vmlinux.lds.S`).
pub fn is_mark(name: &str) -> bool {
    let name = name.strip_prefix("__pi_").unwrap_or(name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    ["_text", "_stext", "_etext", "_sinittext", "_einittext"].contains(&name)
        || name.starts_with("__")
            && ends(&["_text_start", "_text_end", "_thunk_start", "_thunk_end"])
}

/// Returns the best of `names`: pairs of a name and whether it is local.
pub(super) fn best<'n>(names: impl Iterator<Item = (&'n str, bool)>) -> Option<&'n str> {
    names.min_by_key(|(name, local)| rank(name, *local)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_to_show_does_not_depend_on_order() {
        let cases: [&[(&str, bool)]; 7] = [
            &[("memcpy", false), ("__memcpy", false), ("__pi_memcpy", false)],
            &[("vfs_read", false), ("a", true)],
            &[("irq_entries_start", false), ("__irqentry_text_start", false)],
            &[("startup_64", true), ("_text", false), ("_stext", false), ("__pi__text", false)],
            &[("run_init_process", true), ("__pfx_f", false), ("g.cold", false)],
            &[("__x64_sys_getpid", false), ("__ia32_sys_getpid", false)],
            &[("aab", false), ("aac", false)],
        ];
        for names in cases {
            for turn in 0..names.len() {
                let mut turned = names.to_vec();
                turned.rotate_left(turn);
                assert_eq!(best(turned.into_iter()), Some(names[0].0));
            }
        }
    }

    #[test]
    fn limits_of_sections_are_told_from_functions() {
        assert!(is_mark("__noinstr_text_end") && is_mark("__indirect_thunk_start"));
        assert!(!is_mark("irq_entries_start") && !is_mark("kernel_text_end"));
        assert!(!is_mark("__key_link_end") && !is_mark("text"));
    }
}
