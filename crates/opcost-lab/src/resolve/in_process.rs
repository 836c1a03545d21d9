//! Variants inside one process: code paths that are exchanged in the prepared, running workload.

use anyhow::Result;
use opcost_base::exit::{Status, fail};
use opcost_model::experiment::Experiment;
use opcost_model::plan::{InProcessPlan, MachineKind, VariantPlan, WorkPlan};
use opcost_work::PATH;

/// The largest number of blocks in one process.
const BLOCKS_MAX: u32 = 1000;

/// The blocks that share a process, if the experiment asks for it.
///
/// # Errors
/// Usage errors that name the conflicting option, or the other difference between the variants.
pub(super) fn resolve_in_process(
    experiment: &Experiment,
    variants: &[VariantPlan],
) -> Result<Option<InProcessPlan>> {
    if !experiment.in_process {
        return match experiment.blocks_per_process {
            Some(_) => Err(fail(
                Status::Usage,
                "--blocks-per-process says how many blocks share a process; add --in-process",
            )),
            None => Ok(None),
        };
    }
    let refuse = |why: String| Err(fail(Status::Usage, format!("--in-process: {why}")));
    if experiment.rebuild.is_some() {
        return refuse("one program has every code path; leave --rebuild out".into());
    }
    if experiment.profile && experiment.machine != Some(MachineKind::Emulated) {
        return refuse(
            "the samples of one process are not told apart by its runs; leave --profile out".into(),
        );
    }
    let has_hooks = |variant: &VariantPlan| variant.prepare.is_some() || variant.conclude.is_some();
    if !experiment.conclude.is_empty() || variants.iter().any(has_hooks) {
        return refuse(
            "nothing can be run between the runs of one process; use --setup and --cleanup in \
             place of --prepare and --conclude"
                .into(),
        );
    }
    let first = &variants[0];
    if first.work.path().is_none() {
        let offering: Vec<&str> = opcost_work::WORKLOADS
            .iter()
            .filter(|spec| spec.params.iter().any(|param| param.name == PATH))
            .map(|spec| spec.name)
            .collect();
        return refuse(format!(
            "{} has no code paths that opcost could exchange; workloads that have: {}",
            match &first.work {
                WorkPlan::Command { .. } => "a command",
                WorkPlan::Workload { name, .. } => name,
            },
            offering.join(", ")
        ));
    }
    if let WorkPlan::Workload { params, .. } = &first.work
        && let Some((key, value)) = params.iter().find(|(key, value)| {
            [("procs", "1"), ("threads", "0"), ("scale", "off")]
                .iter()
                .any(|(of_one, alone)| key == of_one && value != alone)
        })
    {
        return refuse(format!("one task does the work, but {key}={value}; leave {key} out"));
    }
    for other in &variants[1..] {
        if let Some(what) = other_difference(first, other) {
            return refuse(format!(
                "variants in one process can differ in {PATH} only, but '{}' and '{}' differ in \
                 {what}",
                first.name, other.name
            ));
        }
    }
    let blocks = experiment.blocks_per_process.unwrap_or(1);
    if !(1..=BLOCKS_MAX).contains(&blocks) {
        let why = format!("--blocks-per-process {blocks}: give 1 to {BLOCKS_MAX}");
        return Err(fail(Status::Usage, why));
    }
    Ok(Some(InProcessPlan { blocks }))
}

