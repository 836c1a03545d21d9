//! Reads profiles that other tools wrote: perf.data, and one format for each row of [`FORMATS`], whose
//! files are read as a whole.
//!
//! Every file is recognised by its contents.

pub mod about;
pub mod callgrind;
pub mod filter;
pub mod firefox;
pub mod folded;
pub mod perf_data;
pub mod perf_script;
pub mod pprof;
mod protobuf;
mod stack;
mod text;

use crate::session::Recorded;
use crate::space::CodeFile;
use crate::symbolise::{Sampled, Sources, look_up, symbolise};
use crate::table::FunctionTable;
use about::About;
use filter::Filter;
use flate2::read::MultiGzDecoder;
use opcost_record::Module;
use opcost_sys::budget::{Budget, Drawing, Exceeded};
use opcost_sys::foreign_file;
use perf_data::PerfDataError;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use text::TextError;

/// A profile and the facts about its recording.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadProfile {
    /// How the profile was recorded.
    pub about: About,
    /// The functions' costs.
    pub table: FunctionTable,
    /// The stacks; `None` for formats without stacks, such as callgrind's.
    pub sampled: Option<Sampled>,
}

impl ReadProfile {
    /// Returns the facts about the functions' files that go beyond their paths.
    pub fn modules(&self) -> Vec<Module> {
        if let Some(sampled) = &self.sampled {
            return sampled.profile.modules.clone();
        }
        // A counting profiler's command is the program's; the shell may have found it by PATH.
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
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file has no known format.
    #[error("{} is no profile that can be read; known are {}", path.display(), known_formats())]
    Foreign { path: PathBuf },
    /// The file is empty.
    #[error("{} is empty: whoever was to write it wrote nothing; record again", path.display())]
    Empty { path: PathBuf },
    /// Reading the file takes more than the budget.
    #[error("cannot read the profile {}: {exceeded}", path.display())]
    Exceeded { path: PathBuf, exceeded: Exceeded },
    /// The file is packed, and cannot be unpacked.
    #[error("cannot unpack {}: {source}; it was cut short or damaged, so write or copy it again", path.display())]
    Packed { path: PathBuf, source: io::Error },
    /// The file is a folder that perf did not write.
    #[error(
        "{} is a folder without a file 'data', so it is no recording of 'perf record --threads'; name \
         the profile's file", path.display()
    )]
    Folder { path: PathBuf },
    /// The file has no samples that a filter could choose from.
    #[error(
        "{} has no samples but sums, so nothing of it can be left out (--only); perf.data, the text of \
         perf script and the Firefox Profiler's files have samples", path.display()
    )]
    NoSamples { path: PathBuf },
    /// The file is a bad perf.data file.
    #[error("cannot read the perf.data file {}: {source}", path.display())]
    PerfData { path: PathBuf, source: PerfDataError },
    /// The file's contents are bad.
    #[error("cannot read the profile {} as {format}: {source}", path.display())]
    Text { path: PathBuf, format: &'static str, source: TextError },
}

impl ReadError {
    fn exceeded(path: &Path, exceeded: Exceeded) -> ReadError {
        ReadError::Exceeded { path: path.to_owned(), exceeded }
    }

    /// The error for a file of perf's, or for a file of a folder of perf's.
    fn perf_data(path: &Path, source: PerfDataError) -> ReadError {
        let exceeded = match &source {
            PerfDataError::Exceeded(exceeded) => Some(*exceeded),
            PerfDataError::Io(error) => Exceeded::of(error),
            _ => None,
        };
        match exceeded {
            Some(exceeded) => ReadError::exceeded(path, exceeded),
            None => ReadError::PerfData { path: path.to_owned(), source },
        }
    }
}

/// The wanted part of a file.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The name of the event whose cost is wanted; `None` is the first one.
    pub event: Option<String>,
    /// The filter of the event's samples.
    pub filter: Filter,
}

