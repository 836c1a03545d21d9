//! Folded stacks: `root;caller;function 1200` on a line, as stackcollapse, inferno-collapse, py-spy and
//! `--export-folded` write them (<https://github.com/brendangregg/FlameGraph>, stackcollapse.pl).
//!
//! The figures may be samples, times, bytes or instructions; no file says which. If each line has two
//! figures (difffolded.pl), the first is the baseline's. Figures with decimals are read to the last digit, in thousandths or less.

use super::about::{About, EventAbout};
use super::stack::Stacks;
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_symbols::demangle::demangle;
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;

/// The event's name in files with one figure on a line.
const COST: &str = "cost";
/// The events' names in files with two figures on a line.
const SIDES: [&str; 2] = ["baseline", "variant"];
/// The number of lines read to recognise a file.
const LINES_SEEN: usize = 50;
/// The parts that figures with decimals are read in: digits behind the point, and the event's name.
const PARTS: [(usize, &str); 4] =
    [(0, ""), (3, " in thousandths"), (6, " in millionths"), (9, " in billionths")];

/// Whether a text looks like folded stacks: half of its first lines or more end with a number, and either one of their stacks has
/// several functions or only single words stand before the numbers.
pub fn is_folded(text: &str) -> bool {
    let has = |line: &str| {
        Line::of(line).is_some() && !line.contains(|c: char| c.is_control() && c != '\t')
    };
    let (good, odd): (Vec<_>, Vec<_>) =
        lines(text).map(|(_, line)| line).take(LINES_SEEN).partition(|line| has(line));
    let stacks = good.iter().any(|line| line.contains(';'));
    let flat = odd.is_empty() && good.iter().all(|line| line.split_whitespace().count() == 2);
    !good.is_empty() && good.len() >= odd.len() && (stacks || flat)
}

/// Returns the lines that are not comments, with their numbers from 0.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index, line.trim_end()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A line, split into stack and figure.
#[derive(Clone, Copy)]
struct Line<'t> {
    /// The stack; it still ends with the first figure if the line has two.
    stack: &'t str,
    whole: &'t str,
    /// The digits behind the point.
    decimals: &'t str,
}

