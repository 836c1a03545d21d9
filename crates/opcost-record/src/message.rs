//! The frame of all messages between opcost, its guest, its plugin, its gauge and its processes.
//!
//! | bytes | contents |
//! |---|---|
//! | 7 | `opcost` and 0x1a, which no text has |
//! | 1 | the letter of the message ([`Format::letter`]) |
//! | 4 | [`VERSION`] |
//! | 4 | the length of the body, bytes |
//! | 1 | the start of the body: 1 if its rest is compressed (RFC 1951), otherwise 0 |
//! | … | the rest of the body, postcard's bytes of a `Result`: the contents, or why the writer has none |
//! | 8 | the [`hash`] of all bytes before |
//!
//! Numbers have their least byte first. The length and the hash tell a part of a message from a whole one.
//!
//! **One version for all messages.** opcost, its guest and its plugin are built together. A reader that meets another version says so
//! and reads nothing.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;

/// The version of all messages; raise it when any of them changes.
pub const VERSION: u32 = 3;

const MAGIC: [u8; 7] = *b"opcost\x1a";

/// The bytes in front of a body.
const HEADER_BYTES: usize = 16;

/// The bytes of the hash behind a body.
const HASH_BYTES: usize = 8;

/// The length in bytes from which on bodies are compressed.
const DEFLATE_BYTES_MIN: usize = 4096;

/// A low level of compression. It more than halved the time to send a kernel's symbols (1.9 MB, with QEMU 7.2 about 1.7 µs a byte);
/// higher levels cost the guest more than they save.
const DEFLATE_LEVEL: u8 = 1;

/// A kind of message, and the words of its errors.
#[derive(Debug, Eq, PartialEq)]
pub struct Format {
    /// The letter in the header; no other format has it.
    pub letter: u8,
    /// The message in words: `the report`.
    pub name: &'static str,
    /// The program on the other side: `program`.
    pub peer: &'static str,
    /// The error for no bytes at all.
    pub empty: &'static str,
    /// Why a message may be cut short, behind a semicolon; may be empty.
    pub cut_short: &'static str,
    /// The longest body, bytes; also of a body that was compressed.
    pub bytes_max: usize,
    /// Whether long bodies are compressed.
    pub deflated: bool,
}

/// Why bytes are not a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MessageError {
    /// The format that was expected.
    pub format: &'static Format,
    /// The fault.
    pub fault: Fault,
}

/// A fault of a message.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// There are no bytes.
    Empty,
    /// The bytes begin with something else, which is here made printable.
    Foreign(String),
    /// The message is of another version.
    Version(u32),
    /// The body is longer than any of this format.
    TooLong(usize),
    /// The message ends before its end, after so many bytes.
    CutShort(usize),
    /// Other bytes follow the message.
    Trailing(usize),
    /// The body is not what was written.
    Damaged,
    /// The body is whole, but contradicts itself.
    Contents(String),
    /// The writer's report of its own failure.
    Reported(String),
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Format { name, peer, empty, cut_short, bytes_max, .. } = self.format;
        match &self.fault {
            Fault::Empty => write!(f, "{empty}"),
            Fault::Foreign(found) => write!(
                f,
                "{name} starts with '{found}', expected a message of version {VERSION}: {peer} and \
                 opcost are of different versions, or something else wrote there"
            ),
            Fault::Version(found) => write!(
                f,
                "{name} is a message of version {found}, expected {VERSION}: {peer} and opcost are of \
                 different versions"
            ),
            Fault::TooLong(bytes) => {
                write!(f, "{name} has {bytes} bytes, more than the {bytes_max} that are read")
            }
            Fault::CutShort(bytes) => {
                write!(f, "{name} was cut short after {bytes} bytes{cut_short}")
            }
            Fault::Trailing(bytes) => write!(f, "{bytes} bytes follow the end of {name}"),
            Fault::Damaged => {
                write!(f, "{name} is damaged: its bytes are not those that were sent")
            }
            Fault::Contents(what) => write!(f, "{name} contradicts itself: {what}"),
            Fault::Reported(message) => write!(f, "{message}"),
        }
    }
}

impl std::error::Error for MessageError {}

impl Format {
    /// Makes an error of this format.
    pub fn error(&'static self, fault: Fault) -> MessageError {
        MessageError { format: self, fault }
    }
}

