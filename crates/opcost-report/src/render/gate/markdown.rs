//! One comment for a pull request; scripts find it again by its first line and edit it in place.

use super::GateView;
use super::document::document;
use opcost_gate::gate::report::GateVerdict;
use opcost_page::writer::markdown::parts;

/// The marker by which scripts find the comment.
const MARKER: &str = "<!-- opcost gate -->";

/// The most characters that GitHub accepts in a comment.
const CHARACTERS_MAX: usize = 65_536;

/// The note in place of the parts that have no room.
const CUT: &str =
    "\n\nThe rest has no room in a comment; the job's log and `--export-text` have it.\n";

pub(super) fn render(view: &GateView<'_>) -> String {
    let mark = match view.report.verdict() {
        GateVerdict::MayLand if !view.report.suite_changes.is_empty() => "⚠️",
        GateVerdict::MayLand => "✅",
        GateVerdict::NoAnswer => "❔",
        GateVerdict::Exceeded | GateVerdict::Failed => "❌",
    };
    let mut parts = parts(&document(view), view.style).into_iter();
    let first = parts.next().unwrap_or_default();
    let mut text = format!("{MARKER}\n{mark} {}", first.trim_start_matches("- "));
    let room = CHARACTERS_MAX - CUT.chars().count();
    // The most important parts come first; behind the first part that has no room, all are left out.
    let mut used = text.chars().count();
    let mut is_cut = used > room;
    if is_cut {
        text = text.chars().take(room).collect();
    }
    for part in parts {
        let length = part.chars().count();
        if is_cut || used + length > room {
            is_cut = true;
            continue;
        }
        used += length;
        text.push_str(&part);
    }
    if is_cut {
        text.push_str(CUT);
    }
    text
}
