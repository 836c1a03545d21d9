//! Reads files that `perf record` wrote: on disk, piped, compressed, unfinished, or in a folder.
//!
//! No crate reads the layout here: the best kept one trusts the file's sizes, so a damaged file ends
//! the program, and it misreads one optional field (`PERF_SAMPLE_READ`).

mod decode;
mod header;
mod inflate;
mod layout;
mod round;
mod stream;

use super::Wanted;
use super::about::{About, EventAbout};
use super::filter::Facts;
use crate::event::{CONTEXT_KERNEL, CONTEXT_MAX, Event, Sample};
use crate::losses::{Damage, RecordPlace};
use crate::session::{Recorded, Session};
use crate::space::{CodeFile, KERNEL_HALF};
use crate::symbolise::{Origin, Sources, contents, module};
use crate::unwind::Unwinder;
use decode::{Counts, Room, decode, lost_in_all};
use header::Header;
use inflate::Inflate;
use layout::{Attributes, Fields, record, sample};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::{Budget, Exceeded};
use round::{Due, Rounds, event_id, time_ns};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Seek};
use stream::Stream;

/// The first bytes of a file that perf wrote.
pub const MAGIC: &[u8; 8] = b"PERFILE2";
/// The first bytes of a file from a big-endian computer.
pub const MAGIC_BIG_ENDIAN: &[u8; 8] = b"2ELIFREP";

/// Why a perf.data file cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum PerfDataError {
    /// The system cannot read the file.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not a perf.data file.
    #[error("it does not begin like a perf.data file")]
    Foreign,
    /// The file is from a big-endian computer.
    #[error("it is from a big-endian computer; only little-endian recordings are read")]
    BigEndian,
    /// The file ends too early.
    #[error(
        "it was cut short: {needs_bytes} bytes are announced, {has_bytes} are there; copy it again"
    )]
    CutShort {
        /// The size that the file's header announces.
        needs_bytes: u64,
        /// The file's size.
        has_bytes: u64,
    },
    /// A part of the file contradicts itself.
    #[error("it is damaged: {what} at byte {at}; copy or record it again")]
    Broken {
        what: &'static str,
        /// The place of the fault, bytes from the start of the file or stream.
        at: u64,
    },
    /// The event was recorded without addresses.
    #[error(
        "its event {event} was recorded without instruction addresses; choose another event with \
         --event, or record it again"
    )]
    NoAddress { event: String },
    /// The file has no such event.
    #[error("it has no event {wanted}; it has {known}")]
    NoEvent { wanted: String, known: String },
    /// The file's compressed data cannot be read.
    #[error("its compressed records cannot be read ({what}); copy or record it again")]
    Compressed { what: String },
    /// Reading takes more than the budget.
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
}

impl PerfDataError {
    fn broken(what: &'static str, at: u64) -> Self {
        PerfDataError::Broken { what, at }
    }

    /// Whether the fault is in a record's contents, not in how the file was made.
    fn is_of_a_record(&self) -> bool {
        matches!(self, PerfDataError::Broken { .. } | PerfDataError::Compressed { .. })
    }
}

/// The head of a record.
#[derive(Clone, Copy)]
struct Head {
    kind: u32,
    /// The record's size in bytes, head included.
    size: u16,
}

impl Head {
    /// Parses the head; `None` if there are too few bytes.
    fn of(bytes: &[u8]) -> Option<Head> {
        let mut fields = Fields::new(bytes);
        let kind = fields.u32()?;
        fields.take(2)?;
        Some(Head { kind, size: fields.u16()? })
    }

    /// Whether this may be the head of a record: kinds are small numbers, and the size of a kernel's
    /// record is a multiple of 8 bytes.
    fn is_plausible(self) -> bool {
        let of_kernel = (1..KERNEL_KINDS_END).contains(&self.kind);
        let of_perf = (record::USER..USER_KINDS_END).contains(&self.kind);
        self.size >= 8 && (of_kernel && self.size.is_multiple_of(8) || of_perf)
    }
}

