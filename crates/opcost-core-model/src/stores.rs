//! Stores in flight: the queue that stores leave in order, and loads that find their values in it.

/// The number of remembered granules, by their number's lower bits. A load finds a store by granules of four bytes.
const GRANULES: usize = 1024;
const GRANULE_BYTES: u64 = 4;

/// A store in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Store {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The cycle in which the store's data are ready.
    pub(crate) data: u64,
    /// The cycle in which L1 has the store.
    pub(crate) commit: u64,
    /// Whether the address consists of a stack register and a constant.
    pub(crate) on_stack: bool,
}

/// The result of a load's search in the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Nothing,
    /// A store that has all of the load's bytes, and the number of stores since then, including itself.
    Whole(Store, u64),
    /// Stores that have some of the load's bytes, and the cycle in which the data of the last of them is ready.
    Part(u64),
}

/// The stores of a core that are not yet in L1.
pub(crate) struct Stores {
    /// Stores by number, at least as many as the queue has entries.
    stores: Vec<Store>,
    mask: usize,
    /// By granule: the granule's number plus one, and the number of the last store to it.
    granules: Box<[(u64, u64); GRANULES]>,
    /// Number of the next store.
    next: u64,
    entries: u64,
    /// The cycle in which the last store is in L1.
    pub(crate) last_commit: u64,
    /// The line of the last store, and the number of stores to this line that entered L1 in the same cycle.
    last_line: u64,
    committed: u64,
    commits: u64,
}

impl Stores {
    pub(crate) fn new(entries: u64, commits: u64) -> Stores {
        let count = entries.next_power_of_two() as usize;
        Stores {
            stores: vec![Store::default(); count],
            mask: count - 1,
            granules: Box::new([(0, 0); GRANULES]),
            next: entries,
            entries,
            last_commit: 0,
            last_line: u64::MAX,
            committed: 0,
            commits,
        }
    }

    /// Returns the cycle from which the queue has a free place.
    #[inline(always)]
    pub(crate) fn free_from(&self) -> u64 {
        self.stores[(self.next - self.entries) as usize & self.mask].commit
    }

    /// Returns the cycle in which a store enters L1; `ready`: the earliest cycle. The store stays behind all before it, and one
    /// line enters in a cycle.
    #[inline(always)]
    pub(crate) fn commit(&mut self, ready: u64, line: u64) -> u64 {
        if ready > self.last_commit {
            (self.last_commit, self.committed) = (ready, 1);
        } else if self.committed < self.commits && line == self.last_line {
            self.committed += 1;
        } else {
            (self.last_commit, self.committed) = (self.last_commit + 1, 1);
        }
        self.last_line = line;
        self.last_commit
    }

    /// Enters a store into the queue.
    #[inline(always)]
    pub(crate) fn push(&mut self, store: Store) {
        self.stores[self.next as usize & self.mask] = store;
        let first = store.address / GRANULE_BYTES;
        let last = store.address.wrapping_add(store.bytes - 1) / GRANULE_BYTES;
        let count = last.wrapping_sub(first).min(16);
        for ahead in 0..=count {
            let granule = first.wrapping_add(ahead);
            self.granules[granule as usize % GRANULES] = (granule.wrapping_add(1), self.next);
        }
        self.next += 1;
    }

    /// Finds the last store in flight to a load's bytes.
    #[inline(always)]
    pub(crate) fn find(&self, address: u64, bytes: u64, cycle: u64) -> Found {
        if cycle >= self.last_commit {
            return Found::Nothing;
        }
        let first = address / GRANULE_BYTES;
        let last = address.wrapping_add(bytes - 1) / GRANULE_BYTES;
        let mut found: Option<u64> = None;
        let mut data = 0;
        for ahead in 0..=last.wrapping_sub(first).min(16) {
            let granule = first.wrapping_add(ahead);
            let (tag, number) = self.granules[granule as usize % GRANULES];
            if tag == granule.wrapping_add(1) && number + self.entries >= self.next {
                found = found.max(Some(number));
                data = data.max(self.stores[number as usize & self.mask].data);
            }
        }
        let Some(number) = found else { return Found::Nothing };
        let store = self.stores[number as usize & self.mask];
        // The distance of the load's first byte from the store's.
        let offset = address.wrapping_sub(store.address);
        let before = store.address.wrapping_sub(address);
        if store.commit <= cycle || (offset >= store.bytes && before >= bytes) {
            Found::Nothing
        } else if offset < store.bytes && offset + bytes <= store.bytes {
            Found::Whole(store, self.next - number)
        } else {
            Found::Part(data)
        }
    }
}

