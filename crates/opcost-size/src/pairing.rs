//! Pairs each symbol of one file with the same symbol of the other.

use super::inventory::SymbolSize;
use opcost_symbols::clone::without_numbers;
use std::collections::HashMap;

/// Why a symbol has no partner of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lone {
    /// The other file lacks the symbol.
    Absent,
    /// The other file's symbol with this index has the name, among several.
    Folded(usize),
}

/// All symbols of both files, each once.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Pairing {
    /// Indices of the same symbol in both files.
    pub(super) pairs: Vec<(usize, usize)>,
    /// The symbols that only one file has, by side.
    pub(super) alone: [Vec<(usize, Lone)>; 2],
}

/// The symbols of both sides, and those that have no partner yet.
struct Left<'s, 'd> {
    symbols: [&'s [SymbolSize<'d>]; 2],
    left: [Vec<usize>; 2],
    pairs: Vec<(usize, usize)>,
}

/// A row before its names are made readable: a symbol's index on each side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub(super) symbols: [Option<usize>; 2],
    /// The other side's symbol that also has this name, for a symbol that is on one side only.
    pub(super) folded: Option<usize>,
}

/// Pairs the symbols of two files.
///
/// The steps in order: by name and member, local symbols also by source file; by name and source
/// file; by a name that is left once on each side (a function that moved, or became static); by any
/// name of an address with several names; by name without the compiler's numbers.
pub(super) fn pair(symbols: [&[SymbolSize<'_>]; 2]) -> Pairing {
    let left = symbols.map(|side| (0..side.len()).collect());
    let mut state = Left { symbols, left, pairs: Vec::new() };
    state.join(|symbol| (symbol.name, file(symbol), symbol.member), false);
    state.join(|symbol| (symbol.name, file(symbol)), false);
    state.join(|symbol| symbol.name, true);
    let folded = state.join_aliases();
    state.join(|symbol| (without_numbers(symbol.name), file(symbol)), false);
    let alone = [0, 1].map(|side: usize| {
        let lone = |index: &usize| {
            (*index, folded[side].get(index).map_or(Lone::Absent, |onto| Lone::Folded(*onto)))
        };
        state.left[side].iter().map(lone).collect()
    });
    Pairing { pairs: state.pairs, alone }
}

/// Returns the source file of a local symbol, if known; `None` for a global symbol.
fn file<'d>(symbol: &SymbolSize<'d>) -> Option<Option<&'d [u8]>> {
    symbol.local.then_some(symbol.file)
}

impl<'s, 'd> Left<'s, 'd> {
    /// Pairs symbols with the same key; with `once` only if the key is there once on each side.
    ///
    /// Several symbols with one key are paired first by equal size, then in the order of address.
    fn join<K: Ord>(&mut self, key: impl Fn(&'s SymbolSize<'d>) -> K, once: bool) {
        let symbols = self.symbols;
        let keyed = [0, 1].map(|side: usize| {
            let mut keyed: Vec<(K, u64, usize)> = (self.left[side].iter())
                .map(|&index| (key(&symbols[side][index]), symbols[side][index].bytes, index))
                .collect();
            keyed.sort_unstable();
            keyed
        });
        let mut done = [0, 1].map(|side: usize| vec![false; symbols[side].len()]);
        let mut take = |one: usize, two: usize| {
            done[0][one] = true;
            done[1][two] = true;
            self.pairs.push((one, two));
        };
        let mut others = keyed[1].chunk_by(|one, other| one.0 == other.0).peekable();
        for here in keyed[0].chunk_by(|one, other| one.0 == other.0) {
            while others.next_if(|there| there[0].0 < here[0].0).is_some() {}
            let Some(there) = others.next_if(|there| there[0].0 == here[0].0) else { continue };
            if once && (here.len() > 1 || there.len() > 1) {
                continue;
            }
            pair_equals(here, there, &mut take);
        }
        for (side, left) in self.left.iter_mut().enumerate() {
            left.retain(|index| !done[side][*index]);
        }
    }

    /// Pairs a symbol with the other side's symbol at whose address it is another name. Returns the
    /// symbols whose name belongs to an already paired symbol, with that symbol.
    fn join_aliases(&mut self) -> [HashMap<usize, usize>; 2] {
        let mut folded = [HashMap::new(), HashMap::new()];
        if self.left.iter().all(Vec::is_empty) {
            return folded;
        }
        let named = self.symbols.map(|side| {
            let names = side.iter().enumerate().filter(|(_, symbol)| !symbol.aliases.is_empty());
            names
                .flat_map(|(index, symbol)| {
                    let names = symbol.aliases.iter().copied().chain([symbol.name]);
                    names.map(move |name| (name, index))
                })
                .collect::<HashMap<&[u8], usize>>()
        });
        let mut open = [0, 1].map(|side: usize| {
            let mut open = vec![false; self.symbols[side].len()];
            self.left[side].iter().for_each(|&index| open[index] = true);
            open
        });
        for side in [0, 1] {
            let other = 1 - side;
            for &index in &self.left[side] {
                let symbol = &self.symbols[side][index];
                let mut names = symbol.aliases.iter().copied().chain([symbol.name]);
                let Some(onto) = names.find_map(|name| named[other].get(name).copied()) else {
                    continue;
                };
                if !open[side][index] {
                    continue;
                }
                if open[other][onto] {
                    open[side][index] = false;
                    open[other][onto] = false;
                    self.pairs.push(if side == 0 { (index, onto) } else { (onto, index) });
                } else {
                    folded[side].insert(index, onto);
                }
            }
        }
        for (side, left) in self.left.iter_mut().enumerate() {
            left.retain(|index| open[side][*index]);
        }
        folded
    }
}

