//! `opcost doctor --cpus`, briefly.

use crate::lab::{Lab, Started, first_cpu};
use crate::needs;
use opcost_record::gauge::GaugeReport;

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

#[test]
fn emulators_are_tried_before_they_are_praised() {
    if !needs::programs(&["qemu-system-x86_64"]) {
        return;
    }
    let lab = Lab::new();
    let machine = |findings: &serde_json::Value| {
        let all = findings.as_array().unwrap();
        all.iter().find(|one| one["subject"] == "emulated machine").unwrap().clone()
    };
    let found = machine(&lab.json(&["doctor", "--json"]));
    assert_eq!(found["health"], "good", "{found}");
    assert!(found["what"].as_str().unwrap().starts_with("its self-test counted exactly: "));
    // An emulator that has a version and takes no plugin.
    let script = "case $1 in --version) echo 'QEMU emulator version 10.0.2' ;; *) echo 'qemu: \
                  -plugin: invalid option' >&2; exit 1 ;; esac";
    lab.script("qemu-system-x86_64", script);
    let line = format!("PATH={}:$PATH $OPCOST doctor --json", lab.dir().display());
    let ended = lab.shell(&line).spawn().unwrap().end().expect(0);
    let found = machine(&serde_json::from_str(&ended.stdout).unwrap());
    assert_eq!(found["health"], "missing", "{found}");
    assert!(found["what"].as_str().unwrap().ends_with("(10.0.2) was built without plugins"));
    assert!(found["remedy"].as_str().unwrap().contains("--enable-plugins"), "{found}");
}

#[test]
fn a_core_file_that_is_there_is_not_written_over() {
    let lab = Lab::new();
    lab.write("mine.toml", "mine");
    lab.run(&["doctor", "--calibrate-core", "mine.toml"]).expect(2).says(&["is there already"]);
    assert_eq!(std::fs::read_to_string(lab.dir().join("mine.toml")).unwrap(), "mine");
}

#[test]
fn without_its_gauge_or_with_a_wrong_core_nothing_is_validated() {
    let lab = Lab::new();
    lab.write("parts/libopcost_emu.so", "");
    for job in ["--validate", "--calibrate-core new.toml"] {
        let line = format!("OPCOST_LIBEXEC=parts $OPCOST doctor {job}");
        let ended = lab.shell(&line).spawn().unwrap().end().expect(5);
        assert!(ended.stderr.contains("opcost-gauge, which measures this CPU, is not in parts"));
    }
    assert!(!lab.dir().join("new.toml").exists());
    lab.run(&["doctor", "--core", "zen4"]).expect(2).says(&["--validate"]);
    lab.run(&["doctor", "--validate", "--calibrate-core", "x"]).expect(2).says(&["cannot be used"]);
}

#[test]
fn a_loaded_machine_is_refused_in_the_gauges_own_words() {
    let lab = Lab::new();
    let report = GaugeReport::encode_error("this machine is too loaded: 91 %");
    std::fs::write(lab.dir().join("report"), report).unwrap();
    for part in ["libopcost_emu.so", "opcost-guest"] {
        lab.write(&format!("parts/{part}"), "");
    }
    lab.script("parts/opcost-gauge", "cat report; exit 1");
    lab.script("qemu-x86_64", "echo qemu-x86_64 version 9.9.9");
    for job in ["--validate", "--calibrate-core new.toml"] {
        let line = format!("PATH=$PWD:$PATH OPCOST_LIBEXEC=parts $OPCOST doctor {job}");
        let ended = lab.shell(&line).spawn().unwrap().end().expect(5);
        assert!(ended.stderr.contains("nothing was measured: this machine is too loaded: 91 %"));
    }
    assert!(!lab.dir().join("new.toml").exists());
}

#[test]
fn without_an_emulator_nothing_is_measured() {
    let lab = Lab::new();
    lab.write("parts/libopcost_emu.so", "");
    lab.script("parts/opcost-gauge", "touch measured");
    let line = "PATH=nowhere OPCOST_LIBEXEC=parts $OPCOST doctor --validate";
    let ended = lab.shell(line).spawn().unwrap().end().expect(5);
    assert!(ended.stderr.contains("qemu-system-x86_64 is not installed"), "{}", ended.stderr);
    assert!(!lab.exists("measured"));
}

#[test]
fn kernels_of_a_class_are_held_against_this_cpu() {
    if !needs::programs(&["qemu-x86_64"]) || needs::beside("opcost-gauge").is_none() {
        return;
    }
    let lab = Lab::new();
    let ended = lab.run(&["doctor", "--validate", "--kernels", "integer:", "--json"]);
    if ended.stderr.contains("too loaded") {
        crate::skip::skip!("{}", ended.stderr.trim());
        return;
    }
    let found: serde_json::Value = serde_json::from_str(&ended.expect(0).stdout).unwrap();
    let report = &found["report"];
    let builds = report["all"]["model"]["kernels"].as_u64().unwrap();
    assert!(builds >= 10, "{found}");
    assert_eq!(report["classes"].as_array().unwrap().len(), 1);
    // For chains of additions and multiplications, the model is not off by a multiple on any CPU.
    assert!(report["all"]["model"]["error_median"].as_f64().unwrap() < 0.9, "{found}");
    assert!(found["kept"].is_null(), "some kernels alone are no validation");
}
