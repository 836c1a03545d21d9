//! Two trees side by side: which call of one is which call of the other.
//!
//! The calls of two functions are aligned as the lines of two files are (Hunt and Szymanski, "A fast algorithm for computing longest
//! common subsequences", 1977; here the plain table, on what common beginnings and ends leave). Calls that are the same all the way
//! down are folded; only where something differs are the calls inside looked at.

use crate::parting::{Parting, first};
use crate::tree::{Child, Common, Node, Side, Tree};
use opcost_record::steps::StepHow;
use std::collections::HashSet;

/// The most fields of a table in which calls are aligned; longer stretches are paired in their order.
const TABLE_MAX: usize = 1 << 22;
/// The most lines of a comparison.
const LINES_MAX: usize = 20_000;
/// The most neighbouring lines whose repetition is found.
const PERIOD_MAX: usize = 16;
/// The deepest call that is looked into.
const DEPTH_MAX: usize = 500;

/// What a line stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineKind {
    /// A call of both sides.
    Both,
    /// A call of one side: 0 or 1.
    One(usize),
    /// So many calls that are the same on both sides, with those inside.
    Same(u64),
    /// So many times again what the lines before at this depth stand for; the second number is how many of these lines.
    Again(u64, usize),
    /// The calls inside are those of an equal call above.
    Above,
    /// So many calls inside a call of one side.
    Inside(usize, u64),
    /// Interrupts, and the turns of other tasks.
    Apart,
}

/// A line of two trees side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// How deep the call is.
    pub depth: usize,
    /// What it stands for.
    pub kind: LineKind,
    /// The function, of a fold the first one.
    pub name: String,
    /// Whether the call began by a system call, fault or trap.
    pub is_entry: bool,
    /// The function's own instructions on each side.
    pub own: [Option<u64>; 2],
    /// The instructions with all calls inside, on each side.
    pub total: [Option<u64>; 2],
    /// Whether the trees part in this call first.
    pub parts: bool,
}

/// Two variants' operations side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct SteppedDifference {
    /// The variants' places in the plan.
    pub sides: [usize; 2],
    /// Their names.
    pub names: [String; 2],
    /// What the steps are of, on each side: the operation's number (0 for the whole run), how many were told apart, how many there
    /// are, and how many have the same steps.
    pub operations: [[u64; 4]; 2],
    /// The instructions of the shortest, the median and the longest operation.
    pub ranges: [[u64; 3]; 2],
    /// The instructions of what is shown.
    pub totals: [u64; 2],
    /// The instructions for which there was no room.
    pub beyond: [u64; 2],
    /// The lines.
    pub lines: Vec<Line>,
    /// Whether there are more lines.
    pub is_cut: bool,
    /// The place where the trees part first.
    pub parting: Option<Parting>,
    /// The first place at which their calls differ, if that is another.
    pub calls_part: Option<Parting>,
}

/// Puts two operations side by side.
pub fn compare(sides: [Side<'_>; 2]) -> SteppedDifference {
    let mut common = Common::default();
    let trees = sides.map(|side| Tree::new(side, &mut common));
    let roots = [trees[0].root(), trees[1].root()];
    let parting = first(&trees, false);
    let calls_part = first(&trees, true).filter(|other| parting.as_ref() != Some(other));
    let path = parting.as_ref().map(|parting| parting.calls);
    let mut listing = Listing {
        trees: &trees,
        lines: Vec::new(),
        is_cut: false,
        parted: path,
        listed: HashSet::new(),
    };
    listing.pair(0, roots);
    let Listing { lines, is_cut, .. } = listing;
    SteppedDifference {
        sides: [0, 1],
        names: sides.map(|side| side.name.to_string()),
        operations: sides.map(|Side { steps, .. }| {
            let [told, all] = steps.operations;
            [steps.operation, told, all, steps.alike]
        }),
        ranges: sides.map(|side| side.steps.range),
        totals: [0, 1].map(|side| trees[side].total(roots[side])),
        beyond: sides.map(|side| side.steps.beyond),
        lines,
        is_cut,
        parting,
        calls_part,
    }
}

/// Lists one operation by itself; both sides are the same.
pub fn alone(side: Side<'_>) -> SteppedDifference {
    let mut common = Common::default();
    let trees = [side, side].map(|side| Tree::new(side, &mut common));
    let mut listing = Listing {
        trees: &trees,
        lines: Vec::new(),
        is_cut: false,
        parted: None,
        listed: HashSet::new(),
    };
    listing.alone(0, 1, trees[1].root());
    let Listing { lines, is_cut, .. } = listing;
    let same = compare([side, side]);
    SteppedDifference { lines, is_cut, ..same }
}

/// A call that both sides make, or a call of one side alone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pairing {
    Both(usize, usize),
    Left(usize),
    Right(usize),
}