/// Pairs two runs of one key, sorted by size and then address: equal sizes first, then in order.
fn pair_equals<K>(
    here: &[(K, u64, usize)],
    there: &[(K, u64, usize)],
    take: &mut impl FnMut(usize, usize),
) {
    let (mut one, mut two) = (0, 0);
    let mut rest: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    while let (Some(left), Some(right)) = (here.get(one), there.get(two)) {
        match left.1.cmp(&right.1) {
            std::cmp::Ordering::Equal => {
                take(left.2, right.2);
                one += 1;
                two += 1;
            }
            std::cmp::Ordering::Less => {
                rest[0].push(left.2);
                one += 1;
            }
            std::cmp::Ordering::Greater => {
                rest[1].push(right.2);
                two += 1;
            }
        }
    }
    rest[0].extend(here[one..].iter().map(|entry| entry.2));
    rest[1].extend(there[two..].iter().map(|entry| entry.2));
    // Indices ascend with section and address.
    rest.iter_mut().for_each(|rest| rest.sort_unstable());
    for (one, two) in rest[0].iter().zip(&rest[1]) {
        take(*one, *two);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &'static str, bytes: u64) -> SymbolSize<'static> {
        SymbolSize {
            name: name.as_bytes(),
            aliases: Vec::new(),
            file: None,
            member: None,
            local: false,
            code: true,
            section: 0,
            place: (0, 0),
            bytes,
            estimated: false,
        }
    }

    fn local(name: &'static str, file: &'static str, bytes: u64) -> SymbolSize<'static> {
        SymbolSize { file: Some(file.as_bytes()), local: true, ..symbol(name, bytes) }
    }

    fn sorted(mut pairing: Pairing) -> Pairing {
        pairing.pairs.sort_unstable();
        pairing
    }

    #[test]
    fn local_symbols_of_one_name_are_told_apart_by_file_and_then_by_size() {
        let one = [local("f", "a.c", 1), local("f", "b.c", 2), local("f", "b.c", 9)];
        let two = [local("f", "b.c", 9), local("f", "b.c", 3), local("f", "a.c", 5)];
        let expected = Pairing { pairs: vec![(0, 2), (1, 1), (2, 0)], ..Pairing::default() };
        assert_eq!(sorted(pair([&one, &two])), expected);
    }

    #[test]
    fn what_moved_or_became_static_is_the_same_and_what_is_ambiguous_is_not() {
        let one = [symbol("f", 1), local("g", "a.c", 2), local("g", "b.c", 2)];
        let two = [local("f", "a.c", 1), symbol("g", 2)];
        let expected = Pairing {
            pairs: vec![(0, 0)],
            alone: [vec![(1, Lone::Absent), (2, Lone::Absent)], vec![(1, Lone::Absent)]],
        };
        assert_eq!(pair([&one, &two]), expected);
    }

    #[test]
    fn folded_functions_lead_to_the_one_they_were_folded_onto() {
        let one = [symbol("a", 8), symbol("b", 8)];
        let two = [SymbolSize { aliases: vec![b"b"], ..symbol("a", 8) }];
        let expected = Pairing { pairs: vec![(0, 0)], alone: [vec![(1, Lone::Folded(0))], vec![]] };
        assert_eq!(pair([&one, &two]), expected);
        let expected = Pairing { pairs: vec![(0, 0)], alone: [vec![], vec![(1, Lone::Folded(0))]] };
        assert_eq!(pair([&two, &one]), expected);
        // Here the other file shows another name of the same address.
        let other = [SymbolSize { aliases: vec![b"a"], ..symbol("x", 8) }];
        assert_eq!(pair([&other, &two]).pairs, [(0, 0)]);
    }

    #[test]
    fn numbers_of_the_compiler_do_not_tell_symbols_apart() {
        let one = [local("count.1", "a.c", 4), symbol("f.llvm.11", 7)];
        let two = [symbol("f.llvm.22", 9), local("count.7", "a.c", 4)];
        assert_eq!(sorted(pair([&one, &two])).pairs, [(0, 1), (1, 0)]);
    }

    proptest::proptest! {
        #[test]
        fn every_symbol_is_in_the_result_once(
            one in proptest::collection::vec((0usize..6, 0u64..3, proptest::bool::ANY), 0..20),
            two in proptest::collection::vec((0usize..6, 0u64..3, proptest::bool::ANY), 0..20),
        ) {
            let names = ["a", "b", "c.1", "c.2", "d.cold", "e"];
            let made = |side: &[(usize, u64, bool)]| -> Vec<SymbolSize<'static>> {
                side.iter().map(|&(name, bytes, own)| {
                    let aliases = if own { vec![&b"e"[..]] } else { vec![] };
                    SymbolSize { local: own, aliases, ..symbol(names[name], bytes) }
                }).collect()
            };
            let (one, two) = (made(&one), made(&two));
            let Pairing { pairs, alone } = pair([&one, &two]);
            for (side, symbols) in [&one, &two].into_iter().enumerate() {
                let paired = pairs.iter().map(|pair| if side == 0 { pair.0 } else { pair.1 });
                let mut seen: Vec<usize> =
                    paired.chain(alone[side].iter().map(|(index, _)| *index)).collect();
                seen.sort_unstable();
                proptest::prop_assert_eq!(seen, (0..symbols.len()).collect::<Vec<_>>());
            }
        }
    }
}
