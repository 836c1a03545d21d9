//! The calling context tree: a node for each chain of calls.
//!
//! **Synchronous, deferred and tick are classes of calling contexts.** A region shorter than some ticks contains a batch of
//! RCU's frees or none, as its phase decides; a longer phase only widens the interval. A context inherits its class, so the
//! plugin adds classes up when a region stops, and counting costs no more. Interrupts, and tasks whose beginning the plugin
//! did not see, have bases of their own in the tree, since the same functions stand behind them and behind system calls. A
//! kept state and a fresh boot therefore agree.

use crate::class::{Class, Head};
use opcost_record::profile::ContextCycles;
use opcost_record::{Context, Function, Profile};

/// The node above programs and their system calls. Bases are above themselves and have no cost; profiles leave them out.
pub(crate) const ROOT: u32 = 0;
/// The base of tasks whose beginning was not seen, until they reach user mode: the kernel's threads.
pub(crate) const THREADS: u32 = 1;
/// The base of interrupts by devices.
pub(crate) const INTERRUPTS: u32 = 2;
/// The bases with their classes, by node.
const BASES: [Class; 3] = [Class::Synchronous, Class::Deferred, Class::Tick];
/// The node for the cost of contexts for which there is no room.
const OVERFLOW: u32 = BASES.len() as u32;
/// The first node that [`Tree::make_child`] makes.
const FIRST: usize = BASES.len() + 1;
/// Largest number of nodes: 64 bytes each, 8 more in the index (4 a place, at least half of them free).
pub(crate) const NODES_MAX: usize = 1 << NODE_BITS;
const NODE_BITS: u32 = 20;
const NODE_MASK: u32 = (1 << NODE_BITS) - 1;
/// The number of children that are found without the index, as bits: 4 bytes each.
const FOUND_BITS: u32 = 14;

/// The cost of a region at one node.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    cost: u64,
    calls: u64,
}

/// Columns of amounts: outside of regions first, then each region.
pub(crate) const COLUMNS: usize = 3;

/// One node, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Node {
    parent: u32,
    function: u32,
    amounts: [Amount; COLUMNS],
}

const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    fn new(parent: u32, function: u32) -> Node {
        Node { parent, function, amounts: Default::default() }
    }
}

/// The tree.
pub(crate) struct Tree {
    /// The nodes. The vector never moves: its capacity is the largest number of nodes. Unused capacity takes no memory.
    nodes: Vec<Node>,
    /// Open addressing. A place holds a node and, above [`NODE_BITS`], some bits of the node's hash, so that most other nodes need
    /// not be read. Free places hold the root. The length is a power of two.
    index: Vec<u32>,
    /// The most recently found children by their hash, encoded as in `index`. This table fits into the host's caches; the index
    /// does not.
    found: Box<[u32; 1 << FOUND_BITS]>,
    column: usize,
    nodes_max: usize,
    /// The amounts of the nodes on each vCPU but the first; these vectors never move either.
    further: Vec<Vec<[Amount; COLUMNS]>>,
    /// The vCPU that is charged.
    vcpu: usize,
    /// The modelled cycles of each node and column, up to the last node that has any; empty without a core.
    cycles: Vec<[ContextCycles; COLUMNS]>,
    /// The effect of each function on the class of its contexts; empty if the kernel does not tell classes apart.
    heads: Vec<Head>,
}

impl Tree {
    /// Makes a tree of at most `nodes_max` nodes.
    ///
    /// `other_contexts`: the function that stands for contexts without a node; `vcpus`: the number of vCPUs with amounts of their
    /// own; `heads`: for each function its effect on the class of its contexts, or nothing.
    pub(crate) fn new(
        other_contexts: u32,
        nodes_max: usize,
        vcpus: usize,
        heads: Vec<Head>,
    ) -> Tree {
        let mut nodes = Vec::with_capacity(nodes_max.max(FIRST));
        nodes.extend((0..OVERFLOW).map(|base| Node::new(base, u32::MAX)));
        nodes.push(Node::new(ROOT, other_contexts));
        let amounts = || {
            let mut amounts = Vec::with_capacity(nodes_max.max(FIRST));
            amounts.resize(nodes.len(), Default::default());
            amounts
        };
        let further = (1..vcpus).map(|_| amounts()).collect();
        let found = vec![ROOT; 1 << FOUND_BITS].try_into().expect("as many as there are");
        Tree {
            nodes,
            index: vec![ROOT; 1024],
            found,
            column: 0,
            nodes_max,
            further,
            vcpu: 0,
            cycles: Vec::new(),
            heads,
        }
    }

