//! Names places in programs and libraries, if the file is the one that was sampled.

use super::inline::{DebugSections, Inlined, InlinedAt, Places};
use super::{Frame, Names, Sources, Stack, Why};
use crate::space::{CodeFile, CodeKind};
use gimli::SectionId;
use opcost_symbols::debug_files::{DEBUG_SECTIONS, by_build_id};
use opcost_symbols::demangle::{demangle, mangled};
use opcost_symbols::elf;
use opcost_symbols::keyed::KeyedMap;
use opcost_sys::foreign_file;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The suffix that the kernel adds to the path of a deleted file (`d_path`).
pub(super) const DELETED: &str = " (deleted)";

/// Returns the contents of the sampled file or of perf's copy of it; `None` if neither is there.
pub fn contents(file: &CodeFile, sources: &Sources) -> Option<Vec<u8>> {
    let read = |path: &Path| foreign_file::read(path, elf::WHOLE_BYTES_MAX);
    found(file, sources, read).ok().map(|found| found.bytes)
}

/// Whether a file has at least `bytes` bytes, at the path that it was mapped from.
pub(super) fn is_large(file: &CodeFile, bytes: u64) -> bool {
    file.kind == CodeKind::File
        && fs::metadata(OsStr::from_bytes(&file.path)).is_ok_and(|found| found.len() >= bytes)
}

/// A file that was sampled.
pub(crate) struct Found<B> {
    /// The path that was mapped.
    pub(crate) path: PathBuf,
    /// The file that was read: the mapped one, or perf's copy of it.
    pub(crate) read: PathBuf,
    pub(crate) bytes: B,
    /// Whether no build id confirms that the file was sampled.
    unchecked: bool,
}

/// Finds a file where it was mapped from, or in perf's cache; fails with the reason for missing names.
pub(crate) fn found<B: Deref<Target = [u8]>>(
    file: &CodeFile,
    sources: &Sources,
    read: impl Fn(&Path) -> io::Result<B>,
) -> Result<Found<B>, Why> {
    let deleted = file.path.ends_with(DELETED.as_bytes());
    let path = file.path.strip_suffix(DELETED.as_bytes()).unwrap_or(&file.path);
    let path = PathBuf::from(OsStr::from_bytes(path));
    // The kernel reports whole paths; a file that was sent may name others.
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(Why::Unreadable("its path is not one that the kernel reports".into()));
    }
    let recorded = file.build_id.as_deref();
    let there = match read(&path) {
        Ok(bytes) => match elf::build_id(&bytes) {
            Ok(id) => match is_same_build(recorded, id) {
                Some(true) => Ok((path.clone(), bytes, false)),
                // Another file may have taken the name of a deleted one.
                None if !deleted => Ok((path.clone(), bytes, true)),
                None => Err(Why::Gone),
                Some(false) => Err(Why::OtherBuild),
            },
            Err(error) => Err(Why::Unreadable(error.to_string())),
        },
        Err(error) if deleted || error.kind() == ErrorKind::NotFound => Err(Why::Gone),
        Err(error) => Err(Why::Unreadable(error.to_string())),
    };
    let cached = |why| {
        let kept = recorded.and_then(|id| cached(id, sources, &read));
        kept.map(|(read, bytes)| (read, bytes, false)).ok_or(why)
    };
    let (read, bytes, unchecked) = there.or_else(cached)?;
    Ok(Found { path, read, bytes, unchecked })
}

/// Tells for each offset whether the code there keeps no frame pointer of its own; empty if the file
/// does not tell.
pub(super) fn without_frame(file: &CodeFile, offsets: &[u64], sources: &Sources) -> Vec<bool> {
    let found = found(file, sources, |path| elf::excerpt(path, &[], sources.limit_bytes));
    let without = found.ok().and_then(|found| elf::without_frame(&found.bytes, offsets).ok());
    without.unwrap_or_default()
}

/// Reads the debug file split off from a program or library, if it is there.
pub(crate) fn debug_file(
    path: &Path,
    bytes: &[u8],
    sections: &[SectionId],
    sources: &Sources,
) -> Option<elf::Excerpt> {
    sources.debug_files.split_off(path, bytes, sections, sources.limit_bytes).ok().flatten()
}

