//! Repeated string instructions: hardware counts each once, the emulator begins each once per iteration.
//!
//! QEMU begins `rep movs` of N iterations N + 1 times, the last time with a count of 0. A `scas` or `cmps` that ends by
//! its flag begins N times. Nothing in a plugin tells which start is the last. The instruction is finished exactly when the block behind it
//! begins and the instruction began since that block's previous beginning. This rule holds across faults and interrupts between the
//! iterations.

use crate::arguments::Filters;
use crate::decode::Repeat;

/// The place behind one repeated string instruction.
#[derive(Debug, Default)]
pub(crate) struct Site {
    /// The functions and link addresses of the instruction, where costs are kept by address: several if programs have the place
    /// in common.
    pub(crate) linked_at: Vec<(u32, u64)>,
    /// The number of times that the instruction began; QEMU adds.
    pub(crate) starts: u64,
    /// The value of `starts` when the block behind the instruction last began.
    pub(crate) seen: u64,
    /// Memory accesses that count iterations, by kind; QEMU adds.
    pub(crate) accesses: [u64; 7],
    /// Loads of the `cmps` iteration in progress.
    pub(crate) loaded: u64,
    /// Whether the instruction is the kernel's.
    pub(crate) kernel: bool,
    /// Whether the instruction was translated; the sums then include it.
    pub(crate) listed: bool,
    /// The value of `starts` when the sums were last updated.
    pub(crate) starts_summed: u64,
    /// The value of `accesses` when the sums were last updated.
    pub(crate) accesses_summed: [u64; 7],
}

impl Site {
    /// Whether the instruction finished since the last call.
    pub(crate) fn finished(&mut self) -> bool {
        let finished = self.starts != self.seen;
        self.seen = self.starts;
        finished
    }

    /// Notes that a fault left the instruction: the starts so far finish nothing.
    pub(crate) fn leave(&mut self) {
        self.seen = self.starts;
    }

    /// Notes a function of the instruction, and the address that the linker gave the instruction.
    pub(crate) fn link(&mut self, function: u32, address: u64) {
        if !self.linked_at.contains(&(function, address)) {
            self.linked_at.push((function, address));
        }
    }

    /// Returns the link address of the instruction where a function pays for it.
    pub(crate) fn linked_in(&self, function: u32) -> Option<u64> {
        let of_function = self.linked_at.iter().find(|(known, _)| *known == function);
        of_function.or(self.linked_at.last()).map(|(_, address)| *address)
    }

    /// Returns the starts and the iterations by kind since the last call.
    pub(crate) fn take(&mut self, filters: &Filters) -> (u64, [(Repeat, u64); 7]) {
        let starts = self.starts - self.starts_summed;
        self.starts_summed = self.starts;
        let iterations = Repeat::TABLE.map(|(kind, ..)| {
            let (now, before) =
                (self.accesses[kind as usize], &mut self.accesses_summed[kind as usize]);
            // Whole iterations only: the remainder stays for the next call.
            let whole = (now - *before) / filters.divisor(kind);
            *before += whole * filters.divisor(kind);
            (kind, whole)
        });
        (starts, iterations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_finished_once_however_often_it_was_begun() {
        let mut site = Site::default();
        assert!(!site.finished());
        site.starts += 5;
        assert!(site.finished());
        assert!(!site.finished());
    }

    #[test]
    fn what_was_left_by_a_fault_is_finished_only_when_it_is_begun_again() {
        let mut site = Site::default();
        site.starts += 3;
        site.leave();
        assert!(!site.finished());
        site.starts += 1;
        assert!(site.finished());
    }

    #[test]
    fn accesses_become_iterations() {
        let mut site = Site { starts: 6, ..Site::default() };
        let filters = Filters::parse_one(Filters::default(), "filter-movs", "RW/2").unwrap();
        site.accesses[Repeat::Movs as usize] = 11;
        let (starts, iterations) = site.take(&filters);
        assert_eq!((starts, iterations[0]), (6, (Repeat::Movs, 5)));
        site.accesses[Repeat::Movs as usize] = 12;
        assert_eq!(site.take(&filters).1[0].1, 1);
    }
}
