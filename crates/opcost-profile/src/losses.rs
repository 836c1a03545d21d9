//! What a recording lacks: events that were lost, stacks that were cut off, code that nobody knows.

use crate::unwind::Unfinished;
use std::fmt;

/// Counts of what went missing while samples were taken; all are exact, and 0 where nothing did.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Losses {
    /// Events that there was no room for, as the kernel counts them: samples and others alike.
    pub lost_events: u64,
    /// Times that the kernel stopped sampling because samples came too fast.
    pub throttles: u64,
    /// Samples whose chain of callers is as long as the profiler allowed, so that outer ones may be
    /// missing.
    pub stacks_cut: u64,
    /// Samples of programs that came with a copy of their stack which nobody unwound.
    pub stacks_not_unwound: u64,
    /// Copied stacks that went on beyond their copy, so that outer callers are missing.
    pub stacks_beyond_copy: u64,
    /// Copied stacks in which unwinding lost its way before it reached the outermost caller.
    pub stacks_astray: u64,
    /// Samples at an address where nothing was known to be mapped.
    pub unmapped_samples: u64,
    /// Callers at such an address: usually code that uses the frame pointer for something else.
    pub unmapped_callers: u64,
    /// Samples of a program's code that have no caller at all though callers were asked for: usually
    /// of code that keeps no frame pointer, as nearly everything is called by something.
    pub samples_alone: u64,
    /// Samples of a virtual machine's guest, which are left out: its address space is not known.
    pub guest_samples: u64,
    /// Samples of events that were not asked for.
    pub other_events: u64,
    /// Samples of the event that nobody wanted ([`Filter`](crate::read::filter::Filter)).
    pub left_out: u64,
    /// Records of a file that could not be read.
    pub damage: Damage,
}

/// What of a file's records contradicts itself, and is left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Damage {
    /// Broken records among others.
    pub records: u64,
    /// Where the first of them is.
    pub first_at: Option<RecordPlace>,
    /// From where on the records cannot be told apart; where several files have such a place, the
    /// first that was found.
    pub rest_from: Option<RecordPlace>,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RecordPlace {
    /// The number of its file in a folder, `data.N`; `None` outside folders.
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
    /// A record at this place is broken.
    pub fn add(&mut self, at: RecordPlace) {
        self.records += 1;
        // Records come in the order of time.
        self.first_at = Some(self.first_at.map_or(at, |first| first.min(at)));
    }
}

impl Losses {
    /// Adds what unwinding did not reach the end of.
    pub fn add_unfinished(&mut self, unfinished: Unfinished) {
        self.stacks_beyond_copy += unfinished.beyond_copy;
        self.stacks_astray += unfinished.astray;
    }
}
