//! The program's jobs: times kernels, loops or a program, marks kernels as regions, lists kernels and loops.

use crate::clock::{CHAIN_CYCLES, Timer};
use crate::error::GaugeError;
use crate::kernel::{self, Kernel, ROUNDS, kernels};
use crate::loops::{self, Loop};
use crate::program;
use crate::sample::{self, Sample};
use opcost_record::gauge::{Cpu, GaugeReport};
use opcost_sys::affinity::{allowed_cpus, set_affinity};
use std::arch::x86_64::__cpuid;
use std::hint::black_box;

/// The job asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Job {
    Time,
    Loops,
    Mark,
    List,
    Program,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) job: Job,
    /// The command to time, given behind `--`.
    command: Vec<String>,
    /// Samples of each kernel or loop.
    repetitions: u64,
    /// Selects kernels and loops whose names contain this text.
    only: String,
    /// The CPU to run on; by default the last allowed CPU, as interrupts prefer the first.
    cpu: Option<usize>,
}

/// Repetitions by default.
const REPETITIONS: u64 = 40;

impl Arguments {
    /// Parses the command line, without the program's name.
    ///
    /// # Errors
    /// The command line is malformed.
    pub(crate) fn parse(words: &[String]) -> Result<Arguments, GaugeError> {
        let usage = |text: String| Err(GaugeError::Usage(text));
        let mut words = words.iter().map(String::as_str);
        let job = match words.next() {
            Some("time") => Job::Time,
            Some("loops") => Job::Loops,
            Some("mark") => Job::Mark,
            Some("list") => Job::List,
            Some("program") => Job::Program,
            Some(other) => return usage(format!("'{other}' is no command")),
            None => return usage("no command".into()),
        };
        let mut arguments = Arguments {
            job,
            command: Vec::new(),
            repetitions: REPETITIONS,
            only: String::new(),
            cpu: None,
        };
        while let Some(option) = words.next() {
            if option == "--" && job == Job::Program {
                arguments.command = words.map(str::to_string).collect();
                break;
            }
            let Some(value) = words.next() else { return usage(format!("{option} needs a value")) };
            let number = value.parse::<u32>();
            match (option, number) {
                ("--repetitions", Ok(number)) if number > 0 => {
                    arguments.repetitions = number.into()
                }
                ("--cpu", Ok(number)) => arguments.cpu = Some(number as usize),
                ("--only", _) => arguments.only = value.to_string(),
                ("--repetitions" | "--cpu", _) => {
                    return usage(format!("{option} cannot be '{value}'"));
                }
                _ => return usage(format!("'{option}' is no option")),
            }
        }
        Ok(arguments)
    }

    fn kernels(&self) -> Vec<&'static Kernel> {
        kernels().iter().filter(|kernel| kernel.name.region().contains(&self.only)).collect()
    }

    fn loops(&self) -> Vec<Loop> {
        loops::all().into_iter().filter(|it| it.key.contains(&self.only)).collect()
    }

    /// Returns `all`, or an error if there is nothing to do.
    fn some<T>(&self, all: Vec<T>) -> Result<Vec<T>, GaugeError> {
        if all.is_empty() { Err(GaugeError::Nothing(self.only.clone())) } else { Ok(all) }
    }

    /// Pins this thread to one CPU, as each CPU has its own speed and caches.
    fn settle(&self) -> Result<(), GaugeError> {
        let last = || allowed_cpus().ok().and_then(|cpus| cpus.last().copied()).unwrap_or_default();
        let cpu = self.cpu.unwrap_or_else(last);
        set_affinity(cpu).map_err(|error| GaugeError::Cpu { cpu, error })
    }
}