/// The contents of a message.
pub(crate) trait Contents: Serialize + DeserializeOwned {
    /// Checks what the types leave open.
    ///
    /// # Errors
    /// The contradiction, in a few words.
    fn check(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

/// Gives a type the functions of a message.
///
/// They are no trait's functions, so that they are compiled here, where they are optimised also in builds for tests.
macro_rules! message {
    ($contents:ty, $format:expr) => {
        impl $contents {
            /// The format of the message.
            pub const FORMAT: &'static $crate::message::Format = &$format;

            /// Writes the message.
            pub fn encode(&self) -> Vec<u8> {
                $crate::message::encode(&$format, Ok(self))
            }

            /// Writes a message with the reason why there are no contents.
            pub fn encode_error(why: &str) -> Vec<u8> {
                $crate::message::encode::<$contents>(&$format, Err(why))
            }

            /// Reads a message.
            ///
            /// # Errors
            /// The first fault, or the failure that the writer reported; a part of a message is never returned.
            pub fn decode(bytes: &[u8]) -> Result<$contents, $crate::message::MessageError> {
                $crate::message::decode(&$format, bytes)
            }
        }
    };
}
pub(crate) use message;

/// Writes a message; contents that are too long for any reader become a failure that says so.
pub(crate) fn encode<T: Serialize>(format: &Format, contents: Result<&T, &str>) -> Vec<u8> {
    let body = serialized(&contents);
    match body.len() <= format.bytes_max {
        true => framed(format, body),
        false => {
            let Format { name, bytes_max, .. } = format;
            let why =
                format!("{name} would have {} bytes, at most {bytes_max} are read", body.len());
            framed(format, serialized(&Err::<&T, &str>(&why)))
        }
    }
}

/// Returns the bytes of contents behind a zero for their coding.
fn serialized(contents: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(contents, vec![0]).expect("memory takes everything")
}

/// Puts header and hash around a body, which is compressed if that helps.
pub fn framed(format: &Format, mut body: Vec<u8>) -> Vec<u8> {
    if format.deflated && body.len() >= DEFLATE_BYTES_MIN {
        let small = miniz_oxide::deflate::compress_to_vec(&body[1..], DEFLATE_LEVEL);
        if small.len() + 1 < body.len() {
            body.truncate(1);
            body[0] = 1;
            body.extend(small);
        }
    }
    let length = u32::try_from(body.len()).expect("no format allows so much");
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len() + HASH_BYTES);
    message.extend(MAGIC);
    message.push(format.letter);
    message.extend(VERSION.to_le_bytes());
    message.extend(length.to_le_bytes());
    message.extend(body);
    message.extend(hash(&message, 0).to_le_bytes());
    message
}

/// Reads a message that is all of `bytes`.
pub(crate) fn decode<T: Contents>(
    format: &'static Format,
    bytes: &[u8],
) -> Result<T, MessageError> {
    match decode_first(format, bytes)? {
        (contents, []) => Ok(contents),
        (_, rest) => Err(format.error(Fault::Trailing(rest.len()))),
    }
}

/// Reads the message at the start of `bytes`, and returns it with the bytes behind it.
pub(crate) fn decode_first<'b, T: Contents>(
    format: &'static Format,
    bytes: &'b [u8],
) -> Result<(T, &'b [u8]), MessageError> {
    let (body, rest) = body(format, bytes).map_err(|fault| format.error(fault))?;
    let contents = contents(format, body).map_err(|fault| format.error(fault))?;
    Ok((contents, rest))
}

/// Splits a body that is whole from the bytes behind it.
fn body<'b>(format: &Format, bytes: &'b [u8]) -> Result<(&'b [u8], &'b [u8]), Fault> {
    let mut start = MAGIC.to_vec();
    start.push(format.letter);
    let came = bytes.len().min(start.len());
    if bytes.is_empty() {
        return Err(Fault::Empty);
    }
    if bytes[..came] != start[..came] {
        return Err(Fault::Foreign(shortened(bytes)));
    }
    let cut_short = || Fault::CutShort(bytes.len());
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    match number(8).ok_or_else(cut_short)? {
        VERSION => {}
        other => return Err(Fault::Version(other)),
    }
    let length = number(12).ok_or_else(cut_short)? as usize;
    if length > format.bytes_max {
        return Err(Fault::TooLong(length));
    }
    let (hashed, rest) = bytes.split_at_checked(HEADER_BYTES + length).ok_or_else(cut_short)?;
    let (expected, rest) = rest.split_at_checked(HASH_BYTES).ok_or_else(cut_short)?;
    match expected == hash(hashed, 0).to_le_bytes() {
        true => Ok((&hashed[HEADER_BYTES..], rest)),
        false => Err(Fault::Damaged),
    }
}

