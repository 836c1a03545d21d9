//! Figures over time as a page without a server, and the newest figure as a badge.

use super::plot::{Dot, Group, LARGE, Words, series};
use super::plots::unit_named;
use super::whole;
use crate::render::history::change_text;
use maud::{Markup, html};
use opcost_analysis::history::History;
use opcost_base::number::{figures, percent, scale};
use opcost_base::time::date;
use opcost_gate::gate::notes::NotesHistory;
use opcost_kernel::short_commit;
use opcost_record::Unit;

/// Figures over time.
pub struct Timeline {
    title: String,
    lines: Vec<Line>,
}

/// One metric over time.
struct Line {
    metric: String,
    unit: Unit,
    points: Vec<Point>,
    /// The changes of level: the index of the first point after each, and its words.
    changes: Vec<(usize, String)>,
    notes: Vec<String>,
}

/// One figure, of a commit or of a recording.
struct Point {
    name: String,
    subject: String,
    value: f64,
    interval: Option<(f64, f64)>,
    /// The change since the point before; empty for the first.
    change: String,
}

impl Timeline {
    /// A case's figures that commits keep as notes.
    pub fn of_notes(history: &NotesHistory) -> Timeline {
        let lines = history.series.iter().map(|series| Line {
            metric: series.metric.clone(),
            unit: Unit::Count,
            points: series
                .points
                .iter()
                .map(|point| Point {
                    name: short_commit(&point.commit).to_string(),
                    subject: point.subject.clone(),
                    value: point.value as f64,
                    interval: None,
                    change: match &point.before {
                        None => String::new(),
                        Some(Ok(before)) => change(*before as f64, point.value as f64),
                        Some(Err(why)) => format!("not comparable: {why}"),
                    },
                })
                .collect(),
            changes: Vec::new(),
            notes: Vec::new(),
        });
        Timeline { title: history.case.clone(), lines: lines.collect() }
    }

    /// The recordings of an experiment.
    pub fn of_recordings(history: &History) -> Timeline {
        let lines = history.series.iter().map(|series| {
            let mut points: Vec<Point> = Vec::new();
            let mut places = Vec::new();
            for point in &series.points {
                places.push(points.len());
                let Some(value) = point.value else { continue };
                let commit = point.revision.as_ref().map(|of| format!("commit {}", of.short()));
                let words: Vec<String> = point.label.iter().cloned().chain(commit).collect();
                points.push(Point {
                    name: format!("{} {}", date(point.created_unix_ns), point.recording),
                    subject: words.join(", "),
                    value,
                    interval: point.interval,
                    change: points.last().map_or(String::new(), |last| change(last.value, value)),
                });
            }
            let per_op = if series.per_op { "/op" } else { "" };
            let changes = series.changes.iter();
            Line {
                metric: format!("{}{per_op}", series.metric),
                unit: series.unit,
                points,
                changes: changes.map(|of| (places[of.point], change_text(series, of))).collect(),
                notes: series.notes.clone(),
            }
        });
        let title = format!("{} · {}", history.experiment, history.variant);
        Timeline { title, lines: lines.collect() }
    }

    /// The page: a chart and a table for each metric. It needs no other file, no script and no network.
    pub fn page(&self) -> String {
        let body = html! {
            header { h1 { (self.title) } }
            main { @for (number, line) in self.lines.iter().enumerate() { (section(number, line)) } }
        };
        whole(&format!("{} – opcost history", self.title), body)
    }

    /// The badge: the newest figure of the first metric and its change, as a picture (SVG). `None` without a figure.
    pub fn badge(&self) -> Option<String> {
        let line = self.lines.first()?;
        let newest = line.points.last()?;
        let label = format!("{} {}", self.title, line.metric);
        let figure = figures(&[newest.value], line.unit).remove(0);
        let value = match newest.change.as_str() {
            "" => figure,
            change if change.starts_with("not comparable") => figure,
            change => format!("{figure} ({change})"),
        };
        // The browser sets each text into the width that is reserved for it.
        let width = |text: &str| 7 * text.chars().count() + 12;
        let (left, right) = (width(&label), width(&value));
        let all = left + right;
        let markup = html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(all) height="20" role="img"
                aria-label=(format!("{label}: {value}")) {
                title { (label) ": " (value) }
                rect width=(left) height="20" fill="#555" {}
                rect x=(left) width=(right) height="20" fill="#0969da" {}
                g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" {
                    text x=(left / 2) y="14" textLength=(left - 12) { (label) }
                    text x=(left + right / 2) y="14" textLength=(right - 12) { (value) }
                }
            }
        };
        Some(markup.into_string())
    }
}

