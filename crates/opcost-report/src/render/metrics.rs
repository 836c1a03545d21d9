//! The table of a comparison's metrics: the primary one, those that moved, and one line for the others.

use super::View;
use opcost_analysis::comparison::conclusion::detectable;
use opcost_analysis::comparison::{Change, Comparison, Figures, Row, TwinRow, Verdict};
use opcost_base::number::{figures, magnitude, percent};
use opcost_model::plan::MachineKind;
use opcost_page::document::{Cell, Column, Document, Mark, Row as Line, Table, Tone};
use opcost_record::metric::{DEFERRED, DEFERRED_AFTER, MODEL_CYCLES, SYNCHRONOUS, TICK};
use opcost_record::{Better, Domain, Kind, MetricKey};
use opcost_stats::relevance::COUNTS_MIN;

/// A change and the quotient of two figures are told apart from this relative difference on: figures have four digits.
const QUOTIENT_SHARE_MIN: f64 = 1e-3;

/// Adds the table of one comparison; `all`: whether it has every metric.
pub(super) fn add(document: &mut Document, comparison: &Comparison, index: usize, all: bool) {
    let (baseline, variant) = comparison.comparisons[index];
    let sides = [baseline, variant];
    // Figures of others stand as they were published, and all of them.
    let is_imported = comparison.imported.is_some();
    let all = all || is_imported;
    let [one, two] = sides.map(|side| &comparison.variants[side].name);
    if let Some(why) = comparison.apart(index) {
        return beside(document, comparison, sides, why);
    }
    let rows =
        comparison.rows.iter().filter(|row| row.changes[index].verdict != Verdict::Unavailable);
    let (zeros, rows): (Vec<&Row>, Vec<&Row>) = rows.partition(|row| always_zero(row, sides));
    let (shown, others): (Vec<&Row>, Vec<&Row>) =
        rows.into_iter().partition(|row| all || row.primary || moved(&row.changes[index]));
    let mut lines: Vec<Line> =
        shown.iter().map(|row| line(row, index, sides, is_imported)).collect();
    lines.extend(twin_line(comparison, sides));
    document.table(Table {
        caption: Some(format!(
            "Metrics of {one} and {two}: medians, ± the standard deviation of the runs"
        )),
        columns: vec![
            Column::fixed("metric"),
            Column::named(one),
            Column::named(two),
            Column::fixed("change"),
            Column::optional("interval", 1),
            Column::fixed("verdict"),
            Column::note("note"),
        ],
        rows: lines,
    });
    let others = Others { rows: &others, zeros: &zeros, refused: comparison.refused() };
    for line in others.lines(index) {
        document.say(Mark::Note, line);
    }
}

/// Adds the figures of two variants that stand beside each other without being compared.
fn beside(document: &mut Document, comparison: &Comparison, sides: [usize; 2], why: &str) {
    let [one, two] = sides.map(|side| &comparison.variants[side].name);
    let line = |row: &Row| {
        let [one, two] = side_cells(row, None, sides);
        let heading = heading(row);
        let label = heading.trim_start();
        let depth = usize::from(label.len() < heading.len());
        Line { depth, ..Line::of(vec![Cell::text(label), one, two, Cell::Empty]) }
    };
    let rows = comparison.rows.iter().filter(|row| !always_zero(row, sides));
    let mut lines: Vec<Line> = rows.map(line).collect();
    lines.extend(twin_line(comparison, sides).map(|line| {
        Line::of(line.cells.into_iter().filter(|cell| *cell != Cell::Empty).collect())
    }));
    document.table(Table {
        caption: Some(format!(
            "Metrics of {one} beside {two}: medians, ± the standard deviation of the runs"
        )),
        columns: vec![
            Column::fixed("metric"),
            Column::named(one),
            Column::named(two),
            Column::note("note"),
        ],
        rows: lines,
    });
    let note = format!("{why}: the figures stand beside each other and are not compared");
    document.say(Mark::Note, note);
}

/// Whether a change is shown to be one.
fn moved(change: &Change) -> bool {
    matches!(change.verdict, Verdict::Changed | Verdict::FewLayouts)
}

fn line(row: &Row, index: usize, sides: [usize; 2], is_imported: bool) -> Line {
    let change = &row.changes[index];
    let paired = if is_imported { None } else { paired(change) };
    let [one, two] = side_cells(row, paired, sides);
    let interval = change.ci.map(|(low, high)| {
        let level = format!("{:.4}", change.ci_level * 100.0);
        let level = level.trim_end_matches('0').trim_end_matches('.');
        Cell::Spread(format!("{} … {}", percent(low), percent(high)), format!("at {level} %"))
    });
    let tone = tone(row, change);
    let note = note(row, change, paired.and(row.values[sides[1]].as_ref()));
    let heading = heading(row);
    let label = heading.trim_start();
    Line {
        depth: usize::from(label.len() < heading.len()),
        tone: if moved(change) { tone } else { Tone::Plain },
        ..Line::of(vec![
            Cell::text(label),
            one,
            two,
            Cell::figure(amount(change)),
            interval.unwrap_or_default(),
            Cell::verdict(sign(change), word(change), tone),
            Cell::text(note),
        ])
    }
}

