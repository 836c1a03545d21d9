//! A report as data: what it says, without how a format shows it.

use std::collections::BTreeSet;

/// A report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The parts in reading order.
    pub blocks: Vec<Block>,
    /// The answer: first where a reader begins at the top, last on a terminal.
    pub answer: Vec<Paragraph>,
    /// The head of the report as a mail.
    pub mail: Option<MailHead>,
    /// Long names that sentences quote: text shortens them there, as they stand whole elsewhere.
    pub quoted: BTreeSet<String>,
}

/// The head of a mail.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MailHead {
    /// The subject.
    pub subject: String,
    /// Names and addresses of people who get a copy.
    pub cc: Vec<String>,
    /// Lines at the end, which programs read.
    pub trailers: Vec<String>,
}

/// A part of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The title of the whole.
    Title(String),
    /// The begin of a section, with its heading if it has one.
    Section(Option<String>),
    /// A sentence or several.
    Paragraph(Paragraph),
    /// A table.
    Table(Table),
    /// Lines that are kept as they are.
    Code(Code),
    /// Two codes, side by side where both fit, otherwise as a difference.
    Sides(Vec<Sides>),
    /// A row of values as bars.
    Figure(Vec<Option<f64>>),
    /// Points over a number, with a curve.
    Plot(Plot),
    /// Parts that a reader may skip, under a summary.
    Fold(String, Vec<Block>),
}

/// Points over a number, with a curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// What the horizontal axis has.
    pub across: String,
    /// What the vertical axis has, with its unit.
    pub upwards: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// Points of the curve, from left to right; empty for none.
    pub curve: Vec<(f64, f64)>,
    /// The lowest and the highest value that is shown; points beyond stand at the edge.
    pub shown: (f64, f64),
    /// The texts of the ends of both axes: left, right, low, high.
    pub ends: [String; 4],
    /// Whether the axes are logarithmic: across, upwards.
    pub logarithmic: [bool; 2],
}

/// A sentence or several.
#[derive(Clone, Debug, PartialEq)]
pub struct Paragraph {
    /// The role of the paragraph.
    pub mark: Mark,
    /// The mood of the paragraph.
    pub tone: Tone,
    /// The words.
    pub text: Vec<Span>,
}

/// A piece of a paragraph.
#[derive(Clone, Debug, PartialEq)]
pub enum Span {
    /// Words.
    Words(String),
    /// A command or a trailer, to be copied.
    Code(String),
}

/// The role of a paragraph.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mark {
    /// Text like any other.
    #[default]
    None,
    /// A note on what stands above.
    Note,
    /// An answer.
    Conclusion,
    /// A doubt.
    Doubt,
    /// A missing part.
    Missing,
    /// An observation that decides nothing.
    Observation,
    /// An item of a list, below so many others.
    Item(usize),
}

/// The mood of a text: a colour on a terminal, a class in HTML.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tone {
    /// None.
    #[default]
    Plain,
    /// Less important.
    Quiet,
    /// More important, neither good nor bad.
    Strong,
    /// Worse than the baseline.
    Worse,
    /// Better than the baseline.
    Better,
    /// Not sure.
    Unsure,
}

/// Lines that are kept as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    /// The language, as Markdown's fences name it: `sh`, `diff`.
    pub language: &'static str,
    /// The lines; the first character of a line of a `diff` is its mark.
    pub lines: Vec<String>,
}

/// A line of each of two codes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sides {
    /// The line of the first code, if it has one here.
    pub first: Option<String>,
    /// The line of the second code.
    pub second: Option<String>,
    /// Whether both lines say the same; the second is shown where one line is.
    pub is_same: bool,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A line above the table in HTML.
    pub caption: Option<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with a cell for every column.
    pub rows: Vec<Row>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The heading.
    pub head: Head,
    /// The column's fate on a narrow page.
    pub place: ColumnPlace,
}

