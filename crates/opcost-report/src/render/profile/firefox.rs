//! The Firefox Profiler's processed format: one thread for each variant, one sample for each context, weighted by its cost.
//!
//! The viewer knows three units of weights. Time is written in milliseconds, memory in bytes. Other counts are
//! written as samples, and the thread's name says what was counted. The time line is the cost in the
//! order of the tree, a nanosecond for each unit: a part of the time line is that part of the cost.

use anyhow::{Context, Result};
use fxprof_processed_profile as processed;
use opcost_analysis::comparison::call_tree::CallTree;
use opcost_record::{Unit, profile::KERNEL};
use processed::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameHandle, FrameInfo, SamplingInterval,
    StackHandle, Timestamp, WeightType,
};
use serde_json::{Value, json};

const NS_PER_MS: f64 = 1e6;

pub(super) fn render(tree: &CallTree) -> Result<Vec<u8>> {
    // The output depends on the tree alone, so the date is constant.
    let epoch = std::time::UNIX_EPOCH.into();
    let product = format!("opcost {}", tree.sides[0].recording);
    let mut profile = processed::Profile::new(&product, epoch, SamplingInterval::from_millis(1));
    profile.set_symbolicated(true);
    let kernel = profile.add_category("kernel", CategoryColor::Orange);
    let program = profile.add_category("program", CategoryColor::Green);
    let start = Timestamp::from_nanos_since_reference(0);
    let is_time = tree.counted.unit == Unit::Ns;
    let names = tree.names();
    let mut longest = 0;
    let mut samples: u64 = 0;
    let strings: Vec<_> = names.iter().map(|name| profile.intern_string(name)).collect();
    for (side, tree_side) in tree.sides.iter().enumerate() {
        let number = side as u32 + 1;
        // A main thread has the name of its process.
        let counted = match tree.counted.unit {
            Unit::Ns | Unit::Bytes => &tree.counted.event,
            Unit::Ticks | Unit::Count => &tree.counted.words,
        };
        let name = format!("{} ({counted})", tree_side.name);
        let process = profile.add_process(&name, number, start);
        let thread = profile.add_thread(process, number, start, true);
        match tree.counted.unit {
            Unit::Ns => profile.set_thread_samples_weight_type(thread, WeightType::TracingMs),
            Unit::Bytes => profile.set_thread_samples_weight_type(thread, WeightType::Bytes),
            Unit::Ticks | Unit::Count => {}
        }
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
        let mut spent: u64 = 0;
        let mut last: u64 = 0;
        // In the order of the tree, so that everything called from one place stands together.
        for at in tree.depth_first() {
            let node = &tree.nodes[at];
            let parent = node.parent.and_then(|parent| stacks[parent]);
            let stack = profile.intern_stack(thread, parent, frames[node.function]);
            stacks[at] = Some(stack);
            for weight in weights(node.own[side]) {
                let weight_ns = u64::from(weight.unsigned_abs());
                // A sample stands for the cost around it, so it lies in the middle of its cost.
                let middle = spent.saturating_add(weight_ns / 2);
                let time = Timestamp::from_nanos_since_reference(middle);
                // No part of a profile is idle.
                let busy = CpuDelta::from_nanos(middle - last);
                profile.add_sample(thread, time, Some(stack), busy, weight);
                (spent, last) = (spent.saturating_add(weight_ns), middle);
                samples += 1;
            }
        }
        let end = Timestamp::from_nanos_since_reference(spent);
        profile.set_thread_end_time(thread, end);
        profile.set_process_end_time(process, end);
        longest = longest.max(spent);
    }
    // The viewer adds one interval behind the last sample.
    let apart = longest.saturating_mul(tree.sides.len() as u64) / samples.max(1);
    profile.set_interval(SamplingInterval::from_nanos(apart.clamp(1, 1_000_000)));
    let mut document = serde_json::to_value(&profile).context("the Firefox Profiler's JSON")?;
    if is_time {
        in_milliseconds(&mut document);
    }
    Ok(opcost_base::json::line(&document, "the profile")?.into_bytes())
}

/// Converts weights from nanoseconds to milliseconds: the format's writer takes whole numbers only.
fn in_milliseconds(document: &mut Value) {
    let threads = document["threads"].as_array_mut().into_iter().flatten();
    for weights in threads.filter_map(|thread| thread["samples"]["weight"].as_array_mut()) {
        for weight in weights {
            *weight = json!(weight.as_f64().unwrap_or(0.0) / NS_PER_MS);
        }
    }
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
    use crate::render::profile::any_tree::any_tree;
    use opcost_analysis::comparison::call_tree::Counted;
    use opcost_analysis::comparison::call_tree::fixture::tree;
    use proptest::prelude::*;

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
        assert_eq!(on["samples"]["weightType"], "samples");
    }

    #[test]
    fn time_is_in_milliseconds_and_the_time_line_is_as_long_as_the_cost() {
        let mut made = tree(
            &["one"],
            &[(None, "main@/bin/work", &[(1, 1_500_000)]), (Some(0), "read", &[(1, 500_000)])],
        );
        made.counted = Counted::sampled("task-clock", Unit::Ns, None, None);
        let [thread] = &threads(&made)[..] else { panic!("not one thread") };
        assert_eq!(thread["samples"]["weightType"], "tracing-ms");
        assert_eq!(thread["samples"]["weight"], json!([1.5, 0.5]));
        assert_eq!(thread["samples"]["timeDeltas"], json!([0.75, 1.0]));
        assert_eq!(thread["samples"]["threadCPUDelta"], json!([750, 1000]));
        assert_eq!(thread["unregisterTime"], 2.0);
        let document: Value = serde_json::from_slice(&render(&made).unwrap()).unwrap();
        assert_eq!(document["meta"]["interval"], 1.0);
        assert_eq!(thread["name"], "one (task-clock)");
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