/// The number of remembered loads, by their own addresses.
const PAIRS: usize = 512;

/// Loads whose store the core predicts: as many stores back as the last time.
pub(crate) struct Pairs {
    /// The load's own address, and the number of stores since its value was stored.
    loads: Box<[(u64, u64); PAIRS]>,
}

impl Pairs {
    pub(crate) fn new() -> Pairs {
        Pairs { loads: Box::new([(0, 0); PAIRS]) }
    }

    /// Learns the distance in stores between a load and the store of its value; returns whether the distance was known.
    #[inline(always)]
    pub(crate) fn knows(&mut self, code: u64, ago: u64) -> bool {
        let pair = &mut self.loads[(code ^ (code >> 9)) as usize % PAIRS];
        std::mem::replace(pair, (code, ago)) == (code, ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(address: u64, bytes: u64, data: u64) -> Store {
        Store { address, bytes, data, commit: 1000, on_stack: false }
    }

    fn check(stores: &Stores, address: u64, bytes: u64, expect: &str) {
        let found = match stores.find(address, bytes, 10) {
            Found::Nothing => "nothing".to_string(),
            Found::Whole(store, ago) => format!("whole {} of {ago} ago", store.data),
            Found::Part(data) => format!("part {data}"),
        };
        assert_eq!(found, expect, "{bytes} bytes at {address:#x}");
    }

    #[test]
    fn a_load_finds_the_last_store_to_its_bytes() {
        let mut stores = Stores::new(64, 1);
        stores.commit(1000, 0);
        stores.push(store(0x1000, 8, 1));
        stores.push(store(0x1002, 2, 2));
        stores.push(store(0x1008, 8, 3));
        stores.push(store(0x2400, 32, 4));
        check(&stores, 0x1008, 8, "whole 3 of 2 ago");
        check(&stores, 0x100c, 4, "whole 3 of 2 ago");
        check(&stores, 0x1002, 1, "whole 2 of 3 ago");
        check(&stores, 0x1000, 8, "part 2");
        check(&stores, 0x1004, 4, "whole 1 of 4 ago");
        check(&stores, 0x1004, 8, "part 3");
        check(&stores, 0x2410, 16, "whole 4 of 1 ago");
        check(&stores, 0x2410, 32, "part 4");
        check(&stores, 0x1010, 8, "nothing");
        check(&stores, 0xff8, 8, "nothing");
        check(&stores, u64::MAX, 8, "nothing");
    }

    #[test]
    fn a_committed_store_is_in_l1() {
        let mut stores = Stores::new(4, 1);
        assert_eq!(stores.commit(20, 0), 20);
        stores.push(Store { commit: 20, ..store(0x1000, 8, 5) });
        assert!(matches!(stores.find(0x1000, 8, 19), Found::Whole(..)));
        assert!(matches!(stores.find(0x1000, 8, 20), Found::Nothing));
    }

    #[test]
    fn stores_commit_in_order_and_a_few_a_cycle() {
        let mut stores = Stores::new(4, 2);
        let got = [5, 5, 5, 3, 9, 1].map(|ready| stores.commit(ready, 7));
        assert_eq!(got, [5, 5, 6, 6, 9, 9]);
        let got = [1, 2, 2, 3].map(|line| stores.commit(0, line));
        assert_eq!(got, [10, 11, 11, 12], "one line a cycle");
    }

    #[test]
    fn the_queue_has_a_place_once_its_oldest_store_left() {
        let mut stores = Stores::new(3, 1);
        for commit in [10, 20, 30] {
            assert_eq!(stores.free_from(), 0);
            stores.push(Store { commit, ..store(commit * 64, 8, 0) });
        }
        assert_eq!(stores.free_from(), 10);
    }

    #[test]
    fn a_pair_is_known_if_it_is_the_last_times() {
        let mut pairs = Pairs::new();
        let got = [1, 1, 1, 2, 1].map(|ago| pairs.knows(0x1000, ago));
        assert_eq!(got, [false, true, true, false, false]);
        assert!(!pairs.knows(0x1004, 1));
    }
}
