//! How often functions were called: the metrics of `--count calls:FUNCTION`, and events of `opcost_record::event`.
//!
//! The calls are those of a profile's calling contexts, so that counting them costs no more than the profile. A function that
//! symbols name and that nothing called has 0 calls. A function without a symbol, such as one that the compiler inlined everywhere, has
//! no figure.
//!
//! Entries of programs' functions that jump to one another, and amounts, are not in a profile: [`CountedCalls::watch`] names the functions at whose entries the plugin looks.

use opcost_base::exit::{HasStatus, Status};
use opcost_model::plan::Counted;
use opcost_record::event::{Measure, Place, Sum, Watch, Watched};
use opcost_record::profile::KERNEL;
use opcost_record::{Domain, Event, Function, MetricKey, Profile, Reading};
use opcost_symbols::clone::stem;
use opcost_symbols::naming::named;
use std::collections::{BTreeSet, HashMap, HashSet};

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
    /// What is counted, as the user named it.
    pub called: Vec<Counted>,
    /// The functions at whose entries the plugin reads amounts.
    pub watch: Watch,
    metrics: Vec<MetricKey>,
    /// What counts a function's calls.
    functions: HashMap<Name, Vec<Counts>>,
}

/// A metric that counts the calls of a function.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// The metric's place.
    metric: usize,
    /// The functions that must have called it; empty if any may.
    callers: &'static [&'static str],
    /// Whether what a function of the metric calls is not counted again.
    once: bool,
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
        counted: &[Counted],
        functions: &[Function],
        whole: Domain,
    ) -> Result<CountedCalls, TooManyFunctions> {
        let wanted = counted;
        let mut counted = CountedCalls { called: wanted.to_vec(), ..CountedCalls::default() };
        let mut added: Vec<&Event> = Vec::new();
        for event in wanted.iter().flat_map(Counted::events) {
            if !added.iter().any(|known| std::ptr::eq(*known, event)) {
                counted.add_event(event, functions);
                added.push(event);
            }
        }
        for called in wanted {
            let Counted::Calls(called) = called else { continue };
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
            let counts = Counts { metric: self.metrics.len(), callers: &[], once: false };
            self.functions.entry(name).or_default().push(counts);
        }
        self.metrics.push(metric);
    }

    /// Adds an event, if a function of its own is there.
    fn add_event(&mut self, event: &Event, functions: &[Function]) {
        let domain = event.domain;
        let is_there =
            |function: &Function| function.module.starts_with('[') == (domain == Domain::Kernel);
        match event.measure {
            Measure::Entries | Measure::Each if domain == Domain::Kernel => {
                for function in functions.iter().filter(|function| is_there(function)) {
                    let own = name_of(function);
                    let Some(place) = event.places.iter().find(|place| place.is(&own.1)) else {
                        continue;
                    };
                    let key = event.key_of(place, &own.1);
                    let known = self.metrics.iter().position(|metric| *metric == key);
                    let metric = known.unwrap_or_else(|| {
                        self.metrics.push(key);
                        self.metrics.len() - 1
                    });
                    let all = self.functions.entry(own).or_default();
                    if all.iter().all(|counts| counts.metric != metric) {
                        all.push(Counts { metric, callers: place.callers, once: true });
                    }
                }
            }
            measure => {
                for (function, number) in functions.iter().zip(0..) {
                    // A compiler's copy of a function may have other arguments.
                    let is = |place: &&Place| place.is(&function.symbol);
                    let place = event.places.iter().find(is).filter(|_| is_there(function));
                    let Some(place) = place else { continue };
                    let name = event.key_of(place, &function.symbol).name;
                    let sums = &mut self.watch.sums;
                    let sum = sums.iter().position(|sum| sum.name == name).unwrap_or_else(|| {
                        sums.push(Sum { name, domain, measure });
                        sums.len() - 1
                    });
                    let (amount, pointer, sum) = (place.amount, place.pointer, sum as u32);
                    self.watch.watched.push(Watched { function: number, amount, pointer, sum });
                }
            }
        }
    }

    /// Whether the plugin reads the amounts of a metric.
    pub fn reads(&self, key: &MetricKey) -> bool {
        let is_of = |sum: &Sum| match sum.measure {
            Measure::Failures => {
                key.name.strip_prefix(&sum.name).is_some_and(|error| error.starts_with(':'))
            }
            _ => key.name == sum.name,
        };
        self.watch.sums.iter().any(|sum| is_of(sum) && sum.domain == key.domain)
    }

    /// The calls in a profile, a reading for each metric.
    pub fn readings(&self, profile: &Profile) -> Vec<Reading> {
        if self.metrics.is_empty() {
            return Vec::new();
        }
        let mut sums = vec![0u64; self.metrics.len()];
        let names: Vec<Name> = profile.functions.iter().map(name_of).collect();
        let counts: Vec<&[Counts]> = names
            .iter()
            .map(|name| self.functions.get(name).map_or(&[][..], Vec::as_slice))
            .collect();
        let symbol = |function: u32| &*profile.functions[function as usize].symbol;
        // A function that jumps to a part of its own is left: the part stands beside it.
        let whole: HashSet<(Option<u32>, &Name)> = profile
            .contexts
            .iter()
            .map(|context| (context, &names[context.function as usize]))
            .filter(|(context, name)| symbol(context.function) == name.1)
            .map(|(context, name)| (context.parent, name))
            .collect();
        for context in &profile.contexts {
            let name = &names[context.function as usize];
            let caller = context.parent.map(|at| profile.contexts[at as usize].function);
            // A part that the compiler split off belongs to its function and is not called by it.
            let is_split =
                [".part.", ".cold"].iter().any(|part| symbol(context.function).contains(part));
            let is_part = is_split && whole.contains(&(context.parent, name))
                || caller.is_some_and(|of| of != context.function && names[of as usize] == *name);
            let counts = counts[context.function as usize].iter();
            for Counts { metric, callers, once } in counts.filter(|_| !is_part) {
                let is_caller = |of: u32| callers.contains(&&*names[of as usize].1);
                let is_of_metric = |of: u32| {
                    let counts = self.functions.get(&names[of as usize]);
                    counts.is_some_and(|all| all.iter().any(|one| one.metric == *metric))
                };
                let is_again =
                    *once && caller.is_some_and(|of| of != context.function && is_of_metric(of));
                if !is_again && (callers.is_empty() || caller.is_some_and(is_caller)) {
                    sums[*metric] += context.calls;
                }
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
        let called: Vec<Counted> = texts.iter().map(|text| text.parse().unwrap()).collect();
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
    fn a_part_to_which_its_function_jumps_is_no_second_call() {
        // read jumps to read.part.0, which then stands beside it; kfree.cold alone is the function's only trace.
        let contexts = [(None, 0, 1), (Some(0), 2, 5), (Some(0), 3, 5), (None, 3, 2), (None, 5, 3)];
        assert_eq!(counted(&["calls:read:k"], &contexts), ["calls:read:k=7"]);
        assert_eq!(counted(&["calls:kfree:k"], &contexts), ["calls:kfree:k=3"]);
    }

    #[test]
    fn an_event_sums_its_functions_in_the_kernel_and_has_the_plugin_watch_those_of_programs() {
        let names =
            ["malloc", "calloc", "realloc", "main"].map(|name| Function::new(name, PROGRAM));
        let kernel = [
            "wp_page_copy",
            "page_add_new_anon_rmap",
            "handle_mm_fault",
            "__kmalloc",
            "__x64_sys_read",
        ];
        let kernel = kernel.map(|name| Function::new(name, KERNEL));
        let functions: Vec<Function> = names.into_iter().chain(kernel).collect();
        let context = |parent, function, calls| Context { parent, function, calls, cost: 1 };
        let contexts = vec![
            context(None, 3, 1),
            context(Some(0), 0, 10),
            context(Some(0), 2, 4),
            context(Some(2), 0, 2),
            context(Some(0), 6, 9),
            context(Some(4), 5, 3),
            context(Some(4), 4, 2),
            context(Some(6), 5, 2),
            context(Some(0), 8, 6),
        ];
        let profile = Profile { functions: functions.clone(), contexts, ..Profile::default() };
        let wanted: Vec<Counted> = ["heap", "allocations", "faults", "slab-bytes", "system-call"]
            .map(|text| text.parse().unwrap())
            .into();
        let counted = CountedCalls::of(&wanted, &functions, Domain::All).unwrap();
        let readings = counted.readings(&profile).into_iter();
        let read: Vec<String> =
            readings.map(|reading| format!("{}={}", reading.key.label(), reading.value)).collect();
        // No function of the others is there, so they have no figure.
        assert_eq!(read, ["anonymous-pages:k=3", "copied-pages:k=2", "system-call:read:k=6"]);
        let sums: Vec<&str> = counted.watch.sums.iter().map(|sum| &*sum.name).collect();
        assert_eq!(
            sums,
            ["allocations", "allocated-bytes", "heap-peak-bytes", "heap-left-bytes", "slab-bytes"]
        );
        let watched = |sum| counted.watch.watched.iter().filter(move |one| one.sum == sum);
        assert_eq!((watched(0).count(), watched(4).count()), (3, 1));
        assert!(counted.reads(&MetricKey::new("slab-bytes", Domain::Kernel, "emulator")));
        assert!(!counted.reads(&MetricKey::new("slab-bytes", Domain::User, "emulator")));
    }

    #[test]
    fn a_part_of_a_function_is_not_called_by_it() {
        let contexts =
            [(None, 2, 4), (Some(0), 3, 3), (Some(1), 3, 2), (None, 0, 1), (Some(3), 3, 1)];
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
