//! Address spaces: the mappings of each process.

use crate::event::Mapping;
use crate::tree::CodePlace;
use opcost_symbols::demangle::printable;
use opcost_symbols::keyed::KeyedMap;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Addresses from here on are the kernel's (x86-64 and AArch64 alike).
pub const KERNEL_HALF: u64 = 1 << 63;

/// The kind of code in a [`CodeFile`].
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum CodeKind {
    /// The kernel and its modules; offsets are addresses.
    Kernel,
    /// An address without a known mapping; offsets are 0.
    Unmapped,
    /// The kernel's code for programs, `[vdso]`.
    Vdso,
    /// A program or library.
    File,
    /// Code without a file, as just-in-time compilers make; offsets are the process's addresses.
    Anonymous {
        /// The process.
        pid: i32,
    },
}

/// A file with code, or a stand-in for one.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct CodeFile {
    /// The kind of code.
    pub kind: CodeKind,
    /// The path as mapped, or a name in brackets.
    pub path: Vec<u8>,
    /// The build id that the file had when it was sampled, if known.
    pub build_id: Option<Vec<u8>>,
}

/// The address of one of the kernel's symbols while it was sampled; the kernel is loaded at another
/// address at each boot (`kaslr`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KernelReference {
    /// The symbol's name, usually `_text`.
    pub symbol: String,
    /// The symbol's address.
    pub address: u64,
}

/// A module of the kernel while it was sampled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KernelModule {
    /// The name in brackets, as the kernel lists it: `[ext4]`.
    pub name: String,
    /// The module's addresses.
    pub addresses: Range<u64>,
    /// The build id of the module's file, if known.
    pub build_id: Option<Vec<u8>>,
}

/// The index of the file of every kernel address.
pub const KERNEL: u32 = 0;
/// The index of the file of addresses without a known mapping.
pub const UNMAPPED: u32 = 1;

/// Mapped code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Region {
    start: u64,
    end: u64,
    file: u32,
    /// Added to an address, wrapping, this gives the offset.
    shift: u64,
}

/// The regions of a process.
#[derive(Clone, Debug, Default)]
struct Space {
    /// The regions by address, disjoint; shared with forked processes.
    regions: Arc<Vec<Region>>,
    /// Spaces of the same version have the same regions.
    version: u32,
}

/// The address spaces of all processes, and the files mapped there.
#[derive(Clone, Debug)]
pub struct Spaces {
    spaces: KeyedMap<i32, Space>,
    versions: u32,
    files: Vec<CodeFile>,
    numbers: HashMap<CodeFile, u32>,
    kernel_reference: Option<KernelReference>,
    kernel_modules: Vec<KernelModule>,
    program: Program,
}

/// The file of the program that was executed first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Program {
    /// Nothing was executed yet.
    #[default]
    None,
    /// A process began a new program; its first mapping of code is yet to come.
    Of(i32),
    /// The index of the program's file.
    Known(u32),
}

impl Default for Spaces {
    fn default() -> Self {
        let file = |kind, path: &str| CodeFile { kind, path: path.into(), build_id: None };
        Spaces {
            spaces: KeyedMap::default(),
            versions: 0,
            files: vec![file(CodeKind::Kernel, "[kernel]"), file(CodeKind::Unmapped, "[unmapped]")],
            numbers: HashMap::new(),
            kernel_reference: None,
            kernel_modules: Vec::new(),
            program: Program::None,
        }
    }
}

impl Spaces {
    /// Every file that was mapped; the first two are [`KERNEL`] and [`UNMAPPED`].
    pub fn files(&self) -> &[CodeFile] {
        &self.files
    }

    /// The kernel's place in memory, if a mapping told it.
    pub fn kernel_reference(&self) -> Option<&KernelReference> {
        self.kernel_reference.as_ref()
    }

    /// The kernel's modules, as far as mappings told them.
    pub fn kernel_modules(&self) -> &[KernelModule] {
        &self.kernel_modules
    }

    /// The file of the first program executed since the last [`begin`](Self::begin), if one was.
    pub fn program(&self) -> Option<u32> {
        match self.program {
            Program::Known(file) => Some(file),
            _ => None,
        }
    }

    /// Makes the program that is executed next the first one.
    pub fn begin(&mut self) {
        self.program = Program::None;
    }

