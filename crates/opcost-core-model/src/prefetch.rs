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
    /// Steps in front of the last address that were asked for.
    ahead: i64,
}

/// Times that a stride is seen before it is believed.
const SEEN: u8 = 2;
/// Most lines that one load asks for.
const STEPS_AT_ONCE: usize = 2;

/// Lines to ask for, as many as there are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lines {
    lines: [u64; LINES_AT_ONCE],
    count: usize,
}

impl Lines {
    fn add(&mut self, line: u64) {
        self.lines[self.count] = line;
        self.count += 1;
    }

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.lines[..self.count]
    }
}

impl Strides {
    pub(crate) fn new(figures: &Prefetch) -> Strides {
        let count = figures.strides as usize;
        let distance = figures.stride_distance as i64;
        Strides { loads: vec![Stride::default(); count], mask: count - 1, distance }
    }

    /// Learns from a load; the lines to ask for.
    #[inline(always)]
    pub(crate) fn train(&mut self, code: u64, address: u64) -> Option<Lines> {
        let place = (code ^ (code >> 7)) as usize & self.mask;
        let load = &mut self.loads[place];
        if load.code != code {
            *load = Stride { code, address, ..Stride::default() };
            return None;
        }
        let stride = address.wrapping_sub(load.address) as i64;
        let moved = address / LINE_BYTES != load.address / LINE_BYTES;
        load.address = address;
        if stride != load.stride {
            *load = Stride { code, address, stride, ..Stride::default() };
            return None;
        }
        if load.seen < SEEN {
            load.seen += 1;
            return None;
        }
        load.ahead = (load.ahead - i64::from(moved)).max(0);
        if stride == 0 || load.ahead >= self.distance {
            return None;
        }
        Some(load.ask(self.distance))
    }
}

impl Stride {
    /// The next lines in front of those that were asked for, within the page.
    fn ask(&mut self, distance: i64) -> Lines {
        let mut lines = Lines::default();
        // Strides within a line are steps from line to line.
        let line = LINE_BYTES as i64;
        let step = if self.stride.abs() < line { self.stride.signum() * line } else { self.stride };
        while self.ahead < distance && lines.count < STEPS_AT_ONCE {
            let wanted = self.address.wrapping_add(step.wrapping_mul(self.ahead + 1) as u64);
            if wanted / PAGE_BYTES != self.address / PAGE_BYTES {
                break;
            }
            self.ahead += 1;
            lines.add(wanted / LINE_BYTES);
        }
        lines
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

    /// Learns from a line that L1 missed; the lines to ask for.
    #[inline]
    pub(crate) fn train(&mut self, line: u64) -> Lines {
        let (page, within) = (line / LINES_A_PAGE, (line % LINES_A_PAGE) as i8);
        let mut lines = Lines::default();
        let count = self.streams.len() as u64;
        let stream = &mut self.streams[(page % count) as usize];
        if stream.page != page + 1 {
            *stream = Stream { page: page + 1, last: within, ..Stream::default() };
            return lines;
        }
        let step = (within - stream.last).signum();
        stream.last = within;
        if step == 0 {
            return lines;
        }
        if step != stream.step {
            *stream = Stream { step, seen: 0, asked: within, ..*stream };
            return lines;
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
        while lines.count < LINES_AT_ONCE && asked != farthest {
            asked += step;
            if !(0..LINES_A_PAGE as i8).contains(&asked) {
                break;
            }
            lines.add(page * LINES_A_PAGE + asked as u64);
            stream.asked = asked;
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Prefetch =
        Prefetch { strides: 64, stride_distance: 4, streams: 16, stream_distance: 8 };

    fn asked(strides: &mut Strides, address: u64) -> Vec<u64> {
        strides.train(0x400, address).map_or(Vec::new(), |lines| lines.as_slice().to_vec())
    }

    #[test]
    fn a_stride_is_believed_once_it_was_seen_again() {
        let mut strides = Strides::new(&FIGURES);
        let got: Vec<_> = (0..7).map(|step| asked(&mut strides, 0x10000 + step * 200)).collect();
        let line = |strides: u64| (0x10000 + strides * 200) / 64;
        let none = Vec::new;
        let ahead = [vec![line(5), line(6)], vec![line(7), line(8)], vec![line(9), line(10)]];
        assert_eq!(got[..4], [none(), none(), none(), none()]);
        assert_eq!(got[4..], ahead);
        assert_eq!(asked(&mut strides, 0x20000), [], "another stride");
    }

    #[test]
    fn a_stride_stays_in_its_page_and_asks_for_a_line_once() {
        let mut strides = Strides::new(&FIGURES);
        let mut all = Vec::new();
        for step in 0..512_u64 {
            all.extend(asked(&mut strides, 0x10000 + step * 8));
        }
        assert_eq!(all, (1..64).map(|line| 0x400 + line).collect::<Vec<u64>>());
        for step in 0..8 {
            assert_eq!(asked(&mut strides, step * 4096), []);
        }
    }

    #[test]
    fn a_stream_runs_ahead_to_the_end_of_its_page() {
        let mut streams = Streams::new(&FIGURES);
        let mut asked = Vec::new();
        for line in 640..704 {
            asked.extend_from_slice(streams.train(line).as_slice());
        }
        assert_eq!(asked, (643..704).collect::<Vec<u64>>());
        let mut asked = Vec::new();
        for line in (640..704).rev() {
            asked.extend_from_slice(streams.train(line).as_slice());
        }
        assert_eq!(asked, (640..701).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn lines_here_and_there_ask_for_nothing() {
        let mut streams = Streams::new(&FIGURES);
        for line in [5, 9, 3, 20, 1, 60, 7] {
            assert_eq!(streams.train(line).as_slice(), []);
        }
    }
}
