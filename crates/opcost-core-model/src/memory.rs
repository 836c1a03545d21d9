//! Caches, TLBs and the lanes between them, with the time at which each line arrives.

use crate::cache::Sets;
use crate::cycles::{Cause, Events};
use crate::figures::{Core, FirstLevel, LINE_BYTES, Level, TableGeometry};
use crate::lane::Lane;
use crate::prefetch::{Streams, Strides};

/// The number of remembered lines on their way, by their number's lower bits.
const ON_THE_WAY: usize = 1024;

/// Arrival times of lines on their way.
struct Arrivals {
    /// A line's number plus one, and its cycle of arrival.
    lines: Box<[(u64, u64); ON_THE_WAY]>,
    /// The latest arrival.
    latest: u64,
}

impl Arrivals {
    fn new() -> Arrivals {
        Arrivals { lines: Box::new([(0, 0); ON_THE_WAY]), latest: 0 }
    }

    #[inline(always)]
    fn note(&mut self, line: u64, cycle: u64) {
        self.lines[line as usize % ON_THE_WAY] = (line + 1, cycle);
        self.latest = self.latest.max(cycle);
    }

    /// Returns the cycle in which a line arrives, if the line arrives after `cycle`.
    #[inline(always)]
    fn after(&self, line: u64, cycle: u64) -> Option<u64> {
        if cycle >= self.latest {
            return None;
        }
        let (number, arrival) = self.lines[line as usize % ON_THE_WAY];
        (number == line + 1 && arrival > cycle).then_some(arrival)
    }
}

/// The memory of a core.
pub(crate) struct Memory {
    l1: Sets,
    l2: Sets,
    l3: Sets,
    code: Sets,
    /// Lines on their way to L1, and to L2 if a prefetcher requested them.
    to_l1: Arrivals,
    to_l2: Arrivals,
    from_l2: Lane,
    from_l3: Lane,
    from_memory: Lane,
    /// Cycles from an access to the line in L1, by where the line is.
    l2_cycles: u64,
    l3_cycles: u64,
    memory_cycles: u64,
    /// Cycles of a line of code, by where it is.
    l2_latency: u64,
    l3_latency: u64,
    code_from_l2: Lane,
    /// The cycle in which each slot for a miss is free again, in order of use.
    misses: Vec<u64>,
    next_miss: usize,
    /// By set of L1: the cycle from which the set may request another line.
    sets: Vec<u64>,
    same_set: u64,
    first_tlb: Sets,
    second_tlb: Sets,
    /// The most recently used page, which the first TLB holds.
    last_page: u64,
    page_shift: u32,
    second_tlb_cycles: u64,
    walk_cycles: u64,
    walks: Lane,
    strides: Strides,
    streams: Streams,
    split: u64,
    pub(crate) events: Events,
}

fn lines(size: FirstLevel) -> Sets {
    Sets::new(TableGeometry { entries: size.bytes / LINE_BYTES, ways: size.ways })
}

fn level(size: Level) -> Sets {
    lines(FirstLevel { bytes: size.bytes, ways: size.ways })
}

impl Memory {
    /// Makes a cold memory; `hit`: the cycles of a load that hits L1.
    pub(crate) fn new(core: &Core, hit: u64) -> Memory {
        let (cache, translation) = (&core.cache, &core.translation);
        let second = translation.second;
        Memory {
            l1: lines(cache.l1),
            l2: level(cache.l2),
            l3: level(cache.l3),
            code: lines(cache.code),
            to_l1: Arrivals::new(),
            to_l2: Arrivals::new(),
            from_l2: Lane::new(cache.l2.line_cycles),
            from_l3: Lane::new(cache.l3.line_cycles),
            from_memory: Lane::new(cache.memory.line_cycles),
            l2_cycles: cache.l2.latency.saturating_sub(hit),
            l3_cycles: cache.l3.latency.saturating_sub(hit),
            memory_cycles: cache.memory.latency.saturating_sub(hit),
            l2_latency: cache.l2.latency,
            l3_latency: cache.l3.latency,
            code_from_l2: Lane::new(cache.l2.line_cycles),
            misses: vec![0; cache.misses as usize],
            next_miss: 0,
            sets: vec![0; (cache.l1.bytes / LINE_BYTES / cache.l1.ways) as usize],
            same_set: cache.same_set,
            first_tlb: Sets::new(translation.first),
            second_tlb: Sets::new(TableGeometry { entries: second.entries, ways: second.ways }),
            last_page: u64::MAX,
            page_shift: translation.page_bytes.trailing_zeros(),
            second_tlb_cycles: second.latency,
            walk_cycles: translation.walk,
            walks: Lane::new(translation.walk_cycles),
            strides: Strides::new(&core.prefetch),
            streams: Streams::new(&core.prefetch),
            split: cache.split,
            events: Events::default(),
        }
    }

