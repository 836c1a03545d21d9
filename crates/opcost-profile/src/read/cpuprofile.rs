//! Reads V8's CPU profiles: `.cpuprofile` of Node.js and Chrome (Chrome DevTools Protocol, "Profiler.Profile").
//!
//! A sample costs the time to the next one, as in DevTools.

use super::about::{About, EventAbout};
use super::stack::{Placed, Stacks, functions};
use super::text::{TextError, Tree, json, json_tree};
use crate::symbolise::Sampled;
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use serde::Deserialize;

/// V8's name for the thread that waits.
const IDLE: &str = "(idle)";
/// V8's name for the root of its tree.
pub(super) const ROOT: &str = "(root)";

/// A profile, or a part of one in a trace.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CpuProfile {
    pub(super) nodes: Vec<Node>,
    pub(super) samples: Vec<u64>,
    /// Microseconds since the sample before, negative where V8 wrote samples out of order.
    pub(super) time_deltas: Vec<f64>,
    /// Microseconds.
    timestamps: Vec<f64>,
    pub(super) start_time: Option<f64>,
    pub(super) end_time: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    id: u64,
    parent: Option<u64>,
    #[serde(default)]
    children: Vec<u64>,
    call_frame: CallFrame,
    #[serde(default)]
    hit_count: u64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CallFrame {
    pub(super) function_name: String,
    url: String,
    /// Counted from 0; −1 for none.
    line_number: Option<f64>,
}

impl CallFrame {
    pub(super) fn placed(&self) -> Placed<'_> {
        let line = self.line_number.map_or(0.0, |line| line + 1.0) as u64;
        Placed { name: &self.function_name, file: &self.url, line }
    }
}

/// A node of the tree of Node.js before version 8.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldNode {
    id: u64,
    function_name: String,
    #[serde(default)]
    url: String,
    line_number: Option<f64>,
    #[serde(default)]
    hit_count: u64,
}

/// Whether a text looks like a profile of V8.
pub fn is_cpuprofile(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && text.contains("\"functionName\"")
        && (text.contains("\"nodes\"") || text.contains("\"head\""))
        && !["\"traceEvents\"", "\"selfSize\""].iter().any(|key| text.contains(key))
}

/// Reads the text.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: JSON of another form, a reference to a missing node, another event; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let profile = match text.contains("\"nodes\"") {
        true => json(text, budget)?,
        false => old(text, budget)?,
    };
    added_up("V8 CPU profile", vec![profile], event, budget)
}

/// Reads a file of Node.js before version 8.
fn old(text: &str, budget: &Budget) -> Result<CpuProfile, TextError> {
    let (mut profile, tree): (CpuProfile, Tree<OldNode>) = json_tree(text, budget)?;
    let ids: Vec<u64> = tree.iter().map(|(_, node)| node.id).collect();
    for (parent, OldNode { id, function_name, url, line_number, hit_count }) in tree {
        // Its lines count from 1.
        let line_number = line_number.map(|line| line - 1.0);
        let call_frame = CallFrame { function_name, url, line_number };
        let parent = parent.map(|parent| ids[parent]);
        profile.nodes.push(Node { id, parent, children: Vec::new(), call_frame, hit_count });
    }
    Ok(profile)
}

/// Adds profiles up.
pub(super) fn added_up(
    format: &'static str,
    profiles: Vec<CpuProfile>,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let clock = profiles.iter().any(|one| !one.samples.is_empty());
    let known = if clock { "time" } else { "samples" };
    if let Some(wanted) = event.filter(|wanted| *wanted != known) {
        return Err(TextError::no_event(wanted, &[known.to_string()]));
    }
    let mut stacks = Stacks::new(budget);
    for profile in &profiles {
        profile.add(&mut stacks)?;
    }
    let duration = |one: &CpuProfile| Some(one.end_time? - one.start_time?);
    let duration = profiles.iter().filter_map(duration).fold(0.0, f64::max);
    stacks.finish(About {
        format,
        sampling: Some(EventAbout { clock, with_callers: true, ..EventAbout::default() }),
        event: known.into(),
        events: vec![known.into()],
        duration_ns: (clock && duration > 0.0 && duration < 1e15)
            .then_some((duration * 1e3) as u64),
        ..About::default()
    })
}

