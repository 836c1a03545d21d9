//! Writes that lie near each other, read and written in one go: a program stands still as long as
//! that takes, and a system call costs as much for a kilobyte as for a byte.

use crate::writes::{Side, Write};

/// A breakpoint's byte.
pub const BREAKPOINT: u8 = 0xcc;
/// Bytes between two writes up to which they go together, as in the library (`gap_max`, writer.c).
const GAP_BYTES_MAX: u64 = 256;
/// No span goes over the end of a page: the next one may be another file's.
const PAGE_BYTES: u64 = 4096;

/// Some writes, sorted by address, and the bytes between them.
#[derive(Clone, Debug)]
pub struct Span<'a> {
    /// The first address.
    pub start: u64,
    /// Bytes in all.
    pub length: usize,
    /// What differs between sides.
    pub writes: Vec<&'a Write>,
}

impl<'a> Span<'a> {
    /// All of some writes in as few spans as they fit in, by address.
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

    /// Each write with what it holds, of all that the span holds.
    pub fn held<'b>(&self, now: &'b [u8]) -> impl Iterator<Item = (&'a Write, &'b [u8])> {
        let at = move |write: &Write, start: u64| {
            let from = (write.address - start) as usize;
            &now[from..from + write.length()]
        };
        let start = self.start;
        self.writes.clone().into_iter().map(move |write| (write, at(write, start)))
    }

    /// What to write for a side, where the span holds `now`.
    ///
    /// What lies between is written as it is. A breakpoint there may be removed by the kernel at any
    /// moment, and must not come back: where there is one, the span is cut.
    pub fn pieces(&self, now: &[u8], to: Side) -> Vec<(u64, Vec<u8>)> {
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for write in &self.writes {
            match pieces.last_mut() {
                Some((start, bytes)) => {
                    let end = *start + bytes.len() as u64;
                    let gap =
                        &now[(end - self.start) as usize..(write.address - self.start) as usize];
                    if gap.contains(&BREAKPOINT) {
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
    fn what_lies_between_stays_and_breakpoints_are_left_out() {
        let writes = [write(0x10, &[1], &[7]), write(0x12, &[2], &[8]), write(0x14, &[3], &[9])];
        let [span] = Span::cover(&writes).try_into().unwrap();
        let now = [1, 0x55, 2, BREAKPOINT, 3];
        let held: Vec<&[u8]> = span.held(&now).map(|(_, held)| held).collect();
        assert_eq!(held, [[1], [2], [3]]);
        let pieces = span.pieces(&now, Side::ASKED);
        assert_eq!(pieces, [(0x10, vec![7, 0x55, 8]), (0x14, vec![9])]);
    }
}
