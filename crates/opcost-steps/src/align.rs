//! Two trees side by side: which call of one is which call of the other.
//!
//! The calls of two functions are aligned as the lines of two files are (Hunt and Szymanski, "A fast algorithm for computing longest
//! common subsequences", 1977; here the plain table, on what common beginnings and ends leave). Calls that are the same all the way
//! down are folded; only where something differs are the calls inside looked at.

use crate::parting::{Parting, first};
use crate::tree::{Child, Common, Node, Side, Tree};
use opcost_record::steps::StepHow;

/// The most fields of a table in which calls are aligned; longer stretches are paired in their order.
const TABLE_MAX: usize = 1 << 22;
/// The most lines of a comparison.
const LINES_MAX: usize = 20_000;
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
    /// So many further calls, each as the one before, with all calls inside.
    Again(u64),
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
    let mut listing = Listing { trees: &trees, lines: Vec::new(), is_cut: false, parted: path };
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
    let mut listing = Listing { trees: &trees, lines: Vec::new(), is_cut: false, parted: None };
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
}

/// Calls that are the same, to be folded.
#[derive(Default)]
struct Fold {
    name: Option<String>,
    calls: u64,
    total: u64,
}

/// Calls of both sides that differ as those before them did.
#[derive(Default)]
struct Again {
    exact: Option<[u32; 2]>,
    pair: [u32; 2],
    more: u64,
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
        let nodes = [0, 1].map(|side| self.trees[side].node(calls[side]));
        let (mut fold, mut again) = (Fold::default(), Again::default());
        for pairing in pairings(self.trees, [&nodes[0], &nodes[1]]) {
            match pairing {
                Pairing::Both(one, other) => {
                    let pair = [nodes[0].children[one].call, nodes[1].children[other].call];
                    let exact = |side: usize| self.trees[side].exact[pair[side] as usize];
                    let both = [exact(0), exact(1)];
                    if both[0] != both[1] && again.exact == Some(both) {
                        again.pair = pair;
                        again.more += 1;
                        continue;
                    }
                    self.again(depth + 1, &mut again);
                    if both[0] == both[1] {
                        let name = || self.trees[1].name(pair[1]);
                        fold.name.get_or_insert_with(name);
                        let calls = self.trees[1].calls[pair[1] as usize];
                        fold.calls = fold.calls.saturating_add(calls);
                        fold.total = fold.total.wrapping_add(self.trees[1].total(pair[1]));
                    } else {
                        self.fold(depth + 1, &mut fold);
                        self.pair(depth + 1, pair);
                        again.exact = Some(both);
                    }
                }
                Pairing::Left(one) => {
                    self.again(depth + 1, &mut again);
                    self.fold(depth + 1, &mut fold);
                    self.alone(depth + 1, 0, nodes[0].children[one].call);
                }
                Pairing::Right(other) => {
                    self.again(depth + 1, &mut again);
                    self.fold(depth + 1, &mut fold);
                    self.alone(depth + 1, 1, nodes[1].children[other].call);
                }
            }
        }
        self.again(depth + 1, &mut again);
        self.fold(depth + 1, &mut fold);
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

    fn again(&mut self, depth: usize, again: &mut Again) {
        let Again { pair, more, .. } = std::mem::take(again);
        if more > 0 {
            let line = self.line(depth, LineKind::Again(more), pair.map(Some));
            let total = line.total.map(|total| total.map(|total| total.wrapping_mul(more)));
            self.push(Line { total, own: [None; 2], ..line });
        }
    }

    fn fold(&mut self, depth: usize, fold: &mut Fold) {
        let Fold { name, calls, total } = std::mem::take(fold);
        let Some(name) = name else { return };
        let line = self.line(depth, LineKind::Same(calls), [None; 2]);
        self.push(Line { name, total: [Some(total); 2], ..line });
    }

    /// Lists a call of one side with the calls inside.
    fn alone(&mut self, depth: usize, side: usize, call: u32) {
        let of = |call| if side == 0 { [Some(call), None] } else { [None, Some(call)] };
        let line = self.line(depth, LineKind::One(side), of(call));
        self.push(line);
        if depth > DEPTH_MAX || self.is_cut {
            return;
        }
        let tree = &self.trees[side];
        let node = tree.node(call);
        let is_same = |one: &Child, other: &Child| {
            tree.exact[one.call as usize] == tree.exact[other.call as usize]
        };
        for again in node.children.chunk_by(is_same) {
            self.alone(depth + 1, side, again[0].call);
            let more = again.len() as u64 - 1;
            if more > 0 {
                let line = self.line(depth + 1, LineKind::Again(more), [None; 2]);
                let total = self.trees[side].total(again[0].call).wrapping_mul(more);
                let total = [0, 1].map(|of| Some(total).filter(|_| of == side));
                self.push(Line { name: self.trees[side].name(again[0].call), total, ..line });
            }
        }
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
