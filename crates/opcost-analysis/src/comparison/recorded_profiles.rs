//! Two profiles function by function: two variants of one recording, or one of each of two recordings.
//!
//! Within a recording the blocks are compared, as in its own report. Two recordings share no block: their runs are two groups,
//! figures are means over the runs, and the rank-sum test judges a change. If both ran the same seeds and layouts on the emulated
//! machine, runs of the same layout are compared like a block. Costs are per operation in either case, so the recordings must have
//! done the same work.
//!
//! **`change_ratio` and `change_ratio_paired`.** Scripts rely on `change_ratio` being value/baseline − 1 of the medians
//! shown. `change_ratio_paired` is estimated block by block and cancels drift. Interval and verdict belong to
//! `change_ratio_paired`, which the tables show.

use super::call_tree::{CallTree, NoProfile, VariantOf};
use super::function_changes::{FunctionComparison, FunctionTest, FunctionVerdict, judge, summed};
use super::kernel_sources::Owners;
use super::two_recordings::{SharedLayouts, different_work};
use super::{Layouts, Severity};
use opcost_attribution::function_costs::{Attribution, SampledBy, profiled_metric};
use opcost_attribution::patch_sites::FoundSite;
use opcost_base::exit::{HasStatus, Status};
use opcost_model::plan::PairsOfVariants;
use opcost_model::recording::MachineState;
use opcost_stats::multiple::Family;
use opcost_stats::{Block, Budget, Paired, rank_sum};

/// The rule about the work of two recordings, which `--allow` waives.
pub const WORK_RULE: &str = "work";

/// The difference between two profiles.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The baseline and the variant.
    pub sides: [DifferenceSide; 2],
    /// Whether blocks were compared; else the runs of two recordings.
    pub paired: bool,
    /// The functions.
    pub functions: FunctionComparison,
    /// The calls of both sides.
    pub tree: CallTree,
    /// Source files of the kernel's functions; none until a caller reads them from the kernels.
    pub owners: Owners,
    /// What keys of patchpoint would take away, of sides numbered from 0; none until a caller reads the programs.
    pub patch_sites: Vec<FoundSite>,
    /// The doubts about the comparison, and the rules that were waived.
    pub notes: Vec<String>,
}

/// One side of a difference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DifferenceSide {
    /// The recording.
    pub recording: String,
    /// The experiment.
    pub experiment: String,
    /// Name of the variant.
    pub name: String,
    /// The command or workload that the variant ran.
    pub work: String,
    /// The number of runs that count.
    pub runs: u64,
    /// Where it ran: machine, kernel, CPU.
    pub machine: String,
    /// Label and commit.
    pub provenance: Option<String>,
    /// The command that made the recording; `None` for older recordings.
    pub invocation: Option<String>,
}

/// Why two profiles cannot be compared.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum DifferenceError {
    /// A side has no profile.
    #[error(transparent)]
    NoProfile(#[from] NoProfile),
    /// Different things were counted.
    #[error("{0} counted {1}, {2} counted {3}: these cannot be subtracted")]
    Metric(String, String, String, String),
    /// The variant is the baseline itself.
    #[error("'{0}' of recording {1} would be compared with itself; name two with --variant")]
    Same(String, String),
    /// The runs were not comparable.
    #[error("not comparable: {detail} (rule {rule}; --allow {rule} compares them nevertheless)")]
    Refused {
        /// The rule, as `--allow` takes it.
        rule: String,
        /// The finding of the rule.
        detail: String,
    },
}

impl HasStatus for DifferenceError {
    fn status(&self) -> Status {
        match self {
            DifferenceError::Refused { .. } => Status::NotComparable,
            _ => Status::Usage,
        }
    }
}

