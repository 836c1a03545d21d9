//! Profiles by function: own cost, inclusive cost, and callers.

use crate::symbolise::Sampled;
use opcost_record::{Function, Profile};
use opcost_symbols::keyed::KeyedMap;
use opcost_symbols::naming::Naming;

/// The cost of a function.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FunctionCost {
    /// The function.
    pub function: Function,
    /// The function's own cost, without its callees'.
    pub own: u64,
    /// The inclusive cost; each cost counts once, however often the function is on the stack. `None`
    /// if the file does not tell, as for functions that call one another in a circle.
    pub inclusive: Option<u64>,
    /// The function's own samples; `None` if cost was counted, or if their number is unknown.
    pub samples: Option<u64>,
    /// The number of calls; `None` if calls were not counted, as in samples.
    pub calls: Option<u64>,
    /// The function's length, bytes.
    pub bytes: Option<u64>,
    /// The function's own samples in copies that were inlined into other functions.
    pub inlined_samples: u64,
}

/// The cost of a function when another one called it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Edge {
    /// Index of the caller; `None` if no caller is known.
    pub caller: Option<usize>,
    /// Index of the callee.
    pub callee: usize,
    /// The callee's inclusive cost. In a sampled profile, the costs of one callee's edges add up to
    /// the callee's inclusive cost.
    pub cost: u64,
    /// The number of calls, if they were counted.
    pub calls: Option<u64>,
}

/// A profile by function.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FunctionTable {
    /// The functions, the greatest own cost first.
    pub functions: Vec<FunctionCost>,
    /// The calls by caller and callee, the greatest cost first.
    pub edges: Vec<Edge>,
    /// The sum of all costs.
    pub total: u64,
    /// The part of the file's total cost that the file charges to no function.
    pub unattributed: u64,
}

impl FunctionTable {
    /// Makes the table of a sampled profile.
    pub fn of(sampled: &Sampled) -> FunctionTable {
        let Profile { functions, contexts, .. } = &sampled.profile;
        let mut inclusive: Vec<u64> = contexts.iter().map(|context| context.cost).collect();
        for at in (0..contexts.len()).rev() {
            if let Some(parent) = contexts[at].parent {
                inclusive[parent as usize] =
                    inclusive[parent as usize].saturating_add(inclusive[at]);
            }
        }
        let samples = sampled.samples_known().map(|_| 0);
        let mut costs: Vec<FunctionCost> = functions
            .iter()
            .zip(&sampled.facts)
            .map(|(function, facts)| FunctionCost {
                function: function.clone(),
                own: 0,
                inclusive: Some(0),
                samples,
                calls: None,
                bytes: facts.bytes,
                inlined_samples: facts.inlined_samples,
            })
            .collect();
        let outermost = outermost(&sampled.profile);
        let mut edges: KeyedMap<(Option<u32>, u32), u64> = KeyedMap::default();
        for (at, context) in contexts.iter().enumerate() {
            let cost = &mut costs[context.function as usize];
            cost.own = cost.own.saturating_add(context.cost);
            cost.samples = cost.samples.map(|samples| samples + sampled.samples[at]);
            // In a recursion, only the outermost call has the whole cost.
            if !outermost[at] {
                continue;
            }
            cost.inclusive = cost.inclusive.map(|sum| sum.saturating_add(inclusive[at]));
            let caller = context.parent.map(|parent| contexts[parent as usize].function);
            let edge = edges.entry((caller, context.function)).or_default();
            *edge = edge.saturating_add(inclusive[at]);
        }
        let edges = edges.into_iter().map(|((caller, callee), cost)| Edge {
            caller: caller.map(|caller| caller as usize),
            callee: callee as usize,
            cost,
            calls: None,
        });
        FunctionTable {
            functions: costs,
            edges: edges.collect(),
            total: sampled.profile.total(),
            unattributed: 0,
        }
        .sorted()
    }

    /// Sorts functions and edges by cost; equal ones by name.
    pub(crate) fn sorted(self) -> FunctionTable {
        self.numbered().0
    }

    /// Sorts functions and edges, and returns the place of each function now.
    pub(crate) fn numbered(self) -> (FunctionTable, Vec<usize>) {
        let FunctionTable { functions, edges, total, unattributed } = self;
        let mut order: Vec<usize> = (0..functions.len()).collect();
        order.sort_by(|one, two| {
            let (one, two) = (&functions[*one], &functions[*two]);
            let key = |cost: &FunctionCost| (cost.own, cost.inclusive);
            key(two).cmp(&key(one)).then_with(|| one.function.cmp(&two.function))
        });
        let mut places = vec![0; order.len()];
        for (place, from) in order.iter().enumerate() {
            places[*from] = place;
        }
        let mut edges: Vec<Edge> = edges
            .into_iter()
            .map(|edge| Edge {
                caller: edge.caller.map(|caller| places[caller]),
                callee: places[edge.callee],
                ..edge
            })
            .collect();
        edges.sort_by_key(|edge| (u64::MAX - edge.cost, edge.callee, edge.caller));
        let functions = order.iter().map(|from| functions[*from].clone()).collect();
        (FunctionTable { functions, edges, total, unattributed }, places)
    }

