//! Reads the records that the kernel writes into a sampling event's ring buffer, as [`Event`]s
//! (`perf_event_open(2)`, "MMAP layout"; include/uapi/linux/perf_event.h).
//!
//! The caller opens its events with the sample type [`Layout::sample_type`] and with
//! `sample_id_all`, so that every record has its time. The caller hands over whole records as
//! 64-bit words in this machine's byte order.

use crate::event::{Event, Mapping, Sample, UserStack};

/// PERF_RECORD_*: the kinds of records.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const THROTTLE: u32 = 5;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MMAP2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
}

/// PERF_RECORD_MISC_*: the bits of a record's header.
mod misc {
    pub(super) const CPUMODE_MASK: u16 = 7;
    pub(super) const KERNEL: u16 = 1;
    pub(super) const MMAP_BUILD_ID: u16 = 1 << 14;
    pub(super) const COMM_EXEC: u16 = 1 << 13;
}

/// PERF_SAMPLE_*: the fields of a sample.
mod field {
    pub(super) const IP: u64 = 1 << 0;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const REGS_USER: u64 = 1 << 12;
    pub(super) const STACK_USER: u64 = 1 << 13;
}

/// PROT_EXEC of `mmap(2)`.
const PROT_EXEC: u32 = 4;
/// Words at the end of every record except samples: thread, time, CPU (`sample_id_all`).
const TRAILER_WORDS: usize = 3;
/// Bytes of the longest build id that a record has room for.
const BUILD_ID_BYTES_MAX: usize = 20;

/// The fields of a sample beside address, thread, time, CPU and period, which every sample has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Layout {
    /// The chain of callers.
    pub call_chain: bool,
    /// The user's registers, a bit for each (`asm/perf_regs.h`). With 0, samples have neither
    /// registers nor the user's stack.
    pub user_registers_mask: u64,
}

impl Layout {
    /// Returns the sample type to ask the kernel for (`perf_event_attr.sample_type`).
    pub fn sample_type(self) -> u64 {
        let mut bits = field::IP | field::TID | field::TIME | field::CPU | field::PERIOD;
        if self.call_chain {
            bits |= field::CALLCHAIN;
        }
        if self.user_registers_mask != 0 {
            bits |= field::REGS_USER | field::STACK_USER;
        }
        bits
    }
}

/// Why bytes are not records of the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum RingError {
    /// A record's length is impossible.
    #[error(
        "a record of {words} words where {left} are left: the ring buffer is damaged, or was \
         read while it was overwritten"
    )]
    Length { words: usize, left: usize },
    /// A record ends before its fields do.
    #[error(
        "a record of type {kind} ends inside its fields: the events were opened with other sample \
         fields than they are read with"
    )]
    Fields { kind: u32 },
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record<'a> {
    /// The time of the record, nanoseconds of the profiler's clock.
    pub time_ns: u64,
    /// The record's event; `None` for kinds of records that are not used here.
    pub event: Option<Event<'a>>,
}

/// Splits words into whole records, each beginning with its header.
///
/// The iterator ends after the first error.
pub fn records(words: &[u64]) -> impl Iterator<Item = Result<&[u64], RingError>> {
    let mut left = words;
    std::iter::from_fn(move || {
        let header = *left.first()?;
        let count = (header >> 48) as usize / 8;
        if count == 0 || count > left.len() {
            let error = RingError::Length { words: count, left: left.len() };
            left = &[];
            return Some(Err(error));
        }
        let (record, rest) = left.split_at(count);
        left = rest;
        Some(Ok(record))
    })
}

/// Reads only the time of a record.
///
/// `record`: as [`records`] gives it.
///
/// # Errors
/// [`RingError::Fields`]: the record is too short to have a time.
pub fn time_ns(record: &[u64]) -> Result<u64, RingError> {
    let kind = record.first().map_or(0, |header| *header as u32);
    // A sample's time is behind header, address and thread; other records end with time and CPU.
    let at = if kind == kind::SAMPLE { Some(3) } else { record.len().checked_sub(2) };
    let time = at.filter(|at| *at > 0).and_then(|at| record.get(at));
    time.copied().ok_or(RingError::Fields { kind })
}

