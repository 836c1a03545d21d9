//! The models of caches and branch predictor together, fed with the guest's execution.
//!
//! Level 1 caches for instructions and data are backed by one last-level cache. The figures are a model's: no prefetching, no
//! timing, virtual addresses.

use crate::arguments::Arguments;
use crate::branch::Predictor;
use crate::cache::{Cache, Fetch};
use crate::counters::{Counters, Figure};
use crate::decode::Exit;
use crate::walk::Left;

/// The models; they stay warm across regions.
pub(crate) struct Model {
    instructions: Cache,
    data: Cache,
    last: Cache,
    predictor: Predictor,
}

impl Model {
    /// Makes cold models of the given sizes.
    pub(crate) fn new(arguments: &Arguments) -> Model {
        Model {
            instructions: Cache::new(arguments.l1i),
            data: Cache::new(arguments.l1d),
            last: Cache::new(arguments.llc),
            predictor: Predictor::new(),
        }
    }

    /// Prepares lookups of the code from `start` up to `end`.
    pub(crate) fn prepare(&self, start: u64, end: u64) -> Fetch {
        self.instructions.prepare(start, end)
    }

    /// Whether fetching code would change nothing.
    ///
    /// # Safety
    /// This model prepared `fetch` for the code.
    #[inline(always)]
    pub(crate) unsafe fn rests_on_code(&self, fetch: &Fetch) -> bool {
        // SAFETY: the cache prepared it, as the caller promises.
        unsafe { self.instructions.rests_on_code(fetch) }
    }

    /// Fetches the code from `start` up to `end`.
    pub(crate) fn fetch(&mut self, sums: &mut Counters, kernel: bool, start: u64, end: u64) {
        let mut line = self.instructions.line(start);
        let last = self.instructions.line(end.wrapping_sub(1));
        loop {
            if self.instructions.misses(line) {
                sums.add(Figure::InstructionMisses, kernel, 1);
                self.miss(sums, kernel, self.instructions.address(line));
            }
            if line >= last {
                return;
            }
            line += 1;
        }
    }

    /// Whether an access to data would change nothing.
    #[inline(always)]
    pub(crate) fn rests_on(&self, address: u64, bytes: u64) -> bool {
        let first = self.data.line(address);
        let last = self.data.line(address.wrapping_add(bytes - 1));
        // Lines between two lines at the front of their sets may still be elsewhere.
        last.wrapping_sub(first) <= 1 && self.data.rests_on(first, last)
    }

    /// Reads or writes `bytes` of data; an access across lines touches each line.
    pub(crate) fn access(&mut self, sums: &mut Counters, kernel: bool, address: u64, bytes: u64) {
        let mut line = self.data.line(address);
        let last = self.data.line(address.wrapping_add(bytes - 1));
        loop {
            if self.data.misses(line) {
                sums.add(Figure::DataMisses, kernel, 1);
                self.miss(sums, kernel, self.data.address(line));
            }
            if line >= last {
                return;
            }
            line += 1;
        }
    }

    #[inline(always)]
    fn miss(&mut self, sums: &mut Counters, kernel: bool, address: u64) {
        if self.last.misses(self.last.line(address)) {
            sums.add(Figure::LastMisses, kernel, 1);
        }
    }

    /// Learns from an executed instruction; `conditional`: whether it is a branch that may not be taken, otherwise the model learns
    /// nothing.
    #[inline(always)]
    pub(crate) fn branch(
        &mut self,
        sums: &mut Counters,
        kernel: bool,
        at: u64,
        conditional: bool,
        taken: bool,
    ) {
        let missed = self.predictor.misses_branch(at, conditional, taken);
        sums.add(Figure::Taken, kernel, u64::from(taken & conditional));
        sums.add(Figure::BranchMisses, kernel, u64::from(missed));
    }

    /// Learns that control left a block for `target`.
    pub(crate) fn transfer(&mut self, sums: &mut Counters, left: &Left, target: u64) {
        let missed = match left.exit {
            Exit::Branch => {
                return self.branch(sums, left.kernel, left.at, true, target != left.end);
            }
            Exit::JumpIndirect => self.predictor.misses_target(left.at, target),
            Exit::Call => {
                self.predictor.call(left.end);
                false
            }
            Exit::CallIndirect => {
                self.predictor.call(left.end);
                self.predictor.misses_target(left.at, target)
            }
            Exit::Return => self.predictor.misses_return(target),
            Exit::Next | Exit::Jump | Exit::Leave | Exit::Enter => false,
        };
        sums.add(Figure::BranchMisses, left.kernel, u64::from(missed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::Domain;

    fn model() -> Model {
        Model::new(&Arguments::parse(&["out=/r".to_string()], false).unwrap())
    }

    #[test]
    fn level_1_misses_go_to_the_last_level() {
        let (mut model, mut sums) = (model(), Counters::default());
        let fetch = model.prepare(0x1000, 0x1041);
        for rests in [false, true] {
            // SAFETY: this model prepared it.
            assert_eq!(unsafe { model.rests_on_code(&fetch) }, rests);
            model.fetch(&mut sums, true, 0x1000, 0x1041);
        }
        assert!(!model.rests_on(0x10bc, 8));
        model.access(&mut sums, false, 0x1000, 8);
        model.access(&mut sums, false, 0x10bc, 8);
        assert!(model.rests_on(0x10bc, 8));
        let get = |figure, domain| sums.get(figure, domain);
        assert_eq!(get(Figure::InstructionMisses, Domain::Kernel), 2);
        assert_eq!(get(Figure::DataMisses, Domain::User), 3);
        // The code had brought in the first data line.
        assert_eq!(get(Figure::LastMisses, Domain::All), 4);
        assert_eq!(get(Figure::LastMisses, Domain::Kernel), 2);
    }

    #[test]
    fn taken_branches_are_those_that_do_not_fall_through() {
        let (mut model, mut sums) = (model(), Counters::default());
        let left = Left { exit: Exit::Branch, function: 0, kernel: false, at: 0x10, end: 0x12 };
        model.transfer(&mut sums, &left, 0x12);
        model.transfer(&mut sums, &left, 0x8);
        assert_eq!(sums.get(Figure::Taken, Domain::User), 1);
        assert_eq!(sums.get(Figure::BranchMisses, Domain::User), 1);
    }
}