fn contents<T: Contents>(format: &Format, body: &[u8]) -> Result<T, Fault> {
    let inflated;
    let body = match body.split_first() {
        Some((0, body)) => body,
        Some((1, small)) => {
            let limit = format.bytes_max;
            inflated = miniz_oxide::inflate::decompress_to_vec_with_limit(small, limit)
                .map_err(|error| Fault::Contents(error.to_string()))?;
            &inflated
        }
        _ => return Err(Fault::Contents("an unknown coding".into())),
    };
    let wrong = |error: postcard::Error| Fault::Contents(error.to_string());
    match postcard::take_from_bytes::<Result<T, String>>(body).map_err(wrong)? {
        (Ok(contents), []) => {
            contents.check().map_err(|what| Fault::Contents(what.into()))?;
            Ok(contents)
        }
        (Err(why), []) => Err(Fault::Reported(why)),
        (_, rest) => Err(Fault::Contents(format!("{} bytes are left over", rest.len()))),
    }
}

/// Returns the start of foreign bytes, made printable.
fn shortened(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line[..line.len().min(80)].escape_ascii().to_string()
}

/// Hashes bytes: 64-bit FNV-1a over words of eight bytes, least byte first.
///
/// `words_min`: bytes that fill fewer words count as filled up with zeros.
pub(crate) fn hash(bytes: &[u8], words_min: usize) -> u64 {
    const PRIME: u64 = 0x100_0000_01b3;
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut take = |word: u64| {
        hash = (hash ^ word).wrapping_mul(PRIME);
        // The upper half must affect the lower half: multiplication alone only carries upwards.
        hash ^= hash >> 32;
    };
    let mut words = 0;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        take(u64::from_le_bytes(word));
        words += 1;
    }
    for _ in words..words_min {
        take(0);
    }
    hash
}

