//! Text that grows line by line, painted and wrapped for a terminal.

use super::Style;
use super::names::{cut, shorten};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(crate) const PLAIN: anstyle::Style = anstyle::Style::new();
pub(crate) const BOLD: anstyle::Style = anstyle::Style::new().bold();
pub(crate) const DIM: anstyle::Style = anstyle::Style::new().dimmed();
pub(crate) const RED: anstyle::Style = anstyle::AnsiColor::Red.on_default();
pub(crate) const GREEN: anstyle::Style = anstyle::AnsiColor::Green.on_default();
pub(crate) const YELLOW: anstyle::Style = anstyle::AnsiColor::Yellow.on_default();

/// A page of text.
pub(crate) struct Page {
    text: String,
    color: bool,
    pub(crate) width: usize,
    full_names: bool,
    /// Whether a name was shortened.
    shortened: bool,
    /// Whether a word that is longer than a line is broken.
    tight: bool,
}

impl Page {
    /// An empty page in a style.
    pub(crate) fn new(style: &Style) -> Page {
        let Style { color, width, full_names } = *style;
        Page { text: String::new(), color, width, full_names, shortened: false, tight: false }
    }

    /// An empty page of which no paragraph is wider than it, whatever the words.
    pub(crate) fn tight(style: &Style) -> Page {
        Page { tight: true, ..Page::new(style) }
    }

    /// The columns for names where there would be so many: all that it takes, where names are whole.
    pub(crate) fn room(&self, columns: usize) -> usize {
        if self.full_names { usize::MAX } else { columns }
    }

    /// A function's name in at most `width` columns, unless names are asked for whole; `behind`: what
    /// stands behind it and tells it from others (` (libc.so.6)`).
    pub(crate) fn name(&mut self, name: &str, behind: &str, width: usize) -> String {
        if self.full_names || name.width() + behind.width() <= width {
            return format!("{name}{behind}");
        }
        self.shortened = true;
        let behind = cut(behind, width / 3);
        let name = shorten(name, width.saturating_sub(behind.width()));
        name + &behind
    }

    /// Says how to see names whole, where some were shortened.
    pub(crate) fn note_shortened(&mut self, mark: &str) {
        if self.shortened {
            let said = "names are shortened (<…>, (…), …): --full-names shows them whole";
            self.wrap(DIM, mark, said);
        }
    }

    /// The whole text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// The text in a colour, where there is colour.
    pub(crate) fn paint(&self, style: anstyle::Style, text: &str) -> String {
        if self.color && style != PLAIN && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_string()
        }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    /// Adds a paragraph behind a mark, its further lines indented as far as the mark is wide.
    pub(crate) fn wrap(&mut self, style: anstyle::Style, mark: &str, text: &str) {
        let indent = mark.width();
        let mut line = mark.to_string();
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

/// A word in pieces of at most so many columns: names of C++ can be longer than a line.
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
        let Some(end) = end else { break };
        // Behind a separator rather than anywhere.
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
/// [`shorten`]: super::names::shorten
pub(crate) fn fit(text: &str, width: usize) -> String {
    if width == 0 {
        return String::new();
    }
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

/// Pads a figure to a width, at its left; a figure that is wider is never cut, as the rest would be
/// another one.
pub(crate) fn align(figure: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(figure.width())) + figure
}

/// The columns that the widest of some figures takes, and one between it and what is before it; at
/// least `least`.
pub(crate) fn column<'f>(figures: impl IntoIterator<Item = &'f str>, least: usize) -> usize {
    figures.into_iter().map(|figure| figure.width() + 1).fold(least, usize::max)
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
        assert_eq!(column(["1", "1,234"], 4), 6);
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
