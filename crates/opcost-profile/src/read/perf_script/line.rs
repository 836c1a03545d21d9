//! Takes lines of `perf script` apart: first lines of samples, frames, and lines of other records.
//!
//! The printed fields are the user's choice (`-F`), so every field may be missing. perf pads an address to 16 columns, a period to 10
//! and a thread's number to 5 (tools/perf/builtin-script.c). The widths tell an address from a word of a name, and a period from a
//! thread. Texts whose spaces were changed are read too, as far as they are unambiguous.

use crate::space::KERNEL_HALF;

/// Columns of an address with the space before it.
const ADDRESS_COLUMNS: usize = 17;
/// Columns of a period, without a space before it.
const PERIOD_COLUMNS: usize = 10;
/// Columns of a thread's number, with a space before it.
const THREAD_COLUMNS: usize = 6;
/// The least digits of an address in a text whose spaces were changed.
const ADDRESS_DIGITS_MIN: usize = 4;
/// The start of the names of records that are no samples.
const RECORD: &str = "PERF_RECORD_";

/// The fields by which a text's samples begin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Layout {
    /// A time, and usually an event.
    Timed,
    /// An event without a time.
    Named,
    /// A command, a thread, a period, but neither time nor event.
    Bare,
    /// Nothing but addresses: a line for each sample.
    Addresses,
    /// Nothing but addresses: a stack for each sample, with an empty line behind it.
    Stacks,
}

/// A frame as printed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Frame<'t> {
    /// The function without its offset; empty if it was not printed.
    pub(super) symbol: &'t str,
    /// The file; empty if it was not printed.
    pub(super) module: &'t str,
    /// Whether the function was inlined into the next one.
    pub(super) inlined: bool,
}

/// A sample's first line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Head<'t> {
    pub(super) command: Option<&'t str>,
    pub(super) pid: Option<i32>,
    pub(super) tid: Option<i32>,
    pub(super) event: Option<&'t str>,
    pub(super) period: Option<u64>,
    pub(super) time_ns: Option<u64>,
    /// The fields behind these. If no callers were recorded, the frame is among them.
    rest: &'t str,
}

/// A line below a sample's first line.
pub(super) enum Below<'t> {
    Frame(Frame<'t>),
    /// The place in the source of the frame before, registers, or another field; whether it marks that frame as inlined.
    Extra {
        inlined: bool,
    },
    /// The line is none of perf's.
    Odd,
    /// The line belongs to the next sample.
    Next,
}

impl Layout {
    /// Finds the layout of a text by its first sample; `None` if the text is none of `perf script`.
    pub(super) fn of(text: &str) -> Option<Layout> {
        let mut lines = text.lines().filter(|line| !is_comment(line));
        let mut line = lines.find(|line| !line.trim().is_empty())?;
        while is_record(line) {
            // Some records take several lines.
            let more = |line: &&str| line.starts_with("\t\t") || line.trim().is_empty();
            line = lines.find(|line| !more(line))?;
        }
        let next = lines.next();
        let stack_follows = next.is_some_and(|line| frame_of_line(line).is_some());
        let framed = |head: &Head<'_>| head.frame().is_some() || stack_follows;
        if let Some(head) = timed(line) {
            return (head.event.is_some() || framed(&head)).then_some(Layout::Timed);
        }
        if let Some(head) = named(line) {
            return framed(&head).then_some(Layout::Named);
        }
        if is_wide_frame(line) {
            // A stack has an empty line behind it; an address alone has none.
            let several = line.starts_with('\t') || next.is_some_and(|line| line.trim().is_empty());
            return Some(if several { Layout::Stacks } else { Layout::Addresses });
        }
        let wide_follows = next.is_some_and(is_wide_frame);
        let head = bare(line)?;
        (head.frame().is_some() || wide_follows).then_some(Layout::Bare)
    }

