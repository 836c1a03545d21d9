//! A running program as a machine: each run is a period of its life with its site on one side.

mod meter;

use super::{Machine, RunEnd, Together};
use anyhow::{Context, Result, bail};
use meter::Meter;
use opcost_base::exit::{Status, WithStatus, carry};
use opcost_base::message::announce;
use opcost_base::number::figure;
use opcost_model::plan::{Group, Plan, Slot};
use opcost_record::{Failure, Outcome, Reading, Report, Unit};
use opcost_sys::clock::unix_ns;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::{LivePerf, PerfKernel};
use patchpoint_attach::change::Change;
use patchpoint_attach::guardian::{Guardian, Undo};
use patchpoint_attach::memory::Memory;
use patchpoint_attach::process::Process;
use patchpoint_attach::target::Restored;
use patchpoint_attach::writes::Side;
use patchpoint_attach::{AttachError, ChangeError};
use std::ffi::OsString;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The hidden command of the guardian.
const GUARDIAN: &str = "attach-guardian";
/// The longest sleep between two checks whether the user wants to stop.
const SLICE: Duration = Duration::from_millis(20);

/// The longest period while no operation is counted, as a multiple of the asked length.
const PERIODS_MAX: u32 = 50;

/// A program to which opcost is attached. Dropping this value restores the program.
pub struct Attached<'a> {
    process: Process,
    change: Change,
    /// The side that the site is on; `None` after a change that failed.
    side: Option<Side>,
    meter: Meter,
    ops_address: Option<u64>,
    interrupt: &'a Interrupt,
    guardian: Option<Guardian>,
    stops_ns: Vec<u64>,
}

/// How long the changes stopped the program, and how the program was left.
pub struct Flips {
    stops_ns: Vec<u64>,
    /// The state in which the program was left, in words.
    left: String,
}

impl Flips {
    /// Describes the changes, in one sentence or two.
    pub fn describe(&self, key: &str) -> String {
        let mut stops_ns = self.stops_ns.clone();
        stops_ns.sort_unstable();
        let time = |ns: u64| figure(ns as f64, Unit::Ns);
        let stood = match (stops_ns.get(stops_ns.len() / 2), stops_ns.last()) {
            (Some(median), Some(most)) => format!(
                "'{key}' was changed {} times; the program stood still for {} each time (median), {} \
                 at most",
                stops_ns.len(),
                time(*median),
                time(*most)
            ),
            _ => format!("'{key}' was not changed"),
        };
        format!("{stood}; {}", self.left)
    }
}

impl<'a> Attached<'a> {
    /// Opens counters on every thread of the process, and starts the guardian. Does not change the program yet.
    ///
    /// # Errors
    /// The process cannot be stopped, a counter cannot be opened, there is no guardian.
    pub fn begin(
        process: Process,
        change: Change,
        plan: &Plan,
        ops_address: Option<u64>,
        interrupt: &'a Interrupt,
    ) -> Result<Attached<'a>> {
        let kernel: Rc<dyn PerfKernel> = Rc::new(LivePerf::default());
        let mut meter = None;
        let open = |threads: &[i32]| meter = Some(Meter::open(&plan.events, threads, &kernel));
        process.while_stopped(&change, Side::FOUND, open).map_err(carried)?;
        let meter = meter.context("no thread was there to be counted")??;
        let key = plan.attachment().map_or("", |of| of.key.as_str());
        let guardian = stand_guard(&process, key, &change)?;
        Ok(Attached {
            process,
            change,
            side: Some(Side::FOUND),
            meter,
            ops_address,
            interrupt,
            guardian: Some(guardian),
            stops_ns: Vec::new(),
        })
    }

    /// Restores the program as it was found.
    ///
    /// # Errors
    /// The program could not be restored: the error says what is left, and why. If the program
    /// cannot be stopped at the moment, the guardian goes on trying.
    pub fn end(mut self) -> Result<Flips, AttachError> {
        let pid = self.process.pid;
        let left = match self.restore()? {
            Restored::Done { forked: 0 } => format!("process {pid} is as it was found"),
            Restored::Done { forked } => format!(
                "process {pid} is as it was found, and so are {forked} that it forked meanwhile"
            ),
            Restored::Gone => self.process.gone().to_string(),
        };
        Ok(Flips { stops_ns: std::mem::take(&mut self.stops_ns), left })
    }

    fn restore(&mut self) -> Result<Restored, AttachError> {
        let Some(guardian) = self.guardian.take() else {
            return Ok(Restored::Done { forked: 0 });
        };
        let restored = match self.side {
            Some(Side::FOUND) if self.process.is_alive() => {
                Ok(Restored::Done { forked: self.process.restore_forked(&self.change) })
            }
            Some(Side::FOUND) => Ok(Restored::Gone),
            _ => self.process.restore(&self.change),
        };
        match restored {
            // The guardian then takes its owner for dead, and restores what is left to be restored.
            Err(AttachError::Stop(_) | AttachError::Busy { .. }) => drop(guardian),
            _ => guardian.stop(),
        }
        restored
    }

    /// Puts the site on a side.
    fn turn(&mut self, to: Side) -> Result<(), AttachError> {
        let from = match self.side {
            Some(side) if side == to => return Ok(()),
            Some(side) => side,
            // `end` restores what a failed change left.
            None => Side::FOUND,
        };
        if !self.guardian.as_mut().is_some_and(Guardian::is_alive) {
            return Err(AttachError::Guardian { what: "has ended".into() });
        }
        // From here on the program may be changed, whatever `apply` reports.
        self.side = None;
        let applied = self.process.apply(&self.change, from, to, |_| ())?;
        self.side = Some(to);
        self.stops_ns.push(applied.stopped_ns);
        Ok(())
    }

    /// Sleeps; false if the user wants to stop.
    fn sleep(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while !self.interrupt.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(SLICE));
        }
        false
    }

    fn ops(&self) -> Result<Option<u64>, AttachError> {
        let Some(address) = self.ops_address else { return Ok(None) };
        let ops = self.process.number(address);
        ops.map(Some).map_err(|_| self.process.gone())
    }

    /// Watches the program for one period; `None` if the user wants to stop. If the program counts
    /// operations, the period goes on until it counts one, but not for ever.
    fn period(&mut self, time: Duration) -> Result<Option<(Option<u64>, Vec<Reading>)>> {
        self.meter.start()?;
        let before = self.ops();
        let mut slept = self.sleep(time);
        let mut after = self.ops();
        // Other programs may have kept this one from its CPU, so that it has done nothing yet.
        for _ in 1..PERIODS_MAX {
            let (Ok(Some(one)), Ok(Some(two))) = (&before, &after) else { break };
            if !slept || one != two || !self.process.is_alive() {
                break;
            }
            slept = self.sleep(time);
            after = self.ops();
        }
        self.meter.stop()?;
        let readings = self.meter.read()?;
        if !slept {
            return Ok(None);
        }
        let ops = after?.zip(before?).map(|(after, before)| after.wrapping_sub(before));
        Ok(Some((ops, readings)))
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            announce!("{error}");
        }
    }
}

