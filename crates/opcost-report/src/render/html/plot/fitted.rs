//! Values over a number, with a curve.

use super::axes::{Area, Size, Words, plot, rightwards, upwards};
use super::points::{beyond, class, every, path, px};
use super::scale::{Scale, shown};
use maud::{Markup, html};

/// Points of a curve.
const CURVE_POINTS: u32 = 96;

/// Plots values over a number and a curve through them; the scale is that of the middle of the values, and the others stand as arrows
/// at the edge.
///
/// `None` without a finite value.
pub(in crate::render::html) fn fitted(
    size: Size,
    words: &Words<'_>,
    points: &[(f64, f64)],
    curve: &dyn Fn(f64) -> Option<f64>,
    name: &str,
) -> Option<Markup> {
    let area = Area::upwards(size);
    let finite = |(x, y): &&(f64, f64)| x.is_finite() && y.is_finite();
    let points: Vec<(f64, f64)> =
        points.iter().filter(finite).copied().step_by(every(points.len())).collect();
    let (across, values): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let y = Scale::suited(&shown(&values, &[]), (area.bottom, area.top))?;
    let area = area.beside(&y);
    let x = Scale::suited(&across, (area.left, area.right))?;
    let (near, far) = points.iter().partition::<Vec<_>, _>(|(_, value)| y.holds(*value));
    let at = |(across, value): &(f64, f64)| (x.at(*across), y.at(*value));
    let drawn: Vec<(f64, f64)> = (0..=CURVE_POINTS)
        .map(|step| x.value(f64::from(step) / f64::from(CURVE_POINTS)))
        .filter_map(|across| Some((across, curve(across)?)))
        .filter(|(_, value)| y.holds(*value))
        .collect();
    let line: Vec<String> = drawn
        .iter()
        .enumerate()
        .map(|(number, point)| {
            let (left, top) = at(point);
            format!("{}{} {}", if number == 0 { "M" } else { "L" }, px(left), px(top))
        })
        .collect();
    Some(plot(
        size,
        words,
        html! {
            (upwards(&area, &y, words.values))
            (rightwards(&area, &x, &format!("{name}, {}", x.name()), false))
            @if !line.is_empty() { path class="estimate" d=(line.concat()) {} }
            path class=(class(0)) d=(path(&near.into_iter().map(at).collect::<Vec<_>>(), 0)) {}
            @for point in far { (beyond(at(point), y.is_above(point.1), 0)) }
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::axes::tests::TRIED;
    use super::*;

    fn drawn(points: &[(f64, f64)]) -> Option<String> {
        fitted(TRIED, &Words::MADE, points, &|x| Some(2.0 * x), "n").map(Markup::into_string)
    }

    #[test]
    fn points_and_curve_share_scales_and_an_outlier_stands_at_the_edge() {
        let mut points: Vec<(f64, f64)> = (1..=20).map(f64::from).map(|n| (n, 2.0 * n)).collect();
        let plain = drawn(&points).unwrap();
        assert!(plain.contains("class=\"estimate\" d=\"M") && !plain.contains("beyond"), "{plain}");
        points.push((10.5, 9000.0));
        let with_outlier = drawn(&points).unwrap();
        assert_eq!(with_outlier.matches("class=\"beyond c0\"").count(), 1, "{with_outlier}");
        // The other points stand where they stood.
        let path = |svg: &str| svg.split("points c0 s0\" d=\"").nth(1).unwrap()[..60].to_string();
        assert_eq!(path(&plain), path(&with_outlier));
    }

    #[test]
    fn nothing_is_no_plot() {
        assert_eq!(drawn(&[]), None);
        assert_eq!(drawn(&[(1.0, f64::NAN)]), None);
        assert!(drawn(&[(1.0, 3.0)]).is_some());
    }
}
