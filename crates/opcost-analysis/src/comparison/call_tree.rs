//! The profiles of one or more variants as one tree of calls, in the integers that were counted.
//!
//! All counted runs of a variant are added up. Nothing is scaled, so the costs of a tree are a sum of instructions. Divided by
//! [`TreeSide::ops`] they are the cost per operation. If several variants are from one recording, only blocks that have runs of
//! each variant count.
//!
//! [`function_context`] shows one function between its callers and its callees, on two sides. A caller is charged with the function's own cost during its calls. A callee is charged with its inclusive cost below calls of
//! the function. The callees and the function's own cost there add up to the function's inclusive cost. A function that calls
//! itself is its own callee; the cost below the inner call belongs to the inner call.

use super::function_changes::{NO_CALLER, Sides, UNATTRIBUTED};
pub use opcost_attribution::function_costs::{Counted, VariantOf};
use opcost_attribution::function_costs::{ProfiledRun, counted, matching, profiled_runs};
use opcost_attribution::matching::{Matching, Side};
use opcost_base::exit::{HasStatus, Status};
use opcost_record::{Function, Profile, Unit};
use opcost_symbols::naming::Naming;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The error that some variants have no profiles from which to make a tree.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "{whose}: no finished runs with profiles{together}; runs on the emulated machine have them \
     (--machine emulated), and runs on the host that were sampled (--profile)"
)]
pub struct NoProfile {
    /// The variants and their recordings.
    whose: String,
    /// The addition for variants that have profiles each but share no block.
    together: &'static str,
}

impl NoProfile {
    pub(super) fn of(variants: &[VariantOf<'_>]) -> NoProfile {
        let has = |variant: &VariantOf<'_>| {
            profiled_runs(variant.recording).iter().any(|run| run.variant == variant.variant)
        };
        let lacking: Vec<&VariantOf<'_>> =
            variants.iter().filter(|variant| !has(variant)).collect();
        let together = if lacking.is_empty() { " in a common block" } else { "" };
        let whose = if lacking.is_empty() { variants.iter().collect() } else { lacking };
        let named = |variant: &&VariantOf<'_>| {
            format!("'{}' of recording {}", variant.name(), variant.recording.id)
        };
        NoProfile { whose: whose.iter().map(named).collect::<Vec<_>>().join(" and "), together }
    }
}

impl HasStatus for NoProfile {
    fn status(&self) -> Status {
        Status::Usage
    }
}

/// One variant of a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TreeSide {
    /// Name of the variant.
    pub name: String,
    /// Its recording.
    pub recording: String,
    /// Runs that were added up.
    pub runs: u64,
    /// Operations of all runs; for commands, the number of runs.
    pub ops: u64,
    /// Total cost of all nodes.
    pub total: u64,
}

/// A function in one calling context, with one figure for each variant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallNode {
    /// The caller's node, always an earlier one; `None` if no caller is known.
    pub parent: Option<usize>,
    /// Index into [`CallTree::functions`].
    pub function: usize,
    /// Times it was entered from the parent.
    pub calls: Vec<u64>,
    /// Cost of its own instructions in this context.
    pub own: Vec<u64>,
    /// Cost of its own instructions and of everything that it called.
    pub inclusive: Vec<u64>,
}

/// Cost by calling context.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallTree {
    /// The event that was counted or sampled.
    pub counted: Counted,
    /// Whether operations were counted; else [`TreeSide::ops`] are runs.
    pub per_op: bool,
    /// The variants.
    pub sides: Vec<TreeSide>,
    /// The functions, under the symbols that their source has. A function whose file differs between the sides has the last side's
    /// file.
    pub functions: Vec<Function>,
    /// The tree, parents before children.
    pub nodes: Vec<CallNode>,
}

