//! Reads speedscope's own format (<https://www.speedscope.app/file-format-schema.json>): sampled and evented profiles.
//!
//! A file has a profile for each thread, and `--export-speedscope` writes one for each variant. Threads in one unit are
//! added up unless the user names one.

use super::about::{About, EventAbout};
use super::stack::{Placed, Stacks, functions};
use super::text::{TextError, json};
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_symbols::demangle::{demangle, printable};
use opcost_sys::budget::Budget;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    shared: Shared,
    profiles: Vec<Profile>,
    #[serde(default)]
    exporter: String,
    active_profile_index: Option<usize>,
}

#[derive(Deserialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Frame {
    name: String,
    file: Option<String>,
    line: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    name: String,
    unit: Unit,
    end_value: f64,
    #[serde(flatten)]
    body: Body,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Body {
    Sampled { samples: Vec<Vec<usize>>, weights: Vec<f64> },
    Evented { events: Vec<OpenOrClose> },
}

/// The begin (`O`) or end (`C`) of a call.
#[derive(Deserialize)]
struct OpenOrClose {
    #[serde(rename = "type")]
    kind: char,
    at: f64,
    frame: usize,
}

#[derive(Clone, Copy, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Bytes,
    None,
}

impl Unit {
    /// The nanoseconds of one; `None` for a unit of another thing than time.
    fn ns(self) -> Option<f64> {
        match self {
            Unit::Nanoseconds => Some(1.0),
            Unit::Microseconds => Some(1e3),
            Unit::Milliseconds => Some(1e6),
            Unit::Seconds => Some(1e9),
            Unit::Bytes | Unit::None => None,
        }
    }

    /// The name of a cost in this unit.
    fn event(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::None => "cost",
            _ => "time",
        }
    }
}

/// Whether a text looks like speedscope's.
pub fn is_speedscope(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.contains("\"shared\"")
        && text.contains("\"frames\"")
        && text.contains("\"profiles\"")
}

/// Reads the text.
///
/// `event`: the name of one profile, or `time`, `bytes` or `cost` for the sum of all in such a unit; `budget`: what reading may
/// take.
///
/// # Errors
/// [`TextError`]: JSON of another form, calls that end in another order than they began, no such profile; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let document: Document = json(text, budget)?;
    let Document { shared, profiles, exporter, active_profile_index } = &document;
    let active = active_profile_index.and_then(|at| profiles.get(at)).or(profiles.first());
    let active = active.ok_or(TextError::Empty)?;
    // The profiles of opcost are variants, whose sum says nothing.
    let one_each = exporter.starts_with("opcost ") && profiles.len() > 1;
    let mut events: Vec<String> = Vec::new();
    let sums = profiles.iter().map(|one| one.unit.event().to_string()).filter(|_| !one_each);
    let names = profiles.iter().map(|one| printable(&one.name)).filter(|_| profiles.len() > 1);
    for event in sums.chain(names) {
        if !events.contains(&event) {
            events.push(event);
        }
    }
    let default = if one_each { printable(&active.name) } else { active.unit.event().to_string() };
    let wanted = event.map_or(default, str::to_string);
    if !events.contains(&wanted) {
        return Err(TextError::no_event(&wanted, &events));
    }
    let is_sum = !one_each && profiles.iter().any(|one| one.unit.event() == wanted);
    let chosen: Vec<&Profile> = (profiles.iter())
        .filter(|one| match is_sum {
            true => one.unit.event() == wanted,
            false => printable(&one.name) == wanted,
        })
        .collect();
    let clock = chosen.iter().all(|one| one.unit.ns().is_some());
    let bytes = chosen.iter().all(|one| one.unit == Unit::Bytes);
    // Costs are whole numbers; figures with decimals are read in millionths.
    let in_parts = !clock && chosen.iter().any(|one| one.has_decimals());
    let mut stacks = Stacks::new(budget);
    let frames: Vec<u32> =
        named(&shared.frames).into_iter().map(|function| stacks.function(function)).collect();
    for profile in chosen {
        let factor = profile.unit.ns().unwrap_or(if in_parts { 1e6 } else { 1.0 });
        profile.add(factor, &frames, &mut stacks)?;
    }
    stacks.finish(About {
        format: "speedscope",
        sampling: Some(EventAbout { clock, bytes, with_callers: true, ..EventAbout::default() }),
        event: if in_parts { format!("{wanted} in millionths") } else { wanted },
        events,
        ..About::default()
    })
}

/// The functions of the frames.
fn named(frames: &[Frame]) -> Vec<Function> {
    let names: Vec<String> = frames.iter().map(|frame| demangle(&frame.name)).collect();
    let placed: Vec<Placed<'_>> = (frames.iter().zip(&names))
        .map(|(Frame { file, line, .. }, name)| Placed {
            name,
            file: file.as_deref().unwrap_or_default(),
            line: line.unwrap_or(0.0) as u64,
        })
        .collect();
    functions(&placed)
}

impl Profile {
    fn has_decimals(&self) -> bool {
        match &self.body {
            Body::Sampled { weights, .. } => weights.iter().any(|weight| weight.fract() != 0.0),
            Body::Evented { events } => events.iter().any(|event| event.at.fract() != 0.0),
        }
    }

