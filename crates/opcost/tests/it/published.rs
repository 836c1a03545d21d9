//! The figures of five published investigations, imported and judged by the ordinary commands.

use crate::lab::{Lab, root};
use serde_json::Value;
use std::path::PathBuf;

fn folder() -> PathBuf {
    root().join("experiments/published")
}

/// Imports a published table.
fn import(name: &str) -> Value {
    let path = folder().join(name).display().to_string();
    Lab::new().json(&["import", "--json", &path])
}

fn metric<'a>(json: &'a Value, name: &str, variant: &str) -> &'a Value {
    let metrics = json["opcost"]["metrics"].as_array().unwrap();
    let wanted = |metric: &&Value| metric["metric"] == name && metric["variant"] == variant;
    metrics.iter().find(wanted).unwrap_or_else(|| panic!("no {name} of {variant}"))
}

/// The change of a metric in percent with two decimals, and the verdict.
fn change(json: &Value, name: &str, variant: &str) -> (String, String) {
    let metric = metric(json, name, variant);
    let percent = 100.0 * metric["change_ratio"].as_f64().unwrap();
    (format!("{percent:+.2}"), metric["verdict"].as_str().unwrap().to_string())
}

fn welch(json: &Value, label: &str) -> f64 {
    let rows = json["opcost"]["imported"]["welch"].as_array().unwrap();
    rows.iter().find(|row| row["label"] == label).unwrap()["t"].as_f64().unwrap()
}

/// "metric of variant: outcome" of each claim.
fn claims(json: &Value) -> Vec<String> {
    let claims = json["opcost"]["imported"]["claims"].as_array().unwrap();
    let word = |claim: &Value, name: &str| claim[name].as_str().unwrap().to_string();
    claims
        .iter()
        .map(|claim| {
            let (metric, variant) = (word(claim, "metric"), word(claim, "variant"));
            format!("{metric} of {variant}: {}", word(claim, "outcome"))
        })
        .collect()
}

fn pair(change: &str, verdict: &str) -> (String, String) {
    (change.to_string(), verdict.to_string())
}

#[test]
fn i0_lat_mmap_is_slower() {
    let json = import("i0-lat-mmap.toml");
    assert_eq!(change(&json, "wall", "paravirt"), pair("+8.33", "changed"));
    assert!((welch(&json, "wall") - 41.90).abs() < 0.01);
    assert_eq!(claims(&json), ["wall of paravirt: holds"]);
}

#[test]
fn i0_kernel_builds_cost_system_time_and_no_elapsed_time_that_could_be_shown() {
    let json = import("i0-kernel-build.toml");
    assert_eq!(change(&json, "wall", "paravirt"), pair("+0.43", "unchanged"));
    assert_eq!(change(&json, "user-time", "paravirt"), pair("+0.22", "changed"));
    assert_eq!(change(&json, "system-time", "paravirt"), pair("+4.06", "changed"));
    for (label, z) in [("wall", 0.92), ("user-time", 12.85), ("system-time", 32.02)] {
        assert!((welch(&json, label) - z).abs() < 0.01, "{label}: {}", welch(&json, label));
    }
    let mde = metric(&json, "wall", "paravirt")["mde_ratio"].as_f64().unwrap();
    assert!((mde - 0.0168).abs() < 1e-4, "{mde}");
    assert_eq!(claims(&json)[0], "wall of paravirt: not_shown");
}