impl CallTree {
    /// The tree of these variants, at least one.
    ///
    /// The cost that no function is charged with is the node `[unattributed]`. Parts that the compiler split off a function count
    /// as the function, not as calls.
    ///
    /// # Errors
    /// Fails if a variant has no run with a profile that counts.
    pub fn of(variants: &[VariantOf<'_>]) -> Result<CallTree, NoProfile> {
        let runs = runs_of(variants).ok_or_else(|| NoProfile::of(variants))?;
        let first = variants[0].recording;
        let listed: Vec<Vec<&ProfiledRun<'_>>> =
            runs.iter().map(|of| of.iter().collect()).collect();
        let matching = matching(variants, &listed);
        let mut builder = TreeBuilder::of(variants.len(), &matching);
        let per_op = runs.iter().flatten().all(|run| run.ops.is_some());
        let sides = variants.iter().zip(&runs).enumerate().map(|(side, (variant, runs))| {
            let mut unattributed = 0;
            for run in runs {
                builder.add(side, &run.profile, &matching);
                unattributed += run.total.saturating_sub(run.profile.total());
            }
            if unattributed > 0 {
                let node = builder.node(None, &Function::new(UNATTRIBUTED, ""));
                builder.nodes[node].own[side] += unattributed;
            }
            TreeSide {
                name: variant.name().to_string(),
                recording: variant.recording.id.clone(),
                runs: runs.len() as u64,
                ops: runs.iter().map(|run| run.ops.filter(|_| per_op).unwrap_or(1).max(1)).sum(),
                total: 0,
            }
        });
        let sides = sides.collect();
        Ok(builder.build(counted(first), per_op, sides))
    }

    /// The tree of one profile that is in no recording.
    ///
    /// `counted`: event and unit of the cost; `name`: name of the side; `ops`: operations that the work performed.
    pub fn of_profile(
        counted: Counted,
        name: String,
        profile: &Profile,
        ops: Option<u64>,
    ) -> CallTree {
        let side = Side { functions: profile.functions.iter().collect(), ..Side::default() };
        let matching = Matching::of(&[side], &[]);
        let mut builder = TreeBuilder::of(1, &matching);
        builder.add(0, profile, &matching);
        let (recording, ops_or_runs) = (name.clone(), ops.unwrap_or(1));
        let side = TreeSide { name, recording, runs: 1, ops: ops_or_runs, total: 0 };
        builder.build(counted, ops.is_some(), vec![side])
    }

    /// Computes `inclusive` of the nodes and `total` of the sides.
    pub fn summed(mut self) -> CallTree {
        for node in &mut self.nodes {
            node.inclusive = node.own.clone();
        }
        for at in (0..self.nodes.len()).rev() {
            let Some(parent) = self.nodes[at].parent else { continue };
            let inclusive = self.nodes[at].inclusive.clone();
            for (sum, part) in self.nodes[parent].inclusive.iter_mut().zip(inclusive) {
                *sum += part;
            }
        }
        for (side, tree_side) in self.sides.iter_mut().enumerate() {
            tree_side.total = self.nodes.iter().map(|node| node.own[side]).sum();
        }
        self
    }

    /// The unit of a cost divided by [`TreeSide::ops`].
    pub fn unit(&self) -> String {
        format!("{}/{}", self.counted.words, if self.per_op { "op" } else { "run" })
    }

    /// Divides a side's cost or number of calls by its operations.
    pub fn per_op(&self, side: usize, count: u64) -> f64 {
        count as f64 / self.sides[side].ops as f64
    }

    /// The children of each node, sorted by name; the last entry holds the nodes without a caller.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.nodes.len() + 1];
        for (at, node) in self.nodes.iter().enumerate() {
            children[node.parent.unwrap_or(self.nodes.len())].push(at);
        }
        let name = |node: &usize| &self.functions[self.nodes[*node].function];
        for siblings in &mut children {
            siblings.sort_by(|one, two| name(one).cmp(name(two)));
        }
        children
    }

    /// The nodes in depth-first order, siblings by name.
    pub fn depth_first(&self) -> Vec<usize> {
        let mut children = self.children();
        let mut waiting = children.pop().unwrap_or_default();
        waiting.reverse();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(node) = waiting.pop() {
            order.push(node);
            waiting.extend(children[node].iter().rev());
        }
        order
    }

    /// The functions from the outermost caller to a node.
    pub fn stack(&self, node: usize) -> Vec<usize> {
        let above = |at: &usize| self.nodes[*at].parent;
        let mut stack: Vec<usize> = std::iter::successors(Some(node), above)
            .map(|node| self.nodes[node].function)
            .collect();
        stack.reverse();
        stack
    }

    /// The displayed name of each function: its symbol, followed by the source if its module has several functions of the symbol,
    /// and by the module if several modules have the symbol.
    pub fn names(&self) -> Vec<String> {
        let mut modules: HashMap<&str, HashSet<&str>> = HashMap::new();
        for function in &self.functions {
            modules.entry(&function.symbol).or_default().insert(&function.module);
        }
        let naming = self.naming();
        let name = |function: &Function| {
            let symbol = naming.symbol(function);
            match modules[function.symbol.as_str()].len() {
                1 => symbol.into_owned(),
                _ => named_with_module(&symbol, &function.module),
            }
        };
        self.functions.iter().map(name).collect()
    }

