//! The tree of calls between places in code, made from samples before functions have names.
//!
//! Most chains are a program's callers and below them the kernel's, and few chains of either side are
//! met, in many pairs. The tree follows each half once, as a `Path`, and finds a node by its callers'
//! two paths and its own place. A new node is looked up from the inside out, until a caller is known.
//! Only callers have paths, since most sampled places call nothing.

use opcost_symbols::keyed::KeyedMap;

/// A byte of code: its place in a file, whatever address the file was mapped at.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CodePlace {
    /// Index into [`Recorded::files`](crate::session::Recorded::files).
    pub file: u32,
    /// Offset in the file, bytes; for the kernel and code without a file, the address.
    pub offset: u64,
}

/// A place, reached through its callers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Node {
    /// The caller's node, always an earlier one.
    pub parent: Option<u32>,
    /// The place, an index into [`Tree::places`]: the sampled instruction, or a call that had not
    /// returned.
    pub place: u32,
    /// Samples taken at this node.
    pub samples: u64,
    /// The samples' cost, in the event's unit.
    pub cost: u64,
}

/// A chain of places by number; [`NO_PATH`] has none.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// The path without its last place.
    parent: u32,
    place: u32,
}

/// The number of the empty path.
pub(crate) const NO_PATH: u32 = 0;

/// The calls of a recording.
#[derive(Clone, Debug)]
pub struct Tree {
    places: Vec<CodePlace>,
    place_numbers: KeyedMap<CodePlace, u32>,
    paths: Vec<Path>,
    /// Paths by parent and place.
    path_numbers: KeyedMap<u64, u32>,
    nodes: Vec<Node>,
    node_numbers: KeyedMap<Key, u32>,
    /// Samples that no node has yet, each with its cost.
    waiting: Vec<(Key, u64)>,
    /// A buffer for the waiting samples' nodes.
    found: Vec<Option<u32>>,
}

/// The most samples that wait.
const WAITING_MAX: usize = 1 << 10;

/// The key of a node: the outer and the inner path of its callers, and its place. If one path holds
/// all callers, the outer one is [`NO_PATH`].
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
            place_numbers: KeyedMap::default(),
            paths: vec![Path { parent: NO_PATH, place: 0 }],
            path_numbers: KeyedMap::default(),
            nodes: Vec::new(),
            node_numbers: KeyedMap::default(),
            waiting: Vec::new(),
            found: Vec::new(),
        }
    }
}

/// Packs two numbers into a key.
fn pair(outer: u32, inner: u32) -> u64 {
    u64::from(outer) << 32 | u64::from(inner)
}

/// Returns the number of the next entry; memory ends long before the numbers do.
fn number(length: usize) -> u32 {
    u32::try_from(length).expect("fewer places and nodes than 2^32")
}

impl Tree {
    /// The nodes, parents before children; samples that wait are not in them.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the places of all nodes, each once.
    pub fn places(&self) -> &[CodePlace] {
        &self.places
    }

    /// Returns the number of a place.
    pub(crate) fn place(&mut self, place: CodePlace) -> u32 {
        let Tree { places, place_numbers, .. } = self;
        *place_numbers.entry(place).or_insert_with(|| {
            places.push(place);
            number(places.len() - 1)
        })
    }

    /// Returns the path that extends `parent` by a place.
    pub(crate) fn path(&mut self, parent: u32, place: u32) -> u32 {
        let Tree { paths, path_numbers, .. } = self;
        *path_numbers.entry(pair(parent, place)).or_insert_with(|| {
            paths.push(Path { parent, place });
            number(paths.len() - 1)
        })
    }

    /// Adds a sample at a place whose callers are the path `outer` and inside of it the path `callers`.
    ///
    /// `callers`: a path; [`NO_PATH`] only if `outer` is [`NO_PATH`] too. The sample waits for others: the memory of nodes is far
    /// away, and the processor fetches many of them at once if nothing stands between.
    pub(crate) fn add(&mut self, outer: u32, callers: u32, place: u32, cost: u64) {
        self.waiting.push((Key { outer, callers, place }, cost));
        if self.waiting.len() >= WAITING_MAX {
            self.settle();
        }
    }

    /// Adds the samples that wait to their nodes.
    pub(crate) fn settle(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        let mut found = std::mem::take(&mut self.found);
        found.extend(waiting.iter().map(|(key, _)| self.node_numbers.get(key).copied()));
        for ((key, cost), node) in waiting.iter().zip(found.drain(..)) {
            let node = node.unwrap_or_else(|| self.node(*key));
            let node = &mut self.nodes[node as usize];
            node.samples += 1;
            node.cost = node.cost.saturating_add(*cost);
        }
        (self.waiting, self.found) = (waiting, found);
        self.waiting.clear();
    }

    /// Returns a node; makes it and its missing callers.
    fn node(&mut self, first: Key) -> u32 {
        if let Some(known) = self.node_numbers.get(&first) {
            return *known;
        }
        let Key { outer, callers, .. } = first;
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
            // The first place of the inner path has only the outer path above it.
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

    /// Drops the maps that only new nodes would need.
    pub(crate) fn finished(mut self) -> Tree {
        self.settle();
        let Tree { places, nodes, .. } = self;
        Tree { places, nodes, ..Tree::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_found_again_by_its_two_paths() {
        let mut tree = Tree::default();
        let numbers = [1, 2, 3, 4].map(|offset| tree.place(CodePlace { file: 0, offset }));
        assert_eq!(tree.place(CodePlace { file: 0, offset: 2 }), numbers[1]);
        let [first, second, third, fourth] = numbers;
        let main = tree.path(NO_PATH, first);
        let read = tree.path(main, second);
        let entry = tree.path(NO_PATH, third);
        assert_eq!(tree.path(main, second), read);
        let mut node = |outer, callers, place| tree.node(Key { outer, callers, place });
        let leaf = node(read, entry, fourth);
        assert_eq!(node(read, entry, fourth), leaf);
        // A place met as a caller has the same node when it is sampled itself.
        assert_eq!(node(NO_PATH, read, third), leaf - 1);
        assert_eq!(node(NO_PATH, main, second), leaf - 2);
        assert_eq!(node(NO_PATH, NO_PATH, first), leaf - 3);
        let offsets = |tree: &Tree| -> Vec<u64> {
            tree.nodes().iter().map(|node| tree.places()[node.place as usize].offset).collect()
        };
        assert_eq!(offsets(&tree), [1, 2, 3, 4]);
        // The same callers below another caller are another node.
        tree.add(main, entry, fourth, 5);
        tree.add(main, entry, fourth, 2);
        assert_eq!(offsets(&tree), [1, 2, 3, 4], "they wait");
        tree.settle();
        assert_eq!(offsets(&tree), [1, 2, 3, 4, 3, 4]);
        let parents: Vec<_> = tree.nodes().iter().map(|node| node.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1), Some(2), Some(0), Some(4)]);
        assert_eq!((tree.nodes()[5].samples, tree.nodes()[5].cost), (2, 7));
        (0..WAITING_MAX).for_each(|_| tree.add(main, entry, fourth, 1));
        assert_eq!(tree.nodes()[5].samples, 2 + WAITING_MAX as u64);
    }
}
