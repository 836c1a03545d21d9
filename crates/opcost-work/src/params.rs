//! Parameters: their declarations, the given values, and the resolved set.

use opcost_record::nearest::nearest;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// One parameter of a workload.
#[derive(Clone, Copy, Debug)]
pub struct ParamSpec {
    /// The parameter's name.
    pub name: &'static str,
    /// The value if none is given.
    pub default: &'static str,
    /// The accepted values, as help and errors show them: `off|on|cached`, `1..=64`.
    pub values: &'static str,
    /// One line for the help text.
    pub help: &'static str,
    /// Turns an accepted value into its only canonical spelling; `None`: not accepted.
    pub check: fn(&str) -> Option<String>,
}

/// Checks a whole number of a range, for [`ParamSpec::check`].
pub(crate) fn number(value: &str, accepted: RangeInclusive<u64>) -> Option<String> {
    canonical(value, |number: &u64| accepted.contains(number))
}

/// Checks a decimal fraction from 0 to 1, for [`ParamSpec::check`].
pub(crate) fn chance(value: &str) -> Option<String> {
    canonical(value, |chance: &f64| (0.0..=1.0).contains(chance)).map(|text| match text.as_str() {
        "-0" => "0".into(),
        _ => text,
    })
}

/// Checks that the value is one of some words, for [`ParamSpec::check`].
pub(crate) fn one_of(value: &str, accepted: &[&str]) -> Option<String> {
    accepted.contains(&value).then(|| value.to_string())
}

fn canonical<T: FromStr + Display>(value: &str, accepted: impl Fn(&T) -> bool) -> Option<String> {
    let parsed = value.parse().ok().filter(accepted)?;
    Some(parsed.to_string())
}

/// The reason why parameters were refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ParamError {
    /// The workload has no such parameter.
    #[error(
        "workload '{workload}' has no parameter '{name}'{}; it has: {}",
        offer(nearest),
        known.join(", ")
    )]
    Unknown {
        workload: &'static str,
        name: String,
        nearest: Vec<&'static str>,
        known: Vec<&'static str>,
    },
    /// The value is not accepted.
    #[error("workload '{workload}' does not accept {name}={value}; accepted: {values}")]
    Value { workload: &'static str, name: &'static str, value: String, values: &'static str },
    /// The same parameter was given more than once.
    #[error("parameter '{name}' of workload '{workload}' is given twice; give it once")]
    Twice { workload: &'static str, name: &'static str },
}

fn offer(nearest: &[&str]) -> String {
    match nearest {
        [] => String::new(),
        names => format!(" (did you mean '{}'?)", names.join("' or '")),
    }
}

/// The parameters of one run: all present and valid, in the order of their declaration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Params {
    values: Vec<(&'static str, String)>,
}