    /// Returns the number of vCPUs with amounts of their own.
    pub(crate) fn vcpus(&self) -> usize {
        1 + self.further.len()
    }

    /// Chooses the vCPU that is charged.
    pub(crate) fn choose_vcpu(&mut self, vcpu: usize) {
        self.vcpu = vcpu;
    }

    /// Returns the amounts of a node on a vCPU.
    #[inline(always)]
    fn amounts(&self, vcpu: usize, node: usize) -> &[Amount; COLUMNS] {
        match vcpu {
            0 => &self.nodes[node].amounts,
            further => &self.further[further - 1][node],
        }
    }

    /// Returns the amounts of a node on the chosen vCPU.
    #[inline(always)]
    fn amounts_mut(&mut self, node: u32) -> &mut [Amount; COLUMNS] {
        match self.vcpu {
            0 => &mut self.nodes[node as usize].amounts,
            further => &mut self.further[further - 1][node as usize],
        }
    }

    /// Returns the cost of one column on a vCPU.
    pub(crate) fn sum(&self, vcpu: usize, column: usize) -> u64 {
        let cost = |node| self.amounts(vcpu, node)[column].cost;
        (0..self.nodes.len()).map(cost).fold(0, u64::wrapping_add)
    }

    /// Chooses the column that is charged.
    pub(crate) fn choose(&mut self, column: usize) {
        self.column = column;
    }

    /// Returns the place of a node's cost in the chosen column; the place never moves.
    #[inline(always)]
    pub(crate) fn cost(&mut self, node: u32) -> *mut u64 {
        let column = self.column;
        &raw mut self.amounts_mut(node)[column].cost
    }

    /// Moves cost of a node from one column to another.
    pub(crate) fn shift(&mut self, node: u32, from: usize, to: usize, cost: u64) {
        for (column, amount) in [(from, cost.wrapping_neg()), (to, cost)] {
            let sum = &mut self.amounts_mut(node)[column].cost;
            *sum = sum.wrapping_add(amount);
        }
    }

    /// Adds modelled cycles to a node in the chosen column.
    #[inline(always)]
    pub(crate) fn spend(&mut self, node: u32, cycles: &ContextCycles) {
        if node as usize >= self.cycles.len() {
            self.cycles.resize(self.nodes.len(), Default::default());
        }
        let spent = &mut self.cycles[node as usize][self.column];
        spent.iter_mut().zip(cycles).for_each(|(sum, part)| *sum += part);
    }

    /// Counts a call of a node.
    #[inline(always)]
    pub(crate) fn called(&mut self, node: u32) {
        let column = self.column;
        self.amounts_mut(node)[column].calls += 1;
    }

    /// Returns the kernel's cost of one column by class, on all vCPUs; `None` if the classes are not known, or there was no room
    /// for some contexts.
    pub(crate) fn class_sums(&self, column: usize) -> Option<[u64; Class::COUNT]> {
        let cost = |node| {
            let of_vcpu = |vcpu| self.amounts(vcpu, node)[column].cost;
            (0..self.vcpus()).map(of_vcpu).fold(0, u64::wrapping_add)
        };
        if self.heads.is_empty() || cost(OVERFLOW as usize) != 0 {
            return None;
        }
        // Callers stand before the contexts that they call.
        let mut classes: Vec<Class> = Vec::with_capacity(self.nodes.len());
        classes.extend(BASES);
        classes.push(Class::Synchronous);
        let mut sums = [0; Class::COUNT];
        for (node, Node { parent, function, .. }) in self.nodes.iter().enumerate().skip(FIRST) {
            let above = classes[*parent as usize];
            let class = self.heads[*function as usize].below(above);
            if let Some(class) = class {
                let sum: &mut u64 = &mut sums[class as usize];
                *sum = sum.wrapping_add(cost(node));
            }
            classes.push(class.unwrap_or(above));
        }
        Some(sums)
    }

