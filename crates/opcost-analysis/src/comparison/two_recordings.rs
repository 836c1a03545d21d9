//! Two variants of two recordings of the same work, metric by metric.
//!
//! The runs of two recordings were made at different times and share no block whose labels could be exchanged. On the emulated
//! machine this does not matter: its counts have no drift. Figures on which all runs of a side agree are compared exactly. If both
//! recordings ran the same seeds and layouts and their counts repeat, runs of the same layout are compared with each other, as
//! within one recording. Other counts are compared by the rank-sum test. On the host the rank-sum test is used as well, but the
//! difference includes whatever the machine did between the two recordings. Figures of the host are therefore reported as different
//! and never called real.
//!
//! [`compare_recordings`] refuses recordings of different work ([`different_work`]) or machines ([`different_machine`]), and notes
//! what else differs ([`surrounding_changes`]).

use super::analysis::finished_runs;
use super::call_tree::VariantOf;
use super::ledger::Repeats;
use super::recorded_profiles::{DifferenceError, WORK_RULE, noted};
use super::unpaired::Test;
use super::{Change, Comparison, Row, Verdict, conclusion, cycles, guests, unpaired};
use opcost_model::plan::judged::SideMetrics;
use opcost_model::plan::{MachineKind, Plan, WorkPlan};
use opcost_model::recording::settings::{Meaning, Of};
use opcost_model::recording::{Recording, settings};
use opcost_record::metric::MODEL_CACHE_MISSES;
use opcost_record::{MetricKey, Outcome};
use opcost_work::WorkloadSpec;
use std::collections::{BTreeMap, BTreeSet};

