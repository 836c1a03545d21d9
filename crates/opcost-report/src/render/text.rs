//! The table for people.

use super::names::cut;
use super::page::{BOLD, DIM, GREEN, PLAIN, Page, RED, YELLOW, align, fit};
use super::{View, alone, functions, imported, size};
use anyhow::Result;
use opcost_analysis::comparison::conclusion::detectable;
use opcost_analysis::comparison::cycles::NOT_DECIDED;
use opcost_analysis::comparison::{Change, Comparison, Figures, Row, Severity, TwinRow, Verdict};
use opcost_base::number::{figures, magnitude, percent};
use opcost_model::recording::MachineState;
use opcost_record::metric::{DEFERRED, DEFERRED_AFTER, MODEL_CYCLES, SYNCHRONOUS, TICK};
use opcost_record::{Better, Domain, Kind, MetricKey, Unit};
use opcost_stats::relevance::COUNTS_MIN;
use unicode_width::UnicodeWidthStr;

/// From this width on, the table shows intervals and spreads.
const WIDE_COLUMNS: usize = 110;

pub(super) fn render(view: &View<'_>) -> Result<String> {
    let mut page = Page::new(view.style);
    let comparison = view.comparison;
    page.wrap(BOLD, "", &comparison.heading.join(" · "));
    if let Some(question) = &comparison.question {
        page.wrap(PLAIN, "", question);
    }
    if let Some(import) = &comparison.imported {
        imported::sources(&mut page, import);
    }
    if comparison.comparisons.is_empty() {
        page.line("");
        match comparison.imported {
            Some(_) => imported::alone(&mut page, comparison),
            None => alone::text(&mut page, comparison),
        }
    }
    for (index, &(baseline, variant)) in comparison.comparisons.iter().enumerate() {
        page.line("");
        Table::new(comparison, index, baseline, variant, page.width).print(&mut page);
    }
    per_megabyte(&mut page, comparison);
    missing(&mut page, comparison);
    footnotes(&mut page, comparison);
    if let Some(import) = &comparison.imported {
        imported::footnotes(&mut page, comparison, import);
        imported::claims(&mut page, import);
    }
    alone::functions_text(&mut page, comparison);
    for &(baseline, variant) in &comparison.comparisons {
        functions::text(&mut page, comparison, [baseline, variant]);
        functions::differences_text(&mut page, comparison, [baseline, variant]);
        size::rows_text(&mut page, comparison, [baseline, variant]);
    }
    page.line("");
    for conclusion in &comparison.conclusions {
        page.wrap(BOLD, "→ ", &with_short_names(comparison, conclusion));
    }
    ledger(&mut page, comparison);
    for line in &comparison.guests {
        page.wrap(PLAIN, "  ", &with_short_names(comparison, line));
    }
    if let Some(provenance) = view.recording.plan.provenance() {
        page.wrap(PLAIN, "  ", &provenance);
    }
    if let Some(words) = view.recording.machine.first().and_then(MachineState::emulated_words) {
        page.wrap(PLAIN, "  ", &words);
    }
    if let Some(stopped) = &comparison.stopped {
        page.wrap(PLAIN, "  ", stopped);
    }
    for observation in comparison.observed() {
        page.wrap(DIM, "· ", &with_short_names(comparison, &observation));
    }
    for warning in view.warnings {
        page.wrap(YELLOW, "! ", &with_short_names(comparison, &warning.to_string()));
    }
    let last = page.paint(DIM, &format!("recording {0} · opcost show {0}", comparison.recording));
    page.line(&last);
    Ok(page.into_text())
}

/// Maximum width of a variant's name within a sentence: commands can be longer than a page; they
/// stand whole above the table.
const NAME_IN_SENTENCE_WIDTH: usize = 60;

