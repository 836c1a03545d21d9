//! Reads profiles that other tools wrote: perf.data, and one format for each row of [`FORMATS`], whose
//! files are read as a whole.
//!
//! Every file is recognised by its contents.

pub mod about;
pub mod bpftrace;
pub mod callgrind;
pub mod chrome_trace;
pub mod cpuprofile;
pub mod deep_copy;
pub mod dtrace;
pub mod filter;
pub mod firefox;
pub mod firefox_raw;
pub mod folded;
pub mod gperftools;
pub mod gperftools_heap;
pub mod heapprofile;
pub mod jfr;
pub mod perf_data;
pub mod perf_script;
pub mod pmcstat;
pub mod pprof;
mod protobuf;
pub mod pstats;
mod refused;
pub mod speedscope;
mod stack;
pub mod stackprof;
mod text;
mod unpack;
pub mod xctrace;

use crate::code_costs::CodeCosts;
use crate::session::Recorded;
use crate::space::CodeFile;
use crate::symbolise::{
    FileAddresses, LookedUp, Origin, Sampled, Sources, Why, look_up, symbolise,
};
use crate::table::FunctionTable;
use about::About;
use filter::Filter;
use opcost_record::{Function, Module};
use opcost_sys::budget::{Budget, Exceeded};
use opcost_sys::foreign_file;
use perf_data::PerfDataError;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Cursor, IsTerminal, Read, Seek};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use text::TextError;
pub(crate) use unpack::unpacked;

/// A profile and the facts about its recording.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadProfile {
    /// How the profile was recorded.
    pub about: About,
    /// The functions' costs.
    pub table: FunctionTable,
    /// The stacks; `None` for formats without stacks, such as callgrind's.
    pub sampled: Option<Sampled>,
    /// The cost of each place in code, for formats without stacks.
    pub code: CodeCosts,
}

impl ReadProfile {
    /// Whether the costs were counted, so that nothing but another course of the program changes them.
    pub fn is_counted(&self) -> bool {
        self.sampled.is_none() && self.about.sampling.is_none()
    }

    /// Returns the cost of each place in code, and the functions that it numbers.
    pub fn code(&self) -> (Vec<&Function>, &CodeCosts) {
        match &self.sampled {
            Some(sampled) => (sampled.profile.functions.iter().collect(), &sampled.code),
            None => (self.table.functions.iter().map(|cost| &cost.function).collect(), &self.code),
        }
    }

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
    /// Standard input is a terminal.
    #[error(
        "--input {STANDARD_INPUT} reads a profile from standard input, which is a terminal; lead a profile there, as in \
         'perf record -o - ./work | opcost profile --input {STANDARD_INPUT}'"
    )]
    Terminal,
    /// The file is a pipe.
    #[error(
        "{0} is no regular file, but a pipe, which opcost reads as standard input alone; run 'opcost profile --input {STANDARD_INPUT} < {0}'",
        path.display()
    )]
    Pipe { path: PathBuf },
    /// The file has no known format.
    #[error("{} is no profile that can be read; known are {}", path.display(), known_formats())]
    Foreign { path: PathBuf },
    /// The file has a format that is known and not read.
    #[error("{} is {what}, which opcost does not read; {cure}", path.display())]
    Refused { path: PathBuf, what: &'static str, cure: &'static str },
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
        "{} has no samples but sums, or samples without their threads and times, so nothing of it can be left out (--only); \
         opcost chooses from samples of perf.data, of the text of perf script and of Firefox's files", path.display()
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
    /// Whether the user vouches for files that no build id confirms, though they are another computer's or have changed since.
    pub trust_files: bool,
}

