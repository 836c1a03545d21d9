//! Benchmarks of Catch2's XML reporter (`-r xml`), versions 2 and 3: means and deviations in nanoseconds
//! (<https://github.com/catchorg/Catch2/blob/devel/docs/benchmarks.md>).

use super::parsed::{Data, Input, Parsed, Series};
use super::problem::{Problem, ProblemKind, number};
use opcost_model::plan::Omission;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// The name of the format in errors.
const NAME: &str = "Catch2's XML";

pub(super) fn detect(text: &str) -> bool {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    start.starts_with('<') && (text.contains("<Catch ") || text.contains("<Catch2TestRun"))
}

/// A benchmark that is being read.
#[derive(Default)]
struct Benchmark {
    name: String,
    line: usize,
    samples: Option<u64>,
    mean: Option<f64>,
    deviation: Option<f64>,
    failed: Option<String>,
}

pub(super) fn read(input: &Input<'_>) -> Result<Parsed, Problem> {
    let mut parsed = Parsed::default();
    let mut reader = Reader::from_str(input.text);
    let mut case: Option<String> = None;
    let mut open: Option<Benchmark> = None;
    let mut found: Vec<(Option<String>, Benchmark)> = Vec::new();
    let mut depth = 0usize;
    let mut lines = Lines { text: input.text, at: 0, line: 1 };
    loop {
        let before = reader.buffer_position();
        let event = reader.read_event();
        input.budget.step(reader.buffer_position() - before)?;
        let line = lines.at(reader.buffer_position() as usize);
        let wrong = |why: String| Problem {
            line: Some(line),
            kind: ProblemKind::Foreign { format: NAME, why },
        };
        let event = event.map_err(|error| match error {
            quick_xml::Error::Syntax(error) => {
                Problem::at(line, ProblemKind::Truncated(error.to_string()))
            }
            other => wrong(other.to_string()),
        })?;
        let (tag, is_empty) = match event {
            Event::Start(tag) => (tag, false),
            Event::Empty(tag) => (tag, true),
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                match tag.name().as_ref() {
                    "TestCase" => case = None,
                    "BenchmarkResults" => {
                        found.extend(open.take().map(|benchmark| (case.clone(), benchmark)));
                    }
                    _ => {}
                }
                continue;
            }
            Event::Eof if depth > 0 => {
                let what = format!("{depth} elements are open");
                return Err(Problem::at(line, ProblemKind::Truncated(what)));
            }
            Event::Eof => break,
            _ => continue,
        };
        let attribute = |name: &str| attribute(&tag, name).map_err(wrong);
        match (tag.name().as_ref(), &mut open) {
            ("Catch2TestRun", _) => parsed.version = attribute("catch2-version")?,
            ("TestCase", _) => case = attribute("name")?,
            ("BenchmarkResults", _) => {
                let name = attribute("name")?.unwrap_or_default();
                // A failed benchmark has no samples.
                let samples = attribute("samples")?.map(|text| {
                    let samples = text.trim().parse().ok().filter(|samples| *samples > 0);
                    samples.ok_or_else(|| {
                        let what = format!("the samples of {name}");
                        Problem::at(line, ProblemKind::NoNumber { what, text })
                    })
                });
                let samples = samples.transpose()?;
                open = Some(Benchmark { name, line, samples, ..Benchmark::default() });
            }
            ("mean", Some(benchmark)) => {
                benchmark.mean = value(&benchmark.name, attribute("value")?, line)?;
            }
            ("standardDeviation", Some(benchmark)) => {
                benchmark.deviation = value(&benchmark.name, attribute("value")?, line)?;
            }
            ("failed", Some(benchmark)) => {
                benchmark.failed = Some(attribute("message")?.unwrap_or_default());
            }
            _ => {}
        }
        if !is_empty {
            depth += 1;
        }
    }
    add(&mut parsed, &found);
    Ok(parsed)
}

/// Adds the benchmarks to the result.
fn add(parsed: &mut Parsed, found: &[(Option<String>, Benchmark)]) {
    for (case, benchmark) in found {
        // Benchmarks of several test cases may have the same name.
        let several = found.iter().filter(|(_, other)| other.name == benchmark.name).count() > 1;
        let name = match case {
            Some(case) if several => format!("{case}: {}", benchmark.name),
            _ => benchmark.name.clone(),
        };
        let Some(mean) = benchmark.mean.filter(|_| benchmark.failed.is_none()) else {
            let why = match &benchmark.failed {
                Some(message) => format!("it failed: {message}"),
                None => {
                    "it has no mean (-r xml writes one unless --benchmark-no-analysis is given)"
                        .into()
                }
            };
            parsed.omitted.push(Omission::new(name, why));
            continue;
        };
        let data = Data::Mean { mean, sd: benchmark.deviation, n: benchmark.samples };
        parsed.series.push(Series::new("wall", "ns", data).of(&name).per_op().at(benchmark.line));
    }
    if !parsed.series.is_empty() {
        let why = "Catch2 writes their mean and deviation, and no sample by itself";
        parsed.omitted.push(Omission::new("the single samples", why));
    }
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Result<Option<String>, String> {
    let found = tag.try_get_attribute(name).map_err(|error| error.to_string())?;
    let text = found.map(|found| {
        found.normalized_value(XmlVersion::Implicit1_0).map_err(|error| error.to_string())
    });
    Ok(text.transpose()?.map(|text| text.into_owned()))
}

/// A figure of a benchmark; `None` if the text is absent.
fn value(benchmark: &str, text: Option<String>, line: usize) -> Result<Option<f64>, Problem> {
    let what = format!("a figure of {benchmark}");
    text.map(|text| number(&what, &text, line)).transpose()
}

/// Converts byte offsets, given in ascending order, to line numbers.
struct Lines<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, place: usize) -> usize {
        let place = place.clamp(self.at, self.text.len());
        let passed = &self.text.as_bytes()[self.at..place];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.at = place;
        self.line
    }
}
