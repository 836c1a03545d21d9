//! This computer: runs are processes under its own kernel.

use super::emulated::default_kernel;
use super::illegal;
use super::program_regions::{self, Serving, Socket};
use super::streams::{Kept, Streams};
use super::window::Window;
use super::{Machine, RunEnd, Together, outcome};
use crate::hook::ITERATION;
use crate::load::Load;
use crate::resolve::Surroundings;
use crate::shipped::Shipped;
use crate::work_process::{self, Request};
use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_core_model::Core;
use opcost_kernel::KernelSpec;
use opcost_model::plan::guest::DEFAULT_KERNEL;
use opcost_model::plan::{
    Aslr, CorePlan, EnvironmentPolicy, EventPlan, Group, Plan, Slot, VariantPlan, WorkPlan,
};
use opcost_model::validation::kept;
use opcost_profile::session::Recorded;
use opcost_profile::symbolise::symbolise;
use opcost_record::message::MessageError;
use opcost_record::{Domain, Failure, MetricKey, Outcome, Profile, Reading, Report, WORK};
use opcost_size::Ran;
use opcost_source::sampling::{
    Collecting, Granted, Intake, Recorder, SamplingPlan, existing, process_clock,
    sources as sampling_sources,
};
use opcost_source::source::{Scope, Source, SourceContext, perf_event, sampling, sources};
use opcost_sys::affinity::allowed_cpus;
use opcost_sys::clock::{monotonic_ns, unix_ns};
use opcost_sys::interrupt::Interrupt;
use opcost_sys::orphans::{Left, Orphanage};
use opcost_sys::perf::constants::KIND_SOFTWARE;
use opcost_sys::perf::{
    CounterId, EventAttr, LivePerf, OpenContext, PerfKernel, Refusal, SamplingTarget, explain,
};
use opcost_sys::scheduling::{self, NoRealTime, no_real_time};
use opcost_sys::spawn::{
    Aside, EndedBy, Exit, Held, Spawn, SpawnError, Spawner, Status as ExitStatus, WaitError,
};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::slice;
use std::thread;
use std::time::Duration;

/// Variables that [`EnvironmentPolicy::Fixed`] keeps.
const FIXED_ENVIRONMENT: [&str; 2] = ["PATH", "HOME"];

/// Name of the variable that pads a randomised environment.
const PADDING: &str = "OPCOST_PADDING";

/// Name of the variable that pads the run's number.
const ITERATION_PADDING: &str = "OPCOST_ITERATION_PADDING";

/// This computer.
pub struct Host<'a> {
    interrupt: &'a Interrupt,
    kernel: Rc<dyn PerfKernel>,
    environments: Vec<Vec<(OsString, OsString)>>,
    surroundings: Vec<Box<dyn Source>>,
    window: Window,
    own_program: PathBuf,
    /// Makes processes for commands; `None` if the plan has no commands, or if it cannot be started.
    spawner: Option<Spawner>,
    /// Finds and ends processes that a run leaves behind; `None` if the system does not allow it.
    orphanage: Option<Orphanage>,
    /// The socket on which programs mark their regions, if the plan asks for regions.
    socket: Option<Socket>,
    /// The last run's samples, if it was sampled.
    recorded: Option<Recorded>,
    /// The sampling that the kernel granted for the last run.
    granted: Option<Granted>,
    /// Whether standard error of compared runs is kept, too.
    keeps_stderr: bool,
}

