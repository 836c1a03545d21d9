//! Reads the records' bytes, a large piece at a time.

use std::io::{self, ErrorKind, Read};

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// A file or pipe whose bytes can be looked at before they are passed over.
pub(super) struct Stream<R> {
    from: R,
    buffer: Vec<u8>,
    /// The bytes of the buffer that were read and not passed over yet: `start` to `end`.
    start: usize,
    end: usize,
}

impl<R: Read> Stream<R> {
    pub(super) fn new(from: R) -> Self {
        Stream::in_pieces(from, READ_BYTES)
    }

    /// Makes a stream that reads `bytes` bytes at once.
    pub(super) fn in_pieces(from: R, bytes: usize) -> Self {
        Stream { from, buffer: vec![0; bytes], start: 0, end: 0 }
    }

    /// Returns the next `bytes` bytes, or fewer at the end of the stream.
    pub(super) fn look(&mut self, bytes: usize) -> io::Result<&[u8]> {
        if self.end - self.start < bytes {
            self.fill(bytes)?;
        }
        let end = self.end.min(self.start + bytes);
        Ok(&self.buffer[self.start..end])
    }

    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.buffer.resize(self.buffer.len().max(bytes), 0);
        while self.end < bytes {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Passes over bytes, and returns their number: less at the end of the stream.
    pub(super) fn pass(&mut self, bytes: u64) -> io::Result<u64> {
        let here = bytes.min((self.end - self.start) as u64);
        // `here` is no more than the buffer has.
        self.start += here as usize;
        let left = bytes - here;
        if left == 0 {
            return Ok(here);
        }
        Ok(here + io::copy(&mut self.from.by_ref().take(left), &mut io::sink())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one byte at a time.
    struct Slow<'b>(&'b [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.len().min(to.len()).min(1);
            self.0.read(&mut to[..bytes])
        }
    }

    #[test]
    fn what_was_looked_at_stays_until_it_is_passed_over() {
        let bytes: Vec<u8> = (0..100).collect();
        let mut stream = Stream::new(Slow(&bytes));
        assert_eq!(stream.look(8).unwrap(), &bytes[..8]);
        assert_eq!(stream.look(30).unwrap(), &bytes[..30]);
        assert_eq!(stream.pass(20).unwrap(), 20);
        assert_eq!(stream.look(15).unwrap(), &bytes[20..35]);
        // This passes over more bytes than the buffer holds.
        assert_eq!(stream.pass(60).unwrap(), 60);
        assert_eq!(stream.look(50).unwrap(), &bytes[80..]);
        assert_eq!(stream.pass(50).unwrap(), 20);
        assert!(stream.look(1).unwrap().is_empty());
    }

    #[test]
    fn a_piece_may_be_larger_than_the_buffer() {
        let bytes = vec![7; 3 * READ_BYTES];
        let mut stream = Stream::new(&bytes[..]);
        assert_eq!(stream.look(1).unwrap(), [7]);
        assert_eq!(stream.look(2 * READ_BYTES).unwrap().len(), 2 * READ_BYTES);
    }
}
