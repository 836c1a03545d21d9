//! Where a change comes from: functions and their callers, kernel options, sizes.

use crate::render::{View, report};
use maud::Markup;
use opcost_page::writer::html::html;

/// Returns `None` if the recording has none of these.
pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    // With many variants the page has one table, and no parts of single comparisons.
    if view.comparison.ranking.is_some() {
        return None;
    }
    let mut document = report::origin(view.comparison);
    for found in &view.comparison.steps {
        document.fold("every step", opcost_steps::tree_of(found));
    }
    (!document.blocks.is_empty()).then(|| html(&document))
}