/// The heading of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Head {
    /// A word of opcost.
    Word(String),
    /// A user's name for one of the things compared; if it is too long, text has a letter and a legend.
    Name(String),
}

/// A column's fate on a narrow page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ColumnPlace {
    /// It stays.
    Fixed,
    /// It is left out; the column with the lowest number goes first.
    Optional(u8),
    /// Its cells have a few words and stand behind the others, in place of optional columns; on a narrow page, they stand below.
    Note,
    /// Its cells stand behind the others where there is room, otherwise on lines below.
    Below,
}

/// A row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The cells.
    pub cells: Vec<Cell>,
    /// The mood of the row's figures.
    pub tone: Tone,
    /// Whether the row is the sum of others, or the one that matters.
    pub strong: bool,
    /// How deep the row stands below the row that it is a part of.
    pub depth: usize,
    /// Whether text leaves out the cells of the columns that stand below ([`ColumnPlace::Below`]).
    pub brief: bool,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// Nothing to say.
    #[default]
    Empty,
    /// Words, broken into lines where they are long.
    Text(String),
    /// A title by somebody else; cut at its end where it is long.
    Brief(String),
    /// A figure: never cut, aligned on the right.
    Figure(String),
    /// A figure with its spread, which is left out on a narrow page.
    Spread(String, String),
    /// A function, and the text behind it that tells it from others (` (libc.so.6)`).
    Name(String, String),
    /// A file; the beginning of a library's name is kept.
    File(String),
    /// A verdict: never cut.
    Verdict(Verdict),
    /// Names behind an arrow, each with its remark; as many as fit.
    List(&'static str, Vec<(String, String)>),
    /// A part of a cost, and the callers by which it comes, the nearest first. The only cell of its row: it takes the row's lines.
    Chain(String, Vec<String>),
    /// Code, to be copied.
    Code(String),
    /// A line of a program: it keeps its indent, and is cut at its end where it is long.
    Source(String),
    /// A line that names inlined code: what stands before the function's name; the name, which is shortened to the room; and what
    /// stands behind, which is cut where it is long.
    Inlined(String, String, String),
}

/// A verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The sign in front of the word; empty for none.
    pub sign: &'static str,
    /// The word.
    pub word: String,
    /// The mood.
    pub tone: Tone,
}

impl Document {
    /// An empty report with its title.
    pub fn titled(title: impl Into<String>) -> Document {
        Document { blocks: vec![Block::Title(title.into())], ..Document::default() }
    }

    /// Begins a section without a heading.
    pub fn gap(&mut self) {
        // Two gaps are one.
        if self.blocks.last() != Some(&Block::Section(None)) {
            self.blocks.push(Block::Section(None));
        }
    }

    /// Begins a section.
    pub fn section(&mut self, heading: impl Into<String>) {
        if self.blocks.last() == Some(&Block::Section(None)) {
            self.blocks.pop();
        }
        self.blocks.push(Block::Section(Some(heading.into())));
    }

    /// Adds a paragraph with a role; the tone is that of the role.
    pub fn say(&mut self, mark: Mark, text: impl Into<String>) {
        let tone = mark.tone();
        self.say_in(mark, tone, text);
    }

    /// Adds a paragraph with a role and a tone.
    pub fn say_in(&mut self, mark: Mark, tone: Tone, text: impl Into<String>) {
        let text = vec![Span::Words(text.into())];
        self.blocks.push(Block::Paragraph(Paragraph { mark, tone, text }));
    }

    /// Adds a sentence to the answer, with the command or the line behind its first colon as code.
    pub fn answer(&mut self, mark: Mark, tone: Tone, sentence: &str) {
        let text = match sentence.split_once(": ") {
            Some((words, code)) if mark == Mark::None => {
                vec![Span::Words(format!("{words}: ")), Span::Code(code.into())]
            }
            _ => vec![Span::Words(sentence.into())],
        };
        self.answer.push(Paragraph { mark, tone, text });
    }

