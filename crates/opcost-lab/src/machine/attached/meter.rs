//! The counters of every thread of a running program, summed.

use anyhow::Result;
use opcost_base::exit::{Status, WithStatus};
use opcost_model::plan::EventPlan;
use opcost_record::{CountingTime, Reading, WORK};
use opcost_source::source::perf_event::Counters;
use opcost_source::source::{Scope, Source, SourceContext, sources};
use opcost_sys::perf::PerfKernel;
use std::rc::Rc;

/// Counters on threads that run already. A thread that they make later inherits the counters, so it
/// is counted, too.
pub(super) struct Meter {
    /// Sources that are read once for the whole program: the clock.
    whole: Vec<Box<dyn Source>>,
    threads: Vec<Counters>,
}

impl Meter {
    /// Opens the counters on each thread.
    ///
    /// # Errors
    /// A counter cannot be opened: names the event, the reason and a remedy.
    pub(super) fn open(
        events: &[EventPlan],
        threads: &[i32],
        kernel: &Rc<dyn PerfKernel>,
    ) -> Result<Meter> {
        let context = SourceContext {
            scope: Scope::Attached,
            // The loop below opens the events for each thread.
            events: &[],
            kernel: kernel.clone(),
            team: false,
            cpu: None,
            sampled: false,
        };
        let mut meter = Meter { whole: sources(&context), threads: Vec::new() };
        for thread in threads.iter().filter(|_| !events.is_empty()) {
            let mut counters = Counters::new(kernel.clone(), events.to_vec(), false);
            counters.attach(*thread).status(Status::Missing)?;
            meter.threads.push(counters);
        }
        Ok(meter)
    }

    fn each(&mut self) -> impl DoubleEndedIterator<Item = &mut dyn Source> {
        let threads = self.threads.iter_mut().map(|counters| counters as &mut dyn Source);
        // The clock is read inside the counters' period, because switching counters takes longer.
        threads.chain(self.whole.iter_mut().map(|source| source.as_mut() as &mut dyn Source))
    }

    pub(super) fn start(&mut self) -> Result<()> {
        self.each().try_for_each(|source| source.start())
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.each().rev().try_for_each(|source| source.stop())
    }

    /// The counts between the last start and stop: each metric summed over all threads.
    pub(super) fn read(&mut self) -> Result<Vec<Reading>> {
        let mut all = Vec::new();
        self.each().try_for_each(|source| source.read(WORK, None, &mut all))?;
        Ok(summed(all))
    }
}

/// Sums the readings of each metric. If a reading was multiplexed, so is the sum, and its times say so.
fn summed(readings: Vec<Reading>) -> Vec<Reading> {
    let mut sums: Vec<Reading> = Vec::new();
    for reading in readings {
        match sums.iter_mut().find(|sum| sum.key == reading.key) {
            Some(sum) => {
                sum.value += reading.value;
                sum.time = sum.time.zip(reading.time).map(|(one, two)| CountingTime {
                    enabled_ns: one.enabled_ns + two.enabled_ns,
                    running_ns: one.running_ns + two.running_ns,
                });
            }
            None => sums.push(reading),
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::{Domain, MetricKey};

    #[test]
    fn threads_are_summed_metric_by_metric() {
        let reading = |name: &str, value, running_ns| Reading {
            key: MetricKey::new(name, Domain::All, "perf_event"),
            value,
            time: Some(CountingTime { enabled_ns: 10, running_ns }),
        };
        let sums = summed(vec![reading("a", 1, 10), reading("b", 5, 10), reading("a", 2, 4)]);
        let found: Vec<(u64, bool)> =
            sums.iter().map(|sum| (sum.value, sum.time.unwrap().multiplexed())).collect();
        assert_eq!(found, [(3, true), (5, false)]);
    }
}
