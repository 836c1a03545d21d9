//! Flame graphs as SVG: a title on hover describes each frame, and a frame with room shows its name.
//! Colours follow the surroundings, light or dark. A script zooms and searches; without it, as in a
//! picture of a page, nothing but that is missing.
//!
//! A graph of two variants is differential: the variant's calls grow upwards, the baseline's hang
//! below on the same scale, so that a vanished call is seen at the width it had.

mod color;
mod layout;
mod legend;

use crate::render::functions::signed_figure;
use opcost_page::names::{cut, label};
use opcost_record::printable::{Output, safe};

use color::{Changes, class_of_function, style};
use layout::{Frame, frames};
use legend::Legend;
use opcost_analysis::comparison::call_tree::{CallNode, CallTree, TreeSide};
use opcost_base::number::{figure, grouped, percent};
use opcost_record::Unit;
use std::fmt::Write as _;

const WIDTH_PX: f64 = 1200.0;
const MARGIN_PX: f64 = 10.0;
const FRAME_PX: f64 = 17.0;
const HEAD_PX: f64 = 62.0;
/// Width of a character at 11 px, and of a title's character, in the fonts of the style sheet.
const CHARACTER_PX: f64 = 6.7;
const TITLE_CHARACTER_PX: f64 = 9.6;
/// Narrower frames are not drawn, and the graph says so.
const FRAME_WIDTH_MIN_PX: f64 = 0.1;
/// The limit within a page, which is viewed as a whole: towers of lines would make it several times as high.
const FRAME_WIDTH_MIN_OF_PAGE_PX: f64 = 2.0;
/// In narrower frames, an outline would hide the colour.
const OUTLINED_WIDTH_MIN_PX: f64 = 4.0;
/// A shorter piece of a name tells nothing.
const CHARACTERS_MIN: usize = 3;

/// The flame graph of a tree with one side, or the differential graph of a tree with two sides: an
/// SVG document that can stand alone or within a page. For the script, each frame has the number of its node (`data-n`) and is in
/// the group of its variant.
///
/// Widths are costs per operation with everything that a frame calls. The frames of a level and the
/// own costs of their callers add up to the whole.
pub fn flame_graph(tree: &CallTree) -> String {
    graph(Drawing::new(tree, "opcost-gone", FRAME_WIDTH_MIN_PX, Some(SCRIPT)))
}

/// The flame graph as a part of a page with `others` graphs before it. Its identifiers are unique
/// on the page, which has the script. Frames too narrow to point at are left out, and the graph says so.
pub fn flame_graph_of_page(tree: &CallTree, others: usize) -> String {
    let gone = format!("opcost-gone-{others}");
    graph(Drawing::new(tree, &gone, FRAME_WIDTH_MIN_OF_PAGE_PX, None))
}

fn graph(drawing: Drawing<'_>) -> String {
    match drawing.tree.sides.len() {
        1 => single(drawing),
        _ => differential(drawing),
    }
}

fn single(mut drawing: Drawing<'_>) -> String {
    let tree = drawing.tree;
    let side = &tree.sides[0];
    let title = format!("{}: {}", side.name, amount(tree, 0, side.total));
    let said = [
        format!("width: {} with everything called, {}", tree.unit(), of(side)),
        "orange: kernel, green: programs".to_string(),
    ];
    drawing.scale(1.0 / side.ops as f64 * side.total as f64);
    let height = drawing.levels(0) * FRAME_PX;
    drawing.panel(0, PanelRows { first_px: HEAD_PX + height - FRAME_PX, step_px: -FRAME_PX }, None);
    drawing.document(&title, &said, HEAD_PX + height, None)
}

