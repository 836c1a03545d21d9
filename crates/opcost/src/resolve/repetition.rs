//! Turns a plan back into an experiment that makes the plan again.

use crate::experiment::{Command, Experiment, KernelRecipe, Scalar, Seed, Variant};
use crate::plan::guest::{DEFAULT_KERNEL, NO_KERNEL};
use crate::plan::{
    CacheShape, CachesPlan, EventPlan, MachineKind, OutputPlan, Plan, VariantPlan, Width, WorkPlan,
    shell_syntax,
};
use crate::sampling::SamplingPlan;
use crate::source::perf_event::{DEFAULT_EVENTS, syntax};
use crate::time::TimeLimit;
use opcost_kernel::{KernelSpec, Toolchain};
use opcost_record::program_region::VARIABLE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

impl Plan {
    /// The experiment of this plan, with every default and the seed written out, so that another computer makes the same runs.
    /// `None` for imported figures and for periods of a running program, which cannot be made again.
    ///
    /// An event with a user-defined name (`name=` in a PMU's terms) keeps only that name.
    pub fn to_experiment(&self) -> Option<Experiment> {
        if self.imported().is_some() || self.attachment().is_some() {
            return None;
        }
        let shared = |of: fn(&VariantPlan) -> Option<&String>| {
            let first = of(&self.variants[0]);
            first.filter(|_| self.variants.iter().all(|variant| of(variant) == first)).cloned()
        };
        let prepare = shared(|variant| variant.prepare.as_ref());
        let cwd = self.variants[0].cwd.clone();
        let cwd =
            cwd.filter(|_| self.variants.iter().all(|variant| variant.cwd == self.variants[0].cwd));
        let tree = self.variants[0].tree.clone();
        let tree = tree
            .filter(|_| self.variants.iter().all(|variant| variant.tree == self.variants[0].tree));
        let ops = self.variants[0].ops.clone();
        let ops =
            ops.filter(|_| self.variants.iter().all(|variant| variant.ops == self.variants[0].ops));
        let mut kernels = BTreeMap::new();
        let variants = self.variants.iter().map(|plan| {
            let variant = variant(plan, &mut kernels);
            Variant {
                prepare: variant.prepare.filter(|_| prepare.is_none()),
                cwd: variant.cwd.filter(|_| cwd.is_none()),
                tree: variant.tree.filter(|_| tree.is_none()),
                ops: variant.ops.filter(|_| ops.is_none()),
                ..variant
            }
        });
        let variants = variants.collect();
        let revision =
            self.variants.iter().find_map(|variant| match &variant.guest.as_ref()?.kernel {
                Some(KernelSpec::Revision(revision)) => Some(revision),
                _ => None,
            });
        let emulation = self.emulation();
        let model = emulation.and_then(|emulation| emulation.model.as_ref());
        Some(Experiment {
            name: Some(self.experiment.clone()),
            question: self.question.clone(),
            label: self.label.clone(),
            pairs: Some(self.pairs),
            until_width: self.stop.width_ratio.map(|ratio| Width { ratio }),
            until_settled: self.stop.look_pairs.is_some(),
            budget: self.stop.budget_ms.map(|limit_ms| TimeLimit { limit_ms }),
            min_runs: Some(self.pairs_of_blocks(self.stop.blocks_min)).filter(|runs| *runs > 0),
            warmup: Some(self.warmup),
            // The integers of TOML end at i64's limit, and so do the seeds that a user can give.
            seed: Seed::of_number(self.seed),
            pairs_of_variants: Some(self.pairs_of_variants),
            timeout: self.timeout_ms.map(|limit_ms| TimeLimit { limit_ms }),
            machine: Some(self.machine()).filter(|machine| *machine != MachineKind::Host),
            cpu: self.cpu,
            aslr: Some(self.aslr),
            environment: Some(self.environment),
            cwd,
            show_output: self.show_output,
            regions: self.regions(),
            ignore_failure: self.ignore_failure,
            events: self.event_texts(),
            ops,
            primary: Some(self.primary.label()),
            allow: self.allow.clone(),
            matches: self.matches.clone(),
            profile: self.sampling().is_some(),
            frequency: self.sampling().map(|sampling| sampling.frequency_hz),
            call_graph: self.sampling().map(|sampling| sampling.call_graph),
            stack_bytes: self.sampling().and_then(SamplingPlan::copied_bytes),
            setup: self.hooks.setup.clone(),
            prepare,
            rebuild: self.build().map(|build| build.command.clone()),
            blocks_per_build: self.build().map(|build| build.blocks),
            in_process: self.in_process.is_some(),
            blocks_per_process: self.in_process.map(|process| process.blocks),
            conclude: self.hooks.conclude.clone(),
            cleanup: self.hooks.cleanup.clone(),
            pack: emulation.map(|emulation| emulation.pack.clone()).unwrap_or_default(),
            tree,
            pack_used: emulation.is_some_and(|emulation| emulation.pack_used),
            fresh_boots: self.boots_kernels() && emulation.is_some_and(|plan| !plan.booted_once),
            model: model.is_some(),
            cycles: emulation.is_some_and(|emulation| emulation.core.is_some()),
            cycles_one_in: emulation.and_then(|emulation| emulation.cycles_one_in),
            core: emulation.and_then(|emulation| Some(emulation.core.as_ref()?.given.clone())),
            cache: model.map(cache_texts).unwrap_or_default(),
            no_functions: emulation.is_some_and(|emulation| emulation.no_functions),
            jobs: emulation.map(|emulation| emulation.jobs as u32),
            kernel_tree: revision.map(|revision| revision.tree.clone()),
            kernel_config: revision.map(|revision| revision.config.clone()).unwrap_or_default(),
            kernels,
            variants,
            ..Experiment::default()
        })
    }

