//! From samples to a figure, and when there is none.

use opcost_record::gauge::Measured;

/// The two calibrations of a sample may differ by this share of the first, percent; if they differ by more, the core's frequency
/// changed or another program had the CPU.
const CALIBRATION_PERCENT_MAX: u64 = 1;
/// The percentile that stands for all samples. The minimum would be the sample whose calibration erred most.
const PERCENTILE: usize = 10;
/// A figure needs this share of its samples, percent.
const KEPT_PERCENT_MIN: u32 = 25;
/// The machine is too loaded if more than this share of all samples was dropped, percent.
const DROPPED_PERCENT_MAX: u64 = 50;

/// The machine is too loaded if the program waited for its CPU for more than this share of the time, percent: caches and predictors
/// are then others' most of the time.
const WAITED_PERCENT_MAX: u64 = 66;

/// One timed call, between two calibrations.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Sample {
    /// Ticks of the call, or cycles where a PMU counted.
    pub(crate) ticks: u64,
    /// Ticks of the calibration before and after the call; absent where a PMU counted.
    pub(crate) calibration: Option<(u64, u64)>,
}

impl Sample {
    /// Thousandths of cycles; `None` if the sample is to be dropped. `chain_cycles`: the cycles of one calibration.
    pub(crate) fn cycles_milli(&self, chain_cycles: u64) -> Option<u64> {
        let Some((before, after)) = self.calibration else { return Some(self.ticks * 1000) };
        if before == 0 || before.abs_diff(after) * 100 > before * CALIBRATION_PERCENT_MAX {
            return None;
        }
        let cycles = u128::from(self.ticks) * u128::from(chain_cycles) * 2000;
        u64::try_from(cycles / u128::from(before + after)).ok()
    }
}

/// What the samples of one kernel or loop say.
pub(crate) fn measured(samples: &[Sample], chain_cycles: u64) -> Measured {
    let mut cycles: Vec<u64> =
        samples.iter().filter_map(|sample| sample.cycles_milli(chain_cycles)).collect();
    cycles.sort_unstable();
    let (kept, taken) = (cycles.len() as u32, samples.len() as u32);
    let enough = kept > 0 && kept * 100 >= taken * KEPT_PERCENT_MIN;
    let cycles_milli = enough.then(|| cycles[(cycles.len() - 1) * PERCENTILE / 100]);
    Measured { kept, taken, cycles_milli }
}

/// Too many samples were dropped to trust the others.
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

/// Whether the machine was quiet enough.
///
/// # Errors
/// With the figure, if it was not.
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

/// The kernel of the operating system gave the CPU to other programs for too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "this machine is too loaded to measure cycles: other programs had the CPU for {percent} % of the time; stop other programs \
     (ps -e --sort -pcpu lists them), or choose a quiet CPU (opcost doctor --cpus)"
)]
pub(crate) struct Crowded {
    pub(crate) percent: u64,
}

/// Whether the program had its CPU for long enough, between two readings of the time that it ran and that it waited, ns.
///
/// # Errors
/// With the figure, if it had not.
pub(crate) fn check_wait(before: (u64, u64), after: (u64, u64)) -> Result<(), Crowded> {
    let (ran, waited) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    let percent = waited.saturating_mul(100) / (ran + waited).max(1);
    if percent > WAITED_PERCENT_MAX { Err(Crowded { percent }) } else { Ok(()) }
}

/// The time that a thread ran and that it waited for a CPU, ns, from the text of its schedstat
/// (Documentation/scheduler/sched-stats.rst); `None` where the kernel counts neither.
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
        // The least of all has a calibration that was interrupted.
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
