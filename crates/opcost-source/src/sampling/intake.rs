//! Orders the records that the kernel wrote and builds a tree of calls from them.

use opcost_profile::event::{Event, Sample};
use opcost_profile::merge::Merge;
use opcost_profile::ring::{self, Layout, RingError};
use opcost_profile::session::{FRAMES_MAX, Recorded, Session};
use opcost_profile::space::CodeFile;
use opcost_profile::unwind::Unwinder;
use opcost_symbols::elf::WHOLE_BYTES_MAX;
use opcost_sys::foreign_file;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;

/// Collects the words of the ring buffers, round by round.
pub struct Intake {
    layout: Layout,
    merge: Merge,
    session: Session,
    unwinder: Unwinder,
    chain: Vec<u64>,
    samples: u64,
    damage: Option<RingError>,
}

impl Intake {
    /// An intake of records of this layout.
    pub fn new(layout: Layout) -> Intake {
        Intake {
            layout,
            merge: Merge::default(),
            session: Session::new(0, FRAMES_MAX),
            unwinder: Unwinder::default(),
            chain: Vec::new(),
            samples: 0,
            damage: None,
        }
    }

    /// Adds an event from another source, before any records are added.
    pub fn event(&mut self, event: &Event<'_>) {
        self.session.take(event);
    }

    /// Stores the words that one round read from all ring buffers, without processing them.
    pub fn add(&mut self, words: &[u64]) {
        if let Err(damage) = self.merge.add(words) {
            self.damage.get_or_insert(damage);
        }
    }

    /// Processes all records whose order is settled. `look` sees each event and returns, for samples, whether they are wanted.
    pub fn settle(&mut self, look: impl FnMut(&Event<'_>) -> bool) {
        self.take(false, look);
    }

    /// Processes all remaining records.
    pub fn settle_rest(&mut self, look: impl FnMut(&Event<'_>) -> bool) {
        self.take(true, look);
    }

    /// Finishes with the samples of a span of time, in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// [`RingError`]: the kernel wrote an unreadable record.
    pub fn finish(mut self, span_ns: RangeInclusive<u64>) -> Result<(Recorded, u64), RingError> {
        self.settle_rest(|event| match event {
            Event::Sample(sample) => {
                sample.time_ns.is_none_or(|time_ns| span_ns.contains(&time_ns))
            }
            _ => true,
        });
        let samples = self.samples;
        self.restart().map(|recorded| (recorded, samples))
    }

    /// Returns everything recorded since the beginning or the last restart, and keeps the address spaces.
    ///
    /// # Errors
    /// [`RingError`]: the kernel wrote an unreadable record.
    pub fn restart(&mut self) -> Result<Recorded, RingError> {
        if let Some(damage) = self.damage.take() {
            return Err(damage);
        }
        let mut recorded = self.session.restart();
        recorded.losses.add_unfinished(self.unwinder.take_unfinished());
        self.samples = 0;
        Ok(recorded)
    }

    fn take(&mut self, all: bool, mut look: impl FnMut(&Event<'_>) -> bool) {
        let Intake { layout, merge, session, unwinder, chain, samples, damage } = self;
        let take = |record: &[u64]| match ring::read(record, *layout) {
            Ok(ring::Record { event: Some(event), .. }) => {
                if !look(&event) {
                    return;
                }
                let Event::Sample(sample) = &event else { return session.take(&event) };
                *samples += 1;
                if sample.user_stack.is_none() {
                    return session.take(&event);
                }
                unwinder.complete(sample, session.spaces(), contents, chain);
                session.take(&Event::Sample(Sample { chain, ..sample.clone() }));
            }
            Ok(_) => {}
            Err(error) => {
                damage.get_or_insert(error);
            }
        };
        if all {
            merge.rest(take);
        } else {
            merge.settled(take);
        }
    }
}

/// The current contents of a mapped file.
fn contents(file: &CodeFile) -> Option<Vec<u8>> {
    foreign_file::read(OsStr::from_bytes(&file.path).as_ref(), WHOLE_BYTES_MAX).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { call_chain: false, user_registers_mask: 0 };

    /// A sample in the kernel by process 7 on CPU 0 with a period of 10.
    fn sample(time_ns: u64, address: u64) -> [u64; 6] {
        let header = 9 | 1 << 32 | 48 << 48;
        [header, address, 7 | 7 << 32, time_ns, 0, 10]
    }

    fn costs(recorded: &Recorded) -> Vec<(u64, u64)> {
        let tree = &recorded.tree;
        let offset = |place: u32| tree.places()[place as usize].offset;
        tree.nodes().iter().map(|node| (offset(node.place), node.cost)).collect()
    }

    const KERNEL: u64 = 0xffff_ffff_8100_0000;

    #[test]
    fn only_samples_of_the_span_are_kept() {
        let mut intake = Intake::new(LAYOUT);
        for (time_ns, address) in [(5, 1), (10, 2), (30, 4), (20, 2), (31, 5)] {
            intake.add(&sample(time_ns, KERNEL + address));
        }
        let (recorded, samples) = intake.finish(10..=30).unwrap();
        assert_eq!(samples, 3);
        assert_eq!(costs(&recorded), [(KERNEL + 2, 20), (KERNEL + 4, 10)]);
    }

    #[test]
    fn a_restart_begins_anew_and_what_is_not_settled_waits() {
        let mut intake = Intake::new(LAYOUT);
        intake.add(&sample(5, KERNEL));
        intake.settle(|_| true);
        assert!(costs(&intake.restart().unwrap()).is_empty());
        intake.add(&sample(9, KERNEL + 1));
        intake.settle(|_| true);
        assert_eq!(costs(&intake.restart().unwrap()), [(KERNEL, 10)]);
        intake.settle_rest(|event| !matches!(event, Event::Sample(_)));
        assert!(costs(&intake.restart().unwrap()).is_empty());
    }

    #[test]
    fn damage_is_an_error_and_not_a_profile() {
        let mut intake = Intake::new(LAYOUT);
        intake.add(&sample(5, KERNEL)[..5]);
        assert_eq!(intake.finish(0..=9).unwrap_err(), RingError::Length { words: 6, left: 5 });
        // A complete record without the fields that the layout expects.
        let mut intake = Intake::new(Layout { call_chain: true, ..LAYOUT });
        intake.add(&sample(5, KERNEL));
        assert_eq!(intake.finish(0..=9).unwrap_err(), RingError::Fields { kind: 9 });
    }
}
