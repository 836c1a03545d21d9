//! Guests with several CPUs: counts equal to the last digit, and refusals.

use crate::lab::{Ended, Lab};
use crate::needs;
use serde_json::Value;
use std::process::Command;

fn compare(lab: &Lab, kernel: &str, more: &[&str]) -> Ended {
    let given =
        ["compare", "--machine", "emulated", "--kernel", kernel, "--seed", "1", "--cpus", "2"];
    lab.run(&[&given[..], more].concat())
}

/// The first number of the emulator's version.
pub(crate) fn emulator_version() -> Option<u32> {
    let told = Command::new("qemu-system-x86_64").arg("--version").output().ok()?.stdout;
    let told = String::from_utf8_lossy(&told).into_owned();
    told.split_once("version ")?.1.split('.').next()?.parse().ok()
}

#[test]
fn two_busy_cpus_give_the_same_digits_or_the_emulator_is_refused() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let version = emulator_version().expect("guests boot here");
    let work = [
        "--variant",
        "one=workload:mmap:ops=300,procs=2,pin=on",
        "--variant",
        "two=workload:mmap:ops=300,threads=2,pin=on",
        "--pairs",
        "1",
    ];
    let ended = compare(&lab, &kernel, &[&work[..], &["--json"]].concat());
    if version < 10 {
        let error = ended.expect(5).stderr;
        assert!(error.contains("guests with several CPUs need 10.0 or later"), "{error}");
        return crate::skip::skip!("QEMU {version} has no guests with several CPUs");
    }
    let ended = ended.expect(0);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    let of = |name: &str, side: &str| {
        let rows = shown["opcost"]["metrics"].as_array().unwrap();
        let row = rows.iter().find(|row| row["metric"] == name && row["domain"] == "all");
        row.unwrap_or_else(|| panic!("no {name}"))[side].as_f64().unwrap()
    };
    for side in ["value_baseline", "value"] {
        let both = of("instructions-cpu0", side) + of("instructions-cpu1", side);
        let all = of("instructions", side);
        assert!((both - all).abs() < 1e-6 * all, "{both} of {all}");
        assert!(of("instructions-cpu0", side).min(of("instructions-cpu1", side)) > 0.3 * all);
    }
    // The warm-up runs were the same work from the same seed.
    let ledger = shown["opcost"]["ledger"].as_array().unwrap();
    let rule = ledger.iter().find(|row| row["rule"] == "repeatable").expect("rule");
    assert_eq!(rule["severity"], "fine", "{rule:#}");
    let functions = shown["opcost"]["functions"].as_array().unwrap();
    let waits = functions.iter().any(|row| row["symbol"] == "rwsem_down_write_slowpath");
    assert!(waits, "threads wait for the lock of their map: {functions:#?}");

    let alone = compare(&lab, &kernel, &[&work[..], &["--boot", "maxcpus=1"]].concat());
    let said = alone.expect(4).stderr;
    assert!(said.contains("the kernel started 1 of the machine's 2 CPUs"), "{said}");
}