    /// Distinguishes functions of the same name and module.
    pub fn naming(&self) -> Naming {
        Naming::of(&self.functions)
    }
}

/// `symbol (file)` or `symbol [kernel]`.
fn named_with_module(symbol: &str, module: &str) -> String {
    if module.is_empty() || module.starts_with('[') {
        return format!("{symbol} {module}").trim_end().to_string();
    }
    format!("{symbol} ({module})")
}

/// The runs of each variant. If all variants are from one recording, only the blocks that have runs of each count.
fn runs_of<'a>(variants: &[VariantOf<'a>]) -> Option<Vec<Vec<ProfiledRun<'a>>>> {
    let first = variants.first()?.recording;
    let together = variants.iter().all(|variant| std::ptr::eq(variant.recording, first));
    let mut blocks: BTreeMap<u32, Vec<bool>> = BTreeMap::new();
    let mut runs = Vec::new();
    for (side, of) in variants.iter().enumerate() {
        let mut own = profiled_runs(of.recording);
        own.retain(|run| run.variant == of.variant);
        for run in own.iter().filter(|_| together) {
            blocks.entry(run.unit).or_insert_with(|| vec![false; variants.len()])[side] = true;
        }
        runs.push(own);
    }
    if together {
        let whole = |run: &ProfiledRun<'_>| blocks[&run.unit].iter().all(|has| *has);
        runs.iter_mut().for_each(|runs| runs.retain(whole));
    }
    runs.iter().all(|runs| !runs.is_empty()).then_some(runs)
}

/// A tree while profiles are added to it.
struct TreeBuilder {
    sides: usize,
    functions: Vec<Function>,
    numbers: HashMap<Function, usize>,
    nodes: Vec<CallNode>,
    places: HashMap<(Option<usize>, usize), usize>,
}

impl TreeBuilder {
    /// A tree without nodes; the first functions are the matched ones, under their numbers.
    fn of(sides: usize, matching: &Matching) -> TreeBuilder {
        let functions = matching.functions().to_vec();
        TreeBuilder {
            sides,
            functions,
            numbers: HashMap::new(),
            nodes: Vec::new(),
            places: HashMap::new(),
        }
    }

    fn node(&mut self, parent: Option<usize>, function: &Function) -> usize {
        let number = self.number(function);
        self.node_of(parent, number)
    }

    fn number(&mut self, function: &Function) -> usize {
        if let Some(number) = self.numbers.get(function) {
            return *number;
        }
        self.functions.push(function.clone());
        self.numbers.insert(function.clone(), self.functions.len() - 1);
        self.functions.len() - 1
    }

    fn node_of(&mut self, parent: Option<usize>, function: usize) -> usize {
        let (nodes, sides) = (&mut self.nodes, self.sides);
        *self.places.entry((parent, function)).or_insert_with(|| {
            let zeros = || vec![0; sides];
            let (calls, own, inclusive) = (zeros(), zeros(), zeros());
            nodes.push(CallNode { parent, function, calls, own, inclusive });
            nodes.len() - 1
        })
    }

    fn add(&mut self, side: usize, profile: &Profile, matching: &Matching) {
        let number = |function| matching.number(side, function) as usize;
        let ids: Vec<usize> = profile.functions.iter().map(number).collect();
        let mut places: Vec<usize> = Vec::with_capacity(profile.contexts.len());
        for context in &profile.contexts {
            let id = ids[context.function as usize];
            let above = context.parent.map(|parent| parent as usize);
            let split = above.filter(|above| {
                let caller = profile.contexts[*above].function;
                caller != context.function && ids[caller as usize] == id
            });
            let parent = above.map(|above| places[above]);
            let place = match split {
                Some(whole) => places[whole],
                None => self.node_of(parent, id),
            };
            let node = &mut self.nodes[place];
            node.own[side] += context.cost;
            node.calls[side] += if split.is_some() { 0 } else { context.calls };
            places.push(place);
        }
    }

    fn build(self, counted: Counted, per_op: bool, sides: Vec<TreeSide>) -> CallTree {
        let TreeBuilder { functions, nodes, .. } = self;
        CallTree { counted, per_op, sides, functions, nodes }.summed()
    }
}

/// Trees for tests, also of the crate that renders trees.
#[doc(hidden)]
pub mod fixture {
    use super::*;

