//! Counts the cycles of a call, with a PMU or with the time stamp counter.

use crate::sample::Sample;
use opcost_record::gauge::Clock;
use opcost_sys::clock::tsc;
use opcost_sys::perf::{CounterId, EventAttr, LivePerf, PerfKernel};

/// Multiplications in a calibration.
const CHAIN_LENGTH: u64 = 4000;
/// Cycles of one of them: 3 on all x86-64 cores since 2008 (uops.info, IMUL R64 R64; `a_multiplication_takes_three_additions`).
const MULTIPLY_CYCLES: u64 = 3;
/// Cycles of one calibration.
pub(crate) const CHAIN_CYCLES: u64 = CHAIN_LENGTH * MULTIPLY_CYCLES;

/// Executes `length` multiplications, each dependent on the one before; `length`: a multiple of 20.
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

/// The chain of [`multiply_chain`] with additions, which take one cycle each.
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

/// The error that another user of the PMU took the place of the pinned counter.
#[derive(Debug, thiserror::Error)]
#[error(
    "the counter of cycles cannot be read any more: another program took its place on this CPU; stop that program, or choose \
     another CPU with --cpu"
)]
pub(crate) struct CounterLost;

/// The counter of cycles on this machine.
pub(crate) struct Timer {
    /// The event `cycles:u` of this thread, open and enabled.
    counter: Option<(LivePerf, CounterId)>,
    /// Ticks, or cycles, of an empty measurement.
    empty: u64,
}

impl Timer {
    /// Opens the PMU's counter if it can be read, else uses the time stamp counter.
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
        timer.empty = (0..1000).filter_map(|_| timer.ticks(|| ())).min().unwrap_or_default();
        timer
    }

    pub(crate) fn clock(&self) -> Clock {
        if self.counter.is_some() { Clock::Pmu } else { Clock::Tsc }
    }

    /// Reads the clock; `None` if a pinned counter lost its place on the CPU, after which every read of it fails.
    fn now(&self) -> Option<u64> {
        match &self.counter {
            Some((perf, id)) => perf.read(*id).ok().map(|reading| reading.value),
            None => tsc(),
        }
    }

    fn ticks(&self, work: impl FnOnce()) -> Option<u64> {
        let from = self.now()?;
        work();
        let to = self.now()?;
        Some(to.saturating_sub(from).saturating_sub(self.empty))
    }

    /// Times `work` once.
    ///
    /// # Errors
    /// The clock cannot be read any more.
    pub(crate) fn sample(&self, work: impl FnOnce()) -> Result<Sample, CounterLost> {
        let chain = || match self.counter {
            Some(_) => None,
            None => self.ticks(|| multiply_chain(CHAIN_LENGTH)),
        };
        let before = chain();
        let ticks = self.ticks(work).ok_or(CounterLost)?;
        Ok(Sample { ticks, calibration: before.zip(chain()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least of many times. Interruptions only add time, so load does not change the ratio of two such minima.
    fn least(timer: &Timer, work: impl Fn()) -> u64 {
        (0..300).map(|_| timer.ticks(&work).unwrap()).min().unwrap()
    }

    #[test]
    fn a_multiplication_takes_three_additions() {
        let timer = Timer::new();
        // The machine may change its speed between the two measurements, so there are several attempts.
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
