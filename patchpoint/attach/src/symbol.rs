//! Names and addresses of functions in a running process.

use crate::image::{self, Image};
use crate::maps::Mapping;
use crate::printable::printable;
use crate::process::Process;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A function of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The address of its first byte.
    pub address: u64,
    /// The file that contains it.
    pub path: String,
}

/// The functions that the symbol tables of a file name, with their addresses in a process.
///
/// `file`: the file's contents; `mapping`: the mapping of the file's beginning.
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

/// The functions of a process's files, and the files whose names cannot be read.
#[derive(Debug, Default)]
pub struct Symbols {
    /// The functions found.
    pub functions: Vec<Function>,
    /// Programs and shared objects without readable names, since they were removed or replaced.
    pub unread: Vec<String>,
}

/// The functions of those of a process's files that `wanted` selects.
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
/// The mapping's path works only if the file was neither removed nor replaced; it starts at our root
/// directory or at a container's. The kernel's link to the mapped file always works, but only for
/// root (proc_pid_map_files(5)). The link to the program works for all who may trace the process.
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
        // Without a build ID, the inode numbers are compared; overlays do not let us compare devices.
        None => file.metadata().is_ok_and(|data| data.ino() == mapping.inode),
    };
    links.iter().find_map(|link| {
        let mut file = open(Path::new(link)).ok()?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        is_it(&file, &bytes).then_some(bytes)
    })
}

/// Opens a regular file of a bounded length. It is found first, since opening a pipe waits and opening a device may act.
fn open(path: &Path) -> io::Result<File> {
    // Such a descriptor opens nothing (open(2), O_PATH).
    let found = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    let known = found.metadata()?;
    if !known.is_file() || known.len() > BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // The number leads to the file that was found, whatever is at its path by now (proc_pid_fd(5)).
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(link)
}

/// The longest program or library that is read.
const BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert!(open(&file).is_ok());
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for other in [folder.path(), &folder.path().join("socket"), Path::new("/dev/zero")] {
            let error = open(other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", other.display());
        }
    }
}
