//! Reads the text of `perf script`: a line for each sample, below it its callers, innermost first.

mod line;

use super::Wanted;
use super::about::{About, EventAbout};
use super::filter::Facts;
use super::stack::FRAMES_MAX;
use super::text::TextError;
use crate::losses::{Losses, RecordPlace};
use crate::space::module_name;
use crate::symbolise::ProfileBuilder;
use crate::symbolise::Sampled;
use line::{Below, Frame, Head, Layout, is_comment, is_record, lost_events};
use opcost_record::Function;
use opcost_record::profile::KERNEL;
use opcost_symbols::demangle::{demangle, mangled, printable};
use opcost_symbols::keyed::{KeyedMap, KeyedSet};
use opcost_sys::budget::Budget;

/// The event's name in a text that names none.
const UNNAMED_EVENT: &str = "samples";

/// Whether a text looks like `perf script`: its first sample has a time and an event, or a frame.
pub fn is_perf_script(text: &str) -> bool {
    Layout::of(text).is_some()
}

/// Reads the text. Lines that `perf script` does not write are left out and counted as damage.
///
/// `wanted`: the event and samples to read; `budget`: what reading may take.
///
/// # Errors
/// [`TextError`]: no sample with a frame, or no such event; more than the budget.
pub fn read(text: &str, wanted: &Wanted, budget: &Budget) -> Result<(About, Sampled), TextError> {
    let Wanted { event, filter, .. } = wanted;
    let mut reading = Reading::default();
    let mut events: Vec<String> = Vec::new();
    let mut known_events = KeyedSet::default();
    let mut wanted = event.clone();
    let mut first_ns = None;
    let mut times_ns: Option<(u64, u64)> = None;
    let mut without_period = false;
    let mut cost: u64 = 0;
    let mut odd: Option<TextError> = None;
    let layout = Layout::of(text).unwrap_or(Layout::Timed);
    let place = |line: &str| line.as_ptr() as u64 - text.as_ptr() as u64;
    let mut lines = text.lines().enumerate().peekable();
    let mut frames = Vec::new();
    // Lines below a line that was left out, or below a record, belong to it.
    let (mut below_odd, mut below_record) = (false, false);
    while let Some((index, line)) = lines.next() {
        budget.step(line.len() as u64)?;
        if line.trim().is_empty() || is_comment(line) {
            continue;
        }
        let fail = |what| TextError::line(index, line, what);
        if is_record(line) {
            reading.losses.lost_events += lost_events(line).unwrap_or(0);
            (below_odd, below_record) = (false, true);
            continue;
        }
        frames.clear();
        let head = match layout {
            Layout::Stacks => match layout.below(line) {
                Below::Frame(frame) => {
                    frames.push(frame);
                    Some(Head::default())
                }
                _ => None,
            },
            _ => layout.head(line),
        };
        let Some(head) = head else {
            if below_record && line.starts_with([' ', '\t']) {
                continue;
            }
            if !below_odd || !line.starts_with([' ', '\t']) {
                reading.losses.damage.add(RecordPlace { file: None, at: place(line) });
                odd.get_or_insert(fail("no line of perf script"));
            }
            (below_odd, below_record) = (true, false);
            continue;
        };
        (below_odd, below_record) = (false, false);
        // Some tools and editors leave lines empty between a sample and its frames.
        if lines.peek().is_some_and(|(_, line)| line.trim().is_empty())
            && frames.is_empty()
            && head.frame().is_none()
        {
            let mut ahead = lines.clone();
            while ahead.next_if(|(_, line)| line.trim().is_empty()).is_some() {}
            if ahead.peek().is_some_and(|(_, line)| layout.is_frame_alone(line)) {
                lines = ahead;
            }
        }
        while let Some((_, line)) = lines.peek()
            && !line.trim().is_empty()
        {
            match layout.below(line) {
                Below::Frame(frame) => frames.push(frame),
                Below::Extra { inlined } => {
                    if let Some(frame) = frames.last_mut().filter(|_| inlined) {
                        frame.inlined = true;
                    }
                }
                Below::Odd => {
                    reading.losses.damage.add(RecordPlace { file: None, at: place(line) });
                }
                Below::Next => break,
            }
            budget.step(line.len() as u64)?;
            lines.next();
        }
        reading.with_callers |= !frames.is_empty();
        if frames.is_empty() {
            frames.extend(head.frame());
        }
        let event = head.event.unwrap_or(UNNAMED_EVENT);
        if known_events.insert(event) {
            events.push(event.to_string());
        }
        let wanted = wanted.get_or_insert_with(|| event.to_string());
        if event != wanted {
            reading.losses.other_events += 1;
            continue;
        }
        first_ns = first_ns.or(head.time_ns);
        if filter.has_pid() && head.pid.is_none() {
            return Err(fail("only the thread is said, not its process; choose by tid"));
        }
        let stack = reading.stack(&mut frames);
        let facts = Facts {
            command: head.command,
            pid: head.pid,
            tid: head.tid,
            module: stack.and_then(|(_, function)| reading.builder.module(function)),
            time_ns: head.time_ns.map(|time_ns| time_ns.saturating_sub(first_ns.unwrap_or(0))),
        };
        if !filter.is_empty() && !filter.keeps(&facts) {
            reading.losses.left_out += 1;
            continue;
        }
        if let Some(time) = head.time_ns {
            let (first, last) = times_ns.unwrap_or((time, time));
            times_ns = Some((first.min(time), last.max(time)));
        }
        without_period |= head.period.is_none();
        let period = head.period.unwrap_or(1);
        cost = cost.checked_add(period).ok_or_else(|| fail("a cost beyond 64 bits"))?;
        let inlined = frames.first().is_some_and(|frame| frame.inlined);
        reading.losses.unmapped_samples += u64::from(stack.is_none());
        reading.builder.charge(stack.map(|(at, _)| at), period, 1, inlined);
    }
    let wanted = match (odd, wanted.filter(|_| !events.is_empty())) {
        (_, Some(wanted)) => wanted,
        (Some(odd), None) => return Err(odd),
        (None, None) => return Err(TextError::Empty),
    };
    if !events.contains(&wanted) {
        return Err(TextError::NoEvent { wanted, known: events.join(", ") });
    }
    if !reading.has_frames {
        let what = "its samples have no address: print them with perf script -F +ip,+sym,+dso";
        return Err(TextError::Content(what.into()));
    }
    let stem = wanted.split(':').next().unwrap_or_default();
    let named = wanted != UNNAMED_EVENT;
    let about = About {
        format: "perf script",
        sampling: Some(EventAbout {
            // Without periods the costs are numbers of samples, whatever the event counts.
            clock: CLOCKS.contains(&stem) && !without_period,
            precise: precise(&wanted).filter(|_| named),
            exact: is_exact(&wanted),
            with_callers: reading.with_callers,
            ..EventAbout::default()
        }),
        event: wanted,
        events,
        duration_ns: times_ns.map(|(first, last)| last - first),
        ..About::default()
    };
    Ok((about, reading.builder.grown(reading.losses)))
}

