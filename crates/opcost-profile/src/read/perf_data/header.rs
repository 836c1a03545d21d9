//! Reads the parts before and behind the records: events, build ids, facts about the recording.

use super::layout::{Attributes, Fields, MISC_BUILD_ID_SIZE, MODE_KERNEL, MODE_MASK, feature};
use super::{MAGIC, MAGIC_BIG_ENDIAN, PerfDataError, fill};
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::budget::Budget;
use std::io::{Read, Seek, SeekFrom};

/// Sizes of `perf_file_header` and of the header in pipes.
const HEADER_BYTES: u64 = 104;
const PIPE_HEADER_BYTES: u64 = 16;

/// Facts about the recording.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) events: Vec<Attributes>,
    /// Paths with their build ids; the kernel's is `[kernel]`.
    pub(super) build_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) command: Option<String>,
    pub(super) host: Option<String>,
    pub(super) kernel_release: Option<String>,
    pub(super) architecture: Option<String>,
    pub(super) data_start: u64,
    /// `None` is the end of the stream.
    pub(super) data_end: Option<u64>,
    pub(super) piped: bool,
    /// Whether perf stopped before it wrote the end of the file.
    pub(super) unfinished: bool,
    /// Times of the first and the last sample.
    pub(super) times_ns: Option<(u64, u64)>,
    /// The first event with an identifier, of the first `known_events` events. A file can have a million events and updates of them.
    event_by_id: KeyedMap<u64, usize>,
    known_events: usize,
}

/// The place of a part of the file (`perf_file_section`).
#[derive(Clone, Copy)]
struct Section {
    start: u64,
    bytes: u64,
}

impl Section {
    fn read(fields: &mut Fields<'_>) -> Option<Section> {
        Some(Section { start: fields.u64()?, bytes: fields.u64()? })
    }

    /// Returns the section's contents, if the file has all of them.
    fn contents(
        self,
        file: &mut (impl Read + Seek),
        has_bytes: u64,
        budget: &Budget,
    ) -> Result<Vec<u8>, PerfDataError> {
        let needs_bytes = self.start.saturating_add(self.bytes);
        if needs_bytes > has_bytes {
            return Err(PerfDataError::CutShort { needs_bytes, has_bytes });
        }
        file.seek(SeekFrom::Start(self.start))?;
        // A file's length costs nothing where the file has holes.
        budget.room(self.bytes)?;
        let mut contents = vec![0; self.bytes as usize];
        let got = fill(file, &mut contents)? as u64;
        if got < self.bytes {
            return Err(PerfDataError::CutShort { needs_bytes, has_bytes: self.start + got });
        }
        Ok(contents)
    }
}

impl Header {
    /// Reads the header, and leaves the file at its first record.
    pub(super) fn read(
        file: &mut (impl Read + Seek),
        has_bytes: u64,
        budget: &Budget,
    ) -> Result<Header, PerfDataError> {
        let mut bytes = [0; HEADER_BYTES as usize];
        let got = fill(file, &mut bytes)?;
        let mut fields = Fields::new(&bytes[..got]);
        match fields.take(8) {
            Some(magic) if magic == MAGIC => {}
            Some(magic) if magic == MAGIC_BIG_ENDIAN => return Err(PerfDataError::BigEndian),
            _ => return Err(PerfDataError::Foreign),
        }
        let short = || PerfDataError::CutShort { needs_bytes: HEADER_BYTES, has_bytes: got as u64 };
        let header_bytes = fields.u64().ok_or_else(short)?;
        if header_bytes == PIPE_HEADER_BYTES {
            file.seek(SeekFrom::Start(PIPE_HEADER_BYTES))?;
            let data_start = PIPE_HEADER_BYTES;
            return Ok(Header { piped: true, data_start, ..Header::default() });
        }
        let attribute_bytes = fields.u64().ok_or_else(short)?;
        let mut section = || Section::read(&mut fields).ok_or_else(short);
        let (attributes, data, _) = (section()?, section()?, section()?);
        let bits = fields.take(32).ok_or_else(short)?;
        let mut header = Header { data_start: data.start, ..Header::default() };
        header.attributes(file, attributes, attribute_bytes, has_bytes, budget)?;
        // perf writes the size when it ends.
        header.unfinished = data.bytes == 0;
        let end = data.start.saturating_add(data.bytes);
        header.data_end = (!header.unfinished).then_some(end);
        if end > has_bytes {
            return Err(PerfDataError::CutShort { needs_bytes: end, has_bytes });
        }
        if !header.unfinished {
            header.features(file, bits, end, has_bytes, budget)?;
        }
        file.seek(SeekFrom::Start(data.start))?;
        Ok(header)
    }

    /// Reads the events, each as its attributes and the place of its identifiers.
    fn attributes(
        &mut self,
        file: &mut (impl Read + Seek),
        section: Section,
        each_bytes: u64,
        has_bytes: u64,
        budget: &Budget,
    ) -> Result<(), PerfDataError> {
        let contents = section.contents(file, has_bytes, budget)?;
        let each = usize::try_from(each_bytes).unwrap_or(usize::MAX);
        if each < 80 || contents.len() < each {
            return Err(PerfDataError::broken("the size of a sampled event", 16));
        }
        for entry in contents.chunks_exact(each) {
            let (attributes, ids) = entry.split_at(each - 16);
            let mut event = Attributes::parse(attributes)?;
            if let Some(ids) = Section::read(&mut Fields::new(ids)) {
                let ids = ids.contents(file, has_bytes, budget)?;
                let (words, _) = ids.as_chunks::<8>();
                event.ids = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            }
            self.events.push(event);
        }
        Ok(())
    }

