//! The cost of each place in code by itself: by address, by source line, or both, as a profile has them.

use crate::space::{CodeFile, KernelModule, KernelReference};

/// The costs of a profile by place in code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeCosts {
    /// The files with code, as [`PlaceCost::file`] numbers them.
    pub files: Vec<CodeFile>,
    /// Whether each file may be another now than the recorded one; no place is in such a file.
    pub(crate) others: Vec<bool>,
    /// Where the files' places are counted from.
    pub counted_from: CountedFrom,
    /// The cost of each address; empty if the profile has no addresses.
    pub places: Vec<PlaceCost>,
    /// The kernel's place in memory, if known.
    pub kernel_reference: Option<KernelReference>,
    /// The kernel's modules, as far as they were told.
    pub kernel_modules: Vec<KernelModule>,
    /// The paths of source files, as [`LineCost::source`] numbers them.
    pub sources: Vec<String>,
    /// The cost of each line that the profile itself names; empty if it names none.
    pub lines: Vec<LineCost>,
}

/// Where the places in a file are counted from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CountedFrom {
    /// The start of the file on disk.
    #[default]
    Disk,
    /// The start of the file in memory.
    Memory,
    /// Address 0 as the file was linked.
    Link,
}

/// The cost of a place in code by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlaceCost {
    /// Index into [`CodeCosts::files`].
    pub file: u32,
    /// The place in the file, bytes; for the kernel and code without a file, the address.
    pub offset: u64,
    /// The function that the code belongs to, an index into the profile's functions.
    pub function: u32,
    /// The functions inlined there, the innermost last.
    pub inlined: Vec<u32>,
    /// The cost, in the event's unit.
    pub cost: u64,
    /// The samples of this cost.
    pub samples: u64,
}

/// The cost of a source line by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LineCost {
    /// The function that the code belongs to, an index into the profile's functions.
    pub function: u32,
    /// The function inlined there, the outermost of several.
    pub inlined: Option<u32>,
    /// Index into [`CodeCosts::sources`].
    pub source: u32,
    /// The line, from 1.
    pub line: u32,
    /// The cost, in the event's unit.
    pub cost: u64,
    /// The samples of this cost.
    pub samples: u64,
}

impl CodeCosts {
    /// Whether no cost has a place.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty() && self.lines.is_empty()
    }

    /// Leaves out the addresses in files that are not the recorded ones.
    ///
    /// `is_other`: whether a file is another now.
    pub(crate) fn leave_out(&mut self, is_other: impl Fn(&CodeFile) -> bool) {
        self.others = self.files.iter().map(is_other).collect();
        self.places.retain(|place| !self.others[place.file as usize]);
    }

    /// Returns the file of a path, unless it may be another now.
    pub(crate) fn known(&self, path: &str) -> Option<&CodeFile> {
        let at = self.files.iter().position(|file| file.path == path.as_bytes())?;
        self.files.get(at).filter(|_| self.others.get(at) != Some(&true))
    }

    /// The cost of each function by number, from addresses where there are any.
    pub(crate) fn by_function(&self, functions: usize) -> Vec<u64> {
        let mut costs = vec![0u64; functions];
        let mut add = |function: u32, cost: u64| {
            if let Some(sum) = costs.get_mut(function as usize) {
                *sum = sum.saturating_add(cost);
            }
        };
        match self.places.is_empty() {
            true => self.lines.iter().for_each(|line| add(line.function, line.cost)),
            false => self.places.iter().for_each(|place| add(place.function, place.cost)),
        }
        costs
    }
}