/// Compares two variants; two variants of one recording in the order of its plan.
///
/// `allow`: names of the ledger's rules that are waived, and [`WORK_RULE`].
///
/// # Errors
/// [`DifferenceError`].
pub fn difference(
    variants: [VariantOf<'_>; 2],
    allow: &[String],
) -> Result<Difference, DifferenceError> {
    let paired = variants[0].recording.id == variants[1].recording.id;
    if paired && variants[0].variant == variants[1].variant {
        let VariantOf { recording, .. } = variants[0];
        return Err(DifferenceError::Same(variants[0].name().into(), recording.id.clone()));
    }
    let variants = match variants {
        [one, two] if paired && one.variant > two.variant => {
            [two, VariantOf { recording: two.recording, ..one }]
        }
        [one, two] if paired => [one, VariantOf { recording: one.recording, ..two }],
        different => different,
    };
    let tree = CallTree::of(&variants)?;
    let metrics = variants.map(|variant| profiled_metric(variant.recording).label());
    if metrics[0] != metrics[1] {
        let ids = variants.map(|variant| variant.recording.id.clone());
        let ([one, two], [first, second]) = (ids, metrics);
        return Err(DifferenceError::Metric(one, first, two, second));
    }
    let (functions, notes) = if paired {
        of_one_recording(variants, allow)?
    } else {
        of_two_recordings(variants, allow)?
    };
    let side = |side: usize| {
        let VariantOf { recording, variant } = variants[side];
        DifferenceSide {
            recording: recording.id.clone(),
            experiment: recording.plan.experiment.clone(),
            name: variants[side].name().into(),
            work: recording.plan.variants[variant].describe(),
            runs: tree.sides[side].runs,
            machine: machine(variants[side]),
            provenance: recording.plan.provenance(),
            invocation: recording.plan.invocation.clone(),
        }
    };
    let owners = Owners::default();
    let (sides, patch_sites) = ([side(0), side(1)], Vec::new());
    Ok(Difference { sides, paired, functions, notes, tree, owners, patch_sites })
}

/// "emulated machine, kernel native (6.1.192), CPU max": where a variant ran.
fn machine(of: VariantOf<'_>) -> String {
    let plan = &of.recording.plan;
    let state = of.recording.machine.first();
    let mut parts = vec![plan.machine().words().to_string()];
    match &plan.variants[of.variant].guest {
        Some(guest) => {
            let kernels = state.map_or(&[][..], |state| &state.kernels);
            let kernel = kernels.iter().find(|kernel| kernel.variant == of.variant);
            parts.extend(
                kernel.map(|kernel| format!("kernel {} ({})", kernel.name, kernel.release)),
            );
            parts.push(format!("CPU {}", guest.cpu_model));
            let version = state.and_then(|state| state.emulator_version.as_ref());
            parts.extend(version.map(|version| format!("QEMU {version}")));
        }
        None => {
            let of_state =
                |of: fn(&MachineState) -> &Option<String>| state.and_then(|s| of(s).clone());
            let kernel = of_state(|state| &state.kernel_release);
            parts.extend(kernel.map(|release| format!("Linux {release}")));
            parts.extend(of_state(|state| &state.cpu_model));
        }
    }
    parts.join(", ")
}

type Judged = (FunctionComparison, Vec<String>);

/// The functions as the recording's own report has them. Two variants that the plan does not compare are taken from a report that
/// compares every two variants.
fn of_one_recording(
    variants: [VariantOf<'_>; 2],
    allow: &[String],
) -> Result<Judged, DifferenceError> {
    let mut recording = variants[0].recording.clone();
    recording.plan.allow.extend(allow.iter().cloned());
    let sides = variants.map(|variant| variant.variant);
    if !recording.plan.comparisons().contains(&(sides[0], sides[1])) {
        recording.plan.pairs_of_variants = PairsOfVariants::All;
    }
    let (comparison, warnings) = super::compare(&recording);
    let mut notes = noted(&comparison.ledger)?;
    notes.extend(warnings.iter().map(ToString::to_string));
    let mut functions = comparison.functions.into_iter();
    let found = functions.find(|made| [made.baseline, made.variant] == sides);
    let functions = found.ok_or_else(|| NoProfile::of(&variants))?;
    Ok((functions, notes))
}

/// The doubts and waivers of a ledger; a refusal that is not waived is an error.
pub(super) fn noted(ledger: &[super::LedgerEntry]) -> Result<Vec<String>, DifferenceError> {
    let mut notes = Vec::new();
    for entry in ledger.iter().filter(|entry| entry.severity != Severity::Fine) {
        if entry.severity == Severity::Refuse && !entry.waived {
            let (rule, detail) = (entry.rule.clone(), entry.detail.clone());
            return Err(DifferenceError::Refused { rule, detail });
        }
        let waived = if entry.waived { ", waived" } else { "" };
        notes.push(format!("{} ({}{waived})", entry.detail, entry.rule));
    }
    Ok(notes)
}

fn of_two_recordings(
    variants: [VariantOf<'_>; 2],
    allow: &[String],
) -> Result<Judged, DifferenceError> {
    let mut notes = Vec::new();
    for variant in variants {
        let mut recording = variant.recording.clone();
        recording.plan.allow.extend(allow.iter().cloned());
        let (comparison, _) = super::compare(&recording);
        notes.extend(noted(&comparison.ledger)?);
    }
    for (rule, detail) in different_work(variants) {
        if !allow.iter().any(|allowed| allowed == rule) {
            return Err(DifferenceError::Refused { rule: rule.into(), detail });
        }
        notes.push(format!("{detail} ({rule}, waived)"));
    }
    let attribution = Attribution::of_each(&variants);
    let runs = |side: usize| attribution.of_side(side).iter();
    let alone = |side: usize| runs(side).map(|run| run.total as f64 / run.ops as f64).collect();
    let mut totals: [Vec<f64>; 2] = [alone(0), alone(1)];
    let mut observations: [Vec<_>; 2] =
        [0, 1].map(|side: usize| runs(side).map(|run| vec![run]).collect());
    let shared = SharedLayouts::of(variants);
    let places =
        shared.as_ref().and_then(|shared| shared.places(&profiled_metric(variants[0].recording)));
    // A run without a profile would shift the places of the others.
    let places = places.filter(|places| totals.iter().all(|side| side.len() == places.len()));
    if let Some(places) = places {
        totals = [
            places.iter().map(|(first, _)| totals[0][*first]).collect(),
            places.iter().map(|(_, second)| totals[1][*second]).collect(),
        ];
        observations = [
            places.iter().map(|(first, _)| observations[0][*first].clone()).collect(),
            places.iter().map(|(_, second)| observations[1][*second].clone()).collect(),
        ];
    }
    let paired = places.and_then(|_| in_layouts(&totals));
    let mut made = summed(&attribution.matching, [0, 1], observations);
    (made.verdict, made.layouts) = match &paired {
        Some(paired) => (verdict_in_layouts(paired), Some(Layouts::of(paired))),
        None => (verdict(&totals), None),
    };
    made.per_op = variants
        .iter()
        .all(|variant| variant.recording.records.iter().all(|record| record.ops.is_some()));
    let by = |of: VariantOf<'_>| SampledBy::of(of.recording, &[of.variant]);
    if let Some((one, two)) = by(variants[0]).zip(by(variants[1])) {
        made.mark_sampled(one.with(two));
    }
    let design = if paired.is_some() { FunctionTest::Layouts } else { FunctionTest::Runs };
    let changed = matches!(made.verdict, FunctionVerdict::Changed | FunctionVerdict::FewLayouts);
    let mut made = [(changed, made)];
    judge(&mut made, design);
    let [(_, made)] = made;
    Ok((made, notes))
}

/// The totals of two recordings, layout by layout; `None` if each side is the same in every run and so needs no test.
fn in_layouts([one, two]: &[Vec<f64>; 2]) -> Option<Paired> {
    let constant = |values: &[f64]| values.len() >= 2 && values.iter().all(|v| *v == values[0]);
    if constant(one) && constant(two) {
        return None;
    }
    let blocks = one
        .iter()
        .zip(two)
        .map(|(one, two)| Block { baseline: vec![*one].into(), variant: vec![*two].into() });
    Paired::new(&blocks.collect::<Vec<_>>()).ok()
}

/// The verdict on all instructions together, each layout compared with itself.
fn verdict_in_layouts(paired: &Paired) -> FunctionVerdict {
    let level = Budget::default().level(Family::Primary);
    if paired.differences().iter().all(|difference| *difference == 0.0) {
        FunctionVerdict::Unchanged
    } else if paired.p() <= level {
        FunctionVerdict::Changed
    } else if paired.p_floor() > level {
        FunctionVerdict::FewLayouts
    } else {
        FunctionVerdict::Unchanged
    }
}

/// The verdict on all instructions together. They are the only metric, so they count as primary.
fn verdict(totals: &[Vec<f64>; 2]) -> FunctionVerdict {
    let [one, two] = totals;
    let level = Budget::default().level(Family::Primary);
    let constant = |values: &[f64]| values.len() >= 2 && values.iter().all(|v| *v == values[0]);
    if constant(one) && constant(two) {
        // Counts that neither seed nor padding changes need no test.
        return if one[0] == two[0] {
            FunctionVerdict::Unchanged
        } else {
            FunctionVerdict::Changed
        };
    }
    if rank_sum::p(one, two) <= level {
        FunctionVerdict::Changed
    } else if rank_sum::p_floor(one.len(), two.len()) > level {
        FunctionVerdict::Inconclusive
    } else {
        FunctionVerdict::Unchanged
    }
}
