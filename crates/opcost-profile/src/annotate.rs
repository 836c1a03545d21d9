//! Finds the code of a function that costs are charged to, and the text of its sources.
//!
//! **A source that is not the compiled one is never shown.** If the line table has the MD5 of a file's contents, only these
//! contents are shown. Otherwise a file that is younger than the program may have been edited since, and is shown only if the
//! user names the folder with the sources.

use crate::code_costs::{CountedFrom, PlaceCost};
use crate::kernel_code;
use crate::read::ReadProfile;
use crate::space::{CodeFile, CodeKind};
use crate::symbolise::file::{Found, debug_file, found};
use crate::symbolise::{SourceFile, Sources, Why};
use md5::{Digest, Md5};
use opcost_record::Function;
use opcost_symbols::elf::{self, CodeAt, ElfError, Excerpt};
use opcost_sys::foreign_file;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

/// The longest source file that is read.
const SOURCE_BYTES_MAX: u64 = 64 << 20;

/// Why a program's code cannot be shown.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum AnnotateError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is no program.
    #[error("cannot read the code of {}: {source}", path.display())]
    Elf { path: PathBuf, source: ElfError },
    /// The file is not the one that was recorded.
    #[error("{path} is not the file that was recorded ({}); its code cannot be shown", reason(why))]
    Other { path: String, why: Why },
    /// The file is another than when it was recorded.
    #[error("{} is not the file that was recorded (its SHA-256 is another); build or copy it again", path.display())]
    Changed { path: PathBuf },
    /// The kernel's code is not here.
    #[error(
        "the vmlinux of kernel {kernel} is not here; opcost keeps those that it built, a folder in which a kernel was built has it, and Debian packages linux-image-RELEASE-dbg"
    )]
    NoVmlinux { kernel: String },
    /// The sampled kernel's code is not here.
    #[error(
        "the vmlinux of kernel {kernel}{id} is not here, so its code cannot be shown; give it with --kernel-symbols VMLINUX, or \
         install Debian's package linux-image-{kernel}-dbg"
    )]
    NoKernelCode { kernel: String, id: String },
    /// A module's code is not here.
    #[error(
        "the code of the kernel's module {module} is not here: {why}; opcost looks below /lib/modules/{kernel} and \
         /usr/lib/debug/lib/modules/{kernel}"
    )]
    NoModule { module: String, kernel: String, why: &'static str },
    /// A module of a guest's kernel.
    #[error(
        "{module} is a module of the guest's kernel, whose place in memory is not recorded; build it into the kernel (=y) to see \
         its lines, or record it in the guest with perf"
    )]
    GuestModule { module: String },
    /// The code is in no file.
    #[error("{path} is code without a file, so it has no lines")]
    NoFile { path: String },
    /// The profile has no addresses.
    #[error(
        "the profile has neither addresses of instructions nor lines, only functions; perf.data, samply's files, pprof's and callgrind's have them, and samples that opcost takes"
    )]
    NoAddresses,
    /// The two sides have no function in common.
    #[error(
        "no function has costs by address on both sides; give --annotate one that both profiles have"
    )]
    NothingInCommon,
    /// All of the function's code was inlined.
    #[error("{symbol} was inlined everywhere, so its code is that of others; give --annotate one of them: {}", into.join(", "))]
    Inlined { symbol: String, into: Vec<String> },
    /// Nothing of the function itself was sampled.
    #[error("{symbol} has no cost of its own, so no line of it has one")]
    NoCost { symbol: String },
    /// The function has no symbol with a length.
    #[error("{symbol} has no symbol that tells where its code ends; install debug symbols of {}", path.display())]
    NoSymbol { symbol: String, path: PathBuf },
}

fn reason(why: &Why) -> String {
    match why {
        Why::Gone => "it is gone".into(),
        Why::OtherBuild => "its build id is another".into(),
        Why::Unreadable(error) => error.clone(),
        why => why.symbol().trim_matches(['[', ']']).into(),
    }
}

