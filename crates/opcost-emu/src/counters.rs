//! The running sums; a region is the difference of two readings.
//!
//! **One cell says both where control may go on and how far a block came.** From plugin API 3 on, QEMU's own code compares a
//! cell with a number, adds and stores. QEMU therefore calls the plugin only where control leaves a function or a block was
//! cut short. Callbacks for faults (API 6) are not enough: they do not report a block that an access to a device or a write
//! to its own code cuts short.

use opcost_record::Domain;
use opcost_record::metric::{CYCLE_PARTS, CYCLES_FAR, CYCLES_SLICES, CYCLES_UNKNOWN};
use opcost_record::profile::ContextCycles;

/// A figure with separate sums for user and kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Figure {
    Instructions,
    Starts,
    Iterations,
    Branches,
    ConditionalBranches,
    Loads,
    Stores,
    // Only with several vCPUs.
    Pauses,
    Halts,
    // From here on only with a model.
    Taken,
    BranchMisses,
    InstructionMisses,
    DataMisses,
    LastMisses,
    // From here on only with a modelled core, in the order of its causes.
    CyclesIssue,
    CyclesDependencies,
    CyclesBranches,
    CyclesFrontend,
    CyclesMemory,
    CyclesFar,
    CyclesUnknown,
    // From here on only with modelled slices: their number, their cycles, and the squares of the cycles.
    Slices,
    SliceCycles,
    SliceSquares,
}

impl Figure {
    /// Every figure with the name of its metric and the condition of its report.
    pub(crate) const TABLE: [(Figure, &'static str, When); FIGURES] = [
        (Figure::Instructions, "instructions", When::Always),
        (Figure::Starts, "instruction-starts", When::Always),
        (Figure::Iterations, "string-iterations", When::Always),
        (Figure::Branches, "branches", When::Always),
        (Figure::ConditionalBranches, "conditional-branches", When::Always),
        (Figure::Loads, "loads", When::Always),
        (Figure::Stores, "stores", When::Always),
        (Figure::Pauses, "pauses", When::Several),
        (Figure::Halts, "halts", When::Several),
        (Figure::Taken, "conditional-branches-taken", When::Modelled),
        (Figure::BranchMisses, "model-branch-misses", When::Modelled),
        (Figure::InstructionMisses, "model-L1-icache-misses", When::Modelled),
        (Figure::DataMisses, "model-L1-dcache-misses", When::Modelled),
        (Figure::LastMisses, "model-LLC-misses", When::Modelled),
        (Figure::CyclesIssue, CYCLE_PARTS[0], When::Timed),
        (Figure::CyclesDependencies, CYCLE_PARTS[1], When::Timed),
        (Figure::CyclesBranches, CYCLE_PARTS[2], When::Timed),
        (Figure::CyclesFrontend, CYCLE_PARTS[3], When::Timed),
        (Figure::CyclesMemory, CYCLE_PARTS[4], When::Timed),
        (Figure::CyclesFar, CYCLES_FAR, When::Timed),
        (Figure::CyclesUnknown, CYCLES_UNKNOWN, When::Timed),
        (Figure::Slices, CYCLES_SLICES, When::Never),
        (Figure::SliceCycles, CYCLES_SLICES, When::Never),
        (Figure::SliceSquares, CYCLES_SLICES, When::Never),
    ];

    /// The parts of modelled cycles, in the order of a context's figures.
    pub(crate) const CYCLES: [Figure; CYCLE_PARTS.len() + 1] = [
        Figure::CyclesIssue,
        Figure::CyclesDependencies,
        Figure::CyclesBranches,
        Figure::CyclesFrontend,
        Figure::CyclesMemory,
        Figure::CyclesFar,
    ];
}

const FIGURES: usize = 24;

/// The condition under which a figure is reported.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum When {
    Always,
    /// With several vCPUs.
    Several,
    /// With the models.
    Modelled,
    /// With a modelled core.
    Timed,
    /// Never by itself.
    Never,
}

/// The cost of one instruction, of a block, or of the tail of a block.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Cost {
    pub(crate) instructions: u64,
    pub(crate) starts: u64,
    pub(crate) branches: u64,
    pub(crate) conditional: u64,
    pub(crate) loads: u64,
    pub(crate) stores: u64,
    pub(crate) pauses: u64,
    pub(crate) halts: u64,
}

/// All running sums. They wrap, since only their differences have a meaning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counters {
    figures: [[u64; 2]; FIGURES],
}

impl Counters {
    /// Adds to one figure; `kernel`: whether the instructions are the kernel's.
    pub(crate) fn add(&mut self, figure: Figure, kernel: bool, amount: u64) {
        let sum = &mut self.figures[figure as usize][usize::from(kernel)];
        *sum = sum.wrapping_add(amount);
    }

