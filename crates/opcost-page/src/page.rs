//! Text that grows line by line, painted and wrapped for a terminal.

use crate::ascii::ascii;
use crate::names::{self, shorten};
use crate::style::Style;
use opcost_record::printable::{Output, inert_line, inert_text, is_obeyed, printable, safe};
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// No colour.
pub(crate) const PLAIN: anstyle::Style = anstyle::Style::new();
/// For important text.
pub(crate) const BOLD: anstyle::Style = anstyle::Style::new().bold();
/// For less important text.
pub(crate) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// For a change to the worse.
pub(crate) const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default();
/// For a change to the better.
pub(crate) const GREEN: anstyle::Style = anstyle::AnsiColor::Green.on_default();
/// For doubts.
pub(crate) const YELLOW: anstyle::Style = anstyle::AnsiColor::Yellow.on_default();

/// Maximum width of a name in a list of several.
const NAME_IN_LIST_WIDTH: usize = 40;
/// A name with less room is left out of a list.
const NAME_IN_LIST_WIDTH_MIN: usize = 12;

/// Part of a name that was cut to less than this is left out beside code.
const BARE_NAME_WIDTH_MIN: usize = 8;

/// A page of text.
pub(crate) struct Page {
    text: String,
    color: bool,
    /// The width in columns.
    pub width: usize,
    full_names: bool,
    /// Whether a name was shortened.
    shortened: bool,
    /// Whether a word that is longer than a line is broken.
    tight: bool,
    /// Whether the text is ASCII.
    ascii: bool,
}

impl Page {
    /// An empty page in a style.
    pub(crate) fn new(style: &Style) -> Page {
        let Style { color, width, full_names, ascii, all: _ } = *style;
        Page {
            text: String::new(),
            color,
            width,
            full_names,
            shortened: false,
            tight: false,
            ascii,
        }
    }

    /// An empty page that breaks long words, so that no paragraph is wider than the page.
    pub(crate) fn tight(style: &Style) -> Page {
        Page { tight: true, ..Page::new(style) }
    }

    /// The room for a name: `columns`, or no limit if names are shown whole.
    pub(crate) fn room(&self, columns: usize) -> usize {
        if self.full_names { usize::MAX } else { columns }
    }

    /// A function's name in at most `width` columns, unless names are shown whole; `behind`: the text
    /// that follows the name and tells it from others (` (libc.so.6)`).
    pub(crate) fn name(&mut self, name: &str, behind: &str, width: usize) -> String {
        if self.full_names || name.width() + behind.width() <= width {
            return format!("{name}{behind}");
        }
        self.shortened = true;
        let behind = names::behind(behind, width / 3);
        let name = shorten(name, width.saturating_sub(behind.width()));
        let short = name + &behind;
        // One column for each mark of a missing part, as the name was shortened for.
        if self.ascii { short.replace('…', "~") } else { short }
    }

    /// A function's own name with the types around it in at most `width` columns, for a line that says more, unless names are shown
    /// whole.
    pub(crate) fn bare(&mut self, name: &str, width: usize) -> String {
        if self.full_names {
            return name.to_string();
        }
        let short = match names::bare(name, width) {
            // A few letters say nothing.
            short if short.contains('…') && width < BARE_NAME_WIDTH_MIN => "…".into(),
            short => short,
        };
        self.shortened |= short != name;
        if self.ascii { short.replace('…', "~") } else { short }
    }

    /// As many names, each with its remark, as fit behind an arrow in `room` columns. A name that would be cut too short ends the list.
    pub(crate) fn list(&mut self, arrow: &str, named: &[(String, String)], room: usize) -> String {
        let room = self.room(room);
        let mut text = String::new();
        for (at, (name, remark)) in named.iter().enumerate() {
            let mark = if at == 0 { format!("{arrow} ") } else { ", ".into() };
            let remark = if remark.is_empty() { String::new() } else { format!(" {remark}") };
            let more = if at + 1 < named.len() { ", …".width() } else { 0 };
            let left = room.saturating_sub(text.width() + mark.width() + remark.width() + more);
            if left < name.width().min(NAME_IN_LIST_WIDTH_MIN) {
                if at > 0 {
                    text.push_str(", …");
                }
                break;
            }
            // The last name may take all the room that is left.
            let width = if more == 0 { left } else { left.min(NAME_IN_LIST_WIDTH) };
            let name = self.name(name, "", width);
            if name.width() > left {
                break;
            }
            text += &(mark + &name + &remark);
        }
        text
    }

