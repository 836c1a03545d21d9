//! The loop over the schedule: one run a slot, stored before the next begins. If one process makes
//! several runs, they are stored together before the next process begins.

use crate::hook::{Hook, HookEnd, HookRunner, HookVariant};
use crate::inputs::{ChangedInput, Inputs};
use crate::machine::{Machine, RunEnd, Together};
use crate::progress::{Progress, estimate};
use crate::stopping::Stopping;
use anyhow::{Context, Result, bail, ensure};
use opcost_base::failure;
use opcost_base::message::announce;
use opcost_model::plan::{BuildPlan, Group, Plan, Slot, StopReason, WorkPlan};
use opcost_model::recording::State;
use opcost_record::{Failure, Outcome, Record};
use opcost_store::store::RecordingWriter;
use opcost_sys::clock::monotonic_ns;
use opcost_sys::presence::Presence;
use std::collections::{BTreeSet, HashSet};

/// How a session of running ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Every slot of the schedule has its run.
    Complete,
    /// A signal stopped the session; the run in flight was dropped.
    Interrupted,
    /// The plan said to stop: the interval is narrow enough, the time is spent, or exact counts settle it.
    Stopped(StopReason),
    /// A file that the runs read has other contents than before the first run; the runs until then are stored.
    InputChanged(Box<ChangedInput>),
    /// A run failed; this run and all before it are stored.
    Failed {
        /// Position in the schedule.
        slot: u32,
        /// Index of the variant.
        variant: u16,
        /// How the run failed.
        failure: Failure,
    },
}

impl Ending {
    /// The recording's state after this ending.
    pub fn state(&self) -> State {
        match self {
            Ending::Complete => State::Finished,
            Ending::Stopped(StopReason::Width) => State::StoppedWidth,
            Ending::Stopped(StopReason::Budget) => State::StoppedBudget,
            Ending::Stopped(StopReason::Settled) => State::StoppedSettled,
            Ending::Interrupted => State::Interrupted,
            Ending::Failed { .. } | Ending::InputChanged(_) => State::Failed,
        }
    }
}

/// Makes the runs of a plan that are not among the `earlier` ones, until the plan says to stop.
///
/// `hooks` executes the plan's hooks. Cleanup runs however the session ended, because a setup that
/// failed may have done half its work.
///
/// # Errors
/// The store cannot be written, a hook failed, or the machine cannot launch anything; failures of
/// the work are records and an [`Ending`].
pub fn run(
    plan: &Plan,
    earlier: &[Record],
    machine: &mut dyn Machine,
    hooks: &mut dyn HookRunner,
    writer: &mut RecordingWriter,
    progress: &mut dyn Progress,
) -> Result<Ending> {
    // Without it the recording is as good; others cannot tell why theirs is disturbed.
    let _presence = Presence::open().and_then(|presence| presence.announce().map(|()| presence));
    let mut session = Session { plan, machine, hooks };
    let ending = match session.set_up() {
        Ok(HookEnd::Done) => {
            progress.begin(plan, earlier.len());
            let ending = session.run_slots(earlier, writer, progress);
            progress.end();
            ending
        }
        Ok(HookEnd::Interrupted) => Ok(Ending::Interrupted),
        Err(error) => Err(error),
    };
    match (ending, session.clean_up()) {
        (Ok(Ending::Complete | Ending::Stopped(_)), Err(error)) => Err(error),
        // A cleanup that fails must not hide the earlier outcome.
        (ending, Err(error)) => {
            announce!("{}", opcost_base::exit::in_words(&error));
            ending
        }
        (ending, Ok(())) => ending,
    }
}

/// The machine that makes the runs, and the hooks around them.
struct Session<'a> {
    plan: &'a Plan,
    machine: &'a mut dyn Machine,
    hooks: &'a mut dyn HookRunner,
}

