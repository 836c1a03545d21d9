//! Whether the runs can be compared: invariants, observations, the ledger.

use crate::render::View;
use maud::{Markup, html};
use opcost_analysis::comparison::{LedgerEntry, Severity};
use opcost_page::writer::html::sentence;

pub(super) fn section(view: &View<'_>) -> Markup {
    let comparison = view.comparison;
    let (known, unknown): (Vec<&LedgerEntry>, Vec<&LedgerEntry>) =
        comparison.ledger.iter().partition(|entry| entry.known);
    let (fine, odd): (Vec<&LedgerEntry>, Vec<&LedgerEntry>) =
        known.iter().partition(|entry| entry.severity == Severity::Fine);
    let observed = comparison.observed();
    let names = |entries: &[&LedgerEntry]| -> String {
        let names: Vec<&str> = entries.iter().map(|entry| entry.rule.as_str()).collect();
        names.join(", ")
    };
    html! {
        p {
            "Comparable by " (fine.len()) " of " (known.len()) " rules."
            @if !unknown.is_empty() { " Not known: " (names(&unknown)) "." }
        }
        @if !odd.is_empty() { (ledger("Rules that something speaks against", &odd)) }
        @if !fine.is_empty() || !unknown.is_empty() {
            @let others: Vec<&LedgerEntry> = fine.iter().chain(&unknown).copied().collect();
            details {
                summary { "The other rules: " (names(&others)) }
                (ledger("The other rules", &others))
            }
        }
        @if !comparison.invariants.is_empty() {
            table class="stacks" {
                caption { "What the work declared to be the same in every run" }
                thead {
                    tr {
                        th scope="col" { "invariant" }
                        @for variant in &comparison.variants { th scope="col" class="name" { (variant.name) } }
                        th scope="col" { "finding" }
                    }
                }
                tbody {
                    @for row in &comparison.invariants {
                        tr {
                            th scope="row" { (row.name) }
                            @for (values, variant) in row.values.iter().zip(&comparison.variants) {
                                td data-label=(variant.name) { (values.join(", ")) }
                            }
                            td class=(if row.holds { "better" } else { "worse" }) data-label="finding" {
                                @if row.holds { "holds" } @else { "differs" }
                            }
                        }
                    }
                }
            }
        }
        @if !observed.is_empty() {
            h3 { "Observations" }
            p { "They change no verdict; they say why an interval is wide." }
            ul { @for observation in observed { li { (observation) } } }
        }
    }
}

/// A table of ledger entries with their findings.
fn ledger(caption: &str, entries: &[&LedgerEntry]) -> Markup {
    html! {
        table class="stacks" {
            caption { (caption) }
            thead {
                tr { th scope="col" { "rule" } th scope="col" { "finding" } th scope="col" { "what was seen" } }
            }
            tbody {
                @for entry in entries {
                    @let (word, class) = finding(entry);
                    tr {
                        th scope="row" { (entry.rule) }
                        td class=(format!("word {class}")) data-label="finding" { (word) }
                        td data-label="seen" { (sentence(&entry.detail)) }
                    }
                }
            }
        }
    }
}

fn finding(entry: &LedgerEntry) -> (&'static str, &'static str) {
    match entry.severity {
        _ if !entry.known => ("not known", "same"),
        Severity::Fine => ("fine", "better"),
        _ if entry.waived => ("waived", "unsure"),
        Severity::Doubtful => ("doubtful", "unsure"),
        Severity::Refuse => ("refused", "worse"),
    }
}
