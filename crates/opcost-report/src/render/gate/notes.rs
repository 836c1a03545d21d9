//! A case's figures from the notes of commits.

use opcost_base::number::{grouped, percent};
use opcost_gate::gate::notes::{NotesHistory, NotesPoint};
use opcost_kernel::short_commit;
use opcost_page::document::{Block, Cell, Column, Document, Row, Table};

/// The history with a row for each commit.
pub fn document(history: &NotesHistory) -> Document {
    let mut document = Document::default();
    for series in &history.series {
        document.gap();
        let commits = match series.points.len() {
            1 => "1 commit with a note".to_string(),
            count => format!("{count} commits with notes"),
        };
        let title = format!("{} {} · {commits}", history.case, series.metric);
        document.blocks.push(Block::Title(title));
        document.gap();
        let heads = ["commit", "figure", "change", "subject"].map(Column::fixed);
        document.table(Table {
            caption: None,
            columns: heads.into_iter().chain([Column::below("not comparable")]).collect(),
            rows: series.points.iter().map(row).collect(),
        });
    }
    document
}

fn row(point: &NotesPoint) -> Row {
    let change = match &point.before {
        None => String::new(),
        Some(Err(_)) => "?".into(),
        Some(Ok(before)) if *before == point.value => "=".into(),
        Some(Ok(0)) => "new".into(),
        Some(Ok(before)) => percent(point.value as f64 / *before as f64 - 1.0),
    };
    let why = match &point.before {
        Some(Err(why)) => format!("not comparable with the commit before: {why}"),
        _ => String::new(),
    };
    Row::of(vec![
        Cell::text(short_commit(&point.commit)),
        Cell::figure(grouped(point.value)),
        Cell::figure(change),
        Cell::Brief(point.subject.clone()),
        Cell::text(why),
    ])
}
