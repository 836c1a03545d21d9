//! Samples as a tree of calls between places in code, before anybody knows the functions' names.
//!
//! Most chains are a program's callers and below them what the kernel did, and few of either are met
//! in many pairs. So each half is a `Path` that is followed once, and a node is known by its two
//! paths: a new pair is looked up from the inside out, until a caller is there already.

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
    /// Paths by parent, file and offset.
    path_numbers: FxHashMap<(u32, u32, u64), u32>,
    nodes: Vec<Node>,
    /// Nodes by their outer and inner path; the outer one is [`NO_PATH`] where one path is all.
    node_numbers: FxHashMap<u64, u32>,
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

    /// The path that goes on from another one to `place`.
    pub(crate) fn path(&mut self, parent: u32, place: Place) -> u32 {
        let Tree { places, place_numbers, paths, path_numbers, .. } = self;
        *path_numbers.entry((parent, place.file, place.offset)).or_insert_with(|| {
            let place = *place_numbers.entry(place).or_insert_with(|| {
                places.push(place);
                number(places.len() - 1)
            });
            paths.push(Path { parent, place });
            number(paths.len() - 1)
        })
    }

    /// The node at the end of `inner` below that at the end of `outer`, made with all above it where
    /// it is new.
    ///
    /// `inner`: a path with a place; `outer`: one, or [`NO_PATH`].
    pub(crate) fn node(&mut self, outer: u32, inner: u32) -> u32 {
        let mut missing = Vec::new();
        let (mut above, mut at) = (outer, inner);
        let mut parent = loop {
            if at == NO_PATH {
                (above, at) = (NO_PATH, above);
            }
            if at == NO_PATH {
                break None;
            }
            if let Some(known) = self.node_numbers.get(&pair(above, at)) {
                break Some(*known);
            }
            missing.push((above, at));
            at = self.paths[at as usize].parent;
        };
        for (above, at) in missing.into_iter().rev() {
            let node = number(self.nodes.len());
            let place = self.paths[at as usize].place;
            self.nodes.push(Node { parent, place, samples: 0, cost: 0 });
            self.node_numbers.insert(pair(above, at), node);
            parent = Some(node);
        }
        parent.expect("the inner path has a place")
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
        let place = |offset| Place { file: 0, offset };
        let main = tree.path(NO_PATH, place(1));
        let read = tree.path(main, place(2));
        let entry = tree.path(NO_PATH, place(3));
        let copy = tree.path(entry, place(4));
        assert_eq!(tree.path(entry, place(4)), copy);
        let leaf = tree.node(read, copy);
        let offsets = |tree: &Tree| -> Vec<u64> {
            tree.nodes().iter().map(|node| tree.places()[node.place as usize].offset).collect()
        };
        assert_eq!(offsets(&tree), [1, 2, 3, 4]);
        assert_eq!(tree.node(read, copy), leaf);
        assert_eq!(tree.node(read, entry), leaf - 1);
        assert_eq!(tree.node(NO_PATH, read), leaf - 2);
        // The same inner path below another caller is another node.
        let other = tree.node(main, copy);
        assert_eq!(offsets(&tree), [1, 2, 3, 4, 3, 4]);
        let parents: Vec<_> = tree.nodes().iter().map(|node| node.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), Some(2), Some(0), Some(4)]);
        tree.add(other, 5);
        assert_eq!((tree.nodes()[5].samples, tree.nodes()[5].cost), (1, 5));
    }
}