/// A cost in one run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Own {
    /// The cost, in the event's unit.
    pub cost: u64,
    /// The samples of this cost; 0 if it was counted.
    pub samples: u64,
    /// How often an instruction began; 0 if that is not known.
    pub executions: u64,
}

impl Own {
    /// Adds the cost of another instruction of a line.
    pub fn add(&mut self, other: Own) {
        self.cost = self.cost.saturating_add(other.cost);
        self.samples = self.samples.saturating_add(other.samples);
        // A line has been reached as often as its most frequent instruction.
        self.executions = self.executions.max(other.executions);
    }
}

/// The costs of places, or of addresses.
pub type Costs = Vec<(u64, Own)>;

/// The code of a function with its costs, run by run.
pub enum FunctionCode {
    /// The costs of the addresses, as linked, in the program's code.
    Program(Program, Vec<Costs>),
    /// The costs of the lines that the profile itself names.
    Lines(Lines),
}

/// The source lines of a function, as a profile names them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The source files.
    pub files: Vec<SourceFile>,
    /// The costs of the lines, run by run.
    pub runs: Vec<Vec<LineOwn>>,
    /// When the program was written, if it is here.
    pub modified: Option<SystemTime>,
}

/// A line with its cost in a run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LineOwn {
    /// Index into [`Lines::files`].
    pub file: usize,
    /// The line, from 1.
    pub line: u32,
    /// The function inlined there.
    pub inlined: Option<String>,
    /// The cost.
    pub own: Own,
}

/// The most functions that an error names.
const NAMED_MAX: usize = 4;

/// Returns the functions with code that has costs, each with its part of the profile's cost and what was inlined into it, the
/// dearest first.
pub fn hot(profile: &ReadProfile) -> Vec<(&Function, f64)> {
    let (functions, code) = profile.code();
    let costs = code.by_function(functions.len());
    let total = profile.table.total.max(1) as f64;
    // Code without a name has no end that is known.
    let named = |at: &usize| costs[*at] > 0 && !functions[*at].symbol.starts_with('[');
    let mut found: Vec<usize> = (0..functions.len()).filter(named).collect();
    found.sort_by_key(|at| u64::MAX - costs[*at]);
    found.into_iter().map(|at| (functions[at], costs[at] as f64 / total)).collect()
}

/// The most functions that are tried before none is shown.
const TRIED_MAX: usize = 20;

/// A function as shown, and why one that comes before it is not.
pub type FirstShown<T> = (T, Option<String>);

/// Shows the function with the highest cost that can be shown; `None` if no function has code with costs.
///
/// # Errors
/// As for [`first_shown`].
pub fn hottest<T, E: Display>(
    profile: &ReadProfile,
    shown: impl Fn(&Function) -> Result<T, E>,
) -> Option<Result<FirstShown<T>, E>> {
    let about = |(function, part): (&Function, f64)| {
        format!("{} has {:.2} % of the profile", function.symbol, 100.0 * part)
    };
    first_shown(hot(profile).into_iter(), |(function, _)| shown(function), about)
}

/// Shows the first of a few functions that can be shown; `about` says what another one has; `None` if there is no function.
///
/// # Errors
/// No function can be shown; the error is that of the first one.
pub fn first_shown<F: Copy, T, E: Display>(
    functions: impl Iterator<Item = F>,
    shown: impl Fn(F) -> Result<T, E>,
    about: impl Fn(F) -> String,
) -> Option<Result<FirstShown<T>, E>> {
    let mut hidden: Option<(F, E)> = None;
    for function in functions.take(TRIED_MAX) {
        match shown(function) {
            Ok(shown) => {
                let why = hidden.map(|(before, error)| format!("{}, and {error}", about(before)));
                return Some(Ok((shown, why)));
            }
            Err(error) => {
                hidden.get_or_insert((function, error));
            }
        }
    }
    hidden.map(|(_, error)| Err(error))
}

