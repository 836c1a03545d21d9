//! Made-up recordings of an emulated machine.

use super::key;
use opcost_model::plan::{EmulationPlan, Plan, Slot, Target};
use opcost_model::recording::{KernelState, Recording};
use opcost_record::{Context, Function, Profile, Reading, metric::EMULATOR, profile::KERNEL};
use opcost_size::Totals;

/// The plan for an emulated machine: each block has one run of each variant.
pub(crate) fn plan(filters: &[&str], pairs: u32) -> Plan {
    emulated(super::plan(filters, pairs))
}

/// The same plan for an emulated machine.
pub(crate) fn emulated(mut plan: Plan) -> Plan {
    plan.target = Target::Emulated(Box::new(EmulationPlan {
        model: false,
        core: None,
        cycles_one_in: None,
        jobs: 1,
        pack: Vec::new(),
        pack_used: false,
        no_functions: false,
        addresses: false,
        steps: None,
        count: Vec::new(),
        booted_once: false,
    }));
    plan.primary = key("instructions", EMULATOR);
    plan.events.clear();
    plan.unavailable.clear();
    plan.repeats_last = false;
    for block in &mut plan.blocks {
        block.order = (0..plan.variants.len() as u16).collect();
    }
    plan
}

/// A count of the emulator.
pub(crate) fn count(name: &str, value: u64) -> Reading {
    Reading::plain(key(name, EMULATOR), value)
}

/// A recording whose runs count the results of `read`. The profile's total is the instructions,
/// except for `unattributed`, which belongs to no function.
pub(crate) fn recording(
    plan: Plan,
    unattributed: u64,
    mut read: impl FnMut(&Slot) -> (Profile, Vec<Reading>),
) -> Recording {
    let mut profiles = Vec::new();
    let mut recording = super::recording(plan, |slot| {
        let (profile, others) = read(slot);
        let instructions = count("instructions", profile.total() + unattributed);
        profiles.push((slot.slot, profile));
        [instructions].into_iter().chain(others).collect()
    });
    recording.profiles = profiles;
    recording
}

/// A kernel whose configuration has these lines.
pub(crate) fn kernel(variant: usize, name: &str, config: &[String]) -> KernelState {
    KernelState {
        variant,
        name: name.into(),
        release: "6.1.0".into(),
        digest: format!("{variant}").repeat(64),
        config: Some(config.join("\n")),
        sizes: Some(Totals {
            text_bytes: 6_634_826 + 128_761 * variant as u64,
            data_bytes: 2_084_928,
            bss_bytes: 602_112 - 172_032 * variant as u64,
        }),
    }
}

/// A profile under construction.
#[derive(Default)]
pub(crate) struct Tree {
    profile: Profile,
}

impl Tree {
    /// A context of a kernel function; returns its number, for its callees.
    pub(crate) fn kernel(
        &mut self,
        parent: Option<u32>,
        symbol: &str,
        calls: u64,
        cost: u64,
    ) -> Option<u32> {
        self.add(parent, symbol, KERNEL, calls, cost)
    }

    /// A context of any function.
    pub(crate) fn add(
        &mut self,
        parent: Option<u32>,
        symbol: &str,
        module: &str,
        calls: u64,
        cost: u64,
    ) -> Option<u32> {
        let wanted = Function::new(symbol, module);
        let functions = &mut self.profile.functions;
        let known = functions.iter().position(|function| *function == wanted);
        let function = known.unwrap_or_else(|| {
            functions.push(wanted);
            functions.len() - 1
        }) as u32;
        self.profile.contexts.push(Context { parent, function, calls, cost });
        Some(self.profile.contexts.len() as u32 - 1)
    }

    pub(crate) fn grown(self) -> Profile {
        self.profile
    }
}
