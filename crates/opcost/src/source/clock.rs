//! Elapsed time.

use super::{Source, SourceContext};
use anyhow::Result;
use opcost_record::{Domain, MetricKey, Reading};
use opcost_sys::clock::monotonic_ns;
use opcost_sys::spawn::Exit;

pub(super) const NAME: &str = "clock";

#[derive(Default)]
struct Clock {
    started_ns: u64,
    stopped_ns: u64,
}

pub(super) fn make(_: &SourceContext<'_>) -> Box<dyn Source> {
    Box::new(Clock::default())
}

impl Source for Clock {
    fn start(&mut self) -> Result<()> {
        self.started_ns = monotonic_ns();
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.stopped_ns = monotonic_ns();
        Ok(())
    }

    fn read(
        &mut self,
        region: &str,
        exit: Option<&Exit>,
        readings: &mut Vec<Reading>,
    ) -> Result<()> {
        // A command's own times exclude what we do around it.
        let wall_ns = match exit {
            Some(exit) => exit.ended_ns - exit.started_ns,
            None => self.stopped_ns - self.started_ns,
        };
        let key =
            MetricKey { region: region.to_string(), ..MetricKey::new("wall", Domain::All, NAME) };
        readings.push(Reading::plain(key, wall_ns));
        Ok(())
    }
}