/// Above every kind of record that a kernel or perf writes, with room for new kinds.
const KERNEL_KINDS_END: u32 = 40;
const USER_KINDS_END: u32 = 128;

/// The number of plausible records in a row that cannot be chance.
const ROW_OF_RECORDS: usize = 4;

/// Whether records begin here; `is_all`: whether these bytes are the last of the file.
fn records_begin(bytes: &[u8], is_all: bool) -> bool {
    let mut rest = bytes;
    for seen in 0..ROW_OF_RECORDS {
        if rest.is_empty() {
            return seen > 0 && is_all;
        }
        let head = Head::of(rest).filter(|head| head.is_plausible());
        match head.and_then(|head| rest.get(usize::from(head.size)..)) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    true
}

/// Finds the next record after one whose head, and so whose end, is broken.
///
/// `stream`: at `at`, the place of the broken record; `end`: the end of the records, if known.
///
/// Returns the place of the next record; `None` if none follows.
fn next_record(
    stream: &mut Stream<impl Read>,
    at: u64,
    end: Option<u64>,
) -> Result<Option<u64>, PerfDataError> {
    /// The most bytes of a row of records.
    const WINDOW: usize = ROW_OF_RECORDS << 16;
    let mut from = at;
    loop {
        let left = end.map_or(u64::MAX, |end| end.saturating_sub(from));
        let wanted = left.min(2 * WINDOW as u64) as usize;
        let bytes = stream.look(wanted)?;
        let is_all = bytes.len() < 2 * WINDOW || bytes.len() as u64 == left;
        let places = if is_all { bytes.len() } else { WINDOW };
        let first = if from == at { 8 } else { 0 };
        // The kernel writes records at multiples of 8 bytes.
        let found = (first..places).step_by(8).find(|at| records_begin(&bytes[*at..], is_all));
        let pass = match found {
            Some(place) => place as u64,
            None if is_all => return Ok(None),
            None => WINDOW as u64,
        };
        stream.pass(pass)?;
        from += pass;
        if found.is_some() {
            return Ok(Some(from));
        }
    }
}

/// Reads a file.
///
/// `file`: at its start; `bytes`: its length; `wanted`: the event and samples to read; `sources`: the
/// places of the files by which copied stacks are unwound; `budget`: what reading may take.
///
/// # Errors
/// [`PerfDataError`].
pub fn read(
    file: impl Read + Seek,
    bytes: u64,
    wanted: &Wanted,
    sources: &Sources,
    budget: &Budget,
) -> Result<(About, Recorded), PerfDataError> {
    let mut file = file;
    let header = Header::read(&mut file, bytes, budget)?;
    let (mut at, end) = (header.data_start, header.data_end);
    let mut reading = PerfDataReader::new(header, wanted, sources, budget)?;
    reading.records(&mut Stream::new(budget.reader(file)), &mut at, end, u64::MAX)?;
    reading.finish()
}

/// The bytes read at a time of each file of a folder.
const PIECE_BYTES: usize = 256 << 10;

/// Reads a folder that perf wrote with several threads (`perf record --threads`).
///
/// The records of each file are nearly in the order of time, so the reader merges the files and holds
/// only a few pieces of each. `parts`: the files that hold records only, with their numbers and
/// lengths; the other arguments are as in [`read`].
///
/// # Errors
/// [`PerfDataError`] with the number of the faulty file; `None` is the file `data`.
pub fn read_parts<'f>(
    mut file: impl Read + Seek + 'f,
    bytes: u64,
    parts: Vec<(u32, impl Read + 'f, u64)>,
    wanted: &Wanted,
    sources: &Sources,
    budget: &Budget,
) -> Result<(About, Recorded), (Option<u32>, PerfDataError)> {
    let of_first = |error| (None, error);
    let header = Header::read(&mut file, bytes, budget).map_err(of_first)?;
    let (at, end) = (header.data_start, header.data_end);
    let mut reading = PerfDataReader::new(header, wanted, sources, budget).map_err(of_first)?;
    // The end of a round in one file does not order the other files.
    reading.in_rounds = false;
    let mut all = vec![Part::new(None, Box::new(file), at, end)];
    for (number, part, bytes) in parts {
        all.push(Part::new(Some(number), Box::new(part), 0, Some(bytes)));
    }
    reading.merge(all, PerfDataReader::give)?;
    reading.finish().map_err(of_first)
}

/// A file of a folder, read as far as its records were needed.
struct Part<'f> {
    number: Option<u32>,
    stream: Stream<Box<dyn Read + 'f>>,
    at: u64,
    end: Option<u64>,
    ended: bool,
    rounds: Rounds,
    /// Each thread of perf has a stream of its own for compression.
    inflate: Option<Inflate>,
    inflated: Vec<u8>,
}

