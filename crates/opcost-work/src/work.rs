//! What a workload is to those who run it, and what counts it.

use crate::error::WorkError;
use opcost_record::{Invariant, Reading, Report};

/// The parameter whose values are code paths that [`Work::exchange`] takes.
pub const PATH: &str = "path";

/// A prepared workload, in the process that does the work.
///
/// [`twin`](Work::twin) and [`work`](Work::work) run in counted regions: no clock, output,
/// allocation or lock in them. Dropping it releases what it set up.
pub trait Work {
    /// How many operations the work is.
    fn ops(&self) -> u64;

    /// Executes the code and fills the caches of both passes, and leaves the state as it was
    /// prepared.
    ///
    /// # Errors
    /// [`WorkError`]: an operation failed.
    fn warm_up(&mut self) -> Result<(), WorkError>;

    /// Makes the operations take another code path from now on, everything else as it is.
    ///
    /// `path`: a value of the parameter [`PATH`].
    ///
    /// # Errors
    /// [`WorkError`]: there is no such path, or this CPU cannot take it. A workload without that
    /// parameter refuses.
    fn exchange(&mut self, path: &str) -> Result<(), WorkError> {
        let _ = path;
        Err(WorkError::NotExchangeable)
    }

    /// Goes through the same loop as the work, with the operations themselves left out.
    fn twin(&mut self);

    /// Performs the operations.
    ///
    /// # Errors
    /// [`WorkError`]: an operation failed; the rest was not done.
    fn work(&mut self) -> Result<(), WorkError>;

    /// What must be the same in every run of this work, after it was done.
    ///
    /// Counts as decimal numbers and one hash, [`OP_STREAM_HASH`](crate::OP_STREAM_HASH); several
    /// tasks have to report the same. With
    /// [`PAGE_FAULTS_EXPECTED`](crate::PAGE_FAULTS_EXPECTED), without the measured page faults.
    ///
    /// # Errors
    /// [`WorkError`]: the work turns out not to have been done right.
    fn invariants(&mut self) -> Result<Vec<Invariant>, WorkError>;

    /// What else is known of the work after it was done, and may differ from run to run: readings
    /// of the source [`WORKLOAD`](opcost_record::WORKLOAD).
    fn figures(&self) -> Vec<Reading> {
        Vec::new()
    }
}

/// What counts: perf counters on the host, marker instructions in a guest.
pub trait Meter {
    /// Starts counting a region.
    fn start(&mut self, region: &'static str);
    /// Stops counting it.
    fn stop(&mut self, region: &'static str);
}

/// Those who do the work: this process, or several tasks. The steps come in this order.
pub(crate) trait Crew {
    fn warm_up(&mut self) -> Result<(), WorkError>;
    fn twin(&mut self) -> Result<(), WorkError>;
    /// The last step before the work, outside the counted region.
    fn make_ready(&mut self) -> Result<(), WorkError>;
    fn work(&mut self) -> Result<(), WorkError>;
    /// What each task did.
    fn report(&mut self) -> Result<Vec<Report>, WorkError>;
}
