//! Bytes to write with the bytes that they replace: the unit of change and of undoing.

use serde::{Deserialize, Serialize};

/// One state of a change: the state that was found, or one of the states asked for, in their order.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Side(pub usize);

impl Side {
    /// The state that was found.
    pub const FOUND: Side = Side(0);
    /// The first state that was asked for.
    pub const ASKED: Side = Side(1);
}

/// Bytes that differ between sides.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Write {
    /// The address of the first byte.
    pub address: u64,
    /// The bytes of each side, the same number for all sides.
    pub sides: Vec<Vec<u8>>,
}

impl Write {
    /// The bytes of a side.
    pub fn bytes(&self, side: Side) -> &[u8] {
        &self.sides[side.0]
    }

    /// The number of bytes.
    pub fn length(&self) -> usize {
        self.bytes(Side::FOUND).len()
    }

    /// Whether `now` is a side, or a mixture of sides, as a write that was cut short leaves it.
    pub fn may_hold(&self, now: &[u8]) -> bool {
        let known = |(at, now)| self.sides.iter().any(|side| side.get(at) == Some(now));
        now.len() == self.length() && now.iter().enumerate().all(known)
    }
}

/// Shows bytes in hexadecimal, with spaces between.
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
