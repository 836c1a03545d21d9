//! The recordings of the same experiment over time.

use super::plot::{Dot, Group, LARGE, Words, series};
use super::plots::unit_named;
use super::repeat::quoted;
use crate::render::View;
use crate::render::history::change_text;
use maud::{Markup, html};
use opcost_analysis::history::{History, Series};
use opcost_base::number::scale;
use opcost_base::time::date;

/// Returns `None` if fewer than two recordings have a figure.
pub(super) fn section(view: &View<'_>, history: &History) -> Option<Markup> {
    let shown: Vec<Markup> =
        history.series.iter().filter_map(|series| one(view, history, series)).collect();
    (!shown.is_empty()).then(|| {
        html! {
            div class="plots" { @for figure in shown { (figure) } }
            p {
                "Old recordings are for trends; a verdict needs both versions in one recording. More: "
                code { "opcost history " (quoted(&history.experiment)) }
            }
        }
    })
}

fn one(view: &View<'_>, history: &History, line: &Series) -> Option<Markup> {
    let known: Vec<_> =
        line.points.iter().filter_map(|point| Some((point, point.value?))).collect();
    if known.len() < 2 {
        return None;
    }
    let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let (factor, symbol) = scale(&values, line.unit);
    let per_op = if line.per_op { "/op" } else { "" };
    let dots = (1..).zip(&known).map(|(place, (point, value))| Dot {
        place,
        value: value / factor,
        interval: point.interval.map(|(low, high)| (low / factor, high / factor)),
        marked: point.recording == view.comparison.recording,
    });
    let group = Group { dots: dots.collect() };
    // Only recordings with a figure have a place.
    let place = |point: usize| {
        line.points[..=point].iter().filter(|point| point.value.is_some()).count() as u32
    };
    let breaks: Vec<u32> = line.changes.iter().map(|change| place(change.point)).collect();
    let title =
        format!("{}{per_op} of {} over {} recordings", line.metric, history.variant, known.len());
    let dates =
        [known.first(), known.last()].map(|end| end.map_or(0, |(point, _)| point.created_unix_ns));
    let description = format!(
        "One point a recording, from {} to {} UTC, with its interval; {} changes of level.",
        date(dates[0]),
        date(dates[1]),
        line.changes.len()
    );
    let words = Words {
        id: "plot-history",
        title: &title,
        description: &description,
        values: &format!("{}{per_op}{}", line.metric, unit_named(symbol)),
    };
    let drawn = series(LARGE, &words, &[group], &breaks, "recording, the oldest first")?;
    Some(html! {
        figure {
            (drawn)
            figcaption {
                strong { (title) } ". " (description) " A ring is around this recording."
                @for change in &line.changes {
                    br; (date(line.points[change.point].created_unix_ns)) " UTC: " (change_text(line, change))
                }
                @for note in &line.notes { br; (note) }
            }
        }
    })
}
