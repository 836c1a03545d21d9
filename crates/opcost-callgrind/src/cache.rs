//! The caches that `--cache-sim=yes` simulates, as Valgrind's manual describes them ("Cachegrind: Simulation Details"): two first
//! levels and a last level that holds what they hold, least recently used lines leave first, a store to a missing line loads it,
//! an access to two lines misses once if either is missing.

use serde::{Deserialize, Serialize};

/// The sizes of a cache.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Shape {
    /// Bytes of all lines.
    pub bytes: u32,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
}

impl Shape {
    /// The shapes without options. Valgrind takes the computer's; these are the same everywhere.
    pub const DEFAULTS: [Shape; 3] = [
        Shape { bytes: 32 << 10, ways: 8, line_bytes: 64 },
        Shape { bytes: 32 << 10, ways: 8, line_bytes: 64 },
        Shape { bytes: 8 << 20, ways: 16, line_bytes: 64 },
    ];

    /// Reads `SIZE,WAYS,LINE`.
    ///
    /// # Errors
    /// The text is no such list, or no such cache can be.
    pub fn parse(text: &str) -> Result<Shape, String> {
        let numbers: Option<Vec<u32>> = text.split(',').map(|part| part.parse().ok()).collect();
        let Some(&[bytes, ways, line_bytes]) = numbers.as_deref() else {
            return Err("expected SIZE,WAYS,LINE in bytes, as in 32768,8,64".into());
        };
        if !line_bytes.is_power_of_two() || line_bytes < 16 {
            return Err(format!(
                "a line of {line_bytes} bytes: expected a power of two from 16 on"
            ));
        }
        let set = ways.checked_mul(line_bytes).filter(|set| *set > 0);
        let sets = set.filter(|set| bytes % set == 0).map(|set| bytes / set);
        match sets {
            Some(sets) if sets.is_power_of_two() => Ok(Shape { bytes, ways, line_bytes }),
            _ => Err(format!(
                "{bytes} bytes in {ways} ways of {line_bytes} bytes: the number of sets, SIZE/WAYS/LINE, is a power of two"
            )),
        }
    }

    /// The shape in the words of callgrind's files.
    pub fn described(&self) -> String {
        let Shape { bytes, ways, line_bytes } = self;
        match ways {
            1 => format!("{bytes} B, {line_bytes} B, direct-mapped"),
            ways => format!("{bytes} B, {line_bytes} B, {ways}-way associative"),
        }
    }
}

/// One cache.
#[derive(Debug)]
struct Level {
    /// The lines of each set, the most recently used first; 0 is none.
    lines: Vec<u64>,
    ways: usize,
    shift: u32,
    mask: u64,
}

impl Level {
    fn new(shape: Shape) -> Level {
        let sets = (shape.bytes / shape.ways / shape.line_bytes).max(1);
        Level {
            lines: vec![0; (sets * shape.ways) as usize],
            ways: shape.ways as usize,
            shift: shape.line_bytes.trailing_zeros(),
            mask: u64::from(sets) - 1,
        }
    }

    fn misses_line(&mut self, line: u64) -> bool {
        let first = (line & self.mask) as usize * self.ways;
        let set = &mut self.lines[first..first + self.ways];
        // A line's number is never 0 for code or data of a program.
        if set[0] == line {
            return false;
        }
        let found = set.iter().position(|kept| *kept == line);
        let last = found.unwrap_or(set.len() - 1);
        set.copy_within(0..last, 1);
        set[0] = line;
        found.is_none()
    }

    fn misses(&mut self, address: u64, bytes: u64) -> bool {
        let first = address >> self.shift;
        let last = address.saturating_add(bytes.max(1) - 1) >> self.shift;
        let mut misses = false;
        for line in first..=last {
            misses |= self.misses_line(line);
        }
        misses
    }
}

/// The levels that missed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Misses {
    /// The first level.
    pub first: bool,
    /// The last level, too.
    pub last: bool,
}

/// The three caches.
#[derive(Debug)]
pub struct Caches {
    code: Level,
    data: Level,
    last: Level,
}

impl Caches {
    /// Makes empty caches for instructions, data, and the last level.
    pub fn new([code, data, last]: [Shape; 3]) -> Caches {
        Caches { code: Level::new(code), data: Level::new(data), last: Level::new(last) }
    }

    /// Fetches an instruction.
    pub fn fetch(&mut self, address: u64, bytes: u64) -> Misses {
        let first = self.code.misses(address, bytes);
        Misses { first, last: first && self.last.misses(address, bytes) }
    }

    /// Loads or stores.
    pub fn access(&mut self, address: u64, bytes: u64) -> Misses {
        let first = self.data.misses(address, bytes);
        Misses { first, last: first && self.last.misses(address, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Caches {
        let first = Shape { bytes: 128, ways: 2, line_bytes: 64 };
        Caches::new([first, first, Shape { bytes: 256, ways: 4, line_bytes: 64 }])
    }

    #[test]
    fn the_least_recently_used_line_leaves() {
        let mut caches = small();
        let mut first = |line: u64| caches.access(line * 64, 8).first;
        let found: Vec<bool> = [1, 2, 1, 3, 1, 2].into_iter().map(&mut first).collect();
        assert_eq!(found, [true, true, false, true, false, true]);
        // The last level kept line 2.
        assert_eq!(caches.access(3 * 64, 1), Misses { first: true, last: false });
        assert_eq!(caches.access(9 * 64, 1), Misses { first: true, last: true });
    }

    #[test]
    fn an_access_to_two_lines_loads_both_and_misses_once() {
        let mut caches = small();
        assert_eq!(caches.fetch(127, 2), Misses { first: true, last: true });
        assert_eq!(caches.fetch(64, 1), Misses::default());
        assert_eq!(caches.fetch(128, 1), Misses::default());
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert_eq!(Shape::parse("32768,8,64"), Ok(Shape::DEFAULTS[0]));
        for (text, why) in [
            ("", "expected SIZE"),
            ("32768,8", "expected SIZE"),
            ("32768,8,48", "power of two"),
            ("32768,8,8", "power of two"),
            ("32768,0,64", "number of sets"),
            ("49152,8,64", "number of sets"),
            ("0,8,64", "number of sets"),
            ("4294967295,4294967295,64", "number of sets"),
        ] {
            let refused = Shape::parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
