//! A function by source line and by instruction, and the difference of a function of two builds.

pub mod difference;
mod json;

pub use json::json;
pub(super) use json::site as site_json;

use super::functions::short;
use opcost_analysis::annotation::{
    AnnotatedInstruction, AnnotatedLine, Annotation, InlinedLine, InlinedPart, Own,
};
use opcost_analysis::patch_sites::{PatchSite, SiteKind, patch_sites};
use opcost_base::number::{figure, grouped};
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table, Tone};
use opcost_page::names::shorten;
use opcost_profile::annotate::{SourceState, SourceText};
use opcost_record::Unit;

/// The most lines with code that are shown one by one, the dearest.
const LINES_SHOWN: usize = 150;
/// The most instructions that are shown below a line, the dearest.
const INSTRUCTIONS_SHOWN: usize = 16;
/// The instructions of a line with a smaller part of the function's cost are not shown.
const PART_MIN: f64 = 0.01;
/// The most lines of inlined code that are shown below a line, the dearest.
const INLINED_SHOWN: usize = 8;
/// Lines without code that are shown around a line with code.
const CONTEXT_LINES: u32 = 2;
/// Columns of a tab in a source.
const TAB: usize = 4;
/// The most sites for patchpoint that are shown, those that take most away.
pub(super) const SITES_SHOWN: usize = 3;
/// Columns of a function's name in a title.
const TITLE_NAME_WIDTH: usize = 60;
/// The most files that a note names.
const FILES_NAMED: usize = 3;

/// A function, and how its costs were measured.
pub struct View<'a> {
    /// The name of the profile.
    pub name: &'a str,
    /// The event.
    pub event: &'a str,
    /// The unit of costs.
    pub unit: Unit,
    /// Whether costs were counted, not sampled.
    pub counted: bool,
    /// The function.
    pub annotation: &'a Annotation,
}

impl View<'_> {
    fn figure(&self, own: &[Own]) -> String {
        match Annotation::cost(own) {
            0 => String::new(),
            cost => figure(cost as f64, self.unit),
        }
    }

    /// The part of the function's cost.
    fn share(&self, own: &[Own]) -> String {
        match (Annotation::cost(own), Annotation::cost(&self.annotation.own)) {
            (0, _) | (_, 0) => String::new(),
            (part, whole) => format!("{:.2} %", 100.0 * part as f64 / whole as f64),
        }
    }
}

/// The report of `opcost profile --annotate`; `full_names`: whether the title has the function's whole name.
pub fn document(view: &View<'_>, full_names: bool) -> Document {
    let annotation = view.annotation;
    let mut document = Document::titled(title(view, full_names));
    document.say(Mark::Note, summary(view));
    document.gap();
    let whole = Annotation::cost(&annotation.own);
    let mut dearest: Vec<usize> = (0..annotation.lines.len()).collect();
    dearest.sort_by_key(|at| u64::MAX - Annotation::cost(&annotation.lines[*at].own));
    let mut shown: Vec<usize> = dearest.into_iter().take(LINES_SHOWN).collect();
    shown.sort_unstable();
    let texts = Texts::of(annotation);
    let mut rows = Vec::new();
    let mut last: Option<(Option<usize>, u32)> = None;
    for at in &shown {
        let line = &annotation.lines[*at];
        context(&mut rows, annotation, &texts, last, line);
        let text = Cell::Source(texts.line(line.source, line.number));
        rows.push(Row { strong: true, ..row(number(line.number), view, &line.own, text) });
        for InlinedPart { function, own } in &line.parts {
            // One line that has all of it says more.
            let is_shown = |one: &InlinedLine| one.function == *function && one.own == *own;
            if Annotation::cost(own) > 0 && !line.inlined.iter().any(is_shown) {
                rows.push(row(Cell::Empty, view, own, inlined_part("  ", function)));
            }
        }
        if Annotation::cost(&line.own) as f64 >= PART_MIN * whole as f64 {
            let dear = |part: &&InlinedLine| Annotation::cost(&part.own) > 0;
            for part in line.inlined.iter().filter(dear).take(INLINED_SHOWN) {
                let text = inlined("  ", annotation, &part.function, part.place);
                rows.push(row(Cell::Empty, view, &part.own, text));
            }
            rows.extend(instructions(view, line));
        }
        last = Some((line.source, line.number));
    }
    let hidden = annotation.lines.len() - shown.len();
    document.table(Table {
        caption: None,
        columns: vec![
            Column::fixed("line"),
            Column::fixed("%"),
            Column::optional(if view.unit == Unit::Ns { "time" } else { "cost" }, 0),
            Column::fixed("source and instructions"),
        ],
        rows,
    });
    document.gap();
    notes(&mut document, [annotation], None);
    if hidden > 0 {
        let all = annotation.lines.iter().enumerate().filter(|(at, _)| !shown.contains(at));
        let rest: u64 = all.map(|(_, line)| Annotation::cost(&line.own)).sum();
        let part = 100.0 * rest as f64 / whole.max(1) as f64;
        let said = format!(
            "{} further lines have {part:.2} % of the function's cost; --json has all",
            grouped(hidden as u64)
        );
        document.say(Mark::Missing, said);
    }
    if !view.counted {
        let said = "a sample is charged to the instruction at which the program was interrupted, \
                    which can stand behind the one that took the time";
        document.say(Mark::Note, said);
    }
    document
}