    /// Parent, `symbol` or `symbol@module`, then calls and own cost of each side.
    pub type Sketch<'a> = (Option<usize>, &'a str, &'a [(u64, u64)]);

    /// Instructions, each of them counted.
    pub fn instructions() -> Counted {
        let name = || "instructions".to_string();
        Counted { words: name(), event: name(), unit: Unit::Count, period: Some(1) }
    }

    /// A tree of these nodes, of 10 runs of 100 operations a side.
    pub fn tree(sides: &[&str], nodes: &[Sketch<'_>]) -> CallTree {
        let mut builder = TreeBuilder::of(sides.len(), &Matching::default());
        for (parent, symbol, figures) in nodes {
            let (symbol, module) = symbol.split_once('@').unwrap_or((symbol, "[kernel]"));
            let function = Function::new(symbol, module);
            let node = builder.node(*parent, &function);
            for (side, (calls, own)) in figures.iter().enumerate() {
                builder.nodes[node].calls[side] += calls;
                builder.nodes[node].own[side] += own;
            }
        }
        let side = |name: &&str| TreeSide {
            name: name.to_string(),
            recording: "261121-c0ffee".into(),
            runs: 10,
            ops: 1000,
            total: 0,
        };
        builder.build(instructions(), true, sides.iter().map(side).collect())
    }
}

/// A function with its callers and callees.
#[derive(Clone, Debug)]
pub struct FunctionContext {
    /// The function.
    pub function: Function,
    /// Cost of its own instructions.
    pub own: Sides,
    /// Calls.
    pub calls: Sides,
    /// The inclusive cost.
    pub inclusive: Sides,
    /// The function's own cost below its outermost calls: `inclusive` less all callees.
    pub own_outermost: Sides,
    /// The callers, each with the function's own cost during its calls; the largest changes first.
    pub callers: Vec<ContextRow>,
    /// The callees with their inclusive costs; the largest changes first.
    pub callees: Vec<ContextRow>,
}

/// A caller or a callee.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextRow {
    /// Its symbol, or [`NO_CALLER`].
    pub symbol: String,
    /// Its module; empty for [`NO_CALLER`].
    pub module: String,
    /// Calls from this caller or of this callee.
    pub calls: Sides,
    /// The cost.
    pub cost: Sides,
}

/// Calls and cost of each side.
type Sum = [[u64; 2]; 2];

/// The function with this number in a tree of two sides.
pub fn function_context(tree: &CallTree, function: usize) -> FunctionContext {
    let naming = tree.naming();
    let mut inside = vec![false; tree.nodes.len()];
    let [mut own, mut inclusive, mut own_outermost] = [Sum::default(); 3];
    let mut callers: BTreeMap<Option<usize>, Sum> = BTreeMap::new();
    let mut callees: BTreeMap<usize, Sum> = BTreeMap::new();
    for (at, node) in tree.nodes.iter().enumerate() {
        let pair = |counts: &[u64]| [counts[0], counts[1]];
        let (calls, cost) = (pair(&node.calls), pair(&node.own));
        let parent = node.parent.map(|parent| &tree.nodes[parent]);
        let below = node.parent.is_some_and(|parent| inside[parent]);
        if node.function == function {
            add(&mut own, calls, cost);
            let caller = callers.entry(parent.map(|parent| parent.function)).or_default();
            add(caller, calls, cost);
            if !below {
                add(&mut inclusive, calls, pair(&node.inclusive));
                add(&mut own_outermost, calls, cost);
            }
        }
        let outermost = |parent: usize| {
            let above = tree.nodes[parent].parent;
            tree.nodes[parent].function == function && above.is_none_or(|above| !inside[above])
        };
        if node.parent.is_some_and(outermost) {
            add(callees.entry(node.function).or_default(), calls, pair(&node.inclusive));
        }
        inside[at] = below || node.function == function;
    }
    let sides = |counts: [u64; 2]| {
        let [one, two] = [0, 1].map(|side| tree.per_op(side, counts[side]));
        Sides::of([one, two])
    };
    let row = |known: Option<usize>, [calls, cost]: Sum| {
        let function = known.map(|known| &tree.functions[known]);
        ContextRow {
            symbol: function.map_or(NO_CALLER.into(), |one| naming.symbol(one).into_owned()),
            module: function.map_or("", |function| &function.module).to_string(),
            calls: sides(calls),
            cost: sides(cost),
        }
    };
    FunctionContext {
        function: Function::new(
            naming.symbol(&tree.functions[function]),
            &tree.functions[function].module,
        ),
        own: sides(own[1]),
        calls: sides(own[0]),
        inclusive: sides(inclusive[1]),
        own_outermost: sides(own_outermost[1]),
        callers: sorted(callers.into_iter().map(|(caller, sum)| row(caller, sum))),
        callees: sorted(callees.into_iter().map(|(callee, sum)| row(Some(callee), sum))),
    }
}

