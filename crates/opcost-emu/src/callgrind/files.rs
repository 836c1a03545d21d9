//! The files with the program's code: which file and function an address belongs to, and later which source line.

use super::registers;
use opcost_callgrind::names;
use opcost_callgrind::settings::Settings;
use opcost_profile::symbolise::{KernelSource, Sources, lines};
use opcost_symbols::Part;
use opcost_symbols::debug_files::DebugFiles;
use opcost_symbols::elf::ProgramSymbols;
use opcost_symbols::program;
use opcost_sys::budget::LIMIT_BYTES;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The file of code that is in no file.
pub(super) const NO_FILE: usize = 0;

/// A function, or code without a name.
pub(super) struct Function {
    pub(super) name: String,
    /// Index of its file.
    pub(super) file: usize,
    /// The address of its first instruction.
    pub(super) start: u64,
    /// Whether its costs belong to its caller.
    pub(super) skip: bool,
    /// Whether it finds a function for a linkage table, and jumps to it.
    pub(super) resolves: bool,
    pub(super) toggles: bool,
    pub(super) dump_before: bool,
    pub(super) dump_after: bool,
    pub(super) zero_before: bool,
}

/// A file with code.
struct File {
    path: String,
    symbols: ProgramSymbols,
}

/// A range of memory with a file's code.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    file: usize,
}

/// The place of an address in a file.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) function: u32,
    /// The file, and which kind of its code: linkage tables are their own.
    pub(super) section: u32,
    /// Whether the address is the function's first.
    pub(super) is_entry: bool,
}

/// All files and functions so far.
pub(super) struct Files {
    files: Vec<File>,
    by_path: HashMap<String, usize>,
    mappings: Vec<Mapping>,
    /// Whether memory was mapped since the mappings were read.
    pub(super) stale: bool,
    pub(super) functions: Vec<Function>,
    numbers: HashMap<(usize, u64), u32>,
    debug_files: DebugFiles,
}

/// Names before `main`, which Valgrind shows as one (m_debuginfo/debuginfo.c, `VG_(get_fnname_kind)`).
const BELOW_MAIN: [&str; 5] = [
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "generic_start_main",
    "_start",
];

impl Files {
    pub(super) fn new() -> Files {
        let none = File { path: String::new(), symbols: ProgramSymbols::default() };
        Files {
            files: vec![none],
            by_path: HashMap::new(),
            mappings: Vec::new(),
            stale: true,
            functions: Vec::new(),
            numbers: HashMap::new(),
            debug_files: DebugFiles::of_environment(None),
        }
    }

    /// The path of a file.
    pub(super) fn path(&self, file: usize) -> &str {
        &self.files[file].path
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        self.mappings[..after].last().filter(|mapping| address < mapping.end)
    }

