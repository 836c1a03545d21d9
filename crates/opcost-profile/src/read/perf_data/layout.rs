//! Constants and structures of perf.data files (`tools/perf/Documentation/perf.data-file-format.txt`,
//! `linux/perf_event.h`).

use super::PerfDataError;
use crate::session::FRAMES_MAX;

/// Kinds of the kernel's records.
pub(super) mod record {
    pub(in super::super) const MMAP: u32 = 1;
    pub(in super::super) const LOST: u32 = 2;
    pub(in super::super) const COMM: u32 = 3;
    pub(in super::super) const EXIT: u32 = 4;
    pub(in super::super) const THROTTLE: u32 = 5;
    pub(in super::super) const FORK: u32 = 7;
    pub(in super::super) const SAMPLE: u32 = 9;
    pub(in super::super) const MMAP2: u32 = 10;
    pub(in super::super) const LOST_SAMPLES: u32 = 13;
    /// The first kind of perf's own records.
    pub(in super::super) const USER: u32 = 64;
    pub(in super::super) const HEADER_ATTR: u32 = 64;
    pub(in super::super) const TRACING_DATA: u32 = 66;
    pub(in super::super) const BUILD_ID: u32 = 67;
    pub(in super::super) const FINISHED_ROUND: u32 = 68;
    pub(in super::super) const AUXTRACE: u32 = 71;
    pub(in super::super) const EVENT_UPDATE: u32 = 78;
    pub(in super::super) const HEADER_FEATURE: u32 = 80;
    pub(in super::super) const COMPRESSED: u32 = 81;
    pub(in super::super) const COMPRESSED2: u32 = 83;
}

/// Sections behind the data.
pub(super) mod feature {
    pub(in super::super) const BUILD_ID: u32 = 2;
    pub(in super::super) const HOST_NAME: u32 = 3;
    pub(in super::super) const OS_RELEASE: u32 = 4;
    pub(in super::super) const ARCHITECTURE: u32 = 6;
    pub(in super::super) const COMMAND_LINE: u32 = 11;
    pub(in super::super) const EVENT_DESC: u32 = 12;
}

/// Fields of a sample (`PERF_SAMPLE_*`).
pub(super) mod sample {
    pub(in super::super) const IP: u64 = 1;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDR: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM_ID: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const BRANCH_STACK: u64 = 1 << 11;
    pub(in super::super) const REGS_USER: u64 = 1 << 12;
    pub(in super::super) const STACK_USER: u64 = 1 << 13;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// The mode of the CPU at a record (`PERF_RECORD_MISC_CPUMODE_MASK`).
pub(super) const MODE_MASK: u16 = 7;
pub(super) const MODE_KERNEL: u16 = 1;
pub(super) const MODE_GUEST: [u16; 2] = [4, 5];
/// `PERF_RECORD_MISC_MMAP_DATA`, `_COMM_EXEC`, `_MMAP_BUILD_ID`, `_BUILD_ID_SIZE`.
pub(super) const MISC_MMAP_DATA: u16 = 1 << 13;
pub(super) const MISC_COMM_EXEC: u16 = 1 << 13;
pub(super) const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
pub(super) const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// The types of events (`PERF_TYPE_*`).
const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_TYPE_HW_CACHE: u32 = 3;
const PERF_TYPE_RAW: u32 = 4;
const PERF_TYPE_BREAKPOINT: u32 = 5;

/// Reads numbers one after the other.
#[derive(Clone, Copy)]
pub(super) struct Fields<'d> {
    bytes: &'d [u8],
}

impl<'d> Fields<'d> {
    pub(super) fn new(bytes: &'d [u8]) -> Self {
        Fields { bytes }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Option<&'d [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(bytes)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        Some(self.u32()? as i32)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Skips `words` words of eight bytes.
    pub(super) fn skip_words(&mut self, words: u64) -> Option<()> {
        self.take(usize::try_from(words.checked_mul(8)?).ok()?).map(drop)
    }

    /// Returns the bytes up to a zero, or all that are left.
    pub(super) fn text(self) -> &'d [u8] {
        let end = self.bytes.iter().position(|byte| *byte == 0).unwrap_or(self.bytes.len());
        &self.bytes[..end]
    }

    /// Reads a string with its length before it (`perf_header_string`).
    pub(super) fn string(&mut self) -> Option<String> {
        let bytes = self.u32()? as usize;
        let text = Fields { bytes: self.take(bytes)? }.text();
        Some(String::from_utf8_lossy(text).into_owned())
    }

    pub(super) fn rest(self) -> &'d [u8] {
        self.bytes
    }
}

/// The attributes with which an event was opened (`perf_event_attr`), as far as they are used here.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    pub(super) config: u64,
    /// A period, or a frequency in hertz if [`Self::is_frequency`].
    pub(super) period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) registers_user: u64,
    pub(super) branch_sample_type: u64,
    pub(super) stack_frames_max: u16,
    /// Identifiers that the event's records carry.
    pub(super) ids: Vec<u64>,
    pub(super) name: String,
}