    /// The arguments of `-e`; empty if there were none.
    fn event_texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for members in
            self.events.chunk_by(|one, two| one.group.is_some() && one.group == two.group)
        {
            let names: Vec<String> = members.iter().map(event_text).collect();
            texts.push(match members[0].group {
                Some(_) => format!("{{{}}}", names.join(",")),
                None => names.join(","),
            });
        }
        texts.extend(self.unavailable.iter().map(|missing| missing.key.label()));
        let usual: BTreeSet<String> =
            DEFAULT_EVENTS.iter().map(|text| syntax::canonical(text)).collect();
        if texts.iter().cloned().collect::<BTreeSet<String>>() == usual {
            Vec::new()
        } else {
            texts
        }
    }
}

fn event_text(event: &EventPlan) -> String {
    let label = event.key.label();
    match (event.pinned, event.key.domain.suffix()) {
        (false, _) => label,
        (true, "") => format!("{label}:D"),
        (true, _) => format!("{label}D"),
    }
}

fn cache_texts(caches: &CachesPlan) -> Vec<String> {
    let usual = CachesPlan::default();
    let shapes = [
        ("l1i", caches.l1i, usual.l1i),
        ("l1d", caches.l1d, usual.l1d),
        ("llc", caches.llc, usual.llc),
    ];
    let another = shapes.iter().filter(|(_, shape, usual)| shape != usual);
    another
        .map(|(name, CacheShape { size_bytes, ways, line_bytes }, _)| {
            format!("{name}={size_bytes}:{ways}:{line_bytes}")
        })
        .collect()
}

