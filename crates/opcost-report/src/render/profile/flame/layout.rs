//! Where the frames of a flame graph are, in the integers of the profile.

use opcost_analysis::comparison::call_tree::CallTree;

/// One frame: a function in its context, as wide as it costs with everything it calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Frame {
    /// Index into the tree's nodes; `None` for the frame of everything.
    pub(super) node: Option<usize>,
    /// The level of the frame; the frame of everything has level 0.
    pub(super) depth: usize,
    /// Where the frame begins.
    pub(super) start: u64,
    /// The cost with everything called.
    pub(super) width: u64,
}

/// The frames of one side that have a cost; callees stand in the order of their names, from the start of their caller.
pub(super) fn frames(tree: &CallTree, side: usize) -> Vec<Frame> {
    let children = tree.children();
    let mut waiting = vec![Frame { node: None, depth: 0, start: 0, width: tree.sides[side].total }];
    let mut frames = Vec::new();
    while let Some(frame) = waiting.pop() {
        frames.push(frame);
        let mut start = frame.start;
        for node in &children[frame.node.unwrap_or(tree.nodes.len())] {
            let width = tree.nodes[*node].inclusive[side];
            if width > 0 {
                waiting.push(Frame { node: Some(*node), depth: frame.depth + 1, start, width });
            }
            start += width;
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::profile::any_tree::any_tree;
    use proptest::prelude::*;

    proptest! {
        /// Frames lie within their callers, beside each other. The part of a frame that no callee
        /// covers is its own cost; all own costs add up to the whole.
        #[test]
        fn frames_add_up(tree in any_tree(), side in 0..2usize) {
            let frames = frames(&tree, side);
            prop_assert_eq!(frames[0].width, tree.sides[side].total);
            let mut own = 0;
            for frame in &frames {
                let below: Vec<&Frame> = frames
                    .iter()
                    .filter(|other| other.node.is_some_and(|node| tree.nodes[node].parent == frame.node))
                    .collect();
                let mut taken: Vec<(u64, u64)> =
                    below.iter().map(|below| (below.start, below.start + below.width)).collect();
                taken.sort_unstable();
                prop_assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
                for (start, end) in &taken {
                    prop_assert!(*start >= frame.start && *end <= frame.start + frame.width);
                }
                prop_assert!(below.iter().all(|below| below.depth == frame.depth + 1));
                let rest = frame.width - below.iter().map(|below| below.width).sum::<u64>();
                let expected = frame.node.map_or(0, |node| tree.nodes[node].own[side]);
                prop_assert_eq!(rest, expected);
                own += rest;
            }
            prop_assert_eq!(own, tree.sides[side].total);
        }
    }
}
