//! The limits of reading one file of somebody else's.
//!
//! A short file can unpack to a long one, and a few of its bytes can become many values. A reader of such files draws from a
//! [`Budget`], and stops with [`Exceeded`] when the budget is used up. Memory is measured and not estimated, so no structure that a
//! reader builds is forgotten.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::FileExt;

/// The limit if the user sets none, bytes.
pub const LIMIT_BYTES: u64 = 512 << 20;
/// A file may unpack to this multiple of its length, where that is more than the limit: honest data seldom pack better.
const GROWTH_MAX: u64 = 32;
/// The bytes of contents that a reader takes in between two looks at the memory.
const STEP_BYTES: u64 = 128 << 10;

/// The budget of one read.
#[derive(Debug)]
pub struct Budget {
    limit_bytes: u64,
    unpacked_bytes_max: u64,
    unpacked_bytes: Cell<u64>,
    /// Contents taken in, and how many of them since the last look at the memory.
    taken_bytes: Cell<u64>,
    step_bytes: Cell<u64>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(LIMIT_BYTES, 0)
    }
}

impl Budget {
    /// Makes the budget for reading a file.
    ///
    /// `limit_bytes`: the most memory that this process may hold meanwhile, and the most bytes that the file may unpack to;
    /// `file_bytes`: the file's length, since a long file may unpack to 32 times its length.
    pub fn new(limit_bytes: u64, file_bytes: u64) -> Budget {
        Budget {
            limit_bytes,
            unpacked_bytes_max: limit_bytes.max(file_bytes.saturating_mul(GROWTH_MAX)),
            unpacked_bytes: Cell::new(0),
            taken_bytes: Cell::new(0),
            step_bytes: Cell::new(0),
        }
    }

    /// Draws unpacked bytes.
    ///
    /// # Errors
    /// [`Exceeded`], also by the memory held.
    pub fn unpack(&self, bytes: u64) -> Result<(), Exceeded> {
        let unpacked = self.unpacked_bytes.get().saturating_add(bytes);
        self.unpacked_bytes.set(unpacked);
        if unpacked > self.unpacked_bytes_max {
            return Err(Exceeded::Unpacked { bytes_max: self.unpacked_bytes_max });
        }
        self.step(bytes)
    }

    /// Draws contents that a reader takes in, and looks at the memory now and then.
    ///
    /// # Errors
    /// [`Exceeded::Memory`].
    pub fn step(&self, bytes: u64) -> Result<(), Exceeded> {
        self.taken_bytes.set(self.taken_bytes.get().saturating_add(bytes));
        let step = self.step_bytes.get().saturating_add(bytes);
        self.step_bytes.set(step);
        if step < STEP_BYTES {
            return Ok(());
        }
        self.step_bytes.set(0);
        self.room(0)
    }

    /// Checks that there is room for this much memory more.
    ///
    /// # Errors
    /// [`Exceeded::Memory`].
    pub fn room(&self, bytes: u64) -> Result<(), Exceeded> {
        let held = held_bytes().saturating_add(bytes);
        match held > self.limit_bytes {
            true => Err(Exceeded::Memory {
                limit_bytes: self.limit_bytes,
                held_bytes: held,
                taken_bytes: self.taken_bytes.get(),
            }),
            false => Ok(()),
        }
    }

    /// Draws what is read from contents that are not packed.
    pub fn reader<R: Read>(&self, from: R) -> Drawing<'_, R> {
        Drawing { from, budget: self, unpacks: false }
    }

    /// Draws what an unpacker gives.
    pub fn unpacker<R: Read>(&self, from: R) -> Drawing<'_, R> {
        Drawing { from, budget: self, unpacks: true }
    }
}

/// A reader that draws from a budget and ends with an error that holds [`Exceeded`].
pub struct Drawing<'b, R> {
    from: R,
    budget: &'b Budget,
    unpacks: bool,
}

impl<R> Drawing<'_, R> {
    /// Returns the reader within.
    pub fn into_inner(self) -> R {
        self.from
    }
}

impl<R: Read> Read for Drawing<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let got = self.from.read(to)?;
        let draw = if self.unpacks { Budget::unpack } else { Budget::step };
        draw(self.budget, got as u64)?;
        Ok(got)
    }
}