    /// Returns the place of a process's address; `None` if nothing is known to be mapped there.
    pub fn place(&self, pid: i32, address: u64) -> Option<CodePlace> {
        if address >= KERNEL_HALF {
            return Some(CodePlace { file: KERNEL, offset: address });
        }
        let regions = &self.spaces.get(&pid)?.regions;
        let at = regions.partition_point(|region| region.end <= address);
        let region = regions.get(at).filter(|region| region.start <= address)?;
        Some(CodePlace { file: region.file, offset: address.wrapping_add(region.shift) })
    }

    /// Returns the mapped files of a process, each with the address of its first mapped byte, the
    /// offset of this byte in the file, and the number of bytes.
    pub fn mapped(&self, pid: i32) -> impl Iterator<Item = (&CodeFile, u64, u64, u64)> {
        let regions = self.spaces.get(&pid).map_or(&[][..], |space| &space.regions[..]);
        regions.iter().map(|region| {
            let offset = region.start.wrapping_add(region.shift);
            (&self.files[region.file as usize], region.start, offset, region.end - region.start)
        })
    }

    /// A number that changes whenever the process's address space does. Processes with the same
    /// number have the same code at the same addresses.
    pub fn version(&self, pid: i32) -> u32 {
        self.spaces.get(&pid).map_or(0, |space| space.version)
    }

    /// Takes a mapping, which replaces everything at its addresses.
    pub fn map(&mut self, mapping: &Mapping<'_>) {
        let end = mapping.address.saturating_add(mapping.bytes);
        if mapping.pid == -1 || mapping.address >= KERNEL_HALF {
            self.map_kernel(mapping);
            return;
        }
        if mapping.address >= end {
            return;
        }
        let region = mapping.executable.then(|| {
            let file = code_file(mapping);
            let shift = match file.kind {
                CodeKind::Anonymous { .. } => 0,
                CodeKind::Vdso => 0u64.wrapping_sub(mapping.address),
                _ => mapping.file_offset.wrapping_sub(mapping.address),
            };
            let is_file = file.kind == CodeKind::File;
            let file = self.number(file);
            // The kernel maps the program itself before its loader (fs/binfmt_elf.c).
            if is_file && self.program == Program::Of(mapping.pid) {
                self.program = Program::Known(file);
            }
            Region { start: mapping.address, end, file, shift }
        });
        self.versions += 1;
        let space = self.spaces.entry(mapping.pid).or_default();
        space.version = self.versions;
        let regions = Arc::make_mut(&mut space.regions);
        let first = regions.partition_point(|before| before.end <= mapping.address);
        let behind = first + regions[first..].partition_point(|before| before.start < end);
        let left = regions[first..behind].first().filter(|before| before.start < mapping.address);
        let left = left.map(|before| Region { end: mapping.address, ..*before });
        let right = regions[first..behind].last().filter(|before| before.end > end);
        let right = right.map(|before| Region { start: end, ..*before });
        regions.splice(first..behind, [left, region, right].into_iter().flatten());
    }

    /// Empties a process's address space, as a new program begins.
    pub fn clear(&mut self, pid: i32) {
        if self.program == Program::None {
            self.program = Program::Of(pid);
        }
        self.versions += 1;
        let space = Space { regions: Arc::default(), version: self.versions };
        self.spaces.insert(pid, space);
    }

    /// Gives a forked process its parent's mappings.
    pub fn fork(&mut self, parent_pid: i32, pid: i32) {
        if parent_pid == pid {
            return;
        }
        match self.spaces.get(&parent_pid).cloned() {
            Some(space) => self.spaces.insert(pid, space),
            None => self.spaces.remove(&pid),
        };
    }

    fn map_kernel(&mut self, mapping: &Mapping<'_>) {
        // `[kernel.kallsyms]_text`, whose offset is the symbol's address
        // (tools/perf/util/synthetic-events.c, __perf_event__synthesize_kernel_mmap).
        let Some(symbol) = mapping.path.strip_prefix(b"[kernel.kallsyms]") else {
            self.map_module(mapping);
            return;
        };
        if let Some(id) = mapping.build_id {
            self.files[KERNEL as usize].build_id = Some(id.to_vec());
        }
        if !symbol.is_empty() && mapping.file_offset >= KERNEL_HALF {
            self.kernel_reference = Some(KernelReference {
                symbol: String::from_utf8_lossy(symbol).into_owned(),
                address: mapping.file_offset,
            });
        }
    }

