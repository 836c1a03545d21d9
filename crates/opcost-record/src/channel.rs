//! The frames of a guest's `/init` to the host, over a channel of their own, never the console.
//!
//! Long frames are compressed: sending a byte costs the emulator more than saving it costs the guest. A last message
//! says that it is the last one, so that a channel cut short is never taken for a whole one. Nothing else may be between, before or
//! behind the frames.

use crate::message::{Contents, Fault, Format, MessageError, decode_first, encode};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, Write};

/// The format of a frame.
pub static FORMAT: Format = Format {
    letter: b'f',
    name: "a message of the guest",
    peer: "guest",
    empty: "the guest sent nothing: it did not get as far as its /init",
    cut_short: "",
    bytes_max: 64 << 20,
    deflated: true,
};

/// The I/O port to which the guest writes the channel byte by byte: the port of QEMU's `isa-debugcon`.
pub const PORT: u16 = 0xe9;

/// A write to this port ends QEMU, if the machine has an `isa-debug-exit` there.
pub const EXIT_PORT: u16 = 0x501;

/// The most bytes of each output stream of a command that are sent; the rest is dropped with a note.
pub const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The contents of a frame.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum FrameKind {
    /// The kernel's functions, lines of `/proc/kallsyms` (address, type, name).
    Kallsyms,
    /// A workload's [`Report`](crate::Report)s, as it sent them.
    Report,
    /// The command's standard output.
    Stdout,
    /// The command's standard error.
    Stderr,
    /// How the program ended.
    Exit(GuestExit),
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
    /// The features and faults of the CPU for which the kernel has code, a line for each, as its log has them.
    Detected,
}

/// A frame of the guest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// The contents.
    pub kind: FrameKind,
    /// The body.
    pub body: Vec<u8>,
}

impl Frame {
    /// The body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// How a program in the guest ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum GuestExit {
    /// The exit status.
    Code(i32),
    /// The signal's number.
    Signal(i32),
}

/// A message: a frame, or the end of the channel.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
struct Sent<'s> {
    /// `None` for the end.
    kind: Option<FrameKind>,
    body: Cow<'s, [u8]>,
}

impl Contents for Sent<'static> {}

impl Sent<'_> {
    fn encode(&self) -> Vec<u8> {
        encode(&FORMAT, Ok(self))
    }
}

/// Why bytes are not a guest's channel.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ChannelError {
    /// The guest sent nothing.
    #[error("{}", FORMAT.empty)]
    Empty,
    /// A message is damaged or of another version, or something else is where one should be.
    #[error("byte {at} of the guest's channel, port {PORT:#x}: {error}")]
    Message {
        /// Where it starts, bytes from the start of the channel.
        at: usize,
        error: MessageError,
    },
    /// The end is missing.
    #[error("the guest died after {frames} whole frames{}", last_error_in_words(.last_error))]
    CutShort { frames: usize, last_error: Option<String> },
}

fn last_error_in_words(error: &Option<String>) -> String {
    error.as_ref().map_or(String::new(), |text| format!("; the last one says: {text}"))
}

/// Writes the channel.
///
/// Each frame reaches the writer in one call, so a failure between two calls leaves no half frame.
#[derive(Debug)]
pub struct ChannelWriter<W> {
    inner: W,
}

