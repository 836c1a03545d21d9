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

    fn now(&self, sums: &mut Vec<Option<Reading>>) -> Result<()> {
        let key = MetricKey::new("wall", Domain::All, NAME);
        sums.push(Some(Reading::plain(key, monotonic_ns())));
        Ok(())
    }

    fn read(
        &mut self,
        region: &str,
        exit: Option<&Exit>,
        readings: &mut Vec<Reading>,
    ) -> Result<()> {
        // A command's own times exclude opcost's work around the command.
        let (started_ns, ended_ns) = match exit {
            Some(exit) => (exit.started_ns, exit.ended_ns),
            None => (self.started_ns, self.stopped_ns),
        };
        // A clock that went backwards, as a hypervisor's may, gives no reading.
        if let Some(wall_ns) = ended_ns.checked_sub(started_ns) {
            let key = MetricKey {
                region: region.to_string(),
                ..MetricKey::new("wall", Domain::All, NAME)
            };
            readings.push(Reading::plain(key, wall_ns));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_sys::rusage::Rusage;
    use opcost_sys::spawn::{EndedBy, Status};

    fn check(clock: &mut Clock, exit: Option<&Exit>, expected: &[u64]) {
        let mut readings = Vec::new();
        clock.read("work", exit, &mut readings).unwrap();
        let values: Vec<u64> = readings.iter().map(|reading| reading.value).collect();
        assert_eq!(values, expected);
    }

    #[test]
    fn a_clock_that_goes_backwards_gives_no_reading() {
        check(&mut Clock { started_ns: 100, stopped_ns: 130 }, None, &[30]);
        check(&mut Clock { started_ns: 100, stopped_ns: 99 }, None, &[]);
        let exit = |started_ns, ended_ns| Exit {
            status: Status::Code(0),
            ended_by: EndedBy::Itself,
            rss_bytes_max: None,
            rusage: Rusage::default(),
            started_ns,
            ended_ns,
        };
        check(&mut Clock::default(), Some(&exit(5, 8)), &[3]);
        check(&mut Clock::default(), Some(&exit(8, 5)), &[]);
    }
}