    /// Takes the mapping of a kernel's module: `[ext4]`, or the path of `ext4.ko`, which may be packed.
    fn map_module(&mut self, mapping: &Mapping<'_>) {
        let path = String::from_utf8_lossy(mapping.path);
        let Some(name) = module_name(&path) else { return };
        let end = mapping.address.saturating_add(mapping.bytes);
        let build_id = mapping.build_id.map(<[u8]>::to_vec);
        let module = KernelModule { name, addresses: mapping.address..end, build_id };
        if self.kernel_modules.len() < MODULES_MAX && !self.kernel_modules.contains(&module) {
            self.kernel_modules.push(module);
        }
    }

    fn number(&mut self, file: CodeFile) -> u32 {
        let files = &mut self.files;
        *self.numbers.entry(file).or_insert_with_key(|file| {
            files.push(file.clone());
            // Each file came with an event of its own.
            u32::try_from(files.len() - 1).expect("fewer files than 2^32")
        })
    }
}

/// The most modules that are remembered; a kernel of a distribution loads some hundred.
const MODULES_MAX: usize = 4096;

/// The name of a kernel's module in brackets, from the same or from the path of its file; `None` for other paths.
pub(crate) fn module_name(path: &str) -> Option<String> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let packed = [".xz", ".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end));
    match packed.unwrap_or(name).strip_suffix(".ko") {
        Some(module) => Some(printable(&format!("[{}]", module.replace('-', "_")))),
        None => {
            let bracketed = path.starts_with('[') && path.ends_with(']');
            (bracketed && !path.contains("kernel")).then(|| printable(path))
        }
    }
}