/// A variant with its own settings; the recipe of a kernel that it builds is added to `kernels`.
fn variant(plan: &VariantPlan, kernels: &mut BTreeMap<String, KernelRecipe>) -> Variant {
    let mut variant = Variant {
        name: Some(plan.name.clone()),
        env: plan.env.iter().filter(|(key, _)| key != VARIABLE).cloned().collect(),
        cwd: plan.cwd.clone(),
        tree: plan.tree.clone(),
        input: plan.input.as_ref().map(|path| path.to_string_lossy().into_owned()),
        output: plan.output.as_ref().map(OutputPlan::text),
        ops: plan.ops.clone(),
        prepare: plan.prepare.clone(),
        scanned: plan.scanned.clone(),
        ..Variant::default()
    };
    match &plan.work {
        WorkPlan::Command { argv, line, .. } => {
            // The arguments of a shell command differ from the words of the line.
            variant.command = Some(match shell_syntax::is_split(line, argv) {
                true => Command::Line(line.clone()),
                false => Command::of_words(argv),
            });
        }
        WorkPlan::Workload { name, params } => {
            variant.workload = Some(name.clone());
            variant.params =
                params.iter().map(|(key, value)| (key.clone(), scalar(value))).collect();
        }
    }
    if let Some(guest) = &plan.guest {
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        variant.kernel = Some(match &guest.kernel {
            None => NO_KERNEL.to_string(),
            // The kernel is found anew, wherever the opcost that repeats the plan has it.
            Some(_) if guest.kernel_name == DEFAULT_KERNEL => DEFAULT_KERNEL.to_string(),
            Some(KernelSpec::Image(image)) => path(image),
            Some(KernelSpec::BuildDir(folder)) => path(folder),
            Some(KernelSpec::Recipe(recipe)) => {
                let made = KernelRecipe {
                    source: recipe.source.clone(),
                    config: recipe.config.clone(),
                    patch: recipe.patches.clone(),
                    llvm: recipe.toolchain == Toolchain::Llvm,
                    cc: match &recipe.toolchain {
                        Toolchain::Cc(program) => Some(program.clone()),
                        Toolchain::Gcc | Toolchain::Llvm => None,
                    },
                };
                kernels.insert(guest.kernel_name.clone(), made);
                guest.kernel_name.clone()
            }
            // The commit at the time of the plan, whatever the revision means now.
            Some(KernelSpec::Revision(revision)) => revision.commit.clone(),
            Some(KernelSpec::Debian(_) | KernelSpec::Built(_)) => guest.kernel_name.clone(),
        });
        variant.boot = Some(guest.boot.clone()).filter(|boot| !boot.is_empty());
        variant.cpu_model = Some(guest.cpu_model.clone());
        variant.memory_mib = Some(guest.memory_mib);
        variant.cpus = Some(guest.cpus).filter(|cpus| *cpus > 1);
        variant.disk = guest.disk.as_ref().map(ToString::to_string);
    }
    variant
}

