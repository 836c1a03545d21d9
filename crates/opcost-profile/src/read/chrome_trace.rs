//! Reads traces of Chrome and Node.js ("Trace Event Format"): the CPU profiles in them (events `Profile` and `ProfileChunk`), or
//! the samples of Hermes, or else the durations of the calls that the events tell of, as py-spy writes them.

use super::about::{About, EventAbout};
use super::cpuprofile::{CpuProfile, added_up};
use super::stack::{Placed, Stacks, functions};
use super::text::{TextError, json_seed};
use crate::symbolise::Sampled;
use opcost_sys::budget::Budget;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The format's name.
const FORMAT: &str = "Chrome trace";

/// Whether a text looks like a trace.
pub fn is_trace(text: &str) -> bool {
    let start = text.trim_start();
    let end = start.len().min(1 << 16);
    let head = start.get(..end).unwrap_or(start);
    (start.starts_with('[') && head.contains("\"ph\""))
        || (start.starts_with('{') && start.contains("\"traceEvents\""))
}

/// An event, in the fields that matter here; a field of another form counts as missing.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    ph: Value,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default)]
    cat: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    id2: Value,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    dur: Value,
    #[serde(default)]
    args: Value,
}

/// What a chunk of a profile holds.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk {
    cpu_profile: CpuProfile,
    time_deltas: Vec<f64>,
    start_time: Option<f64>,
    end_time: Option<f64>,
}

/// A frame of a sampled stack.
#[derive(Deserialize)]
struct Frame {
    name: String,
    #[serde(default)]
    parent: Value,
}

/// A sample of a thread.
#[derive(Deserialize)]
struct Sample {
    sf: Value,
    #[serde(default)]
    weight: Value,
}

/// A call of which the begin is known.
#[derive(Clone, Copy)]
struct Span {
    /// Index of the name in `Trace::calls`.
    call: usize,
    begin_us: f64,
    end_us: f64,
}

/// A function as an event names it: its name, file and line.
type Call = (String, String, u64);

/// The parts of a trace.
#[derive(Default)]
struct Trace {
    /// By process and number of the profile.
    profiles: BTreeMap<(String, String), CpuProfile>,
    frames: BTreeMap<String, Frame>,
    samples: Vec<Sample>,
    calls: Vec<Call>,
    numbers: BTreeMap<Call, usize>,
    /// The calls of each thread: those that ended, and those that are open.
    threads: BTreeMap<(String, String), (Vec<Span>, Vec<Span>)>,
    /// The operations of each tree, likewise; they count if no thread has calls, and overlap otherwise.
    operations: BTreeMap<(String, String), (Vec<Span>, Vec<Span>)>,
}

/// Reads the text.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: JSON of another form, a reference to something that is missing, another event; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let mut trace = Trace::default();
    let read = json_seed(text, Top(&mut trace), budget);
    // The end of a list of events may be missing: a program that crashes leaves its trace like that.
    match read {
        Err(TextError::Cut(_)) if text.trim_start().starts_with('[') => {}
        read => read?,
    }
    if !trace.profiles.is_empty() {
        let profiles = trace.profiles.into_values().collect();
        return added_up(FORMAT, profiles, event, budget);
    }
    let by_time = trace.samples.is_empty();
    let known = if by_time { "time" } else { "samples" };
    if let Some(wanted) = event.filter(|wanted| *wanted != known) {
        return Err(TextError::no_event(wanted, &[known.to_string()]));
    }
    let mut stacks = Stacks::new(budget);
    match by_time {
        true => trace.spans(&mut stacks)?,
        false => trace.sampled(&mut stacks)?,
    }
    stacks.finish(About {
        format: FORMAT,
        sampling: Some(EventAbout { clock: by_time, with_callers: true, ..EventAbout::default() }),
        event: known.into(),
        events: vec![known.into()],
        ..About::default()
    })
}

/// A number, also one in quotes.
fn number(value: &Value) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    number.is_finite().then_some(number)
}

