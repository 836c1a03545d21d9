//! Compares two inventories: finds the rows that differ, which add up.

use super::error::SizeError;
use super::family;
use super::inlined::{self, Inlined};
use super::inventory::{Inventory, Names, SymbolSize};
use super::pairing::{Lone, Pairing, Raw, pair};
use super::totals::{Class, Totals};
use opcost_symbols::clone::origin;
use opcost_symbols::debug_files::Moved;
use opcost_symbols::demangle::{demangle, printable};
use std::collections::{HashMap, HashSet};

/// A file with its inventory.
#[derive(Clone, Debug)]
pub struct Measured<'d> {
    /// The file, as the user named it.
    pub name: String,
    /// The file's contents.
    pub bytes: &'d [u8],
    /// The files beside it that have its symbols or debug information.
    pub moved: Option<&'d Moved>,
    /// The parts of the file.
    pub inventory: Inventory<'d>,
}

impl<'d> Measured<'d> {
    /// Takes the inventory of a file.
    ///
    /// # Errors
    /// [`SizeError::Contents`].
    pub fn read(name: &str, bytes: &'d [u8]) -> Result<Measured<'d>, SizeError> {
        Measured::with_moved(name, bytes, None)
    }

    /// Takes the inventory of a file; `moved`: the files to which its symbols or debug information were moved.
    ///
    /// # Errors
    /// [`SizeError::Contents`].
    pub fn with_moved(
        name: &str,
        bytes: &'d [u8],
        moved: Option<&'d Moved>,
    ) -> Result<Measured<'d>, SizeError> {
        let mut inventory =
            Inventory::with_debug_file(bytes, moved.and_then(|one| one.debug.as_ref()))
                .map_err(|error| SizeError::Contents { file: name.to_owned(), error })?;
        if moved.is_some_and(|moved| moved.is_missing) {
            let note = "some debug information is in files that are not here or are of another build (.dwo or .dwp of -gsplit-dwarf, or dwz's)";
            inventory.notes.push(note.into());
        }
        Ok(Measured { name: name.to_owned(), bytes, moved, inventory })
    }
}

/// The difference between two files.
#[derive(Clone, Debug)]
pub struct SizeDifference {
    /// The machine of both files.
    pub machine: String,
    /// The two files, the baseline first.
    pub sides: [SizeSide; 2],
    /// Whether the files are the same, byte by byte.
    pub identical: bool,
    /// Every section of either file, in the order of the files.
    pub sections: Vec<SectionRow>,
    /// The symbols that differ, the largest changes first.
    pub symbols: Vec<SymbolRow>,
    /// The number of symbols that do not differ.
    pub symbols_unchanged: usize,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// One of the two files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SizeSide {
    /// The file, as the user named it.
    pub name: String,
    /// The file's length.
    pub file_bytes: u64,
    /// The bytes by class.
    pub totals: Totals,
    /// The kind of symbol table that the file has.
    pub names: Names,
}

/// A section of either file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SectionRow {
    /// The section's name.
    pub name: String,
    /// The class of the section.
    pub class: Class,
    /// The bytes; `None` if the file has no such section.
    pub bytes: [Option<u64>; 2],
    /// The bytes that belong to no symbol.
    pub unnamed_bytes: [Option<u64>; 2],
}

/// A symbol of either file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SymbolRow {
    /// The name as its author wrote it.
    pub name: String,
    /// The name in the symbol table.
    pub symbol: String,
    /// The other names of the symbol's address, by file.
    pub aliases: [Vec<String>; 2],
    /// Source file or archive member, which tells symbols of the same name apart.
    pub origin: Option<String>,
    /// Whether only the symbol's own object sees it.
    pub local: bool,
    /// Index in [`SizeDifference::sections`], by file.
    pub sections: [Option<usize>; 2],
    /// The bytes; `None` if the file has no such symbol.
    pub bytes: [Option<u64>; 2],
    /// Whether a side's bytes are the gap to the next symbol, since the symbol has no size.
    pub estimated: [bool; 2],
    /// Functions of the other file into which the symbol was inlined there.
    pub inlined_into: Vec<String>,
    /// The symbol of the other file onto which the linker folded this one there.
    pub folded_onto: Option<String>,
    /// The function whose part or clone this is, and the change of the function with all of them.
    pub part_of: Option<(String, i64)>,
}

/// Returns the variant's bytes minus the baseline's; missing bytes count as 0.
fn change(bytes: [Option<u64>; 2]) -> i64 {
    let [baseline, variant] = bytes.map(|bytes| bytes.unwrap_or(0) as i64);
    variant - baseline
}

impl SectionRow {
    /// Bytes gained.
    pub fn change(&self) -> i64 {
        change(self.bytes)
    }

    /// Bytes gained that belong to no symbol.
    pub fn unnamed_change(&self) -> i64 {
        change(self.unnamed_bytes)
    }
}

impl SymbolRow {
    /// Bytes gained.
    pub fn change(&self) -> i64 {
        change(self.bytes)
    }
}

