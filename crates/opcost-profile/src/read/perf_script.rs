//! Reads the text of `perf script`: a line for each sample, below it its callers, innermost first.

use super::Wanted;
use super::about::{About, EventAbout};
use super::filter::Facts;
use super::text::TextError;
use crate::keyed::KeyedSet;
use crate::symbolise::ProfileBuilder;
use crate::symbolise::Sampled;
use crate::symbols::demangle::{demangle, mangled, printable};
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_sys::budget::Budget;

/// A frame as printed.
struct Frame<'t> {
    symbol: &'t str,
    /// `None` for a function that was inlined into the next one.
    module: Option<&'t str>,
}

/// A sample's first line.
struct Head<'t> {
    command: &'t str,
    /// `None` unless the printed fields include it (`-F pid,tid`).
    pid: Option<i32>,
    tid: Option<i32>,
    event: &'t str,
    period: Option<u64>,
    time_ns: Option<u64>,
    /// The address and symbol, if callers were not recorded.
    rest: &'t str,
}

/// Whether a text looks like `perf script`: its first sample has a time and an event.
pub fn is_perf_script(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.take(1).any(|line| !line.starts_with([' ', '\t']) && head(line).is_some())
}

/// Reads the text.
///
/// `wanted`: the event and samples to read; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: a line that `perf script` does not write, or no such event; more than the budget.
pub fn read(text: &str, wanted: &Wanted, budget: &Budget) -> Result<(About, Sampled), TextError> {
    let Wanted { event, filter } = wanted;
    let mut events: Vec<String> = Vec::new();
    let mut known_events = KeyedSet::default();
    let mut builder = ProfileBuilder::default();
    let mut wanted = event.clone();
    let mut first_ns = None;
    let mut losses = crate::losses::Losses::default();
    let mut times_ns: Option<(u64, u64)> = None;
    let mut with_callers = false;
    let mut cost: u64 = 0;
    let mut lines = text.lines().enumerate().peekable();
    while let Some((index, line)) = lines.next() {
        budget.step(line.len() as u64)?;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |what| TextError::line(index, line, what);
        if let Some((_, lost)) = line.split_once("PERF_RECORD_LOST") {
            let count = lost.split("lost").nth(1).and_then(|text| text.trim().parse().ok());
            losses.lost_events += count.unwrap_or(1);
            continue;
        }
        if line.contains("PERF_RECORD_") {
            continue;
        }
        let head = head(line).ok_or_else(|| fail("not the first line of a sample"))?;
        let mut frames = Vec::new();
        if let Some(frame) = frame(head.rest) {
            frames.push(frame);
        }
        while let Some((index, line)) =
            lines.next_if(|(_, line)| line.starts_with([' ', '\t']) && !line.trim().is_empty())
        {
            budget.step(line.len() as u64)?;
            with_callers = true;
            let frame = frame(line.trim_start()).ok_or_else(|| {
                TextError::line(index, line, "not a frame: 'address symbol (file)'")
            })?;
            frames.push(frame);
        }
        if known_events.insert(head.event) {
            events.push(head.event.to_string());
        }
        let wanted = wanted.get_or_insert_with(|| head.event.to_string());
        if head.event != wanted {
            losses.other_events += 1;
            continue;
        }
        first_ns = first_ns.or(head.time_ns);
        if filter.has_pid() && head.pid.is_none() {
            return Err(fail("only the thread is said, not its process; choose by tid"));
        }
        let stack = functions(&frames);
        let facts = Facts {
            command: Some(head.command),
            pid: head.pid,
            tid: head.tid,
            module: stack.last().map(|(function, _)| function.module.as_str()),
            time_ns: head.time_ns.map(|time_ns| time_ns.saturating_sub(first_ns.unwrap_or(0))),
        };
        if !filter.is_empty() && !filter.keeps(&facts) {
            losses.left_out += 1;
            continue;
        }
        if let Some(time) = head.time_ns {
            let (first, last) = times_ns.unwrap_or((time, time));
            times_ns = Some((first.min(time), last.max(time)));
        }
        if stack.is_empty() {
            losses.unmapped_samples += 1;
        }
        let period = head.period.unwrap_or(1);
        cost = cost.checked_add(period).ok_or_else(|| fail("a cost beyond 64 bits"))?;
        builder.add(&stack, period);
    }
    let wanted = wanted.ok_or(TextError::Empty)?;
    if !events.contains(&wanted) {
        return Err(TextError::NoEvent { wanted, known: events.join(", ") });
    }
    let stem = wanted.split(':').next().unwrap_or_default();
    let about = About {
        format: "perf script",
        sampling: Some(EventAbout {
            clock: CLOCKS.contains(&stem),
            precise: precise(&wanted),
            exact: is_exact(&wanted),
            with_callers,
            ..EventAbout::default()
        }),
        event: wanted,
        events,
        duration_ns: times_ns.map(|(first, last)| last - first),
        ..About::default()
    };
    Ok((about, builder.grown(losses)))
}

