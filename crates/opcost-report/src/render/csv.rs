//! The raw figures: one row per run, one column per metric, integers as read. Functions of profiles
//! fit no column: the JSON has them.

use super::View;
use anyhow::{Context, Result};
use opcost_model::recording::Recording;
use opcost_record::printable::{Output, safe};
use opcost_record::{MetricId, Outcome, WORK};

/// A column of one metric: its value, or the share of the time its counter was on the hardware.
enum Column {
    Value(MetricId),
    RunningShare(MetricId),
}

pub(super) fn render(view: &View<'_>) -> Result<String> {
    let recording = view.recording;
    if recording.plan.imported().is_some() {
        return super::imported::csv(recording, view.comparison);
    }
    let columns = columns(recording);
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fixed =
        ["recording", "run", "variant", "block", "started_unix_ns", "outcome", "exit_code", "ops"];
    let head = fixed.map(str::to_string).into_iter();
    let head = head.chain(columns.iter().map(|column| heading(recording, column)));
    writer.write_record(head).context("recording to CSV")?;
    for record in &recording.records {
        let outcome = match &record.outcome {
            Outcome::Finished => "finished".to_string(),
            Outcome::Failed(failure) => opcost_base::failure::in_words(failure),
        };
        let number = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let fields = [
            safe(&recording.id, Output::CsvCell),
            record.slot.to_string(),
            safe(&recording.plan.variants[usize::from(record.variant)].name, Output::CsvCell),
            record.block.map_or("warm-up".into(), |block| block.to_string()),
            record.started_unix_ns.to_string(),
            safe(&outcome, Output::CsvCell),
            record.exit_code.map_or(String::new(), |code| code.to_string()),
            number(record.ops),
        ];
        let figures = columns.iter().map(|column| match column {
            Column::Value(metric) => number(record.sample(*metric).map(|sample| sample.value)),
            Column::RunningShare(metric) => {
                let time = record.sample(*metric).and_then(|sample| sample.time);
                time.map_or(String::new(), |time| match time.enabled_ns {
                    0 => "1".into(),
                    enabled_ns => (time.running_ns as f64 / enabled_ns as f64).to_string(),
                })
            }
        });
        writer.write_record(fields.into_iter().chain(figures)).context("recording to CSV")?;
    }
    let bytes = writer.into_inner().context("recording to CSV")?;
    String::from_utf8(bytes).context("recording to CSV")
}

/// One value column per metric, and a share column for each metric that the kernel can multiplex.
fn columns(recording: &Recording) -> Vec<Column> {
    let timed = |metric: MetricId| {
        recording
            .records
            .iter()
            .any(|record| record.sample(metric).is_some_and(|sample| sample.time.is_some()))
    };
    (0..recording.dictionary.keys().len() as MetricId)
        .flat_map(|metric| {
            let share = timed(metric).then_some(Column::RunningShare(metric));
            [Some(Column::Value(metric)), share]
        })
        .flatten()
        .collect()
}

/// `source metric:domain [unit]`, with the region unless that is the work.
fn heading(recording: &Recording, column: &Column) -> String {
    let (Column::Value(metric) | Column::RunningShare(metric)) = column;
    let Some(key) = recording.dictionary.key(*metric) else { return String::new() };
    // The label of a program's own region already contains the region's name.
    let labelled = key.region == WORK || key.is_of_program_region();
    let region = if labelled { String::new() } else { format!(" ({})", key.region) };
    let name = format!("{} {}{region}", key.source, key.label());
    let heading = match (column, key.row().unit.symbol()) {
        (Column::RunningShare(_), _) => format!("{name} running_share"),
        (_, "1") => name,
        (_, unit) => format!("{name} [{unit}]"),
    };
    safe(&heading, Output::CsvCell)
}
