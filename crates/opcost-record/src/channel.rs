//! The messages of a guest's `/init` to the host: frames over a channel of their own, never the console.
//!
//! ```text
//! opcost-guest 1
//! frame uname 22
//! Linux 6.1.0 #1 SMP ...
//! frame report 57
//! opcost-record 1 ...
//! frame end 0
//!
//! ```
//!
//! After the first line come frames: a line with kind and length in bytes, that many bytes, and a line break. If `deflated` follows
//! the length, the bytes are compressed (RFC 1951): sending a byte costs the emulator more than saving it costs the guest. The
//! frame `end` is sent last, so that a channel cut short is never taken for a whole one. Nothing else may be between, before or
//! behind the frames.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

/// First line of the format's current version.
pub const HEADER: &str = "opcost-guest 1";

/// The I/O port to which the guest writes the channel byte by byte: the port of QEMU's `isa-debugcon`.
pub const PORT: u16 = 0xe9;

/// A write to this port ends QEMU, if the machine has an `isa-debug-exit` there.
pub const EXIT_PORT: u16 = 0x501;

/// The most bytes of each output stream of a command that are sent; the rest is dropped with a note.
pub const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The most bytes that a frame's body may become when it is read: several times a kernel's symbols.
const BODY_BYTES_MAX: usize = 64 << 20;

/// The length in bytes from which on bodies are compressed.
const DEFLATE_BYTES_MIN: usize = 4096;

/// A low level of compression. It more than halved the time to send a kernel's symbols (1.9 MB, with QEMU 7.2 about 1.7 µs a byte);
/// higher levels cost the guest more than they save.
const DEFLATE_LEVEL: u8 = 1;

/// The contents of a frame.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FrameKind {
    /// The kernel's functions, lines of `/proc/kallsyms` (address, type, name).
    Kallsyms,
    /// A workload's report in the format of [`wire`](crate::wire).
    Report,
    /// The command's standard output.
    Stdout,
    /// The command's standard error.
    Stderr,
    /// How the program ended: a [`GuestExit`].
    Exit,
    /// The reason why the job was not done.
    Error,
    /// An irregularity that did not stop the job.
    Note,
    /// Release and version of the kernel.
    Uname,
    /// The first processor as the kernel sees it: lines of `/proc/cpuinfo`, among them its identity and flags.
    Cpuinfo,
    /// The loaded modules and their addresses, a line for each: name, address.
    Modules,
    /// The processor's vulnerabilities by the kernel, a line for each: `name: state`.
    Vulnerabilities,
    /// The kernel's clock source.
    Clocksource,
    /// The boot options that the kernel does not know, as its log has them.
    UnknownOptions,
}

impl FrameKind {
    /// Every kind with its word.
    pub const NAMES: [(FrameKind, &'static str); 13] = [
        (FrameKind::Kallsyms, "kallsyms"),
        (FrameKind::Report, "report"),
        (FrameKind::Stdout, "stdout"),
        (FrameKind::Stderr, "stderr"),
        (FrameKind::Exit, "exit"),
        (FrameKind::Error, "error"),
        (FrameKind::Note, "note"),
        (FrameKind::Uname, "uname"),
        (FrameKind::Cpuinfo, "cpuinfo"),
        (FrameKind::Modules, "modules"),
        (FrameKind::Vulnerabilities, "vulnerabilities"),
        (FrameKind::Clocksource, "clocksource"),
        (FrameKind::UnknownOptions, "unknown-options"),
    ];

    /// The word in the frame's first line.
    pub fn word(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    fn from_word(word: &str) -> Option<FrameKind> {
        let (kind, _) = Self::NAMES.iter().find(|(_, known)| *known == word)?;
        Some(*kind)
    }
}

/// The word of the last frame.
const END: &str = "end";

/// The end of the first line of a frame whose body is compressed.
const DEFLATED: &str = " deflated";

/// A message of the guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The contents.
    pub kind: FrameKind,
    /// The body, uncompressed.
    pub body: Vec<u8>,
}

impl Frame {
    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// How a program in the guest ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GuestExit {
    /// The exit status.
    Code(i32),
    /// The signal's number.
    Signal(i32),
}

impl fmt::Display for GuestExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestExit::Code(code) => write!(f, "code {code}"),
            GuestExit::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

impl FromStr for GuestExit {
    type Err = ChannelError;

