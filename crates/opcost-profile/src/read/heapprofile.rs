//! Reads V8's sampled heap profiles: `.heapprofile` of Node.js and Chrome (Chrome DevTools Protocol,
//! "HeapProfiler.SamplingHeapProfile").
//!
//! A node has the bytes that its function allocated and that were in use when the profile was written.

use super::about::{About, EventAbout};
use super::cpuprofile::{CallFrame, ROOT};
use super::stack::{Placed, Stacks, functions};
use super::text::{TextError, Tree, json_tree};
use crate::symbolise::Sampled;
use opcost_sys::budget::Budget;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The event's name, as pprof has it.
const IN_USE: &str = "inuse_space";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    call_frame: CallFrame,
    #[serde(default)]
    self_size: u64,
}

/// Whether a text looks like a heap profile of V8.
pub fn is_heapprofile(text: &str) -> bool {
    let has = |key: &str| text.contains(key);
    text.trim_start().starts_with('{')
        && ["\"head\"", "\"callFrame\"", "\"selfSize\""].into_iter().all(has)
        && !has("\"traceEvents\"")
}

/// Reads the text.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: JSON of another form, another event, no bytes; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    if let Some(wanted) = event.filter(|wanted| *wanted != IN_USE) {
        return Err(TextError::no_event(wanted, &[IN_USE.to_string()]));
    }
    let (_, nodes): (IgnoredAny, Tree<Node>) = json_tree(text, budget)?;
    let mut stacks = Stacks::new(budget);
    let placed: Vec<Placed<'_>> = nodes.iter().map(|(_, node)| node.call_frame.placed()).collect();
    let numbers: Vec<u32> =
        functions(&placed).into_iter().map(|function| stacks.function(function)).collect();
    let mut stack = Vec::new();
    for (at, (_, node)) in nodes.iter().enumerate().filter(|(_, (_, node))| node.self_size > 0) {
        let callers = std::iter::successors(Some(at), |at| nodes[*at].0);
        budget.step(callers.clone().count() as u64)?;
        stack.clear();
        stack.extend(callers.map(|at| numbers[at]));
        if stack.len() > 1 && nodes[0].1.call_frame.function_name == ROOT {
            stack.pop();
        }
        stack.reverse();
        stacks.add(&stack, node.self_size, 0, false)?;
    }
    stacks.finish(About {
        format: "V8 heap profile",
        sampling: Some(EventAbout { bytes: true, with_callers: true, ..EventAbout::default() }),
        event: IN_USE.into(),
        events: vec![IN_USE.into()],
        ..About::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_tree_has_its_bytes_by_function() {
        let node = |name: &str, size: u32, children: &str| {
            format!(
                r#"{{"callFrame": {{"functionName": "{name}", "url": "a.js", "lineNumber": 3}}, "selfSize": {size}, "children": [{children}]}}"#
            )
        };
        let inner = node("leaf", 70, "") + "," + &node("{\\\"[", 5, "");
        let deep = (0..2_000).fold(inner, |children, _| node("deep", 1, &children));
        let text = format!(r#"{{"samples": [{{"size": 7}}], "head": {}}}"#, node(ROOT, 0, &deep));
        assert!(is_heapprofile(&text));
        let (about, sampled) = read(&text, None, &Budget::default()).unwrap();
        assert_eq!(about.sampling.map(|how| how.unit()), Some(opcost_record::Unit::Bytes));
        let table = crate::table::FunctionTable::of(&sampled);
        let rows: Vec<_> =
            table.functions.iter().map(|cost| (cost.function.symbol.as_str(), cost.own)).collect();
        assert_eq!(rows, [("deep", 2_000), ("leaf", 70), ("{\"[", 5)]);
        let fault = |text: &str| read(text, None, &Budget::default()).unwrap_err().to_string();
        assert!(fault(&text[..text.len() / 2]).contains("cut short"));
        assert!(fault(&text.replacen("70", "-1", 1)).contains("not as the format says"));
        assert!(fault(&format!("}}{text}")).contains("no tree"));
        let error = read(&text, Some("time"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event time; it has inuse_space");
    }
}