/// Returns the code of a function with what was inlined into it; each profile is a run.
///
/// A profile that names lines itself needs no program: opcost shows these lines if the program is not here.
///
/// # Errors
/// [`AnnotateError`].
pub fn function_code(
    profiles: &[&ReadProfile],
    function: &Function,
    sources: &Sources,
) -> Result<FunctionCode, AnnotateError> {
    let of_program = program_code(profiles, function, sources);
    let of_lines = || line_code(profiles, function);
    match of_program {
        Ok((program, runs)) if runs.iter().all(|run| !run.is_empty()) => {
            Ok(FunctionCode::Program(program, runs))
        }
        Ok((program, runs)) => Ok(match of_lines() {
            Some(lines) => FunctionCode::Lines(Lines { modified: program.modified, ..lines }),
            None => FunctionCode::Program(program, runs),
        }),
        Err(error) => {
            let modified = || profiles.first().and_then(|profile| modified(profile, function));
            let lines = of_lines().map(|lines| Lines { modified: modified(), ..lines });
            lines.map(FunctionCode::Lines).ok_or(error)
        }
    }
}

/// Returns when a function's program was written, if it is here and is not another.
fn modified(profile: &ReadProfile, function: &Function) -> Option<SystemTime> {
    let file = profile.code().1.known(&function.module)?;
    fs::metadata(OsStr::from_bytes(&file.path)).and_then(|found| found.modified()).ok()
}

/// Returns a function's program, and the costs at its addresses, run by run.
fn program_code(
    profiles: &[&ReadProfile],
    function: &Function,
    sources: &Sources,
) -> Result<(Program, Vec<Costs>), AnnotateError> {
    let mut program: Option<Program> = None;
    let mut runs = Vec::new();
    for profile in profiles {
        let (file, costs) = charged(profile, function)?;
        let in_kernel = file.kind == CodeKind::Kernel;
        let program = match &program {
            Some(program) => program,
            None => program.insert(match in_kernel {
                true => kernel_code::program(profile, file, function, sources)?,
                false => Program::sampled(file, sources)?,
            }),
        };
        if in_kernel {
            runs.push(kernel_code::as_linked(profile, file, function, program, costs, sources));
            continue;
        }
        let counted_from = profile.code().1.counted_from;
        let place = |(at, own): (u64, Own)| Some((program.address(counted_from, at)?, own));
        runs.push(costs.into_iter().filter_map(place).collect());
    }
    Ok((program.ok_or(AnnotateError::NoAddresses)?, runs))
}

/// The functions of a profile that are a function or its parts for rare cases.
fn is_own(functions: &[&Function], function: &Function) -> Vec<bool> {
    let is_own = |of: &&Function| {
        *of == function
            || of.module == function.module && is_cold_part(&of.symbol, &function.symbol)
    };
    functions.iter().map(is_own).collect()
}

/// Returns the lines of a function that the profiles name; `None` if one names none.
fn line_code(profiles: &[&ReadProfile], function: &Function) -> Option<Lines> {
    let mut lines = Lines::default();
    for profile in profiles {
        let (functions, code) = profile.code();
        let own = is_own(&functions, function);
        let mut run = Vec::new();
        for line in code.lines.iter().filter(|line| own[line.function as usize]) {
            let path = &code.sources[line.source as usize];
            let known = lines.files.iter().position(|file| file.path == *path);
            let file = known.unwrap_or_else(|| {
                lines.files.push(SourceFile { path: path.clone(), ..SourceFile::default() });
                lines.files.len() - 1
            });
            let inlined = line.inlined.map(|at| functions[at as usize].symbol.clone());
            let own = Own { cost: line.cost, samples: line.samples, executions: 0 };
            run.push(LineOwn { file, line: line.line, inlined, own });
        }
        if run.is_empty() {
            return None;
        }
        lines.runs.push(run);
    }
    Some(lines)
}

