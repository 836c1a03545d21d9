//! The layout floor: how far seeds and layouts alone move a count, and in how many layouts that was seen.

use opcost_base::number::{figure, grouped};
use opcost_record::Unit;
use opcost_stats::relevance;

/// A layout floor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Floor {
    /// The largest move.
    pub most: u64,
    /// The layouts from which it was drawn; `None` if a baseline of an older opcost does not say.
    pub layouts: Option<u32>,
}

impl Floor {
    /// The floor of counts, one for each layout, rounded up; `None` if they are too few.
    pub fn of(counts: impl Iterator<Item = u64>) -> Option<Floor> {
        let counts: Vec<f64> = counts.map(|count| count as f64).collect();
        let most = relevance::floor(&counts)?.ceil() as u64;
        Some(Floor { most, layouts: u32::try_from(counts.len()).ok() })
    }

    /// Reads the floor of a baseline file: `2392/11`, or `2392` in version 1.
    pub fn parse(text: &str) -> Option<Floor> {
        fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
            word.parse().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()))
        }
        match text.split_once('/') {
            None => Some(Floor { most: number(text)?, layouts: None }),
            Some((most, layouts)) => {
                Some(Floor { most: number(most)?, layouts: Some(number(layouts)?) })
            }
        }
    }

    /// For people: `2,392 (11 layouts)`.
    pub fn words(&self, unit: Unit) -> String {
        let most = figure(self.most as f64, unit);
        match self.layouts {
            Some(layouts) => format!("{most} ({} layouts)", grouped(layouts.into())),
            None => most,
        }
    }
}

impl std::fmt::Display for Floor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.layouts {
            Some(layouts) => write!(f, "{}/{layouts}", self.most),
            None => write!(f, "{}", self.most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_says_in_how_many_layouts_it_was_seen() {
        let floor = Floor::of([100, 100, 100, 100, 2492].into_iter()).unwrap();
        assert_eq!(floor, Floor { most: 2392, layouts: Some(5) });
        assert_eq!(floor.words(Unit::Count), "2,392 (5 layouts)");
        assert_eq!(floor.to_string(), "2392/5");
        assert_eq!(Floor::of([1, 2, 3, 4].into_iter()), None);
        assert_eq!(Floor { layouts: None, ..floor }.words(Unit::Count), "2,392");
    }

    #[test]
    fn a_floor_is_read_as_it_is_written() {
        for text in ["0", "17", "17/11", "18446744073709551615/5"] {
            assert_eq!(Floor::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "+17", "17/", "/5", "17/5/3", "17k", "17/-5"] {
            assert_eq!(Floor::parse(text), None, "{text}");
        }
    }
}
