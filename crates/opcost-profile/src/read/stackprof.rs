//! Reads profiles of stackprof, a sampling profiler of Ruby (<https://github.com/tmm1/stackprof>), as `stackprof --json` writes them.
//!
//! Stacks are there if the program was recorded with `raw: true`; else functions have their own samples alone.

use super::about::{About, EventAbout};
use super::stack::{Placed, Stacks, functions};
use super::text::{TextError, json};
use crate::symbolise::Sampled;
use opcost_sys::budget::Budget;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Profile {
    mode: String,
    /// Microseconds from one sample to the next, or allocated objects.
    #[serde(default)]
    interval: Option<u64>,
    #[serde(default)]
    missed_samples: u64,
    frames: BTreeMap<u64, Frame>,
    /// For each stack its length, its frames, the outermost first, and its samples.
    #[serde(default)]
    raw: Option<Vec<u64>>,
}

#[derive(Deserialize)]
struct Frame {
    name: Option<String>,
    file: Option<String>,
    line: Option<u64>,
    #[serde(default)]
    samples: u64,
}

/// Whether a text looks like a profile of stackprof.
pub fn is_stackprof(text: &str) -> bool {
    let has = |key: &str| text.contains(key);
    text.trim_start().starts_with('{')
        && ["\"gc_samples\"", "\"missed_samples\"", "\"frames\""].into_iter().all(has)
}

/// Reads the text.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: JSON of another form, a stack beyond the list's end, an unknown frame, another event; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let Profile { mode, interval, missed_samples, frames, raw } = json(text, budget)?;
    let interval = interval.unwrap_or(1).max(1);
    // The event, and its units from one sample to the next.
    let (known, clock, period) = match mode.as_str() {
        "cpu" | "wall" => (mode.as_str(), true, interval.checked_mul(1000)),
        "object" => ("objects", false, Some(interval)),
        _ => ("samples", false, Some(1)),
    };
    if let Some(wanted) = event.filter(|wanted| *wanted != known) {
        return Err(TextError::no_event(wanted, &[known.to_string()]));
    }
    let beyond = || TextError::Content("its costs add up to more than 64 bits".into());
    let cost = |samples: u64| samples.checked_mul(period?);
    let mut stacks = Stacks::new(budget);
    stacks.losses.without_stack = missed_samples;
    let placed: Vec<Placed<'_>> = frames
        .values()
        .map(|Frame { name, file, line, .. }| Placed {
            name: name.as_deref().unwrap_or_default(),
            file: file.as_deref().unwrap_or_default(),
            line: line.unwrap_or(0),
        })
        .collect();
    let numbers: BTreeMap<u64, u32> = frames
        .keys()
        .zip(functions(&placed))
        .map(|(frame, function)| (*frame, stacks.function(function)))
        .collect();
    for (frame, Frame { samples, .. }) in frames.iter().filter(|_| raw.is_none()) {
        stacks.add(&[numbers[frame]], cost(*samples).ok_or_else(beyond)?, *samples, false)?;
    }
    let with_callers = raw.is_some();
    let raw = raw.unwrap_or_default();
    let mut rest = raw.as_slice();
    while let [length, behind @ ..] = rest {
        let stack =
            usize::try_from(*length).ok().and_then(|length| behind.split_at_checked(length));
        let Some((stack, [samples, behind @ ..])) = stack else {
            return Err(TextError::Cut(format!("a stack of {length} frames")));
        };
        let number = |frame: &u64| {
            let unknown = || {
                TextError::Content(format!("its stacks have a frame {frame} that it does not name"))
            };
            numbers.get(frame).copied().ok_or_else(unknown)
        };
        let stack = stack.iter().map(number).collect::<Result<Vec<u32>, _>>()?;
        stacks.add(&stack, cost(*samples).ok_or_else(beyond)?, *samples, false)?;
        rest = behind;
    }
    stacks.finish(About {
        format: "stackprof",
        sampling: Some(EventAbout { clock, period, with_callers, ..EventAbout::default() }),
        event: known.into(),
        events: vec![known.into()],
        ..About::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    const TEXT: &str = r#"{"version": 1.2, "mode": "cpu", "interval": 1000, "samples": 9, "gc_samples": 1, "missed_samples": 2,
        "frames": {"7": {"name": "Object#a", "file": "/a.rb", "line": 3, "samples": 1},
            "8": {"name": "Object#b", "file": "/a.rb", "line": null, "samples": 6},
            "9": {"name": "(garbage collection)", "file": "", "samples": 1}},
        "raw": [2, 7, 8, 6, 1, 9, 1, 1, 7, 1]}"#;

    fn rows(text: &str) -> Result<Vec<(String, u64, Option<u64>)>, String> {
        let (_, sampled) =
            read(text, None, &Budget::default()).map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            (cost.function.symbol.clone(), cost.own, cost.inclusive)
        };
        Ok(table.functions.iter().map(row).collect())
    }

    #[test]
    fn a_sample_costs_an_interval() {
        assert!(is_stackprof(TEXT));
        let row = |name: &str, own: u64, all: u64| {
            (name.to_string(), own * 1_000_000, Some(all * 1_000_000))
        };
        let gc = || row("(garbage collection)", 1, 1);
        assert_eq!(rows(TEXT).unwrap(), [row("Object#b", 6, 6), row("Object#a", 1, 7), gc()]);
        let own = TEXT.replace("\"raw\"", "\"row\"");
        assert_eq!(rows(&own).unwrap(), [row("Object#b", 6, 6), gc(), row("Object#a", 1, 1)]);
        let objects = TEXT.replace("\"cpu\", \"interval\": 1000", "\"object\", \"interval\": 10");
        let (about, sampled) = read(&objects, None, &Budget::default()).unwrap();
        assert_eq!((about.event.as_str(), sampled.profile.total()), ("objects", 80));
        assert_eq!((sampled.samples_known(), sampled.losses.without_stack), (Some(8), 2));
        let error = read(TEXT, Some("wall"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event wall; it has cpu");
    }

    #[test]
    fn broken_stacks_are_named() {
        let fault = |from: &str, to: &str| rows(&TEXT.replacen(from, to, 1)).unwrap_err();
        assert!(fault("[2, 7", "[20, 7").contains("a stack of 20 frames"));
        assert!(fault("1, 7, 1]", "1, 7]").contains("cut short"));
        assert!(fault("1, 7, 1]", "1, 77, 1]").contains("a frame 77"));
        assert!(fault("8, 6", "8, 18446744073709551615").contains("64 bits"));
    }
}
