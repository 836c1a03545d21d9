//! How often functions were called: the metrics of `--count calls:FUNCTION`.
//!
//! The calls are those of a profile's calling contexts, so that counting them costs no more than the profile. A function that
//! symbols name and that nothing called has 0 calls. A function without a symbol, such as one that the compiler inlined everywhere, has
//! no figure.

use opcost_base::exit::{HasStatus, Status};
use opcost_model::plan::CalledFunctions;
use opcost_record::profile::KERNEL;
use opcost_record::{Domain, Function, MetricKey, Profile, Reading};
use opcost_symbols::clone::stem;
use opcost_symbols::naming::named;
use std::collections::{BTreeSet, HashMap};

/// The most functions that a pattern may mean: each has a row in every report.
const FUNCTIONS_MAX: usize = 200;

/// The error that a pattern means too many functions.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "--count {pattern}: {found} functions have such names, and each would be a row; write more of the name, so that it means \
     at most {FUNCTIONS_MAX}"
)]
pub struct TooManyFunctions {
    pattern: String,
    found: usize,
}

impl HasStatus for TooManyFunctions {
    fn status(&self) -> Status {
        Status::Usage
    }
}

/// A name in its module, without what compilers append to parts and copies.
type Name = (String, String);

/// The functions whose calls are counted in a variant's runs.
#[derive(Clone, Debug, Default)]
pub struct CountedCalls {
    /// The functions as the user named them.
    pub called: Vec<CalledFunctions>,
    metrics: Vec<MetricKey>,
    /// The places of a function's metrics.
    functions: HashMap<Name, Vec<usize>>,
}

fn name_of(function: &Function) -> Name {
    (function.module.clone(), stem(&function.symbol).base.to_string())
}

impl CountedCalls {
    /// Finds the functions to count among all functions of a variant.
    ///
    /// `whole`: the domain of the machine's counts.
    ///
    /// # Errors
    /// A pattern means more functions than can be counted.
    pub fn of(
        called: &[CalledFunctions],
        functions: &[Function],
        whole: Domain,
    ) -> Result<CountedCalls, TooManyFunctions> {
        let mut counted = CountedCalls { called: called.to_vec(), ..CountedCalls::default() };
        for called in called {
            let there = functions.iter().filter(|one| called.is_in(one.module == KERNEL));
            let is_real = |one: &&Function| !one.symbol.starts_with('[');
            let there: Vec<&Function> = there.filter(is_real).collect();
            if !called.is_pattern() {
                let found = named(there.iter().copied(), called.name());
                let names = found.into_iter().map(|at| name_of(there[at])).collect();
                counted.add(called.metric(called.name(), whole), names);
                continue;
            }
            let names = there.into_iter().map(name_of).filter(|(_, name)| called.fits(name));
            let names: BTreeSet<Name> = names.collect();
            let shown: BTreeSet<&String> = names.iter().map(|(_, name)| name).collect();
            if shown.len() > FUNCTIONS_MAX {
                return Err(TooManyFunctions { pattern: called.to_string(), found: shown.len() });
            }
            for name in shown {
                let same = names.iter().filter(|(_, other)| other == name).cloned();
                counted.add(called.metric(name, whole), same.collect());
            }
        }
        Ok(counted)
    }

    /// Adds a metric that counts the calls of these functions; none, if there is no function.
    fn add(&mut self, metric: MetricKey, names: BTreeSet<Name>) {
        if names.is_empty() || self.metrics.contains(&metric) {
            return;
        }
        for name in names {
            self.functions.entry(name).or_default().push(self.metrics.len());
        }
        self.metrics.push(metric);
    }

