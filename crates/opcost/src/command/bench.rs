//! `opcost bench`.

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use opcost_base::exit::{Status, WithStatus as _, fail};
use opcost_base::message::announce;
use opcost_base::phases::Phases;
use opcost_base::time::TimeLimit;
use opcost_bench::{Limit, Measured, Runner, changes, find, measure, page};
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_page::document::Document;
use opcost_page::writer::{markdown::markdown, text::text};
use opcost_sys::interrupt::Interrupt;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one run may take, unless the user says otherwise.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Examples, and the frameworks.
pub(crate) fn help() -> String {
    let rows = opcost_bench::FRAMEWORKS
        .iter()
        .map(|row| format!("  {} ({}): {}\n", row.name, row.tried.join(", "), row.driven));
    format!(
        "Frameworks, the versions tried, and how each is driven:\n{}\nExamples:
  opcost bench -- cargo bench
  opcost bench fib sort -- cargo bench -p parser
  opcost bench --list -- ./suite
  opcost bench -- python3 -m pytest tests/test_words.py
  opcost bench --json -- go test ./... > before.json
  opcost bench --baseline before.json --limit 0.1% -- go test ./...",
        rows.collect::<String>()
    )
}

/// Arguments of `opcost bench`.
#[derive(Args, Debug)]
pub struct BenchArgs {
    /// Names or parts of names of benchmarks [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// What runs or builds the benchmarks: a program of them, cargo bench, go test, or pytest
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,

    /// Name the benchmarks, and count nothing
    #[arg(long)]
    list: bool,

    /// Compare with an earlier result of --json
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// End with status 1 if a benchmark became dearer by more than this share, for example 0.1%
    #[arg(long, value_name = "SHARE", requires = "baseline")]
    limit: Option<Limit>,

    /// Stop a run that takes longer, for example 30s or 1500ms [default: 120s]
    #[arg(long, value_name = "TIME")]
    timeout: Option<TimeLimit>,

    /// Functions to show below each benchmark [default: 3]
    #[arg(long, value_name = "N")]
    functions: Option<usize>,

    /// Show function names in full. Otherwise opcost shortens C++ and Rust names that do not fit,
    /// and drops template arguments, parameters and namespaces first
    #[arg(long)]
    full_names: bool,

    /// What to print on standard output [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Print JSON on standard output; it has every function; --json - is the same
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

/// `opcost bench`.
///
/// # Errors
/// A tool is missing, the build failed, or there is no such benchmark.
pub fn bench(globals: &Globals, args: &BenchArgs) -> Result<Status> {
    let before = args.baseline.as_deref().map(read).transpose()?;
    let interrupt =
        Interrupt::install().context("cannot handle signals").status(Status::Missing)?;
    let timeout = args.timeout.map_or(TIMEOUT, |limit| Duration::from_millis(limit.limit_ms));
    let runner = Runner::new(&interrupt, timeout)?;
    let folder =
        std::env::current_dir().context("there is no working directory").status(Status::Usage)?;
    let found = find(&runner, &args.command, &folder, &args.names)?;
    let format = if args.json { Format::Json } else { args.format.unwrap_or(Format::Text) };
    if args.list {
        show(globals, args, format, &page::list(&found))?;
        return Ok(Status::Done);
    }
    let mut phases = Phases::new(globals.quiet);
    let mut all: Vec<Measured> = Vec::new();
    for (number, benchmark) in found.iter().enumerate() {
        phases.report(&format!("{} ({} of {})", benchmark.name, number + 1, found.len()), None);
        all.push(measure(&runner, benchmark)?);
    }
    phases.end();
    let title =
        args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let compared = before.as_ref().map(|before| changes(before, &all));
    match (format, &compared) {
        (Format::Json, _) => print(&page::json(&all)?)?,
        (_, Some(changes)) => {
            show(globals, args, format, &page::comparison(&title, changes, &all, args.limit))?
        }
        (_, None) => show(globals, args, format, &page::document(&title, &all, args.functions))?,
    }
    let failed: Vec<&str> =
        all.iter().filter(|one| one.cost.is_err()).map(|one| one.name.as_str()).collect();
    if let (Some(limit), Some(changes)) = (args.limit, &compared) {
        let worse: Vec<String> = changes
            .iter()
            .filter(|change| change.exceeds(limit))
            .map(|change| {
                let by = change.ratio().map(opcost_base::number::percent).unwrap_or_default();
                let function = change.functions.iter().find(|(_, more, _)| *more > 0.0);
                let function = function.map_or(String::new(), |(share, ..)| {
                    format!(", most of it in {}", share.symbol)
                });
                format!("{}: {by}{function}", change.name)
            })
            .collect();
        for line in &worse {
            announce!("worse: {line}");
        }
        if !worse.is_empty() {
            return Ok(Status::Regression);
        }
        // A figure that could not be compared never passes.
        if changes.iter().any(|change| change.ratio().is_none()) {
            return Ok(Status::NotComparable);
        }
    }
    Ok(if failed.is_empty() { Status::Done } else { Status::WorkFailed })
}

fn show(globals: &Globals, args: &BenchArgs, format: Format, document: &Document) -> Result<()> {
    let style = globals.style().with_full_names(args.full_names);
    print(&match format {
        Format::Markdown => markdown(document, &style),
        Format::Text | Format::Json => text(document, &style),
    })
}

fn read(path: &Path) -> Result<Vec<Measured>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the baseline {}", path.display()))
        .status(Status::Usage)?;
    page::read(&text)
        .map_err(|why| fail(Status::Usage, format!("the baseline {}: {why}", path.display())))
}