/// Aligns the calls of two functions.
pub(crate) fn pairings(trees: &[Tree<'_>; 2], nodes: [&Node; 2]) -> Vec<Pairing> {
    let [left, right] = [0, 1].map(|side: usize| {
        let key = |child: &Child| {
            let call = child.call as usize;
            (trees[side].keys[call], trees[side].exact[call])
        };
        nodes[side].children.iter().map(key).collect::<Vec<(u32, u32)>>()
    });
    let matches = |one: &(u32, u32), other: &(u32, u32)| one.0 == other.0;
    let before = left.iter().zip(&right).take_while(|(one, other)| matches(one, other)).count();
    let rest = (left.len() - before).min(right.len() - before);
    let behind = (left.iter().rev().zip(right.iter().rev()))
        .take(rest)
        .take_while(|(one, other)| matches(one, other))
        .count();
    let mut all: Vec<Pairing> = (0..before).map(|at| Pairing::Both(at, at)).collect();
    let (ends, inner) = (
        [left.len() - behind, right.len() - behind],
        [&left[before..left.len() - behind], &right[before..right.len() - behind]],
    );
    all.extend(table(inner).into_iter().map(|pairing| match pairing {
        Pairing::Both(one, other) => Pairing::Both(one + before, other + before),
        Pairing::Left(one) => Pairing::Left(one + before),
        Pairing::Right(other) => Pairing::Right(other + before),
    }));
    all.extend((0..behind).map(|at| Pairing::Both(ends[0] + at, ends[1] + at)));
    all
}

/// The longest common subsequence of two stretches; calls that are the same all the way down weigh more.
fn table([left, right]: [&[(u32, u32)]; 2]) -> Vec<Pairing> {
    let (rows, columns) = (left.len(), right.len());
    let mut all = Vec::with_capacity(rows + columns);
    if rows.saturating_mul(columns) > TABLE_MAX {
        // In their order: equal ones of a stretch of calls stay together.
        let both = rows.min(columns);
        for at in 0..both {
            match left[at].0 == right[at].0 {
                true => all.push(Pairing::Both(at, at)),
                false => all.extend([Pairing::Left(at), Pairing::Right(at)]),
            }
        }
        all.extend((both..rows).map(Pairing::Left));
        all.extend((both..columns).map(Pairing::Right));
        return all;
    }
    let width = columns + 1;
    let mut best = vec![0u32; (rows + 1) * width];
    let weight = |row: usize, column: usize| match (left[row], right[column]) {
        (one, other) if one == other => 3,
        (one, other) if one.0 == other.0 => 2,
        _ => 0,
    };
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let weight = weight(row, column);
            let both = match weight {
                0 => 0,
                weight => best[(row + 1) * width + column + 1] + weight,
            };
            let one = best[(row + 1) * width + column].max(best[row * width + column + 1]);
            best[row * width + column] = both.max(one);
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < rows || column < columns {
        let here = best[row * width + column];
        let weight = if row < rows && column < columns { weight(row, column) } else { 0 };
        if weight > 0 && here == best[(row + 1) * width + column + 1] + weight {
            all.push(Pairing::Both(row, column));
            (row, column) = (row + 1, column + 1);
        } else if row < rows && here == best[(row + 1) * width + column] {
            all.push(Pairing::Left(row));
            row += 1;
        } else {
            all.push(Pairing::Right(column));
            column += 1;
        }
    }
    all
}

struct Listing<'t, 'a> {
    trees: &'t [Tree<'a>; 2],
    lines: Vec<Line>,
    is_cut: bool,
    /// The calls in which the trees part.
    parted: Option<[u32; 2]>,
    /// What was listed with several lines inside.
    listed: HashSet<Key>,
}

