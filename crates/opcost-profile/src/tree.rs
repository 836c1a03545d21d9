//! Samples as a tree of calls between places in code, before anybody knows the functions' names.

use rustc_hash::FxHashMap;

/// A byte of code: where in which file, whatever address it was mapped at.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// Index into [`Recorded::files`](crate::session::Recorded::files).
    pub file: u32,
    /// Offset in the file, bytes; of the kernel and of code without a file, the address.
    pub offset: u64,
}

/// A place, reached through its callers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Node {
    /// The caller's node, always an earlier one.
    pub parent: Option<u32>,
    /// The place: the sampled instruction, or the call that had not returned yet.
    pub place: Place,
    /// Samples taken here.
    pub samples: u64,
    /// What they stand for, in the event's unit.
    pub cost: u64,
}

/// The tree; each chain of places is in it once.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Vec<Node>,
    numbers: FxHashMap<(u32, Place), u32>,
}

/// Stands for no parent in the key of a node; a tree never grows so large.
const NONE: u32 = u32::MAX;

impl Tree {
    /// The nodes, parents before children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of `place` under a parent, made if it is new.
    pub(crate) fn node(&mut self, parent: Option<u32>, place: Place) -> u32 {
        let nodes = &mut self.nodes;
        *self.numbers.entry((parent.unwrap_or(NONE), place)).or_insert_with(|| {
            // A node takes some 60 bytes: memory ends long before the numbers do.
            let number = u32::try_from(nodes.len()).expect("fewer nodes than 2^32");
            nodes.push(Node { parent, place, samples: 0, cost: 0 });
            number
        })
    }

    /// Adds one sample to a node.
    pub(crate) fn add(&mut self, node: u32, cost: u64) {
        let node = &mut self.nodes[node as usize];
        node.samples += 1;
        node.cost = node.cost.saturating_add(cost);
    }
}
