//! Prefetchers, and the lines that they request.

use crate::figures::{LINE_BYTES, Prefetch};

/// Bytes of a physical page; no prefetcher leaves its page.
const PAGE_BYTES: u64 = 4096;

/// The stride prefetcher: loads that each move by a constant stride.
pub(crate) struct Strides {
    loads: Vec<Stride>,
    mask: usize,
    distance: i64,
}

#[derive(Clone, Copy, Default)]
struct Stride {
    /// The load's own address.
    code: u64,
    /// The last address that the load read.
    address: u64,
    stride: i64,
    /// How often the stride repeated in a row, up to a limit.
    seen: u8,
    /// Requested steps ahead of the last address.
    ahead: i64,
}

/// The number of repetitions after which a stride counts as confirmed.
const SEEN: u8 = 2;
/// The largest number of lines that one load requests.
const STEPS_AT_ONCE: usize = 2;

/// Lines to request.
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

    /// Learns from a load and returns the lines to request.
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
    /// Returns the next lines ahead of the requested ones, within the page.
    fn ask(&mut self, distance: i64) -> Lines {
        let mut lines = Lines::default();
        // Strides shorter than a line advance line by line.
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

/// The stream prefetcher: streams of L1 misses, one a page. A stream that leaves its page continues in the next.
pub(crate) struct Streams {
    streams: Vec<Stream>,
    distance: i64,
}

#[derive(Clone, Copy, Default)]
struct Stream {
    /// The page plus one.
    page: u64,
    /// The last line.
    last: u64,
    /// The direction: up, down, or none yet.
    step: i64,
    /// Steps in this direction in a row, up to a limit.
    seen: u8,
    /// The farthest requested line.
    asked: u64,
}

/// The largest number of lines that one miss requests.
const LINES_AT_ONCE: usize = 4;
const LINES_A_PAGE: u64 = PAGE_BYTES / LINE_BYTES;
/// The number of lines that a stream may skip at the border of two pages.
const SKIPPED_MAX: u64 = 4;

impl Streams {
    pub(crate) fn new(figures: &Prefetch) -> Streams {
        let streams = vec![Stream::default(); figures.streams as usize];
        Streams { streams, distance: figures.stream_distance as i64 }
    }

    fn place(&self, page: u64) -> usize {
        (page % self.streams.len() as u64) as usize
    }

    /// Returns the stream that a line of another page continues.
    fn continued(&self, page: u64, line: u64) -> Option<Stream> {
        [(page.wrapping_sub(1), 1), (page.wrapping_add(1), -1)].into_iter().find_map(
            |(from, step)| {
                let stream = self.streams[self.place(from)];
                let near = stream.last.abs_diff(line) <= SKIPPED_MAX;
                let goes_on = stream.page == from.wrapping_add(1) && stream.step == step;
                (goes_on && near && stream.seen > 0).then_some(Stream { page: page + 1, ..stream })
            },
        )
    }

    /// Learns from a line that L1 missed, and returns the lines to request.
    #[inline]
    pub(crate) fn train(&mut self, line: u64) -> Lines {
        let page = line / LINES_A_PAGE;
        let mut lines = Lines::default();
        let place = self.place(page);
        if self.streams[place].page != page + 1 {
            let new = Stream { page: page + 1, last: line, ..Stream::default() };
            match self.continued(page, line) {
                Some(stream) => self.streams[place] = stream,
                None => {
                    self.streams[place] = new;
                    return lines;
                }
            }
        }
        let stream = &mut self.streams[place];
        let step = (line.wrapping_sub(stream.last) as i64).signum();
        stream.last = line;
        if step == 0 {
            return lines;
        }
        if step != stream.step {
            *stream = Stream { step, seen: 0, asked: line, ..*stream };
            return lines;
        }
        if stream.seen == 0 {
            stream.seen = 1;
            stream.asked = line;
        }
        // The distance of the farthest requested line from this line.
        let mut ahead = (stream.asked.wrapping_sub(line) as i64).wrapping_mul(step).max(0);
        while lines.count < LINES_AT_ONCE && ahead < self.distance {
            ahead += 1;
            lines.add(line.wrapping_add((step * ahead) as u64));
        }
        stream.asked = line.wrapping_add((step * ahead) as u64);
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
    fn a_stream_runs_ahead_and_over_the_end_of_its_page() {
        let mut streams = Streams::new(&FIGURES);
        let mut asked = Vec::new();
        for line in 640..704 {
            asked.extend_from_slice(streams.train(line).as_slice());
        }
        assert_eq!(asked, (643..703 + 9).collect::<Vec<u64>>());
        let again: Vec<u64> =
            (704..708).flat_map(|line| streams.train(line).as_slice().to_vec()).collect();
        assert_eq!(again, [712, 713, 714, 715]);
        let mut asked = Vec::new();
        let mut streams = Streams::new(&FIGURES);
        for line in (640..704).rev() {
            asked.extend_from_slice(streams.train(line).as_slice());
        }
        assert_eq!(asked, (632..701).rev().collect::<Vec<u64>>());
    }

    #[test]
    fn lines_here_and_there_ask_for_nothing() {
        let mut streams = Streams::new(&FIGURES);
        for line in [5, 9, 3, 20, 1, 60, 7] {
            assert_eq!(streams.train(line).as_slice(), []);
        }
    }
}
