//! Variants whose figures have nothing in common stand beside each other: no verdict, no ratio, the functions of each.

use crate::made::emulated::{Tree, count, kernel, plan, recording};
use opcost_analysis::comparison::{Comparison, Verdict, compare};
use opcost_model::guest_settings::GuestSettings;
use opcost_model::plan::{GuestPlan, Slot, VariantPlan};
use opcost_model::recording::{KernelState, MachineState, Recording, State};
use opcost_record::Architecture;
use opcost_report::render::{Style, View, render};
use serde_json::Value;

/// Variants of these architectures, the first of which costs 1,000 instructions and each other ten more.
fn made(architectures: &[Architecture]) -> Recording {
    let mut plan = plan(&["off", "on"], 6);
    let of = |(place, architecture): (usize, &Architecture)| {
        let settings = GuestSettings { architecture: *architecture, ..GuestSettings::default() };
        let guest = Some(GuestPlan { settings, ..GuestPlan::default() });
        VariantPlan { name: format!("v{place}"), guest, ..plan.variants[0].clone() }
    };
    plan.variants = architectures.iter().enumerate().map(of).collect();
    for block in &mut plan.blocks {
        block.order = (0..architectures.len() as u16).collect();
    }
    recording(plan, 0, |slot: &Slot| {
        let mut tree = Tree::default();
        let entry = format!("entry_of_v{}", slot.variant);
        tree.kernel(None, &entry, 1, 1_000 + 10 * u64::from(slot.variant));
        (tree.grown(), vec![count("loads", 7)])
    })
}

#[test]
fn two_architectures_that_repeat_are_counted_a_few_times() {
    let mut recording = made(&[Architecture::X86_64, Architecture::Aarch64]);
    recording.state = State::StoppedSettled;
    let (comparison, _) = compare(&recording);
    let why = "stopped after 6 pairs: the counts repeat, and no variants are compared";
    assert_eq!(comparison.stopped.as_deref(), Some(why));
}

/// Kernels of two architectures may have one name, and a change of either is seen.
#[test]
fn a_change_of_one_of_two_kernels_of_one_name_is_seen() {
    let of = |variant: usize, digest: &str| KernelState {
        release: format!("6.1-{variant}"),
        digest: digest.into(),
        ..kernel(variant, "debian:cloud", &[])
    };
    let state = |second: &str| MachineState {
        kernels: vec![of(0, "aa"), of(1, second)],
        ..MachineState::default()
    };
    let same = state("bb");
    assert!(same.differences(&state("bb"), true).is_empty());
    let changes = ["the kernel debian:cloud (6.1-1) was changed"];
    assert_eq!(same.differences(&state("cc"), true), changes);
}

fn verdicts(comparison: &Comparison, index: usize) -> Vec<Verdict> {
    comparison.rows.iter().map(|row| row.changes[index].verdict).collect()
}

#[test]
fn two_architectures_stand_beside_each_other() {
    let recording = made(&[Architecture::X86_64, Architecture::Aarch64]);
    let (comparison, _) = compare(&recording);
    assert!(!comparison.refused());
    assert_eq!(comparison.comparisons, [(0, 1)]);
    assert_eq!(verdicts(&comparison, 0), vec![Verdict::NotComparable; comparison.rows.len()]);
    assert!(comparison.rows.iter().all(|row| row.changes[0].change_ratio.is_none()));
    let costs = comparison
        .function_costs
        .iter()
        .map(|costs| (costs.variant, (1_000.0 * costs.total).round()));
    assert_eq!(costs.collect::<Vec<_>>(), [(0, 1_000.0), (1, 1_010.0)]);
    assert!(comparison.functions.is_empty());
    let conclusion = "v1 against v0: instructions not comparable: other architecture";
    assert_eq!(comparison.conclusions, [conclusion]);
    assert!(!comparison.regressed());
    assert_eq!(comparison.apart(0), Some("other architecture"));
    let style = Style::plain();
    let view =
        View { recording: &recording, comparison: &comparison, warnings: &[], style: &style };
    let text = render("text", &view).unwrap();
    let note = "other architecture: the figures stand beside each other and are not compared";
    assert!(text.contains(note) && !text.contains("verdict") && !text.contains("change"), "{text}");
    for function in
        ["v0: where the 1 instructions", "entry_of_v0", "v1: where the 1.01", "entry_of_v1"]
    {
        assert!(text.contains(function), "{function}: {text}");
    }
    let json: Value = serde_json::from_str(&render("json", &view).unwrap()).unwrap();
    let beside = json["opcost"]["function_costs_beside"].as_array().unwrap();
    let named: Vec<_> = beside.iter().map(|one| one["variant"].as_str().unwrap()).collect();
    assert_eq!(named, ["v0", "v1"]);
}

#[test]
fn each_architecture_has_its_own_baseline() {
    let [x86, arm] = [Architecture::X86_64, Architecture::Aarch64];
    let recording = made(&[x86, arm, x86, arm]);
    let (comparison, _) = compare(&recording);
    assert_eq!(comparison.comparisons, [(0, 1), (0, 2), (1, 3)]);
    let of_instructions = |index: usize| comparison.rows[0].changes[index].verdict;
    let expected = [Verdict::NotComparable, Verdict::Changed, Verdict::Changed];
    assert_eq!([0, 1, 2].map(of_instructions), expected);
    assert!(comparison.function_costs.is_empty());
    let sides: Vec<_> =
        comparison.functions.iter().map(|one| (one.baseline, one.variant)).collect();
    assert_eq!(sides, [(0, 2), (1, 3)]);
}