impl<'a> Host<'a> {
    /// Prepares to run a plan here.
    ///
    /// # Errors
    /// This program's own executable cannot be found (workloads run in a fresh copy of it).
    pub fn new(
        plan: &Plan,
        kernel: Rc<dyn PerfKernel>,
        interrupt: &'a Interrupt,
    ) -> Result<Host<'a>> {
        let context = SourceContext {
            scope: Scope::Surroundings,
            events: &[],
            kernel: kernel.clone(),
            team: false,
            cpu: plan.cpu,
            sampled: false,
        };
        keep_open(plan, kernel.as_ref());
        let is_command = |variant: &VariantPlan| matches!(variant.work, WorkPlan::Command { .. });
        let spawner = match plan.variants.iter().any(is_command) {
            true => Spawner::start().ok(),
            false => None,
        };
        let socket = match plan.regions() {
            true => Some(Socket::open()?),
            false => None,
        };
        Ok(Host {
            spawner,
            socket,
            orphanage: Orphanage::open().ok(),
            interrupt,
            surroundings: sources(&context),
            window: Window::new(plan),
            kernel,
            environments: environments(plan),
            own_program: std::env::current_exe()
                .context("cannot find this program's own executable")
                .status(Status::Missing)?,
            recorded: None,
            granted: None,
            keeps_stderr: false,
        })
    }

    /// The sampling that the kernel granted for the last run.
    pub fn sampled(&self) -> Option<Granted> {
        self.granted
    }

    /// Takes the last run's samples, which have addresses and no names yet.
    pub fn take_recorded(&mut self) -> Option<Recorded> {
        self.recorded.take()
    }

    /// The size of each variant's environment in bytes, as laid out by `execve`.
    pub fn environment_bytes(&self) -> Vec<usize> {
        self.environments
            .iter()
            .map(|pairs| pairs.iter().map(|(key, value)| key.len() + value.len() + 2).sum())
            .collect()
    }

    /// Makes one run in a process of its own; `None` if a signal interrupted the run.
    ///
    /// # Errors
    /// The errors of [`Machine::run_together`].
    pub fn run(&mut self, plan: &Plan, slot: &Slot) -> Result<Option<RunEnd>> {
        if self.interrupt.is_set() {
            return Ok(None);
        }
        match &plan.variants[usize::from(slot.variant)].work {
            WorkPlan::Command { program, argv, .. } => {
                let argv = argv.iter().map(OsString::from).collect();
                let (mut spawn, kept) = self.spawn(plan, slot, program.clone(), argv)?;
                if let Some(env) = &mut spawn.env {
                    number(env, slot, &plan.variants[usize::from(slot.variant)]);
                }
                let begun_ns = monotonic_ns();
                let mut end = self.run_command(plan, spawn)?;
                if let Some(end) = &mut end {
                    let log = match end.outcome {
                        Outcome::Finished => String::new(),
                        Outcome::Failed(_) => illegal::log_here(begun_ns),
                    };
                    illegal::explain(end, &log, slice::from_ref(program), Ran::Here);
                }
                if let (Some(kept), Some(end)) = (kept, &mut end) {
                    let variant = &plan.variants[usize::from(slot.variant)];
                    let printed = kept.read();
                    if plan.shows_output(variant) {
                        printed.show();
                    }
                    printed.explain(end);
                    variant.ops.iter().for_each(|pattern| printed.count(pattern, end));
                }
                Ok(end)
            }
            WorkPlan::Workload { name, params } => {
                let sampled = plan.sampling().is_some();
                let request = Request::new(name, params, plan.seed, &plan.events, &[], sampled);
                let ends = self.run_workload(plan, self.spawn_own(plan, slot)?, &request, 1)?;
                Ok(ends.and_then(|mut ends| ends.pop()))
            }
        }
    }

    fn spawn(
        &self,
        plan: &Plan,
        slot: &Slot,
        program: PathBuf,
        argv: Vec<OsString>,
    ) -> Result<(Spawn, Option<Kept>)> {
        let variant = usize::from(slot.variant);
        let mut env = self.environments[variant].clone();
        if plan.environment == EnvironmentPolicy::Randomised {
            env.push((PADDING.into(), "x".repeat(usize::from(slot.padding_bytes)).into()));
        }
        let Streams { stdin, stdout, stderr, kept } = {
            let is_warm_up = slot.block.is_none();
            Streams::open(plan, &plan.variants[variant], self.keeps_stderr || is_warm_up)?
        };
        if let Some(socket) = &self.socket {
            socket.name_in(&mut env);
        }
        let spawn = Spawn {
            program,
            argv,
            env: Some(env),
            cwd: plan.variants[variant].cwd.clone(),
            stdin,
            stdout,
            stderr,
            cpu: plan.cpu,
            aslr: match plan.aslr {
                Aslr::Fixed => opcost_sys::spawn::Aslr::Fixed,
                Aslr::Randomised => opcost_sys::spawn::Aslr::Randomised,
                Aslr::Inherit => opcost_sys::spawn::Aslr::Inherit,
            },
            pass_fds: Vec::new(),
            own_session: true,
            real_time_max: plan.real_time().then(|| real_time_max(plan)),
        };
        Ok((spawn, kept))
    }

    fn run_command(&mut self, plan: &Plan, spawn: Spawn) -> Result<Option<RunEnd>> {
        let mut around = sources(&SourceContext {
            scope: Scope::Command,
            events: &plan.events,
            kernel: self.kernel.clone(),
            team: false,
            cpu: plan.cpu,
            sampled: plan.sampling().is_some(),
        });
        let Launched { started_unix_ns, exit, intake, left, regions } =
            self.launch(plan, 1, spawn, &mut around)?;
        if exit.ended_by == EndedBy::Interrupt {
            return Ok(None);
        }
        let mut report = Report::default();
        for source in &mut around {
            source.read(WORK, Some(&exit), &mut report.readings)?;
        }
        self.read_surroundings(&exit, &mut report.readings)?;
        report.readings.extend(left.into_iter().flat_map(left_behind));
        let profile = self.profile(intake, Some(0..=u64::MAX), &mut report.readings)?;
        let mut end = RunEnd {
            started_unix_ns,
            outcome: match outcome(plan, exit.ended_by, exit.status) {
                Outcome::Failed(Failure::Signal { signal: SIGXCPU, .. }) if plan.real_time() => {
                    let detail = format!(
                        "it computed for {} s without a pause under real-time priority, and the kernel ended it; --timeout \
                         sets this limit",
                        real_time_max(plan).as_secs_f64()
                    );
                    Outcome::Failed(Failure::Work { detail })
                }
                outcome => outcome,
            },
            exit_code: exit_code(&exit),
            report,
            profile,
        };
        match regions {
            Some(Ok(readings)) => {
                end.report.readings.extend(readings);
                program_regions::require(&mut end);
            }
            // The program's own failure is more important than one of its regions.
            Some(Err(detail)) if end.outcome == Outcome::Finished => {
                end.outcome = Outcome::Failed(Failure::Work { detail });
            }
            _ => {}
        }
        Ok(Some(end))
    }

    /// Makes a process perform a workload: one run, or several; returns a [`RunEnd`] for each.
    fn run_workload(
        &mut self,
        plan: &Plan,
        mut spawn: Spawn,
        request: &Request<'_>,
        runs: usize,
    ) -> Result<Option<Vec<RunEnd>>> {
        let (request_reader, mut request_writer) = std::io::pipe().context("pipe")?;
        let (mut report_reader, report_writer) = std::io::pipe().context("pipe")?;
        spawn.pass_fds = vec![
            (request_reader.into(), work_process::REQUEST_FD),
            (report_writer.into(), work_process::REPORT_FD),
        ];
        let text = serde_json::to_string(request).context("request")?;
        // Threads write and read, since both texts may be longer than a pipe holds. If a process
        // dies early, it leaves the request unread; this is no error of its own.
        let sender = thread::spawn(move || request_writer.write_all(text.as_bytes()));
        let receiver = thread::spawn(move || {
            let mut bytes = Vec::new();
            report_reader.read_to_end(&mut bytes).map(|_| Report::decode_all(&bytes))
        });
        let Launched { started_unix_ns, exit, intake, left, .. } =
            self.launch(plan, runs, spawn, &mut [])?;
        let (_, reports) = (sender.join(), receiver.join());
        let (reports, problem): (Vec<Report>, Option<MessageError>) = reports
            .map_err(|_| anyhow::anyhow!("the thread that reads reports died"))?
            .context("cannot read reports")?;
        if exit.ended_by == EndedBy::Interrupt {
            return Ok(None);
        }
        let exit_code = exit_code(&exit);
        let mut reports = reports.into_iter();
        let mut ends: Vec<RunEnd> = (0..runs)
            .map(|_| {
                let report = reports.next();
                let outcome = match (outcome(plan, exit.ended_by, exit.status), &report) {
                    // The way the process died says more than its missing report.
                    (Outcome::Finished, None) => {
                        let error = problem.clone().unwrap_or_else(Report::missing);
                        Outcome::Failed(Failure::Work { detail: error.to_string() })
                    }
                    (outcome, _) => outcome,
                };
                let report = report.unwrap_or_default();
                RunEnd { started_unix_ns, outcome, exit_code, report, profile: None }
            })
            .collect();
        // These readings are those of the whole process, so only its first run has them.
        let RunEnd { report: Report { readings, .. }, profile, .. } = &mut ends[0];
        self.read_surroundings(&exit, readings)?;
        readings.extend(left.into_iter().flat_map(left_behind));
        // Sampled processes make one run: the plan refuses others.
        let span = sampling::take_span(readings, WORK);
        *profile = self.profile(intake, span, readings)?;
        Ok(Some(ends))
    }

    /// Makes runs in one process, in sequence, with the code path of each slot's variant.
    fn run_in_process(&mut self, plan: &Plan, slots: &[Slot]) -> Result<Option<Vec<RunEnd>>> {
        if self.interrupt.is_set() {
            return Ok(None);
        }
        let variant = |slot: &Slot| &plan.variants[usize::from(slot.variant)];
        let WorkPlan::Workload { name, params } = &variant(&slots[0]).work else {
            anyhow::bail!("a command has no code paths that opcost could exchange");
        };
        let paths: Vec<String> =
            slots.iter().filter_map(|slot| variant(slot).work.path().map(str::to_string)).collect();
        let spawn = self.spawn_own(plan, &slots[0])?;
        let request = Request::new(name, params, plan.seed, &plan.events, &paths, false);
        self.run_workload(plan, spawn, &request, slots.len())
    }

    /// A new copy of this program that waits for a request.
    fn spawn_own(&self, plan: &Plan, slot: &Slot) -> Result<Spawn> {
        let argv = vec!["opcost".into(), work_process::COMMAND.into()];
        Ok(self.spawn(plan, slot, self.own_program.clone(), argv)?.0)
    }

    /// Starts the process with all sources attached and waits for its end, within the time limit of
    /// its runs.
    fn launch(
        &mut self,
        plan: &Plan,
        runs: usize,
        spawn: Spawn,
        around: &mut [Box<dyn Source>],
    ) -> Result<Launched> {
        if self.window.open() {
            for source in &mut self.surroundings {
                source.start()?;
            }
        }
        let held = self.hold(&spawn).map_err(launch_failure)?;
        for source in around.iter_mut() {
            source.attach(held.pid()).status(Status::Missing)?;
        }
        let collecting = match plan.sampling() {
            Some(sampling) => {
                let (granted, collecting) = collect(plan, &sampling, held.pid())?;
                self.granted = Some(granted);
                Some(collecting)
            }
            None => None,
        };
        let started_unix_ns = unix_ns();
        for source in around.iter_mut() {
            source.start()?;
        }
        // Until this thread sees the end, elapsed time goes on.
        let prompt = plan.real_time().then(scheduling::at_once);
        let mut running = held.release().map_err(launch_failure)?;
        let limit = plan.timeout_ms.map(|ms| Duration::from_millis(ms.saturating_mul(runs as u64)));
        let mut serving = self.socket.as_ref().map(|socket| Serving::new(socket, around));
        let aside = serving.as_mut().map(|serving| serving as &mut dyn Aside);
        let exit = running.wait_beside(limit, self.interrupt, aside);
        let exit = exit.map_err(|error| match error {
            WaitError::Start(error) => launch_failure(error),
            WaitError::System(error) => {
                anyhow::Error::new(error).context("cannot wait for the process")
            }
        })?;
        drop(prompt);
        let regions = serving.map(Serving::end);
        for source in around.iter_mut().rev() {
            source.stop()?;
        }
        if self.window.close() {
            for source in &mut self.surroundings {
                source.stop()?;
            }
        }
        let left = match &mut self.orphanage {
            Some(orphanage) => Some(
                orphanage
                    .end_left()
                    .context("cannot look for processes that the run left behind")?,
            ),
            None => None,
        };
        let intake = collecting.map(Collecting::stop).transpose().context("cannot read samples")?;
        Ok(Launched { started_unix_ns, exit, intake, left, regions })
    }

    /// Reads the machine's conditions if their window is closed.
    fn read_surroundings(&mut self, exit: &Exit, readings: &mut Vec<Reading>) -> Result<()> {
        if self.window.is_open() {
            return Ok(());
        }
        for source in &mut self.surroundings {
            source.read(WORK, Some(exit), readings)?;
        }
        Ok(())
    }

    /// Makes a process, with the spawner if possible.
    fn hold(&mut self, spawn: &Spawn) -> Result<Held, SpawnError> {
        if let Some(spawner) = &self.spawner {
            match spawner.hold(spawn) {
                Ok(Some(held)) => return Ok(held),
                Ok(None) => {}
                // The spawner has ended, which is no fault of the command.
                Err(SpawnError::Step { .. }) => self.spawner = None,
                Err(error) => return Err(error),
            }
        }
        spawn.hold()
    }

    /// The profile of a span's samples; adds readings about the samples. `None` without sampling,
    /// or if the work did not report its span.
    fn profile(
        &mut self,
        intake: Option<Intake>,
        span_ns: Option<RangeInclusive<u64>>,
        readings: &mut Vec<Reading>,
    ) -> Result<Option<Profile>> {
        self.recorded = None;
        let Some((intake, span_ns)) = intake.zip(span_ns) else { return Ok(None) };
        let (recorded, samples) = intake.finish(span_ns).context("cannot read samples")?;
        let named = symbolise(&recorded, &sampling_sources());
        readings.extend(sampling::readings(samples, &named.losses));
        self.recorded = Some(recorded);
        Ok(Some(named.profile))
    }
}

