//! Regions that a program marks and names itself (docs/regions.md), for every way of counting.
//!
//! A region counts everything between its begin and its end. Regions may nest and overlap; each
//! counts by itself. The entries of one name add up. Sending a mark costs something; no region
//! counts this cost, because the caller says when a message begins and ends.

use crate::{TWIN, WORK};
use std::fmt;

/// The most regions of a run.
pub const REGIONS_MAX: usize = 4096;
/// The most bytes of a name.
pub const NAME_BYTES_MAX: usize = 200;

/// The variable that tells a program to mark its regions; its value is a socket's path, or [`MARK`].
pub const VARIABLE: &str = "OPCOST_REGIONS";
/// The value of [`VARIABLE`] that makes a program execute marker instructions.
pub const MARK: &str = "mark";

/// Amounts counted in a region: a reading of running sums, or a sum of differences between readings.
pub trait Amounts: Default {
    /// Adds the difference between two readings.
    fn add_between(&mut self, from: &Self, to: &Self);
}

/// Why a program's marks make no regions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RegionError {
    /// The name cannot be used.
    Name {
        /// The name, as far as it can be shown.
        name: String,
        /// The name's fault.
        why: String,
    },
    /// The region is open already.
    BegunTwice(String),
    /// The region is not open.
    NotBegun(String),
    /// The run ended before the region did.
    NeverEnded(String),
    /// Some ends of the region gave operations, and some did not.
    Operations(String),
    /// The run has more than [`REGIONS_MAX`] regions.
    TooMany,
}

impl fmt::Display for RegionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegionError::Name { name, why } => {
                write!(f, "a region's name cannot be '{name}': {why}")
            }
            RegionError::BegunTwice(name) => write!(
                f,
                "region '{name}' was begun again before it was ended; end it first, and give regions \
                 of several threads or processes a name each"
            ),
            RegionError::NotBegun(name) => {
                write!(f, "region '{name}' was ended, but it was not open; begin it first")
            }
            RegionError::NeverEnded(name) => write!(
                f,
                "region '{name}' was begun and never ended: the program ended before; end the region \
                 on every way out"
            ),
            RegionError::Operations(name) => write!(
                f,
                "region '{name}' was ended with a number of operations and also without one; give it \
                 at each end, or at none"
            ),
            RegionError::TooMany => write!(
                f,
                "the program marked more than {REGIONS_MAX} regions; mark fewer, or run a part of \
                 them at a time"
            ),
        }
    }
}

impl std::error::Error for RegionError {}

/// Returns the name in these bytes.
///
/// # Errors
/// [`RegionError::Name`] with the fault.
pub fn name(bytes: &[u8]) -> Result<&str, RegionError> {
    let wrong = |why: String| {
        let shown = &bytes[..bytes.len().min(80)];
        let name = shown.escape_ascii().to_string();
        Err(RegionError::Name { name, why })
    };
    if bytes.is_empty() {
        return wrong("it is empty".into());
    }
    if bytes.len() > NAME_BYTES_MAX {
        return wrong(format!("it is longer than {NAME_BYTES_MAX} bytes"));
    }
    let Ok(name) = std::str::from_utf8(bytes) else {
        return wrong("it is no UTF-8".into());
    };
    if name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return wrong("it has a blank or a control character; write '_' for it".into());
    }
    if [WORK, TWIN].contains(&name) {
        return wrong("opcost calls a region of its own so".into());
    }
    Ok(name)
}

/// A message of a program over a socket: `b0 NAME` or `eOPERATIONS NAME`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Message<'m> {
    /// The region with this name begins.
    Begin(&'m [u8]),
    /// The region with this name ends after this many operations; 0 means that the number is not
    /// given.
    End(&'m [u8], u64),
}

impl Message<'_> {
    /// Parses a message; `None` if the bytes are not one.
    pub fn parse(message: &[u8]) -> Option<Message<'_>> {
        let (kind, rest) = message.split_first()?;
        let blank = rest.iter().position(|byte| *byte == b' ')?;
        let (number, name) = (&rest[..blank], &rest[blank + 1..]);
        if !number.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let operations = std::str::from_utf8(number).ok()?.parse().ok()?;
        match (kind, operations) {
            (b'b', 0) => Some(Message::Begin(name)),
            (b'e', operations) => Some(Message::End(name, operations)),
            _ => None,
        }
    }
}

