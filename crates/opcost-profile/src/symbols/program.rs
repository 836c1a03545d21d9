//! Reads a program or library of this computer, and the debug file that belongs to it.

use super::elf::{self, ElfError, ProgramSymbols};
use gimli::SectionId;
use opcost_record::printable::hexadecimal;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where distributions put debug files.
pub const DEBUG_FILES: &str = "/usr/lib/debug";

/// Why a program's symbols could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum ProgramError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is of another kind.
    #[error("cannot read the symbols of {}: {source}", path.display())]
    Elf { path: PathBuf, source: ElfError },
}

/// Reads the symbols of a program or library.
///
/// `path`: the file; `module`: the name its functions' module gets, which is the path that the
/// program is known by where it runs; `debug_files`: the folder that has
/// `.build-id/xx/yyyy.debug`, usually [`DEBUG_FILES`]. A debug file with another build id, or one
/// that cannot be read, is left aside: a program without one has fewer names, not wrong ones.
///
/// # Errors
/// [`ProgramError`] names the file and what is wrong with it.
pub fn read(path: &Path, module: &str, debug_files: &Path) -> Result<ProgramSymbols, ProgramError> {
    let file =
        fs::read(path).map_err(|source| ProgramError::Read { path: path.to_owned(), source })?;
    let fail = |source| ProgramError::Elf { path: path.to_owned(), source };
    let debug = debug_file(path, &file, debug_files).map_err(fail)?;
    if let Some(debug) = debug
        && let Ok(symbols) = elf::read(&file, Some(&debug), module)
    {
        return Ok(symbols);
    }
    elf::read(&file, None, module).map_err(fail)
}

/// What names need of a stripped file's debug file, if it is there and has the same build id.
fn debug_file(path: &Path, file: &[u8], debug_files: &Path) -> Result<Option<Vec<u8>>, ElfError> {
    if elf::has_symbol_table(file)? { Ok(None) } else { split_off(path, file, debug_files, &[]) }
}

/// What names need of the debug file that was split off a program or library, if it is there.
///
/// It is looked for by build id, then by the name that the file gives (`.gnu_debuglink`): beside it,
/// in `.debug` beside it, and under `debug_files` in a folder of the same path (GDB manual,
/// "Debugging Information in Separate Files"). It must have the same build id, or where the program
/// has none, the checksum that the link says. `sections`: debug information that is wanted of it too
/// ([`excerpt`](elf::excerpt)).
///
/// # Errors
/// [`ElfError`] if `file` is none to read.
pub fn split_off(
    path: &Path,
    file: &[u8],
    debug_files: &Path,
    sections: &[SectionId],
) -> Result<Option<Vec<u8>>, ElfError> {
    let id = elf::build_id(file)?;
    if let Some(path) = id.and_then(|id| by_build_id(debug_files, id)) {
        let path = path.with_extension("debug");
        let same = |debug: &Vec<u8>| elf::build_id(debug) == Ok(id);
        if let Some(found) = elf::excerpt(&path, sections).ok().filter(same) {
            return Ok(Some(found));
        }
    }
    let Some((name, checksum)) = elf::debug_link(file)? else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let below = debug_files.join(folder.strip_prefix("/").unwrap_or(folder));
    let belongs = |path: &Path| {
        let debug = elf::excerpt(path, sections).ok()?;
        let same = match id {
            Some(id) => elf::build_id(&debug) == Ok(Some(id)),
            // The checksum is the whole file's.
            None => elf::is_elf(&debug) && crc32fast::hash(&fs::read(path).ok()?) == checksum,
        };
        same.then_some(debug)
    };
    let places = [folder.to_owned(), folder.join(".debug"), below];
    // The link of a file that was not stripped after all may lead back to it.
    let mut candidates = places.iter().map(|place| place.join(&name)).filter(|found| found != path);
    Ok(candidates.find_map(|found| belongs(&found)))
}

/// `FOLDER/.build-id/ab/cdef…`, as distributions and perf name what has a build id; `None` for an
/// identifier of less than two bytes.
pub fn by_build_id(folder: &Path, id: &[u8]) -> Option<PathBuf> {
    let hex = hexadecimal(id);
    let (first, rest) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(folder.join(".build-id").join(first).join(rest))
}
