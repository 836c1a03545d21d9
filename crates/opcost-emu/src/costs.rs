//! The costs of a run's regions, as the report has them.

use crate::arguments::Arguments;
use crate::attribution::Attribution;
use crate::class::Class;
use crate::counters::{Counters, Figure, When};
use crate::decode::Repeat;
use crate::region::{CounterSums, Regions};
use crate::tree::Tree;
use crate::watching::Watching;
use opcost_record::emulation::RegionCost;
use opcost_record::marker::REGIONS;
use opcost_record::metric::{
    CYCLE_PARTS, CYCLES_ERROR, CYCLES_SLICES, DEFERRED_AFTER, ENTRIES, MODEL_CYCLES, OPERATIONS,
};
use opcost_record::profile::ContextCycles;
use opcost_record::program_region::ProgramRegions;
use opcost_record::{Domain, Profile, WORK};

/// Returns the costs since the last run's end.
///
/// `by_context`: whether the tree was charged with the instructions. `left`: the deferred instructions that the work left behind, if
/// the guest waited for them.
///
/// # Errors
/// The parts of a region do not add up to its total.
pub(crate) fn costs(
    arguments: &Arguments,
    attribution: &Attribution,
    tree: &Tree,
    (regions, program_regions): (&Regions, &ProgramRegions<CounterSums>),
    left: Option<u64>,
    by_context: bool,
    watching: Option<&Watching>,
) -> Result<Vec<RegionCost>, String> {
    let mut all = Vec::new();
    for (region, sum) in regions.sums() {
        let (functions, frames) = (attribution.functions(), attribution.vcpu_frames());
        let profile = tree.profile(region + 1, functions, frames, arguments.cycles.is_some());
        let total = sum.counters.get(Figure::Instructions, Domain::All);
        if by_context && profile.total() != total {
            return Err(format!(
                "the plugin's own sums differ in region '{}': {total} instructions in all, {} by \
                 context; this is a fault of opcost",
                REGIONS[region],
                profile.total()
            ));
        }
        let mut spent = ContextCycles::default();
        for cycles in &profile.cycles {
            spent.iter_mut().zip(cycles).for_each(|(sum, part)| *sum += part);
        }
        if spent != sum.counters.cycles() {
            return Err(format!(
                "the plugin's own sums differ in region '{}': the modelled cycles are not those of the \
                 contexts; this is a fault of opcost",
                REGIONS[region]
            ));
        }
        let several = tree.vcpus() > 1;
        let mut counts = counts(arguments, several, &sum.counters);
        if several {
            vcpu_counts(attribution, tree, region + 1, sum, &mut counts);
        }
        landmark_counts(arguments, attribution, sum, &mut counts);
        // Without a profile all code is one function, which has no class.
        if by_context && arguments.profile {
            class_counts(tree, region, &sum.counters, &mut counts)?;
            let left = left.filter(|_| REGIONS[region] == WORK);
            counts.extend(left.map(|left| (DEFERRED_AFTER.into(), Domain::Kernel, left)));
        }
        watched_counts(attribution, watching, sum, REGIONS[region] == WORK, &mut counts);
        if arguments.probe {
            probe_counts(attribution, sum, &mut counts);
        }
        let profile = if arguments.profile { profile } else { Profile::default() };
        all.push(RegionCost { region: REGIONS[region].into(), counts, profile });
    }
    all.extend(program_regions.sums().iter().map(|sum| {
        let mut counts = counts(arguments, tree.vcpus() > 1, &sum.amounts.counters);
        landmark_counts(arguments, attribution, &sum.amounts, &mut counts);
        watched_counts(attribution, watching, &sum.amounts, false, &mut counts);
        counts.push((ENTRIES.into(), Domain::All, sum.entries));
        counts.extend(sum.operations.map(|number| (OPERATIONS.into(), Domain::All, number)));
        RegionCost { region: sum.name.clone(), counts, profile: Profile::default() }
    }));
    Ok(all)
}

type Counts = Vec<(String, Domain, u64)>;

