//! The parts of every plot: size, title, description, axes with ticks. No text leaves the drawing or covers another.

use super::points::px;
use super::scale::Scale;
use maud::{Markup, html};
use opcost_page::names::cut;

/// Size of a plot, in the units of its drawing.
#[derive(Clone, Copy)]
pub(in crate::render::html) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The width of every plot: text stays legible at the width of a telephone, and has one size all over the
/// page.
const WIDTH: f64 = 360.0;
/// A plot of the primary metric.
pub(in crate::render::html) const LARGE: Size = Size { width: WIDTH, height: 230.0 };
/// A plot of another metric.
pub(in crate::render::html) const SMALL: Size = Size { width: WIDTH, height: 170.0 };

/// The texts of a plot.
pub(in crate::render::html) struct Words<'a> {
    /// Identifier on the page.
    pub(in crate::render::html) id: &'a str,
    /// The title: what the plot shows.
    pub(in crate::render::html) title: &'a str,
    /// The description for readers who cannot see the plot.
    pub(in crate::render::html) description: &'a str,
    /// The name of the values, with their unit.
    pub(in crate::render::html) values: &'a str,
}

#[cfg(test)]
impl Words<'static> {
    /// Words for tests.
    pub(super) const MADE: Words<'static> =
        Words { id: "made", title: "a title", description: "a description", values: "ns" };
}

/// The part of the drawing inside the axes.
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    /// The width of the whole drawing.
    width: f64,
}

/// Room for the ticks of a vertical axis of values; `BELOW` is for ticks and the name of a horizontal axis.
const LEFT: f64 = 58.0;
/// The largest share of a drawing that lies to the left of the area.
const LEFT_SHARE: f64 = 0.5;
/// Gap between a tick's text and the axis, or the next text.
const GAP: f64 = 5.0;
/// Widths of a character and of a narrow one at the style sheet's 11 px, in the widest of usual fonts.
const CHARACTER_PX: f64 = 7.0;
const NARROW_PX: f64 = 4.0;
const BELOW: f64 = 34.0;
/// Room above for the name of the values.
const ABOVE: f64 = 20.0;

impl Area {
    /// The area of a plot whose values go upwards.
    pub(super) fn upwards(size: Size) -> Area {
        let (right, bottom) = (size.width - 8.0, size.height - BELOW);
        Area { left: LEFT, right, top: ABOVE, bottom, width: size.width }
    }

    /// The area with room for the texts of the vertical axis.
    pub(super) fn beside(self, scale: &Scale) -> Area {
        let texts = scale.ticks().into_iter().map(|(_, text)| width_px(&text));
        let needed = texts.fold(0.0, f64::max) + GAP + 1.0;
        Area { left: self.left.max(needed).min(LEFT_SHARE * self.width), ..self }
    }

    /// The area of a plot whose values go to the right.
    pub(super) fn rightwards(size: Size) -> Area {
        let (right, bottom) = (size.width - 14.0, size.height - BELOW);
        Area { left: 14.0, right, top: 4.0, bottom, width: size.width }
    }

    /// The middle of a text: at `x`, or as near as keeps the text within the drawing.
    fn middle(&self, x: f64, text: &str) -> f64 {
        let half = width_px(text) / 2.0;
        x.min(self.width - half).max(half)
    }
}

/// The greatest width of a text, in pixels of the drawing.
fn width_px(text: &str) -> f64 {
    let narrow = |char: char| matches!(char, ',' | '.' | ' ' | ':' | '\'' | 'i' | 'l');
    text.chars().map(|char| if narrow(char) { NARROW_PX } else { CHARACTER_PX }).sum()
}

/// The text, cut if it may be wider than `width`.
fn fitting(text: &str, width: f64) -> String {
    if width_px(text) <= width {
        return text.to_string();
    }
    cut(text, (width / CHARACTER_PX) as usize)
}

/// A plot with its title and description; `drawing` is the content.
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

/// A vertical axis of values with grid lines, and its name above it.
pub(super) fn upwards(area: &Area, scale: &Scale, name: &str) -> Markup {
    let scaled = format!(", {}", scale.name());
    let name = fitting(name, area.width - 4.0 - width_px(&scaled));
    html! {
        text class="name" x="2" y="12" { (name) (scaled) }
        @for (tick, text) in scale.ticks() {
            @let y = scale.at(tick);
            path class="grid" d=(format!("M{} {}H{}", px(area.left), px(y), px(area.right))) {}
            text class="tick end" x=(px(area.left - GAP)) y=(px(y + 4.0)) { (text) }
        }
    }
}