/// Events of a timer.
const CLOCKS: [&str; 2] = ["cpu-clock", "task-clock"];

/// Events of the kernel itself that are no clocks (`perf list sw`).
const EXACT: [&str; 13] = [
    "alignment-faults",
    "bpf-output",
    "cgroup-switches",
    "context-switches",
    "cpu-migrations",
    "cs",
    "emulation-faults",
    "faults",
    "major-faults",
    "migrations",
    "minor-faults",
    "page-faults",
    "dummy",
];

/// Splits an event into its name and modifiers; `None` if the text behind the colon has other
/// letters, as in `sched:sched_switch`, where it is the rest of the name.
fn modifiers(event: &str) -> Option<(&str, &str)> {
    let (name, modifiers) = event.rsplit_once(':').unwrap_or((event, ""));
    modifiers.bytes().all(|letter| b"ukhGHpPSDIWe".contains(&letter)).then_some((name, modifiers))
}

/// Whether the instruction that caused the event took each sample, by the event's name.
fn is_exact(event: &str) -> bool {
    let name = modifiers(event).map_or(event, |(name, _)| name);
    // Names of tracepoints (`sched:sched_switch`) and breakpoints (`mem:0x1000:w`) have a colon.
    name.contains(':') || EXACT.contains(&name)
}

/// The number of `p` among an event's modifiers; without any, samples may have any skid.
fn precise(event: &str) -> Option<u8> {
    let (name, modifiers) = modifiers(event)?;
    if CLOCKS.contains(&name) || is_exact(event) {
        return None;
    }
    Some(modifiers.bytes().filter(|letter| *letter == b'p').count().min(3) as u8)
}

/// Splits `command tid [cpu]` or `command pid/tid [cpu]`.
fn thread(text: &str) -> (&str, Option<i32>, Option<i32>) {
    let text = text.trim();
    let (before, last) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
    let text = if last.starts_with('[') { before.trim_end() } else { text };
    let (command, numbers) = text.rsplit_once(char::is_whitespace).unwrap_or((text, ""));
    let (pid, tid) = match numbers.split_once('/') {
        Some((pid, tid)) => (pid.parse().ok(), tid.parse().ok()),
        None => (None, numbers.parse().ok()),
    };
    (command.trim(), pid, tid)
}

/// Splits `command pid [cpu] time: period event: rest`; the command may contain spaces.
fn head(line: &str) -> Option<Head<'_>> {
    let (time_at, time) = words(line).find(|(_, word)| is_time(word))?;
    let mut rest = &line[time_at + time.len()..];
    let mut word = || {
        rest = rest.trim_start();
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        word
    };
    let mut event = word();
    let mut period = None;
    if let Ok(number) = event.parse() {
        period = Some(number);
        event = word();
    }
    let event = event.strip_suffix(':').filter(|event| !event.is_empty())?;
    let (seconds, part) = time.trim_end_matches(':').split_once('.')?;
    let part_ns = format!("{part:0<9}").get(..9).and_then(|part| part.parse::<u64>().ok());
    let time_ns = seconds
        .parse::<u64>()
        .ok()
        .zip(part_ns)
        .and_then(|(seconds, part)| seconds.checked_mul(1_000_000_000)?.checked_add(part));
    let (command, pid, tid) = thread(&line[..time_at]);
    Some(Head { command, pid, tid, event, period, time_ns, rest: rest.trim() })
}

/// Returns the words of a line with their places.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_whitespace().map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

fn is_time(word: &str) -> bool {
    let Some((seconds, part)) = word.strip_suffix(':').and_then(|time| time.split_once('.')) else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(seconds) && digits(part)
}

/// Parses `ffffffff81a0 vfs_read+0x10 ([kernel.kallsyms])` or `ffffffff81a0 f (inlined)`.
fn frame(text: &str) -> Option<Frame<'_>> {
    let (address, rest) = text.split_once(' ')?;
    u64::from_str_radix(address, 16).ok()?;
    let rest = rest.trim();
    if let Some(symbol) = rest.strip_suffix(" (inlined)") {
        return Some(Frame { symbol, module: None });
    }
    let inner = rest.strip_suffix(')')?;
    let before_deleted = inner.strip_suffix(" (deleted)").unwrap_or(inner);
    let at = before_deleted.rfind(" (").map(|at| (at, at + 2));
    // A symbol may be missing altogether.
    let (end, start) = at.or_else(|| rest.starts_with('(').then_some((0, 1)))?;
    let symbol = rest[..end].trim();
    let symbol = match symbol.rsplit_once("+0x") {
        Some((name, offset)) if u64::from_str_radix(offset, 16).is_ok() => name,
        _ => symbol,
    };
    Some(Frame { symbol, module: Some(&before_deleted[start..]) })
}