/// A sentence in which very long names of variants are cut in the middle.
fn with_short_names(comparison: &Comparison, sentence: &str) -> String {
    let mut names: Vec<&str> =
        comparison.variants.iter().map(|variant| variant.name.as_str()).collect();
    names.retain(|name| name.width() > NAME_IN_SENTENCE_WIDTH && sentence.contains(name));
    // Longest first, as a name may be the beginning of another.
    names.sort_by_key(|name| usize::MAX - name.len());
    names.iter().fold(sentence.to_string(), |sentence, name| {
        sentence.replace(name, &cut(name, NAME_IN_SENTENCE_WIDTH))
    })
}

/// Writes the table of one comparison, and the meaning of its remarks.
pub(super) fn table(page: &mut Page, comparison: &Comparison, index: usize) {
    let (baseline, variant) = comparison.comparisons[index];
    Table::new(comparison, index, baseline, variant, page.width).print(page);
    footnotes(page, comparison);
}

/// One comparison as a table, with the widths of its columns.
struct Table<'a> {
    comparison: &'a Comparison,
    index: usize,
    sides: [usize; 2],
    /// Rows that are shown one by one.
    rows: Vec<&'a Row>,
    /// Labels of the rows that were 0 in every run of both variants.
    zeros: Vec<&'a str>,
    wide: bool,
    label_width: usize,
    value_width: usize,
}

/// Room for most remarks ("the same every run") and the gap in front of them.
const REMARK_WIDTH: usize = 20;
/// Width of the change: the sign, three or more digits, the unit.
const CHANGE_WIDTH: usize = 11;
/// Minimum width of a figure; large counts need more.
const VALUE_WIDTH: usize = 11;
/// Width of an interval, in columns.
const INTERVAL_WIDTH: usize = 24;
/// Width of a spread, in columns.
const SPREAD_WIDTH: usize = 10;

impl<'a> Table<'a> {
    fn new(
        comparison: &'a Comparison,
        index: usize,
        baseline: usize,
        variant: usize,
        width: usize,
    ) -> Self {
        let sides = [baseline, variant];
        let present = |row: &&Row| row.changes[index].verdict != Verdict::Unavailable;
        let (zeros, rows): (Vec<&Row>, Vec<&Row>) =
            comparison.rows.iter().filter(present).partition(|row| always_zero(row, sides));
        let wide = width >= WIDE_COLUMNS;
        let content_width = rows
            .iter()
            .flat_map(|row| side_texts(row, sides.map(|side| row.values[side].as_ref())))
            .flatten()
            .map(|(value, _)| value.width())
            .fold(VALUE_WIDTH, usize::max);
        // Longer labels stand on a line of their own, so that remarks keep their room.
        let most = if wide { 26 } else { 44usize.saturating_sub(2 * content_width).max(15) };
        let label_width =
            rows.iter().map(|row| heading(row).width()).max().unwrap_or(0).clamp(15, most);
        let names = sides.map(|side| comparison.variants[side].name.width());
        // The room for a figure that 80 columns leave beside label, change and remark.
        let room =
            if wide { 18 } else { (80 - 2 - label_width - CHANGE_WIDTH - REMARK_WIDTH) / 2 - 1 };
        let name_width = names[0].max(names[1]);
        // Names that do not fit stand above the table.
        let value_width =
            if name_width > room { content_width } else { name_width.max(content_width) };
        let zeros = zeros.into_iter().map(|row| row.label.as_str()).collect();
        Table { comparison, index, sides, rows, zeros, wide, label_width, value_width }
    }

    fn print(&self, page: &mut Page) {
        self.head(page);
        for row in &self.rows {
            self.row(page, row);
        }
        self.twin(page);
        if !self.zeros.is_empty() {
            page.wrap(DIM, "  ", &format!("0 in every run: {}", self.zeros.join(", ")));
        }
    }