impl CpuProfile {
    /// Appends a later part of the same profile.
    pub(super) fn append(&mut self, part: CpuProfile) {
        self.nodes.extend(part.nodes);
        self.samples.extend(part.samples);
        self.time_deltas.extend(part.time_deltas);
        self.start_time = self.start_time.or(part.start_time);
        self.end_time = part.end_time.or(self.end_time);
    }

    fn add(&self, stacks: &mut Stacks<'_>) -> Result<(), TextError> {
        let numbers: KeyedMap<u64, usize> =
            self.nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
        let mut parents: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some(parent) = node.parent {
                // A trace may begin after its profile, without the first nodes.
                parents[at] = numbers.get(&parent).copied();
            }
            for child in &node.children {
                // A part of a trace names children that the next part has.
                if let Some(child) = numbers.get(child) {
                    parents[*child] = Some(at);
                }
            }
        }
        let placed: Vec<Placed<'_>> =
            self.nodes.iter().map(|node| node.call_frame.placed()).collect();
        let functions: Vec<u32> =
            functions(&placed).into_iter().map(|function| stacks.function(function)).collect();
        let mut costs = vec![(0u64, 0u64); self.nodes.len()];
        if self.samples.is_empty() {
            for (cost, node) in costs.iter_mut().zip(&self.nodes) {
                *cost = (node.hit_count, node.hit_count);
            }
        }
        for (id, ns) in self.samples.iter().zip(self.durations_ns()?) {
            let Some(at) = numbers.get(id) else {
                stacks.losses.without_stack += 1;
                continue;
            };
            let (cost, samples) = &mut costs[*at];
            *cost = cost.saturating_add(ns);
            *samples += 1;
        }
        let mut stack = Vec::new();
        for (at, (cost, samples)) in costs.into_iter().enumerate() {
            let name = &self.nodes[at].call_frame.function_name;
            if name == IDLE {
                stacks.losses.waiting += samples;
                continue;
            }
            stack.clear();
            let mut next = Some(at).filter(|_| samples > 0);
            while let Some(at) = next {
                if stack.len() > self.nodes.len() {
                    let why = "its nodes call one another in a circle, so it is broken";
                    return Err(TextError::Content(why.into()));
                }
                stack.push(functions[at]);
                next = parents[at];
                if next.is_none() {
                    let node = &self.nodes[at];
                    if node.call_frame.function_name == ROOT && stack.len() > 1 {
                        stack.pop();
                    }
                    if node.parent.is_some() {
                        stacks.losses.stacks_cut += samples;
                    }
                }
            }
            stack.reverse();
            stacks.add(&stack, cost, samples, false)?;
        }
        Ok(())
    }

    /// The time from each sample to the next one, in nanoseconds; the last one lasts to the end of the profile.
    fn durations_ns(&self) -> Result<Vec<u64>, TextError> {
        let count = self.samples.len();
        let mut now = self.start_time.unwrap_or(0.0);
        let mut times: Vec<f64> = match self.timestamps.len() {
            0 => (self.time_deltas.iter())
                .map(|delta| {
                    now += delta;
                    now
                })
                .collect(),
            _ => self.timestamps.clone(),
        };
        // Old files have the time of the end, too.
        if times.len() == count + 1 {
            times.pop();
        }
        if times.len() != count {
            let why = format!("it has {count} samples and {} times", times.len());
            return Err(TextError::Content(why));
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|one, two| times[*one].total_cmp(&times[*two]));
        let Some(last) = order.last().map(|last| times[*last]) else { return Ok(Vec::new()) };
        // The old tree's ends are in seconds.
        times.push(self.end_time.filter(|end| *end >= last).unwrap_or(last));
        order.push(count);
        let mut durations = vec![0; count];
        for pair in order.windows(2) {
            let us = times[pair[1]] - times[pair[0]];
            if !(0.0..1e15).contains(&us) {
                let why = format!("from one sample to the next it has {us} microseconds");
                return Err(TextError::Content(why));
            }
            durations[pair[0]] = (us * 1e3).round() as u64;
        }
        Ok(durations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    const TEXT: &str = r#"{"nodes": [
        {"id": 1, "callFrame": {"functionName": "(root)", "url": "", "lineNumber": -1}, "hitCount": 0, "children": [2, 3, 5]},
        {"id": 2, "callFrame": {"functionName": "(idle)", "url": "", "lineNumber": -1}, "hitCount": 1},
        {"id": 3, "callFrame": {"functionName": "", "url": "file:///a.js", "lineNumber": 0}, "hitCount": 1, "children": [4]},
        {"id": 4, "callFrame": {"functionName": "f", "url": "file:///a.js", "lineNumber": 6}, "hitCount": 2},
        {"id": 5, "callFrame": {"functionName": "(program)", "url": "", "lineNumber": -1}, "hitCount": 1}],
        "startTime": 1000, "endTime": 1100, "samples": [3, 4, 2, 4, 5], "timeDeltas": [10, 20, 15, -5, 30]}"#;

    fn rows(text: &str) -> Result<Vec<(String, u64, Option<u64>)>, String> {
        let (_, sampled) =
            read(text, None, &Budget::default()).map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            (cost.function.symbol.clone(), cost.own, cost.samples)
        };
        Ok(table.functions.iter().map(row).collect())
    }

    #[test]
    fn a_sample_lasts_until_the_next_one_in_time() {
        let row = |name: &str, us: u64, samples| (name.to_string(), us * 1000, Some(samples));
        // Times: 1010, 1030, 1045, 1040, 1070, and the end at 1100.
        let expected = [row("(program)", 30, 1), row("(anonymous)", 20, 1), row("f", 15, 2)];
        assert_eq!(rows(TEXT).unwrap(), expected);
        let (about, sampled) = read(TEXT, None, &Budget::default()).unwrap();
        assert_eq!((sampled.losses.waiting, about.duration_ns), (1, Some(100_000)));
        let error = read(TEXT, Some("cycles"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event cycles; it has time");
    }

    #[test]
    fn a_profile_without_samples_has_hits() {
        let text = TEXT.replace(
            "\"samples\": [3, 4, 2, 4, 5], \"timeDeltas\": [10, 20, 15, -5, 30]",
            "\"x\": 0",
        );
        let row = |name: &str, hits| (name.to_string(), hits, Some(hits));
        assert_eq!(rows(&text).unwrap(), [row("f", 2), row("(anonymous)", 1), row("(program)", 1)]);
    }

    #[test]
    fn a_tree_of_old_versions_is_read_at_any_depth() {
        let node = |id: u32, hits: u32, children: &str| {
            format!(
                r#"{{"functionName": "f{}", "url": "a{{.js", "lineNumber": 1, "id": {id}, "hitCount": {hits}, "children": [{children}]}}"#,
                id % 2
            )
        };
        let inner = node(2, 3, "") + "," + &node(3, 2, "");
        let all = (4..5_000).fold(inner, |children, id| node(id, 0, &children));
        let text = format!(r#"{{"head": {all}, "startTime": 1, "endTime": 2}}"#);
        assert!(is_cpuprofile(&text));
        let row = |name: &str, hits| (name.to_string(), hits, Some(hits));
        let expected = [row("f0", 3), row("f1", 2)];
        assert_eq!(rows(&text).unwrap(), expected);
        assert!(rows(&text[..text.len() - 9]).unwrap_err().contains("cut short"));
        assert!(rows(&text.replacen("\"hitCount\": 3", "\"hitCount\": x", 1)).is_err());
    }

    #[test]
    fn broken_references_are_named() {
        let fault = |from: &str, to: &str| rows(&TEXT.replacen(from, to, 1)).unwrap_err();
        let text = TEXT.replacen("\"samples\": [3", "\"samples\": [9", 1);
        let (_, sampled) = read(&text, None, &Budget::default()).unwrap();
        assert_eq!((sampled.losses.without_stack, sampled.samples_total()), (1, 3));
        assert!(fault("[10, 20,", "[10,").contains("5 samples and 4 times"));
        assert!(fault("\"id\": 1,", "\"id\": 1, \"parent\": 4,").contains("in a circle"));
        assert!(fault("[10, 20,", "[10, 1e300,").contains("microseconds"));
    }
}