/// A horizontal axis with its name below it; with `grid`, lines across the area.
pub(super) fn rightwards(area: &Area, scale: &Scale, name: &str, grid: bool) -> Markup {
    let from = |y: f64| if grid { area.top } else { y };
    // A tick whose text has no room goes without a text.
    let mut free = 0.0;
    let mut room = |x: f64, text: &str| {
        let (middle, half) = (area.middle(x, text), width_px(text) / 2.0);
        let has = middle - half >= free;
        if has {
            free = middle + half + GAP;
        }
        has.then_some(middle)
    };
    let name = fitting(name, area.width);
    let center = area.middle((area.left + area.right) / 2.0, &name);
    html! {
        path class="axis" d=(format!("M{} {}H{}", px(area.left), px(area.bottom), px(area.right))) {}
        @for (tick, text) in scale.ticks() {
            @let x = scale.at(tick);
            path class=(if grid { "grid" } else { "axis" })
                d=(format!("M{} {}V{}", px(x), px(from(area.bottom)), px(area.bottom + 3.0))) {}
            @if let Some(middle) = room(x, &text) {
                text class="tick middle" x=(px(middle)) y=(px(area.bottom + 15.0)) { (text) }
            }
        }
        text class="name middle" x=(px(center)) y=(px(area.bottom + 30.0)) { (name) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::render::html::plot::scale::Scale;
    use proptest::prelude::*;

    /// A size whose coordinates the tests know, independent of the sizes on pages.
    pub(in super::super) const TRIED: Size = Size { width: 300.0, height: 170.0 };

    /// The texts of a drawing: start, end, height and words of each.
    pub(in crate::render::html::plot) fn texts(svg: &str) -> Vec<(f64, f64, String, String)> {
        let attribute = |tag: &str, name: &str| {
            let rest = tag.split(&format!("{name}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().to_string()
        };
        let text = |part: &str| {
            let (tag, rest) = part.split_once('>').unwrap();
            let said = rest.split("</text>").next().unwrap().to_string();
            let (class, x) = (attribute(tag, "class"), attribute(tag, "x").parse::<f64>().unwrap());
            let width = width_px(&said);
            let start = match class.rsplit(' ').next().unwrap() {
                "end" => x - width,
                "middle" => x - width / 2.0,
                _ => x,
            };
            (start, start + width, attribute(tag, "y"), said)
        };
        svg.split("<text ").skip(1).map(text).collect()
    }

    /// Fails if a text leaves a drawing of this width, or covers its neighbour.
    pub(in crate::render::html::plot) fn no_text_is_cut(svg: &str, width: f64) {
        let mut texts = texts(svg);
        for (start, end, _, said) in &texts {
            assert!(*start >= -0.1 && *end <= width + 0.1, "'{said}' from {start} to {end}: {svg}");
        }
        texts.sort_by(|one, two| (&one.2, one.0).partial_cmp(&(&two.2, two.0)).unwrap());
        for pair in texts.windows(2).filter(|pair| pair[0].2 == pair[1].2) {
            assert!(pair[0].1 <= pair[1].0 + 0.1, "'{}' and '{}': {svg}", pair[0].3, pair[1].3);
        }
    }

    proptest! {
        #[test]
        fn no_text_of_an_axis_is_cut(
            low in -1e11..1e11f64, size in -3..11i32, name in "[a-zA-Z0-9/: ]{0,90}",
        ) {
            let values = [low, low + 10f64.powi(size)];
            let area = Area::upwards(SMALL);
            let y = Scale::linear(&values, (area.bottom, area.top)).unwrap();
            let area = area.beside(&y);
            no_text_is_cut(&upwards(&area, &y, &name).into_string(), SMALL.width);
            let area = Area::rightwards(SMALL);
            let x = Scale::linear(&values, (area.left, area.right)).unwrap();
            no_text_is_cut(&rightwards(&area, &x, &name, true).into_string(), SMALL.width);
        }
    }

    #[test]
    fn a_plot_has_its_title_and_description_and_what_is_in_it_is_escaped() {
        let words = Words { title: "<b>", ..Words::MADE };
        let svg = plot(TRIED, &words, html! { text { "a < b" } }).into_string();
        assert_eq!(
            svg,
            "<svg viewBox=\"0 0 300 170\" role=\"img\" aria-labelledby=\"made-title made-text\">\
             <title id=\"made-title\">&lt;b&gt;</title><desc id=\"made-text\">a description</desc>\
             <text>a &lt; b</text></svg>"
        );
    }

    #[test]
    fn axes_name_their_values_and_say_how_they_are_scaled() {
        let area = Area { left: 50.0, right: 100.0, top: 0.0, bottom: 40.0, width: 300.0 };
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
