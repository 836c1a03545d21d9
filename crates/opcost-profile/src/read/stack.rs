//! Collects stacks whose functions have names already.

use super::about::About;
use super::text::TextError;
use crate::losses::Losses;
use crate::symbolise::{ProfileBuilder, Sampled};
use opcost_record::Function;
use opcost_symbols::demangle::printable;
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;

/// The most frames that are read of a stack; the innermost are kept. Showing a call tree of any depth
/// would need a stack of any depth. perf records 127 by default, Python allows 1,000.
pub(super) const FRAMES_MAX: usize = 1024;

/// The memory of a context.
const FRAME_BYTES: u64 = 128;

/// A profile while its stacks are read.
pub(super) struct Stacks<'b> {
    builder: ProfileBuilder,
    numbers: KeyedMap<Function, u32>,
    functions: Vec<Numbered>,
    pub(super) losses: Losses,
    total: u64,
    budget: &'b Budget,
}

/// A function, or its number in the profile once a stack with a cost has it.
enum Numbered {
    New(Box<Function>),
    Known(u32),
}

impl<'b> Stacks<'b> {
    pub(super) fn new(budget: &'b Budget) -> Stacks<'b> {
        let (builder, numbers, functions, losses) = Default::default();
        Stacks { builder, numbers, functions, losses, total: 0, budget }
    }

    /// Returns the number of a function.
    pub(super) fn function(&mut self, function: Function) -> u32 {
        *self
            .numbers
            .entry(function)
            .or_insert_with_key(|function| pushed(&mut self.functions, function.clone()))
    }

    /// Returns a number of a function that the reader numbers itself.
    pub(super) fn new_function(&mut self, function: Function) -> u32 {
        pushed(&mut self.functions, function)
    }

    /// Adds a cost and its samples to a stack; a deep stack loses its outermost frames.
    ///
    /// `stack`: functions by number, the outermost first; `inlined`: whether the innermost one is inlined into its caller.
    ///
    /// # Errors
    /// [`TextError`]: a sum beyond 64 bits; more than the budget.
    pub(super) fn add(
        &mut self,
        stack: &[u32],
        cost: u64,
        samples: u64,
        inlined: bool,
    ) -> Result<(), TextError> {
        let beyond = || TextError::Content("its costs add up to more than 64 bits".into());
        self.total = self.total.checked_add(cost).ok_or_else(beyond)?;
        let cut = stack.len().saturating_sub(FRAMES_MAX);
        if cost > 0 || samples > 0 {
            self.losses.stacks_cut += if cut > 0 { samples.max(1) } else { 0 };
            self.budget.step((stack.len() - cut) as u64 * FRAME_BYTES)?;
            let mut at = None;
            for number in &stack[cut..] {
                let function = &mut self.functions[*number as usize];
                let number = match std::mem::replace(function, Numbered::Known(0)) {
                    Numbered::New(new) => self.builder.function(*new),
                    Numbered::Known(number) => number,
                };
                *function = Numbered::Known(number);
                at = Some(self.builder.context(at, number));
            }
            self.builder.charge(at, cost, samples, inlined);
        }
        Ok(())
    }

    /// Returns the finished profile.
    ///
    /// # Errors
    /// [`TextError::Empty`]: nothing has a cost.
    pub(super) fn finish(self, about: About) -> Result<(About, Sampled), TextError> {
        match self.total {
            0 => Err(TextError::Empty),
            _ => Ok((about, self.builder.grown(self.losses))),
        }
    }
}

fn pushed(functions: &mut Vec<Numbered>, function: Function) -> u32 {
    functions.push(Numbered::New(Box::new(function)));
    // A file with more functions than fit into 32 bits exceeds every budget.
    functions.len() as u32 - 1
}

/// The events of a file, in the order of their first samples.
pub(super) struct Events {
    wanted: Option<String>,
    known: Vec<String>,
}

impl Events {
    /// `wanted`: the event that the user wants; `None` is the first.
    pub(super) fn new(wanted: Option<&str>) -> Events {
        Events { wanted: wanted.map(str::to_string), known: Vec::new() }
    }

