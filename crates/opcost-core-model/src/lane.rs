//! Bandwidth: a lane between two levels of memory moves one line at a time.

/// The number of remembered periods.
const PLACES: usize = 512;

/// A lane between two levels of memory.
pub(crate) struct Lane {
    /// The taken periods: each place holds the number of its period plus one.
    taken: Box<[u64; PLACES]>,
    /// A range of periods, end excluded, that are all taken.
    full: (u64, u64),
    line_cycles: u64,
}

impl Lane {
    /// Makes a lane; `line_cycles`: the cycles that a line takes.
    pub(crate) fn new(line_cycles: u64) -> Lane {
        Lane { taken: Box::new([0; PLACES]), full: (0, 0), line_cycles }
    }

    /// Takes the first free period from `cycle` on, and returns the cycle in which the line moves.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, cycle: u64) -> u64 {
        let earliest = cycle / self.line_cycles;
        let (from, to) = self.full;
        let mut period = if earliest >= from && earliest < to { to } else { earliest };
        while self.taken[period as usize % PLACES] == period + 1 {
            period += 1;
        }
        self.taken[period as usize % PLACES] = period + 1;
        let joined = earliest <= to && period >= from;
        self.full = if joined { (from.min(earliest), period + 1) } else { (earliest, period + 1) };
        cycle.max(period * self.line_cycles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_move_one_after_the_other() {
        let mut lane = Lane::new(5);
        let got = [3, 3, 3, 40, 0, 12].map(|cycle| lane.reserve(cycle));
        assert_eq!(got, [3, 5, 10, 40, 15, 20]);
    }
}
