//! The functions whose calls are metrics: `--count calls:FUNCTION`.

use opcost_record::metric::{CALLS, EMULATOR};
use opcost_record::printable::printable;
use opcost_record::{Domain, MetricKey};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Functions of a name, or of all names that fit a pattern.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct CalledFunctions {
    /// The name, in which `*` stands for any text.
    name: String,
    /// Where the functions are: in the kernel, in programs, or anywhere.
    domain: Domain,
}

impl CalledFunctions {
    /// The name or pattern.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the name is a pattern, which makes a metric for each function.
    pub fn is_pattern(&self) -> bool {
        self.name.contains('*')
    }

    /// Whether functions of the kernel, or else of programs, may be meant.
    pub fn is_in(&self, kernel: bool) -> bool {
        self.domain != if kernel { Domain::User } else { Domain::Kernel }
    }

    /// Whether a function's name fits the pattern.
    pub fn fits(&self, name: &str) -> bool {
        let mut parts = self.name.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        true
    }

    /// The metric of the calls of a function.
    ///
    /// `name`: of the function; `whole`: the domain of a machine's counts, which is the metric's if nobody chose another.
    pub fn metric(&self, name: &str, whole: Domain) -> MetricKey {
        let domain = if self.domain == Domain::All { whole } else { self.domain };
        // Files of baselines and other formats separate their columns by spaces.
        let name: String =
            name.chars().map(|char| if char.is_whitespace() { '_' } else { char }).collect();
        MetricKey::new(&format!("{CALLS}{name}"), domain, EMULATOR)
    }
}

impl FromStr for CalledFunctions {
    type Err = String;

    fn from_str(text: &str) -> Result<CalledFunctions, String> {
        let wrong = |what: &str| format!("'{}' {what}, for example calls:do_mmap", printable(text));
        let name = text
            .strip_prefix(CALLS)
            .ok_or_else(|| wrong("names no function; give calls:FUNCTION"))?;
        // A C++ name may end in ::k.
        let of_domain = |suffix: &str| {
            name.strip_suffix(suffix).filter(|rest| !suffix.is_empty() && !rest.ends_with(':'))
        };
        let found = Domain::NAMES
            .iter()
            .find_map(|(domain, _, suffix)| Some((of_domain(suffix)?, *domain)));
        let (name, domain) = found.unwrap_or((name, Domain::All));
        match name.is_empty() || name.contains(char::is_control) {
            true => Err(wrong("names no function; give calls:FUNCTION")),
            false => Ok(CalledFunctions { name: name.into(), domain }),
        }
    }
}

impl fmt::Display for CalledFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CALLS}{}{}", self.name, self.domain.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(text: &str) -> CalledFunctions {
        text.parse().unwrap()
    }

    #[test]
    fn names_have_a_domain_only_if_they_say_so() {
        for (text, name, label) in [
            ("calls:do_mmap", "do_mmap", "calls:do_mmap"),
            ("calls:memcpy:k", "memcpy", "calls:memcpy:k"),
            ("calls:memcpy:u", "memcpy", "calls:memcpy:u"),
            ("calls:math::k", "math::k", "calls:math::k"),
            ("calls:libc.so.6:malloc", "libc.so.6:malloc", "calls:libc.so.6:malloc"),
            ("calls:operator new", "operator new", "calls:operator_new"),
        ] {
            let called = called(text);
            assert_eq!((called.name(), called.to_string()), (name, text.to_string()));
            assert_eq!(called.metric(name, Domain::All).label(), label);
        }
        assert_eq!(called("calls:f").metric("f", Domain::User).label(), "calls:f:u");
        let [kernel, programs] = ["calls:f:k", "calls:f:u"].map(called);
        assert!(kernel.is_in(true) && !kernel.is_in(false));
        assert!(programs.is_in(false) && !programs.is_in(true));
        assert!(called("calls:f").is_in(true) && called("calls:f").is_in(false));
    }

    #[test]
    fn what_is_no_function_is_refused() {
        for text in ["do_mmap", "call:f", "", "calls:", "calls::k", "calls:a\nb", "allocations"] {
            let error = text.parse::<CalledFunctions>().unwrap_err();
            assert!(error.ends_with("give calls:FUNCTION, for example calls:do_mmap"), "{error}");
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, fit, other) in [
            ("vfs_*", &["vfs_read", "vfs_"][..], &["vfs", "do_vfs_read"][..]),
            ("*_read", &["vfs_read", "_read"], &["vfs_reads"]),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "ab", "abcd"]),
            ("a*a", &["aa", "aba"], &["a"]),
            ("*", &["", "x"], &[]),
            ("f", &["f"], &["ff", ""]),
        ] {
            let called = called(&format!("calls:{pattern}"));
            assert!(fit.iter().all(|name| called.fits(name)), "{pattern}");
            assert!(!other.iter().any(|name| called.fits(name)), "{pattern}");
        }
    }
}