/// Why a read was given up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exceeded {
    /// The file unpacks to too many bytes.
    Unpacked {
        /// The most bytes that it may unpack to.
        bytes_max: u64,
    },
    /// The process would hold too much memory.
    Memory {
        /// The most memory, bytes.
        limit_bytes: u64,
        /// The memory when the read was given up, bytes.
        held_bytes: u64,
        /// The contents that were taken in until then, bytes.
        taken_bytes: u64,
    },
}

impl Exceeded {
    /// Returns the reason in an error of a [`Drawing`]; `None` for another error.
    pub fn of(error: &Error) -> Option<Exceeded> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for Exceeded {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: u64| match bytes {
            0..0x40_0000 => format!("{} KiB", bytes >> 10),
            0x40_0000..0x1_0000_0000 => format!("{} MiB", bytes >> 20),
            _ => format!("{} GiB", bytes >> 30),
        };
        match self {
            Exceeded::Unpacked { bytes_max } => {
                write!(to, "it unpacks to more than {}", size(*bytes_max))?;
            }
            Exceeded::Memory { limit_bytes, held_bytes, taken_bytes } => write!(
                to,
                "to read it takes more than {} of memory: {} after {} of its contents",
                size(*limit_bytes),
                size(*held_bytes),
                size(*taken_bytes)
            )?,
        }
        write!(to, "; if you trust the file, allow more, for example --read-limit 8G")
    }
}

impl std::error::Error for Exceeded {}

impl From<Exceeded> for Error {
    fn from(exceeded: Exceeded) -> Error {
        Error::new(ErrorKind::QuotaExceeded, exceeded)
    }
}

/// The memory that this process holds, bytes; 0 if the system does not tell.
///
/// Source: `proc_pid_statm(5)`.
fn held_bytes() -> u64 {
    let mut text = [0; 128];
    let read = File::open("/proc/self/statm").and_then(|file| file.read_at(&mut text, 0));
    let text = str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    // SAFETY: sysconf takes and returns integers.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0).saturating_mul(u64::try_from(page_bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::io::repeat;

    #[test]
    fn a_file_unpacks_to_the_limit_or_to_a_multiple_of_its_length() {
        let unpacked = |limit_bytes, file_bytes, bytes| {
            let budget = Budget::new(limit_bytes, file_bytes);
            io::copy(&mut budget.unpacker(repeat(0).take(bytes)), &mut io::sink())
        };
        let limit = LIMIT_BYTES;
        assert_eq!(unpacked(limit, 1000, 5 << 20).unwrap(), 5 << 20);
        assert!(unpacked(limit, 17 << 20, limit + 1).is_ok());
        let error = unpacked(limit, 16 << 20, limit + 1).unwrap_err();
        assert_eq!(Exceeded::of(&error), Some(Exceeded::Unpacked { bytes_max: limit }));
        let text = "it unpacks to more than 512 MiB; if you trust the file, allow more, for example --read-limit 8G";
        assert_eq!(error.to_string(), text);
        assert_eq!(Exceeded::of(&ErrorKind::NotFound.into()), None);
    }

    #[test]
    fn the_memory_of_the_process_is_what_counts() {
        // Other tests of this process hold memory too, so the limits are far apart.
        let block = black_box(vec![1u8; 64 << 20]);
        let tight = Budget::new(block.len() as u64, 0);
        let Err(Exceeded::Memory { limit_bytes, held_bytes, taken_bytes }) = tight.step(1 << 20)
        else {
            panic!("more than the block is held")
        };
        assert!(limit_bytes == 64 << 20 && held_bytes > limit_bytes && taken_bytes == 1 << 20);
        // The memory is looked at only now and then.
        assert_eq!(tight.step(1), Ok(()));
        let ample = Budget::new(64 << 30, 0);
        assert_eq!(ample.step(1 << 20), Ok(()));
        assert!(ample.room(65 << 30).is_err());
        let error = io::copy(&mut tight.reader(repeat(0).take(1 << 20)), &mut io::sink());
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("to read it takes more than 64 MiB of memory: "), "{error}");
        drop(black_box(block));
    }
}
