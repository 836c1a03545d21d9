//! The plots of a recording: all plots of the primary metric, a small plot of each headline metric.

use super::plot::{
    Dot, Group, LARGE, Row as Strip, SMALL, Size, Words, every, fitted, outside, paired, series,
    strip, symbol,
};
use crate::render::View;
use crate::render::metrics::heading;
use crate::render::ranking::{beyond, drawn_fit, shown_range};
use maud::{Markup, html};
use opcost_analysis::comparison::{Change, Figures, Row, Scan, Verdict};
use opcost_base::listing::few;
use opcost_base::number::{digits, figures, percent, scale};
use opcost_record::{Family, Outcome};

/// The most variants of one plot; colours and symbols of more cannot be told apart.
const VARIANTS_MAX: usize = 8;
/// The most headline metrics that have plots.
const HEADLINES_MAX: usize = 8;

/// Returns `None` if no run has a figure, as with imported means.
pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    let rows = &view.comparison.rows;
    let primary = rows.iter().find(|row| row.primary);
    if let Some(ranking) = &view.comparison.ranking {
        let drawn = over_parameter(primary?, ranking.scan.as_ref()?)?;
        return Some(html! { div class="plots" { (drawn) } });
    }
    let large: Vec<Markup> = primary.into_iter().flat_map(|row| of_primary(view, row)).collect();
    let headline = |row: &&Row| !row.primary && row.family == Family::Headline;
    let small: Vec<Markup> = rows
        .iter()
        .filter(headline)
        .take(HEADLINES_MAX)
        .enumerate()
        .flat_map(|(number, row)| of_headline(view, row, number))
        .collect();
    if large.is_empty() && small.is_empty() {
        return None;
    }
    Some(html! {
        @if let Some(row) = primary.filter(|_| !large.is_empty()) {
            h3 { "The primary metric, " (heading(row)) }
        }
        div class="plots" { @for figure in large { (figure) } }
        @if !small.is_empty() {
            h3 { "Headline metrics" }
            div class="plots small" { @for figure in small { (figure) } }
        }
    })
}

/// Points closer than this share of an axis look like one point.
const VISIBLE: f64 = 0.05;

/// Whether points lie visibly apart on an axis that also shows the values `also`.
fn are_apart(points: &[f64], also: &[f64]) -> bool {
    let ends = |values: &mut dyn Iterator<Item = f64>| {
        values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
    };
    let (low, high) = ends(&mut points.iter().copied());
    let (least, most) = ends(&mut points.iter().chain(also).copied());
    high - low > VISIBLE * (most - least)
}

/// The variants whose runs are drawn; `None` if no variant's runs lie visibly apart: a plot of points that
/// lie on one another says no more than a figure.
fn drawn(row: &Row) -> Option<Vec<(usize, &Figures)>> {
    let shown = shown(row);
    let all: Vec<f64> = shown.iter().flat_map(|(_, figures)| figures.values.clone()).collect();
    shown.iter().any(|(_, figures)| are_apart(&figures.values, &all)).then_some(shown)
}

fn of_primary(view: &View<'_>, row: &Row) -> Vec<Markup> {
    let pairs = view.comparison.comparisons.iter().enumerate().take(VARIANTS_MAX);
    let differences = pairs.filter_map(|(index, _)| {
        differences(view, row, index, LARGE, &format!("plot-paired-{index}"))
    });
    let others =
        [in_order(view, row, "plot-order"), distributions(view, row, LARGE, "plot-distributions")];
    differences.chain(others.into_iter().flatten()).collect()
}

/// The differences of a headline metric; its distributions if it has no blocks, as imported metrics.
fn of_headline(view: &View<'_>, row: &Row, number: usize) -> Vec<Markup> {
    let judged: Vec<usize> = (0..row.changes.len().min(VARIANTS_MAX))
        .filter(|index| has_differences(&row.changes[*index]))
        .collect();
    let id = format!("plot-headline-{number}");
    let of_pair = |index: &usize| differences(view, row, *index, SMALL, &format!("{id}-{index}"));
    let drawn: Vec<Markup> = judged.iter().filter_map(of_pair).collect();
    let has_blocks = judged.iter().any(|index| row.changes[*index].paired.is_some());
    if !has_blocks && !judged.is_empty() {
        return distributions(view, row, SMALL, &id).into_iter().collect();
    }
    drawn
}

/// Whether there are differences to show: runs that are not comparable have none.
fn has_differences(change: &Change) -> bool {
    let judged = !matches!(change.verdict, Verdict::NotComparable | Verdict::Unavailable);
    judged && !change.identical
}