impl Attached<'_> {
    /// One period with the site on the side of the slot's variant; `None` if the user wants to stop.
    fn run(&mut self, plan: &Plan, slot: &Slot) -> Result<Option<RunEnd>> {
        let Some(attachment) = plan.attachment() else { bail!("the plan is attached to nothing") };
        let started_unix_ns = unix_ns();
        let ended = |outcome, report| {
            Ok(Some(RunEnd { started_unix_ns, outcome, exit_code: None, report, profile: None }))
        };
        let failed =
            |detail: String| ended(Outcome::Failed(Failure::Work { detail }), Report::default());
        if let Err(error) = self.turn(Side(usize::from(slot.variant))) {
            return failed(error.to_string());
        }
        if !self.sleep(Duration::from_nanos(attachment.settle_ns)) {
            return Ok(None);
        }
        let period = self.period(Duration::from_nanos(attachment.period_ns));
        if !self.process.is_alive() {
            return failed(self.process.gone().to_string());
        }
        let Some((ops, readings)) = period? else { return Ok(None) };
        if ops == Some(0) {
            return failed(format!(
                "process {} counted no operation in {PERIODS_MAX} periods: it is idle, or stopped; \
                 give it work, or a longer --period",
                self.process.pid
            ));
        }
        ended(Outcome::Finished, Report { ops, readings, invariants: Vec::new() })
    }
}

impl Machine for Attached<'_> {
    fn run_together(&mut self, plan: &Plan, group: &Group<'_>) -> Result<Together> {
        Ok(Together::of_one(self.run(plan, group.first())?.map(|end| vec![end])))
    }

    /// opcost did not start the program.
    fn environment(&self, _: usize) -> Option<&[(OsString, OsString)]> {
        None
    }
}

/// An error of attaching with its exit status.
pub fn carried(error: AttachError) -> anyhow::Error {
    let status = match &error {
        AttachError::Change(ChangeError::Same { .. } | ChangeError::Twice { .. }) => Status::Usage,
        AttachError::Denied { .. }
        | AttachError::Stop(_)
        | AttachError::Write { .. }
        | AttachError::Guardian { .. } => Status::Missing,
        _ => Status::WorkFailed,
    };
    carry(status, error)
}

/// Starts the process that takes a change back if this process dies.
pub fn stand_guard(process: &Process, key: &str, change: &Change) -> Result<Guardian> {
    let own = std::env::current_exe()
        .context("cannot find this program's own executable")
        .status(Status::Missing)?;
    let undo = Undo {
        pid: process.pid,
        started_ticks: process.started_ticks,
        key: key.to_string(),
        change: change.clone(),
    };
    Guardian::start(&own, &[GUARDIAN], &undo).map_err(carried)
}
