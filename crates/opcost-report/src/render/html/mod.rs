//! One page for a browser: everything known about a recording, with plots.
//!
//! The page needs no other file and no network. Its only script zooms and searches flame graphs; the
//! page's policy forbids the browser everything else. No content is lost without the script. The
//! template escapes everything that comes from outside.

mod doubts;
mod flames;
mod glance;
mod imports;
mod metrics;
mod origin;
mod past;
mod plot;
mod plots;
mod repeat;
mod surroundings;
pub mod timeline;

use super::View;
use super::metrics as metrics_of;
use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use opcost_analysis::comparison::{Change, Row, Severity};
use opcost_analysis::history::History;
use opcost_base::time::date;
use opcost_model::plan::MachineKind;
use opcost_page::document::Document;
use opcost_page::writer::html::{class, html as of_document, sentence};
use opcost_record::printable::{Output, safe};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("style.css");
/// Allows the page's own styles and nothing else: the browser fetches nothing, whatever the page contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The content security policy; with `script`, the policy allows a script of this text and no other.
fn policy(script: Option<&str>) -> String {
    match script {
        Some(script) => {
            format!("{POLICY}; script-src 'sha256-{}'", base64(&Sha256::digest(script)))
        }
        None => POLICY.to_string(),
    }
}

/// Bytes as text (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let at = bits >> (18 - 6 * digit) & 63;
            text.push(if digit > chunk.len() { '=' } else { char::from(DIGITS[at as usize]) });
        }
    }
    text
}

pub(super) fn render(view: &View<'_>) -> Result<String> {
    page(view, None)
}

/// Renders the page; with `history`, also the recordings of the same experiment over time.
///
/// # Errors
/// The experiment cannot be written as TOML.
pub fn page(view: &View<'_>, history: Option<&History>) -> Result<String> {
    let comparison = view.comparison;
    let flames = flames::section(view);
    let policy = policy(flames.as_ref().map(|_| flames::SCRIPT));
    let metrics = [
        Some(Section::new("metrics", "Metrics", metrics::section(view))),
        plots::section(view).map(|body| Section::new("plots", "Plots", body)),
        history
            .and_then(|history| past::section(view, history))
            .map(|body| Section::new("history", "History", body)),
    ];
    let origin = [
        origin::section(view).map(|body| Section::new("origin", "Where it comes from", body)),
        flames.map(|body| Section::new("flames", "Flame graphs", body)),
    ];
    // Emulated counts are certain: the question is where a difference comes from, so the origin comes first.
    let counted = view.recording.plan.machine() == MachineKind::Emulated;
    let answers: Vec<Option<Section>> = match counted {
        true => origin.into_iter().chain(metrics).collect(),
        false => metrics.into_iter().chain(origin).collect(),
    };
    let others = [
        imports::section(view).map(|body| Section::new("imported", "Imported figures", body)),
        Some(Section::new("comparability", "Can the runs be compared?", doubts::section(view))),
        Some(Section::new("environment", "Environment", surroundings::section(view))),
        Some(Section::new("repeat", "How to repeat it", repeat::section(view)?)),
    ];
    let sections: Vec<Section> = answers.into_iter().chain(others).flatten().collect();
    let heading = comparison.heading.join(" · ");
    let title = comparison.question.as_ref().unwrap_or(&comparison.experiment);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head(html! { (title) " – opcost" }, &policy))
            body {
                a class="skip" href="#metrics" { "Skip to the metrics" }
                header {
                    h1 { (title) }
                    p class="heading" { (heading) }
                    (verdict(view))
                    nav aria-label="Sections" {
                        ul { @for section in &sections { li { a href=(format!("#{}", section.id)) { (section.name) } } } }
                    }
                }
                main {
                    @for section in &sections {
                        section id=(section.id) aria-labelledby=(format!("{}-heading", section.id)) {
                            h2 id=(format!("{}-heading", section.id)) { (section.name) }
                            (section.body)
                        }
                    }
                }
                footer {
                    p {
                        "Recording " code { (comparison.recording) } ", begun "
                        (date(view.recording.created_unix_ns)) " UTC; made into this page by opcost "
                        (env!("CARGO_PKG_VERSION")) ". The raw figures: "
                        code { "opcost show " (comparison.recording) " --export-csv FILE" }
                    }
                }
            }
        }
    };
    Ok(markup.into_string())
}

/// The head of a page that needs no other file.
fn head(title: Markup, policy: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="generator" content=(concat!("opcost ", env!("CARGO_PKG_VERSION")));
            title { (title) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// A page of one report.
pub fn page_of(title: &str, document: &Document) -> String {
    whole(title, html! { main { (of_document(document)) } })
}

/// A page without a script; it needs no other file and no network.
fn whole(title: &str, body: Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            (head(PreEscaped(safe(title, Output::Xml)), POLICY))
            body { (body) }
        }
    };
    markup.into_string()
}

/// A part of the page that can be linked to.
struct Section {
    id: &'static str,
    name: &'static str,
    body: Markup,
}

impl Section {
    fn new(id: &'static str, name: &'static str, body: Markup) -> Section {
        Section { id, name, body }
    }
}

/// The answer, and the doubts to know before believing it.
fn verdict(view: &View<'_>) -> Markup {
    let comparison = view.comparison;
    let primary = comparison.rows.iter().find(|row| row.primary);
    let class = |index: usize| {
        let refused = comparison.refused();
        let change = primary.and_then(|row| Some((row, row.changes.get(index)?)));
        change
            .filter(|_| !refused && comparison.ranking.is_none())
            .map_or("unsure", |(row, change)| class_of(row, change))
    };
    // A refusal that is not waived is the conclusion already.
    let doubts = comparison.ledger.iter().filter(|entry| match entry.severity {
        Severity::Fine => false,
        Severity::Doubtful => true,
        Severity::Refuse => entry.waived,
    });
    html! {
        div class="verdict" {
            @for (index, conclusion) in comparison.answers(false).iter().enumerate() {
                p class=(class(index)) { strong { (sentence(conclusion)) } }
            }
            @for entry in doubts {
                p class="unsure" {
                    @if entry.waived { "Waived" } @else { "Doubtful" }
                    " (" a href="#comparability" { (entry.rule) } "): " (sentence(&entry.detail))
                }
            }
            @for warning in view.warnings {
                p class="unsure" { "Warning: " (sentence(&warning.to_string())) }
            }
            @if let Some(stopped) = &comparison.stopped { p { (sentence(stopped)) } }
        }
    }
}

/// The colour class of a change; the words and signs beside it say the same.
fn class_of(row: &Row, change: &Change) -> &'static str {
    class(metrics_of::tone(row, change))
}

/// The heading above the parts of one comparison, if there are several comparisons.
fn whose(view: &View<'_>, [baseline, variant]: [usize; 2]) -> Markup {
    let comparison = view.comparison;
    html! {
        @if comparison.comparisons.len() > 1 {
            h3 { (comparison.variants[variant].name) " against " (comparison.variants[baseline].name) }
        }
    }
}