    /// Writes the names of the variants; if one is too long, letters with a legend.
    fn head(&self, page: &mut Page) {
        let names = self.sides.map(|side| &self.comparison.variants[side].name);
        let long = names.iter().any(|name| name.width() > self.value_width);
        let mut head = format!("  {}", " ".repeat(self.label_width));
        for (name, letter) in names.iter().zip(["A", "B"]) {
            let text = if long { letter } else { name };
            head.push_str(&format!(" {}", align(text, self.value_width)));
            if self.wide {
                head.push_str(&" ".repeat(SPREAD_WIDTH));
            }
            if long {
                page.wrap(PLAIN, "  ", &format!("{letter}: {name}"));
            }
        }
        head.push_str(&align("change", CHANGE_WIDTH));
        if self.wide {
            head.push_str(&align("interval", INTERVAL_WIDTH));
        }
        let head = page.paint(BOLD, head.trim_end());
        page.line(&head);
    }

    fn row(&self, page: &mut Page, row: &Row) {
        let change = &row.changes[self.index];
        let sides = self.sides.map(|side| row.values[side].as_ref());
        let mut label = heading(row);
        if label.width() > self.label_width {
            page.line(&format!("  {label}"));
            label.clear();
        }
        let mut line = format!("  {}", fit(&label, self.label_width));
        for text in side_texts(row, sides) {
            line.push_str(&text.map_or_else(
                || self.value("–", ""),
                |(value, spread)| self.value(&value, &spread),
            ));
        }
        line.push_str(&align(&amount(change), CHANGE_WIDTH));
        if self.wide {
            let interval =
                change.ci.map(|(low, high)| format!("{} … {}", percent(low), percent(high)));
            line.push_str(&align(&interval.unwrap_or_default(), INTERVAL_WIDTH));
        }
        let room = page.width.saturating_sub(line.width() + 2).max(8);
        let remark = fit(&remark(row, change), room);
        let remark = page.paint(color_of(row, change), remark.trim_end());
        page.line(&format!("{line}  {remark}"));
    }

    fn value(&self, value: &str, spread: &str) -> String {
        let value = align(value, self.value_width);
        if self.wide {
            format!(" {value}{}", align(spread, SPREAD_WIDTH))
        } else {
            format!(" {value}")
        }
    }

    /// Writes the row of the empty twin: the cost of the loop around the operations.
    fn twin(&self, page: &mut Page) {
        let Some((twin, [one, two])) = twin(self.comparison).and_then(|twin| {
            Some((twin, [twin.values[self.sides[0]]?, twin.values[self.sides[1]]?]))
        }) else {
            return;
        };
        let mut line = format!("  {}", fit("our own loop/op", self.label_width));
        for text in figures(&[one, two], twin.unit) {
            line.push_str(&self.value(&text, ""));
        }
        let blank = CHANGE_WIDTH + if self.wide { INTERVAL_WIDTH } else { 0 };
        line.push_str(&" ".repeat(blank));
        let line = page.paint(DIM, &format!("{line}  included in {}", twin.label));
        page.line(&line);
    }
}

/// Whether a row need not be shown: it is not primary, and is 0 in every run of both sides.
pub(super) fn always_zero(row: &Row, sides: [usize; 2]) -> bool {
    let highest = sides.map(|side| row.values[side].as_ref().and_then(|figures| figures.max));
    !row.primary && highest == [Some(0.0), Some(0.0)]
}

/// The cost of the empty twin: in wall time, or else in instructions.
pub(super) fn twin(comparison: &Comparison) -> Option<&TwinRow> {
    let of = |label| comparison.twin.iter().find(|twin| twin.label == label);
    // The emulated machine measures no time.
    of("wall").or_else(|| of("instructions"))
}

/// Median and relative spread of both sides, in one unit.
pub(super) fn side_texts(row: &Row, sides: [Option<&Figures>; 2]) -> [Option<(String, String)>; 2] {
    let medians: Vec<f64> = sides.iter().flatten().map(|side| side.center()).collect();
    let mut values = figures(&medians, row.unit).into_iter();
    sides.map(|side| {
        let side = side?;
        let spread = side.sd.filter(|sd| *sd > 0.0 && side.mean != 0.0);
        let spread = spread.map(|sd| format!("±{}", magnitude(sd / side.mean)));
        Some((values.next()?, spread.unwrap_or_default()))
    })
}