/// A change in words: `=`, `+0.50 %`, or `new` where there was nothing.
fn change(before: f64, now: f64) -> String {
    match before {
        _ if before == now => "=".into(),
        0.0 => "new".into(),
        _ => percent(now / before - 1.0),
    }
}

fn section(number: usize, line: &Line) -> Markup {
    let values: Vec<f64> = line.points.iter().map(|point| point.value).collect();
    let (factor, symbol) = scale(&values, line.unit);
    let dots = (1..).zip(&line.points).map(|(place, point)| Dot {
        place,
        value: point.value / factor,
        interval: point.interval.map(|(low, high)| (low / factor, high / factor)),
        marked: false,
    });
    let group = Group { dots: dots.collect() };
    let breaks: Vec<u32> = line.changes.iter().map(|(point, _)| *point as u32 + 1).collect();
    let id = format!("plot-{number}");
    let shifts = match breaks.len() {
        0 => String::new(),
        1 => "; 1 change of level".into(),
        many => format!("; {many} changes of level"),
    };
    let description = format!("{} points, the oldest first{shifts}.", values.len());
    let words = Words {
        id: &id,
        title: &line.metric,
        description: &description,
        values: &format!("{}{}", line.metric, unit_named(symbol)),
    };
    let rows = line.points.iter().rev();
    html! {
        section {
            h2 { (line.metric) }
            div class="plots" {
                figure {
                    @if let Some(drawn) = series(LARGE, &words, &[group], &breaks, "the oldest first") { (drawn) }
                    figcaption {
                        (description)
                        @for (point, words) in &line.changes { br; (line.points[*point].name) ": " (words) }
                        @for note in &line.notes { br; (note) }
                    }
                }
            }
            table {
                caption { "The figures, the newest first" }
                thead { tr { th scope="col" { "of" } th scope="col" { (line.metric) } th scope="col" { "change" } th scope="col" { "subject" } } }
                tbody {
                    @for point in rows {
                        tr {
                            th scope="row" { (point.name) }
                            td { (figures(&[point.value], line.unit)[0]) }
                            td { (point.change) }
                            td { (point.subject) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_gate::gate::notes::{NotesPoint, NotesSeries};

    fn history(values: &[u64]) -> NotesHistory {
        let point = |(at, value): (usize, &u64)| NotesPoint {
            commit: format!("{at}").repeat(40),
            subject: "Parse <fast> & well".into(),
            value: *value,
            before: at.checked_sub(1).map(|before| Ok(values[before])),
        };
        let points = values.iter().enumerate().map(point).collect();
        NotesHistory {
            case: "count".into(),
            series: vec![NotesSeries { metric: "instructions".into(), points }],
            known: Vec::new(),
        }
    }

    #[test]
    fn a_page_has_each_commit_and_loads_nothing() {
        let page = Timeline::of_notes(&history(&[1_000_000, 1_000_000, 1_005_000])).page();
        for part in
            ["<svg", "111111111111", "1,005,000", "+0.50 %", "Parse &lt;fast&gt; &amp; well"]
        {
            assert!(page.contains(part), "no '{part}' in {page}");
        }
        assert!(!page.contains("<script") && !page.contains("<fast>"));
        assert!(page.contains("default-src 'none'") && !page.contains(" src="));
    }

    #[test]
    fn a_badge_has_the_newest_figure_and_its_change() {
        let badge = |values: &[u64]| Timeline::of_notes(&history(values)).badge();
        let changed = badge(&[1_000_000, 1_005_000]).unwrap();
        assert!(changed.contains("count instructions: 1,005,000 (+0.50 %)"), "{changed}");
        assert!(changed.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{changed}");
        assert!(badge(&[7]).unwrap().contains("<title>count instructions: 7</title>"));
        assert_eq!(badge(&[]), None);
    }
}
