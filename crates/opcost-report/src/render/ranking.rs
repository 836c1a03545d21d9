//! Many variants in one table, the best first, and their figures over a scanned parameter.

use super::metrics::{amount, heading, sign, tone, word};
use opcost_analysis::comparison::ranking::multiple;
use opcost_analysis::comparison::{Comparison, RankedVariant, Ranking, Row, Scan};
use opcost_base::listing::few;
use opcost_base::number::{digits, figures, magnitude, percent, scale};
use opcost_page::document::{Cell, Column, Document, Mark, Plot, Row as Line, Table};
use opcost_record::Unit;
use opcost_stats::growth::{Fit, Growth};
use opcost_stats::outliers::middle;

/// The most rows of a table that stands on one screen.
const ROWS_MAX: usize = 12;
/// The rows at both ends of a longer table.
const FIRST: usize = 6;
const LAST: usize = 3;
/// Points of a curve.
const CURVE_POINTS: usize = 128;
/// An axis is logarithmic from this ratio of its ends on.
const LOG_RATIO_MIN: f64 = 30.0;
/// The most outliers that are named.
const NAMED_MAX: usize = 3;

/// Adds the table, `whole` or as much as stands on one screen, the figures over the parameter, and the notes.
pub(super) fn add(
    document: &mut Document,
    comparison: &Comparison,
    ranking: &Ranking,
    whole: bool,
) {
    let Some(row) = comparison.rows.iter().find(|row| row.primary) else { return };
    document.table(table(comparison, ranking, row, whole));
    if !ranking.others.is_empty() {
        let count = |(label, count): &(String, usize)| format!("{label} in {count}");
        let others: Vec<String> = ranking.others.iter().map(count).collect();
        document.say(Mark::Note, format!("other real changes: {}", few(&others)));
    }
    if let Some(scan) = &ranking.scan {
        document.gap();
        plot(document, row, scan);
    }
}

/// Where the rest is.
pub(super) fn rest(comparison: &Comparison) -> String {
    format!(
        "every comparison with all metrics: opcost show {0} --all; one: opcost show {0} --variant NAME",
        comparison.recording
    )
}

fn table(comparison: &Comparison, ranking: &Ranking, row: &Row, whole: bool) -> Table {
    let faster = row.unit == Unit::Ns;
    let places: Vec<&RankedVariant> = ranking.places.iter().collect();
    let centers: Vec<f64> =
        row.values.iter().flatten().map(opcost_analysis::comparison::Figures::center).collect();
    // All rows have the unit of the middle one, so that they can be compared.
    let unit =
        scale(&opcost_stats::summary::median(&centers).into_iter().collect::<Vec<_>>(), row.unit);
    let line = |place: &&RankedVariant| self::line(comparison, row, place, unit);
    let long = places.len() > ROWS_MAX && !whole;
    let rows: Vec<Line> = match long {
        false => places.iter().map(line).collect(),
        true => {
            let end = places.len() - LAST;
            let mut rows: Vec<Line> = places[..FIRST].iter().map(line).collect();
            let hidden = &places[FIRST..end];
            let baseline = hidden.iter().position(|place| place.comparison.is_none());
            match baseline {
                Some(at) => {
                    rows.extend(more(at));
                    rows.push(line(&hidden[at]));
                    rows.extend(more(hidden.len() - at - 1));
                }
                None => rows.extend(more(hidden.len())),
            }
            rows.extend(places[end..].iter().map(line));
            rows
        }
    };
    let times = if faster { "times as fast" } else { "times" };
    Table {
        caption: Some(format!("{} variants by {}", places.len(), heading(row))),
        columns: vec![
            Column::fixed("variant"),
            Column::fixed(heading(row)),
            Column::fixed(times),
            Column::fixed("change"),
            Column::optional("interval", 1),
            Column::fixed("verdict"),
        ],
        rows,
    }
}

/// A row in place of others.
fn more(count: usize) -> Option<Line> {
    let cells = vec![Cell::text(format!("… {count} more"))];
    (count > 0).then(|| Line::of([cells, vec![Cell::Empty; 5]].concat()))
}

