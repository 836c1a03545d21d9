//! The metrics: at a glance, then as a table for each comparison.

use super::glance::glance;
use super::whose;
use crate::render::{View, alone, imported, metrics, ranking};
use maud::{Markup, html};
use opcost_page::document::{Document, Mark};
use opcost_page::writer::html::html as shown;

pub(super) fn section(view: &View<'_>) -> Markup {
    let comparison = view.comparison;
    if let Some(ranking) = &comparison.ranking {
        let mut document = Document::default();
        ranking::add(&mut document, comparison, ranking, false);
        let mut whole = Document::default();
        ranking::add(&mut whole, comparison, ranking, true);
        whole.blocks.truncate(1);
        document.fold("All variants", whole);
        document.say(Mark::Note, ranking::rest(comparison));
        return shown(&document);
    }
    let table = |index: usize| {
        let mut document = Document::default();
        metrics::add(&mut document, comparison, index, true);
        shown(&document)
    };
    html! {
        @for (index, &(baseline, variant)) in comparison.comparisons.iter().enumerate() {
            (whose(view, [baseline, variant]))
            (glance(comparison, index, [baseline, variant]))
            (table(index))
        }
        (shown(&others(view)))
    }
}

/// The figures of variants that are compared with no other, and the notes.
fn others(view: &View<'_>) -> Document {
    let comparison = view.comparison;
    let mut document = Document::default();
    if comparison.comparisons.is_empty() {
        match comparison.imported {
            Some(_) => imported::alone(&mut document, comparison),
            None => alone::figures(&mut document, comparison),
        }
    }
    metrics::footnotes(&mut document, comparison);
    if !comparison.missing().is_empty() {
        document.section("Not counted");
        metrics::missing(&mut document, view);
    }
    document
}
