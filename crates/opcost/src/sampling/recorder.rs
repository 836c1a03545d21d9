//! The kernel's sampling events, open, and the thread that empties their ring buffers.

use super::{CallGraph, Intake, SamplingPlan};
use opcost_profile::ring::Layout;
use opcost_sys::perf::constants::generic_name;
use opcost_sys::perf::{
    GenericEvent, Sampler, SamplingAttr, SamplingError, SamplingTarget, UNWIND_REGISTERS_MASK,
    is_time,
};
use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often ring buffers are emptied that do not fill; the thread's work is noise for what runs.
const ROUND: Duration = Duration::from_millis(500);

/// What the kernel let us sample, of what was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Granted {
    /// The event's name.
    pub event: &'static str,
    /// Whether a sample's period is nanoseconds; else it is in the event's own unit.
    pub time: bool,
    /// Whether the kernel could not be looked at, for lack of rights.
    pub user_only: bool,
}

/// Sampling events that are open and stopped, or begin with the process's program.
pub struct Recorder {
    sampler: Sampler,
    layout: Layout,
    granted: Granted,
}

impl Recorder {
    /// Opens the first of the events that this machine has; of processes without the kernel, where
    /// the rights do not suffice for it.
    ///
    /// `on_exec`: begin when the process executes a program; `cpus`: those that may run it.
    ///
    /// # Errors
    /// [`SamplingError`] of the last that was tried.
    pub fn open(
        plan: &SamplingPlan,
        events: &[GenericEvent],
        target: &SamplingTarget,
        on_exec: bool,
        cpus: &[usize],
    ) -> Result<Recorder, SamplingError> {
        let dwarf = plan.call_graph == CallGraph::Dwarf;
        let layout = Layout {
            call_chain: plan.call_graph != CallGraph::None,
            user_registers_mask: if dwarf { UNWIND_REGISTERS_MASK } else { 0 },
        };
        let mut refusal = SamplingError::Ended;
        for event in events {
            for user_only in [false, true] {
                let attr = SamplingAttr {
                    event: *event,
                    frequency_hz: plan.frequency_hz,
                    sample_type: layout.sample_type(),
                    user_registers_mask: layout.user_registers_mask,
                    user_stack_bytes: if dwarf { plan.user_stack_bytes } else { 0 },
                    exclude_kernel: user_only,
                    enable_on_exec: on_exec,
                };
                match Sampler::open(&attr, target, cpus) {
                    Ok(sampler) => {
                        let granted = Granted {
                            event: generic_name(event.kind, event.config).unwrap_or("event"),
                            time: is_time(*event),
                            user_only,
                        };
                        return Ok(Recorder { sampler, layout, granted });
                    }
                    Err(error) => refusal = error,
                }
                if !refusal.is_forbidden() || *target == SamplingTarget::Machine {
                    break;
                }
            }
            if !refusal.lacks_event() {
                break;
            }
        }
        Err(refusal)
    }

    /// What is sampled.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// An intake for what these events write.
    pub fn intake(&self) -> Intake {
        Intake::new(self.layout)
    }

    /// Begins to sample; not needed where sampling begins with a program.
    ///
    /// # Errors
    /// [`SamplingError::Control`].
    pub fn enable(&self) -> Result<(), SamplingError> {
        self.sampler.enable()
    }

    /// Waits, for this long at most, and takes what was written since the last time.
    ///
    /// # Errors
    /// The kernel's.
    pub fn round(&mut self, limit: Duration, words: &mut Vec<u64>) -> io::Result<()> {
        self.sampler.wait(limit, None)?;
        words.clear();
        self.sampler.drain(words);
        Ok(())
    }

    /// Empties the ring buffers into `intake` by a thread of its own, until that is stopped.
    ///
    /// With `settle`, what is settled is looked at at once, so that memory does not grow with time;
    /// without, the thread does as little as it can.
    ///
    /// # Errors
    /// The system has no pipe or no thread left.
    pub fn collect(mut self, mut intake: Intake, settle: bool) -> io::Result<Collecting> {
        let (wake, waker) = io::pipe()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = stopping.clone();
        let thread = thread::Builder::new().name("sampling".into()).spawn(move || {
            let mut words = Vec::new();
            loop {
                let last = seen.load(Ordering::Acquire);
                if !last {
                    self.sampler.wait(ROUND, Some(wake.as_fd()))?;
                } else {
                    // A process that was let go on is looked at no more.
                    let _ = self.sampler.disable();
                }
                words.clear();
                self.sampler.drain(&mut words);
                intake.add(&words);
                if settle {
                    intake.settle(|_| true);
                }
                if last {
                    return Ok(intake);
                }
            }
        })?;
        Ok(Collecting { stopping, waker, thread })
    }
}

/// Samples that are being collected.
pub struct Collecting {
    stopping: Arc<AtomicBool>,
    waker: PipeWriter,
    thread: JoinHandle<io::Result<Intake>>,
}

impl Collecting {
    /// Ends sampling and gives all that was collected.
    ///
    /// # Errors
    /// The kernel's, from the thread.
    pub fn stop(self) -> io::Result<Intake> {
        self.stopping.store(true, Ordering::Release);
        // Closed, it can be read.
        drop(self.waker);
        match self.thread.join() {
            Ok(done) => done,
            Err(_) => Err(io::Error::other("the thread that collects samples died")),
        }
    }
}