impl Params {
    /// Fills in the defaults of `specs`, and checks the `given` values for a `workload`; see
    /// [`WorkloadSpec::resolve`](crate::WorkloadSpec::resolve).
    pub(crate) fn resolve(
        workload: &'static str,
        specs: &[ParamSpec],
        given: &[(String, String)],
    ) -> Result<Params, ParamError> {
        let mut values: Vec<(&'static str, Option<String>)> =
            specs.iter().map(|spec| (spec.name, None)).collect();
        for (name, value) in given {
            let Some(index) = specs.iter().position(|spec| spec.name == name) else {
                let known: Vec<&'static str> = specs.iter().map(|spec| spec.name).collect();
                return Err(ParamError::Unknown {
                    workload,
                    name: name.clone(),
                    nearest: nearest(name, known.iter().copied()),
                    known,
                });
            };
            let spec = &specs[index];
            let accepted = (spec.check)(value).ok_or_else(|| ParamError::Value {
                workload,
                name: spec.name,
                value: value.clone(),
                values: spec.values,
            })?;
            if values[index].1.replace(accepted).is_some() {
                return Err(ParamError::Twice { workload, name: spec.name });
            }
        }
        let values = specs
            .iter()
            .zip(values)
            .map(|(spec, (name, value))| (name, value.unwrap_or_else(|| spec.default.to_string())))
            .collect();
        Ok(Params { values })
    }

    /// Returns every parameter with its value in canonical spelling, in the order of declaration.
    pub fn pairs(&self) -> &[(&'static str, String)] {
        &self.values
    }

    /// Returns the value of a parameter as text.
    ///
    /// # Panics
    /// The workload declares no parameter of this name.
    pub fn text(&self, name: &str) -> &str {
        match self.values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => value,
            None => panic!("parameter '{name}' is not declared by its workload"),
        }
    }

    /// Returns the value of a parameter that is a whole number.
    ///
    /// # Panics
    /// The workload declares no such parameter, or one that is not a whole number.
    pub fn number(&self, name: &str) -> u64 {
        self.parsed(name)
    }

    /// Returns the value of a parameter that is a probability, from 0 to 1.
    ///
    /// # Panics
    /// The workload declares no such parameter, or one that is not a decimal fraction.
    pub fn chance(&self, name: &str) -> f64 {
        self.parsed(name)
    }

    fn parsed<T: FromStr>(&self, name: &str) -> T {
        match self.text(name).parse() {
            Ok(value) => value,
            Err(_) => panic!("parameter '{name}' is declared with another type"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WorkloadSpec;

    fn refused(workload: &str, given: &[(&str, &str)]) -> String {
        resolve(workload, given).unwrap_err().to_string()
    }

    fn resolve(workload: &str, given: &[(&str, &str)]) -> Result<Params, ParamError> {
        let given: Vec<(String, String)> =
            given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        WorkloadSpec::find(workload).unwrap().resolve(&given)
    }

    #[test]
    fn defaults_are_filled_in_and_spelling_is_canonical() {
        let params = resolve("mmap", &[("touch", "0.50"), ("slots", "007")]).unwrap();
        let pairs: Vec<String> =
            params.pairs().iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            pairs.join(" "),
            "ops=1000000 seccomp=off procs=1 threads=0 scale=off oversubscribe=off pin=off slots=7 pages=16 touch=0.5 neighbours=0"
        );
        assert_eq!(params.number("slots"), 7);
        assert_eq!(params.chance("touch"), 0.5);
        assert_eq!(params.text("seccomp"), "off");
    }

    #[test]
    fn an_unknown_parameter_is_refused_with_what_there_is() {
        assert_eq!(
            refused("mmap", &[("slot", "3")]),
            "workload 'mmap' has no parameter 'slot' (did you mean 'slots'?); \
             it has: ops, seccomp, procs, threads, scale, oversubscribe, pin, slots, pages, touch, neighbours"
        );
        assert_eq!(
            refused("syscall", &[("temperature", "3")]),
            "workload 'syscall' has no parameter 'temperature'; \
             it has: ops, seccomp, procs, threads, scale, oversubscribe, pin, call, pollute, unroll, extra"
        );
    }

    #[test]
    fn a_bad_value_is_refused_with_what_is_accepted() {
        for (workload, name, value, values) in [
            ("mmap", "ops", "0", "1..=1000000000000"),
            ("mmap", "ops", "many", "1..=1000000000000"),
            ("mmap", "seccomp", "yes", "off|on|cached"),
            ("mmap", "procs", "65", "1..=64"),
            ("mmap", "threads", "65", "0..=64"),
            ("mmap", "scale", "yes", "off|on"),
            ("mmap", "slots", "0", "1..=4096"),
            ("mmap", "pages", "65", "1..=64"),
            ("mmap", "touch", "1.01", "0..=1, a decimal fraction"),
            ("mmap", "touch", "NaN", "0..=1, a decimal fraction"),
            ("mmap", "neighbours", "60001", "0..=60000"),
            ("mmap", "neighbours", "-1", "0..=60000"),
            (
                "syscall",
                "call",
                "exit",
                "getppid|getpid|getuid|read|clock_gettime|clock_gettime-vdso",
            ),
            ("syscall", "unroll", "2", "1|4|16|64"),
        ] {
            assert_eq!(
                refused(workload, &[(name, value)]),
                format!("workload '{workload}' does not accept {name}={value}; accepted: {values}")
            );
        }
    }

    #[test]
    fn a_parameter_given_twice_is_refused() {
        assert_eq!(
            refused("mmap", &[("pages", "3"), ("pages", "3")]),
            "parameter 'pages' of workload 'mmap' is given twice; give it once"
        );
    }

    #[test]
    fn minus_zero_is_zero() {
        assert_eq!(chance("-0.0"), Some("0".into()));
        assert_eq!(chance("1e-3"), Some("0.001".into()));
        assert_eq!(chance("inf"), None);
    }
}
