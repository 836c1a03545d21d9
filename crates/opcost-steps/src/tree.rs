//! The tree of an operation's calls, with names that two variants share.

use opcost_record::profile::KERNEL;
use opcost_record::steps::{Step, StepCall, StepHow, Steps};
use opcost_record::{Function, Profile};
use std::collections::HashMap;

/// The endings that compilers give to parts and copies of a function.
const PARTS: [&str; 6] = [".cold", ".constprop", ".isra", ".llvm", ".lto_priv", ".part"];

/// A variant with its steps.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The variant's name.
    pub name: &'a str,
    /// The functions by which the steps are numbered.
    pub functions: &'a [Function],
    /// The steps.
    pub steps: &'a Steps,
}

impl<'a> Side<'a> {
    /// The steps in a profile, if it has any.
    pub fn of(name: &'a str, profile: &'a Profile) -> Option<Side<'a>> {
        let steps = profile.steps.as_deref()?;
        Some(Side { name, functions: &profile.functions, steps })
    }

    /// The function of a call, as it is shown.
    pub(crate) fn name_of(&self, call: &StepCall) -> String {
        let function = call.function.and_then(|number| self.functions.get(number as usize));
        match (function, call.how) {
            (Some(function), _) => function.symbol.clone(),
            (None, StepHow::Interrupt) => "[interrupt]".into(),
            (None, StepHow::Task) => "[other task]".into(),
            (None, _) => "[run]".into(),
        }
    }
}

/// What two functions have in common if they are the same one: the symbol without a part's ending, and whether the kernel has it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Key {
    symbol: String,
    kernel: bool,
    how: u8,
}

fn key(side: &Side<'_>, call: &StepCall) -> Key {
    let function = call.function.and_then(|number| side.functions.get(number as usize));
    let mut symbol = side.name_of(call);
    for part in PARTS {
        if let Some(at) = symbol.find(part) {
            symbol.truncate(at);
        }
    }
    let how = match call.how {
        StepHow::Interrupt => 1,
        StepHow::Task => 2,
        _ => 0,
    };
    Key { symbol, kernel: function.is_some_and(|one| one.module == KERNEL), how }
}

/// Numbers what trees have in common.
#[derive(Debug, Default)]
pub(crate) struct Common {
    keys: HashMap<Key, u32>,
    exact: HashMap<(u32, Vec<(bool, u64)>), u32>,
}

/// A call that the work made.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) call: u32,
    /// Link address of the instruction that made it.
    pub(crate) from: u64,
    /// Own instructions of the caller since the call before.
    pub(crate) own: u64,
    /// The place of the first branch since the call before, among the caller's branches, and of the first one behind the call.
    pub(crate) branches: std::ops::Range<usize>,
}

/// A branch as it was passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) branch: u32,
    pub(crate) taken: bool,
    pub(crate) values: Option<[u64; 2]>,
}

/// One call's steps, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) children: Vec<Child>,
    /// Interrupts and turns of other tasks.
    pub(crate) apart: Vec<u32>,
    /// Own instructions, in all and behind the last call.
    pub(crate) own: u64,
    pub(crate) own_behind: u64,
    pub(crate) passed: Vec<Passed>,
    /// The place of the first branch behind the last call.
    pub(crate) behind: usize,
}