impl Session<'_> {
    fn set_up(&mut self) -> Result<HookEnd> {
        let own = (0..).zip(&self.plan.variants);
        let own = own.map(|(index, variant)| (variant.setup.as_ref(), Some((index, None))));
        for (command, about) in [(self.plan.hooks.setup.as_ref(), None)].into_iter().chain(own) {
            if let Some(command) = command
                && self.hook("setup", command, about)? == HookEnd::Interrupted
            {
                return Ok(HookEnd::Interrupted);
            }
        }
        Ok(HookEnd::Done)
    }

    /// Executes every cleanup, also after one of them failed.
    ///
    /// # Errors
    /// The first failure.
    fn clean_up(&mut self) -> Result<()> {
        let own = (0..).zip(&self.plan.variants);
        let own = own.map(|(index, variant)| (variant.cleanup.as_ref(), Some((index, None))));
        let mut cleaned = Ok(());
        for (command, about) in own.chain([(self.plan.hooks.cleanup.as_ref(), None)]) {
            if let Some(command) = command {
                cleaned = cleaned.and(self.hook("cleanup", command, about).map(|_| ()));
            }
        }
        cleaned
    }

    fn run_slots(
        &mut self,
        earlier: &[Record],
        writer: &mut RecordingWriter,
        progress: &mut dyn Progress,
    ) -> Result<Ending> {
        let plan = self.plan;
        let mut stopping = Stopping::new(plan);
        for record in earlier {
            stopping.add(record, writer.dictionary());
        }
        // A resumed recording may have enough runs already.
        if let Some(reason) = stopping.reason(0) {
            return Ok(Ending::Stopped(reason));
        }
        let mut unit_built = earlier.iter().filter_map(|record| record.block).max();
        unit_built = unit_built.map(|block| plan.unit_of(block));
        let done: HashSet<u32> = earlier.iter().map(|record| record.slot).collect();
        let left: Vec<Slot> = plan.slots().filter(|slot| !done.contains(&slot.slot)).collect();
        let (mut made, mut is_announced) = (0, false);
        let mut inputs = Inputs::of(plan);
        let failed = earlier.iter().filter(|record| record.outcome != Outcome::Finished);
        let mut failed: BTreeSet<usize> =
            failed.map(|record| usize::from(record.variant)).collect();
        // If nothing is left to compare, a failed run is as good as missing.
        if plan.comparisons_without(&failed).is_empty() {
            failed.clear();
        }
        failed.iter().for_each(|variant| stopping.give_up(*variant, &left));
        let mut ran: HashSet<u16> = failed.iter().map(|variant| *variant as u16).collect();
        let groups = plan.groups(&left, self.machine.width());
        // Files of many variants take a while to be read, which is no part of a run.
        let begun_ns = monotonic_ns();
        for group in groups {
            let behind = made + group.slots().count();
            let Some(group) = group.without(&failed) else {
                made = behind;
                continue;
            };
            // Warm-up runs show how long the other runs take; without them, the first group does.
            if !is_announced && made > 0 && group.is_measured() {
                is_announced = true;
                let spent_ms = monotonic_ns().saturating_sub(begun_ns) / 1_000_000;
                if let Some(length) = estimate(plan, spent_ms, made, left.len() - made) {
                    progress.estimate(&length);
                }
            }
            made = behind;
            let runs: Vec<(&Slot, &str)> = group
                .slots()
                .map(|slot| (slot, plan.variants[usize::from(slot.variant)].name.as_str()))
                .collect();
            let unit = group.first().block.map(|block| plan.unit_of(block));
            if let Some(build) = plan.build()
                && unit > unit_built
            {
                if self.rebuild(build, unit.unwrap_or(0))? == HookEnd::Interrupted {
                    return Ok(Ending::Interrupted);
                }
                unit_built = unit;
            }
            progress.next(&runs);
            let together = self.run_group(&group, progress).with_context(|| {
                let names: Vec<String> = runs
                    .iter()
                    .map(|(slot, name)| format!("variant '{name}', run {}", slot.slot))
                    .collect();
                format!("{} of recording {}", names.join(" or "), writer.id())
            })?;
            let (ends, interrupted) = match together {
                Together::Made { processes, .. } => (processes, false),
                Together::Interrupted { processes } => (processes, true),
            };
            // What every variant's first run wrote is an output.
            let is_first = ran.len() < plan.variants.len();
            ran.extend(group.slots().map(|slot| slot.variant));
            if is_first && ran.len() == plan.variants.len() {
                inputs.forget_outputs();
            }
            for (process, ends) in group.processes().iter().zip(ends) {
                let runs: Vec<(&Slot, RunEnd)> = process.iter().zip(ends).collect();
                let Some(ending) = keep(runs, writer, &mut stopping)? else { continue };
                let Ending::Failed { slot, variant, failure } = &ending else {
                    return Ok(ending);
                };
                let failing = usize::from(*variant);
                failed.insert(failing);
                // One process makes the runs of all variants.
                if plan.in_process.is_some() || plan.comparisons_without(&failed).is_empty() {
                    return Ok(ending);
                }
                stopping.give_up(failing, &left[made..]);
                progress.print_line(&format!(
                    "variant '{}', run {slot}: {}; the others go on",
                    plan.variants[failing].name,
                    failure::in_words(failure)
                ));
            }
            if interrupted {
                return Ok(Ending::Interrupted);
            }
            if ran.len() == plan.variants.len()
                && let Some(changed) = inputs.changed()
            {
                return Ok(Ending::InputChanged(Box::new(changed)));
            }
            if let Some(answer) = stopping.first_answer() {
                progress.print_line(&answer);
            }
            if let Some(reason) = stopping.reason(monotonic_ns().saturating_sub(begun_ns)) {
                return Ok(Ending::Stopped(reason));
            }
        }
        Ok(Ending::Complete)
    }

    /// Makes the runs of a group between their hooks.
    fn run_group(&mut self, group: &Group<'_>, progress: &mut dyn Progress) -> Result<Together> {
        let together = self.run_unsuspended(group, progress)?;
        // Runs whose profiles lack names are made again. Once is enough: the same inputs map the
        // same files. A warm-up run is not made again, because nobody looks at its profile.
        let together = match together {
            Together::Made { learned: true, .. } if group.is_measured() => {
                self.run_unsuspended(group, progress)?
            }
            together => together,
        };
        self.with_stderr(group, together)
    }

    /// Makes a command's run again if it failed and nothing is known of its standard error. Its figures stay those of the first
    /// time.
    fn with_stderr(&mut self, group: &Group<'_>, mut together: Together) -> Result<Together> {
        let plan = self.plan;
        let variant = &plan.variants[usize::from(group.first().variant)];
        let is_hidden = !plan.shows_output(variant);
        let is_command = matches!(variant.work, WorkPlan::Command { .. });
        let Some(failure) = failure_of(&mut together).filter(|failure| {
            // Another wait for the limit would say no more.
            let is_late = matches!(failure, Failure::Timeout { .. });
            failure.lacks_stderr() && !is_late && is_hidden && is_command
        }) else {
            return Ok(together);
        };
        self.machine.keep_stderr(true);
        let again = self.run_between_hooks(group);
        self.machine.keep_stderr(false);
        let mut again = again?;
        if let Some(again) = failure_of(&mut again) {
            let told = again.stderr_mut().and_then(Option::take);
            // Another failure has other words.
            if *again == *failure
                && let Some(stderr) = failure.stderr_mut()
            {
                *stderr = told;
            }
        }
        Ok(together)
    }

    /// Makes the runs of a group, and again as long as opcost is stopped meanwhile.
    fn run_unsuspended(
        &mut self,
        group: &Group<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Together> {
        loop {
            let together = self.run_between_hooks(group)?;
            if !matches!(together, Together::Made { suspended: true, .. }) {
                return Ok(together);
            }
            let run = group.first().slot;
            progress.print_line(&format!("opcost was stopped during run {run} and makes it again"));
        }
    }

    /// Makes the runs of a group once; with hooks, a group is a single run (see [`Plan::groups`]).
    fn run_between_hooks(&mut self, group: &Group<'_>) -> Result<Together> {
        let interrupted = || Ok(Together::Interrupted { processes: Vec::new() });
        if self.hooks.is_interrupted() {
            return interrupted();
        }
        let variant = usize::from(group.first().variant);
        let about = Some((variant, Some(group.first())));
        if let Some(prepare) = &self.plan.variants[variant].prepare
            && self.hook("prepare", prepare, about)? == HookEnd::Interrupted
        {
            return interrupted();
        }
        let together = self.machine.run_together(self.plan, group)?;
        check_numbers(group, &together)?;
        if let (Together::Made { .. }, Some(conclude)) = (&together, self.plan.conclude(variant))
            && self.hook("conclude", conclude, about)? == HookEnd::Interrupted
        {
            return interrupted();
        }
        Ok(together)
    }

    /// Builds every variant anew. The command finds the build's number, from 0, in `OPCOST_BUILD`.
    fn rebuild(&mut self, build: &BuildPlan, unit: u32) -> Result<HookEnd> {
        let command = format!("OPCOST_BUILD={unit}; export OPCOST_BUILD; {}", build.command);
        for variant in 0..self.plan.variants.len() {
            if self.hook("rebuild", &command, Some((variant, None)))? == HookEnd::Interrupted {
                return Ok(HookEnd::Interrupted);
            }
        }
        Ok(HookEnd::Done)
    }

    /// Executes a hook, of a variant and perhaps of one of its runs.
    fn hook(
        &mut self,
        name: &'static str,
        command: &str,
        about: Option<(usize, Option<&Slot>)>,
    ) -> Result<HookEnd> {
        self.machine.adopt_orphans(false)?;
        let iteration = about.and_then(|(_, slot)| slot).map(Slot::iteration_text);
        let variant = match about {
            None => None,
            Some((index, _)) => match self.machine.environment(index) {
                Some(environment) => Some(HookVariant { index, environment }),
                None => bail!("opcost does not start this work, so --{name} cannot be run for it"),
            },
        };
        let end = self.hooks.run(self.plan, &Hook { name, command, variant, iteration });
        self.machine.adopt_orphans(true)?;
        end
    }
}

