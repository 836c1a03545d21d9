//! Names the kernel's functions, if the symbols are those of the kernel that was sampled.

use super::file::is_same_build;
use super::{Frame, Names, Sources, Why};
use crate::space::{CodeFile, KERNEL_HALF, KernelReference};
use opcost_record::profile::KERNEL;
use opcost_symbols::debug_files::by_build_id;
use opcost_symbols::elf;
use opcost_symbols::kernel::{KernelFunction, KernelSymbolsError, Namesakes, functions};
use opcost_symbols::span::Span;
use opcost_sys::foreign_file;
use std::fmt::Display;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The symbols of the running kernel.
const KALLSYMS: &str = "/proc/kallsyms";

type Function<'t> = Span<KernelFunction<'t>>;

/// The source of the kernel's symbols.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KernelSource {
    /// The running kernel, if it has the recorded build id; otherwise perf's copy of the recorded
    /// kernel's symbols.
    Running,
    /// A file of the recorded kernel, like `System.map` or `/proc/kallsyms`.
    File(PathBuf),
    /// No symbols.
    Nothing,
}

/// The longest list of a kernel's functions that is read; Debian's has 10 MB.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// Names these addresses.
pub(super) fn names(
    file: &CodeFile,
    reference: Option<&KernelReference>,
    addresses: &[u64],
    sources: &Sources,
) -> Names {
    names_by(file, reference, addresses, sources, &mut None)
}

/// Names these addresses like `names`; `list`: keeps the running kernel's list of functions.
pub(super) fn names_by(
    file: &CodeFile,
    reference: Option<&KernelReference>,
    addresses: &[u64],
    sources: &Sources,
    list: &mut Option<String>,
) -> Names {
    let none = |why| Names::none(addresses.len(), why);
    let recorded = file.build_id.as_deref();
    let unchecked = recorded.is_none();
    let in_text = |text: &str| in_text(text, reference, addresses, unchecked);
    let in_file = |text: io::Result<String>| match text {
        Ok(text) => in_text(&text),
        Err(error) => none(Why::Unreadable(error.to_string())),
    };
    let mut in_list = || match list {
        Some(text) => in_text(text),
        None => match fs::read_to_string(KALLSYMS) {
            Ok(text) => in_text(list.insert(text)),
            Err(error) => none(Why::Unreadable(error.to_string())),
        },
    };
    match &sources.kernel {
        KernelSource::Nothing => none(Why::Stripped),
        KernelSource::File(path) => match list_of_vmlinux(path, recorded) {
            Some(list) => list.map_or_else(none, |list| in_text(&list)),
            None => in_file(foreign_file::read_text(path, LIST_BYTES_MAX)),
        },
        KernelSource::Running => {
            let cache = sources.build_id_cache.as_deref();
            let folder = recorded.and_then(|id| by_build_id(cache?, id));
            let kept = || foreign_file::read_text(&folder?.join("kallsyms"), LIST_BYTES_MAX).ok();
            match is_same_build(recorded, running_build_id().as_deref()) {
                Some(false) => kept().map_or_else(|| none(Why::OtherBuild), |text| in_text(&text)),
                // Reading perf's copy is several times faster than the kernel writes its list.
                Some(true) => kept()
                    .and_then(|text| own_names(&text, reference, addresses))
                    .unwrap_or_else(in_list),
                None => in_list(),
            }
        }
    }
}

/// Lists the functions of a vmlinux that has the recorded build id, if one is known; `None` if the file is none.
fn list_of_vmlinux(path: &Path, recorded: Option<&[u8]>) -> Option<Result<String, Why>> {
    let mut magic = Vec::new();
    let file = foreign_file::open(path, elf::WHOLE_BYTES_MAX).ok()?;
    file.take(4).read_to_end(&mut magic).ok()?;
    if !elf::is_elf(&magic) {
        return None;
    }
    let unreadable = |error: &dyn Display| Why::Unreadable(error.to_string());
    let list = || {
        let bytes =
            foreign_file::read(path, elf::WHOLE_BYTES_MAX).map_err(|error| unreadable(&error))?;
        let id = elf::build_id(&bytes).map_err(|error| unreadable(&error))?;
        match is_same_build(recorded, id) {
            Some(false) => Err(Why::OtherBuild),
            _ => elf::function_list(&bytes).map_err(|error| unreadable(&error)),
        }
    };
    Some(list())
}

/// Returns the symbol and the address of the function at each of these addresses, which ascend.
pub(crate) fn function_starts(
    file: &CodeFile,
    reference: Option<&KernelReference>,
    addresses: &[u64],
    sources: &Sources,
) -> Vec<Option<(String, u64)>> {
    let Names { frames, stacks, .. } = names(file, reference, addresses, sources);
    let start = |at: u32| {
        let frame: &Frame = &frames[at as usize];
        Some((frame.symbol.clone(), frame.start?))
    };
    stacks.iter().map(|stack| start(stack.function)).collect()
}