/// The difference of each block, in percent if the baseline is not 0.
fn differences(view: &View<'_>, row: &Row, index: usize, size: Size, id: &str) -> Option<Markup> {
    let comparison = view.comparison;
    let (baseline, variant) = comparison.comparisons[index];
    let change = row.changes.get(index).filter(|change| has_differences(change))?;
    let paired_blocks = change.paired.as_ref()?;
    let (unit, units) = view.recording.plan.unit_words();
    let ratios: Option<Vec<f64>> = paired_blocks
        .differences()
        .iter()
        .map(|difference| paired_blocks.ratio(*difference).map(|ratio| 100.0 * ratio))
        .collect();
    let names = [baseline, variant].map(|side| comparison.variants[side].name.as_str());
    let title = format!("{} of {} against {}, {unit} by {unit}", row.label, names[1], names[0]);
    let estimate = change.change_ratio.filter(|_| ratios.is_some());
    let interval = change.ci.filter(|_| ratios.is_some());
    let said = match (estimate, interval) {
        (Some(ratio), Some((low, high))) => {
            format!(
                "Estimate {} (line), interval {} … {} (band).",
                percent(ratio),
                percent(low),
                percent(high)
            )
        }
        (Some(ratio), None) => format!("Estimate {} (line); no interval.", percent(ratio)),
        _ => "The baseline is 0, so there is no ratio and no interval of one.".to_string(),
    };
    let points = paired_blocks.differences();
    if !are_apart(points, &[0.0]) {
        return None;
    }
    let count = points.len();
    let thinned = thinned(count, unit);
    let (values, name) = match ratios {
        Some(ratios) => (ratios, "change, %".to_string()),
        None => {
            let (factor, symbol) = scale(paired_blocks.differences(), row.unit);
            let scaled = paired_blocks.differences().iter().map(|value| value / factor);
            (scaled.collect(), format!("difference{}", unit_named(symbol)))
        }
    };
    let ends = interval.into_iter().flat_map(|(low, high)| [100.0 * low, 100.0 * high]);
    let also: Vec<f64> = ends.chain(estimate.map(|ratio| 100.0 * ratio)).chain([0.0]).collect();
    let far = arrows(outside(&values, &also, true), |value| match estimate {
        Some(_) => percent(value / 100.0),
        None => digits(value),
    });
    let description = format!(
        "One point for each of {count} {units}; the dashed line is no change. {said}{thinned}{far}"
    );
    let words = Words { id, title: &title, description: &description, values: &name };
    let percents = |(low, high): (f64, f64)| (100.0 * low, 100.0 * high);
    let drawn = paired(
        size,
        &words,
        &values,
        estimate.map(|ratio| 100.0 * ratio),
        interval.map(percents),
        unit,
    )?;
    Some(figure(drawn, &title, html! { (description) }))
}

/// The values of every variant in the order in which the runs were made.
fn in_order(view: &View<'_>, row: &Row, id: &str) -> Option<Markup> {
    // Runs on separate emulated machines have no order: the machines run at the same time, unaware of each other.
    let plan = &view.recording.plan;
    if plan.emulation().is_some() && plan.in_process.is_none() {
        return None;
    }
    let shown = drawn(row)?;
    let (factor, symbol) = unit(row, &shown);
    let groups: Vec<Group> = shown
        .iter()
        .map(|(variant, figures)| {
            let places = places(view, row, *variant, figures.values.len());
            let dots = figures.values.iter().zip(places).map(|(value, place)| Dot {
                place,
                value: value / factor,
                ..Dot::default()
            });
            Group { dots: dots.collect() }
        })
        .collect();
    // The order in which imported runs were made is unknown.
    let imported = view.comparison.imported.is_some();
    let order = if imported { "the file" } else { "running" };
    let title = format!("{} in the order of {order}", heading(row));
    let description = sentence(view, row, &shown);
    let words = Words { id, title: &title, description: &description, values: &axis(row, symbol) };
    let drawn = series(LARGE, &words, &groups, &[], "run")?;
    let far = far_runs(row, &shown, &[]);
    Some(figure(drawn, &title, html! { (legend(view, &shown, "")) (far) }))
}

/// The values of every variant over one axis.
fn distributions(view: &View<'_>, row: &Row, size: Size, id: &str) -> Option<Markup> {
    let shown = drawn(row)?;
    let (factor, symbol) = unit(row, &shown);
    let rows: Vec<Strip<'_>> = shown
        .iter()
        .map(|(_, figures)| Strip { values: &figures.values, median: figures.median, factor })
        .collect();
    let title = format!("Distribution of {}", heading(row));
    let description = sentence(view, row, &shown);
    let words = Words { id, title: &title, description: &description, values: &axis(row, symbol) };
    let drawn = strip(size, &words, &rows)?;
    let medians: Vec<f64> = shown.iter().filter_map(|(_, figures)| figures.median).collect();
    let far = far_runs(row, &shown, &medians);
    Some(figure(drawn, &title, html! { (legend(view, &shown, "From above: ")) (far) }))
}

/// The sentence that names the values beyond the scale; empty if all are on it.
fn arrows(far: Vec<f64>, text: impl Fn(f64) -> String) -> String {
    let texts: Vec<String> = far.into_iter().map(text).collect();
    if texts.is_empty() { String::new() } else { format!(" Arrows at the edge: {}.", few(&texts)) }
}

