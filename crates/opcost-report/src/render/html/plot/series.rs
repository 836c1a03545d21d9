//! Values in an order: runs in the order of running, recordings in the order of their start.

use super::axes::{Area, Size, Words, plot, rightwards, upwards};
use super::points::{beyond, class, every, path, px};
use super::scale::{Scale, shown};
use maud::{Markup, html};

/// One value of a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::render::html) struct Dot {
    /// The place in the order, from 1.
    pub(in crate::render::html) place: u32,
    pub(in crate::render::html) value: f64,
    pub(in crate::render::html) interval: Option<(f64, f64)>,
    /// Whether the page is about this value.
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
    // An interval and the page's own value stay whole.
    let marked = all().filter(|dot| dot.marked).map(|dot| dot.value);
    let held: Vec<f64> = ends.chain(marked).collect();
    let values: Vec<f64> = all().map(|dot| dot.value).collect();
    let values = shown(&values, &held);
    let places: Vec<f64> = all().map(|dot| f64::from(dot.place)).collect();
    let y = Scale::suited(&values, (area.bottom, area.top))?;
    let area = area.beside(&y);
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
                @let (near, far) = dots.iter().partition::<Vec<&Dot>, _>(|dot| y.holds(dot.value));
                path class=(class(number)) d=(path(&near.into_iter().map(at).collect::<Vec<_>>(), number)) {}
                @for dot in far { (beyond(at(dot), y.is_above(dot.value), number)) }
            }
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::super::axes::tests::TRIED;
    use super::*;

    fn drawn(groups: &[&[(u32, f64)]], breaks: &[u32]) -> Option<String> {
        let dot = |&(place, value): &(u32, f64)| Dot { place, value, ..Dot::default() };
        let group = |dots: &&[(u32, f64)]| Group { dots: dots.iter().map(dot).collect() };
        let groups: Vec<Group> = groups.iter().map(group).collect();
        series(TRIED, &Words::MADE, &groups, breaks, "run").map(Markup::into_string)
    }

    #[test]
    fn each_group_has_a_path_on_the_same_scales() {
        let svg = drawn(&[&[(1, 10.0), (4, 20.0)], &[(2, 15.0)]], &[3]).unwrap();
        assert!(svg.contains("class=\"points c0 s0\" d=\"M87.2 131.7h0M262.8 24.3h0\""), "{svg}");
        assert!(svg.contains("class=\"points c1 s1\" d=\"M145.8 78h0\""), "{svg}");
        assert!(svg.contains("class=\"break\" d=\"M175 20V136\""), "{svg}");
        assert!(svg.contains(">ns, linear<"), "{svg}");
    }

    #[test]
    fn what_is_far_apart_is_on_a_logarithmic_scale_which_says_so() {
        let svg = drawn(&[&[(1, 1.0), (2, 10.0), (3, 100.0)]], &[]).unwrap();
        assert!(svg.contains("M97 131.7h0M175 78h0M253 24.3h0"), "{svg}");
        assert!(svg.contains(">ns, logarithmic<"), "{svg}");
    }

    #[test]
    fn large_numbers_have_their_room() {
        let svg =
            drawn(&[&[(1, 10_000_000.0), (2, 25_000_000.0), (12_000, 29_000_000.0)]], &[]).unwrap();
        assert!(svg.contains(">10,000,000</text>"), "{svg}");
        super::super::axes::tests::no_text_is_cut(&svg, TRIED.width);
    }

    #[test]
    fn nothing_is_no_plot_and_one_point_stands_in_the_middle() {
        assert_eq!(drawn(&[], &[]), None);
        assert_eq!(drawn(&[&[(1, f64::NAN)]], &[]), None);
        let svg = drawn(&[&[(7, 3.0)], &[]], &[]).unwrap();
        assert!(svg.contains("class=\"points c0 s0\" d=\"M175 78h0\""), "{svg}");
        assert!(svg.contains("class=\"points c1 s1\" d=\"\""), "{svg}");
    }

    #[test]
    fn intervals_are_whiskers_and_the_page_s_own_recording_has_a_ring() {
        let dot = Dot { place: 1, value: 15.0, interval: Some((10.0, 20.0)), marked: true };
        let groups = [Group { dots: vec![dot] }];
        let svg = series(TRIED, &Words::MADE, &groups, &[], "recording").unwrap().into_string();
        assert!(svg.contains("class=\"whisker c0\" d=\"M175 131.7V24.3\""), "{svg}");
        assert!(svg.contains("<circle class=\"marked\" cx=\"175\" cy=\"78\" r=\"6\">"), "{svg}");
    }
}
