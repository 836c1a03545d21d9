//! The findings of a self-test, for people.

use super::Outcome;
use opcost_analysis::selftest::{EXCLUDED_MIN, FALSE_ALARMS_MAX, LEVEL, Metric, Planted, Share};
use opcost_base::number::{magnitude, percent};
use opcost_model::plan::MachineKind;
use opcost_page::document::{Cell, Column, Document, Mark, Row, Table, Tone};

/// The smallest ratio that percentages show.
const FINEST: f64 = 1e-6;

pub(super) fn document(outcome: &Outcome) -> Document {
    let tallied = &outcome.tallied;
    let reports = tallied.reports();
    let machine = outcome.machine.words();
    let mut document = Document::titled(format!(
        "self-test · {machine} · {} pairs a report · {reports} reports, {:.1} s each · seed {}",
        outcome.pairs,
        outcome.seconds / reports as f64,
        outcome.seed
    ));
    document.say(Mark::None, &outcome.work);
    document.gap();
    let same = &tallied.same;
    let alarms = format!(
        "the same work on both sides: {} of {} reports raised a false alarm, over all metrics \
         together: {}",
        same.alarms.count,
        same.alarms.of,
        rate(&same.alarms)
    );
    document.say(Mark::None, alarms);
    if same.refused > 0 {
        let text = format!("{} reports beside these were refused by the ledger", same.refused);
        document.say(Mark::Doubt, text);
    }
    document.gap();
    let row = |metric: &Metric| {
        let figures = [metric.alarms.to_string(), finds(metric)].map(Cell::Figure);
        Row::of([Cell::text(&metric.metric)].into_iter().chain(figures).collect())
    };
    document.table(Table {
        caption: None,
        columns: ["metric", "false alarms", "finds, 9 times in 10"].map(Column::fixed).to_vec(),
        rows: same.metrics.iter().filter(|metric| shown(metric)).map(row).collect(),
    });
    let (exact, open): (Vec<&Metric>, Vec<&Metric>) = same
        .metrics
        .iter()
        .filter(|metric| !shown(metric))
        .partition(|metric| metric.exact == same.alarms.of);
    for (what, metrics) in
        [("the same in every run", exact), ("0 in most runs, or too few pairs to say", open)]
    {
        if !metrics.is_empty() {
            let names: Vec<&str> = metrics.iter().map(|metric| metric.metric.as_str()).collect();
            document.say(Mark::None, format!("{what}: {}", names.join(", ")));
        }
    }
    if !tallied.planted.is_empty() {
        document.section("a known amount of work on top of one side");
    }
    document.rows(tallied.planted.iter().map(|planted| {
        vec![Cell::text(percent(planted.change_ratio)), Cell::text(detection(planted))]
    }));
    document.gap();
    if !tallied.doubts.is_empty() {
        let doubts: Vec<String> =
            tallied.doubts.iter().map(|(rule, count)| format!("{rule} in {count}")).collect();
        let text = format!("of {reports} reports the ledger doubted: {}", doubts.join(", "));
        document.say(Mark::Doubt, text);
    }
    let (tone, verdict) = match (tallied.failures.as_slice(), tallied.needed) {
        ([], None) => (Tone::Better, passed(outcome)),
        ([], Some(needed)) => (Tone::Unsure, undecided(outcome, needed)),
        (failures, _) => (Tone::Worse, format!("fails: {}", failures.join("; "))),
    };
    document.say_in(Mark::Conclusion, tone, verdict);
    document
}

/// Whether the metric has a row of its own.
fn shown(metric: &Metric) -> bool {
    metric.alarms > 0 || metric.mde_ratio.is_some()
}

fn finds(metric: &Metric) -> String {
    match metric.mde_ratio {
        None => "–".into(),
        Some(ratio) if ratio < FINEST => format!("less than {}", magnitude(FINEST)),
        Some(ratio) => format!("≥ {}", magnitude(ratio)),
    }
}

/// A share with its interval, as percentages.
fn rate(share: &Share) -> String {
    match (share.share(), share.low, share.high) {
        (Some(rate), Some(low), Some(high)) => format!(
            "{:.1} % ({:.1} % … {:.1} % at {} % confidence)",
            rate * 100.0,
            low * 100.0,
            high * 100.0,
            LEVEL * 100.0
        ),
        _ => "no report".into(),
    }
}

fn detection(planted: &Planted) -> String {
    let mut text = format!(
        "found in {} by {} of {}: {}",
        planted.metric,
        planted.found.count,
        planted.found.of,
        rate(&planted.found)
    );
    if let Some(estimate) = planted.estimate_ratio {
        text += &format!("; measured {}", percent(estimate));
    }
    let also: Vec<String> =
        planted.also_in.iter().map(|(label, count)| format!("{label} {count}")).collect();
    if !also.is_empty() {
        text += &format!("; also in {}", also.join(", "));
    }
    if planted.refused > 0 {
        text += &format!("; {} refused by the ledger", planted.refused);
    }
    if planted.wrong_way > 0 {
        text += &format!("; {} said it fell", planted.wrong_way);
    }
    text
}

/// The message of a self-test with too few reports: how many reports it takes, and how long.
fn undecided(outcome: &Outcome, needed: u64) -> String {
    let alarms = &outcome.tallied.same.alarms;
    // The kinds of reports take turns, so reports with a planted change take their share of the time.
    let seconds = outcome.seconds * needed as f64 / alarms.of.max(1) as f64;
    format!(
        "undecided: {} report{} on the same work cannot exclude that more than one in {} raises a \
         false alarm; it takes {needed}{}: --seconds {:.0}",
        alarms.of,
        if alarms.of == 1 { "" } else { "s" },
        (1.0 / EXCLUDED_MIN).round(),
        if alarms.count > 0 { " with no further alarm" } else { "" },
        seconds.ceil().max(1.0)
    )
}

fn passed(outcome: &Outcome) -> String {
    let bar = format!(
        "passes: nothing speaks against a false-alarm rate of at most {} % a report",
        FALSE_ALARMS_MAX * 100.0
    );
    match outcome.machine {
        MachineKind::Emulated if !outcome.tallied.planted.is_empty() => {
            bar + ", and every planted change of an exact count was found"
        }
        _ => bar,
    }
}