    /// Splits the first line of a sample.
    pub(super) fn head(self, line: &str) -> Option<Head<'_>> {
        match self {
            Layout::Timed => timed(line),
            Layout::Named => named(line),
            Layout::Bare => bare(line),
            Layout::Addresses => {
                is_wide_frame(line).then_some(Head { rest: line, ..Head::default() })
            }
            Layout::Stacks => None,
        }
    }

    /// Whether a line is a frame and nothing else.
    pub(super) fn is_frame_alone(self, line: &str) -> bool {
        line.starts_with([' ', '\t']) && matches!(self.below(line), Below::Frame(_))
    }

    /// Reads a line below a sample's first line.
    pub(super) fn below(self, line: &str) -> Below<'_> {
        let led = line.starts_with([' ', '\t']);
        // perf begins the lines of callers with a tab.
        if !line.starts_with('\t') && (self.head(line).is_some() || is_record(line)) {
            return Below::Next;
        }
        if let Some(frame) = frame_of_line(line) {
            return Below::Frame(frame);
        }
        if line.starts_with('\t') {
            return Below::Odd;
        }
        // Lines of source files and registers begin in the first column.
        match led || line.starts_with('|') || line.starts_with("ABI:") {
            true => Below::Extra { inlined: line.ends_with(" (inlined)") },
            false => Below::Next,
        }
    }
}

impl<'t> Head<'t> {
    /// The frame in this line. perf prints it behind all fields of data, which may be addresses too.
    pub(super) fn frame(&self) -> Option<Frame<'t>> {
        match wide_address(self.rest) {
            Some(at) => frame(&self.rest[at..]),
            None => frame(self.rest.trim_start()).filter(|_| begins_with_address(self.rest)),
        }
    }
}

pub(super) fn is_comment(line: &str) -> bool {
    line.starts_with('#')
}

/// Whether a line is a record other than a sample (`--show-mmap-events` and its like).
pub(super) fn is_record(line: &str) -> bool {
    let Some((before, _)) = line.split_once(RECORD) else { return false };
    !line.starts_with('\t')
        && before.split_whitespace().all(|word| !word.ends_with(':') || time_ns(word).is_some())
}

/// The number of events that a record says were lost; `None` for other records.
pub(super) fn lost_events(line: &str) -> Option<u64> {
    let (_, lost) = line.split_once("PERF_RECORD_LOST")?;
    let count = lost.split("lost").nth(1).and_then(|text| text.trim().parse().ok());
    Some(count.unwrap_or(1))
}

/// Returns the words of a line with their places.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.split_whitespace().map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