/// A parameter as a user would write it.
fn scalar(text: &str) -> Scalar {
    match text.parse::<i64>() {
        Ok(number) if number.to_string() == text => Scalar::Integer(number),
        _ => Scalar::Text(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ImportPlan, Target};
    use crate::resolve::fixture::{FakeSurroundings, commands, experiment};
    use crate::resolve::resolve;

    /// Checks that a plan's experiment, written to a file and read back, gives the same plan.
    fn check(experiment: &Experiment, surroundings: &FakeSurroundings) -> String {
        let plan = resolve(experiment, surroundings).unwrap();
        let text = plan.to_experiment().unwrap().to_toml().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        let read = Experiment::read(file.path(), &[], &Experiment::default()).unwrap();
        assert_eq!(resolve(&read, surroundings).unwrap(), plan, "{text}");
        text
    }

    fn here() -> FakeSurroundings {
        FakeSurroundings { path: Some("/bin:/usr/bin".into()), ..FakeSurroundings::default() }
    }

    #[test]
    fn workloads_come_again_with_their_seed_and_every_default() {
        let text = check(&Experiment { seed: None, ..experiment(3, 6) }, &here());
        assert!(text.contains("seed = 4711") && text.contains("warmup = 1"), "{text}");
        assert!(!text.contains("events"), "the usual ones need no mention: {text}");
    }

    #[test]
    fn commands_come_again_with_hooks_environment_and_shell() {
        let mut written = commands(&["true 'a b'", "true | cat"]);
        written.shell = Some("/bin/sh".into());
        written.env = vec!["A=1".into(), "A=2".into(), "B=<&>\"'".into()];
        written.variants[1].env = [("C".to_string(), "3".to_string())].into();
        written.variants[1].prepare = Some("sync".into());
        written.prepare = Some("true".into());
        written.setup = Some("make".into());
        written.cleanup = Some("make clean".into());
        written.rebuild = Some("make -B".into());
        written.blocks_per_build = Some(2);
        written.timeout = Some(TimeLimit { limit_ms: 1500 });
        written.until_width = Some(Width { ratio: 0.005 });
        written.cpu = Some(2);
        written.variants[0].name = Some("one".into());
        written.variants[1].name = Some("two".into());
        let plan = resolve(&written, &here()).unwrap();
        let again = resolve(&plan.to_experiment().unwrap(), &here()).unwrap();
        // A variable that was set twice is set once, to its final value. The line of a command for a shell is written with the
        // shell.
        for (one, two) in plan.variants.iter().zip(&again.variants) {
            let last: BTreeMap<_, _> = one.env.iter().cloned().collect();
            assert_eq!(two.env.iter().cloned().collect::<BTreeMap<_, _>>(), last);
            let (WorkPlan::Command { argv: one, .. }, WorkPlan::Command { argv: two, .. }) =
                (&one.work, &two.work)
            else {
                panic!("commands became something else");
            };
            assert_eq!(one, two);
        }
        let rest = |plan: Plan| Plan { variants: vec![], ..plan };
        assert_eq!(rest(again), rest(plan));
    }

    #[test]
    fn the_usual_length_comes_again() {
        let usual = |variants| Experiment { pairs: None, ..experiment(variants, 2) };
        // The last case ends in the middle of a mirrored block.
        let many = Experiment { min_runs: Some(40), ..usual(2) };
        for (written, least) in [(usual(1), 10), (usual(2), 22), (many, 41)] {
            let text = check(&written, &here());
            assert!(text.contains(&format!("min-runs = {least}\n")), "{text}");
        }
    }

    #[test]
    fn events_come_again_with_groups_and_modifiers_refused_ones_included() {
        let mut written = experiment(2, 4);
        written.events =
            vec!["task-clock,cycles:uD,{branches,branch-misses}:k".into(), "r01c2:D,cs".into()];
        let text = check(&written, &FakeSurroundings { refused: &["r01c2"], ..here() });
        assert!(text.contains("{branches:k,branch-misses:k}"), "{text}");
        assert!(text.contains("cycles:uD"), "{text}");
    }

    #[test]
    fn emulated_machines_come_again_with_their_kernels() {
        let mut written = experiment(2, 4);
        written.machine = Some(MachineKind::Emulated);
        written.kernel = vec!["/boot/a".into(), "made".into()];
        written.kernels.insert(
            "made".into(),
            KernelRecipe { config: vec!["/k/base.config".into()], ..KernelRecipe::default() },
        );
        written.boot = vec!["quiet".into()];
        written.model = true;
        written.cache = vec!["l1d=48K:12:64".into()];
        written.variants[0].memory_mib = Some(1024);
        written.variants[0].cpus = Some(2);
        written.variants[1].disk = Some("ext4,data=journal:64M".into());
        // Revisions of a gate: each has its own tree at the same path in the guests.
        written.tree = Some("/usr".into());
        let text = check(&written, &here());
        assert!(text.contains("l1d=49152:12:64"), "{text}");
        assert_eq!(text.matches("tree = \"/usr\"").count(), 1, "{text}");
        written.variants[1].tree = Some("/usr/bin".into());
        let text = check(&written, &here());
        assert_eq!(text.matches("tree = ").count(), 2, "{text}");
    }

    #[test]
    fn a_modelled_core_comes_again_as_it_was_named() {
        let mut written = experiment(2, 4);
        written.machine = Some(MachineKind::Emulated);
        (written.cycles, written.core) = (true, Some("zen5".into()));
        written.cycles_one_in = Some(16);
        let text = check(&written, &here());
        assert!(text.contains("cycles = true\ncycles-one-in = 16\ncore = \"zen5\"\n"), "{text}");
    }

    #[test]
    fn totals_come_again_without_functions() {
        let mut written = experiment(2, 4);
        (written.machine, written.no_functions) = (Some(MachineKind::Emulated), true);
        let text = check(&written, &here());
        assert!(text.contains("no-functions = true\n"), "{text}");
    }

    #[test]
    fn imported_figures_are_made_by_no_experiment() {
        let plan = resolve(&experiment(2, 4), &here()).unwrap();
        assert_eq!(
            Plan { target: Target::Imported(ImportPlan::default()), ..plan }.to_experiment(),
            None
        );
    }
}
