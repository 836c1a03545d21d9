//! Reads a program or library of this computer, and its debug file.

use super::elf::{self, ElfError, Excerpt, ProgramSymbols};
use gimli::SectionId;
use opcost_record::printable::hexadecimal;
use opcost_sys::budget::LIMIT_BYTES;
use opcost_sys::foreign_file;
use std::io;
use std::path::{Path, PathBuf};

/// The folder of distributions' debug files.
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
/// `path`: the file; `module`: the functions' module, which is the program's path where it runs;
/// `debug_files`: the folder with `.build-id/xx/yyyy.debug`, usually [`DEBUG_FILES`]. A debug file
/// with another build id, or an unreadable one, is not used: without it a program has fewer names,
/// not wrong ones.
///
/// # Errors
/// [`ProgramError`] names the file and the fault.
pub fn read(path: &Path, module: &str, debug_files: &Path) -> Result<ProgramSymbols, ProgramError> {
    let file = foreign_file::read(path, elf::WHOLE_BYTES_MAX)
        .map_err(|source| ProgramError::Read { path: path.to_owned(), source })?;
    let fail = |source| ProgramError::Elf { path: path.to_owned(), source };
    let debug = debug_file(path, &file, debug_files).map_err(fail)?;
    if let Some(debug) = debug
        && let Ok(symbols) = elf::read(&file, Some(&debug), module)
    {
        return Ok(symbols);
    }
    elf::read(&file, None, module).map_err(fail)
}

/// Reads the debug file of a stripped file, if it exists and has the same build id.
fn debug_file(path: &Path, file: &[u8], debug_files: &Path) -> Result<Option<Excerpt>, ElfError> {
    if elf::has_symbol_table(file)? {
        Ok(None)
    } else {
        split_off(path, file, debug_files, &[], LIMIT_BYTES)
    }
}

/// Reads the parts that names need of the debug file split off from a program or library, if it
/// exists.
///
/// The file is looked for by build id, then by the name in the program's `.gnu_debuglink`: beside
/// the program, in `.debug` there, and under `debug_files` in the same path (GDB manual, "Debugging
/// Information in Separate Files"). Its build id must be the program's; without one, its checksum
/// must be the link's. `sections`, `limit_bytes`: as for [`excerpt`](elf::excerpt).
///
/// # Errors
/// [`ElfError`] if `file` cannot be read.
pub fn split_off(
    path: &Path,
    file: &[u8],
    debug_files: &Path,
    sections: &[SectionId],
    limit_bytes: u64,
) -> Result<Option<Excerpt>, ElfError> {
    let id = elf::build_id(file)?;
    if let Some(path) = id.and_then(|id| by_build_id(debug_files, id)) {
        let path = path.with_extension("debug");
        let same = |debug: &Excerpt| elf::build_id(debug) == Ok(id);
        if let Some(found) = elf::excerpt(&path, sections, limit_bytes).ok().filter(same) {
            return Ok(Some(found));
        }
    }
    let Some((name, checksum)) = elf::debug_link(file)? else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let below = debug_files.join(folder.strip_prefix("/").unwrap_or(folder));
    let belongs = |path: &Path| {
        let debug = elf::excerpt(path, sections, limit_bytes).ok()?;
        let same = match id {
            Some(id) => elf::build_id(&debug) == Ok(Some(id)),
            // The checksum is that of the whole file.
            None => {
                let whole = || foreign_file::read(path, elf::WHOLE_BYTES_MAX).ok();
                elf::is_elf(&debug) && crc32fast::hash(&whole()?) == checksum
            }
        };
        same.then_some(debug)
    };
    let places = [folder.to_owned(), folder.join(".debug"), below];
    // If the file was not stripped after all, its link may lead back to it.
    let mut candidates = places.iter().map(|place| place.join(&name)).filter(|found| found != path);
    Ok(candidates.find_map(|found| belongs(&found)))
}

/// Returns `FOLDER/.build-id/ab/cdef…`, as distributions and perf name files by build id; `None` for
/// an identifier of less than two bytes.
pub fn by_build_id(folder: &Path, id: &[u8]) -> Option<PathBuf> {
    let hex = hexadecimal(id);
    let (first, rest) = hex.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(folder.join(".build-id").join(first).join(rest))
}
