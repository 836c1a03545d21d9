//! Standard input and output of commands, on this host and in guests.

use crate::lab::{ALONE, Lab};
use crate::needs;

const SHORT: [&str; 4] = ["-n", "2", "--warmup=0", "--quiet"];

#[test]
fn every_run_reads_its_input_from_the_beginning_and_writes_its_output_anew() {
    let lab = Lab::new();
    lab.write("few", "one\ntwo\n");
    lab.write("many", "1\n2\n3\n4\n");
    // Each run notes how many lines it got.
    let count = lab.script("count", "wc -l | tee -a lines");
    let count = count.to_str().unwrap();
    lab.output(&[&["compare", count, "--input", "few", "--input", "many"], &SHORT[..]].concat());
    let mut lines = lab.lines("lines");
    lines.sort();
    assert_eq!(lines, ["2", "2", "4", "4"]);
    // The names of the files tell the variants apart.
    let plan = lab.json(&["show", "--json"]);
    let names = plan["opcost"]["plan"]["variants"].as_array().unwrap();
    let names: Vec<_> = names.iter().map(|variant| variant["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["few", "many"]);
    lab.output(&[&["measure", "cat", "--input", "few", "--output", "out"], &SHORT[..]].concat());
    assert_eq!(lab.read("out"), "one\ntwo\n", "made anew by each of two runs");
    // The command sees where its output goes.
    let kind = lab.script("kind", "readlink /proc/self/fd/1 | sed 's/:.*//' >>kinds");
    let kind = kind.to_str().unwrap();
    for output in ["null", "pipe", "made", "inherit"] {
        lab.output(&[&["measure", kind, "--output", output], &SHORT[..]].concat());
    }
    let _ = lab.path("made").canonicalize().unwrap();
    // opcost reads more than a pipe holds.
    let long = ["measure", "head -c 1000000 /dev/zero", "--output", "pipe"];
    lab.output(&[&long[..], &SHORT].concat());
    let shown = ["measure", "echo hello", "--output", "inherit"];
    assert!(lab.output(&[&shown[..], &SHORT].concat()).starts_with("hello\nhello\n"));
}

#[test]
fn peaks_of_commands_with_files_as_streams_stay_their_own() {
    let lab = Lab::new();
    lab.write("few", "one\n");
    let args = ["measure", "cat", "--input", "few", "--output", "out", "--json"];
    let document = lab.json(&[&args[..], &SHORT].concat());
    for peak in document["results"][0]["memory_usage_byte"].as_array().unwrap() {
        // opcost itself has more than 8 MiB.
        assert!((1..8 << 20).contains(&(peak.as_f64().unwrap() as u64)), "{document}");
    }
}

#[test]
fn what_cannot_be_a_stream_is_named_before_the_first_run() {
    let lab = Lab::new();
    let refused = |args: &[&str], parts: &[&str]| {
        lab.run(&[args, &SHORT].concat()).expect(2).says(parts);
        assert!(!lab.store().exists() || lab.recordings().is_empty());
    };
    let missing = ["measure", "cat", "--input", "none"];
    refused(&missing, &["--input none", "cannot read", "No such file"]);
    refused(&["measure", "cat", "--input", "."], &["it is a folder"]);
    refused(&["measure", "-w", "syscall", "--input", "none"], &["workload syscall neither reads"]);
    refused(&["measure", "-w", "syscall", "--output", "pipe"], &["workload syscall neither reads"]);
    refused(&["measure", "cat", "--show-output", "--output", "x"], &["leave one of both out"]);
    let three = ["compare", "cat", "cat -", "--input", "a", "--input", "b", "--input", "c"];
    refused(&three, &["--input is given 3 times for 2 variants"]);
}

#[test]
fn a_hook_may_make_the_input_and_one_that_does_not_is_named() {
    let lab = Lab::new();
    let made = ["measure", "cat", "--setup", "echo x >in", "--input", "in", "--output", "out"];
    lab.output(&[&made[..], &SHORT].concat());
    assert_eq!(lab.read("out"), "x\n");
    let forgotten = ["measure", "cat", "--setup", "true", "--input", "gone"];
    let ended = lab.run(&[&forgotten[..], &SHORT].concat()).expect(4);
    ended.says(&["variant 'cat'", "gone' as standard input", "No such file"]);
    let nowhere = ["measure", "cat", "--output", "none/out"];
    let ended = lab.run(&[&nowhere[..], &SHORT].concat()).expect(4);
    ended.says(&["none/out' as standard output", "No such file"]);
}

#[test]
fn streams_stand_in_experiment_files_and_may_name_parameters() {
    let lab = Lab::new();
    for (name, lines) in [("f1", "a\n"), ("f2", "a\nb\n")] {
        lab.write(name, lines);
    }
    lab.write(
        "x.toml",
        "pairs = 2\nwarmup = 0\nscan = [{ name = \"n\", values = [1, 2] }]\n\
         [[variant]]\ncommand = \"cat\"\ninput = \"f{n}\"\noutput = \"out{n}\"\n",
    );
    lab.output(&["run", "x.toml", "--quiet"]);
    assert_eq!([lab.read("out1"), lab.read("out2")], ["a\n", "a\nb\n"]);
    // On the command line, all variants have the same streams.
    let scanned = ["compare", "-L", "n", "1,2", "cat", "--input", "f{n}", "--output", "o{n}"];
    lab.output(&[&scanned[..], &SHORT].concat());
    assert_eq!([lab.read("o1"), lab.read("o2")], ["a\n", "a\nb\n"]);
    // The experiment saved from it makes the same runs again.
    let saved = ["measure", "cat", "--input", "f2", "--output", "again"];
    lab.output(&[&saved[..], &["-n", "2", "--save-experiment", "y.toml"]].concat());
    lab.output(&["run", "y.toml", "--quiet"]);
    assert_eq!(lab.read("again"), "a\nb\n");
}

#[test]
fn programs_without_a_kernel_have_streams_of_this_machine() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    lab.write("few", "one\ntwo\n");
    let inputs = ["cat", "--input", "null", "--input", "few", "--output", "out", "--warmup=0"];
    let args = [&ALONE[..], &inputs, &["--pairs", "1", "--seed", "1", "--quiet"]].concat();
    lab.output(&args);
    // The runs overlap, and either may be the last to write.
    assert!(["", "one\ntwo\n"].contains(&lab.read("out").as_str()));
    let one = ["measure", "--machine", "emulated", "--kernel", "none", "-n", "1", "--warmup=0"];
    lab.output(&[&one[..], &["cat", "--input", "few", "--output", "of-one"]].concat());
    assert_eq!(lab.read("of-one"), "one\ntwo\n");
}

#[test]
fn guests_have_their_input_packed_and_their_output_in_the_guest() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    lab.write("few", "one\ntwo\n");
    lab.write("many", "x\n".repeat(2000));
    // There are no warm-up runs, for which guests would boot once more.
    let guest = ["--machine", "emulated", "--kernel", &kernel, "--warmup", "0"];
    let args = [&["compare", "--pairs", "1", "--json"], &guest[..]].concat();
    let inputs = ["wc -l", "--input", "few", "--input", "many", "--quiet"];
    let document = lab.json(&[&args[..], &inputs].concat());
    let metrics = document["opcost"]["metrics"].as_array().unwrap();
    let loads = metrics.iter().find(|row| row["metric"] == "instructions").unwrap();
    assert!(loads["value"].as_f64().unwrap() > loads["value_baseline"].as_f64().unwrap() + 2000.0);
    // The output sent to the host comes from the packed file.
    let one = [&["measure", "-n", "1", "--quiet"], &guest[..]].concat();
    let sent = lab.output(&[&one[..], &["cat", "--input", "few", "--output", "inherit"]].concat());
    assert!(sent.starts_with("one\ntwo\n"), "{sent}");
    // A file in the guest is not a file of this machine.
    lab.output(&[&one[..], &["echo x", "--output", "/tmp-of-guest"]].concat());
    assert!(!std::path::Path::new("/tmp-of-guest").exists());
    let nowhere = ["echo x", "--output", "/nowhere/out"];
    let ended = lab.run(&[&one[..], &nowhere].concat()).expect(4);
    ended.says(&["write /nowhere/out in the guest"]);
}
