//! A model of one cache: sets of lines with replacement of the least recently used line.
//!
//! Both loads and stores bring their line in (write-allocate). Addresses are the guest's virtual addresses. Virtual pages that
//! share a physical page therefore count as different, and two processes' pages at one address count as the same.

/// The size of a cache.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Geometry {
    /// Size of all lines together, bytes.
    pub(crate) bytes: u64,
    /// Lines in one set.
    pub(crate) ways: u64,
    /// Size of a line, bytes.
    pub(crate) line_bytes: u64,
}

/// The largest cache modelled, bytes.
const BYTES_MAX: u64 = 1 << 30;

impl Geometry {
    /// Reads `SIZE:WAYS:LINE`.
    ///
    /// # Errors
    /// The message says what the text must be.
    pub(crate) fn parse(text: &str) -> Result<Geometry, String> {
        let fail = || {
            format!(
                "a cache is SIZE:WAYS:LINE in bytes, lines and bytes, such as 32768:8:64, with a \
                 line of 16 to 4096 bytes and a number of sets that are powers of two, and at most \
                 {BYTES_MAX} bytes"
            )
        };
        let fields: Result<Vec<u64>, _> = text.split(':').map(str::parse).collect();
        let [bytes, ways, line_bytes] = fields.map_err(|_| fail())?[..] else { return Err(fail()) };
        let set_bytes = ways.checked_mul(line_bytes).filter(|bytes| *bytes > 0).ok_or_else(fail)?;
        let good = line_bytes.is_power_of_two()
            && (16..=4096).contains(&line_bytes)
            && bytes <= BYTES_MAX
            && bytes % set_bytes == 0
            && (bytes / set_bytes).is_power_of_two();
        if good { Ok(Geometry { bytes, ways, line_bytes }) } else { Err(fail()) }
    }
}

/// A cache with the lines that it holds.
pub(crate) struct Cache {
    /// Line numbers plus one, set after set, the most recently used line first; 0: empty.
    lines: Vec<u64>,
    ways: usize,
    set_mask: u64,
    line_shift: u32,
}

impl Cache {
    /// Makes an empty cache.
    pub(crate) fn new(geometry: Geometry) -> Cache {
        let sets = geometry.bytes / (geometry.ways * geometry.line_bytes);
        Cache {
            lines: vec![0; (sets * geometry.ways) as usize],
            ways: geometry.ways as usize,
            set_mask: sets - 1,
            line_shift: geometry.line_bytes.trailing_zeros(),
        }
    }

    /// Returns the number of the line that holds an address.
    #[inline]
    pub(crate) fn line(&self, address: u64) -> u64 {
        address >> self.line_shift
    }

    /// Returns the first address of a line.
    #[inline]
    pub(crate) fn address(&self, line: u64) -> u64 {
        line << self.line_shift
    }

    /// Returns the place of the front of a line's set.
    #[inline(always)]
    fn front(&self, line: u64) -> usize {
        (line & self.set_mask) as usize * self.ways
    }

    /// Whether touching both lines, which may be the same, would hit and change nothing.
    #[inline(always)]
    pub(crate) fn rests_on(&self, first: u64, last: u64) -> bool {
        // SAFETY: the mask is the number of sets less one, and `new` made `ways` lines for each.
        let newest = |line: u64| unsafe { *self.lines.get_unchecked(self.front(line)) };
        (newest(first) ^ (first + 1)) | (newest(last) ^ (last + 1)) == 0
    }

    /// Prepares [`rests_on_code`](Self::rests_on_code) for code from `start` up to `end`.
    pub(crate) fn prepare(&self, start: u64, end: u64) -> Fetch {
        let (first, last) = (self.line(start), self.line(end.wrapping_sub(1)));
        let places = [self.front(first) as u32, self.front(last) as u32];
        // Lines between two lines at the front of their sets may still be elsewhere.
        let lines =
            if last.wrapping_sub(first) > 1 { [u64::MAX; 2] } else { [first + 1, last + 1] };
        Fetch { places, lines }
    }

    /// Whether touching all lines of some code would hit and change nothing.
    ///
    /// # Safety
    /// This cache prepared `fetch`.
    #[inline(always)]
    pub(crate) unsafe fn rests_on_code(&self, fetch: &Fetch) -> bool {
        // SAFETY: `prepare` returns places of sets, and the number of lines never changes.
        let newest = |place: u32| unsafe { *self.lines.get_unchecked(place as usize) };
        let [first, last] = fetch.places.map(newest);
        (first ^ fetch.lines[0]) | (last ^ fetch.lines[1]) == 0
    }

