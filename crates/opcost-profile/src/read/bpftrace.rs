//! Reads the stacks that bpftrace prints (its language reference, "kstack" and "ustack"): maps with a stack in their key,
//!
//! ```text
//! @[
//!     hash+12
//!     main+40
//! , python3]: 7
//! ```
//!
//! The innermost frame comes first. A command in the key becomes the outermost frame, and the user's stack lies below the
//! kernel's.

use super::about::{About, EventAbout};
use super::stack::{Events, Stacks};
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_symbols::demangle::{demangle, printable};
use opcost_sys::budget::Budget;

/// The longest key that is looked through for its end, in lines.
const KEY_LINES_MAX: usize = 4096;

/// Whether a text looks like bpftrace's: it has a map whose key goes over several lines.
pub fn is_bpftrace(text: &str) -> bool {
    let mut lines = text.lines();
    let begins = |line: &str| opened(line).is_some_and(|(_, rest)| closed(rest).is_none());
    lines.by_ref().take(1000).any(begins)
        && lines.take(KEY_LINES_MAX).any(|line| closed(line).is_some())
}

/// Splits the line with which a map's entry begins: its name, and what follows the bracket.
fn opened(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once('[')?;
    let is_name =
        |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    name.strip_prefix('@').is_some_and(is_name).then_some((name, rest))
}

/// Splits the line with which an entry ends: what stands before the bracket, and the figure.
fn closed(line: &str) -> Option<(&str, u64)> {
    let (before, figure) = line.trim_end().rsplit_once("]: ")?;
    Some((before, figure.parse().ok()?))
}

/// A frame: `name+12`, or with its address and file as in perf's mode, `55d0 name+12 (/bin/work)`.
fn frame(text: &str) -> Function {
    let text = text.trim();
    let (text, module) = match text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) {
        Some((text, module)) => (text, module),
        None => (text, ""),
    };
    let is_address = |text: &str| {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        digits.len() > 3 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    let text = match text.split_once(' ') {
        Some((address, rest)) if is_address(address) => rest.trim(),
        _ => text,
    };
    let is_offset = |offset: &str| {
        !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x')
    };
    let name = match text.rsplit_once('+') {
        Some((name, offset)) if is_offset(offset) && !name.is_empty() => name,
        _ => text,
    };
    match is_address(name) && name.starts_with("0x") {
        true => Function::new("[text]", printable(module)),
        false => Function::new(demangle(name), printable(module)),
    }
}

/// Reads the text.
///
/// `event`: the name of the map that is wanted (`@`, `@stacks`); `None` is the first with stacks; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: an entry without its end, no such map, or no cost; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let mut events = Events::new(event);
    let mut stacks = Stacks::new(budget);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        budget.step(line.len() as u64)?;
        // A map without a stack has its whole entry on one line, and other lines are what the program printed.
        let Some((name, rest)) = opened(line).filter(|(_, rest)| closed(rest).is_none()) else {
            continue;
        };
        let mut frames = Vec::new();
        let mut rows = vec![rest];
        let figure = loop {
            let Some(line) = lines.next() else {
                return Err(TextError::Cut(format!("an entry of {name} has no end")));
            };
            budget.step(line.len() as u64)?;
            if let Some((last, figure)) = closed(line) {
                rows.push(last);
                break figure;
            }
            rows.push(line);
        };
        let mut scalars = Vec::new();
        for row in rows {
            match row.starts_with([' ', '\t']) && !row.trim().is_empty() && row.trim() != "," {
                true => frames.push(frame(row)),
                false => {
                    scalars.extend(row.split(',').map(str::trim).filter(|one| !one.is_empty()))
                }
            }
        }
        let is_wanted = events.is_wanted(name);
        if !is_wanted {
            stacks.losses.other_events = stacks.losses.other_events.saturating_add(figure);
            continue;
        }
        let outer = scalars.iter().map(|scalar| Function::new(printable(scalar), ""));
        let stack = outer.chain(frames.into_iter().rev());
        let stack: Vec<u32> = stack.map(|function| stacks.function(function)).collect();
        stacks.add(&stack, figure, 0, false)?;
    }
    let (event, events) = events.finish()?;
    stacks.finish(About {
        format: "bpftrace",
        sampling: Some(EventAbout { with_callers: true, ..EventAbout::default() }),
        event,
        events,
        ..About::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::folded;
    use crate::table::FunctionTable;

    /// The forms of the reference, of bcc's manual page of profile, and of perf's mode.
    const TEXT: &str = "Attaching 1 probe...\n^C\n\n@count: 12\n@by[bash]: 3\n@[\n    _raw_spin_lock+5\n    do_sys_open+0x10\n, \n    \
        __open64 (/lib/libc.so.6)\n    main+33\n, my prog]: 5\n@[\n    ns::f(int, char)+7\n    0x7f0012345678\n, my prog]: 2\n\
        @[\n        55d01234 main+20 (/bin/work)\n, other]: 4\n@other[\n    x+1\n]: 9\n@usecs:\n[0, 1)   5 |@@@|\n";

    #[test]
    fn stacks_and_commands_are_read_and_other_maps_left_out() {
        assert!(is_bpftrace(TEXT));
        assert!(!is_bpftrace("@[bash]: 5\n@x: 3\n") && !is_bpftrace("main;f 1\n"));
        let (about, sampled) = read(TEXT, None, &Budget::default()).unwrap();
        assert_eq!((about.event.as_str(), about.events.len()), ("@", 2));
        let folded = "my prog;main;__open64;do_sys_open;_raw_spin_lock 5\nmy prog;[text];ns::f(int, char) 2\nother;main 4\n";
        let (_, expected) = folded::read(folded, None, &Budget::default()).unwrap();
        let costs = |sampled: &Sampled| -> Vec<(String, u64, Option<u64>)> {
            let table = FunctionTable::of(sampled);
            let mut rows: Vec<_> = (table.functions.iter())
                .filter(|cost| cost.function.symbol != "main")
                .map(|cost| (cost.function.symbol.clone(), cost.own, cost.inclusive))
                .collect();
            rows.sort();
            rows
        };
        assert_eq!(costs(&sampled), costs(&expected));
        let modules: Vec<&str> =
            sampled.profile.functions.iter().map(|one| one.module.as_str()).collect();
        assert!(modules.contains(&"/lib/libc.so.6") && modules.contains(&"/bin/work"));
        assert_eq!(sampled.losses.other_events, 9);
        let (_, other) = read(TEXT, Some("@other"), &Budget::default()).unwrap();
        assert_eq!(other.profile.total(), 9);
    }

    #[test]
    fn faults_are_named() {
        let fault =
            |text: &str, event| read(text, event, &Budget::default()).unwrap_err().to_string();
        assert!(fault("@[\n  f+1\n", None).contains("an entry of @ has no end"));
        assert_eq!(fault("@[\n  f+1\n]: 5\n", Some("@x")), "it has no event @x; it has @");
        assert_eq!(fault("@[\n  f+1\n]: 0\n", None), TextError::Empty.to_string());
    }
}