impl Machine for Host<'_> {
    fn run_together(&mut self, plan: &Plan, group: &Group<'_>) -> Result<Together> {
        // The width is 1, so there is only one process.
        let slots = group.processes()[0];
        let continuations = self.interrupt.continuations();
        let ends = match plan.in_process {
            Some(_) => self.run_in_process(plan, slots)?,
            None => self.run(plan, &slots[0])?.map(|end| vec![end]),
        };
        let mut together = Together::of_one(ends);
        if let Together::Made { suspended, .. } = &mut together {
            *suspended = self.interrupt.continuations() != continuations;
        }
        Ok(together)
    }

    fn environment(&self, variant: usize) -> Option<&[(OsString, OsString)]> {
        Some(&self.environments[variant])
    }

    fn keep_stderr(&mut self, keep: bool) {
        self.keeps_stderr = keep;
    }

    fn adopt_orphans(&mut self, adopt: bool) -> Result<()> {
        let Some(orphanage) = &mut self.orphanage else { return Ok(()) };
        let told = if adopt { orphanage.resume() } else { orphanage.pause() };
        told.context("cannot tell who adopts orphans")
    }
}

/// A process that has ended, with the data collected about it.
struct Launched {
    started_unix_ns: u64,
    exit: Exit,
    intake: Option<Intake>,
    left: Option<Left>,
    /// The costs of the program's own regions, or the error in their marks; `None` if not asked for.
    regions: Option<Result<Vec<Reading>, String>>,
}