/// A format whose files are read as a whole.
pub struct Format {
    /// The format's name in errors.
    pub name: &'static str,
    /// The tools that write the format, for help texts.
    pub help: &'static str,
    /// Whether contents look like the format.
    detect: fn(&Contents<'_>) -> bool,
    read: fn(&Contents<'_>, &Wanted, &Sources) -> Result<ReadProfile, TextError>,
    /// Whether the format has samples that [`Filter`]s can choose from.
    with_samples: bool,
}

/// A file's contents, unpacked.
struct Contents<'b> {
    bytes: &'b [u8],
    /// The contents as text. Commands may have any name, so bytes that are not UTF-8 are replaced.
    text: Cow<'b, str>,
    budget: &'b Budget,
}

/// Every format except perf.data; the first that recognises a file reads it.
pub static FORMATS: &[Format] = &[
    Format {
        name: "pprof",
        help: "pprof's profile.proto (Go's runtime/pprof, opcost --export-pprof)",
        detect: |contents| pprof::is_pprof(contents.bytes),
        read: |contents, wanted, _| {
            let (about, read) =
                pprof::read(contents.bytes, wanted.event.as_deref(), contents.budget)?;
            Ok(sampled(about, read))
        },
        with_samples: false,
    },
    Format {
        name: "Firefox Profiler",
        help: "the processed format of the Firefox Profiler (samply, opcost --export-firefox)",
        detect: |contents| firefox::is_firefox(&contents.text),
        read: |contents, wanted, sources| {
            let look_up = |file: &CodeFile, at: &[u64]| look_up(file, at, sources);
            let (about, read) = firefox::read(&contents.text, wanted, &look_up, contents.budget)?;
            Ok(sampled(about, read))
        },
        with_samples: true,
    },
    Format {
        name: "callgrind.out",
        help: "what valgrind --tool=callgrind writes",
        detect: |contents| callgrind::is_callgrind(&contents.text),
        read: |contents, wanted, _| {
            let event = wanted.event.as_deref();
            let (about, table) = callgrind::read(&contents.text, event, contents.budget)?;
            Ok(ReadProfile { about, table, sampled: None })
        },
        with_samples: false,
    },
    Format {
        name: "text of perf script",
        help: "what perf script prints",
        detect: |contents| perf_script::is_perf_script(&contents.text),
        read: |contents, wanted, _| {
            let (about, read) = perf_script::read(&contents.text, wanted, contents.budget)?;
            Ok(sampled(about, read))
        },
        with_samples: true,
    },
    Format {
        name: "folded stacks",
        help: "lines 'caller;function 12' (stackcollapse, inferno, py-spy, opcost --export-folded)",
        detect: |contents| folded::is_folded(&contents.text),
        read: |contents, wanted, _| {
            let event = wanted.event.as_deref();
            let (about, read) = folded::read(&contents.text, event, contents.budget)?;
            Ok(sampled(about, read))
        },
        with_samples: false,
    },
];

/// Lists the formats: "perf.data, pprof, …".
fn known_formats() -> String {
    let names: Vec<&str> =
        ["perf.data"].into_iter().chain(FORMATS.iter().map(|one| one.name)).collect();
    names.join(", ")
}

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 40;
/// The first bytes of gzip's files.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Reads a profile.
///
/// `path`: the file; `wanted`: the event and samples to read; `sources`: where names come from for
/// files that hold addresses only, and the limit of what reading may take.
///
/// # Errors
/// [`ReadError`] names the file and the fault.
pub fn read(path: &Path, wanted: &Wanted, sources: &Sources) -> Result<ReadProfile, ReadError> {
    if path.is_dir() {
        return read_folder(path, wanted, sources);
    }
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let (mut file, bytes) = open(path, sources)?;
    let budget = Budget::new(sources.limit_bytes, bytes);
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(8).read_to_end(&mut magic).map_err(io)?;
    file.rewind().map_err(io)?;
    if magic == perf_data::MAGIC || magic == perf_data::MAGIC_BIG_ENDIAN {
        let fail = |source| ReadError::perf_data(path, source);
        let (about, recorded) =
            perf_data::read(file, bytes, wanted, sources, &budget).map_err(fail)?;
        return Ok(named(about, recorded, sources));
    }
    let bytes = contents(path, file, &budget)?;
    if bytes.is_empty() {
        return Err(ReadError::Empty { path: path.to_owned() });
    }
    let text = text(&bytes, &budget).map_err(|exceeded| ReadError::exceeded(path, exceeded))?;
    let contents = Contents { text, bytes: &bytes, budget: &budget };
    let Some(format) = FORMATS.iter().find(|format| (format.detect)(&contents)) else {
        return Err(ReadError::Foreign { path: path.to_owned() });
    };
    if !wanted.filter.is_empty() && !format.with_samples {
        return Err(ReadError::NoSamples { path: path.to_owned() });
    }
    let fail = |source| match source {
        TextError::Exceeded(exceeded) => ReadError::exceeded(path, exceeded),
        source => ReadError::Text { path: path.to_owned(), format: format.name, source },
    };
    (format.read)(&contents, wanted, sources).map_err(fail)
}

/// Opens a file, and returns its length. A file may consist of holes, which take no room on its disk: they count as unpacked bytes.
fn open(path: &Path, sources: &Sources) -> Result<(File, u64), ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let file = foreign_file::open(path, FILE_BYTES_MAX).map_err(io)?;
    let known = file.metadata().map_err(io)?;
    // Some file systems do not tell how much room a file takes; blocks have 512 bytes (stat(2)).
    let stored = Some(known.blocks())
        .filter(|blocks| *blocks > 0)
        .map_or(known.len(), |blocks| blocks * 512);
    let unpacked = Budget::new(sources.limit_bytes, stored).unpack(known.len());
    unpacked.or_else(|exceeded| match exceeded {
        Exceeded::Unpacked { .. } => Err(ReadError::exceeded(path, exceeded)),
        // Each reader looks at the memory itself.
        Exceeded::Memory { .. } => Ok(()),
    })?;
    Ok((file, known.len()))
}