    /// Adds the stacks.
    ///
    /// `factor`: what one of the profile's unit costs; `frames`: the frames' functions by number.
    fn add(&self, factor: f64, frames: &[u32], stacks: &mut Stacks<'_>) -> Result<(), TextError> {
        let name = printable(&self.name);
        let content = |why: String| TextError::Content(format!("its profile {name:?} {why}"));
        let number = |frame: usize| {
            let missing = || content(format!("refers to frame {frame} of {}", frames.len()));
            frames.get(frame).copied().ok_or_else(missing)
        };
        let cost = |value: f64| match (value * factor).round() {
            cost if (0.0..1.8e19).contains(&cost) => Ok(cost as u64),
            _ => Err(content(format!("has a value of {value}: it is a difference, or broken"))),
        };
        match &self.body {
            Body::Sampled { samples, weights } => {
                if samples.len() != weights.len() {
                    let (of, has) = (samples.len(), weights.len());
                    return Err(content(format!("has {has} weights for {of} samples")));
                }
                for (sample, weight) in samples.iter().zip(weights) {
                    let stack = sample.iter().map(|frame| number(*frame));
                    stacks.add(&stack.collect::<Result<Vec<_>, _>>()?, cost(*weight)?, 0, false)?;
                }
            }
            Body::Evented { events } => {
                let (mut open, mut stack) = (Vec::new(), Vec::new());
                let mut last = events.first().map_or(Ok(0), |first| cost(first.at))?;
                let mut until = |at: u64, stack: &[u32]| -> Result<(), TextError> {
                    let passed = at.checked_sub(last).ok_or_else(|| {
                        content("has events that are not in the order of their times".into())
                    })?;
                    last = at;
                    // Nothing was called meanwhile.
                    if stack.is_empty() { Ok(()) } else { stacks.add(stack, passed, 0, false) }
                };
                for event in events {
                    until(cost(event.at)?, &stack)?;
                    match event.kind {
                        'O' => {
                            open.push(event.frame);
                            stack.push(number(event.frame)?);
                        }
                        'C' if open.last() == Some(&event.frame) => {
                            open.pop();
                            stack.pop();
                        }
                        'C' => {
                            let (frame, at) = (event.frame, event.at);
                            return Err(content(format!(
                                "closes frame {frame} at {at}, where it is not the innermost open one"
                            )));
                        }
                        other => return Err(content(format!("has an event of type {other:?}"))),
                    }
                }
                if !stack.is_empty() {
                    until(cost(self.end_value)?, &stack)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    const EVENTED: &str = r#"{"$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": "x",
        "shared": {"frames": [{"name": "a"}, {"name": "b", "file": "b.py", "line": 3}, {"name": "c"}]},
        "profiles": [{"type": "evented", "name": "one", "unit": "milliseconds", "startValue": 0, "endValue": 14, "events": [
            {"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 0.5}, {"type": "C", "frame": 1, "at": 2},
            {"type": "O", "frame": 2, "at": 6}, {"type": "C", "frame": 2, "at": 9}]},
         {"type": "sampled", "name": "two", "unit": "seconds", "startValue": 0, "endValue": 1,
            "samples": [[0, 1], [0]], "weights": [0.25, 0.5]}]}"#;

    fn costs(text: &str, event: Option<&str>) -> Result<Vec<(String, u64)>, String> {
        let (_, sampled) =
            read(text, event, &Budget::default()).map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        Ok(table.functions.iter().map(|cost| (cost.function.symbol.clone(), cost.own)).collect())
    }

    #[test]
    fn threads_are_added_up_unless_one_is_named() {
        let row = |name: &str, ms: u64| (name.to_string(), ms * 500_000);
        let one = vec![row("a", 19), row("c", 6), row("b", 3)];
        assert_eq!(costs(EVENTED, Some("one")).unwrap(), one);
        assert_eq!(costs(EVENTED, Some("two")).unwrap(), [row("a", 1000), row("b", 500)]);
        let all = [row("a", 1019), row("b", 503), row("c", 6)];
        assert_eq!(costs(EVENTED, None).unwrap(), all);
        let (about, sampled) = read(EVENTED, None, &Budget::default()).unwrap();
        assert_eq!(
            (about.event.as_str(), &about.events[..]),
            ("time", &["time", "one", "two"].map(String::from)[..])
        );
        assert_eq!(sampled.samples_known(), None);
        assert_eq!(
            costs(EVENTED, Some("x")).unwrap_err(),
            "it has no event x; it has time, one, two"
        );
    }

    #[test]
    fn profiles_that_contradict_themselves_are_refused() {
        let fault = |from: &str, to: &str| costs(&EVENTED.replacen(from, to, 1), None).unwrap_err();
        assert!(
            fault(r#""frame": 1, "at": 2"#, r#""frame": 0, "at": 2"#).contains("not the innermost")
        );
        assert!(fault(r#""at": 2}"#, r#""at": 0}"#).contains("order of their times"));
        assert!(fault("[[0, 1]", "[[0, 7]").contains("refers to frame 7 of 3"));
        assert!(fault("[0.25, 0.5]", "[0.25]").contains("1 weights for 2 samples"));
        assert!(fault("0.25", "-0.25").contains("it is a difference"));
        assert!(fault(r#""type": "C""#, r#""type": "X""#).contains("type 'X'"));
    }
}
