//! The calling context tree: a node for each chain of calls that was seen.

use opcost_record::{Context, Function, Profile};

/// The node above all others; it never has a cost.
pub(crate) const ROOT: u32 = 0;
/// Takes the cost of contexts that there is no room for.
const OVERFLOW: u32 = 1;
/// Nodes at most: 8 bytes each, 24 more in the index (12 a place, at least half of them free), and
/// 16 more for each column that touches them.
pub(crate) const NODES_MAX: usize = 1 << 20;

/// What a region cost at one node.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    cost: u64,
    calls: u64,
}

/// Columns of amounts: outside of regions, then each region.
pub(crate) const COLUMNS: usize = 3;

/// The tree.
pub(crate) struct Tree {
    /// Parent and function of each node.
    nodes: Vec<(u32, u32)>,
    /// Open addressing: parent, function, node + 1; a length that is a power of two.
    index: Vec<(u32, u32, u32)>,
    columns: [Vec<Amount>; COLUMNS],
    column: usize,
    nodes_max: usize,
}

impl Tree {
    /// A tree of at most `nodes_max` nodes.
    ///
    /// `other_contexts`: the function that stands for contexts without a node.
    pub(crate) fn new(other_contexts: u32, nodes_max: usize) -> Tree {
        // Zeroed memory that is not touched takes no room.
        let columns = std::array::from_fn(|_| vec![Amount::default(); nodes_max]);
        Tree {
            nodes: vec![(ROOT, u32::MAX), (ROOT, other_contexts)],
            index: vec![(0, 0, 0); 1024],
            columns,
            column: 0,
            nodes_max,
        }
    }

    /// Chooses the column that costs go to.
    pub(crate) fn choose(&mut self, column: usize) {
        self.column = column;
    }

    /// Where the cost of a node is added up in the chosen column; the place never moves.
    pub(crate) fn cost(&mut self, node: u32) -> *mut u64 {
        &raw mut self.columns[self.column][node as usize].cost
    }

    /// Moves cost of a node from one column to another.
    pub(crate) fn shift(&mut self, node: u32, from: usize, to: usize, cost: u64) {
        for (column, amount) in [(from, cost.wrapping_neg()), (to, cost)] {
            let sum = &mut self.columns[column][node as usize].cost;
            *sum = sum.wrapping_add(amount);
        }
    }

    /// Counts a call of a node.
    pub(crate) fn called(&mut self, node: u32) {
        self.columns[self.column][node as usize].calls += 1;
    }