/// The values of these variants beyond the scale of a plot, named.
fn far_runs(row: &Row, shown: &[(usize, &Figures)], also: &[f64]) -> String {
    let all: Vec<f64> = shown.iter().flat_map(|(_, figures)| figures.values.clone()).collect();
    arrows(outside(&all, also, false), |value| figures(&[value], row.unit).remove(0))
}

/// The sentence that not every item is drawn; empty if all are.
fn thinned(items: usize, what: &str) -> String {
    match every(items) {
        1 => String::new(),
        step => format!(" One {what} of {step} is drawn."),
    }
}

/// The variants whose runs have figures, as many as one plot shows.
fn shown(row: &Row) -> Vec<(usize, &Figures)> {
    let with_runs = row.values.iter().enumerate().filter_map(|(variant, figures)| {
        figures
            .as_ref()
            .filter(|figures| !figures.values.is_empty())
            .map(|figures| (variant, figures))
    });
    with_runs.take(VARIANTS_MAX).collect()
}

/// The places of a variant's runs among all runs, from 1; for imported figures, their order within the variant.
fn places(view: &View<'_>, row: &Row, variant: usize, runs: usize) -> Vec<u32> {
    let recording = view.recording;
    let metric = recording.dictionary.keys().iter().position(|key| *key == row.key);
    let made = recording.records.iter().filter(|record| record.block.is_some()).zip(1..);
    let places: Vec<u32> = made
        .filter(|(record, _)| {
            usize::from(record.variant) == variant
                && record.outcome == Outcome::Finished
                && record.samples.iter().any(|sample| Some(usize::from(sample.metric)) == metric)
        })
        .map(|(_, place)| place)
        .collect();
    if places.len() == runs { places } else { (1..=runs as u32).collect() }
}

fn unit(row: &Row, shown: &[(usize, &Figures)]) -> (f64, &'static str) {
    let centers: Vec<f64> = shown.iter().map(|(_, figures)| figures.center()).collect();
    scale(&centers, row.unit)
}

fn axis(row: &Row, symbol: &str) -> String {
    format!("{}{}", heading(row), unit_named(symbol))
}

/// The unit behind the name of an axis; empty for counts.
pub(super) fn unit_named(symbol: &str) -> String {
    match symbol.trim() {
        "" => String::new(),
        symbol => format!(" in {symbol}"),
    }
}

/// The variants with their range, for readers who cannot see the plot.
fn sentence(view: &View<'_>, row: &Row, shown: &[(usize, &Figures)]) -> String {
    let of = |(variant, side): &(usize, &Figures)| {
        let name = &view.comparison.variants[*variant].name;
        let ends: Vec<f64> =
            [side.min, Some(side.center()), side.max].into_iter().flatten().collect();
        format!("{name}: {} runs, {}", side.values.len(), figures(&ends, row.unit).join(" … "))
    };
    let parts: Vec<String> = shown.iter().map(of).collect();
    format!("Smallest, median and largest of {}.", parts.join("; "))
}

fn legend(view: &View<'_>, shown: &[(usize, &Figures)], begin: &str) -> Markup {
    let variants = &view.comparison.variants;
    html! {
        (begin)
        @for (number, (variant, _)) in shown.iter().enumerate() {
            @if number > 0 { ", " }
            span class=(format!("key c{}", number % 6)) aria-hidden="true" { (symbol(number)) } "\u{a0}"
            (variants[*variant].name)
        }
        @if variants.len() > shown.len() { "; " (shown.len()) " of " (variants.len()) " variants are shown" }
        @let most = shown.iter().map(|(_, figures)| figures.values.len()).max().unwrap_or(0);
        "." (thinned(most, "run"))
    }
}

fn figure(drawn: Markup, title: &str, caption: Markup) -> Markup {
    html! {
        figure { (drawn) figcaption { strong { (title) } ". " (caption) } }
    }
}

/// The figures of many variants over the parameter in which they differ, with the growth that fits.
fn over_parameter(row: &Row, scan: &Scan) -> Option<Markup> {
    let (_, values): (Vec<f64>, Vec<f64>) = scan.points.iter().copied().unzip();
    let shown = shown_range(&values)?;
    let (factor, symbol) = scale(&[shown.0, shown.1], row.unit);
    let points: Vec<(f64, f64)> = scan.points.iter().map(|(x, y)| (*x, y / factor)).collect();
    let title = format!("{} by {}", heading(row), scan.name);
    let fit = drawn_fit(scan);
    let curve = |x: f64| fit.map(|fit| fit.at(x) / factor);
    let said = match fit {
        Some(fit) => format!("The line is the fit as {}. ", fit.order.words(&scan.name)),
        None => String::new(),
    };
    let beyond =
        beyond(&scan.points, shown, |value| figures(&[value], row.unit).remove(0), &scan.name);
    let beyond = beyond.map_or(String::new(), |beyond| format!("{beyond}."));
    let description = format!("The median of each of {} variants. {said}{beyond}", points.len());
    let axis = axis(row, symbol);
    let words =
        Words { id: "plot-parameter", title: &title, description: &description, values: &axis };
    let drawn = fitted(LARGE, &words, &points, &curve, &scan.name)?;
    Some(figure(drawn, &title, html! { (description) }))
}