/// Reads a file's contents, unpacked.
fn contents(path: &Path, file: File, budget: &Budget) -> Result<Vec<u8>, ReadError> {
    let whole = |mut source: Drawing<'_, &mut dyn Read>| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let fail = |source: io::Error, otherwise: fn(PathBuf, io::Error) -> ReadError| {
        let exceeded = Exceeded::of(&source).map(|exceeded| ReadError::exceeded(path, exceeded));
        exceeded.unwrap_or_else(|| otherwise(path.to_owned(), source))
    };
    let mut file = file;
    let bytes = whole(budget.reader(&mut file))
        .map_err(|error| fail(error, |path, source| ReadError::Io { path, source }))?;
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    whole(budget.unpacker(&mut MultiGzDecoder::new(&*bytes)))
        .map_err(|error| fail(error, |path, source| ReadError::Packed { path, source }))
}

/// Returns contents as text.
fn text<'b>(bytes: &'b [u8], budget: &Budget) -> Result<Cow<'b, str>, Exceeded> {
    let damaged = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    if damaged > 0 {
        let replaced = damaged * char::REPLACEMENT_CHARACTER.len_utf8();
        budget.room((bytes.len() + replaced) as u64)?;
    }
    Ok(String::from_utf8_lossy(bytes))
}

/// Reads a folder that perf wrote with several threads: `data` with facts about the recording, and
/// `data.0`, `data.1`, … with the records of each thread.
fn read_folder(
    folder: &Path,
    wanted: &Wanted,
    sources: &Sources,
) -> Result<ReadProfile, ReadError> {
    let path = folder.join("data");
    if !path.is_file() {
        return Err(ReadError::Folder { path: folder.to_owned() });
    }
    let (file, bytes) = open(&path, sources)?;
    let mut all_bytes = bytes;
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
        let (file, bytes) = open(&name(number), sources)?;
        all_bytes += bytes;
        Ok((number, file, bytes))
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let fail = |(number, source): (Option<u32>, _)| {
        ReadError::perf_data(&number.map_or(folder.join("data"), name), source)
    };
    let budget = Budget::new(sources.limit_bytes, all_bytes);
    let (about, recorded) =
        perf_data::read_parts(file, bytes, parts, wanted, sources, &budget).map_err(fail)?;
    Ok(named(about, recorded, sources))
}

/// Names the addresses of a recording.
fn named(about: About, recorded: Recorded, sources: &Sources) -> ReadProfile {
    let named = symbolise(&recorded, sources);
    // Free the recording first: the table needs memory too.
    drop(recorded);
    sampled(about, named)
}

/// Makes a profile of samples with names.
pub fn sampled(about: About, sampled: Sampled) -> ReadProfile {
    let table = FunctionTable::of(&sampled);
    ReadProfile { about, table, sampled: Some(sampled) }
}