    /// Returns the class of a context, and whether a function that wakes the kernel's threads is in it; `None` if classes are not
    /// known.
    fn class(&self, node: u32) -> Option<(Class, bool)> {
        let (mut node, mut heads) = (node, Vec::new());
        while node as usize >= BASES.len() {
            heads.push(*self.heads.get(self.function(node) as usize)?);
            node = self.parent(node);
        }
        let below = |above: Class, head: &Head| head.below(above).unwrap_or(above);
        let base = *BASES.get(node as usize).filter(|_| !self.heads.is_empty())?;
        Some((heads.iter().rev().fold(base, below), heads.contains(&Head::Wakes)))
    }

    /// Returns the class of a switch that a context asks for; `None` if classes are not known.
    pub(crate) fn asked_by(&self, node: u32) -> Option<Class> {
        let (class, wakes) = self.class(node)?;
        Some(if wakes { Class::Deferred } else { class })
    }

    /// Whether a function, just entered in the context `node`, makes room for another task because that was asked for.
    pub(crate) fn yields(&self, node: u32) -> bool {
        self.has_head(node, Head::Yields) || self.has_head(self.parent(node), Head::Yields)
    }

    /// Whether the function of a context has an effect.
    pub(crate) fn has_head(&self, node: u32, head: Head) -> bool {
        self.heads.get(self.function(node) as usize) == Some(&head)
    }

    /// Returns the context of a function, just entered in the context `node`, below the base of a class; `node` itself if it has
    /// that class already or is the kernel's own work.
    pub(crate) fn moved(&mut self, node: u32, to: Class) -> u32 {
        let moves = |(class, _)| class != to && class != Class::Deferred;
        if !self.class(node).is_some_and(moves) {
            return node;
        }
        let base = BASES.iter().position(|class| *class == to).unwrap_or_default();
        let (column, to) = (self.column, self.child(base as u32, self.function(node)));
        let calls = &mut self.amounts_mut(node)[column].calls;
        let call = (*calls).min(1);
        *calls -= call;
        self.amounts_mut(to)[column].calls += call;
        to
    }

    /// Returns the base of an interrupt with this entry. An interrupt between CPUs belongs to the work that sent it.
    pub(crate) fn interrupt_base(&self, entry: u32) -> u32 {
        match self.heads.get(entry as usize) {
            Some(Head::Program) => ROOT,
            _ => INTERRUPTS,
        }
    }