fn title(view: &View<'_>, full_names: bool) -> String {
    let function = &view.annotation.function;
    let (symbol, module) = (titled(&function.symbol, full_names), short(&function.module));
    format!("{symbol} ({module}) · {} by line · {}", view.event, view.name)
}

/// A function's name in a title, of a width that leaves room for the rest.
fn titled(symbol: &str, full_names: bool) -> String {
    if full_names { symbol.into() } else { shorten(symbol, TITLE_NAME_WIDTH) }
}

/// The function's part of the whole, and its code.
fn summary(view: &View<'_>) -> String {
    let annotation = view.annotation;
    let (own, whole) = (Annotation::cost(&annotation.own), annotation.totals.iter().sum::<u64>());
    let samples: u64 = annotation.own.iter().map(|own| own.samples).sum();
    let mut facts = vec![format!(
        "{} of the profile, {}{}",
        if whole == 0 {
            "–".into()
        } else {
            format!("{:.2} %", 100.0 * own as f64 / whole as f64)
        },
        if own == 0 { "0".into() } else { view.figure(&annotation.own) },
        match samples {
            0 => String::new(),
            1 => " in 1 sample".into(),
            samples => format!(" in {} samples", grouped(samples)),
        }
    )];
    if annotation.instructions > 0 {
        facts.push(format!("{} instructions", grouped(annotation.instructions as u64)));
    }
    if let Some(main) = annotation.main {
        facts.push(annotation.sources[main].path.clone());
    }
    facts.join("; ")
}

fn number(number: u32) -> Cell {
    if number == 0 { Cell::text("–") } else { Cell::text(number.to_string()) }
}

fn row(first: Cell, view: &View<'_>, own: &[Own], text: Cell) -> Row {
    let figures = [view.share(own), view.figure(own)].map(Cell::figure);
    let [share, cost] = figures;
    Row::of(vec![first, share, cost, text])
}

/// A source file with the folder that it is in.
fn file(annotation: &Annotation, source: usize) -> &str {
    let path = annotation.sources[source].path.as_str();
    let before = path.rmatch_indices('/').nth(1);
    before.map_or(path, |(at, _)| &path[at + 1..])
}

/// Adds lines without code between the last line and this one.
fn context(
    rows: &mut Vec<Row>,
    annotation: &Annotation,
    texts: &Texts<'_>,
    last: Option<(Option<usize>, u32)>,
    line: &AnnotatedLine,
) {
    let quiet = |first: Cell, text: String| {
        Row::toned(Tone::Quiet, vec![first, Cell::Empty, Cell::Empty, Cell::Source(text)])
    };
    if last.is_some_and(|(source, _)| source != line.source)
        || last.is_none() && line.source != annotation.main
    {
        let path = line.source.map(|source| format!("in {}", file(annotation, source)));
        let path = path.unwrap_or_else(|| "instructions without a line".into());
        rows.push(quiet(Cell::text("…"), path));
        return;
    }
    let Some((_, last)) = last else { return };
    let between = last + 1..line.number;
    if between.is_empty() || annotation.text(line.source, between.start).is_none() {
        return;
    }
    let whole = between.len() as u32 <= 2 * CONTEXT_LINES + 1;
    for number in between.clone() {
        let from_last = number - between.start;
        let to_next = between.end - 1 - number;
        if whole || from_last < CONTEXT_LINES || to_next < CONTEXT_LINES {
            rows.push(quiet(Cell::text(number.to_string()), texts.line(line.source, number)));
        } else if from_last == CONTEXT_LINES {
            rows.push(quiet(Cell::text("…"), String::new()));
        }
    }
}