/// The short name of a part of the kernel's instructions, which has its row below theirs.
fn part_of_kernel(key: &MetricKey) -> Option<&'static str> {
    Some(match key.name.as_str() {
        _ if key.domain != Domain::Kernel => return None,
        SYNCHRONOUS => "synchronous:k",
        DEFERRED => "deferred:k",
        TICK => "tick:k",
        DEFERRED_AFTER => "left behind:k",
        _ => return None,
    })
}

/// Name of a row: `instructions:k/op`, with a word for figures that were not counted.
pub(super) fn heading(row: &Row) -> String {
    let kind = match row.kind {
        // The name of the metric says so.
        _ if row.accuracy.is_some() => "",
        Kind::Counted => "",
        Kind::Sampled => " (sampled)",
        Kind::Modelled => " (model)",
        Kind::Estimated => " (estimate)",
    };
    let label = part_of_kernel(&row.key).unwrap_or(&row.label);
    let place = if label == row.label || row.primary { "" } else { "  " };
    format!("{place}{label}{}{kind}", if row.per_op { "/op" } else { "" })
}

fn amount(change: &Change) -> String {
    match (change.verdict, change.change_ratio) {
        (Verdict::Changed | Verdict::FewLayouts | Verdict::Inconclusive, Some(ratio)) => {
            percent(ratio)
        }
        (Verdict::Unchanged, _) if change.identical => "=".into(),
        (Verdict::Unchanged, _) => "~".into(),
        _ => "–".into(),
    }
}

/// The remark behind a row, in 19 columns.
fn remark(row: &Row, change: &Change) -> String {
    let arrow = if change.change_ratio.unwrap_or(1.0) < 0.0 { '▼' } else { '▲' };
    match change.verdict {
        Verdict::Changed | Verdict::FewLayouts if change.estimated => {
            format!("{arrow} {}", change.found())
        }
        Verdict::Inconclusive if change.estimated && change.reason == NOT_DECIDED => {
            "? not decided".into()
        }
        Verdict::Changed if change.below_floor().is_some() => format!("{arrow} real, < layout"),
        Verdict::Changed => {
            format!("{arrow} {}{}", change.found(), if row.exact { ", exact" } else { "" })
        }
        Verdict::FewLayouts if change.below_floor().is_some() => format!("{arrow} exact, < layout"),
        Verdict::FewLayouts => format!("{arrow} {}", change.reason),
        Verdict::Unchanged if change.identical && !row.exact => change.reason.clone(),
        Verdict::Unchanged if change.identical => "the same every run".into(),
        Verdict::Unchanged => {
            detectable(row, change).map_or(String::new(), |mde| format!("none ≥ {mde}"))
        }
        Verdict::Inconclusive => format!("? {}", change.reason),
        Verdict::NotComparable => "not comparable".into(),
        Verdict::Unavailable => "not available".into(),
    }
}

fn color_of(row: &Row, change: &Change) -> anstyle::Style {
    let worse = match row.better {
        Better::Lower => change.change_ratio.map(|ratio| ratio > 0.0),
        Better::Higher => change.change_ratio.map(|ratio| ratio < 0.0),
        Better::Neither => None,
    };
    match (change.verdict, worse) {
        (Verdict::Changed, Some(true)) => RED,
        (Verdict::Changed, Some(false)) => GREEN,
        (Verdict::Changed, None) | (Verdict::FewLayouts, _) => BOLD,
        (Verdict::NotComparable | Verdict::Inconclusive, _) => YELLOW,
        _ => DIM,
    }
}