/// A row of the table of changes.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// A symbol.
    Symbol(&'a SymbolRow),
    /// The bytes of a section that belong to no symbol.
    Unnamed(&'a SectionRow),
}

impl Part<'_> {
    /// Bytes gained.
    pub fn change(&self) -> i64 {
        match self {
            Part::Symbol(row) => row.change(),
            Part::Unnamed(row) => row.unnamed_change(),
        }
    }
}

impl SizeDifference {
    /// Bytes in memory gained by the variant.
    pub fn change(&self) -> i64 {
        change(self.sides.each_ref().map(|side| Some(side.totals.sum())))
    }

    /// Returns the changed rows, the largest changes first; the changes add up to [`Self::change`].
    pub fn parts(&self) -> Vec<Part<'_>> {
        let unnamed = self
            .sections
            .iter()
            .filter(|row| row.class != Class::NotLoaded && row.unnamed_change() != 0);
        let mut parts: Vec<Part<'_>> =
            self.symbols.iter().map(Part::Symbol).chain(unnamed.map(Part::Unnamed)).collect();
        // The sort is stable: symbols are in order already.
        parts.sort_by_key(|part| std::cmp::Reverse(part.change().unsigned_abs()));
        parts
    }

    /// Whether both sides have names, so that rows by symbol are meaningful.
    pub fn has_symbols(&self) -> bool {
        self.sides.iter().all(|side| side.names != Names::None)
    }
}

