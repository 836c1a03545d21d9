//! Names of the kernel's functions, if its symbols are those of the kernel that was sampled.

use super::file::is_same_build;
use super::{Frame, Names, Sources, Why};
use crate::space::{CodeFile, KernelReference};
use crate::symbols::Part;
use crate::symbols::kernel::{KernelSymbols, KernelSymbolsError};
use crate::symbols::program;
use opcost_record::profile::KERNEL;
use std::fs;
use std::path::PathBuf;

/// Where the kernel's symbols come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KernelSource {
    /// The kernel that runs, if its build id is the recorded one; else what perf kept of the recorded
    /// one.
    Running,
    /// A file like `System.map` or `/proc/kallsyms` of the recorded kernel.
    File(PathBuf),
    /// Nowhere.
    Nothing,
}

/// The names at these addresses.
pub(super) fn names(
    file: &CodeFile,
    reference: Option<&KernelReference>,
    addresses: &[u64],
    sources: &Sources,
) -> Names {
    let none = |why| Names::none(addresses.len(), why);
    let recorded = file.build_id.as_deref();
    let unchecked = recorded.is_none();
    let text = match &sources.kernel {
        KernelSource::Nothing => return none(Why::Stripped),
        KernelSource::File(path) => fs::read_to_string(path),
        KernelSource::Running => {
            let running = running_build_id();
            if is_same_build(recorded, running.as_deref()) == Some(false) {
                let cache = sources.build_id_cache.as_deref();
                let folder = recorded.and_then(|id| program::by_build_id(cache?, id));
                match folder.map(|folder| fs::read_to_string(folder.join("kallsyms"))) {
                    Some(Ok(text)) => Ok(text),
                    _ => return none(Why::OtherBuild),
                }
            } else {
                fs::read_to_string("/proc/kallsyms")
            }
        }
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => return none(Why::Unreadable(error.to_string())),
    };
    match KernelSymbols::parse(&text) {
        Ok(symbols) => {
            let shift = shift(&text, reference);
            let frame = |address: &u64| vec![frame(&symbols.parts, *address, shift)];
            let frames = addresses.iter().map(frame).collect();
            Names { frames, why: Some(Why::Stripped), unchecked }
        }
        Err(KernelSymbolsError::Hidden { .. }) => none(Why::Hidden),
        Err(error) => none(Why::Unreadable(error.to_string())),
    }
}

/// How much higher the kernel was when it was sampled than its symbols say (wrapping).
fn shift(text: &str, reference: Option<&KernelReference>) -> u64 {
    let Some(reference) = reference else { return 0 };
    let address = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        (fields.nth(1)? == reference.symbol && fields.next().is_none()).then_some(address)
    };
    text.lines().find_map(address).map_or(0, |address| reference.address.wrapping_sub(address))
}

fn frame(parts: &[Part], address: u64, shift: u64) -> Frame {
    let address = address.wrapping_sub(shift);
    let at = parts.partition_point(|part| part.end <= address);
    // Modules are loaded elsewhere at each boot, and nothing says where they were.
    let known =
        |part: &&Part| part.start <= address && (shift == 0 || part.function.module == KERNEL);
    match parts.get(at).filter(known) {
        Some(Part { start, end, function }) => Frame {
            symbol: function.symbol.clone(),
            module: Some(function.module.clone()),
            bytes: Some(end - start),
            inlined: false,
        },
        None => Frame { symbol: "[text]".into(), module: None, bytes: None, inlined: false },
    }
}

/// The build id of the kernel that runs, if it says so (`/sys/kernel/notes`).
pub fn running_build_id() -> Option<Vec<u8>> {
    build_id_note(&fs::read("/sys/kernel/notes").ok()?)
}

/// The build id among notes: words of name size, description size and type, then both, each filled
/// up to four bytes (System V ABI, "Note Section").
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
    use super::*;
    use crate::space::CodeKind;

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
        };
        let reference =
            reference.map(|address| KernelReference { symbol: "_text".into(), address });
        let names = names(&file, reference.as_ref(), addresses, &sources);
        let name = |frames: &Vec<Frame>| {
            let module = frames[0].module.as_deref().unwrap_or("-");
            format!("{} {module}", frames[0].symbol)
        };
        (names.frames.iter().map(name).collect(), names.why)
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