fn differential(mut drawing: Drawing<'_>) -> String {
    let tree = drawing.tree;
    let totals: [f64; 2] = [0, 1].map(|side| tree.per_op(side, tree.sides[side].total));
    let changes = Changes::of(tree);
    let [baseline, variant] = [&tree.sides[0], &tree.sides[1]].map(|side| side.name.as_str());
    let title = format!(
        "{variant} against {baseline}: {} {} ({})",
        signed_figure(changes.change(None)),
        tree.unit(),
        share(changes.change(None), totals[0]),
    );
    let said = [
        format!(
            "above: {variant}, {}; below: {baseline}, {}",
            amount(tree, 1, tree.sides[1].total),
            amount(tree, 0, tree.sides[0].total)
        ),
        format!(
            "width: {} with everything called, one scale for both; colour: change of the frame in \
             its context, with everything called",
            tree.unit()
        ),
    ];
    drawing.scale(totals[0].max(totals[1]));
    let above = drawing.levels(1) * FRAME_PX;
    let below_px = HEAD_PX + above + FRAME_PX / 2.0;
    let up = PanelRows { first_px: HEAD_PX + above - FRAME_PX, step_px: -FRAME_PX };
    drawing.panel(1, up, Some(&changes));
    drawing.panel(0, PanelRows { first_px: below_px, step_px: FRAME_PX }, Some(&changes));
    let height = below_px + drawing.levels(0) * FRAME_PX;
    drawing.document(&title, &said, height, Some((&changes, totals[0])))
}

/// The position of a panel's first level, and the distance to the next level.
struct PanelRows {
    first_px: f64,
    step_px: f64,
}

/// A graph under construction.
struct Drawing<'a> {
    tree: &'a CallTree,
    /// The identifier of the stripes of vanished frames.
    gone: String,
    /// Narrower frames are not drawn.
    narrowest_px: f64,
    /// The script of a document that stands alone.
    script: Option<&'static str>,
    names: Vec<String>,
    px_per_unit: f64,
    body: String,
    too_narrow: usize,
}