impl Attributes {
    /// Parses the structure; its size field must fit the bytes.
    pub(super) fn parse(bytes: &[u8]) -> Result<Attributes, PerfDataError> {
        let broken = || PerfDataError::broken("a sampled event's attributes", 0);
        let mut fields = Fields::new(bytes);
        let kind = fields.u32().ok_or_else(broken)?;
        let size = fields.u32().ok_or_else(broken)? as usize;
        // Size 0 means the first published structure of 64 bytes (PERF_ATTR_SIZE_VER0).
        let size = if size == 0 { 64 } else { size };
        if size < 64 || size > bytes.len() {
            return Err(broken());
        }
        // Fields that an older perf did not write are 0.
        let mut whole = bytes[..size].to_vec();
        whole.resize(128, 0);
        let word =
            |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("eight bytes"));
        let config = word(8);
        Ok(Attributes {
            kind,
            config,
            period: word(16),
            sample_type: word(24),
            read_format: word(32),
            flags: word(40),
            branch_sample_type: word(72),
            registers_user: word(80),
            stack_frames_max: u16::from_le_bytes([whole[108], whole[109]]),
            ids: Vec::new(),
            name: event_name(kind, config),
        })
    }

    pub(super) fn has(&self, what: u64) -> bool {
        self.sample_type & what != 0
    }

    /// Whether `period` is a frequency.
    pub(super) fn is_frequency(&self) -> bool {
        self.flags & (1 << 10) != 0
    }

    /// `precise_ip`: how near the sampled instruction is to the one that caused the event, 0 to 3.
    /// `None` for events that the CPU does not count, and for 0 of unknown types.
    pub(super) fn precise(&self) -> Option<u8> {
        let asked = ((self.flags >> 15) & 3) as u8;
        match self.kind {
            PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE | PERF_TYPE_RAW => Some(asked),
            PERF_TYPE_SOFTWARE | PERF_TYPE_TRACEPOINT | PERF_TYPE_BREAKPOINT => None,
            _ => Some(asked).filter(|asked| *asked > 0),
        }
    }

    /// Whether the instruction that caused the event takes the sample.
    pub(super) fn is_exact(&self) -> bool {
        [PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, PERF_TYPE_BREAKPOINT].contains(&self.kind)
            && !self.is_clock()
    }

    /// Whether the event was opened for a command that the profiler executed (`enable_on_exec`).
    pub(super) fn begins_with_exec(&self) -> bool {
        self.flags & (1 << 12) != 0
    }

    /// Whether records other than samples end with time and identifier.
    pub(super) fn has_trailer(&self) -> bool {
        self.flags & (1 << 18) != 0
    }

    /// Whether the event is `cpu-clock` or `task-clock`, which a timer samples.
    pub(super) fn is_clock(&self) -> bool {
        self.kind == PERF_TYPE_SOFTWARE && self.config <= 1
    }

    /// Whether perf added the event for another purpose than samples.
    pub(super) fn is_dummy(&self) -> bool {
        self.name.starts_with("dummy")
    }

    /// The most callers that the kernel kept of a chain.
    pub(super) fn frames_max(&self) -> usize {
        match self.stack_frames_max {
            0 => FRAMES_MAX,
            frames => usize::from(frames),
        }
    }

    /// The offset of the time in a sample, bytes.
    pub(super) fn sample_time_at(&self) -> Option<usize> {
        let before = [sample::IDENTIFIER, sample::IP, sample::TID];
        let words = before.iter().filter(|what| self.has(**what)).count();
        self.has(sample::TIME).then_some(words * 8)
    }

    /// The offset of the time in another record, bytes from the record's end.
    pub(super) fn trailer_time_before_end(&self) -> Option<usize> {
        let from = [sample::TIME, sample::ID, sample::STREAM_ID, sample::CPU, sample::IDENTIFIER];
        let words = from.iter().filter(|what| self.has(**what)).count();
        (self.has(sample::TIME) && self.has_trailer()).then_some(words * 8)
    }
}

/// Returns perf's name for an event without one of its own.
fn event_name(kind: u32, config: u64) -> String {
    const HARDWARE: [&str; 10] = [
        "cycles",
        "instructions",
        "cache-references",
        "cache-misses",
        "branches",
        "branch-misses",
        "bus-cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "ref-cycles",
    ];
    const SOFTWARE: [&str; 12] = [
        "cpu-clock",
        "task-clock",
        "page-faults",
        "context-switches",
        "cpu-migrations",
        "minor-faults",
        "major-faults",
        "alignment-faults",
        "emulation-faults",
        "dummy",
        "bpf-output",
        "cgroup-switches",
    ];
    let known = match kind {
        0 => HARDWARE.get(config as usize),
        1 => SOFTWARE.get(config as usize),
        _ => None,
    };
    known.map_or_else(|| format!("type {kind} config {config:#x}"), |name| name.to_string())
}
