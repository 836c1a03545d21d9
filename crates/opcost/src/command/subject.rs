//! Samples one profile of work that runs here: a command, a workload, a process or everything.

use anyhow::{Context, Result};
use clap::Args;
use opcost_base::exit::{Status, WithStatus, fail};
use opcost_base::time::TimeLimit;
use opcost_command::variant::{command_of, parse_workload};
use opcost_lab::machine::host::{Host, HostSurroundings};
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Experiment, NO_SHELL, Scalar, Variant};
use opcost_model::plan::OpsPattern;
use opcost_profile::read::about::{About, EventAbout};
use opcost_profile::session::Recorded;
use opcost_record::{Domain, Failure, MetricKey, Outcome};
use opcost_source::sampling::{
    self, CallGraph, Granted, Recorder, SamplingArgs, SamplingPlan, cycles_or_clock, existing,
};
use opcost_sys::affinity::allowed_cpus;
use opcost_sys::clock::monotonic_ns;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::{LivePerf, SamplingTarget};
use patchpoint_attach::AttachError;
use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The time between two checks whether sampling should end.
const GLANCE: Duration = Duration::from_millis(100);

/// The subject of sampling: a command, a workload, processes or the whole machine.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct SubjectArgs {
    /// Command to run once and sample, one argument, split like a shell does
    #[arg(value_name = "COMMAND", conflicts_with_all = ["workload", "pid", "all"])]
    command: Option<OsString>,

    /// Built-in workload with parameters, NAME[:KEY=VALUE,...]; opcost runs it once and samples its work only
    #[arg(long, short = 'w', value_name = "WORKLOAD", conflicts_with_all = ["pid", "all"])]
    workload: Option<String>,

    /// Parameter of the workload, KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "workload")]
    param: Vec<String>,

    /// Sample this process, with all its threads and what they start, until it ends or Ctrl-C
    #[arg(long, short = 'p', value_name = "PID", conflicts_with = "all",
          value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,

    /// Sample everything on the machine until Ctrl-C
    #[arg(long, short = 'a')]
    all: bool,

    /// Stop sampling a process or the machine after this time, for example 10s
    #[arg(long, value_name = "TIME", conflicts_with_all = ["command", "workload"])]
    duration: Option<TimeLimit>,

    /// Run commands through this shell instead of directly (plain --shell means /bin/sh)
    #[arg(long, value_name = "SHELL", num_args = 0..=1, require_equals = true,
          default_missing_value = "/bin/sh", requires = "command")]
    shell: Option<String>,

    /// Show what the commands print instead of discarding it
    #[arg(long, requires = "command")]
    show_output: bool,

    #[command(flatten)]
    sampling: SamplingArgs,
}

/// The samples of some work, and facts about the work.
pub(super) struct Taken {
    /// How the samples were taken.
    pub about: About,
    /// The samples, without names.
    pub recorded: Recorded,
    /// The name of the work.
    pub name: String,
    /// The number of operations, if a workload was sampled.
    pub ops: Option<u64>,
    /// How the command or workload failed, if it did.
    pub failure: Option<Failure>,
}

impl SubjectArgs {
    /// Whether the user asks for something to be sampled.
    pub(super) fn is_given(&self) -> bool {
        self.command.is_some() || self.workload.is_some() || self.pid.is_some() || self.all
    }

    /// Asks for a command to be run.
    pub(super) fn set_command(&mut self, command: String) {
        self.command = Some(command.into());
    }

    /// Whether the user asks for a command to be run.
    pub(super) fn is_command(&self) -> bool {
        self.command.is_some()
    }

    /// Samples the work that the user asks for.
    ///
    /// `ops`: where a command prints the number of its operations, if it is to be read.
    ///
    /// # Errors
    /// A usage error; a right that the kernel denies, with a remedy; Ctrl-C before a command's end.
    pub(super) fn take(&self, ops: Option<&OpsPattern>) -> Result<Taken> {
        let plan = self.sampling.plan()?;
        let interrupt = Interrupt::install()
            .context("cannot install the signal handler")
            .status(Status::Missing)?;
        match (&self.command, &self.workload) {
            (None, None) => self.watch(&plan, &interrupt),
            _ => self.run(&plan, &interrupt, ops),
        }
    }

