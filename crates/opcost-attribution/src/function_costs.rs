//! The cost of each run by function and by immediate caller, from its profile.
//! [`SampledBy`] says how its samples were taken, and how many are missing.

use crate::matching::{Matching, Side, UnknownModule, check_told};
use opcost_base::number::grouped;
use opcost_model::plan::{SameFile, WorkPlan};
use opcost_model::recording::Recording;
use opcost_record::metric::{CYCLE_PARTS, CYCLES_FAR, EMULATOR, MODEL_CYCLES};
use opcost_record::profile::ContextCycles;
use opcost_record::{Domain, MetricKey, Outcome, Profile, Record, Unit};
use opcost_source::sampling;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A variant of a recording.
#[derive(Clone, Copy)]
pub struct VariantOf<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Index of the variant in its plan.
    pub variant: usize,
}

impl VariantOf<'_> {
    /// The variant's name.
    pub fn name(&self) -> &str {
        &self.recording.plan.variants[self.variant].name
    }
}

/// The event that was counted or sampled, and its unit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Counted {
    /// In words, with the unit: `instructions`, `ns of sampled task-clock`.
    pub words: String,
    /// The event: `instructions:u`, `task-clock`.
    pub event: String,
    /// Nanoseconds where a clock was sampled, bytes of memory, else a count of the event.
    pub unit: Unit,
    /// The events from one sample to the next, in `unit`; 1 if each event was counted; `None` if the period is not fixed or not
    /// known.
    pub period: Option<u64>,
}

impl Counted {
    /// Describes events of which samples were taken, in their unit: nanoseconds if a timer took them.
    ///
    /// `period`: events from one sample to the next; `frequency_hz`: samples requested per second.
    pub fn sampled(
        event: &str,
        unit: Unit,
        period: Option<u64>,
        frequency_hz: Option<u64>,
    ) -> Counted {
        // A clock's events are nanoseconds, so the period follows from the frequency.
        let clock = unit == Unit::Ns;
        let asked = frequency_hz.filter(|hz| clock && *hz > 0).map(|hz| 1_000_000_000 / hz);
        let behind = match unit {
            Unit::Count => String::new(),
            unit => format!(" ({})", unit.symbol()),
        };
        let (words, event) = (format!("{event}{behind}"), event.to_string());
        Counted { words, event, unit, period: period.or(asked) }
    }
}

/// The metric of a recording's profiles; the user mode alone if nothing else is counted.
pub fn profiled_metric(recording: &Recording) -> MetricKey {
    if is_sampled(recording) {
        return sampling::metric();
    }
    let key = |domain| MetricKey::new("instructions", domain, EMULATOR);
    let whole = key(Domain::All);
    match recording.dictionary.id(&whole) {
        Some(_) => whole,
        None => key(Domain::User),
    }
}

/// Whether a recording's profiles are of samples.
pub fn is_sampled(recording: &Recording) -> bool {
    recording.plan.sampling().is_some()
}

/// The event and unit of the costs in a recording's profiles.
pub fn counted(recording: &Recording) -> Counted {
    let metric = profiled_metric(recording);
    match recording.plan.sampling() {
        Some(sampling) => Counted {
            words: SAMPLED_UNIT.into(),
            ..Counted::sampled(&metric.name, Unit::Ns, None, Some(sampling.frequency_hz))
        },
        None => Counted {
            words: metric.label(),
            event: metric.label(),
            unit: Unit::Count,
            period: Some(1),
        },
    }
}

/// The unit of a sampled profile: samples times the time between them.
pub const SAMPLED_UNIT: &str = "ns of sampled task-clock";

/// A finished run of a block that has both a profile and the metric's count.
#[derive(Clone)]
pub struct ProfiledRun<'a> {
    pub variant: usize,
    /// The unit of the test that its block belongs to.
    pub unit: u32,
    /// Operations; `None` for a command.
    pub ops: Option<u64>,
    /// The metric's total as it was counted.
    pub total: u64,
    pub profile: Cow<'a, Profile>,
}

