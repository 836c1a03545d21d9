//! The facts about imported figures: their sources, and the published claims.

use crate::render::{View, imported};
use maud::Markup;
use opcost_page::document::Document;
use opcost_page::writer::html::html;

/// Returns `None` for a recording that was not imported.
pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    let import = view.comparison.imported.as_ref()?;
    let mut document = Document::default();
    imported::sources(&mut document, import);
    imported::footnotes(&mut document, view.comparison, import);
    imported::claims(&mut document, import);
    Some(html(&document))
}
