//! The time that was taken from a thread which only counts its own turns. Pure.

use serde::Serialize;

/// A turn was interrupted if it took more than this many times the typical turn.
const GAP_TURNS: u64 = 10;

/// The turns of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Gaps {
    /// The time of a turn that nothing interrupts.
    pub(super) turn_ns: u64,
    /// The time of all turns together.
    pub(super) listened_ns: u64,
    /// The number of interrupted turns.
    pub(super) gaps: u64,
    /// The longest gap: the time of an interrupted turn beyond the typical turn.
    pub(super) longest_ns: u64,
    /// All gaps together.
    pub(super) lost_ns: u64,
}

impl Gaps {
    /// Starts before the first turn.
    ///
    /// `calibration_ns`: the times of turns, most of which were not interrupted.
    pub(super) fn new(mut calibration_ns: Vec<u64>) -> Gaps {
        calibration_ns.sort_unstable();
        let turn_ns = calibration_ns.get(calibration_ns.len() / 2).copied().unwrap_or(0).max(1);
        Gaps { turn_ns, ..Gaps::default() }
    }

    /// Adds a turn.
    #[inline]
    pub(super) fn turn(&mut self, took_ns: u64) {
        self.listened_ns += took_ns;
        if took_ns > GAP_TURNS * self.turn_ns {
            let lost_ns = took_ns - self.turn_ns;
            self.gaps += 1;
            self.lost_ns += lost_ns;
            self.longest_ns = self.longest_ns.max(lost_ns);
        }
    }

    /// The share of the time that was lost.
    pub(super) fn lost_share(&self) -> f64 {
        self.lost_ns as f64 / self.listened_ns.max(1) as f64
    }

    /// The rate, per second, of an event that happened `count` times while the thread turned.
    pub(super) fn rate(&self, count: u64) -> u64 {
        (count as f64 * 1e9 / self.listened_ns.max(1) as f64).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_far_beyond_a_turn_is_a_gap() {
        let mut gaps = Gaps::new(vec![100, 90, 110, 5000, 100]);
        assert_eq!(gaps.turn_ns, 100);
        for took_ns in [100, 1000, 1001, 40_100, 90] {
            gaps.turn(took_ns);
        }
        let expected = Gaps {
            turn_ns: 100,
            listened_ns: 42_291,
            gaps: 2,
            longest_ns: 40_000,
            lost_ns: 40_901,
        };
        assert_eq!(gaps, expected);
        assert!((gaps.lost_share() - 40_901.0 / 42_291.0).abs() < 1e-12);
        assert_eq!(gaps.rate(2), 47_291);
    }

    #[test]
    fn no_turn_is_no_reason_to_divide_by_it() {
        let mut gaps = Gaps::new(vec![]);
        assert_eq!((gaps.lost_share(), gaps.rate(0)), (0.0, 0));
        // The clock is too coarse for a turn.
        gaps.turn(0);
        assert_eq!(gaps.gaps, 0);
    }
}