    /// Touches a line and returns whether it was missing.
    #[inline(always)]
    pub(crate) fn misses(&mut self, line: u64) -> bool {
        let first = self.front(line);
        let set = &mut self.lines[first..first + self.ways];
        let tag = line + 1;
        if set[0] == tag {
            return false;
        }
        if set.len() > 1 && set[1] == tag {
            set.swap(0, 1);
            return false;
        }
        match self.ways {
            8 => touch::<8>(set, tag),
            16 => touch::<16>(set, tag),
            _ => {
                // Every line moves one place back, down to the wanted line or the last one.
                let mut moved = tag;
                for way in set {
                    std::mem::swap(way, &mut moved);
                    if moved == tag {
                        return false;
                    }
                }
                true
            }
        }
    }
}

/// The lines of some code, prepared for lookups in one cache.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fetch {
    /// Places of the first and the last line if each is the most recently used of its set.
    places: [u32; 2],
    /// Contents of these places on a hit; values that never match if there are more than two lines.
    lines: [u64; 2],
}

/// Moves a line to the front of a set and returns whether it was missing.
///
/// This code has no branches: the host cannot predict the way in which a line is found.
#[inline(always)]
fn touch<const WAYS: usize>(set: &mut [u64], tag: u64) -> bool {
    let Ok(set) = <&mut [u64; WAYS]>::try_from(set) else { return false };
    let (mut moved, mut found) = (tag, 0u64);
    for way in set {
        let old = *way;
        *way = (old & found) | (moved & !found);
        found |= u64::from(old == tag).wrapping_neg();
        moved = old;
    }
    found == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn misses(cache: &mut Cache, addresses: &[u64]) -> Vec<bool> {
        addresses.iter().map(|address| cache.misses(cache.line(*address))).collect()
    }

    #[test]
    fn the_least_recently_used_line_is_replaced() {
        // Two ways, two sets of 16 bytes: 0, 32 and 64 share a set.
        let mut cache = Cache::new(Geometry { bytes: 64, ways: 2, line_bytes: 16 });
        let got = misses(&mut cache, &[0, 32, 15, 64, 0, 32, 16, 64]);
        assert_eq!(got, [true, true, false, true, false, true, true, true]);
    }

    #[test]
    fn a_loop_over_one_line_too_many_always_misses() {
        let mut cache = Cache::new(Geometry { bytes: 512, ways: 4, line_bytes: 64 });
        let stride = 128;
        for _ in 0..3 {
            let got = misses(&mut cache, &[0, stride, 2 * stride, 3 * stride, 4 * stride]);
            assert_eq!(got, [true; 5]);
        }
    }

    #[test]
    fn what_fits_misses_once() {
        let mut cache = Cache::new(Geometry { bytes: 32 << 10, ways: 8, line_bytes: 64 });
        let all: Vec<u64> = (0..512).map(|line| 0xffff_8000_0000_0000 + line * 64).collect();
        assert_eq!(misses(&mut cache, &all), [true; 512]);
        assert_eq!(misses(&mut cache, &all), [false; 512]);
    }

    proptest! {
        #[test]
        fn sets_are_lists_by_last_use(ways in prop::sample::select(vec![1u64, 3, 8, 16]),
                                      touched in prop::collection::vec(0u64..40, 0..400)) {
            let mut cache = Cache::new(Geometry { bytes: 2 * ways * 64, ways, line_bytes: 64 });
            let mut lists = [Vec::new(), Vec::new()];
            for line in touched {
                let list = &mut lists[line as usize % 2];
                let known = list.iter().position(|old| *old == line);
                prop_assert_eq!(cache.rests_on(line, line), known == Some(0));
                prop_assert_eq!(cache.misses(line), known.is_none());
                if let Some(place) = known {
                    list.remove(place);
                }
                list.insert(0, line);
                list.truncate(ways as usize);
                let other = lists[(line as usize + 1) % 2].first().copied();
                if let Some(other) = other {
                    prop_assert!(cache.rests_on(line, other));
                }
            }
        }
    }

    #[test]
    fn geometries_are_checked() {
        assert!(Geometry::parse("32768:8:64").is_ok());
        assert!(Geometry::parse("49152:12:64").is_ok());
        for text in [
            "",
            "32768",
            "32768:8:0",
            "32768:0:64",
            "32768:8:48",
            "0:8:64",
            "3000:8:64",
            "99999999999:8:64",
            "32768:8:64:1",
            "a:b:c",
        ] {
            assert!(Geometry::parse(text).unwrap_err().contains("SIZE:WAYS:LINE"), "{text}");
        }
    }
}
