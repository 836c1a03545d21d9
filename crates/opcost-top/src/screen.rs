//! Draws the screen of the live view. Pure: from the state to cells.

use crate::state::{Filter, Hidden, State, TopRow, View};
use opcost_base::number::grouped;
use opcost_page::names::shorten;
use opcost_page::page::{align, fit};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

/// Lines above the rows, and lines below them.
const HEAD_LINES: u16 = 3;
const FOOT_LINES: u16 = 1;
/// Columns of share, change, and kernel's share.
const SHARE_WIDTH: usize = 7;
const CHANGE_WIDTH: usize = 8;
const KERNEL_WIDTH: usize = 4;

/// The text and style of the screen beside the state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Caption {
    /// The event, its frequency, and whose samples are taken: `cpu-clock at 997 Hz, all CPUs`.
    pub what: String,
    /// Whether to use colour.
    pub color: bool,
}

/// The most used keys, on the last line.
const FOOT: &str =
    " ? keys  q quit  / search  f functions  t tasks  T threads  c CPUs  ⏎ in  ⌫ back";

/// Every key, with its effect; the list has room on 80 columns and 24 lines.
const KEYS: [(&str, &str); 15] = [
    ("?, h", "show these keys; the next key ends that"),
    ("q, Ctrl-C", "quit"),
    ("/", "show rows with these letters alone; Enter keeps it so, Esc ends it"),
    ("f", "functions"),
    ("t", "tasks (processes)"),
    ("T", "threads"),
    ("c", "CPUs"),
    ("Enter, Right", "a function's callers; one task, thread or CPU alone"),
    ("Esc, Left", "back"),
    ("K", "hide the kernel's functions, and tasks in the kernel alone"),
    ("U", "hide programs' functions, and tasks never in the kernel"),
    ("s", "sort by share, change, name or module"),
    ("d", "remember the shares and show Δ to them; again: do not"),
    ("p, Space", "pause; r: forget what was sampled"),
    ("Up, Down", "choose a row; also j, k, PgUp, PgDn, Home, End"),
];

/// The keys for a help text.
pub fn keys_help() -> String {
    let lines = KEYS.map(|(key, what)| format!("\n  {key:<13}{what}"));
    format!("Keys:{}", lines.concat())
}

fn draw_help(caption: &Caption, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let title = format!(" opcost top · {}", caption.what);
    let lines = [title, String::new()].into_iter();
    let keys = KEYS.into_iter().map(|(key, what)| format!(" {key:<13}{what}"));
    for (at, text) in (0..area.height).zip(lines.chain(keys)) {
        let modifier = if at == 0 { Modifier::BOLD } else { Modifier::empty() };
        let style = Style::default().add_modifier(modifier);
        buffer.set_stringn(area.x, area.y + at, fit(&text, width), width, style);
    }
}

/// The number of rows that a screen of this height has room for.
pub fn rows_shown(height: u16) -> usize {
    usize::from(height.saturating_sub(HEAD_LINES + FOOT_LINES)).max(1)
}

/// Draws the state over the whole area.
pub fn draw(state: &State, caption: &Caption, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    if state.help {
        return draw_help(caption, area, buffer);
    }
    let rows = state.rows();
    let room = rows_shown(area.height);
    let first = state.selected.saturating_sub(room.saturating_sub(1)).min(rows.len());
    let style = |color: Option<Color>, modifier: Modifier| {
        let style = Style::default().add_modifier(modifier);
        if caption.color { color.map_or(style, |color| style.fg(color)) } else { style }
    };
    let mut line = |at: u16, text: &str, style: Style| {
        if at < area.height && width > 0 {
            let text = fit(text, width);
            buffer.set_stringn(area.x, area.y + at, text, width, style);
        }
    };
    line(0, &title(state, caption, width), style(None, Modifier::BOLD));
    line(1, &summary(state, width), style(None, Modifier::empty()));
    line(2, &heading(state, width), style(None, Modifier::REVERSED));
    for (at, row) in rows.iter().enumerate().skip(first).take(room) {
        let color = match row.change {
            Some(change) if change >= 0.005 => Some(Color::Red),
            Some(change) if change <= -0.005 => Some(Color::Green),
            _ => None,
        };
        let selected = if at == state.selected { Modifier::REVERSED } else { Modifier::empty() };
        let text = row_text(state, row, width);
        line(HEAD_LINES + (at - first) as u16, &text, style(color, selected));
    }
    if rows.is_empty() {
        let why = match state.shown().elapsed_ns {
            0 => " waiting for samples…",
            _ if !state.search.text.is_empty() || state.hidden != Hidden::Nothing => {
                " nothing to show: Esc ends a search, K and U show what they hid"
            }
            _ => " no samples: nothing ran",
        };
        line(HEAD_LINES, why, style(None, Modifier::DIM));
    }
    let typed = format!(" search: {}▏  ⏎ keep  Esc end", state.search.text);
    let keys = if state.search.typing { &typed } else { FOOT };
    let foot = area.height.saturating_sub(FOOT_LINES);
    if foot >= HEAD_LINES {
        line(foot, keys, style(None, Modifier::DIM));
    }
}