/// Returns the file with a function's code, and the cost of each place in it.
fn charged<'s>(
    profile: &'s ReadProfile,
    function: &Function,
) -> Result<(&'s CodeFile, Costs), AnnotateError> {
    let (functions, code) = profile.code();
    if code.is_empty() {
        return Err(AnnotateError::NoAddresses);
    }
    let own = is_own(&functions, function);
    let own_places = || code.places.iter().filter(|place| own[place.function as usize]);
    let Some(first) = own_places().next() else {
        let is_inlined = |place: &&PlaceCost| place.inlined.iter().any(|at| own[*at as usize]);
        let mut into: Vec<String> = Vec::new();
        for place in code.places.iter().filter(is_inlined) {
            let symbol = &functions[place.function as usize].symbol;
            if into.len() < NAMED_MAX && !into.contains(symbol) {
                into.push(symbol.clone());
            }
        }
        let symbol = function.symbol.clone();
        return Err(match into.is_empty() {
            true => AnnotateError::NoCost { symbol },
            false => AnnotateError::Inlined { symbol, into },
        });
    };
    let costs = own_places().filter(|place| place.file == first.file).map(|place| {
        (place.offset, Own { cost: place.cost, samples: place.samples, executions: 0 })
    });
    Ok((&code.files[first.file as usize], costs.collect()))
}

/// A program, a library or a kernel whose code is shown.
pub struct Program {
    /// The file.
    pub path: PathBuf,
    /// The file's contents.
    pub bytes: Vec<u8>,
    /// The debug file with the symbols of a stripped file.
    pub debug: Option<Excerpt>,
    /// When the file was written last.
    pub modified: Option<SystemTime>,
    pub(crate) code: CodeAt,
    #[expect(dead_code, reason = "the path leads to this file in memory while it is open")]
    pub(crate) kept: Option<File>,
}

impl Program {
    /// Reads a program.
    ///
    /// # Errors
    /// [`AnnotateError::Read`] and [`AnnotateError::Elf`].
    pub fn read(path: &Path, sources: &Sources) -> Result<Program, AnnotateError> {
        let bytes = foreign_file::read(path, elf::WHOLE_BYTES_MAX)
            .map_err(|source| AnnotateError::Read { path: path.to_owned(), source })?;
        Program::of_bytes(path, bytes, path, sources)
    }

    /// Reads the program of a recording; `is_recorded`: whether contents are those that were recorded.
    ///
    /// # Errors
    /// [`AnnotateError::Other`] if the file is another now.
    pub fn recorded(
        path: &Path,
        sources: &Sources,
        is_recorded: impl Fn(&[u8]) -> bool,
    ) -> Result<Program, AnnotateError> {
        let program = Program::read(path, sources)?;
        match is_recorded(&program.bytes) {
            true => Ok(program),
            false => Err(AnnotateError::Changed { path: path.to_owned() }),
        }
    }

    /// Reads a file that was sampled, or perf's copy of it.
    ///
    /// # Errors
    /// [`AnnotateError::Other`] if the file is not the sampled one.
    pub fn sampled(file: &CodeFile, sources: &Sources) -> Result<Program, AnnotateError> {
        let name = || String::from_utf8_lossy(&file.path).into_owned();
        if file.kind != CodeKind::File {
            return Err(AnnotateError::NoFile { path: name() });
        }
        let read = |path: &Path| foreign_file::read(path, elf::WHOLE_BYTES_MAX);
        let Found { path, read, bytes, .. } =
            found(file, sources, read).map_err(|why| AnnotateError::Other { path: name(), why })?;
        Program::of_bytes(&read, bytes, &path, sources)
    }

    /// `path`: the file that was read; `mapped`: the path under which debug files know it.
    pub(crate) fn of_bytes(
        path: &Path,
        bytes: Vec<u8>,
        mapped: &Path,
        sources: &Sources,
    ) -> Result<Program, AnnotateError> {
        let fail = |source| AnnotateError::Elf { path: path.to_owned(), source };
        let code = CodeAt::read(&bytes).map_err(fail)?;
        let is_stripped = !elf::has_symbol_table(&bytes).map_err(fail)?;
        let debug = is_stripped.then(|| debug_file(mapped, &bytes, &[], sources)).flatten();
        let modified = fs::metadata(path).and_then(|found| found.modified()).ok();
        Ok(Program { path: path.to_owned(), bytes, debug, modified, code, kept: None })
    }