    fn from_str(text: &str) -> Result<GuestExit, ChannelError> {
        let wrong = || ChannelError::Exit(shortened(text.as_bytes()));
        let (word, number) = text.split_once(' ').ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        match word {
            "code" => Ok(GuestExit::Code(number)),
            "signal" => Ok(GuestExit::Signal(number)),
            _ => Err(wrong()),
        }
    }
}

/// Why bytes are not a guest's channel.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ChannelError {
    /// The guest sent nothing.
    #[error("the guest sent nothing: it did not get as far as its /init")]
    Empty,
    /// The first line is of another version.
    #[error(
        "the guest's channel starts with '{0}', expected '{HEADER}': guest and opcost are of \
         different versions, or something else writes to port {PORT:#x}"
    )]
    Version(String),
    /// Something else is where a frame should be.
    #[error(
        "byte {at} of the guest's channel: expected a frame, found '{text}': something else \
         writes to port {PORT:#x}"
    )]
    Foreign {
        /// Where it starts, bytes from the start of the channel.
        at: usize,
        text: String,
    },
    /// A frame of an unknown kind.
    #[error(
        "byte {at} of the guest's channel: unknown kind of frame '{kind}': guest and opcost are of \
         different versions"
    )]
    Kind {
        /// Where the frame starts, bytes from the start of the channel.
        at: usize,
        kind: String,
    },
    /// A compressed body cannot be read.
    #[error("the guest's frame {0} is damaged: it cannot be decompressed")]
    Deflated(&'static str),
    /// The last frame is missing.
    #[error("the guest died after {frames} whole frames{}", last_error_in_words(.last_error))]
    CutShort { frames: usize, last_error: Option<String> },
    /// Bytes follow the last frame.
    #[error(
        "{0} bytes follow the end of the guest's channel: something else writes to port {PORT:#x}"
    )]
    Trailing(usize),
    /// The body of a frame `exit` has another form.
    #[error("the guest's program ended with '{0}', expected 'code N' or 'signal N'")]
    Exit(String),
}

fn last_error_in_words(error: &Option<String>) -> String {
    error.as_ref().map_or(String::new(), |text| format!("; the last one says: {text}"))
}

/// Returns the start of a malformed line, made printable.
fn shortened(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line[..line.len().min(80)].escape_ascii().to_string()
}

/// Writes the channel.
///
/// Each frame reaches the writer in one call, so a failure between two calls leaves no half frame.
#[derive(Debug)]
pub struct ChannelWriter<W> {
    inner: W,
}

impl<W: Write> ChannelWriter<W> {
    /// Starts a channel with its first line.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn start(mut inner: W) -> io::Result<Self> {
        inner.write_all(format!("{HEADER}\n").as_bytes())?;
        Ok(ChannelWriter { inner })
    }

    /// Makes another writer for a channel that was started.
    pub fn resume(inner: W) -> Self {
        ChannelWriter { inner }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn send(&mut self, kind: FrameKind, body: &[u8]) -> io::Result<()> {
        if body.len() >= DEFLATE_BYTES_MIN {
            let small = miniz_oxide::deflate::compress_to_vec(body, DEFLATE_LEVEL);
            if small.len() < body.len() {
                return self.send_word(kind.word(), DEFLATED, &small);
            }
        }
        self.send_word(kind.word(), "", body)
    }

    /// Sends the last frame.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn end(&mut self) -> io::Result<()> {
        self.send_word(END, "", &[])?;
        self.inner.flush()
    }

    fn send_word(&mut self, word: &str, coding: &str, body: &[u8]) -> io::Result<()> {
        let mut frame = format!("frame {word} {}{coding}\n", body.len()).into_bytes();
        frame.extend_from_slice(body);
        frame.push(b'\n');
        self.inner.write_all(&frame)
    }
}

/// Reads a whole channel.
///
/// # Errors
/// [`ChannelError`] names the first fault; part of a channel is never returned.
pub fn parse(bytes: &[u8]) -> Result<Vec<Frame>, ChannelError> {
    if bytes.is_empty() {
        return Err(ChannelError::Empty);
    }
    let mut reader = Reader { bytes, at: 0 };
    let mut frames: Vec<Frame> = Vec::new();
    match reader.line() {
        Some(line) if line == HEADER.as_bytes() => {}
        None if HEADER.as_bytes().starts_with(bytes) => return Err(cut_short(&frames)),
        _ => return Err(ChannelError::Version(shortened(bytes))),
    }
    loop {
        let at = reader.at;
        let Some(FrameLine { word, length, deflated }) = reader.frame_line()? else {
            return Err(cut_short(&frames));
        };
        let kind = match (word, length, deflated) {
            (END, 0, false) => None,
            (word, ..) => match FrameKind::from_word(word) {
                Some(kind) => Some(kind),
                None => return Err(ChannelError::Kind { at, kind: shortened(word.as_bytes()) }),
            },
        };
        let body_at = reader.at;
        let Some(body) = reader.take(length) else {
            return Err(cut_short(&frames));
        };
        match reader.take(1) {
            Some(b"\n") => {}
            Some(_) => return Err(reader.foreign(body_at + length)),
            None => return Err(cut_short(&frames)),
        }
        match kind {
            Some(kind) if deflated => {
                let body = miniz_oxide::inflate::decompress_to_vec_with_limit(body, BODY_BYTES_MAX)
                    .map_err(|_| ChannelError::Deflated(kind.word()))?;
                frames.push(Frame { kind, body });
            }
            Some(kind) => frames.push(Frame { kind, body: body.to_vec() }),
            None if reader.at == bytes.len() => return Ok(frames),
            None => return Err(ChannelError::Trailing(bytes.len() - reader.at)),
        }
    }
}

