//! The meter around the regions of a workload, in the process that performs the workload.

use anyhow::Result;
use opcost_record::Reading;
use opcost_source::source::{EventPlan, Scope, Source, SourceContext, sources};
use opcost_sys::perf::PerfKernel;
use std::rc::Rc;

/// The readings of a region of this process, by the sources of its scope.
pub(super) struct RegionMeter {
    sources: Vec<Box<dyn Source>>,
    /// Everything read so far.
    pub(super) readings: Vec<Reading>,
    /// The first error.
    pub(super) failure: Option<anyhow::Error>,
}

impl RegionMeter {
    /// Opens the sources on this process; workers forked later are counted too.
    pub(super) fn attach(
        events: &[EventPlan],
        kernel: Rc<dyn PerfKernel>,
        team: bool,
        sampled: bool,
    ) -> Result<RegionMeter> {
        let scope = Scope::Region;
        let context = SourceContext { scope, events, kernel, team, cpu: None, sampled };
        let mut sources = sources(&context);
        for source in &mut sources {
            source.attach(0)?;
        }
        Ok(RegionMeter { sources, readings: Vec::with_capacity(64), failure: None })
    }

    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.failure.get_or_insert(error);
        }
    }
}

impl opcost_work::Meter for RegionMeter {
    fn start(&mut self, _: &'static str) {
        for source in 0..self.sources.len() {
            let done = self.sources[source].start();
            self.note(done);
        }
    }

    fn stop(&mut self, region: &'static str) {
        for source in (0..self.sources.len()).rev() {
            let done = self.sources[source].stop();
            self.note(done);
        }
        for source in 0..self.sources.len() {
            let done = self.sources[source].read(region, None, &mut self.readings);
            self.note(done);
        }
    }
}
