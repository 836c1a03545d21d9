//! Where the change of the instructions comes from, and what differs between kernels.

use super::annotated::{SITES_SHOWN, patchable};
use opcost_analysis::comparison::cycles::causes_in_words;
use opcost_analysis::comparison::function_changes::exact_division;
use opcost_analysis::comparison::matching::{ModuleMatch, ModulePair};
use opcost_analysis::comparison::{
    CallerRow, Comparison, FunctionComparison, FunctionRow, FunctionVerdict, Sides, UNATTRIBUTED,
};
use opcost_analysis::patch_sites::FoundSite;
use opcost_analysis::split::calls_in_words;
use opcost_base::number::{figure, grouped};
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table, Tone};
use opcost_record::{Unit, profile::KERNEL};

/// Counted functions shown one by one, at most; fewer if fewer explain the change.
const FUNCTIONS_SHOWN: usize = 40;
/// Sampled functions shown one by one, at most: behind the first few, samples differ by chance.
const SAMPLED_SHOWN: usize = 12;
/// Lines shown of a difference between two variants, at most.
const DIFFERENCES_SHOWN: usize = 20;
/// Commits of a file that are shown one by one.
const COMMITS_SHOWN: usize = 5;
/// A smaller unattributed change, per operation, gets no line.
const REST_MIN: f64 = 0.05;

/// Adds the functions of one comparison by counts, then by modelled cycles, then the commits that touched them.
pub(super) fn add(document: &mut Document, comparison: &Comparison, sides: [usize; 2]) {
    for functions in of(comparison, sides) {
        add_one(document, comparison, functions, sides);
    }
    let found: Vec<&FoundSite> =
        comparison.patch_sites.iter().filter(|found| found.sides == sides).collect();
    add_sites(document, &found, |of| &comparison.variants[of].name);
    add_commits(document, comparison, sides);
}

/// Adds what keys of patchpoint would take away. `name`: of a variant.
pub(super) fn add_sites<'a>(
    document: &mut Document,
    found: &[&FoundSite],
    name: impl Fn(usize) -> &'a str,
) {
    for one in found.iter().take(SITES_SHOWN) {
        let name = name(one.of);
        let place = one.place.as_ref().map(|(file, line)| (file.as_str(), *line));
        let inside = format!(" in {} ({name})", one.function);
        document.say(Mark::Note, patchable(&one.site, place, &inside));
    }
    let more = found.len().saturating_sub(SITES_SHOWN);
    if more > 0 {
        let sites = if more == 1 { "site" } else { "sites" };
        document.say(Mark::Note, format!("patchpoint: {more} more such {sites}; --json has all"));
    }
}

fn add_one(
    document: &mut Document,
    comparison: &Comparison,
    functions: &FunctionComparison,
    sides: [usize; 2],
) {
    let parts = Parts::of(functions);
    let names = sides.map(|side| comparison.variants[side].name.as_str());
    // With several comparisons, the heading names the two variants.
    let whose = match comparison.comparisons.len() {
        1 => String::new(),
        _ => format!("{} against {}: ", names[1], names[0]),
    };
    if !functions.shifted() {
        document.gap();
        document.say(Mark::Note, format!("{whose}{} by function: no shift found", parts.unit));
        return;
    }
    document.section(format!("{whose}where the {} come from", parts.heading()));
    let rows = parts.rows.iter().map(|row| {
        let causes =
            causes(row).map_or(Cell::Empty, |causes| Cell::Text(format!("of which {causes}")));
        let why = parts.why(row);
        let last = vec![why, callers(&row.callers, parts.decimals), causes];
        (tone(row), last, row_name(row), mark(row))
    });
    let rest = parts.rest_names().into_iter();
    let rest =
        rest.map(|name| (Tone::Plain, vec![Cell::Empty; 3], Cell::Text(name), String::new()));
    let lines = rows.chain(rest).zip(parts.figures()).map(|((tone, last, name, mark), figures)| {
        let figures = figures.into_iter().map(Cell::Figure);
        let cells = [name].into_iter().chain(figures).chain([Cell::text(mark)]).chain(last);
        Line::toned(tone, cells.collect())
    });
    document.table(Table {
        caption: None,
        columns: vec![
            Column::fixed("function"),
            Column::named(names[0]),
            Column::named(names[1]),
            Column::fixed("change"),
            Column::fixed(""),
            Column::below(MORE_OR_DEARER),
            Column::below("called from"),
            Column::below("causes"),
        ],
        rows: lines.collect(),
    });
    footnote(document, &parts);
    matching(document, functions, parts.rows, names);
    let sampled = functions.sampled.as_ref().map(|by| format!("estimated from {}", by.describe()));
    let modelled = functions.modelled.then(|| MODELLED.to_string());
    let notes =
        [covered(functions, parts.rows.len()), exact_division(functions), sampled, modelled];
    notes.into_iter().flatten().for_each(|note| document.say(Mark::Note, note));
}

