//! How to show a page on a terminal.

/// How to show a page on a terminal.
#[derive(Clone, Debug)]
pub struct Style {
    /// Whether to use colour.
    pub color: bool,
    /// The width in columns.
    pub width: usize,
    /// Whether names of functions are shown whole, however long.
    pub full_names: bool,
    /// Whether the terminal shows ASCII only.
    pub ascii: bool,
    /// Whether tables have every row, and not only those that answer.
    pub all: bool,
}

impl Style {
    /// No colour, 80 columns.
    pub fn plain() -> Style {
        Style { color: false, width: 80, full_names: false, ascii: false, all: false }
    }

    /// This style with whole, or with shortened, names of functions.
    pub fn with_full_names(self, full_names: bool) -> Style {
        Style { full_names, ..self }
    }

    /// This style with every row, or only those that answer.
    pub fn with_all(self, all: bool) -> Style {
        Style { all, ..self }
    }
}
