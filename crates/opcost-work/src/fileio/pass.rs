//! The loop over the operations, shared by the work and its twin.

use super::content::{Blocks, Buffer, Pattern};
use super::phase::Phase;
use crate::gate::Gate;
use crate::random::{Random, below, fold};
use std::hint::black_box;

/// The number of blocks that `seeks` writes back, out of 65,536 that it reads: one in ten, as in bonnie.
const SEEKS_WRITTEN: u64 = 6_554;

/// The counts of one pass over the operations.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Tally {
    pub(super) hash: u64,
    pub(super) ops: [u64; Phase::ALL.len()],
    pub(super) bytes_written: u64,
    pub(super) bytes_read: u64,
}

/// The place at which a pass stopped.
#[derive(Debug)]
pub(super) enum Failed {
    /// A call did not return the expected result.
    Call { call: &'static str, op: u64, returned: usize, expected: usize },
    /// A block did not hold the bytes written to it.
    Contents { op: u64, block: u64, found: u64, expected: u64 },
}

/// The file, the memory and the settings of the operations.
pub(super) struct Loop<'a> {
    pub(super) fd: usize,
    pub(super) buffer: &'a Buffer,
    pub(super) pattern: &'a Pattern,
    pub(super) fsync: bool,
    pub(super) seed: u64,
}

/// The position of a stream of characters in its buffer, as in stdio.
struct Stream {
    next: *mut u8,
    end: *mut u8,
}

/// Appends one character to a stream; a call for each, as in bonnie.
///
/// # Safety
/// The stream's buffer has room for the character.
#[inline(never)]
unsafe fn put(stream: &mut Stream, character: u8) {
    // SAFETY: the caller promises that there is room.
    unsafe {
        stream.next.write(character);
        stream.next = stream.next.add(1);
    }
}

/// Takes one character from a stream; a call for each, as in bonnie.
///
/// # Safety
/// The stream's buffer has a character left.
#[inline(never)]
unsafe fn get(stream: &mut Stream) -> u8 {
    // SAFETY: the caller promises that there is one.
    unsafe {
        let character = stream.next.read();
        stream.next = stream.next.add(1);
        character
    }
}

