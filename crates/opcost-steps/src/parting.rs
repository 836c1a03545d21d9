//! The first place at which two operations do different things, and the branch that decided it.

use crate::align::{Pairing, pairings};
use crate::tree::{Node, Passed, Tree};
use opcost_record::steps::StepHow;

/// Deeper calls are not searched.
const DEPTH_MAX: usize = 500;

/// How the paths part.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// A branch that both sides reached went two ways.
    Branch,
    /// One call instruction called two functions.
    Pointer,
    /// The code differs, or the branches in between were not kept.
    Code,
}

/// A branch on one side.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Branched {
    /// The branch's function, as the side's profile numbers functions.
    pub function: u32,
    /// Its link address.
    pub address: u64,
    /// The comparison and the branch as assembly.
    pub text: String,
    /// Whether it was taken.
    pub taken: bool,
    /// The values that were compared.
    pub values: Option<[u64; 2]>,
    /// The source line, if the caller found one.
    pub line: Option<String>,
}

/// One side at the parting.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Parted {
    /// The branch.
    pub branch: Option<Branched>,
    /// The function that is called next; `None` if the function returns.
    pub next: Option<String>,
    /// The function's own instructions from the last common call to that.
    pub own: u64,
}

/// The place where two operations part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parting {
    /// The functions from the operation to where it parts.
    pub path: Vec<String>,
    /// The last call that both sides made there.
    pub after: Option<String>,
    /// How they part.
    pub why: Why,
    /// Both sides.
    pub sides: [Parted; 2],
    /// The calls in which they part.
    pub(crate) calls: [u32; 2],
}

/// Finds the first place where two operations part; `by_calls`: where their calls differ, whatever a function's own instructions do.
pub(crate) fn first(trees: &[Tree<'_>; 2], by_calls: bool) -> Option<Parting> {
    let mut path = Vec::new();
    search(trees, [trees[0].root(), trees[1].root()], by_calls, &mut path)
}

/// A stretch between two calls: the branches, the own instructions, and the call behind it with the address of its instruction.
struct Stretch<'n> {
    passed: &'n [Passed],
    own: u64,
    next: Option<(u32, u64)>,
}

/// The stretch of a function in front of its call at a place; behind the last call, the one to its end.
fn stretch(node: &Node, place: usize) -> Stretch<'_> {
    match node.children.get(place) {
        Some(child) => Stretch {
            passed: &node.passed[child.branches.clone()],
            own: child.own,
            next: Some((child.call, child.from)),
        },
        None => Stretch { passed: &node.passed[node.behind..], own: node.own_behind, next: None },
    }
}

