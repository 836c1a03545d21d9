//! Samples as bytes: LEB128 integers, so a run with fifteen metrics takes about 80 bytes.
//!
//! A sample is `metric × 2 + timed` and the value. A timed sample also has the enabled time, and the difference of the enabled and
//! running times.

use opcost_record::leb128::{read, write};
use opcost_record::{CountingTime, Sample};
use opcost_sys::budget::Exceeded;
use std::fmt;

pub(super) fn encode(samples: &[Sample]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(samples.len() * 6);
    for sample in samples {
        write(&mut bytes, u64::from(sample.metric) << 1 | u64::from(sample.time.is_some()));
        write(&mut bytes, sample.value);
        if let Some(time) = sample.time {
            write(&mut bytes, time.enabled_ns);
            write(&mut bytes, time.enabled_ns.wrapping_sub(time.running_ns));
        }
    }
    bytes
}

/// The samples, or `None` if [`encode`] cannot have written the bytes.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<Sample>> {
    // The last byte of an integer is its only byte below 0x80, and a sample has two or four integers.
    let integers = bytes.iter().filter(|byte| **byte < 0x80).count();
    let mut samples = Vec::with_capacity(integers / 2);
    while !bytes.is_empty() {
        let head = read(&mut bytes).ok()?;
        let value = read(&mut bytes).ok()?;
        let time = if head & 1 == 1 {
            let enabled_ns = read(&mut bytes).ok()?;
            let running_ns = enabled_ns.wrapping_sub(read(&mut bytes).ok()?);
            Some(CountingTime { enabled_ns, running_ns })
        } else {
            None
        };
        samples.push(Sample { metric: u16::try_from(head >> 1).ok()?, value, time });
    }
    samples.shrink_to_fit();
    Some(samples)
}

/// Samples of several runs as consecutive bytes, so that another thread can decode them.
#[derive(Default)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    /// The end of each run's bytes.
    ends: Vec<usize>,
}

impl Packed {
    /// Adds the samples of a run.
    pub(super) fn push(&mut self, samples: &[u8]) {
        self.bytes.extend_from_slice(samples);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn runs(&self) -> usize {
        self.ends.len()
    }

    /// Appends the samples of each run; `None` as from [`decode`].
    pub(super) fn decode(&self, samples: &mut Vec<Vec<Sample>>) -> Option<()> {
        let mut start = 0;
        for end in &self.ends {
            samples.push(decode(&self.bytes[start..*end])?);
            start = *end;
        }
        Some(())
    }
}

/// The error for a row that would take more than reading its file may take.
pub(super) fn exceeded(exceeded: Exceeded) -> rusqlite::Error {
    let kind = rusqlite::types::Type::Blob;
    rusqlite::Error::FromSqlConversionFailure(0, kind, Box::new(exceeded))
}

/// The error for a row whose contents are not those written.
pub(super) fn corrupt(column: usize, what: impl fmt::Display) -> rusqlite::Error {
    let message = std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_string());
    rusqlite::Error::FromSqlConversionFailure(
        column,
        rusqlite::types::Type::Blob,
        Box::new(message),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(raw in prop::collection::vec((any::<u16>(), any::<u64>(), any::<Option<(u64, u64)>>()), 0..20)) {
            let samples: Vec<Sample> = raw
                .into_iter()
                .map(|(metric, value, time)| Sample {
                    metric,
                    value,
                    time: time.map(|(enabled_ns, running_ns)| CountingTime { enabled_ns, running_ns }),
                })
                .collect();
            prop_assert_eq!(decode(&encode(&samples)), Some(samples));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn packed_runs_are_decoded_one_by_one() {
        let sample = |metric| Sample { metric, value: u64::from(metric) << 40, time: None };
        let runs = [vec![sample(1), sample(2)], vec![], vec![sample(3)]];
        let mut packed = Packed::default();
        runs.iter().for_each(|run| packed.push(&encode(run)));
        let mut decoded = Vec::new();
        assert_eq!((packed.runs(), packed.decode(&mut decoded)), (3, Some(())));
        assert_eq!(decoded, runs);
        packed.push(&[2, 0x80]);
        assert_eq!(packed.decode(&mut decoded), None);
    }

    #[test]
    fn a_cut_or_overlong_integer_is_refused() {
        assert_eq!(decode(&[2, 0x80]), None);
        assert_eq!(decode(&[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert!(decode(&[]).unwrap().is_empty());
    }
}