    /// Reads which files are mapped where. QEMU maps the program's files for it, so the kernel's list has them.
    fn read_mappings(&mut self) {
        self.stale = false;
        let Ok(list) = fs::read("/proc/self/maps") else { return };
        let base = registers::base();
        self.mappings.clear();
        for line in String::from_utf8_lossy(&list).lines() {
            // start-end rights offset device inode path (proc(5)).
            let mut words = line.splitn(6, ' ');
            let (Some(range), Some(_), Some(offset)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Some(path) = words.nth(2).map(str::trim_start).filter(|path| path.starts_with('/'))
            else {
                continue;
            };
            let number = |text: &str| u64::from_str_radix(text, 16).ok();
            let Some((start, end)) = range.split_once('-') else { continue };
            let (Some(start), Some(end), Some(offset)) =
                (number(start), number(end), number(offset))
            else {
                continue;
            };
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            let known = self.by_path.get(path).copied();
            let file = known.unwrap_or_else(|| {
                self.files.push(File { path: path.to_owned(), symbols: ProgramSymbols::default() });
                self.by_path.insert(path.to_owned(), self.files.len() - 1);
                self.files.len() - 1
            });
            let (start, end) = (start.wrapping_sub(base), end.wrapping_sub(base));
            self.mappings.push(Mapping { start, end, offset, file });
        }
        self.mappings.sort_unstable_by_key(|mapping| mapping.start);
    }

    /// Returns the file of an address and the address's offset in it.
    fn find(&mut self, address: u64) -> (usize, u64) {
        if self.stale {
            self.read_mappings();
        }
        let found = self
            .mapping(address)
            .map(|mapping| (mapping.file, address - mapping.start + mapping.offset));
        let Some((file, offset)) = found else { return (NO_FILE, address) };
        if self.files[file].symbols.parts.is_empty() {
            let path = self.files[file].path.clone();
            let read = program::read(Path::new(&path), &path, &self.debug_files);
            let mut symbols = read.unwrap_or_default();
            if symbols.parts.is_empty() {
                // One part, so that the file is not read again.
                let function = opcost_record::Function::new(String::new(), path);
                symbols.parts.push(Part { start: u64::MAX, end: u64::MAX, function });
            }
            self.files[file].symbols = symbols;
        }
        (file, offset)
    }

    /// Finds the function at an address.
    pub(super) fn at(&mut self, address: u64, settings: &Settings) -> At {
        let (file, offset) = self.find(address);
        let parts = &self.files[file].symbols.parts;
        let after = parts.partition_point(|part| part.start <= offset);
        let part = parts[..after].last().filter(|part| offset < part.end);
        let named = part.filter(|part| part.function.symbol != "[text]");
        let begins = named.map_or(offset, |part| part.start);
        let is_table = named.is_some_and(|part| {
            part.function.symbol.ends_with("@plt") || part.function.symbol == "[plt]"
        });
        let name = match named {
            // Valgrind names code without a symbol by its address.
            None => format!("0x{address:016x}"),
            Some(part) => name(&part.function, settings),
        };
        let start = address - (offset - begins);
        let next = self.functions.len() as u32;
        let function = *self.numbers.entry((file, begins)).or_insert(next);
        if function == next {
            let any =
                |patterns: &[String]| patterns.iter().any(|pattern| names::matches(pattern, &name));
            self.functions.push(Function {
                file,
                start,
                skip: is_table && settings.skip_plt || any(&settings.fn_skip),
                resolves: name.starts_with("_dl_runtime_resolve"),
                toggles: any(&settings.toggle_collect),
                dump_before: any(&settings.dump_before),
                dump_after: any(&settings.dump_after),
                zero_before: any(&settings.zero_before),
                name,
            });
        }
        let section = (file as u32) << 1 | u32::from(is_table);
        At { function, section, is_entry: named.is_some() && begins == offset }
    }

    /// Returns the source files and lines of addresses in a file: index into `names` and line, by address.
    ///
    /// `addresses`: with the function's file, ascending; `names`: the source files so far.
    pub(super) fn lines(
        &mut self,
        file: usize,
        addresses: &[u64],
        names: &mut SourceNames,
    ) -> HashMap<u64, (usize, u32)> {
        let mut found = HashMap::new();
        let mut linked: Vec<(u64, u64)> = Vec::new();
        for address in addresses {
            let (at, offset) = self.find(*address);
            let load = self.files[file]
                .symbols
                .loads
                .iter()
                .find(|load| (load.start..load.end).contains(&offset));
            if let Some(load) = load.filter(|_| at == file) {
                linked.push((offset - load.start + load.address, *address));
            }
        }
        linked.sort_unstable();
        if linked.is_empty() {
            return found;
        }
        let sources = Sources {
            kernel: KernelSource::Nothing,
            debug_files: self.debug_files.clone(),
            build_id_cache: None,
            inlined: true,
            limit_bytes: LIMIT_BYTES,
        };
        let places: Vec<u64> = linked.iter().map(|(place, _)| *place).collect();
        let code = lines(Path::new(&self.files[file].path), &places, &sources);
        let numbers: Vec<usize> = code.files.iter().map(|file| names.number(&file.path)).collect();
        for ((_, address), place) in linked.iter().zip(&code.places) {
            // The innermost function's line is the one that line tables have.
            let Some(inner) = place.last() else { continue };
            let file = inner.file.map_or(0, |file| numbers[file as usize]);
            found.insert(*address, (file, inner.line.unwrap_or(0)));
        }
        found
    }
}

/// The names of source files; the first is that of none.
pub(super) struct SourceNames {
    pub(super) names: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl SourceNames {
    pub(super) fn new() -> SourceNames {
        SourceNames { names: vec![String::new()], numbers: HashMap::new() }
    }

    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }
}

fn name(function: &opcost_record::Function, settings: &Settings) -> String {
    let shown = match (&function.mangled, settings.demangle) {
        (Some(mangled), false) => mangled.to_string(),
        _ => function.symbol.clone(),
    };
    let is_below = !settings.show_below_main && BELOW_MAIN.contains(&shown.as_str());
    if is_below { "(below main)".into() } else { shown }
}