impl<'a> Drawing<'a> {
    fn new(
        tree: &'a CallTree,
        gone: &str,
        narrowest_px: f64,
        script: Option<&'static str>,
    ) -> Drawing<'a> {
        Drawing {
            tree,
            gone: gone.into(),
            narrowest_px,
            script,
            names: tree.names(),
            px_per_unit: 0.0,
            body: String::new(),
            too_narrow: 0,
        }
    }

    /// Gives the whole width to the cost per operation `widest`.
    fn scale(&mut self, widest: f64) {
        let width_px = WIDTH_PX - 2.0 * MARGIN_PX;
        self.px_per_unit = if widest > 0.0 { width_px / widest } else { 0.0 };
    }

    fn px(&self, side: usize, count: u64) -> f64 {
        self.tree.per_op(side, count) * self.px_per_unit
    }

    fn drawn(&self, side: usize, frame: &Frame) -> bool {
        frame.node.is_none() || self.px(side, frame.width) >= self.narrowest_px
    }

    /// The number of levels that are drawn.
    fn levels(&self, side: usize) -> f64 {
        let drawn = frames(self.tree, side).into_iter().filter(|frame| self.drawn(side, frame));
        drawn.map(|frame| frame.depth + 1).max().unwrap_or(0) as f64
    }

    fn panel(&mut self, side: usize, place: PanelRows, changes: Option<&Changes>) {
        let name = xml(&self.tree.sides[side].name);
        let _ = writeln!(self.body, r#"<g class="panel" data-name="{name}">"#);
        for frame in frames(self.tree, side) {
            if self.drawn(side, &frame) {
                let y = place.first_px + frame.depth as f64 * place.step_px;
                self.frame(side, frame, y, changes);
            } else {
                self.too_narrow += 1;
            }
        }
        self.body.push_str("</g>\n");
    }

    fn frame(&mut self, side: usize, frame: Frame, y: f64, changes: Option<&Changes>) {
        let (x, width) = (MARGIN_PX + self.px(side, frame.start), self.px(side, frame.width));
        let node = frame.node.map(|node| &self.tree.nodes[node]);
        let name = match node {
            Some(node) => self.names[node.function].clone(),
            None => {
                format!("{}: {}", self.tree.sides[side].name, amount(self.tree, side, frame.width))
            }
        };
        let class = match (changes, node) {
            (Some(changes), _) => changes.class(frame.node),
            (None, None) => "n".into(),
            (None, Some(node)) => {
                let function = &self.tree.functions[node.function];
                class_of_function(&function.symbol, &function.module)
            }
        };
        let absent =
            |side: usize| changes.is_some() && node.is_some_and(|node| node.inclusive[side] == 0);
        let (new, gone) = (absent(0), absent(1));
        let text = xml(&self.title(side, &frame, &name, changes));
        let new = if new && width >= OUTLINED_WIDTH_MIN_PX { " new" } else { "" };
        let number = frame.node.map_or("all".to_string(), |node| node.to_string());
        // Zooming turns a part of a pixel into many pixels.
        let digits = 4;
        let _ = write!(
            self.body,
            r#"<g class="f" data-n="{number}"><title>{text}</title><rect class="frame {class}{new}" x="{x:.digits$}" y="{y:.1}" width="{width:.digits$}" height="{FRAME_PX}"/>"#
        );
        if gone {
            let _ = write!(
                self.body,
                r#"<rect fill="url(#{})" x="{x:.digits$}" y="{y:.1}" width="{width:.digits$}" height="{FRAME_PX}"/>"#,
                self.gone
            );
        }
        let room = ((width - 5.0) / CHARACTER_PX).max(0.0) as usize;
        if room >= CHARACTERS_MIN {
            let label = xml(&label(&name, room));
            let (x, y) = (x + 3.0, y + 12.5);
            let _ = write!(self.body, r#"<text x="{x:.2}" y="{y:.1}">{label}</text>"#);
        }
        self.body.push_str("</g>\n");
    }

    /// The text that a frame shows on hover.
    fn title(&self, side: usize, frame: &Frame, name: &str, changes: Option<&Changes>) -> String {
        let tree = self.tree;
        let mut text = match frame.node {
            Some(node) => {
                let function = &tree.functions[tree.nodes[node].function];
                let file = if function.module.is_empty() || name != function.symbol {
                    String::new()
                } else {
                    format!(" · {}", function.module)
                };
                format!("{name}{file}\n")
            }
            None => "everything\n".into(),
        };
        let counted = |side: usize, pick: fn(&CallNode) -> &[u64]| {
            frame.node.map(|node| tree.per_op(side, pick(&tree.nodes[node])[side]))
        };
        let Some(changes) = changes else {
            let all = tree.per_op(side, tree.sides[side].total);
            let _ = write!(
                text,
                "{} ({} of all)",
                amount(tree, side, frame.width),
                portion(tree.per_op(side, frame.width), all)
            );
            if let (Some(own), Some(calls)) =
                (counted(side, |node| &node.own), counted(side, |node| &node.calls))
            {
                let _ = write!(text, "\non its own {}", plain(own));
                // Samples count no calls.
                if calls > 0.0 {
                    let _ = write!(text, ", called {} ×", plain(calls));
                }
            }
            return text;
        };
        let sides = [0, 1].map(|side| match frame.node {
            Some(node) => tree.per_op(side, tree.nodes[node].inclusive[side]),
            None => tree.per_op(side, tree.sides[side].total),
        });
        let change = changes.change(frame.node);
        let all = tree.per_op(0, tree.sides[0].total);
        let mark = match sides {
            [0.0, _] => ", new",
            [_, 0.0] => ", gone",
            _ => "",
        };
        let _ = write!(
            text,
            "{} → {} {}: {} ({} of {}'s total){mark}",
            plain(sides[0]),
            plain(sides[1]),
            tree.unit(),
            signed_figure(change),
            share(change, all),
            tree.sides[0].name
        );
        if let (Some(one), Some(two), Some(before), Some(after)) = (
            counted(0, |node| &node.own),
            counted(1, |node| &node.own),
            counted(0, |node| &node.calls),
            counted(1, |node| &node.calls),
        ) {
            let _ = write!(text, "\non its own {} → {}", plain(one), plain(two));
            if before > 0.0 || after > 0.0 {
                let _ = write!(text, ", called {} → {} ×", plain(before), plain(after));
            }
        }
        text
    }

    /// The whole document; `height`: where the panels end.
    fn document(
        self,
        title: &str,
        said: &[String; 2],
        height: f64,
        legend: Option<(&Changes, f64)>,
    ) -> String {
        let mut foot = Legend::at(height + 20.0);
        if self.too_narrow > 0 {
            let many = grouped(self.too_narrow as u64);
            foot.line(&format!(
                "{many} frames narrower than {} px are not drawn",
                self.narrowest_px
            ));
        }
        if let Some((changes, total)) = legend {
            foot.of_changes(changes, total, &self.tree.sides[0].name, &self.gone);
        }
        let height = foot.y;
        let (alt, desc) = (xml(title), xml(&said.join("; ")));
        let style = style();
        // Texts too long for the picture stand whole in its title and description.
        // A line of the file must not begin with what a name has behind a line break.
        let heading = xml(&within(&title.replace('\n', " "), TITLE_CHARACTER_PX));
        let script = self
            .script
            .map_or(String::new(), |script| format!("<script><![CDATA[\n{script}]]></script>\n"));
        let [first, second] = said.each_ref().map(|said| xml(&within(said, CHARACTER_PX)));
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" class="opcost-flame" viewBox="0 0 {WIDTH_PX} {height:.0}" width="{WIDTH_PX}" height="{height:.0}" role="img">
<title>{alt}</title><desc>{desc}</desc>
<style>{style}</style>
<defs><pattern id="{gone}" patternUnits="userSpaceOnUse" width="6" height="6" patternTransform="rotate(45)"><rect class="stripe" width="2" height="6"/></pattern></defs>
<rect class="paper" width="{WIDTH_PX}" height="{height:.0}"/>
<text class="title" x="{MARGIN_PX}" y="20">{heading}</text>
<text class="faint" x="{MARGIN_PX}" y="38">{first}</text>
<text class="faint" x="{MARGIN_PX}" y="53">{second}</text>
{body}{foot}{script}</svg>
"##,
            gone = self.gone,
            body = self.body,
            foot = foot.text,
        )
    }
}