impl<'f> Part<'f> {
    fn new(number: Option<u32>, file: Box<dyn Read + 'f>, at: u64, end: Option<u64>) -> Part<'f> {
        Part {
            number,
            stream: Stream::in_pieces(file, PIECE_BYTES),
            at,
            end,
            ended: false,
            rounds: Rounds::default(),
            inflate: None,
            inflated: Vec::new(),
        }
    }
}

/// The state of reading a recording.
struct PerfDataReader<'w> {
    header: Header,
    wanted: &'w Wanted,
    /// The threads' names, if the filter needs them.
    commands: KeyedMap<i32, Vec<u8>>,
    first_ns: Option<u64>,
    left_out: u64,
    sources: &'w Sources,
    budget: &'w Budget,
    /// Why the budget was used up while a record was given.
    exceeded: Option<Exceeded>,
    unwinder: Unwinder,
    /// A buffer for the chain of an unwound stack.
    chain: Vec<u64>,
    rounds: Rounds,
    /// The number of the file that is being read, in a folder.
    part: Option<u32>,
    room: Room,
    /// The counts that a sample carries, and the last count of each identifier.
    counts: Counts,
    counted: KeyedMap<u64, u64>,
    /// The event whose samples carry the chosen event's counts, if it is another event.
    leader: Option<usize>,
    /// The session, from the kernel's first record on, when all events are known.
    session: Option<Session>,
    /// Whether the kernel that was sampled has 32-bit addresses, and a buffer for chains with these.
    narrow_kernel: bool,
    widened: Vec<u64>,
    /// Whether the ends of rounds order the records.
    in_rounds: bool,
    by_id: KeyedMap<u64, usize>,
    chosen: usize,
    inflate: Option<Inflate>,
    /// The beginning of a record whose end is in the next compressed record.
    inflated: Vec<u8>,
    /// The sum of the samples' costs so far.
    cost: u64,
    /// Whether any sample was read, and whether one of the chosen event was.
    has_samples: bool,
    has_chosen: bool,
    /// Lost events: as the kernel said at once, and as perf summed them up at the end.
    lost: u64,
    lost_in_all: u64,
    damage: Damage,
}