/// The signal of RLIMIT_RTTIME (signal(7)), on the architectures that opcost runs on.
const SIGXCPU: i32 = 24;

/// How long a run may compute without a pause under real-time priority.
fn real_time_max(plan: &Plan) -> Duration {
    plan.timeout_ms.map_or(Duration::from_secs(60), Duration::from_millis)
}

/// The counts of processes that a run left behind, as readings.
fn left_behind(left: Left) -> [Reading; 2] {
    [("processes-left", left.alive), ("processes-unended", left.remaining)]
        .map(|(name, count)| Reading::plain(MetricKey::new(name, Domain::All, "conditions"), count))
}

/// Keeps a stopped counter of each software event open as long as the kernel's owner lives.
///
/// The first opening and the last closing of such an event rewrite kernel code (static keys,
/// perf_swevent_init in kernel/events/core.c); otherwise every run would pay for both.
fn keep_open(plan: &Plan, kernel: &dyn PerfKernel) {
    for event in plan.events.iter().filter(|event| event.kind == KIND_SOFTWARE) {
        let attr = EventAttr { inherit: false, ..perf_event::attr(event, false, true) };
        // If a counter cannot be opened, runs only start more slowly.
        let _ = kernel.open(&attr, 0, -1, None);
    }
}

/// Samples a process from its program's first instruction on.
///
/// The samples are processed after the run, since this would take time from the work.
fn collect(plan: &Plan, sampling: &SamplingPlan, pid: i32) -> Result<(Granted, Collecting)> {
    let cpus = match plan.cpu {
        Some(cpu) => vec![cpu],
        None => allowed_cpus().context("cannot tell the CPUs")?,
    };
    let target = SamplingTarget::Threads(vec![pid]);
    let recorder = Recorder::open(sampling, &process_clock(), &target, true, &cpus);
    let recorder = recorder.status(Status::Missing)?;
    let mut intake = recorder.intake();
    existing::report(Path::new("/proc"), &[], |event| intake.event(event));
    let granted = recorder.granted();
    let collecting = recorder.collect(intake, false).context("cannot collect samples");
    Ok((granted, collecting.status(Status::Missing)?))
}