/// Scales a sampled profile down if it exceeds the metric that it explains. Each sample stands for a whole period, but a run rarely
/// ends together with a period.
fn capped(profile: &Profile, total: u64) -> Cow<'_, Profile> {
    let sum = profile.total();
    if sum <= total {
        return Cow::Borrowed(profile);
    }
    let mut capped = profile.clone();
    for context in &mut capped.contexts {
        // Rounded down, so that the sum does not exceed the total. A share of a u64 fits a u64.
        context.cost = (u128::from(context.cost) * u128::from(total) / u128::from(sum)) as u64;
    }
    Cow::Owned(capped)
}

/// The metric with which the contexts of a profile are charged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Charged {
    /// The metric of the profile: instructions, or sampled time.
    Profiled,
    /// Modelled cycles.
    Cycles,
    /// Modelled cycles of one cause, by index; the index after the last cause means the memory cycles that waited far away.
    CyclePart(usize),
}

impl Charged {
    /// The metric to which the contexts add up.
    fn metric(self, recording: &Recording) -> MetricKey {
        let name = match self {
            Charged::Profiled => return profiled_metric(recording),
            Charged::Cycles => MODEL_CYCLES,
            Charged::CyclePart(part) => CYCLE_PARTS.get(part).copied().unwrap_or(CYCLES_FAR),
        };
        MetricKey::new(name, profiled_metric(recording).domain, EMULATOR)
    }

    /// The profile with the cost of each context replaced by this charge; `None` if the profile lacks it.
    fn charge(self, profile: &Profile, total: u64, sampled: bool) -> Option<Cow<'_, Profile>> {
        let cost = |cycles: &ContextCycles| match self {
            Charged::CyclePart(part) => cycles[part],
            _ => cycles[..CYCLE_PARTS.len()].iter().sum(),
        };
        match self {
            Charged::Profiled if sampled => Some(capped(profile, total)),
            Charged::Profiled => Some(Cow::Borrowed(profile)),
            _ if profile.cycles.len() != profile.contexts.len() => None,
            _ => {
                let mut charged = profile.clone();
                for (context, cycles) in charged.contexts.iter_mut().zip(&profile.cycles) {
                    context.cost = cost(cycles);
                }
                Some(Cow::Owned(charged))
            }
        }
    }
}

/// The runs of a recording that have profiles, in the order of the schedule.
pub fn profiled_runs(recording: &Recording) -> Vec<ProfiledRun<'_>> {
    charged_runs(recording, Charged::Profiled)
}

/// The runs of each of a recording's variants.
fn by_variant<'r, 'a>(
    runs: &'r [ProfiledRun<'a>],
    variants: usize,
) -> Vec<Vec<&'r ProfiledRun<'a>>> {
    let mut of_each = vec![Vec::new(); variants];
    for run in runs {
        if let Some(own) = of_each.get_mut(run.variant) {
            own.push(run);
        }
    }
    of_each
}

fn charged_runs(recording: &Recording, charged: Charged) -> Vec<ProfiledRun<'_>> {
    let Some(metric) = recording.dictionary.id(&charged.metric(recording)) else {
        return Vec::new();
    };
    let sampled = is_sampled(recording);
    let by_slot: HashMap<u32, &Record> =
        recording.records.iter().map(|record| (record.slot, record)).collect();
    let plan = &recording.plan;
    recording
        .profiles
        .iter()
        .filter_map(|(slot, profile)| {
            let record = by_slot.get(slot).filter(|run| run.outcome == Outcome::Finished)?;
            let total = record.sample(metric)?.value;
            Some(ProfiledRun {
                variant: record.variant.into(),
                unit: plan.unit_of(record.block?),
                ops: record.ops,
                total,
                profile: charged.charge(profile, total, sampled)?,
            })
        })
        .collect()
}

fn side<'a>(variant: VariantOf<'a>, runs: &[&'a ProfiledRun<'_>]) -> Side<'a> {
    let functions: BTreeSet<_> = runs.iter().flat_map(|run| &run.profile.functions).collect();
    let work = &variant.recording.plan.variants[variant.variant].work;
    let program = match work {
        WorkPlan::Command { program, .. } => program.to_str(),
        WorkPlan::Workload { .. } => None,
    };
    Side {
        functions: functions.into_iter().collect(),
        modules: runs.iter().flat_map(|run| &run.profile.modules).collect(),
        program,
    }
}