impl<'w> PerfDataReader<'w> {
    fn new(
        header: Header,
        wanted: &'w Wanted,
        sources: &'w Sources,
        budget: &'w Budget,
    ) -> Result<PerfDataReader<'w>, PerfDataError> {
        let mut reading = PerfDataReader {
            header,
            wanted,
            commands: KeyedMap::default(),
            first_ns: None,
            left_out: 0,
            sources,
            budget,
            exceeded: None,
            unwinder: Unwinder::default(),
            chain: Vec::new(),
            rounds: Rounds::default(),
            part: None,
            room: Room::default(),
            counts: Counts::new(),
            counted: KeyedMap::default(),
            leader: None,
            session: None,
            narrow_kernel: false,
            widened: Vec::new(),
            in_rounds: true,
            by_id: KeyedMap::default(),
            chosen: 0,
            inflate: None,
            inflated: Vec::new(),
            cost: 0,
            has_samples: false,
            has_chosen: false,
            lost: 0,
            lost_in_all: 0,
            damage: Damage::default(),
        };
        if !reading.header.piped {
            reading.begin()?;
        }
        Ok(reading)
    }

    /// Chooses the event, when all events are known.
    fn begin(&mut self) -> Result<(), PerfDataError> {
        let events = &self.header.events;
        if events.is_empty() {
            return Err(PerfDataError::broken("no sampled event", 0));
        }
        let chosen = match self.wanted.event.as_deref() {
            // perf may put an event first that serves another purpose than samples (`dummy:HG`).
            None => events.iter().position(|event| !event.is_dummy()),
            Some(wanted) => {
                let named = events.iter().position(|event| event.name == wanted);
                let stem = |name: &str| name.split(':').next().unwrap_or_default().to_string();
                let found =
                    named.or_else(|| events.iter().position(|event| stem(&event.name) == wanted));
                if found.is_none() {
                    let known: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
                    let (wanted, known) = (wanted.to_string(), known.join(", "));
                    return Err(PerfDataError::NoEvent { wanted, known });
                }
                found
            }
        };
        self.chosen = chosen.unwrap_or(0);
        let event = &events[self.chosen];
        if !event.has(sample::IP) {
            return Err(PerfDataError::NoAddress { event: event.name.clone() });
        }
        for (index, event) in events.iter().enumerate() {
            self.by_id.extend(event.ids.iter().map(|id| (*id, index)));
        }
        self.session = Some(Session::new(self.chosen as u32, event.frames_max()));
        Ok(())
    }

    /// Shows the first event that has samples, unless the user chose one. Called at each sample; all samples of an event are taken
    /// that becomes the shown one at its first sample.
    fn prefer(&mut self, index: usize) {
        let event = &self.header.events[index];
        let better = index < self.chosen || !self.has_chosen;
        let shown = better && !event.is_dummy() && event.has(sample::IP);
        if index != self.chosen && self.wanted.event.is_none() && shown {
            self.chosen = index;
            if let Some(session) = &mut self.session {
                session.choose(
                    index as u32,
                    event.frames_max(),
                    std::mem::take(&mut self.left_out),
                );
            }
            (self.cost, self.first_ns, self.header.times_ns) = (0, None, None);
            self.unwinder.take_unfinished();
        }
        self.has_chosen |= index == self.chosen;
    }

    /// Gives the records of several files in the order of time; records of the same time come in the
    /// order of the files.
    fn merge(
        &mut self,
        mut parts: Vec<Part<'_>>,
        mut give: impl FnMut(&mut Self, &Due<'_>),
    ) -> Result<(), (Option<u32>, PerfDataError)> {
        let mut firsts = BinaryHeap::new();
        for (index, part) in parts.iter_mut().enumerate() {
            firsts.extend(self.first_of(part)?.map(|time_ns| Reverse((time_ns, index))));
        }
        while let Some(Reverse((_, index))) = firsts.pop() {
            let part = &mut parts[index];
            self.part = part.number;
            part.rounds.give_first(&mut |due| give(self, &due));
            if let Some(exceeded) = self.exceeded {
                return Err((self.part, exceeded.into()));
            }
            firsts.extend(self.first_of(part)?.map(|time_ns| Reverse((time_ns, index))));
        }
        Ok(())
    }

    /// Returns the time of the next record of a file, after reading as much as needed.
    fn first_of(
        &mut self,
        part: &mut Part<'_>,
    ) -> Result<Option<u64>, (Option<u32>, PerfDataError)> {
        while part.rounds.first_ns().is_none() && !part.ended {
            self.part = part.number;
            std::mem::swap(&mut self.rounds, &mut part.rounds);
            std::mem::swap(&mut self.inflate, &mut part.inflate);
            std::mem::swap(&mut self.inflated, &mut part.inflated);
            let read = self.records(&mut part.stream, &mut part.at, part.end, PIECE_BYTES as u64);
            std::mem::swap(&mut self.rounds, &mut part.rounds);
            std::mem::swap(&mut self.inflate, &mut part.inflate);
            std::mem::swap(&mut self.inflated, &mut part.inflated);
            part.ended = read.map_err(|error| (part.number, error))?;
            part.rounds.settle(part.ended);
        }
        Ok(part.rounds.first_ns())
    }

    fn place(&self, at: u64) -> RecordPlace {
        RecordPlace { file: self.part, at }
    }

    /// Reads records up to `end`, or to the end of the stream if `end` is `None`, but stops after the
    /// record that reaches `bytes_max`. Returns whether all records were read.
    fn records(
        &mut self,
        stream: &mut Stream<impl Read>,
        from: &mut u64,
        end: Option<u64>,
        bytes_max: u64,
    ) -> Result<bool, PerfDataError> {
        let mut at = *from;
        while end.is_none_or(|end| at < end) {
            if at - *from >= bytes_max {
                *from = at;
                return Ok(false);
            }
            let head = stream.look(8)?;
            let Some(Head { kind, size }) = Head::of(head) else {
                // perf was killed while it wrote this record.
                if self.header.unfinished || head.is_empty() && end.is_none() {
                    break;
                }
                let needs_bytes = end.unwrap_or(0).max(at + 8);
                let has_bytes = at + head.len() as u64;
                return Err(PerfDataError::CutShort { needs_bytes, has_bytes });
            };
            let is_plausible = Head { kind, size }.is_plausible();
            let beyond_end = end.is_some_and(|end| at.saturating_add(size.into()) > end);
            if !is_plausible || beyond_end {
                if self.header.unfinished && (size < 8 || beyond_end) {
                    break;
                }
                match next_record(stream, at, end)? {
                    Some(next) => {
                        self.damage.add(self.place(at));
                        at = next;
                        continue;
                    }
                    // The record's length tells how much is missing.
                    None if is_plausible => {
                        let has_bytes = end.unwrap_or(at);
                        let needs_bytes = at.saturating_add(size.into());
                        return Err(PerfDataError::CutShort { needs_bytes, has_bytes });
                    }
                    None => {
                        let error = PerfDataError::broken("no record", at);
                        return self.lose_rest(error, at);
                    }
                }
            }
            let record = stream.look(usize::from(size))?;
            if record.len() < usize::from(size) {
                if self.header.unfinished {
                    break;
                }
                let needs_bytes = end.unwrap_or(0).max(at + u64::from(size));
                let has_bytes = at + record.len() as u64;
                return Err(PerfDataError::CutShort { needs_bytes, has_bytes });
            }
            // Some records are followed by data that are not records.
            let behind = match self.take(kind, record, at) {
                Ok(behind) => behind,
                Err(error) if error.is_of_a_record() => return self.lose_rest(error, at),
                Err(error) => return Err(error),
            };
            at = at.saturating_add(u64::from(size)).saturating_add(behind);
            let wanted = behind.saturating_add(u64::from(size));
            let passed = stream.pass(wanted)?;
            if passed < wanted {
                let has_bytes = at - (wanted - passed);
                return Err(PerfDataError::CutShort { needs_bytes: at, has_bytes });
            }
        }
        Ok(true)
    }

    /// Gives up on the rest of the file: keeps the samples before it, or fails if there are none.
    fn lose_rest(&mut self, error: PerfDataError, at: u64) -> Result<bool, PerfDataError> {
        if !self.has_samples {
            return Err(error);
        }
        self.damage.rest_from.get_or_insert(RecordPlace { file: self.part, at });
        Ok(true)
    }

    /// Reads a record, and returns the number of bytes of other data that follow the record.
    fn take(&mut self, kind: u32, bytes: &[u8], at: u64) -> Result<u64, PerfDataError> {
        if kind < record::USER {
            self.take_kernels(kind, bytes, at)?;
            return Ok(0);
        }
        let broken = |what| PerfDataError::broken(what, at);
        let mut body = Fields::new(&bytes[8..]);
        match kind {
            record::HEADER_ATTR => self.header.attribute_record(body.rest(), at)?,
            record::HEADER_FEATURE => match body.u64() {
                Some(feature) => self.header.feature(feature as u32, body.rest()),
                None => self.damage.add(self.place(at)),
            },
            record::EVENT_UPDATE => self.header.event_update(body),
            record::BUILD_ID => self.header.build_id(bytes),
            record::FINISHED_ROUND if self.in_rounds => self.finish_round()?,
            record::TRACING_DATA => {
                let behind = body.u32().ok_or_else(|| broken("tracing data"))?;
                return Ok(u64::from(behind).next_multiple_of(8));
            }
            record::AUXTRACE => return body.u64().ok_or_else(|| broken("trace data")),
            record::COMPRESSED => self.inflate(body.rest(), at)?,
            record::COMPRESSED2 => {
                let bytes = body.u64().and_then(|bytes| usize::try_from(bytes).ok());
                let data = bytes.and_then(|bytes| body.take(bytes));
                self.inflate(data.ok_or_else(|| broken("a compressed record"))?, at)?;
            }
            _ => {}
        }
        Ok(0)
    }

    fn take_kernels(&mut self, kind: u32, bytes: &[u8], at: u64) -> Result<(), PerfDataError> {
        if self.session.is_none() {
            self.begin().map_err(|error| match error {
                PerfDataError::Broken { what, .. } => PerfDataError::Broken { what, at },
                other => other,
            })?;
        }
        // Records other than samples have their time at the place that the first event sets.
        let event = self.event_of(kind, bytes);
        let time_ns = time_ns(&self.header.events[event], kind, bytes);
        self.rounds.add(bytes, time_ns, event as u32, at);
        self.has_samples |= kind == record::SAMPLE;
        Ok(())
    }

    /// Returns the index of the event that a record belongs to.
    fn event_of(&self, kind: u32, bytes: &[u8]) -> usize {
        let events = &self.header.events;
        let id = if events.len() > 1 { event_id(&events[0], kind, bytes) } else { None };
        id.and_then(|id| self.by_id.get(&id)).copied().unwrap_or(0)
    }

    fn finish_round(&mut self) -> Result<(), PerfDataError> {
        let mut rounds = std::mem::take(&mut self.rounds);
        rounds.finish_round(&mut |due| self.give(&due));
        self.rounds = rounds;
        self.exceeded.map_or(Ok(()), |exceeded| Err(exceeded.into()))
    }

    /// Gives a record to the session; broken records are counted. Nothing is given once the budget is used up.
    fn give(&mut self, due: &Due<'_>) {
        if self.exceeded.is_none() {
            self.exceeded = self.budget.step(due.bytes.len() as u64).err();
        }
        if self.exceeded.is_some() {
            return;
        }
        let kind = Head::of(due.bytes).map(|head| head.kind);
        if kind == Some(record::SAMPLE) {
            self.prefer(due.event as usize);
        }
        let attributes = &self.header.events[due.event as usize];
        if let Some(lost) = lost_in_all(due.bytes, attributes) {
            self.lost_in_all = self.lost_in_all.saturating_add(lost);
            return;
        }
        let (room, counts) = (&mut self.room, &mut self.counts);
        let Some(event) = decode(due.bytes, attributes, due.event, room, counts) else {
            return self.damage.add(RecordPlace { file: self.part, at: due.at });
        };
        let (Some(mut event), Some(session)) = (event, &mut self.session) else { return };
        match &mut event {
            Event::Mapping(mapping) if mapping.pid == -1 => {
                self.narrow_kernel |= is_narrow(mapping.address);
                if self.narrow_kernel {
                    mapping.address = widened(mapping.address);
                    mapping.file_offset = widened(mapping.file_offset);
                }
            }
            Event::Sample(sample) => {
                self.narrow_kernel |= sample.in_kernel && is_narrow(sample.address);
                if self.narrow_kernel {
                    if sample.in_kernel {
                        sample.address = widened(sample.address);
                    }
                    widen_kernels(sample.chain, &mut self.widened);
                    sample.chain = &self.widened;
                }
            }
            _ => {}
        }
        if let (Event::Lost { events }, Some(record::LOST)) = (&event, kind) {
            self.lost = self.lost.saturating_add(*events);
        }
        if let Event::Sample(sample) = &mut event
            && !self.counts.is_empty()
        {
            // Counts grow from sample to sample; a sample stands for the growth since the last one
            // (`perf record -e '{a,b}:S'`).
            let is_chosen = |id: &u64| self.by_id.get(id) == Some(&self.chosen);
            if let Some((id, count)) = self.counts.iter().find(|(id, _)| is_chosen(id)) {
                let before = self.counted.insert(*id, *count).unwrap_or(0);
                if *count <= before {
                    return;
                }
                if sample.event != self.chosen as u32 {
                    self.leader = Some(sample.event as usize);
                }
                (sample.event, sample.period) = (self.chosen as u32, count - before);
            }
        }
        if !self.wanted.filter.is_empty() {
            match &event {
                Event::Sample(sample) if sample.event == self.chosen as u32 => {
                    self.first_ns = self.first_ns.or(sample.time_ns);
                    let place = session.spaces().place(sample.pid, sample.address);
                    let file = place.map(|place| &session.spaces().files()[place.file as usize]);
                    let module = file.map(module);
                    let command = self.commands.get(&sample.tid);
                    let command = command.map(|name| String::from_utf8_lossy(name));
                    let since = |time_ns: u64| time_ns.saturating_sub(self.first_ns.unwrap_or(0));
                    let facts = Facts {
                        command: command.as_deref(),
                        pid: Some(sample.pid),
                        tid: Some(sample.tid),
                        module: module.as_deref(),
                        time_ns: sample.time_ns.map(since),
                    };
                    if !self.wanted.filter.keeps(&facts) {
                        self.left_out += 1;
                        return;
                    }
                }
                Event::Name { tid, name, .. } => {
                    self.commands.insert(*tid, name.to_vec());
                }
                // A thread begins with its creator's name; perf records the creating process.
                Event::Fork { parent_pid, tid, .. } => {
                    if let Some(name) = self.commands.get(parent_pid).cloned() {
                        self.commands.insert(*tid, name);
                    }
                }
                _ => {}
            }
        }
        if let Event::Sample(sample) = &event
            && sample.event == self.chosen as u32
        {
            // The sum of all costs must fit in 64 bits.
            let Some(cost) = self.cost.checked_add(sample.period) else {
                return self.damage.add(RecordPlace { file: self.part, at: due.at });
            };
            self.cost = cost;
            self.header.sampled(sample.time_ns);
        }
        match &event {
            Event::Sample(sample)
                if sample.user_stack.is_some()
                    && sample.event == self.chosen as u32
                    && self.header.is_x86_64() =>
            {
                let (header, sources, chain) = (&self.header, self.sources, &mut self.chain);
                let wanted = self.wanted;
                let read = |file: &CodeFile| unwind_contents(file, header, wanted, sources);
                self.unwinder.complete(sample, session.spaces(), read, chain);
                session.take(&Event::Sample(Sample { chain, ..sample.clone() }));
            }
            event => session.take(event),
        }
    }

    fn inflate(&mut self, data: &[u8], at: u64) -> Result<(), PerfDataError> {
        let inflate = match &mut self.inflate {
            Some(inflate) => inflate,
            None => self.inflate.insert(Inflate::new()?),
        };
        let mut inflated = std::mem::take(&mut self.inflated);
        inflate.append(data, &mut inflated, self.budget)?;
        let mut done = 0;
        while let Some(rest) = inflated.get(done..).filter(|rest| rest.len() >= 8) {
            let mut fields = Fields::new(rest);
            let (kind, size) = (fields.u32(), fields.take(2).and_then(|_| fields.u16()));
            let (Some(kind), Some(size)) = (kind, size) else { break };
            let size = usize::from(size);
            if size < 8 {
                return Err(PerfDataError::broken("a compressed record without a size", at));
            }
            let Some(bytes) = rest.get(..size) else { break };
            match kind {
                record::COMPRESSED | record::COMPRESSED2 => {
                    return Err(PerfDataError::broken("a compressed record in another", at));
                }
                kind => self.take(kind, bytes, at)?,
            };
            done += size;
        }
        inflated.drain(..done);
        self.inflated = inflated;
        Ok(())
    }

    fn finish(mut self) -> Result<(About, Recorded), PerfDataError> {
        if self.session.is_none() {
            self.begin()?;
        }
        let mut rounds = std::mem::take(&mut self.rounds);
        rounds.finish(&mut |due| self.give(&due));
        if let Some(exceeded) = self.exceeded {
            return Err(exceeded.into());
        }
        let mut recorded = self.session.map(Session::finish).unwrap_or_default();
        recorded.losses.add_unfinished(self.unwinder.take_unfinished());
        recorded.losses.damage = self.damage;
        recorded.losses.left_out = self.left_out;
        // The sum at the end has the same events again, and those behind the last record of the kernel.
        let more = self.lost_in_all.saturating_sub(self.lost);
        recorded.losses.lost_events = recorded.losses.lost_events.saturating_add(more);
        recorded.learn(&self.header.build_ids);
        recorded.origin = origin(&self.header, self.wanted);
        // A recording without `enable_on_exec` may have met another program first.
        if !self.header.events.iter().any(Attributes::begins_with_exec) {
            recorded.program = None;
        }
        let event = &self.header.events[self.chosen];
        let before = self.header.events[..self.chosen].iter().filter(|event| !event.is_dummy());
        let without_samples = before
            .filter(|_| self.wanted.event.is_none() && self.has_chosen)
            .map(|event| &event.name);
        let about = About {
            format: "perf.data",
            event: event.name.clone(),
            events: self.header.events.iter().map(|event| event.name.clone()).collect(),
            without_samples: without_samples.cloned().collect(),
            sampling: Some(EventAbout {
                clock: event.is_clock(),
                bytes: false,
                counted_with: self.leader.map(|leader| self.header.events[leader].name.clone()),
                precise: event.precise(),
                exact: event.is_exact() && self.leader.is_none(),
                frequency_hz: event.is_frequency().then_some(event.period),
                period: (!event.is_frequency() && event.period > 0).then_some(event.period),
                with_callers: event.has(sample::CALLCHAIN) || event.has(sample::STACK_USER),
            }),
            command: self.header.command,
            host: self.header.host,
            kernel_release: self.header.kernel_release,
            duration_ns: self.header.times_ns.map(|(first, last)| last - first),
            cpu_ns: None,
            files: 0,
            unfinished: self.header.unfinished,
        };
        Ok((about, recorded))
    }
}

