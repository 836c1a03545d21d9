//! The interfaces of a workload, of the meter around it, and of the crew that does it.

use crate::error::WorkError;
use opcost_record::{Invariant, Reading, Report};

/// The parameter whose values are the code paths that [`Work::exchange`] accepts.
pub const PATH: &str = "path";

/// A prepared workload, in the process that does the work.
///
/// [`twin`](Work::twin) and [`work`](Work::work) run in counted regions: they use no clock, output, allocation or lock. Dropping
/// the value releases everything that it set up.
pub trait Work {
    /// The number of operations in the work.
    fn ops(&self) -> u64;

    /// Executes the code and fills the caches of both passes, and leaves the state as prepared.
    ///
    /// # Errors
    /// [`WorkError`]: an operation failed.
    fn warm_up(&mut self) -> Result<(), WorkError>;

    /// Makes the operations take another code path from now on, and changes nothing else.
    ///
    /// `path`: a value of the parameter [`PATH`].
    ///
    /// # Errors
    /// [`WorkError`]: no path has this name, or this CPU cannot take it. A workload without the parameter refuses.
    fn exchange(&mut self, path: &str) -> Result<(), WorkError> {
        let _ = path;
        Err(WorkError::NotExchangeable)
    }

    /// Goes through the same loop as the work, with the operations themselves left out.
    fn twin(&mut self);

    /// Performs the operations.
    ///
    /// # Errors
    /// [`WorkError`]: an operation failed; later operations were not done.
    fn work(&mut self) -> Result<(), WorkError>;

    /// Returns, after the work, the values that must be the same in every run of this work.
    ///
    /// The values are counts as decimal numbers, and one hash, [`OP_STREAM_HASH`](crate::OP_STREAM_HASH); several tasks must report
    /// the same values. They include [`PAGE_FAULTS_EXPECTED`](crate::PAGE_FAULTS_EXPECTED), but not the measured page faults.
    ///
    /// # Errors
    /// [`WorkError`]: the work turns out to be wrong.
    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError>;

    /// Returns, after the work, further facts that may differ from run to run: readings of the source
    /// [`WORKLOAD`](opcost_record::WORKLOAD).
    fn figures(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// The meter around the work: perf counters on the host, marker instructions in a guest.
pub trait Meter {
    /// Called right before the work's region: what was deferred before should not fall into it.
    fn settle(&mut self) {}
    /// Called right after the work's region, for the work that it left to the kernel.
    fn drain(&mut self) {}
    /// Starts counting a region.
    fn start(&mut self, region: &'static str);
    /// Stops counting the region.
    fn stop(&mut self, region: &'static str);
}

/// The workers: this process, or several tasks. The steps are called in this order.
pub(crate) trait Crew {
    fn warm_up(&mut self) -> Result<(), WorkError>;
    fn twin(&mut self) -> Result<(), WorkError>;
    /// The last step before the work, outside the counted region.
    fn make_ready(&mut self) -> Result<(), WorkError>;
    fn work(&mut self) -> Result<(), WorkError>;
    /// Returns the report of each task.
    fn report(&mut self) -> Result<Vec<Report>, WorkError>;
}