/// Times each kernel.
///
/// # Errors
/// The machine is too loaded, the clock cannot be read any more, or a kernel computed a wrong sum.
pub(crate) fn time(arguments: &Arguments) -> Result<GaugeReport, GaugeError> {
    arguments.settle()?;
    let all = arguments.some(arguments.kernels())?;
    let (usable, lacking): (Vec<&Kernel>, _) = all.into_iter().partition(|it| it.lacks().is_none());
    let timer = Timer::new();
    check(&usable)?;
    let scheduled = scheduled();
    let mut samples: Vec<Vec<Sample>> = usable.iter().map(|_| Vec::new()).collect();
    // Kernels are interleaved: a disturbance of some milliseconds spoils one sample of several kernels, not all samples of one.
    for repetition in 0..arguments.repetitions {
        kernel::refresh(repetition);
        for (kernel, samples) in usable.iter().zip(&mut samples) {
            kernel.before();
            black_box(kernel.run(2 * repetition));
            kernel.before();
            samples.push(timer.sample(|| {
                black_box(kernel.run(2 * repetition + 1));
            })?);
        }
    }
    waited_since(scheduled)?;
    let names = usable.iter().map(|kernel| kernel.name.clone());
    let figures = samples.iter().map(|samples| sample::measured(samples, CHAIN_CYCLES));
    let report = GaugeReport {
        cpu: cpu(),
        clock: timer.clock(),
        kernels: names.zip(figures).collect(),
        left_out: lacking
            .iter()
            .filter_map(|kernel| Some((kernel.name.clone(), kernel.lacks()?.to_string())))
            .collect(),
        loops: Vec::new(),
    };
    sample::check_load(report.kernels.iter().map(|(_, figures)| figures))?;
    Ok(report)
}

/// Times each loop; the figures are those of one operation.
///
/// # Errors
/// The machine is too loaded, or the clock cannot be read any more.
pub(crate) fn loops(arguments: &Arguments) -> Result<GaugeReport, GaugeError> {
    arguments.settle()?;
    let all = arguments.some(arguments.loops())?;
    // Loops that chase through the outer levels of memory use the kernels' data.
    kernels();
    let timer = Timer::new();
    let scheduled = scheduled();
    let mut samples: Vec<[Vec<Sample>; 2]> = all.iter().map(|_| [Vec::new(), Vec::new()]).collect();
    for repetition in 0..arguments.repetitions {
        kernel::refresh(repetition);
        for (it, samples) in all.iter().zip(&mut samples) {
            it.before();
            it.run(loops::LONG);
            for (times, samples) in [1, loops::LONG].into_iter().zip(samples) {
                it.before();
                samples.push(timer.sample(|| it.run(times))?);
            }
        }
    }
    waited_since(scheduled)?;
    let figures = all.iter().zip(&samples).map(|(it, samples)| {
        let [short, long] = samples.each_ref().map(|it| sample::measured(it, CHAIN_CYCLES));
        (it.key.clone(), it.of_one(short, long))
    });
    let report = GaugeReport {
        cpu: cpu(),
        clock: timer.clock(),
        loops: loops::combine(&all, figures.collect()),
        ..GaugeReport::default()
    };
    sample::check_load(report.loops.iter().map(|(_, figures)| figures))?;
    Ok(report)
}

/// Times a whole program. The result is `cycles 104211530 kept 9 of 12`, or `noisy kept 1 of 12`.
///
/// # Errors
/// The program cannot be run or fails, or this thread cannot be pinned to the CPU.
pub(crate) fn program(arguments: &Arguments) -> Result<String, GaugeError> {
    arguments.settle()?;
    let measured = program::program(&arguments.command, arguments.repetitions)?;
    let cycles = measured.cycles_milli.map(|milli| format!("cycles {}", milli / 1000));
    let cycles = cycles.unwrap_or_else(|| "noisy".into());
    Ok(format!("{cycles} kept {} of {}\n", measured.kept, measured.taken))
}

/// Runs each kernel once, and then once more in a region of its own.
///
/// # Errors
/// A kernel computed a wrong sum.
pub(crate) fn mark(arguments: &Arguments) -> Result<String, GaugeError> {
    let expected = kernel::expected();
    for kernel in arguments.some(arguments.kernels())? {
        if kernel.lacks().is_some() {
            continue;
        }
        let [first, second] = ROUNDS;
        kernel.before();
        let warm = kernel.run(first);
        kernel.before();
        let region = opcost_region::begin(kernel.name.region());
        let found = kernel.run(second);
        region.end(0);
        kernel::check(&kernel.name, warm.wrapping_add(found), &expected)?;
    }
    Ok(String::new())
}