/// The cost of a region.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegionSum<A> {
    /// The region's name.
    pub name: String,
    /// The number of times that the region was entered.
    pub entries: u64,
    /// Operations, if the program gives their number.
    pub operations: Option<u64>,
    /// The amounts of all entries.
    pub amounts: A,
}

/// The regions of a run, in the order in which they were first begun.
#[derive(Clone, Debug, Default)]
pub struct ProgramRegions<A> {
    sums: Vec<RegionSum<A>>,
    /// Places in `sums`.
    open: Vec<usize>,
    /// The reading since which the open regions count; `None` during a message.
    since: Option<A>,
}

impl<A: Amounts> ProgramRegions<A> {
    /// Whether a region is open.
    pub fn any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Stops the open regions as a message begins; calls `now` only if a region is open.
    pub fn pause(&mut self, now: impl FnOnce() -> A) {
        let Some(since) = self.since.take() else { return };
        let now = now();
        for place in &self.open {
            self.sums[*place].amounts.add_between(&since, &now);
        }
    }

    /// Restarts the open regions as a message ends; calls `now` only if a region is open.
    pub fn resume(&mut self, now: impl FnOnce() -> A) {
        if self.any_open() {
            self.since = Some(now());
        }
    }

    /// Opens a region; [`resume`](Self::resume) starts it.
    ///
    /// # Errors
    /// The name cannot be used, or the region is open, or there are too many.
    pub fn begin(&mut self, name: &[u8]) -> Result<(), RegionError> {
        let name = self::name(name)?;
        let known = self.sums.iter().position(|sum| sum.name == name);
        let place = match known {
            Some(place) if self.open.contains(&place) => {
                return Err(RegionError::BegunTwice(name.into()));
            }
            Some(place) => place,
            None if self.sums.len() == REGIONS_MAX => return Err(RegionError::TooMany),
            None => {
                let (name, amounts) = (name.to_string(), A::default());
                self.sums.push(RegionSum { name, entries: 0, operations: None, amounts });
                self.sums.len() - 1
            }
        };
        self.open.push(place);
        Ok(())
    }

    /// Closes a region that was paused.
    ///
    /// `operations`: the operations of this entry; 0 means that the number is not given.
    ///
    /// # Errors
    /// The name cannot be used, or the region is not open, or only some ends give operations.
    pub fn end(&mut self, name: &[u8], operations: u64) -> Result<(), RegionError> {
        let name = self::name(name)?;
        let is_named = |place: &usize| self.sums[*place].name == name;
        let Some(at) = self.open.iter().position(is_named) else {
            return Err(RegionError::NotBegun(name.into()));
        };
        let sum = &mut self.sums[self.open.remove(at)];
        let given = (operations > 0).then_some(operations);
        if sum.entries > 0 && sum.operations.is_some() != given.is_some() {
            return Err(RegionError::Operations(name.into()));
        }
        sum.entries += 1;
        sum.operations = given.map(|given| given.saturating_add(sum.operations.unwrap_or(0)));
        Ok(())
    }

    /// Checks that a run may end here.
    ///
    /// # Errors
    /// A region is open.
    pub fn check_end(&self) -> Result<(), RegionError> {
        match self.open.first() {
            Some(place) => Err(RegionError::NeverEnded(self.sums[*place].name.clone())),
            None => Ok(()),
        }
    }