/// The dearest instructions of a line, by address.
fn instructions(view: &View<'_>, line: &AnnotatedLine) -> Vec<Row> {
    let cost = |at: usize| Annotation::cost(&line.instructions[at].own);
    let dear: Vec<usize> = (0..line.instructions.len()).filter(|at| cost(*at) > 0).collect();
    // Instructions without cost show what the dear ones belong to, the nearest best.
    let distance = |at: usize| {
        let behind = dear.partition_point(|dear| *dear < at);
        let around = dear[behind.saturating_sub(1)..].iter().take(2);
        around.map(|dear| dear.abs_diff(at)).min().unwrap_or(at)
    };
    let mut order: Vec<usize> = (0..line.instructions.len()).collect();
    order.sort_by_key(|at| (u64::MAX - cost(*at), distance(*at)));
    let (shown, rest) = order.split_at(order.len().min(INSTRUCTIONS_SHOWN));
    let mut shown = shown.to_vec();
    shown.sort_unstable();
    let mut rows: Vec<Row> = shown
        .iter()
        .map(|at| &line.instructions[*at])
        .map(|one| row(Cell::Empty, view, &one.own, text("    ", one)))
        .collect();
    if !rest.is_empty() {
        let own = |at: &usize| Own { cost: cost(*at), ..Own::default() };
        let sum: Vec<Own> = rest.iter().map(own).collect();
        let said = format!("    … {} more instructions", grouped(rest.len() as u64));
        rows.push(row(Cell::Empty, view, &sum, Cell::Source(said)));
    }
    rows
}

/// A function that was inlined.
fn inlined_part(indent: &str, function: &str) -> Cell {
    Cell::Inlined(format!("{indent}↳ "), function.into(), " inlined".into())
}

/// A line of inlined code: its function, its number and its text.
fn inlined(
    indent: &str,
    annotation: &Annotation,
    function: &str,
    (source, number): (usize, u32),
) -> Cell {
    let text = annotation.text(Some(source), number).map(expanded).unwrap_or_default();
    let text = text.trim();
    let gap = if text.is_empty() { "" } else { "  " };
    Cell::Inlined(format!("{indent}↳ "), function.into(), format!(":{number}{gap}{text}"))
}

/// An instruction, and the function from which it was inlined.
fn text(indent: &str, instruction: &AnnotatedInstruction) -> Cell {
    let code = match instruction.code.text.as_str() {
        "" => format!("{:#x}", instruction.address),
        text => text.to_string(),
    };
    match &instruction.inlined {
        Some((function, place)) => {
            let behind = place.map_or(")".into(), |(_, line)| format!(":{line})"));
            Cell::Inlined(format!("{indent}{code}  ("), function.clone(), behind)
        }
        None => Cell::Source(format!("{indent}{code}")),
    }
}

/// The texts of a function's lines, without the indent that all have.
struct Texts<'a> {
    annotation: &'a Annotation,
    indent: usize,
}

