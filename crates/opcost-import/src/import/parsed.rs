//! The contents of another tool's file, in the words of the tool.

use super::problem::Problem;
use opcost_model::plan::{Claim, Formula, Omission};
use opcost_record::Better;
use opcost_record::printable::printable;
use opcost_sys::budget::Budget;
use serde::de::DeserializeOwned;
use std::io::BufReader;

/// A file to read.
pub struct Input<'a> {
    /// The file's path, which contains the benchmark's name for some tools.
    pub path: &'a std::path::Path,
    /// The file's text.
    pub text: &'a str,
    /// The budget of reading.
    pub budget: &'a Budget,
}

/// The memory that a byte of a line may take while the line is in fields.
const FIELD_BYTES: u64 = 16;

impl<'a> Input<'a> {
    /// Draws a line from the budget, with room for its fields.
    pub(super) fn take_line(&self, line: &str) -> Result<(), Problem> {
        let bytes = line.len() as u64;
        if bytes > 1 << 16 {
            self.budget.room(bytes * FIELD_BYTES)?;
        }
        Ok(self.budget.step(bytes)?)
    }

    /// The lines with their numbers, from 1. A last line without an end may have been cut short, so it is left out and noted.
    pub(super) fn whole_lines(
        &self,
        parsed: &mut Parsed,
    ) -> Result<impl Iterator<Item = (usize, &'a str)> + use<'a>, Problem> {
        let (whole, cut) = self.text.rsplit_once('\n').unwrap_or(("", self.text));
        whole.lines().try_for_each(|line| self.take_line(line))?;
        if !cut.trim().is_empty() {
            let why = "it does not end, so it may have been cut short";
            parsed.omitted.push(Omission::new("the last line", why));
        }
        Ok((1..).zip(whole.lines()))
    }

    /// Parses JSON, value by value: a short text can have many values.
    pub(super) fn json<T: DeserializeOwned>(&self, format: &'static str) -> Result<T, Problem> {
        let text = BufReader::new(self.budget.reader(self.text.as_bytes()));
        serde_json::from_reader(text).map_err(|error| Problem::json(format, error))
    }
}

/// The figures of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// The tool, if the file is more specific than the format.
    pub tool: Option<String>,
    /// The version of the tool.
    pub version: Option<String>,
    /// The time when the figures were made, as the file gives it.
    pub date: Option<String>,
    /// Model of the CPU.
    pub cpu: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Name of the experiment.
    pub experiment: Option<String>,
    /// The question that the experiment answers.
    pub question: Option<String>,
    /// The metric that decides.
    pub primary: Option<String>,
    /// Number of threads of the work, which limits its CPU time.
    pub threads: Option<u32>,
    /// The figures.
    pub series: Vec<Series>,
    /// Contents of the file that were not taken over.
    pub omitted: Vec<Omission>,
    /// Published claims about the figures.
    pub claims: Vec<Claim>,
    /// Formulas published for figures that follow from others.
    pub formulas: Vec<Formula>,
}

impl Parsed {
    /// Makes every name printable: a file may contain codes that move a terminal's cursor.
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

/// The figures of one metric and one benchmark or variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The benchmark, command or test within the file; `None` if the file is about one only.
    pub case: Option<String>,
    /// The variant, if the file names variants itself.
    pub variant: Option<String>,
    /// The metric, with its domain as in `cycles:u`.
    pub metric: String,
    /// The unit as written; empty for counts.
    pub unit: String,
    /// Whether the figures are per operation.
    pub per_op: bool,
    /// The direction that is better, if the format gives it.
    pub better: Option<Better>,
    /// The figures, in the unit as written.
    pub data: Data,
    /// The line of the first figure, for errors.
    pub line: Option<usize>,
}

/// The figures of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Single runs in the order of the file, with their blocks if the file has blocks.
    Runs {
        /// The figures.
        values: Vec<f64>,
        /// The block of each run; empty if the file has no blocks.
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
    /// A mean with its standard error; the number of runs is unknown.
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
    /// A series of a metric; the caller sets the other fields as needed.
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

    /// Sets the benchmark within the file.
    pub fn of(self, case: &str) -> Series {
        Series { case: Some(case.to_string()), ..self }
    }

    /// Marks the figures as per operation.
    pub fn per_op(self) -> Series {
        Series { per_op: true, ..self }
    }

    /// Sets the line.
    pub fn at(self, line: usize) -> Series {
        Series { line: Some(line), ..self }
    }

    /// Marks more as better.
    pub fn higher(self) -> Series {
        Series { better: Some(Better::Higher), ..self }
    }
}
