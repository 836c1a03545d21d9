//! Turns a plan back into an experiment that makes the plan again.
//!
//! **The HTML report writes the experiment back from the plan.** opcost does not store what a user typed, and defaults change
//! between versions. `Plan::to_experiment` writes every default out, and a test checks that the result resolves to the same
//! plan.

use crate::experiment::{Command, Experiment, KernelRecipe, Scalar, Seed, Variant};
use crate::plan::guest::{DEFAULT_KERNEL, NO_KERNEL};
use crate::plan::{
    EventPlan, MachineKind, OutputPlan, Plan, VariantPlan, Width, WorkPlan, shell_syntax,
};
use opcost_base::time::TimeLimit;
use opcost_kernel::{KernelSpec, Toolchain};
use opcost_record::program_region::VARIABLE;
use opcost_source::sampling::SamplingPlan;
use opcost_source::source::perf_event::{DEFAULT_EVENTS, syntax};
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
        let one = |hook: &Option<String>| hook.iter().cloned().collect::<Vec<String>>();
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
        Some(Experiment {
            name: Some(self.experiment.clone()),
            question: self.question.clone(),
            label: self.label.clone(),
            pairs: Some(self.pairs),
            until_width: self.stop.width_ratio.map(|ratio| Width { ratio }),
            until_settled: self.stop.look_pairs.is_some(),
            budget: self.stop.budget_ms.map(|limit_ms| TimeLimit { limit_ms }),
            min_runs: Some(self.pairs_of_blocks(self.stop.blocks_min)).filter(|runs| *runs > 0),
            block: self.block,
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
            ignore_failure: self.ignore_failure.clone(),
            events: self.event_texts(),
            ops,
            primary: Some(self.primary.label()),
            allow: self.allow.clone(),
            matches: self.matches.clone(),
            profile: self.sampling().is_some(),
            frequency: self.sampling().map(|sampling| sampling.frequency_hz),
            call_graph: self.sampling().map(|sampling| sampling.call_graph),
            stack_bytes: self.sampling().and_then(SamplingPlan::copied_bytes),
            setup: one(&self.hooks.setup),
            prepare: one(&prepare),
            rebuild: self.build().map(|build| build.command.clone()),
            blocks_per_build: self.build().map(|build| build.blocks),
            in_process: self.in_process.is_some(),
            blocks_per_process: self.in_process.map(|process| process.blocks),
            conclude: one(&self.hooks.conclude),
            cleanup: one(&self.hooks.cleanup),
            pack: emulation.map(|emulation| emulation.pack.clone()).unwrap_or_default(),
            tree,
            pack_used: emulation.is_some_and(|emulation| emulation.pack_used),
            fresh_boots: self.boots_kernels() && emulation.is_some_and(|plan| !plan.booted_once),
            model: emulation.is_some_and(|emulation| emulation.model),
            cycles: emulation.is_some_and(|emulation| emulation.timed_core().is_some()),
            cycles_one_in: emulation.and_then(|emulation| emulation.cycles_one_in),
            core: emulation.and_then(|emulation| Some(emulation.core.as_ref()?.given.clone())),
            cache: emulation
                .and_then(|plan| plan.core.as_ref())
                .map_or(Vec::new(), |core| core.caches.clone()),
            no_functions: emulation.is_some_and(|emulation| emulation.no_functions),
            addresses: emulation.is_some_and(|emulation| emulation.addresses),
            steps: emulation.and_then(|emulation| emulation.steps.clone()),
            count: emulation.map(|emulation| emulation.count.clone()).unwrap_or_default(),
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
        conclude: plan.conclude.clone(),
        setup: plan.setup.clone(),
        cleanup: plan.cleanup.clone(),
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
        guest.settings.write_to(&mut variant);
        variant.disk = guest.disk.as_ref().map(ToString::to_string);
        variant.root = guest.root.as_ref().map(path);
        variant.service = guest.service.as_ref().map(|service| service.line.clone());
        variant.ready = guest.service.as_ref().map(|service| service.ready.to_string());
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
