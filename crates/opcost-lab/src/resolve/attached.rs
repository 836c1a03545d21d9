//! The plan that compares a running program with itself, under several values of a key.

use super::Surroundings;
use super::measured::{Measured, fewest_blocks, measured_by_host};
use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::{Experiment, Seed};
use opcost_model::plan::{
    Aslr, AttachmentPlan, EnvironmentPolicy, Hooks, IgnoredStatuses, PairsOfVariants, Plan,
    StopPlan, Target, VariantPlan, WorkPlan, schedule,
};
use opcost_source::source::Scope;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Default number of pairs: about four seconds at the usual 20 ms for each period.
const PAIRS: u32 = 100;
/// The default primary metric: time on a CPU, which the load of other programs does not change.
const PRIMARY: &str = "task-clock";

/// The objects of the comparison: the program's file and name, and the key's values as text.
#[derive(Clone, Debug)]
pub struct AttachedWork {
    /// The program's file.
    pub program: PathBuf,
    /// The program's name.
    pub name: String,
    /// The value found at the start, then the values asked for.
    pub values: Vec<String>,
}

/// Resolves an experiment on a running program; `experiment` has only the fields of `opcost attach`.
///
/// # Errors
/// As [`resolve`](super::resolve()).
pub fn resolve_attached(
    experiment: &Experiment,
    attachment: AttachmentPlan,
    work: AttachedWork,
    surroundings: &dyn Surroundings,
) -> Result<Plan> {
    let mut asked = experiment.clone();
    asked.primary.get_or_insert_with(|| PRIMARY.into());
    if attachment.ops.is_none() && asked.primary.as_deref() == Some("wall") {
        return Err(fail(
            Status::Usage,
            "--primary wall: one period takes as long as the other, and the program counts no \
             operations to divide by (patchpoint_ops_add); choose another metric",
        ));
    }
    let Measured { events, unavailable, metrics, primary, .. } =
        measured_by_host(&asked, Scope::Attached, surroundings)?;
    let stop = StopPlan::default();
    // Each value is compared with the value found at the start.
    let comparisons = work.values.len() - 1;
    let fewest_pairs = fewest_blocks(&metrics, &primary, comparisons, &stop.error_budget());
    let pairs = asked.pairs.unwrap_or((2 * fewest_pairs).max(PAIRS));
    if !(2..=1_000_000).contains(&pairs) {
        return Err(fail(
            Status::Usage,
            format!(
                "--pairs {pairs}: give 2 to 1,000,000; {fewest_pairs} can decide every metric of this plan"
            ),
        ));
    }
    let AttachedWork { program, name, values } = work;
    let variant = |value: String| VariantPlan {
        name: format!("{}={value}", attachment.key),
        work: WorkPlan::Command {
            program: program.clone(),
            argv: Vec::new(),
            line: format!("{}={value} in {name} (process {})", attachment.key, attachment.pid),
        },
        env: Vec::new(),
        cwd: None,
        input: None,
        output: None,
        ops: None,
        prepare: None,
        conclude: None,
        setup: None,
        cleanup: None,
        guest: None,
        revision: None,
        tree: None,
        scanned: BTreeMap::new(),
    };
    let variants: Vec<VariantPlan> = values.into_iter().map(variant).collect();
    let seed = asked.seed.and_then(Seed::number).unwrap_or_else(|| surroundings.draw_seed());
    let singles = schedule::single_pairs(pairs, fewest_pairs, false, None);
    let blocks = schedule::draw(variants.len(), pairs, singles, seed, false);
    Ok(Plan {
        experiment: format!("{name} {}", attachment.key),
        question: None,
        label: experiment.label.clone(),
        invocation: None,
        target: Target::Attached(attachment),
        variants,
        pairs_of_variants: PairsOfVariants::Baseline,
        primary,
        events,
        unavailable,
        pairs,
        fewest_pairs,
        stop,
        in_process: None,
        block: None,
        repeats_last: false,
        primary_if_busy: None,
        shards: None,
        warmup: 1,
        seed,
        blocks,
        timeout_ms: None,
        cpu: None,
        aslr: Aslr::Inherit,
        environment: EnvironmentPolicy::Inherit,
        show_output: false,
        ignore_failure: IgnoredStatuses::None,
        allow: Vec::new(),
        matches: Vec::new(),
        hooks: Hooks::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::fixture::FakeSurroundings;
    use opcost_base::exit::status_of;
    use opcost_model::plan::OpsSource;

    fn plan(experiment: Experiment, ops: Option<OpsSource>) -> Result<Plan> {
        plan_of(&["off", "on"], experiment, ops)
    }

    fn plan_of(values: &[&str], experiment: Experiment, ops: Option<OpsSource>) -> Result<Plan> {
        let attachment =
            AttachmentPlan { pid: 7, key: "slow".into(), period_ns: 1, settle_ns: 1, ops };
        let work = AttachedWork {
            program: "/bin/busy".into(),
            name: "busy".into(),
            values: values.iter().map(|value| value.to_string()).collect(),
        };
        resolve_attached(&experiment, attachment, work, &FakeSurroundings::default())
    }

    #[test]
    fn periods_alternate_in_mirrored_blocks_and_nothing_makes_them_again() {
        let plan = plan(Experiment { pairs: Some(32), ..Experiment::default() }, None).unwrap();
        let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names, ["slow=off", "slow=on"]);
        assert_eq!((plan.slot_count(), plan.primary.label().as_str()), (66, "task-clock"));
        for block in &plan.blocks {
            let mut mirrored = block.order.clone();
            mirrored.reverse();
            assert_eq!((mirrored, block.order.len()), (block.order.clone(), 4));
        }
        assert_eq!(plan.scope(), Scope::Attached);
        assert!(plan.metrics().iter().all(|key| key.source != "rusage"));
        assert_eq!(plan.to_experiment(), None);
    }

    #[test]
    fn several_values_are_compared_each_with_the_one_that_was_found() {
        let values = ["4", "5", "6", "7"];
        let plan = plan_of(&values, Experiment::default(), None).unwrap();
        assert_eq!(plan.comparisons(), [(0, 1), (0, 2), (0, 3)]);
        assert!(plan.blocks.iter().all(|block| block.order.len() == 8));
        let two = plan_of(&values[..2], Experiment::default(), None).unwrap();
        // More comparisons share one error rate, so each comparison needs more blocks.
        assert!(plan.fewest_pairs > two.fewest_pairs, "{} {}", plan.fewest_pairs, two.fewest_pairs);
    }

    #[test]
    fn elapsed_time_decides_only_where_operations_are_counted() {
        let wall = Experiment { primary: Some("wall".into()), ..Experiment::default() };
        assert!(plan(wall.clone(), Some(OpsSource::Program)).is_ok());
        let error = plan(wall, None).unwrap_err();
        assert_eq!(status_of(&error), Some(Status::Usage));
        assert!(error.to_string().contains("patchpoint_ops_add"));
        let none = Experiment { pairs: Some(1), ..Experiment::default() };
        assert_eq!(status_of(&plan(none, None).unwrap_err()), Some(Status::Usage));
    }
}
