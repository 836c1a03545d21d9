//! One operation step by step: of the last run of each variant, where its steps were recorded.

use opcost_attribution::function_costs::{ProfiledRun, profiled_runs};
use opcost_model::recording::Recording;
use opcost_steps::{Side, SteppedDifference, alone, compare};

/// The operations of compared variants side by side, and the operation of a single variant.
pub(super) fn stepped(recording: &Recording) -> Vec<SteppedDifference> {
    let runs = profiled_runs(recording);
    if runs.iter().all(|run| run.profile.steps.is_none()) {
        return Vec::new();
    }
    let side = |run: &'_ ProfiledRun<'_>| -> Option<(usize, String)> {
        let name = &recording.plan.variants.get(run.variant)?.name;
        run.profile.steps.as_ref().map(|_| (run.variant, name.clone()))
    };
    let last = |variant: usize| runs.iter().rfind(|run| run.variant == variant);
    let mut all = Vec::new();
    for (baseline, variant) in recording.comparisons() {
        // Both of one unit, so that layouts are alike.
        let both = || {
            let mut pairs = runs.iter().filter(|run| run.variant == variant).rev();
            pairs.find_map(|run| {
                let other =
                    |one: &&ProfiledRun<'_>| one.variant == baseline && one.unit == run.unit;
                Some([runs.iter().rfind(other)?, run])
            })
        };
        let Some([one, other]) = both().or(last(baseline).zip(last(variant)).map(Into::into))
        else {
            continue;
        };
        let (Some((_, first)), Some((_, second))) = (side(one), side(other)) else { continue };
        let sides = (Side::of(&first, &one.profile), Side::of(&second, &other.profile));
        if let (Some(one), Some(other)) = sides {
            all.push(SteppedDifference { sides: [baseline, variant], ..compare([one, other]) });
        }
    }
    if recording.comparisons().is_empty()
        && let Some(run) = runs.iter().rfind(|run| run.profile.steps.is_some())
        && let Some((variant, name)) = side(run)
        && let Some(side) = Side::of(&name, &run.profile)
    {
        all.push(SteppedDifference { sides: [variant; 2], ..alone(side) });
    }
    all
}