    /// Whether samples of this event are wanted.
    pub(super) fn is_wanted(&mut self, event: &str) -> bool {
        if self.known.last().is_none_or(|last| last != event)
            && !self.known.iter().any(|known| known == event)
        {
            self.known.push(event.to_string());
        }
        self.wanted.get_or_insert_with(|| event.to_string()) == event
    }

    /// Returns the wanted event and all events.
    ///
    /// # Errors
    /// [`TextError`]: no event, or not the wanted one.
    pub(super) fn finish(self) -> Result<(String, Vec<String>), TextError> {
        match self.wanted {
            Some(wanted) if self.known.contains(&wanted) => Ok((wanted, self.known)),
            Some(wanted) if !self.known.is_empty() => {
                Err(TextError::no_event(&wanted, &self.known))
            }
            _ => Err(TextError::Empty),
        }
    }
}

/// A function as languages without object files name it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Placed<'t> {
    pub(super) name: &'t str,
    pub(super) file: &'t str,
    /// The function's line in the file, counted from 1; 0 if it is not known.
    pub(super) line: u64,
}

impl<'t> Placed<'t> {
    /// Parses `name (file:line)` and `name (file:line:column)`, as profilers of JavaScript write frames.
    pub(super) fn of(text: &'t str) -> Placed<'t> {
        let alone = Placed { name: text, file: "", line: 0 };
        let place = text.strip_suffix(')').and_then(|text| text.split_once(" ("));
        let Some((name, file)) = place else { return alone };
        let number = |text: &'t str| {
            let (before, last) = text.rsplit_once(':')?;
            Some((before, last.parse::<u64>().ok()?))
        };
        let (file, last) = number(file).unwrap_or((file, 0));
        let (file, line) = number(file).unwrap_or((file, last));
        Placed { name, file, line }
    }
}

/// Returns the functions at these places. Methods of several classes in one file may have one name, so functions of one
/// name and file have their lines as their sources.
pub(super) fn functions(placed: &[Placed<'_>]) -> Vec<Function> {
    let mut lines: KeyedMap<(&str, &str), Option<u64>> = KeyedMap::default();
    for Placed { name, file, line } in placed {
        let known = lines.entry((*name, *file)).or_insert(Some(*line));
        *known = known.filter(|known| known == line);
    }
    let function = |Placed { name, file, line }: &Placed<'_>| {
        let shown = printable(file.strip_prefix("file://").unwrap_or(file));
        let several = *line > 0 && lines[&(*name, *file)].is_none();
        let base = shown.rsplit('/').next().unwrap_or_default();
        let source = several.then(|| format!("{base}:{line}"));
        let name = if name.is_empty() { "(anonymous)" } else { name };
        Function { source, ..Function::new(printable(name), shown) }
    };
    placed.iter().map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_one_name_are_told_apart_by_their_lines() {
        let placed = |name, file, line| Placed { name, file, line };
        let all = [
            placed("fill", "file:///src/a.js", 3),
            placed("fill", "file:///src/a.js", 9),
            placed("fill", "b.js", 3),
            placed("", "b.js", 4),
            placed("fill", "b.js", 3),
        ];
        let found: Vec<_> = functions(&all)
            .into_iter()
            .map(|one| (one.symbol, one.module, one.source.unwrap_or_default()))
            .collect();
        let row = |one: [&str; 3]| one.map(String::from).into();
        let expected: [(String, String, String); 5] = [
            row(["fill", "/src/a.js", "a.js:3"]),
            row(["fill", "/src/a.js", "a.js:9"]),
            row(["fill", "b.js", ""]),
            row(["(anonymous)", "b.js", ""]),
            row(["fill", "b.js", ""]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn frames_of_text_are_split_into_their_parts() {
        let of = |text| {
            let Placed { name, file, line } = Placed::of(text);
            (name, file, line)
        };
        assert_eq!(of("f (http://a:80/x.js:12:3)"), ("f", "http://a:80/x.js", 12));
        assert_eq!(of("f (x.py:12)"), ("f", "x.py", 12));
        assert_eq!(of("f (x.py)"), ("f", "x.py", 0));
        assert_eq!(of("operator()(int) const"), ("operator()(int) const", "", 0));
    }
}
