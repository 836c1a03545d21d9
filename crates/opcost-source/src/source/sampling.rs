//! The times at which a region began and ended, which tell the region's samples from others.

use super::{Source, SourceContext};
use anyhow::Result;
use opcost_profile::losses::Losses;
use opcost_record::{Domain, MetricKey, Reading};
use opcost_sys::clock::monotonic_ns;
use opcost_sys::spawn::Exit;
use std::ops::RangeInclusive;

pub(super) const NAME: &str = "sampling";

/// Name of the reading of a region's begin on the monotonic clock.
const BEGIN: &str = "region-begin";
/// Name of the reading of a region's end.
const END: &str = "region-end";

struct Span {
    sampled: bool,
    begin_ns: u64,
    end_ns: u64,
}

pub(super) fn make(context: &SourceContext<'_>) -> Box<dyn Source> {
    Box::new(Span { sampled: context.sampled, begin_ns: 0, end_ns: 0 })
}

impl Source for Span {
    fn start(&mut self) -> Result<()> {
        self.begin_ns = monotonic_ns();
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.end_ns = monotonic_ns();
        Ok(())
    }

    fn read(&mut self, region: &str, _: Option<&Exit>, readings: &mut Vec<Reading>) -> Result<()> {
        if self.sampled {
            for (name, value) in [(BEGIN, self.begin_ns), (END, self.end_ns)] {
                readings.push(Reading::plain(key(name, region), value));
            }
        }
        Ok(())
    }
}

fn key(name: &str, region: &str) -> MetricKey {
    MetricKey { region: region.to_string(), ..MetricKey::new(name, Domain::All, NAME) }
}

/// Removes the span of a region from a process's readings, as it is no figure of the run, and returns the span.
pub fn take_span(readings: &mut Vec<Reading>, region: &str) -> Option<RangeInclusive<u64>> {
    let moment = |name: &str| {
        let found = readings.iter().find(|reading| reading.key == key(name, region));
        found.map(|reading| reading.value)
    };
    let span = moment(BEGIN).zip(moment(END)).map(|(begin, end)| begin..=end);
    readings.retain(|reading| ![BEGIN, END].contains(&reading.key.name.as_str()));
    span
}

/// The numbers of samples and losses of a run, as readings.
pub fn readings(samples: u64, losses: &Losses) -> Vec<Reading> {
    let cut = losses.stacks_cut + losses.stacks_beyond_copy + losses.stacks_astray;
    let figures = [
        ("profile-samples", samples),
        ("profile-lost", losses.lost_events),
        ("profile-throttles", losses.throttles),
        ("profile-stacks-cut", cut),
        ("profile-unmapped", losses.unmapped_samples),
    ];
    let reading = |(name, value)| Reading::plain(MetricKey::new(name, Domain::All, NAME), value);
    figures.map(reading).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_told_for_its_region_and_taken_out() {
        let mut span = Span { sampled: true, begin_ns: 3, end_ns: 9 };
        let wall = Reading::plain(MetricKey::new("wall", Domain::All, "clock"), 6);
        let mut readings = vec![wall.clone()];
        span.read("twin", None, &mut readings).unwrap();
        (span.begin_ns, span.end_ns) = (20, 30);
        span.read("work", None, &mut readings).unwrap();
        assert_eq!(readings.len(), 5);
        assert_eq!(take_span(&mut readings, "work"), Some(20..=30));
        assert_eq!((take_span(&mut readings, "work"), readings), (None, vec![wall]));
        let mut readings = Vec::new();
        Span { sampled: false, ..span }.read("work", None, &mut readings).unwrap();
        assert!(readings.is_empty());
    }

    #[test]
    fn every_reading_of_samples_has_its_row() {
        for reading in readings(1, &Losses::default()) {
            assert_eq!(reading.key.row().name, reading.key.name);
            assert_eq!(reading.key.row().source, NAME);
        }
    }
}