fn environments(plan: &Plan) -> Vec<Vec<(OsString, OsString)>> {
    let inherited: Vec<(OsString, OsString)> = match plan.environment {
        EnvironmentPolicy::Fixed => std::env::vars_os()
            .filter(|(key, _)| FIXED_ENVIRONMENT.iter().any(|kept| key == kept))
            .chain([("LANG".into(), "C".into())])
            .collect(),
        EnvironmentPolicy::Inherit | EnvironmentPolicy::Randomised => std::env::vars_os().collect(),
    };
    plan.variants
        .iter()
        .map(|variant| {
            let mut pairs = inherited.clone();
            for (key, value) in &variant.env {
                pairs.retain(|(known, _)| known.to_str() != Some(key));
                pairs.push((key.into(), value.into()));
            }
            // Without sorting, the order would be the shell's, and shells differ.
            pairs.sort();
            pairs
        })
        .collect()
}

/// Tells a command its run's number, in a variable that takes the same room whatever the number, so that no run's memory lies
/// elsewhere. A variable that the user gave stays.
fn number(env: &mut Vec<(OsString, OsString)>, slot: &Slot, variant: &VariantPlan) {
    // The longest is that of a warm-up run, with any number of 32 bits.
    const BYTES: usize = "warmup-4294967295".len();
    if variant.env.iter().any(|(key, _)| key == ITERATION) {
        return;
    }
    env.retain(|(key, _)| key != ITERATION && key != ITERATION_PADDING);
    let text = slot.iteration_text();
    env.push((ITERATION_PADDING.into(), "x".repeat(BYTES.saturating_sub(text.len())).into()));
    env.push((ITERATION.into(), text.into()));
}

