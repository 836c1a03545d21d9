//! Takes the inventory of a file of any supported kind.

use super::error::ContentsError;
use super::inventory::Inventory;
use super::totals::Totals;
use super::{archive, object_file};
use object::ObjectSection;
use opcost_symbols::elf::Excerpt;

impl<'d> Inventory<'d> {
    /// Takes the inventory of a file.
    ///
    /// `bytes`: an ELF executable, shared object, object file or kernel (vmlinux), or an archive
    /// (ar) of object files.
    ///
    /// # Errors
    /// [`ContentsError`].
    pub fn read(bytes: &'d [u8]) -> Result<Inventory<'d>, ContentsError> {
        Inventory::with_debug_file(bytes, None)
    }

    /// Takes the inventory of a file whose symbols are in this debug file, if it has none itself.
    pub(super) fn with_debug_file(
        bytes: &'d [u8],
        debug: Option<&'d Excerpt>,
    ) -> Result<Inventory<'d>, ContentsError> {
        if bytes.is_empty() {
            return Err(ContentsError::Empty);
        }
        if archive::is_archive(bytes) {
            return archive::read(bytes);
        }
        object_file::read(bytes, None, debug)
    }
}

impl Totals {
    /// Sums the bytes of a file's sections by class.
    ///
    /// # Errors
    /// [`ContentsError`], as in [`Inventory::read`], and for archives.
    pub fn read(bytes: &[u8]) -> Result<Totals, ContentsError> {
        let file = object_file::parse(bytes)?;
        let mut totals = Totals::default();
        for (section, class) in object_file::sections(&file)? {
            totals.add(class, section.size());
        }
        Ok(totals)
    }
}
