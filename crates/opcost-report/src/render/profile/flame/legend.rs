//! The legend of a differential flame graph: the meaning of its colours and marks.

use super::color::{Changes, STEPS};
use super::{CHARACTER_PX, FRAME_PX, MARGIN_PX, share, within, xml};
use std::fmt::Write as _;

/// Distance between the lines.
const LINE_PX: f64 = 18.0;
/// Distance between the steps of the colours: the steps of both directions fill the width.
const STEP_PX: f64 = 98.0;

/// A legend under construction.
pub(super) struct Legend {
    pub(super) text: String,
    /// Base line of the next line.
    pub(super) y: f64,
}

impl Legend {
    /// An empty legend; `y`: the base line of the first line.
    pub(super) fn at(y: f64) -> Legend {
        Legend { text: String::new(), y }
    }

    /// Adds a line of text.
    pub(super) fn line(&mut self, text: &str) {
        self.words(MARGIN_PX, text);
        self.y += LINE_PX;
    }

    /// Adds the colours and marks. Changes are percentages of `total`; `gone` is the identifier of the stripes.
    pub(super) fn of_changes(&mut self, changes: &Changes, total: f64, baseline: &str, gone: &str) {
        if changes.threshold(STEPS) > 0.0 {
            self.line(&format!("a colour: changed by more than so much of {baseline}'s total"));
            let down = (1..=STEPS).rev().map(|step| ("d", '−', step));
            let up = (1..=STEPS).map(|step| ("u", '+', step));
            for (at, (direction, sign, step)) in down.chain(up).enumerate() {
                let label =
                    share(changes.threshold(step), total).replacen('+', &sign.to_string(), 1);
                self.entry(MARGIN_PX + at as f64 * STEP_PX, &format!("{direction}{step}"), &label);
            }
            self.y += LINE_PX;
        }
        self.entry(MARGIN_PX, "n", "gone: the variant spends nothing in it");
        self.stripes(MARGIN_PX, gone);
        self.entry(WIDTH_OF_MARK_PX, "n new", "new: the baseline spends nothing in it");
        self.y += LINE_PX;
    }

    fn entry(&mut self, x: f64, class: &str, label: &str) {
        let top = self.y - 12.0;
        let _ = write!(
            self.text,
            r#"<rect class="frame {class}" x="{x:.1}" y="{top:.1}" width="16" height="{FRAME_PX}"/>"#
        );
        self.words(x + 21.0, label);
    }

    fn stripes(&mut self, x: f64, gone: &str) {
        let top = self.y - 12.0;
        let _ = writeln!(
            self.text,
            r#"<rect fill="url(#{gone})" x="{x:.1}" y="{top:.1}" width="16" height="{FRAME_PX}"/>"#
        );
    }

    fn words(&mut self, x: f64, text: &str) {
        let (text, y) = (xml(&within(text, CHARACTER_PX)), self.y);
        let _ = writeln!(self.text, r#"<text class="faint" x="{x:.1}" y="{y:.1}">{text}</text>"#);
    }
}

/// Where the second mark begins.
const WIDTH_OF_MARK_PX: f64 = MARGIN_PX + 4.0 * STEP_PX;