/// The figures of both sides. Where a change that is shown is not the quotient of the medians, the second is the first times the
/// change, so that a reader can divide them; its median is in the note.
fn side_cells(row: &Row, paired: Option<f64>, sides: [usize; 2]) -> [Cell; 2] {
    let sides = sides.map(|side| row.values[side].as_ref());
    let mut shown = sides.map(|side| side.map(Figures::center));
    if let ([Some(one), _], Some(ratio)) = (shown, paired) {
        shown[1] = Some(one * (1.0 + ratio));
    }
    let known: Vec<f64> = shown.into_iter().flatten().collect();
    let mut texts = figures(&known, row.unit).into_iter();
    sides.map(|side| {
        let Some(side) = side else { return Cell::Figure("–".into()) };
        let spread = side.sd.filter(|sd| *sd > 0.0 && side.mean != 0.0);
        let spread = spread.map_or(String::new(), |sd| format!("±{}", magnitude(sd / side.mean)));
        Cell::Spread(texts.next().unwrap_or_default(), spread)
    })
}

/// The change, if it is shown and visibly differs from the quotient of the medians.
fn paired(change: &Change) -> Option<f64> {
    let (medians, ratio) = (change.ratio_of_medians?, change.change_ratio?);
    let is_shown = moved(change) || change.verdict == Verdict::Inconclusive;
    let apart = ((1.0 + medians) / (1.0 + ratio) - 1.0).abs();
    (is_shown && apart > QUOTIENT_SHARE_MIN).then_some(ratio)
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

/// The row of the empty twin: the cost of the loop around the operations.
fn twin_line(comparison: &Comparison, sides: [usize; 2]) -> Option<Line> {
    let twin = twin(comparison)?;
    let [one, two] = sides.map(|side| twin.values[side]);
    let mut texts = figures(&[one?, two?], twin.unit).into_iter().map(Cell::Figure);
    Some(Line::of(vec![
        Cell::text("our own loop/op"),
        texts.next()?,
        texts.next()?,
        Cell::Empty,
        Cell::Empty,
        Cell::Empty,
        Cell::text(format!("included in {}", twin.label)),
    ]))
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
    };
    let label = part_of_kernel(&row.key).unwrap_or(&row.label);
    let place = if label == row.label || row.primary { "" } else { "  " };
    format!("{place}{label}{}{kind}", if row.per_op { "/op" } else { "" })
}

pub(super) fn amount(change: &Change) -> String {
    match (change.verdict, change.change_ratio) {
        (Verdict::Changed | Verdict::FewLayouts | Verdict::Inconclusive, Some(ratio)) => {
            percent(ratio)
        }
        (Verdict::Unchanged, _) if change.identical => "=".into(),
        (Verdict::Unchanged, _) => "~".into(),
        _ => "–".into(),
    }
}

/// The direction of a change that is shown.
pub(super) fn sign(change: &Change) -> &'static str {
    match (change.verdict, change.change_ratio) {
        (Verdict::Changed | Verdict::FewLayouts, Some(ratio)) if ratio < 0.0 => "▼",
        (Verdict::Changed | Verdict::FewLayouts, _) => "▲",
        (Verdict::Inconclusive, _) => "?",
        _ => "",
    }
}

/// The rung of the ladder on which a change stands; `GLOSSARY.md` has the ladder.
pub(super) fn word(change: &Change) -> &'static str {
    match change.verdict {
        Verdict::Changed if change.estimated || change.unordered => "differs",
        Verdict::Changed => "real",
        Verdict::FewLayouts => "differs",
        Verdict::Unchanged if change.identical => "same",
        Verdict::Unchanged => "none found",
        Verdict::Inconclusive => "undecided",
        Verdict::NotComparable => "not comparable",
        Verdict::Unavailable => "not available",
    }
}

/// The qualification of a verdict, in a few words; `paired`: the side whose figure is not its median.
fn note(row: &Row, change: &Change, paired: Option<&Figures>) -> String {
    let below = change.below_floor().map(|_| "< layouts".to_string());
    let layouts = change.layouts.filter(|_| !row.exact).map(|layouts| layouts.words());
    let how = match change.verdict {
        Verdict::Changed | Verdict::FewLayouts if change.estimated => Some("estimated".to_string()),
        Verdict::Changed if row.exact => Some("exact".into()),
        Verdict::Changed => None,
        Verdict::FewLayouts => {
            Some(format!("exact in {}", layouts.unwrap_or_else(|| change.reason.clone())))
        }
        Verdict::Unchanged if change.identical => {
            Some(layouts.unwrap_or_else(|| "every run".into()))
        }
        Verdict::Unchanged => detectable(row, change).map(|mde| format!("≥ {mde} would show")),
        Verdict::Inconclusive | Verdict::NotComparable | Verdict::Unavailable => {
            Some(change.reason.clone())
        }
    };
    let median = paired.map(|side| format!("median {}", figures(&[side.center()], row.unit)[0]));
    let parts = [how, below, median].into_iter().flatten().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

/// The mood of a change; the words and signs beside it say the same.
pub(super) fn tone(row: &Row, change: &Change) -> Tone {
    let ratio = change.change_ratio;
    let worse = match row.better {
        Better::Lower => ratio.map(|ratio| ratio > 0.0),
        Better::Higher => ratio.map(|ratio| ratio < 0.0),
        Better::Neither => None,
    };
    match (change.verdict, worse) {
        (Verdict::Changed, _) if change.unordered || change.estimated => Tone::Strong,
        (Verdict::Changed, Some(true)) => Tone::Worse,
        (Verdict::Changed, Some(false)) => Tone::Better,
        (Verdict::Changed, None) | (Verdict::FewLayouts, _) => Tone::Strong,
        (Verdict::NotComparable | Verdict::Inconclusive, _) => Tone::Unsure,
        (Verdict::Unchanged | Verdict::Unavailable, _) => Tone::Quiet,
    }
}

/// The metrics that have no row of their own.
struct Others<'a> {
    rows: &'a [&'a Row],
    /// Those that were 0 in every run.
    zeros: &'a [&'a Row],
    /// Whether nothing is comparable, for a reason that the conclusion gives.
    refused: bool,
}

