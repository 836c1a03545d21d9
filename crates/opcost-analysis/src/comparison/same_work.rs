//! Checks whether two variants of different recordings did the same work.

use super::call_tree::VariantOf;
use super::difference::WORK_RULE;
use super::same_machine::refused;
use opcost_model::plan::WorkPlan;
use opcost_record::Outcome;
use opcost_work::WorkloadSpec;
use std::collections::{BTreeMap, BTreeSet};

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