/// A key: a number or a text, as text.
fn key(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

impl Trace {
    fn event(&mut self, event: Event) -> Result<(), serde_json::Error> {
        let Event { name, ph, pid, tid, cat, id, id2, ts, dur, mut args } = event;
        let Some(name) = name.as_str() else { return Ok(()) };
        if ["Profile", "ProfileChunk", "CpuProfile"].contains(&name) {
            let data = args.get_mut("data").map(Value::take).unwrap_or_default();
            let chunk: Chunk = match data {
                Value::Null => Chunk::default(),
                data => serde_json::from_value(data)?,
            };
            let Chunk { cpu_profile: mut part, time_deltas, start_time, end_time } = chunk;
            // Some versions write the same times at both places.
            if part.time_deltas.is_empty() {
                part.time_deltas = time_deltas;
            }
            part.start_time = part.start_time.or(start_time);
            part.end_time = part.end_time.or(end_time);
            // The old event has no number, and holds the whole profile of a thread.
            let id =
                if name == "CpuProfile" { format!("of thread {}", key(&tid)) } else { key(&id) };
            self.profiles.entry((key(&pid), id)).or_default().append(part);
            return Ok(());
        }
        let Some(ts) = number(&ts) else { return Ok(()) };
        let kind = ph.as_str().unwrap_or_default();
        let is_operation = ["b", "e"].contains(&kind);
        if !is_operation && !["B", "E", "X"].contains(&kind) {
            return Ok(());
        }
        let place = |field: &str| args.get(field);
        let file = place("filename").and_then(Value::as_str).unwrap_or_default();
        let line = place("line").and_then(Value::as_u64).unwrap_or(0);
        let call = (name.to_string(), file.to_string(), line);
        let calls = &mut self.calls;
        let number_of = *self.numbers.entry(call).or_insert_with_key(|call| {
            calls.push(call.clone());
            calls.len() - 1
        });
        let (trees, tree) = match is_operation {
            // Operations of one category and number nest.
            true => (&mut self.operations, format!("{} {} {}", key(&cat), key(&id), key(&id2))),
            false => (&mut self.threads, key(&tid)),
        };
        let (ended, open) = trees.entry((key(&pid), tree)).or_default();
        let span = |end_us| Span { call: number_of, begin_us: ts, end_us };
        match kind {
            "B" | "b" => open.push(span(f64::MAX)),
            // An operation may end before one that began within it.
            "e" => {
                let is_same = |span: &Span| self.calls[span.call].0 == name;
                let begun = open.iter().rposition(is_same).map(|at| open.remove(at));
                ended.extend(begun.map(|span| Span { end_us: ts, ..span }));
            }
            "X" => ended.extend(number(&dur).filter(|dur| *dur > 0.0).map(|dur| span(ts + dur))),
            _ => ended.extend(open.pop().map(|span| Span { end_us: ts, ..span })),
        }
        Ok(())
    }

    fn sampled(&self, stacks: &mut Stacks<'_>) -> Result<(), TextError> {
        for sample in &self.samples {
            let mut frames = Vec::new();
            let mut next = Some(key(&sample.sf));
            while let Some(id) = next {
                let frame = self.frames.get(&id);
                let frame =
                    frame.ok_or_else(|| TextError::Cut(format!("frame {id} is not in it")))?;
                frames.push(Placed::of(&frame.name));
                if frames.len() > self.frames.len() {
                    let why = "its frames call one another in a circle, so it is broken";
                    return Err(TextError::Content(why.into()));
                }
                next = (!frame.parent.is_null()).then(|| key(&frame.parent));
            }
            frames.reverse();
            let weight = number(&sample.weight).unwrap_or(1.0).clamp(0.0, 1e15) as u64;
            let stack = functions(&frames).into_iter().map(|function| stacks.function(function));
            let stack: Vec<u32> = stack.collect();
            stacks.add(&stack, weight, weight, false)?;
        }
        Ok(())
    }

    /// Charges each call with its duration, less that of the calls within it.
    fn spans(self, stacks: &mut Stacks<'_>) -> Result<(), TextError> {
        let placed: Vec<Placed<'_>> = (self.calls.iter())
            .map(|(name, file, line)| Placed { name, file, line: *line })
            .collect();
        let functions: Vec<u32> =
            functions(&placed).into_iter().map(|function| stacks.function(function)).collect();
        let trees = if self.threads.is_empty() { self.operations } else { self.threads };
        for (mut spans, open) in trees.into_values() {
            // A call without an end lasts until the thread's last one that is known.
            let all = || {
                spans.iter().map(|span| span.end_us).chain(open.iter().map(|span| span.begin_us))
            };
            let last_us = all().fold(f64::MIN, f64::max);
            spans.extend(open.iter().map(|span| Span { end_us: last_us, ..*span }));
            let ns = |us: f64| (us * 1e3).round() as u64;
            // A call comes before those within it.
            spans.sort_by(|one, two| {
                one.begin_us.total_cmp(&two.begin_us).then(two.end_us.total_cmp(&one.end_us))
            });
            let (mut open, mut stack): (Vec<(Span, u64)>, Vec<u32>) = Default::default();
            let mut close = |open: &mut Vec<(Span, u64)>, stack: &mut Vec<u32>, until_us: f64| {
                while let Some((span, within)) = open.pop_if(|(span, _)| span.end_us <= until_us) {
                    let whole = ns(span.end_us - span.begin_us);
                    stacks.add(stack, whole.saturating_sub(within), 0, false)?;
                    stack.pop();
                    if let Some((_, within)) = open.last_mut() {
                        *within = within.saturating_add(whole);
                    }
                }
                Ok::<(), TextError>(())
            };
            for mut span in spans {
                close(&mut open, &mut stack, span.begin_us)?;
                if let Some((outer, _)) = open.last() {
                    span.end_us = span.end_us.min(outer.end_us);
                }
                stack.push(functions[span.call]);
                open.push((span, 0));
            }
            close(&mut open, &mut stack, f64::MAX)?;
        }
        Ok(())
    }
}

/// Reads the document: a list of events, or an object with one.
struct Top<'t>(&'t mut Trace);

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("events of a trace")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        // Events are taken one by one: most of a trace is of no use here.
        while let Some(event) = events.next_element::<Event>()? {
            self.0.event(event).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "traceEvents" => map.next_value_seed(Top(self.0))?,
                "stackFrames" => self.0.frames = map.next_value()?,
                "samples" => self.0.samples = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
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

    fn rows(text: &str) -> Result<Vec<(String, u64)>, String> {
        let (_, sampled) =
            read(text, None, &Budget::default()).map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        let costs = table.functions.iter().filter(|cost| cost.own > 0);
        Ok(costs.map(|cost| (cost.function.symbol.clone(), cost.own)).collect())
    }

    fn row(name: &str, cost: u64) -> (String, u64) {
        (name.to_string(), cost)
    }

    #[test]
    fn chunks_of_a_profile_are_put_together() {
        let text = r#"{"otherData": {}, "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "node"}},
            {"ph": "X", "name": "task", "pid": 1, "tid": 2, "ts": 0, "dur": 99, "args": "none"},
            {"ph": "P", "name": "Profile", "id": "0x1", "pid": 1, "tid": 2, "ts": 3, "args": {"data": {"startTime": 100}}},
            {"ph": "P", "name": "ProfileChunk", "id": "0x1", "pid": 1, "tid": 3, "ts": 4, "args": {"data": {"cpuProfile": {"nodes": [
                {"id": 1, "callFrame": {"functionName": "(root)"}}, {"id": 2, "parent": 1, "callFrame": {"functionName": "f"}}],
                "samples": [2, 2]}, "timeDeltas": [10, 20]}}},
            {"ph": "P", "name": "ProfileChunk", "id": "0x1", "pid": 1, "tid": 3, "ts": 5, "args": {"data": {"cpuProfile": {"nodes": [
                {"id": 3, "parent": 2, "callFrame": {"functionName": "g"}}], "samples": [3]}, "timeDeltas": [5], "endTime": 150}}}]}"#;
        assert_eq!(rows(text).unwrap(), [row("f", 25_000), row("g", 15_000)]);
        let twice = text.replace("\"samples\": [3]}", "\"samples\": [3], \"timeDeltas\": [5]}");
        assert_eq!(rows(&twice).unwrap(), rows(text).unwrap());
        // A trace may begin in the middle of a profile.
        let cut = text.replace("\"id\": 2, \"parent\": 1", "\"id\": 9, \"parent\": 1");
        let (_, sampled) = read(&cut, None, &Budget::default()).unwrap();
        let losses = &sampled.losses;
        assert_eq!(
            (losses.without_stack, losses.stacks_cut, sampled.profile.total()),
            (2, 1, 15_000)
        );
    }

    #[test]
    fn calls_with_times_cost_what_calls_within_them_do_not() {
        let text = r#"[{"ph": "B", "name": "a", "pid": 0, "tid": 0, "ts": 0},
            {"ph": "B", "name": "b", "pid": 0, "tid": 0, "ts": 1},
            {"ph": "X", "name": "c", "pid": 0, "tid": 0, "ts": 2, "dur": 5},
            {"ph": "X", "name": "c", "pid": 0, "tid": "9", "ts": "2", "dur": 1},
            {"ph": "E", "name": "b", "pid": 0, "tid": 0, "ts": 13}, {"ph": "E", "name": "a", "pid": 0, "tid": 0, "ts": 14}"#;
        // The end of the list is missing.
        let expected = [row("b", 7_000), row("c", 6_000), row("a", 2_000)];
        assert_eq!(rows(text).unwrap(), expected);
        assert_eq!(rows(&format!("{text}]")).unwrap(), expected);
        assert_eq!(rows("[{\"ph\": \"M\"}]").unwrap_err(), TextError::Empty.to_string());
    }

    #[test]
    fn operations_count_if_no_thread_has_calls() {
        let event = |kind: &str, name: &str, id: u32, ts: u32| {
            format!(
                "{{\"ph\": \"{kind}\", \"cat\": \"x\", \"name\": \"{name}\", \"pid\": 1, \"tid\": 0, \"id\": {id}, \"ts\": {ts}}}"
            )
        };
        let events = [
            event("b", "build", 1, 0),
            event("b", "load", 2, 1),
            event("b", "parse", 1, 2),
            event("n", "mark", 1, 3),
            event("e", "load", 2, 4),
            // The outer one ends first, so the inner one is cut there.
            event("e", "build", 1, 9),
            event("e", "parse", 1, 12),
            event("e", "never begun", 1, 13),
        ];
        let text = format!("[{}]", events.join(","));
        assert_eq!(
            rows(&text).unwrap(),
            [row("parse", 7_000), row("load", 3_000), row("build", 2_000)]
        );
        let call =
            "{\"ph\": \"X\", \"name\": \"f\", \"pid\": 1, \"tid\": 0, \"ts\": 0, \"dur\": 5}";
        assert_eq!(rows(&format!("[{call},{}]", events.join(","))).unwrap(), [row("f", 5_000)]);
    }

    #[test]
    fn sampled_stacks_are_read() {
        let text = r#"{"traceEvents": [], "samples": [{"sf": 2, "weight": "1"}, {"sf": "1", "weight": 2}],
            "stackFrames": {"1": {"name": "[root]"}, "2": {"name": "f (x.js:3:1)", "parent": 1}}}"#;
        assert_eq!(rows(text).unwrap(), [row("[root]", 2), row("f", 1)]);
        let circle = text.replace("{\"name\": \"[root]\"}", "{\"name\": \"x\", \"parent\": 2}");
        assert!(rows(&circle).unwrap_err().contains("in a circle"));
        assert!(rows(&text.replace("\"sf\": 2", "\"sf\": 5")).unwrap_err().contains("frame 5"));
    }
}
