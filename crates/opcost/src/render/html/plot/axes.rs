//! What every plot has: size, title, description, axes with ticks.

use super::points::px;
use super::scale::Scale;
use maud::{Markup, html};

/// Size of a plot, in the units of its drawing.
#[derive(Clone, Copy)]
pub(in crate::render::html) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A plot of the primary metric: text is legible where it is as wide as a telephone.
pub(in crate::render::html) const LARGE: Size = Size { width: 360.0, height: 230.0 };
/// A plot of another metric.
pub(in crate::render::html) const SMALL: Size = Size { width: 300.0, height: 170.0 };

/// What a plot says in words.
pub(in crate::render::html) struct Words<'a> {
    /// Identifier on the page.
    pub(in crate::render::html) id: &'a str,
    /// What it shows.
    pub(in crate::render::html) title: &'a str,
    /// The same for those who do not see it: what is on it.
    pub(in crate::render::html) description: &'a str,
    /// The values and their unit.
    pub(in crate::render::html) values: &'a str,
}

#[cfg(test)]
impl Words<'static> {
    /// Words for tests.
    pub(super) const MADE: Words<'static> =
        Words { id: "made", title: "a title", description: "a description", values: "ns" };
}

/// Where the drawing is: left, right, top, bottom.
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

/// Room for the ticks of a vertical axis of values; below for ticks and the name of the axis.
const LEFT: f64 = 58.0;
const BELOW: f64 = 34.0;
/// Room above for the name of the values.
const ABOVE: f64 = 20.0;

impl Area {
    /// The area of a plot whose values go upwards.
    pub(super) fn upwards(size: Size) -> Area {
        Area { left: LEFT, right: size.width - 8.0, top: ABOVE, bottom: size.height - BELOW }
    }

    /// The area of a plot whose values go to the right.
    pub(super) fn rightwards(size: Size) -> Area {
        Area { left: 14.0, right: size.width - 14.0, top: 4.0, bottom: size.height - BELOW }
    }
}

/// A plot with its title and description; `drawing` is what is in it.
pub(super) fn plot(size: Size, words: &Words<'_>, drawing: Markup) -> Markup {
    let (title, description) = (format!("{}-title", words.id), format!("{}-text", words.id));
    html! {
        svg viewBox=(format!("0 0 {} {}", size.width, size.height)) role="img"
            aria-labelledby=(format!("{title} {description}")) {
            title id=(title) { (words.title) }
            desc id=(description) { (words.description) }
            (drawing)
        }
    }
}

/// A vertical axis of values with lines across, its name above it.
pub(super) fn upwards(area: &Area, scale: &Scale, name: &str) -> Markup {
    html! {
        text class="name" x="2" y="12" { (name) ", " (scale.name()) }
        @for (tick, text) in scale.ticks() {
            @let y = scale.at(tick);
            path class="grid" d=(format!("M{} {}H{}", px(area.left), px(y), px(area.right))) {}
            text class="tick end" x=(px(area.left - 5.0)) y=(px(y + 4.0)) { (text) }
        }
    }
}

/// A horizontal axis with its name below it; with `grid`, lines across the area.
pub(super) fn rightwards(area: &Area, scale: &Scale, name: &str, grid: bool) -> Markup {
    let from = |y: f64| if grid { area.top } else { y };
    html! {
        path class="axis" d=(format!("M{} {}H{}", px(area.left), px(area.bottom), px(area.right))) {}
        @for (tick, text) in scale.ticks() {
            @let x = px(scale.at(tick));
            path class=(if grid { "grid" } else { "axis" })
                d=(format!("M{x} {}V{}", px(from(area.bottom)), px(area.bottom + 3.0))) {}
            text class="tick middle" x=(x) y=(px(area.bottom + 15.0)) { (text) }
        }
        text class="name middle" x=(px((area.left + area.right) / 2.0)) y=(px(area.bottom + 30.0)) {
            (name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::html::plot::scale::Scale;

    #[test]
    fn a_plot_has_its_title_and_description_and_what_is_in_it_is_escaped() {
        let words = Words { title: "<b>", ..Words::MADE };
        let svg = plot(SMALL, &words, html! { text { "a < b" } }).into_string();
        assert_eq!(
            svg,
            "<svg viewBox=\"0 0 300 170\" role=\"img\" aria-labelledby=\"made-title made-text\">\
             <title id=\"made-title\">&lt;b&gt;</title><desc id=\"made-text\">a description</desc>\
             <text>a &lt; b</text></svg>"
        );
    }

    #[test]
    fn axes_name_their_values_and_say_how_they_are_scaled() {
        let area = Area { left: 50.0, right: 100.0, top: 0.0, bottom: 40.0 };
        let linear = Scale::places(&[1.0, 4.0], (50.0, 100.0)).unwrap();
        let svg = rightwards(&area, &linear, "run", false).into_string();
        assert!(svg.starts_with("<path class=\"axis\" d=\"M50 40H100\"></path>"), "{svg}");
        assert!(svg.contains("<path class=\"axis\" d=\"M68.8 40V43\"></path>"), "{svg}");
        assert!(svg.contains("<text class=\"tick middle\" x=\"68.8\" y=\"55\">2</text>"), "{svg}");
        let log = Scale::suited(&[1.0, 100.0], (40.0, 0.0)).unwrap();
        let svg = upwards(&area, &log, "wall in ns").into_string();
        assert!(svg.contains(">wall in ns, logarithmic</text>"), "{svg}");
        assert!(svg.contains("<path class=\"grid\" d=\"M50 20H100\"></path>"), "{svg}");
    }
}
