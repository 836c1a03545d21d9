//! `opcost import`.

use crate::command::export::{is_recording, take_over};
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use flate2::read::MultiGzDecoder;
use opcost_analysis::comparison::limit::FailOn;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::message::announce;
use opcost_command::exports::{Exports, printed_by};
use opcost_command::globals::Globals;
use opcost_command::output::{OutputArgs, present};
use opcost_import::import::assemble::{assemble, stem};
use opcost_import::import::parsed::Input;
use opcost_import::import::{FORMATS, Options, ReadFile, criterion_folder, read};
use opcost_model::plan::Omission;
use opcost_model::recording::State;
use opcost_store::store::{Arrival, StoreError};
use opcost_sys::budget::Budget;
use opcost_sys::clock::unix_ns;
use opcost_sys::foreign_file;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Arguments of `opcost import`.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// Files to read, or NAME=FILE to name the variant that a file is about; for criterion, also
    /// its folder; or recordings that opcost export wrote
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,

    /// Read every file in this format [default: the format that recognises the file]
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(FORMATS.iter().map(|format| format.name)))]
    pub format: Option<String>,

    /// Name of the experiment, for opcost history [default: from the file]
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,

    /// What to call this recording in lists and histories, for example a version or a ticket
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,

    /// The variant to compare the others with [default: the first]
    #[arg(long, value_name = "VARIANT")]
    pub baseline: Option<String>,

    /// The metric that decides [default: wall, else the first]
    #[arg(long, value_name = "METRIC")]
    pub primary: Option<String>,

    /// Runs behind each mean, if the file does not give their number (perf stat -r N)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub runs: Option<u64>,

    /// When the figures were measured, for opcost history: 2026-11-21 or 2026-11-21T12:00:00Z
    /// [default: the time in the file, else now]
    #[arg(long, value_name = "DATE")]
    pub date: Option<String>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub exports: Exports,

    /// End with status 1 if WHAT (regression for the primary metric, or a metric) is significantly
    /// worse; with LIMIT, if it is worse by more than LIMIT; may be repeated
    #[arg(long, value_name = "WHAT[=LIMIT]", help_heading = "Output")]
    pub fail_on: Vec<FailOn>,
}

/// The list of formats, for help texts.
pub fn formats_help() -> String {
    let formats = FORMATS.iter().map(|format| format!("  {:<17} {}", format.name, format.help));
    format!("Formats:\n{}", formats.collect::<Vec<_>>().join("\n"))
}

/// Reads the files, stores them as a recording and shows the recording.
pub fn import(globals: &Globals, args: &ImportArgs) -> Result<Status> {
    args.exports.check(printed_by(None, args.json).as_deref())?;
    if args.files.iter().any(|file| is_recording(Path::new(file))) {
        return import_recordings(globals, args);
    }
    let mut files = Vec::new();
    for given in &args.files {
        files.extend(read_given(
            given,
            args.format.as_deref(),
            args.files.len() == 1,
            globals.read_limit_bytes(),
        )?);
    }
    let options = Options {
        experiment: args.experiment.clone(),
        baseline: args.baseline.clone(),
        primary: args.primary.clone(),
        runs: args.runs,
    };
    let mut made = assemble(&files, &options).context("import").status(Status::Usage)?;
    made.plan.label = args.label.clone();
    let created_unix_ns = match &args.date {
        Some(text) => date(text).ok_or_else(|| {
            let example = "2026-11-21 or 2026-11-21T12:00:00Z";
            fail(Status::Usage, format!("--date {text}: expected a date such as {example}"))
        })?,
        None => {
            let dates = files.iter().filter_map(|file| file.parsed.date.as_deref());
            dates.filter_map(date).next().unwrap_or_else(unix_ns)
        }
    };
    let writer = globals
        .store_for_writing()?
        .begin(&made.plan, &made.machine, created_unix_ns)
        .map_err(StoreError::carried)?;
    let id = writer.id().to_string();
    let store = writer.end(State::Finished).map_err(StoreError::carried)?;
    let recording = store.read(&id).map_err(StoreError::carried)?;
    present(globals, &recording, &args.output())
}

impl ImportArgs {
    fn output(&self) -> OutputArgs {
        OutputArgs {
            sort: None,
            full_names: false,
            all: false,
            format: None,
            json: self.json,
            exports: self.exports.clone(),
            fail_on: self.fail_on.clone(),
        }
    }
}

/// Copies recordings of `opcost export` into the store, and shows the last one.
fn import_recordings(globals: &Globals, args: &ImportArgs) -> Result<Status> {
    if let Some(other) = args.files.iter().find(|file| !is_recording(Path::new(file))) {
        let why = format!(
            "'{other}' is no recording of opcost export, and others here are: import them one after the other"
        );
        return Err(fail(Status::Usage, why));
    }
    let given = [
        ("--format", args.format.is_some()),
        ("--experiment", args.experiment.is_some()),
        ("--label", args.label.is_some()),
        ("--baseline", args.baseline.is_some()),
        ("--primary", args.primary.is_some()),
        ("--runs", args.runs.is_some()),
        ("--date", args.date.is_some()),
    ];
    if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
        let why = format!(
            "{option} is for results of other tools; a recording has its own: leave it out"
        );
        return Err(fail(Status::Usage, why));
    }
    let mut store = globals.store_for_writing()?;
    let mut last = None;
    for file in &args.files {
        for (id, arrival) in take_over(&mut store, Path::new(file), globals.read_limit_bytes())? {
            if arrival == Arrival::Known && !globals.quiet {
                announce!("recording {id} is in the store already");
            }
            last = Some(id);
        }
    }
    let last = last.ok_or_else(|| fail(Status::Usage, "there is no recording in these files"))?;
    let recording = store.read(&last).map_err(StoreError::carried)?;
    present(globals, &recording, &args.output())
}

