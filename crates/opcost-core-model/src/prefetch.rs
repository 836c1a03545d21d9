//! Which lines prefetchers ask for.

use crate::figures::{LINE_BYTES, Prefetch};

/// Bytes of a physical page, which no prefetcher leaves.
const PAGE_BYTES: u64 = 4096;

/// Loads that each move by a constant stride.
pub(crate) struct Strides {
    loads: Vec<Stride>,
    mask: usize,
    distance: i64,
}

#[derive(Clone, Copy, Default)]
struct Stride {
    /// The load's own address.
    code: u64,
    /// Where it last read.
    address: u64,
    stride: i64,
    /// How often the stride was the same in a row, up to a few.
    seen: u8,
    /// The line that was last asked for.
    asked: u64,
}

/// Times that a stride is seen before it is believed.
const SEEN: u8 = 2;

impl Strides {
    pub(crate) fn new(figures: &Prefetch) -> Strides {
        let count = figures.strides as usize;
        let distance = figures.stride_distance as i64;
        Strides { loads: vec![Stride::default(); count], mask: count - 1, distance }
    }

    /// Learns from a load; the line to ask for.
    #[inline(always)]
    pub(crate) fn train(&mut self, code: u64, address: u64) -> Option<u64> {
        let place = (code ^ (code >> 7)) as usize & self.mask;
        let load = &mut self.loads[place];
        if load.code != code {
            *load = Stride { code, address, asked: u64::MAX, ..Stride::default() };
            return None;
        }
        let stride = address.wrapping_sub(load.address) as i64;
        load.address = address;
        if stride != load.stride {
            load.stride = stride;
            load.seen = 0;
            return None;
        }
        if load.seen < SEEN {
            load.seen += 1;
            return None;
        }
        if stride == 0 {
            return None;
        }
        let ahead = |times: i64| address.wrapping_add(stride.wrapping_mul(times) as u64);
        let same_page = |other: u64| other / PAGE_BYTES == address / PAGE_BYTES;
        let wanted =
            [ahead(self.distance), ahead(1)].into_iter().find(|other| same_page(*other))?;
        let line = wanted / LINE_BYTES;
        if line == load.asked || line == address / LINE_BYTES {
            return None;
        }
        load.asked = line;
        Some(line)
    }
}

/// Streams of lines that L1 misses, one a page.
pub(crate) struct Streams {
    streams: Vec<Stream>,
    distance: u64,
}

#[derive(Clone, Copy, Default)]
struct Stream {
    /// The page plus one.
    page: u64,
    /// The last line within the page.
    last: i8,
    /// Up, down, or none yet.
    step: i8,
    /// Steps in that direction in a row, up to a few.
    seen: u8,
    /// The farthest line asked for.
    asked: i8,
}

/// Most lines that one miss asks for.
const LINES_AT_ONCE: usize = 4;
const LINES_A_PAGE: u64 = PAGE_BYTES / LINE_BYTES;

impl Streams {
    pub(crate) fn new(figures: &Prefetch) -> Streams {
        let streams = vec![Stream::default(); figures.streams as usize];
        Streams { streams, distance: figures.stream_distance }
    }

    /// Learns from a line that L1 missed; the lines to ask for, as many as said.
    #[inline]
    pub(crate) fn train(&mut self, line: u64) -> ([u64; LINES_AT_ONCE], usize) {
        let (page, within) = (line / LINES_A_PAGE, (line % LINES_A_PAGE) as i8);
        let mut lines = [0; LINES_AT_ONCE];
        let count = self.streams.len() as u64;
        let stream = &mut self.streams[(page % count) as usize];
        if stream.page != page + 1 {
            *stream = Stream { page: page + 1, last: within, ..Stream::default() };
            return (lines, 0);
        }
        let step = (within - stream.last).signum();
        stream.last = within;
        if step == 0 {
            return (lines, 0);
        }
        if step != stream.step {
            *stream = Stream { step, seen: 0, asked: within, ..*stream };
            return (lines, 0);
        }
        if stream.seen < 1 {
            stream.seen += 1;
            stream.asked = within;
        }
        let farthest = within + step * self.distance.min(63) as i8;
        let mut asked = match step > 0 {
            true => stream.asked.max(within),
            false => stream.asked.min(within),
        };
        let mut found = 0;
        while found < LINES_AT_ONCE && asked != farthest {
            asked += step;
            if !(0..LINES_A_PAGE as i8).contains(&asked) {
                break;
            }
            lines[found] = page * LINES_A_PAGE + asked as u64;
            found += 1;
            stream.asked = asked;
        }
        (lines, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Prefetch =
        Prefetch { strides: 64, stride_distance: 4, streams: 16, stream_distance: 8 };

    #[test]
    fn a_stride_is_believed_once_it_was_seen_again() {
        let mut strides = Strides::new(&FIGURES);
        let got: Vec<_> = (0..7).map(|step| strides.train(0x400, 0x10000 + step * 200)).collect();
        let line = |bytes: u64| Some((0x10000 + bytes) / 64);
        assert_eq!(got, [None, None, None, None, line(1600), line(1800), line(2000)]);
        assert_eq!(strides.train(0x400, 0x20000), None, "another stride");
    }

    #[test]
    fn a_stride_stays_in_its_page_and_asks_for_a_line_once() {
        let mut strides = Strides::new(&FIGURES);
        let mut asked = Vec::new();
        for step in 0..512_u64 {
            asked.extend(strides.train(0x400, 0x10000 + step * 8));
        }
        assert_eq!(asked, (1..64).map(|line| 0x400 + line).collect::<Vec<u64>>());
        for step in 0..8 {
            assert_eq!(strides.train(0x500, step * 4096), None);
        }
    }

    #[test]
    fn a_stream_runs_ahead_to_the_end_of_its_page() {
        let mut streams = Streams::new(&FIGURES);
        let mut asked = Vec::new();
        for line in 640..704 {
            let (lines, count) = streams.train(line);
            asked.extend_from_slice(&lines[..count]);
        }
        assert_eq!(asked, (643..704).collect::<Vec<u64>>());
        let mut asked = Vec::new();
        for line in (640..704).rev() {
            let (lines, count) = streams.train(line);
            asked.extend_from_slice(&lines[..count]);
        }
        assert_eq!(asked, (640..701).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn lines_here_and_there_ask_for_nothing() {
        let mut streams = Streams::new(&FIGURES);
        for line in [5, 9, 3, 20, 1, 60, 7] {
            assert_eq!(streams.train(line).1, 0);
        }
    }
}
