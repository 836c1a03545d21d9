//! Samples as a tree of calls between places in code, before anybody knows the functions' names.
//!
//! Most chains are a program's callers and below them what the kernel did, and few of either are met
//! in many pairs. So each half is a `Path` that is followed once, and a node is known by its callers'
//! two paths and its own place: a new one is looked up from the inside out, until a caller is there
//! already. Only callers have paths, as most places of samples call nothing.

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
    /// The place, an index into [`Tree::places`]: the sampled instruction, or the call that had not
    /// returned yet.
    pub place: u32,
    /// Samples taken here.
    pub samples: u64,
    /// What they stand for, in the event's unit.
    pub cost: u64,
}

/// Places one below the other, by number; [`NO_PATH`] has none.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// All but the last place.
    parent: u32,
    place: u32,
}

/// The number of the path without a place.
pub(crate) const NO_PATH: u32 = 0;

/// The tree.
#[derive(Clone, Debug)]
pub struct Tree {
    places: Vec<Place>,
    place_numbers: FxHashMap<Place, u32>,
    paths: Vec<Path>,
    /// Paths by parent and place.
    path_numbers: FxHashMap<u64, u32>,
    nodes: Vec<Node>,
    node_numbers: FxHashMap<Key, u32>,
}

/// A node by the outer and the inner path of its callers, and by its place; the outer one is
/// [`NO_PATH`] where one path is all.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Key {
    outer: u32,
    callers: u32,
    place: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Tree {
            places: Vec::new(),
            place_numbers: FxHashMap::default(),
            paths: vec![Path { parent: NO_PATH, place: 0 }],
            path_numbers: FxHashMap::default(),
            nodes: Vec::new(),
            node_numbers: FxHashMap::default(),
        }
    }
}

/// Two numbers as one key.
fn pair(outer: u32, inner: u32) -> u64 {
    u64::from(outer) << 32 | u64::from(inner)
}

/// The number of what is appended; memory ends long before the numbers do.
fn number(length: usize) -> u32 {
    u32::try_from(length).expect("fewer places and nodes than 2^32")
}

impl Tree {
    /// The nodes, parents before children.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Every place of a node, once.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The number of a place.
    pub(crate) fn place(&mut self, place: Place) -> u32 {
        let Tree { places, place_numbers, .. } = self;
        *place_numbers.entry(place).or_insert_with(|| {
            places.push(place);
            number(places.len() - 1)
        })
    }

    /// The path that goes on from another one to a place.
    pub(crate) fn path(&mut self, parent: u32, place: u32) -> u32 {
        let Tree { paths, path_numbers, .. } = self;
        *path_numbers.entry(pair(parent, place)).or_insert_with(|| {
            paths.push(Path { parent, place });
            number(paths.len() - 1)
        })
    }

    /// The node of a place below the end of `callers` below that of `outer`, made with all above it
    /// where it is new.
    ///
    /// `callers`: a path, or [`NO_PATH`] where `outer` is that, too.
    pub(crate) fn node(&mut self, outer: u32, callers: u32, place: u32) -> u32 {
        let first = Key { outer, callers, place };
        if let Some(known) = self.node_numbers.get(&first) {
            return *known;
        }
        let mut missing = vec![first];
        let (mut above, mut at) = (outer, callers);
        let mut parent = loop {
            if at == NO_PATH {
                (above, at) = (NO_PATH, above);
            }
            if at == NO_PATH {
                break None;
            }
            let Path { parent, place } = self.paths[at as usize];
            // The first place of the inner path has the outer path above it and nothing else.
            let (outer, callers) = match parent {
                NO_PATH => (NO_PATH, above),
                _ => (above, parent),
            };
            let key = Key { outer, callers, place };
            if let Some(known) = self.node_numbers.get(&key) {
                break Some(*known);
            }
            missing.push(key);
            at = parent;
        };
        let mut last = 0;
        for key in missing.into_iter().rev() {
            last = number(self.nodes.len());
            self.nodes.push(Node { parent, place: key.place, samples: 0, cost: 0 });
            self.node_numbers.insert(key, last);
            parent = Some(last);
        }
        last
    }

    /// The tree without what new nodes would need.
    pub(crate) fn finished(self) -> Tree {
        let Tree { places, nodes, .. } = self;
        Tree { places, nodes, ..Tree::default() }
    }

    /// Adds one sample to a node.
    pub(crate) fn add(&mut self, node: u32, cost: u64) {
        let node = &mut self.nodes[node as usize];
        node.samples += 1;
        node.cost = node.cost.saturating_add(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_again_by_its_two_paths() {
        let mut tree = Tree::default();
        let numbers = [1, 2, 3, 4].map(|offset| tree.place(Place { file: 0, offset }));
        assert_eq!(tree.place(Place { file: 0, offset: 2 }), numbers[1]);
        let [first, second, third, fourth] = numbers;
        let main = tree.path(NO_PATH, first);
        let read = tree.path(main, second);
        let entry = tree.path(NO_PATH, third);
        assert_eq!(tree.path(main, second), read);
        let leaf = tree.node(read, entry, fourth);
        let offsets = |tree: &Tree| -> Vec<u64> {
            tree.nodes().iter().map(|node| tree.places()[node.place as usize].offset).collect()
        };
        assert_eq!(offsets(&tree), [1, 2, 3, 4]);
        assert_eq!(tree.node(read, entry, fourth), leaf);
        // What was met as a caller is the same node when it is sampled itself.
        assert_eq!(tree.node(NO_PATH, read, third), leaf - 1);
        assert_eq!(tree.node(NO_PATH, main, second), leaf - 2);
        assert_eq!(tree.node(NO_PATH, NO_PATH, first), leaf - 3);
        // The same callers below another one are another node.
        let other = tree.node(main, entry, fourth);
        assert_eq!(offsets(&tree), [1, 2, 3, 4, 3, 4]);
        let parents: Vec<_> = tree.nodes().iter().map(|node| node.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), Some(2), Some(0), Some(4)]);
        tree.add(other, 5);
        assert_eq!((tree.nodes()[5].samples, tree.nodes()[5].cost), (1, 5));
    }
}
