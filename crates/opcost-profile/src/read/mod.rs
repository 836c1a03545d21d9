//! Profiles that other tools wrote: of perf, as files and as text, and of callgrind.
//!
//! A file is recognised by its contents.

pub mod about;
pub mod callgrind;
pub mod filter;
pub mod perf_data;
pub mod perf_script;
mod text;

use crate::symbolise::{Sampled, Sources, symbolise};
use crate::table::FunctionTable;
use about::About;
use filter::Filter;
use opcost_record::Module;
use perf_data::PerfDataError;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

pub use text::TextError;

/// A profile with what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadProfile {
    /// How it was made.
    pub about: About,
    /// Its functions.
    pub table: FunctionTable,
    /// Its stacks; `None` of files that have none, as callgrind's.
    pub sampled: Option<Sampled>,
}

impl ReadProfile {
    /// What is known of the functions' files beside their paths.
    pub fn modules(&self) -> Vec<Module> {
        if let Some(sampled) = &self.sampled {
            return sampled.profile.modules.clone();
        }
        // Where costs were counted the profiler's command is the program's, which was found by PATH.
        let name = |path: &str| path.rsplit('/').next().map(str::to_string);
        let command = self.about.command.as_deref().and_then(|line| line.split_whitespace().next());
        let program = command.and_then(name).filter(|name| !name.is_empty());
        let mut paths = self.table.functions.iter().map(|cost| &cost.function.module);
        let path =
            program.and_then(|program| paths.find(|path| name(path).as_ref() == Some(&program)));
        let module =
            |path: &String| Module { path: path.clone(), program: true, ..Module::default() };
        path.into_iter().map(module).collect()
    }
}

/// Why a profile cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is of no kind that is known.
    #[error(
        "{} is no profile that can be read: it is neither perf.data, nor the text of 'perf script', \
         nor callgrind.out", path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It is a folder, but not one that perf wrote.
    #[error(
        "{} is a folder without a file 'data', so it is no recording of 'perf record --threads'; name \
         the profile's file", path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// It has no samples that could be chosen from.
    #[error(
        "{} has no samples but sums, so nothing of it can be left out (--only); perf.data and the text \
         of perf script have samples", path.display()
    )]
    NoSamples {
        /// The file.
        path: PathBuf,
    },
    /// It is a perf.data file, but a bad one.
    #[error("cannot read the perf.data file {}: {source}", path.display())]
    PerfData {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: PerfDataError,
    },
    /// It is a text, but a bad one.
    #[error("cannot read the profile {} as {format}: {source}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// The format that it looked like.
        format: &'static str,
        /// What is wrong.
        source: TextError,
    },
}

impl ReadError {
    /// Whether the file is there and its contents are the matter.
    pub fn is_contents(&self) -> bool {
        !matches!(self, ReadError::Io { .. })
    }
}

/// What of a file is wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The event whose cost is wanted, by name, the first one if `None`.
    pub event: Option<String>,
    /// Its samples that are wanted.
    pub filter: Filter,
}

/// Reads a profile.
///
/// `path`: the file; `wanted`: what of it; `sources`: where names come from, of files that have
/// addresses only.
///
/// # Errors
/// [`ReadError`] names the file and what is wrong with it.
pub fn read(path: &Path, wanted: &Wanted, sources: &Sources) -> Result<ReadProfile, ReadError> {
    if path.is_dir() {
        return read_folder(path, wanted, sources);
    }
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(8).read_to_end(&mut magic).map_err(io)?;
    file.rewind().map_err(io)?;
    if magic == perf_data::MAGIC || magic == perf_data::MAGIC_BIG_ENDIAN {
        let fail = |source| ReadError::PerfData { path: path.to_owned(), source };
        let (about, recorded) = perf_data::read(file, bytes, wanted, sources).map_err(fail)?;
        return Ok(sampled(about, symbolise(&recorded, sources)));
    }
    let mut contents = Vec::new();
    file.read_to_end(&mut contents).map_err(io)?;
    // Names of commands may be anything.
    let text = String::from_utf8_lossy(&contents);
    let fail = |format| move |source| ReadError::Text { path: path.to_owned(), format, source };
    if callgrind::is_callgrind(&text) {
        if !wanted.filter.is_empty() {
            return Err(ReadError::NoSamples { path: path.to_owned() });
        }
        let event = wanted.event.as_deref();
        let (about, table) = callgrind::read(&text, event).map_err(fail("callgrind.out"))?;
        return Ok(ReadProfile { about, table, sampled: None });
    }
    if perf_script::is_perf_script(&text) {
        let (about, read) =
            perf_script::read(&text, wanted).map_err(fail("text of perf script"))?;
        return Ok(sampled(about, read));
    }
    Err(ReadError::Foreign { path: path.to_owned() })
}

/// Reads what perf wrote with several threads: `data` with what is known of the recording, and
/// `data.0`, `data.1`, … with the records of each thread.
fn read_folder(
    folder: &Path,
    wanted: &Wanted,
    sources: &Sources,
) -> Result<ReadProfile, ReadError> {
    let open = |path: &Path| {
        let io = |source| ReadError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Ok((file, bytes))
    };
    let path = folder.join("data");
    if !path.is_file() {
        return Err(ReadError::Folder { path: folder.to_owned() });
    }
    let (file, bytes) = open(&path)?;
    let io = |source| ReadError::Io { path: folder.to_owned(), source };
    let mut parts = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("data."));
        parts.extend(number.and_then(|number| number.parse::<u32>().ok()));
    }
    parts.sort_unstable();
    let name = |number: u32| folder.join(format!("data.{number}"));
    let parts = parts.into_iter().map(|number| {
        let (file, bytes) = open(&name(number))?;
        Ok((number, file, bytes))
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let fail = |(number, source): (Option<u32>, _)| ReadError::PerfData {
        path: number.map_or(folder.join("data"), name),
        source,
    };
    let (about, recorded) =
        perf_data::read_parts(file, bytes, parts, wanted, sources).map_err(fail)?;
    Ok(sampled(about, symbolise(&recorded, sources)))
}

/// A profile of samples.
pub fn sampled(about: About, sampled: Sampled) -> ReadProfile {
    let table = FunctionTable::of(&sampled);
    ReadProfile { about, table, sampled: Some(sampled) }
}