    /// The calls in a profile, a reading for each metric.
    pub fn readings(&self, profile: &Profile) -> Vec<Reading> {
        let mut sums = vec![0u64; self.metrics.len()];
        let names: Vec<Name> = profile.functions.iter().map(name_of).collect();
        for context in &profile.contexts {
            let name = &names[context.function as usize];
            let caller = context.parent.map(|at| profile.contexts[at as usize].function);
            // A part that the compiler split off belongs to its function and is not called by it.
            let is_part =
                caller.is_some_and(|of| of != context.function && names[of as usize] == *name);
            for metric in self.functions.get(name).into_iter().flatten().filter(|_| !is_part) {
                sums[*metric] += context.calls;
            }
        }
        let readings = self.metrics.iter().zip(sums);
        readings.map(|(metric, calls)| Reading::plain(metric.clone(), calls)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::Context;

    const PROGRAM: &str = "/bin/work";

    fn functions() -> Vec<Function> {
        let kernel = ["vfs_read", "vfs_write", "read", "read.part.0", "memcpy", "kfree.cold"];
        let program = ["memcpy", "read", "void multiply<long>(Matrix<long>&)"];
        let kernel = kernel.map(|symbol| Function::new(symbol, KERNEL));
        kernel.into_iter().chain(program.map(|symbol| Function::new(symbol, PROGRAM))).collect()
    }

    /// Reads the calls as `NAME=CALLS`.
    fn counted(texts: &[&str], contexts: &[(Option<u32>, u32, u64)]) -> Vec<String> {
        let called: Vec<CalledFunctions> = texts.iter().map(|text| text.parse().unwrap()).collect();
        let contexts = contexts.iter().map(|&(parent, function, calls)| Context {
            parent,
            function,
            calls,
            cost: 1,
        });
        let profile =
            Profile { functions: functions(), contexts: contexts.collect(), ..Profile::default() };
        let counted = CountedCalls::of(&called, &functions(), Domain::All).unwrap();
        let readings = counted.readings(&profile).into_iter();
        readings.map(|reading| format!("{}={}", reading.key.label(), reading.value)).collect()
    }

    #[test]
    fn calls_are_summed_by_function_and_domain() {
        // memcpy of the program calls that of the kernel.
        let contexts = [(None, 6, 3), (Some(0), 4, 5), (Some(0), 0, 2), (None, 8, 7)];
        let read = |texts: &[&str]| counted(texts, &contexts);
        assert_eq!(read(&["calls:memcpy"]), ["calls:memcpy=8"]);
        assert_eq!(
            read(&["calls:memcpy:k", "calls:memcpy:u"]),
            ["calls:memcpy:k=5", "calls:memcpy:u=3"]
        );
        assert_eq!(read(&["calls:work:memcpy"]), ["calls:work:memcpy=3"]);
        assert_eq!(read(&["calls:multiply"]), ["calls:multiply=7"]);
        // A function that nothing called has 0 calls, one that nothing names has no figure.
        assert_eq!(read(&["calls:vfs_*"]), ["calls:vfs_read=2", "calls:vfs_write=0"]);
        assert!(read(&["calls:inlined", "calls:none_*"]).is_empty());
        assert_eq!(read(&["calls:memcpy", "calls:memcpy", "calls:memc*"]), ["calls:memcpy=8"]);
    }

    #[test]
    fn a_part_of_a_function_is_not_called_by_it() {
        let contexts = [(None, 2, 4), (Some(0), 3, 3), (Some(1), 3, 2), (None, 3, 1)];
        assert_eq!(counted(&["calls:read:k"], &contexts), ["calls:read:k=7"]);
    }

    #[test]
    fn a_pattern_for_everything_is_refused() {
        let functions: Vec<Function> =
            (0..1000).map(|at| Function::new(format!("f{at}"), PROGRAM)).collect();
        let of = |text: &str| CountedCalls::of(&[text.parse().unwrap()], &functions, Domain::All);
        assert_eq!(
            of("calls:*").unwrap_err().to_string(),
            "--count calls:*: 1000 functions have such names, and each would be a row; write more of the name, so that it means at \
             most 200"
        );
        assert_eq!(of("calls:f1*").unwrap().metrics.len(), 111);
    }
}