/// Returns the build id of a loaded module, if the running kernel is the recorded one.
pub(crate) fn module_build_id(kernel: &CodeFile, module: &str) -> Option<Vec<u8>> {
    let name = module.strip_prefix('[')?.strip_suffix(']').filter(|name| !name.contains('/'))?;
    let is_running = is_same_build(kernel.build_id.as_deref(), running_build_id().as_deref());
    let notes = format!("/sys/module/{name}/notes/.note.gnu.build-id");
    is_running?.then(|| build_id_note(&fs::read(notes).ok()?)).flatten()
}

/// The reach of a call in bytes, and so the greatest distance between code of modules or BPF and the
/// kernel's own code.
const REACH_BYTES: u64 = 1 << 31;

/// The addresses where code of the kernel, of modules and of BPF may be
/// (Documentation/arch/x86/x86_64/mm.rst); on other architectures their limits depend on the kernel.
const CODE: RangeInclusive<u64> = if cfg!(target_arch = "x86_64") {
    0xffff_ffff_8000_0000..=0xffff_ffff_feff_ffff
} else {
    KERNEL_HALF..=u64::MAX
};

/// Names these addresses by a list that was made since this kernel was built, if only functions of
/// the kernel itself are there: these stay in place, while modules and programs of BPF come and go.
fn own_names(text: &str, reference: Option<&KernelReference>, addresses: &[u64]) -> Option<Names> {
    let spans = functions(text).ok()?;
    let shift = shift(text, reference);
    let own = |span: &&Function| span.name.module == KERNEL;
    let first = spans.iter().find(own)?.start.saturating_sub(REACH_BYTES);
    let last = spans.iter().rfind(own)?.end.saturating_add(REACH_BYTES);
    let settled = |address: &u64| match find(&spans, *address, shift) {
        Some(span) => own(&&span),
        // An address this far away is not code, but a word that was taken for a caller.
        None => !CODE.contains(address) || !(first..=last).contains(&address.wrapping_sub(shift)),
    };
    addresses.iter().all(settled).then(|| named(&spans, shift, addresses))
}

/// Names these addresses by a list of symbols.
fn in_text(
    text: &str,
    reference: Option<&KernelReference>,
    addresses: &[u64],
    unchecked: bool,
) -> Names {
    match functions(text) {
        Ok(spans) => Names { unchecked, ..named(&spans, shift(text, reference), addresses) },
        Err(KernelSymbolsError::Hidden { .. }) => Names::none(addresses.len(), Why::Hidden),
        Err(error) => Names::none(addresses.len(), Why::Unreadable(error.to_string())),
    }
}

fn named(spans: &[Function<'_>], shift: u64, addresses: &[u64]) -> Names {
    let found = || addresses.iter().map(|address| find(spans, *address, shift));
    let namesakes = Namesakes::of(spans, found().flatten().map(|span| span.name));
    Names::grouped(found(), |found| frame(found, shift, &namesakes), Why::Stripped)
}

/// Returns how far above its symbols' addresses the kernel was when sampled (wrapping).
fn shift(text: &str, reference: Option<&KernelReference>) -> u64 {
    let Some(reference) = reference else { return 0 };
    let address = |line: &str| {
        if !line.ends_with(&reference.symbol) {
            return None;
        }
        let mut fields = line.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        (fields.nth(1)? == reference.symbol && fields.next().is_none()).then_some(address)
    };
    text.lines().find_map(address).map_or(0, |address| reference.address.wrapping_sub(address))
}

/// Returns the function at an address.
fn find<'t>(spans: &[Function<'t>], address: u64, shift: u64) -> Option<Function<'t>> {
    let address = address.wrapping_sub(shift);
    let at = spans.partition_point(|span| span.end <= address);
    // Each boot loads modules elsewhere, and nothing tells where they were.
    let known =
        |span: &&Function| span.start <= address && (shift == 0 || span.name.module == KERNEL);
    spans.get(at).filter(known).copied()
}

fn frame<'t>(found: &Option<Function<'t>>, shift: u64, namesakes: &Namesakes<'t>) -> Frame {
    let Some(span) = found else { return Frame::new("[text]") };
    Frame {
        source: namesakes.source(span),
        module: Some(span.name.module.into()),
        bytes: Some(span.end - span.start),
        start: Some(span.start.wrapping_add(shift)),
        ..Frame::new(span.name.symbol)
    }
}

/// Returns the release of the running kernel.
pub(crate) fn running_release() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/osrelease").ok()
}

/// Returns the build id of the running kernel, if the kernel tells it (`/sys/kernel/notes`).
pub fn running_build_id() -> Option<Vec<u8>> {
    build_id_note(&fs::read("/sys/kernel/notes").ok()?)
}