/// The number of spaces before a place.
fn gap(line: &str, at: usize) -> usize {
    line.as_bytes()[..at].iter().rev().take_while(|byte| **byte == b' ').count()
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hex(word: &str) -> bool {
    (1..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Parses `34895.679863:`, or a time of day, `2026-11-27 10:20:05.679863:` without its date.
fn time_ns(word: &str) -> Option<u64> {
    let (seconds, part) = word.strip_suffix(':')?.split_once('.')?;
    if !is_number(part) {
        return None;
    }
    let mut sum: u64 = 0;
    for (index, field) in seconds.split(':').enumerate() {
        if index > 2 || !is_number(field) {
            return None;
        }
        sum = sum.checked_mul(60)?.checked_add(field.parse().ok()?)?;
    }
    // Digits beyond nanoseconds do not count.
    let digits = part.bytes().chain(std::iter::repeat(b'0')).take(9);
    let part_ns = digits.fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0'));
    sum.checked_mul(1_000_000_000)?.checked_add(part_ns)
}

/// Splits `command tid [cpu] time: period event: rest`.
fn timed(line: &str) -> Option<Head<'_>> {
    let timed = |(at, word): (usize, &'_ str)| Some((at, word.len(), time_ns(word)?));
    let (time_at, bytes, time_ns) = words(line).find_map(timed)?;
    let mut head = thread(&line[..time_at]);
    head.time_ns = Some(time_ns);
    head.rest = &line[time_at + bytes..];
    let mut first = words(head.rest).next();
    if let Some((at, word)) = first
        && let Ok(number) = word.parse()
        && !(gap(head.rest, at) > 1 && gap(head.rest, at) + word.len() >= ADDRESS_COLUMNS)
    {
        head.period = Some(number);
        head.rest = &head.rest[at + word.len()..];
        first = words(head.rest).next();
    }
    if let Some((at, word)) = first
        && let Some(event) = event(word)
    {
        head.event = Some(event);
        head.rest = &head.rest[at + word.len()..];
    }
    (!head.rest.trim_start().starts_with(RECORD)).then_some(head)
}

/// Splits `command tid [cpu] period event: rest`.
fn named(line: &str) -> Option<Head<'_>> {
    let mut before = "";
    let mut found = None;
    for (at, word) in words(line) {
        if let Some(event) = event(word) {
            let counted = before.ends_with(|last: char| last.is_ascii_digit() || last == ']');
            // A command may end with a colon too; a number stands before an event, if any does.
            if counted || found.is_none() {
                found = Some((at, word, event));
            }
            if counted {
                break;
            }
        }
        // Names of functions may have any word.
        if is_wide(line, at, word) {
            break;
        }
        before = word;
    }
    let (at, word, event) = found?;
    let rest = &line[at + word.len()..];
    Some(Head { event: Some(event), rest, ..thread(&line[..at]) })
}

/// The event's name, if a word may be one with a colon behind it.
fn event(word: &str) -> Option<&str> {
    let event = word.strip_suffix(':')?;
    event.starts_with(|first: char| first.is_ascii_alphabetic() || first == '{').then_some(event)
}

/// Splits `command tid [cpu] period`, with the frame behind it if no callers were recorded.
fn bare(line: &str) -> Option<Head<'_>> {
    let frame_at = wide_address(line);
    let (before, rest) = line.split_at(frame_at.unwrap_or(line.len()));
    // perf pads a period that stands alone, and a command only if the frame follows.
    let alone = !line.starts_with([' ', '\t', '|']) || is_number(line.trim());
    if before.trim().is_empty() || frame_at.is_none() && !alone {
        return None;
    }
    // The address needs the spaces before it.
    let rest = frame_at.map_or(rest, |at| &line[at - gap(line, at)..]);
    Some(Head { rest, ..thread(before) })
}

/// Splits `command tid [cpu] modes date period` or `command pid/tid [cpu] modes date period`.
fn thread(text: &str) -> Head<'_> {
    let mut head = Head::default();
    let mut text = text.trim_end();
    let last = |text: &str| {
        let word = text.rsplit(char::is_whitespace).next().unwrap_or(text);
        let at = text.len() - word.len();
        (at, gap(text, at))
    };
    let cut = |text: &str, at: usize| text[..at].trim_end().len();
    let (at, space) = last(text);
    let word = &text[at..];
    let before = text[..at].trim_end();
    let columns = PERIOD_COLUMNS + usize::from(!before.is_empty());
    let behind_number = is_number(&before[last(before).0..]) || before.ends_with(']');
    let narrow = space + word.len() < THREAD_COLUMNS;
    if is_number(word) && (space + word.len() >= columns || narrow && behind_number) {
        head.period = word.parse().ok();
        text = before;
    }
    let (at, _) = last(text);
    if text[at..].len() == 10 && text[at..].split('-').map(str::len).eq([4, 2, 2]) {
        text = &text[..cut(text, at)];
    }
    // Whether kernel or program ran, and how the sample was cut (`-F +misc`).
    let (at, _) = last(text);
    let before = text[..at].trim_end();
    let modes = text[at..].bytes().all(|mode| b"KUHGgMESpFx".contains(&mode));
    if modes && before.ends_with(|last: char| last.is_ascii_digit() || last == ']') {
        text = before;
    }
    let (at, _) = last(text);
    if text[at..].starts_with('[') && text.ends_with(']') {
        text = &text[..cut(text, at)];
    }
    let (at, space) = last(text);
    let before = text[..at].trim_end();
    match text[at..].split_once('/') {
        Some((pid, tid)) if is_number(pid) && is_number(tid) => {
            (head.pid, head.tid) = (pid.parse().ok(), tid.parse().ok());
            text = before;
        }
        // A command may end with a number, as in "Web Content 2".
        _ if is_number(&text[at..])
            && (space + text[at..].len() >= THREAD_COLUMNS
                || !before.trim_start().contains(' ')) =>
        {
            head.tid = text[at..].parse().ok();
            text = before;
        }
        _ => {}
    }
    head.command = Some(text.trim()).filter(|command| !command.is_empty());
    head
}

