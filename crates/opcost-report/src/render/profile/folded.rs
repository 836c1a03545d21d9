//! Folded stacks: `root;caller;function 1200`, as flame graph tools read them
//! (<https://github.com/brendangregg/FlameGraph>, stackcollapse.pl). With two variants, each stack
//! has both counts, the baseline's first, as its difffolded.pl writes them.

use opcost_analysis::comparison::call_tree::CallTree;
use opcost_record::printable::{Output, safe};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The stacks, sorted.
pub(super) fn render(tree: &CallTree) -> String {
    let names: Vec<String> = tree.names().iter().map(|name| frame(name)).collect();
    let mut stacks: Vec<String> = Vec::with_capacity(tree.nodes.len());
    let mut lines: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for node in &tree.nodes {
        let name = &names[node.function];
        let stack = match node.parent {
            Some(parent) => format!("{};{name}", stacks[parent]),
            None => name.clone(),
        };
        if node.own.iter().any(|own| *own > 0) {
            let sums = lines.entry(stack.clone()).or_insert_with(|| vec![0; tree.sides.len()]);
            for (sum, own) in sums.iter_mut().zip(&node.own) {
                *sum += own;
            }
        }
        stacks.push(stack);
    }
    let mut text = String::new();
    for (stack, own) in lines {
        let own: Vec<String> = own.iter().map(u64::to_string).collect();
        let _ = writeln!(text, "{stack} {}", own.join(" "));
    }
    text
}

/// A name without the characters that separate frames and lines: Rust writes `[u8; 4]`.
fn frame(name: &str) -> String {
    safe(name, Output::FoldedFrame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::profile::any_tree::any_tree;
    use opcost_analysis::comparison::call_tree::fixture::tree;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_a_stack_with_its_own_cost() {
        let made = tree(
            &["one"],
            &[
                (None, "main@/bin/work", &[(1, 10)]),
                (Some(0), "read", &[(5, 0)]),
                (Some(1), "fill<[u8; 4]>", &[(5, 7)]),
                (None, "[unattributed]@", &[(0, 2)]),
            ],
        );
        assert_eq!(render(&made), "[unattributed] 2\nmain 10\nmain;read;fill<[u8: 4]> 7\n");
        let made = tree(
            &["off", "on"],
            &[(None, "main", &[(1, 10), (1, 11)]), (Some(0), "new", &[(0, 0), (1, 3)])],
        );
        assert_eq!(render(&made), "main 10 11\nmain;new 0 3\n");
    }

    proptest! {
        #[test]
        fn the_lines_add_up(tree in any_tree()) {
            let text = render(&tree);
            for side in 0..2 {
                let figure = |line: &str| -> u64 {
                    line.rsplit(' ').nth(1 - side).unwrap().parse().unwrap()
                };
                prop_assert_eq!(text.lines().map(figure).sum::<u64>(), tree.sides[side].total);
            }
        }
    }
}