/// Checks that the files which the plan declares the same belong to its variants.
///
/// # Errors
/// [`UnknownModule`] names the first file that does not. A recording without profiles has no files to check.
pub fn check_matches(recording: &Recording) -> Result<(), UnknownModule> {
    if recording.plan.matches.is_empty() {
        return Ok(());
    }
    let runs = profiled_runs(recording);
    let variants = 0..recording.plan.variants.len();
    let own = by_variant(&runs, variants.len());
    let sides: Vec<Side<'_>> =
        variants.map(|variant| side(VariantOf { recording, variant }, &own[variant])).collect();
    match &sides[..] {
        [] | [_] => Ok(()),
        _ if runs.is_empty() => Ok(()),
        // Each side but the first may be the variant, each but the last the baseline.
        [earlier @ .., _] => {
            check_told([&Side::all(earlier), &Side::all(&sides[1..])], &recording.plan.matches)
        }
    }
}

/// Checks the same files for one variant of each of two recordings.
///
/// # Errors
/// [`UnknownModule`] names the first file that belongs to neither variant.
pub fn check_matches_of(
    variants: [VariantOf<'_>; 2],
    told: &[SameFile],
) -> Result<(), UnknownModule> {
    let runs = variants.map(|of| {
        let mut runs = profiled_runs(of.recording);
        runs.retain(|run| run.variant == of.variant);
        runs
    });
    let sides = [0, 1].map(|at: usize| side(variants[at], &runs[at].iter().collect::<Vec<_>>()));
    check_told(sides.each_ref(), told)
}

/// Matches the functions of variants; `runs`: the runs of each variant.
pub fn matching(variants: &[VariantOf<'_>], runs: &[Vec<&ProfiledRun<'_>>]) -> Matching {
    let sides: Vec<Side<'_>> =
        variants.iter().zip(runs).map(|(variant, runs)| side(*variant, runs)).collect();
    let told = variants.iter().flat_map(|variant| variant.recording.plan.matches.clone());
    let told: Vec<SameFile> = told.collect();
    Matching::of(&sides, &told)
}

/// Number of a function in a [`Matching`].
pub type FunctionId = u32;

/// Cost of one function in one run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cost {
    /// Cost of the function's own instructions.
    pub own: u64,
    /// Times it was called.
    pub calls: u64,
    /// The same costs by immediate caller; the key is `None` if no caller is known.
    pub callers: BTreeMap<Option<FunctionId>, Edge>,
}

/// The part of a function's cost that belongs to the calls of one caller.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Edge {
    /// Cost of the function's own instructions.
    pub own: u64,
    /// Calls.
    pub calls: u64,
}

/// A run with a profile, by function.
#[derive(Clone, Debug)]
pub struct AttributedRun {
    /// Index of its variant among those that were attributed.
    pub side: usize,
    /// The unit of the test that its block belongs to.
    pub unit: u32,
    /// Operations; 1 for a command.
    pub ops: u64,
    /// The metric as it was counted.
    pub total: u64,
    /// The part of the total that the profile contains.
    pub attributed: u64,
    pub costs: BTreeMap<FunctionId, Cost>,
}

/// The runs of some variants by function.
#[derive(Clone, Debug, Default)]
pub struct Attribution {
    pub matching: Matching,
    /// The runs, in the order of their sides.
    pub runs: Vec<AttributedRun>,
}

impl Attribution {
    /// Takes the runs of one recording that have profiles; the sides are its variants.
    pub fn of(recording: &Recording) -> Attribution {
        Attribution::of_charged(recording, Charged::Profiled)
    }

    /// Takes the same runs, charged with another metric.
    pub fn of_charged(recording: &Recording, charged: Charged) -> Attribution {
        let variants = 0..recording.plan.variants.len();
        let variants: Vec<_> = variants.map(|variant| VariantOf { recording, variant }).collect();
        let runs = charged_runs(recording, charged);
        Attribution::over(&variants, &by_variant(&runs, variants.len()))
    }

    /// The runs of one side.
    pub fn of_side(&self, side: usize) -> &[AttributedRun] {
        // Each side's runs follow one another.
        let start = self.runs.partition_point(|run| run.side < side);
        let own = &self.runs[start..];
        &own[..own.partition_point(|run| run.side == side)]
    }