    /// Runs and samples a command or a workload once.
    fn run(
        &self,
        sampling: &SamplingPlan,
        interrupt: &Interrupt,
        ops: Option<&OpsPattern>,
    ) -> Result<Taken> {
        let mut variant = match (&self.command, &self.workload) {
            (_, Some(workload)) => parse_workload(workload)?,
            (command, None) => {
                let shell = self.shell.as_deref().filter(|shell| *shell != NO_SHELL);
                let command = command.as_deref().map(|line| command_of(line, shell)).transpose()?;
                Variant { command, ..Variant::default() }
            }
        };
        for param in &self.param {
            let Some((key, value)) = param.split_once('=') else {
                return Err(fail(Status::Usage, format!("--param {param}: expected KEY=VALUE")));
            };
            variant.params.insert(key.into(), Scalar::Text(value.into()));
        }
        // A plan compares variants; the second one is not run.
        let named = |name: &str| Variant { name: Some(name.into()), ..variant.clone() };
        let experiment = Experiment {
            variants: vec![named("sampled"), named("not run")],
            events: vec!["task-clock".into()],
            profile: true,
            frequency: Some(sampling.frequency_hz),
            call_graph: Some(sampling.call_graph),
            stack_bytes: sampling.copied_bytes(),
            shell: self.shell.clone(),
            show_output: self.show_output,
            ops: ops.cloned(),
            ..Experiment::default()
        };
        let plan = resolve(&experiment, &HostSurroundings)?;
        let slot = plan.slots().next().context("a plan without runs")?;
        let mut host = Host::new(&plan, Rc::new(LivePerf::default()), interrupt)?;
        let Some(end) = host.run(&plan, &slot)? else {
            return Err(fail(Status::Interrupted, "interrupted before the work was done"));
        };
        let failure = match end.outcome {
            Outcome::Finished => None,
            Outcome::Failed(failure) => Some(failure),
        };
        let name = plan.variants[0].work.describe();
        let Some(recorded) = host.take_recorded() else {
            let why = failure.as_ref().map_or("it said nothing of its work".into(), |failure| {
                opcost_base::failure::in_words(failure)
            });
            return Err(fail(Status::WorkFailed, format!("{name}: {why}")));
        };
        let granted = host.sampled().context("a run without samples")?;
        let wall = MetricKey::new("wall", Domain::All, "clock");
        let wall = end.report.readings.iter().find(|reading| reading.key == wall);
        let mut about = about(sampling, granted, &name, wall.map(|wall| wall.value));
        // The kernel counts the CPU time of the work and of its children, whether it is sampled or not.
        let clock = end.report.readings.iter().find(|reading| reading.key == sampling::metric());
        about.cpu_ns = clock.map(|clock| clock.value);
        Ok(Taken { about, recorded, name, ops: end.report.ops, failure })
    }

    /// Samples processes that run already.
    fn watch(&self, sampling: &SamplingPlan, interrupt: &Interrupt) -> Result<Taken> {
        let proc_root = Path::new("/proc");
        let (target, pids, name) = match self.pid {
            Some(pid) => {
                let threads = existing::threads(proc_root, pid);
                if threads.is_empty() {
                    return Err(fail(Status::Missing, AttachError::NoProcess { pid }.to_string()));
                }
                (SamplingTarget::Threads(threads), vec![pid], format!("process {pid}"))
            }
            None => {
                let pids = existing::processes(proc_root);
                (SamplingTarget::Machine, pids, "the whole machine".to_string())
            }
        };
        let cpus = allowed_cpus().context("cannot tell the CPUs")?;
        let recorder = Recorder::open(sampling, &cycles_or_clock(), &target, false, &cpus)
            .status(Status::Missing)?;
        let granted = recorder.granted();
        let mut intake = recorder.intake();
        recorder.enable().status(Status::Missing)?;
        existing::report(proc_root, &pids, |event| intake.event(event));
        let begun_ns = monotonic_ns();
        let collecting = recorder.collect(intake, true).status(Status::Missing)?;
        let elapsed = || Duration::from_nanos(monotonic_ns().saturating_sub(begun_ns));
        let limit = self.duration.map(|limit| Duration::from_millis(limit.limit_ms));
        let alive = || self.pid.is_none_or(|pid| !existing::threads(proc_root, pid).is_empty());
        while !interrupt.is_set() && alive() {
            let left = limit.map(|limit| limit.saturating_sub(elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            std::thread::sleep(left.unwrap_or(GLANCE).min(GLANCE));
        }
        let elapsed_ns = elapsed().as_nanos() as u64;
        let intake = collecting.stop().context("cannot read samples")?;
        let (mut recorded, _) = intake.finish(0..=u64::MAX).context("cannot read samples")?;
        // Processes that run already execute various programs, so none is named.
        recorded.program = None;
        let about = about(sampling, granted, &name, Some(elapsed_ns));
        Ok(Taken { about, recorded, name, ops: None, failure: None })
    }
}

fn about(sampling: &SamplingPlan, granted: Granted, name: &str, duration_ns: Option<u64>) -> About {
    let event = format!("{}{}", granted.event, if granted.user_only { ":u" } else { "" });
    About {
        format: "samples taken by opcost",
        event: event.clone(),
        events: vec![event],
        sampling: Some(EventAbout {
            clock: granted.time,
            bytes: false,
            precise: (!granted.time).then_some(0),
            exact: false,
            counted_with: None,
            frequency_hz: Some(sampling.frequency_hz),
            period: None,
            with_callers: sampling.call_graph != CallGraph::None,
        }),
        command: Some(name.to_string()),
        duration_ns,
        ..About::default()
    }
}