/// A profile under construction.
#[derive(Default)]
struct Reading<'t> {
    builder: ProfileBuilder,
    losses: Losses,
    /// Functions by symbol and file as printed.
    functions: KeyedMap<(&'t str, &'t str), u32>,
    with_callers: bool,
    /// Whether any sample had a frame.
    has_frames: bool,
}

impl<'t> Reading<'t> {
    /// Returns a stack's context and innermost function; `None` if it has no frame. A deep stack loses its outermost frames.
    fn stack(&mut self, frames: &mut Vec<Frame<'t>>) -> Option<(u32, u32)> {
        self.has_frames |= !frames.is_empty();
        self.losses.stacks_cut += u64::from(frames.len() > FRAMES_MAX);
        frames.truncate(FRAMES_MAX);
        let mut found = None;
        let mut file = "";
        for frame in frames.iter().rev() {
            // An inlined function is in the file of the next outer one.
            if !frame.inlined {
                file = frame.module;
            }
            let builder = &mut self.builder;
            let number = *self
                .functions
                .entry((frame.symbol, file))
                .or_insert_with(|| builder.function(function(frame.symbol, file)));
            let caller = found.map(|(at, _)| at);
            found = Some((builder.context(caller, number), number));
        }
        found
    }
}

/// The function of a symbol and a file as printed.
fn function(symbol: &str, file: &str) -> Function {
    let module = module(file);
    let shown = match symbol {
        "[unknown]" | "" if file == UNKNOWN => "[unmapped]".into(),
        "[unknown]" | "" => "[text]".into(),
        symbol => demangle(symbol),
    };
    let mangled = mangled(symbol, &shown);
    Function { mangled, ..Function::new(shown, &module) }
}

/// The file of an address without a mapping.
const UNKNOWN: &str = "[unknown]";

/// The module of a file as printed; the kernel and its modules also have paths (`--show-kernel-path`).
fn module(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let kernel = file.contains("[kernel.") || file.contains("[guest.kernel.");
    if file == UNKNOWN {
        return String::new();
    }
    if kernel || file == "[kernel]" || file == "/proc/kcore" || name.starts_with("vmlinux") {
        return KERNEL.into();
    }
    module_name(file).unwrap_or_else(|| printable(file))
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

#[cfg(test)]
mod tests;
