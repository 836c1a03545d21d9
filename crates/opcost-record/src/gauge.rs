//! The report of `opcost-gauge`: cycles of kernels and of loops on the CPU that it ran on. A noisy kernel or loop has too few samples for a figure.

use crate::message::{Contents, Format, message};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The format.
static FORMAT: Format = Format {
    letter: b'g',
    name: "the gauge's report",
    peer: "opcost-gauge",
    empty: "opcost-gauge reported nothing",
    cut_short: "; opcost-gauge ended before it was done",
    bytes_max: 16 << 20,
    deflated: false,
};

/// The CPU that was measured.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Cpu {
    /// The maker, as in CPUID: `AuthenticAMD`.
    pub vendor: String,
    /// The family, with the extended family.
    pub family: u32,
    /// The model, with the extended model.
    pub model: u32,
    /// The stepping.
    pub stepping: u32,
    /// The brand; may be empty.
    pub brand: String,
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cpu { vendor, family, model, brand, .. } = self;
        match brand.as_str() {
            "" => write!(f, "{vendor} family {family} model {model}"),
            brand => write!(f, "{brand} ({vendor} family {family} model {model})"),
        }
    }
}

/// The counter of the cycles.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Clock {
    /// The time stamp counter, scaled by a chain of multiplications beside each sample.
    #[default]
    Tsc,
    /// The event `cycles:u`.
    Pmu,
}

impl Clock {
    /// The counter in a word.
    pub fn word(self) -> &'static str {
        match self {
            Clock::Tsc => "tsc",
            Clock::Pmu => "cycles:u",
        }
    }
}

/// A kernel and its build.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct KernelName {
    /// The class, `sorting`.
    pub class: String,
    /// The kernel, `heapsort`.
    pub kernel: String,
    /// The compiler and its level, `gcc-O1`.
    pub build: String,
}

impl KernelName {
    /// The name of the kernel's region in a marked program: `sorting:heapsort@gcc-O1`.
    pub fn region(&self) -> String {
        format!("{}:{}@{}", self.class, self.kernel, self.build)
    }

    /// The kernel of a region; `None` if the name is not of this form.
    pub fn of_region(region: &str) -> Option<KernelName> {
        let (class, rest) = region.split_once(':')?;
        let (kernel, build) = rest.split_once('@')?;
        let [class, kernel, build] = [class, kernel, build].map(str::to_string);
        Some(KernelName { class, kernel, build })
    }
}

/// The measurement of a kernel or loop.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Measured {
    /// The number of samples kept.
    pub kept: u32,
    /// The number of samples taken.
    pub taken: u32,
    /// Thousandths of cycles of a call or operation; `None` if too few samples were kept.
    pub cycles_milli: Option<u64>,
}

/// A report.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct GaugeReport {
    /// The CPU.
    pub cpu: Cpu,
    /// The counter of the cycles.
    pub clock: Clock,
    /// Kernels in the order in which they were measured.
    pub kernels: Vec<(KernelName, Measured)>,
    /// Kernels that need instructions this CPU lacks, with those instructions.
    pub left_out: Vec<(KernelName, String)>,
    /// Loops by key.
    pub loops: Vec<(String, Measured)>,
}

impl Contents for GaugeReport {
    fn check(&self) -> Result<(), &'static str> {
        let kernels = self.kernels.iter().map(|(_, measured)| measured);
        let mut all = kernels.chain(self.loops.iter().map(|(_, measured)| measured));
        match all.any(|measured| measured.kept > measured.taken) {
            true => Err("more samples kept than taken"),
            false => Ok(()),
        }
    }
}

message!(GaugeReport, FORMAT);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::tests::{check_message, contradiction};

    fn name(class: &str, kernel: &str, build: &str) -> KernelName {
        let [class, kernel, build] = [class, kernel, build].map(str::to_string);
        KernelName { class, kernel, build }
    }

    pub(crate) fn sample() -> GaugeReport {
        let full = Measured { kept: 38, taken: 40, cycles_milli: Some(104_211_530) };
        let noisy = Measured { kept: 3, taken: 40, cycles_milli: None };
        GaugeReport {
            cpu: Cpu {
                vendor: "AuthenticAMD".into(),
                family: 25,
                model: 17,
                stepping: 1,
                brand: "AMD EPYC 9".into(),
            },
            clock: Clock::Pmu,
            kernels: vec![
                (name("sorting", "heapsort", "gcc-O1"), full),
                (name("sorting", "bubble", "gcc-O1"), noisy),
            ],
            left_out: vec![(name("wide", "fused_dot", "gcc-O3"), "x86-64-v3".into())],
            loops: vec![("latency.add".into(), full), ("latency.imul".into(), noisy)],
        }
    }

    #[test]
    fn a_report_is_read_whole_or_not_at_all() {
        let mut report = sample();
        check_message(&FORMAT, &report);
        report.kernels[0].1.kept = 41;
        assert_eq!(contradiction(&FORMAT, &report), "more samples kept than taken");
    }

    #[test]
    fn a_cpu_without_a_brand_has_its_makers_numbers() {
        let mut cpu = sample().cpu;
        assert_eq!(cpu.to_string(), "AMD EPYC 9 (AuthenticAMD family 25 model 17)");
        cpu.brand.clear();
        assert_eq!(cpu.to_string(), "AuthenticAMD family 25 model 17");
    }

    #[test]
    fn a_region_names_its_kernel() {
        let kernel = name("sorting", "heapsort", "gcc-O1");
        assert_eq!(kernel.region(), "sorting:heapsort@gcc-O1");
        assert_eq!(KernelName::of_region(&kernel.region()), Some(kernel));
        assert_eq!(KernelName::of_region("sorting:heapsort"), None);
        assert_eq!(KernelName::of_region("work"), None);
    }
}