    /// Returns the node above a node; a base is above itself.
    pub(crate) fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].parent
    }

    pub(crate) fn function(&self, node: u32) -> u32 {
        self.nodes[node as usize].function
    }

    /// Returns the child of a node for a function, if there is one.
    #[inline(always)]
    pub(crate) fn find(&mut self, parent: u32, function: u32) -> Option<u32> {
        let (near, mark) = place_and_mark(hash(parent, function), FOUND_BITS);
        let found = self.found[near];
        if found & !NODE_MASK == mark && self.is_child(found & NODE_MASK, parent, function) {
            return Some(found & NODE_MASK);
        }
        self.find_far(parent, function, near, mark)
    }

    /// Finds the same child in the index; `near` and `mark`: its future place and mark in `found`.
    #[inline(never)]
    fn find_far(&mut self, parent: u32, function: u32, near: usize, mark: u32) -> Option<u32> {
        let (place, _) = self.place(parent, function);
        let node = self.index[place] & NODE_MASK;
        if node == ROOT {
            return None;
        }
        self.found[near] = node | mark;
        Some(node)
    }

    #[inline(always)]
    fn is_child(&self, node: u32, parent: u32, function: u32) -> bool {
        let node = &self.nodes[node as usize];
        node.parent == parent && node.function == function
    }

    /// Returns the child of a node for a function, and makes it if there is none.
    #[inline(always)]
    pub(crate) fn child(&mut self, parent: u32, function: u32) -> u32 {
        if let Some(node) = self.find(parent, function) {
            return node;
        }
        self.make_child(parent, function)
    }

    #[cold]
    #[inline(never)]
    fn make_child(&mut self, parent: u32, function: u32) -> u32 {
        if parent == OVERFLOW || self.nodes.len() >= self.nodes_max {
            return OVERFLOW;
        }
        let node = self.nodes.len() as u32;
        self.nodes.push(Node::new(parent, function));
        for amounts in &mut self.further {
            amounts.push(Default::default());
        }
        let (place, mark) = self.place(parent, function);
        self.index[place] = node | mark;
        if self.nodes.len() * 2 > self.index.len() {
            self.index = vec![ROOT; self.index.len() * 2];
            for node in FIRST as u32..self.nodes.len() as u32 {
                let Node { parent, function, .. } = self.nodes[node as usize];
                let (place, mark) = self.place(parent, function);
                self.index[place] = node | mark;
            }
        }
        node
    }

    /// Returns the place of a node in the index, or the free place where it belongs, and the node's bits of the hash.
    fn place(&self, parent: u32, function: u32) -> (usize, u32) {
        let bits = self.index.len().trailing_zeros();
        let (mut place, mark) = place_and_mark(hash(parent, function), bits);
        loop {
            let known = self.index[place];
            let same = known & !NODE_MASK == mark;
            if known == ROOT || same && self.is_child(known & NODE_MASK, parent, function) {
                return (place, mark);
            }
            place = (place + 1) & (self.index.len() - 1);
        }
    }

    /// Sets every column but the first (outside of regions) to 0; the nodes stay.
    pub(crate) fn clear_regions(&mut self) {
        let first = self.nodes.iter_mut().map(|node| &mut node.amounts);
        for amounts in first.chain(self.further.iter_mut().flatten()) {
            amounts[1..].fill(Amount::default());
        }
        self.cycles.iter_mut().for_each(|spent| spent[1..].fill(Default::default()));
    }

    /// The calls of a node in all columns.
    pub(crate) fn calls(&self, node: u32) -> u64 {
        self.amounts(self.vcpu, node as usize).iter().map(|amount| amount.calls).sum()
    }

    /// The nodes above a node, the nearest first.
    pub(crate) fn above(&self, node: u32) -> impl Iterator<Item = u32> {
        let parent = |node: u32| Some(self.parent(node)).filter(|parent| *parent != node);
        std::iter::successors(parent(node), move |node| parent(*node))
    }

    /// Returns one column as a profile: the nodes with a cost or calls, and the nodes above them.
    ///
    /// `vcpu_frames`: for each vCPU the function that stands above all others; empty with one vCPU. `timed`: whether cycles are
    /// modelled, which needs one vCPU.
    pub(crate) fn profile(
        &self,
        column: usize,
        functions: &[Function],
        vcpu_frames: &[u32],
        timed: bool,
    ) -> Profile {
        let mut profile = Profile::default();
        let mut numbers = vec![None; functions.len()];
        for vcpu in 0..self.vcpus() {
            let mut number = |profile: &mut Profile, function: u32| {
                *numbers[function as usize].get_or_insert_with(|| {
                    profile.functions.push(functions[function as usize].clone());
                    profile.functions.len() as u32 - 1
                })
            };
            let frame = vcpu_frames.get(vcpu);
            self.add_contexts(&mut profile, vcpu, column, frame, timed, &mut number);
        }
        profile
    }

    /// Adds the contexts of one vCPU to a profile; `number`: the number of a function in the profile.
    fn add_contexts(
        &self,
        profile: &mut Profile,
        vcpu: usize,
        column: usize,
        frame: Option<&u32>,
        timed: bool,
        number: &mut dyn FnMut(&mut Profile, u32) -> u32,
    ) {
        let mut wanted = vec![false; self.nodes.len()];
        let bases = BASES.len();
        for node in (bases..self.nodes.len()).rev() {
            let Amount { cost, calls } = self.amounts(vcpu, node)[column];
            if cost > 0 || calls > 0 || self.spent(node, column) != ContextCycles::default() {
                wanted[node] = true;
            }
            if wanted[node] {
                wanted[self.nodes[node].parent as usize] = true;
            }
        }
        let mut numbers = vec![None; self.nodes.len()];
        if let (Some(frame), true) = (frame, wanted[..bases].contains(&true)) {
            numbers[..bases].fill(Some(profile.contexts.len() as u32));
            let function = number(profile, *frame);
            profile.contexts.push(Context { parent: None, function, calls: 0, cost: 0 });
        }
        for node in bases..self.nodes.len() {
            if !wanted[node] {
                continue;
            }
            let Node { parent, function, .. } = self.nodes[node];
            let function = number(profile, function);
            numbers[node] = Some(profile.contexts.len() as u32);
            let Amount { cost, calls } = self.amounts(vcpu, node)[column];
            let parent = numbers[parent as usize];
            profile.contexts.push(Context { parent, function, calls, cost });
            profile.cycles.extend(timed.then(|| self.spent(node, column)));
        }
    }

    /// Returns the modelled cycles of a node.
    fn spent(&self, node: usize, column: usize) -> ContextCycles {
        self.cycles.get(node).map_or(ContextCycles::default(), |spent| spent[column])
    }
}

