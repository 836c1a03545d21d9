//! What is counted beside the usual metrics: `--count`.

use super::CalledFunctions;
use opcost_record::metric::CALLS;
use opcost_record::printable::printable;
use opcost_record::{Domain, Event, MetricKey};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The value that means lines and pages.
const FOOTPRINT: &str = "footprint";

/// One value of `--count`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Counted {
    /// Calls of functions that the user names.
    Calls(CalledFunctions),
    /// Events of the table: the name of one, of a group, or of all.
    Events(String),
    /// The lines and pages that the work touches.
    Footprint,
}

impl Counted {
    /// The events that are meant, if any are.
    pub fn events(&self) -> Vec<&'static Event> {
        match self {
            Counted::Calls(_) | Counted::Footprint => Vec::new(),
            Counted::Events(name) => Event::named(bare(name)),
        }
    }

    /// The metric that every run shall have. A pattern and a group have those that symbols show to be there.
    ///
    /// `whole`: the domain of a machine's counts.
    pub fn metric(&self, whole: Domain) -> Option<MetricKey> {
        match self {
            Counted::Calls(called) if called.is_pattern() => None,
            Counted::Calls(called) => Some(called.metric(called.name(), whole)),
            Counted::Events(name) => Event::find(bare(name)).map(Event::key),
            // It has several.
            Counted::Footprint => None,
        }
    }

    /// Whether only a kernel has what is named.
    pub fn needs_kernel(&self) -> bool {
        let events = self.events();
        !events.is_empty() && events.iter().all(|event| event.domain == Domain::Kernel)
    }
}

/// The name of an event without the domain that reports show behind it, if the event has that domain.
fn bare(name: &str) -> &str {
    let short = name.rsplit_once(':').map(|(short, _)| short);
    let is_key = |short: &&str| Event::find(short).is_some_and(|event| event.key().label() == name);
    short.filter(is_key).unwrap_or(name)
}

impl FromStr for Counted {
    type Err = String;

    fn from_str(text: &str) -> Result<Counted, String> {
        if text.starts_with(CALLS) {
            return text.parse().map(Counted::Calls);
        }
        if text == FOOTPRINT {
            return Ok(Counted::Footprint);
        }
        let events = Counted::Events(text.into());
        if events.events().is_empty() {
            return Err(format!("'{}' is {}", printable(text), Event::unknown(text)));
        }
        Ok(events)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counted::Calls(called) => called.fmt(f),
            Counted::Events(name) => f.write_str(name),
            Counted::Footprint => f.write_str(FOOTPRINT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Counted {
        text.parse().unwrap()
    }

    #[test]
    fn a_value_is_an_event_a_group_or_a_functions_calls() {
        let label = |text| counted(text).metric(Domain::All).map(|key| key.label());
        assert_eq!(label("allocations").as_deref(), Some("allocations:u"));
        assert_eq!(label("allocations:u").as_deref(), Some("allocations:u"));
        assert_eq!(label("calls:do_mmap").as_deref(), Some("calls:do_mmap"));
        for group in ["heap", "kernel", "all", "calls:vfs_*", "footprint"] {
            assert_eq!(label(group), None, "{group}");
            assert_eq!(counted(group).to_string(), group);
        }
        assert!(counted("kernel").needs_kernel() && counted("slab-bytes").needs_kernel());
        assert!(!counted("all").needs_kernel() && !counted("calls:do_mmap").needs_kernel());
    }

    #[test]
    fn what_cannot_be_counted_is_refused_with_the_nearest_name() {
        for (text, part) in [
            ("alocations", "did you mean allocations"),
            ("allocations:k", "is nothing that can be counted"),
            ("do_mmap", "calls:FUNCTION counts a function's calls"),
            ("", "is nothing that can be counted"),
            ("a\nb", "is nothing that can be counted"),
            ("calls:", "names no function"),
        ] {
            let error = text.parse::<Counted>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