    /// Words in lines of a width. A longer word has a line of its own, or is broken if no line may be longer than the page.
    pub(crate) fn lines(&self, text: &str, width: usize) -> Vec<String> {
        let room = if self.tight { width.max(1) } else { usize::MAX };
        let words = text.split(' ').filter(|word| !word.is_empty());
        let mut lines: Vec<String> = Vec::new();
        for word in words.flat_map(|word| pieces(word, room)) {
            match lines.last_mut() {
                Some(line) if line.width() + 1 + word.width() <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_string()),
            }
        }
        lines
    }

    /// A name on lines of its own: one, unless no line may be longer than the page.
    pub(crate) fn own_lines(&self, name: &str, width: usize) -> Vec<String> {
        if self.tight { self.lines(name, width) } else { vec![name.to_string()] }
    }

    /// A command in lines that a shell joins again, if it is longer than a line.
    pub(crate) fn broken(&self, command: &str, indent: usize) -> Vec<String> {
        let fits = indent + command.width() <= self.width;
        let words = if fits { None } else { shlex::split(command) };
        let Some(words) = words else { return vec![command.to_string()] };
        let mut lines: Vec<String> = Vec::new();
        for word in &words {
            let word =
                shlex::try_quote(word).map_or_else(|_| word.clone(), |word| word.into_owned());
            match lines.last_mut() {
                // Two columns are kept for the ` \\` that joins the lines.
                Some(line) if indent + line.width() + 1 + word.width() + 2 <= self.width => {
                    line.push(' ');
                    line.push_str(&word);
                }
                _ => lines.push(word),
            }
        }
        let last = lines.len().saturating_sub(1);
        lines.iter_mut().take(last).for_each(|line| line.push_str(" \\"));
        lines
    }

    /// Adds how to see names whole, if some were shortened.
    pub(crate) fn note_shortened(&mut self, mark: &str) {
        if self.shortened {
            let said = match self.ascii {
                true => "names are shortened (<~>, (~), ~): --full-names shows them whole",
                false => "names are shortened (<…>, (…), …): --full-names shows them whole",
            };
            self.wrap(DIM, mark, said);
        }
    }

    /// The whole text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// The text in a colour, if the page has colour.
    pub(crate) fn paint(&self, style: anstyle::Style, text: &str) -> String {
        let text = self.harmless(text);
        if self.color && style != PLAIN && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_string()
        }
    }

    /// Foreign text as a part of a line, in the characters that the page has.
    pub(crate) fn shown(&self, text: &str) -> String {
        let text = safe(text, Output::Line);
        if self.ascii { ascii(&text) } else { text }
    }

    /// The text with everything escaped that a terminal obeys, except this page's own colours.
    fn harmless<'t>(&self, text: &'t str) -> Cow<'t, str> {
        escaped(text, self.color, false)
    }

    /// Adds a line; painted pieces keep their colours.
    pub(crate) fn line(&mut self, text: &str) {
        let text = inert_line(self.harmless(text).trim_end());
        self.text.push_str(&if self.ascii { ascii(&text) } else { text });
        self.text.push('\n');
    }

    /// Adds a paragraph behind a mark; further lines are indented by the mark's width.
    pub(crate) fn wrap(&mut self, style: anstyle::Style, mark: &str, text: &str) {
        let (mark, text) = (self.shown(mark), self.shown(text));
        let indent = mark.width();
        let mut line = mark;
        // A path or a command is kept whole, so that it can be copied.
        let room = if self.tight { self.width.saturating_sub(indent).max(1) } else { usize::MAX };
        let words = text.split(' ').filter(|word| !word.is_empty());
        for word in words.flat_map(|word| pieces(word, room)) {
            if line.width() + 1 + word.width() > self.width && line.width() > indent {
                let painted = self.paint(style, &line);
                self.line(&painted);
                line = " ".repeat(indent);
            }
            if line.width() > indent {
                line.push(' ');
            }
            line.push_str(word);
        }
        let painted = self.paint(style, &line);
        self.line(&painted);
    }
}

/// A whole text with everything escaped that a terminal obeys, except line breaks and opcost's own colours. Writers make
/// names harmless in the way of their format; this is behind all of them, so a name that one forgot does nothing.
pub fn harmless(text: &str) -> Cow<'_, str> {
    match escaped(text, true, true) {
        shown if shown.contains(RUNNER_COMMAND) => Cow::Owned(inert_text(&shown)),
        shown => shown,
    }
}

/// The marks that GitHub's and Azure's runners look for within a line begin so.
const RUNNER_COMMAND: &str = "##";

fn escaped(text: &str, color: bool, lines: bool) -> Cow<'_, str> {
    let acts = |char: char| is_obeyed(char) && !(lines && char == '\n');
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(acts) {
        let (before, from) = rest.split_at(at);
        shown += before;
        let own = own_colours().find(|own| color && from.starts_with(own.as_str()));
        let length =
            own.as_ref().map_or_else(|| from.chars().next().map_or(0, char::len_utf8), String::len);
        let (piece, behind) = from.split_at(length);
        match own {
            Some(_) => shown += piece,
            None => shown += &printable(piece),
        }
        rest = behind;
    }
    Cow::Owned(shown + rest)
}