/// Fibonacci hashing (Knuth, TAOCP volume 3, section 6.4): the upper bits are well mixed.
#[inline(always)]
fn hash(parent: u32, function: u32) -> u64 {
    (u64::from(parent) << 32 | u64::from(function)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the first bits of a hash as a place, and the bits below them, above [`NODE_BITS`], as a mark.
#[inline(always)]
fn place_and_mark(hash: u64, bits: u32) -> (usize, u32) {
    ((hash >> (64 - bits)) as usize, ((hash << bits) >> 32) as u32 & !NODE_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn functions(count: usize) -> Vec<Function> {
        let name = |number| Function::new(format!("f{number}"), "m");
        (0..count).map(name).collect()
    }

    fn add(tree: &mut Tree, node: u32, cost: u64) {
        // SAFETY: the tree lives, and nothing else uses the place meanwhile.
        unsafe { *tree.cost(node) += cost };
    }

    #[test]
    fn children_are_found_again() {
        let mut tree = Tree::new(0, 5000, 1, Vec::new());
        let nodes: Vec<u32> = (1..4000).map(|function| tree.child(ROOT, function)).collect();
        for (function, node) in (1..4000).zip(nodes) {
            assert_eq!(tree.child(ROOT, function), node);
            assert_eq!(tree.find(ROOT, function), Some(node));
            assert_eq!((tree.parent(node), tree.function(node)), (ROOT, function));
        }
        assert_eq!(tree.find(ROOT, 4000), None);
    }

    #[test]
    fn a_child_is_found_though_another_was_found_there_last() {
        let mut tree = Tree::new(0, 5000, 1, Vec::new());
        for _ in 0..2 {
            for (parent, function) in (0..2000).map(|turn| (turn % 7, turn % 11 + 1)) {
                let parent = if parent == 0 { ROOT } else { tree.child(ROOT, parent) };
                let node = tree.child(parent, function);
                assert_eq!((tree.parent(node), tree.function(node)), (parent, function));
                assert_eq!(tree.child(parent, function), node);
            }
        }
        assert!(tree.nodes.len() < FIRST + 11 + 7 * 11 + 1);
    }

    #[test]
    fn what_there_is_no_room_for_is_counted_elsewhere() {
        let mut tree = Tree::new(0, FIRST + 2, 1, Vec::new());
        let first = tree.child(ROOT, 1);
        let second = tree.child(first, 2);
        let third = tree.child(second, 3);
        assert_eq!(tree.child(third, 1), third);
        add(&mut tree, third, 7);
        let profile = tree.profile(0, &functions(4), &[], false);
        assert_eq!(profile.total(), 7);
        assert_eq!(profile.functions[profile.contexts[0].function as usize].symbol, "f0");
        assert_eq!(tree.child(first, 2), second, "old nodes stay reachable");
    }

    #[test]
    fn columns_are_apart_and_profiles_have_every_ancestor() {
        let mut tree = Tree::new(0, 100, 1, Vec::new());
        let main = tree.child(ROOT, 1);
        let leaf = tree.child(main, 2);
        add(&mut tree, main, 5);
        tree.choose(1);
        tree.called(leaf);
        add(&mut tree, leaf, 3);
        tree.shift(leaf, 1, 0, 1);
        let outside = tree.profile(0, &functions(3), &[], false);
        let work = tree.profile(1, &functions(3), &[], false);
        assert_eq!(outside.total(), 6);
        assert_eq!(
            work.contexts,
            [
                Context { parent: None, function: 0, calls: 0, cost: 0 },
                Context { parent: Some(0), function: 1, calls: 1, cost: 2 },
            ]
        );
        assert_eq!(work.functions, functions(3)[1..]);
        assert!(tree.profile(2, &functions(3), &[], false).contexts.is_empty());
        tree.clear_regions();
        assert_eq!(tree.profile(0, &functions(3), &[], false), outside);
        assert!(tree.profile(1, &functions(3), &[], false).contexts.is_empty());
        add(&mut tree, leaf, 4);
        assert_eq!(tree.profile(1, &functions(3), &[], false).total(), 4, "nodes stay");
    }

    #[test]
    fn cycles_stand_beside_the_contexts_they_were_spent_in() {
        let mut tree = Tree::new(0, 100, 1, Vec::new());
        let main = tree.child(ROOT, 1);
        tree.choose(1);
        tree.spend(main, &[1, 0, 0, 0, 4, 2]);
        // A node that was made later, and a node with cycles only.
        let leaf = tree.child(main, 2);
        tree.spend(leaf, &[0, 7, 0, 0, 0, 0]);
        tree.spend(main, &[1; 6]);
        let work = tree.profile(1, &functions(3), &[], true);
        assert_eq!(work.contexts.len(), 2);
        assert_eq!(work.cycles, [[2, 1, 1, 1, 5, 3], [0, 7, 0, 0, 0, 0]]);
        assert!(tree.profile(0, &functions(3), &[], true).contexts.is_empty());
        assert!(tree.profile(1, &functions(3), &[], false).cycles.is_empty());
        tree.clear_regions();
        assert!(tree.profile(1, &functions(3), &[], true).contexts.is_empty());
    }

    /// The effects of functions 0 to 5 on classes; function 0 stands for other contexts.
    const HEADS: [Head; 6] =
        [Head::User, Head::User, Head::Inherits, Head::Deferred, Head::Softirq, Head::Program];

    /// The class of a context, from its callers alone.
    fn class_of(tree: &Tree, node: u32) -> Class {
        let parent = tree.parent(node);
        if parent == node {
            return BASES[node as usize];
        }
        let above = class_of(tree, parent);
        HEADS[tree.function(node) as usize].below(above).unwrap_or(above)
    }

    proptest! {
        #[test]
        fn classes_add_up_to_the_kernels_cost(
            steps in prop::collection::vec((0usize..40, 1u32..6, 0u64..1000, 0usize..2), 0..60),
        ) {
            let mut tree = Tree::new(0, 5000, 2, HEADS.to_vec());
            tree.choose(1);
            let mut nodes = vec![ROOT, THREADS, INTERRUPTS];
            let (mut sums, mut kernel) = ([0; Class::COUNT], 0);
            for (parent, function, cost, vcpu) in steps {
                let node = tree.child(nodes[parent % nodes.len()], function);
                nodes.push(node);
                tree.choose_vcpu(vcpu);
                add(&mut tree, node, cost);
                if HEADS[function as usize] != Head::User {
                    sums[class_of(&tree, node) as usize] += cost;
                    kernel += cost;
                }
            }
            prop_assert_eq!(tree.class_sums(1), Some(sums));
            prop_assert_eq!(sums.iter().sum::<u64>(), kernel);
            prop_assert_eq!(tree.class_sums(2), Some([0; Class::COUNT]));
        }
    }

    #[test]
    fn classes_are_unknown_without_names_or_room() {
        let mut tree = Tree::new(0, 5000, 1, Vec::new());
        let node = tree.child(ROOT, 2);
        add(&mut tree, node, 7);
        assert_eq!(tree.class_sums(0), None);
        let mut tree = Tree::new(0, FIRST + 1, 1, HEADS.to_vec());
        let node = tree.child(ROOT, 2);
        add(&mut tree, node, 7);
        assert_eq!(tree.class_sums(0), Some([7, 0, 0]));
        let other = tree.child(THREADS, 2);
        add(&mut tree, other, 1);
        assert_eq!(tree.class_sums(0), None, "nobody knows whose context that is");
    }

    #[test]
    fn a_switch_stands_below_the_class_that_asked_for_it() {
        // Functions: 1 a program's, 2 __schedule, 3 kthread, 6 __cond_resched, 7 insert_work.
        let heads = [&HEADS[..], &[Head::Yields, Head::Wakes]].concat();
        let mut tree = Tree::new(0, 5000, 1, heads);
        let program = tree.child(ROOT, 1);
        let system_call = tree.child(program, 2);
        let resched = tree.child(system_call, 6);
        let own = tree.child(resched, 2);
        tree.called(own);
        assert_eq!(tree.moved(own, Class::Synchronous), own);
        let by_tick = tree.moved(own, Class::Tick);
        assert_eq!((tree.parent(by_tick), tree.function(by_tick)), (INTERRUPTS, 2));
        assert_eq!(tree.amounts(0, own as usize)[0].calls, 0);
        assert_eq!(tree.amounts(0, by_tick as usize)[0].calls, 1);
        assert_eq!(tree.moved(by_tick, Class::Tick), by_tick);
        let by_thread = tree.moved(own, Class::Deferred);
        assert_eq!(tree.parent(by_thread), THREADS);
        assert_eq!(tree.amounts(0, by_thread as usize)[0].calls, 0, "the call was moved before");
        let waits = tree.child(system_call, 2);
        assert!(tree.yields(own) && tree.yields(resched) && !tree.yields(waits));
        let thread = tree.child(THREADS, 3);
        let resched_thread = tree.child(thread, 6);
        let threads_own = tree.child(resched_thread, 2);
        assert_eq!(tree.moved(threads_own, Class::Tick), threads_own);
        let work = tree.child(system_call, 7);
        let classes = [system_call, thread, by_tick, work].map(|node| tree.asked_by(node));
        use Class::{Deferred, Synchronous, Tick};
        assert_eq!(classes, [Synchronous, Deferred, Tick, Deferred].map(Some));
        assert_eq!(Tree::new(0, 10, 1, Vec::new()).asked_by(ROOT), None);
    }

    #[test]
    fn interrupts_have_a_base_that_no_profile_shows() {
        let mut tree = Tree::new(0, 5000, 1, HEADS.to_vec());
        assert_eq!(tree.interrupt_base(2), INTERRUPTS);
        assert_eq!(tree.interrupt_base(5), ROOT, "between CPUs");
        let node = tree.child(INTERRUPTS, 2);
        add(&mut tree, node, 7);
        let contexts = tree.profile(0, &functions(6), &[], false).contexts;
        assert_eq!(contexts, [Context { parent: None, function: 0, calls: 0, cost: 7 }]);
    }
}