/// Compares two files.
///
/// # Errors
/// [`SizeError::Machines`]: the files are for different machines.
pub fn compare(files: [&Measured<'_>; 2]) -> Result<SizeDifference, SizeError> {
    let machines = files.map(|file| file.inventory.machine.clone());
    if machines[0] != machines[1] {
        return Err(SizeError::Machines { files: files.map(|file| file.name.clone()), machines });
    }
    let [machine, _] = machines;
    let (sections, places) = sections(files);
    let inventories = files.map(|file| &file.inventory);
    let sides = files.map(|file| SizeSide {
        name: file.name.clone(),
        file_bytes: file.bytes.len() as u64,
        totals: file.inventory.totals(),
        names: file.inventory.names,
    });
    let identical = files[0].bytes == files[1].bytes;
    let mut difference = SizeDifference {
        machine,
        notes: notes(files),
        sides,
        identical,
        sections,
        symbols: Vec::new(),
        symbols_unchanged: 0,
    };
    // If only one side has names, every symbol would be a change.
    if identical || !difference.has_symbols() {
        difference.symbols_unchanged = if identical { inventories[0].symbols.len() } else { 0 };
        without_names(&mut difference);
        return Ok(difference);
    }
    let symbols = inventories.map(|inventory| inventory.symbols.as_slice());
    let pairing = pair(symbols);
    let (rows, unchanged) = rows(symbols, &pairing, &places);
    let together = family::changes(symbols, &rows);
    let gone = [0, 1].map(|side| wanted(symbols[side], &rows, side));
    // A symbol that only one side has may be inlined on the other side.
    let inlined = [0, 1].map(|side: usize| {
        if gone[side].is_empty() {
            None
        } else {
            let other = files[1 - side];
            Some(inlined::search(other.bytes, other.moved, &gone[side]))
        }
    });
    let untold =
        (0..2).any(|side| inlined[side].as_ref().is_some_and(|found| !found.debug_information));
    let mut shown: Vec<SymbolRow> =
        rows.iter().map(|row| show(row, symbols, &inlined, &together, &places)).collect();
    shown.sort_by(|one, two| {
        let size = |row: &SymbolRow| std::cmp::Reverse(row.change().unsigned_abs());
        (size(one), &one.name, &one.origin).cmp(&(size(two), &two.name, &two.origin))
    });
    difference.symbols = shown;
    difference.symbols_unchanged = unchanged;
    if untold {
        difference.notes.push(
            "without debug information (-g) it cannot be told whether a function that is gone was inlined".into(),
        );
    }
    Ok(difference)
}

/// Returns the sections by name and class, and for each file the indices of its sections.
fn sections(files: [&Measured<'_>; 2]) -> (Vec<SectionRow>, [Vec<usize>; 2]) {
    let mut rows: Vec<SectionRow> = Vec::new();
    let mut known: HashMap<(String, Class), usize> = HashMap::new();
    let mut places = [Vec::new(), Vec::new()];
    for (side, file) in files.into_iter().enumerate() {
        for section in &file.inventory.sections {
            let place = *known.entry((section.name.clone(), section.class)).or_insert(rows.len());
            if place == rows.len() {
                rows.push(SectionRow {
                    name: printable(&section.name),
                    class: section.class,
                    bytes: [None; 2],
                    unnamed_bytes: [None; 2],
                });
            }
            rows[place].bytes[side] = Some(section.bytes);
            rows[place].unnamed_bytes[side] = Some(section.unnamed_bytes);
            places[side].push(place);
        }
    }
    (rows, places)
}

/// Counts all bytes as unnamed, since there are no rows for symbols.
fn without_names(difference: &mut SizeDifference) {
    for section in &mut difference.sections {
        section.unnamed_bytes = section.bytes;
    }
}

fn notes(files: [&Measured<'_>; 2]) -> Vec<String> {
    let mut notes = Vec::new();
    for file in files {
        let name = &file.name;
        notes.extend(file.inventory.notes.iter().map(|note| format!("{name}: {note}")));
        match file.inventory.names {
            Names::Full => {}
            Names::Exported => notes.push(format!(
                "{name} was stripped: only the symbols it exports have names, the rest is [unnamed]"
            )),
            Names::None => {
                notes.push(format!("{name} was stripped: there are no symbols, only sections; give the file as the linker wrote it"));
            }
        }
    }
    notes
}

/// Returns the symbols that differ in bytes or section, and the number of the others.
fn rows(
    symbols: [&[SymbolSize<'_>]; 2],
    pairing: &Pairing,
    places: &[Vec<usize>; 2],
) -> (Vec<Raw>, usize) {
    let mut rows = Vec::new();
    let mut unchanged = 0;
    for &(one, two) in &pairing.pairs {
        let (before, after) = (&symbols[0][one], &symbols[1][two]);
        let moved = places[0][before.section] != places[1][after.section];
        if before.bytes == after.bytes && !moved {
            unchanged += 1;
        } else {
            rows.push(Raw { symbols: [Some(one), Some(two)], folded: None });
        }
    }
    for (side, alone) in pairing.alone.iter().enumerate() {
        for &(index, lone) in alone {
            let mut row = Raw { symbols: [None; 2], folded: None };
            row.symbols[side] = Some(index);
            if let Lone::Folded(onto) = lone {
                row.folded = Some(onto);
            }
            rows.push(row);
        }
    }
    (rows, unchanged)
}

/// Returns the names of the functions that only one side has.
fn wanted<'d>(symbols: &[SymbolSize<'d>], rows: &[Raw], side: usize) -> HashSet<&'d [u8]> {
    let mut names = HashSet::new();
    for row in rows {
        if let (Some(index), None, None) = (row.symbols[side], row.symbols[1 - side], row.folded)
            && symbols[index].code
        {
            let symbol = &symbols[index];
            names.insert(symbol.name);
            names.extend(&symbol.aliases);
            // A clone also disappears when its function was inlined.
            names.extend(origin(symbol.name));
        }
    }
    names
}

/// Returns the name as its author wrote it, with the suffix that the compiler appended.
pub(super) fn readable(name: &[u8]) -> String {
    let shown = |name: &[u8]| demangle(&String::from_utf8_lossy(name));
    match origin(name) {
        // Demanglers drop a mangled name's suffix, and clones would look like their function.
        Some(function) if name.starts_with(b"_Z") || name.starts_with(b"_R") => {
            let suffix = String::from_utf8_lossy(&name[function.len()..]);
            format!("{} [clone {}]", shown(function), printable(&suffix))
        }
        _ => shown(name),
    }
}

fn show(
    row: &Raw,
    symbols: [&[SymbolSize<'_>]; 2],
    inlined: &[Option<Inlined>; 2],
    together: &family::Changes<'_>,
    places: &[Vec<usize>; 2],
) -> SymbolRow {
    let sides = [0, 1].map(|side: usize| row.symbols[side].map(|index| &symbols[side][index]));
    let Some(symbol) = sides[1].or(sides[0]) else { return SymbolRow::default() };
    let plain = |name: &[u8]| printable(&String::from_utf8_lossy(name));
    let side = usize::from(sides[0].is_none());
    let alone = sides[1 - side].is_none();
    let inlined_into = match &inlined[side] {
        Some(found) if alone && symbol.code && row.folded.is_none() => {
            let names =
                symbol.aliases.iter().copied().chain([symbol.name]).chain(origin(symbol.name));
            names.map(|name| found.into(name, symbol.file)).find(|places| !places.is_empty())
        }
        _ => None,
    };
    SymbolRow {
        name: readable(symbol.name),
        symbol: plain(symbol.name),
        aliases: sides.map(|side| {
            side.map_or_else(Vec::new, |side| {
                side.aliases.iter().map(|name| readable(name)).collect()
            })
        }),
        origin: symbol.file.or(symbol.member).map(plain),
        local: symbol.local,
        sections: [0, 1].map(|side: usize| sides[side].map(|symbol| places[side][symbol.section])),
        bytes: sides.map(|side| side.map(|symbol| symbol.bytes)),
        estimated: sides.map(|side| side.is_some_and(|symbol| symbol.estimated)),
        inlined_into: inlined_into.unwrap_or_default(),
        folded_onto: row.folded.map(|onto| readable(symbols[1 - side][onto].name)),
        part_of: together.of(symbol).map(|(function, change)| (readable(function), change)),
    }
}
