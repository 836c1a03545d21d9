//! Where the change of the instructions comes from, and what differs between kernels, for people.

use super::page::{BOLD, DIM, PLAIN, Page, align, column, fit};
use super::{Style, function_table};
use opcost_analysis::comparison::cycles::causes_in_words;
use opcost_analysis::comparison::function_changes::exact_division;
use opcost_analysis::comparison::matching::{ModuleMatch, ModulePair};
use opcost_analysis::comparison::{
    CallerRow, Comparison, FunctionComparison, FunctionRow, FunctionVerdict, Sides, UNATTRIBUTED,
};
use opcost_base::number::{figure, grouped};
use opcost_record::printable::printable;
use opcost_record::{Unit, profile::KERNEL};
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr;

/// Counted functions shown one by one, at most; fewer if fewer explain the change.
const FUNCTIONS_SHOWN: usize = 40;
/// Sampled functions shown one by one, at most: behind the first few, samples differ by chance.
const SAMPLED_SHOWN: usize = 12;
/// Lines shown of a difference between two variants, at most.
const DIFFERENCES_SHOWN: usize = 20;
/// Minimum width of a function's name, in columns, and its maximum in percent of the page.
const NAME_WIDTH_MIN: usize = 16;
const NAME_WIDTH_PERCENT: usize = 45;
/// Width that a variant's name may give a column of narrower figures, with one column in front of the name.
const HEAD_WIDTH_MAX: usize = 9;
/// The indent of callers on a line of their own.
const CALLERS_INDENT: &str = "       ";
/// Width of a list of callers or callees where lines have no limit, and of a name in such a list.
pub(super) const LIST_WIDTH: usize = 120;
pub(super) const LISTED_NAME_WIDTH: usize = 80;
/// Maximum width of a name in a list of several.
const NAME_IN_LIST_WIDTH: usize = 40;
/// A name with less room is left out of a list.
const NAME_IN_LIST_WIDTH_MIN: usize = 12;
/// A smaller unattributed change, per operation, gets no line.
const REST_MIN: f64 = 0.05;

/// The functions of one comparison by counts, then by modelled cycles, then the commits that touched them.
pub(super) fn text(page: &mut Page, comparison: &Comparison, sides: [usize; 2]) {
    for functions in of(comparison, sides) {
        text_of(page, comparison, functions, sides);
    }
    commits_text(page, comparison, sides);
}

