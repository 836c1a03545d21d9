//! Two variants of two recordings of the same work, metric by metric.
//!
//! The runs of two recordings were made at different times and share no block whose labels could be exchanged. On the emulated
//! machine this does not matter: its counts have no drift. Figures on which all runs of a side agree are compared exactly. If both
//! recordings ran the same seeds and layouts and their counts repeat, runs of the same layout are compared with each other, as
//! within one recording. Other counts are compared by the rank-sum test. On the host the rank-sum test is used as well, but the
//! difference includes whatever the machine did between the two recordings. Figures of the host are therefore reported as different
//! and never called real.

use super::between::between;
use super::call_tree::VariantOf;
use super::difference::{DifferenceError, noted};
use super::same_machine::{SharedLayouts, different_machine};
use super::same_work::different_work;
use super::two_sample::{self, Test};
use super::{Change, Comparison, Row, Verdict, conclusion, cycles, guests};
use opcost_model::plan::MachineKind;
use opcost_model::recording::settings::{self, Of};
use opcost_record::metric::MODEL_CACHE_MISSES;

/// The comparison of two variants of two recordings, with the doubts about it.
#[derive(Clone, Debug)]
pub struct Across {
    /// The comparison: two variants, the baseline first.
    pub comparison: Comparison,
    /// The doubts about the comparison, and the rules that were waived.
    pub notes: Vec<String>,
}

/// Compares two variants of two recordings.
///
/// `allow`: names of rules that are waived.
///
/// # Errors
/// [`DifferenceError::Refused`]: the variants did different work, their machines have no figures in common, or the ledger refuses
/// the runs of one of them.
pub fn across(variants: [VariantOf<'_>; 2], allow: &[String]) -> Result<Across, DifferenceError> {
    let mut notes = Vec::new();
    let mut comparisons = Vec::new();
    for variant in variants {
        let mut recording = variant.recording.clone();
        recording.plan.allow.extend(allow.iter().cloned());
        let (comparison, _) = super::compare(&recording);
        let noted = noted(&comparison.ledger)?;
        notes.extend(noted.into_iter().map(|note| format!("{}: {note}", recording.id)));
        comparisons.push(comparison);
    }
    let refusals = different_work(variants).into_iter().chain(different_machine(variants));
    for (rule, detail) in refusals {
        if !allow.iter().any(|allowed| allowed == rule) {
            return Err(DifferenceError::Refused { rule: rule.into(), detail });
        }
        notes.push(format!("{detail} ({rule}, waived)"));
    }
    let name = variants[1].name();
    let between = between(variants[0].recording, variants[1].recording, name);
    let differing = between.work.iter().chain(&between.environment);
    notes.extend(differing.map(|what| format!("between the recordings: {what}")));
    notes.dedup();
    let [one, two] = [&comparisons[0], &comparisons[1]];
    let emulated = variants[0].recording.plan.machine() == MachineKind::Emulated;
    let layouts = SharedLayouts::of(variants);
    let mut rows: Vec<Row> = Vec::new();
    let mut tests = Vec::new();
    for row in &one.rows {
        let Some(other) = two.rows.iter().find(|other| other.key == row.key) else { continue };
        let values = [&row.values[variants[0].variant], &other.values[variants[1].variant]];
        let sides = values.map(Option::as_ref);
        let places = layouts.as_ref().and_then(|layouts| layouts.places(&row.key));
        tests.push(vec![match places {
            Some(places) => Test::of_layouts(sides, places),
            None => Test::of_runs(sides),
        }]);
        let centers = values.map(|side| side.as_ref().map(|side| side.center()));
        let ratio = match centers {
            [Some(one), Some(two)] if one != 0.0 => Some(two / one - 1.0),
            [Some(one), Some(two)] if one == two => Some(0.0),
            _ => None,
        };
        let change = Change {
            ratio_of_medians: ratio,
            change_ratio: ratio,
            unordered: !emulated,
            ..Change::default()
        };
        let values = values.map(|side| side.clone()).to_vec();
        rows.push(Row { values, changes: vec![change], ..row.clone() });
    }
    two_sample::judge(&mut rows, &tests);
    cycles::weigh_across(&mut rows, &two.rows, variants.map(|variant| variant.recording));
    caches_across(&mut rows, variants);
    let lacks = |has: &Comparison, lacks: &Comparison| -> Vec<String> {
        let known = |row: &&Row| !lacks.rows.iter().any(|other| other.key == row.key);
        has.rows.iter().filter(known).map(|row| row.label.clone()).collect()
    };
    let lonely = [lacks(one, two), lacks(two, one)].concat();
    if !lonely.is_empty() {
        notes.push(format!("in one of the recordings only: {}", lonely.join(", ")));
    }
    let mut comparison = Comparison {
        recording: format!("{} and {}", one.recording, two.recording),
        heading: heading(variants, &rows),
        variants: (variants.iter().zip([one, two]))
            .map(|(of, comparison)| comparison.variants[of.variant].clone())
            .collect(),
        comparisons: vec![(0, 1)],
        rows,
        functions: Vec::new(),
        cycles: Vec::new(),
        cycle_costs: None,
        kernel_commits: Vec::new(),
        function_costs: None,
        differences: Vec::new(),
        sizes: Vec::new(),
        twin: Vec::new(),
        per_megabyte: None,
        invariants: Vec::new(),
        ledger: Vec::new(),
        stopped: None,
        pairs_for_all: None,
        observations: Vec::new(),
        imported: None,
        conclusions: Vec::new(),
        ..two.clone()
    };
    // Variants of the same name are distinguished by their recordings.
    if comparison.variants[0].name == comparison.variants[1].name {
        for (variant, of) in comparison.variants.iter_mut().zip(variants) {
            variant.name = of.recording.id.clone();
        }
    }
    let named = comparison.variants.iter().zip(variants);
    let guests: Vec<_> = named
        .filter_map(|(variant, of)| Some((variant.name.as_str(), of.recording.guest(of.variant)?)))
        .collect();
    comparison.guests = guests::describe(&guests);
    comparison.conclusions = conclusion::conclusions(&comparison);
    if !emulated {
        notes.push(
            "the recordings were made at different times: what the machine did between them is part of \
             the difference; to be sure, measure both in one recording (opcost compare)"
                .into(),
        );
    }
    Ok(Across { comparison, notes })
}

/// Misses in two models of caches have nothing in common.
fn caches_across(rows: &mut [Row], variants: [VariantOf<'_>; 2]) {
    let sides = variants.map(|of| Of::recording(of.recording, of.variant));
    let differences = settings::differences(sides, true).into_iter();
    let differ: Vec<String> = differences
        .filter(|difference| difference.setting.name == "cache")
        .map(|difference| {
            format!("{} {} and {}", difference.name(), difference.value(0), difference.value(1))
        })
        .collect();
    if differ.is_empty() {
        return;
    }
    for row in rows.iter_mut().filter(|row| MODEL_CACHE_MISSES.contains(&row.key.name.as_str())) {
        row.changes[0].verdict = Verdict::NotComparable;
        row.changes[0].reason = format!("modelled with two caches, {}", differ.join(", "));
    }
}

/// "2 recordings · host · primary: wall", in parts.
fn heading(variants: [VariantOf<'_>; 2], rows: &[Row]) -> Vec<String> {
    let [one, two] = variants.map(|variant| variant.recording);
    let primary = rows.iter().find(|row| row.primary);
    let mut parts = vec![format!("recordings {} and {}", one.id, two.id)];
    parts.push(one.plan.machine().words().into());
    parts.extend(primary.map(|row| format!("primary: {}", row.label)));
    parts
}