/// Writes the cost of moving a megabyte: `CPU time per MB moved: off 774.1 µs, on 802.0 µs`.
fn per_megabyte(page: &mut Page, comparison: &Comparison) {
    let Some(per) = &comparison.per_megabyte else { return };
    let whose = [
        ("CPU time per MB moved", &per.own_ns),
        ("of the whole machine, from ticks, with the start of each run", &per.machine_ns),
    ];
    for (what, values) in whose {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let mut texts = figures(&known, Unit::Ns).into_iter();
        let of = |(name, value): (&str, &Option<f64>)| {
            let text = value.and_then(|_| texts.next());
            format!("{name} {}", text.unwrap_or_else(|| "not known".into()))
        };
        let names = comparison.variants.iter().map(|variant| variant.name.as_str());
        let said: Vec<String> = names.zip(values).map(of).collect();
        page.wrap(PLAIN, "  ", &format!("{what}: {}", said.join(", ")));
    }
}

/// Writes the metrics that were unavailable, grouped by reason.
fn missing(page: &mut Page, comparison: &Comparison) {
    let help = if comparison.imported.is_some() { "" } else { " (opcost doctor)" };
    for (labels, reason) in comparison.missing() {
        page.wrap(DIM, "  ", &format!("– {}: {reason}{help}", labels.join(", ")));
    }
}

/// The largest floor that a change lies below, with its layouts, in words.
pub(super) fn largest_floor(changes: &[Change]) -> Option<String> {
    let below = changes.iter().filter(|change| change.below_floor().is_some());
    let largest = below.max_by(|one, two| {
        let floor = |change: &Change| change.relevance_floor_ratio.unwrap_or(0.0);
        floor(one).total_cmp(&floor(two))
    });
    largest.and_then(Change::floor_words)
}

/// Writes the meaning of the short remarks that occur in the table.
fn footnotes(page: &mut Page, comparison: &Comparison) {
    let mut changes = comparison.rows.iter().flat_map(|row| &row.changes);
    if changes.any(|change| change.verdict == Verdict::Unchanged && !change.identical) {
        let text = "none ≥ x: no change was found; one of x or more would have been, 9 times in 10";
        page.wrap(DIM, "  ", text);
    }
    for row in &comparison.rows {
        if let Some(floor) = largest_floor(&row.changes) {
            let text = format!(
                "< layout: {} is real for each seed, and smaller than the {} by which other seeds \
                 and layouts shift it",
                row.label, floor
            );
            page.wrap(DIM, "  ", &text);
        }
    }
    if let Some(note) = layout_note(comparison) {
        page.wrap(DIM, "  ", &note);
    }
    if let Some(note) = accuracy_note(comparison) {
        page.wrap(DIM, "  ", &note);
    }
    let mut primary = comparison.rows.iter().filter(|row| row.primary).flat_map(|row| &row.changes);
    if comparison.imported.is_none() && primary.any(drifted) {
        let text = "change: estimated block by block, so that drift cancels; the machine's speed \
                    varied, so it is not the ratio of the medians";
        page.wrap(DIM, "  ", text);
    }
    if comparison.refused() {
        return;
    }
    for row in &comparison.rows {
        if let Some(change) =
            row.changes.iter().find(|change| change.verdict == Verdict::NotComparable)
        {
            page.wrap(DIM, "  ", &format!("{}: {}", row.label, change.reason));
        }
    }
}

/// How far off modelled cycles may be, if there are any.
pub(super) fn accuracy_note(comparison: &Comparison) -> Option<String> {
    let row = comparison.rows.iter().find(|row| row.key.name == MODEL_CYCLES)?;
    let accuracy = row.accuracy.as_ref()?;
    let kernel = kernel_share(comparison).filter(|share| *share >= 0.01);
    let kernel = kernel.map_or(String::new(), |share| {
        format!("; up to {} are cycles of kernel code, which was not validated", magnitude(share))
    });
    Some(format!("{MODEL_CYCLES}: estimated {}{kernel}", accuracy.describe()))
}

