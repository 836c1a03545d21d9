//! The Firefox Profiler's processed format: one thread a variant, a sample for each context, whose
//! weight is its instructions. Its times only put the samples in order.

use crate::comparison::call_tree::CallTree;
use anyhow::{Context, Result};
use fxprof_processed_profile as processed;
use opcost_record::profile::KERNEL;
use processed::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameHandle, FrameInfo, SamplingInterval,
    StackHandle, Timestamp,
};

/// The document.
pub(super) fn render(tree: &CallTree) -> Result<Vec<u8>> {
    // What comes out depends on nothing but the tree, so the date does not either.
    let epoch = std::time::UNIX_EPOCH.into();
    let product = format!("opcost {}", tree.sides[0].recording);
    let mut profile = processed::Profile::new(&product, epoch, SamplingInterval::from_millis(1));
    profile.set_symbolicated(true);
    let kernel = profile.add_category("kernel", CategoryColor::Orange);
    let program = profile.add_category("program", CategoryColor::Green);
    let start = Timestamp::from_millis_since_reference(0.0);
    let names = tree.names();
    let strings: Vec<_> = names.iter().map(|name| profile.intern_string(name)).collect();
    for (side, tree_side) in tree.sides.iter().enumerate() {
        let number = side as u32 + 1;
        // A main thread has the name of its process.
        let name = format!("{} ({})", tree_side.name, tree.metric);
        let process = profile.add_process(&name, number, start);
        let thread = profile.add_thread(process, number, start, true);
        profile.add_initial_visible_thread(thread);
        if side == 0 {
            profile.add_initial_selected_thread(thread);
        }
        let frames: Vec<FrameHandle> = tree
            .functions
            .iter()
            .zip(&strings)
            .map(|(function, name)| {
                let category = if function.module == KERNEL { kernel } else { program };
                let frame = FrameInfo {
                    frame: Frame::Label(*name),
                    category_pair: category.into(),
                    flags: FrameFlags::empty(),
                };
                profile.intern_frame(thread, frame)
            })
            .collect();
        let mut stacks: Vec<Option<StackHandle>> = vec![None; tree.nodes.len()];
        let mut made: u64 = 0;
        // In the order of the tree, so that what was called from one place stands together.
        for at in tree.depth_first() {
            let node = &tree.nodes[at];
            let parent = node.parent.and_then(|parent| stacks[parent]);
            let stack = profile.intern_stack(thread, parent, frames[node.function]);
            stacks[at] = Some(stack);
            for weight in weights(node.own[side]) {
                let time = Timestamp::from_nanos_since_reference(made * 1_000_000);
                profile.add_sample(thread, time, Some(stack), CpuDelta::ZERO, weight);
                made += 1;
            }
        }
        let end = Timestamp::from_nanos_since_reference(made * 1_000_000);
        profile.set_thread_end_time(thread, end);
        profile.set_process_end_time(process, end);
    }
    serde_json::to_vec(&profile).context("the Firefox Profiler's JSON")
}

/// A cost as weights that the format's writer can hold.
fn weights(cost: u64) -> impl Iterator<Item = i32> {
    let most = i32::MAX as u64;
    let whole = std::iter::repeat_n(i32::MAX, (cost / most) as usize);
    whole.chain(Some((cost % most) as i32).filter(|rest| *rest > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::call_tree::tests::{any_tree, tree};
    use proptest::prelude::*;
    use serde_json::Value;

    /// The stacks of a thread with their weights, read from its tables.
    fn samples(thread: &Value) -> Vec<(Vec<String>, u64)> {
        let strings = &thread["stringArray"];
        let number = |value: &Value| value.as_u64().map(|number| number as usize);
        let samples = &thread["samples"];
        let stacks = samples["stack"].as_array().unwrap();
        let name = |stack: usize| {
            let frame = number(&thread["stackTable"]["frame"][stack]).unwrap();
            let function = number(&thread["frameTable"]["func"][frame]).unwrap();
            strings[number(&thread["funcTable"]["name"][function]).unwrap()].as_str().unwrap()
        };
        let read = |(at, stack): (usize, &Value)| {
            let prefix = |stack: &usize| number(&thread["stackTable"]["prefix"][*stack]);
            let mut names: Vec<String> = std::iter::successors(number(stack), prefix)
                .map(|stack| name(stack).to_string())
                .collect();
            names.reverse();
            (names, samples["weight"][at].as_u64().unwrap())
        };
        stacks.iter().enumerate().map(read).collect()
    }

    fn threads(tree: &CallTree) -> Vec<Value> {
        let document: Value = serde_json::from_slice(&render(tree).unwrap()).unwrap();
        assert_eq!(document["meta"]["symbolicated"], true);
        document["threads"].as_array().unwrap().clone()
    }

    #[test]
    fn a_thread_has_the_stacks_of_its_variant() {
        let made = tree(
            &["off", "on"],
            &[
                (None, "main@/bin/work", &[(1, 10), (1, 10)]),
                (Some(0), "read", &[(1, 0), (1, 5_000_000_000)]),
            ],
        );
        let [off, on] = &threads(&made)[..] else { panic!("not two threads") };
        let stack = |names: &[&str], weight| {
            (names.iter().map(|name| name.to_string()).collect::<Vec<_>>(), weight)
        };
        assert_eq!(samples(off), [stack(&["main"], 10)]);
        let read = ["main", "read"];
        let most = i32::MAX as u64;
        let parts =
            [stack(&read, most), stack(&read, most), stack(&read, 5_000_000_000 - 2 * most)];
        assert_eq!(samples(on), [&[stack(&["main"], 10)][..], &parts].concat());
        assert_eq!(on["name"], "on (instructions)");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn weights_add_up(tree in any_tree()) {
            for (side, thread) in threads(&tree).iter().enumerate() {
                let sum: u64 = samples(thread).iter().map(|(_, weight)| weight).sum();
                prop_assert_eq!(sum, tree.sides[side].total);
            }
        }
    }
}
