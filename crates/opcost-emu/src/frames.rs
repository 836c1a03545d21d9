//! The return addresses of open calls, by the stack slot that holds the address.
//!
//! A slot identifies a frame better than a depth does: the slot is right across stack switches. Frames that a longjmp skips do no
//! harm, since a return counts only if it goes where the frame says.

/// Largest number of frames. A full table forgets the frames below the newest one; a jump out of them left them behind. If there
/// are none, newer calls are not remembered, and a return from such a call to another function counts as a jump.
const FRAMES_MAX: usize = 1 << 18;

/// One call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Frame {
    /// Node of the caller.
    pub(crate) node: u32,
    /// The return address.
    pub(crate) behind: u64,
}

/// Calls that have not returned, by stack slot.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    /// Open addressing with linear probing; slot 0 is none. The length is a power of two.
    table: Vec<(u64, Frame)>,
    used: usize,
    /// The number of calls that were not remembered since a full table was last swept.
    refused: usize,
}

const NONE: (u64, Frame) = (0, Frame { node: 0, behind: 0 });

impl Frames {
    pub(crate) fn new() -> Frames {
        Frames { table: vec![NONE; 64], used: 0, refused: 0 }
    }

    fn home(&self, slot: u64) -> usize {
        let hash = (slot >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 40) as usize & (self.table.len() - 1)
    }

    /// Returns the place of a slot, or the free place where the slot belongs.
    fn place(&self, slot: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut place = self.home(slot);
        while self.table[place].0 != slot && self.table[place].0 != 0 {
            place = (place + 1) & mask;
        }
        place
    }

    /// Remembers a call and forgets an older call in the same slot.
    pub(crate) fn push(&mut self, slot: u64, frame: Frame) {
        if slot == 0 {
            return;
        }
        let place = self.place(slot);
        let new = self.table[place].0 == 0;
        if new && self.used >= FRAMES_MAX && !self.make_room(slot) {
            return;
        }
        // The sweep moved the other frames.
        let place = self.place(slot);
        self.used += usize::from(new);
        self.table[place] = (slot, frame);
        if self.used * 2 > self.table.len() {
            let larger = vec![NONE; self.table.len() * 2];
            let old = std::mem::replace(&mut self.table, larger);
            for (slot, frame) in old.into_iter().filter(|(slot, _)| *slot != 0) {
                let place = self.place(slot);
                self.table[place] = (slot, frame);
            }
        }
    }

    /// Makes room in a full table by forgetting the frames below a slot; returns whether there is room now.
    fn make_room(&mut self, newest: u64) -> bool {
        // A sweep costs as much as `FRAMES_MAX` calls; with one sweep per `FRAMES_MAX` refused calls, the share of each call is
        // bounded.
        self.refused = (self.refused + 1) % FRAMES_MAX;
        if self.refused != 1 {
            return false;
        }
        let length = self.table.len();
        let old = std::mem::replace(&mut self.table, vec![NONE; length]);
        self.used = 0;
        for (slot, frame) in old.into_iter().filter(|(slot, _)| *slot > newest) {
            let place = self.place(slot);
            self.table[place] = (slot, frame);
            self.used += 1;
        }
        let room = self.used < FRAMES_MAX;
        self.refused *= usize::from(!room);
        room
    }

    /// Removes and returns the call in a slot, if the table has it and it `fits`.
    pub(crate) fn pop(&mut self, slot: u64, fits: impl FnOnce(&Frame) -> bool) -> Option<Frame> {
        if slot == 0 {
            return None;
        }
        let mut hole = self.place(slot);
        let (known, frame) = self.table[hole];
        if known != slot || !fits(&frame) {
            return None;
        }
        // Deletion without tombstones (Knuth, TAOCP volume 3, section 6.4, algorithm R).
        let mask = self.table.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let (slot, _) = self.table[next];
            if slot == 0 {
                break;
            }
            let home = self.home(slot);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.table[hole] = self.table[next];
                hole = next;
            }
        }
        self.table[hole] = NONE;
        self.used -= 1;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn frames_behave_like_a_map(steps in prop::collection::vec((1u64..40, any::<bool>(), 0u64..3), 0..400)) {
            let mut frames = Frames::new();
            let mut map = HashMap::new();
            for (slot, push, behind) in steps {
                let slot = slot * 8;
                if push {
                    let frame = Frame { node: slot as u32, behind };
                    frames.push(slot, frame);
                    map.insert(slot, frame);
                } else {
                    let expect = map.get(&slot).copied().filter(|frame: &Frame| frame.behind == behind);
                    if expect.is_some() {
                        map.remove(&slot);
                    }
                    prop_assert_eq!(frames.pop(slot, |frame| frame.behind == behind), expect);
                }
            }
            prop_assert_eq!(frames.used, map.len());
        }
    }

    #[test]
    fn deep_recursion_returns_everywhere() {
        let mut frames = Frames::new();
        for depth in 1..100_000u64 {
            frames.push(depth * 16, Frame { node: depth as u32, behind: depth });
        }
        for depth in (1..100_000u64).rev() {
            let frame = frames.pop(depth * 16, |frame| frame.behind == depth);
            assert_eq!(frame.unwrap().node, depth as u32);
        }
        assert_eq!(frames.used, 0);
    }

    fn frame(node: u64) -> Frame {
        Frame { node: node as u32, behind: node }
    }

    #[test]
    fn the_outermost_of_too_many_calls_are_remembered() {
        const TOP: u64 = 1 << 40;
        let mut frames = Frames::new();
        let deepest = FRAMES_MAX as u64 * 4;
        for depth in 1..=deepest {
            frames.push(TOP - depth * 16, frame(depth));
        }
        assert_eq!(frames.used, FRAMES_MAX);
        assert!(frames.table.len() <= FRAMES_MAX * 4);
        for depth in (1..=deepest).rev() {
            let found = frames.pop(TOP - depth * 16, |_| true);
            let expected = (depth <= FRAMES_MAX as u64).then(|| frame(depth));
            assert_eq!(found, expected, "{depth}");
        }
        assert_eq!(frames.used, 0);
    }

    #[test]
    fn calls_that_were_jumped_out_of_make_room() {
        let mut frames = Frames::new();
        for slot in 1..=FRAMES_MAX as u64 {
            frames.push(slot * 8, frame(slot));
        }
        let newest = FRAMES_MAX as u64 * 8 + 8;
        frames.push(newest, frame(1));
        assert_eq!(frames.used, 1);
        assert_eq!(frames.pop(newest, |_| true), Some(frame(1)));
    }
}
