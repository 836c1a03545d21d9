//! Merges the records of several ring buffers into the order of time.
//!
//! Each buffer is in order, but the buffers are read one after the other. A round empties all
//! buffers, so later rounds read no record older than the newest record of the round before.
//! Records up to that time are settled.

use crate::ring::{self, RingError};

/// Records that wait for older ones.
#[derive(Clone, Debug, Default)]
pub struct Merge {
    words: Vec<u64>,
    /// Time, first word and number of words of each record.
    waiting: Vec<(u64, usize, usize)>,
    newest_ns: u64,
    newest_before_ns: u64,
}

impl Merge {
    /// Adds the records that one round read from all buffers.
    ///
    /// # Errors
    /// [`RingError`]: the words are not records; those from the error on are dropped.
    pub fn add(&mut self, words: &[u64]) -> Result<(), RingError> {
        self.newest_before_ns = self.newest_ns;
        for record in ring::records(words) {
            let record = record?;
            let time_ns = ring::time_ns(record)?;
            self.newest_ns = self.newest_ns.max(time_ns);
            self.waiting.push((time_ns, self.words.len(), record.len()));
            self.words.extend_from_slice(record);
        }
        Ok(())
    }

    /// Hands out the settled records, which no later record can precede, in the order of time.
    pub fn settled(&mut self, take: impl FnMut(&[u64])) {
        self.give(self.newest_before_ns, take);
    }

    /// Hands out all remaining records in the order of time, after the last round.
    pub fn rest(&mut self, take: impl FnMut(&[u64])) {
        self.give(u64::MAX, take);
    }

    fn give(&mut self, until_ns: u64, mut take: impl FnMut(&[u64])) {
        // The sort is stable: records of one buffer with the same time keep their order.
        self.waiting.sort_by_key(|(time_ns, ..)| *time_ns);
        let ready = self.waiting.partition_point(|(time_ns, ..)| *time_ns <= until_ns);
        for (_, start, count) in self.waiting.drain(..ready) {
            take(&self.words[start..start + count]);
        }
        let mut kept = Vec::new();
        for (_, start, count) in &mut self.waiting {
            let place = kept.len();
            kept.extend_from_slice(&self.words[*start..*start + *count]);
            *start = place;
        }
        self.words = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record of an unknown kind, with its time before the CPU at its end.
    fn record(time_ns: u64, tag: u64) -> [u64; 5] {
        [99 | 40 << 48, tag, 0, time_ns, 0]
    }

    #[test]
    fn nothing_is_given_that_something_may_precede() {
        let mut merge = Merge::default();
        let mut given = Vec::new();
        let mut round = |times: &[u64]| {
            let words: Vec<u64> = times.iter().flat_map(|time| record(*time, 0)).collect();
            merge.add(&words).unwrap();
            merge.settled(|record| given.push(record[3]));
        };
        // Two buffers a round.
        round(&[10, 30, 20, 25]);
        round(&[40, 50, 28, 60]);
        round(&[70]);
        assert_eq!(given, [10, 20, 25, 28, 30, 40, 50, 60]);
        merge.rest(|record| given.push(record[3]));
        assert_eq!(given.last(), Some(&70));
    }

    proptest! {
        #[test]
        fn all_come_once_and_in_order(
            rounds in prop::collection::vec(prop::collection::vec(0..50u64, 0..9), 0..9),
        ) {
            let (mut merge, mut given, mut tag) = (Merge::default(), Vec::new(), 0);
            for (number, times) in rounds.iter().enumerate() {
                let mut words = Vec::new();
                for time in times {
                    words.extend(record(number as u64 * 50 + time, tag));
                    tag += 1;
                }
                prop_assert_eq!(merge.add(&words), Ok(()));
                merge.settled(|record| given.push((record[3], record[1])));
            }
            merge.rest(|record| given.push((record[3], record[1])));
            prop_assert!(given.is_sorted());
            prop_assert_eq!(given.len() as u64, tag);
        }
    }
}