    /// Takes the runs of variants of any recordings that have profiles.
    pub fn of_each(variants: &[VariantOf<'_>]) -> Attribution {
        let runs: Vec<Vec<ProfiledRun<'_>>> = variants
            .iter()
            .map(|of| {
                let mut runs = profiled_runs(of.recording);
                runs.retain(|run| run.variant == of.variant);
                runs
            })
            .collect();
        let runs: Vec<Vec<&ProfiledRun<'_>>> = runs.iter().map(|of| of.iter().collect()).collect();
        Attribution::over(variants, &runs)
    }

    fn over(variants: &[VariantOf<'_>], runs: &[Vec<&ProfiledRun<'_>>]) -> Attribution {
        let matching = matching(variants, runs);
        let run = |(side, run): (usize, &&ProfiledRun<'_>)| AttributedRun {
            side,
            unit: run.unit,
            ops: run.ops.unwrap_or(1).max(1),
            total: run.total,
            attributed: run.profile.total(),
            costs: costs(&run.profile, side, &matching),
        };
        let sides = runs.iter().enumerate();
        let runs = sides.flat_map(|(side, runs)| runs.iter().map(move |run| (side, run)));
        let runs = runs.map(run).collect();
        Attribution { matching, runs }
    }
}

/// The costs of one profile.
pub fn costs(profile: &Profile, side: usize, matching: &Matching) -> BTreeMap<FunctionId, Cost> {
    let number = |function| matching.number(side, function);
    let ids: Vec<FunctionId> = profile.functions.iter().map(number).collect();
    let mut costs: BTreeMap<FunctionId, Cost> = BTreeMap::new();
    for context in &profile.contexts {
        let id = ids[context.function as usize];
        // A part that the compiler split off belongs to its function and is not called by it.
        let splits = |caller: &&opcost_record::Context| {
            ids[caller.function as usize] == id && caller.function != context.function
        };
        let parent =
            |of: &opcost_record::Context| of.parent.map(|at| &profile.contexts[at as usize]);
        let mut caller = parent(context);
        let inner = caller.as_ref().is_some_and(splits);
        while let Some(part) = caller.filter(splits) {
            caller = parent(part);
        }
        let caller = caller.map(|caller| ids[caller.function as usize]);
        let cost = costs.entry(id).or_default();
        let calls = if inner { 0 } else { context.calls };
        cost.own += context.cost;
        cost.calls += calls;
        let edge = cost.callers.entry(caller).or_default();
        edge.own += context.cost;
        edge.calls += calls;
    }
    costs
}

/// The samples of all compared runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SampledBy {
    /// Samples requested per second.
    pub frequency_hz: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples and other events lost for lack of room.
    pub lost: u64,
    /// How often the kernel stopped sampling because samples came too fast.
    pub throttles: u64,
    /// Samples whose outer callers are missing.
    pub stacks_cut: u64,
    /// Samples at addresses with no known mapping.
    pub unmapped: u64,
}

impl SampledBy {
    /// The samples of these variants' runs in blocks; `None` for a recording without samples.
    pub fn of(recording: &Recording, variants: &[usize]) -> Option<SampledBy> {
        let frequency_hz = recording.plan.sampling()?.frequency_hz;
        let runs = || {
            recording.records.iter().filter(|record| {
                record.block.is_some() && variants.contains(&usize::from(record.variant))
            })
        };
        let sum = |name: &str| {
            let key = MetricKey::new(name, Domain::All, "sampling");
            let id = recording.dictionary.id(&key);
            let value = |record| id.and_then(|id| opcost_record::Record::sample(record, id));
            runs().filter_map(value).map(|sample| sample.value).sum()
        };
        Some(SampledBy {
            frequency_hz,
            samples: sum("profile-samples"),
            lost: sum("profile-lost"),
            throttles: sum("profile-throttles"),
            stacks_cut: sum("profile-stacks-cut"),
            unmapped: sum("profile-unmapped"),
        })
    }

