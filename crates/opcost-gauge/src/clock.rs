//! Cycles of a call, by a PMU or by the time stamp counter.

use crate::sample::Sample;
use opcost_record::gauge::Clock;
use opcost_sys::clock::tsc;
use opcost_sys::perf::{CounterId, EventAttr, LivePerf, PerfKernel};

/// Multiplications of a calibration.
const CHAIN_LENGTH: u64 = 4000;
/// Cycles of one of them: 3 on every x86-64 core since 2008 (uops.info, IMUL R64 R64; test `a_multiplication_takes_three_additions`).
const MULTIPLY_CYCLES: u64 = 3;
/// Cycles of a calibration.
pub(crate) const CHAIN_CYCLES: u64 = CHAIN_LENGTH * MULTIPLY_CYCLES;

/// Executes `length` multiplications, each of which waits for the one before; `length`: a multiple of 20.
#[inline(never)]
pub(crate) fn multiply_chain(length: u64) {
    // SAFETY: registers only; the loop ends as `length` counts down to 0.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 20",
            "imul {value}, {value}",
            ".endr",
            "sub {count}, 20",
            "jnz 2b",
            value = inout(reg) 3_u64 => _,
            count = inout(reg) length.max(20) => _,
            options(nomem, nostack)
        );
    }
}

/// As [`multiply_chain`] with additions of one cycle.
#[cfg(test)]
#[inline(never)]
fn add_chain(length: u64) {
    // SAFETY: registers only; the loop ends as `length` counts down to 0.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 20",
            "add {value}, {value}",
            ".endr",
            "sub {count}, 20",
            "jnz 2b",
            value = inout(reg) 3_u64 => _,
            count = inout(reg) length.max(20) => _,
            options(nomem, nostack)
        );
    }
}

/// What counts cycles here.
pub(crate) struct Timer {
    /// The event `cycles:u` of this thread, open and enabled.
    counter: Option<(LivePerf, CounterId)>,
    /// Ticks, or cycles, of measuring nothing.
    empty: u64,
}

impl Timer {
    /// The best clock of this machine.
    pub(crate) fn new() -> Timer {
        let perf = LivePerf::new();
        let attr = EventAttr {
            exclude_kernel: true,
            exclude_hv: true,
            pinned: true,
            ..EventAttr::default()
        };
        let counter = perf.open(&attr, 0, -1, None).ok();
        let counter = counter.filter(|id| perf.read(*id).is_ok()).map(|id| (perf, id));
        let mut timer = Timer { counter, empty: 0 };
        timer.empty = (0..1000).map(|_| timer.ticks(|| ())).min().unwrap_or_default();
        timer
    }

    pub(crate) fn clock(&self) -> Clock {
        if self.counter.is_some() { Clock::Pmu } else { Clock::Tsc }
    }

    fn now(&self) -> u64 {
        match &self.counter {
            // Once it was read it stays readable: a pinned counter that lost its place would end the program with no figure.
            Some((perf, id)) => perf.read(*id).map_or(u64::MAX, |reading| reading.value),
            None => tsc().unwrap_or_default(),
        }
    }

    fn ticks(&self, work: impl FnOnce()) -> u64 {
        let from = self.now();
        work();
        let to = self.now();
        to.saturating_sub(from).saturating_sub(self.empty)
    }

    /// Takes a sample of work.
    pub(crate) fn sample(&self, work: impl FnOnce()) -> Sample {
        if self.counter.is_some() {
            return Sample { ticks: self.ticks(work), calibration: None };
        }
        let before = self.ticks(|| multiply_chain(CHAIN_LENGTH));
        let ticks = self.ticks(work);
        let after = self.ticks(|| multiply_chain(CHAIN_LENGTH));
        Sample { ticks, calibration: Some((before, after)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least of many, which no interruption makes less: a ratio of two such is no matter of load.
    fn least(timer: &Timer, work: impl Fn()) -> u64 {
        (0..300).map(|_| timer.ticks(&work)).min().unwrap_or_default()
    }

    #[test]
    fn a_multiplication_takes_three_additions() {
        let timer = Timer::new();
        // A machine that changes its speed between the two measurements gets more chances.
        let ratios: Vec<f64> = (0..20)
            .map(|_| {
                let multiplications = least(&timer, || multiply_chain(CHAIN_LENGTH));
                let additions = least(&timer, || add_chain(CHAIN_LENGTH));
                multiplications as f64 / additions as f64
            })
            .collect();
        let fits = |ratio: &&f64| (**ratio - MULTIPLY_CYCLES as f64).abs() < 0.06;
        assert!(ratios.iter().filter(fits).count() > 0, "imul by add: {ratios:?}");
    }
}
