//! Distributions: every value of a variant in a strip of its own, over one axis.

use super::axes::{Area, Size, Words, plot, rightwards};
use super::points::{beside, class, every, path, px};
use super::scale::{Scale, shown};
use maud::{Markup, html};

/// The values of one variant.
pub(in crate::render::html) struct Row<'a> {
    /// The values, in any order.
    pub(in crate::render::html) values: &'a [f64],
    /// The median of the values.
    pub(in crate::render::html) median: Option<f64>,
    /// One unit of the axis, in the unit of the values.
    pub(in crate::render::html) factor: f64,
}

/// Height of a strip, and the height over which its values are spread so that equal ones can be told apart.
const STRIP: f64 = 34.0;
const SPREAD: f64 = 22.0;
/// The fractional parts of its multiples are spread evenly, however many are taken (Weyl's equidistribution theorem).
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Plots the values of each row, the first row at the top, with a line at the median.
///
/// The height follows the number of rows. `None` without a finite value.
pub(in crate::render::html) fn strip(
    size: Size,
    words: &Words<'_>,
    rows: &[Row<'_>],
) -> Option<Markup> {
    let size = Size { height: 4.0 + STRIP * rows.len() as f64 + 34.0, ..size };
    let area = Area::rightwards(size);
    let scaled = |row: &Row<'_>| -> Vec<f64> {
        let values = row.values.iter().map(|value| value / row.factor);
        values.filter(|value| value.is_finite()).step_by(every(row.values.len())).collect()
    };
    let values: Vec<Vec<f64>> = rows.iter().map(scaled).collect();
    let medians = rows.iter().filter_map(|row| Some(row.median? / row.factor));
    let all = shown(&values.concat(), &medians.collect::<Vec<f64>>());
    let x = Scale::suited(&all, (area.left, area.right))?;
    let middle = |row: usize| area.top + STRIP * (row as f64 + 0.5);
    let points = |row: usize, on_scale: bool| -> Vec<(f64, f64)> {
        let spread = |index: usize| SPREAD * ((index as f64 * GOLDEN).fract() - 0.5);
        let values = values[row].iter().enumerate();
        let shown = values.filter(|(_, value)| x.holds(**value) == on_scale);
        shown.map(|(index, value)| (x.at(*value), middle(row) + spread(index))).collect()
    };
    let median = |row: usize| rows[row].median.map(|median| x.at(median / rows[row].factor));
    let name = format!("{}, {}", words.values, x.name());
    let middle_px = (area.left + area.right) / 2.0;
    Some(plot(
        size,
        words,
        html! {
            (rightwards(&area, &x, &name, true))
            @for row in 0..rows.len() {
                path class=(class(row)) d=(path(&points(row, true), row)) {}
                @for point in points(row, false) { (beside(point, point.0 > middle_px, row)) }
                @if let Some(median) = median(row) {
                    path class="median" d=(format!("M{} {}v{}", px(median), px(middle(row) - STRIP / 2.0 + 1.0), px(STRIP - 2.0))) {}
                }
            }
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::axes::tests::TRIED;
    use super::*;

    fn drawn(rows: &[(&[f64], Option<f64>)]) -> Option<String> {
        let mut made = Vec::new();
        for (values, median) in rows {
            made.push(Row { values, median: *median, factor: 10.0 });
        }
        strip(TRIED, &Words::MADE, &made).map(Markup::into_string)
    }

    #[test]
    fn each_row_has_a_strip_of_its_own_over_one_axis() {
        let svg = drawn(&[(&[100.0, 200.0], Some(150.0)), (&[150.0], Some(150.0))]).unwrap();
        assert!(svg.contains("viewBox=\"0 0 300 106\""), "{svg}");
        assert!(svg.contains("class=\"points c0 s0\" d=\"M24.1 10h0M275.9 23.6h0\""), "{svg}");
        assert!(svg.contains("class=\"points c1 s1\" d=\"M150 44h0\""), "{svg}");
        assert_eq!(svg.matches("class=\"median\" d=\"M150 ").count(), 2, "{svg}");
        assert!(svg.contains(">ns, linear<"), "{svg}");
        assert!(svg.contains(">20</text>"), "ticks are in the axis's unit: {svg}");
    }

    #[test]
    fn large_numbers_stay_in_the_drawing_and_apart() {
        let svg = drawn(&[(&[100_000_000.0, 250_000_000.0, 490_000_000.0], None)]).unwrap();
        assert!(svg.contains(">10,000,000</text>"), "{svg}");
        super::super::axes::tests::no_text_is_cut(&svg, TRIED.width);
    }

    #[test]
    fn nothing_is_no_plot_and_one_value_stands_in_the_middle() {
        assert_eq!(drawn(&[]), None);
        assert_eq!(drawn(&[(&[], None), (&[f64::NAN], None)]), None);
        let svg = drawn(&[(&[7.0, f64::INFINITY], None), (&[], None)]).unwrap();
        assert!(svg.contains("d=\"M150 10h0\"") && !svg.contains("median"), "{svg}");
    }
}
