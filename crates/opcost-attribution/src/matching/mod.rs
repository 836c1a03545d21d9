//! Matches the functions of several sides. A side is a variant, a recording or a file.
//!
//! Two builds lie in different folders, link other versions of a library and split or rename functions differently. Files are
//! therefore matched by the part they play (`modules`), and functions by their name in the source (`functions`). Every guess is
//! visible: a pair that rests on a name alone is reported as such, and if several functions could be the same, they are one row.

mod functions;
mod modules;

use functions::Matched;
use modules::{Class, File};
use opcost_base::exit::{HasStatus, Status};
use opcost_model::plan::SameFile;
use opcost_record::{Function, Module};
use opcost_symbols::naming::Naming;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

pub use modules::ModuleMatch;

/// Files without a counterpart are reported if they have this share of all that changed.
const SHARE_UNMATCHED: f64 = 0.05;

/// The functions and files of one side.
#[derive(Clone, Debug, Default)]
pub struct Side<'a> {
    /// The functions, in any order, each once or more often.
    pub functions: Vec<&'a Function>,
    /// The known facts about the files.
    pub modules: Vec<&'a Module>,
    /// The program that the side was to run; needed if no file is known to be the program.
    pub program: Option<&'a str>,
}

impl<'a> Side<'a> {
    /// Functions and files of several sides as one.
    pub fn all(sides: &[Side<'a>]) -> Side<'a> {
        Side {
            functions: sides.iter().flat_map(|side| &side.functions).copied().collect(),
            modules: sides.iter().flat_map(|side| &side.modules).copied().collect(),
            program: None,
        }
    }
}

/// A file of the baseline and a file of the variant that were taken for the same one.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct ModulePair {
    /// The baseline's file.
    pub baseline: String,
    /// The variant's file.
    pub variant: String,
    /// The evidence that the files are the same.
    pub by: ModuleMatch,
}

/// The error of a `--match` that names a file which no profile has.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("--match {told}: no file of the {side} is called '{name}'; there is {there}")]
pub struct UnknownModule {
    told: String,
    side: &'static str,
    name: String,
    there: String,
}

impl HasStatus for UnknownModule {
    fn status(&self) -> Status {
        Status::Usage
    }
}

/// The functions of several sides, numbered so that the same function has the same number on each side.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    /// Each function under its display name, with its file on the last side.
    functions: Vec<Function>,
    symbols: Vec<String>,
    matched: Vec<Matched>,
    classes: Vec<Class>,
    numbers: Vec<HashMap<Function, u32>>,
}

impl Matching {
    /// Matches the functions of these sides.
    ///
    /// `told`: pairs of files that the user declares the same, by path or name; the first is of an earlier side, the second of a
    /// later side.
    pub fn of(sides: &[Side<'_>], told: &[SameFile]) -> Matching {
        let files: Vec<Vec<File<'_>>> = sides.iter().map(modules::files).collect();
        let classes = modules::match_files(&files, told);
        let mut class_of: Vec<HashMap<&str, usize>> = vec![HashMap::new(); sides.len()];
        for (number, class) in classes.iter().enumerate() {
            for (side, path) in class.paths.iter().enumerate() {
                class_of[side].extend(path.as_deref().map(|path| (path, number)));
            }
        }
        let listed: Vec<Vec<(&Function, usize)>> = sides
            .iter()
            .zip(&class_of)
            .map(|(side, classes)| {
                let with_class = |function: &&Function| classes[function.module.as_str()];
                side.functions.iter().map(|one| (*one, with_class(one))).collect()
            })
            .collect();
        let (matched, numbers) = functions::match_functions(&listed);
        let function = |matched: &Matched| {
            let last = matched.names.iter().rposition(|names| !names.is_empty());
            let path = last.and_then(|side| classes[matched.class].paths[side].clone());
            Function {
                symbol: matched.symbol.clone(),
                module: path.unwrap_or_default(),
                source: matched.source.clone(),
                mangled: matched.mangled.clone(),
            }
        };
        let functions: Vec<Function> = matched.iter().map(function).collect();
        let naming = Naming::of(&functions);
        let symbols = functions.iter().map(|one| naming.symbol(one).into_owned()).collect();
        Matching { functions, symbols, matched, classes, numbers }
    }

    /// The functions by number, each with its file on the last side.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The number of a side's function, which must be among the matched functions.
    pub fn number(&self, side: usize, function: &Function) -> u32 {
        self.numbers[side][function]
    }

    /// The display name of a function, unique within its file.
    pub fn symbol(&self, number: u32) -> &str {
        &self.symbols[number as usize]
    }

    /// The file of a function on a side.
    pub fn module(&self, number: u32, side: usize) -> Option<&str> {
        self.classes[self.matched[number as usize].class].paths[side].as_deref()
    }

    /// Whether a function of two sides was matched by its name in the source alone: no symbol is the same on both sides, or several
    /// functions of a side may be meant.
    pub fn by_name_only(&self, number: u32, [one, two]: [usize; 2]) -> bool {
        let names = &self.matched[number as usize].names;
        let both = !names[one].is_empty() && !names[two].is_empty();
        both && !names[one].iter().any(|name| names[two].contains(name))
    }

    /// The files of two sides that were matched although their paths differ.
    pub fn pairs(&self, sides: [usize; 2]) -> Vec<ModulePair> {
        let pair = |class: &Class| {
            let [baseline, variant] = sides.map(|side| class.paths[side].clone());
            let by = class.by[sides[1]].max(class.by[sides[0]]);
            Some(ModulePair { baseline: baseline?, variant: variant?, by })
        };
        self.classes.iter().filter_map(pair).filter(|pair| pair.baseline != pair.variant).collect()
    }

    /// The file of each side that has no counterpart and the largest change, if that is a large share of all change.
    ///
    /// `changes`: functions with the change of their own cost.
    pub fn unmatched(&self, sides: [usize; 2], changes: &[(u32, f64)]) -> Option<[String; 2]> {
        let all: f64 = changes.iter().map(|(_, change)| change.abs()).sum();
        let largest = |side: usize| {
            let mut alone: BTreeMap<&str, f64> = BTreeMap::new();
            for (function, change) in changes {
                if let Some(module) = self.module(*function, sides[side])
                    && self.module(*function, sides[1 - side]).is_none()
                    && modules::is_file(module)
                {
                    *alone.entry(module).or_default() += change.abs();
                }
            }
            let found = alone.into_iter().max_by(|one, two| one.1.total_cmp(&two.1))?;
            (found.1 >= SHARE_UNMATCHED * all).then(|| found.0.to_string())
        };
        Some([largest(0)?, largest(1)?])
    }
}

/// Checks that the files declared the same exist on their sides.
///
/// # Errors
/// [`UnknownModule`] names the first file that does not.
pub fn check_told(sides: [&Side<'_>; 2], told: &[SameFile]) -> Result<(), UnknownModule> {
    let files = sides.map(modules::files);
    for same @ SameFile { old, new } in told {
        for (files, (name, side)) in files.iter().zip([(old, "baseline"), (new, "variant")]) {
            if !files.iter().any(|file| file.is_called(name)) {
                let mut there: Vec<&str> =
                    files.iter().filter(|file| file.is_file()).map(|file| file.name()).collect();
                there.sort_unstable();
                there.dedup();
                let there = if there.is_empty() { "none".into() } else { there.join(", ") };
                let told = same.to_string();
                return Err(UnknownModule { told, side, name: name.clone(), there });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