/// The sequences that begin and end the colours of a page.
fn own_colours() -> impl Iterator<Item = String> {
    let begins =
        [BOLD, DIM, RED, GREEN, YELLOW].into_iter().map(|style| style.render().to_string());
    begins.chain([format!("{}", BOLD.render_reset())])
}

/// A word in pieces of at most `room` columns: names of C++ can be longer than a line.
fn pieces(word: &str, room: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while rest.width() > room {
        let mut used = 0;
        let within = |(at, char): (usize, char)| {
            used += char.width().unwrap_or(0);
            (used <= room).then_some(at + char.len_utf8())
        };
        let end = rest.char_indices().map_while(within).last();
        let Some(mut end) = end else { break };
        // A line that begins with `::name` would be a command of a CI runner.
        while rest[end..].starts_with("::")
            && let Some((before, _)) =
                rest[..end].char_indices().next_back().filter(|(at, _)| *at > 0)
        {
            end = before;
        }
        // A piece ends behind a separator if one stands in its second half.
        let separator = rest[..end].rfind([':', ',', '<', '(', '/']).map(|at| at + 1);
        let (piece, behind) = rest.split_at(separator.filter(|at| *at > end / 2).unwrap_or(end));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    pieces
}

/// Cuts or pads a text to a width; names of functions are shortened before ([`shorten`]).
///
/// [`shorten`]: crate::names::shorten
pub fn fit(text: &str, width: usize) -> String {
    if width == 0 {
        return String::new();
    }
    let text = printable(text);
    let mut cut = String::new();
    let mut used = 0;
    // Room is kept for the mark of a cut.
    let room = width - usize::from(text.width() > width);
    for c in text.chars() {
        let wide = c.to_string().width();
        if used + wide > room {
            cut.push('…');
            used += 1;
            break;
        }
        cut.push(c);
        used += wide;
    }
    cut + &" ".repeat(width.saturating_sub(used))
}

/// Pads a figure on its left to a width. A wider figure is never cut: the rest would read as another figure.
pub fn align(figure: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(figure.width())) + figure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_padded_by_columns() {
        assert_eq!(fit("abc", 5), "abc  ");
        assert_eq!(fit("abcdef", 5), "abcd…");
        assert_eq!(fit("测量五次", 5), "测量…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(align("abc", 5), "  abc");
        assert_eq!(align("", 2), "  ");
        assert_eq!(align("1,234,567", 5), "1,234,567");
    }

    #[test]
    fn no_piece_of_a_name_begins_as_a_command_of_a_runner() {
        let name = "first_part_of_a_name<<a<::error::b";
        for room in 1..name.len() {
            let pieces = pieces(name, room);
            assert_eq!(pieces.concat(), name);
            assert!(pieces.iter().all(|piece| piece.width() <= room), "{room}: {pieces:?}");
            let begins = |piece: &&&str| piece.starts_with("::");
            assert_eq!(pieces.iter().find(begins), None, "{room}: {pieces:?}");
        }
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed_but_our_own_colours() {
        let evil = "a\x1b[2Jb\u{202e}\x1b[31mc\n";
        for color in [false, true] {
            let mut page = Page::new(&Style { color, ..Style::plain() });
            page.wrap(RED, "", evil);
            let cell = fit(evil, 60);
            let line = page.paint(BOLD, &cell);
            page.line(&line);
            let text = page.into_text();
            let foreign: Vec<&str> = text.split('\x1b').skip(1).collect();
            let own = ["[31m", "[1m", "[0m"];
            assert!(
                foreign.iter().all(|code| own.iter().any(|own| code.starts_with(own))),
                "{text:?}"
            );
            assert_eq!(foreign.is_empty(), !color);
            assert_eq!(
                text.matches("a\\u{1b}[2Jb\\u{202e}\\u{1b}[31mc\\u{a}").count(),
                2,
                "{text:?}"
            );
            assert_eq!(text.lines().count(), 2);
        }
    }

    #[test]
    fn paragraphs_stay_within_the_width() {
        let mut page = Page::new(&Style { width: 60, ..Style::plain() });
        page.wrap(RED, "→ ", &"word ".repeat(30));
        page.wrap(RED, "→ ", &"x".repeat(90));
        let text = page.into_text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[..lines.len() - 1].iter().all(|line| line.width() <= 60), "{text}");
        assert!(lines[0].starts_with("→ word") && lines[1].starts_with("  word"), "{text}");
        // A word longer than the line is kept whole, unless no line may be longer.
        assert_eq!(lines.last().map(|line| line.width()), Some(92));
        let mut page = Page::tight(&Style { width: 60, ..Style::plain() });
        page.wrap(RED, "→ ", &"x".repeat(90));
        let text = page.into_text();
        assert!(text.lines().all(|line| line.width() <= 60), "{text}");
        assert_eq!(text.matches('x').count(), 90);
        assert_eq!(pieces("ns::Thing::method(int)", 14), ["ns::Thing::", "method(int)"]);
        assert_eq!(pieces("abc", 0), ["abc"]);
    }
}
