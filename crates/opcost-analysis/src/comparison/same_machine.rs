//! Checks whether two recordings were made on the same machine and in the same layouts.

use super::analysis::finished_runs;
use super::call_tree::VariantOf;
use super::difference::WORK_RULE;
use super::repeatable::Repeats;
use opcost_model::plan::MachineKind;
use opcost_model::recording::settings::{self, Meaning, Of};
use opcost_record::MetricKey;
use std::collections::BTreeMap;

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
