//! Losses of a recording: lost events, stacks that were cut off, code that nothing describes.

use crate::unwind::Unfinished;
use std::fmt;

/// Exact counts of the data that was lost while samples were taken.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Losses {
    /// Events that the kernel dropped for want of room, samples and others alike.
    pub lost_events: u64,
    /// Times that the kernel stopped sampling because samples came too fast.
    pub throttles: u64,
    /// Samples whose chain of callers has the greatest length that the profiler allowed; outer
    /// callers may be missing.
    pub stacks_cut: u64,
    /// Samples of programs with a copy of the stack that nothing unwound.
    pub stacks_not_unwound: u64,
    /// Copied stacks that went on beyond the copy; outer callers are missing.
    pub stacks_beyond_copy: u64,
    /// Copied stacks in which unwinding lost its way before it reached the outermost caller.
    pub stacks_astray: u64,
    /// Samples at an address where no known mapping was.
    pub unmapped_samples: u64,
    /// Callers without a known mapping; usually code used the frame pointer for something else.
    pub unmapped_callers: u64,
    /// Samples of a program's code without any caller although callers were asked for: usually code
    /// that keeps no frame pointer, since nearly every function has a caller.
    pub samples_alone: u64,
    /// Samples of a virtual machine's guest, left out because its address space is not known.
    pub guest_samples: u64,
    /// Samples of events that were not asked for.
    pub other_events: u64,
    /// Samples of the event that the [`Filter`](crate::read::filter::Filter) left out.
    pub left_out: u64,
    /// Samples whose stacks are not in the file, left out.
    pub without_stack: u64,
    /// Samples of a thread that waited, left out because they cost nothing.
    pub waiting: u64,
    /// Records of a file that could not be read.
    pub damage: Damage,
    /// Lines of a text that have another form, left out.
    pub odd_lines: OddLines,
}

/// Lines of another form in a text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OddLines {
    /// The number of these lines.
    pub lines: u64,
    /// The number of the first one, counted from 1, and its beginning.
    pub first: Option<(usize, String)>,
}

impl OddLines {
    /// Counts a line.
    ///
    /// `index`: the line's number, counted from 0.
    pub fn add(&mut self, index: usize, line: &str) {
        self.lines += 1;
        let shown = || line.trim().chars().take(60).collect();
        self.first.get_or_insert_with(|| (index + 1, shown()));
    }
}

/// Records of a file that contradict themselves; they are left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Damage {
    /// The number of broken records between readable ones.
    pub records: u64,
    /// The place of the first broken record.
    pub first_at: Option<RecordPlace>,
    /// The place from which on records cannot be told apart. If several files have such a place, the
    /// one found first.
    pub rest_from: Option<RecordPlace>,
}

/// The place of a record.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RecordPlace {
    /// The number of the record's file in a folder, `data.N`; `None` outside folders.
    pub file: Option<u32>,
    /// Bytes from the start of the file.
    pub at: u64,
}

impl RecordPlace {
    /// The name of the file within its folder.
    pub fn file_name(&self) -> Option<String> {
        self.file.map(|number| format!("data.{number}"))
    }
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}", self.at)?;
        self.file_name().map_or(Ok(()), |name| write!(f, " of {name}"))
    }
}

impl Damage {
    /// Counts a broken record at this place.
    pub fn add(&mut self, at: RecordPlace) {
        self.records += 1;
        // The place found first need not be the least: records come in the order of time.
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
    }
}

impl Losses {
    /// Adds the stacks that unwinding did not follow to their end.
    pub fn add_unfinished(&mut self, unfinished: Unfinished) {
        self.stacks_beyond_copy += unfinished.beyond_copy;
        self.stacks_astray += unfinished.astray;
    }
}
