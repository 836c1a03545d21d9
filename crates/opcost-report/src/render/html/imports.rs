//! The facts about imported figures: their sources, and the published claims.

use crate::render::{View, imported};
use maud::{Markup, html};
use opcost_analysis::comparison::{ClaimOutcome, t_text};

/// Returns `None` for a recording that was not imported.
pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    let import = view.comparison.imported.as_ref()?;
    let omitted = imported::omitted(import);
    Some(html! {
        ul { @for source in &import.sources { li { (imported::describe(source)) } } }
        @if import.means { p { "The figures are means; their runs are not known." } }
        @if !import.claims.is_empty() {
            h3 { "Published, and recomputed from the figures" }
            ul {
                @for (outcome, text) in imported::sentences(import) {
                    li class=(match outcome {
                        ClaimOutcome::Holds => "better",
                        ClaimOutcome::NotShown | ClaimOutcome::DoesNotFollow => "worse",
                        ClaimOutcome::CannotTell => "unsure",
                    }) { (text) }
                }
            }
        }
        @if !import.welch.is_empty() {
            h3 { "Welch's t" }
            ul {
                @for row in &import.welch {
                    @let (_, variant) = view.comparison.comparisons[row.comparison];
                    li { (row.label) " of " (view.comparison.variants[variant].name) ": " (t_text(row.t)) }
                }
            }
        }
        @if !omitted.is_empty() {
            h3 { "Not taken over" }
            ul { @for omitted in omitted { li { (omitted) } } }
        }
    })
}