/// A side's tree.
pub(crate) struct Tree<'a> {
    pub(crate) side: Side<'a>,
    pub(crate) totals: Vec<u64>,
    /// The calls inside each call and itself, as often as they are made.
    pub(crate) calls: Vec<u64>,
    /// The function of each call, by a number that both sides share.
    pub(crate) keys: Vec<u32>,
    /// Calls with the same number have the same functions and instructions all the way down.
    pub(crate) exact: Vec<u32>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(side: Side<'a>, common: &mut Common) -> Tree<'a> {
        let all = &side.steps.calls;
        let (mut calls, mut keys, mut exact) = (vec![], vec![], vec![]);
        for call in all {
            let fresh = common.keys.len() as u32;
            let number = *common.keys.entry(key(&side, call)).or_insert(fresh);
            let inside = call.steps.iter().filter_map(|step| match step {
                Step::Call { call, .. } => calls.get(*call as usize),
                _ => None,
            });
            calls.push(inside.fold(1u64, |sum, calls: &u64| sum.saturating_add(*calls)));
            let contents = call.steps.iter().filter_map(|step| match step {
                Step::Own(own) => Some((false, *own)),
                Step::Call { call, .. } => Some((true, u64::from(exact[*call as usize]))),
                Step::Branch { .. } => None,
            });
            let contents = (number, contents.collect::<Vec<_>>());
            let fresh = common.exact.len() as u32;
            exact.push(*common.exact.entry(contents).or_insert(fresh));
            keys.push(number);
        }
        Tree { side, totals: side.steps.totals(), calls, keys, exact }
    }

    pub(crate) fn root(&self) -> u32 {
        self.side.steps.calls.len() as u32 - 1
    }

    pub(crate) fn call(&self, number: u32) -> &'a StepCall {
        &self.side.steps.calls[number as usize]
    }

    pub(crate) fn name(&self, number: u32) -> String {
        self.side.name_of(self.call(number))
    }

    pub(crate) fn total(&self, number: u32) -> u64 {
        self.totals[number as usize]
    }

    pub(crate) fn node(&self, number: u32) -> Node {
        let mut node = Node::default();
        for step in &self.call(number).steps {
            match *step {
                Step::Own(own) => {
                    node.own = node.own.wrapping_add(own);
                    node.own_behind = node.own_behind.wrapping_add(own);
                }
                Step::Branch { branch, taken, values } => {
                    node.passed.push(Passed { branch, taken, values });
                }
                Step::Call { call, .. } if self.call(call).how.is_apart() => node.apart.push(call),
                Step::Call { call, from } => {
                    let own = std::mem::take(&mut node.own_behind);
                    let branches = node.behind..node.passed.len();
                    node.behind = node.passed.len();
                    node.children.push(Child { call, from, own, branches });
                }
            }
        }
        node
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use opcost_record::steps::StepBranch;

    /// Functions `f0`, `f1`, … of a program.
    pub(crate) fn functions(names: &[&str]) -> Vec<Function> {
        names.iter().map(|name| Function::new(*name, "/bin/program")).collect()
    }

    pub(crate) fn call(function: u32, steps: Vec<Step>) -> StepCall {
        let entry = 0x1000 * u64::from(function + 1);
        StepCall { function: Some(function), how: StepHow::Call, entry, steps }
    }

    pub(crate) fn to(call: u32) -> Step {
        Step::Call { call, from: 0x20 }
    }

    pub(crate) fn steps(calls: Vec<StepCall>) -> Steps {
        let branches = vec![StepBranch {
            function: 0,
            address: 0x1010,
            text: "cmp $1,%eax; jne 0x1020".into(),
        }];
        Steps { calls, branches, operations: [1, 1], operation: 1, ..Steps::default() }
    }

    #[test]
    fn parts_of_a_function_are_the_function() {
        let names = functions(&["read.part.0", "read", "read.cold", "reader"]);
        let steps = steps((0..4).map(|one| call(one, vec![Step::Own(1)])).collect());
        let side = Side { name: "a", functions: &names, steps: &steps };
        let tree = Tree::new(side, &mut Common::default());
        assert_eq!(tree.keys, [0, 0, 0, 1]);
        assert_eq!(tree.exact, [0, 0, 0, 1]);
    }

    #[test]
    fn an_interrupt_does_not_cut_the_own_instructions() {
        let names = functions(&["main", "one"]);
        let interrupt = StepCall {
            function: None,
            how: StepHow::Interrupt,
            entry: 0,
            steps: vec![Step::Own(50)],
        };
        let main = vec![Step::Own(3), to(0), Step::Own(4), to(1), Step::Own(5)];
        let steps = steps(vec![interrupt, call(1, vec![Step::Own(7)]), call(0, main)]);
        let side = Side { name: "a", functions: &names, steps: &steps };
        let tree = Tree::new(side, &mut Common::default());
        let node = tree.node(tree.root());
        assert_eq!((node.children[0].own, node.own_behind, node.own), (7, 5, 12));
        assert_eq!((node.apart, tree.total(2), &tree.calls[..]), (vec![0], 69, &[1, 1, 3][..]));
    }
}