/// What is listed inside a call.
#[derive(Clone, Debug)]
enum Item {
    /// Calls that are the same on both sides, by their number on the second.
    Same(Vec<u32>),
    /// A call of both sides that differs inside.
    Changed([u32; 2]),
    /// A call of one side.
    One(usize, u32),
}

/// What equal items have in common.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Key {
    Same(Vec<u32>),
    Changed([u32; 2]),
    One(usize, u32),
}

impl Listing<'_, '_> {
    fn push(&mut self, line: Line) {
        match self.lines.len() < LINES_MAX {
            true => self.lines.push(line),
            false => self.is_cut = true,
        }
    }

    fn line(&self, depth: usize, kind: LineKind, calls: [Option<u32>; 2]) -> Line {
        let first = calls[1].map(|call| (1, call)).or(calls[0].map(|call| (0, call)));
        let of = |value: &dyn Fn(usize, u32) -> u64| {
            [0, 1].map(|side| calls[side].map(|call| value(side, call)))
        };
        Line {
            depth,
            kind,
            name: first.map_or(String::new(), |(side, call)| self.trees[side].name(call)),
            is_entry: first
                .is_some_and(|(side, call)| self.trees[side].call(call).how == StepHow::Entry),
            own: of(&|side, call| self.trees[side].node(call).own),
            total: of(&|side, call| self.trees[side].total(call)),
            parts: false,
        }
    }

    /// Lists a call of both sides with what differs inside.
    fn pair(&mut self, depth: usize, calls: [u32; 2]) {
        let mut line = self.line(depth, LineKind::Both, calls.map(Some));
        if self.parted == Some(calls) {
            line.parts = true;
            // A function that is called again with the same contents does not part first again.
            self.parted = None;
        }
        self.push(line);
        if depth > DEPTH_MAX || self.is_cut {
            return;
        }
        let exact = [0, 1].map(|side: usize| self.trees[side].exact[calls[side] as usize]);
        let nodes = [0, 1].map(|side| self.trees[side].node(calls[side]));
        let mut items: Vec<Item> = Vec::new();
        for pairing in pairings(self.trees, [&nodes[0], &nodes[1]]) {
            let item = match pairing {
                Pairing::Both(one, other) => {
                    let pair = [nodes[0].children[one].call, nodes[1].children[other].call];
                    let [left, right] = [0, 1].map(|side| self.exact(side, pair[side]));
                    match items.last_mut() {
                        Some(Item::Same(calls)) if left == right => {
                            calls.push(pair[1]);
                            continue;
                        }
                        _ if left == right => Item::Same(vec![pair[1]]),
                        _ => Item::Changed(pair),
                    }
                }
                Pairing::Left(one) => Item::One(0, nodes[0].children[one].call),
                Pairing::Right(other) => Item::One(1, nodes[1].children[other].call),
            };
            items.push(item);
        }
        self.inside(depth, Key::Changed(exact), &items);
        let apart = [0, 1].map(|side| {
            let totals = nodes[side].apart.iter().map(|call| self.trees[side].total(*call));
            totals.fold(0, u64::wrapping_add)
        });
        if apart != [0, 0] {
            let line = self.line(depth + 1, LineKind::Apart, [None; 2]);
            let some = apart.map(|total| Some(total).filter(|total| *total > 0));
            self.push(Line { total: some, own: [None; 2], ..line });
        }
    }

    fn exact(&self, side: usize, call: u32) -> u32 {
        self.trees[side].exact[call as usize]
    }

    fn key(&self, item: &Item) -> Key {
        match item {
            Item::Same(calls) => Key::Same(calls.iter().map(|call| self.exact(1, *call)).collect()),
            Item::Changed([one, other]) => {
                Key::Changed([self.exact(0, *one), self.exact(1, *other)])
            }
            Item::One(side, call) => Key::One(*side, self.exact(*side, *call)),
        }
    }

