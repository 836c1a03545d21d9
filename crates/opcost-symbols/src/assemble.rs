//! Puts the symbols of a kernel and of programs into one table.

use super::Part;
use super::debug_files::DebugFiles;
use super::elf::ProgramSymbols;
use super::kernel::KernelSymbols;
use super::program::{self, ProgramError};
use opcost_record::Function;
use opcost_record::symbols::{FileSymbols, PAGE_BYTES, Range, Symbols};
use std::collections::HashMap;
use std::path::PathBuf;

/// Reads programs and libraries, and joins them with a kernel's symbols.
///
/// `kernel`: the symbols of the running kernel, if one runs; `programs`: ELF files of this computer,
/// each with its path where it runs. The caller leaves out other files
/// ([`is_elf`](super::elf::is_elf)); `debug_files`: the places of their debug files.
///
/// # Errors
/// [`ProgramError`] for the first file that cannot be read.
pub fn assemble(
    kernel: Option<&KernelSymbols>,
    programs: &[(PathBuf, String)],
    debug_files: &DebugFiles,
) -> Result<Symbols, ProgramError> {
    let mut read = Vec::with_capacity(programs.len());
    for (path, name) in programs {
        read.push(program::read(path, name, debug_files)?);
    }
    Ok(join(kernel, &read))
}

/// Joins a kernel's and programs' symbols: functions in the order of first appearance, none twice.
///
/// A page is recognised by its contents alone. If the same code exists under several names (links,
/// copies), the first name counts. Pages with the same contents but different functions are left
/// out: their cost is then unattributed rather than attributed wrongly.
pub fn join(kernel: Option<&KernelSymbols>, programs: &[ProgramSymbols]) -> Symbols {
    let mut symbols = Symbols::default();
    let mut numbers = HashMap::new();
    if let Some(kernel) = kernel {
        symbols.kernel = ranges(&kernel.parts, &mut numbers, &mut symbols.functions);
        symbols.landmarks.clone_from(&kernel.landmarks);
    }
    for (index, program) in programs.iter().enumerate() {
        if !programs[..index].iter().any(|earlier| is_same_code(earlier, program)) {
            symbols.files.push(FileSymbols {
                loads: program.loads.clone(),
                parts: ranges(&program.parts, &mut numbers, &mut symbols.functions),
                pages: program.pages.clone(),
                sites: program.sites.clone(),
            });
        }
    }
    drop_ambiguous(&mut symbols.files);
    symbols
}

fn is_same_code(one: &ProgramSymbols, other: &ProgramSymbols) -> bool {
    let key = |part: &Part| (part.start, part.end);
    one.pages == other.pages
        && one.parts.len() == other.parts.len()
        && one.parts.iter().zip(&other.parts).all(|(one, other)| {
            key(one) == key(other) && one.function.symbol == other.function.symbol
        })
}

/// Numbers the functions of parts that have no number yet.
fn ranges<'p>(
    parts: &'p [Part],
    numbers: &mut HashMap<&'p Function, u32>,
    functions: &mut Vec<Function>,
) -> Vec<Range> {
    let number = |part: &'p Part| {
        let function = *numbers.entry(&part.function).or_insert_with(|| {
            functions.push(part.function.clone());
            // Memory would be full of the functions' names before.
            u32::try_from(functions.len() - 1).expect("fewer functions than 2^32")
        });
        Range { start: part.start, end: part.end, function }
    };
    parts.iter().map(number).collect()
}

/// Keeps each page's contents at most once: of several pages with the same contents, the first if
/// all have the same functions at the same places, else none.
fn drop_ambiguous(files: &mut [FileSymbols]) {
    let mut places: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
    for (file, FileSymbols { pages, .. }) in files.iter().enumerate() {
        for (offset, hash) in pages {
            places.entry(*hash).or_default().push((file, *offset));
        }
    }
    places.retain(|_, places| places.len() > 1);
    let kept: HashMap<u64, Option<(usize, u64)>> = places
        .into_iter()
        .map(|(hash, places)| {
            let view = |(file, offset): (usize, u64)| view(&files[file].parts, offset);
            let first = view(places[0]);
            let same = places[1..].iter().all(|place| view(*place) == first);
            (hash, same.then_some(places[0]))
        })
        .collect();
    for (file, FileSymbols { pages, .. }) in files.iter_mut().enumerate() {
        pages.retain(|(offset, hash)| {
            kept.get(hash).is_none_or(|place| *place == Some((file, *offset)))
        });
    }
}

/// Returns the functions of a page, at offsets from its start.
fn view(parts: &[Range], page: u64) -> Vec<Range> {
    let end = page + PAGE_BYTES as u64;
    let first = parts.partition_point(|part| part.end <= page);
    parts[first..]
        .iter()
        .take_while(|part| part.start < end)
        .map(|part| Range {
            start: part.start.max(page) - page,
            end: part.end.min(end) - page,
            function: part.function,
        })
        .collect()
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
