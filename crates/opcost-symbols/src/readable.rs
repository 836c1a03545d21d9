//! Shortens readable names of C++ and Rust by parts: template arguments, parameters, namespaces.
//!
//! Names come from any compiler and may be anything. A name that is not of these languages comes back
//! as it is, or without parts that look alike.

/// Returns the place behind the bracket that opens at `at`; the end of the name if it never closes.
fn behind(name: &str, at: usize) -> usize {
    let bytes = name.as_bytes();
    let mut open = Vec::new();
    let mut place = at;
    while place < bytes.len() {
        match bytes[place] {
            b'<' | b'(' | b'[' | b'{' => open.push(bytes[place]),
            // An arrow closes nothing, and neither does a comparison within parentheses.
            b'>' if place > 0 && bytes[place - 1] == b'-' => {}
            b'>' if open.last() != Some(&b'<') => {}
            b'>' | b')' | b']' | b'}' => {
                open.pop();
                if open.is_empty() {
                    return place + 1;
                }
            }
            _ => {}
        }
        place += 1;
    }
    name.len()
}

/// Returns the length of an operator's name at `at`: `operator<<`, whose signs are not brackets.
fn operator(name: &str, at: usize) -> Option<usize> {
    const SIGNS: [&[u8]; 13] = [
        b"()", b"[]", b"<=>", b"<<=", b">>=", b"->*", b"<<", b">>", b"<=", b">=", b"->", b"<", b">",
    ];
    let bytes = name.as_bytes();
    let rest = bytes[at..].strip_prefix(b"operator")?;
    let before = at.checked_sub(1).map(|before| bytes[before]);
    if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80) {
        return None;
    }
    let sign = SIGNS.iter().find(|sign| rest.starts_with(sign));
    Some("operator".len() + sign.map_or(0, |sign| sign.len()))
}

/// Whether a text ends with an operator's name.
fn ends_with_operator(text: &str) -> bool {
    text.rfind("operator").is_some_and(|at| operator(text, at) == Some(text.len() - at))
}

/// Rewrites the groups in brackets of a name. `group` gets the text written so far and the group, and
/// returns the text to write instead, or `None` to go into the group.
fn rewritten(name: &str, mut group: impl FnMut(&str, &str) -> Option<String>) -> String {
    let mut text = String::with_capacity(name.len());
    let mut at = 0;
    while at < name.len() {
        if let Some(bytes) = operator(name, at) {
            text.push_str(&name[at..at + bytes]);
            at += bytes;
            continue;
        }
        // Brackets are ASCII, so a group consists of whole characters.
        if matches!(name.as_bytes()[at], b'<' | b'(') {
            let end = behind(name, at);
            if let Some(instead) = group(&text, &name[at..end]) {
                text.push_str(&instead);
                at = end;
                continue;
            }
        }
        let char = name[at..].chars().next().unwrap_or_default();
        text.push(char);
        at += char.len_utf8().max(1);
    }
    text
}

/// Returns `a::b<…>::c(d<…>)`, but keeps a type that a method belongs to (`<T as Trait>::f`).
pub fn without_arguments(name: &str) -> String {
    rewritten(name, |before, group| {
        let last = before.chars().next_back();
        let argument = last.is_some_and(|char| char.is_alphanumeric() || "_:>".contains(char))
            || ends_with_operator(before.trim_end());
        (group.starts_with('<') && argument && group.len() > 2).then(|| "<…>".into())
    })
}

/// Returns `a::b::c(…) const` of `int a::b::c(int) const`, with `instead` for the parameters.
pub fn without_parameters(name: &str, instead: &str) -> String {
    let mut has_parameters = false;
    let shorter = rewritten(name, |_, group| {
        let parameters = group.starts_with('(') && group != "(anonymous namespace)";
        has_parameters |= parameters;
        (parameters && (group.len() > 2 || instead.is_empty())).then(|| instead.into())
    });
    let bytes = return_type(name).filter(|_| has_parameters).unwrap_or(0);
    // The return type is before the parameters, and was not rewritten.
    shorter.get(bytes..).unwrap_or_default().to_string()
}

/// Returns `a::b::c` of `int a<b>::b::c<d>(int) const`.
pub fn without_arguments_and_parameters(name: &str) -> String {
    let bare = without_parameters(&without_arguments(name), "").replace("<…>", "");
    let bare = bare.trim_end_matches("::");
    without_qualifiers(bare).to_string()
}

/// Returns a name without the words behind its parameters: `ns::f()` of `ns::f() const`.
pub fn without_qualifiers(mut name: &str) -> &str {
    const WORDS: [&str; 4] = [" const", " volatile", " &", " &&"];
    while let Some(shorter) = WORDS.iter().find_map(|word| name.strip_suffix(word)) {
        name = shorter;
    }
    name
}

/// Returns the length in bytes of the return type at the start of a function's name.
fn return_type(name: &str) -> Option<usize> {
    let mut last = None;
    let mut at = 0;
    while at < name.len() {
        if operator(name, at).is_some() {
            break;
        }
        match name.as_bytes()[at] {
            b'(' if !name.as_bytes()[at..].starts_with(b"(anonymous namespace)") => break,
            b'<' | b'(' | b'{' | b'[' => at = behind(name, at),
            b' ' => {
                at += 1;
                last = Some(at);
            }
            _ => at += 1,
        }
    }
    // The words of `non-virtual thunk to f()` are not a return type.
    last.filter(|at| ![" to ", " for "].iter().any(|word| name[..*at].ends_with(word)))
}

/// Returns `<Vec<…> as Drop>::drop` of `<alloc::vec::Vec<…> as core::ops::drop::Drop>::drop`.
pub fn without_namespaces_in_types(name: &str) -> String {
    rewritten(name, |before, group| {
        let around = before.is_empty() || before.ends_with("::") || before.ends_with(' ');
        let inner = group.strip_prefix('<')?.strip_suffix('>').filter(|inner| *inner != "…")?;
        around.then(|| {
            let types: Vec<&str> = inner.split(" as ").map(last_component).collect();
            format!("<{}>", types.join(" as "))
        })
    })
}

fn last_component(path: &str) -> &str {
    let mut rest = path;
    while let Some(inner) = behind_namespace(rest) {
        rest = inner;
    }
    rest
}

/// Returns a name without its outermost namespace or class; `None` if it has none.
pub fn behind_namespace(name: &str) -> Option<&str> {
    let mut at = 0;
    while at < name.len() {
        if operator(name, at).is_some() {
            return None;
        }
        match name.as_bytes()[at] {
            b'<' | b'(' | b'[' | b'{' => at = behind(name, at),
            b':' if name.as_bytes()[at..].starts_with(b"::") => {
                return Some(&name[at + 2..]).filter(|rest| !rest.is_empty());
            }
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_left_out_with_the_return_type() {
        for (name, bare) in [
            ("ns::f(int, long) const", "ns::f const"),
            ("std::vector<int> ns::g<int>(int)", "ns::g<int>"),
            ("ns::f(int)@plt", "ns::f@plt"),
            ("(anonymous namespace)::f()", "(anonymous namespace)::f"),
            ("operator new(unsigned long)", "operator new"),
            ("ns::S::operator()(int) const", "ns::S::operator() const"),
            ("ns::operator<(ns::S, ns::S)", "ns::operator<"),
            ("ns::operator-> (x)", "ns::operator-> "),
            ("main", "main"),
            ("[at 0x10]", "[at 0x10]"),
            ("f(", "f"),
        ] {
            assert_eq!(without_parameters(name, ""), bare, "{name}");
        }
    }
}