/// Whether a word is padded as addresses are.
fn is_wide(text: &str, at: usize, word: &str) -> bool {
    let space = gap(text, at);
    is_hex(word) && space > 0 && space + word.len() >= ADDRESS_COLUMNS
}

/// The place of the last word that is padded as addresses are.
fn wide_address(text: &str) -> Option<usize> {
    words(text).filter(|(at, word)| is_wide(text, *at, word)).last().map(|(at, _)| at)
}

/// Whether a line begins with an address, padded as perf pads it.
fn is_wide_frame(line: &str) -> bool {
    let Some((at, word)) = words(line).next() else { return false };
    let columns = at + word.len();
    is_hex(word) && (columns >= ADDRESS_COLUMNS && at > 0) && frame(&line[at..]).is_some()
}

fn begins_with_address(text: &str) -> bool {
    let first = text.split_whitespace().next();
    first.is_some_and(|word| is_hex(word) && word.len() >= ADDRESS_DIGITS_MIN)
}

/// The frame of a whole line; an address in the first column has several digits at least.
fn frame_of_line(line: &str) -> Option<Frame<'_>> {
    let led = line.starts_with([' ', '\t']);
    frame(line.trim_start()).filter(|_| led || begins_with_address(line))
}

/// Parses `ffffffff81a0 vfs_read+0x10 ([kernel.kallsyms])` or `ffffffff81a0 f+0x2 (inlined)`.
fn frame(text: &str) -> Option<Frame<'_>> {
    // simpleperf's report_sample.py writes a tab behind the address.
    let (address, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let address = Some(address).filter(|word| is_hex(word))?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let mut rest = rest.trim();
    if !rest.ends_with(')') {
        // Registers and branches stand behind the file.
        let end = if file_at(rest).is_some() { rest.rfind(") ").map(|at| at + 1) } else { None };
        rest = rest[..end.or_else(|| rest.rfind(" ABI:")).unwrap_or(rest.len())].trim_end();
    }
    if let Some(symbol) = rest.strip_suffix("(inlined)") {
        let symbol = without_offset(symbol.trim_end());
        return Some(Frame { symbol, module: "", inlined: true });
    }
    let (symbol, module) = split_file(rest);
    let module = module.unwrap_or(match address {
        // No file was printed; programs have no such addresses.
        KERNEL_HALF.. => "[kernel.kallsyms]",
        _ => "",
    });
    Some(Frame { symbol: without_offset(symbol), module, inlined: false })
}

/// Splits `symbol+0x10 (file)`. Symbols and paths may both contain " (".
fn split_file(text: &str) -> (&str, Option<&str>) {
    let Some(inner) = text.strip_suffix(')') else { return (text, None) };
    let Some(at) = behind_offset(text).or_else(|| file_at(text)).or_else(|| last_group(text))
    else {
        return (text, None);
    };
    let file = inner[at + 1..].strip_suffix(" (deleted)").unwrap_or(&inner[at + 1..]);
    (text[..at].trim_end(), Some(without_offset(file)))
}

/// The place of the parenthesis behind an offset.
fn behind_offset(text: &str) -> Option<usize> {
    text.match_indices("+0x").find_map(|(at, _)| {
        let digits = text[at + 3..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let end = at + 3 + digits;
        (digits > 0 && text[end..].starts_with(" (")).then_some(end + 1)
    })
}

/// The place of the parenthesis before a whole path or a name in brackets; neither is in a symbol.
fn file_at(text: &str) -> Option<usize> {
    let starts = |at: usize| at == 0 || text.as_bytes()[at - 1] == b' ';
    let mut places = text.match_indices('(').map(|(at, _)| at);
    places.find(|at| starts(*at) && text[at + 1..].starts_with(['/', '[']))
}

/// The place of the parenthesis that the last one closes, if it begins a word.
fn last_group(text: &str) -> Option<usize> {
    let mut open = 0;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b')' => open += 1,
            b'(' => open -= 1,
            _ => continue,
        }
        if open == 0 {
            return (at == 0 || text.as_bytes()[at - 1] == b' ').then_some(at);
        }
    }
    None
}

fn without_offset(text: &str) -> &str {
    match text.rfind('+') {
        Some(at) if text[at + 1..].strip_prefix("0x").is_some_and(is_hex) => &text[..at],
        _ => text,
    }
}
