//! Names of functions, shortened to the room that there is. In C++, Rust and Go, the end of a name tells functions apart.
//!
//! Parts are left out in this order, as far as necessary: template arguments, parameters with the return
//! type, the types around a method's trait, namespaces from the outside. Only then a name is cut, in the
//! middle. `…` stands for each missing part.

use opcost_symbols::readable::{
    behind_namespace, without_arguments, without_arguments_and_parameters,
    without_namespaces_in_types, without_parameters,
};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The mark of parameters that are left out.
const MISSING: &str = "(…)";
const RUST_ARGUMENTS: &str = "::<…>";

/// A name in at most `width` columns.
pub fn shorten(name: &str, width: usize) -> String {
    cut(&reduced(name, width), width)
}

/// Whether a name can be had in `width` columns without a cut in its middle.
pub fn fits(name: &str, width: usize) -> bool {
    reduced(name, width).width() <= width
}

/// A name without parts that can be left out, as far as necessary to have `width` columns.
fn reduced(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_string();
    }
    if let Some(short) = reduced_go(name, width) {
        return short;
    }
    let mut shorter = without_arguments(name);
    let steps: [fn(&str) -> String; 2] =
        [|name| without_parameters(name, MISSING), without_namespaces_in_types];
    for step in steps {
        if shorter.width() <= width {
            return shorter;
        }
        shorter = step(&shorter);
    }
    // Rust's arguments behind a function are no part of its path, and go before its own name is cut.
    let (path, mut end) = match shorter.strip_suffix(RUST_ARGUMENTS) {
        Some(path) => (path, RUST_ARGUMENTS),
        None => (shorter.as_str(), ""),
    };
    let mut rest = path;
    let mark = |rest: &str| if rest.len() < path.len() { "…" } else { "" };
    while mark(rest).width() + rest.width() + end.width() > width {
        match behind_namespace(rest) {
            Some(inner) => rest = inner,
            None if end == RUST_ARGUMENTS => end = "…",
            None => break,
        }
    }
    format!("{}{rest}{end}", mark(rest))
}

/// A name of Go (`net/http.(*Server).Serve`) without its type arguments, the folders of its package, and its package, as far as
/// necessary; `None` for names of other languages.
fn reduced_go(name: &str, width: usize) -> Option<String> {
    let is_go = !name.contains("::")
        && !name.contains(' ')
        && (name.contains(".(")
            || name.contains("[go.")
            || folders(name).is_some_and(|of| name[of..].contains('.')));
    if !is_go {
        return None;
    }
    let shorter = match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if open < close => {
            format!("{}[…]{}", &name[..open], &name[close + 1..])
        }
        _ => name.to_string(),
    };
    let package = folders(&shorter).unwrap_or(0);
    let own = shorter[package..].find('.').map_or(package, |dot| package + dot + 1);
    let without = |at: usize| format!("…{}", &shorter[at..]);
    let steps = [shorter.clone(), without(package), without(own)];
    let fits = steps.iter().find(|step| step.width() <= width);
    Some(fits.unwrap_or(&steps[2]).clone())
}

/// The place behind the folders of a package's path.
fn folders(name: &str) -> Option<usize> {
    let path = name.split(['(', '[']).next().unwrap_or_default();
    path.rfind('/').map(|at| at + 1)
}

/// A name for a place that is often narrow: if marks of missing parts would leave little of the
/// function's own name, the own name alone.
pub fn label(name: &str, width: usize) -> String {
    let reduced = reduced(name, width);
    if reduced.width() <= width {
        return reduced;
    }
    bare(name, width)
}

/// A name without template arguments, parameters and return type, and without namespaces as far as necessary.
pub fn bare(name: &str, width: usize) -> String {
    if let Some(short) = reduced_go(name, width) {
        return cut(&short, width);
    }
    let bare = without_arguments_and_parameters(name);
    let mut own = bare.as_str();
    while own.width() > width {
        let Some(inner) = behind_namespace(own) else { break };
        own = inner;
    }
    cut(own, width)
}

