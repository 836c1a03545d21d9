//! Decodes a record of the kernel as an event.

use super::layout::{
    Attributes, Fields, MISC_COMM_EXEC, MISC_MMAP_BUILD_ID, MISC_MMAP_DATA, MODE_GUEST,
    MODE_KERNEL, MODE_MASK, record, sample,
};
use super::round::time_ns;
use crate::event::{Event, Mapping, Sample, UserStack};

/// Buffers for arrays that may be unaligned in the record, and so cannot be borrowed.
#[derive(Default)]
pub(super) struct Room {
    chain: Vec<u64>,
    registers: Vec<u64>,
}

/// Counts that a sample carries beside its own, by the identifier of their event.
pub(super) type Counts = Vec<(u64, u64)>;

/// Decodes a record; `Some(None)` is a record without a use here, `None` a broken one.
///
/// `record`: with its header; `event`: the index of the record's event; `counts`: receives the counts
/// that a sample carries.
pub(super) fn decode<'r>(
    record: &'r [u8],
    attributes: &Attributes,
    event: u32,
    room: &'r mut Room,
    counts: &mut Counts,
) -> Option<Option<Event<'r>>> {
    counts.clear();
    let mut fields = Fields::new(record);
    let kind = fields.u32()?;
    let misc = fields.u16()?;
    fields.u16()?;
    let guest = MODE_GUEST.contains(&(misc & MODE_MASK));
    Some(match kind {
        record::SAMPLE => {
            Some(Event::Sample(decode_sample(fields, misc, attributes, event, room, counts)?))
        }
        record::MMAP | record::MMAP2 if guest => None,
        record::MMAP => Some(Event::Mapping(mapping(fields, misc, false)?)),
        record::MMAP2 => Some(Event::Mapping(mapping(fields, misc, true)?)),
        record::COMM => {
            let (pid, tid) = (fields.i32()?, fields.i32()?);
            Some(Event::Name { pid, tid, name: fields.text(), exec: misc & MISC_COMM_EXEC != 0 })
        }
        record::FORK | record::EXIT => {
            let (pid, parent_pid, tid) = (fields.i32()?, fields.i32()?, fields.i32()?);
            Some(match kind {
                record::FORK => Event::Fork { pid, parent_pid, tid },
                _ => Event::Exit { pid, tid },
            })
        }
        record::LOST => {
            fields.u64()?;
            Some(Event::Lost { events: fields.u64()? })
        }
        // Samples that a filter of perf's own left out (`PERF_RECORD_MISC_LOST_SAMPLES_BPF`).
        record::LOST_SAMPLES if misc & 1 << 15 != 0 => None,
        record::LOST_SAMPLES => Some(Event::Lost { events: fields.u64()? }),
        record::THROTTLE => Some(Event::Throttled),
        _ => None,
    })
}

/// Reads a record in which perf, at the recording's end, sums up what the kernel lost: `Some` holds the number. Such a record has no
/// time, since no event of the kernel made it (tools/perf/builtin-record.c, record__read_lost_samples).
pub(super) fn lost_in_all(record: &[u8], attributes: &Attributes) -> Option<u64> {
    let mut fields = Fields::new(record);
    let kind = fields.u32()?;
    let misc = fields.u16()?;
    fields.u16()?;
    let sums_up = kind == record::LOST_SAMPLES && misc & 1 << 15 == 0;
    (sums_up && time_ns(attributes, kind, record) == 0).then(|| fields.u64())?
}

fn mapping<'r>(mut fields: Fields<'r>, misc: u16, second: bool) -> Option<Mapping<'r>> {
    let pid = fields.i32()?;
    fields.i32()?;
    let (address, bytes, file_offset) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let mut build_id = None;
    let mut executable = misc & MISC_MMAP_DATA == 0;
    if second {
        let identity = fields.take(24)?;
        if misc & MISC_MMAP_BUILD_ID != 0 {
            build_id = Some(identity.get(4..4 + usize::from(identity[0]))?);
        }
        // PROT_EXEC
        executable = fields.u32()? & 4 != 0;
        fields.u32()?;
    }
    let path = fields.text();
    Some(Mapping { pid, address, bytes, file_offset, path, build_id, executable })
}

