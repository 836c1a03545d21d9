//! Where a change comes from: functions and their callers, kernel options, sizes.

use super::whose;
use crate::render::{View, functions, size};
use maud::{Markup, html};

/// Returns `None` if the recording has none of these.
pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    let comparison = view.comparison;
    let parts: Vec<Markup> = comparison
        .comparisons
        .iter()
        .map(|&(baseline, variant)| [baseline, variant])
        .filter_map(|sides| {
            let names = sides.map(|side| comparison.variants[side].name.as_str());
            let tables = functions::tables(comparison, sides, view.style);
            let differences = functions::differences(comparison, sides);
            let sizes = size::rows_table(comparison, sides);
            if tables.is_empty() && differences.is_empty() && sizes.is_empty() {
                return None;
            }
            Some(html! {
                (whose(view, sides))
                @for table in &tables { (functions_table(table, names)) }
                @if let Some((heading, files)) = functions::commits(comparison, sides) {
                    h4 { (heading) }
                    ul class="plain" {
                        @for (title, lines) in files {
                            li {
                                (title)
                                ul class="plain" { @for line in lines { li { code { (line) } } } }
                            }
                        }
                    }
                }
                @for (heading, lines) in differences {
                    h4 { (heading) }
                    ul class="plain" { @for line in lines { li { code { (line) } } } }
                }
                @for (heading, lines) in sizes { (sizes_table(&heading, &lines, names)) }
            })
        })
        .collect();
    (!parts.is_empty()).then(|| html! { @for part in parts { (part) } })
}

fn functions_table(table: &functions::Table, names: [&str; 2]) -> Markup {
    html! {
        table class="stacks" {
            caption { "Where the " (table.heading) " come from" }
            thead {
                tr {
                    th scope="col" { "function" }
                    @for name in names { th scope="col" class="name number" { (name) } }
                    th scope="col" class="number" { "change" }
                    th scope="col" { "verdict" }
                    th scope="col" { "called from" }
                }
            }
            tbody {
                @for line in &table.lines {
                    tr {
                        th scope="row" title=[line.whole.as_deref()] { code { (line.name) } }
                        @for (figure, name) in line.figures.iter().zip(names.into_iter().chain(["change"])) {
                            td class="number" data-label=(name) { (figure) }
                        }
                        td data-label="verdict" {
                            @let words = line.words("real");
                            @if words.is_empty() { "–" } @else { (words) }
                        }
                        td data-label="called from" {
                            @if line.callers.is_empty() { "–" } @else { code { (line.callers) } }
                        }
                    }
                }
            }
        }
        @for sentence in [&table.covered, &table.division].into_iter().flatten() {
            p { (sentence) }
        }
        @for note in &table.notes { p { (note) "." } }
    }
}

fn sizes_table(heading: &str, lines: &[[String; 5]], names: [&str; 2]) -> Markup {
    html! {
        table class="stacks" {
            caption { (heading.trim_end_matches(':')) }
            thead {
                tr {
                    th scope="col" { "class" }
                    @for name in names { th scope="col" class="name number" { (name) } }
                    th scope="col" class="number" { "change" }
                    th scope="col" class="number" { "ratio" }
                }
            }
            tbody {
                @for [class, before, after, change, ratio] in lines {
                    tr {
                        th scope="row" { (class) }
                        td class="number" data-label=(names[0]) { (before) }
                        td class="number" data-label=(names[1]) { (after) }
                        td class="number" data-label="change" { (change) }
                        td class="number" data-label="ratio" { @if ratio.is_empty() { "–" } @else { (ratio) } }
                    }
                }
            }
        }
    }
}
