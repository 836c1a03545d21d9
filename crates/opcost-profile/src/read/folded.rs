//! Folded stacks: `root;caller;function 1200` on a line, as stackcollapse, inferno-collapse, py-spy and
//! `--export-folded` write them (<https://github.com/brendangregg/FlameGraph>, stackcollapse.pl).
//!
//! The figures may be samples, times, bytes or instructions; no file says which. If each line has two
//! figures (difffolded.pl), the first is the baseline's.

use super::about::{About, EventAbout};
use super::stack::FRAMES_MAX;
use super::text::TextError;
use crate::losses::Losses;
use crate::symbolise::{ProfileBuilder, Sampled};
use crate::symbols::demangle::demangle;
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_sys::budget::Budget;

/// The event's name in files with one figure on a line.
const COST: &str = "cost";
/// The events' names in files with two figures on a line.
const SIDES: [&str; 2] = ["baseline", "variant"];
/// The number of lines read to recognise a file.
const LINES_SEEN: usize = 50;

/// Whether a text looks like folded stacks: every line ends with a number, and either some stack has
/// several functions or only single words stand before the numbers.
pub fn is_folded(text: &str) -> bool {
    let seen = || lines(text).take(LINES_SEEN);
    let has = |line: &str| Line::of(line).is_some();
    seen().all(|(_, line)| has(line) && !line.contains(|c: char| c.is_control() && c != '\t'))
        && (seen().any(|(_, line)| line.contains(';')) || seen().all(|(_, line)| is_flat(line)))
        && seen().next().is_some()
}

fn is_flat(line: &str) -> bool {
    line.split_whitespace().count() == 2
}

/// Returns the lines that are not comments, with their numbers from 0.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index, line.trim_end()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A line, split into stack and figure.
struct Line<'t> {
    /// The stack; it still ends with the first figure if the line has two.
    stack: &'t str,
    figure: u64,
}

impl<'t> Line<'t> {
    fn of(line: &'t str) -> Option<Line<'t>> {
        // py-spy writes a sample without a stack as a space and the figure.
        let (stack, figure) = line.rsplit_once(char::is_whitespace)?;
        Some(Line { stack: stack.trim_end(), figure: figure.parse().ok()? })
    }
}

/// Reads a line with its number.
fn numbered((index, line): (usize, &str)) -> Result<(usize, Line<'_>), TextError> {
    let what = "not a stack with a number behind it: 'caller;function 12'";
    Ok((index, Line::of(line).ok_or_else(|| TextError::line(index, line, what))?))
}

/// Reads the text.
///
/// `event`: the figure that is wanted of lines with two; `None` is the first; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: a line of another form, figures beyond 64 bits, or no such figure; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let (mut any, mut two) = (false, true);
    for line in lines(text) {
        two &= Line::of(numbered(line)?.1.stack).is_some();
        any = true;
    }
    if !any {
        return Err(TextError::Empty);
    }
    let events: Vec<String> = match two {
        true => SIDES.map(str::to_string).into(),
        false => vec![COST.to_string()],
    };
    let wanted = event.unwrap_or(&events[0]);
    let chosen = events.iter().position(|event| event == wanted);
    let chosen = chosen.ok_or_else(|| TextError::no_event(wanted, &events))?;
    let mut builder = ProfileBuilder::default();
    let mut losses = Losses::default();
    let mut total: u64 = 0;
    for line in lines(text) {
        budget.step(line.1.len() as u64)?;
        let (index, line) = numbered(line)?;
        let line = match (two, chosen) {
            (true, 0) => Line::of(line.stack).unwrap_or(line),
            (true, _) => Line { stack: Line::of(line.stack).map_or("", |one| one.stack), ..line },
            _ => line,
        };
        let fail = |what| TextError::line(index, line.stack, what);
        let cost = line.figure;
        total = total.checked_add(cost).ok_or_else(|| fail("where costs grow beyond 64 bits"))?;
        // The stack was sampled on the other side only.
        if cost == 0 {
            continue;
        }
        let mut at = None;
        let mut inlined = false;
        // A deep stack loses its outermost frames.
        let frames = line.stack.split(';').filter(|_| !line.stack.is_empty());
        let beyond = frames.clone().count().saturating_sub(FRAMES_MAX);
        losses.stacks_cut += u64::from(beyond > 0);
        for frame in frames.skip(beyond) {
            let function;
            (function, inlined) = named(frame);
            let number = builder.function(function);
            at = Some(builder.context(at, number));
        }
        builder.charge(at, cost, 0, inlined);
    }
    if total == 0 {
        return Err(TextError::Empty);
    }
    let about = About {
        format: "folded stacks",
        sampling: Some(EventAbout { with_callers: true, ..EventAbout::default() }),
        event: wanted.to_string(),
        events,
        ..About::default()
    };
    Ok((about, builder.grown(losses)))
}

