//! Guests of 64-bit ARM from the command line: one that boots for each run, and one that goes on from its kept state.

use crate::lab::Lab;
use crate::needs;
use serde_json::Value;

/// Measures null system calls twice, after a warm-up run that repeats the first, and returns opcost's part of the JSON.
fn measured(lab: &Lab, kernel: &str, ops: u64, more: &[&str]) -> Value {
    let work = format!("syscall:ops={ops}");
    let guest = ["measure", "--machine", "emulated", "--architecture", "arm64", "--kernel", kernel];
    let asked = ["--workload", &work, "--seed", "1", "-n", "2", "--json"];
    let ended = lab.run(&[&guest[..], &asked, more].concat()).expect(0);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    shown["opcost"].clone()
}

/// The instructions of all runs' mean operation, by a row of the metrics.
fn mean(shown: &Value, metric: &str, domain: &str) -> f64 {
    let figures = shown["figures"].as_array().unwrap().iter();
    let mut rows = figures.filter(|row| row["metric"] == metric && row["domain"] == domain);
    rows.next().expect(metric)["mean"].as_f64().unwrap()
}

/// Checks the null calls of a measurement, and returns the instructions of the called function for each.
fn check(shown: &Value, ops: u64) -> f64 {
    let rules = shown["ledger"].as_array().unwrap();
    let repeats = rules.iter().find(|row| row["rule"] == "repeatable").unwrap();
    assert_eq!(repeats["severity"], "fine", "{repeats:#}");
    assert_eq!(mean(shown, "system-calls", "all"), 1.0);
    // The parts sum to the whole.
    let costs = &shown["function_costs"];
    let functions = costs["functions"].as_array().unwrap();
    let value = |row: &Value| row["value"].as_f64().unwrap();
    let sum: f64 = functions.iter().map(value).sum();
    assert_eq!(costs["unattributed"].as_f64(), Some(0.0), "{costs:#}");
    let whole = mean(shown, "instructions", "all");
    assert!((sum - whole).abs() * (ops as f64) < 0.5, "{sum} of {whole}");
    let called = functions.iter().find(|row| row["symbol"] == "__arm64_sys_getppid").unwrap();
    assert_eq!(called["calls"].as_f64(), Some(1.0), "{called:#}");
    value(called)
}

#[test]
fn a_guest_that_boots_for_each_run_repeats_and_says_which_code_its_kernel_took() {
    let Some(kernel) = needs::kernel_arm64() else { return };
    let lab = Lab::new();
    let shown = measured(&lab, &kernel, 500, &["--fresh-boots"]);
    check(&shown, 500);
    let guest = &shown["machine"]["guests"][0];
    let words = |name: &str| guest[name].to_string();
    assert!(words("cpu_flags").contains("atomics"), "{guest:#}");
    // Every kernel has code for CPUs with these instructions, and for CPUs without.
    assert!(words("detected").contains("LSE atomic instructions"), "{guest:#}");
    let [all, patched] =
        ["all", "patched"].map(|name| guest["alternatives"][name].as_u64().unwrap());
    assert!(0 < patched && patched < all, "{guest:#}");
}

#[test]
fn a_guest_that_goes_on_from_its_kept_state_counts_each_call_alike() {
    let Some(kernel) = needs::kernel_arm64() else { return };
    let lab = Lab::new();
    // The warm-up run boots by itself and has the same counts, or the command would fail.
    let [few, many] = [500, 1500].map(|ops| check(&measured(&lab, &kernel, ops, &[]), ops));
    assert_eq!(few, many);
    assert!(few.fract() == 0.0 && few > 0.0, "{few}");
}