/// Returns the place of the first frame that a guest sends after its work; `None` if there is none.
///
/// Before its work, a guest sends facts about itself: kernel, processor, modules, notes.
pub fn after_work(bytes: &[u8]) -> Option<usize> {
    let mut reader = Reader { bytes, at: 0 };
    reader.line()?;
    loop {
        let at = reader.at;
        let FrameLine { word, length, .. } = reader.frame_line().ok()??;
        match FrameKind::from_word(word) {
            Some(
                FrameKind::Note
                | FrameKind::Uname
                | FrameKind::Cpuinfo
                | FrameKind::Modules
                | FrameKind::Vulnerabilities
                | FrameKind::Clocksource
                | FrameKind::UnknownOptions,
            ) => reader.take(length.checked_add(1)?)?,
            _ => return Some(at),
        };
    }
}

fn cut_short(frames: &[Frame]) -> ChannelError {
    let last_error = frames.iter().rev().find(|frame| frame.kind == FrameKind::Error);
    ChannelError::CutShort { frames: frames.len(), last_error: last_error.map(Frame::text) }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The first line of a frame.
struct FrameLine<'a> {
    word: &'a str,
    length: usize,
    deflated: bool,
}

/// More bytes than the first line of a frame has: two words and a number of 64 bits.
const FRAME_LINE_BYTES_MAX: usize = 64;

impl<'a> Reader<'a> {
    fn foreign(&self, at: usize) -> ChannelError {
        ChannelError::Foreign { at, text: shortened(&self.bytes[at..]) }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes[self.at..].get(..length)?;
        self.at += length;
        Some(taken)
    }

    /// Returns the next line, if it is complete.
    fn line(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes[self.at..].iter().position(|byte| *byte == b'\n')?;
        let line = self.take(length);
        self.at += 1;
        line
    }

    /// Returns the next frame's first line; `None` if the channel ends within it.
    fn frame_line(&mut self) -> Result<Option<FrameLine<'a>>, ChannelError> {
        let at = self.at;
        let rest = &self.bytes[at..];
        let known = b"frame ";
        let begun = rest.len().min(known.len());
        if rest[..begun] != known[..begun] {
            return Err(self.foreign(at));
        }
        let Some(line) = self.line() else {
            let cut = rest.len() < FRAME_LINE_BYTES_MAX;
            return if cut { Ok(None) } else { Err(self.foreign(at)) };
        };
        let parsed = std::str::from_utf8(&line[known.len()..]).ok().and_then(|fields| {
            let (fields, deflated) = match fields.strip_suffix(DEFLATED) {
                Some(fields) => (fields, true),
                None => (fields, false),
            };
            let (word, length) = fields.split_once(' ')?;
            Some(FrameLine { word, length: length.parse().ok()?, deflated })
        });
        parsed.map(Some).ok_or_else(|| self.foreign(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = ChannelWriter::start(&mut bytes).unwrap();
        for frame in frames {
            writer.send(frame.kind, &frame.body).unwrap();
        }
        writer.end().unwrap();
        bytes
    }

    fn frame(kind: FrameKind, body: &str) -> Frame {
        Frame { kind, body: body.into() }
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let kind = (0..FrameKind::NAMES.len()).prop_map(|index| FrameKind::NAMES[index].0);
        let noise = prop::collection::vec(any::<u8>(), 0..200);
        // This is long enough to be compressed.
        let text = "[ab]{4,9}".prop_map(|text| text.repeat(1500).into_bytes());
        let body = prop_oneof![4 => noise, 1 => text];
        prop::collection::vec((kind, body).prop_map(|(kind, body)| Frame { kind, body }), 0..6)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frames in frames()) {
            prop_assert_eq!(parse(&written(&frames)).unwrap(), frames);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "(frame (stdout|[a-z]{0,8}) ([0-9]{0,20}|1 deflated)\n|\n|x){0,6}") {
            let _ = parse(&bytes);
            let _ = parse(format!("{HEADER}\n{text}").as_bytes());
        }
    }

