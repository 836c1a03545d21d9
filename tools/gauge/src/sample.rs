//! Turns samples into a figure, or rejects them.

use opcost_record::gauge::Measured;

/// How much the two calibrations of a sample may differ, in percent of the first. If they differ by more, the core changed its
/// frequency or another program had the CPU.
const CALIBRATION_PERCENT_MAX: u64 = 1;
/// The percentile that becomes the figure. The minimum would be the sample with the largest error of calibration.
const PERCENTILE: usize = 10;
/// The share of samples that must be kept for a figure, percent.
const KEPT_PERCENT_MIN: u32 = 25;
/// The share of dropped samples above which the machine is too loaded, percent.
const DROPPED_PERCENT_MAX: u64 = 50;

/// The share of time spent waiting for the CPU above which the machine is too loaded, percent. Other programs then fill the caches
/// and predictors most of the time.
const WAITED_PERCENT_MAX: u64 = 66;

/// One timed call with the calibrations before and after it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sample {
    /// Ticks of the call; cycles if a PMU counted.
    pub(crate) ticks: u64,
    /// Ticks of the calibrations before and after the call; absent if a PMU counted.
    pub(crate) calibration: Option<(u64, u64)>,
}

impl Sample {
    /// Thousandths of cycles; `None` if the sample must be dropped. `chain_cycles`: the cycles of one calibration.
    pub(crate) fn cycles_milli(&self, chain_cycles: u64) -> Option<u64> {
        let Some((before, after)) = self.calibration else { return Some(self.ticks * 1000) };
        if before == 0 || before.abs_diff(after) * 100 > before * CALIBRATION_PERCENT_MAX {
            return None;
        }
        let cycles = u128::from(self.ticks) * u128::from(chain_cycles) * 2000;
        u64::try_from(cycles / u128::from(before + after)).ok()
    }
}

/// The figure of one kernel or loop from its samples.
pub(crate) fn measured(samples: &[Sample], chain_cycles: u64) -> Measured {
    let mut cycles: Vec<u64> =
        samples.iter().filter_map(|sample| sample.cycles_milli(chain_cycles)).collect();
    cycles.sort_unstable();
    let (kept, taken) = (cycles.len() as u32, samples.len() as u32);
    let enough = kept > 0 && kept * 100 >= taken * KEPT_PERCENT_MIN;
    let cycles_milli = enough.then(|| cycles[(cycles.len() - 1) * PERCENTILE / 100]);
    Measured { kept, taken, cycles_milli }
}

/// The error that too many samples were dropped to trust the others.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "this machine is too loaded to measure cycles: in {dropped} of {taken} samples ({percent} %) the speed of the core changed by \
     more than {CALIBRATION_PERCENT_MAX} % or another program had the CPU; stop other programs, or choose a quiet CPU (opcost doctor --cpus)"
)]
pub(crate) struct Loaded {
    pub(crate) dropped: u64,
    pub(crate) taken: u64,
    pub(crate) percent: u64,
}

/// Checks that the machine was quiet enough.
///
/// # Errors
/// Too many samples were dropped; the error has the figures.
pub(crate) fn check_load<'m>(all: impl Iterator<Item = &'m Measured>) -> Result<(), Loaded> {
    let (kept, taken) = all.fold((0, 0), |(kept, taken), figures| {
        (kept + u64::from(figures.kept), taken + u64::from(figures.taken))
    });
    let dropped = taken - kept;
    if dropped * 100 > taken * DROPPED_PERCENT_MAX {
        return Err(Loaded { dropped, taken, percent: dropped * 100 / taken });
    }
    Ok(())
}

/// The error that the operating system gave the CPU to other programs for too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "this machine is too loaded to measure cycles: other programs had the CPU for {percent} % of the time; stop other programs \
     (ps -e --sort -pcpu lists them), or choose a quiet CPU (opcost doctor --cpus)"
)]
pub(crate) struct Crowded {
    pub(crate) percent: u64,
}