/// Finds the build id among notes. A note is the words name size, description size and type, then
/// name and description, each filled up to four bytes (System V ABI, "Note Section").
fn build_id_note(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let word = |at: usize| {
            let bytes = notes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes) as usize)
        };
        let (name_bytes, bytes, kind) = (word(0)?, word(4)?, word(8)?);
        let start = 12 + name_bytes.next_multiple_of(4);
        let name = notes.get(12..12 + name_bytes)?;
        let description = notes.get(start..start + bytes)?;
        if name == b"GNU\0" && kind == object::elf::NT_GNU_BUILD_ID.0 as usize {
            return Some(description.to_vec());
        }
        notes = notes.get(start + bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Stack;
    use super::*;
    use crate::space::CodeKind;
    use opcost_sys::budget::LIMIT_BYTES;

    const MAP: &str = "ffffffff81000000 T _text
ffffffff81000100 T vfs_read
ffffffff81000200 T vfs_write
ffffffff81000300 T _etext
ffffffffc0000000 t ext4_get_inode\t[ext4]
ffffffffc0000100 t ext4_put\t[ext4]
";

    fn found(reference: Option<u64>, addresses: &[u64], map: &str) -> (Vec<String>, Option<Why>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("System.map");
        fs::write(&path, map).unwrap();
        let file = CodeFile { kind: CodeKind::Kernel, path: b"[kernel]".to_vec(), build_id: None };
        let sources = Sources {
            kernel: KernelSource::File(path),
            debug_files: folder.path().into(),
            build_id_cache: None,
            inlined: false,
            limit_bytes: LIMIT_BYTES,
        };
        let reference =
            reference.map(|address| KernelReference { symbol: "_text".into(), address });
        let names = names(&file, reference.as_ref(), addresses, &sources);
        let name = |stack: &Stack| {
            let Frame { symbol, module, .. } = &names.frames[stack.function as usize];
            format!("{symbol} {}", module.as_deref().unwrap_or("-"))
        };
        (names.stacks.iter().map(name).collect(), names.why)
    }

    #[test]
    fn another_boot_has_its_functions_elsewhere() {
        let addresses = [0xffff_ffff_8100_0150, 0xffff_ffff_c000_0010];
        let (same, _) = found(Some(0xffff_ffff_8100_0000), &addresses, MAP);
        assert_eq!(same, ["vfs_read [kernel]", "ext4_get_inode [ext4]"]);
        assert_eq!(found(None, &addresses, MAP).0, same);
        let moved = [0xffff_ffff_9200_0250, 0xffff_ffff_c000_0010, 0xffff_ffff_d100_0010];
        let (moved, _) = found(Some(0xffff_ffff_9200_0000), &moved, MAP);
        assert_eq!(moved, ["vfs_write [kernel]", "[text] -", "[text] -"]);
    }

    #[test]
    fn a_kept_list_settles_what_is_the_kernels_own_alone() {
        let named = |addresses: &[u64]| {
            let names = own_names(MAP, None, addresses)?;
            let symbol = |stack: &Stack| names.frames[stack.function as usize].symbol.clone();
            Some(names.stacks.iter().map(symbol).collect::<Vec<_>>())
        };
        let own = [0xa3c2_d8b0_b038_14e4, 0xffff_ffff_8100_0150, 0xffff_ffff_8100_0250];
        assert_eq!(named(&own).unwrap(), ["[text]", "vfs_read", "vfs_write"]);
        // These addresses are near the kernel, but no code can be there.
        #[cfg(target_arch = "x86_64")]
        assert_eq!(named(&[0xffff_ffff_ffff_00f1, 0xffff_ffff_0000_0002]).unwrap(), ["[text]"; 2]);
        // The first is a module's; the second may be of a module loaded since.
        assert_eq!(named(&[own[1], 0xffff_ffff_c000_0010]), None);
        assert_eq!(named(&[own[1], 0xffff_ffff_c123_0010]), None);
    }

    #[test]
    fn hidden_addresses_are_one_row() {
        let hidden = "0000000000000000 T _text\n0000000000000000 T vfs_read\n";
        let addresses = [0xffff_ffff_8100_0150, 0xffff_ffff_8100_0250];
        let (names, why) = found(None, &addresses, hidden);
        assert_eq!((names, why), (vec!["[hidden] -".to_string(); 2], Some(Why::Hidden)));
    }

    #[test]
    fn a_build_id_is_found_behind_other_notes() {
        let note = |name: &[u8], kind: u32, text: &[u8]| {
            let mut note = Vec::new();
            for word in [name.len() as u32, text.len() as u32, kind] {
                note.extend(word.to_le_bytes());
            }
            for part in [name, text] {
                note.extend(part);
                note.resize(note.len().next_multiple_of(4), 0);
            }
            note
        };
        let notes = [note(b"Xen\0", 6, b"linux"), note(b"GNU\0", 3, &[7; 20])].concat();
        assert_eq!(build_id_note(&notes), Some(vec![7; 20]));
        assert_eq!(build_id_note(&notes[..20]), None);
        assert_eq!(build_id_note(&notes[..40]), None);
    }
}