/// The kernel's share of modelled cycles, in the variant where the share is largest.
fn kernel_share(comparison: &Comparison) -> Option<f64> {
    let of = |domain: Domain| {
        let mut rows = comparison.rows.iter();
        rows.find(|row| row.key.name == MODEL_CYCLES && row.key.domain == domain)
    };
    let (all, kernel) = (of(Domain::All)?, of(Domain::Kernel)?);
    let sides = all.values.iter().zip(&kernel.values);
    let shares = sides.filter_map(|(all, kernel)| {
        Some(kernel.as_ref()?.center() / all.as_ref()?.center()).filter(|share| share.is_finite())
    });
    shares.reduce(f64::max)
}

/// The meaning of `one layout` and `n layouts`, if they occur, and the results that more pairs would add.
pub(super) fn layout_note(comparison: &Comparison) -> Option<String> {
    let changes = || comparison.rows.iter().flat_map(|row| &row.changes);
    let layouts = |verdict| {
        let mut of = changes().filter(move |change| change.verdict == verdict);
        of.find_map(|change| change.layouts)
    };
    let layouts = layouts(Verdict::FewLayouts).or_else(|| {
        let one = layouts(Verdict::Unchanged);
        one.filter(|layouts| layouts.count == 1)
    })?;
    let what = match layouts.count {
        1 => {
            "one layout: both sides ran once, with one seed and one layout of memory, and gave the same \
             counts again when repeated; another layout may shift counts a little"
        }
        _ => {
            "layouts: each pair has a seed and a layout of memory of its own, and its difference is exact"
        }
    };
    let floor = (layouts.count < COUNTS_MIN)
        .then(|| format!("--pairs {COUNTS_MIN} shows how far layouts alone shift counts"));
    let interval = comparison
        .pairs_for_all
        .map(|pairs| format!("--pairs {pairs} gives every metric its interval"));
    let more = [floor, interval].into_iter().flatten().map(|more| format!("; {more}"));
    Some(format!("{what}{}", more.collect::<String>()))
}

/// Whether a real change visibly differs from the ratio of the medians beside it.
pub(super) fn drifted(change: &Change) -> bool {
    let parts = change.ratio_of_medians.zip(change.change_ratio).zip(change.ci);
    change.verdict == Verdict::Changed
        && parts.is_some_and(|((medians, paired), (low, high))| {
            (medians - paired).abs() > 0.1 * (high - low) && (medians - paired).abs() > 0.005
        })
}

/// Writes the ledger: a line for each problem, one line for the rules and invariants that hold, and failed runs.
fn ledger(page: &mut Page, comparison: &Comparison) {
    let entries = &comparison.ledger;
    for entry in entries.iter().filter(|entry| entry.severity != Severity::Fine) {
        // A refusal that is not waived is the conclusion already.
        if entry.severity == Severity::Refuse && !entry.waived {
            continue;
        }
        let waived = if entry.waived { "waived" } else { "doubtful" };
        page.wrap(YELLOW, "! ", &format!("{waived} ({}): {}", entry.rule, entry.detail));
    }
    let (known, unknown): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.known);
    let fine = known.iter().filter(|entry| entry.severity == Severity::Fine).count();
    let mut text = format!("comparable by {fine} of {} rules", known.len());
    if !unknown.is_empty() {
        let names: Vec<&str> = unknown.iter().map(|entry| entry.rule.as_str()).collect();
        text.push_str(&format!("; not known: {}", names.join(", ")));
    }
    let held: Vec<&str> =
        comparison.invariants.iter().filter(|row| row.holds).map(|row| row.name.as_str()).collect();
    if !held.is_empty() {
        text.push_str(&format!("; the same in every run: {}", held.join(", ")));
    }
    page.wrap(PLAIN, "  ", &text);
    for variant in comparison.variants.iter().filter(|variant| variant.runs_failed > 0) {
        let text = format!("! {} runs of '{}' failed", variant.runs_failed, variant.name);
        page.wrap(YELLOW, "", &text);
    }
}