fn text_of(
    page: &mut Page,
    comparison: &Comparison,
    functions: &FunctionComparison,
    sides: [usize; 2],
) {
    page.line("");
    let parts = Parts::of(functions);
    // With several comparisons, the heading names the two variants.
    let whose = match comparison.comparisons.len() {
        1 => String::new(),
        _ => {
            let [baseline, variant] = sides.map(|side| &comparison.variants[side].name);
            format!("{variant} against {baseline}: ")
        }
    };
    if !functions.shifted() {
        page.wrap(DIM, "  ", &format!("{whose}{} by function: no shift found", parts.unit));
        return;
    }
    page.wrap(BOLD, "  ", &format!("{whose}where the {} come from", parts.heading()));
    let names = parts.rows.iter().map(|row| row.symbol.width() + behind(row).width());
    let others = parts.others_name();
    let width = names.chain([others.width(), UNATTRIBUTED.width()]).max().unwrap_or(0);
    let names = sides.map(|side| comparison.variants[side].name.as_str());
    let figures = parts.figures();
    let figure_widths = [0, 1, 2].map(|at| {
        let figures = figures.iter().map(|figures| figures[at].as_str());
        let name = if at < 2 { names[at] } else { "change" };
        // Two columns separate a figure from the next.
        1 + column(figures, (name.width() + 1).clamp("change ".len(), HEAD_WIDTH_MAX))
    });
    let mark_width = parts.rows.iter().map(|row| mark(row).width()).max().unwrap_or(0);
    let taken = 4 + figure_widths.iter().sum::<usize>() + 1 + mark_width;
    let room = (page.width * NAME_WIDTH_PERCENT / 100).min(page.width.saturating_sub(taken));
    let width = width.clamp(NAME_WIDTH_MIN, room.max(NAME_WIDTH_MIN));
    let cells = |figures: [&str; 3], mark: &str| {
        let figures = figures.into_iter().zip(figure_widths);
        let figures: String = figures.map(|(figure, width)| align(figure, width)).collect();
        format!("{figures} {}", fit(mark, mark_width))
    };
    let widths = [figure_widths[0], figure_widths[1]];
    let [one, two] = function_table::side_names(page, DIM, "    ", names, widths);
    let head = format!("    {}{}", fit("function", width), cells([one, two, "change"], ""));
    page.line(&page.paint(DIM, &head));
    let mut figures = figures.iter();
    let mut start = |page: &mut Page, name: &str, mark: &str| {
        let figures =
            figures.next().map_or([""; 3], |figures| figures.each_ref().map(String::as_str));
        let name = if name.width() > width {
            page.line(&format!("    {name}"));
            ""
        } else {
            name
        };
        (format!("    {}", fit(name, width)), cells(figures, mark))
    };
    for row in parts.rows {
        let shown = page.name(&row.symbol, &behind(row), width);
        let (name, figures) = start(page, &shown, &mark(row));
        let line = format!("{name}{}", page.paint(function_table::color(row), &figures));
        let from = callers(page, &row.callers, parts.decimals, page.width - CALLERS_INDENT.len());
        if name.width() + figures.width() + from.width() <= page.width {
            page.line(&format!("{line}{from}"));
        } else {
            page.line(&line);
            page.line(&page.paint(DIM, &format!("{CALLERS_INDENT}{from}")));
        }
        if let Some(causes) = causes(row) {
            page.line(&page.paint(DIM, &format!("{CALLERS_INDENT} of which {causes}")));
        }
    }
    for name in parts.rest_names() {
        let (name, figures) = start(page, &name, "");
        page.line(&format!("{name}{figures}"));
    }
    footnote(page, &parts);
    function_table::matching(page, "    ", functions, parts.rows, names);
    if let Some(covered) = covered(functions, parts.rows.len()) {
        page.wrap(DIM, "    ", &covered);
    }
    if let Some(division) = exact_division(functions) {
        page.wrap(DIM, "    ", &division);
    }
    if let Some(by) = &functions.sampled {
        page.wrap(DIM, "    ", &format!("estimated from {}", by.describe()));
    }
    if functions.modelled {
        page.wrap(DIM, "    ", MODELLED);
    }
}

/// The note below functions by modelled cycles.
const MODELLED: &str =
    "estimated by the model of a core; the note on model-cycles says how far off it may be";

/// The causes of a change of modelled cycles, in words; `None` for other figures.
fn causes(row: &FunctionRow) -> Option<String> {
    row.parts.as_deref().map(causes_in_words).filter(|causes| !causes.is_empty())
}

/// A heading with its lines.
type Headed = (String, Vec<String>);

/// Commits of a file that are shown one by one.
const COMMITS_SHOWN: usize = 5;

/// The commits that touched the files of kernel functions, as headings with their lines.
pub(super) fn commits(comparison: &Comparison, sides: [usize; 2]) -> Option<(String, Vec<Headed>)> {
    let mut all = comparison.kernel_commits.iter();
    let found = all.find(|found| [found.baseline, found.variant] == sides)?;
    let [old, new] = sides.map(|side| &comparison.variants[side].name);
    let heading = match &found.unknown {
        Some(why) => format!("source files of these functions; their commits are not known: {why}"),
        None => format!(
            "source files of these functions, and the commits {old} → {new} that touched them"
        ),
    };
    let files = found.files.iter().map(|file| {
        let functions = file.functions.iter().take(4).map(String::as_str).collect::<Vec<_>>();
        let more = if file.functions.len() > functions.len() { ", …" } else { "" };
        let count = match (found.unknown.is_some(), file.commits.len()) {
            (true, _) => String::new(),
            (_, 0) => ": no commit".into(),
            (_, 1) => ": 1 commit".into(),
            (_, many) => format!(": {} commits", grouped(many as u64)),
        };
        let title = format!("{} ({}{more}){count}", file.file, functions.join(", "));
        let line = |commit: &opcost_kernel::Commit| {
            let only = if commit.of_baseline { format!(" (in {old} only)") } else { String::new() };
            format!("{} {}{only}", commit.id, printable(&commit.subject))
        };
        let mut lines: Vec<String> = file.commits.iter().take(COMMITS_SHOWN).map(line).collect();
        let rest = file.commits.len().saturating_sub(COMMITS_SHOWN);
        if rest > 0 {
            lines.push(format!("… and {} more", grouped(rest as u64)));
        }
        (title, lines)
    });
    Some((heading, files.collect()))
}

