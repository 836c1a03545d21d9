//! Sorts records by time: perf writes the buffers of all CPUs one after the other, in rounds.

use super::layout::{Attributes, Fields, record, sample};

/// A waiting record.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    time_ns: u64,
    start: usize,
    /// Records hold their length in 16 bits.
    bytes: u16,
    event: u32,
    /// The record's place in the file.
    at: u64,
}

/// A record that no earlier one can precede.
pub(super) struct Due<'r> {
    /// The record, header included.
    pub(super) bytes: &'r [u8],
    /// The index of the record's event.
    pub(super) event: u32,
    /// The record's place in the file; the compressed record's place if it was compressed.
    pub(super) at: u64,
}

/// Records that wait until no earlier one can come.
///
/// No record of a round is earlier than the latest record of the round before the last
/// (`tools/perf/util/ordered-events.h`, "FINISHED_ROUND").
#[derive(Debug, Default)]
pub(super) struct Rounds {
    bytes: Vec<u8>,
    /// A buffer for the records that go on waiting; the two buffers swap so that memory is reused.
    kept: Vec<u8>,
    waiting: Vec<Waiting>,
    /// The latest time of the round before, and of this round.
    latest_before_ns: u64,
    latest_ns: u64,
    /// The number of settled records at the front of `waiting`, and how many of these were given.
    settled: usize,
    given: usize,
}

impl Rounds {
    /// Adds a record of an event, header included; `at`: the record's place in the file.
    pub(super) fn add(&mut self, record: &[u8], time_ns: u64, event: u32, at: u64) {
        let (start, bytes) = (self.bytes.len(), record.len() as u16);
        self.bytes.extend_from_slice(record);
        self.waiting.push(Waiting { time_ns, start, bytes, event, at });
        self.latest_ns = self.latest_ns.max(time_ns);
    }

    /// Ends a round: gives the records that no later one can precede.
    pub(super) fn finish_round(&mut self, give: &mut impl FnMut(Due<'_>)) {
        let until = self.latest_before_ns;
        self.latest_before_ns = self.latest_ns;
        self.flush(until, give);
    }

    /// Gives all records, after the last round.
    pub(super) fn finish(&mut self, give: &mut impl FnMut(Due<'_>)) {
        self.flush(u64::MAX, give);
    }

    fn flush(&mut self, until_ns: u64, give: &mut impl FnMut(Due<'_>)) {
        // The sort is stable: records without a time, or with equal times, keep the file's order. It is
        // fast, because each CPU's records ascend already.
        self.waiting.sort_by_key(|waiting| waiting.time_ns);
        let ready = self.waiting.partition_point(|waiting| waiting.time_ns <= until_ns);
        for Waiting { start, bytes, event, at, .. } in &self.waiting[..ready] {
            let bytes = &self.bytes[*start..*start + usize::from(*bytes)];
            give(Due { bytes, event: *event, at: *at });
        }
        self.forget(ready);
    }

    /// Settles the records that no later one can precede, in a file that is read piece by piece, after
    /// all settled records were given: no record is earlier than the end of the piece before the last.
    ///
    /// `all`: whether this was the last piece.
    pub(super) fn settle(&mut self, all: bool) {
        self.forget(self.given);
        self.given = 0;
        // The sort is stable here too.
        self.waiting.sort_by_key(|waiting| waiting.time_ns);
        let until_ns = if all { u64::MAX } else { self.latest_before_ns };
        self.latest_before_ns = self.latest_ns;
        self.settled = self.waiting.partition_point(|waiting| waiting.time_ns <= until_ns);
    }

    /// Returns the time of the first settled record that was not given yet.
    pub(super) fn first_ns(&self) -> Option<u64> {
        (self.given < self.settled).then(|| self.waiting[self.given].time_ns)
    }

    /// Gives the first settled record.
    pub(super) fn give_first(&mut self, give: &mut impl FnMut(Due<'_>)) {
        let Some(Waiting { start, bytes, event, at, .. }) = self.waiting.get(self.given) else {
            return;
        };
        give(Due {
            bytes: &self.bytes[*start..*start + usize::from(*bytes)],
            event: *event,
            at: *at,
        });
        self.given += 1;
    }

    /// Drops the first `ready` waiting records.
    fn forget(&mut self, ready: usize) {
        self.waiting.drain(..ready);
        self.kept.clear();
        for waiting in &mut self.waiting {
            let start = self.kept.len();
            let end = waiting.start + usize::from(waiting.bytes);
            self.kept.extend_from_slice(&self.bytes[waiting.start..end]);
            waiting.start = start;
        }
        std::mem::swap(&mut self.bytes, &mut self.kept);
    }
}

/// Returns the time of a record, header included; 0 if it has none.
pub(super) fn time_ns(attributes: &Attributes, kind: u32, record: &[u8]) -> u64 {
    let body = &record[8..];
    let at = if kind == record::SAMPLE {
        attributes.sample_time_at()
    } else {
        attributes.trailer_time_before_end().and_then(|before| body.len().checked_sub(before))
    };
    at.and_then(|at| Fields::new(body.get(at..)?).u64()).unwrap_or(0)
}

/// Returns the identifier of a record's event, header included; all events of the file must have theirs
/// at the same place.
pub(super) fn event_id(attributes: &Attributes, kind: u32, record: &[u8]) -> Option<u64> {
    let body = &record[8..];
    if attributes.has(sample::IDENTIFIER) {
        let at = if kind == record::SAMPLE { 0 } else { body.len().checked_sub(8)? };
        return Fields::new(body.get(at..)?).u64();
    }
    if kind != record::SAMPLE || !attributes.has(sample::ID) {
        return None;
    }
    let before = [sample::IP, sample::TID, sample::TIME, sample::ADDR];
    let words = before.iter().filter(|what| attributes.has(**what)).count();
    Fields::new(body.get(words * 8..)?).u64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Rounds that overlap only their neighbours come out in the order of time.
        #[test]
        fn what_waits_comes_out_in_order(
            rounds in prop::collection::vec(prop::collection::vec(0u64..20, 0..12), 0..8)
        ) {
            let mut waiting = Rounds::default();
            let mut given: Vec<u64> = Vec::new();
            let mut give = |due: Due<'_>| {
                assert_eq!(due.event, u32::from(due.bytes[0]));
                assert_eq!(due.at, u64::from(due.event) + 1000);
                given.push(u64::from_le_bytes(due.bytes.try_into().unwrap()));
            };
            let mut all = Vec::new();
            for (round, times) in rounds.iter().enumerate() {
                for time in times {
                    let time = round as u64 * 10 + time;
                    all.push(time);
                    waiting.add(&time.to_le_bytes(), time, time as u32, time + 1000);
                }
                waiting.finish_round(&mut give);
            }
            waiting.finish(&mut give);
            all.sort_unstable();
            prop_assert_eq!(given, all);
        }
    }
}
