//! Samples as a tree of calls between places in code, before anybody knows the functions' names.

use hashbrown::hash_table::{Entry, HashTable};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

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
    /// Numbers of nodes by parent and place, which only the nodes themselves hold: a profile has
    /// millions.
    numbers: HashTable<u32>,
}

/// The hash of a node's parent and place.
fn hash(parent: Option<u32>, place: Place) -> u64 {
    FxBuildHasher.hash_one((parent, place))
}

impl Tree {
    /// The nodes, parents before children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of `place` under a parent, made if it is new.
    pub(crate) fn node(&mut self, parent: Option<u32>, place: Place) -> u32 {
        let nodes = &mut self.nodes;
        let is = |number: &u32| {
            let node = &nodes[*number as usize];
            node.parent == parent && node.place == place
        };
        let hash_of = |number: &u32| {
            let node = &nodes[*number as usize];
            hash(node.parent, node.place)
        };
        match self.numbers.entry(hash(parent, place), is, hash_of) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                // A node takes some 50 bytes: memory ends long before the numbers do.
                let number = u32::try_from(nodes.len()).expect("fewer nodes than 2^32");
                new.insert(number);
                nodes.push(Node { parent, place, samples: 0, cost: 0 });
                number
            }
        }
    }

    /// Adds one sample to a node.
    pub(crate) fn add(&mut self, node: u32, cost: u64) {
        let node = &mut self.nodes[node as usize];
        node.samples += 1;
        node.cost = node.cost.saturating_add(cost);
    }
}
