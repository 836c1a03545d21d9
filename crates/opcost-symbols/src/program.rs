//! Reads a program or library of this computer, and its debug file.

use super::debug_files::DebugFiles;
use super::elf::{self, ElfError, ProgramSymbols};
use opcost_sys::budget::LIMIT_BYTES;
use opcost_sys::foreign_file;
use std::io;
use std::path::{Path, PathBuf};

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
/// `debug_files`: the places of debug files. Without a debug file of the same build a program has
/// fewer names, not wrong ones.
///
/// # Errors
/// [`ProgramError`] names the file and the fault.
pub fn read(
    path: &Path,
    module: &str,
    debug_files: &DebugFiles,
) -> Result<ProgramSymbols, ProgramError> {
    let file = foreign_file::read(path, elf::WHOLE_BYTES_MAX)
        .map_err(|source| ProgramError::Read { path: path.to_owned(), source })?;
    let fail = |source| ProgramError::Elf { path: path.to_owned(), source };
    let debug = if elf::has_symbol_table(&file).map_err(fail)? {
        None
    } else {
        debug_files.split_off(path, &file, &[], LIMIT_BYTES).map_err(fail)?
    };
    if let Some(debug) = debug
        && let Ok(symbols) = elf::read(&file, Some(&debug), module)
    {
        return Ok(symbols);
    }
    elf::read(&file, None, module).map_err(fail)
}
