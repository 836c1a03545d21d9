//! Many points as one path, each series with a symbol of its own.

use maud::{Markup, html};

/// The most points of one path; if there are more, evenly spaced points are drawn.
pub(super) const POINTS_MAX: usize = 2000;

/// A coordinate in a path: a tenth of a pixel is enough.
pub(super) fn px(at: f64) -> String {
    let text = format!("{at:.1}");
    text.strip_suffix(".0").map(str::to_string).unwrap_or(text)
}

/// The path of these points in the symbol of series `number`: dot, square, cross, plus, then again.
///
/// Dots and squares are strokes of no length, which the style sheet gives round or square ends.
pub(super) fn path(points: &[(f64, f64)], number: usize) -> String {
    points
        .iter()
        .map(|(x, y)| match number % 4 {
            0 | 1 => format!("M{} {}h0", px(*x), px(*y)),
            2 => format!("M{} {}l5 5m0-5l-5 5", px(x - 2.5), px(y - 2.5)),
            _ => format!("M{} {}h6m-3-3v6", px(x - 3.0), px(*y)),
        })
        .collect()
}

/// The sign of a value beyond the scale of a plot: an arrow at the edge, in the colour of series `number`.
pub(super) fn beyond((x, y): (f64, f64), above: bool, number: usize) -> Markup {
    let (back, out) = if above { (6.0, -6.0) } else { (-6.0, 6.0) };
    let arrow = format!("M{} {}l-3.5 {back}h7z", px(x), px(y + out / 2.0));
    html! { path class=(format!("beyond c{}", number % 6)) d=(arrow) {} }
}

/// The sign of a value beyond the right or left end of a scale.
pub(super) fn beside((x, y): (f64, f64), above: bool, number: usize) -> Markup {
    let (back, out) = if above { (-6.0, 6.0) } else { (6.0, -6.0) };
    let arrow = format!("M{} {}l{back} -3.5v7z", px(x + out / 2.0), px(y));
    html! { path class=(format!("beyond c{}", number % 6)) d=(arrow) {} }
}

/// The class of a series: its colour and its symbol.
pub(super) fn class(number: usize) -> String {
    format!("points c{} s{}", number % 6, number % 4)
}

/// The symbol of a series as a character, for a legend.
pub(in crate::render::html) fn symbol(number: usize) -> &'static str {
    ["●", "■", "✕", "✚"][number % 4]
}

/// The step between items that are drawn, so that at most [`POINTS_MAX`] are; 1 draws all.
pub(in crate::render::html) fn every(items: usize) -> usize {
    items.div_ceil(POINTS_MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_series_has_its_symbol() {
        let points = [(1.0, 2.0), (3.25, 4.0)];
        assert_eq!(path(&points, 0), "M1 2h0M3.2 4h0");
        assert_eq!(path(&points[..1], 2), "M-1.5 -0.5l5 5m0-5l-5 5");
        assert_eq!(path(&points[..1], 7), "M-2 2h6m-3-3v6");
        assert_eq!(path(&[], 1), "");
        let classes: std::collections::BTreeSet<String> = (0..12).map(class).collect();
        assert_eq!(classes.len(), 12);
    }

    #[test]
    fn of_many_points_some_are_drawn() {
        assert_eq!([every(0), every(2000), every(2001), every(10_000)], [1, 1, 2, 5]);
    }
}
