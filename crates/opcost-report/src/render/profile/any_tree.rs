//! Any call tree, for tests of writers.

use opcost_analysis::comparison::call_tree::CallTree;
use opcost_analysis::comparison::call_tree::fixture::tree;
use proptest::prelude::*;

/// Any tree of two sides.
pub(crate) fn any_tree() -> impl Strategy<Value = CallTree> {
    let figures = || (0..50u64, 0..1_000_000u64);
    let node = (any::<Option<prop::sample::Index>>(), 0..6usize, figures(), figures());
    prop::collection::vec(node, 1..40).prop_map(|drawn| {
        let names = ["f0", "f1", "f2", "f3", "f4", "f5"];
        let mut places: Vec<(Option<usize>, usize)> = Vec::new();
        let mut figures: Vec<[(u64, u64); 2]> = Vec::new();
        for (parent, name, one, two) in drawn {
            let parent = parent.filter(|_| !places.is_empty()).map(|of| of.index(places.len()));
            // A function has one node below a parent.
            if !places.contains(&(parent, name)) {
                places.push((parent, name));
                figures.push([one, two]);
            }
        }
        let nodes: Vec<_> = (places.iter().zip(&figures))
            .map(|((parent, name), figures)| (*parent, names[*name], &figures[..]))
            .collect();
        tree(&["off", "on"], &nodes)
    })
}