/// The names of kernels and loops, one a line.
pub(crate) fn list(arguments: &Arguments) -> String {
    let kernels = arguments.kernels().into_iter().map(|kernel| match kernel.lacks() {
        None => format!("kernel {}\n", kernel.name.region()),
        Some(lacks) => format!("kernel {} needs {lacks}\n", kernel.name.region()),
    });
    let loops = arguments.loops().into_iter().map(|it| format!("loop {}\n", it.key));
    kernels.chain(loops).collect()
}

fn check(kernels: &[&Kernel]) -> Result<(), GaugeError> {
    let expected = kernel::expected();
    for kernel in kernels {
        let found = ROUNDS.iter().fold(0_u64, |sum, round| sum.wrapping_add(kernel.run(*round)));
        kernel::check(&kernel.name, found, &expected)?;
    }
    Ok(())
}

/// How long this thread has run and waited, if the kernel counts both.
fn scheduled() -> Option<(u64, u64)> {
    sample::schedstat(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Returns an error if this thread waited for its CPU too long since `before`.
fn waited_since(before: Option<(u64, u64)>) -> Result<(), GaugeError> {
    match before.zip(scheduled()) {
        Some((before, after)) => Ok(sample::check_wait(before, after)?),
        None => Ok(()),
    }
}

/// This CPU as CPUID names it (AMD APM volume 3, appendix E; Intel SDM volume 2, CPUID).
fn cpu() -> Cpu {
    let bytes = |words: &[u32]| -> String {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = String::from_utf8_lossy(&bytes);
        text.trim_matches(['\0', ' ']).replace(char::is_control, "")
    };
    let zero = __cpuid(0);
    let signature = __cpuid(1).eax;
    let (family, model) = (signature >> 8 & 15, signature >> 4 & 15);
    let extended = if family == 15 || family == 6 { signature >> 16 & 15 } else { 0 };
    let brand = if __cpuid(0x8000_0000).eax >= 0x8000_0004 {
        let leaves = [0x8000_0002, 0x8000_0003, 0x8000_0004].map(__cpuid);
        bytes(&leaves.map(|it| [it.eax, it.ebx, it.ecx, it.edx]).concat())
    } else {
        String::new()
    };
    Cpu {
        vendor: bytes(&[zero.ebx, zero.edx, zero.ecx]).replace(' ', "-"),
        family: if family == 15 { family + (signature >> 20 & 255) } else { family },
        model: extended << 4 | model,
        stepping: signature & 15,
        brand: brand.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Arguments::parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_line_is_read() {
        let arguments = parsed("time --repetitions 3 --only sorting --cpu 1").unwrap();
        let expected = Arguments {
            job: Job::Time,
            command: Vec::new(),
            repetitions: 3,
            only: "sorting".into(),
            cpu: Some(1),
        };
        assert_eq!(arguments, expected);
        let program = parsed("program --repetitions 5 -- gzip -9 --cpu x").unwrap();
        assert_eq!((program.job, program.repetitions), (Job::Program, 5));
        assert_eq!(program.command, ["gzip", "-9", "--cpu", "x"]);
        assert_eq!(parsed("list").unwrap().repetitions, REPETITIONS);
    }

    #[test]
    fn a_wrong_command_line_is_refused() {
        for (line, what) in [
            ("", "no command; usage"),
            ("tell", "'tell' is no command"),
            ("time --only", "--only needs a value"),
            ("time --repetitions 0", "--repetitions cannot be '0'"),
            ("time --cpu x", "--cpu cannot be 'x'"),
            ("time --fast 1", "'--fast' is no option"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.starts_with(what), "{line}: {error}");
        }
    }

    #[test]
    fn the_cpu_has_a_name_of_one_word_and_a_family() {
        let cpu = cpu();
        assert!(!cpu.vendor.is_empty() && !cpu.vendor.contains(' '), "{cpu:?}");
        assert!(cpu.family > 0, "{cpu:?}");
    }
}