/// Decodes a sample's fields in their order (`linux/perf_event.h`, PERF_RECORD_SAMPLE).
fn decode_sample<'r>(
    mut fields: Fields<'r>,
    misc: u16,
    attributes: &Attributes,
    event: u32,
    room: &'r mut Room,
    counts: &mut Counts,
) -> Option<Sample<'r>> {
    let has = |what| attributes.has(what);
    let optional = |fields: &mut Fields<'r>, what| match has(what) {
        true => Some(Some(fields.u64()?)),
        false => Some(None),
    };
    optional(&mut fields, sample::IDENTIFIER)?;
    let address = optional(&mut fields, sample::IP)?.unwrap_or_default();
    let (pid, tid) = if has(sample::TID) { (fields.i32()?, fields.i32()?) } else { (-1, -1) };
    let time_ns = optional(&mut fields, sample::TIME)?;
    optional(&mut fields, sample::ADDR)?;
    optional(&mut fields, sample::ID)?;
    optional(&mut fields, sample::STREAM_ID)?;
    // The CPU's number is in the lower half.
    let cpu = optional(&mut fields, sample::CPU)?.map(|cpu| cpu as u32);
    let fixed = if attributes.is_frequency() { 1 } else { attributes.period.max(1) };
    let period = optional(&mut fields, sample::PERIOD)?.unwrap_or(fixed);
    if has(sample::READ) {
        read_counts(&mut fields, attributes.read_format, counts)?;
    }
    let Room { chain: copied, registers } = room;
    registers.clear();
    let mut chain: &[u64] = &[];
    if has(sample::CALLCHAIN) {
        let frames = usize::try_from(fields.u64()?).ok()?;
        let bytes = fields.take(frames.checked_mul(8)?)?;
        chain = match bytemuck::try_cast_slice(bytes) {
            Ok(words) if cfg!(target_endian = "little") => words,
            _ => {
                let (words, _) = bytes.as_chunks::<8>();
                copied.clear();
                copied.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
                copied
            }
        };
    }
    let mut user_stack = None;
    if has(sample::STACK_USER) {
        user_stack = decode_stack(fields, attributes, registers);
    }
    Some(Sample {
        time_ns,
        pid,
        tid,
        cpu,
        event,
        period,
        address,
        in_kernel: misc & MODE_MASK == MODE_KERNEL,
        chain,
        user_stack: user_stack.map(|(registers_mask, bytes)| UserStack {
            registers_mask,
            registers,
            bytes,
        }),
    })
}

/// Reads the counts of the event or its group (`PERF_FORMAT_*`), except those without identifier.
fn read_counts(fields: &mut Fields<'_>, format: u64, counts: &mut Counts) -> Option<()> {
    let has = |bit: u32| format & (1 << bit) != 0;
    let (times, id, group, lost) = (u64::from(has(0)) + u64::from(has(1)), has(2), has(3), has(4));
    let mut count = |fields: &mut Fields<'_>, times| {
        let value = fields.u64()?;
        fields.skip_words(times)?;
        if id {
            counts.push((fields.u64()?, value));
        }
        fields.skip_words(lost.into())
    };
    if !group {
        return count(fields, times);
    }
    let counters = fields.u64()?;
    fields.skip_words(times)?;
    // Each counter takes a word at least, so a false number ends with the record.
    (0..counters).try_for_each(|_| count(fields, 0))
}

/// Reads the registers and the bytes of the user's stack; both are behind the chain.
fn decode_stack<'r>(
    mut fields: Fields<'r>,
    attributes: &Attributes,
    registers: &mut Vec<u64>,
) -> Option<(u64, &'r [u8])> {
    if attributes.has(sample::RAW) {
        let bytes = fields.u32()? as usize;
        fields.take(bytes)?;
    }
    if attributes.has(sample::BRANCH_STACK) {
        let branches = fields.u64()?;
        // PERF_SAMPLE_BRANCH_HW_INDEX
        fields.skip_words(u64::from(attributes.branch_sample_type & (1 << 17) != 0))?;
        fields.skip_words(branches.checked_mul(3)?)?;
    }
    let mut mask = 0;
    if attributes.has(sample::REGS_USER) && fields.u64()? != 0 {
        mask = attributes.registers_user;
        for _ in 0..mask.count_ones() {
            registers.push(fields.u64()?);
        }
    }
    let room = usize::try_from(fields.u64()?).ok()?;
    if room == 0 {
        return None;
    }
    let bytes = fields.take(room)?;
    let copied = usize::try_from(fields.u64()?).ok()?.min(room);
    Some((mask, &bytes[..copied]))
}