    /// Returns the address, as linked, of a place.
    pub fn address(&self, counted_from: CountedFrom, place: u64) -> Option<u64> {
        match counted_from {
            CountedFrom::Disk => self.code.address(place),
            CountedFrom::Memory => self.code.in_memory(place),
            CountedFrom::Link => self.code.offset(place).map(|_| place),
        }
    }

    /// Returns the addresses of a function's code: of the function itself, of its parts and copies if these have costs.
    ///
    /// `costed`: where the function has costs, as linked.
    ///
    /// # Errors
    /// [`AnnotateError::NoSymbol`].
    pub fn pieces(
        &self,
        function: &Function,
        costed: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<Range<u64>>, AnnotateError> {
        let mut offsets: Vec<u64> =
            costed.into_iter().filter_map(|address| self.code.offset(address)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let names = elf::names(&self.bytes, self.debug.as_deref(), &offsets, &Default::default())
            .map_err(|source| AnnotateError::Elf { path: self.path.clone(), source })?;
        let piece = |named: &elf::Named| {
            let start = self.code.address(named.start?)?;
            Some(start..start.checked_add(named.bytes?)?)
        };
        let mut pieces: Vec<Range<u64>> =
            names.functions.iter().filter_map(piece).filter(|piece| !piece.is_empty()).collect();
        pieces.sort_by_key(|piece| piece.start);
        pieces.dedup();
        match pieces.is_empty() {
            true => Err(AnnotateError::NoSymbol {
                symbol: function.symbol.clone(),
                path: self.path.clone(),
            }),
            false => Ok(pieces),
        }
    }
}

/// Whether a symbol is the part of a function that compilers lay apart for rare cases: `f.cold`, `f() [clone .cold]`.
fn is_cold_part(symbol: &str, function: &str) -> bool {
    let Some(rest) = symbol.strip_prefix(function) else { return false };
    rest.trim_start_matches(" [clone ").starts_with(".cold")
}

/// A folder with sources.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceRoot {
    /// The beginning of the paths that the folder takes the place of; any path if empty.
    old: String,
    folder: PathBuf,
}

impl FromStr for SourceRoot {
    type Err = String;

    fn from_str(text: &str) -> Result<SourceRoot, String> {
        let (old, folder) = text.rsplit_once('=').unwrap_or(("", text));
        if folder.is_empty() {
            return Err("expected DIR or OLD=DIR".into());
        }
        Ok(SourceRoot { old: old.into(), folder: folder.into() })
    }
}

impl SourceRoot {
    /// The files that a path of debug information may be, the likeliest first.
    fn candidates(&self, path: &Path) -> Vec<PathBuf> {
        if !self.old.is_empty() {
            let rest = path.strip_prefix(&self.old).ok();
            return rest.map(|rest| self.folder.join(rest)).into_iter().collect();
        }
        let parts: Vec<Component<'_>> =
            path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        (0..parts.len())
            .map(|at| self.folder.join(parts[at..].iter().collect::<PathBuf>()))
            .collect()
    }
}

/// Whether a source file has the contents that were compiled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SourceState {
    /// The contents have the MD5 of the line table.
    Checked,
    /// The file is not younger than the program.
    Older,
    /// The user named the folder; nothing else tells.
    Named,
    /// The contents have another MD5 than the compiled ones.
    Changed,
    /// A function begins at another line than in the compiled contents.
    Moved,
    /// The file is younger than the program.
    Younger,
    /// The program is not here, so nothing tells when it was compiled.
    Undated,
    /// There is no such file.
    Missing,
    /// The file cannot be read; holds the error's text.
    Unreadable(String),
}

impl SourceState {
    /// Whether the text is shown.
    pub fn is_shown(&self) -> bool {
        matches!(self, SourceState::Checked | SourceState::Older | SourceState::Named)
    }
}