    /// Returns the calls of a function, the greatest cost first.
    pub fn callers(&self, callee: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.callee == callee)
    }

    /// Returns the names by which the table's functions are shown.
    pub fn naming(&self) -> Naming {
        Naming::of(self.functions.iter().map(|cost| &cost.function))
    }
}

/// Tells for each context whether none above it has the same function.
fn outermost(profile: &Profile) -> Vec<bool> {
    let contexts = &profile.contexts;
    // The last child of each context; behind them, the last root. `before`: the sibling before each
    // context. Contexts are counted in 32 bits, because there can be millions.
    const NONE: u32 = u32::MAX;
    let mut last = vec![NONE; contexts.len() + 1];
    let before: Vec<u32> = (0..contexts.len())
        .map(|at| {
            let parent = contexts[at].parent.map_or(contexts.len(), |parent| parent as usize);
            std::mem::replace(&mut last[parent], at as u32)
        })
        .collect();
    let known = |at: u32| (at != NONE).then_some(at as usize);
    // How often each function is on the way from the root to the current context.
    let mut open = vec![0u32; profile.functions.len()];
    let mut outermost = vec![false; contexts.len()];
    let mut next = known(last[contexts.len()]);
    while let Some(mut at) = next {
        let count = &mut open[contexts[at].function as usize];
        outermost[at] = *count == 0;
        *count += 1;
        next = known(last[at]);
        while next.is_none() {
            open[contexts[at].function as usize] -= 1;
            next = known(before[at]);
            match contexts[at].parent {
                Some(parent) => at = parent as usize,
                None => break,
            }
        }
    }
    outermost
}

/// Returns the contexts above a context, the nearest first.
fn above(profile: &Profile, at: usize) -> impl Iterator<Item = usize> {
    let parent = |at: usize| profile.contexts[at].parent.map(|parent| parent as usize);
    std::iter::successors(parent(at), move |at| parent(*at))
}

/// A caller with its callers, and so on outwards.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CallerTree {
    /// Index into [`Profile::functions`].
    pub function: u32,
    /// Own cost of the root's function when called this way.
    pub cost: u64,
    /// The samples of this cost.
    pub samples: u64,
    /// The callers, the greatest cost first.
    pub callers: Vec<CallerTree>,
}

/// Finds the ways that lead to a function's own cost.
///
/// `function`: its index in [`Profile::functions`]. The costs of a node's callers add up to the node's
/// cost, unless the node was also reached without a caller.
pub fn caller_tree(sampled: &Sampled, function: u32) -> CallerTree {
    let profile = &sampled.profile;
    let mut nodes: Vec<(u32, u64, u64)> = vec![(function, 0, 0)];
    let mut known: KeyedMap<(usize, u32), usize> = KeyedMap::default();
    let mut children: Vec<Vec<usize>> = vec![Vec::new()];
    for (at, context) in profile.contexts.iter().enumerate() {
        let samples = sampled.samples[at];
        if context.function != function || (context.cost == 0 && samples == 0) {
            continue;
        }
        let mut node = 0;
        nodes[0].1 = nodes[0].1.saturating_add(context.cost);
        nodes[0].2 += samples;
        for above in above(profile, at) {
            let caller = profile.contexts[above].function;
            node = *known.entry((node, caller)).or_insert_with(|| {
                nodes.push((caller, 0, 0));
                children.push(Vec::new());
                children[node].push(nodes.len() - 1);
                nodes.len() - 1
            });
            nodes[node].1 = nodes[node].1.saturating_add(context.cost);
            nodes[node].2 += samples;
        }
    }
    // Callers come after their callees, so a tree is complete when it moves to its place.
    let mut trees: Vec<Option<CallerTree>> = vec![None; nodes.len()];
    for (at, (function, cost, samples)) in nodes.iter().enumerate().rev() {
        let mut callers: Vec<CallerTree> =
            children[at].iter().filter_map(|child| trees[*child].take()).collect();
        callers.sort_by(|one, two| {
            let name = |tree: &CallerTree| &profile.functions[tree.function as usize];
            two.cost.cmp(&one.cost).then_with(|| name(one).cmp(name(two)))
        });
        trees[at] =
            Some(CallerTree { function: *function, cost: *cost, samples: *samples, callers });
    }
    trees[0].take().unwrap_or_default()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