/// Returns a function and whether it is inlined; stackcollapse marks kernel, inlined and compiled code.
fn named(frame: &str) -> (Function, bool) {
    if let Some(name) = frame.strip_suffix("_[k]") {
        return (Function::new(demangle(name), KERNEL), false);
    }
    if let Some(name) = frame.strip_suffix("_[i]") {
        return (Function::new(demangle(name), ""), true);
    }
    let name = frame.strip_suffix("_[j]").unwrap_or(frame);
    // `--export-folded` appends the module if a name is in several modules.
    if let Some(name) = name.strip_suffix(KERNEL).and_then(|name| name.strip_suffix(' ')) {
        return (Function::new(demangle(name), KERNEL), false);
    }
    (Function::new(demangle(name), ""), false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;
    use proptest::prelude::*;

    fn costs(text: &str, event: Option<&str>) -> Result<Vec<(String, u64, Option<u64>)>, String> {
        let (_, sampled) =
            read(text, event, &Budget::default()).map_err(|error| error.to_string())?;
        let table = FunctionTable::of(&sampled);
        assert!(table.functions.iter().all(|cost| cost.samples.is_none()));
        let row = |cost: &crate::table::FunctionCost| {
            let Function { symbol, module, .. } = &cost.function;
            (format!("{symbol} {module}"), cost.own, cost.inclusive)
        };
        Ok(table.functions.iter().map(row).collect())
    }

    #[test]
    fn stacks_are_read_with_what_collapsers_mark() {
        let text = "# a comment\nsh;main;read_[k] 7\nsh;main;_ZN1a1bEv_[i] 2\nsh;main 1\n 4\n";
        let row = |name: &str, own, inclusive| (name.to_string(), own, Some(inclusive));
        let expected = [
            row("read [kernel]", 7, 7),
            row("[unmapped] ", 4, 4),
            row("a::b() ", 2, 2),
            row("main ", 1, 10),
            row("sh ", 0, 10),
        ];
        assert_eq!(costs(text, None).unwrap(), expected);
    }

    #[test]
    fn of_two_figures_one_is_chosen() {
        let text = "main 10 11\nmain;operator new 0 3\n";
        let of = |event| costs(text, event).unwrap().iter().map(|row| row.1).collect::<Vec<_>>();
        assert_eq!((of(None), of(Some("variant"))), (vec![10], vec![11, 3]));
        let error = costs(text, Some("cycles")).unwrap_err();
        assert_eq!(error, "it has no event cycles; it has baseline, variant");
        // A name may end with a number if not every line has two figures.
        assert_eq!(costs("main;f 2 5\nmain 1\n", None).unwrap()[0].0, "f 2 ");
    }

    #[test]
    fn other_text_is_told_from_it() {
        assert!(
            is_folded("a;b 1\n")
                && is_folded("[deleted] 325\n")
                && is_folded("\n# x\na 1\na;b c;d 2\r\n")
        );
        for text in
            ["", "a b 1\n", "a;b\n", "a;b 1.5\n", "a;b -1\n", "a;b\u{1} 3\n", "a;b 1\nprose\n"]
        {
            assert!(!is_folded(text), "{text:?}");
        }
        let error = costs("a;b 1\nprose here\n", None).unwrap_err();
        assert!(error.starts_with("line 2 is not a stack with a number"), "{error}");
        let error = costs(&format!("a;b {0}\na {0}\n", u64::MAX), None).unwrap_err();
        assert!(error.contains("beyond 64 bits"), "{error}");
        assert_eq!(costs("a;b 0\n", None).unwrap_err(), TextError::Empty.to_string());
        // A deep stack keeps its innermost frames.
        let deep = format!("main;{};f 1\n", vec!["g"; FRAMES_MAX].join(";"));
        let (_, sampled) = read(&deep, None, &Budget::default()).unwrap();
        assert_eq!(sampled.losses.stacks_cut, 1);
        assert_eq!(sampled.profile.contexts.len(), FRAMES_MAX);
        assert_eq!(costs(&deep, None).unwrap()[0], ("f ".to_string(), 1, Some(1)));
    }

    #[test]
    fn what_py_spy_wrote_is_read() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/py-spy.folded");
        let text = std::fs::read_to_string(path).unwrap();
        assert!(is_folded(&text));
        let found = costs(&text, None).unwrap();
        let first = ("total.<locals>.<genexpr> (work.py:4) ".to_string(), 124, Some(124));
        assert_eq!(found[0], first);
        assert_eq!(found[1], ("total (work.py:4) ".to_string(), 47, Some(171)));
        // py-spy could not get the stack of these samples.
        assert!(found.contains(&("[unmapped] ".to_string(), 4, Some(4))), "{found:?}");
        assert_eq!(found.iter().map(|row| row.1).sum::<u64>(), 181);
    }

    proptest! {
        #[test]
        fn no_text_ends_the_program(text in "[a-c; 0-9_\\[\\]ki\n]{0,60}") {
            if let Ok((_, sampled)) = read(&text, None, &Budget::default()) {
                let table = FunctionTable::of(&sampled);
                let sum: u64 = table.functions.iter().map(|cost| cost.own).sum();
                prop_assert!(sum == table.total && sum > 0);
            }
        }
    }
}
