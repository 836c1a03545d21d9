//! Importers for the results of other tools: one file and one row of [`FORMATS`] for each format.
//!
//! A reader turns text into [`Parsed`], the figures in the tool's own words, and opens no file.
//! [`assemble`](assemble()) then gives the figures of all files their variants, metrics and units.
//!
//! **An XML parser is a dependency (quick-xml).** Catch2's reports hold what a test printed, with every escape of XML. The
//! parser reads them event by event, so a file cannot nest too deep for it.

pub mod assemble;
mod benchfmt;
mod benchmark_dotnet;
mod benchmark_js;
mod bonnie;
mod catch2;
mod criterion;
pub mod criterion_folder;
mod fio;
mod go_test_json;
mod google_benchmark;
mod hyperfine;
mod hyperfine_csv;
mod jmh;
mod lmbench;
mod mitata;
mod opcost_json;
pub mod parsed;
mod perf_bench;
mod perf_stat_csv;
mod perf_stat_json;
mod perf_stat_text;
pub mod problem;
mod published;
mod pyperf;
mod pytest_benchmark;
mod samples;
mod summary;
mod sysbench;
pub mod unit;
mod vitest;
mod will_it_scale;

pub use assemble::{Assembled, Options, ReadFile, assemble};

use parsed::{Input, Parsed};
use problem::{Problem, ProblemKind};