    /// Adds modelled cycles.
    #[inline(always)]
    pub(crate) fn add_cycles(&mut self, cycles: &ContextCycles, kernel: bool) {
        for (figure, part) in Figure::CYCLES.into_iter().zip(cycles) {
            self.add(figure, kernel, *part);
        }
    }

    /// Adds the cycles of one modelled slice, which may hold both the program's and the kernel's.
    pub(crate) fn add_slice(&mut self, cycles: u64) {
        self.add(Figure::Slices, false, 1);
        self.add(Figure::SliceCycles, false, cycles);
        self.add(Figure::SliceSquares, false, cycles.saturating_mul(cycles));
    }

    /// Returns the standard error of modelled cycles from slices, each of which stands for `one_in` times its cycles.
    ///
    /// It is the error of a total from a random sample without replacement (W. G. Cochran, *Sampling Techniques*, 3rd edition,
    /// section 2.5). One slice alone does not show how slices differ, so its whole total is the error.
    pub(crate) fn slice_error(&self, one_in: u64) -> u64 {
        let [slices, cycles, squares] = [Figure::Slices, Figure::SliceCycles, Figure::SliceSquares]
            .map(|figure| self.get(figure, Domain::All) as f64);
        let one_in = one_in as f64;
        if slices < 2.0 {
            return (cycles * one_in) as u64;
        }
        let spread = (slices * squares - cycles * cycles).max(0.0) / (slices - 1.0);
        (one_in * (one_in - 1.0) * spread).sqrt().round() as u64
    }

    /// Returns the modelled cycles of both domains.
    pub(crate) fn cycles(&self) -> ContextCycles {
        Figure::CYCLES.map(|figure| self.get(figure, Domain::All))
    }

    /// Adds a cost `times` times.
    pub(crate) fn add_cost(&mut self, cost: &Cost, kernel: bool, times: u64) {
        for (figure, amount) in [
            (Figure::Instructions, cost.instructions),
            (Figure::Starts, cost.starts),
            (Figure::Branches, cost.branches),
            (Figure::ConditionalBranches, cost.conditional),
            (Figure::Loads, cost.loads),
            (Figure::Stores, cost.stores),
            (Figure::Pauses, cost.pauses),
            (Figure::Halts, cost.halts),
        ] {
            self.add(figure, kernel, amount.wrapping_mul(times));
        }
    }

    /// Subtracts a cost.
    pub(crate) fn take_back(&mut self, cost: &Cost, kernel: bool) {
        self.add_cost(cost, kernel, u64::MAX);
    }

    /// Adds the difference of two readings of the sums.
    pub(crate) fn add_difference(&mut self, from: &Counters, to: &Counters) {
        for (sum, (from, to)) in self.figures.iter_mut().flatten().zip(
            from.figures
                .iter()
                .zip(&to.figures)
                .flat_map(|(from, to)| [(from[0], to[0]), (from[1], to[1])]),
        ) {
            *sum = sum.wrapping_add(to.wrapping_sub(from));
        }
    }

    /// Returns one figure of one domain.
    pub(crate) fn get(&self, figure: Figure, domain: Domain) -> u64 {
        let [user, kernel] = self.figures[figure as usize];
        match domain {
            Domain::User => user,
            Domain::Kernel => kernel,
            Domain::All => user.wrapping_add(kernel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_cut_out_of_the_sums() {
        let mut sums = Counters::default();
        let cost = Cost { instructions: 5, starts: 6, loads: 2, ..Cost::default() };
        sums.add_cost(&cost, true, 10);
        let from = sums;
        sums.add_cost(&cost, true, 3);
        sums.add_cost(&cost, false, 1);
        sums.take_back(&cost, true);
        let mut region = Counters::default();
        region.add_difference(&from, &sums);
        assert_eq!(region.get(Figure::Instructions, Domain::Kernel), 10);
        assert_eq!(region.get(Figure::Starts, Domain::All), 18);
        assert_eq!(region.get(Figure::Loads, Domain::User), 2);
    }

    #[test]
    fn slices_have_the_error_of_a_sample() {
        let mut sums = Counters::default();
        assert_eq!(sums.slice_error(16), 0);
        sums.add_slice(100);
        assert_eq!(sums.slice_error(16), 1600);
        sums.add_slice(100);
        assert_eq!(sums.slice_error(16), 0);
        for cycles in [90, 110, 120, 80] {
            sums.add_slice(cycles);
        }
        // The slices' variance is 1000 / 5; the variance of their sum is 6 times as much.
        let expected = (16.0_f64 * 15.0 * 6.0 * 200.0).sqrt();
        assert_eq!(sums.slice_error(16), expected.round() as u64);
    }

    #[test]
    fn figures_are_at_their_places_and_have_metrics() {
        for (place, (figure, name, _)) in Figure::TABLE.iter().enumerate() {
            assert_eq!(*figure as usize, place);
            assert_eq!(opcost_record::metric::MetricRow::describe(name).name, *name);
        }
    }
}