/// Reads a record.
///
/// `record`: its words, header first, as [`records`] gives them; `layout`: the fields that the
/// events were opened with.
///
/// # Errors
/// [`RingError::Fields`]: the record is too short for its fields.
pub fn read(record: &[u64], layout: Layout) -> Result<Record<'_>, RingError> {
    let header = record.first().copied().unwrap_or(0);
    let (kind, misc) = (header as u32, (header >> 32) as u16);
    let short = RingError::Fields { kind };
    let time_ns = time_ns(record)?;
    let body = if kind == kind::SAMPLE {
        &record[1..]
    } else {
        record.get(1..record.len().saturating_sub(TRAILER_WORDS)).ok_or(short)?
    };
    let mut words = Words(body);
    let event = match kind {
        kind::SAMPLE => Some(Event::Sample(sample(&mut words, misc, layout).ok_or(short)?)),
        kind::MMAP2 => Some(Event::Mapping(mapping(&mut words, misc).ok_or(short)?)),
        kind::COMM => Some(name(&mut words, misc).ok_or(short)?),
        kind::FORK => {
            let ((pid, parent_pid), (tid, _)) = tasks(&mut words).ok_or(short)?;
            Some(Event::Fork { pid, parent_pid, tid })
        }
        kind::EXIT => {
            let ((pid, _), (tid, _)) = tasks(&mut words).ok_or(short)?;
            Some(Event::Exit { pid, tid })
        }
        // The event's identifier comes before the number.
        kind::LOST => Some(Event::Lost { events: words.take(2).ok_or(short)?[1] }),
        kind::LOST_SAMPLES => Some(Event::Lost { events: words.word().ok_or(short)? }),
        kind::THROTTLE => Some(Event::Throttled),
        _ => None,
    };
    Ok(Record { time_ns, event })
}

/// Words to be read from the front.
struct Words<'a>(&'a [u64]);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<u64> {
        self.take(1).map(|words| words[0])
    }

    fn take(&mut self, count: usize) -> Option<&'a [u64]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}

/// Reads two 32-bit numbers from a word, in the order of memory.
fn halves(words: &mut Words<'_>) -> Option<(i32, i32)> {
    let bytes = words.word()?.to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    Some((i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h])))
}

/// Reads a task and its parent: processes, then threads; passes over the time behind them.
fn tasks(words: &mut Words<'_>) -> Option<((i32, i32), (i32, i32))> {
    let both = (halves(words)?, halves(words)?);
    words.word().map(|_| both)
}

/// Returns the text up to its terminating zero, in the rest of the words.
fn text<'a>(words: &Words<'a>) -> &'a [u8] {
    let bytes: &[u8] = bytemuck::cast_slice(words.0);
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

fn name<'a>(words: &mut Words<'a>, misc: u16) -> Option<Event<'a>> {
    let (pid, tid) = halves(words)?;
    Some(Event::Name { pid, tid, name: text(words), exec: misc & misc::COMM_EXEC != 0 })
}

fn mapping<'a>(words: &mut Words<'a>, misc: u16) -> Option<Mapping<'a>> {
    let (pid, _) = halves(words)?;
    let [address, bytes, file_offset] = *words.take(3)? else { return None };
    // Device and inode; or the length of the build id and 20 bytes of room for it.
    let identity: &[u8] = bytemuck::cast_slice(words.take(3)?);
    let build_id = if misc & misc::MMAP_BUILD_ID != 0 {
        let length = usize::from(identity[0]).min(BUILD_ID_BYTES_MAX);
        Some(&identity[4..4 + length]).filter(|id| !id.is_empty())
    } else {
        None
    };
    let (protection, _) = halves(words)?;
    Some(Mapping {
        // The process is -1 for the kernel's own mappings.
        pid,
        address,
        bytes,
        file_offset,
        path: text(words),
        build_id,
        executable: protection as u32 & PROT_EXEC != 0,
    })
}

fn sample<'a>(words: &mut Words<'a>, misc: u16, layout: Layout) -> Option<Sample<'a>> {
    let address = words.word()?;
    let (pid, tid) = halves(words)?;
    let time_ns = words.word()?;
    let (cpu, _) = halves(words)?;
    let period = words.word()?;
    let chain = if layout.call_chain {
        let count = usize::try_from(words.word()?).ok()?;
        words.take(count)?
    } else {
        &[]
    };
    let user_stack = if layout.user_registers_mask == 0 {
        None
    } else {
        user_stack(words, layout.user_registers_mask)?
    };
    Some(Sample {
        time_ns: Some(time_ns),
        pid,
        tid,
        cpu: Some(cpu as u32),
        event: 0,
        period,
        address,
        in_kernel: misc & misc::CPUMODE_MASK == misc::KERNEL,
        chain,
        user_stack,
    })
}

/// Reads registers and stack; the inner `None` is a thread without a user side (a kernel thread).
fn user_stack<'a>(words: &mut Words<'a>, mask: u64) -> Option<Option<UserStack<'a>>> {
    /// PERF_SAMPLE_REGS_ABI_NONE: no registers follow.
    const ABI_NONE: u64 = 0;
    let abi = words.word()?;
    let registers = match abi {
        ABI_NONE => &[],
        _ => words.take(mask.count_ones() as usize)?,
    };
    let room_bytes = usize::try_from(words.word()?).ok()?;
    let (mut bytes, mut filled) = (&[][..], 0);
    if room_bytes > 0 {
        bytes = bytemuck::cast_slice(words.take(room_bytes.checked_div(8)?)?);
        // The number of bytes that the kernel could copy; the rest of the room is not initialised.
        filled = usize::try_from(words.word()?).ok()?;
    }
    if abi == ABI_NONE {
        return Some(None);
    }
    let bytes = &bytes[..filled.min(bytes.len())];
    Some(Some(UserStack { registers_mask: mask, registers, bytes }))
}

#[cfg(test)]
#[path = "ring_tests.rs"]
mod tests;