    /// Adds a paragraph that ends with code.
    pub fn say_code(&mut self, mark: Mark, words: impl Into<String>, code: impl Into<String>) {
        let text = vec![Span::Words(words.into()), Span::Code(code.into())];
        self.blocks.push(Block::Paragraph(Paragraph { mark, tone: mark.tone(), text }));
    }

    /// Adds a table, unless it has no row.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds a plot.
    pub fn plot(&mut self, plot: Plot) {
        self.blocks.push(Block::Plot(plot));
    }

    /// Adds rows without headings: a word or a figure, and a sentence about it.
    pub fn rows(&mut self, rows: impl IntoIterator<Item = Vec<Cell>>) {
        let rows: Vec<Row> = rows.into_iter().map(Row::of).collect();
        let columns = rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let columns = (0..columns).map(|_| Column::fixed("")).collect();
        self.table(Table { caption: None, columns, rows });
    }

    /// Adds a command to repeat something, or other lines to copy.
    pub fn code(&mut self, language: &'static str, lines: Vec<String>) {
        self.blocks.push(Block::Code(Code { language, lines }));
    }

    /// Adds parts under a summary, unless there are none.
    pub fn fold(&mut self, summary: impl Into<String>, parts: Document) {
        if !parts.blocks.is_empty() {
            self.blocks.push(Block::Fold(summary.into(), parts.blocks));
        }
    }

    /// Adds the parts of another report.
    pub fn append(&mut self, other: Document) {
        self.blocks.extend(other.blocks);
        self.quoted.extend(other.quoted);
    }

    /// The names and figures that every format shows: cells of columns that stay, and the words of sentences that have a digit.
    pub fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        gather(&self.blocks, &mut facts);
        let answer: Vec<Block> = self.answer.iter().cloned().map(Block::Paragraph).collect();
        gather(&answer, &mut facts);
        facts
    }
}

fn gather(blocks: &[Block], facts: &mut Vec<String>) {
    for block in blocks {
        match block {
            Block::Title(text) => words(text, facts),
            Block::Section(heading) => words(heading.as_deref().unwrap_or_default(), facts),
            Block::Paragraph(paragraph) => paragraph.text.iter().for_each(|span| match span {
                Span::Words(text) | Span::Code(text) => words(text, facts),
            }),
            Block::Table(table) => {
                for row in &table.rows {
                    let cells = row.cells.iter().zip(&table.columns);
                    let fixed = cells.filter(|(_, column)| column.place == ColumnPlace::Fixed);
                    for (cell, _) in fixed {
                        match cell {
                            Cell::Figure(text) | Cell::Spread(text, _) => facts.push(text.clone()),
                            Cell::Name(name, behind) => {
                                facts.push(name.clone());
                                facts.push(behind.trim().to_string());
                            }
                            Cell::Verdict(verdict) => facts.push(verdict.word.clone()),
                            Cell::Text(text) => words(text, facts),
                            Cell::Chain(part, names) => {
                                facts.push(part.clone());
                                facts.extend(names.iter().cloned());
                            }
                            Cell::Brief(_)
                            | Cell::File(_)
                            | Cell::List(..)
                            | Cell::Code(_)
                            | Cell::Source(_)
                            | Cell::Inlined(..) => {}
                            Cell::Empty => {}
                        }
                    }
                }
            }
            Block::Code(code) => code.lines.iter().for_each(|line| words(line, facts)),
            Block::Sides(lines) => {
                unified(lines).into_iter().for_each(|(_, line)| words(line, facts));
            }
            Block::Figure(_) => {}
            Block::Plot(plot) => facts.extend(plot.ends.iter().cloned()),
            Block::Fold(summary, blocks) => {
                words(summary, facts);
                gather(blocks, facts);
            }
        }
    }
    facts.retain(|fact| !fact.is_empty());
}

