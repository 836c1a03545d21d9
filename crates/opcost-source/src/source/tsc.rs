//! The time stamp counter.

use super::{Source, SourceContext};
use anyhow::Result;
use opcost_record::{Domain, MetricKey, Reading};
use opcost_sys::clock::tsc;
use opcost_sys::spawn::Exit;

pub(super) const NAME: &str = "tsc";

#[derive(Default)]
struct Tsc {
    started_ticks: Option<u64>,
    stopped_ticks: Option<u64>,
}

pub(super) fn make(_: &SourceContext<'_>) -> Box<dyn Source> {
    Box::new(Tsc::default())
}

impl Source for Tsc {
    fn start(&mut self) -> Result<()> {
        self.started_ticks = tsc();
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.stopped_ticks = tsc();
        Ok(())
    }

    fn read(&mut self, region: &str, _: Option<&Exit>, readings: &mut Vec<Reading>) -> Result<()> {
        // Counters of two CPUs may differ if they are not synchronised; a negative difference gives no reading.
        let ticks = self
            .stopped_ticks
            .zip(self.started_ticks)
            .and_then(|(stop, start)| stop.checked_sub(start));
        if let Some(ticks) = ticks {
            let key = MetricKey {
                region: region.to_string(),
                ..MetricKey::new("tsc", Domain::All, NAME)
            };
            readings.push(Reading::plain(key, ticks));
        }
        Ok(())
    }
}