/// Writes [`commits`] below the functions.
fn commits_text(page: &mut Page, comparison: &Comparison, sides: [usize; 2]) {
    let Some((heading, files)) = commits(comparison, sides) else { return };
    page.line("");
    page.wrap(BOLD, "  ", &heading);
    for (title, lines) in files {
        page.wrap(PLAIN, "    ", &title);
        for line in lines {
            page.wrap(DIM, "      ", &line);
        }
    }
}

/// How much of the change the first `named` functions explain; `None` if `named` is 0 or nothing changed.
pub(super) fn covered(functions: &FunctionComparison, named: usize) -> Option<String> {
    let share = functions.covered(named).filter(|_| named > 0)?;
    let who = match named {
        1 => "The function named above accounts".to_string(),
        _ => format!("The {} functions named above account", grouped(named as u64)),
    };
    // Rounded down, so that less than all is never shown as all.
    let share = (1000.0 * share).floor() / 10.0;
    Some(format!("{who} for {share:.1} % of the change (increases and decreases added up)."))
}

/// The meaning of `?`, and the reason for a change in few layouts, if a row has such a mark.
fn footnote(page: &mut Page, parts: &Parts<'_>) {
    let mut reasons: Vec<&str> = Vec::new();
    let few = parts.rows.iter().find(|row| row.verdict == FunctionVerdict::FewLayouts);
    if let Some(row) = few {
        page.wrap(DIM, "    ", &format!("{}: other layouts shift functions, too", row.reason));
    }
    for row in parts.rows.iter().filter(|row| mark(row).contains('?')) {
        let why = if row.reason.is_empty() { "no change found" } else { &row.reason };
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    if !reasons.is_empty() {
        page.wrap(DIM, "    ", &format!("?: not shown to be real ({})", reasons.join("; ")));
    }
}

/// The note that explains `≈`.
pub(super) const BY_NAME_ONLY: &str = "≈: matched by name only: the two builds have other symbols for \
                                       it, or several of one name that nothing tells apart";

/// How the files of both sides were matched, if their names do not show it: one sentence each.
pub(super) fn matching_notes(
    modules: &[ModulePair],
    unmatched: Option<&[String; 2]>,
    sides: [&str; 2],
) -> Vec<String> {
    let renamed = modules.iter().filter(|pair| short(&pair.baseline) != short(&pair.variant));
    let mut notes: Vec<String> = renamed
        .map(|pair| {
            let (old, new) = (short(&pair.baseline), short(&pair.variant));
            let why = match pair.by {
                ModuleMatch::Path | ModuleMatch::FileName => "",
                ModuleMatch::Told => " (--match)",
                ModuleMatch::Program => ", the programs that were measured",
                ModuleMatch::Soname => ", which have one soname",
                ModuleMatch::Stem => ", whose names differ in the version",
            };
            format!("compared as one file: {old} ({}) and {new} ({}){why}", sides[0], sides[1])
        })
        .collect();
    if let Some([old, new]) = unmatched {
        let (old, new) = (short(old), short(new));
        notes.push(format!(
            "nothing matches {old} ({}) or {new} ({}); if they are the same, say --match {old}={new}",
            sides[0], sides[1]
        ));
    }
    notes
}

/// The short name of a module: a file's name without its folder.
pub(super) fn short(module: &str) -> &str {
    if module.starts_with('[') { module } else { module.rsplit('/').next().unwrap_or(module) }
}

/// The functions of one comparison as a Markdown table; nothing if there is no shift.
pub(super) fn markdown(
    text: &mut String,
    comparison: &Comparison,
    sides: [usize; 2],
    escape: fn(&str) -> String,
    style: &Style,
) {
    for table in tables(comparison, sides, style) {
        table_markdown(text, comparison, sides, escape, table);
    }
    if let Some((heading, files)) = commits(comparison, sides) {
        let _ = writeln!(text, "\n{}:\n", escape(&heading));
        for (title, lines) in files {
            let _ = writeln!(text, "- {}", escape(&title));
            for line in lines {
                let _ = writeln!(text, "  - {}", escape(&line));
            }
        }
    }
}

fn table_markdown(
    text: &mut String,
    comparison: &Comparison,
    sides: [usize; 2],
    escape: fn(&str) -> String,
    table: Table,
) {
    let Table { heading, lines, covered, division, notes } = table;
    let [baseline, variant] = sides.map(|side| escape(&comparison.variants[side].name));
    let _ = writeln!(text, "\nWhere the {} come from:\n", escape(&heading));
    let _ = writeln!(text, "| function | {baseline} | {variant} | change | | called from |");
    text.push_str("|:---|---:|---:|---:|:---|:---|\n");
    for line in lines {
        let mark = line.words("**real**");
        let (name, from) = (escape(&line.name), escape(&line.callers));
        let [one, two, change] = &line.figures;
        let _ = writeln!(text, "| {name} | {one} | {two} | {change} | {mark} | {from} |");
    }
    for sentence in [covered, division].into_iter().flatten() {
        let _ = writeln!(text, "\n{}", escape(&sentence));
    }
    for note in notes {
        let _ = writeln!(text, "\n{}.", escape(&note));
    }
}

/// Where a change comes from, in words.
pub(super) struct Table {
    /// The total change with its unit.
    pub(super) heading: String,
    /// The functions that make up the change.
    pub(super) lines: Vec<Line>,
    /// The share of the change that the named functions explain, in words.
    pub(super) covered: Option<String>,
    /// The part of the change that is the same in every layout, in words.
    pub(super) division: Option<String>,
    /// How files were matched, if their names do not show it.
    pub(super) notes: Vec<String>,
}

/// One line of a table of functions, in words.
#[derive(Default)]
pub(super) struct Line {
    /// The function, or the words for a sum of functions.
    pub(super) name: String,
    /// The full name, if `name` is shortened.
    pub(super) whole: Option<String>,
    /// The own cost on both sides, and the change.
    pub(super) figures: [String; 3],
    /// `new`, `gone` or nothing.
    pub(super) age: &'static str,
    /// Whether the function was matched by its name only.
    pub(super) by_name_only: bool,
    /// Whether the change was shown to be real.
    pub(super) real: bool,
    /// Why the change was not shown to be real.
    pub(super) reason: String,
    /// The callers under which the function's cost changed.
    pub(super) callers: String,
}

impl Line {
    /// The words beside the figure; `real`: the word for a change that was shown to be real.
    pub(super) fn words(&self, real: &str) -> String {
        let matched = if self.by_name_only { "matched by name only" } else { "" };
        let real = if self.real { real } else { &self.reason };
        let words = [self.age, matched, real].into_iter().filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The functions that make up the change, by counts and then by modelled cycles; none if there is no shift.
pub(super) fn tables(comparison: &Comparison, sides: [usize; 2], style: &Style) -> Vec<Table> {
    let shifted = of(comparison, sides).into_iter().filter(|functions| functions.shifted());
    shifted.map(|functions| table(comparison, functions, sides, style)).collect()
}

fn table(
    comparison: &Comparison,
    functions: &FunctionComparison,
    sides: [usize; 2],
    style: &Style,
) -> Table {
    let mut page = Page::new(&Style { width: LIST_WIDTH, ..style.clone() });
    let parts = Parts::of(functions);
    let age = |row: &FunctionRow| match (row.appeared, row.vanished) {
        (true, _) => "new",
        (_, true) => "gone",
        _ => "",
    };
    let rows = parts.rows.iter().map(|row| Line {
        name: page.name(&row.symbol, &behind(row), LISTED_NAME_WIDTH),
        whole: Some(format!("{}{}", row.symbol, behind(row)))
            .filter(|whole| whole.width() > LISTED_NAME_WIDTH),
        age: age(row),
        by_name_only: row.by_name_only,
        real: row.verdict == FunctionVerdict::Changed,
        reason: causes(row).unwrap_or_else(|| row.reason.clone()),
        callers: callers(&mut page, &row.callers, parts.decimals, LIST_WIDTH)
            .trim_start_matches(" ← ")
            .to_string(),
        ..Line::default()
    });
    let rest = parts.rest_names().into_iter().map(|name| Line { name, ..Line::default() });
    let lines = rows.chain(rest).zip(parts.figures());
    let names = sides.map(|side| comparison.variants[side].name.as_str());
    let mut notes = matching_notes(&functions.modules, functions.unmatched.as_ref(), names);
    notes.extend(functions.modelled.then(|| MODELLED.to_string()));
    Table {
        heading: parts.heading(),
        lines: lines.map(|(line, figures)| Line { figures, ..line }).collect(),
        covered: covered(functions, parts.rows.len()),
        division: exact_division(functions),
        notes,
    }
}

/// The differences between the two variants of a comparison, as lines.
pub(super) fn differences(comparison: &Comparison, sides: [usize; 2]) -> Vec<Headed> {
    let [baseline, variant] = sides;
    let mut found = Vec::new();
    for difference in &comparison.differences {
        if [difference.baseline, difference.variant] != sides {
            continue;
        }
        let names = [baseline, variant].map(|side| &comparison.variants[side].name);
        let heading = format!("{}, {} → {}:", difference.what, names[0], names[1]);
        let mut lines: Vec<String> =
            difference.lines.iter().take(DIFFERENCES_SHOWN).cloned().collect();
        let more = difference.lines.len().saturating_sub(DIFFERENCES_SHOWN);
        if more > 0 {
            lines.push(format!("… and {} more", grouped(more as u64)));
        }
        found.push((heading, lines));
    }
    found
}

/// Writes [`differences`] below a table.
pub(super) fn differences_text(page: &mut Page, comparison: &Comparison, sides: [usize; 2]) {
    for (heading, lines) in differences(comparison, sides) {
        page.line("");
        page.wrap(BOLD, "  ", &heading);
        for line in lines {
            page.wrap(PLAIN, "    ", &line);
        }
    }
}

/// The functions of a comparison, by counts and by modelled cycles; none if the runs were not
/// comparable.
fn of(comparison: &Comparison, sides: [usize; 2]) -> Vec<&FunctionComparison> {
    if comparison.refused() {
        return Vec::new();
    }
    let all = comparison.functions.iter().chain(&comparison.cycles);
    all.filter(|functions| [functions.baseline, functions.variant] == sides).collect()
}

/// The lines of one comparison, with enough decimals that they add up, if possible.
struct Parts<'a> {
    unit: String,
    total: f64,
    rows: &'a [FunctionRow],
    others: usize,
    /// The figures of the lines below the rows: other functions, unattributed.
    rest: Vec<Sides>,
    decimals: usize,
    /// Whether the figures as printed add up to the total as printed.
    adds_up: bool,
    unattributed: bool,
}

impl<'a> Parts<'a> {
    fn of(functions: &'a FunctionComparison) -> Parts<'a> {
        let most = if functions.sampled.is_some() { SAMPLED_SHOWN } else { FUNCTIONS_SHOWN };
        let (rows, others, of_others) = functions.leading(most);
        let shown = functions.unattributed.change.abs() >= REST_MIN;
        let unattributed = shown.then_some(functions.unattributed);
        let rest = [(others > 0).then_some(of_others), unattributed];
        let rest: Vec<Sides> = rest.into_iter().flatten().collect();
        let changes: Vec<f64> =
            rows.iter().map(|row| &row.own).chain(&rest).map(|own| own.change).collect();
        let total = functions.total.change;
        let sampled = functions.sampled.is_some();
        let (decimals, adds_up) = decimals_that_add_up(total, &changes, sampled);
        let unit = format!("{}{}", functions.unit(), if functions.per_op { "/op" } else { "" });
        Parts { unit, total, rows, others, rest, decimals, adds_up, unattributed: shown }
    }

    fn heading(&self) -> String {
        let about = if self.adds_up { "" } else { "≈ " };
        format!("{about}{} {}", signed(self.total, self.decimals), self.unit)
    }

    /// The figures of all lines: both sides, and the change.
    fn figures(&self) -> Vec<[String; 3]> {
        let cost = |value: f64| signed(value, self.decimals).replace('+', "");
        let figures = |own: &Sides| {
            [cost(own.value_baseline), cost(own.value), signed(own.change, self.decimals)]
        };
        self.rows.iter().map(|row| &row.own).chain(&self.rest).map(figures).collect()
    }

    fn others_name(&self) -> String {
        let word = if self.others == 1 { "function" } else { "functions" };
        format!("{} other {word}", grouped(self.others as u64))
    }

    /// The names of the lines below the rows.
    fn rest_names(&self) -> Vec<String> {
        let others = (self.others > 0).then(|| self.others_name());
        let unattributed = self.unattributed.then(|| UNATTRIBUTED.to_string());
        others.into_iter().chain(unattributed).collect()
    }
}

/// From this many nanoseconds on, decimals say nothing: one sample stands for a million.
const SAMPLED_WHOLE: f64 = 100.0;

/// Rounds a sampled figure whose decimals say nothing.
pub(super) fn sensible(value: f64, sampled: bool) -> f64 {
    if sampled && value.abs() >= SAMPLED_WHOLE { value.round() } else { value }
}

/// Returns the fewest decimals that suit the size and with which the printed parts add up to the
/// printed total, and whether there are any.
pub(super) fn decimals_that_add_up(total: f64, parts: &[f64], sampled: bool) -> (usize, bool) {
    let largest = parts.iter().fold(total.abs(), |largest, part| largest.max(part.abs()));
    let fewest = match largest {
        large if large >= if sampled { SAMPLED_WHOLE } else { 10_000.0 } => 0,
        middle if middle >= 1.0 => 1,
        _ => 3,
    };
    let adds_up = |decimals: usize| {
        let printed = |value: f64| (value * 10f64.powi(decimals as i32)).round() as i128;
        parts.iter().map(|part| printed(*part)).sum::<i128>() == printed(total)
    };
    let most = if sampled { fewest } else { fewest + 2 };
    let found = (fewest..=most).find(|decimals| adds_up(*decimals));
    (found.unwrap_or(fewest), found.is_some())
}

/// A change with its sign and its thousands separated: `+1,204.1`.
pub(super) fn signed(value: f64, decimals: usize) -> String {
    // Rounded as in `decimals_that_add_up`, so that both treat halves alike.
    let scale = 10f64.powi(decimals as i32);
    let printed = (value * scale).round() as i128;
    let sign = if printed < 0 { '−' } else { '+' };
    let size = printed.unsigned_abs();
    let unit = 10u128.pow(decimals as u32);
    let whole = grouped(u64::try_from(size / unit).unwrap_or(u64::MAX));
    match decimals {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{:0decimals$}", size % unit),
    }
}

/// A change with its sign and about four significant digits: `+31.02`.
pub(super) fn signed_figure(value: f64) -> String {
    let sign = if value < 0.0 { '−' } else { '+' };
    format!("{sign}{}", figure(value.abs(), Unit::Count))
}

/// The text behind a function's name: its file or module, unless that is the kernel.
pub(super) fn behind(row: &FunctionRow) -> String {
    match row.module.as_str() {
        KERNEL | "" => String::new(),
        module if module.starts_with('[') => format!(" {module}"),
        module => format!(" ({})", short(module)),
    }
}

/// The marks of a row: the function is new, gone or matched by its name only; the change may be chance.
pub(super) fn mark(row: &FunctionRow) -> String {
    let words = [
        (row.appeared, "new"),
        (row.vanished, "gone"),
        (row.by_name_only, "≈"),
        (
            !matches!(
                row.verdict,
                FunctionVerdict::Changed | FunctionVerdict::FewLayouts | FunctionVerdict::Estimated
            ),
            "?",
        ),
    ];
    let words = words.into_iter().filter(|(said, _)| *said).map(|(_, word)| word);
    words.collect::<Vec<_>>().join(" ")
}

/// ` ← handle_mm_fault +61.2, unmap_vmas +30.1, …` in at most `room` columns: as many callers as fit. If not even
/// the first fits with its figure, names stand alone. A single caller has the whole change and needs no figure.
pub(super) fn callers(
    page: &mut Page,
    callers: &[CallerRow],
    decimals: usize,
    room: usize,
) -> String {
    let changed = || callers.iter().filter(|caller| caller.own.change != 0.0);
    let bare: Vec<(&str, String)> =
        changed().map(|caller| (caller.symbol.as_str(), String::new())).collect();
    if callers.len() == 1 {
        return list(page, " ← ", &bare, room);
    }
    let figure = |caller: &CallerRow| format!(" {}", signed(caller.own.change, decimals));
    let with_figures: Vec<(&str, String)> =
        changed().map(|caller| (caller.symbol.as_str(), figure(caller))).collect();
    let with_figures = list(page, " ← ", &with_figures, room);
    if with_figures.is_empty() { list(page, " ← ", &bare, room) } else { with_figures }
}

/// As many names, each with its remark, as fit behind an arrow. A name that would be cut too short ends the list.
pub(super) fn list(page: &mut Page, arrow: &str, named: &[(&str, String)], room: usize) -> String {
    let room = page.room(room);
    let mut text = String::new();
    for (shown, (name, said)) in named.iter().enumerate() {
        let mark = if shown == 0 { arrow } else { ", " };
        let more = if shown + 1 < named.len() { ", …".width() } else { 0 };
        let left = room.saturating_sub(text.width() + mark.width() + said.width() + more);
        if left < name.width().min(NAME_IN_LIST_WIDTH_MIN) {
            if shown > 0 {
                text.push_str(", …");
            }
            break;
        }
        // The last name may take all the room that is left.
        let width = if more == 0 { left } else { left.min(NAME_IN_LIST_WIDTH) };
        let name = page.name(name, "", width);
        if name.width() > left {
            break;
        }
        text.push_str(mark);
        text.push_str(&name);
        text.push_str(said);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_analysis::comparison::Sides;
    use proptest::prelude::*;

    #[test]
    fn changes_are_signed_and_grouped() {
        for (value, decimals, text) in [
            (204.06, 1, "+204.1"),
            (-1_234_567.0, 0, "−1,234,567"),
            (-0.04, 1, "+0.0"),
            (0.0, 0, "+0"),
            (-0.0625, 3, "−0.063"),
            (1000.5, 2, "+1,000.50"),
        ] {
            assert_eq!(signed(value, decimals), text);
        }
    }

    #[test]
    fn decimals_are_added_until_the_parts_add_up() {
        assert_eq!(decimals_that_add_up(10.0, &[4.0, 6.0], false), (1, true));
        // 1.25 + 1.25 + 1.25 would print as 1.3 three times, and 3.75 as 3.8.
        assert_eq!(decimals_that_add_up(3.75, &[1.25, 1.25, 1.25], false), (2, true));
        let third = 10.0 / 3.0;
        assert_eq!(decimals_that_add_up(10.0, &[third; 3], false), (1, false));
        assert_eq!(decimals_that_add_up(30_000.0, &[10_000.0, 20_000.0], false), (0, true));
        assert_eq!(decimals_that_add_up(375.0, &[125.4, 125.4, 125.4], true), (0, true));
        assert_eq!(decimals_that_add_up(376.6, &[125.4, 125.6, 125.6], true), (0, true));
        assert_eq!(decimals_that_add_up(376.2, &[125.4, 125.4, 125.4], true), (0, false));
        assert_eq!([1234.5, 12.5].map(|ns| sensible(ns, true)), [1235.0, 12.5]);
        assert_eq!(sensible(1234.5, false), 1234.5);
    }

    proptest! {
        #[test]
        fn what_is_said_to_add_up_does(parts in prop::collection::vec(-500.0..500.0f64, 1..12)) {
            let total: f64 = parts.iter().sum();
            let (decimals, adds_up) = decimals_that_add_up(total, &parts, false);
            let read = |text: String| -> i64 {
                text.replace('−', "-").replace(['+', ',', '.'], "").parse().unwrap()
            };
            let sum: i64 = parts.iter().map(|part| read(signed(*part, decimals))).sum();
            prop_assert_eq!(sum == read(signed(total, decimals)), adds_up);
        }

        #[test]
        fn callers_stay_within_their_room(
            names in prop::collection::vec(("[a-z_]{1,20}", -99.0..99.0f64), 0..6), room in 0usize..60,
        ) {
            let rows: Vec<CallerRow> = names
                .into_iter()
                .map(|(symbol, change)| CallerRow {
                    symbol,
                    module: String::new(),
                    own: Sides { change, ..Sides::default() },
                    calls: Sides::default(),
                })
                .collect();
            let mut page = Page::new(&Style::plain());
            prop_assert!(callers(&mut page, &rows, 1, room).width() <= room);
        }
    }
}
