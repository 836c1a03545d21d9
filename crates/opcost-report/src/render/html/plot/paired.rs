//! The differences of the blocks, with the estimate and its interval.

use super::axes::{Area, Size, Words, plot, rightwards, upwards};
use super::points::{beyond, class, every, path, px};
use super::scale::{Scale, shown};
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
    let held: Vec<f64> = ends.chain(estimate).chain([0.0]).collect();
    let values: Vec<f64> = points.iter().map(|(_, difference)| *difference).collect();
    let y = Scale::linear(&shown(&values, &held), (area.bottom, area.top))?;
    let area = area.beside(&y);
    let blocks: Vec<f64> = points.iter().map(|(block, _)| *block).collect();
    let x = Scale::places(&blocks, (area.left, area.right))?;
    let (near, far) = points.iter().partition::<Vec<_>, _>(|(_, value)| y.holds(*value));
    let place = |(block, difference): &(f64, f64)| (x.at(*block), y.at(*difference));
    let at: Vec<(f64, f64)> = near.into_iter().map(place).collect();
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
            @for point in far { (beyond(place(point), y.is_above(point.1), 0)) }
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::axes::tests::TRIED;
    use super::*;

    fn drawn(
        differences: &[f64],
        estimate: Option<f64>,
        interval: Option<(f64, f64)>,
    ) -> Option<String> {
        paired(TRIED, &Words::MADE, differences, estimate, interval, "block")
            .map(Markup::into_string)
    }

    #[test]
    fn points_estimate_interval_and_no_change_are_on_one_scale() {
        // From 0 to 10 with a margin of 4 %: 10.8 units over 116 pixels, 0 at 131.7 and 10 at 24.3.
        let svg = drawn(&[10.0, 5.0], Some(5.0), Some((0.0, 10.0))).unwrap();
        assert!(svg.contains("class=\"points c0 s0\" d=\"M116.5 24.3h0M233.5 78h0\""), "{svg}");
        assert!(svg.contains("class=\"estimate\" d=\"M58 78H292\""), "{svg}");
        assert!(svg.contains("class=\"zero\" d=\"M58 131.7H292\""), "{svg}");
        assert!(svg.contains("y=\"24.3\" width=\"234\" height=\"107.4\""), "{svg}");
    }

    #[test]
    fn nothing_is_no_plot_and_one_point_is_one() {
        assert_eq!(drawn(&[], Some(1.0), None), None);
        assert_eq!(drawn(&[f64::NAN, f64::INFINITY], None, None), None);
        let svg = drawn(&[0.0], None, None).unwrap();
        assert!(svg.contains("class=\"points c0 s0\" d=\"M175 78h0\""), "{svg}");
        assert!(!svg.contains("estimate") && !svg.contains("interval"), "{svg}");
    }

    #[test]
    fn what_is_not_finite_keeps_its_place_empty() {
        let svg = drawn(&[1.0, f64::NAN, 1.0], Some(f64::NAN), None).unwrap();
        assert!(!svg.contains("NaN"), "{svg}");
        assert_eq!(svg.matches("h0").count(), 2);
    }
}