    /// Lists what is inside a call, unless it stands above; repetitions are listed once.
    fn inside(&mut self, depth: usize, of: Key, items: &[Item]) {
        let before = self.lines.len();
        if self.listed.contains(&of) {
            let line = self.line(depth + 1, LineKind::Above, [None; 2]);
            return self.push(line);
        }
        let keys: Vec<Key> = items.iter().map(|item| self.key(item)).collect();
        let mut at = 0;
        while at < items.len() {
            let rest = &keys[at..];
            let times = |period: &usize| {
                let first = &rest[..*period];
                rest.chunks_exact(*period).take_while(|next| *next == first).count()
            };
            let period = (1..=PERIOD_MAX.min(rest.len() / 2)).find(|period| times(period) > 1);
            let (period, times) = period.map_or((1, 1), |period| (period, times(&period)));
            let listed = &items[at..at + period];
            listed.iter().for_each(|item| self.item(depth + 1, item));
            if times > 1 {
                self.again(depth + 1, listed, times as u64 - 1);
            }
            at += period * times;
        }
        if self.lines.len() > before + 1 {
            self.listed.insert(of);
        }
    }

    fn item(&mut self, depth: usize, item: &Item) {
        match item {
            Item::Same(calls) => {
                let tree = &self.trees[1];
                let number = calls
                    .iter()
                    .fold(0u64, |sum, call| sum.saturating_add(tree.calls[*call as usize]));
                let total = self.total(1, item);
                let line = self.line(depth, LineKind::Same(number), [None; 2]);
                let name = tree.name(calls[0]);
                self.push(Line { name, total: [total; 2], ..line });
            }
            Item::Changed(calls) => self.pair(depth, *calls),
            Item::One(side, call) => self.alone(depth, *side, *call),
        }
    }

    /// The instructions of a side that an item stands for.
    fn total(&self, side: usize, item: &Item) -> Option<u64> {
        let of = |side: usize, call: &u32| self.trees[side].total(*call);
        match item {
            Item::Same(calls) => {
                Some(calls.iter().map(|call| of(1, call)).fold(0, u64::wrapping_add))
            }
            Item::Changed(calls) => Some(of(side, &calls[side])),
            Item::One(own, call) => (*own == side).then(|| of(side, call)),
        }
    }

    /// Lists that these items come so many times more.
    fn again(&mut self, depth: usize, items: &[Item], more: u64) {
        let name = match items {
            [Item::Changed([_, call])] => self.trees[1].name(*call),
            [Item::One(side, call)] => self.trees[*side].name(*call),
            _ => String::new(),
        };
        let total = [0, 1].map(|side| {
            let totals: Vec<u64> = items.iter().filter_map(|item| self.total(side, item)).collect();
            let sum = totals.iter().copied().fold(0, u64::wrapping_add);
            (!totals.is_empty()).then(|| sum.wrapping_mul(more))
        });
        let line = self.line(depth, LineKind::Again(more, items.len()), [None; 2]);
        self.push(Line { name, total, ..line });
    }