    #[test]
    fn the_bytes_are_those_documented() {
        let bytes = written(&[frame(FrameKind::Exit, "code 3")]);
        assert_eq!(bytes, b"opcost-guest 1\nframe exit 6\ncode 3\nframe end 0\n\n");
    }

    #[test]
    fn a_channel_cut_anywhere_is_refused() {
        let frames = [frame(FrameKind::Error, "no arena"), frame(FrameKind::Stdout, "a\nframe")];
        let whole = written(&frames);
        for length in 0..whole.len() {
            match parse(&whole[..length]) {
                Err(ChannelError::Empty) if length == 0 => {}
                Err(ChannelError::CutShort { .. }) if length > 0 => {}
                other => panic!("{length} bytes: {other:?}"),
            }
        }
        let ChannelError::CutShort { frames, last_error } =
            parse(&whole[..whole.len() - 1]).unwrap_err()
        else {
            panic!("not cut short");
        };
        assert_eq!((frames, last_error.as_deref()), (2, Some("no arena")));
    }

    #[test]
    fn long_bodies_are_compressed_where_that_helps() {
        let text = "ffffffff81000000 T _stext\n".repeat(1000);
        let whole = written(&[frame(FrameKind::Kallsyms, &text)]);
        assert!(whole.len() < text.len() / 10, "{} bytes", whole.len());
        for length in 1..whole.len() {
            assert!(matches!(parse(&whole[..length]), Err(ChannelError::CutShort { .. })));
        }
        // The compressed body ends before two line breaks and the frame `end`.
        let mut damaged = whole.clone();
        let body = damaged.len() - "\nframe end 0\n\n".len();
        damaged[body - 8..body].fill(0);
        assert_eq!(parse(&damaged), Err(ChannelError::Deflated("kallsyms")));
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let noise: Vec<u8> = noise.take(8192).collect();
        let whole = written(&[Frame { kind: FrameKind::Stdout, body: noise }]);
        assert!(whole.starts_with(format!("{HEADER}\nframe stdout 8192\n").as_bytes()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let fault = |text: &str| parse(text.as_bytes()).unwrap_err();
        let with = |rest: &str| fault(&format!("{HEADER}\n{rest}"));
        assert_eq!(fault(""), ChannelError::Empty);
        assert_eq!(fault("opcost-guest 2\n"), ChannelError::Version("opcost-guest 2".into()));
        assert!(matches!(fault("SeaBIOS"), ChannelError::Version(_)));
        assert_eq!(with("noise\n"), ChannelError::Foreign { at: 15, text: "noise".into() });
        assert!(matches!(with("frame exit x\n"), ChannelError::Foreign { at: 15, .. }));
        assert!(matches!(with("frame exit 3\ncode 1\n"), ChannelError::Foreign { at: 31, .. }));
        assert_eq!(with("frame lunch 0\n\n"), ChannelError::Kind { at: 15, kind: "lunch".into() });
        assert!(matches!(with("frame end 1\n\n"), ChannelError::Kind { .. }));
        assert_eq!(with("frame end 0\n\nmore"), ChannelError::Trailing(4));
        let endless = "frame stdout ".repeat(9);
        assert!(matches!(with(&endless), ChannelError::Foreign { at: 15, .. }));
        let huge = with(&format!("frame stdout {}\n", usize::MAX));
        assert!(matches!(huge, ChannelError::CutShort { frames: 0, .. }));
    }

    #[test]
    fn kinds_are_at_their_places() {
        for (place, (kind, word)) in FrameKind::NAMES.iter().enumerate() {
            assert_eq!((*kind as usize, kind.word()), (place, *word));
        }
    }

    #[test]
    fn ends_round_trip() {
        for exit in [GuestExit::Code(0), GuestExit::Code(255), GuestExit::Signal(9)] {
            assert_eq!(exit.to_string().parse(), Ok(exit));
        }
        for text in ["", "code", "code x", "timeout 1", "signal 9 "] {
            assert_eq!(text.parse::<GuestExit>(), Err(ChannelError::Exit(text.into())));
        }
    }

    #[test]
    fn what_comes_after_the_work_is_found() {
        let mut bytes = Vec::new();
        let mut writer = ChannelWriter::start(&mut bytes).unwrap();
        writer.send(FrameKind::Uname, b"Linux\nframe report 1\n").unwrap();
        writer.send(FrameKind::Cpuinfo, &[b'x'; 9000]).unwrap();
        let before = writer.inner.len();
        writer.send(FrameKind::Report, b"r").unwrap();
        writer.end().unwrap();
        assert_eq!(after_work(&bytes), Some(before));
        assert_eq!([after_work(&bytes[..before]), after_work(b""), after_work(b"x\ny")], [None; 3]);
    }
}