fn counts(arguments: &Arguments, several: bool, sums: &Counters) -> Counts {
    let domains: &[Domain] = if arguments.system {
        &[Domain::All, Domain::User, Domain::Kernel]
    } else {
        &[Domain::All, Domain::User]
    };
    let mut counts = Vec::new();
    let reported = |when: When| match when {
        When::Always => true,
        When::Several => several,
        When::Modelled => arguments.model.is_some(),
        When::Timed => arguments.cycles.is_some(),
        When::Never => false,
    };
    for (figure, name, _) in Figure::TABLE.iter().filter(|(.., when)| reported(*when)) {
        for domain in domains {
            counts.push((name.to_string(), *domain, sums.get(*figure, *domain)));
        }
    }
    if arguments.cycles.is_some() {
        for domain in domains {
            let parts = Figure::CYCLES[..CYCLE_PARTS.len()].iter();
            let cycles = parts.map(|figure| sums.get(*figure, *domain)).sum();
            counts.push((MODEL_CYCLES.into(), *domain, cycles));
        }
    }
    if arguments.one_in > 1 {
        // A slice may hold instructions of both the program and the kernel. Without a kernel all instructions are the program's.
        for domain in domains.iter().filter(|domain| !arguments.system || **domain == Domain::All) {
            let slices = sums.get(Figure::Slices, Domain::All);
            counts.push((CYCLES_SLICES.into(), *domain, slices));
            counts.push((CYCLES_ERROR.into(), *domain, sums.slice_error(arguments.one_in)));
        }
    }
    counts
}

/// Adds the kernel's instructions by class, if the kernel tells classes apart.
///
/// # Errors
/// They do not add up to the kernel's instructions.
fn class_counts(
    tree: &Tree,
    region: usize,
    counters: &Counters,
    counts: &mut Counts,
) -> Result<(), String> {
    let Some(sums) = tree.class_sums(region + 1) else { return Ok(()) };
    let (total, kernel) =
        (sums.iter().sum::<u64>(), counters.get(Figure::Instructions, Domain::Kernel));
    if total != kernel {
        return Err(format!(
            "the plugin's own sums differ in region '{}': {kernel} instructions in the kernel, {total} \
             by class; this is a fault of opcost",
            REGIONS[region]
        ));
    }
    let by_class = Class::NAMES.iter().zip(sums);
    counts.extend(by_class.map(|((_, name), sum)| (name.to_string(), Domain::Kernel, sum)));
    Ok(())
}

/// Adds the instructions of each of several vCPUs and the number of turn switches.
fn vcpu_counts(
    attribution: &Attribution,
    tree: &Tree,
    column: usize,
    sum: &CounterSums,
    counts: &mut Counts,
) {
    for vcpu in 0..tree.vcpus() {
        counts.push((format!("instructions-cpu{vcpu}"), Domain::All, tree.sum(vcpu, column)));
    }
    if let Some(turns) = sum.landmarks.get(attribution.metrics().len() + 1) {
        counts.push(("cpu-turns".into(), Domain::All, *turns));
    }
}

fn landmark_counts(
    arguments: &Arguments,
    attribution: &Attribution,
    sum: &CounterSums,
    counts: &mut Counts,
) {
    for (name, count) in attribution.metrics().iter().zip(&sum.landmarks) {
        counts.push((name.clone(), Domain::All, *count));
    }
    if !arguments.system
        && let Some(calls) = sum.landmarks.get(attribution.metrics().len())
    {
        counts.push(("system-calls".into(), Domain::All, *calls));
    }
}

/// Adds the amounts at functions' entries.
fn watched_counts(
    attribution: &Attribution,
    watching: Option<&Watching>,
    sum: &CounterSums,
    whole: bool,
    counts: &mut Counts,
) {
    // Behind the counts of the self-test's probes.
    let first = attribution.metrics().len() + 2 + 3 * Repeat::TABLE.len();
    let differences = sum.landmarks.get(first..).unwrap_or_default();
    counts.extend(watching.into_iter().flat_map(|watching| watching.counts(differences, whole)));
}

fn probe_counts(attribution: &Attribution, sum: &CounterSums, counts: &mut Counts) {
    let names = Repeat::TABLE
        .iter()
        .flat_map(|(_, word, ..)| ["R", "W", "RW"].map(|filter| format!("probe-{word}-{filter}")));
    for (name, count) in names.zip(sum.landmarks.iter().skip(attribution.metrics().len() + 2)) {
        counts.push((name, Domain::All, *count));
    }
}
