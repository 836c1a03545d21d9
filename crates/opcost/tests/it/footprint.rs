//! The lines and pages that work touches, from the command line to the report (`crates/opcost-emu/tests/it/footprint.rs` judges them).

use crate::lab::{Lab, compile};
use crate::needs;
use serde_json::Value;

const MEASURE: [&str; 8] =
    ["measure", "--machine", "emulated", "-n", "1", "--warmup", "0", "--json"];

/// Reads 50 lines of a large array as often as it is told, so that the array's part of the footprint stays as it is.
const PROGRAM: &str = r#"
#include <stdlib.h>
static char array[1 << 20] __attribute__((aligned(4096)));
int main(int count, char **words) {
    volatile char *from = array;
    int sum = 0;
    for (int turn = atoi(words[1]); turn; turn--)
        for (int line = 0; line < atoi(words[2]); line++) sum += from[line * 64];
    return sum;
}
"#;

fn figure(shown: &Value, name: &str) -> Option<f64> {
    let all = shown["opcost"]["figures"].as_array().unwrap();
    all.iter().find(|one| one["metric"] == name)?["median"].as_f64()
}

#[test]
fn a_program_s_lines_grow_with_its_array_and_not_with_its_turns() {
    if !needs::programs(&["cc"]) || !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    compile(&lab, "walk", PROGRAM, &["-O1"]);
    let lines = |arguments: &str| {
        let command = format!("./walk {arguments}");
        let run = ["--kernel", "none", "--count", "footprint", "--", &command];
        let shown = lab.json(&[&MEASURE[..], &run].concat());
        assert_eq!(figure(&shown, "data-lines"), None, "nothing tells operations apart");
        ["data-lines-region", "data-pages-region", "code-lines-region", "code-pages-region"]
            .map(|name| figure(&shown, name).unwrap())
    };
    let (few, more) = (lines("11 1000"), lines("99 1000"));
    assert_eq!(few, more);
    assert_eq!(lines("11 5032"), [few[0] + 4032.0, few[1] + 63.0, few[2], few[3]]);
    let text = lab.output(&["show", "last"]);
    assert!(text.contains("data-lines-region"), "{text}");
}

#[test]
fn operations_of_a_workload_have_their_lines() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = ["--kernel", &kernel, "--count", "footprint", "-w", "syscall:ops=500,call=getppid"];
    let shown = lab.json(&[&MEASURE[..], &work].concat());
    let [once, all] = ["data-lines", "data-lines-region"].map(|name| figure(&shown, name).unwrap());
    assert!(once >= 1.0 && once <= all, "{once} {all}");
    let instructions = figure(&shown, "instructions").unwrap();
    assert!(figure(&shown, "code-lines").unwrap() < instructions);
}

#[test]
fn a_footprint_that_cannot_be_had_is_refused() {
    let lab = Lab::new();
    let footprint = ["measure", "--machine", "emulated", "--count", "footprint"];
    for (flag, why) in [
        ("--cycles", "counts without a model, and 'cycles' needs more"),
        ("--addresses", "counts without a model, and 'addresses' needs more"),
        ("--no-functions", "cannot be used with"),
    ] {
        let ended = lab.run(&[&footprint[..], &[flag, "true"]].concat()).expect(2);
        assert!(ended.stderr.contains(why), "{flag}: {}", ended.stderr);
    }
    let ended = lab.run(&["measure", "--count", "footprint", "true"]).expect(2);
    assert!(ended.stderr.contains("'count' is for the emulated machine"), "{}", ended.stderr);
}
