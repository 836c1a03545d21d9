//! The true cycles of kernels, from several runs of opcost-gauge.

use opcost_record::gauge::{GaugeReport, KernelName};
use std::collections::BTreeMap;

/// True cycles by kernel.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Truth {
    /// The median of the runs, in thousandths of cycles.
    pub kernels: BTreeMap<KernelName, u64>,
    /// Kernels with too few samples in most runs.
    pub noisy: Vec<KernelName>,
    /// Kernels that need instructions which this CPU lacks.
    pub left_out: Vec<KernelName>,
    /// Numbers of samples taken and kept in all runs.
    pub samples: (u64, u64),
}

/// The error that the machine was too loaded: too many kernels have no figure.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "this machine is too loaded for a validation: {noisy} of {kernels} kernels have no figure, as the speed of the core changed or another program \
     had the CPU in {dropped} of {taken} samples; stop other programs (ps -e --sort -pcpu lists them) and try again"
)]
pub struct Loaded {
    /// Number of kernels without a figure.
    pub noisy: usize,
    /// Number of all kernels.
    pub kernels: usize,
    /// Number of dropped samples.
    pub dropped: u64,
    /// Number of taken samples.
    pub taken: u64,
}

/// The share of kernels that may lack a figure, percent.
const NOISY_PERCENT_MAX: usize = 10;

impl Truth {
    /// The median of each kernel over the runs that measured it, which must be more than half of the runs.
    ///
    /// # Errors
    /// Too many kernels have no figure.
    pub fn of(reports: &[GaugeReport]) -> Result<Truth, Loaded> {
        let mut figures: BTreeMap<&KernelName, Vec<u64>> = BTreeMap::new();
        let mut truth = Truth::default();
        for (name, measured) in reports.iter().flat_map(|report| &report.kernels) {
            figures.entry(name).or_default().extend(measured.cycles_milli);
            truth.samples.0 += u64::from(measured.taken);
            truth.samples.1 += u64::from(measured.kept);
        }
        for (name, mut figures) in figures {
            figures.sort_unstable();
            if figures.len() * 2 > reports.len() {
                truth.kernels.insert(name.clone(), figures[(figures.len() - 1) / 2]);
            } else {
                truth.noisy.push(name.clone());
            }
        }
        truth.left_out.extend(
            reports
                .first()
                .into_iter()
                .flat_map(|it| it.left_out.iter().map(|(name, _)| name.clone())),
        );
        let (noisy, kernels) = (truth.noisy.len(), truth.noisy.len() + truth.kernels.len());
        if noisy * 100 > kernels * NOISY_PERCENT_MAX {
            let (taken, kept) = truth.samples;
            return Err(Loaded { noisy, kernels, dropped: taken - kept, taken });
        }
        Ok(truth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_record::gauge::Measured;

    fn name(kernel: &str) -> KernelName {
        KernelName { class: "made".into(), kernel: kernel.into(), build: "gcc-O1".into() }
    }

    fn run(figures: &[(&str, Option<u64>)]) -> GaugeReport {
        let measured = |cycles_milli: Option<u64>| Measured {
            kept: if cycles_milli.is_some() { 38 } else { 2 },
            taken: 40,
            cycles_milli,
        };
        let kernels = figures.iter().map(|(kernel, cycles)| (name(kernel), measured(*cycles)));
        GaugeReport { kernels: kernels.collect(), ..GaugeReport::default() }
    }

    #[test]
    fn the_truth_is_the_median_of_the_runs() {
        let mut first = run(&[("a", Some(10)), ("b", Some(7))]);
        first.left_out.push((name("c"), "x86-64-v3".into()));
        let others =
            [run(&[("a", Some(90)), ("b", None)]), run(&[("a", Some(11)), ("b", Some(5))])];
        let truth = Truth::of(&[first, others[0].clone(), others[1].clone()]).unwrap();
        // The lower of two figures is taken, as disturbances make runs slower.
        assert_eq!(truth.kernels, [(name("a"), 11), (name("b"), 5)].into());
        assert_eq!((truth.noisy, truth.left_out), (vec![], vec![name("c")]));
        assert_eq!(truth.samples, (240, 192));
    }

    #[test]
    fn a_machine_that_disturbed_most_runs_is_refused_with_the_figures() {
        let many: Vec<String> = (0..10).map(|i| format!("k{i}")).collect();
        let with = |noisy: usize| {
            let of = |(i, kernel): (usize, &'_ String)| (kernel.clone(), (i >= noisy).then_some(9));
            let figures: Vec<(String, Option<u64>)> = many.iter().enumerate().map(of).collect();
            let figures: Vec<(&str, Option<u64>)> =
                figures.iter().map(|(kernel, cycles)| (kernel.as_str(), *cycles)).collect();
            run(&figures)
        };
        let truth = Truth::of(&[with(1), with(1), with(0)]).unwrap();
        assert_eq!((truth.kernels.len(), truth.noisy.len()), (9, 1));
        let loaded = Truth::of(&[with(2), with(2), with(0)]).unwrap_err();
        assert_eq!(loaded, Loaded { noisy: 2, kernels: 10, dropped: 204, taken: 1200 });
        let said = loaded.to_string();
        assert!(said.contains("2 of 10 kernels") && said.contains("204 of 1200 samples"), "{said}");
    }
}
