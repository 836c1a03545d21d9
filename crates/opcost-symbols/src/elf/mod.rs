//! Functions and pages of code in an ELF file, by file offset.
//!
//! The symbol tables name functions. In their gaps come the table of Go's runtime and linkage tables,
//! then unwind information, which a stripped file keeps; the rest is `[text]`. Each byte of the
//! executable segments has exactly one owner.

mod build_id;
mod excerpt;
mod go_table;
mod image;
mod linkage;
mod lookup;
mod module;
mod page;
mod site;
mod soname;
mod source;
mod source_file;
mod table;
mod unwind;

use super::Part;
use super::demangle::{demangle, mangled, printable};
use super::span::{Span, lay_under};
use image::{Code, Image};
use opcost_record::Function;
use opcost_record::symbols::Load;
use source::{Sources, bearers_among};
use std::collections::HashMap;
use std::num::NonZeroU32;

pub use excerpt::{Excerpt, Readable, WHOLE_BYTES_MAX, excerpt};
pub use image::ElfError;
pub use lookup::{
    CodeAt, Lookup, Named, address_of, debug_link, function_list, names, offsets_of, supplement,
    supplement_link,
};
pub use module::linked;
pub use soname::soname;
pub use source_file::source_files;
pub use unwind::without_frame;

/// The code of a program or library.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProgramSymbols {
    /// The link addresses of code, by file offset, ascending, disjoint.
    pub loads: Vec<Load>,
    /// Functions by file offset, ascending, disjoint.
    pub parts: Vec<Part>,
    /// Pages of code: their file offset and their hash in
    /// [`FileSymbols`](opcost_record::symbols::FileSymbols).
    pub pages: Vec<(u64, u64)>,
    /// Instructions that the program changes while it runs, as in `FileSymbols`.
    pub sites: Vec<(u64, u64)>,
}

/// A function's symbol in the file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Symbol<'d> {
    name: &'d [u8],
    /// The symbol's offset in the file.
    start: u64,
    /// The number of the source file that the table names before a local symbol; small, because there
    /// can be millions of symbols.
    file: Option<NonZeroU32>,
    local: bool,
}

/// The name of some code, as far as it is known.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Name<'d> {
    /// A symbol.
    Symbol(Symbol<'d>),
    /// An entry of a linkage table that leads to this symbol.
    Linkage(&'d [u8]),
    /// Another part of a linkage table.
    LinkageOther,
    /// A function without a name at this virtual address.
    At(u64),
    /// Code of which nothing more is known.
    Text,
}

impl Name<'_> {
    fn show(self) -> String {
        match self {
            Name::Symbol(symbol) => demangle(&String::from_utf8_lossy(symbol.name)),
            Name::Linkage(symbol) => format!("{}@plt", demangle(&String::from_utf8_lossy(symbol))),
            Name::LinkageOther => "[plt]".to_owned(),
            Name::At(address) => format!("[at {address:#x}]"),
            Name::Text => "[text]".to_owned(),
        }
    }

    /// Returns the mangled name of what is shown.
    fn mangled(self, shown: &str) -> Option<Box<str>> {
        match self {
            Name::Symbol(symbol) => mangled(&String::from_utf8_lossy(symbol.name), shown),
            Name::Linkage(symbol) => {
                let shown = shown.strip_suffix("@plt")?;
                let name = mangled(&String::from_utf8_lossy(symbol), shown)?;
                Some(format!("{name}@plt").into())
            }
            _ => None,
        }
    }
}

/// Whether a file that starts with `bytes` is an ELF file; other files have no symbols to read.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(&object::elf::ELFMAG)
}

/// Whether a file itself has debug information about its functions.
pub fn has_debug_information(file: &[u8]) -> bool {
    let names: [&[u8]; 2] = [b".debug_info", b".zdebug_info"];
    Image::parse(file).is_ok_and(|image| {
        names.iter().any(|name| image.sections.section_by_name(image::LE, name).is_some())
    })
}

/// Returns the build id of an ELF file, if it has one.
///
/// # Errors
/// [`ElfError`], as [`read`].
pub fn build_id(file: &[u8]) -> Result<Option<&[u8]>, ElfError> {
    Ok(build_id::find(&Image::parse(file)?))
}

/// Whether an ELF file has a full symbol table; a debug file then adds no names.
///
/// # Errors
/// [`ElfError`], as [`read`].
pub fn has_symbol_table(file: &[u8]) -> Result<bool, ElfError> {
    Ok(table::is_present(&Image::parse(file)?))
}

/// Reads the functions and pages of a program or library.
///
/// `file`: the file's contents; `debug`: the contents of the debug file split off from it, if there
/// is one, used for names only; `module`: the name of the functions' module.
///
/// # Errors
/// [`ElfError`]: the file is not an ELF file, for another machine, not a program or library, cut short, or
/// contradicts itself.
pub fn read(file: &[u8], debug: Option<&[u8]>, module: &str) -> Result<ProgramSymbols, ElfError> {
    let image = Image::parse(file)?;
    let code = image.code()?;
    let debug = debug.map(Image::parse).transpose()?;
    let text: Vec<Span<Name>> = code
        .iter()
        .map(|part| Span { start: part.start, end: part.end, name: Name::Text })
        .collect();
    let table = table::Functions::read(&image, debug.as_ref(), &code)?;
    let mut spans = table.spans();
    spans = lay_under(&spans, &go_table::functions(&image, &code));
    spans = lay_under(&spans, &linkage::entries(&image, &code)?);
    spans = lay_under(&spans, &unwind::functions(&image, &code));
    spans = lay_under(&spans, &text);
    let module = printable(module);
    let mut places = HashMap::new();
    let mut names = Vec::new();
    for span in &spans {
        places.entry(span.name).or_insert_with(|| {
            names.push(span.name);
            names.len() - 1
        });
    }
    let bearers = |is_wanted: &dyn Fn(&[u8]) -> bool| bearers_among(&spans, is_wanted);
    let sources = Sources { bearers: &bearers, files: &table.files, code: &code };
    let shown = sources.shown(&names);
    let mut parts: Vec<Part> = Vec::with_capacity(spans.len());
    for Span { start, end, name } in spans {
        let (symbol, source) = &shown[places[&name]];
        match parts.last_mut() {
            Some(Part { end: last, function, .. })
                if *last == start && (&function.symbol, &function.source) == (symbol, source) =>
            {
                *last = end;
            }
            _ => {
                let (source, mangled) = (source.clone(), name.mangled(symbol));
                let function = Function { source, mangled, ..Function::new(symbol, &module) };
                parts.push(Part { start, end, function });
            }
        }
    }
    let sites = site::ranges(&image, &code);
    let pages = page::hashes(file, &code, &sites);
    let load = |code: &Code| Load { start: code.start, end: code.end, address: code.address };
    Ok(ProgramSymbols { loads: code.iter().map(load).collect(), parts, pages, sites })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