/// Returns the functions of a sample, outermost first, each with whether it was inlined.
fn functions(frames: &[Frame<'_>]) -> Vec<(Function, bool)> {
    let mut module = String::new();
    let mut stack = Vec::with_capacity(frames.len());
    for frame in frames.iter().rev() {
        if let Some(file) = frame.module {
            module = match file {
                "[kernel.kallsyms]" | "[kernel]" | "[guest.kernel.kallsyms]" => KERNEL.into(),
                "[unknown]" => String::new(),
                file => printable(file),
            };
        }
        let shown = match frame.symbol {
            "[unknown]" | "" if module.is_empty() => "[unmapped]".into(),
            "[unknown]" | "" => "[text]".into(),
            symbol => demangle(symbol),
        };
        let mangled = mangled(frame.symbol, &shown);
        let function = Function { mangled, ..Function::new(shown, &module) };
        stack.push((function, frame.module.is_none()));
    }
    stack
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::FunctionTable;

    const TEXT: &str = "\
Web Content 2 9942/9943 [001] 34895.679863:     500000 cpu-clock:pp: \n\
\tffffffff822010c9 _raw_spin_unlock_irqrestore+0x19 ([kernel.kallsyms])\n\
\t    11300 std::vec<int, std::allocator<int> >::at(unsigned long) (inlined)\n\
\t    113fd f(char const*)+0x5d (/usr/lib/x (deleted))\n\
\t     7fff [unknown] ([unknown])\n\
\n\
busy  9942 34895.680353:     500000 cpu-clock:pp: \n\
\t            1276 main+0x77 (/opt/work/busy)\n\
\n\
busy  9942 34896.000353:     7 page-faults:   7f0012 [unknown] (/opt/work/busy)\n";

    fn read_event(text: &str, event: Option<&str>) -> Result<(About, Sampled), TextError> {
        read(
            text,
            &Wanted { event: event.map(str::to_string), ..Wanted::default() },
            &Budget::default(),
        )
    }

    #[test]
    fn only_events_of_the_cpu_are_precise_or_not() {
        for (event, expected) in [
            ("cycles", (Some(0), false)),
            ("cycles:upp", (Some(2), false)),
            ("task-clock:u", (None, false)),
            ("page-faults:u", (None, true)),
            ("sched:sched_switch", (None, true)),
            ("sched:sched_switch:k", (None, true)),
            ("mem:0x601040:w", (None, true)),
        ] {
            assert_eq!((precise(event), is_exact(event)), expected, "{event}");
        }
    }

    #[test]
    fn stacks_are_read_with_inlined_functions() {
        let (about, sampled) = read(TEXT, &Wanted::default(), &Budget::default()).unwrap();
        assert_eq!(about.event, "cpu-clock:pp");
        assert_eq!(about.events, ["cpu-clock:pp", "page-faults"]);
        assert_eq!(about.duration_ns, Some(490_000));
        // A timer is never precise, whatever the user asked for.
        assert_eq!(about.sampling.unwrap().precise, None);
        assert_eq!((sampled.profile.total(), sampled.losses.other_events), (1_000_000, 1));
        let names: Vec<String> = sampled
            .profile
            .contexts
            .iter()
            .map(|context| &sampled.profile.functions[context.function as usize])
            .map(|function| format!("{} {}", function.symbol, function.module))
            .collect();
        let expected = [
            "[unmapped] ",
            "f(char const*) /usr/lib/x",
            "std::vec<int, std::allocator<int> >::at(unsigned long) /usr/lib/x",
            "_raw_spin_unlock_irqrestore [kernel]",
            "main /opt/work/busy",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn events_are_told_apart() {
        let (_, sampled) = read_event(TEXT, Some("page-faults")).unwrap();
        let table = FunctionTable::of(&sampled);
        assert_eq!((table.total, table.functions[0].function.symbol.as_str()), (7, "[text]"));
        let error = read_event(TEXT, Some("cycles")).unwrap_err().to_string();
        assert_eq!(error, "it has no event cycles; it has cpu-clock:pp, page-faults");
    }

    #[test]
    fn other_text_is_told_from_it() {
        assert!(is_perf_script(TEXT));
        for text in ["", "events: Ir\n", "\tffff f (x)\n", "main;f 10\n"] {
            assert!(!is_perf_script(text), "{text:?}");
        }
        let broken = TEXT.replace("\t     7fff [unknown] ([unknown])", "\t rubbish");
        let error = read_event(&broken, None).unwrap_err().to_string();
        assert!(error.starts_with("line 5 is not"), "{error}");
        assert!(matches!(read_event("# only a comment\n", None), Err(TextError::Empty)));
    }
}