    /// Whether the recording is from x86-64, the only architecture whose stacks are unwound here;
    /// older versions of perf do not name theirs.
    pub(super) fn is_x86_64(&self) -> bool {
        self.architecture.as_deref().is_none_or(|name| name == "x86_64")
    }

    /// Reads the sections behind the data, one for each set bit; a table there has their places.
    fn features(
        &mut self,
        file: &mut (impl Read + Seek),
        bits: &[u8],
        end: u64,
        has_bytes: u64,
        budget: &Budget,
    ) -> Result<(), PerfDataError> {
        let set = (0..256u32).filter(|bit| bits[*bit as usize / 8] & (1 << (bit % 8)) != 0);
        for (index, bit) in set.enumerate() {
            let place = Section { start: end.saturating_add(index as u64 * 16), bytes: 16 };
            let place = place.contents(file, has_bytes, budget)?;
            let Some(section) = Section::read(&mut Fields::new(&place)) else { continue };
            let wanted = [
                feature::BUILD_ID,
                feature::HOST_NAME,
                feature::OS_RELEASE,
                feature::ARCHITECTURE,
                feature::COMMAND_LINE,
                feature::EVENT_DESC,
            ];
            if wanted.contains(&bit) {
                let contents = section.contents(file, has_bytes, budget)?;
                self.feature(bit, &contents);
            }
        }
        Ok(())
    }

    /// Takes over the contents of a section; contradictory ones are ignored.
    pub(super) fn feature(&mut self, bit: u32, contents: &[u8]) {
        let mut fields = Fields::new(contents);
        match bit {
            feature::HOST_NAME => self.host = fields.string(),
            feature::OS_RELEASE => self.kernel_release = fields.string(),
            feature::ARCHITECTURE => self.architecture = fields.string(),
            feature::COMMAND_LINE => {
                let words = fields.u32().unwrap_or_default();
                let words = (0..words).map_while(|_| fields.string()).collect::<Vec<_>>();
                self.command = Some(words.join(" ")).filter(|command| !command.is_empty());
            }
            feature::EVENT_DESC => {
                let _ = self.descriptions(fields);
            }
            feature::BUILD_ID => {
                let mut rest = contents;
                while let Some(size) = rest.get(6..8) {
                    let size = usize::from(u16::from_le_bytes([size[0], size[1]])).max(8);
                    let Some(record) = rest.get(..size) else { break };
                    self.build_id(record);
                    rest = &rest[size..];
                }
            }
            _ => {}
        }
    }

    /// Takes over the events' names: in the events' order, in a pipe by identifier.
    fn descriptions(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let (events, each_bytes) = (fields.u32()?, fields.u32()? as usize);
        for index in 0..events as usize {
            fields.take(each_bytes)?;
            let ids = fields.u32()?;
            let name = fields.string()?;
            let mut first = None;
            for _ in 0..ids {
                let id = fields.u64()?;
                first = first.or(Some(id));
            }
            let by_id = first.and_then(|id| self.event_of(id));
            if let Some(event) = self.events.get_mut(by_id.unwrap_or(index)) {
                event.name = name;
            }
        }
        Some(())
    }

    /// Reads a record that describes an event, in a pipe.
    pub(super) fn attribute_record(&mut self, body: &[u8], at: u64) -> Result<(), PerfDataError> {
        let size = body
            .get(4..8)
            .map_or(0, |size| u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize);
        let mut event = Attributes::parse(body)
            .map_err(|_| PerfDataError::broken("a sampled event's attributes", at))?;
        let ids = body.get(size.max(64)..).unwrap_or_default();
        let (words, _) = ids.as_chunks::<8>();
        event.ids = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        self.events.push(event);
        Ok(())
    }

    /// Reads a record that adds to an event's description: its name (`PERF_EVENT_UPDATE__NAME`).
    pub(super) fn event_update(&mut self, mut body: Fields<'_>) {
        let (Some(2), Some(id)) = (body.u64(), body.u64()) else { return };
        if let Some(index) = self.event_of(id) {
            self.events[index].name = String::from_utf8_lossy(body.text()).into_owned();
        }
    }

    /// Returns the index of the first event with an identifier.
    fn event_of(&mut self, id: u64) -> Option<usize> {
        for (index, event) in self.events.iter().enumerate().skip(self.known_events) {
            for id in &event.ids {
                self.event_by_id.entry(*id).or_insert(index);
            }
        }
        self.known_events = self.events.len();
        self.event_by_id.get(&id).copied()
    }

    /// Reads a record of a file's build id, header included (`perf_record_header_build_id`).
    pub(super) fn build_id(&mut self, record: &[u8]) {
        let mut fields = Fields::new(record);
        let mut read = || {
            fields.u32()?;
            let misc = fields.u16()?;
            fields.u16()?;
            fields.i32()?;
            Some((misc, fields.take(24)?))
        };
        let Some((misc, id)) = read() else { return };
        let bytes = match misc & MISC_BUILD_ID_SIZE {
            0 => 20,
            _ => usize::from(id[20]).min(20),
        };
        let path = fields.text();
        let kernel = misc & MODE_MASK == MODE_KERNEL
            && (path.starts_with(b"[kernel.kallsyms]") || path.ends_with(b"vmlinux"));
        let path = if kernel { b"[kernel]" } else { path };
        if bytes > 0 && id[..bytes].iter().any(|byte| *byte != 0) {
            self.build_ids.push((path.to_vec(), id[..bytes].to_vec()));
        }
    }

    /// Adds the time of a sample to `times_ns`.
    pub(super) fn sampled(&mut self, time_ns: Option<u64>) {
        let Some(time) = time_ns else { return };
        self.times_ns = match self.times_ns {
            None => Some((time, time)),
            Some((first, last)) => Some((first.min(time), last.max(time))),
        };
    }
}