impl<'a> Texts<'a> {
    fn of(annotation: &'a Annotation) -> Texts<'a> {
        let numbers = annotation.range().map_or(0..0, |(first, last)| first..last + 1);
        let texts = numbers.filter_map(|number| annotation.text(annotation.main, number));
        let indent = texts.map(expanded).filter(|text| !text.trim().is_empty());
        let indent = indent.map(|text| text.len() - text.trim_start().len()).min();
        Texts { annotation, indent: indent.unwrap_or(0) }
    }

    fn line(&self, source: Option<usize>, number: u32) -> String {
        let text = self.annotation.text(source, number).map(expanded).unwrap_or_default();
        match text.split_at_checked(self.indent) {
            Some((indent, rest)) if indent.trim().is_empty() => rest.into(),
            _ => text,
        }
    }
}

/// A line with spaces in place of tabs.
fn expanded(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut column = 0;
    for char in line.trim_end().chars() {
        let width = if char == '\t' { TAB - column % TAB } else { 1 };
        match char {
            '\t' => text.extend(std::iter::repeat_n(' ', width)),
            char => text.push(char),
        }
        column += width;
    }
    text
}

/// Adds why lines or their texts are missing; `of`: the names of the sides, if there are two.
fn notes<const N: usize>(
    document: &mut Document,
    annotations: [&Annotation; N],
    of: Option<[&str; N]>,
) {
    for (at, annotation) in annotations.into_iter().enumerate() {
        let side = of.as_ref().map_or(String::new(), |names| format!("{}: ", names[at]));
        if annotation.main.is_none() {
            let said =
                "no debug information gives lines; compile with -g, or install the debug symbols";
            document.say(Mark::Missing, format!("{side}{said}"));
        }
        if annotation.instructions == 0 {
            let said = "the lines are those that the profile names; it has no addresses of instructions, or their program is not here";
            document.say(Mark::Missing, format!("{side}{said}"));
        } else if !annotation.is_disassembled {
            let said = "opcost disassembles 64-bit x86 and 64-bit ARM only";
            document.say(Mark::Missing, format!("{side}{said}"));
        }
        for site in patch_sites(annotation).iter().take(SITES_SHOWN) {
            let source = site
                .place
                .and_then(|(file, line)| Some((annotation.sources.get(file)?.path.as_str(), line)));
            document.say(Mark::Note, format!("{side}{}", patchable(site, source, "")));
        }
        let mut used: Vec<usize> = annotation.lines.iter().filter_map(|line| line.source).collect();
        used.sort_unstable();
        used.dedup();
        let mut told: Vec<&str> = Vec::new();
        for source in &used {
            let Some((mark, words)) = about(&annotation.sources[*source]) else { continue };
            if told.contains(&words) {
                continue;
            }
            told.push(words);
            let same = |source: &&usize| {
                about(&annotation.sources[**source]).is_some_and(|(_, other)| other == words)
            };
            let files: Vec<&str> = used
                .iter()
                .filter(same)
                .map(|source| annotation.sources[*source].path.as_str())
                .collect();
            let more = match files.len().saturating_sub(FILES_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let files = files.into_iter().take(FILES_NAMED).collect::<Vec<_>>().join(", ");
            document.say(mark, format!("{side}{files}{more}: {words}"));
        }
    }
}

/// Reports what a key of patchpoint would take away; `place`: the file and the line; `inside`: the function, if nothing else names
/// it.
pub(super) fn patchable(site: &PatchSite, place: Option<(&str, u32)>, inside: &str) -> String {
    let place = place.map_or_else(
        || format!("{:#x}", site.address),
        |(path, line)| format!("{}:{line}", short(path)),
    );
    let times = grouped(site.executions);
    let removed = match site.removed {
        0 => "no instruction".into(),
        removed => format!("{} instructions", grouped(removed)),
    };
    let said = match &site.kind {
        SiteKind::Branch(flag) => {
            format!(
                "the branch on {flag} at {place}{inside} went one way in all {times} executions; as a key it takes {removed} away"
            )
        }
        SiteKind::Call(target) => format!(
            "the indirect call at {place}{inside} went to {target} in all {times} executions; as a key it is direct and takes {removed} away"
        ),
        SiteKind::Value(variable) => format!(
            "{variable}, loaded {times} times at {place}{inside}, cannot change; as a key it takes {times} loads and {removed} away"
        ),
    };
    format!("patchpoint: {said}")
}

/// Why a source is not shown, or is not known to be the compiled one.
fn about(source: &SourceText) -> Option<(Mark, &'static str)> {
    match &source.state {
        SourceState::Checked | SourceState::Older => None,
        SourceState::Named => Some((
            Mark::Note,
            "taken from --source-root; no hash tells whether it is what was compiled",
        )),
        SourceState::Changed => Some((
            Mark::Doubt,
            "not what was compiled (its MD5 is another), so its text is not shown; give the folder with the compiled sources with --source-root",
        )),
        SourceState::Moved => Some((
            Mark::Doubt,
            "not what was compiled (its functions begin at other lines), so its text is not shown; give the folder with the compiled sources with --source-root",
        )),
        SourceState::Younger => Some((
            Mark::Doubt,
            "younger than the program, so its text is not shown; give the folder with the compiled sources with --source-root",
        )),
        SourceState::Undated => Some((
            Mark::Doubt,
            "the program is not here, so nothing tells whether this is what was compiled; give the folder with the compiled sources with --source-root",
        )),
        SourceState::Missing => {
            Some((Mark::Missing, "not found; give the folder with the sources with --source-root"))
        }
        SourceState::Unreadable(_) => Some((Mark::Missing, "cannot be read")),
    }
}

/// The word of a source's state for programs.
fn state(source: &SourceText) -> &'static str {
    match source.state {
        SourceState::Checked => "checked",
        SourceState::Older => "older",
        SourceState::Named => "named",
        SourceState::Changed => "changed",
        SourceState::Moved => "moved",
        SourceState::Younger => "younger",
        SourceState::Undated => "undated",
        SourceState::Missing => "missing",
        SourceState::Unreadable(_) => "unreadable",
    }
}
