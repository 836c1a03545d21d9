//! A table in columns of text: which columns fit, how wide they are, and what stands below a row.

use super::text::paint;
use crate::document::{Cell, Column, ColumnPlace, Head, Row, Table, Tone};
use crate::names;
use crate::page::{BOLD, PLAIN, Page, align, fit};
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Columns between two columns.
const GAP: usize = 2;
/// The least width of the first column, unless all that stands in it is narrower.
const FIRST_WIDTH_MIN: usize = 16;
/// Optional columns are left out rather than that the first column is narrower than this.
const FIRST_WIDTH_GOOD: usize = 26;
/// Width of the first column, at most, in percent of the page.
const FIRST_WIDTH_PERCENT: usize = 45;
/// The least width of a last column of words.
const LAST_WIDTH_MIN: usize = 16;
/// The width that a user's name may give a column of narrower figures, and on a wide page.
const HEAD_WIDTH_MAX: usize = 12;
const HEAD_WIDTH_WIDE: usize = 24;
/// From this width on, a page is wide.
const WIDE_COLUMNS: usize = 110;
/// Maximum width of a name behind the first column.
const NAME_WIDTH_MAX: usize = 28;
/// Maximum width of a note of a few words.
const NOTE_WIDTH_MAX: usize = 32;
/// A name in a chain of callers begins another line rather than that it has less room than this.
const CHAIN_NAME_WIDTH_MIN: usize = 40;
/// The width of a part of a cost in front of callers.
const PART_WIDTH: usize = 9;
/// The least part of a line's room that the name of inlined code has, in percent, so that most of it is the source's.
const INLINED_NAME_PERCENT: usize = 40;
/// Maximum width of a file's name.
const FILE_WIDTH_MAX: usize = 14;

/// The columns that have a cell with content, by number.
pub(super) fn with_content(table: &Table) -> Vec<usize> {
    let filled = |at: &usize| table.rows.iter().any(|row| !row.cells[*at].is_empty());
    (0..table.columns.len()).filter(|at| *at == 0 || filled(at)).collect()
}

/// Whether a column is aligned on the right: it has figures.
pub(super) fn is_right(table: &Table, at: usize) -> bool {
    at > 0 && table.rows.iter().any(|row| row.cells[at].is_figure())
}

/// Adds a table, `indent` columns from the left.
pub(super) fn write(page: &mut Page, table: &Table, indent: usize) {
    let layout = Layout::of(page, table, indent);
    if let Some(legend) = &layout.legend {
        for line in legend {
            page.wrap(PLAIN, &" ".repeat(indent), line);
        }
    }
    for (number, part) in layout.parts(page).iter().enumerate() {
        if number > 0 {
            page.line("");
        }
        part.head(page);
        for row in &table.rows {
            part.row(page, row);
        }
    }
    page.note_shortened(&" ".repeat(indent));
}

/// A table as it stands on a page.
#[derive(Clone)]
struct Layout<'a> {
    table: &'a Table,
    indent: usize,
    /// The columns behind the first that are shown in rows.
    shown: Vec<usize>,
    /// The columns whose cells stand behind or below.
    below: Vec<usize>,
    /// The width of each column, by number.
    widths: Vec<usize>,
    /// The width of the figures of each column without their spread.
    values: Vec<usize>,
    spread: bool,
    heads: Vec<String>,
    legend: Option<Vec<String>>,
    /// Whether the last column that is shown has words, which are wrapped.
    is_wrapped: bool,
}

