//! Profiles by function: own cost, cost with everything called, and who called.

use crate::symbolise::Sampled;
use crate::symbols::naming::Naming;
use opcost_record::{Function, Profile};
use rustc_hash::FxHashMap;

/// One function's cost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FunctionCost {
    /// The function.
    pub function: Function,
    /// Its own cost, callees left out.
    pub own: u64,
    /// Its cost with everything it calls, each cost once however often the function is on the stack;
    /// `None` where the file does not tell, as of functions that call one another in a circle.
    pub inclusive: Option<u64>,
    /// Samples of its own; `None` where cost was counted, and where nobody knows how many there were.
    pub samples: Option<u64>,
    /// Times it was called; `None` where that was not counted, as by samples.
    pub calls: Option<u64>,
    /// Its length, bytes.
    pub bytes: Option<u64>,
    /// Samples of its own in copies that were inlined into other functions.
    pub inlined_samples: u64,
}

/// What a function cost when it was called from another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Edge {
    /// Index of the caller; `None` where nothing is known to have called it.
    pub caller: Option<usize>,
    /// Index of the callee.
    pub callee: usize,
    /// The callee's cost with everything it called. Of a sampled profile those of one callee add up
    /// to its inclusive cost.
    pub cost: u64,
    /// Number of calls, where they were counted.
    pub calls: Option<u64>,
}

/// A profile by function.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FunctionTable {
    /// The functions, the greatest own cost first.
    pub functions: Vec<FunctionCost>,
    /// Who called whom, the greatest cost first.
    pub edges: Vec<Edge>,
    /// The cost of all.
    pub total: u64,
    /// Cost that the file counted in its total and charged no function with.
    pub unattributed: u64,
}

impl FunctionTable {
    /// The table of a sampled profile.
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
        let mut edges: FxHashMap<(Option<u32>, u32), u64> = FxHashMap::default();
        for (at, context) in contexts.iter().enumerate() {
            let cost = &mut costs[context.function as usize];
            cost.own = cost.own.saturating_add(context.cost);
            cost.samples = cost.samples.map(|samples| samples + sampled.samples[at]);
            // Of a recursion only the outermost call has everything.
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

    /// Sorts functions and edges; equal ones by name.
    pub(crate) fn sorted(self) -> FunctionTable {
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
        FunctionTable { functions, edges, total, unattributed }
    }

    /// The callers of a function, the greatest cost first.
    pub fn callers(&self, callee: usize) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(move |edge| edge.callee == callee)
    }

    /// What the functions are called.
    pub fn naming(&self) -> Naming {
        Naming::of(self.functions.iter().map(|cost| &cost.function))
    }
}

/// Of each context whether none above it is of the same function.
fn outermost(profile: &Profile) -> Vec<bool> {
    let contexts = &profile.contexts;
    // The last child of each context, and of each child the one before; behind all the roots. Contexts
    // are counted in 32 bits, and there can be millions.
    const NONE: u32 = u32::MAX;
    let mut last = vec![NONE; contexts.len() + 1];
    let before: Vec<u32> = (0..contexts.len())
        .map(|at| {
            let parent = contexts[at].parent.map_or(contexts.len(), |parent| parent as usize);
            std::mem::replace(&mut last[parent], at as u32)
        })
        .collect();
    let known = |at: u32| (at != NONE).then_some(at as usize);
    // How often each function is on the way from the root to where the walk is.
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

/// The contexts above one, the nearest first.
fn above(profile: &Profile, at: usize) -> impl Iterator<Item = usize> {
    let parent = |at: usize| profile.contexts[at].parent.map(|parent| parent as usize);
    std::iter::successors(parent(at), move |at| parent(*at))
}

/// A caller, its callers, and so on outwards.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CallerTree {
    /// Index into [`Profile::functions`].
    pub function: u32,
    /// Own cost of the function at the root when it was called this way.
    pub cost: u64,
    /// The same in samples.
    pub samples: u64,
    /// Who called, the greatest cost first.
    pub callers: Vec<CallerTree>,
}

/// The ways that lead to a function's own cost.
///
/// `function`: its index in [`Profile::functions`]. The costs of a node's callers add up to its own,
/// unless it was reached without one.
pub fn caller_tree(sampled: &Sampled, function: u32) -> CallerTree {
    let profile = &sampled.profile;
    let mut nodes: Vec<(u32, u64, u64)> = vec![(function, 0, 0)];
    let mut known: FxHashMap<(usize, u32), usize> = FxHashMap::default();
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
    // Callers come behind what they call, so each is whole when it is moved into its place.
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