fn add(sum: &mut Sum, calls: [u64; 2], cost: [u64; 2]) {
    for side in 0..2 {
        sum[0][side] += calls[side];
        sum[1][side] += cost[side];
    }
}

fn sorted(rows: impl Iterator<Item = ContextRow>) -> Vec<ContextRow> {
    let mut rows: Vec<ContextRow> = rows.collect();
    rows.sort_by(|one, two| {
        let key = |row: &ContextRow| (row.cost.change.abs(), row.cost.value.abs());
        let (one_key, two_key) = (key(one), key(two));
        let by_size = two_key.0.total_cmp(&one_key.0).then(two_key.1.total_cmp(&one_key.1));
        by_size.then_with(|| (&one.symbol, &one.module).cmp(&(&two.symbol, &two.module)))
    });
    rows
}

#[cfg(test)]
pub(crate) mod tests {
    use super::fixture::{instructions, tree};
    use super::*;
    use proptest::prelude::*;

    /// Any tree of two sides.
    pub(crate) fn any_tree() -> impl Strategy<Value = CallTree> {
        let figures = || (0..50u64, 0..1_000_000u64);
        let node = (any::<Option<prop::sample::Index>>(), 0..6usize, figures(), figures());
        prop::collection::vec(node, 1..40).prop_map(|drawn| {
            let mut builder = TreeBuilder::of(2, &Matching::default());
            for (parent, name, one, two) in drawn {
                let parent = parent
                    .filter(|_| !builder.nodes.is_empty())
                    .map(|p| p.index(builder.nodes.len()));
                let symbol = format!("f{name}");
                let node = builder.node(parent, &Function::new(symbol, "[kernel]"));
                for (side, (calls, own)) in [one, two].into_iter().enumerate() {
                    builder.nodes[node].calls[side] += calls;
                    builder.nodes[node].own[side] += own;
                }
            }
            let side = |name: &str| TreeSide {
                name: name.into(),
                recording: "261121-c0ffee".into(),
                runs: 1,
                ops: 1000,
                total: 0,
            };
            builder.build(instructions(), true, vec![side("off"), side("on")])
        })
    }

    #[test]
    fn a_node_has_what_it_calls() {
        let tree = tree(
            &["off", "on"],
            &[
                (None, "main", &[(1, 10), (1, 10)]),
                (Some(0), "read", &[(5, 20), (5, 26)]),
                (Some(1), "copy", &[(5, 7), (0, 0)]),
                (Some(0), "copy", &[(2, 3), (4, 6)]),
            ],
        );
        let inclusive: Vec<&[u64]> = tree.nodes.iter().map(|node| &node.inclusive[..]).collect();
        assert_eq!(inclusive, [&[40, 42][..], &[27, 26], &[7, 0], &[3, 6]]);
        assert_eq!([tree.sides[0].total, tree.sides[1].total], [40, 42]);
        assert_eq!(tree.per_op(1, 42), 0.042);
        assert_eq!((tree.unit().as_str(), tree.names()[2].as_str()), ("instructions/op", "copy"));
        let name = |function: &usize| tree.functions[*function].symbol.as_str();
        let stack = tree.stack(2);
        assert_eq!(stack.iter().map(name).collect::<Vec<_>>(), ["main", "read", "copy"]);
        // By name: copy before read.
        assert_eq!(tree.children()[0], [3, 1]);
        assert_eq!(tree.depth_first(), [0, 3, 1, 2]);
    }

