//! Tables with sets of least recently used entries: caches by line, TLBs by page, target tables by jump.

use crate::figures::TableGeometry;

/// A table of numbers: lines, pages, addresses of jumps.
pub(crate) struct Sets {
    /// Tags, set after set, the most recently used first; 0: empty.
    tags: Vec<u32>,
    ways: usize,
    set_mask: u64,
    set_bits: u32,
}

impl Sets {
    /// Makes an empty table; the number of sets is a power of two.
    pub(crate) fn new(size: TableGeometry) -> Sets {
        let sets = size.entries / size.ways;
        Sets {
            tags: vec![0; size.entries as usize],
            ways: size.ways as usize,
            set_mask: sets - 1,
            set_bits: sets.trailing_zeros(),
        }
    }

    /// Returns the place of a number's set, and the number's tag: its other bits folded to 32. Addresses of one program that fold
    /// to the same tag lie at least 2^38 bytes apart.
    #[inline(always)]
    fn place(&self, number: u64) -> (usize, u32) {
        let rest = number >> self.set_bits;
        let tag = (rest ^ (rest >> 32).wrapping_mul(0x9e37_79b1)) as u32;
        ((number & self.set_mask) as usize * self.ways, tag.wrapping_add(1).max(1))
    }

    /// Touches a number and returns whether the table held it. A missing number replaces the oldest of its set.
    #[inline(always)]
    pub(crate) fn touch(&mut self, number: u64) -> bool {
        let (first, tag) = self.place(number);
        let set = &mut self.tags[first..first + self.ways];
        if set[0] == tag {
            return true;
        }
        match set.iter().position(|way| *way == tag) {
            Some(way) => {
                set.copy_within(..way, 1);
                set[0] = tag;
                true
            }
            None => {
                let last = set.len() - 1;
                set.copy_within(..last, 1);
                set[0] = tag;
                false
            }
        }
    }

    /// Whether the table holds a number; changes nothing.
    #[inline(always)]
    pub(crate) fn holds(&self, number: u64) -> bool {
        let (first, tag) = self.place(number);
        self.tags[first..first + self.ways].contains(&tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_least_recently_used_is_replaced() {
        // Two sets of two.
        let mut table = Sets::new(TableGeometry { entries: 4, ways: 2 });
        let got = [0, 2, 0, 4, 0, 2, 1, 4].map(|number| table.touch(number));
        assert_eq!(got, [false, false, true, false, true, false, false, false]);
        assert!(table.holds(1) && table.holds(2) && !table.holds(0) && !table.holds(3));
    }

    #[test]
    fn user_and_kernel_addresses_are_told_apart() {
        let mut table = Sets::new(TableGeometry { entries: 8, ways: 8 });
        let numbers = [0x5555_5555_4000, 0x7fff_f7fc_0000, 0xffff_ffff_8100_0000_u64];
        let lines = numbers.map(|number| number >> 6);
        assert_eq!(lines.map(|line| table.touch(line)), [false; 3]);
        assert_eq!(lines.map(|line| table.touch(line)), [true; 3]);
    }

    proptest! {
        #[test]
        fn sets_are_lists_by_last_use(ways in 1u64..17, touched in prop::collection::vec(0u64..60, 0..300)) {
            let mut table = Sets::new(TableGeometry { entries: 2 * ways, ways });
            let mut lists = [Vec::new(), Vec::new()];
            for number in touched {
                let list = &mut lists[number as usize % 2];
                let known = list.iter().position(|old| *old == number);
                prop_assert_eq!(table.holds(number), known.is_some());
                prop_assert_eq!(table.touch(number), known.is_some());
                if let Some(place) = known {
                    list.remove(place);
                }
                list.insert(0, number);
                list.truncate(ways as usize);
            }
        }
    }
}