impl<'t> Line<'t> {
    fn of(line: &'t str) -> Option<Line<'t>> {
        // py-spy writes a sample without a stack as a space and the figure.
        let (stack, figure) = line.rsplit_once(char::is_whitespace)?;
        let (whole, decimals) = figure.split_once('.').unwrap_or((figure, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = !whole.is_empty() && digits(whole) && digits(decimals);
        is_number.then(|| Line { stack: stack.trim_end(), whole, decimals })
    }

    /// The figure times 10 to the power of `digits`; `None` beyond 64 bits.
    fn figure(&self, digits: usize) -> Option<u64> {
        let decimals = &self.decimals[..self.decimals.len().min(digits)];
        let part: u64 = format!("{decimals:0<digits$}").parse().unwrap_or(0);
        let one = 10u64.checked_pow(u32::try_from(digits).ok()?)?;
        self.whole.parse::<u64>().ok()?.checked_mul(one)?.checked_add(part)
    }
}

/// Reads the text. Lines of another form are left out and counted.
///
/// `event`: the figure that is wanted of lines with two; `None` is the first; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: figures beyond 64 bits, no line with a cost, or no such figure; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let (mut two, mut decimals) = (true, 0);
    for (_, text) in lines(text) {
        let Some(line) = Line::of(text) else { continue };
        let before = Line::of(line.stack);
        two &= before.is_some();
        let all = [Some(line), before.filter(|_| two)];
        let longest =
            all.iter().flatten().map(|one| one.decimals.trim_end_matches('0').len()).max();
        decimals = decimals.max(longest.unwrap_or(0));
    }
    let (digits, part) =
        PARTS.into_iter().find(|(digits, _)| decimals <= *digits).unwrap_or(PARTS[3]);
    let events: Vec<String> = match two {
        true => SIDES.map(|side| format!("{side}{part}")).into(),
        false => vec![format!("{COST}{part}")],
    };
    let wanted = event.unwrap_or(&events[0]);
    // A user need not know in which parts the figures are read.
    let is_wanted = |event: &String| event == wanted || event.strip_suffix(part) == Some(wanted);
    let chosen = events.iter().position(is_wanted);
    let chosen = chosen.ok_or_else(|| TextError::no_event(wanted, &events))?;
    let mut stacks = Stacks::new(budget);
    let mut functions = Vec::new();
    // A frame stands in many stacks.
    let mut known: KeyedMap<&str, (u32, bool)> = KeyedMap::default();
    for (index, text) in lines(text) {
        budget.step(text.len() as u64)?;
        let Some(line) = Line::of(text) else {
            stacks.losses.odd_lines.add(index, text);
            continue;
        };
        let line = match (two, chosen) {
            (true, 0) => Line::of(line.stack).unwrap_or(line),
            (true, _) => Line { stack: Line::of(line.stack).map_or("", |one| one.stack), ..line },
            _ => line,
        };
        let beyond = || TextError::line(index, text, "where costs grow beyond 64 bits");
        let cost = line.figure(digits).ok_or_else(beyond)?;
        // Without a cost, the stack was sampled on the other side only.
        if cost == 0 {
            continue;
        }
        functions.clear();
        let mut inlined = false;
        for frame in line.stack.split(';').filter(|_| !line.stack.is_empty()) {
            let number;
            (number, inlined) = *known.entry(frame).or_insert_with(|| {
                let (function, inlined) = named(frame);
                (stacks.new_function(function), inlined)
            });
            functions.push(number);
        }
        stacks.add(&functions, cost, 0, inlined)?;
    }
    stacks.finish(About {
        format: "folded stacks",
        sampling: Some(EventAbout { with_callers: true, ..EventAbout::default() }),
        event: events[chosen].clone(),
        events,
        ..About::default()
    })
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
    use crate::read::stack::FRAMES_MAX;
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
        for text in [
            "",
            "a b 1\n",
            "a;b\n",
            "a;b -1\n",
            "a;b\u{1} 3\n",
            "a;b 1\nprose\nof two\n",
            "a 1\nprose\n",
        ] {
            assert!(!is_folded(text), "{text:?}");
        }
        let error = costs(&format!("a;b {0}\na {0}\n", u64::MAX), None).unwrap_err();
        assert!(error.contains("more than 64 bits"), "{error}");
        assert_eq!(costs("a;b 0\n", None).unwrap_err(), TextError::Empty.to_string());
        // A deep stack keeps its innermost frames.
        let deep = format!("main;{};f 1\n", vec!["g"; FRAMES_MAX].join(";"));
        let (_, sampled) = read(&deep, None, &Budget::default()).unwrap();
        assert_eq!(sampled.losses.stacks_cut, 1);
        assert_eq!(sampled.profile.contexts.len(), FRAMES_MAX);
        assert_eq!(costs(&deep, None).unwrap()[0], ("f ".to_string(), 1, Some(1)));
    }

    #[test]
    fn an_odd_line_is_named_and_the_rest_read() {
        let text = "main;a;b 4\nthis line has no count\nmain;d 3\nneither this\nmain;a;b 2\n";
        assert!(is_folded(text));
        let (_, sampled) = read(text, None, &Budget::default()).unwrap();
        let odd = &sampled.losses.odd_lines;
        assert_eq!((odd.lines, odd.first.clone()), (2, Some((2, "this line has no count".into()))));
        assert_eq!(costs(text, None).unwrap()[0], ("b ".to_string(), 6, Some(6)));
    }

    #[test]
    fn decimals_are_kept_to_the_last_digit() {
        let text = "main;a 0.25\nmain;b 3\nmain 1.50\n";
        assert!(is_folded(text));
        let (about, _) = read(text, None, &Budget::default()).unwrap();
        assert_eq!(about.event, "cost in thousandths");
        let own = |event| costs(text, event).unwrap().iter().map(|row| row.1).collect::<Vec<_>>();
        assert_eq!((own(None), own(Some("cost"))), (vec![3000, 1500, 250], vec![3000, 1500, 250]));
        let of = |text: &str| {
            read(text, None, &Budget::default())
                .map(|(about, sampled)| (about.event, sampled.profile.total()))
        };
        let part = |name: &str, total| Ok((name.to_string(), total));
        assert_eq!(of("a 2.0\nb 1.\n"), part("cost", 3));
        assert_eq!(of("a 0.0001\n"), part("cost in millionths", 100));
        assert_eq!(of("m 1.5 2\nm;a 1 0.5\n"), part("baseline in thousandths", 2500));
        // Digits behind the ninth are dropped.
        assert_eq!(of("a 0.1234567899\n"), part("cost in billionths", 123_456_789));
        assert!(
            of(&format!("a {}.5\n", u64::MAX)).unwrap_err().to_string().contains("beyond 64 bits")
        );
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
