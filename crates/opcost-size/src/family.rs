//! Groups a function with its parts and clones, since bytes move between them from build to build.

use super::inventory::SymbolSize;
use super::pairing::Raw;
use opcost_symbols::clone::origin;
use std::collections::{HashMap, HashSet};

/// A function's name; for a local function also its source file and member.
type Key<'d> = (&'d [u8], Option<(Option<&'d [u8]>, Option<&'d [u8]>)>);

/// The changes of functions together with their parts and clones.
pub(super) struct Changes<'d> {
    /// Local functions; the parts in their file belong to them, not to a global function.
    local: HashSet<Key<'d>>,
    /// Bytes gained by each function with all its parts.
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
    // Only functions with parts among the rows count.
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
    /// Returns the function of a part with this origin; one of the part's own file comes first.
    fn key(&self, function: &'d [u8], part: &SymbolSize<'d>) -> Key<'d> {
        let local = local_key(function, part);
        if self.local.contains(&local) { local } else { (function, None) }
    }

    /// Returns the function whose part `symbol` is, and the change of all its parts together.
    pub(super) fn of(&self, symbol: &SymbolSize<'d>) -> Option<(&'d [u8], i64)> {
        let function = origin(symbol.name).filter(|_| symbol.code)?;
        Some((function, *self.bytes.get(&self.key(function, symbol))?))
    }
}
