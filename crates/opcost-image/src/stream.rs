//! Streams of bytes that are decompressed, bounded and hashed on their way.

use crate::{Fault, TIMES, hexadecimal};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes that headers of members may add to short contents at least.
const HEADERS_BYTES: u64 = 64 << 20;

/// The first bytes of compressed streams that are not read, and their names.
const UNREAD: [(&[u8], &str); 3] =
    [(b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"PK\x03\x04", "zip")];

/// What an archive may unpack to, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The guest's memory, MiB.
    memory_mib: u32,
    /// The contents of files that are left.
    pub(crate) left_bytes: u64,
    /// The decompressed stream that is left.
    stream_bytes: u64,
}

impl Limits {
    pub(crate) fn of(memory_mib: u32) -> Limits {
        let bytes = (TIMES * u64::from(memory_mib)) << 20;
        Limits { memory_mib, left_bytes: bytes, stream_bytes: bytes + bytes.max(HEADERS_BYTES) }
    }

    /// Takes the contents of one file.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        match self.left_bytes.checked_sub(bytes) {
            Some(left) => {
                self.left_bytes = left;
                Ok(())
            }
            None => Err(self.exceeded()),
        }
    }

    /// Takes what a stream used of another copy of these limits.
    pub(crate) fn spend(&mut self, other: Limits) {
        self.stream_bytes = other.stream_bytes;
    }

    pub(crate) fn exceeded(&self) -> Fault {
        let limit_mib = TIMES * u64::from(self.memory_mib);
        Fault::TooLarge { limit_mib, memory_mib: self.memory_mib }
    }

    /// A stream that ends with an error behind what is left.
    pub(crate) fn bounded<'r>(&'r mut self, inner: impl Read + 'r) -> impl Read + 'r {
        Bounded { inner, left: &mut self.stream_bytes }
    }
}

struct Bounded<'r, R> {
    inner: R,
    left: &'r mut u64,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        *self.left = self.left.checked_sub(read as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(read)
    }
}

/// A stream whose bytes are hashed.
pub(crate) struct Hashed<R> {
    inner: R,
    sha256: Sha256,
}

impl<R: Read> Hashed<R> {
    pub(crate) fn new(inner: R) -> Hashed<R> {
        Hashed { inner, sha256: Sha256::new() }
    }

    /// Reads the rest, and returns the digest of everything, hexadecimal.
    pub(crate) fn digest(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(hexadecimal(&self.sha256.finalize()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.sha256.update(&buffer[..read]);
        Ok(read)
    }
}

/// Decompresses a stream if it is compressed.
pub(crate) fn decompressed<'r>(inner: impl Read + 'r) -> Result<(Box<dyn Read + 'r>, bool), Fault> {
    let mut inner = BufReader::with_capacity(1 << 16, inner);
    let start = inner.fill_buf().map_err(Fault::system("it cannot be read"))?;
    if let Some((_, name)) = UNREAD.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(Fault::Compression(name));
    }
    // RFC 1952, RFC 8878.
    if start.starts_with(&[0x1f, 0x8b]) {
        Ok((Box::new(flate2::bufread::MultiGzDecoder::new(inner)), true))
    } else if start.starts_with(&0xfd2f_b528_u32.to_le_bytes()) {
        let decoder = zstd::stream::read::Decoder::with_buffer(inner);
        Ok((Box::new(decoder.map_err(Fault::system("it cannot be decompressed"))?), true))
    } else {
        Ok((Box::new(inner), false))
    }
}

/// Opens a file.
pub(crate) fn open(path: &Path) -> Result<File, Fault> {
    let hint = "; run as its owner or as root, or give a copy that you can read";
    let what = || format!("cannot open '{}'", path.display());
    File::open(path).map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => Fault::System { what: what(), source, hint },
        _ => Fault::System { what: what(), source, hint: "" },
    })
}