    #[test]
    fn split_parts_are_their_function_and_recursion_is_a_call() {
        let function = |symbol: &str| Function::new(symbol, "m");
        let context = |parent, function, calls, cost| opcost_record::Context {
            parent,
            function,
            calls,
            cost,
        };
        let profile = Profile {
            functions: ["main", "read", "read.part.0", "read.part.0.cold"].map(function).to_vec(),
            contexts: vec![
                context(None, 0, 1, 10),
                context(Some(0), 1, 5, 20),
                context(Some(1), 2, 4, 30),
                context(Some(2), 3, 1, 2),
                context(Some(2), 2, 1, 9),
            ],
            ..Profile::default()
        };
        let side = Side { functions: profile.functions.iter().collect(), ..Side::default() };
        let matching = Matching::of(&[side], &[]);
        let mut builder = TreeBuilder::of(1, &matching);
        builder.add(0, &profile, &matching);
        builder.add(0, &profile, &matching);
        let nodes: Vec<_> =
            builder.nodes.iter().map(|node| (node.parent, node.calls[0], node.own[0])).collect();
        assert_eq!(nodes, [(None, 2, 20), (Some(0), 10, 104), (Some(1), 2, 18)]);
        assert_eq!(builder.functions.len(), 2);
    }

    #[test]
    fn modules_are_named_where_symbols_collide() {
        let tree = tree(
            &["one"],
            &[
                (None, "read", &[(1, 1)]),
                (None, "read@/lib/libc.so.6", &[(1, 1)]),
                (None, "main@/bin/work", &[(1, 1)]),
                (None, "[unattributed]@", &[(0, 1)]),
            ],
        );
        let names = ["read [kernel]", "read (/lib/libc.so.6)", "main", "[unattributed]"];
        assert_eq!(tree.names(), names);
    }

    proptest! {
        #[test]
        fn the_roots_have_everything(tree in any_tree()) {
            for side in 0..2 {
                let roots = tree.nodes.iter().filter(|node| node.parent.is_none());
                let sum: u64 = roots.map(|node| node.inclusive[side]).sum();
                prop_assert_eq!(sum, tree.sides[side].total);
            }
        }
    }

    fn check(rows: &[ContextRow], expected: &[(&str, [f64; 2], [f64; 2])]) {
        let seen: Vec<(&str, [f64; 2], [f64; 2])> = rows
            .iter()
            .map(|row| {
                let pair = |sides: &Sides| [sides.value_baseline, sides.value];
                (row.symbol.as_str(), pair(&row.calls), pair(&row.cost))
            })
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn callers_and_callees_of_a_function_are_told_apart() {
        // Each side has 1,000 operations.
        let tree = tree(
            &["off", "on"],
            &[
                (None, "main", &[(1000, 0), (1000, 0)]),
                (Some(0), "read", &[(2000, 8000), (2000, 8000)]),
                (Some(1), "copy", &[(1000, 3000), (3000, 9000)]),
                (Some(2), "fault", &[(0, 0), (1000, 500)]),
                (Some(0), "copy", &[(1000, 4000), (1000, 4000)]),
                (Some(4), "copy", &[(1000, 1000), (1000, 2000)]),
                (Some(5), "fault", &[(1000, 250), (1000, 250)]),
            ],
        );
        let is_copy = |function: &Function| function.symbol == "copy";
        let copy = tree.functions.iter().position(is_copy).unwrap();
        let context = function_context(&tree, copy);
        let pair = |sides: Sides| [sides.value_baseline, sides.value];
        assert_eq!(pair(context.own), [8.0, 15.0]);
        assert_eq!(pair(context.calls), [3.0, 5.0]);
        assert_eq!(pair(context.inclusive), [8.25, 15.75]);
        assert_eq!(pair(context.own_outermost), [7.0, 13.0]);
        check(
            &context.callers,
            &[
                ("read", [1.0, 3.0], [3.0, 9.0]),
                ("copy", [1.0, 1.0], [1.0, 2.0]),
                ("main", [1.0, 1.0], [4.0, 4.0]),
            ],
        );
        // The cost below the inner call belongs to the inner call.
        check(
            &context.callees,
            &[("copy", [1.0, 1.0], [1.25, 2.25]), ("fault", [0.0, 1.0], [0.0, 0.5])],
        );
    }

    proptest! {
        #[test]
        fn callees_and_own_cost_are_the_whole_and_callers_the_own_cost(tree in any_tree()) {
            for function in 0..tree.functions.len() {
                let context = function_context(&tree, function);
                let callees: f64 = context.callees.iter().map(|row| row.cost.change).sum();
                let parts = callees + context.own_outermost.change;
                prop_assert!((parts - context.inclusive.change).abs() < 1e-6);
                let callers: f64 = context.callers.iter().map(|row| row.cost.change).sum();
                prop_assert!((callers - context.own.change).abs() < 1e-6);
                let calls: f64 = context.callers.iter().map(|row| row.calls.value).sum();
                prop_assert!((calls - context.calls.value).abs() < 1e-6);
            }
        }
    }
}
