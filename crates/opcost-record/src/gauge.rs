//! The report of `opcost-gauge`: cycles of kernels and of loops on the CPU that it ran on.
//!
//! ```text
//! opcost-gauge 1
//! cpu AuthenticAMD 25 17 1 AMD EPYC
//! clock tsc
//! kernel sorting heapsort gcc-O1 38 40 104211530
//! noisy sorting bubble gcc-O1 3 40
//! left-out wide fused_dot gcc-O3 x86-64-v3
//! loop latency.add 12 12 1001
//! noisy-loop latency.imul 1 12
//! end 7
//! ```
//!
//! A kernel's line ends with the number of samples kept, the number taken, and thousandths of cycles of one call. A loop's
//! line ends likewise, with cycles of one operation. A noisy kernel or loop has too few samples for a figure.

use crate::framing::{Fault, Format, TextError, number};
use std::fmt;

/// The format.
pub static FORMAT: Format = Format {
    header: "opcost-gauge 1",
    name: "the gauge's report",
    peer: "opcost-gauge",
    empty: "opcost-gauge reported nothing",
    cut_short: "; opcost-gauge ended before it was done",
    counted: true,
};

/// The CPU that was measured.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
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
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Clock {
    /// The time stamp counter, scaled by a chain of multiplications beside each sample.
    #[default]
    Tsc,
    /// The event `cycles:u`.
    Pmu,
}

impl Clock {
    /// The word in the report.
    pub fn word(self) -> &'static str {
        match self {
            Clock::Tsc => "tsc",
            Clock::Pmu => "cycles:u",
        }
    }
}

/// A kernel and its build.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
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
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Measured {
    /// The number of samples kept.
    pub kept: u32,
    /// The number of samples taken.
    pub taken: u32,
    /// Thousandths of cycles of a call or operation; `None` if too few samples were kept.
    pub cycles_milli: Option<u64>,
}

/// A report.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
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

impl GaugeReport {
    /// Writes the report as text.
    pub fn format(&self) -> String {
        let Cpu { vendor, family, model, stepping, brand } = &self.cpu;
        let cpu = format!("cpu {vendor} {family} {model} {stepping} {brand}");
        let mut lines = vec![cpu.trim_end().to_string(), format!("clock {}", self.clock.word())];
        let mut measured = |kind: &str, name: &str, measured: &Measured| {
            let Measured { kept, taken, cycles_milli } = measured;
            lines.push(match cycles_milli {
                Some(cycles) => format!("{kind} {name} {kept} {taken} {cycles}"),
                None if kind == "kernel" => format!("noisy {name} {kept} {taken}"),
                None => format!("noisy-{kind} {name} {kept} {taken}"),
            });
        };
        for (name, figures) in &self.kernels {
            measured("kernel", &words_of(name), figures);
        }
        for (key, figures) in &self.loops {
            measured("loop", key, figures);
        }
        for (name, needs) in &self.left_out {
            lines.push(format!("left-out {} {needs}", words_of(name)));
        }
        FORMAT.write(&lines)
    }

    /// Returns the text of a failure.
    pub fn format_error(message: &str) -> String {
        FORMAT.write_error(message)
    }