    /// Executes a load. Returns the cycle from which L1 would answer the load as a hit; this is `cycle` for a hit.
    ///
    /// `code`: the load's own address.
    #[inline(always)]
    pub(crate) fn load(&mut self, code: u64, address: u64, bytes: u64, cycle: u64) -> u64 {
        let ready = self.access(address, bytes, cycle);
        if let Some(lines) = self.strides.train(code, address) {
            for line in lines.as_slice() {
                self.prefetch(*line, cycle);
            }
        }
        ready
    }

    /// Returns the cause of a delay of L1: far if the delay is longer than L2 takes.
    #[inline(always)]
    pub(crate) fn cause(&self, cycles: u64) -> Cause {
        if cycles > self.l2_cycles + self.walk_cycles { Cause::Far } else { Cause::Memory }
    }

    /// Executes an access and returns the cycle from which L1 has all of it.
    #[inline(always)]
    pub(crate) fn access(&mut self, address: u64, bytes: u64, cycle: u64) -> u64 {
        let start = self.translated(address, cycle);
        let (line, last) = (address / LINE_BYTES, address.wrapping_add(bytes - 1) / LINE_BYTES);
        let ready = self.line(line, start);
        if line == last { ready } else { self.split(last, start, ready) }
    }

    /// Executes the part of an access in a second line.
    fn split(&mut self, last: u64, start: u64, first_ready: u64) -> u64 {
        self.line(last, start).max(first_ready) + self.split
    }

    /// Returns the cycle from which an address is translated.
    #[inline(always)]
    pub(crate) fn translated(&mut self, address: u64, cycle: u64) -> u64 {
        let page = address >> self.page_shift;
        if page == self.last_page { cycle } else { self.other_page(page, cycle) }
    }

    fn other_page(&mut self, page: u64, cycle: u64) -> u64 {
        self.last_page = page;
        if self.first_tlb.touch(page) {
            cycle
        } else if self.second_tlb.touch(page) {
            cycle + self.second_tlb_cycles
        } else {
            self.events.tlb_misses += 1;
            self.walks.reserve(cycle) + self.walk_cycles
        }
    }

    /// Touches a line and returns the cycle from which L1 has it.
    #[inline(always)]
    fn line(&mut self, line: u64, cycle: u64) -> u64 {
        if !self.l1.touch(line) {
            return self.miss(line, cycle);
        }
        match self.to_l1.after(line, cycle) {
            None => cycle,
            Some(arrival) => {
                self.events.late_lines += 1;
                arrival
            }
        }
    }

    #[inline(never)]
    fn miss(&mut self, line: u64, cycle: u64) -> u64 {
        self.events.l1_misses += 1;
        let set = line as usize & (self.sets.len() - 1);
        let start = cycle.max(self.misses[self.next_miss]).max(self.sets[set]);
        self.sets[set] = start + self.same_set;
        let (arrival, level) = self.fetch(line, start);
        self.events.l2_misses += u64::from(level > 2);
        self.events.l3_misses += u64::from(level > 3);
        self.misses[self.next_miss] = arrival;
        self.next_miss =
            if self.next_miss + 1 == self.misses.len() { 0 } else { self.next_miss + 1 };
        self.to_l1.note(line, arrival);
        self.stream(line, cycle);
        arrival
    }

    /// Requests a line for L1; returns its arrival and the level that had it.
    fn fetch(&mut self, line: u64, cycle: u64) -> (u64, u8) {
        let moved = self.from_l2.reserve(cycle);
        if !self.l2.touch(line) {
            return self.beyond_l2(line, cycle);
        }
        let there = self.to_l2.after(line, moved).unwrap_or(moved);
        (there + self.l2_cycles, 2)
    }