/// Names the places at these offsets of a file.
pub(super) fn names(file: &CodeFile, offsets: &[u64], sources: &Sources) -> Names {
    let sections = if sources.inlined { DEBUG_SECTIONS } else { &[] };
    let Found { path, bytes, unchecked, .. } =
        match found(file, sources, |path| elf::excerpt(path, sections, sources.limit_bytes)) {
            Ok(found) => found,
            Err(why) => return Names::none(offsets.len(), why),
        };
    let has_table = elf::has_symbol_table(&bytes).unwrap_or(false);
    let is_split = sources.inlined && !elf::has_debug_information(&bytes);
    let debug =
        (is_split || !has_table).then(|| debug_file(&path, &bytes, sections, sources)).flatten();
    let places = Places::Offsets(offsets);
    let read = || {
        let files = &sources.debug_files;
        DebugSections::read(&bytes, debug.as_ref(), places, files, sources.limit_bytes)
    };
    let sections = sources.inlined.then(read).flatten();
    let (inlined, without) = match sections.as_ref().map(|sections| sections.inlined()) {
        Some(Ok(inlined)) => (Some(inlined), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    let names = named((&bytes).into(), debug.as_deref(), inlined.as_ref(), offsets, unchecked);
    let without_inlined = without.or_else(|| inlined.as_ref()?.missing());
    Names { without_inlined, ..names }
}

/// Names the places at these offsets of a file's contents.
pub(super) fn named(
    file: elf::Readable<'_>,
    debug: Option<&[u8]>,
    inlined: Option<&Inlined<'_>>,
    offsets: &[u64],
    unchecked: bool,
) -> Names {
    let known = |offset: &u64| inlined.map_or(Vec::new(), |inlined| inlined.functions(*offset));
    let known: Vec<Vec<InlinedAt<'_>>> = offsets.iter().map(known).collect();
    let symbols = known.iter().flatten().filter_map(|at| at.name).collect();
    // An unreadable debug file gives fewer names, not wrong ones.
    let found = elf::names(file, debug, offsets, &symbols)
        .or_else(|_| elf::names(file, None, offsets, &symbols));
    let found = match found {
        Ok(found) => found,
        Err(error) => return Names::none(offsets.len(), Why::Unreadable(error.to_string())),
    };
    let frame = |named: elf::Named| {
        let elf::Named { symbol, source, mangled, bytes, start } = named;
        Frame { source, mangled, bytes, start, ..Frame::new(symbol) }
    };
    let mut frames: Vec<Frame> = found.functions.into_iter().map(frame).collect();
    // Data mapped together with code.
    let data = frames.len() as u32;
    frames.push(Frame::new("[data]"));
    let sources = found.sources;
    let mut numbers = KeyedMap::default();
    let mut number = |frames: &mut Vec<Frame>, name, file: Option<String>, bytes| -> u32 {
        // An inlined function that has a symbol elsewhere gets the source file that its symbol has.
        let source = match sources.get(name).map(Vec::as_slice) {
            Some([only]) => only.clone(),
            Some(several) => several.contains(&file).then_some(file).flatten(),
            None => file,
        };
        *numbers.entry((name, source, bytes)).or_insert_with_key(|(name, source, bytes)| {
            let name = String::from_utf8_lossy(name);
            let symbol = demangle(&name);
            let (source, mangled) = (source.clone(), mangled(&name, &symbol));
            frames.push(Frame { source, mangled, bytes: *bytes, ..Frame::new(symbol) });
            // Functions and their inlined functions number no more than places.
            frames.len() as u32 - 1
        })
    };
    let stacks = known.into_iter().zip(found.places).map(|(known, function)| {
        let mut function = function.unwrap_or(data);
        let mut known = known.into_iter();
        // The first is the function itself; its symbol names it better, if it has one.
        if let Some(InlinedAt { name: Some(name), file }) = known.next()
            && frames[function as usize].symbol.starts_with('[')
        {
            let bytes = frames[function as usize].bytes;
            function = number(&mut frames, name, file, bytes);
        }
        let named = known.filter_map(|at| Some((at.name?, at.file)));
        let within = named.map(|(name, file)| number(&mut frames, name, file, None));
        Stack { function, inlined: within.collect() }
    });
    let stacks = stacks.collect();
    let soname = elf::soname(file.symbols()).ok().flatten();
    Names { why: Some(Why::Stripped), unchecked, soname, ..Names::new(frames, stacks) }
}

/// Returns perf's copy of the file with this build id, and its path.
fn cached<B: Deref<Target = [u8]>>(
    id: &[u8],
    sources: &Sources,
    read: impl Fn(&Path) -> io::Result<B>,
) -> Option<(PathBuf, B)> {
    // tools/perf/util/build-id.c
    let path = by_build_id(sources.build_id_cache.as_deref()?, id)?.join("elf");
    let bytes = read(&path).ok()?;
    let same = is_same_build(Some(id), elf::build_id(&bytes).ok()?) == Some(true);
    same.then_some((path, bytes))
}

/// Whether two build ids are those of one build; `None` if one is not known.
///
/// Old versions of perf fill short build ids up with zeros, to 20 bytes.
pub(super) fn is_same_build(recorded: Option<&[u8]>, found: Option<&[u8]>) -> Option<bool> {
    let (recorded, found) = (recorded?, found?);
    let filled = recorded.len() == 20
        && found.len() < 20
        && recorded.starts_with(found)
        && recorded[found.len()..].iter().all(|byte| *byte == 0);
    Some(recorded == found || filled)
}
