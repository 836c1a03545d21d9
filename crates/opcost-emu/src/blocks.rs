//! All blocks, and the number of times that each block began.

use crate::block::Block;
use crate::low;

/// The number of blocks and counts that are allocated at once.
const CHUNK: usize = 4096;

/// The blocks. A block and its count never move.
pub(crate) struct Blocks {
    blocks: Vec<*mut Block>,
    /// The counts, apart from the blocks so that reading all of them is fast.
    counts: Vec<*mut u64>,
    /// Each count as [`Blocks::take`] read it last.
    read: Vec<u64>,
    low: bool,
}

impl Blocks {
    /// Makes an empty collection; `low`: see [`low::zeros`].
    pub(crate) fn new(low: bool) -> Blocks {
        Blocks { blocks: Vec::new(), counts: Vec::new(), read: Vec::new(), low }
    }

    pub(crate) fn len(&self) -> usize {
        self.read.len()
    }

    /// Returns the block with a number: 1 for the first that was added, 0 for none.
    pub(crate) fn numbered(&self, number: u64) -> Option<&'static Block> {
        let place =
            usize::try_from(number).ok()?.checked_sub(1).filter(|place| *place < self.len())?;
        // SAFETY: `add` wrote the block, which lives for ever.
        Some(unsafe { &*self.blocks[place / CHUNK].add(place % CHUNK) })
    }

    /// Returns all blocks, in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Block> {
        (1..=self.len() as u64).filter_map(|number| self.numbered(number))
    }

    /// Adds the block that `make` returns; `make` gets the place of the block and the place of its count.
    pub(crate) fn add(
        &mut self,
        make: impl FnOnce(*const Block, *mut u64) -> Block,
    ) -> &'static Block {
        let place = self.read.len();
        if place.is_multiple_of(CHUNK) {
            self.counts.push(low::zeros(CHUNK, self.low));
            self.blocks.push(low::room(CHUNK, self.low));
        }
        // SAFETY: a chunk has room for `CHUNK` blocks, and each block has a place of its own.
        unsafe {
            let block = self.blocks[place / CHUNK].add(place % CHUNK);
            block.write(make(block, self.counts[place / CHUNK].add(place % CHUNK)));
            self.read.push(0);
            &*block
        }
    }

    /// Calls `tell` with each block that began since the last call, and the number of times that it began.
    pub(crate) fn take(&mut self, mut tell: impl FnMut(&Block, u64)) {
        for (place, read) in self.read.iter_mut().enumerate() {
            let (chunk, place) = (place / CHUNK, place % CHUNK);
            // SAFETY: each block has a count, and QEMU adds to the count between callbacks only.
            let now = unsafe { *self.counts[chunk].add(place) };
            if now != *read {
                // SAFETY: `add` wrote the block.
                tell(unsafe { &*self.blocks[chunk].add(place) }, now - *read);
                *read = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::made;

    #[test]
    fn counts_are_told_once() {
        let mut blocks = Blocks::new(true);
        let all: Vec<&Block> = (0..2 * CHUNK as u64 + 5)
            .map(|start| {
                blocks.add(|_, count| {
                    let mut block = made(start, &[&[0x90]]);
                    block.count = count;
                    block
                })
            })
            .collect();
        assert_eq!(blocks.len(), all.len());
        let last = all.len() as u64;
        for number in [1, CHUNK as u64 + 1, last] {
            let found = blocks.numbered(number).unwrap();
            assert!(std::ptr::eq(found, all[number as usize - 1]));
        }
        assert!(blocks.numbered(0).is_none() && blocks.numbered(last + 1).is_none());
        for turn in 1..3 {
            for place in [0, CHUNK, 2 * CHUNK + 4] {
                assert_eq!(all[place].start, place as u64);
                let count = all[place].count;
                // SAFETY: nothing else uses the count.
                unsafe { *count += turn };
            }
            let mut told = Vec::new();
            blocks.take(|block, times| told.push((block.start as usize, times)));
            assert_eq!(told, [(0, turn), (CHUNK, turn), (2 * CHUNK + 4, turn)]);
            blocks.take(|_, _| panic!("nothing began"));
        }
    }
}