/// Whether an address of the kernel is one of 32 bits; the first page is nobody's.
fn is_narrow(address: u64) -> bool {
    (0x1000..=u64::from(u32::MAX)).contains(&address)
}

/// The place of a 32-bit kernel's address in the kernel's half of 64 bits, so that no program has it.
fn widened(address: u64) -> u64 {
    address | KERNEL_HALF | !u64::from(u32::MAX)
}

/// Copies a chain; the addresses behind the kernel's marker are widened.
fn widen_kernels(chain: &[u64], copy: &mut Vec<u64>) {
    copy.clear();
    let mut in_kernel = false;
    copy.extend(chain.iter().map(|frame| {
        if *frame >= CONTEXT_MAX {
            in_kernel = *frame == CONTEXT_KERNEL;
            return *frame;
        }
        if in_kernel { widened(*frame) } else { *frame }
    }));
}

/// Where the samples were taken. Piped recordings say so with their last records.
fn origin(header: &Header, wanted: &Wanted) -> Origin {
    let Header { host, kernel_release, .. } = header;
    let (host, kernel_release) = (host.clone(), kernel_release.clone());
    Origin { host, kernel_release, recorded_at: None, trusted: wanted.trust_files }
}

/// Returns the mapped file's contents, if the file is there and is the same build. The build ids at
/// the recording's end have been read before.
fn unwind_contents(
    file: &CodeFile,
    header: &Header,
    wanted: &Wanted,
    sources: &Sources,
) -> Option<Vec<u8>> {
    if file.build_id.is_some() {
        return contents(file, sources);
    }
    let found = header.build_ids.iter().find(|(path, _)| *path == file.path);
    let file = CodeFile { build_id: found.map(|(_, id)| id.clone()), ..file.clone() };
    contents(&file, sources).filter(|_| !origin(header, wanted).doubts(&file))
}

/// Reads as many bytes as there are.
fn fill(file: &mut (impl Read + ?Sized), bytes: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match file.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