    /// The node above one; the root is above itself.
    pub(crate) fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].0
    }

    /// The function of a node.
    pub(crate) fn function(&self, node: u32) -> u32 {
        self.nodes[node as usize].1
    }

    /// The child of a node that stands for a function, if there is one.
    pub(crate) fn find(&self, parent: u32, function: u32) -> Option<u32> {
        let (_, _, node) = self.index[self.place(parent, function)];
        node.checked_sub(1)
    }

    /// The child of a node that stands for a function, made where there is none.
    pub(crate) fn child(&mut self, parent: u32, function: u32) -> u32 {
        let place = self.place(parent, function);
        if let Some(node) = self.index[place].2.checked_sub(1) {
            return node;
        }
        if parent == OVERFLOW || self.nodes.len() >= self.nodes_max {
            return OVERFLOW;
        }
        let node = self.nodes.len() as u32;
        self.nodes.push((parent, function));
        self.index[place] = (parent, function, node + 1);
        if self.nodes.len() * 2 > self.index.len() {
            self.index = vec![(0, 0, 0); self.index.len() * 2];
            for node in 2..self.nodes.len() as u32 {
                let (parent, function) = self.nodes[node as usize];
                let place = self.place(parent, function);
                self.index[place] = (parent, function, node + 1);
            }
        }
        node
    }

    fn place(&self, parent: u32, function: u32) -> usize {
        let key = u64::from(parent) << 32 | u64::from(function);
        // Fibonacci hashing (Knuth, TAOCP volume 3, section 6.4): the upper bits are well mixed.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mask = self.index.len() - 1;
        let mut place = (hash >> 32) as usize & mask;
        loop {
            let (known_parent, known_function, node) = self.index[place];
            if node == 0 || known_parent == parent && known_function == function {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// Sets what every column but that for what lies outside of regions has to 0; the nodes stay.
    pub(crate) fn clear_regions(&mut self) {
        let used = self.nodes.len();
        for column in &mut self.columns[1..] {
            column[..used].fill(Amount::default());
        }
    }

    /// One column as a profile: the nodes with a cost or calls, and those above them.
    pub(crate) fn profile(&self, column: usize, functions: &[Function]) -> Profile {
        let amounts = &self.columns[column];
        let mut wanted = vec![false; self.nodes.len()];
        for node in (1..self.nodes.len()).rev() {
            let Amount { cost, calls } = amounts[node];
            if cost > 0 || calls > 0 {
                wanted[node] = true;
            }
            if wanted[node] {
                wanted[self.nodes[node].0 as usize] = true;
            }
        }
        let mut profile = Profile::default();
        let mut numbers = vec![None; self.nodes.len()];
        let mut function_numbers = vec![None; functions.len()];
        for node in 1..self.nodes.len() {
            if !wanted[node] {
                continue;
            }
            let (parent, function) = self.nodes[node];
            let function = *function_numbers[function as usize].get_or_insert_with(|| {
                profile.functions.push(functions[function as usize].clone());
                profile.functions.len() as u32 - 1
            });
            numbers[node] = Some(profile.contexts.len() as u32);
            let Amount { cost, calls } = amounts[node];
            let parent = numbers[parent as usize];
            profile.contexts.push(Context { parent, function, calls, cost });
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut tree = Tree::new(0, 5000);
        let nodes: Vec<u32> = (1..4000).map(|function| tree.child(ROOT, function)).collect();
        for (function, node) in (1..4000).zip(nodes) {
            assert_eq!(tree.child(ROOT, function), node);
            assert_eq!(tree.find(ROOT, function), Some(node));
            assert_eq!((tree.parent(node), tree.function(node)), (ROOT, function));
        }
        assert_eq!(tree.find(ROOT, 4000), None);
    }

    #[test]
    fn what_there_is_no_room_for_is_counted_elsewhere() {
        let mut tree = Tree::new(0, 4);
        let first = tree.child(ROOT, 1);
        let second = tree.child(first, 2);
        let third = tree.child(second, 3);
        assert_eq!(tree.child(third, 1), third);
        add(&mut tree, third, 7);
        let profile = tree.profile(0, &functions(4));
        assert_eq!(profile.total(), 7);
        assert_eq!(profile.functions[profile.contexts[0].function as usize].symbol, "f0");
        assert_eq!(tree.child(first, 2), second, "old nodes stay reachable");
    }

    #[test]
    fn columns_are_apart_and_profiles_have_every_ancestor() {
        let mut tree = Tree::new(0, 100);
        let main = tree.child(ROOT, 1);
        let leaf = tree.child(main, 2);
        add(&mut tree, main, 5);
        tree.choose(1);
        tree.called(leaf);
        add(&mut tree, leaf, 3);
        tree.shift(leaf, 1, 0, 1);
        let outside = tree.profile(0, &functions(3));
        let work = tree.profile(1, &functions(3));
        assert_eq!(outside.total(), 6);
        assert_eq!(
            work.contexts,
            [
                Context { parent: None, function: 0, calls: 0, cost: 0 },
                Context { parent: Some(0), function: 1, calls: 1, cost: 2 },
            ]
        );
        assert_eq!(work.functions, functions(3)[1..]);
        assert!(tree.profile(2, &functions(3)).contexts.is_empty());
        tree.clear_regions();
        assert_eq!(tree.profile(0, &functions(3)), outside);
        assert!(tree.profile(1, &functions(3)).contexts.is_empty());
        add(&mut tree, leaf, 4);
        assert_eq!(tree.profile(1, &functions(3)).total(), 4, "nodes stay");
    }
}