    /// Returns the cost of each region.
    pub fn sums(&self) -> &[RegionSum<A>] {
        &self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, Eq, PartialEq)]
    struct Clock(u64);

    impl Amounts for Clock {
        fn add_between(&mut self, from: &Clock, to: &Clock) {
            self.0 += to.0 - from.0;
        }
    }

    fn begin(regions: &mut ProgramRegions<Clock>, name: &str, paused: u64, resumed: u64) {
        regions.pause(|| Clock(paused));
        regions.begin(name.as_bytes()).unwrap();
        regions.resume(|| Clock(resumed));
    }

    fn end(regions: &mut ProgramRegions<Clock>, name: &str, ops: u64, paused: u64, resumed: u64) {
        regions.pause(|| Clock(paused));
        regions.end(name.as_bytes(), ops).unwrap();
        regions.resume(|| Clock(resumed));
    }

    fn sums(regions: &ProgramRegions<Clock>) -> Vec<(&str, u64, Option<u64>, u64)> {
        let sums = regions.sums().iter();
        sums.map(|sum| (&*sum.name, sum.entries, sum.operations, sum.amounts.0)).collect()
    }

    #[test]
    fn entries_of_a_name_add_up() {
        let mut regions = ProgramRegions::default();
        begin(&mut regions, "a", 0, 5);
        end(&mut regions, "a", 10, 8, 100);
        begin(&mut regions, "a", 200, 250);
        end(&mut regions, "a", 3, 257, 300);
        regions.check_end().unwrap();
        assert_eq!(sums(&regions), [("a", 2, Some(13), 3 + 7)]);
    }

    #[test]
    fn regions_nest_and_overlap_and_no_region_counts_a_message() {
        let mut regions = ProgramRegions::default();
        begin(&mut regions, "outer", 0, 10);
        begin(&mut regions, "inner", 20, 50);
        begin(&mut regions, "late", 53, 60);
        end(&mut regions, "outer", 0, 64, 70);
        end(&mut regions, "inner", 0, 75, 80);
        end(&mut regions, "late", 0, 86, 90);
        let expected =
            [("outer", 1, None, 10 + 3 + 4), ("inner", 1, None, 3 + 4 + 5), ("late", 1, None, 15)];
        assert_eq!(sums(&regions), expected);
    }

    #[test]
    fn the_clock_is_read_only_if_somebody_counts() {
        let mut regions = ProgramRegions::<Clock>::default();
        regions.pause(|| panic!("nothing is open"));
        regions.begin(b"a").unwrap();
        regions.resume(|| Clock(1));
        regions.pause(|| Clock(2));
        regions.end(b"a", 0).unwrap();
        regions.resume(|| panic!("nothing is open"));
    }

    #[test]
    fn wrong_marks_are_named() {
        let mut regions = ProgramRegions::default();
        let message = |error: RegionError| error.to_string();
        assert!(message(regions.end(b"a", 0).unwrap_err()).contains("'a' was ended, but"));
        begin(&mut regions, "a", 0, 0);
        assert!(message(regions.begin(b"a").unwrap_err()).contains("'a' was begun again"));
        assert!(message(regions.check_end().unwrap_err()).contains("'a' was begun and never"));
        end(&mut regions, "a", 1, 0, 0);
        begin(&mut regions, "a", 0, 0);
        assert!(message(regions.end(b"a", 0).unwrap_err()).contains("and also without"));
        for number in 1..REGIONS_MAX {
            begin(&mut regions, &format!("r{number}"), 0, 0);
        }
        assert!(message(regions.begin(b"one-more").unwrap_err()).contains("more than 4096"));
    }

    #[test]
    fn names_are_checked() {
        assert_eq!(name("tests/a.py::b[1-2]é".as_bytes()).unwrap(), "tests/a.py::b[1-2]é");
        assert!(name(&[b'x'; NAME_BYTES_MAX]).is_ok());
        for (bytes, part) in [
            (&b""[..], "empty"),
            (&[b'x'; NAME_BYTES_MAX + 1], "longer than 200"),
            (b"fib 20", "'fib 20': it has a blank"),
            (b"a\nb", r"'a\nb'"),
            (b"a\x1b[m", "control"),
            (b"\xff", "UTF-8"),
            (b"work", "of its own"),
            (b"twin", "of its own"),
        ] {
            let error = name(bytes).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