/// Checks that the program had its CPU for long enough. `before` and `after`: the times that it ran and that it waited, ns.
///
/// # Errors
/// The program waited for too long; the error has the figure.
pub(crate) fn check_wait(before: (u64, u64), after: (u64, u64)) -> Result<(), Crowded> {
    let (ran, waited) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    let percent = waited.saturating_mul(100) / (ran + waited).max(1);
    if percent > WAITED_PERCENT_MAX { Err(Crowded { percent }) } else { Ok(()) }
}

/// The times that a thread ran and that it waited for a CPU, ns, parsed from its schedstat
/// (Documentation/scheduler/sched-stats.rst); `None` if the kernel does not count them.
pub(crate) fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    let (ran, waited) = (fields.next()??, fields.next()??);
    (ran > 0).then_some((ran, waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ticks: u64, before: u64, after: u64) -> Sample {
        Sample { ticks, calibration: Some((before, after)) }
    }

    #[test]
    fn ticks_are_scaled_by_the_speed_of_the_chain() {
        // The chain of 12,000 cycles took 8,000 ticks: 1.5 cycles a tick.
        assert_eq!(sample(1000, 8000, 8000).cycles_milli(12_000), Some(1_500_000));
        assert_eq!(sample(1000, 8000, 8080).cycles_milli(12_000), Some(1_492_537));
        assert_eq!(Sample { ticks: 7, calibration: None }.cycles_milli(12_000), Some(7000));
    }

    #[test]
    fn a_sample_whose_calibrations_differ_is_dropped() {
        assert_eq!(sample(1000, 8000, 8081).cycles_milli(12_000), None);
        assert_eq!(sample(1000, 8081, 8000).cycles_milli(12_000), None);
        assert_eq!(sample(1000, 0, 0).cycles_milli(12_000), None);
    }

    #[test]
    fn the_figure_is_the_tenth_percentile_of_what_was_kept() {
        let mut samples: Vec<Sample> = (1..=40).map(|i| sample(i, 3, 3)).collect();
        // The smallest sample has a calibration that was interrupted.
        samples[0].calibration = Some((3, 300));
        let figures = measured(&samples, 3);
        assert_eq!((figures.kept, figures.taken), (39, 40));
        assert_eq!(figures.cycles_milli, Some(5000));
    }

    #[test]
    fn too_few_samples_give_no_figure() {
        let mut samples: Vec<Sample> = (1..=40).map(|i| sample(i, 3, 3)).collect();
        for sample in &mut samples[9..] {
            sample.calibration = Some((3, 4));
        }
        let figures = measured(&samples, 3);
        assert_eq!(figures, Measured { kept: 9, taken: 40, cycles_milli: None });
        assert_eq!(measured(&[], 3), Measured { kept: 0, taken: 0, cycles_milli: None });
    }

    #[test]
    fn a_loaded_machine_is_refused_with_the_figure() {
        let of = |kept| Measured { kept, taken: 40, cycles_milli: None };
        assert_eq!(check_load([of(40), of(1)].iter()), Ok(()));
        let loaded = check_load([of(20), of(19)].iter()).unwrap_err();
        assert_eq!(loaded, Loaded { dropped: 41, taken: 80, percent: 51 });
        assert!(loaded.to_string().contains("41 of 80 samples (51 %)"));
        assert_eq!(check_load([].iter()), Ok(()));
    }
    #[test]
    fn a_program_that_waits_for_its_cpu_is_refused_with_the_figure() {
        assert_eq!(schedstat("34567 2000 12\n"), Some((34_567, 2000)));
        assert_eq!(schedstat("0 0 0\n"), None);
        assert_eq!(schedstat(""), None);
        assert_eq!(check_wait((1000, 500), (2000, 2500)), Ok(()));
        let crowded = check_wait((1000, 500), (2000, 4500)).unwrap_err();
        assert_eq!(crowded, Crowded { percent: 80 });
        assert!(crowded.to_string().contains("for 80 % of the time"));
        assert_eq!(check_wait((5, 5), (5, 5)), Ok(()));
    }
}