impl Others<'_> {
    /// A line for each verdict, with the limits.
    fn lines(&self, index: usize) -> Vec<String> {
        let zeros = self.zeros.iter().map(|row| format!("{} (0)", heading(row).trim_start()));
        let mut groups: [(&str, Vec<String>); 4] = [
            ("no change found in", Vec::new()),
            ("the same in every run", zeros.collect()),
            ("undecided", Vec::new()),
            ("not comparable", Vec::new()),
        ];
        for row in self.rows {
            let change = &row.changes[index];
            let (group, said) = match change.verdict {
                Verdict::Unchanged if change.identical => {
                    (1, change.layouts.filter(|_| !row.exact).map(|layouts| layouts.words()))
                }
                Verdict::Unchanged => (0, detectable(row, change).map(|mde| format!("≥ {mde}"))),
                Verdict::NotComparable => {
                    (3, Some(change.reason.clone()).filter(|_| !self.refused))
                }
                _ => (2, Some(change.reason.clone())),
            };
            let name = heading(row).trim_start().to_string();
            groups[group].1.push(match said {
                Some(said) if !said.is_empty() => format!("{name} ({said})"),
                _ => name,
            });
        }
        let groups = groups.into_iter().filter(|(_, names)| !names.is_empty());
        groups.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect()
    }
}

/// The largest floor that a change lies below, with its layouts, in words.
fn largest_floor(changes: &[Change]) -> Option<String> {
    let below = changes.iter().filter(|change| change.below_floor().is_some());
    let largest = below.max_by(|one, two| {
        let floor = |change: &Change| change.relevance_floor_ratio.unwrap_or(0.0);
        floor(one).total_cmp(&floor(two))
    });
    largest.and_then(Change::floor_words)
}

/// Adds the meaning of the words that occur in the tables.
pub(super) fn footnotes(document: &mut Document, comparison: &Comparison) {
    let changes = || comparison.rows.iter().flat_map(|row| &row.changes);
    if changes().any(|change| change.verdict == Verdict::Unchanged && !change.identical) {
        let text = "≥ x: no change was found; one of x or more would have been, 9 times in 10";
        document.say(Mark::Note, text);
    }
    let floors = comparison.rows.iter().filter_map(|row| {
        largest_floor(&row.changes).map(|floor| format!("{} {floor}", row.label))
    });
    let floors = floors.collect::<Vec<_>>();
    if !floors.is_empty() {
        let text = format!(
            "< layouts: the change is real for each seed, and smaller than what other seeds and layouts shift: {}",
            floors.join(", ")
        );
        document.say(Mark::Note, text);
    }
    let notes = [layout_note(comparison), accuracy_note(comparison)];
    notes.into_iter().flatten().for_each(|note| document.say(Mark::Note, note));
    if changes().any(|change| paired(change).is_some()) {
        let text = match comparison.imported {
            None => {
                "median x: the change is estimated block by block, so that drift cancels; the figure is \
                 the baseline times the change, and x the median of the runs"
            }
            Some(_) => {
                "change: that of a typical run or block against another (Hodges and Lehmann's \
                 estimate), which is not the ratio of the medians"
            }
        };
        document.say(Mark::Note, text);
    }
}

/// How far off modelled cycles may be, if there are any.
fn accuracy_note(comparison: &Comparison) -> Option<String> {
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
fn layout_note(comparison: &Comparison) -> Option<String> {
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

/// Adds the metrics that were unavailable, grouped by reason.
pub(super) fn missing(document: &mut Document, view: &View<'_>) {
    // The doctor examines this computer.
    let counted_here = view.recording.plan.machine() == MachineKind::Host;
    let help = match counted_here && view.comparison.imported.is_none() {
        true => " (opcost doctor)",
        false => "",
    };
    for (labels, reason) in view.comparison.missing() {
        document.say_in(
            Mark::Missing,
            Tone::Quiet,
            format!("{}: {reason}{help}", labels.join(", ")),
        );
    }
}
