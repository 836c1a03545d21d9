//! How the samples of a comparison were taken, and how many are missing.

use opcost_base::number::grouped;
use opcost_model::recording::Recording;
use opcost_record::{Domain, MetricKey};

/// The samples of all compared runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SampledBy {
    /// Samples requested per second.
    pub frequency_hz: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples and other events lost for lack of room.
    pub lost: u64,
    /// How often the kernel stopped sampling because samples came too fast.
    pub throttles: u64,
    /// Samples whose outer callers are missing.
    pub stacks_cut: u64,
    /// Samples at addresses with no known mapping.
    pub unmapped: u64,
}

impl SampledBy {
    /// The samples of these variants' runs in blocks; `None` for a recording without samples.
    pub(super) fn of(recording: &Recording, variants: &[usize]) -> Option<SampledBy> {
        let frequency_hz = recording.plan.sampling()?.frequency_hz;
        let runs = || {
            recording.records.iter().filter(|record| {
                record.block.is_some() && variants.contains(&usize::from(record.variant))
            })
        };
        let sum = |name: &str| {
            let key = MetricKey::new(name, Domain::All, "sampling");
            let id = recording.dictionary.id(&key);
            let value = |record| id.and_then(|id| opcost_record::Record::sample(record, id));
            runs().filter_map(value).map(|sample| sample.value).sum()
        };
        Some(SampledBy {
            frequency_hz,
            samples: sum("profile-samples"),
            lost: sum("profile-lost"),
            throttles: sum("profile-throttles"),
            stacks_cut: sum("profile-stacks-cut"),
            unmapped: sum("profile-unmapped"),
        })
    }

    /// The samples of two recordings together.
    pub(super) fn with(self, other: SampledBy) -> SampledBy {
        SampledBy {
            frequency_hz: self.frequency_hz.max(other.frequency_hz),
            samples: self.samples + other.samples,
            lost: self.lost + other.lost,
            throttles: self.throttles + other.throttles,
            stacks_cut: self.stacks_cut + other.stacks_cut,
            unmapped: self.unmapped + other.unmapped,
        }
    }

    /// In words: `5,312 samples at 997 Hz, 3 events lost`.
    pub fn describe(&self) -> String {
        let losses = [
            (self.lost, "events lost"),
            (self.throttles, "times throttled by the kernel"),
            (self.stacks_cut, "stacks cut off"),
            (self.unmapped, "samples where nothing is known to be mapped"),
        ];
        let losses = losses.iter().filter(|(count, _)| *count > 0);
        let losses = losses.map(|(count, what)| format!(", {} {what}", grouped(*count)));
        let none = if self.lost == 0 { ", none lost" } else { "" };
        format!(
            "{} samples at {} Hz{none}{}",
            grouped(self.samples),
            self.frequency_hz,
            losses.collect::<String>()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_said_where_there_are_any() {
        let fine = SampledBy { frequency_hz: 997, samples: 5312, ..SampledBy::default() };
        assert_eq!(fine.describe(), "5,312 samples at 997 Hz, none lost");
        let poor = SampledBy { lost: 3, stacks_cut: 1200, ..fine };
        let both = fine.with(poor);
        assert_eq!(
            both.describe(),
            "10,624 samples at 997 Hz, 3 events lost, 1,200 stacks cut off"
        );
    }
}