/// A format whose files are read as a whole.
pub struct Format {
    /// The format's name in errors.
    pub name: &'static str,
    /// The tools that write the format, for help texts.
    pub help: &'static str,
    /// Whether contents look like the format.
    detect: fn(&Contents<'_>) -> bool,
    read: Reader,
    /// Whether the format has samples that [`Filter`]s can choose from.
    with_samples: bool,
}

/// The samples of a text.
type Samples = Result<(About, Sampled), TextError>;

/// What reads a format.
enum Reader {
    /// Reads a text without addresses; gets the name of the wanted event.
    Text(fn(&str, Option<&str>, &Budget) -> Samples),
    /// Reads anything else.
    Contents(fn(&Contents<'_>, &Wanted, LookUp<'_>) -> Result<ReadProfile, TextError>),
}

impl Reader {
    fn read(
        &self,
        contents: &Contents<'_>,
        wanted: &Wanted,
        look_up: LookUp<'_>,
    ) -> Result<ReadProfile, TextError> {
        match self {
            Reader::Text(read) => {
                read(&contents.text, wanted.event.as_deref(), contents.budget).map(of_samples)
            }
            Reader::Contents(read) => read(contents, wanted, look_up),
        }
    }
}

/// Finds the functions at addresses of a file that a recording of this time names ([`look_up`]).
pub type LookUp<'l> = &'l dyn Fn(&CodeFile, FileAddresses<'_>, Option<SystemTime>) -> LookedUp;

/// Whether a file may be another now than the one that was recorded.
fn is_other(file: &CodeFile, recorded_at: Option<SystemTime>, look_up: LookUp<'_>) -> bool {
    // A build id settles that when the file is read.
    file.build_id.is_none()
        && look_up(file, FileAddresses::OnDisk(&[]), recorded_at).why == Some(Why::Doubtful)
}

impl Format {
    /// Reads contents of this format.
    ///
    /// # Errors
    /// [`TextError`]: contents of another form, no such event; more than the budget.
    pub fn read(
        &self,
        bytes: &[u8],
        wanted: &Wanted,
        look_up: LookUp<'_>,
        budget: &Budget,
    ) -> Result<ReadProfile, TextError> {
        self.read.read(&Contents::of(bytes, budget)?, wanted, look_up)
    }
}

/// A file's contents, unpacked.
struct Contents<'b> {
    bytes: &'b [u8],
    /// The contents as text. Commands may have any name, so bytes that are not UTF-8 are replaced.
    text: Cow<'b, str>,
    /// The other files of the same run: their names and texts.
    parts: Vec<(String, String)>,
    budget: &'b Budget,
}

impl<'b> Contents<'b> {
    fn of(bytes: &'b [u8], budget: &'b Budget) -> Result<Contents<'b>, Exceeded> {
        Ok(Contents { bytes, text: text(bytes, budget)?, parts: Vec::new(), budget })
    }
}

