//! Exact events: what `--count NAME` counts beside instructions, one row of [`EVENTS`] each.
//!
//! **An event is the entry of a function.** How often functions of the kernel are entered is known from a profile's calling contexts,
//! so counting entries costs no more than the profile. An amount, such as the bytes of an allocation, stands in a register at the
//! entry: the plugin reads it there, and only there. What a program's function of a row calls, or jumps to, counts once: `realloc`
//! that leaves the work to `malloc` is one allocation.
//!
//! **A name that a kernel or library does not have is left out of the sum.** Rows name the functions of all versions. If
//! the kernel or library has none of a row's names, the row has no figure; it never shows 0.

mod errors;
mod table;
mod watch;

use crate::metric::{CALLS, EMULATOR, MetricRow};
use crate::nearest::did_you_mean;
use crate::{Domain, MetricKey};
use serde::{Deserialize, Serialize};

pub use errors::error_name;
pub use table::EVENTS;
pub use watch::{Sum, Watch, Watched};

/// The name that means every event.
pub const ALL: &str = "all";
/// The name that means every event of the kernel.
pub const KERNEL: &str = "kernel";

/// What an event adds up.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Measure {
    /// One for each entry.
    Entries,
    /// One for each entry, with a metric for each function: the row's name, a colon and what the pattern's star stands for.
    Each,
    /// The amounts at the entries.
    Amounts,
    /// The most bytes that were allocated and not freed at one time.
    Peak,
    /// The bytes that were allocated and not freed.
    Left,
    /// The calls that return an error, with a metric for each function and error.
    Failures,
}

impl Measure {
    /// Whether the row has several metrics, which begin with its name and a colon.
    fn is_divided(self) -> bool {
        matches!(self, Measure::Each | Measure::Failures)
    }
}

/// Where a function has the address of the memory that it allocates or frees.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Pointer {
    /// Nowhere.
    Nowhere,
    /// In its result.
    Returned,
    /// In memory, at the first argument.
    Stored,
    /// In its result, and its first argument has the address of memory that it frees.
    Moved,
    /// In its first argument, and it frees the memory.
    Freed,
}

/// A number that can be read where a function begins. Arguments are numbered from 0.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub enum Amount {
    /// None: the entries count.
    Nothing,
    /// An argument.
    Argument(u8),
    /// The product of two arguments.
    Product(u8, u8),
    /// The 32 bits in memory at an argument and some bytes further.
    Field(u8, u16),
    /// The bytes of pages whose number is 2 to the power of an argument.
    Pages(u8),
    /// An argument, if the first argument is an address of a program.
    ToProgram(u8),
    /// An argument, if the second argument is an address of a program.
    FromProgram(u8),
}

/// A function whose entry is an event.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The function's name; a * stands for any text.
    pub function: &'static str,
    /// The functions that must have called it; empty if any may.
    pub callers: &'static [&'static str],
    /// The amount at its entry.
    pub amount: Amount,
    /// The memory that it allocates or frees.
    pub pointer: Pointer,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// The metric.
    pub metric: MetricRow,
    /// The name that means the event and others of its kind.
    pub group: &'static str,
    /// Where the functions are: the kernel, or programs and their libraries.
    pub domain: Domain,
    /// What is added up.
    pub measure: Measure,
    /// The functions.
    pub places: &'static [Place],
    /// The kernels or libraries against which the row was tested.
    pub checked: &'static str,
}