    /// The samples of two recordings together.
    pub fn with(self, other: SampledBy) -> SampledBy {
        SampledBy {
            frequency_hz: self.frequency_hz.max(other.frequency_hz),
            samples: self.samples + other.samples,
            lost: self.lost + other.lost,
            throttles: self.throttles + other.throttles,
            stacks_cut: self.stacks_cut + other.stacks_cut,
            unmapped: self.unmapped + other.unmapped,
        }
    }

    /// In words: `5,312 samples at 997 Hz, 3 events lost`.
    pub fn describe(&self) -> String {
        let losses = [
            (self.lost, "events lost"),
            (self.throttles, "times throttled by the kernel"),
            (self.stacks_cut, "stacks cut off"),
            (self.unmapped, "samples where nothing is known to be mapped"),
        ];
        let losses = losses.iter().filter(|(count, _)| *count > 0);
        let losses = losses.map(|(count, what)| format!(", {} {what}", grouped(*count)));
        let none = if self.lost == 0 { ", none lost" } else { "" };
        format!(
            "{} samples at {} Hz{none}{}",
            grouped(self.samples),
            self.frequency_hz,
            losses.collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::{Context, Function};

    fn profile(functions: &[&str], contexts: &[(Option<u32>, u32, u64, u64)]) -> Profile {
        Profile {
            functions: functions.iter().map(|symbol| Function::new(*symbol, "m")).collect(),
            contexts: contexts
                .iter()
                .map(|&(parent, function, calls, cost)| Context { parent, function, calls, cost })
                .collect(),
            ..Profile::default()
        }
    }

    /// Each line is "symbol own×calls: caller own×calls, …".
    fn check(profile: &Profile, expected: &[&str]) {
        let side = Side { functions: profile.functions.iter().collect(), ..Side::default() };
        let matching = Matching::of(&[side], &[]);
        let costs = costs(profile, 0, &matching);
        let name = |id: FunctionId| matching.symbol(id);
        let line = |(id, cost): (&FunctionId, &Cost)| {
            let callers = cost.callers.iter();
            let callers: Vec<String> = callers
                .map(|(by, edge)| format!("{} {}×{}", by.map_or("-", name), edge.own, edge.calls))
                .collect();
            format!("{} {}×{}: {}", name(*id), cost.own, cost.calls, callers.join(", "))
        };
        assert_eq!(costs.iter().map(line).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn samples_never_explain_more_than_there_is() {
        let tree = profile(&["main"], &[(None, 0, 0, 10), (Some(0), 0, 0, 20), (None, 0, 0, 3)]);
        assert!(matches!(capped(&tree, 33), Cow::Borrowed(_)));
        let costs: Vec<u64> =
            capped(&tree, 22).contexts.iter().map(|context| context.cost).collect();
        assert_eq!(costs, [6, 13, 2]);
        assert_eq!(capped(&tree, 0).total(), 0);
    }

    #[test]
    fn cost_is_split_by_immediate_caller() {
        let tree = profile(
            &["main", "read", "copy"],
            &[(None, 0, 1, 10), (Some(0), 1, 5, 20), (Some(1), 2, 5, 7), (Some(0), 2, 2, 3)],
        );
        check(
            &tree,
            &["copy 10×7: main 3×2, read 7×5", "main 10×1: - 10×1", "read 20×5: main 20×5"],
        );
    }

    #[test]
    fn split_parts_belong_to_their_function_and_recursion_is_a_call() {
        let tree = profile(
            &["main", "read", "read.part.0", "read.part.0.cold"],
            &[
                (None, 0, 1, 10),
                (Some(0), 1, 5, 20),
                (Some(1), 2, 4, 30),
                (Some(2), 3, 1, 2),
                (Some(2), 2, 1, 9),
            ],
        );
        check(&tree, &["main 10×1: - 10×1", "read 61×6: main 52×5, read 9×1"]);
    }

    #[test]
    fn losses_are_said_where_there_are_any() {
        let fine = SampledBy { frequency_hz: 997, samples: 5312, ..SampledBy::default() };
        assert_eq!(fine.describe(), "5,312 samples at 997 Hz, none lost");
        let poor = SampledBy { lost: 3, stacks_cut: 1200, ..fine };
        let both = fine.with(poor);
        assert_eq!(
            both.describe(),
            "10,624 samples at 997 Hz, 3 events lost, 1,200 stacks cut off"
        );
    }
}
