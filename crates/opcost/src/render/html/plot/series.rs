//! Values in an order: runs as they were made, recordings as they were begun.

use super::axes::{Area, Size, Words, plot, rightwards, upwards};
use super::points::{class, every, path, px};
use super::scale::Scale;
use maud::{Markup, html};

/// One value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::render::html) struct Dot {
    /// Its place in the order, from 1.
    pub(in crate::render::html) place: u32,
    /// The value.
    pub(in crate::render::html) value: f64,
    /// Its interval.
    pub(in crate::render::html) interval: Option<(f64, f64)>,
    /// Whether it is the one that the page is about.
    pub(in crate::render::html) marked: bool,
}

/// Values that belong together: one colour, one symbol.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::render::html) struct Group {
    /// The values in their order.
    pub(in crate::render::html) dots: Vec<Dot>,
}

/// Plots groups of values over their order; `breaks` are the places before which a level changed.
///
/// `None` without a finite value.
pub(in crate::render::html) fn series(
    size: Size,
    words: &Words<'_>,
    groups: &[Group],
    breaks: &[u32],
    order: &str,
) -> Option<Markup> {
    let area = Area::upwards(size);
    let thinned: Vec<Vec<Dot>> = groups
        .iter()
        .map(|group| {
            let finite = group.dots.iter().filter(|dot| dot.value.is_finite());
            finite.step_by(every(group.dots.len())).copied().collect()
        })
        .collect();
    let all = || thinned.iter().flatten();
    let ends = all().filter_map(|dot| dot.interval).flat_map(|(low, high)| [low, high]);
    let values: Vec<f64> = all().map(|dot| dot.value).chain(ends).collect();
    let places: Vec<f64> = all().map(|dot| f64::from(dot.place)).collect();
    let y = Scale::suited(&values, (area.bottom, area.top))?;
    let x = Scale::places(&places, (area.left, area.right))?;
    let at = |dot: &Dot| (x.at(f64::from(dot.place)), y.at(dot.value));
    Some(plot(
        size,
        words,
        html! {
            (upwards(&area, &y, words.values))
            (rightwards(&area, &x, order, false))
            @for place in breaks {
                path class="break" d=(format!("M{} {}V{}", px(x.at(f64::from(*place) - 0.5)), px(area.top), px(area.bottom))) {}
            }
            @for (number, dots) in thinned.iter().enumerate() {
                @for dot in dots {
                    @if let Some((low, high)) = dot.interval {
                        path class=(format!("whisker c{}", number % 6))
                            d=(format!("M{} {}V{}", px(at(dot).0), px(y.at(low)), px(y.at(high)))) {}
                    }
                    @if dot.marked {
                        circle class="marked" cx=(px(at(dot).0)) cy=(px(at(dot).1)) r="6" {}
                    }
                }
                path class=(class(number)) d=(path(&dots.iter().map(at).collect::<Vec<_>>(), number)) {}
            }
        },
    ))
}