/// The first difference between two variants of a workload other than the code path.
fn other_difference(one: &VariantPlan, other: &VariantPlan) -> Option<String> {
    if let (WorkPlan::Workload { params: first, .. }, WorkPlan::Workload { params: second, .. }) =
        (&one.work, &other.work)
    {
        let differing =
            first.iter().zip(second).find(|((key, value), (_, also))| key != PATH && value != also);
        if let Some(((key, value), (_, also))) = differing {
            return Some(format!("{key} ({value}, {also})"));
        }
    }
    if one.env != other.env {
        return Some("their environment".into());
    }
    if one.guest != other.guest {
        return Some("their emulated machine".into());
    }
    (one.cwd != other.cwd).then(|| "their working directory".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::fixture::{FakeSurroundings, commands, experiment, in_process, mirrored};
    use crate::resolve::resolve;
    use opcost_model::experiment::Scalar;
    use opcost_model::plan::{Group, Plan};

    fn plan(asked: &Experiment) -> Result<Plan> {
        let here = FakeSurroundings { path: Some("/bin:/usr/bin".into()), ..Default::default() };
        resolve(asked, &here)
    }

    #[track_caller]
    fn check_refused(asked: Experiment, part: &str) {
        let error = format!("{:#}", plan(&asked).unwrap_err());
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn a_process_is_a_unit_of_so_many_blocks() {
        let one = plan(&in_process(8)).unwrap();
        assert_eq!((one.in_process, one.blocks_per_unit()), (Some(InProcessPlan { blocks: 1 }), 1));
        let asked = Experiment { blocks_per_process: Some(3), ..in_process(8) };
        let mut three = plan(&asked).unwrap();
        assert_eq!(three.fewest_pairs, 3 * one.fewest_pairs);
        // The default is enough pairs for mirrored blocks; with fewer pairs, each pair is a process.
        let usual = Experiment { pairs: None, ..asked };
        let usual = plan(&usual).unwrap();
        assert_eq!(usual.pairs_of_blocks(usual.stop.blocks_min), 2 * usual.fewest_pairs);
        assert!(usual.blocks.iter().all(|block| block.order.len() == 4));
        assert!(three.blocks.iter().all(|block| block.order.len() == 2));
        three.primary_if_busy = None; // The experiment names the metric that decided.
        assert_eq!(plan(&three.to_experiment().unwrap()).unwrap(), three, "defaults written out");
        three.blocks = mirrored(8);
        let slots: Vec<opcost_model::plan::Slot> = three.slots().collect();
        let groups = three.groups(&slots, 1);
        // The groups: the warm-up runs, three blocks of four runs, and the last block.
        assert_eq!(
            groups.iter().map(|group| group.slots().count()).collect::<Vec<_>>(),
            [2, 12, 4]
        );
        let grouped = groups.iter().flat_map(Group::slots).copied();
        assert_eq!(grouped.collect::<Vec<_>>(), slots);
        let apart = plan(&Experiment { in_process: false, ..in_process(8) }).unwrap();
        assert_eq!(apart.groups(&slots, 4).len(), 5, "as many as a machine makes at a time");
    }

    #[test]
    fn variants_differ_in_the_path_only() {
        let mut asked = in_process(8);
        asked.variants[1].params.insert("ops".into(), Scalar::Integer(5));
        check_refused(asked, "'v0' and 'v1' differ in ops (1000000, 5)");
        let mut asked = in_process(8);
        for variant in &mut asked.variants {
            variant.params.insert("procs".into(), Scalar::Integer(2));
        }
        check_refused(asked, "procs=2; leave procs out");
        let mut asked = in_process(8);
        asked.variants[1].env.insert("A".into(), "b".into());
        check_refused(asked, "differ in their environment");
        let mut asked = in_process(8);
        asked.variants[1].cwd = Some("/tmp".into());
        check_refused(asked, "differ in their working directory");
        let mut asked = emulated(8);
        asked.variants[1].kernel = Some("b".into());
        check_refused(asked, "'v0' and 'v1' differ in their emulated machine");
    }

    fn emulated(pairs: u32) -> Experiment {
        Experiment {
            machine: Some(MachineKind::Emulated),
            kernel: vec!["/boot/a".into()],
            ..in_process(pairs)
        }
    }

    #[test]
    fn an_emulated_process_is_a_boot_whose_warm_up_repeats_the_first() {
        let asked = Experiment {
            blocks_per_process: Some(2),
            warmup: Some(2),
            profile: true,
            ..emulated(8)
        };
        let mut made = plan(&asked).unwrap();
        assert_eq!(made.fewest_pairs, 2 * plan(&emulated(2)).unwrap().fewest_pairs);
        assert_eq!(plan(&made.to_experiment().unwrap()).unwrap(), made);
        made.blocks = opcost_model::plan::schedule::draw_emulated(2, 8, 0, 1, made.in_process);
        let slots: Vec<opcost_model::plan::Slot> = made.slots().collect();
        assert_eq!((slots.len(), made.warm_up_count()), (made.slot_count(), 16));
        let groups = made.groups(&slots, 4);
        let processes = groups[0].processes();
        let lengths: Vec<usize> = processes.iter().map(|runs| runs.len()).collect();
        // Two repetitions of the first process, and two processes of two blocks of four runs.
        assert_eq!(lengths, [8, 8, 8, 8], "{processes:?}");
        let inputs = |runs: &[opcost_model::plan::Slot]| -> Vec<(u16, u16, u32)> {
            runs.iter().map(|run| (run.variant, run.padding_bytes, run.guest_seed)).collect()
        };
        assert_eq!(inputs(processes[0]), inputs(processes[2]));
        assert_eq!(inputs(processes[1]), inputs(processes[2]));
        for runs in processes {
            assert!(runs.iter().all(|run| run.guest_seed == runs[0].guest_seed));
            for block in runs.chunks(4) {
                let order: Vec<u16> = block.iter().map(|run| run.variant).collect();
                assert!(
                    [[0, 1, 1, 0], [1, 0, 0, 1]]
                        .contains(&[order[0], order[1], order[2], order[3]])
                );
            }
        }
        assert_ne!(processes[2][0].guest_seed, processes[3][0].guest_seed);
        // A group has as many boots as can run at the same time.
        let groups = made.groups(&slots, 3);
        assert_eq!(groups.iter().map(|group| group.slots().count()).collect::<Vec<_>>(), [24, 8]);
        let grouped = groups.iter().flat_map(Group::slots).copied();
        assert_eq!(grouped.collect::<Vec<_>>(), slots);
    }

    #[test]
    fn what_cannot_be_exchanged_is_refused_with_what_can() {
        let asked = Experiment { in_process: true, ..experiment(2, 8) };
        check_refused(
            asked,
            "syscall has no code paths that opcost could exchange; workloads that have: copy",
        );
        check_refused(Experiment { in_process: true, ..commands(&["true", "false"]) }, "a command");
    }

    #[test]
    fn what_cannot_be_had_together_is_refused() {
        let with = |change: fn(&mut Experiment)| {
            let mut asked = in_process(8);
            change(&mut asked);
            asked
        };
        check_refused(with(|asked| asked.rebuild = Some("make".into())), "leave --rebuild out");
        check_refused(with(|asked| asked.profile = true), "leave --profile out");
        check_refused(with(|asked| asked.prepare = vec!["sync".into()]), "use --setup");
        check_refused(with(|asked| asked.conclude = vec!["sync".into()]), "use --setup");
        check_refused(with(|asked| asked.blocks_per_process = Some(0)), "give 1 to 1000");
        let apart = Experiment { in_process: false, blocks_per_process: Some(2), ..in_process(8) };
        check_refused(apart, "add --in-process");
    }
}
