//! A function with its parts and clones, whose bytes move between them from build to build.

use super::inventory::SymbolSize;
use super::pairing::Raw;
use opcost_profile::symbols::clone::origin;
use std::collections::{HashMap, HashSet};

/// A function by name and, where it is local, source file and member.
type Key<'d> = (&'d [u8], Option<(Option<&'d [u8]>, Option<&'d [u8]>)>);

/// Changes of functions together with their parts and clones.
pub(super) struct Changes<'d> {
    /// Functions that are local to a file, which their parts belong to rather than to a global one.
    local: HashSet<Key<'d>>,
    /// Bytes gained by all of a family.
    bytes: HashMap<Key<'d>, i64>,
}

/// Sums the rows of each function that has parts.
pub(super) fn changes<'d>(symbols: [&[SymbolSize<'d>]; 2], rows: &[Raw]) -> Changes<'d> {
    let mut changes = Changes { local: HashSet::new(), bytes: HashMap::new() };
    for symbol in symbols.into_iter().flatten().filter(|symbol| symbol.code && symbol.local) {
        if origin(symbol.name).is_none() {
            changes.local.insert(local_key(symbol.name, symbol));
        }
    }
    let of = |row: &Raw| {
        let sides = [0, 1].map(|side: usize| row.symbols[side].map(|index| &symbols[side][index]));
        let change = |side: Option<&SymbolSize<'_>>| side.map_or(0, |symbol| symbol.bytes as i64);
        sides[1].or(sides[0]).map(|symbol| (symbol, change(sides[1]) - change(sides[0])))
    };
    // Only those with parts among the rows.
    for (symbol, _) in rows.iter().filter_map(of) {
        if let Some(function) = origin(symbol.name).filter(|_| symbol.code) {
            let key = changes.key(function, symbol);
            changes.bytes.insert(key, 0);
        }
    }
    for (symbol, change) in rows.iter().filter_map(of).filter(|(symbol, _)| symbol.code) {
        let key = match origin(symbol.name) {
            Some(function) => changes.key(function, symbol),
            None if symbol.local => local_key(symbol.name, symbol),
            None => (symbol.name, None),
        };
        if let Some(bytes) = changes.bytes.get_mut(&key) {
            *bytes += change;
        }
    }
    changes
}

fn local_key<'d>(function: &'d [u8], symbol: &SymbolSize<'d>) -> Key<'d> {
    (function, Some((symbol.file, symbol.member)))
}

impl<'d> Changes<'d> {
    /// The function that a part with this origin belongs to: one of its own file before a global one.
    fn key(&self, function: &'d [u8], part: &SymbolSize<'d>) -> Key<'d> {
        let local = local_key(function, part);
        if self.local.contains(&local) { local } else { (function, None) }
    }

    /// The function that `symbol` is a part of, and the change of all of it.
    pub(super) fn of(&self, symbol: &SymbolSize<'d>) -> Option<(&'d [u8], i64)> {
        let function = origin(symbol.name).filter(|_| symbol.code)?;
        Some((function, *self.bytes.get(&self.key(function, symbol))?))
    }
}