impl<'a> Layout<'a> {
    fn of(page: &Page, table: &'a Table, indent: usize) -> Layout<'a> {
        let filled = with_content(table);
        let of = |place: fn(&ColumnPlace) -> bool| {
            let of = filled
                .iter()
                .copied()
                .filter(move |at| *at > 0 && place(&table.columns[*at].place));
            of.collect::<Vec<usize>>()
        };
        let is_below =
            |place: &ColumnPlace| matches!(place, ColumnPlace::Note | ColumnPlace::Below);
        let below = of(is_below);
        let shown = of(|place| !matches!(place, ColumnPlace::Note | ColumnPlace::Below));
        let cells = |at: usize| table.rows.iter().map(move |row| (row, &row.cells[at]));
        let value = |at: usize, cell: &Cell| match cell {
            Cell::Chain(..) => 0,
            // Names behind the first column are shortened, unless names are shown whole.
            Cell::Name(name, behind) if at > 0 => {
                page.shown(&format!("{name}{behind}")).width().min(page.room(NAME_WIDTH_MAX))
            }
            cell => page.shown(&plain(cell)).width(),
        };
        let values: Vec<usize> = (0..table.columns.len())
            .map(|at| {
                cells(at)
                    .map(|(row, cell)| value(at, cell) + if at == 0 { 2 * row.depth } else { 0 })
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let spreads: Vec<usize> = (0..table.columns.len())
            .map(|at| cells(at).map(|(_, cell)| spread_width(page, cell)).max().unwrap_or(0))
            .collect();
        let (heads, legend) = heads(page, table, &values);
        let last = shown.last().copied();
        let mut layout = Layout {
            table,
            indent,
            is_wrapped: last.is_some_and(|at| {
                cells(at).all(|(_, cell)| {
                    let is_source = matches!(cell, Cell::Source(_) | Cell::Inlined(..));
                    is_source || matches!(cell, Cell::Text(_) | Cell::Brief(_) | Cell::Empty)
                })
            }),
            shown,
            below,
            widths: Vec::new(),
            values,
            spread: page.width >= WIDE_COLUMNS && spreads.iter().any(|width| *width > 0),
            heads,
            legend,
        };
        let natural = layout.values[0].max(layout.heads[0].width());
        let good = natural.min(FIRST_WIDTH_GOOD);
        // Short notes stand beside the row rather than that an optional column does.
        let beside = layout.short_notes(page);
        loop {
            layout.measure(&spreads);
            let fits = indent + good + layout.taken() + beside <= page.width;
            if fits || !layout.drop() {
                break;
            }
        }
        while indent + GAP + layout.taken() > page.width && layout.lower() {}
        layout.widths[0] = layout.first_width(page, natural);
        let first = layout.widths[0];
        if layout.is_wrapped
            && let Some(last) = last.filter(|at| layout.shown.contains(at))
        {
            let others = layout.taken() - layout.widths[last].min(LAST_WIDTH_MIN);
            layout.widths[last] =
                page.width.saturating_sub(indent + first + others).max(LAST_WIDTH_MIN);
        }
        layout
    }

    /// The width of the first column, which would have its `natural` width if there were room.
    fn first_width(&self, page: &Page, natural: usize) -> usize {
        let room = page.width.saturating_sub(self.indent + self.taken());
        let most = (page.width * FIRST_WIDTH_PERCENT / 100).max(FIRST_WIDTH_MIN);
        // Where not even a short name fits beside the figures, names stand on lines of their own.
        if room < natural.min(FIRST_WIDTH_MIN) { GAP } else { natural.min(room).min(most) }
    }

    /// The table in parts below one another, each with the first column, if its figures do not fit beside one another.
    fn parts(self, page: &Page) -> Vec<Layout<'a>> {
        if self.indent + GAP + self.taken() <= page.width || self.shown.len() < 2 {
            return vec![self];
        }
        let natural = self.values[0].max(self.heads[0].width());
        let mut columns: Vec<Vec<usize>> = Vec::new();
        let mut used = 0;
        for at in &self.shown {
            let width = GAP + self.widths[*at];
            if columns.is_empty() || used + width > page.width {
                columns.push(Vec::new());
                used = self.indent + natural.min(FIRST_WIDTH_MIN);
            }
            used += width;
            columns.last_mut().into_iter().for_each(|part| part.push(*at));
        }
        let last = columns.len() - 1;
        let part = |(number, shown): (usize, Vec<usize>)| {
            let below = if number == last { self.below.clone() } else { Vec::new() };
            let mut part = Layout { shown, below, is_wrapped: false, ..self.clone() };
            part.widths[0] = part.first_width(page, natural);
            part
        };
        columns.into_iter().enumerate().map(part).collect()
    }

    fn measure(&mut self, spreads: &[usize]) {
        let spread = |at: usize| if self.spread && spreads[at] > 0 { 1 + spreads[at] } else { 0 };
        self.widths = (0..self.table.columns.len())
            .map(|at| (self.values[at] + spread(at)).max(self.heads[at].width()))
            .collect();
    }

    /// The columns that all but the first column take; a last column of words takes its least width.
    fn taken(&self) -> usize {
        let last = self.shown.last();
        let width = |at: &usize| match self.is_wrapped && Some(at) == last {
            true => self.widths[*at].min(LAST_WIDTH_MIN),
            false => self.widths[*at],
        };
        self.shown.iter().map(|at| GAP + width(at)).sum()
    }

    /// The columns that notes of a few words take behind the others.
    fn short_notes(&self, page: &Page) -> usize {
        let width = |at: &usize| {
            let cells =
                self.table.rows.iter().map(|row| page.shown(&plain(&row.cells[*at])).width());
            GAP + cells.filter(|width| *width <= NOTE_WIDTH_MAX).max().unwrap_or(0)
        };
        let notes =
            self.below.iter().filter(|at| self.table.columns[**at].place == ColumnPlace::Note);
        notes.map(width).sum()
    }

    /// Leaves out the spreads, or else the least important column; false if everything else stays.
    fn drop(&mut self) -> bool {
        if std::mem::take(&mut self.spread) {
            return true;
        }
        let priority = |at: &usize| match self.table.columns[*at].place {
            ColumnPlace::Optional(priority) => Some(priority),
            ColumnPlace::Fixed | ColumnPlace::Note | ColumnPlace::Below => None,
        };
        let least =
            self.shown.iter().copied().filter(|at| priority(at).is_some()).min_by_key(priority);
        if least.is_some() && least == self.shown.last().copied() {
            self.is_wrapped = false;
        }
        self.shown.retain(|at| Some(*at) != least);
        least.is_some()
    }

    /// Moves a last column without figures below the rows, as nothing that stays is cut; false if there is none.
    fn lower(&mut self) -> bool {
        let last = self.shown.pop_if(|at| !is_right(self.table, *at));
        self.is_wrapped &= last.is_none();
        self.below.splice(..0, last);
        last.is_some()
    }

    fn head(&self, page: &mut Page) {
        let all = std::iter::once(&0).chain(&self.shown);
        if all.map(|at| self.heads[*at].as_str()).all(str::is_empty) {
            return;
        }
        let first = if self.heads[0].width() > self.widths[0] { "" } else { &self.heads[0] };
        let mut line = format!("{}{}", " ".repeat(self.indent), fit(first, self.widths[0]));
        for at in &self.shown {
            let head = &self.heads[*at];
            let width = self.widths[*at];
            line += &" ".repeat(GAP);
            match is_right(self.table, *at) {
                // A head stands above the figures, not above their spread.
                true => line += &fit(&align(head, self.values[*at].max(head.width())), width),
                false => line += &fit(head, width),
            }
        }
        let line = page.paint(BOLD, line.trim_end());
        page.line(&line);
    }

    fn row(&self, page: &mut Page, row: &Row) {
        if let Cell::Chain(part, names) = &row.cells[0] {
            return self.chain(page, row.depth, part, names);
        }
        let mut line = Line::new(self.indent);
        let indent = " ".repeat(2 * row.depth);
        let room = self.widths[0].saturating_sub(indent.width());
        let style = match &row.cells[0] {
            _ if row.strong => BOLD,
            Cell::Verdict(verdict) => paint(verdict.tone),
            _ => PLAIN,
        };
        match self.first(page, &row.cells[0], room) {
            Ok(label) => line.push(page, style, &format!("{indent}{label}")),
            // A long name stands on a line of its own.
            Err(whole) => {
                let room = page.width.saturating_sub(self.indent + indent.len());
                for part in page.own_lines(&whole, room) {
                    let part = page.paint(style, &part);
                    page.line(&format!("{}{indent}{part}", " ".repeat(self.indent)));
                }
            }
        }
        let mut column = self.indent + self.widths[0];
        let mut rest: Vec<String> = Vec::new();
        let last = self.shown.last();
        for at in &self.shown {
            let cell = &row.cells[*at];
            let width = self.widths[*at];
            column += GAP;
            let tone = match cell {
                Cell::Verdict(verdict) => verdict.tone,
                cell if cell.is_figure() => row.tone,
                _ => Tone::Plain,
            };
            let style = if row.strong && tone == Tone::Plain { BOLD } else { paint(tone) };
            let text = match cell {
                Cell::Spread(value, spread) if self.spread => {
                    let value = align(&page.shown(value), self.values[*at]);
                    format!(
                        "{value} {}",
                        align(&page.shown(spread), width.saturating_sub(self.values[*at] + 1))
                    )
                }
                Cell::Text(text) if self.is_wrapped && Some(at) == last => {
                    let mut lines = page.lines(&page.shown(text), width);
                    let first = if lines.is_empty() { String::new() } else { lines.remove(0) };
                    rest = lines;
                    first
                }
                Cell::Name(name, behind) => {
                    let name = page.name(name, behind, width);
                    page.shown(&name)
                }
                Cell::Brief(text) | Cell::Source(text) => {
                    fit(&page.shown(text), width).trim_end().to_string()
                }
                Cell::Inlined(before, name, behind) => {
                    let room = width.saturating_sub(before.width());
                    let beside = room.saturating_sub(behind.width());
                    let least = room * INLINED_NAME_PERCENT / 100;
                    let name = page.bare(name, beside.max(least));
                    let text = page.shown(&format!("{before}{name}{behind}"));
                    let width = page.room(width).min(text.width());
                    fit(&text, width)
                }
                cell if is_right(self.table, *at) => {
                    align(&page.shown(&plain(cell)), self.values[*at].max(self.heads[*at].width()))
                }
                cell => page.shown(&plain(cell)),
            };
            line.pad_to(column);
            line.push(page, style, &text);
            column += width;
        }
        for text in rest {
            line.end(page);
            line = Line::new(column - self.widths[*last.unwrap_or(&0)]);
            line.push(page, PLAIN, &text);
        }
        self.rest(page, row, line);
    }

    /// Writes callers behind a part of a cost, in as many lines as they take.
    fn chain(&self, page: &mut Page, depth: usize, part: &str, names: &[String]) {
        // At great depth, names need the room more than the indent.
        let indent = (self.indent + 2 * depth).min(page.width / 2);
        let part = align(&page.shown(part), PART_WIDTH);
        let begin = indent + part.width();
        let arrow = page.shown(" ← ");
        let mut line = format!("{}{part}", " ".repeat(indent));
        for name in names {
            let room = page.width.saturating_sub(line.width() + arrow.width());
            if room < name.width().min(CHAIN_NAME_WIDTH_MIN) && line.width() > begin {
                let painted = page.paint(paint(Tone::Quiet), &line);
                page.line(&painted);
                line = " ".repeat(begin);
            }
            let room = page.width.saturating_sub(line.width() + arrow.width());
            let name = page.name(name, "", room.max(FIRST_WIDTH_MIN));
            line += &(arrow.clone() + &page.shown(&name));
        }
        let painted = page.paint(paint(Tone::Quiet), &line);
        page.line(&painted);
    }

    /// Writes the cells that stand behind the others where they fit, otherwise below.
    fn rest(&self, page: &mut Page, row: &Row, mut line: Line) {
        let indent = self.indent + 4;
        let room = page.width.saturating_sub(indent);
        let below = if row.brief { &[][..] } else { &self.below[..] };
        for at in below {
            let text = match &row.cells[*at] {
                Cell::Empty => continue,
                Cell::List(_, names) if names.is_empty() => continue,
                Cell::List(arrow, names) => {
                    let arrow = page.shown(arrow);
                    let with_remarks = page.list(&arrow, names, room);
                    let bare = || {
                        names
                            .iter()
                            .map(|(name, _)| (name.clone(), String::new()))
                            .collect::<Vec<_>>()
                    };
                    if with_remarks.is_empty() {
                        page.list(&arrow, &bare(), room)
                    } else {
                        with_remarks
                    }
                }
                cell => plain(cell).into_owned(),
            };
            let tone = match &row.cells[*at] {
                Cell::Verdict(verdict) => verdict.tone,
                _ => Tone::Quiet,
            };
            let text = page.shown(&text);
            let fresh = line.is_fresh;
            if !fresh && line.width + GAP + text.width() <= page.width {
                line.pad_to(line.width + GAP);
                line.push(page, paint(tone), &text);
                continue;
            }
            line.end(page);
            let mut lines = page.lines(&text, room);
            let end = lines.pop().unwrap_or_default();
            for text in lines {
                let text = page.paint(paint(tone), &text);
                page.line(&format!("{}{text}", " ".repeat(indent)));
            }
            line = Line::new(indent);
            line.push(page, paint(tone), &end);
        }
        line.end(page);
    }

    /// The first cell in its column; `Err` if it needs a line of its own.
    fn first(&self, page: &mut Page, cell: &Cell, room: usize) -> Result<String, String> {
        let whole = page.width.saturating_sub(self.indent);
        match cell {
            Cell::Name(name, behind) => {
                let width = name.width() + behind.width();
                let narrow =
                    width <= room || names::fits(name, room.saturating_sub(behind.width()));
                let text = page.name(name, behind, if narrow { room } else { whole });
                let text = page.shown(&text);
                if text.width() <= room { Ok(text) } else { Err(text) }
            }
            cell => {
                let text = page.shown(&plain(cell));
                if text.width() <= room { Ok(text) } else { Err(text) }
            }
        }
    }
}

/// A line that grows piece by piece.
struct Line {
    text: String,
    width: usize,
    is_fresh: bool,
}

impl Line {
    fn new(indent: usize) -> Line {
        Line { text: " ".repeat(indent), width: indent, is_fresh: true }
    }

    fn push(&mut self, page: &Page, style: anstyle::Style, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let start = text.len() - text.trim_start().len();
        self.text += &text[..start];
        self.text += &page.paint(style, text[start..].trim_end());
        self.width += text.trim_end().width();
        self.is_fresh = false;
    }

    fn pad_to(&mut self, column: usize) {
        self.text += &" ".repeat(column.saturating_sub(self.width));
        self.width = self.width.max(column);
    }

    fn end(&mut self, page: &mut Page) {
        if !self.is_fresh {
            page.line(&self.text);
        }
        self.is_fresh = true;
    }
}

/// The headings, and the legend of the letters that stand for long names.
fn heads(page: &Page, table: &Table, values: &[usize]) -> (Vec<String>, Option<Vec<String>>) {
    let most = if page.width >= WIDE_COLUMNS { HEAD_WIDTH_WIDE } else { HEAD_WIDTH_MAX };
    let long = |(column, value): (&Column, &usize)| match &column.head {
        Head::Name(name) => page.shown(name).width() > most.max(*value),
        Head::Word(_) => false,
    };
    let letters = table.columns.iter().zip(values).any(long);
    let mut names: Vec<&str> = Vec::new();
    let mut legend = Vec::new();
    let heads = table.columns.iter().map(|column| match &column.head {
        Head::Name(name) if letters => {
            let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name);
                legend.push(format!("{}: {}", letter(names.len() - 1), page.shown(name)));
                names.len() - 1
            });
            letter(at)
        }
        head => page.shown(head.text()),
    });
    let heads: Vec<String> = heads.collect();
    (heads, letters.then_some(legend))
}