impl Event {
    /// The event of a metric's name.
    pub fn find(name: &str) -> Option<&'static Event> {
        let bare = name.split_once(':').map(|(bare, _)| bare);
        EVENTS.iter().find(|event| match event.measure {
            divided if divided.is_divided() => bare == Some(event.metric.name),
            _ => event.metric.name == name,
        })
    }

    /// The events that a name means: one, those of a group, or all; empty if the name is unknown.
    pub fn named(name: &str) -> Vec<&'static Event> {
        let fits = |event: &&Event| match name {
            ALL => true,
            KERNEL => event.domain == Domain::Kernel,
            _ => event.metric.name == name || event.group == name,
        };
        EVENTS.iter().filter(fits).collect()
    }

    /// Every name that means events: of events, then of groups.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let mut groups: Vec<&str> = EVENTS.iter().map(|event| event.group).collect();
        groups.dedup();
        let names = EVENTS.iter().map(|event| event.metric.name);
        names.chain(groups).chain([KERNEL, ALL])
    }

    /// Why a name means no event, with the nearest names.
    pub fn unknown(name: &str) -> String {
        if MetricRow::find(name).is_some() {
            return "a metric, which runs have without --count where the machine can count it; 'opcost list events' shows all".into();
        }
        format!(
            "nothing that can be counted{}; 'opcost list events' shows all, and {CALLS}FUNCTION counts a function's calls",
            did_you_mean(name, Event::names())
        )
    }

    /// The key of the event's figures.
    pub fn key(&self) -> MetricKey {
        MetricKey::new(self.metric.name, self.domain, EMULATOR)
    }

    /// The key of the figures of a function of the event.
    ///
    /// `place`: one of the event's places, which the function's name fits.
    pub fn key_of(&self, place: &Place, function: &str) -> MetricKey {
        let (before, behind) = place.function.split_once('*').unwrap_or((place.function, ""));
        let rest = function.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
        let name = format!("{}:{}", self.metric.name, rest.unwrap_or(function));
        match self.measure.is_divided() {
            true => MetricKey::new(&name, self.domain, EMULATOR),
            false => self.key(),
        }
    }

    /// Why an event has no figure.
    pub fn reason_missing(&self) -> String {
        let names: Vec<&str> = self.places.iter().map(|place| place.function).collect();
        let (shown, more) = names.split_at(names.len().min(4));
        let (of, more) = (shown.join(", "), if more.is_empty() { "" } else { ", …" });
        let read = match self.measure {
            Measure::Entries | Measure::Each if self.domain == Domain::Kernel => "",
            _ => {
                "; or their arguments could not be read: the machine has several CPUs, several tasks allocated, or the program \
                  called them first"
            }
        };
        let more = format!("{more}{read}");
        match self.domain {
            Domain::Kernel => {
                format!("the kernel has no function of its own of these names: {of}{more}")
            }
            _ => {
                format!("no program and library that ran has a function of these names: {of}{more}")
            }
        }
    }
}

impl Place {
    /// Whether a function's name fits.
    pub fn is(&self, function: &str) -> bool {
        match self.function.split_once('*') {
            None => self.function == function,
            Some((before, behind)) => {
                let rest = function.strip_prefix(before);
                rest.is_some_and(|rest| rest.ends_with(behind))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{METRICS, Unit};
    use std::collections::BTreeSet;

    #[test]
    fn every_name_means_one_thing() {
        let names: Vec<&str> = Event::names().collect();
        let different: BTreeSet<&&str> = names.iter().collect();
        assert_eq!(
            different.len(),
            names.len(),
            "a name stands twice, or a group's rows are apart: {names:?}"
        );
        for event in EVENTS {
            let name = event.metric.name;
            let metric = event.key_of(&event.places[0], "f").name;
            assert_eq!(Event::find(&metric).unwrap().metric.name, name);
            assert!(!name.contains(':'), "{name}");
            if let Some(row) = METRICS.iter().find(|row| row.name == name) {
                assert_eq!(row.unit, event.metric.unit, "{name}");
            }
        }
    }

    #[test]
    fn rows_say_what_they_measure() {
        for event in EVENTS {
            let name = event.metric.name;
            let has_amount = |place: &Place| place.amount != Amount::Nothing;
            assert!(!event.places.is_empty(), "{name}");
            assert!(!event.metric.help.is_empty() && !event.checked.is_empty(), "{name}");
            let plain = |place: &Place| place.callers.is_empty();
            let has_pointer = |place: &Place| place.pointer != Pointer::Nowhere;
            match event.measure {
                Measure::Entries | Measure::Each => {
                    assert_eq!(event.metric.unit, Unit::Count, "{name}")
                }
                Measure::Amounts => {
                    assert!(
                        event.places.iter().all(|place| has_amount(place) && plain(place)),
                        "{name}"
                    );
                    assert_eq!(event.metric.unit, Unit::Bytes, "{name}");
                }
                Measure::Peak | Measure::Left => {
                    assert!(
                        event.places.iter().all(|place| has_pointer(place) && plain(place)),
                        "{name}"
                    );
                    assert_eq!(event.metric.unit, Unit::Bytes, "{name}");
                }
                Measure::Failures => assert!(event.places.iter().all(plain), "{name}"),
            }
        }
    }

    #[test]
    fn an_unknown_name_is_told_the_nearest() {
        assert!(Event::named("allocation").is_empty());
        let told = Event::unknown("allocation");
        assert!(told.contains("did you mean allocations"), "{told}");
        assert!(Event::unknown("system-calls").contains("without --count"));
        assert!(Event::unknown("xyzzy").contains("opcost list events"));
        assert_eq!(Event::named(ALL).len(), EVENTS.len());
        let kernel = Event::named(KERNEL);
        assert!(
            kernel.len() < EVENTS.len()
                && kernel.iter().all(|event| event.domain == Domain::Kernel)
        );
        assert!(Event::named("heap").iter().any(|event| event.metric.name == "allocations"));
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let place = |function| Place {
            function,
            callers: &[],
            amount: Amount::Nothing,
            pointer: Pointer::Nowhere,
        };
        assert!(place("__x64_sys_*").is("__x64_sys_read") && !place("__x64_sys_*").is("sys_read"));
        assert!(place("malloc").is("malloc") && !place("malloc").is("mallocx"));
    }
}