    /// Requests a line that L2 does not have; returns its arrival in L1 and the level that had it.
    fn beyond_l2(&mut self, line: u64, cycle: u64) -> (u64, u8) {
        match self.l3.touch(line) {
            true => (self.from_l3.reserve(cycle) + self.l3_cycles, 3),
            false => (self.from_memory.reserve(cycle) + self.memory_cycles, 4),
        }
    }

    /// Prefetches a line into L1.
    fn prefetch(&mut self, line: u64, cycle: u64) {
        if self.l1.holds(line) {
            return;
        }
        self.events.prefetches += 1;
        self.l1.touch(line);
        let (arrival, _) = self.fetch(line, cycle);
        self.to_l1.note(line, arrival);
        self.stream(line, cycle);
    }

    /// Prefetches the lines of a stream into L2.
    fn stream(&mut self, line: u64, cycle: u64) {
        let lines = self.streams.train(line);
        for line in lines.as_slice() {
            if !self.l2.holds(*line) {
                self.events.prefetches += 1;
                self.l2.touch(*line);
                let (arrival, _) = self.beyond_l2(*line, cycle);
                self.to_l2.note(*line, arrival.saturating_sub(self.l2_cycles));
            }
        }
    }

    /// Learns from an access without timing it.
    #[inline(always)]
    pub(crate) fn learn(&mut self, address: u64, bytes: u64) {
        let page = address >> self.page_shift;
        if page != self.last_page {
            self.learn_page(page);
        }
        let (line, last) = (address / LINE_BYTES, address.wrapping_add(bytes - 1) / LINE_BYTES);
        if !self.l1.touch(line) {
            self.learn_missed(line);
        }
        if last != line && !self.l1.touch(last) {
            self.learn_missed(last);
        }
    }

    /// Learns from a load without timing it; `code`: the load's own address.
    #[inline(always)]
    pub(crate) fn learn_stride(&mut self, code: u64, address: u64) {
        let Some(lines) = self.strides.train(code, address) else { return };
        for line in lines.as_slice() {
            if !self.l1.holds(*line) {
                self.events.prefetches += 1;
                self.l1.touch(*line);
                self.learn_beyond_l1(*line);
            }
        }
    }

    fn learn_page(&mut self, page: u64) {
        self.last_page = page;
        if !self.first_tlb.touch(page) && !self.second_tlb.touch(page) {
            self.events.tlb_misses += 1;
        }
    }

    #[inline(never)]
    fn learn_missed(&mut self, line: u64) {
        self.events.l1_misses += 1;
        let level = self.learn_beyond_l1(line);
        self.events.l2_misses += u64::from(level > 2);
        self.events.l3_misses += u64::from(level > 3);
    }

    /// Learns from a line that L1 did not hold, and returns the level that had it.
    fn learn_beyond_l1(&mut self, line: u64) -> u8 {
        let level = match self.l2.touch(line) {
            true => 2,
            false => 4 - u8::from(self.l3.touch(line)),
        };
        let lines = self.streams.train(line);
        for line in lines.as_slice() {
            if !self.l2.holds(*line) {
                self.events.prefetches += 1;
                self.l2.touch(*line);
                self.l3.touch(*line);
            }
        }
        level
    }

    /// Learns from a line of code; returns whether L2 held it, or `None` if the instruction cache did.
    #[inline(always)]
    pub(crate) fn learn_code(&mut self, line: u64) -> Option<bool> {
        if self.code.touch(line) {
            return None;
        }
        self.events.code_misses += 1;
        let near = self.l2.touch(line);
        if !near && !self.l3.touch(line) {
            self.events.l3_misses += 1;
        }
        Some(near)
    }

    /// Executes a store that bypasses the caches, and returns the cycle in which it has left.
    pub(crate) fn past_caches(&mut self, address: u64, last_line: &mut u64, cycle: u64) -> u64 {
        let line = address / LINE_BYTES;
        // Stores to one line leave together.
        if line == *last_line {
            return cycle;
        }
        *last_line = line;
        self.from_memory.reserve(cycle)
    }

    /// Requests a line of code for prediction. Returns the cycle in which the front end has the line, or `None` if the instruction
    /// cache holds it.
    pub(crate) fn code(&mut self, line: u64, cycle: u64) -> Option<u64> {
        let near = self.learn_code(line)?;
        let moved = self.code_from_l2.reserve(cycle);
        // A program that runs repeatedly finds its code in L3.
        Some(moved + if near { self.l2_latency } else { self.l3_latency })
    }
}
