//! Reads another program's memory by its addresses.

use std::io;

/// Readable memory: a running process's, or a test's.
pub trait Memory {
    /// Fills `bytes` with the memory at `address`.
    ///
    /// # Errors
    /// Some of it is not mapped, or may not be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Reads `N` bytes at `address`.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn array<const N: usize>(&self, address: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `length` bytes at `address`; the caller bounds the length.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn bytes(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a 64-bit number.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn number(&self, address: u64) -> io::Result<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// Reads the text up to the next 0 byte, at most `most` bytes; invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn text(&self, address: u64, most: usize) -> io::Result<String> {
        let mut found = Vec::new();
        // Pieces end at page boundaries, since the next page may be unmapped.
        while found.len() < most {
            let at = address.wrapping_add(found.len() as u64);
            let left_of_piece = PIECE - (at % PIECE);
            let piece = self.bytes(at, (left_of_piece as usize).min(most - found.len()))?;
            let end = piece.iter().position(|byte| *byte == 0);
            found.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&found).into_owned())
    }
}

const PIECE: u64 = 64;

/// Gives code byte by byte, as the library reads it.
pub(crate) fn code_of(memory: &impl Memory) -> impl FnMut(u64) -> Option<u8> {
    move |address| memory.array::<1>(address).ok().map(|[byte]| byte)
}

/// Bytes that stand for a process's memory: a copy, or data made up by a test.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Block {
    /// The address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Memory for Block {
    fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(address.wrapping_sub(self.start)).ok();
        let found = at.and_then(|at| self.bytes.get(at..)?.get(..bytes.len()));
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Little-endian fields of a structure's bytes, as x86-64 and arm64 lay them out; 0 beyond its end.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn u8(self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes([self.u8(at), self.u8(at + 1), self.u8(at + 2), self.u8(at + 3)])
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }

    /// The target of the self-relative 32-bit field at `at`; `base`: the structure's address.
    pub(crate) fn target(self, base: u64, at: usize) -> u64 {
        let distance = i64::from(self.u32(at) as i32);
        base.wrapping_add(at as u64).wrapping_add_signed(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_little_endian_and_relative_to_themselves() {
        let bytes = [1, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff];
        let fields = Fields(&bytes);
        assert_eq!((fields.u8(4), fields.u32(0), fields.u64(0)), (0xfc, 1, 0xffff_fffc_0000_0001));
        assert_eq!((fields.target(0x100, 4), fields.target(0x100, 0)), (0x100, 0x101));
        assert_eq!(fields.u64(6), 0xffff);
    }

    #[test]
    fn text_ends_at_its_zero_or_at_the_most() {
        let bytes = b"a long name of some sixty bytes that crosses a piece's end here\0";
        let mut memory = Block { start: 0x1030, bytes: bytes.to_vec() };
        // A text may lie at the end of a page, but must end within the memory.
        memory.bytes.resize(0x50, 0);
        assert!(memory.text(0x1030, 100).unwrap().ends_with("end here"));
        assert_eq!(memory.text(0x1030, 6).unwrap(), "a long");
        assert!(memory.text(0x1080, 2).is_err());
    }
}
