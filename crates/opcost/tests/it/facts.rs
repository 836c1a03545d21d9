//! The same names and figures stand in every form of a real report, at every width.

use crate::lab::{Lab, root};
use opcost_analysis::comparison::compare;
use opcost_page::document::{Block, Cell, ColumnPlace, Document};
use opcost_page::style::Style;
use opcost_page::writer::{html, mail, markdown, text};
use opcost_record::printable::{Output, safe};
use opcost_report::render::{self, View};
use opcost_store::store::Store;
use unicode_width::UnicodeWidthStr;

/// A text without spaces and line breaks, where formats may break lines.
fn bare(text: &str) -> String {
    text.replace("\\\n", "").split_whitespace().collect()
}

/// The figures and verdicts in columns that every width keeps.
fn kept(blocks: &[Block], found: &mut Vec<String>) {
    for block in blocks {
        match block {
            Block::Table(table) => {
                let cells = table.rows.iter().flat_map(|row| row.cells.iter().zip(&table.columns));
                found.extend(
                    cells.filter(|(_, column)| column.place == ColumnPlace::Fixed).filter_map(
                        |(cell, _)| match cell {
                            Cell::Figure(figure) | Cell::Spread(figure, _) => Some(figure.clone()),
                            Cell::Verdict(verdict) => Some(verdict.word.clone()),
                            _ => None,
                        },
                    ),
                );
            }
            Block::Fold(_, blocks) => kept(blocks, found),
            _ => {}
        }
    }
}

/// Checks that each form has each fact, that no width loses a figure or cuts a verdict, and that ASCII is ASCII.
pub(crate) fn check(document: &Document) {
    let wide = Style { width: 400, full_names: true, ..Style::plain() };
    let facts = document.facts();
    assert!(!facts.is_empty());
    let forms = [
        ("text", text::text(document, &wide), Output::Line),
        ("Markdown", markdown::markdown(document, &wide), Output::Markdown),
        ("HTML", html::html(document).into_string(), Output::Xml),
        ("mail", mail::mail(document, &wide), Output::Line),
    ];
    for (name, form, output) in forms {
        let form = bare(&form);
        for fact in &facts {
            // HTML breaks long names where a browser may.
            let is_long = output == Output::Xml && fact.width() > 60;
            let known = is_long || form.contains(&bare(&safe(fact, output)));
            assert!(known, "{name} lacks {fact}");
        }
    }
    let mut figures = Vec::new();
    kept(&document.blocks, &mut figures);
    for width in [60, 80, 120] {
        let shown = text::text(document, &Style { width, ..Style::plain() });
        let shown = bare(&shown);
        for figure in &figures {
            assert!(shown.contains(&bare(figure)), "{width} columns lack {figure}: {shown}");
        }
    }
    let shown = text::text(document, &Style { ascii: true, ..Style::plain() });
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn published_figures_are_the_same_in_every_form() {
    let folder = root().join("experiments/published");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let lab = Lab::new();
    for file in &files {
        lab.run(&["import", "--quiet", &file.display().to_string()]).expect(0);
    }
    let store = Store::open_for_reading(&lab.store()).unwrap();
    let recordings = lab.recordings();
    assert_eq!(recordings.len(), files.len());
    for recording in recordings {
        let recording = store.read(recording["id"].as_str().unwrap()).unwrap();
        let (comparison, warnings) = compare(&recording);
        for all in [false, true] {
            let style = Style { all, ..Style::plain() };
            check(&render::document(&View {
                recording: &recording,
                comparison: &comparison,
                warnings: &warnings,
                style: &style,
            }));
        }
    }
}