/// The screen as lines of text, without trailing blanks, for output without a terminal.
pub fn text(state: &State, caption: &Caption, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(state, caption, area, &mut buffer);
    let mut text = String::new();
    // The line of keys is left out, because a text takes no keys.
    for y in 0..height.saturating_sub(FOOT_LINES) {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The title: on the left whose samples are taken, on the right how many come.
fn title(state: &State, caption: &Caption, width: usize) -> String {
    let shown = state.shown();
    let whose = match &state.filter {
        Filter::Everything => String::new(),
        Filter::Process(number, name) | Filter::Thread(number, name) => {
            format!(" · only {name} ({number})")
        }
        Filter::Cpu(cpu) => format!(" · only CPU {cpu}"),
    };
    let left = format!(" opcost top · {}{whose}", caption.what);
    let rate = match shown.elapsed_ns {
        0 => 0,
        elapsed_ns => (shown.samples as f64 * 1e9 / elapsed_ns as f64).round() as u64,
    };
    let throttled = if shown.throttles > 0 { " · throttled" } else { "" };
    let right = format!(" {} samples/s · {} lost{throttled} ", grouped(rate), grouped(shown.lost));
    let room = width.saturating_sub(unicode_width::UnicodeWidthStr::width(right.as_str()));
    format!("{}{right}", fit(&left, room))
}

fn summary(state: &State, width: usize) -> String {
    let shown = state.shown();
    let total = shown.total();
    let kernel = if total == 0 { 0.0 } else { shown.kernel() as f64 / total as f64 };
    let mut parts = Vec::new();
    if total > 0 {
        parts.push(format!("kernel {} · user {}", percent(kernel), percent(1.0 - kernel)));
    }
    let decimals = usize::from(shown.elapsed_ns < 1_000_000_000);
    parts.push(format!("last {:.decimals$} s", shown.elapsed_ns as f64 / 1e9));
    if let View::Callers(function) = &state.view {
        parts.push(format!("callers of {}", state.naming().symbol(function)));
    }
    parts.push(format!("by {}", state.sort.word()));
    match state.hidden {
        Hidden::Nothing => {}
        Hidden::Kernel => parts.push("kernel hidden".into()),
        Hidden::User => parts.push("user hidden".into()),
    }
    if !state.search.text.is_empty() {
        parts.push(format!("/{}", state.search.text));
    }
    if let Some(age_ns) = state.changes_since_ns() {
        parts.push(format!("Δ since {:.0} s ago", age_ns as f64 / 1e9));
    }
    if state.paused {
        parts.push("PAUSED".into());
    }
    fit(&format!(" {}", parts.join(" · ")), width)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The widths of name and module, in columns.
fn name_widths(state: &State, width: usize) -> (usize, usize) {
    let change = if state.changes_since_ns().is_some() { CHANGE_WIDTH } else { 0 };
    let left = width.saturating_sub(SHARE_WIDTH + change + KERNEL_WIDTH + 4);
    let module = left * 2 / 5;
    (left - module, module)
}

fn heading(state: &State, width: usize) -> String {
    let (what, owner) = match state.view {
        View::Functions => ("function", "module"),
        View::Processes => ("process", "number"),
        View::Threads => ("thread", "number"),
        View::Cpus => ("CPU", ""),
        View::Callers(_) => ("called from", "module"),
    };
    let (name, module) = name_widths(state, width);
    let change = match state.changes_since_ns() {
        Some(_) => align("Δ", CHANGE_WIDTH),
        None => String::new(),
    };
    let share = align("share", SHARE_WIDTH);
    let kernel = match state.view {
        View::Processes | View::Threads | View::Cpus => "  k%",
        _ => "",
    };
    let kernel = align(kernel, KERNEL_WIDTH);
    format!("{share}{change}{kernel}  {}  {}", fit(what, name), fit(owner, module))
}

fn row_text(state: &State, row: &TopRow, width: usize) -> String {
    let (name, module) = name_widths(state, width);
    let share = align(&format!("{:.2}%", row.share * 100.0), SHARE_WIDTH);
    let change = match row.change {
        Some(change) => align(&format!("{:+.2}", change * 100.0), CHANGE_WIDTH),
        None => String::new(),
    };
    let kernel = match state.view {
        View::Processes | View::Threads | View::Cpus => format!("{:.0}", row.kernel_share * 100.0),
        _ if row.kernel_share > 0.0 => "k".into(),
        _ => "u".into(),
    };
    let kernel = align(&kernel, KERNEL_WIDTH);
    format!(
        "{share}{change}{kernel}  {}  {}",
        fit(&shorten(&row.name.name, name), name),
        fit(row.place(), module)
    )
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
