//! Text that grows line by line, painted and wrapped for a terminal.

use super::Style;
use unicode_width::UnicodeWidthStr;

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
}

impl Page {
    /// An empty page in a style.
    pub(crate) fn new(style: &Style) -> Page {
        Page { text: String::new(), color: style.color, width: style.width }
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
        for word in text.split(' ').filter(|word| !word.is_empty()) {
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

/// Cuts or pads a text to a width.
pub(crate) fn fit(text: &str, width: usize, right: bool) -> String {
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
    let pad = " ".repeat(width.saturating_sub(used));
    if right { pad + &cut } else { cut + &pad }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_and_padded_by_columns() {
        assert_eq!(fit("abc", 5, false), "abc  ");
        assert_eq!(fit("abc", 5, true), "  abc");
        assert_eq!(fit("abcdef", 5, true), "abcd…");
        assert_eq!(fit("测量五次", 5, false), "测量…");
        assert_eq!(fit("", 2, true), "  ");
        assert_eq!(fit("abc", 0, true), "");
    }

    #[test]
    fn paragraphs_stay_within_the_width() {
        let mut page = Page::new(&Style { color: false, width: 60 });
        page.wrap(RED, "→ ", &"word ".repeat(30));
        page.wrap(RED, "→ ", &"x".repeat(90));
        let text = page.into_text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[..lines.len() - 1].iter().all(|line| line.width() <= 60), "{text}");
        assert!(lines[0].starts_with("→ word") && lines[1].starts_with("  word"), "{text}");
        // A word longer than the line is kept whole.
        assert_eq!(lines.last().map(|line| line.width()), Some(92));
    }
}
