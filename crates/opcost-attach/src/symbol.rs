//! Names of functions in a running process, and where they are.

use crate::maps::Mapping;
use crate::process::Process;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::fs;

/// One function of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub address: u64,
    /// The file that it is of.
    pub path: String,
}

/// The functions that a file's symbol tables name, as it is mapped into a process.
///
/// `file`: its contents; `mapping`: where its beginning is.
pub fn functions_in(file: &[u8], mapping: &Mapping) -> Vec<Function> {
    let Ok(elf) = object::File::parse(file) else { return Vec::new() };
    let Some(lowest) = elf.segments().map(|segment| segment.address() & !4095).min() else {
        return Vec::new();
    };
    let bias = mapping.start.wrapping_sub(lowest);
    let symbols = elf.symbols().chain(elf.dynamic_symbols());
    let mut found: Vec<Function> = symbols
        .filter(|symbol| symbol.is_definition() && symbol.kind() == SymbolKind::Text)
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some(Function {
                name: name.to_string(),
                address: bias.wrapping_add(symbol.address()),
                path: mapping.path.clone(),
            })
        })
        .collect();
    found.sort_by(|one, two| (one.address, &one.name).cmp(&(two.address, &two.name)));
    found.dedup_by(|one, two| (one.address, &one.name) == (two.address, &two.name));
    found
}

/// The functions of some of a process's files; a file that cannot be read has none.
///
/// `wanted` says of which files.
pub fn functions(
    process: &Process,
    mappings: &[Mapping],
    wanted: impl Fn(&Mapping) -> bool,
) -> Vec<Function> {
    let beginnings = mappings.iter().filter(|mapping| mapping.offset_bytes == 0 && wanted(mapping));
    let read = |mapping: &Mapping| {
        // The file as the process sees it, which may live in a container.
        let path = format!("/proc/{}/root{}", process.pid, mapping.path);
        fs::read(path).map(|file| functions_in(&file, mapping)).unwrap_or_default()
    };
    beginnings.flat_map(read).collect()
}
