//! Checks whether two recordings were made on the same machine and in the same layouts.

use super::analysis::finished_runs;
use super::call_tree::VariantOf;
use super::repeatable::Repeats;
use crate::plan::MachineKind;
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

/// Why the figures of two machines have nothing in common, if so.
pub(super) fn different_machine(variants: [VariantOf<'_>; 2]) -> Option<(&'static str, String)> {
    let [one, two] = variants.map(|variant| variant.recording);
    let refuse = |detail: String| Some((MACHINE_RULE, detail));
    if one.plan.machine() != two.plan.machine() {
        let words = [one, two].map(|recording| recording.plan.machine().words());
        return refuse(format!("one was made on {}, the other on {}", words[0], words[1]));
    }
    let [Some(first), Some(second)] = [one.machine.first(), two.machine.first()] else {
        return None;
    };
    let differs =
        |what: &str, one: &str, two: &str| (one != two).then(|| format!("{what}: {one} and {two}"));
    let named = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    let found = match one.plan.machine() {
        MachineKind::Emulated => {
            let guests = variants.map(|of| of.recording.plan.variants[of.variant].guest.as_ref());
            let [Some(guest), Some(other)] = guests else { return None };
            let (emulator, of_other) =
                (named(&first.emulator_version), named(&second.emulator_version));
            let memory = [guest, other].map(|guest| guest.memory_mib.to_string());
            let cpus = [guest, other].map(|guest| guest.cpus.to_string());
            differs("the emulators differ", &emulator, &of_other)
                .or_else(|| {
                    differs("opcost differs", &first.opcost_version, &second.opcost_version)
                })
                .or_else(|| differs("the emulated CPUs differ", &guest.cpu_model, &other.cpu_model))
                .or_else(|| differs("the memories differ, MiB", &memory[0], &memory[1]))
                .or_else(|| differs("the numbers of CPUs differ", &cpus[0], &cpus[1]))
        }
        _ => differs("the CPUs differ", &named(&first.cpu_model), &named(&second.cpu_model)),
    };
    found.and_then(refuse)
}
