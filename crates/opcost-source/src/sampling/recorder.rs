//! The kernel's open sampling events, and the thread that empties their ring buffers.

use super::{CallGraph, Intake, SamplingPlan};
use opcost_profile::ring::Layout;
use opcost_sys::perf::constants::generic_name;
use opcost_sys::perf::{
    GenericEvent, Sampler, SamplingAttr, SamplingError, SamplingTarget, UNWIND_REGISTERS_MASK,
    is_time,
};
use opcost_sys::scheduling::without_preempting;
use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The interval at which ring buffers are emptied before they are full. The thread's work disturbs the sampled programs.
const ROUND: Duration = Duration::from_millis(500);

/// The sampling that the kernel allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Granted {
    /// The event's name.
    pub event: &'static str,
    /// Whether a sample's period is in nanoseconds; else it is in the event's unit.
    pub time: bool,
    /// Whether the kernel's own code is left out for lack of rights.
    pub user_only: bool,
}

/// Open sampling events. They are stopped, or start together with the process's program.
pub struct Recorder {
    sampler: Sampler,
    layout: Layout,
    granted: Granted,
}

impl Recorder {
    /// Opens the first of the events that this machine has. For processes, kernel code is left out if the rights do not include it.
    ///
    /// `on_exec`: start when the process executes a program; `cpus`: the CPUs that may run the process.
    ///
    /// # Errors
    /// [`SamplingError`] of the last event that was tried.
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

    /// The event and parts of the system that are sampled.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// An intake for the records of these events.
    pub fn intake(&self) -> Intake {
        Intake::new(self.layout)
    }

    /// Starts sampling; not needed if sampling starts with a program.
    ///
    /// # Errors
    /// [`SamplingError::Control`].
    pub fn enable(&self) -> Result<(), SamplingError> {
        self.sampler.enable()
    }

    /// Waits up to `limit`, then reads the words written since the last round.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn round(&mut self, limit: Duration, words: &mut Vec<u64>) -> io::Result<()> {
        self.sampler.wait(limit, None)?;
        words.clear();
        self.sampler.drain(words);
        Ok(())
    }

    /// Starts a thread that empties the ring buffers into `intake` until it is stopped.
    ///
    /// With `settle`, the thread processes settled records at once, so that memory does not grow with time. Without `settle`, the
    /// thread works as little as possible.
    ///
    /// # Errors
    /// The system has no pipe or thread left.
    pub fn collect(mut self, mut intake: Intake, settle: bool) -> io::Result<Collecting> {
        let (wake, waker) = io::pipe()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let seen = stopping.clone();
        let thread = thread::Builder::new().name("sampling".into()).spawn(move || {
            // The sampled process wakes this thread.
            let _waits = without_preempting();
            let mut words = Vec::new();
            loop {
                let last = seen.load(Ordering::Acquire);
                if !last {
                    self.sampler.wait(ROUND, Some(wake.as_fd()))?;
                } else {
                    // A process that was released is not sampled any more.
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

/// A running collection of samples.
pub struct Collecting {
    stopping: Arc<AtomicBool>,
    waker: PipeWriter,
    thread: JoinHandle<io::Result<Intake>>,
}

impl Collecting {
    /// Stops sampling and returns everything that was collected.
    ///
    /// # Errors
    /// The kernel's error, from the thread.
    pub fn stop(self) -> io::Result<Intake> {
        self.stopping.store(true, Ordering::Release);
        // The other end of a closed pipe is readable, which wakes the thread.
        drop(self.waker);
        match self.thread.join() {
            Ok(done) => done,
            Err(_) => Err(io::Error::other("the thread that collects samples died")),
        }
    }
}