/// Two codes as one below the other: each line with the mark of a difference (` `, `-`, `+`), removed lines before added ones.
pub fn unified(lines: &[Sides]) -> Vec<(char, &str)> {
    let mut all = Vec::new();
    let mut added: Vec<(char, &str)> = Vec::new();
    for Sides { first, second, is_same } in lines {
        if *is_same {
            all.append(&mut added);
            all.extend(second.as_deref().map(|line| (' ', line)));
        } else {
            all.extend(first.as_deref().map(|line| ('-', line)));
            added.extend(second.as_deref().map(|line| ('+', line)));
        }
    }
    all.append(&mut added);
    all
}

fn words(text: &str, facts: &mut Vec<String>) {
    let digits = |word: &&str| word.bytes().any(|byte| byte.is_ascii_digit());
    facts.extend(text.split_whitespace().filter(digits).map(str::to_string));
}

impl Mark {
    /// The tone of paragraphs with this role.
    pub fn tone(self) -> Tone {
        match self {
            Mark::None | Mark::Missing | Mark::Item(_) => Tone::Plain,
            Mark::Note | Mark::Observation => Tone::Quiet,
            Mark::Conclusion => Tone::Strong,
            Mark::Doubt => Tone::Unsure,
        }
    }
}

impl Column {
    /// A column that stays, under a word.
    pub fn fixed(head: impl Into<String>) -> Column {
        Column { head: Head::Word(head.into()), place: ColumnPlace::Fixed }
    }

    /// A column that stays, under a user's name.
    pub fn named(head: impl Into<String>) -> Column {
        Column { head: Head::Name(head.into()), place: ColumnPlace::Fixed }
    }

    /// A column that a narrow page leaves out.
    pub fn optional(head: impl Into<String>, priority: u8) -> Column {
        Column { head: Head::Word(head.into()), place: ColumnPlace::Optional(priority) }
    }

    /// A column of a few words about the rows.
    pub fn note(head: impl Into<String>) -> Column {
        Column { head: Head::Word(head.into()), place: ColumnPlace::Note }
    }

    /// A column whose cells a narrow page shows below.
    pub fn below(head: impl Into<String>) -> Column {
        Column { head: Head::Word(head.into()), place: ColumnPlace::Below }
    }
}

impl Head {
    /// The heading whole.
    pub fn text(&self) -> &str {
        match self {
            Head::Word(text) | Head::Name(text) => text,
        }
    }
}

impl Row {
    /// A row like any other.
    pub fn of(cells: Vec<Cell>) -> Row {
        Row { cells, ..Row::default() }
    }

    /// A row whose figures have a tone.
    pub fn toned(tone: Tone, cells: Vec<Cell>) -> Row {
        Row { cells, tone, ..Row::default() }
    }

    /// The sum of other rows.
    pub fn sum(cells: Vec<Cell>) -> Row {
        Row { cells, strong: true, ..Row::default() }
    }
}

impl Cell {
    /// A figure; nothing for an empty text.
    pub fn figure(text: impl Into<String>) -> Cell {
        let text = text.into();
        if text.is_empty() { Cell::Empty } else { Cell::Figure(text) }
    }

    /// Words; nothing for an empty text.
    pub fn text(text: impl Into<String>) -> Cell {
        let text = text.into();
        if text.is_empty() { Cell::Empty } else { Cell::Text(text) }
    }

    /// A verdict.
    pub fn verdict(sign: &'static str, word: impl Into<String>, tone: Tone) -> Cell {
        Cell::Verdict(Verdict { sign, word: word.into(), tone })
    }

    /// Whether the cell says nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Cell::Empty => true,
            Cell::List(_, names) => names.is_empty(),
            _ => false,
        }
    }

    /// Whether the cell holds a figure.
    pub fn is_figure(&self) -> bool {
        matches!(self, Cell::Figure(_) | Cell::Spread(..))
    }
}