/// Reads the file or folder that an argument names.
/// `only`: whether this is the only argument; the last run in a folder of criterion's is then
/// compared with the baselines in the folder.
fn read_given(
    given: &str,
    format: Option<&str>,
    only: bool,
    limit_bytes: u64,
) -> Result<Vec<ReadFile>> {
    let whole = Path::new(given);
    let (label, path) = match given.split_once('=') {
        Some((label, path)) if !whole.exists() && !label.is_empty() => {
            (Some(label.to_string()), PathBuf::from(path))
        }
        _ => (None, whole.to_path_buf()),
    };
    let named = label.is_some();
    let label = label.unwrap_or_else(|| stem(&path));
    if path.is_dir() {
        return read_folder(&path, &label, only && !named, limit_bytes);
    }
    Ok(vec![read_file(label, &path, format, limit_bytes)?])
}

/// Reads a folder of criterion's.
fn read_folder(
    folder: &Path,
    label: &str,
    compared: bool,
    limit_bytes: u64,
) -> Result<Vec<ReadFile>> {
    let found = criterion_folder::find(folder)
        .with_context(|| format!("cannot read '{}'", folder.display()))
        .status(Status::Usage)?;
    if found.newest.is_empty() {
        let why = "there is no new/sample.json in this folder, so it is not criterion's";
        return Err(fail(Status::Usage, format!("'{}': {why}", folder.display())));
    }
    let with_baselines = compared && !found.baselines.is_empty();
    let baselines = found.baselines.iter().filter(|_| with_baselines);
    let mut files = Vec::new();
    for sample in baselines.chain(&found.newest) {
        let mut file = read_file(label.to_string(), &sample.path, Some("criterion"), limit_bytes)?;
        file.parsed.experiment.get_or_insert_with(|| label.to_string());
        for series in &mut file.parsed.series {
            // The path names the case, because a copy of the folder may have any name.
            series.case = criterion_folder::case(folder, &sample.path).or(series.case.take());
            if with_baselines {
                series.variant = Some(sample.run.clone());
            }
        }
        files.push(file);
    }
    if compared && let Some(file) = files.first_mut() {
        let omission = |run: &String| {
            let why = "it is the last run itself: criterion copies new to base when a run ends; \
                       keep a baseline with cargo bench --bench NAME -- --save-baseline before, and \
                       run the change with --baseline before";
            Omission::new(format!("the baseline {run}"), why)
        };
        file.parsed.omitted.extend(found.copies.iter().map(omission));
    }
    Ok(files)
}

fn read_file(
    label: String,
    path: &Path,
    format: Option<&str>,
    limit_bytes: u64,
) -> Result<ReadFile> {
    let shown = path.display().to_string();
    let (bytes, budget) = contents(path, limit_bytes)
        .with_context(|| format!("cannot read '{shown}'"))
        .status(Status::Usage)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        fail(Status::Usage, format!("'{shown}' is no text; it is no exported result"))
    })?;
    let (format, parsed) = read(&Input { path, text: &text, budget: &budget }, format)
        .with_context(|| format!("'{shown}'"))
        .status(Status::Usage)?;
    Ok(ReadFile { label, path: shown, format, parsed })
}

/// The bytes of a file, unpacked if they are gzip's, as pyperf writes `.json.gz`, and what is left to read them with.
fn contents(path: &Path, limit_bytes: u64) -> std::io::Result<(Vec<u8>, Budget)> {
    let file = foreign_file::open(path, u64::MAX)?;
    let budget = Budget::new(limit_bytes, file.metadata()?.len());
    let mut bytes = Vec::new();
    budget.reader(file).read_to_end(&mut bytes)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        budget.unpacker(MultiGzDecoder::new(&*packed)).read_to_end(&mut bytes)?;
    }
    Ok((bytes, budget))
}

/// A date in ISO 8601, or in perf's form, as nanoseconds since the Unix epoch.
fn date(text: &str) -> Option<u64> {
    let text = text.trim();
    let moment = text.parse::<jiff::Timestamp>().ok().or_else(|| {
        let civil = text.parse::<jiff::civil::DateTime>().ok();
        // "Sat Nov 21 12:00:06 2026": perf does not write in which time zone this is, so UTC is assumed.
        let civil =
            civil.or_else(|| jiff::civil::DateTime::strptime("%a %b %d %H:%M:%S %Y", text).ok());
        civil?.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    })?;
    u64::try_from(moment.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_tools_write_them() {
        assert_eq!(date("1970-01-02"), Some(86_400_000_000_000));
        assert_eq!(date("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(date("Thu Jan  1 00:00:02 1970"), Some(2_000_000_000));
        assert_eq!((date("2009"), date("yesterday"), date("1969-01-01")), (None, None, None));
    }
}
