//! speedscope's own format (<https://www.speedscope.app/file-format-schema.json>): one sampled profile
//! for each variant. Time is in nanoseconds, memory in bytes. The format has no unit for other counts, so the profile's
//! name says what was counted.

use super::of_runs;
use anyhow::Result;
use opcost_analysis::comparison::call_tree::CallTree;
use opcost_record::Unit;
use serde_json::{Value, json};

pub(super) fn render(tree: &CallTree) -> Result<Vec<u8>> {
    let frames = tree.names().into_iter().zip(&tree.functions);
    let frames: Vec<Value> = frames
        .map(|(name, function)| match function.module.as_str() {
            "" => json!({"name": name}),
            file => json!({"name": name, "file": file}),
        })
        .collect();
    let profiles: Vec<Value> = (0..tree.sides.len()).map(|side| profile(tree, side)).collect();
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": format!("opcost {}", tree.sides[0].recording),
        "exporter": concat!("opcost ", env!("CARGO_PKG_VERSION")),
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    });
    Ok(opcost_base::json::line(&document, "the profile")?.into_bytes())
}

fn profile(tree: &CallTree, side: usize) -> Value {
    // In the order of the tree, so that everything called from one place stands together.
    let costly = tree.depth_first().into_iter().filter(|node| tree.nodes[*node].own[side] > 0);
    let (samples, weights): (Vec<Vec<usize>>, Vec<u64>) =
        costly.map(|node| (tree.stack(node), tree.nodes[node].own[side])).unzip();
    let of = &tree.sides[side];
    json!({
        "type": "sampled",
        "name": format!("{}: {}{}", of.name, tree.counted.words, of_runs(of.runs)),
        "unit": match tree.counted.unit {
            Unit::Ns => "nanoseconds",
            Unit::Bytes => "bytes",
            Unit::Ticks | Unit::Count => "none",
        },
        "startValue": 0,
        "endValue": of.total,
        "samples": samples,
        "weights": weights,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::profile::any_tree::any_tree;
    use opcost_analysis::comparison::call_tree::Counted;
    use opcost_analysis::comparison::call_tree::fixture::tree;
    use proptest::prelude::*;

    #[test]
    fn a_sample_is_a_stack_from_its_root() {
        let made = tree(
            &["off", "on"],
            &[(None, "main@/bin/work", &[(1, 10), (1, 10)]), (Some(0), "read", &[(1, 0), (1, 7)])],
        );
        let document: Value = serde_json::from_slice(&render(&made).unwrap()).unwrap();
        let frames =
            json!([{"name": "main", "file": "/bin/work"}, {"name": "read", "file": "[kernel]"}]);
        assert_eq!(document["shared"]["frames"], frames);
        assert_eq!(document["profiles"][0]["samples"], json!([[0]]));
        assert_eq!(document["profiles"][1]["samples"], json!([[0], [0, 1]]));
        assert_eq!(document["profiles"][1]["weights"], json!([10, 7]));
        assert_eq!(document["profiles"][1]["endValue"], 17);
        assert_eq!(document["profiles"][1]["name"], "on: instructions of 10 runs");
        assert_eq!(document["profiles"][1]["unit"], "none");
        let counted = Counted::sampled("cpu-clock", Unit::Ns, None, None);
        let document: Value =
            serde_json::from_slice(&render(&CallTree { counted, ..made }).unwrap()).unwrap();
        assert_eq!(document["profiles"][1]["name"], "on: cpu-clock (ns) of 10 runs");
        assert_eq!(document["profiles"][1]["unit"], "nanoseconds");
    }

    proptest! {
        #[test]
        fn weights_add_up_and_frames_exist(tree in any_tree()) {
            let document: Value = serde_json::from_slice(&render(&tree).unwrap()).unwrap();
            let frames = document["shared"]["frames"].as_array().unwrap().len() as u64;
            for (side, profile) in document["profiles"].as_array().unwrap().iter().enumerate() {
                let list = |name: &str| profile[name].as_array().unwrap();
                prop_assert_eq!(list("samples").len(), list("weights").len());
                let sum: u64 = list("weights").iter().map(|weight| weight.as_u64().unwrap()).sum();
                prop_assert_eq!(sum, tree.sides[side].total);
                let stacks = list("samples").iter().flat_map(|stack| stack.as_array().unwrap());
                prop_assert!(stacks.into_iter().all(|frame| frame.as_u64().unwrap() < frames));
            }
        }
    }
}
