//! Names the functions of a list, so that no two of a module are shown alike, and finds the
//! functions that a name means.

use super::clone::stem;
use super::readable;
use crate::keyed::{KeyedMap, KeyedSet};
use opcost_record::Function;
use std::borrow::Cow;

/// Knows which functions of a list share symbol and module with others.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Naming {
    /// The modules of each shared symbol.
    shared: KeyedMap<String, KeyedSet<String>>,
}

impl Naming {
    /// Looks through a list of functions.
    pub fn of<'f>(functions: impl IntoIterator<Item = &'f Function>) -> Naming {
        let mut first: KeyedMap<(&str, &str), Option<&str>> = KeyedMap::default();
        let mut shared: KeyedMap<String, KeyedSet<String>> = KeyedMap::default();
        for Function { symbol, module, source, .. } in functions {
            let source = source.as_deref();
            if *first.entry((symbol, module)).or_insert(source) != source {
                shared.entry(symbol.clone()).or_default().insert(module.clone());
            }
        }
        Naming { shared }
    }

    /// Returns the symbol of a function; with its source if others have the same: `helper [list.c]`.
    pub fn symbol<'f>(&self, function: &'f Function) -> Cow<'f, str> {
        let Function { symbol, module, source, .. } = function;
        let is_shared = self.shared.get(symbol).is_some_and(|modules| modules.contains(module));
        match source {
            Some(source) if is_shared => Cow::Owned(with_source(symbol, source)),
            _ => Cow::Borrowed(symbol),
        }
    }
}

fn with_source(symbol: &str, source: &str) -> String {
    format!("{symbol} [{source}]")
}

/// Returns the places of the functions in a list that a user's name means.
///
/// `name`: a symbol as shown, or `FILE:SYMBOL` where `FILE` is a module, the last part of its path,
/// or the source file. If no function has the name, symbols without their parameters are compared, then the symbols of which a
/// function is a part or copy, then symbols without template arguments, at last without the namespaces and types around them.
pub fn named<'f>(functions: impl Iterator<Item = &'f Function> + Clone, name: &str) -> Vec<usize> {
    let found = |symbol: fn(&str) -> String| -> Vec<usize> {
        let is = |function: &Function| means(name, &symbol(&function.symbol), function);
        functions.clone().enumerate().filter(|(_, one)| is(one)).map(|(at, _)| at).collect()
    };
    let ways: [fn(&str) -> String; 4] = [
        str::to_string,
        without_parameters,
        |symbol| without_parameters(stem(symbol).base),
        without_arguments,
    ];
    if let Some(found) = ways.into_iter().map(found).find(|found| !found.is_empty()) {
        return found;
    }
    let is_end = |function: &&Function| {
        let bare = without_arguments(&function.symbol);
        std::iter::successors(Some(&bare[..]), |rest| readable::behind_namespace(rest))
            .any(|end| end == name)
    };
    let ends = functions.enumerate().filter(|(_, one)| is_end(one));
    ends.map(|(at, _)| at).collect()
}

/// Whether a user's name means a function with this symbol.
fn means(name: &str, symbol: &str, Function { module, source, .. }: &Function) -> bool {
    if name == symbol {
        return true;
    }
    let of = |file: &str| {
        let rest = name.strip_suffix(symbol).and_then(|rest| rest.strip_suffix(':'));
        !file.is_empty() && rest == Some(file)
    };
    let source = source.as_deref();
    source.is_some_and(|source| of(source) || name == with_source(symbol, source))
        || of(module)
        || of(module.rsplit('/').next().unwrap_or_default())
}

/// Returns a name without template arguments, return type and parameters: `ns::f` of `int ns::f<int>(int) const`.
fn without_arguments(name: &str) -> String {
    readable::without_arguments_and_parameters(&without_parameters(stem(name).base))
}

/// Returns a name without return type and parameters: `ns::f` of `int ns::f(int) const`.
fn without_parameters(name: &str) -> String {
    readable::without_qualifiers(&readable::without_parameters(name, "")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(symbol: &str, module: &str, source: Option<&str>) -> Function {
        Function { source: source.map(str::to_string), ..Function::new(symbol, module) }
    }

    #[test]
    fn sources_are_shown_where_symbols_do_not_tell_functions_apart() {
        let functions = [
            function("helper", "/bin/a", Some("one.c")),
            function("helper", "/bin/a", Some("two.c")),
            function("helper", "/bin/b", Some("one.c")),
            function("main", "/bin/a", None),
        ];
        let naming = Naming::of(&functions);
        let shown: Vec<_> = functions.iter().map(|one| naming.symbol(one)).collect();
        assert_eq!(shown, ["helper [one.c]", "helper [two.c]", "helper", "main"]);
        // A function that is twice in a list is not shared.
        let twice = [functions[0].clone(), functions[0].clone()];
        assert_eq!(Naming::of(&twice).symbol(&twice[0]), "helper");
    }

    #[test]
    fn functions_are_found_by_symbol_file_and_base_name() {
        let functions = [
            function("read", "[kernel]", None),
            function("read", "/lib/libc.so.6", None),
            function("helper", "/bin/work", Some("one.c")),
            function("helper", "/bin/work", Some("two.c")),
            function("ns::Thing::loop(int, char const*)", "/bin/work", None),
            function("ns::Thing::operator()(int) const [clone .isra.0]", "/bin/work", None),
            function("sort.constprop.0", "/bin/work", None),
            function("sort.isra.1", "/bin/work", None),
            function("void multiply<long>(Matrix<long>&, unsigned long)", "/bin/work", None),
            function("std::vector<int, A<int> >::push_back(int&&)", "/bin/work", None),
            function("std::vector<long, A<long> >::push_back(long&&)", "/bin/work", None),
            function("<app::Shape as core::fmt::Debug>::fmt", "/bin/work", None),
        ];
        for (name, found) in [
            ("read", &[0, 1][..]),
            ("[kernel]:read", &[0]),
            ("libc.so.6:read", &[1]),
            ("/lib/libc.so.6:read", &[1]),
            ("helper", &[2, 3]),
            ("helper [two.c]", &[3]),
            ("two.c:helper", &[3]),
            ("ns::Thing::loop", &[4]),
            ("work:ns::Thing::loop", &[4]),
            ("ns::Thing::operator()", &[5]),
            ("sort", &[6, 7]),
            ("sort.isra.1", &[7]),
            ("multiply", &[8]),
            ("work:multiply", &[8]),
            ("std::vector::push_back", &[9, 10]),
            ("vector::push_back", &[9, 10]),
            ("push_back", &[9, 10]),
            ("fmt", &[11]),
            ("Thing::loop", &[4]),
            ("back", &[]),
            ("write", &[]),
            (":read", &[]),
        ] {
            assert_eq!(named(functions.iter(), name), found, "{name}");
        }
    }
}