/// The failure of the only run of a group.
fn failure_of(together: &mut Together) -> Option<&mut Failure> {
    let Together::Made { processes, .. } = together else { return None };
    let [ends] = &mut processes[..] else { return None };
    match &mut ends[..] {
        [RunEnd { outcome: Outcome::Failed(failure), .. }] => Some(failure),
        _ => None,
    }
}

/// Checks that a machine returned an end for each run, so that no record gets another run's figures.
fn check_numbers(group: &Group<'_>, together: &Together) -> Result<()> {
    let asked = group.processes();
    let (made, complete) = match together {
        Together::Made { processes, .. } => (processes, processes.len() == asked.len()),
        Together::Interrupted { processes } => (processes, processes.len() <= asked.len()),
    };
    let fits = asked.iter().zip(made).all(|(runs, ends)| runs.len() == ends.len());
    let numbers = |lengths: Vec<usize>| {
        lengths.iter().map(ToString::to_string).collect::<Vec<_>>().join(" + ")
    };
    ensure!(
        complete && fits,
        "the machine was asked for {} runs and gave {}; this is an error of opcost, please report it",
        numbers(asked.iter().map(|runs| runs.len()).collect()),
        numbers(made.iter().map(Vec::len).collect()),
    );
    Ok(())
}

/// Stores runs, all or none; returns the ending if a run failed.
fn keep(
    runs: Vec<(&Slot, RunEnd)>,
    writer: &mut RecordingWriter,
    stopping: &mut Stopping<'_>,
) -> Result<Option<Ending>> {
    let mut records = Vec::with_capacity(runs.len());
    for (slot, end) in runs {
        let RunEnd { started_unix_ns, outcome, exit_code, report, profile } = end;
        let record = Record {
            slot: slot.slot,
            variant: slot.variant,
            block: slot.compared_in(),
            started_unix_ns,
            outcome,
            exit_code,
            ops: report.ops,
            samples: writer.samples(&report),
            invariants: report.invariants,
        };
        records.push((record, profile));
    }
    writer.append(&records)?;
    for (record, _) in &records {
        stopping.add(record, writer.dictionary());
    }
    Ok(records.into_iter().find_map(|(record, _)| match record.outcome {
        Outcome::Failed(failure) => {
            Some(Ending::Failed { slot: record.slot, variant: record.variant, failure })
        }
        Outcome::Finished => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;
    use crate::resolve::fixture::{FakeSurroundings, experiment, mirrored};
    use crate::resolve::resolve;
    use opcost_model::experiment::Experiment;
    use opcost_model::recording::MachineState;
    use opcost_model::recording::Recording;
    use opcost_record::{
        Context as Node, Domain, Function, Invariant, MetricKey, Profile, Reading, Report,
    };
    use opcost_store::store::Store;
    use std::cell::{Cell, RefCell};
    use std::ffi::OsString;
    use std::rc::Rc;

    /// A machine, and a runner of its hooks. Both note each request, and misbehave once.
    #[derive(Default)]
    struct Mock {
        log: Rc<RefCell<Vec<String>>>,
        odd: Option<(&'static str, Odd)>,
        width: usize,
        /// Whether every group teaches the machine files.
        learns: bool,
        /// Whether the machine withholds an end of its first group.
        drops_end: bool,
        /// Whether opcost is stopped during the first group.
        suspends: bool,
        adopting: Rc<Cell<bool>>,
        stderr: Option<String>,
    }

    /// The misbehaviour at the line of the log that is given with it.
    #[derive(Clone, Copy)]
    enum Odd {
        Fails,
        IsInterrupted,
        WorkFails,
    }

    impl Mock {
        fn odd(at: &'static str, odd: Odd) -> Mock {
            Mock { odd: Some((at, odd)), ..Mock::default() }
        }

        fn note(&self, line: String) -> Option<Odd> {
            let odd = self.odd.filter(|(at, _)| *at == line).map(|(_, odd)| odd);
            self.log.borrow_mut().push(line);
            odd
        }

        /// The mock's hooks, with the same log.
        fn hooks(&self) -> MockHooks {
            MockHooks {
                machine: Mock {
                    log: Rc::clone(&self.log),
                    odd: self.odd,
                    adopting: Rc::clone(&self.adopting),
                    ..Mock::default()
                },
                cleanup_fails: false,
            }
        }

        fn log(&self) -> Vec<String> {
            self.log.borrow().clone()
        }

        /// One run; `None` if it is interrupted.
        fn run(&self, slot: &Slot) -> Result<Option<RunEnd>> {
            let outcome = match self.note(format!("run {}", slot.slot)) {
                Some(Odd::Fails) => bail!("no process can be made"),
                Some(Odd::IsInterrupted) => return Ok(None),
                Some(Odd::WorkFails) => {
                    Outcome::Failed(Failure::Signal { signal: 9, stderr: self.stderr.clone() })
                }
                None => Outcome::Finished,
            };
            let key = MetricKey::new("wall", Domain::All, "clock");
            Ok(Some(RunEnd {
                started_unix_ns: 1000 + u64::from(slot.slot),
                outcome,
                exit_code: Some(0),
                report: Report {
                    ops: Some(7),
                    readings: vec![Reading::plain(key, u64::from(slot.slot))],
                    invariants: vec![Invariant { name: "ops".into(), value: "7".into() }],
                },
                profile: Some(profile(slot.slot)),
            }))
        }
    }

    impl Machine for Mock {
        fn width(&self) -> usize {
            self.width
        }

        fn run_together(&mut self, _: &Plan, group: &Group<'_>) -> Result<Together> {
            let suspended = std::mem::take(&mut self.suspends);
            let mut processes = Vec::new();
            for runs in group.processes() {
                let ends: Option<Vec<RunEnd>> =
                    runs.iter().map(|slot| self.run(slot)).collect::<Result<_>>()?;
                match ends {
                    Some(ends) => processes.push(ends),
                    None => return Ok(Together::Interrupted { processes }),
                }
            }
            if std::mem::take(&mut self.drops_end) {
                processes[0].pop();
            }
            Ok(Together::Made { processes, learned: self.learns, suspended })
        }

        fn environment(&self, _: usize) -> Option<&[(OsString, OsString)]> {
            Some(&[])
        }

        fn adopt_orphans(&mut self, adopt: bool) -> Result<()> {
            self.adopting.set(adopt);
            Ok(())
        }
    }

    struct MockHooks {
        machine: Mock,
        cleanup_fails: bool,
    }

    impl HookRunner for MockHooks {
        fn run(&mut self, _: &Plan, hook: &Hook<'_>) -> Result<HookEnd> {
            assert!(!self.machine.adopting.get(), "what a hook starts may stay");
            match self.machine.note(hook.name.to_string()) {
                _ if self.cleanup_fails && hook.name == "cleanup" => bail!("--cleanup failed"),
                Some(Odd::Fails) => bail!("--{} failed", hook.name),
                Some(_) => Ok(HookEnd::Interrupted),
                None => Ok(HookEnd::Done),
            }
        }
    }

    /// A profile of one function that costs as much as the slot's number.
    fn profile(slot: u32) -> Profile {
        Profile {
            functions: vec![Function::new("work", "/bin/work")],
            contexts: vec![Node { parent: None, function: 0, calls: 1, cost: slot.into() }],
            ..Profile::default()
        }
    }

    fn hooked() -> Plan {
        let asked =
            Experiment { setup: vec!["a".into()], cleanup: vec!["b".into()], ..experiment(2, 2) };
        resolve(&asked, &FakeSurroundings::default()).unwrap()
    }

    /// Runs a plan on a mock, in a store of its own; returns the ending and the stored recording.
    fn check(plan: &Plan, done: &[u32], machine: &mut Mock) -> (Result<Ending>, Recording) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_for_writing(&dir.path().join("store")).unwrap();
        let mut writer = store.begin(plan, &MachineState::default(), 1).unwrap();
        let id = writer.id().to_string();
        let earlier: Vec<Record> = plan
            .slots()
            .filter(|slot| done.contains(&slot.slot))
            .map(|slot| Record {
                slot: slot.slot,
                variant: slot.variant,
                block: slot.block,
                started_unix_ns: 1000,
                outcome: Outcome::Finished,
                exit_code: Some(0),
                ops: Some(7),
                samples: Vec::new(),
                invariants: Vec::new(),
            })
            .collect();
        let mut hooks = machine.hooks();
        let ending = run(plan, &earlier, machine, &mut hooks, &mut writer, &mut Silent);
        let store = writer.end(State::Finished).unwrap();
        (ending, store.read(&id).unwrap())
    }

    #[test]
    fn slots_run_in_order_between_setup_and_cleanup_and_are_stored() {
        let (plan, mut machine) = (hooked(), Mock::default());
        let (ending, recording) = check(&plan, &[], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Complete);
        let expected = ["setup", "run 0", "run 1", "run 2", "run 3", "run 4", "run 5", "cleanup"];
        assert_eq!(machine.log(), expected);
        let slots: Vec<Slot> = plan.slots().collect();
        assert_eq!(recording.records.len(), slots.len());
        for (record, slot) in recording.records.iter().zip(slots) {
            assert_eq!(
                (record.slot, record.variant, record.block),
                (slot.slot, slot.variant, slot.block)
            );
            assert_eq!(record.started_unix_ns, 1000 + u64::from(slot.slot));
            assert_eq!(record.ops, Some(7));
            assert_eq!(record.samples[0].value, u64::from(slot.slot));
            assert_eq!(record.invariants[0].value, "7");
            assert_eq!(recording.profiles[record.slot as usize], (slot.slot, profile(slot.slot)));
        }
        assert_eq!(recording.dictionary.keys().len(), 1);
    }

    #[test]
    fn slots_that_are_done_are_passed_over() {
        let mut machine = Mock::default();
        let (ending, recording) = check(&hooked(), &[0, 1, 2, 4], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Complete);
        assert_eq!(machine.log(), ["setup", "run 3", "run 5", "cleanup"]);
        let slots: Vec<u32> = recording.records.iter().map(|record| record.slot).collect();
        assert_eq!(slots, [3, 5]);
    }

    #[test]
    fn a_failure_of_the_work_is_stored_and_stops() {
        let mut machine = Mock::odd("run 2", Odd::WorkFails);
        let plan = hooked();
        let (ending, recording) = check(&plan, &[], &mut machine);
        let failure = Failure::Signal { signal: 9, stderr: None };
        let variant = plan.slots().nth(2).unwrap().variant;
        let ending = ending.unwrap();
        assert_eq!(ending, Ending::Failed { slot: 2, variant, failure: failure.clone() });
        assert_eq!(ending.state(), State::Failed);
        assert_eq!(machine.log(), ["setup", "run 0", "run 1", "run 2", "cleanup"]);
        assert_eq!(recording.records.last().unwrap().outcome, Outcome::Failed(failure));
    }

    #[test]
    fn an_interrupted_run_is_not_stored() {
        let mut machine = Mock::odd("run 3", Odd::IsInterrupted);
        let (ending, recording) = check(&hooked(), &[], &mut machine);
        let ending = ending.unwrap();
        assert_eq!(ending, Ending::Interrupted);
        assert_eq!(ending.state(), State::Interrupted);
        assert_eq!(machine.log(), ["setup", "run 0", "run 1", "run 2", "run 3", "cleanup"]);
        assert_eq!(recording.records.len(), 3);
    }

    #[test]
    fn a_machine_that_fails_is_named_with_its_run() {
        let mut machine = Mock::odd("run 1", Odd::Fails);
        let (ending, recording) = check(&hooked(), &[], &mut machine);
        let error = format!("{:#}", ending.unwrap_err());
        let expected =
            format!("variant 'v1', run 1 of recording {}: no process can be made", recording.id);
        assert_eq!(error, expected);
        assert_eq!(machine.log(), ["setup", "run 0", "run 1", "cleanup"]);
        assert_eq!(recording.records.len(), 1);
    }

    #[test]
    fn cleanup_follows_a_setup_that_failed_or_was_interrupted() {
        let mut machine = Mock::odd("setup", Odd::Fails);
        let (ending, recording) = check(&hooked(), &[], &mut machine);
        assert_eq!(format!("{:#}", ending.unwrap_err()), "--setup failed");
        assert_eq!(machine.log(), ["setup", "cleanup"]);
        assert!(recording.records.is_empty());

        let mut machine = Mock::odd("setup", Odd::IsInterrupted);
        let (ending, _) = check(&hooked(), &[], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Interrupted);
        assert_eq!(machine.log(), ["setup", "cleanup"]);
    }

    #[test]
    fn a_process_is_stored_whole_and_made_again_whole() {
        use crate::resolve::fixture::in_process;
        let mut plan = resolve(&in_process(6), &FakeSurroundings::default()).unwrap();
        plan.blocks = mirrored(6);
        // Two warm-up runs and three blocks of four; the second block is interrupted.
        let mut machine = Mock::odd("run 8", Odd::IsInterrupted);
        let (ending, recording) = check(&plan, &[], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Interrupted);
        let slots = |recording: &Recording| -> Vec<u32> {
            recording.records.iter().map(|record| record.slot).collect()
        };
        assert_eq!(slots(&recording), [0, 1, 2, 3, 4, 5]);
        let mut machine = Mock::default();
        let (ending, recording) = check(&plan, &slots(&recording), &mut machine);
        assert_eq!(ending.unwrap(), Ending::Complete);
        assert_eq!(slots(&recording), [6, 7, 8, 9, 10, 11, 12, 13]);
        assert_eq!(machine.log()[0], "run 6");

        // A process with a run that fails is stored with all its runs, and no process follows it.
        let mut machine = Mock::odd("run 8", Odd::WorkFails);
        let (ending, recording) = check(&plan, &[], &mut machine);
        let ending = ending.unwrap();
        assert!(matches!(ending, Ending::Failed { slot: 8, .. }), "{ending:?}");
        assert_eq!(slots(&recording), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn builds_are_made_before_their_blocks_and_not_again_after_a_resume() {
        let mut plan = resolve(&experiment(2, 6), &FakeSurroundings::default()).unwrap();
        plan.warmup = 0;
        plan.blocks = mirrored(6);
        let build = Some(BuildPlan { command: "make".into(), blocks: 2 });
        plan.target = opcost_model::plan::Target::Host(opcost_model::plan::HostPlan {
            build,
            ..Default::default()
        });
        let mut machine = Mock::default();
        check(&plan, &[], &mut machine).0.unwrap();
        let runs = |slots: std::ops::Range<u32>| slots.map(|slot| format!("run {slot}"));
        let builds = || ["rebuild", "rebuild"].into_iter().map(str::to_string);
        let expected: Vec<String> =
            builds().chain(runs(0..8)).chain(builds()).chain(runs(8..12)).collect();
        assert_eq!(machine.log(), expected);

        let mut machine = Mock::default();
        check(&plan, &[0, 1, 2], &mut machine).0.unwrap();
        let expected: Vec<String> = runs(3..8).chain(builds()).chain(runs(8..12)).collect();
        assert_eq!(machine.log(), expected);

        let mut machine = Mock::odd("rebuild", Odd::Fails);
        let error = format!("{:#}", check(&plan, &[], &mut machine).0.unwrap_err());
        assert_eq!((error.as_str(), machine.log().len()), ("--rebuild failed", 1));
        let mut machine = Mock::odd("rebuild", Odd::IsInterrupted);
        assert_eq!(check(&plan, &[], &mut machine).0.unwrap(), Ending::Interrupted);
    }

    #[test]
    fn a_plan_that_has_enough_stops_and_says_why() {
        let asked = Experiment { budget: "1ms".parse().ok(), ..experiment(2, 60) };
        let mut plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        plan.stop.budget_ms = Some(0);
        let mut machine = Mock::default();
        let (ending, recording) = check(&plan, &[], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Stopped(StopReason::Budget));
        assert_eq!(recording.records.len(), 2 * plan.warmup as usize + 2, "one whole block");
        // The mock's figures rise with the slot, and a block's differences are all 0.
        plan.stop = opcost_model::plan::StopPlan { width_ratio: Some(0.5), ..Default::default() };
        let (ending, recording) = check(&plan, &[], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Stopped(StopReason::Width));
        assert_eq!(recording.pairs_made(), plan.pairs, "the mock's writer says finished");
        let blocks = (recording.records.len() - 2 * plan.warmup as usize) / 2;
        assert_eq!(blocks, plan.fewest_pairs as usize, "single pairs come first");
    }

    #[test]
    fn a_cleanup_that_fails_hides_nothing_but_is_told() {
        let plan = hooked();
        let ending = |mut machine: Mock| {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open_for_writing(&dir.path().join("store")).unwrap();
            let mut writer = store.begin(&plan, &MachineState::default(), 1).unwrap();
            let mut hooks = MockHooks { cleanup_fails: true, ..machine.hooks() };
            run(&plan, &[], &mut machine, &mut hooks, &mut writer, &mut Silent)
        };
        let text = |ending: Result<Ending>| format!("{:#}", ending.unwrap_err());
        assert_eq!(text(ending(Mock::default())), "--cleanup failed");
        assert_eq!(text(ending(Mock::odd("setup", Odd::Fails))), "--setup failed");
        assert!(text(ending(Mock::odd("run 4", Odd::Fails))).contains("run 4"));
        let interrupted = ending(Mock::odd("run 4", Odd::IsInterrupted)).unwrap();
        assert_eq!(interrupted, Ending::Interrupted);
        let failed = ending(Mock::odd("run 0", Odd::WorkFails)).unwrap();
        assert_eq!(failed.state(), State::Failed);
    }

    #[test]
    fn without_hooks_none_is_run() {
        let plan = resolve(&experiment(2, 2), &FakeSurroundings::default()).unwrap();
        let mut machine = Mock::default();
        check(&plan, &[0, 1, 2, 3, 4], &mut machine).0.unwrap();
        assert_eq!(machine.log(), ["run 5"]);
    }

    #[test]
    fn runs_with_hooks_are_made_one_by_one_between_them() {
        let asked = Experiment {
            prepare: vec!["a".into()],
            conclude: vec!["b".into()],
            ..experiment(2, 2)
        };
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        let mut machine = Mock { width: 4, ..Mock::default() };
        check(&plan, &[0, 1, 2, 3], &mut machine).0.unwrap();
        let expected = ["prepare", "run 4", "conclude", "prepare", "run 5", "conclude"];
        assert_eq!(machine.log(), expected);
        // A run that is interrupted between its two hooks is dropped.
        let mut machine = Mock::odd("conclude", Odd::IsInterrupted);
        let (ending, recording) = check(&plan, &[], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Interrupted);
        assert_eq!(machine.log(), ["prepare", "run 0", "conclude"]);
        assert!(recording.records.is_empty());
        let mut machine = Mock::odd("prepare", Odd::IsInterrupted);
        assert_eq!(check(&plan, &[], &mut machine).0.unwrap(), Ending::Interrupted);
        assert_eq!(machine.log(), ["prepare"]);
    }

    #[test]
    fn each_variant_has_its_own_hooks_and_runs_have_numbers() {
        let each = |of: [&str; 2]| of.map(str::to_string).to_vec();
        let asked = Experiment {
            setup: each(["a", ""]),
            prepare: each(["", "b"]),
            conclude: each(["c", ""]),
            cleanup: each(["d", "e"]),
            ..experiment(2, 2)
        };
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        let numbers: Vec<String> = plan.slots().map(|slot| slot.iteration_text()).collect();
        assert_eq!(numbers, ["warmup-0", "warmup-0", "0", "0", "1", "1"]);
        let mut machine = Mock::default();
        check(&plan, &[2, 3, 4, 5], &mut machine).0.unwrap();
        let around = ["setup", "run 0", "conclude", "prepare", "run 1", "cleanup", "cleanup"];
        assert_eq!(machine.log(), around);
        // Each cleanup runs, also after an interruption.
        let mut machine = Mock::odd("run 0", Odd::IsInterrupted);
        assert_eq!(check(&plan, &[], &mut machine).0.unwrap(), Ending::Interrupted);
        assert_eq!(machine.log(), ["setup", "run 0", "cleanup", "cleanup"]);
    }

    #[test]
    fn a_variant_that_fails_ends_only_its_own_runs() {
        let plan = resolve(&experiment(3, 2), &FakeSurroundings::default()).unwrap();
        let of = |variant: u16| plan.slots().filter(move |slot| slot.variant == variant);
        let all = plan.slot_count();
        for width in [1, 4] {
            let mut machine = Mock { width, ..Mock::odd("run 2", Odd::WorkFails) };
            let (ending, recording) = check(&plan, &[], &mut machine);
            assert_eq!(ending.unwrap(), Ending::Complete);
            let failed: Vec<usize> = recording.failed_variants().into_keys().collect();
            assert_eq!((failed, recording.comparisons()), (vec![2], vec![(0, 1)]));
            let made = recording.records.len();
            assert!((all + 1 - of(2).count()..all).contains(&made), "{made}");
            assert_eq!(recording.runs_due(), made);
        }
        // Nothing could be compared with a baseline that fails, nor if all others have failed.
        let (ending, recording) = check(&plan, &[], &mut Mock::odd("run 0", Odd::WorkFails));
        let failure = Failure::Signal { signal: 9, stderr: None };
        assert_eq!(ending.unwrap(), Ending::Failed { slot: 0, variant: 0, failure });
        assert!(recording.failed_variants().is_empty());
        assert_eq!(recording.comparisons().len(), 2);
    }

    #[test]
    fn without_a_variant_that_failed_runs_stop_as_early() {
        let mut plan = resolve(&experiment(3, 60), &FakeSurroundings::default()).unwrap();
        plan.stop = opcost_model::plan::StopPlan { width_ratio: Some(0.5), ..Default::default() };
        let (ending, _) = check(&plan, &[], &mut Mock::odd("run 2", Odd::WorkFails));
        assert_eq!(ending.unwrap(), Ending::Stopped(StopReason::Width));
    }

    #[test]
    fn runs_that_taught_the_machine_files_are_made_again_once() {
        let asked = Experiment { prepare: vec!["a".into()], ..experiment(2, 2) };
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        let mut machine = Mock { learns: true, ..Mock::default() };
        let (ending, recording) = check(&plan, &[0, 2, 3, 4], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Complete);
        // Run 1 is a warm-up run.
        let expected = ["prepare", "run 1", "prepare", "run 5", "prepare", "run 5"];
        assert_eq!(machine.log(), expected);
        assert_eq!(recording.records.len(), 2);
    }

    #[test]
    fn runs_during_which_opcost_was_stopped_are_made_again() {
        let asked = Experiment { prepare: vec!["a".into()], ..experiment(2, 2) };
        let plan = resolve(&asked, &FakeSurroundings::default()).unwrap();
        let mut machine = Mock { suspends: true, learns: true, ..Mock::default() };
        let (ending, recording) = check(&plan, &[0, 1, 2, 3, 4], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Complete);
        let again = ["prepare", "run 5"];
        assert_eq!(machine.log(), [again; 3].concat());
        assert_eq!(recording.records.len(), 1);
    }

    #[test]
    fn of_an_interrupted_group_whole_processes_are_stored() {
        let plan = resolve(&experiment(2, 2), &FakeSurroundings::default()).unwrap();
        let mut machine = Mock { width: 3, ..Mock::odd("run 4", Odd::IsInterrupted) };
        let (ending, recording) = check(&plan, &[], &mut machine);
        assert_eq!(ending.unwrap(), Ending::Interrupted);
        let slots: Vec<u32> = recording.records.iter().map(|record| record.slot).collect();
        assert_eq!(slots, [0, 1, 2, 3]);
    }

    #[test]
    fn a_machine_that_gives_too_few_ends_is_refused() {
        use crate::resolve::fixture::in_process;
        let plan = resolve(&in_process(6), &FakeSurroundings::default()).unwrap();
        let mut machine = Mock { drops_end: true, ..Mock::default() };
        let (ending, recording) = check(&plan, &[], &mut machine);
        let error = format!("{:#}", ending.unwrap_err());
        assert!(error.contains("was asked for 2 runs and gave 1"), "{error}");
        assert!(recording.records.is_empty());
    }
}