/// A format that opcost can read.
pub struct ImportFormat {
    /// The name, as `--format` takes it.
    pub name: &'static str,
    /// A description for help texts.
    pub help: &'static str,
    /// Whether a text seems to have this format.
    detect: fn(&str) -> bool,
    read: fn(&Input<'_>) -> Result<Parsed, Problem>,
}

/// Every format; the first that recognises a file reads it.
pub static FORMATS: &[ImportFormat] = &[
    ImportFormat {
        name: "opcost",
        help: "opcost's own JSON (--export-json) of any machine",
        detect: opcost_json::detect,
        read: opcost_json::read,
    },
    ImportFormat {
        name: "go-test-json",
        help: "go test -json -bench: Go's benchmark lines in events",
        detect: go_test_json::detect,
        read: go_test_json::read,
    },
    ImportFormat {
        name: "jmh",
        help: "JMH's JSON (-rf json): a figure for each fork",
        detect: jmh::detect,
        read: jmh::read,
    },
    ImportFormat {
        name: "benchmark-dotnet",
        help: "BenchmarkDotNet's JSON (--exporters json)",
        detect: benchmark_dotnet::detect,
        read: benchmark_dotnet::read,
    },
    ImportFormat {
        name: "vitest",
        help: "vitest bench --outputJson",
        detect: vitest::detect,
        read: vitest::read,
    },
    ImportFormat {
        name: "mitata",
        help: "mitata's JSON (run({ format: 'json' }))",
        detect: mitata::detect,
        read: mitata::read,
    },
    ImportFormat {
        name: "benchmark-js",
        help: "JSON of Benchmark.js (JSON.stringify(suite)) and benny",
        detect: benchmark_js::detect,
        read: benchmark_js::read,
    },
    ImportFormat {
        name: "fio",
        help: "fio --output-format=json: rates and latencies of jobs",
        detect: fio::detect,
        read: fio::read,
    },
    ImportFormat {
        name: "hyperfine",
        help: "hyperfine --export-json",
        detect: hyperfine::detect,
        read: hyperfine::read,
    },
    ImportFormat {
        name: "google-benchmark",
        help: "google-benchmark --benchmark_format=json",
        detect: google_benchmark::detect,
        read: google_benchmark::read,
    },
    ImportFormat {
        name: "pytest-benchmark",
        help: "pytest --benchmark-json, also --benchmark-save",
        detect: pytest_benchmark::detect,
        read: pytest_benchmark::read,
    },
    ImportFormat {
        name: "pyperf",
        help: "pyperf's JSON (-o): a figure for each process",
        detect: pyperf::detect,
        read: pyperf::read,
    },
    ImportFormat {
        name: "catch2",
        help: "Catch2's XML reporter (-r xml): means and deviations",
        detect: catch2::detect,
        read: catch2::read,
    },
    ImportFormat {
        name: "criterion",
        help: "criterion's folder, its sample.json or estimates.json",
        detect: criterion::detect,
        read: criterion::read,
    },
    ImportFormat {
        name: "perf-stat-json",
        help: "perf stat -j, also of repeated runs (-r, with --runs)",
        detect: perf_stat_json::detect,
        read: perf_stat_json::read,
    },
    ImportFormat {
        name: "perf-stat",
        help: "what perf stat prints, also repeated (-r) and in intervals (-I)",
        detect: perf_stat_text::detect,
        read: perf_stat_text::read,
    },
    ImportFormat {
        name: "sysbench",
        help: "what sysbench prints: rates and latencies",
        detect: sysbench::detect,
        read: sysbench::read,
    },
    ImportFormat {
        name: "perf-bench",
        help: "what perf bench prints",
        detect: perf_bench::detect,
        read: perf_bench::read,
    },
    ImportFormat {
        name: "will-it-scale",
        help: "what a will-it-scale test or its runtest.py prints",
        detect: will_it_scale::detect,
        read: will_it_scale::read,
    },
    ImportFormat {
        name: "benchfmt",
        help: "Go benchmark lines (go test -bench, benchstat)",
        detect: benchfmt::detect,
        read: benchfmt::read,
    },
    ImportFormat {
        name: "hyperfine-csv",
        help: "hyperfine --export-csv: means and deviations",
        detect: hyperfine_csv::detect,
        read: hyperfine_csv::read,
    },
    ImportFormat {
        name: "samples",
        help: "CSV, one figure a row: variant,metric,value[,unit][,block]",
        detect: samples::detect,
        read: samples::read,
    },
    ImportFormat {
        name: "summary",
        help: "CSV, one mean a row: variant,metric,mean[,sd][,n][,unit]",
        detect: summary::detect,
        read: summary::read,
    },
    ImportFormat {
        name: "published",
        help: "TOML, a published table with its claims",
        detect: published::detect,
        read: published::read,
    },
    ImportFormat {
        name: "bonnie",
        help: "the CSV line of bonnie++ (-q, or the last line it prints)",
        detect: bonnie::detect,
        read: bonnie::read,
    },
    ImportFormat {
        name: "perf-stat-csv",
        help: "perf stat -x, also of repeated runs (-r, with --runs)",
        detect: perf_stat_csv::detect,
        read: perf_stat_csv::read,
    },
    ImportFormat {
        name: "lmbench",
        help: "lmbench's lines of the form 'Simple read: 0.12 microseconds'",
        detect: lmbench::detect,
        read: lmbench::read,
    },
];

/// Reads a file in the named format, or in the first format that recognises the file.
///
/// # Errors
/// No format recognises the file, or the file does not have the named format.
pub fn read(
    input: &Input<'_>,
    format: Option<&str>,
) -> Result<(&'static ImportFormat, Parsed), Problem> {
    if input.text.trim().is_empty() {
        return Err(Problem::whole(ProblemKind::Empty));
    }
    // Every format looks for its beginning, and a bomb of blanks has none.
    let begun = input.text.trim_start();
    let known = |known: &&ImportFormat| match format {
        Some(name) => known.name == name,
        None => (known.detect)(begun),
    };
    let format =
        FORMATS.iter().find(known).ok_or_else(|| Problem::whole(ProblemKind::UnknownFormat))?;
    let parsed = (format.read)(input)?.printable();
    if parsed.series.is_empty() {
        let omitted = parsed.omitted.iter().map(|left| format!("; {}: {}", left.what, left.why));
        return Err(Problem::whole(ProblemKind::NoFigures(omitted.collect())));
    }
    Ok((format, parsed))
}
