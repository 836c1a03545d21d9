//! Reads tars: ustar, pax and GNU's (`tar(5)` of libarchive; POSIX.1-2017, pax, "ustar Interchange Format").

use crate::Fault;
use crate::stream::Limits;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const BLOCK_BYTES: usize = 512;

/// The most bytes of an extended header; Linux has no longer path than 4096 bytes.
const EXTENDED_BYTES_MAX: u64 = 1 << 20;

/// The attributes of pax that guests do not get; SELinux' labels name what no guest has.
const ATTRIBUTES: [&str; 3] = ["SCHILY.xattr.", "SCHILY.acl.", "LIBARCHIVE.xattr."];
const LABEL: &str = "SCHILY.xattr.security.selinux";

/// A member of a tar.
#[derive(Debug)]
pub(crate) struct Member {
    /// The path as it stands there.
    pub(crate) path: PathBuf,
    pub(crate) kind: MemberKind,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) changed_s: u32,
    /// The length of the contents, bytes.
    pub(crate) length: u64,
    /// Whether it has extended attributes.
    pub(crate) has_attributes: bool,
}

#[derive(Debug, Eq, PartialEq)]
pub(crate) enum MemberKind {
    Folder,
    File,
    Link(PathBuf),
    /// Another name of an earlier member.
    Same(PathBuf),
    Device,
    Pipe,
}

/// A tar, read from its start to its end.
pub(crate) struct Tar<R> {
    input: R,
    /// Bytes of the member's contents that are left, and of the padding behind them.
    left: u64,
    padding: u64,
    /// The offset of what is read next.
    offset: u64,
    limits: Limits,
    /// Whether a header was read.
    has_begun: bool,
}

/// What extended headers say of the next member.
#[derive(Default)]
struct Extended {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    length: Option<u64>,
    owner: (Option<u32>, Option<u32>),
    changed_s: Option<u32>,
    has_attributes: bool,
    is_sparse: bool,
}

impl<R: Read> Tar<R> {
    pub(crate) fn new(input: R, limits: Limits) -> Tar<R> {
        Tar { input, left: 0, padding: 0, offset: 0, limits, has_begun: false }
    }

    /// The offset of the current member's contents, before any are read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next member; `None` at the end. Its contents follow ([`Read`]).
    pub(crate) fn next(&mut self) -> Result<Option<Member>, Fault> {
        let mut extended = Extended::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let letter = header[156];
            let number = |from: usize, to: usize| number(&header[from..to]);
            let length = number(124, 136);
            let own = |bytes: &[u8]| until_zero(bytes).to_vec();
            match letter {
                b'x' | b'L' | b'K' => {
                    let length = length.filter(|length| *length <= EXTENDED_BYTES_MAX);
                    let Some(length) = length else {
                        return Err(wrong(
                            &own(&header[..100]),
                            "has an extended header without end",
                        ));
                    };
                    self.begin(length);
                    let mut text = Vec::new();
                    self.read_to_end(&mut text).map_err(|error| self.fault(error))?;
                    if (text.len() as u64) < length {
                        return Err(Fault::CutShort("in an extended header".into()));
                    }
                    match letter {
                        b'L' => extended.path = Some(until_zero(&text).to_vec()),
                        b'K' => extended.link = Some(until_zero(&text).to_vec()),
                        _ => extended.read(&text).ok_or_else(|| {
                            wrong(&own(&header[..100]), "has a malformed extended header")
                        })?,
                    }
                    continue;
                }
                // A header for all members, or the name of a volume.
                b'g' | b'V' => {
                    self.begin(length.unwrap_or_default());
                    continue;
                }
                _ => {}
            }
            let mut path = extended.path.take().unwrap_or_else(|| name(&header));
            let fault = |what: &str| wrong(&path, what);
            if extended.is_sparse || letter == b'S' {
                return Err(fault(
                    "is sparse, which opcost does not read; make the tar without --sparse",
                ));
            }
            let link = extended.link.take().unwrap_or_else(|| own(&header[157..257]));
            let link = || PathBuf::from(OsStr::from_bytes(&link));
            let kind = match letter {
                // Tars of Unix V7 mark folders so.
                b'0' | 0 if path.ends_with(b"/") => MemberKind::Folder,
                b'0' | 0 | b'7' => MemberKind::File,
                b'1' => MemberKind::Same(link()),
                b'2' => MemberKind::Link(link()),
                b'3' | b'4' => MemberKind::Device,
                b'5' => MemberKind::Folder,
                b'6' => MemberKind::Pipe,
                other => {
                    let what = format!(
                        "is of the type '{}', which opcost does not know",
                        other.escape_ascii()
                    );
                    return Err(fault(&what));
                }
            };
            let field = |value: Option<u64>, what: &str| {
                value.ok_or_else(|| fault(&format!("has a malformed {what}")))
            };
            let mode = field(number(100, 108), "mode")? as u32 & 0o7777;
            let id = |extended: Option<u32>, from: usize, what| match extended {
                Some(id) => Ok(id),
                None => field(number(from, from + 8), what)
                    .map(|id| u32::try_from(id).unwrap_or(u32::MAX - 1)),
            };
            let owner = (id(extended.owner.0, 108, "owner")?, id(extended.owner.1, 116, "group")?);
            let changed_s = match extended.changed_s {
                Some(time) => time,
                // A time before 1970, which is a negative number, counts as 1970.
                None => number(136, 148).and_then(|time| u32::try_from(time).ok()).unwrap_or(0),
            };
            let length = match extended.length {
                Some(length) => length,
                None => field(length, "length")?,
            };
            // Only regular files have contents, whatever the field says of others.
            let length = if kind == MemberKind::File { length } else { 0 };
            self.begin(length);
            while path.last() == Some(&b'/') && path.len() > 1 {
                path.pop();
            }
            let path = PathBuf::from(OsStr::from_bytes(&path));
            let has_attributes = extended.has_attributes;
            return Ok(Some(Member { path, kind, mode, owner, changed_s, length, has_attributes }));
        }
    }

    /// Reads the next header; `None` at the end mark.
    fn header(&mut self) -> Result<Option<[u8; BLOCK_BYTES]>, Fault> {
        let mut header = [0; BLOCK_BYTES];
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match self.input.read(&mut header[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fault(error)),
            }
        }
        self.offset += filled as u64;
        if filled < BLOCK_BYTES {
            return Err(match self.has_begun {
                true => Fault::CutShort("without the mark of its end".into()),
                false if filled == 0 => Fault::NoTar("it is empty".into()),
                false => Fault::NoTar(format!("it has only {filled} bytes")),
            });
        }
        if header.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(at, byte)| match at {
                148..156 => u64::from(b' '),
                _ => u64::from(*byte),
            })
            .sum();
        if number(&header[148..156]) != Some(sum) {
            return Err(match self.has_begun {
                true => {
                    Fault::CutShort(format!("in a damaged header at byte {}", self.offset - 512))
                }
                false => Fault::NoTar("it does not begin with the header of a member".into()),
            });
        }
        self.has_begun = true;
        Ok(Some(header))
    }

    fn begin(&mut self, length: u64) {
        self.left = length;
        self.padding = length.wrapping_neg() % BLOCK_BYTES as u64;
    }

    /// Skips what is left of a member.
    fn skip(&mut self) -> Result<(), Fault> {
        let wanted = self.left + self.padding;
        let skipped = io::copy(&mut (&mut self.input).take(wanted), &mut io::sink());
        let skipped = skipped.map_err(|error| self.fault(error))?;
        self.offset += skipped;
        (self.left, self.padding) = (0, 0);
        match skipped == wanted {
            true => Ok(()),
            false => Err(Fault::CutShort("in the contents of a member".into())),
        }
    }

    /// The fault behind an error of the input.
    pub(crate) fn fault(&self, error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::FileTooLarge => self.limits.exceeded(),
            io::ErrorKind::UnexpectedEof => Fault::CutShort("in compressed data".into()),
            _ => Fault::system("it cannot be read")(error),
        }
    }
}

