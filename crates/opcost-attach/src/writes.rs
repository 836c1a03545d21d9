//! What is written, and what it replaces: the unit of change and of undoing.

use serde::{Deserialize, Serialize};

/// One way or the other.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Side {
    /// As it was found.
    Found,
    /// As it was asked for.
    Asked,
}

impl Side {
    /// The opposite.
    pub fn other(self) -> Side {
        match self {
            Side::Found => Side::Asked,
            Side::Asked => Side::Found,
        }
    }
}

/// Some bytes that differ between the two sides.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Write {
    /// Where.
    pub address: u64,
    /// What was found there.
    pub found: Vec<u8>,
    /// What is to be there instead; as many bytes.
    pub asked: Vec<u8>,
}

impl Write {
    /// The bytes of a side.
    pub fn bytes(&self, side: Side) -> &[u8] {
        match side {
            Side::Found => &self.found,
            Side::Asked => &self.asked,
        }
    }

    /// Whether `now` is one of the sides, or what a write that was cut short left of the two.
    pub fn may_hold(&self, now: &[u8]) -> bool {
        now.len() == self.found.len()
            && now
                .iter()
                .zip(self.found.iter().zip(&self.asked))
                .all(|(now, (found, asked))| now == found || now == asked)
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
        let write = Write { address: 1, found: vec![1, 2, 3], asked: vec![4, 5, 3] };
        for ours in [[1, 2, 3], [4, 5, 3], [4, 2, 3]] {
            assert!(write.may_hold(&ours), "{ours:?}");
        }
        for foreign in [&[0xcc, 2, 3][..], &[1, 2, 4], &[1, 2]] {
            assert!(!write.may_hold(foreign), "{foreign:?}");
        }
        assert_eq!(
            (write.bytes(Side::Found.other()), hex(&write.found)),
            (&[4, 5, 3][..], "01 02 03".into())
        );
    }
}
