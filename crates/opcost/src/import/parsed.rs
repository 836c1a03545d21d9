//! What a file of another tool says, in the words of the tool.

use crate::plan::{Claim, Formula, Omission};
use opcost_record::Better;
use opcost_record::printable::printable;

/// A file to read.
pub struct Input<'a> {
    /// Its path, which some tools put the name of a benchmark into.
    pub path: &'a std::path::Path,
    /// Its text.
    pub text: &'a str,
}

/// The figures of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The tool, where the file says more than the format does.
    pub tool: Option<String>,
    /// The version of the tool.
    pub version: Option<String>,
    /// When the figures were made, as the file says it.
    pub date: Option<String>,
    /// Model of the CPU.
    pub cpu: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Name of the experiment.
    pub experiment: Option<String>,
    /// The question it answers.
    pub question: Option<String>,
    /// The metric that decides.
    pub primary: Option<String>,
    /// Threads that the work ran on, which bound its CPU time.
    pub threads: Option<u32>,
    /// The figures.
    pub series: Vec<Series>,
    /// What was not taken over.
    pub omitted: Vec<Omission>,
    /// What was published about the figures.
    pub claims: Vec<Claim>,
    /// Figures that were published as following from others.
    pub formulas: Vec<Formula>,
}

impl Parsed {
    /// The same with every name as it may be shown: a file can hold whatever moves a terminal's cursor.
    pub(super) fn printable(mut self) -> Parsed {
        let mut texts: Vec<&mut String> = [
            &mut self.tool,
            &mut self.version,
            &mut self.date,
            &mut self.cpu,
            &mut self.kernel,
            &mut self.experiment,
            &mut self.question,
            &mut self.primary,
        ]
        .into_iter()
        .flatten()
        .collect();
        for series in &mut self.series {
            texts.extend([&mut series.metric, &mut series.unit]);
            texts.extend([&mut series.case, &mut series.variant].into_iter().flatten());
        }
        for omitted in &mut self.omitted {
            texts.extend([&mut omitted.what, &mut omitted.why]);
        }
        for text in texts {
            *text = printable(text);
        }
        self
    }
}

/// Figures of one metric of one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The benchmark, command or test within the file; `None` where the file is about one thing.
    pub case: Option<String>,
    /// The variant, where the file names variants itself.
    pub variant: Option<String>,
    /// The metric, with its domain as in `cycles:u`.
    pub metric: String,
    /// Its unit as written; empty of what is counted.
    pub unit: String,
    /// Whether the figures are of one operation.
    pub per_op: bool,
    /// Which direction is better, where the format says it.
    pub better: Option<Better>,
    /// The figures, in the unit as written.
    pub data: Data,
    /// The line of the first, for errors.
    pub line: Option<usize>,
}

/// The figures of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Single runs in the order of the file, with their blocks where the file has blocks.
    Runs {
        /// The figures.
        values: Vec<f64>,
        /// The block of each run; empty where the file has none.
        blocks: Vec<u32>,
    },
    /// A mean.
    Mean {
        /// The mean.
        mean: f64,
        /// The standard deviation of the runs.
        sd: Option<f64>,
        /// Number of runs.
        n: Option<u64>,
    },
    /// A mean with its standard error, of an unknown number of runs.
    Error {
        /// The mean.
        mean: f64,
        /// The standard error of the mean.
        error: f64,
    },
}

impl Data {
    /// One run.
    pub fn run(value: f64) -> Data {
        Data::Runs { values: vec![value], blocks: Vec::new() }
    }

    /// Runs without blocks.
    pub fn runs(values: Vec<f64>) -> Data {
        Data::Runs { values, blocks: Vec::new() }
    }
}

impl Series {
    /// A series of a metric; the rest is set by who needs it.
    pub fn new(metric: &str, unit: &str, data: Data) -> Series {
        Series {
            case: None,
            variant: None,
            metric: metric.to_string(),
            unit: unit.to_string(),
            per_op: false,
            better: None,
            data,
            line: None,
        }
    }

    /// The same of a benchmark within the file.
    pub fn of(self, case: &str) -> Series {
        Series { case: Some(case.to_string()), ..self }
    }

    /// The same per operation.
    pub fn per_op(self) -> Series {
        Series { per_op: true, ..self }
    }

    /// The same with its line.
    pub fn at(self, line: usize) -> Series {
        Series { line: Some(line), ..self }
    }

    /// The same where more is better.
    pub fn higher(self) -> Series {
        Series { better: Some(Better::Higher), ..self }
    }
}