/// Every format except perf.data; the first that recognises a file reads it.
pub static FORMATS: &[Format] = &[
    Format {
        name: "gperftools",
        help: "CPU profiles of gperftools, also with the names of its pprof --raw",
        detect: |contents| gperftools::is_gperftools(contents.bytes),
        read: Reader::Contents(|contents, wanted, look_up| {
            let event = wanted.event.as_deref();
            gperftools::read(contents.bytes, event, look_up, contents.budget).map(of_samples)
        }),
        with_samples: false,
    },
    Format {
        name: "gperftools heap",
        help: "heap profiles of gperftools (HEAPPROFILE=) and Go's text of one (heap?debug=1)",
        detect: |contents| gperftools_heap::is_heap(&contents.text),
        read: Reader::Contents(|contents, wanted, look_up| {
            let event = wanted.event.as_deref();
            gperftools_heap::read(&contents.text, event, look_up, contents.budget).map(of_samples)
        }),
        with_samples: false,
    },
    Format {
        name: "cProfile",
        help: "what Python's cProfile stores (python3 -m cProfile -o FILE)",
        detect: |contents| pstats::is_pstats(contents.bytes),
        read: Reader::Contents(|contents, wanted, _| {
            let event = wanted.event.as_deref();
            let (about, table) = pstats::read(contents.bytes, event, contents.budget)?;
            Ok(ReadProfile { about, table, sampled: None, code: CodeCosts::default() })
        }),
        with_samples: false,
    },
    Format {
        name: "pprof",
        help: "pprof's profile.proto (Go's runtime/pprof, opcost --export-pprof)",
        detect: |contents| pprof::is_pprof(contents.bytes),
        read: Reader::Contents(|contents, wanted, look_up| {
            let event = wanted.event.as_deref();
            pprof::read(contents.bytes, event, look_up, contents.budget).map(of_samples)
        }),
        with_samples: false,
    },
    Format {
        name: "Firefox raw",
        help: "what Firefox dumps before its profiler processes it",
        detect: |contents| firefox_raw::is_raw(&contents.text),
        read: Reader::Contents(|contents, wanted, look_up| {
            firefox_raw::read(&contents.text, wanted, look_up, contents.budget).map(of_samples)
        }),
        with_samples: true,
    },
    Format {
        name: "Firefox Profiler",
        help: "the processed format of the Firefox Profiler (samply, opcost --export-firefox)",
        detect: |contents| firefox::is_firefox(&contents.text),
        read: Reader::Contents(|contents, wanted, look_up| {
            firefox::read(&contents.text, wanted, look_up, contents.budget).map(of_samples)
        }),
        with_samples: true,
    },
    Format {
        name: "speedscope",
        help: "speedscope's JSON (py-spy record -f speedscope, opcost --export-speedscope)",
        detect: |contents| speedscope::is_speedscope(&contents.text),
        read: Reader::Text(speedscope::read),
        with_samples: false,
    },
    Format {
        name: "V8 CPU profile",
        help: ".cpuprofile of Node.js (node --cpu-prof) and Chrome",
        detect: |contents| cpuprofile::is_cpuprofile(&contents.text),
        read: Reader::Text(cpuprofile::read),
        with_samples: false,
    },
    Format {
        name: "V8 heap profile",
        help: ".heapprofile of Node.js (node --heap-prof) and Chrome",
        detect: |contents| heapprofile::is_heapprofile(&contents.text),
        read: Reader::Text(heapprofile::read),
        with_samples: false,
    },
    Format {
        name: "stackprof",
        help: "what stackprof --json FILE writes of a Ruby program's profile",
        detect: |contents| stackprof::is_stackprof(&contents.text),
        read: Reader::Text(stackprof::read),
        with_samples: false,
    },
    Format {
        name: "Chrome trace",
        help: "traces of Chrome, Node.js and py-spy: CPU profiles in them, or else the calls' durations",
        detect: |contents| chrome_trace::is_trace(&contents.text),
        read: Reader::Text(chrome_trace::read),
        with_samples: false,
    },
    Format {
        name: "Instruments",
        help: "XML that xctrace export writes of a table time-profile",
        detect: |contents| xctrace::is_xctrace(&contents.text),
        read: Reader::Text(xctrace::read),
        with_samples: false,
    },
    Format {
        name: "callgrind.out",
        help: "what valgrind --tool=callgrind writes, with all parts and threads, and cachegrind.out",
        detect: |contents| callgrind::is_callgrind(&contents.text),
        read: Reader::Contents(|contents, wanted, look_up| {
            let event = wanted.event.as_deref();
            let parts = contents.parts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
            let (about, table, mut code) =
                callgrind::read(&contents.text, parts, event, contents.budget)?;
            code.leave_out(|file| is_other(file, None, look_up));
            Ok(ReadProfile { about, table, sampled: None, code })
        }),
        with_samples: false,
    },
    Format {
        name: "jfr print",
        help: "text that jfr print --stack-depth 64 prints of a Java flight recording",
        detect: |contents| jfr::is_jfr(&contents.text),
        read: Reader::Text(jfr::read),
        with_samples: false,
    },
    Format {
        name: "bpftrace",
        help: "maps with kstack or ustack in their keys, as bpftrace prints them",
        detect: |contents| bpftrace::is_bpftrace(&contents.text),
        read: Reader::Text(bpftrace::read),
        with_samples: false,
    },
    Format {
        name: "pmcstat",
        help: "callgraphs of FreeBSD's pmcstat -G",
        detect: |contents| pmcstat::is_pmcstat(&contents.text),
        read: Reader::Text(pmcstat::read),
        with_samples: false,
    },
    Format {
        name: "DTrace",
        help: "aggregations of stacks that DTrace prints (@[stack()] = count())",
        detect: |contents| dtrace::is_dtrace(&contents.text),
        read: Reader::Text(dtrace::read),
        with_samples: false,
    },
    Format {
        name: "deep copy",
        help: "call trees copied from Instruments (Edit, Deep Copy)",
        detect: |contents| deep_copy::is_deep_copy(&contents.text),
        read: Reader::Text(deep_copy::read),
        with_samples: false,
    },
    Format {
        name: "text of perf script",
        help: "what perf script prints",
        detect: |contents| perf_script::is_perf_script(&contents.text),
        read: Reader::Contents(|contents, wanted, _| {
            perf_script::read(&contents.text, wanted, contents.budget).map(of_samples)
        }),
        with_samples: true,
    },
    Format {
        name: "folded stacks",
        help: "lines 'caller;function 12' (stackcollapse, inferno, py-spy, opcost --export-folded)",
        detect: |contents| folded::is_folded(&contents.text),
        read: Reader::Text(folded::read),
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
/// The path that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// Reads a profile.
///
/// `path`: the file, or [`STANDARD_INPUT`]; `wanted`: the event and samples to read; `sources`: where names come from for
/// files that hold addresses only, and the limit of what reading may take.
///
/// # Errors
/// [`ReadError`] names the file and the fault.
pub fn read(path: &Path, wanted: &Wanted, sources: &Sources) -> Result<ReadProfile, ReadError> {
    if path == Path::new(STANDARD_INPUT) {
        return read_standard_input(wanted, sources);
    }
    let kind = fs::metadata(path).map(|known| known.file_type()).ok();
    if kind.is_some_and(|kind| kind.is_dir()) {
        return read_folder(path, wanted, sources);
    }
    // To open a pipe that nobody writes to would wait for ever.
    if kind.is_some_and(|kind| kind.is_fifo()) {
        return Err(ReadError::Pipe { path: path.to_owned() });
    }
    let (file, bytes) = open(path, sources)?;
    let written = file.metadata().and_then(|found| found.modified()).ok();
    let known = (bytes, written);
    read_file(path, file, known, wanted, sources, &Budget::new(sources.limit_bytes, bytes))
}

/// Reads a profile from a pipe or a file that standard input is led to.
fn read_standard_input(wanted: &Wanted, sources: &Sources) -> Result<ReadProfile, ReadError> {
    let path = Path::new("standard input");
    let input = io::stdin();
    if input.is_terminal() {
        return Err(ReadError::Terminal);
    }
    // Nobody knows how much a pipe will bring, so the limit of memory is that of its length.
    let budget = Budget::new(sources.limit_bytes, 0);
    let bytes = unpack::whole(budget.reader(input.lock()))
        .map_err(|error| fault(path, error, |path, source| ReadError::Io { path, source }))?;
    let length = bytes.len() as u64;
    let budget = Budget::new(sources.limit_bytes, length);
    read_file(path, Cursor::new(bytes), (length, None), wanted, sources, &budget)
}

/// The error for a failure of reading: the budget's, or another.
fn fault(
    path: &Path,
    source: io::Error,
    otherwise: fn(PathBuf, io::Error) -> ReadError,
) -> ReadError {
    let exceeded = Exceeded::of(&source).map(|exceeded| ReadError::exceeded(path, exceeded));
    exceeded.unwrap_or_else(|| otherwise(path.to_owned(), source))
}

/// A file's length in bytes, and the time when it was written.
type Known = (u64, Option<SystemTime>);

/// Reads an open file.
fn read_file(
    path: &Path,
    file: impl Read + Seek,
    known: Known,
    wanted: &Wanted,
    sources: &Sources,
    budget: &Budget,
) -> Result<ReadProfile, ReadError> {
    let io = |source| ReadError::Io { path: path.to_owned(), source };
    let mut file = file;
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(8).read_to_end(&mut magic).map_err(io)?;
    file.rewind().map_err(io)?;
    if is_perf_data(&magic) {
        return read_perf_data(path, file, known, wanted, sources, budget);
    }
    let bytes = contents(path, &mut file, budget)?;
    if is_perf_data(&bytes) {
        let known = (bytes.len() as u64, known.1);
        return read_perf_data(path, Cursor::new(&bytes), known, wanted, sources, budget);
    }
    read_contents(path, &bytes, known.1, wanted, sources, budget)
}

fn is_perf_data(bytes: &[u8]) -> bool {
    bytes.starts_with(perf_data::MAGIC) || bytes.starts_with(perf_data::MAGIC_BIG_ENDIAN)
}

fn read_perf_data(
    path: &Path,
    file: impl Read + Seek,
    known: Known,
    wanted: &Wanted,
    sources: &Sources,
    budget: &Budget,
) -> Result<ReadProfile, ReadError> {
    let fail = |source| ReadError::perf_data(path, source);
    let (about, recorded) =
        perf_data::read(file, known.0, wanted, sources, budget).map_err(fail)?;
    Ok(named(about, recorded, known.1, sources))
}

/// Reads unpacked contents of another format than perf's.
fn read_contents(
    path: &Path,
    bytes: &[u8],
    written: Option<SystemTime>,
    wanted: &Wanted,
    sources: &Sources,
    budget: &Budget,
) -> Result<ReadProfile, ReadError> {
    let mut contents =
        Contents::of(bytes, budget).map_err(|exceeded| ReadError::exceeded(path, exceeded))?;
    let is_callgrind = callgrind::is_callgrind(&contents.text);
    // Callgrind leaves its first file empty if it writes one for each thread.
    if bytes.is_empty() || is_callgrind {
        contents.parts = parts(path, &contents.text, sources, budget)?;
    }
    if bytes.is_empty() && contents.parts.is_empty() {
        return Err(ReadError::Empty { path: path.to_owned() });
    }
    let format = match bytes.is_empty() {
        true => FORMATS.iter().find(|format| format.name == callgrind::NAME),
        false => FORMATS.iter().find(|format| (format.detect)(&contents)),
    };
    let Some(format) = format else {
        let path = path.to_owned();
        return Err(match refused::find(bytes, &contents.text) {
            Some((what, cure)) => ReadError::Refused { path, what, cure },
            None => ReadError::Foreign { path },
        });
    };
    if !wanted.filter.is_empty() && !format.with_samples {
        return Err(ReadError::NoSamples { path: path.to_owned() });
    }
    let fail = |source| match source {
        TextError::Exceeded(exceeded) => ReadError::exceeded(path, exceeded),
        source => ReadError::Text { path: path.to_owned(), format: format.name, source },
    };
    let look_up = |file: &CodeFile, at: FileAddresses<'_>, recorded_at: Option<SystemTime>| {
        let recorded_at = recorded_at.or(written);
        let origin = Origin { recorded_at, trusted: wanted.trust_files, ..Origin::default() };
        look_up(file, at, &origin, sources)
    };
    format.read.read(&contents, wanted, &look_up).map_err(fail)
}

/// Reads the other files of a run of callgrind.
fn parts(
    path: &Path,
    first: &str,
    sources: &Sources,
    budget: &Budget,
) -> Result<Vec<(String, String)>, ReadError> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in callgrind::parts(path) {
        let (mut file, _) = open(&part, sources)?;
        let bytes = contents(&part, &mut file, budget)?;
        let text = text(&bytes, budget).map_err(|exceeded| ReadError::exceeded(&part, exceeded))?;
        let run =
            if first.is_empty() { found.first().map_or(&*text, |(_, text)| text) } else { first };
        // Another run may have left files of such names.
        if callgrind::is_callgrind(&text) && callgrind::run_of(&text) == callgrind::run_of(run) {
            let name = part.file_name().unwrap_or_default().to_string_lossy().into_owned();
            found.push((name, text.into_owned()));
        }
    }
    Ok(found)
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
fn contents(path: &Path, file: &mut dyn Read, budget: &Budget) -> Result<Vec<u8>, ReadError> {
    let bytes = unpack::whole(budget.reader(file))
        .map_err(|error| fault(path, error, |path, source| ReadError::Io { path, source }))?;
    unpack::unpacked(bytes, budget)
        .map_err(|error| fault(path, error, |path, source| ReadError::Packed { path, source }))
}

/// Returns contents as text. Windows' shells write text in UTF-16, with a mark in front.
fn text<'b>(bytes: &'b [u8], budget: &Budget) -> Result<Cow<'b, str>, Exceeded> {
    let utf_16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| -> Result<Cow<'b, str>, Exceeded> {
        budget.room(2 * bytes.len() as u64)?;
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        Ok(String::from_utf16_lossy(&units).into())
    };
    let bytes = match bytes {
        [0xff, 0xfe, rest @ ..] => return utf_16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => return utf_16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => rest,
        bytes => bytes,
    };
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(text.into());
    }
    let damaged = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    let replaced = damaged * char::REPLACEMENT_CHARACTER.len_utf8();
    budget.room((bytes.len() + replaced) as u64)?;
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
    let written = file.metadata().and_then(|found| found.modified()).ok();
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
    Ok(named(about, recorded, written, sources))
}

/// Names the addresses of a recording; `written`: the time when its file was written.
fn named(
    about: About,
    mut recorded: Recorded,
    written: Option<SystemTime>,
    sources: &Sources,
) -> ReadProfile {
    recorded.origin.recorded_at = written;
    let named = symbolise(&recorded, sources);
    // Free the recording first: the table needs memory too.
    drop(recorded);
    sampled(about, named)
}

/// Makes a profile of what a reader returned.
fn of_samples((about, samples): (About, Sampled)) -> ReadProfile {
    sampled(about, samples)
}

/// Makes a profile of samples with names.
pub fn sampled(about: About, sampled: Sampled) -> ReadProfile {
    let table = FunctionTable::of(&sampled);
    ReadProfile { about, table, sampled: Some(sampled), code: CodeCosts::default() }
}

#[cfg(test)]
mod tests;