/// Returns the file of a mapping, or the stand-in for a file.
fn code_file(mapping: &Mapping<'_>) -> CodeFile {
    let path = mapping.path;
    let anonymous = ["//anon", "[heap]", "[stack", "[anon", "/dev/zero", "/memfd:", "/SYSV"];
    let kind = if path == b"[vdso]" {
        CodeKind::Vdso
    } else if path.is_empty()
        || anonymous.iter().any(|start| path.starts_with(start.as_bytes()))
        || path.starts_with(b"anon_inode:")
    {
        CodeKind::Anonymous { pid: mapping.pid }
    } else {
        CodeKind::File
    };
    let build_id = mapping.build_id.filter(|_| !matches!(kind, CodeKind::Anonymous { .. }));
    CodeFile { kind, path: path.to_vec(), build_id: build_id.map(<[u8]>::to_vec) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping(pid: i32, address: u64, bytes: u64, path: &[u8]) -> Mapping<'_> {
        Mapping { pid, address, bytes, file_offset: 0, path, build_id: None, executable: true }
    }

    fn path(spaces: &Spaces, pid: i32, address: u64) -> Option<String> {
        let place = spaces.place(pid, address)?;
        Some(String::from_utf8_lossy(&spaces.files()[place.file as usize].path).into_owned())
    }

    #[test]
    fn a_mapping_replaces_what_it_covers() {
        let mut spaces = Spaces::default();
        spaces.map(&Mapping { file_offset: 0x2000, ..mapping(7, 0x10000, 0x4000, b"/bin/a") });
        spaces.map(&mapping(7, 0x11000, 0x1000, b"/lib/b"));
        assert_eq!(path(&spaces, 7, 0x10fff).as_deref(), Some("/bin/a"));
        assert_eq!(path(&spaces, 7, 0x11000).as_deref(), Some("/lib/b"));
        assert_eq!(spaces.place(7, 0x12010).unwrap().offset, 0x4010);
        assert_eq!(spaces.place(7, 0x14000), None);
        assert_eq!(spaces.place(8, 0x10000), None);
        // A mapping that is not executable hides code, and is not code itself.
        spaces.map(&Mapping { executable: false, ..mapping(7, 0x12000, 0x1000, b"/data") });
        assert_eq!(spaces.place(7, 0x12010), None);
        assert_eq!(spaces.place(7, 0x13010).unwrap().offset, 0x5010);
    }

    #[test]
    fn a_child_has_its_parents_code_until_one_of_them_maps_more() {
        let mut spaces = Spaces::default();
        spaces.map(&mapping(1, 0x1000, 0x1000, b"/bin/sh"));
        spaces.fork(1, 2);
        assert_eq!(spaces.version(1), spaces.version(2));
        spaces.clear(2);
        spaces.map(&mapping(2, 0x1000, 0x1000, b"/bin/ls"));
        assert_eq!(path(&spaces, 1, 0x1000).as_deref(), Some("/bin/sh"));
        assert_eq!(path(&spaces, 2, 0x1000).as_deref(), Some("/bin/ls"));
        assert_ne!(spaces.version(1), spaces.version(2));
        // The identifier is used again, for a child of an unknown process.
        spaces.fork(99, 2);
        assert_eq!(spaces.place(2, 0x1000), None);
    }

    #[test]
    fn the_program_is_what_was_executed_first() {
        let mut spaces = Spaces::default();
        spaces.map(&mapping(1, 0x1000, 0x1000, b"/bin/profiler"));
        spaces.fork(1, 2);
        spaces.clear(2);
        assert_eq!(spaces.program(), None);
        spaces.map(&mapping(1, 0x5000, 0x1000, b"/lib/late.so"));
        spaces.map(&Mapping { executable: false, ..mapping(2, 0x1000, 0x1000, b"/bin/work") });
        spaces.map(&mapping(2, 0x2000, 0x1000, b"/bin/work"));
        spaces.map(&mapping(2, 0x8000, 0x1000, b"/lib/ld.so"));
        spaces.clear(2);
        spaces.map(&mapping(2, 0x2000, 0x1000, b"/bin/other"));
        let program = |spaces: &Spaces| {
            spaces.program().map(|file| spaces.files()[file as usize].path.clone())
        };
        assert_eq!(program(&spaces).as_deref(), Some(&b"/bin/work"[..]));
        spaces.begin();
        assert_eq!(program(&spaces), None);
        spaces.clear(3);
        spaces.map(&mapping(3, 0x2000, 0x1000, b"/bin/other"));
        assert_eq!(program(&spaces).as_deref(), Some(&b"/bin/other"[..]));
    }

    #[test]
    fn the_kernel_is_the_same_everywhere_and_says_where_it_is() {
        let mut spaces = Spaces::default();
        let text = 0xffff_ffff_8100_0000;
        let kernel = mapping(-1, text, 0x100_0000, b"[kernel.kallsyms]_text");
        spaces.map(&Mapping { file_offset: text, build_id: Some(&[1, 2]), ..kernel });
        let reference = KernelReference { symbol: "_text".into(), address: text };
        assert_eq!(spaces.kernel_reference(), Some(&reference));
        assert_eq!(spaces.files()[KERNEL as usize].build_id, Some(vec![1, 2]));
        assert_eq!(spaces.place(3, text + 5), Some(CodePlace { file: KERNEL, offset: text + 5 }));
    }

    #[test]
    fn the_kernels_modules_have_names_and_addresses() {
        let mut spaces = Spaces::default();
        let mut map = |address, path| spaces.map(&mapping(-1, address, 0x1000, path));
        map(0xffff_ffff_c000_0000, b"[ext4]");
        map(0xffff_ffff_c001_0000, b"/lib/modules/6.1.0/kernel/fs/nls/nls-utf8.ko.xz");
        map(0xffff_ffff_c002_0000, b"[guest.kernel.kallsyms]");
        map(0xffff_ffff_c003_0000, b"bpf_prog_6deef7357e7b4530");
        let found: Vec<_> = spaces
            .kernel_modules()
            .iter()
            .map(|module| (module.name.as_str(), module.addresses.start))
            .collect();
        let expected = [("[ext4]", 0xffff_ffff_c000_0000), ("[nls_utf8]", 0xffff_ffff_c001_0000)];
        assert_eq!(found, expected);
    }

    #[test]
    fn code_without_a_file_is_its_process() {
        let mut spaces = Spaces::default();
        spaces.map(&mapping(5, 0x1000, 0x1000, b"//anon"));
        spaces.map(&mapping(6, 0x1000, 0x1000, b"//anon"));
        let files: Vec<_> = [5, 6].map(|pid| spaces.place(pid, 0x1800).unwrap()).to_vec();
        assert_eq!([files[0].offset, files[1].offset], [0x1800, 0x1800]);
        assert_ne!(files[0].file, files[1].file);
    }

    proptest! {
        #[test]
        fn each_byte_has_the_mapping_that_came_last(
            made in prop::collection::vec((0u64..60, 1u64..30, any::<bool>()), 0..20)
        ) {
            let mut spaces = Spaces::default();
            let mut painted = vec![None; 100];
            for (index, (address, bytes, executable)) in made.iter().enumerate() {
                let path = format!("/{index}");
                let made = mapping(1, *address, *bytes, path.as_bytes());
                spaces.map(&Mapping { executable: *executable, ..made });
                painted[*address as usize..(address + bytes) as usize].fill(executable.then_some(path));
            }
            for (address, expected) in painted.into_iter().enumerate() {
                prop_assert_eq!(path(&spaces, 1, address as u64), expected);
            }
        }
    }
}