    /// Reads a report.
    ///
    /// # Errors
    /// The first fault, or the failure that opcost-gauge reported.
    pub fn parse(text: &str) -> Result<GaugeReport, TextError> {
        let mut report = GaugeReport::default();
        let (mut cpu, mut clock) = (false, false);
        FORMAT.read(text, |line| {
            let fields: Vec<&str> = line.split(' ').collect();
            match *fields.as_slice() {
                ["cpu", vendor, family, model, stepping, ref brand @ ..] => {
                    let [family, model, stepping] = [family, model, stepping].map(small);
                    report.cpu = Cpu {
                        vendor: vendor.to_string(),
                        family: family?,
                        model: model?,
                        stepping: stepping?,
                        brand: brand.join(" "),
                    };
                    cpu = true;
                }
                ["clock", word] => {
                    let known = [Clock::Tsc, Clock::Pmu].into_iter().find(|it| it.word() == word);
                    report.clock = known.ok_or("an unknown clock")?;
                    clock = true;
                }
                ["kernel", class, kernel, build, kept, taken, cycles] => {
                    let figures = figures(kept, taken, Some(cycles))?;
                    report.kernels.push((name(class, kernel, build), figures));
                }
                ["noisy", class, kernel, build, kept, taken] => {
                    let figures = figures(kept, taken, None)?;
                    report.kernels.push((name(class, kernel, build), figures));
                }
                ["loop", key, kept, taken, cycles] => {
                    report.loops.push((key.to_string(), figures(kept, taken, Some(cycles))?));
                }
                ["noisy-loop", key, kept, taken] => {
                    report.loops.push((key.to_string(), figures(kept, taken, None)?));
                }
                ["left-out", class, kernel, build, needs] => {
                    report.left_out.push((name(class, kernel, build), needs.to_string()));
                }
                _ => return Err("not a line of it"),
            }
            Ok(())
        })?;
        for (said, what) in [(cpu, "CPU"), (clock, "clock")] {
            if !said {
                return Err(FORMAT.error(Fault::Missing(what)));
            }
        }
        Ok(report)
    }
}

fn words_of(name: &KernelName) -> String {
    format!("{} {} {}", name.class, name.kernel, name.build)
}

fn name(class: &str, kernel: &str, build: &str) -> KernelName {
    let [class, kernel, build] = [class, kernel, build].map(str::to_string);
    KernelName { class, kernel, build }
}

fn small(field: &str) -> Result<u32, &'static str> {
    field.parse().map_err(|_| "not a number")
}

fn figures(kept: &str, taken: &str, cycles: Option<&str>) -> Result<Measured, &'static str> {
    let cycles_milli = cycles.map(number).transpose()?;
    let (kept, taken) = (small(kept)?, small(taken)?);
    if kept > taken {
        return Err("more samples kept than taken");
    }
    Ok(Measured { kept, taken, cycles_milli })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> GaugeReport {
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
    fn a_report_is_read_as_it_was_written() {
        let mut written = report();
        assert_eq!(GaugeReport::parse(&written.format()), Ok(written.clone()));
        assert_eq!(written.cpu.to_string(), "AMD EPYC 9 (AuthenticAMD family 25 model 17)");
        written.cpu.brand.clear();
        assert_eq!(written.cpu.to_string(), "AuthenticAMD family 25 model 17");
        written.clock = Clock::Tsc;
        assert_eq!(GaugeReport::parse(&written.format()), Ok(written));
    }

    #[test]
    fn a_region_names_its_kernel() {
        let kernel = name("sorting", "heapsort", "gcc-O1");
        assert_eq!(kernel.region(), "sorting:heapsort@gcc-O1");
        assert_eq!(KernelName::of_region(&kernel.region()), Some(kernel));
        assert_eq!(KernelName::of_region("sorting:heapsort"), None);
        assert_eq!(KernelName::of_region("work"), None);
    }

    #[test]
    fn what_is_not_a_report_is_refused_with_its_fault() {
        let fault = |text: &str| GaugeReport::parse(text).unwrap_err().to_string();
        assert_eq!(fault(""), "opcost-gauge reported nothing");
        let text = report().format();
        assert!(fault(&text[..text.len() - 6]).contains("ended before it was done"));
        assert!(fault(&text.replace("gauge 1", "gauge 2")).contains("different versions"));
        assert!(
            fault(&text.replace("clock cycles:u\n", "").replace("end 7", "end 6"))
                .ends_with("has no clock")
        );
        assert!(fault(&text.replace("heapsort", "heap sort")).contains("not a line of it"));
        assert!(fault(&text.replace("38 40", "41 40")).contains("more samples kept than taken"));
        assert!(fault(&text.replace("104211530", "many")).contains("not a number"));
        assert!(fault(&text.replace("cycles:u", "sundial")).contains("an unknown clock"));
        assert_eq!(fault(&GaugeReport::format_error("it is\nbusy")), "it is busy");
    }
}
