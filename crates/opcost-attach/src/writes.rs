//! What is written, and what it replaces: the unit of change and of undoing.

use serde::{Deserialize, Serialize};

/// One of the states that a change goes between: the one that was found, then those asked for, in
/// their order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Side(pub usize);

impl Side {
    /// As it was found.
    pub const FOUND: Side = Side(0);
    /// The first that was asked for.
    pub const ASKED: Side = Side(1);
}

/// Some bytes that differ between sides.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Write {
    /// Where.
    pub address: u64,
    /// What is there on each side: of all sides as many bytes.
    pub sides: Vec<Vec<u8>>,
}

impl Write {
    /// The bytes of a side.
    pub fn bytes(&self, side: Side) -> &[u8] {
        &self.sides[side.0]
    }

    /// How many bytes.
    pub fn length(&self) -> usize {
        self.bytes(Side::FOUND).len()
    }

    /// Whether `now` is one of the sides, or what a write that was cut short left of them.
    pub fn may_hold(&self, now: &[u8]) -> bool {
        let known = |(at, now)| self.sides.iter().any(|side| side.get(at) == Some(now));
        now.len() == self.length() && now.iter().enumerate().all(known)
    }
}

/// Bytes as a person reads them.
pub fn hex(bytes: &[u8]) -> String {
    let words: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_was_cut_short_is_known_and_foreign_bytes_are_not() {
        let sides = vec![vec![1, 2, 3], vec![4, 5, 3], vec![4, 6, 3]];
        let write = Write { address: 1, sides };
        for ours in [[1, 2, 3], [4, 5, 3], [4, 2, 3], [1, 6, 3]] {
            assert!(write.may_hold(&ours), "{ours:?}");
        }
        for foreign in [&[0xcc, 2, 3][..], &[1, 2, 4], &[1, 2]] {
            assert!(!write.may_hold(foreign), "{foreign:?}");
        }
        assert_eq!((write.bytes(Side(2)), write.length()), (&[4, 6, 3][..], 3));
        assert_eq!(hex(write.bytes(Side::FOUND)), "01 02 03");
    }
}
