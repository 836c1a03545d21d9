//! Turns symbols of C++ and Rust into the names that their authors wrote.

pub use opcost_record::printable::printable;

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt::{self, Write};

/// The most bytes of a name: back references can expand a short symbol to any length.
const SHOWN_BYTES_MAX: usize = 4096;

/// Text that refuses to grow beyond [`SHOWN_BYTES_MAX`].
#[derive(Default)]
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > SHOWN_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Makes a symbol readable.
///
/// `symbol`: as in the symbol table. The result has no Rust hash, no symbol version (`@@GLIBC_2.14`)
/// and no control characters; a symbol that is not mangled, or badly so, stays as it is.
pub fn demangle(symbol: &str) -> String {
    let symbol = match symbol.find('@') {
        None | Some(0) => symbol,
        Some(version) => &symbol[..version],
    };
    let readable = if is_rust(symbol) {
        rust(symbol)
    } else if symbol.starts_with("_Z") {
        cpp(symbol)
    } else {
        None
    };
    printable(readable.as_deref().unwrap_or(symbol))
}

/// Returns the linker's name of a symbol if it differs from the readable name; `None` if the symbol
/// is not mangled, or longer than any name that is shown.
///
/// `symbol`: as in the symbol table; `shown`: its name by [`demangle`].
pub fn mangled(symbol: &str, shown: &str) -> Option<Box<str>> {
    let is_mangled = symbol.starts_with("_Z") || symbol.starts_with("_R");
    if !is_mangled || symbol.len() > SHOWN_BYTES_MAX {
        return None;
    }
    let linked = printable(symbol.split('@').next().unwrap_or(symbol));
    (linked != shown).then(|| linked.into())
}

/// Whether a symbol has one of Rust's two manglings; the older is C++'s with a hash at the end.
fn is_rust(symbol: &str) -> bool {
    let hash_at = |place: usize| {
        let rest = &symbol.as_bytes()[place + 3..];
        rest.len() > 16 && rest[..16].iter().all(u8::is_ascii_hexdigit) && rest[16] == b'E'
    };
    symbol.starts_with("_R")
        || symbol.starts_with("_ZN") && symbol.rfind("17h").is_some_and(hash_at)
}

fn rust(symbol: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(symbol).ok()?;
    let mut shown = Bounded::default();
    write!(shown, "{name:#}").ok()?;
    Some(shown.0)
}

fn cpp(symbol: &str) -> Option<String> {
    let mut shown = Bounded::default();
    Symbol::new(symbol).ok()?.structured_demangle(&mut shown, &DemangleOptions::default()).ok()?;
    Some(shown.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_were_written() {
        for (symbol, name) in [
            ("main", "main"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("@odd", "@odd"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
            ("_ZN2ns5Thing4loopEiRKSs", "ns::Thing::loop(int, std::string const&)"),
            ("_ZN17hello", "_ZN17hello"),
            ("_Z", "_Z"),
            ("a\tb\n", "a\\u{9}b\\u{a}"),
        ] {
            assert_eq!(demangle(symbol), name);
        }
    }

    #[test]
    fn only_a_mangled_name_is_kept_beside_the_readable_one() {
        for (symbol, kept) in [
            ("_ZN2ns5Thing4loopEiRKSs", Some("_ZN2ns5Thing4loopEiRKSs")),
            ("_ZN2ns1fEv@@VERS_1.2", Some("_ZN2ns1fEv")),
            (
                "_RNvCskwGfYPst2Cb_3foo16example_function",
                Some("_RNvCskwGfYPst2Cb_3foo16example_function"),
            ),
            ("main", None),
            ("memcpy@@GLIBC_2.14", None),
            ("_ZN17hello", None),
        ] {
            assert_eq!(mangled(symbol, &demangle(symbol)).as_deref(), kept);
        }
    }

    #[test]
    fn a_name_that_unfolds_without_end_stays_folded() {
        // Each substitution is a pair of the previous one: 2^40 ints in all.
        let pairs: String = (0..40).map(|_| "S1_IS1_").collect();
        let symbol = format!("_Z1fI{pairs}E");
        assert!(demangle(&symbol).len() <= SHOWN_BYTES_MAX);
    }
}
