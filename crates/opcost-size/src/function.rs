//! Compares a function of two files, instruction by instruction.

use super::alignment::{Aligned, align};
use super::code::{Code, disassemble};
use super::difference::Measured;
use super::error::SizeError;
use super::inventory::SymbolSize;
use opcost_record::nearest::did_you_mean;
use opcost_symbols::clone::origin;
use opcost_symbols::demangle::{demangle, printable};

/// The most names in a message.
const NAMES_SHOWN: usize = 6;

/// A function of two files.
#[derive(Clone, Debug)]
pub struct FunctionDifference {
    /// The files, as the user named them.
    pub files: [String; 2],
    /// The function's name in each file.
    pub names: [String; 2],
    /// The function's code in each file.
    pub code: [Code; 2],
    /// The two columns, row by row.
    pub rows: Vec<Aligned>,
}

impl FunctionDifference {
    /// Returns the number of rows that differ.
    pub fn differing(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row, Aligned::Differs(..))).count()
    }
}

/// Compares the code of a function in two files.
///
/// `name`: as in the symbol table or as its author wrote it; `FILE:NAME` if several have the name.
///
/// # Errors
/// [`SizeError::Function`] names the file that has none or several of this name, or says why its
/// code cannot be shown; [`SizeError::Machines`].
pub fn compare_function(
    files: [&Measured<'_>; 2],
    name: &str,
) -> Result<FunctionDifference, SizeError> {
    let machines = files.map(|file| file.inventory.machine.clone());
    if machines[0] != machines[1] {
        return Err(SizeError::Machines { files: files.map(|file| file.name.clone()), machines });
    }
    let side = |file: &Measured<'_>| {
        let symbol = find(file, name)?;
        let code = disassemble(file.bytes, symbol).map_err(|error| SizeError::Function {
            name: name.to_owned(),
            found: format!("{}: {error}", file.name),
        })?;
        Ok::<_, SizeError>((demangle(&String::from_utf8_lossy(symbol.name)), code))
    };
    let ((name_one, one), (name_two, two)) = (side(files[0])?, side(files[1])?);
    let rows = align([&one, &two]);
    Ok(FunctionDifference {
        files: files.map(|file| file.name.clone()),
        names: [name_one, name_two],
        code: [one, two],
        rows,
    })
}

/// Finds a function by its name: by the exact symbol, then by the readable name with or without
/// parameters, then as the only clone of the named function.
fn find<'m, 'd>(file: &'m Measured<'d>, name: &str) -> Result<&'m SymbolSize<'d>, SizeError> {
    let functions: Vec<&SymbolSize<'d>> =
        file.inventory.symbols.iter().filter(|symbol| symbol.code).collect();
    let names = |symbol: &SymbolSize<'d>| {
        symbol.aliases.iter().copied().chain([symbol.name]).collect::<Vec<&[u8]>>()
    };
    let exactly = |wanted: &str, source: Option<&str>| {
        let of = |symbol: &&&SymbolSize<'d>| {
            source.is_none_or(|source| symbol.file.or(symbol.member) == Some(source.as_bytes()))
                && names(symbol).contains(&wanted.as_bytes())
        };
        functions.iter().filter(of).copied().collect::<Vec<_>>()
    };
    let readable = || {
        let of = |symbol: &&&SymbolSize<'d>| {
            names(symbol).iter().any(|symbol| {
                let shown = demangle(&String::from_utf8_lossy(symbol));
                shown == name || shown.split_once('(').is_some_and(|(shown, _)| shown == name)
            })
        };
        functions.iter().filter(of).copied().collect::<Vec<_>>()
    };
    let clones = || {
        let of = |symbol: &&&SymbolSize<'d>| origin(symbol.name) == Some(name.as_bytes());
        functions.iter().filter(of).copied().collect::<Vec<_>>()
    };
    let mut found = exactly(name, None);
    if let Some((source, wanted)) = name.split_once(':').filter(|_| found.is_empty()) {
        found = exactly(wanted, Some(source));
    }
    if found.is_empty() {
        found = readable();
    }
    if found.is_empty() {
        found = clones();
    }
    match found[..] {
        [one] => Ok(one),
        [] => {
            let known: Vec<String> = functions
                .iter()
                .map(|symbol| printable(&String::from_utf8_lossy(symbol.name)))
                .collect();
            let near = did_you_mean(name, known.iter().map(String::as_str));
            let found = if known.is_empty() {
                format!("{} has no symbols of code (stripped?)", file.name)
            } else {
                format!(
                    "{} has no such function{near}; it may have been inlined (opcost size without --function says)",
                    file.name
                )
            };
            Err(SizeError::Function { name: name.to_owned(), found })
        }
        _ => {
            let shown = |symbol: &&SymbolSize<'d>| {
                let plain = |text: &[u8]| printable(&String::from_utf8_lossy(text));
                match symbol.file.or(symbol.member) {
                    Some(source) => format!("{}:{}", plain(source), plain(symbol.name)),
                    None => plain(symbol.name),
                }
            };
            let list: Vec<String> = found.iter().take(NAMES_SHOWN).map(shown).collect();
            let more = if found.len() > NAMES_SHOWN { ", …" } else { "" };
            let found = format!(
                "{} has {} of them; give one of {}{more}",
                file.name,
                found.len(),
                list.join(", ")
            );
            Err(SizeError::Function { name: name.to_owned(), found })
        }
    }
}