/// The comparison of two variants of two recordings, with the doubts about it.
#[derive(Clone, Debug)]
pub struct RecordingsComparison {
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
pub fn compare_recordings(
    variants: [VariantOf<'_>; 2],
    allow: &[String],
) -> Result<RecordingsComparison, DifferenceError> {
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
    let between = surrounding_changes(variants[0].recording, variants[1].recording, name);
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
    let side_metrics = SideMetrics::of(variants.map(|variant| &variant.recording.plan), 1);
    unpaired::judge(&mut rows, &tests, Some(&side_metrics));
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
        patch_sites: Vec::new(),
        steps: Vec::new(),
        function_costs: Vec::new(),
        differences: Vec::new(),
        sizes: Vec::new(),
        twin: Vec::new(),
        per_megabyte: None,
        invariants: Vec::new(),
        ledger: Vec::new(),
        stopped: None,
        pairs_for_all: None,
        observations: Vec::new(),
        carry_over: Vec::new(),
        imported: None,
        conclusions: Vec::new(),
        ranking: None,
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
             the difference, and whether their runs carry over to each other is not tested; to be sure, measure \
             both in one recording (opcost compare)"
                .into(),
        );
    }
    Ok(RecordingsComparison { comparison, notes })
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

/// The differences of a recording from the one before.
pub struct SurroundingChanges {
    /// Changes of the environment: kernel, microcode, CPU, settings, opcost, the parameters of the variant.
    pub environment: Vec<String>,
    /// Changes of the work itself: rebuilt programs and kernels under test. A history exists to notice their effects, so they
    /// excuse no change of level.
    pub work: Vec<String>,
}

/// Compares the surroundings of one variant in two recordings that follow each other.
pub fn surrounding_changes(
    before: &Recording,
    after: &Recording,
    variant: &str,
) -> SurroundingChanges {
    let (mut environment, mut work) = (Vec::new(), Vec::new());
    if before.plan.machine() != after.plan.machine() {
        let kind = |plan: &Plan| match plan.machine() {
            MachineKind::Host => "measured",
            MachineKind::Attached => "measured while it ran",
            MachineKind::Emulated => "emulated",
            MachineKind::Imported => "imported",
        };
        environment.push(format!("figures: {} → {}", kind(&before.plan), kind(&after.plan)));
    }
    let imported = [before, after].iter().any(|recording| recording.plan.imported().is_some());
    let place = |recording: &Recording| {
        recording.plan.variants.iter().position(|known| known.name == variant)
    };
    let sides = [before, after].map(|recording| {
        let of = Of::recording(recording, place(recording).unwrap_or_default());
        // A variant that only one recording has cannot differ.
        if place(before).and(place(after)).is_some() { of } else { Of { plan: None, ..of } }
    });
    for difference in settings::differences(sides, settings::is_emulated(&after.plan)) {
        // Little is known of an imported recording; a lack of knowledge is no change.
        let unknown = difference.values.iter().any(Option::is_none);
        if imported && (unknown || difference.setting.name == "version") {
            continue;
        }
        match difference.setting.difference {
            Meaning::Judged => (),
            Meaning::Work => work.extend(difference.change()),
            Meaning::Environment | Meaning::Refused(_) => environment.extend(difference.change()),
        }
    }
    SurroundingChanges { environment, work }
}

/// The rule about the machines of two recordings; `--allow` waives the rule.
const MACHINE_RULE: &str = "machine";

/// The seeds and layouts that both recordings ran once each.
pub(super) struct SharedLayouts<'a> {
    variants: [VariantOf<'a>; 2],
    repeats: [Repeats<'a>; 2],
    places: Vec<(usize, usize)>,
}

impl<'a> SharedLayouts<'a> {
    /// The shared layouts; `None` unless the emulated machine and the seeds and layouts are the same on both sides.
    pub(super) fn of(variants: [VariantOf<'a>; 2]) -> Option<SharedLayouts<'a>> {
        let [one, two] = variants.map(|of| &of.recording.plan);
        let emulated = [one, two]
            .iter()
            .all(|plan| plan.machine() == MachineKind::Emulated && plan.in_process.is_none());
        if !emulated || one.aslr != two.aslr || different_machine(variants).is_some() {
            return None;
        }
        let drawn = variants.map(|of| -> Option<BTreeMap<(u32, u16), usize>> {
            let runs = finished_runs(of.recording, of.variant);
            let all = runs.len();
            let places = runs.into_iter().enumerate().filter_map(|(place, run)| {
                let block = of.recording.plan.blocks.get(run.block? as usize)?;
                Some(((block.guest_seed, block.padding_bytes), place))
            });
            Some(places.collect::<BTreeMap<_, _>>()).filter(|places| places.len() == all)
        });
        let [Some(first), Some(second)] = drawn else { return None };
        let same = !first.is_empty() && first.keys().eq(second.keys());
        let places = first.into_values().zip(second.into_values()).collect();
        let repeats = variants.map(|of| Repeats::of(of.recording));
        same.then_some(SharedLayouts { variants, repeats, places })
    }

    /// The places of each layout's runs among the counted runs of both recordings; `None` for a metric whose counts were not seen
    /// to repeat.
    pub(super) fn places(&self, key: &MetricKey) -> Option<&[(usize, usize)]> {
        let repeat = self.variants.iter().zip(&self.repeats).all(|(of, repeats)| {
            let metric = of.recording.dictionary.id(key);
            metric.is_some_and(|metric| repeats.hold(of.variant, metric))
        });
        repeat.then_some(self.places.as_slice())
    }
}

/// Why the figures of two machines have nothing in common, if so: the broken rule and the difference.
pub(super) fn different_machine(variants: [VariantOf<'_>; 2]) -> Option<(&'static str, String)> {
    let [one, two] = variants.map(|variant| variant.recording);
    if one.plan.machine() != two.plan.machine() {
        let words = [one, two].map(|recording| recording.plan.machine().words());
        let detail = format!("one was made on {}, the other on {}", words[0], words[1]);
        return Some((MACHINE_RULE, detail));
    }
    refused(variants).into_iter().find(|(rule, _)| *rule != WORK_RULE)
}

/// The settings by which two recordings are not comparable: each rule with the difference.
pub(super) fn refused(variants: [VariantOf<'_>; 2]) -> Vec<(&'static str, String)> {
    let sides = variants.map(|of| Of::recording(of.recording, of.variant));
    // Nobody recorded the machine of older recordings, so it is not known to differ.
    let stated = sides.iter().all(|of| of.state.is_some());
    let emulated = settings::is_emulated(&variants[0].recording.plan);
    let differences = settings::differences(sides, emulated).into_iter();
    let refusals = differences.filter_map(|difference| match difference.setting.difference {
        Meaning::Refused(rule) if stated || rule == WORK_RULE => {
            let [one, two] = [0, 1].map(|side| difference.value(side));
            Some((rule, format!("the {} differs: {one} and {two}", difference.what())))
        }
        _ => None,
    });
    refusals.collect()
}

/// The broken rules, as `--allow` takes them, each with the difference.
pub(super) fn different_work(variants: [VariantOf<'_>; 2]) -> Vec<(&'static str, String)> {
    let works = variants.map(|of| &of.recording.plan.variants[of.variant].work);
    let differs = match works {
        [WorkPlan::Workload { name: one, .. }, WorkPlan::Workload { name: two, .. }]
            if one != two =>
        {
            Some(format!("the workloads differ: {one} and {two}"))
        }
        [WorkPlan::Workload { name, params: one }, WorkPlan::Workload { params: two, .. }] => {
            parameters(name, [one, two])
        }
        [WorkPlan::Command { line: one, .. }, WorkPlan::Command { line: two, .. }] => {
            (one != two).then(|| format!("the commands differ: '{one}' and '{two}'"))
        }
        [one, two] => Some(format!(
            "one is a workload, one a command: {} and {}",
            one.describe(),
            two.describe()
        )),
    };
    let of_settings = refused(variants).into_iter().filter(|(rule, _)| *rule == WORK_RULE);
    let work = differs.map(|differs| (WORK_RULE, differs));
    work.into_iter().chain(of_settings).chain(invariants(variants)).collect()
}

/// The parameters that differ between the sides.
fn parameters(name: &str, [one, two]: [&Vec<(String, String)>; 2]) -> Option<String> {
    // A version with fewer parameters did what the defaults of the new parameters do now.
    let full = |params: &[(String, String)]| {
        WorkloadSpec::find(name).and_then(|spec| spec.resolve(params).ok()).map(|params| {
            params.pairs().iter().map(|(key, value)| (key.to_string(), value.clone())).collect()
        })
    };
    let [one, two] = [one, two].map(|params| {
        full(params).unwrap_or_else(|| params.iter().cloned().collect::<BTreeMap<_, _>>())
    });
    let keys: BTreeSet<&String> = one.keys().chain(two.keys()).collect();
    let differ: Vec<String> = keys
        .into_iter()
        .filter(|key| one.get(*key) != two.get(*key))
        .map(|key| {
            let value = |of: &BTreeMap<String, String>| {
                of.get(key).map_or_else(|| "not set".into(), String::clone)
            };
            format!("{key} is {} and {}", value(&one), value(&two))
        })
        .collect();
    (!differ.is_empty()).then(|| format!("the parameters of {name} differ: {}", differ.join("; ")))
}

/// The declared invariants that differ between the sides.
fn invariants(variants: [VariantOf<'_>; 2]) -> Option<(&'static str, String)> {
    let seen = variants.map(|of| {
        let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let finished = of.recording.records.iter().filter(|record| {
            usize::from(record.variant) == of.variant
                && record.block.is_some()
                && record.outcome == Outcome::Finished
        });
        for invariant in finished.flat_map(|record| &record.invariants) {
            seen.entry(&invariant.name).or_default().insert(&invariant.value);
        }
        seen
    });
    let names: BTreeSet<&str> = seen.iter().flat_map(|seen| seen.keys().copied()).collect();
    let differ: Vec<String> = names
        .into_iter()
        .filter(|name| seen[0].get(name) != seen[1].get(name))
        .map(|name| {
            let values = seen.each_ref().map(|seen| match seen.get(name) {
                None => "none".to_string(),
                Some(values) if values.len() == 1 => values.iter().copied().collect(),
                Some(values) => format!("{} different values", values.len()),
            });
            format!("{name} is {} and {}", values[0], values[1])
        })
        .collect();
    (!differ.is_empty())
        .then(|| ("invariants", format!("the work was not the same: {}", differ.join("; "))))
}
