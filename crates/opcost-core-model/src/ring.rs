//! Rings that keep a fixed number of last values.

/// A ring of values; a new value replaces the oldest.
pub(crate) struct Ring<T> {
    values: Box<[T]>,
    next: usize,
}

impl<T: Copy + Default> Ring<T> {
    /// Makes a ring of default values with at least one entry.
    pub(crate) fn new(entries: u64) -> Ring<T> {
        Ring { values: vec![T::default(); entries.max(1) as usize].into_boxed_slice(), next: 0 }
    }

    /// Returns the oldest value: the one pushed as many pushes ago as the ring has entries.
    #[inline(always)]
    pub(crate) fn oldest(&self) -> T {
        self.values[self.next]
    }

    /// Replaces the oldest value.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) {
        self.values[self.next] = value;
        self.next += 1;
        if self.next == self.values.len() {
            self.next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_value_is_replaced() {
        let mut ring = Ring::new(3);
        let oldest: Vec<u8> = (1..6)
            .map(|value| {
                ring.push(value);
                ring.oldest()
            })
            .collect();
        assert_eq!(oldest, [0, 0, 1, 2, 3]);
    }
}
