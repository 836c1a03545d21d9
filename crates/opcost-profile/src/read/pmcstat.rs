//! Reads FreeBSD's `pmcstat -G` (pmcstat(8)): a tree of callers below each function, with the samples of each.
//!
//! ```text
//! @ inst_retired.any [35705 samples]
//!
//! 20.86%  [7447]     zfs_lz4_compress @ /boot/kernel/zfs.ko
//!  100.0%  [7447]      zio_compress_data
//! ```

use super::about::{About, EventAbout};
use super::stack::{Events, Stacks};
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_symbols::demangle::{demangle, printable};
use opcost_sys::budget::Budget;

/// A line of the tree.
struct Line<'t> {
    depth: usize,
    samples: u64,
    name: &'t str,
    /// The file, where it is another one than on the line before.
    file: Option<&'t str>,
}

impl<'t> Line<'t> {
    fn of(line: &'t str) -> Option<Line<'t>> {
        let text = line.trim_start_matches(' ');
        let depth = line.len() - text.len();
        let (share, rest) = text.split_once('%')?;
        share.parse::<f64>().ok()?;
        let (samples, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
        let (name, file) = match rest.split_once(" @ ") {
            Some((name, file)) => (name, Some(file.trim())),
            None => (rest, None),
        };
        let (samples, name) = (samples.trim().parse().ok()?, name.trim());
        (!name.is_empty()).then_some(Line { depth, samples, name, file })
    }
}

/// Returns the event of a line `@ EVENT [N samples]`.
fn event_of(line: &str) -> Option<&str> {
    let (event, rest) = line.strip_prefix("@ ")?.split_once(" [")?;
    rest.trim_end().strip_suffix(" samples]")?.parse::<u64>().ok().map(|_| event)
}

/// Whether a text looks like pmcstat's.
pub fn is_pmcstat(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.by_ref().take(3).any(|line| event_of(line).is_some())
        && lines.take(20).any(|line| Line::of(line).is_some())
}

/// A node of the tree that the lines are in.
struct Node {
    function: u32,
    samples: u64,
    /// The samples of the callers below it.
    callers: u64,
}

/// Reads the text. Lines of another form are left out and counted.
///
/// `event`: the event that is wanted; `None` is the first; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: no such event, or no samples; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let mut events = Events::new(event);
    let mut stacks = Stacks::new(budget);
    let mut is_wanted = false;
    let mut file = "";
    let mut open: Vec<Node> = Vec::new();
    for (index, text) in text.lines().enumerate() {
        budget.step(text.len() as u64)?;
        let comment = text.starts_with('#') || text.starts_with("//");
        if let Some(event) = event_of(text) {
            close(&mut open, 0, &mut stacks)?;
            is_wanted = events.is_wanted(event);
            continue;
        }
        if text.trim().is_empty() || comment {
            continue;
        }
        let line = Line::of(text).filter(|line| line.depth <= open.len() || !is_wanted);
        let Some(line) = line else {
            stacks.losses.odd_lines.add(index, text);
            continue;
        };
        file = line.file.unwrap_or(file);
        if !is_wanted {
            let own = if line.depth == 0 { line.samples } else { 0 };
            stacks.losses.other_events = stacks.losses.other_events.saturating_add(own);
            continue;
        }
        close(&mut open, line.depth, &mut stacks)?;
        if let Some(called) = open.last_mut() {
            called.callers = called.callers.saturating_add(line.samples);
        }
        let is_kernel = file.starts_with("/boot/") && file.ends_with("/kernel");
        let module = if is_kernel { KERNEL.to_string() } else { printable(file) };
        let function = stacks.function(Function::new(demangle(line.name), module));
        open.push(Node { function, samples: line.samples, callers: 0 });
    }
    close(&mut open, 0, &mut stacks)?;
    let (event, events) = events.finish()?;
    stacks.finish(About {
        format: "pmcstat",
        sampling: Some(EventAbout { with_callers: true, ..EventAbout::default() }),
        event,
        events,
        ..About::default()
    })
}

/// Closes the nodes from a depth on: the samples that none of a node's callers has are from the stack that ends there.
fn close(open: &mut Vec<Node>, depth: usize, stacks: &mut Stacks<'_>) -> Result<(), TextError> {
    while open.len() > depth {
        let stack: Vec<u32> = open.iter().rev().map(|node| node.function).collect();
        let Some(node) = open.pop() else { break };
        let rest = node.samples.saturating_sub(node.callers);
        stacks.add(&stack, rest, rest, false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    /// Made by hand after the format's description.
    const TEXT: &str = include_str!("../../tests/data/pmcstat.txt");

    fn rows(event: Option<&str>) -> Vec<(String, String, u64, Option<u64>)> {
        let (_, sampled) = read(TEXT, event, &Budget::default()).unwrap();
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            let Function { symbol, module, .. } = &cost.function;
            (symbol.clone(), module.clone(), cost.own, cost.inclusive)
        };
        table.functions.iter().map(row).collect()
    }

    #[test]
    fn a_tree_of_callers_becomes_stacks() {
        let row = |name: &str, module: &str, own, inclusive| {
            (name.to_string(), module.to_string(), own, Some(inclusive))
        };
        let expected = [
            row("copy", KERNEL, 9, 9),
            row("spin", "/bin/work", 3, 3),
            row("main", "/bin/work", 0, 6),
            row("read", KERNEL, 0, 6),
            row("write", KERNEL, 0, 2),
        ];
        assert!(is_pmcstat(TEXT));
        assert_eq!(rows(None), expected);
        assert_eq!(rows(Some("misses")), [row("walk", "/bin/work", 5, 5)]);
        let (about, sampled) = read(TEXT, None, &Budget::default()).unwrap();
        assert_eq!(about.events, ["cycles", "misses"]);
        assert_eq!((sampled.samples_known(), sampled.losses.other_events), (Some(12), 5));
        assert_eq!(sampled.losses.odd_lines.first, Some((7, "odd line".into())));
        let error = read(TEXT, Some("x"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event x; it has cycles, misses");
    }
}