impl<R: Read> Read for Tar<R> {
    /// Reads the contents of the current member.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.input.read(&mut buffer[..wanted])?;
        self.left -= read as u64;
        self.offset += read as u64;
        Ok(read)
    }
}

impl Extended {
    /// Reads a header of pax: lines `LENGTH KEY=VALUE`, whose length counts the whole line.
    fn read(&mut self, mut text: &[u8]) -> Option<()> {
        while !text.is_empty() {
            let space = text.iter().position(|byte| *byte == b' ')?;
            let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
            let line = text.get(space + 1..length)?.strip_suffix(b"\n")?;
            text = &text[length..];
            let equals = line.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (std::str::from_utf8(&line[..equals]).ok()?, &line[equals + 1..]);
            let number = || std::str::from_utf8(value).ok()?.parse::<u64>().ok();
            let id = || number().map(|id| u32::try_from(id).unwrap_or(u32::MAX - 1));
            match key {
                "path" => self.path = Some(value.to_vec()),
                "linkpath" => self.link = Some(value.to_vec()),
                "size" => self.length = Some(number()?),
                "uid" => self.owner.0 = Some(id()?),
                "gid" => self.owner.1 = Some(id()?),
                "mtime" => {
                    let whole = value.split(|byte| *byte == b'.').next()?;
                    let time: i64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
                    self.changed_s = Some(time.clamp(0, u32::MAX.into()) as u32);
                }
                _ if key.starts_with("GNU.sparse.") => self.is_sparse = true,
                LABEL => {}
                _ => self.has_attributes |= ATTRIBUTES.iter().any(|start| key.starts_with(start)),
            }
        }
        Some(())
    }
}

/// The path in a header.
fn name(header: &[u8; BLOCK_BYTES]) -> Vec<u8> {
    let name = until_zero(&header[..100]);
    let prefix = until_zero(&header[345..500]);
    // GNU's magic has two spaces, and other fields there.
    match &header[257..263] == b"ustar\0" && !prefix.is_empty() {
        true => [prefix, b"/", name].concat(),
        false => name.to_vec(),
    }
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A number: octal digits, or, with the highest bit set, the bytes of a whole number.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let first = u64::from(field[0] & 0x7f);
        let mut rest = field[1..].iter();
        return rest.try_fold(first, |all, byte| all.checked_mul(256)?.checked_add((*byte).into()));
    }
    let digits = std::str::from_utf8(until_zero(field)).ok()?.trim_matches(' ');
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

fn wrong(path: &[u8], what: &str) -> Fault {
    Fault::Member { path: PathBuf::from(OsStr::from_bytes(path)), what: what.into() }
}
