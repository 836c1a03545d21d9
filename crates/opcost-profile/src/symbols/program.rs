//! Reads a program or library of this computer, and the debug file that belongs to it.

use super::elf::{self, ElfError, ProgramSymbols};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where distributions put debug files.
pub const DEBUG_FILES: &str = "/usr/lib/debug";

/// Why a program's symbols could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is of another kind.
    #[error("cannot read the symbols of {}: {source}", path.display())]
    Elf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ElfError,
    },
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
    let debug = debug_file(&file, debug_files).map_err(fail)?;
    if let Some(debug) = debug
        && let Ok(symbols) = elf::read(&file, Some(&debug), module)
    {
        return Ok(symbols);
    }
    elf::read(&file, None, module).map_err(fail)
}

/// The contents of a stripped file's debug file, if it is there and has the same build id.
fn debug_file(file: &[u8], folder: &Path) -> Result<Option<Vec<u8>>, ElfError> {
    if elf::has_symbol_table(file)? {
        return Ok(None);
    }
    let Some(id) = elf::build_id(file)? else { return Ok(None) };
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let Some((first, rest)) = hex.split_at_checked(2) else { return Ok(None) };
    let path = folder.join(".build-id").join(first).join(format!("{rest}.debug"));
    let same = |debug: &Vec<u8>| elf::build_id(debug) == Ok(Some(id));
    Ok(fs::read(path).ok().filter(same))
}
