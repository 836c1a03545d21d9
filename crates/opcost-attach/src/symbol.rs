//! Names of functions in a running process, and where they are.

use crate::image::{self, Image};
use crate::maps::Mapping;
use crate::process::Process;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use opcost_record::printable::printable;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

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
                name: printable(name),
                address: bias.wrapping_add(symbol.address()),
                path: printable(&mapping.path),
            })
        })
        .collect();
    found.sort_by(|one, two| (one.address, &one.name).cmp(&(two.address, &two.name)));
    found.dedup_by(|one, two| (one.address, &one.name) == (two.address, &two.name));
    found
}

/// The functions of some of a process's files, and the files whose names cannot be read.
#[derive(Debug, Default)]
pub struct Symbols {
    /// What is known.
    pub functions: Vec<Function>,
    /// Programs and shared objects of which nothing is known, since they were removed or replaced.
    pub unread: Vec<String>,
}

/// The functions of some of a process's files.
///
/// `wanted` says of which files.
pub fn functions(
    process: &Process,
    mappings: &[Mapping],
    wanted: impl Fn(&Mapping) -> bool,
) -> Symbols {
    let mut symbols = Symbols::default();
    let beginnings = mappings.iter().filter(|mapping| mapping.offset_bytes == 0 && wanted(mapping));
    for mapping in beginnings {
        let image = image::look(process, mapping.start);
        if matches!(image, Image::NotElf | Image::Elf32) {
            continue;
        }
        match file_of(process, mapping) {
            Some(file) => symbols.functions.extend(functions_in(&file, mapping)),
            None => symbols.unread.push(printable(&mapping.path)),
        }
    }
    symbols
}

/// The contents of a mapped file.
///
/// Its path leads to it only where it was neither removed nor replaced; it is one from our own root
/// directory, or from that of a container. The kernel's link to what is mapped leads to it always, but is
/// for root's eyes (proc_pid_map_files(5)); the link to the program itself is for all who may trace it.
fn file_of(process: &Process, mapping: &Mapping) -> Option<Vec<u8>> {
    let Process { pid, .. } = process;
    let Mapping { start, end, path, .. } = mapping;
    let links = [
        format!("/proc/{pid}/map_files/{start:x}-{end:x}"),
        path.clone(),
        format!("/proc/{pid}/root{path}"),
        format!("/proc/{pid}/exe"),
    ];
    let id = image::build_id(process, *start);
    let is_it = |file: &File, bytes: &[u8]| match &id {
        Some(id) => {
            let of_file = object::File::parse(bytes).ok();
            of_file.is_some_and(|file| file.build_id() == Ok(Some(id.as_slice())))
        }
        // Without one, the same number on some device, which overlays do not let us compare.
        None => file.metadata().is_ok_and(|data| data.ino() == mapping.inode),
    };
    links.iter().find_map(|link| {
        let mut file = open_regular(link)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        is_it(&file, &bytes).then_some(bytes)
    })
}

/// A file, and never a pipe or device that was put in its place: those may wait for ever.
fn open_regular(path: &str) -> Option<File> {
    // Not even opened: some devices act on that.
    std::fs::metadata(path).ok().filter(|data| data.is_file())?;
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path).ok()?;
    file.metadata().is_ok_and(|data| data.is_file()).then_some(file)
}

/// asm-generic/fcntl.h.
const O_NONBLOCK: i32 = 0o4000;