/// The text of a source file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceText {
    /// The path when the program was compiled.
    pub path: String,
    /// The lines; empty unless the state says that they are the compiled ones.
    pub lines: Vec<String>,
    /// Whether the contents are the compiled ones.
    pub state: SourceState,
}

/// Reads a source file, and checks that it is the compiled one.
///
/// `roots`: folders with sources, in which files are looked for before they are taken from the path that the compiler wrote
/// down; `modified`: when the program was written.
pub fn source_text(
    file: &SourceFile,
    roots: &[SourceRoot],
    modified: Option<SystemTime>,
) -> SourceText {
    let path = Path::new(&file.path);
    let named = roots.iter().flat_map(|root| root.candidates(path)).map(|path| (path, true));
    let compiled = path.is_absolute().then(|| (path.to_owned(), false));
    let found = named.chain(compiled).find(|(path, _)| path.exists());
    let (text, state) = match found {
        None => (String::new(), SourceState::Missing),
        Some((path, named)) => match foreign_file::read(&path, SOURCE_BYTES_MAX) {
            Err(error) => (String::new(), SourceState::Unreadable(error.to_string())),
            Ok(bytes) => {
                let written = fs::metadata(&path).and_then(|found| found.modified()).ok();
                let state = match file.md5 {
                    Some(md5) if <[u8; 16]>::from(Md5::digest(&bytes)) == md5 => {
                        SourceState::Checked
                    }
                    Some(_) => SourceState::Changed,
                    None if named => SourceState::Named,
                    None if modified.is_none() => SourceState::Undated,
                    None if written.is_some() && written <= modified => SourceState::Older,
                    None => SourceState::Younger,
                };
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let is_moved = state.is_shown() && file.md5.is_none() && is_moved(&text, file);
                (text, if is_moved { SourceState::Moved } else { state })
            }
        },
    };
    let lines =
        if state.is_shown() { text.lines().map(str::to_string).collect() } else { Vec::new() };
    SourceText { path: file.path.clone(), lines, state }
}

/// Whether a function that debug information declares at a line of a file begins at another line of a text.
///
/// A line may declare a function that it does not name: macros and `derive` do. So the function has to begin elsewhere.
fn is_moved(text: &str, file: &SourceFile) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    file.declared.iter().any(|(line, name)| {
        let name = name.split('<').next().unwrap_or_default();
        let name = name.rsplit('.').next().unwrap_or_default();
        if name.is_empty() || !name.chars().all(is_of_word) {
            return false;
        }
        let Some(declares) = (*line as usize).checked_sub(1) else { return false };
        let Some(declares) = lines.get(declares) else { return true };
        let may_be_made = ["$", "!", "#", "derive"].iter().any(|mark| declares.contains(mark));
        words(declares, name).next().is_none()
            && !may_be_made
            && lines.iter().any(|line| begins(line, name))
    })
}

/// Whether a line is one on which a function begins: at its margin in C, behind its word elsewhere.
fn begins(line: &str, name: &str) -> bool {
    let is_at_margin = line.starts_with(|first: char| first.is_alphabetic() || first == '_');
    words(line, name).any(|at| {
        let behind = line[at + name.len()..].trim_start();
        let is_rust = line[..at].trim_end().ends_with("fn") && behind.starts_with(['(', '<']);
        is_rust || is_at_margin && behind.starts_with('(') && !line.trim_end().ends_with(';')
    })
}

/// The places of a word in a line.
fn words<'l>(line: &'l str, word: &'l str) -> impl Iterator<Item = usize> + 'l {
    let is_word = move |(at, _): &(usize, &str)| {
        !line[..*at].ends_with(is_of_word) && !line[at + word.len()..].starts_with(is_of_word)
    };
    line.match_indices(word).filter(is_word).map(|(at, _)| at)
}

fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

#[cfg(test)]
#[path = "annotate_tests.rs"]
mod tests;