/// A, B, C …; a number from the 27th on.
fn letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(small) if small < 26 => char::from(b'A' + small).to_string(),
        _ => format!("[{}]", at + 1),
    }
}

/// A cell as one line, whole.
fn plain(cell: &Cell) -> Cow<'_, str> {
    match cell {
        Cell::Empty => "".into(),
        Cell::Text(text)
        | Cell::Brief(text)
        | Cell::Figure(text)
        | Cell::Code(text)
        | Cell::Source(text) => text.into(),
        Cell::Spread(value, _) => value.into(),
        Cell::Chain(part, names) => format!("{part} ← {}", names.join(" ← ")).into(),
        Cell::Name(name, behind) => format!("{name}{behind}").into(),
        Cell::Inlined(before, name, behind) => {
            format!("{before}{}{behind}", names::bare(name, usize::MAX)).into()
        }
        Cell::File(name) => names::file(name, FILE_WIDTH_MAX).into(),
        Cell::Verdict(verdict) if verdict.sign.is_empty() => (&verdict.word).into(),
        Cell::Verdict(verdict) => format!("{} {}", verdict.sign, verdict.word).into(),
        Cell::List(arrow, names) => {
            let names = names
                .iter()
                .map(|(name, remark)| format!("{name} {remark}").trim_end().to_string());
            format!("{arrow} {}", names.collect::<Vec<_>>().join(", ")).into()
        }
    }
}

fn spread_width(page: &Page, cell: &Cell) -> usize {
    match cell {
        Cell::Spread(_, spread) => page.shown(spread).width(),
        _ => 0,
    }
}
