//! Reads the name by which other files link a library (System V ABI, chapter 5, `DT_SONAME`).

use super::image::{ElfError, Image, LE, malformed};
use crate::demangle::printable;
use object::elf::DT_SONAME;
use object::read::elf::Dyn;

/// Returns the soname of a library; `None` if it has none.
///
/// # Errors
/// [`ElfError`], as [`read`](super::read).
pub fn soname(file: &[u8]) -> Result<Option<String>, ElfError> {
    let image = Image::parse(file)?;
    let Some((entries, link)) = image.sections.dynamic(LE, image.data).map_err(malformed)? else {
        return Ok(None);
    };
    let Some(entry) = entries.iter().find(|entry| entry.d_tag(LE) == DT_SONAME) else {
        return Ok(None);
    };
    let strings = image.sections.strings(LE, image.data, link).map_err(malformed)?;
    let name = entry.string(LE, strings).map_err(malformed)?;
    Ok(Some(printable(&String::from_utf8_lossy(name))).filter(|name| !name.is_empty()))
}
