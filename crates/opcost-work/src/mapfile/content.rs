//! The mapped file and its contents.

use crate::error::WorkError;
use crate::random::{Random, fold};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

const ADVICE: &str = "lower 'size', or free memory";

/// A file in memory; its bytes at every stride are drawn from the seed.
pub(super) struct Content {
    file: File,
    size: u64,
    stride: u64,
    page_bytes: u64,
    seed: u64,
}

impl Content {
    /// Makes the file, with memory for all of it.
    ///
    /// # Errors
    /// [`WorkError::Setup`]: the kernel has no files in memory, or too little memory.
    pub(super) fn create(
        size: u64,
        stride: u64,
        page_bytes: u64,
        seed: u64,
    ) -> Result<Content, WorkError> {
        // SAFETY: the name is a valid C string.
        let fd = unsafe { libc::memfd_create(c"opcost-mapfile".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(WorkError::setup(
                "make a file in memory (memfd_create)",
                "it needs a kernel with CONFIG_MEMFD_CREATE, and a free descriptor (ulimit -n)",
            ));
        }
        // SAFETY: the descriptor was just made and nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        let content = Content { file, size, stride, page_bytes, seed };
        // SAFETY: plain numbers; the descriptor is the file's.
        let result = unsafe { libc::fallocate(fd, 0, 0, content.bytes_mapped() as libc::off_t) };
        if result != 0 {
            let what = format!("get {} KiB of memory for the file", size.div_ceil(1024));
            return Err(WorkError::setup(what, ADVICE));
        }
        content.fill()?;
        Ok(content)
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The file's descriptor, as a system call takes it.
    pub(super) fn descriptor(&self) -> usize {
        self.file.as_raw_fd() as usize
    }

    /// Returns the size, rounded up to whole pages.
    pub(super) fn bytes_mapped(&self) -> usize {
        self.size.next_multiple_of(self.page_bytes) as usize
    }

    /// Writes the seeded bytes.
    pub(super) fn fill(&self) -> Result<(), WorkError> {
        let mut random = Random::seeded(self.seed);
        for at in self.places() {
            let byte = [random.draw() as u8];
            self.file.write_all_at(&byte, at).map_err(|source| cannot("fill", source))?;
        }
        Ok(())
    }

    /// Returns the number of touched pieces of `reach_bytes`, or of a page if a page is larger.
    pub(super) fn pieces_touched(&self, reach_bytes: u64) -> u64 {
        let piece = reach_bytes.max(self.page_bytes);
        let last_touched = (self.size - 1) / self.stride * self.stride;
        match self.stride >= piece {
            true => last_touched / self.stride + 1,
            false => last_touched / piece + 1,
        }
    }

    /// Checks that every touched byte was last written by the operation that writes `expected`.
    pub(super) fn verify_written(&self, expected: u8) -> Result<(), WorkError> {
        for at in self.places() {
            let found = self.byte(at)?;
            if found != expected {
                let (found, expected) = (found.into(), expected.into());
                return Err(WorkError::MappedContent { at, found, expected });
            }
        }
        Ok(())
    }

    /// Checks by their sum that the bytes read in `ops` operations are the file's.
    pub(super) fn verify_sum(&self, ops: u64, found: u64) -> Result<(), WorkError> {
        let mut random = Random::seeded(self.seed);
        let expected = ops * self.places().map(|_| u64::from(random.draw() as u8)).sum::<u64>();
        match found == expected {
            true => Ok(()),
            false => Err(WorkError::MappedSum { found, expected }),
        }
    }

    /// Returns a hash over the bytes at every stride.
    pub(super) fn checksum(&self) -> Result<u64, WorkError> {
        self.places().try_fold(0, |sum, at| Ok(fold(sum, self.byte(at)?.into())))
    }

    fn byte(&self, at: u64) -> Result<u8, WorkError> {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, at).map_err(|source| cannot("read", source))?;
        Ok(byte[0])
    }

    fn places(&self) -> impl Iterator<Item = u64> + use<> {
        (0..self.size).step_by(self.stride as usize)
    }
}

fn cannot(what: &str, source: std::io::Error) -> WorkError {
    WorkError::Setup { what: format!("{what} the file in memory"), source, advice: ADVICE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_counted_as_they_are_touched() {
        let content = |size, stride| Content::create(size, stride, 4096, 1).unwrap();
        // 64 places in as many pages; with pieces of 16 pages, 16 windows.
        assert_eq!(content(1 << 20, 16 << 10).pieces_touched(1), 64);
        assert_eq!(content(1 << 20, 16 << 10).pieces_touched(64 << 10), 16);
        // Every byte of a page plus one byte: two pages.
        assert_eq!(content(4097, 1).pieces_touched(1), 2);
        assert_eq!(content(4097, 4096).pieces_touched(1), 2);
        assert_eq!(content(4097, 5000).pieces_touched(1), 1);
        // Strides that skip windows.
        assert_eq!(content(1 << 20, 100 << 10).pieces_touched(64 << 10), 11);
    }

    #[test]
    fn a_byte_that_is_not_what_it_was_is_found() {
        let content = Content::create(10_000, 5000, 4096, 1).unwrap();
        content.file.write_all_at(&[7], 0).unwrap();
        content.file.write_all_at(&[8], 5000).unwrap();
        assert_eq!(
            content.verify_written(7).unwrap_err().to_string(),
            "the mapped file has 0x08 at byte 5000, expected 0x07: what went through the mapping \
             did not reach the file"
        );
    }
}