fn launch_failure(error: SpawnError) -> anyhow::Error {
    fail(Status::WorkFailed, error)
}

fn exit_code(exit: &Exit) -> Option<i32> {
    match exit.status {
        ExitStatus::Code(code) => Some(code),
        ExitStatus::Signal(_) => None,
    }
}

/// Facts about this computer that a plan depends on.
pub struct HostSurroundings;

impl Surroundings for HostSurroundings {
    fn primary(&self) -> Option<String> {
        std::env::var("OPCOST_PRIMARY").ok().filter(|name| !name.is_empty())
    }

    fn load(&self) -> Option<Load> {
        Load::read(Path::new("/"))
    }

    fn no_real_time(&self) -> Option<NoRealTime> {
        no_real_time()
    }

    fn allowed_cpus(&self) -> Vec<usize> {
        opcost_sys::affinity::allowed_cpus().unwrap_or_default()
    }

    fn draw_seed(&self) -> u64 {
        // The standard library seeds this state from the kernel. 32 bits are enough, and easy to
        // repeat with --seed.
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(unix_ns()) >> 32
    }

    fn sysfs(&self) -> PathBuf {
        "/sys".into()
    }

    fn refusals(&self, events: &[EventPlan]) -> Vec<Option<Refusal>> {
        let kernel = LivePerf::default();
        let context = OpenContext::detect(Path::new("/proc"), Path::new("/sys"));
        let mut leaders: HashMap<u32, CounterId> = HashMap::new();
        let open = |event: &EventPlan| {
            let leader = event.group.and_then(|group| leaders.get(&group).copied());
            let attr = perf_event::attr(event, false, leader.is_none());
            match kernel.open(&attr, 0, -1, leader) {
                Ok(id) => {
                    if let (Some(group), None) = (event.group, leader) {
                        leaders.insert(group, id);
                    }
                    None
                }
                Err(error) => Some(explain(error.raw_os_error().unwrap_or(0), &attr, &context)),
            }
        };
        // The counters are closed together with the kernel's owner.
        events.iter().map(open).collect()
    }

