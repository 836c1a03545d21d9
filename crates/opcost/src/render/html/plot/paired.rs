//! The differences of the blocks, with the estimate and its interval.

use super::axes::{Area, Size, Words, plot, rightwards, upwards};
use super::points::{class, every, path, px};
use super::scale::Scale;
use maud::{Markup, html};

/// Plots one difference for each block in order, the line of no difference, the estimate as a line
/// and its interval as a band.
///
/// `unit` is what the horizontal axis counts: blocks or builds. `None` without a finite difference.
pub(in crate::render::html) fn paired(
    size: Size,
    words: &Words<'_>,
    differences: &[f64],
    estimate: Option<f64>,
    interval: Option<(f64, f64)>,
    unit: &str,
) -> Option<Markup> {
    let area = Area::upwards(size);
    let points: Vec<(f64, f64)> = (1..)
        .zip(differences)
        .filter(|(_, difference)| difference.is_finite())
        .map(|(block, difference)| (f64::from(block), *difference))
        .step_by(every(differences.len()))
        .collect();
    if points.is_empty() {
        return None;
    }
    let ends = interval.map(|(low, high)| [low, high]).into_iter().flatten();
    let held =
        points.iter().map(|(_, difference)| *difference).chain(ends).chain(estimate).chain([0.0]);
    let y = Scale::linear(&held.collect::<Vec<f64>>(), (area.bottom, area.top))?;
    let blocks: Vec<f64> = points.iter().map(|(block, _)| *block).collect();
    let x = Scale::places(&blocks, (area.left, area.right))?;
    let at: Vec<(f64, f64)> =
        points.iter().map(|(block, difference)| (x.at(*block), y.at(*difference))).collect();
    let across = |value: f64| format!("M{} {}H{}", px(area.left), px(y.at(value)), px(area.right));
    Some(plot(
        size,
        words,
        html! {
            (upwards(&area, &y, words.values))
            (rightwards(&area, &x, unit, false))
            @if let Some((low, high)) = interval {
                rect class="interval" x=(px(area.left)) y=(px(y.at(high)))
                    width=(px(area.right - area.left)) height=(px((y.at(low) - y.at(high)).max(1.0))) {}
            }
            path class="zero" d=(across(0.0)) {}
            @if let Some(estimate) = estimate.filter(|estimate| estimate.is_finite()) {
                path class="estimate" d=(across(estimate)) {}
            }
            path class=(class(0)) d=(path(&at, 0)) {}
        },
    ))
}