/// A file's name in at most `width` columns. The part before the version tells libraries apart
/// (`libpython3.11.so.1.0`), so the beginning of a library's name is kept.
pub fn file(name: &str, width: usize) -> String {
    match name.find(".so") {
        Some(stem) if name.width() > width => {
            let mut kept = String::new();
            for char in name[..stem].chars() {
                if kept.width() + char.width().unwrap_or(0) >= width {
                    break;
                }
                kept.push(char);
            }
            if width == 0 { kept } else { kept + "…" }
        }
        _ => shorten(name, width),
    }
}

/// The text behind a function's name, in at most `width` columns: ` (libc.so.6)`.
pub fn behind(text: &str, width: usize) -> String {
    let library = text.strip_prefix(" (").and_then(|text| text.strip_suffix(')'));
    match library.filter(|name| name.contains(".so") && text.width() > width && width > 4) {
        Some(name) => format!(" ({})", file(name, width - 3)),
        None => cut(text, width),
    }
}

/// A text in at most `width` columns: its beginning and its end.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width || width == 0 {
        return if width == 0 { String::new() } else { text.to_string() };
    }
    let room = width - 1;
    let take = |chars: &mut dyn Iterator<Item = char>, room: usize| {
        let mut used = 0;
        chars
            .take_while(|char| {
                used += char.width().unwrap_or(0);
                used <= room
            })
            .collect::<String>()
    };
    let end: String = take(&mut text.chars().rev(), room.div_ceil(2)).chars().rev().collect();
    let start = take(&mut text.chars(), room - end.width());
    format!("{start}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRING: &str =
        "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";

    #[test]
    fn the_method_shows_whatever_the_room() {
        let name = format!(
            "long company::engine::Container<{STRING}, std::less<int> >::recompute(std::vector<{STRING}> \
             const&, int) const"
        );
        for (width, expected) in [
            (400, name.as_str()),
            (90, "long company::engine::Container<…>::recompute(std::vector<…> const&, int) const"),
            (60, "company::engine::Container<…>::recompute(…) const"),
            (48, "…engine::Container<…>::recompute(…) const"),
            (34, "…Container<…>::recompute(…) const"),
            (20, "…recompute(…) const"),
            (12, "…reco… const"),
            (1, "…"),
            (0, ""),
        ] {
            assert_eq!(shorten(&name, width), expected, "{width}");
        }
    }

    #[test]
    fn a_library_is_known_by_its_beginning() {
        for (name, width, expected) in [
            ("libc.so.6", 14, "libc.so.6"),
            ("libpython3.11.so.1.0", 14, "libpython3.11…"),
            ("libstdc++.so.6.0.30", 10, "libstdc++…"),
            ("ld-linux-x86-64.so.2", 10, "ld-linux-…"),
            ("a-program-of-some-length", 9, "a-pr…ngth"),
            ("libc.so.6", 1, "…"),
            ("libc.so.6", 0, ""),
        ] {
            assert_eq!(file(name, width), expected);
        }
        assert_eq!(behind(" (libpython3.11.so.1.0)", 13), " (libpython…)");
        assert_eq!(behind(" (libpython3.11.so.1.0)", 40), " (libpython3.11.so.1.0)");
        assert_eq!(behind(" (a-long-program)", 9), " (a-…ram)");
    }

    #[test]
    fn operators_lambdas_and_types_around_methods_keep_their_brackets() {
        for (name, width, expected) in [
            (
                "std::map<int, long>::operator[](int const&)",
                36,
                "std::map<…>::operator[](int const&)",
            ),
            ("std::map<int, long>::operator[](int const&)", 27, "std::map<…>::operator[](…)"),
            (
                "std::ostream& std::operator<< <char>(std::ostream&, char)",
                24,
                "std::operator<< <…>(…)",
            ),
            ("bool std::operator<(std::pair<int, int> const&)", 20, "std::operator<(…)"),
            ("ns::Smart<int>::operator->() const", 32, "ns::Smart<…>::operator->() const"),
            (
                "ns::f(int)::{lambda(int)#1}::operator()(int) const",
                46,
                "ns::f(…)::{lambda(…)#1}::operator()(…) const",
            ),
            (
                "ns::f(int)::{lambda(int)#1}::operator()(int) const",
                38,
                "…{lambda(…)#1}::operator()(…) const",
            ),
            ("ns::Thing::operator std::string() const", 30, "…Thing::operator std::string() const"),
            ("(anonymous namespace)::work(std::vector<int>)", 35, "(anonymous namespace)::work(…)"),
            ("(anonymous namespace)::work(std::vector<int>)", 12, "…work(…)"),
            (
                "non-virtual thunk to ns::Thing::f(int, long, char)",
                39,
                "non-virtual thunk to ns::Thing::f(…)",
            ),
            (
                "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop",
                48,
                "<alloc::vec::Vec<…> as core::ops::drop::Drop>::drop",
            ),
            ("<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop", 30, "<Vec<…> as Drop>::drop"),
            (
                "core::ptr::drop_in_place::<alloc::string::String>",
                32,
                "core::ptr::drop_in_place::<…>",
            ),
            ("core::ptr::drop_in_place::<alloc::string::String>", 20, "…drop_in_place::<…>"),
            ("core::ptr::drop_in_place::<alloc::string::String>", 16, "…drop_in_place…"),
            ("app::main::{closure#0}::<fn(u8) -> u8>", 30, "app::main::{closure#0}::<…>"),
            ("a_very_long_name_of_a_function_in_c", 20, "a_very_lo…ction_in_c"),
            ("github.com/one/two/three.(*Server).ServeHTTP", 30, "…three.(*Server).ServeHTTP"),
            ("github.com/one/two/three.(*Server).ServeHTTP", 22, "…(*Server).ServeHTTP"),
            ("slices.SortFunc[go.shape.[]int,go.shape.int]", 20, "slices.SortFunc[…]"),
            ("a_long_name_in_c.constprop.0", 20, "a_long_na…onstprop.0"),
            ("unclosed<a, (b", 10, "unclose…<…>"),
        ] {
            let shown = shorten(name, width);
            if expected.width() <= width {
                assert_eq!(shown, expected, "{name} in {width}");
            }
            assert!(shown.width() <= width, "{shown} in {width}");
        }
    }

    #[test]
    fn narrow_labels_are_the_function_s_own_name() {
        let name = "void std::__introsort_loop<int*, long>(int*, int*, long)";
        for (width, expected) in [
            (60, name),
            (30, "std::__introsort_loop<…>(…)"),
            (22, "std::__introsort_loop"),
            (18, "__introsort_loop"),
            (12, "__int…t_loop"),
            (5, "__…op"),
        ] {
            assert_eq!(label(name, width), expected, "{width}");
        }
        assert_eq!(label("ns::S::operator()(int) const", 17), "ns::S::operator()");
        assert_eq!(label("do_syscall_64", 9), "do_s…l_64");
        assert_eq!(label("core::ptr::drop_in_place::<String>", 13), "drop_in_place");
    }

    #[test]
    fn a_bare_name_has_the_types_that_there_is_room_for() {
        let name = format!("std::vector<{STRING}, int>::push_back({STRING}&&)");
        for (name, width, expected) in [
            (name.as_str(), 80, "std::vector::push_back"),
            (name.as_str(), 18, "vector::push_back"),
            (name.as_str(), 10, "push_back"),
            ("<u64 as core::iter::traits::accum::Sum>::sum::{{closure}}", 20, "sum::{{closure}}"),
            ("strings.(*Builder).WriteString", 40, "strings.(*Builder).WriteString"),
            ("strings.(*Builder).WriteString", 24, "…(*Builder).WriteString"),
            ("std::vector<int>::begin() const", 40, "std::vector::begin"),
            ("touch", 9, "touch"),
        ] {
            assert_eq!(bare(name, width), expected, "{width}");
        }
    }

    proptest! {
        #[test]
        fn no_name_is_wider_than_its_room_and_none_is_changed_that_fits(
            name in "[a-z:<>(){}\\[\\] ,*&\\-#é…]{0,60}", width in 0usize..70,
        ) {
            let shown = shorten(&name, width);
            prop_assert!(shown.width() <= width);
            prop_assert!(label(&name, width).width() <= width);
            prop_assert!(bare(&name, width).width() <= width);
            if name.width() <= width {
                prop_assert_eq!(shown, name);
            }
        }
    }
}
