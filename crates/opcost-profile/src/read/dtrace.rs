//! Reads the stacks that DTrace prints of its aggregations (Dynamic Tracing Guide, "Aggregations" and "stack"), as in
//! `profile-997 { @[execname, stack()] = count(); }`:
//!
//! ```text
//!   work
//!               unix`copyout+0x1f
//!               genunix`read+0x40
//!               unix`sys_syscall+0x17a
//!                12
//! ```
//!
//! The innermost frame comes first, and a figure ends each entry. A command before the stack becomes the outermost frame. A
//! second stack of the key, such as the program's below the kernel's, follows behind an empty line.

use super::about::{About, EventAbout};
use super::stack::Stacks;
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_symbols::demangle::{demangle, printable};
use opcost_sys::budget::Budget;

/// The event's name: the text names no aggregation.
const EVENT: &str = "samples";
/// The last column of the line above the probes that fired.
const HEADER: &str = "FUNCTION:NAME";
/// The lines in which an entry has to end if no header stands above.
const ENTRY_LINES_MAX: usize = 4096;

/// Whether a text looks like DTrace's.
pub fn is_dtrace(text: &str) -> bool {
    let is_header = |line: &str| line.starts_with("CPU ") && line.trim_end().ends_with(HEADER);
    if text.lines().take(3).any(is_header) {
        return true;
    }
    let mut lines = text.lines().take(ENTRY_LINES_MAX).skip_while(|line| !has_place(line));
    lines.next().is_some_and(|line| indent(line) > 1 && line.contains('`'))
        && lines.any(|line| indent(line) > 1 && line.trim().parse::<u64>().is_ok())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether a line has a place in code: a function with its module, or an address.
fn has_place(line: &str) -> bool {
    let line = line.trim();
    let module = line.split_once('`').map(|(module, _)| module);
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    module.is_some_and(is_name) || address(line).is_some()
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Whether a line names a probe that fired: its CPU, its number and its name.
fn is_probe(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut number = || words.next().is_some_and(|word| word.parse::<u32>().is_ok());
    number() && number() && words.next().is_some_and(|word| word.contains(':'))
}

/// A frame: `` module`name+0x12 ``, or without a module or a name.
fn frame(text: &str) -> Function {
    let (module, name) = text.split_once('`').unwrap_or(("", text));
    let name = match name.rsplit_once("+0x") {
        Some((name, offset)) if u64::from_str_radix(offset, 16).is_ok() => name,
        _ => name,
    };
    match address(name) {
        Some(_) => Function::new("[text]", printable(module)),
        None => Function::new(demangle(name), printable(module)),
    }
}

/// The command among the fields before a stack, which are numbers otherwise.
fn command(fields: &str) -> Option<&str> {
    let mut rest = fields.trim();
    while let Some((field, behind)) = rest.split_once(char::is_whitespace)
        && field.parse::<u64>().is_ok()
    {
        rest = behind.trim_start();
    }
    Some(rest).filter(|rest| rest.parse::<u64>().is_err())
}

/// Reads the text.
///
/// `event`: the event that is wanted; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: another event, no figure behind the last stack, no samples; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    if let Some(wanted) = event.filter(|wanted| *wanted != EVENT) {
        return Err(TextError::no_event(wanted, &[EVENT.to_string()]));
    }
    let mut stacks = Stacks::new(budget);
    // The command, and the entry's frames, innermost first.
    let (mut outermost, mut frames): (Option<u32>, Vec<u32>) = Default::default();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        budget.step(line.len() as u64)?;
        let shown = line.trim();
        if shown.is_empty() || shown.ends_with(HEADER) {
            continue;
        }
        let in_stack = !frames.is_empty();
        let stack_begins = |next: &str| has_place(next) && indent(line) < indent(next);
        if !in_stack && is_probe(line) {
            continue;
        }
        // A number alone is a figure unless a stack follows at once, as a process's does.
        if !in_stack && !has_place(line) && lines.peek().is_some_and(|(_, next)| stack_begins(next))
        {
            let function = |name| stacks.function(Function::new(printable(name), ""));
            outermost = command(shown).map(function);
            continue;
        }
        // Fields behind a stack stand on the line of the figure.
        let (fields, figure) = match shown.rsplit_once(char::is_whitespace) {
            Some((fields, figure)) if !has_place(line) => (fields.trim_end(), figure),
            _ => ("", shown),
        };
        match figure.parse::<u64>() {
            Ok(figure) if in_stack || fields.is_empty() => {
                if let Some(name) = command(fields).filter(|name| !name.is_empty()) {
                    outermost = Some(stacks.function(Function::new(printable(name), "")));
                }
                frames.extend(outermost.take());
                frames.reverse();
                stacks.add(&frames, figure, figure, false)?;
                frames.clear();
            }
            Ok(_) => stacks.losses.odd_lines.add(index, line),
            // DTrace indents what it prints of aggregations; other lines are the script's own.
            Err(_) if indent(line) < 2 => stacks.losses.odd_lines.add(index, line),
            Err(_) => {
                budget.step(size_of::<u32>() as u64)?;
                frames.push(stacks.function(frame(shown)));
            }
        }
    }
    if !frames.is_empty() {
        return Err(TextError::Cut("its last stack has no figure".into()));
    }
    stacks.finish(About {
        format: "DTrace",
        sampling: Some(EventAbout { with_callers: true, ..EventAbout::default() }),
        event: EVENT.into(),
        events: vec![EVENT.into()],
        ..About::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    /// Made by hand after the guide.
    const TEXT: &str = include_str!("../../tests/data/dtrace.txt");

    fn rows(text: &str) -> Vec<(String, String, u64, u64)> {
        let (_, sampled) = read(text, None, &Budget::default()).unwrap();
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            let Function { symbol, module, .. } = &cost.function;
            (symbol.clone(), module.clone(), cost.own, cost.inclusive.unwrap_or(0))
        };
        let mut rows: Vec<_> = table.functions.iter().map(row).collect();
        rows.sort();
        rows
    }

    fn row(symbol: &str, module: &str, own: u64, inclusive: u64) -> (String, String, u64, u64) {
        (symbol.into(), module.into(), own, inclusive)
    }

    #[test]
    fn stacks_of_kernel_and_program_have_their_command_outside() {
        assert!(is_dtrace(TEXT));
        let expected = [
            row("[text]", "", 1, 1),
            row("[text]", "unix", 0, 12),
            row("[unmapped]", "", 3, 3),
            row("copyout", "unix", 12, 12),
            row("main", "work", 0, 13),
            row("ns::scan<int>(int)", "work", 1, 1),
            row("read", "libc.so.1", 0, 12),
            row("shell", "", 0, 5),
            row("wait", "sh", 5, 5),
            row("work", "", 0, 13),
        ];
        assert_eq!(rows(TEXT), expected);
        let (_, sampled) = read(TEXT, None, &Budget::default()).unwrap();
        // A stack without frames: the process ran no code that the key has.
        assert_eq!((sampled.samples_known(), sampled.profile.total()), (Some(22), 22));
        assert_eq!(sampled.losses.odd_lines.first, Some((28, "sh  9".into())));
        let error = read(TEXT, Some("x"), &Budget::default()).unwrap_err().to_string();
        assert_eq!(error, "it has no event x; it has samples");
    }

    #[test]
    fn a_text_without_header_is_recognised_by_a_whole_entry() {
        let entry = "\n   a`f+0x2\n   a`main\n     3\n";
        assert!(is_dtrace(entry));
        assert_eq!(rows(entry), [row("f", "a", 3, 3), row("main", "a", 0, 3)]);
        assert_eq!(rows(&format!("of a script\n{entry}")), rows(entry));
        assert!(!is_dtrace("a`f;main 3\n"));
        assert!(!is_dtrace("  text with a `word` in it\n  3\n"));
        let cut = read("  a`f\n", None, &Budget::default()).unwrap_err();
        assert!(cut.to_string().contains("its last stack has no figure"));
        let header = "CPU     ID                    FUNCTION:NAME\n  8  35077    :tick-60s\n";
        assert_eq!(read(header, None, &Budget::default()).unwrap_err(), TextError::Empty);
    }
}