impl Loop<'_> {
    /// Does `shares` operations of each phase, through the kernel or the empty gate; stops at the first failure.
    ///
    /// # Safety
    /// Nothing else uses the file behind the descriptor, or the buffer.
    #[inline(never)]
    pub(super) unsafe fn pass<G: Gate>(
        &self,
        blocks: &mut Blocks,
        shares: &[u64; Phase::ALL.len()],
    ) -> Result<Tally, Failed> {
        let mut random = Random::seeded(self.seed);
        let mut tally = Tally { hash: self.pattern.sum, ..Tally::default() };
        for phase in Phase::ALL.into_iter().filter(|phase| shares[*phase as usize] > 0) {
            let run = match phase {
                Phase::Putc => Self::phase::<G, { Phase::Putc as usize }>,
                Phase::Write => Self::phase::<G, { Phase::Write as usize }>,
                Phase::Rewrite => Self::phase::<G, { Phase::Rewrite as usize }>,
                Phase::Getc => Self::phase::<G, { Phase::Getc as usize }>,
                Phase::Read => Self::phase::<G, { Phase::Read as usize }>,
                Phase::Seeks => Self::phase::<G, { Phase::Seeks as usize }>,
            };
            // SAFETY: as the caller promises.
            tally = unsafe { run(self, shares, blocks, &mut random, tally)? };
        }
        Ok(tally)
    }

    /// Executes one phase, in a loop of its own without conditions that are the same each time.
    #[inline(never)]
    unsafe fn phase<G: Gate, const PHASE: usize>(
        &self,
        shares: &[u64; Phase::ALL.len()],
        blocks: &mut Blocks,
        random: &mut Random,
        mut tally: Tally,
    ) -> Result<Tally, Failed> {
        let phase = const { Phase::ALL[PHASE] };
        let before: u64 = shares[..phase as usize].iter().sum();
        // The previous phase left its last block in the buffer.
        self.buffer.set(self.pattern);
        let mut at = 0;
        for op in before..before + shares[phase as usize] {
            let most = if phase.starts_empty() { blocks.most() } else { blocks.len };
            if op == before || at == most {
                at = 0;
                if phase.starts_empty() {
                    blocks.len = 0;
                    // SAFETY: as the caller promises.
                    unsafe { self.call::<G>(FTRUNCATE, op, [0, 0], 0)? };
                }
                // SAFETY: as above.
                unsafe { self.seek::<G>(op, 0)? };
            }
            // SAFETY: as above.
            unsafe {
                match phase {
                    Phase::Putc | Phase::Write => {
                        let stamp = blocks.write(at);
                        match phase {
                            // The phase measures the characters, so the twin has none.
                            Phase::Putc if G::WORKS => self.put_all(stamp),
                            _ => self.buffer.set_stamp(stamp),
                        }
                        self.write::<G>(op, &mut tally)?;
                        blocks.len = at + 1;
                        tally.hash = fold(tally.hash, stamp);
                    }
                    Phase::Rewrite => {
                        self.read::<G>(op, at, blocks, &mut tally)?;
                        self.write_back::<G>(op, at, blocks, &mut tally)?;
                    }
                    Phase::Getc => {
                        self.read::<G>(op, at, blocks, &mut tally)?;
                        let expected = self.pattern.sum_with(blocks.stamp(at));
                        let found = if G::WORKS { self.sum_all() } else { expected };
                        same(op, at, found, expected)?;
                    }
                    Phase::Read => self.read::<G>(op, at, blocks, &mut tally)?,
                    Phase::Seeks => {
                        let draw = random.draw();
                        let place = below(draw & 0xffff_ffff, 32, blocks.len);
                        self.seek::<G>(op, place)?;
                        self.read::<G>(op, place, blocks, &mut tally)?;
                        if draw >> 48 < SEEKS_WRITTEN {
                            self.write_back::<G>(op, place, blocks, &mut tally)?;
                        }
                    }
                }
            }
            at += 1;
            tally.ops[phase as usize] += 1;
        }
        if self.fsync && phase.writes() {
            let last = before + shares[phase as usize] - 1;
            // SAFETY: as the caller promises.
            unsafe { self.call::<G>(FSYNC, last, [0, 0], 0)? };
        }
        Ok(tally)
    }

    /// Reads the next block, which is block `at`, and checks its stamp.
    #[inline(always)]
    unsafe fn read<G: Gate>(
        &self,
        op: u64,
        at: u64,
        blocks: &Blocks,
        tally: &mut Tally,
    ) -> Result<(), Failed> {
        let (address, bytes) = (self.buffer.address(), self.buffer.len());
        // SAFETY: as the caller of `pass` promises: nothing else uses the buffer.
        unsafe { self.call::<G>(READ, op, [address, bytes], bytes)? };
        let expected = blocks.stamp(at);
        let found = G::found(self.buffer.stamp(), expected);
        same(op, at, found, expected)?;
        tally.bytes_read += bytes as u64;
        tally.hash = fold(tally.hash, found);
        Ok(())
    }

    /// Changes the block that was just read, and writes it back to its place.
    #[inline(always)]
    unsafe fn write_back<G: Gate>(
        &self,
        op: u64,
        at: u64,
        blocks: &mut Blocks,
        tally: &mut Tally,
    ) -> Result<(), Failed> {
        let stamp = blocks.write(at);
        self.buffer.set_stamp(stamp);
        tally.hash = fold(tally.hash, stamp);
        // SAFETY: as the caller of `pass` promises.
        unsafe {
            self.seek::<G>(op, at)?;
            self.write::<G>(op, tally)
        }
    }

    #[inline(always)]
    unsafe fn write<G: Gate>(&self, op: u64, tally: &mut Tally) -> Result<(), Failed> {
        let (address, bytes) = (self.buffer.address(), self.buffer.len());
        // SAFETY: as the caller of `pass` promises; the buffer is only read.
        unsafe { self.call::<G>(WRITE, op, [address, bytes], bytes)? };
        tally.bytes_written += bytes as u64;
        Ok(())
    }

    #[inline(always)]
    unsafe fn seek<G: Gate>(&self, op: u64, block: u64) -> Result<(), Failed> {
        let offset = block as usize * self.buffer.len();
        // SAFETY: as the caller of `pass` promises.
        unsafe { self.call::<G>(LSEEK, op, [offset, libc::SEEK_SET as usize], offset) }
    }

    /// Makes one system call on the file.
    #[inline(always)]
    unsafe fn call<G: Gate>(
        &self,
        (number, call): (libc::c_long, &'static str),
        op: u64,
        [one, two]: [usize; 2],
        expected: usize,
    ) -> Result<(), Failed> {
        // SAFETY: as the caller of `pass` promises.
        let returned = unsafe { G::call(number as usize, [self.fd, one, two, 0, 0, 0], expected) };
        match returned == expected {
            true => Ok(()),
            false => Err(Failed::Call { call, op, returned, expected }),
        }
    }

    fn stream(&self) -> Stream {
        let next = self.buffer.start();
        Stream { next, end: next.wrapping_add(self.buffer.len()) }
    }

    /// Assembles a block character by character.
    fn put_all(&self, stamp: u64) {
        let mut stream = self.stream();
        for character in stamp.to_le_bytes() {
            // SAFETY: a block is longer than a stamp.
            unsafe { put(&mut stream, character) };
        }
        for character in &self.pattern.bytes[super::content::STAMP_BYTES..] {
            // SAFETY: the pattern is as long as the block.
            unsafe { put(&mut stream, *character) };
        }
        black_box(stream.next);
    }

    /// Adds up the block's characters, one by one.
    fn sum_all(&self) -> u64 {
        let mut stream = self.stream();
        let mut sum = 0;
        while stream.next < stream.end {
            // SAFETY: a character is left before the end.
            sum += u64::from(unsafe { get(&mut stream) });
        }
        sum
    }
}

const READ: (libc::c_long, &str) = (libc::SYS_read, "read");
const WRITE: (libc::c_long, &str) = (libc::SYS_write, "write");
const LSEEK: (libc::c_long, &str) = (libc::SYS_lseek, "lseek");
const FTRUNCATE: (libc::c_long, &str) = (libc::SYS_ftruncate, "ftruncate");
const FSYNC: (libc::c_long, &str) = (libc::SYS_fsync, "fsync");

#[inline(always)]
fn same(op: u64, block: u64, found: u64, expected: u64) -> Result<(), Failed> {
    match found == expected {
        true => Ok(()),
        false => Err(Failed::Contents { op, block, found, expected }),
    }
}
