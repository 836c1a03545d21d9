//! Matches functions that are the same on several sides.
//!
//! Functions of one file are the same if they have the same name in the source. Parts and copies that a compiler made belong to
//! their function. If several local functions of a file share a name, those of the same source file are the same. The functions
//! then left on one side are matched with those left on another; if more than one is left, all of them are one function.

use opcost_record::Function;
use opcost_symbols::clone::{Stem, stem};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// One function, by side.
#[derive(Clone, Debug)]
pub(super) struct Matched {
    /// The name in the source.
    pub(super) symbol: String,
    /// Distinguishes the function from others of the same name.
    pub(super) source: Option<String>,
    /// The mangled name on the last side that has one; the function's own rather than that of a part or copy.
    pub(super) mangled: Option<Box<str>>,
    /// The index of the function's file class.
    pub(super) class: usize,
    /// The symbols on each side, with the source where several functions share the name.
    pub(super) names: Vec<Vec<(String, Option<String>)>>,
}

/// A function of a side; `source` is its source file, or else the copy that its symbol names.
struct Member<'a> {
    side: usize,
    function: &'a Function,
    source: Option<&'a str>,
}

/// Matches functions, listed by side with the class of their file. Returns the matched functions by number, and the number of each
/// side's functions.
pub(super) fn match_functions(
    sides: &[Vec<(&Function, usize)>],
) -> (Vec<Matched>, Vec<HashMap<Function, u32>>) {
    let mut groups: BTreeMap<(usize, &str), Vec<Member<'_>>> = BTreeMap::new();
    for (side, functions) in sides.iter().enumerate() {
        for (function, class) in functions {
            let Stem { base, copy } = stem(&function.symbol);
            let source = function.source.as_deref().or(copy);
            let group = groups.entry((*class, base)).or_default();
            group.push(Member { side, function, source });
        }
    }
    let mut matched = Vec::new();
    let mut numbers = vec![HashMap::new(); sides.len()];
    for ((class, base), members) in groups {
        // A side's members follow one another.
        let differ =
            |two: &[Member<'_>]| two[0].side == two[1].side && two[0].source != two[1].source;
        let several = members.windows(2).any(differ);
        let same = match several {
            true => split(&members),
            // Most names belong to one function only.
            false => vec![(last_source(&members), members.iter().collect())],
        };
        for (source, same) in same {
            let own = |member: &&&Member<'_>| (member.function.symbol == base, member.side);
            let with_one = same.iter().filter(|member| member.function.mangled.is_some());
            let mangled = with_one.max_by_key(own).and_then(|one| one.function.mangled.clone());
            let mut names = vec![Vec::new(); sides.len()];
            for Member { side, function, source } in same {
                // Profiles number functions by u32 too, so the count fits.
                numbers[*side].insert((*function).clone(), matched.len() as u32);
                let source = source.filter(|_| several).map(str::to_string);
                let name = (function.symbol.clone(), source);
                if !names[*side].contains(&name) {
                    names[*side].push(name);
                }
            }
            let symbol = base.to_string();
            matched.push(Matched { symbol, source, mangled, class, names });
        }
    }
    (matched, numbers)
}

/// The source that distinguishes a function on the last side from others.
fn last_source(members: &[Member<'_>]) -> Option<String> {
    members.iter().max_by_key(|member| member.side)?.source.map(str::to_string)
}

/// Splits the functions of one name and file, each with what distinguishes it from the others.
fn split<'m, 'a>(members: &'m [Member<'a>]) -> Vec<(Option<String>, Vec<&'m Member<'a>>)> {
    let mut by_source: BTreeMap<Option<&str>, Vec<&Member<'_>>> = BTreeMap::new();
    for member in members {
        by_source.entry(member.source).or_default().push(member);
    }
    let sides_of = |members: &[&Member<'_>]| -> BTreeSet<usize> {
        members.iter().map(|member| member.side).collect()
    };
    let shown = |source: Option<&str>| source.map(str::to_string);
    let (common, left): (Vec<_>, Vec<_>) =
        by_source.into_iter().partition(|(_, members)| sides_of(members).len() > 1);
    // Each function left is on one side.
    let sides_left: Vec<usize> = left.iter().flat_map(|(_, members)| sides_of(members)).collect();
    let with_some: BTreeSet<usize> = sides_left.iter().copied().collect();
    let mut split: Vec<_> =
        common.into_iter().map(|(source, members)| (shown(source), members)).collect();
    if with_some.len() < 2 {
        split.extend(left.into_iter().map(|(source, members)| (shown(source), members)));
        return split;
    }
    // One function left on each side is the same function. If more are left, nobody knows which is which.
    let one_each = with_some.len() == sides_left.len();
    let last = left.iter().max_by_key(|(_, members)| members.iter().map(|one| one.side).max());
    let source = last.filter(|_| one_each).and_then(|(source, _)| shown(*source));
    split.push((source, left.into_iter().flat_map(|(_, members)| members).collect()));
    split
}