fn search(
    trees: &[Tree<'_>; 2],
    calls: [u32; 2],
    by_calls: bool,
    path: &mut Vec<String>,
) -> Option<Parting> {
    if trees[0].exact[calls[0] as usize] == trees[1].exact[calls[1] as usize]
        || path.len() > DEPTH_MAX
    {
        return None;
    }
    path.push(trees[1].name(calls[1]));
    let nodes = [0, 1].map(|side| trees[side].node(calls[side]));
    let mut at = [0, 0];
    for pairing in pairings(trees, [&nodes[0], &nodes[1]]) {
        let Pairing::Both(one, other) = pairing else {
            return Some(parting(trees, calls, &nodes, at, path));
        };
        if !by_calls && nodes[0].children[one].own != nodes[1].children[other].own {
            return Some(parting(trees, calls, &nodes, at, path));
        }
        let inside = [nodes[0].children[one].call, nodes[1].children[other].call];
        if let Some(found) = search(trees, inside, by_calls, path) {
            return Some(found);
        }
        at = [one + 1, other + 1];
    }
    if !by_calls && nodes[0].own_behind != nodes[1].own_behind {
        return Some(parting(trees, calls, &nodes, at, path));
    }
    path.pop();
    None
}

/// What decided between two paths: how they part, and the place of the branch on each side.
type Decided = (Why, [Option<usize>; 2]);

/// Finds the first branch that differs among those that one call passed on each side.
fn decide(trees: &[Tree<'_>; 2], calls: [u32; 2], passed: [&[Passed]; 2]) -> Decided {
    for number in 0..passed[0].len().max(passed[1].len()) {
        if number >= passed[0].len() || number >= passed[1].len() {
            let place = |side: usize| Some(number).filter(|number| *number < passed[side].len());
            return (Why::Code, [place(0), place(1)]);
        }
        let [(offset, left), (other, right)] = [0, 1].map(|side: usize| {
            let one = &trees[side].side.steps.branches[passed[side][number].branch as usize];
            // Calls that began before have no first address; their programs are mostly the same.
            (one.address.wrapping_sub(trees[side].call(calls[side]).entry), one)
        });
        let same = offset == other || without_target(&left.text) == without_target(&right.text);
        if !same || passed[0][number].taken != passed[1][number].taken {
            return (if same { Why::Branch } else { Why::Code }, [Some(number); 2]);
        }
    }
    (Why::Code, [None; 2])
}

/// Describes the parting in a function behind `at` calls of each side.
fn parting(
    trees: &[Tree<'_>; 2],
    calls: [u32; 2],
    nodes: &[Node; 2],
    at: [usize; 2],
    path: &[String],
) -> Parting {
    let stretches = [0, 1].map(|side| stretch(&nodes[side], at[side]));
    let mut passed = [0, 1].map(|side| stretches[side].passed);
    let (mut why, mut place) = decide(trees, calls, passed);
    let mut path = path.to_vec();
    let last = [0, 1].map(|side| {
        let last = at[side].checked_sub(1)?;
        Some(nodes[side].children[last].call)
    });
    let mut after = last[1].map(|call| trees[1].name(call));
    let jumps = |side: usize| {
        stretches[side].next.is_some_and(|(call, _)| trees[side].call(call).how == StepHow::Jump)
    };
    // A function that was jumped to was chosen by the one that jumped.
    let inside = match last {
        [Some(one), Some(other)] if jumps(0) || jumps(1) => Some([one, other]),
        _ => None,
    };
    let inner = inside.map(|calls| [0, 1].map(|side| trees[side].node(calls[side])));
    if let (Some(calls), Some(inner), (Why::Code, [None, None])) = (inside, &inner, (why, place)) {
        let passed_there = [&inner[0].passed[..], &inner[1].passed[..]];
        let found = decide(trees, calls, passed_there);
        if found.1 != [None; 2] {
            ((why, place), passed) = (found, passed_there);
            path.push(trees[1].name(calls[1]));
            after = None;
        }
    }
    if let (Why::Code, [None, None], [Some(one), Some(other)]) =
        (why, place, [stretches[0].next, stretches[1].next])
    {
        let differ = trees[0].keys[one.0 as usize] != trees[1].keys[other.0 as usize];
        let offset =
            |side: usize, from: u64| from.wrapping_sub(trees[side].call(calls[side]).entry);
        if differ && offset(0, one.1) == offset(1, other.1) {
            why = Why::Pointer;
        }
    }
    let sides = [0, 1].map(|side| Parted {
        branch: place[side].map(|number| {
            let Passed { branch, taken, values } = passed[side][number];
            let known = &trees[side].side.steps.branches[branch as usize];
            Branched {
                function: known.function,
                address: known.address,
                text: known.text.clone(),
                taken,
                values,
                line: None,
            }
        }),
        next: stretches[side].next.map(|(call, _)| trees[side].name(call)),
        own: stretches[side].own,
    });
    Parting { path, after, why, sides, calls }
}

/// The text of a branch without the address that it goes to.
fn without_target(text: &str) -> &str {
    text.rsplit_once("0x").map_or(text, |(before, _)| before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::{call, functions, steps, to};
    use crate::tree::{Common, Side};
    use opcost_record::steps::{Step, StepCall};

    fn parted(left: Vec<StepCall>, right: Vec<StepCall>) -> Option<Parting> {
        let names = functions(&["main", "inner", "fast", "slow"]);
        let (left, right) = (steps(left), steps(right));
        let mut common = Common::default();
        let mut tree =
            |name, steps| Tree::new(Side { name, functions: &names, steps }, &mut common);
        first(&[tree("a", &left), tree("b", &right)], false)
    }

    fn branch(taken: bool, left: u64) -> Step {
        Step::Branch { branch: 0, taken, values: Some([left, 1]) }
    }

    #[test]
    fn the_branch_that_went_two_ways_is_named_with_its_values() {
        let of = |taken, leaf: u32, own| {
            let inner = vec![branch(true, 1), branch(taken, 5), Step::Own(9), to(0), Step::Own(1)];
            let main = vec![Step::Own(4), to(1)];
            vec![call(leaf, vec![Step::Own(own)]), call(1, inner), call(0, main)]
        };
        let found = parted(of(false, 2, 3), of(true, 3, 30)).unwrap();
        assert_eq!(
            (found.why, &found.path[..]),
            (Why::Branch, &["main".into(), "inner".into()][..])
        );
        assert_eq!(found.after, None);
        let [one, other] = found.sides;
        assert_eq!((one.next.as_deref(), other.next.as_deref()), (Some("fast"), Some("slow")));
        let (one, other) = (one.branch.unwrap(), other.branch.unwrap());
        assert_eq!((one.taken, other.taken, other.values), (false, true, Some([5, 1])));
        assert_eq!(other.text, "cmp $1,%eax; jne 0x1020");
    }

    #[test]
    fn a_pointer_to_another_function_is_told_from_a_branch() {
        let of = |leaf: u32| {
            let main = vec![branch(true, 1), Step::Own(4), to(0)];
            vec![call(leaf, vec![Step::Own(3)]), call(0, main)]
        };
        let found = parted(of(2), of(3)).unwrap();
        assert_eq!((found.why, &found.sides[0].branch), (Why::Pointer, &None));
    }

    #[test]
    fn own_instructions_part_behind_the_last_common_call() {
        let of = |own| {
            let main = vec![Step::Own(4), to(0), branch(own > 1, own), Step::Own(own)];
            vec![call(2, vec![Step::Own(3)]), call(0, main)]
        };
        let found = parted(of(1), of(2)).unwrap();
        assert_eq!((found.after.as_deref(), found.why), (Some("fast"), Why::Branch));
        assert_eq!(
            found.sides.each_ref().map(|side| (side.own, side.next.clone())),
            [(1, None), (2, None)]
        );
        assert_eq!(parted(of(1), of(1)), None);
    }
}