impl<W: Write> ChannelWriter<W> {
    /// Makes a writer for a new channel, or for one to which another writer has sent whole frames.
    pub fn new(inner: W) -> Self {
        ChannelWriter { inner }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn send(&mut self, kind: FrameKind, body: &[u8]) -> io::Result<()> {
        self.inner.write_all(&Sent { kind: Some(kind), body: body.into() }.encode())
    }

    /// Sends the end of the channel.
    ///
    /// # Errors
    /// The writer's errors.
    pub fn end(&mut self) -> io::Result<()> {
        self.inner.write_all(&Sent { kind: None, body: Cow::default() }.encode())?;
        self.inner.flush()
    }
}

/// Reads a whole channel.
///
/// # Errors
/// [`ChannelError`] names the first fault; part of a channel is never returned.
pub fn decode(bytes: &[u8]) -> Result<Vec<Frame>, ChannelError> {
    if bytes.is_empty() {
        return Err(ChannelError::Empty);
    }
    let (mut frames, mut rest): (Vec<Frame>, _) = (Vec::new(), bytes);
    let (at, error) = loop {
        let at = bytes.len() - rest.len();
        match decode_first(&FORMAT, rest) {
            Ok((Sent { kind: Some(kind), body }, behind)) => {
                frames.push(Frame { kind, body: body.into_owned() });
                rest = behind;
            }
            Ok((Sent { kind: None, .. }, [])) => return Ok(frames),
            Ok((Sent { kind: None, .. }, behind)) => {
                break (bytes.len() - behind.len(), FORMAT.error(Fault::Trailing(behind.len())));
            }
            Err(error) => break (at, error),
        }
    };
    Err(match error.fault {
        Fault::Empty | Fault::CutShort(_) => {
            let last_error = frames.iter().rev().find(|frame| frame.kind == FrameKind::Error);
            ChannelError::CutShort { frames: frames.len(), last_error: last_error.map(Frame::text) }
        }
        _ => ChannelError::Message { at, error },
    })
}

/// Returns the place of the first frame that a guest sends after its work; `None` if there is none.
///
/// Before its work, a guest sends facts about itself: kernel, processor, modules, notes.
pub fn after_work(bytes: &[u8]) -> Option<usize> {
    let mut rest = bytes;
    loop {
        let at = bytes.len() - rest.len();
        let (Sent { kind, .. }, behind) = decode_first(&FORMAT, rest).ok()?;
        match kind {
            Some(
                FrameKind::Note
                | FrameKind::Uname
                | FrameKind::Cpuinfo
                | FrameKind::Modules
                | FrameKind::Vulnerabilities
                | FrameKind::Clocksource
                | FrameKind::UnknownOptions
                | FrameKind::Detected,
            ) => rest = behind,
            _ => return Some(at),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::tests::check_message;

    pub(crate) fn sample() -> Vec<Frame> {
        vec![
            Frame { kind: FrameKind::Error, body: b"no arena".into() },
            Frame { kind: FrameKind::Exit(GuestExit::Signal(9)), body: Vec::new() },
            Frame { kind: FrameKind::Kallsyms, body: b"ffffffff81000000 T _stext\n".repeat(300) },
        ]
    }

    pub(crate) fn written(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = ChannelWriter::new(&mut bytes);
        for frame in frames {
            writer.send(frame.kind, &frame.body).unwrap();
        }
        writer.end().unwrap();
        bytes
    }

    #[test]
    fn a_channel_is_read_whole_or_not_at_all() {
        check_message(&FORMAT, &Sent { kind: Some(FrameKind::Note), body: b"odd"[..].into() });
        let whole = written(&sample());
        assert_eq!(decode(&whole), Ok(sample()));
        assert!(whole.len() < 1000, "long frames are compressed: {} bytes", whole.len());
        assert_eq!(decode(&[]), Err(ChannelError::Empty));
        for length in 1..whole.len() {
            match decode(&whole[..length]).unwrap_err() {
                ChannelError::CutShort { frames: 0, last_error: None } => {}
                ChannelError::CutShort { frames: 1.., last_error: Some(text) } => {
                    assert_eq!(text, "no arena");
                }
                other => panic!("{length} bytes: {other:?}"),
            }
        }
        assert_eq!(
            decode(&whole[..whole.len() - 1]).unwrap_err().to_string(),
            "the guest died after 3 whole frames; the last one says: no arena"
        );
    }

    #[test]
    fn what_else_is_written_to_the_port_is_named_with_its_place() {
        let whole = written(&sample()[..1]);
        let error = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        let starts = error(b"SeaBIOS\n");
        assert!(
            starts.starts_with(
                "byte 0 of the guest's channel, port 0xe9: a message of the guest starts with \
                 'SeaBIOS', expected a message of version"
            ),
            "{starts}"
        );
        let [behind, between] = [error(&[&whole[..], b"more"].concat()), {
            let first = written(&[]);
            let at = whole.len() - first.len();
            error(&[&whole[..at], b"noise", &first].concat())
        }];
        assert!(behind.contains(&format!("byte {} of", whole.len())), "{behind}");
        assert!(behind.ends_with("4 bytes follow the end of a message of the guest"), "{behind}");
        assert!(between.contains("starts with 'noiseopcost"), "{between}");
    }

    #[test]
    fn what_comes_after_the_work_is_found() {
        let mut bytes = Vec::new();
        let mut writer = ChannelWriter::new(&mut bytes);
        writer.send(FrameKind::Uname, b"Linux").unwrap();
        writer.send(FrameKind::Cpuinfo, &[b'x'; 9000]).unwrap();
        let before = writer.inner.len();
        writer.send(FrameKind::Report, b"r").unwrap();
        writer.end().unwrap();
        assert_eq!(after_work(&bytes), Some(before));
        assert_eq!([after_work(&bytes[..before]), after_work(b""), after_work(b"x")], [None; 3]);
    }
}