    /// Lists a call of one side with the calls inside.
    fn alone(&mut self, depth: usize, side: usize, call: u32) {
        let of = |call| if side == 0 { [Some(call), None] } else { [None, Some(call)] };
        let line = self.line(depth, LineKind::One(side), of(call));
        self.push(line);
        if depth > DEPTH_MAX || self.is_cut {
            return;
        }
        let node = self.trees[side].node(call);
        let items: Vec<Item> =
            node.children.iter().map(|child| Item::One(side, child.call)).collect();
        self.inside(depth, Key::One(side, self.exact(side, call)), &items);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::{call, functions, steps, to};
    use opcost_record::steps::{Step, StepCall};
    use proptest::prelude::*;

    fn compared(left: Vec<StepCall>, right: Vec<StepCall>) -> SteppedDifference {
        let names = functions(&["main", "open", "check", "read", "close"]);
        let (left, right) = (steps(left), steps(right));
        let [one, other] = [("a", &left), ("b", &right)];
        let side = |(name, steps)| Side { name, functions: &names, steps };
        compare([side(one), side(other)])
    }

    fn leaf(function: u32, own: u64) -> StepCall {
        call(function, vec![Step::Own(own)])
    }

    #[test]
    fn a_call_more_stands_alone_between_folds() {
        let main = |calls: &[u32]| {
            let mut all = vec![Step::Own(2)];
            all.extend(calls.iter().flat_map(|one| [to(*one), Step::Own(1)]));
            call(0, all)
        };
        let left = vec![leaf(1, 10), leaf(3, 30), leaf(4, 5), main(&[0, 1, 1, 2])];
        let right = vec![leaf(1, 10), leaf(2, 7), leaf(3, 30), leaf(4, 5), main(&[0, 1, 2, 2, 3])];
        let found = compared(left, right);
        let shown: Vec<(LineKind, &str, [Option<u64>; 2])> =
            found.lines.iter().map(|line| (line.kind, line.name.as_str(), line.total)).collect();
        assert_eq!(
            shown,
            [
                (LineKind::Both, "main", [Some(81), Some(89)]),
                (LineKind::Same(1), "open", [Some(10); 2]),
                (LineKind::One(1), "check", [None, Some(7)]),
                (LineKind::Same(3), "read", [Some(65); 2]),
            ]
        );
        assert_eq!(found.lines[0].own, [Some(6), Some(7)]);
        assert!(found.lines[0].parts);
    }

    #[test]
    fn equal_operations_are_one_fold_and_part_nowhere() {
        let all = || vec![leaf(1, 10), call(0, vec![to(0), Step::Own(3), to(0)])];
        let found = compared(all(), all());
        assert_eq!(found.parting, None);
        assert_eq!(found.lines[1].kind, LineKind::Same(2));
        assert_eq!(found.totals, [23, 23]);
    }

    #[test]
    fn equal_changes_are_listed_once() {
        // A loop of 40 turns: `open`, which differs inside, then `close`, the same; and one more `open` elsewhere.
        let tree = |check: u64| {
            let mut main: Vec<Step> = (0..40).flat_map(|_| [to(2), to(3)]).collect();
            main.push(to(4));
            let inside =
                vec![leaf(2, check), leaf(3, check), call(1, vec![to(0), to(1), Step::Own(1)])];
            let rest = [leaf(4, 5), call(3, vec![to(2), Step::Own(2)]), call(0, main)];
            inside.into_iter().chain(rest).collect::<Vec<StepCall>>()
        };
        let found = compared(tree(10), tree(12));
        let shown: Vec<(usize, LineKind, &str, [Option<u64>; 2])> = found
            .lines
            .iter()
            .map(|line| (line.depth, line.kind, line.name.as_str(), line.total))
            .collect();
        assert_eq!(
            shown,
            [
                (0, LineKind::Both, "main", [Some(40 * 26 + 23), Some(40 * 30 + 27)]),
                (1, LineKind::Both, "open", [Some(21), Some(25)]),
                (2, LineKind::Both, "check", [Some(10), Some(12)]),
                (2, LineKind::Both, "read", [Some(10), Some(12)]),
                (1, LineKind::Same(1), "close", [Some(5); 2]),
                (1, LineKind::Again(39, 2), "", [Some(39 * 26), Some(39 * 30)]),
                (1, LineKind::Both, "read", [Some(23), Some(27)]),
                (2, LineKind::Both, "open", [Some(21), Some(25)]),
                (3, LineKind::Above, "", [None; 2]),
            ]
        );
    }

    proptest! {
        #[test]
        fn every_call_stands_in_one_line_and_the_sums_are_kept(
            left in prop::collection::vec((1u32..5, 1u64..4), 0..30),
            right in prop::collection::vec((1u32..5, 1u64..4), 0..30),
        ) {
            let tree = |calls: &[(u32, u64)]| {
                let mut all: Vec<StepCall> =
                    calls.iter().map(|(function, own)| leaf(*function, *own)).collect();
                let main = (0..calls.len() as u32).map(to).collect();
                all.push(call(0, main));
                all
            };
            let found = compared(tree(&left), tree(&right));
            for side in 0..2 {
                let below = found.lines[1..].iter().filter_map(|line| line.total[side]);
                prop_assert_eq!(below.sum::<u64>(), found.totals[side]);
            }
            let same = left == right;
            prop_assert_eq!(found.parting.is_none(), same);
        }
    }
}
