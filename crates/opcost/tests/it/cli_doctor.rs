//! `opcost doctor --cpus`, briefly.

use crate::lab::{Lab, Started, first_cpu};
use crate::needs;

#[test]
fn every_cpu_that_may_be_used_is_listened_to() {
    let lab = Lab::new();
    let map = lab.json(&["doctor", "--cpus", "--seconds", "0.02", "--json"]);
    let cpus = map["cpus"].as_array().unwrap();
    assert!(!cpus.is_empty());
    for cpu in cpus {
        assert!(cpu["refused"].is_null(), "{cpu}");
        assert!(cpu["listened_ns"].as_u64().unwrap() >= 20_000_000, "{cpu}");
        assert!(cpu["turn_ns"].as_u64().unwrap() > 0, "{cpu}");
        assert!(cpu["lost_ns"].as_u64() <= cpu["listened_ns"].as_u64(), "{cpu}");
    }
    let quietest = &map["quietest"];
    assert!(cpus.iter().any(|cpu| cpu["cpu"] == *quietest), "{map}");
    assert!(!lab.store().exists());
}

#[test]
fn one_cpu_is_enough() {
    if !needs::programs(&["taskset"]) {
        return;
    }
    let lab = Lab::new();
    let line = format!("taskset -c {} $OPCOST doctor --cpus --seconds 0.02", first_cpu());
    let ended = lab.shell(&line).spawn().unwrap().end().expect(0);
    let advice = format!("→ CPU {} is the only one", first_cpu());
    assert!(ended.stdout.contains(&advice), "{}", ended.stdout);
    let widths: Vec<usize> = ended.stdout.lines().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width <= 100), "{}", ended.stdout);
}

#[test]
fn a_time_without_the_map_is_a_mistake() {
    let lab = Lab::new();
    lab.run(&["doctor", "--seconds", "1"]).expect(2).says(&["--cpus"]);
    lab.run(&["doctor", "--cpus", "--seconds", "x"]).expect(2).says(&["give seconds"]);
}