fn line(comparison: &Comparison, row: &Row, place: &RankedVariant, unit: (f64, &str)) -> Line {
    let name = Cell::Name(comparison.variants[place.variant].name.clone(), String::new());
    let figure = match &row.values[place.variant] {
        None => Cell::Figure("–".into()),
        Some(side) => {
            let spread = side.sd.filter(|sd| *sd > 0.0 && side.mean != 0.0);
            let spread =
                spread.map_or(String::new(), |sd| format!("±{}", magnitude(sd / side.mean)));
            Cell::Spread(format!("{}{}", digits(side.center() / unit.0), unit.1), spread)
        }
    };
    let Some(change) = place.comparison.map(|index| &row.changes[index]) else {
        let cells = [Cell::Figure("1".into()), Cell::Empty, Cell::Empty, Cell::text("baseline")];
        return Line { strong: true, ..Line::of([vec![name, figure], cells.to_vec()].concat()) };
    };
    let times = place.times.map_or(Cell::Empty, |times| {
        let ends = place.times_interval;
        let ends = ends.map(|(low, high)| format!("{} … {}", multiple(low), multiple(high)));
        Cell::Spread(multiple(times), ends.unwrap_or_default())
    });
    let interval = change.ci.map(|(low, high)| format!("{} … {}", percent(low), percent(high)));
    let tone = tone(row, change);
    Line::toned(
        tone,
        vec![
            name,
            figure,
            times,
            Cell::figure(amount(change)),
            Cell::text(interval.unwrap_or_default()),
            Cell::verdict(sign(change), word(change), tone),
        ],
    )
}

/// The fit that is drawn: the one that was decided, or the likeliest.
pub(super) fn drawn_fit(scan: &Scan) -> Option<&Fit> {
    let growth = scan.growth.as_ref().filter(|growth| !matches!(growth, Growth::Unlike(_)));
    growth.and_then(|growth| growth.fits().first())
}

/// Whether values need a logarithmic axis.
fn is_logarithmic(values: &[f64]) -> bool {
    let (low, high) = ends(values);
    low > 0.0 && high / low >= LOG_RATIO_MIN
}

fn ends(values: &[f64]) -> (f64, f64) {
    let fold = |of: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, of);
    (fold(f64::min, f64::MAX), fold(f64::max, f64::MIN))
}

/// The range of the values that a plot shows, on the scale of its axis.
pub(super) fn shown_range(values: &[f64]) -> Option<(f64, f64)> {
    if !is_logarithmic(values) {
        return middle(values);
    }
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let (low, high) = middle(&logarithms)?;
    // The ends are values themselves; a logarithm and back would move them.
    let near = |end: f64| {
        values.iter().copied().min_by(|a, b| (a.ln() - end).abs().total_cmp(&(b.ln() - end).abs()))
    };
    near(low).zip(near(high))
}

fn plot(document: &mut Document, row: &Row, scan: &Scan) {
    let (across, values): (Vec<f64>, Vec<f64>) = scan.points.iter().copied().unzip();
    let Some(shown) = shown_range(&values) else { return };
    let logarithmic = [is_logarithmic(&across), is_logarithmic(&[shown.0, shown.1])];
    let (left, right) = ends(&across);
    let at = |step: usize| {
        let share = step as f64 / (CURVE_POINTS - 1) as f64;
        match logarithmic[0] {
            true => left * (right / left).powf(share),
            false => left + (right - left) * share,
        }
    };
    let curve = drawn_fit(scan).map(|fit| {
        let point = |step| (at(step), fit.at(at(step)));
        (0..CURVE_POINTS).map(point).collect()
    });
    let texts = figures(&[shown.0, shown.1], row.unit);
    document.plot(Plot {
        across: scan.name.clone(),
        upwards: heading(row),
        points: scan.points.clone(),
        curve: curve.unwrap_or_default(),
        shown,
        ends: [digits(left), digits(right), texts[0].clone(), texts[1].clone()],
        logarithmic,
    });
    if let Some(beyond) =
        beyond(&scan.points, shown, |value| figures(&[value], row.unit).remove(0), &scan.name)
    {
        document.say(Mark::Note, beyond);
    }
}

/// The points beyond what a plot shows, in words: `2 beyond the edge: 12.3 ms at n = 930, …`.
pub(super) fn beyond(
    points: &[(f64, f64)],
    (low, high): (f64, f64),
    text: impl Fn(f64) -> String,
    name: &str,
) -> Option<String> {
    let mut far: Vec<&(f64, f64)> = points.iter().filter(|(_, y)| *y < low || *y > high).collect();
    far.sort_by(|one, two| two.1.total_cmp(&one.1));
    let named =
        far.iter().take(NAMED_MAX).map(|(x, y)| format!("{} at {name} = {}", text(*y), digits(*x)));
    let named: Vec<String> = named.collect();
    let more = far.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!far.is_empty()).then(|| format!("beyond the edge: {}{more}", named.join(", ")))
}