    fn cpuinfo(&self) -> Option<String> {
        std::fs::read_to_string("/proc/cpuinfo").ok()
    }

    fn kernel(&self, name: &str) -> Result<KernelSpec> {
        let here = self.working_dir().context("cannot read the working directory")?;
        if name == DEFAULT_KERNEL && !here.join(name).exists() {
            return default_kernel().map_err(HasStatus::carried);
        }
        Ok(KernelSpec::parse(name, &here)?)
    }

    fn kernel_revision(&self, tree: &Path, name: &str, config: &[PathBuf]) -> Result<KernelSpec> {
        Ok(KernelSpec::Revision(opcost_kernel::find_revision(tree, name, config)?))
    }

    fn core(&self, name: &str) -> Result<CorePlan> {
        let here = self.working_dir().context("cannot read the working directory")?;
        let path = here.join(name);
        let (given, text) = match Core::shipped_text(name) {
            Some(text) if !path.exists() => (name.to_string(), text.to_string()),
            _ => {
                let text = std::fs::read_to_string(&path).map_err(|error| {
                    let shipped: Vec<&str> = Core::SHIPPED.iter().map(|(name, _)| *name).collect();
                    fail(
                        Status::Usage,
                        format!(
                            "--core {name}: cannot read {}: {error}; name a file, or one that ships: {}",
                            path.display(),
                            shipped.join(", ")
                        ),
                    )
                })?;
                (path.display().to_string(), text)
            }
        };
        let mut core = CorePlan::new(given, &text)
            .map_err(|error| fail(Status::Usage, format!("--core {name}: {error}")))?;
        core.validation = kept::find(&core.fingerprint);
        Ok(core)
    }

    fn recipe_file(&self, folder: &Path, file: &Path) -> PathBuf {
        Shipped::here().recipe_file(folder, file)
    }

    fn search_path(&self) -> Option<OsString> {
        std::env::var_os("PATH")
    }

    fn working_dir(&self) -> std::io::Result<PathBuf> {
        std::env::current_dir()
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