/// Paths in messages, since those of Linux need not be UTF-8.
pub(crate) mod path {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }

    /// The same for a path that may be absent.
    pub(crate) mod optional {
        use super::*;

        pub(crate) fn serialize<S: Serializer>(
            path: &Option<PathBuf>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            path.as_ref().map(|path| path.as_os_str()).serialize(to)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<PathBuf>, D::Error> {
            Ok(Option::<OsString>::deserialize(from)?.map(PathBuf::from))
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;
    use std::fmt::Debug;

    static FORMAT: Format = Format {
        letter: b'?',
        name: "the test",
        peer: "tester",
        empty: "nothing was tested",
        cut_short: "; the tester left",
        bytes_max: 1 << 20,
        deflated: true,
    };

    #[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
    struct Test {
        number: u64,
        text: String,
    }

    impl Contents for Test {
        fn check(&self) -> Result<(), &'static str> {
            if self.number == 13 { Err("13 is unlucky") } else { Ok(()) }
        }
    }

    impl Test {
        fn encode(&self) -> Vec<u8> {
            encode(&FORMAT, Ok(self))
        }

        fn decode(bytes: &[u8]) -> Result<Test, MessageError> {
            decode(&FORMAT, bytes)
        }
    }

    /// Checks a message: it is read as it was written; no part of it, no change of one byte and no other version is.
    pub(crate) fn check_message<T: Contents + Debug + PartialEq>(
        format: &'static Format,
        contents: &T,
    ) {
        let whole = encode(format, Ok(contents));
        assert_eq!(decode::<T>(format, &whole).as_ref(), Ok(contents));
        let fault = |bytes: &[u8]| decode::<T>(format, bytes).unwrap_err().fault;
        assert_eq!(fault(&[]), Fault::Empty);
        for length in 1..whole.len() {
            assert_eq!(fault(&whole[..length]), Fault::CutShort(length));
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let found = fault(&changed);
            let expected = match at {
                0..8 => matches!(found, Fault::Foreign(_)),
                8..12 => matches!(found, Fault::Version(_)),
                12..16 => {
                    matches!(found, Fault::Damaged | Fault::CutShort(_) | Fault::TooLong(_))
                }
                _ => found == Fault::Damaged,
            };
            assert!(expected, "byte {at}: {found:?}");
        }
        assert_eq!(fault(&[&whole[..], b"more"].concat()), Fault::Trailing(4));
        let failed = encode::<T>(format, Err("no room\nhere"));
        assert_eq!(fault(&failed), Fault::Reported("no room\nhere".into()));
    }

    /// Reads contents that only a wrong writer would write, and returns their fault.
    pub(crate) fn contradiction<T: Contents + Debug>(
        format: &'static Format,
        contents: &T,
    ) -> String {
        match decode::<T>(format, &encode(format, Ok(contents))).unwrap_err().fault {
            Fault::Contents(what) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_read_whole_or_not_at_all() {
        check_message(&FORMAT, &Test { number: 7, text: "a text\n".into() });
        check_message(&FORMAT, &Test::default());
        assert_eq!(contradiction(&FORMAT, &Test { number: 13, text: "".into() }), "13 is unlucky");
    }

    /// A reader of another version must not take these bytes for its own.
    #[test]
    fn messages_that_change_have_another_version() {
        use crate::{channel, disk, emulation, file_image, gauge, record, request, symbols};
        let last = emulation::LastInstruction::of(0x40_1136, &[0xc3]);
        let messages = [
            request::tests::sample().encode(),
            record::tests::sample().encode(),
            channel::tests::written(&channel::tests::sample()[..2]),
            emulation::Emulation::from(emulation::tests::sample()).encode(),
            last.encode(),
            symbols::tests::sample().encode(),
            disk::tests::sample().encode(),
            gauge::tests::sample().encode(),
            file_image::tests::sample().encode(),
        ];
        let mut letters: Vec<u8> = messages.iter().map(|message| message[7]).collect();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), messages.len(), "two formats have one letter");
        let hash = hash(&messages.concat(), 0);
        assert_eq!(
            (VERSION, format!("{hash:016x}").as_str()),
            (3, "9155c4ae80ec2c14"),
            "a message changed: raise VERSION and write its new hash here"
        );
    }

    #[test]
    fn errors_say_what_is_wrong_with_which_message() {
        let error = |bytes: &[u8]| Test::decode(bytes).unwrap_err().to_string();
        let whole = Test::default().encode();
        let with = |at: usize, bytes: &[u8]| {
            let mut message = whole.clone();
            message[at..at + bytes.len()].copy_from_slice(bytes);
            error(&message)
        };
        assert_eq!(error(b""), "nothing was tested");
        assert_eq!(
            error(b"opcost-test 3\nmore"),
            "the test starts with 'opcost-test 3', expected a message of version 3: tester and opcost \
             are of different versions, or something else wrote there"
        );
        assert!(error(b"\xff").contains(r"starts with '\xff'"));
        assert!(with(7, b"!").contains(r"starts with 'opcost\x1a!"));
        assert_eq!(
            with(8, &[9, 0, 0, 0]),
            "the test is a message of version 9, expected 3: tester and opcost are of different versions"
        );
        assert_eq!(
            with(12, &u32::MAX.to_le_bytes()),
            "the test has 4294967295 bytes, more than the 1048576 that are read"
        );
        assert_eq!(error(&whole[..20]), "the test was cut short after 20 bytes; the tester left");
        assert_eq!(with(17, &[1]), "the test is damaged: its bytes are not those that were sent");
        assert_eq!(error(&[&whole[..], b"x"].concat()), "1 bytes follow the end of the test");
        assert_eq!(error(&encode::<Test>(&FORMAT, Err("no room"))), "no room");
    }

    #[test]
    fn a_body_that_is_none_is_refused_though_it_is_whole() {
        let error = |body: &[u8]| Test::decode(&framed(&FORMAT, body.to_vec())).unwrap_err().fault;
        for (body, what) in [
            (&[][..], "an unknown coding"),
            (&[2, 0, 0, 0], "an unknown coding"),
            (&[0, 0, 0, 0, 0], "1 bytes are left over"),
            (&[0, 0, 0], "end"),
            // A text of more bytes than any machine has.
            (&[0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "end"),
        ] {
            let Fault::Contents(found) = error(body) else { panic!("{body:?}") };
            assert!(found.contains(what), "{found}");
        }
    }

    #[test]
    fn long_bodies_are_compressed_where_that_helps_and_as_far_as_a_reader_may_expand_them() {
        let text = "ffffffff81000000 T _stext\n".repeat(1000);
        let test = Test { number: 0, text: text.clone() };
        let small = test.encode();
        assert!(small.len() < text.len() / 10, "{} bytes", small.len());
        assert_eq!(Test::decode(&small), Ok(test));
        let mut state = 1u32;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            char::from((state >> 25) as u8)
        });
        let noise = Test { number: 0, text: noise.take(5000).collect() };
        assert!(Test::decode(&noise.encode()) == Ok(noise));
        let mut bomb = vec![1];
        bomb.extend(miniz_oxide::deflate::compress_to_vec(&vec![0; FORMAT.bytes_max + 1], 9));
        let fault = Test::decode(&framed(&FORMAT, bomb)).unwrap_err().fault;
        assert!(matches!(fault, Fault::Contents(_)), "{fault:?}");
    }

    #[test]
    fn what_no_reader_would_take_is_not_sent() {
        let test = Test { number: 0, text: "x".repeat(FORMAT.bytes_max) };
        let error = Test::decode(&test.encode()).unwrap_err().to_string();
        assert_eq!(error, "the test would have 1048582 bytes, at most 1048576 are read");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Test::decode(&bytes).is_err());
            let _ = Test::decode(&framed(&FORMAT, bytes));
        }
    }
}