#[test]
fn i0_third_column_was_not_recomputed_and_cannot_be() {
    let json = import("i0-mmap-perf.toml");
    let expected = [
        ("task-clock", "+3.74", "+5.14"),
        ("cycles", "+3.63", "+3.33"),
        ("instructions", "+10.43", "+10.45"),
        ("cache-references", "+2.13", "+0.77"),
        ("cache-misses", "+2.86", "+2.72"),
        ("branches", "+9.36", "+9.38"),
        ("branch-misses", "-0.46", "-0.33"),
        ("wall", "+3.72", "+3.26"),
    ];
    for (name, paravirt, fix) in expected {
        assert_eq!(change(&json, name, "paravirt"), pair(paravirt, "inconclusive"), "{name}");
        assert_eq!(change(&json, name, "first fix"), pair(fix, "inconclusive"), "{name}");
        let claims = claims(&json);
        assert!(claims.contains(&format!("{name} of paravirt: cannot_tell")), "{claims:?}");
        assert!(claims.contains(&format!("{name} of first fix: does_not_follow")), "{claims:?}");
    }
    let ledger = json["opcost"]["ledger"].to_string();
    assert!(
        ledger.contains("'first fix' has 1.379 s of task-clock in 1.358 s of wall"),
        "{ledger}"
    );
}

#[test]
fn i1_rows_of_few_runs_cannot_tell() {
    let three = import("i1-immediate-32.csv");
    let row = metric(&three, "system-time", "immediates");
    assert_eq!(
        (&row["verdict"], &row["reason"]),
        (&"inconclusive".into(), &"needs 5 runs each".into())
    );
    assert!((welch(&three, "system-time") + 1.76).abs() < 0.01);
    let one = import("i1-immediate-128.csv");
    assert_eq!(change(&one, "system-time", "immediates"), pair("-1.19", "inconclusive"));
    assert_eq!(metric(&one, "system-time", "immediates")["reason"], "one figure a side");
    let many = import("i1-immediate-4096.csv");
    assert_eq!(change(&many, "system-time", "loads"), pair("+146.02", "inconclusive"));
    assert_eq!(change(&many, "system-time", "immediates"), pair("+81.67", "inconclusive"));
}

#[test]
fn i2_cycles_follow_from_elapsed_time_and_the_claimed_base_is_not_the_sampled_one() {
    let json = import("i2-getpid.toml");
    assert_eq!(change(&json, "wall", "external memmove"), pair("+20.54", "inconclusive"));
    assert_eq!(claims(&json).iter().filter(|claim| claim.ends_with(": holds")).count(), 4);
    let json = import("i2-getppid.toml");
    let row = metric(&json, "calls", "claimed before");
    assert_eq!(row["reason"], "needs 5 runs each");
    assert_eq!(change(&json, "calls", "claimed before"), pair("+4.15", "inconclusive"));
    assert_eq!(change(&json, "calls", "claimed after"), pair("+51.73", "inconclusive"));
}

#[test]
fn i3_ratio_rows_follow_from_the_counts_and_no_row_shows_a_change() {
    let json = import("i3-pv-spinlocks.toml");
    let claims = claims(&json);
    let (ratios, counts): (Vec<&String>, Vec<&String>) =
        claims.iter().partition(|claim| claim.contains("rate") || claim.contains("CPI"));
    assert_eq!((ratios.len(), counts.len()), (9, 14));
    assert!(ratios.iter().all(|claim| claim.ends_with(": holds")), "{ratios:?}");
    assert!(counts.iter().all(|claim| claim.ends_with(": cannot_tell")), "{counts:?}");
    assert_eq!(change(&json, "relative CPI", "paravirt spinlocks"), pair("+2.03", "inconclusive"));
    let row = metric(&json, "relative cycles", "paravirt spinlocks");
    assert_eq!(row["reason"], "no spread given");
}

#[test]
fn i4_cpu_time_per_megabyte_follows_from_rate_and_share() {
    let json = import("i4-bonnie.toml");
    let expected = ["block write CPU per MB of old: holds", "block write CPU per MB of new: holds"];
    assert_eq!(claims(&json), expected);
    assert_eq!(change(&json, "block write", "new"), pair("-22.50", "inconclusive"));
    let json = import("i4-make.toml");
    assert_eq!(change(&json, "system-time", "new"), pair("+80.21", "inconclusive"));
}

#[test]
fn one_column_alone_is_shown_without_a_verdict() {
    let path = folder().join("i0-make.toml").display().to_string();
    let text = Lab::new().output(&["import", &path]);
    assert!(text.contains("1,121,901,478,363     1  native"), "{text}");
    assert!(!text.contains('→'), "{text}");
}
