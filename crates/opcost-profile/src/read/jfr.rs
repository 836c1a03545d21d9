//! Reads what Java's `jfr print` prints of a flight recording (jfr(1) of OpenJDK): each event with a stack is a sample.

use super::about::{About, EventAbout};
use super::stack::{Events, Stacks};
use super::text::TextError;
use crate::symbolise::Sampled;
use opcost_record::Function;
use opcost_symbols::demangle::printable;
use opcost_sys::budget::Budget;

/// The samples of a thread that runs Java code: shown if nothing else is wanted.
const EXECUTION: &str = "jdk.ExecutionSample";

/// Whether a text looks like that of `jfr print`.
pub fn is_jfr(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.is_empty());
    lines.next().is_some_and(|line| event_of(line).is_some())
        && lines.next().is_some_and(|line| line.starts_with("  ") && line.contains(" = "))
}

/// Returns the event of a line `jdk.ExecutionSample {`.
fn event_of(line: &str) -> Option<&str> {
    let event = line.strip_suffix(" {")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._$".contains(&byte);
    (event.contains('.') && event.bytes().all(is_name)).then_some(event)
}

/// Reads the text.
///
/// `event`: the event that is wanted; `None` is `jdk.ExecutionSample`, or else the first with stacks; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: an event without its end, no event with stacks, or no such one; more than the budget.
pub fn read(
    text: &str,
    event: Option<&str>,
    budget: &Budget,
) -> Result<(About, Sampled), TextError> {
    let has_execution = text.lines().any(|line| event_of(line) == Some(EXECUTION));
    let mut events = Events::new(event.or(has_execution.then_some(EXECUTION)));
    let mut stacks = Stacks::new(budget);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        budget.step(line.len() as u64)?;
        let Some(event) = event_of(line) else { continue };
        let mut frames = None;
        let mut cut = false;
        loop {
            let Some(line) = lines.next() else {
                return Err(TextError::Cut(format!("an event {event} has no end")));
            };
            budget.step(line.len() as u64)?;
            match (line, &mut frames) {
                ("}", _) => break,
                ("  stackTrace = [", frames) => *frames = Some(Vec::new()),
                (line, Some(frames)) if line.starts_with("    ") => match line.trim() {
                    // The printer shows five frames unless told otherwise.
                    "..." => cut = true,
                    frame => frames.push(function(frame)),
                },
                _ => {}
            }
        }
        let Some(frames) = frames else { continue };
        if !events.is_wanted(event) {
            stacks.losses.other_events += 1;
            continue;
        }
        stacks.losses.stacks_cut += u64::from(cut);
        let stack: Vec<u32> =
            frames.into_iter().rev().map(|function| stacks.function(function)).collect();
        stacks.add(&stack, 1, 1, false)?;
    }
    let (event, events) = events.finish()?;
    stacks.finish(About {
        format: "jfr print",
        sampling: Some(EventAbout { with_callers: true, ..EventAbout::default() }),
        event,
        events,
        ..About::default()
    })
}

/// A frame: `java.lang.String.hashCode() line: 12`.
fn function(frame: &str) -> Function {
    let name = frame.split_once(" line:").map_or(frame, |(name, _)| name.trim_end());
    Function::new(printable(name), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    const TEXT: &str = "jdk.ThreadPark {\n  startTime = 10:23:46.100\n  stackTrace = [\n    park() line: 1\n  ]\n}\n\n\
        jdk.ExecutionSample {\n  startTime = 10:23:46.762\n  sampledThread = \"main\" (javaThreadId = 1)\n  stackTrace = [\n    \
        Work.hash(int) line: 2\n    Work.main(String[]) line: 5\n  ]\n}\n\njdk.CPULoad {\n  jvmUser = 1.00%\n}\n\n\
        jdk.ExecutionSample {\n  stackTrace = [\n    Work.hash(int) line: 2\n    ...\n  ]\n}\n\n";

    #[test]
    fn samples_of_running_code_are_read() {
        assert!(is_jfr(TEXT) && !is_jfr("a.b {\n}\n"));
        let (about, sampled) = read(TEXT, None, &Budget::default()).unwrap();
        assert_eq!(about.event, EXECUTION);
        assert_eq!(about.events, ["jdk.ThreadPark", EXECUTION]);
        let table = FunctionTable::of(&sampled);
        let row = |cost: &crate::table::FunctionCost| {
            (cost.function.symbol.clone(), cost.samples, cost.inclusive)
        };
        let rows: Vec<_> = table.functions.iter().map(row).collect();
        let expected =
            |name: &str, samples, inclusive| (name.to_string(), Some(samples), Some(inclusive));
        assert_eq!(rows, [expected("Work.hash(int)", 2, 2), expected("Work.main(String[])", 0, 1)]);
        assert_eq!((sampled.losses.stacks_cut, sampled.losses.other_events), (1, 1));
        let (_, parked) = read(TEXT, Some("jdk.ThreadPark"), &Budget::default()).unwrap();
        assert_eq!(parked.profile.total(), 1);
    }

    #[test]
    fn faults_are_named() {
        let fault =
            |text: &str, event| read(text, event, &Budget::default()).unwrap_err().to_string();
        assert!(fault(&TEXT[..TEXT.len() - 20], None).contains("has no end"));
        assert!(fault(TEXT, Some("x")).starts_with("it has no event x; it has jdk.ThreadPark"));
        assert_eq!(fault("jdk.CPULoad {\n  x = 1\n}\n", None), TextError::Empty.to_string());
    }
}