/// Zoom and search, as in the page of a report.
const SCRIPT: &str = include_str!("../../html/flame.js");

/// The source of a side's cost: `of 10 runs of recording 261121-c0ffee`, or `from perf.data`.
fn of(side: &TreeSide) -> String {
    match side.recording == side.name {
        true => format!("from {}", side.name),
        false => format!("of {} runs of recording {}", grouped(side.runs), side.recording),
    }
}

/// A text, cut in the middle if it is wider than the graph.
fn within(text: &str, character_px: f64) -> String {
    cut(text, ((WIDTH_PX - 2.0 * MARGIN_PX) / character_px) as usize)
}

/// `7,431.9 instructions/op`.
fn amount(tree: &CallTree, side: usize, count: u64) -> String {
    format!("{} {}", plain(tree.per_op(side, count)), tree.unit())
}

fn plain(value: f64) -> String {
    figure(value, Unit::Count)
}

/// A change in percent of a total; a dash if the total is 0.
fn share(change: f64, total: f64) -> String {
    if total > 0.0 { percent(change / total) } else { "–".into() }
}

/// A part in percent of a whole.
fn portion(part: f64, whole: f64) -> String {
    share(part, whole).replace('+', "")
}

/// A text in an element or an attribute.
fn xml(text: &str) -> String {
    safe(text, Output::Xml)
}

#[cfg(test)]
mod tests;