/// The note below functions by modelled cycles.
const MODELLED: &str =
    "estimated by the model of a core; the note on model-cycles says how far off it may be";

/// The causes of a change of modelled cycles, in words; `None` for other figures.
fn causes(row: &FunctionRow) -> Option<String> {
    row.parts.as_deref().map(causes_in_words).filter(|causes| !causes.is_empty())
}

/// The name of a row's function.
pub(super) fn row_name(row: &FunctionRow) -> Cell {
    Cell::Name(row.symbol.clone(), behind(row))
}

/// The mood of a function's figures.
pub(super) fn tone(row: &FunctionRow) -> Tone {
    match (row.verdict, row.own.change > 0.0) {
        (FunctionVerdict::Changed, true) => Tone::Worse,
        (FunctionVerdict::Changed, false) => Tone::Better,
        (FunctionVerdict::Differs, _) => Tone::Strong,
        _ => Tone::Plain,
    }
}

/// A heading with its lines.
type Headed = (String, Vec<String>);

/// The commits that touched the files of kernel functions, as headings with their lines.
fn commits(comparison: &Comparison, sides: [usize; 2]) -> Option<(String, Vec<Headed>)> {
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
            format!("{} {}{only}", commit.id, commit.subject)
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

/// Adds [`commits`] below the functions.
fn add_commits(document: &mut Document, comparison: &Comparison, sides: [usize; 2]) {
    let Some((heading, files)) = commits(comparison, sides) else { return };
    document.section(heading);
    for (title, lines) in files {
        document.say(Mark::Item(0), title);
        lines.into_iter().for_each(|line| document.say_in(Mark::Item(1), Tone::Quiet, line));
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

/// Adds the meaning of `?`, and the reason for a change in few layouts, if a row has such a mark.
fn footnote(document: &mut Document, parts: &Parts<'_>) {
    let mut reasons: Vec<&str> = Vec::new();
    let few = parts.rows.iter().find(|row| row.verdict == FunctionVerdict::FewLayouts);
    if let Some(row) = few {
        document.say(Mark::Note, format!("{}: other layouts shift functions, too", row.reason));
    }
    for row in parts.rows.iter().filter(|row| mark(row).contains('?')) {
        let why = if row.reason.is_empty() { "no change found" } else { &row.reason };
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    if !reasons.is_empty() {
        document.say(Mark::Note, format!("?: not shown to be real ({})", reasons.join("; ")));
    }
}

/// The note that explains `≈`.
const BY_NAME_ONLY: &str = "≈: matched by name only: the two builds have other symbols for \
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

/// Adds how functions and files were matched, where the table does not show it.
pub(super) fn matching(
    document: &mut Document,
    functions: &FunctionComparison,
    rows: &[FunctionRow],
    sides: [&str; 2],
) {
    if rows.iter().any(|row| row.by_name_only) {
        document.say(Mark::Note, BY_NAME_ONLY);
    }
    for note in matching_notes(&functions.modules, functions.unmatched.as_ref(), sides) {
        document.say(Mark::Note, note);
    }
}

/// Adds the differences between the two variants of a comparison, as lines.
pub(super) fn differences(document: &mut Document, comparison: &Comparison, sides: [usize; 2]) {
    for difference in &comparison.differences {
        if [difference.baseline, difference.variant] != sides {
            continue;
        }
        let [baseline, variant] = sides.map(|side| &comparison.variants[side].name);
        document.section(format!("{}, {baseline} → {variant}:", difference.what));
        for line in difference.lines.iter().take(DIFFERENCES_SHOWN) {
            document.say(Mark::Item(0), line);
        }
        let more = difference.lines.len().saturating_sub(DIFFERENCES_SHOWN);
        if more > 0 {
            document.say(Mark::Item(0), format!("… and {} more", grouped(more as u64)));
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
    sampled: bool,
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
        Parts { unit, total, rows, others, rest, decimals, adds_up, unattributed: shown, sampled }
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

    /// Why a function's cost changed; nothing for samples, which count no calls.
    fn why(&self, row: &FunctionRow) -> Cell {
        more_or_dearer(row, self.decimals).filter(|_| !self.sampled).map_or(Cell::Empty, Cell::Text)
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

/// The heading of [`more_or_dearer`].
pub(super) const MORE_OR_DEARER: &str = "more often or dearer";

/// Why a function's cost changed: `+57.0 more often (1 → 2 calls), +6.2 dearer (57 → 60.1 a call)`. The parts as printed add up to
/// the change as printed. `None` if there is no change to speak of, or a side has cost and no calls.
///
/// `decimals`: of changes.
pub(super) fn more_or_dearer(row: &FunctionRow, decimals: usize) -> Option<String> {
    let scale = 10f64.powi(decimals as i32);
    let printed = |value: f64| (value * scale).round() / scale;
    let change = printed(row.own.change);
    let from_calls = printed(row.split()?.from_calls);
    let from_price = printed(change - from_calls);
    let calls = [row.calls.value_baseline, row.calls.value];
    let [before, after] = calls.map(calls_in_words);
    let prices = [row.own.value_baseline / calls[0], row.own.value / calls[1]];
    let [old, new] = prices.map(|price| figure(price, Unit::Count));
    // A change too small for the digits of both sides stands for itself.
    let read = |text: &str| text.replace(',', "").parse::<f64>().ok();
    let side_by_side = |one: &str, two: &str, [from, to]: [f64; 2]| match read(one) == read(two) {
        true => signed_figure(to - from),
        false => format!("{one} → {two}"),
    };
    let times = format!("{} calls", side_by_side(&before, &after, calls));
    let each = format!("{} a call", side_by_side(&old, &new, prices));
    let noun = |count: &str| if count == "1" { "call" } else { "calls" };
    let more = if from_calls > 0.0 { "more often" } else { "less often" };
    let dearer = if from_price > 0.0 { "dearer" } else { "cheaper" };
    Some(match (from_calls != 0.0, from_price != 0.0) {
        (false, false) => return None,
        (true, false) if calls[0] == 0.0 => format!("{after} {} of {new}", noun(&after)),
        (true, false) if calls[1] == 0.0 => format!("{before} {} of {old}", noun(&before)),
        (true, false) => format!("{more} ({times} of {new})"),
        (false, true) if after == "1" => format!("{dearer} ({each})"),
        (false, true) => format!("{dearer} ({each}, {after} calls)"),
        (true, true) => format!(
            "{} {more} ({times}), {} {dearer} ({each})",
            signed(from_calls, decimals),
            signed(from_price, decimals)
        ),
    })
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

/// The callers under which a function's cost changed, each with its part; those whose part rounds to nothing are one entry. A single
/// caller has the whole change and needs no figure.
pub(super) fn callers(callers: &[CallerRow], decimals: usize) -> Cell {
    let part = |change: f64| match callers.len() {
        1 => String::new(),
        _ => signed(change, decimals),
    };
    let is_shown = |caller: &&CallerRow| {
        (caller.own.change.abs() * 10_f64.powi(decimals as i32)).round() >= 1.0
    };
    let changed: Vec<&CallerRow> =
        callers.iter().filter(|caller| caller.own.change != 0.0).collect();
    let (mut shown, mut rest): (Vec<&CallerRow>, Vec<&CallerRow>) =
        changed.into_iter().partition(is_shown);
    if shown.is_empty() && !rest.is_empty() {
        shown.push(rest.remove(0));
    }
    if let [_] = rest.as_slice() {
        shown.append(&mut rest);
    }
    let mut names: Vec<_> =
        shown.into_iter().map(|caller| (caller.symbol.clone(), part(caller.own.change))).collect();
    if !rest.is_empty() {
        let sum = rest.iter().map(|caller| caller.own.change).sum();
        names.push((format!("{} others", rest.len()), part(sum)));
    }
    Cell::List("←", names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn callers_that_change_next_to_nothing_are_one_entry() {
        let caller = |symbol: &str, change: f64| CallerRow {
            symbol: symbol.into(),
            module: "w".into(),
            own: Sides { change, ..Sides::default() },
            calls: Sides::default(),
        };
        let of = |callers: &[CallerRow]| match super::callers(callers, 1) {
            Cell::List(_, names) => {
                names.into_iter().map(|(name, part)| format!("{name} {part}")).collect::<Vec<_>>()
            }
            _ => panic!("no list"),
        };
        let (main, a, b, none) =
            (caller("main", 3.0), caller("a", 0.03), caller("b", 0.04), caller("c", 0.0));
        assert_eq!(of(&[main.clone(), a.clone(), b.clone(), none]), ["main +3.0", "2 others +0.1"]);
        assert_eq!(of(&[main.clone(), a.clone()]), ["main +3.0", "a +0.0"]);
        assert_eq!(of(&[a.clone(), b, a.clone()]), ["a +0.0", "2 others +0.1"]);
        assert_eq!(of(&[main]), ["main "]);
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn a_change_is_more_calls_dearer_calls_or_both() {
        let said = |own: [f64; 2], calls: [f64; 2]| {
            let sides = |[value_baseline, value]: [f64; 2]| Sides {
                value_baseline,
                value,
                change: value - value_baseline,
            };
            let mut row = FunctionRow::default();
            (row.own, row.calls) = (sides(own), sides(calls));
            more_or_dearer(&row, 1).unwrap_or_default()
        };
        let both = "+57.0 more often (1 → 2 calls), +6.2 dearer (57 → 60.10 a call)";
        assert_eq!(said([57.0, 120.2], [1.0, 2.0]), both);
        assert_eq!(said([57.0, 114.0], [1.0, 2.0]), "more often (1 → 2 calls of 57)");
        assert_eq!(said([114.0, 57.0], [2.0, 1.0]), "less often (2 → 1 calls of 57)");
        assert_eq!(said([57.0, 64.0], [1.0, 1.0]), "dearer (57 → 64 a call)");
        assert_eq!(said([120.0, 114.0], [2.0, 2.0]), "cheaper (60 → 57 a call, 2 calls)");
        assert_eq!(said([0.0, 114.0], [0.0, 2.0]), "2 calls of 57");
        assert_eq!(said([57.0, 0.0], [1.0, 0.0]), "1 call of 57");
        // Parts that the table rounds to nothing, and changes too small for the digits of both sides.
        assert_eq!(said([57.0, 114.04], [1.0, 2.0]), "more often (1 → 2 calls of 57.02)");
        assert_eq!(said([57.0, 57.01], [1.0, 1.0]), "");
        assert_eq!(
            said([34_538.0, 34_538.6], [17_269.0, 17_269.3]),
            "more often (+0.3000 calls of 2)"
        );
        let dear = "dearer (+1.00e-4 a call, 10,000 calls)";
        assert_eq!(said([30_000.0, 30_001.0], [10_000.0; 2]), dear);
        // The function in which counting began.
        assert_eq!(said([57.0, 64.0], [0.0, 0.0]), "");
        // The parts as printed are 33.3 and 0.1, of 33.3 + 0.05 each.
        let rounded = "+33.3 more often (1 → 2 calls), +0.1 dearer (33.30 → 33.33 a call)";
        assert_eq!(said([33.3, 66.66], [1.0, 2.0]), rounded);
    }

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
    }
}
