//! Groups of nearby writes that are read and written in one go. The program stands still during
//! them, and a system call costs as much for a kilobyte as for a byte.

use crate::arch::holds_breakpoint;
use crate::writes::{Side, Write};

/// The longest gap between two writes of a span, bytes, as in the library (`gap_max`, writer.c).
const GAP_BYTES_MAX: u64 = 256;
/// No span crosses the end of a page: the next page may belong to another file.
const PAGE_BYTES: u64 = 4096;

/// Some writes, sorted by address, and the bytes between them.
#[derive(Clone, Debug)]
pub struct Span<'a> {
    /// The first address.
    pub start: u64,
    /// The length of all, gaps included, bytes.
    pub length: usize,
    /// The writes, sorted by address.
    pub writes: Vec<&'a Write>,
}

impl<'a> Span<'a> {
    /// Covers all writes with as few spans as possible, sorted by address.
    pub fn cover(writes: &'a [Write]) -> Vec<Span<'a>> {
        let mut sorted: Vec<&Write> = writes.iter().collect();
        sorted.sort_by_key(|write| write.address);
        let mut spans: Vec<Span<'a>> = Vec::new();
        for write in sorted {
            match spans.last_mut() {
                Some(span) if span.reaches(write) => {
                    span.length = (write.address - span.start) as usize + write.length();
                    span.writes.push(write);
                }
                _ => spans.push(Span {
                    start: write.address,
                    length: write.length(),
                    writes: vec![write],
                }),
            }
        }
        spans
    }

    fn reaches(&self, write: &Write) -> bool {
        let end = self.start + self.length as u64;
        let last = write.address.saturating_add(write.length() as u64).saturating_sub(1);
        write.address >= end
            && write.address - end <= GAP_BYTES_MAX
            && last / PAGE_BYTES == self.start / PAGE_BYTES
    }

    /// Each write with the bytes that it has in `now`, the bytes of the span.
    pub fn held<'b>(&self, now: &'b [u8]) -> impl Iterator<Item = (&'a Write, &'b [u8])> {
        let at = move |write: &Write, start: u64| {
            let from = (write.address - start) as usize;
            &now[from..from + write.length()]
        };
        let start = self.start;
        self.writes.clone().into_iter().map(move |write| (write, at(write, start)))
    }

    /// The pieces to write for the side `to`; `now`: the bytes that the span holds.
    ///
    /// Gaps between writes are written back unchanged. A gap with a breakpoint splits the span: the
    /// kernel may remove the breakpoint at any moment, and it must not come back.
    pub fn pieces(&self, now: &[u8], to: Side) -> Vec<(u64, Vec<u8>)> {
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for write in &self.writes {
            match pieces.last_mut() {
                Some((start, bytes)) => {
                    let end = *start + bytes.len() as u64;
                    let gap =
                        &now[(end - self.start) as usize..(write.address - self.start) as usize];
                    if holds_breakpoint(gap) {
                        pieces.push((write.address, write.bytes(to).to_vec()));
                    } else {
                        bytes.extend_from_slice(gap);
                        bytes.extend_from_slice(write.bytes(to));
                    }
                }
                None => pieces.push((write.address, write.bytes(to).to_vec())),
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(address: u64, found: &[u8], asked: &[u8]) -> Write {
        Write { address, sides: vec![found.to_vec(), asked.to_vec()] }
    }

    #[test]
    fn near_writes_share_a_span_and_far_ones_and_other_pages_do_not() {
        let at = |address| write(address, &[1, 2], &[3, 4]);
        let writes = [at(0x1104), at(0x1100), at(0x1206), at(0x1400), at(0x1fff), at(0x2001)];
        let spans = Span::cover(&writes);
        let found: Vec<(u64, usize)> =
            spans.iter().map(|span| (span.start, span.writes.len())).collect();
        assert_eq!(found, [(0x1100, 3), (0x1400, 1), (0x1fff, 1), (0x2001, 1)]);
        assert_eq!(spans[0].length, 0x108);
    }

    #[test]
    #[cfg(not(target_arch = "aarch64"))]
    fn what_lies_between_stays_and_breakpoints_are_left_out() {
        let writes = [write(0x10, &[1], &[7]), write(0x12, &[2], &[8]), write(0x14, &[3], &[9])];
        let [span] = Span::cover(&writes).try_into().unwrap();
        let now = [1, 0x55, 2, 0xcc, 3];
        let held: Vec<&[u8]> = span.held(&now).map(|(_, held)| held).collect();
        assert_eq!(held, [[1], [2], [3]]);
        let pieces = span.pieces(&now, Side::ASKED);
        assert_eq!(pieces, [(0x10, vec![7, 0x55, 8]), (0x14, vec![9])]);
    }
}
