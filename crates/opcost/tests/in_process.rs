//! Variants inside one process, from the command line to the recording and back.

mod lab;
use lab::{Lab, Started, wait_until};

const COMPARE: [&str; 8] = [
    "compare",
    "--in-process",
    "-w",
    "copy:ops=2000,path=rep-movsq",
    "-w",
    "copy:ops=2000,path=unrolled-8",
    "--warmup=1",
    "-q",
];

fn compare(lab: &Lab, more: &[&str]) -> lab::Ended {
    lab.run(&[&COMPARE[..], more].concat())
}

/// Every run has a row; those of one process have its start in common.
fn starts(lab: &Lab) -> Vec<String> {
    lab.column("last", "started_unix_ns")
}

#[cfg(target_arch = "x86_64")]
#[test]
fn each_block_is_made_in_a_process_and_each_run_is_a_record() {
    let lab = Lab::new();
    let ended = compare(&lab, &["-n", "6"]).expect(0);
    assert!(ended.stdout.contains("6 pairs · in 3 processes"), "{}", ended.stdout);
    let starts = starts(&lab);
    // Two warm-up runs, then three blocks of four.
    assert_eq!(starts.len(), 14);
    let sizes: Vec<usize> =
        starts.chunk_by(|one, other| one == other).map(<[String]>::len).collect();
    assert_eq!(sizes, [2, 4, 4, 4]);
    let document = lab.json(&["show", "--json"]);
    let layout = document["opcost"]["ledger"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["rule"] == "layout")
        .unwrap();
    assert!(layout["detail"].as_str().unwrap().contains("in one process"), "{layout}");
    assert_eq!(document["opcost"]["plan"]["in_process"]["blocks"], 1);
    // The experiment file that the plan is written back to makes such runs again.
    lab.run(&["report", "last", "--html", "page.html"]).expect(0);
    assert!(lab.read("page.html").contains("in-process = true"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn several_blocks_share_a_process_where_that_is_asked_for() {
    let lab = Lab::new();
    let ended = compare(&lab, &["-n", "8", "--blocks-per-process", "2"]).expect(0);
    assert!(ended.stdout.contains("8 pairs · in 2 processes"), "{}", ended.stdout);
    let starts = starts(&lab);
    let sizes: Vec<usize> =
        starts.chunk_by(|one, other| one == other).map(<[String]>::len).collect();
    assert_eq!(sizes, [2, 8, 8]);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_killed_opcost_loses_the_process_in_flight_and_resumes_with_whole_ones() {
    let lab = Lab::new();
    // Long enough to be met in the middle, however fast the machine.
    let paths = ["rep-movsq", "unrolled-8"].map(|path| format!("copy:ops=1000000,path={path}"));
    let args = ["compare", "--in-process", "-w", &paths[0], "-w", &paths[1], "-n", "40"];
    let mut recorder = lab.start(&args);
    wait_until("two processes", || {
        let stored = lab.store().exists() && lab.recordings().first()?["runs"].as_u64()? >= 6;
        stored.then_some(())
    });
    recorder.signal(libc::SIGKILL);
    recorder.wait().unwrap();
    let runs = lab.recordings()[0]["runs"].as_u64().unwrap();
    assert_eq!((runs - 2) % 4, 0, "{runs} runs: whole blocks and the warm-up runs");
    lab.run(&["resume", "-q"]).expect(0);
    let starts = starts(&lab);
    assert_eq!(starts.len(), 82);
    let sizes = starts.chunk_by(|one, other| one == other).map(<[String]>::len);
    assert!(sizes.skip(1).all(|size| size == 4), "every block has a process");
}

#[test]
fn what_is_refused_says_what_to_do() {
    let lab = Lab::new();
    let refused = |args: &[&str], status: i32, parts: &[&str]| {
        lab.run(&[&["compare", "--in-process", "-n", "2"], args].concat())
            .expect(status)
            .says(parts);
    };
    refused(&["true", "false"], 2, &["a command has no code paths", "workloads that have: copy"]);
    refused(&["-w", "syscall", "-w", "syscall:unroll=4"], 2, &["syscall has no code paths"]);
    refused(&["-w", "copy", "-w", "copy:size=9"], 2, &["differ in path only", "size (48, 9)"]);
    let path = "--variant=b=workload:copy:procs=2,path=libc";
    refused(&["-w", "copy:procs=2", path], 2, &["procs=2; use procs=1"]);
    let bad = ["compare", "-w", "copy:path=teleport", "-w", "copy"];
    lab.run(&bad).expect(2).says(&["does not accept path=teleport", "rep-movsb"]);
}

#[test]
fn too_little_memory_is_said_with_what_is_needed() {
    let lab = Lab::new();
    let line = "ulimit -v 120000; exec $OPCOST compare -w copy:size=67108864,ops=1 \
                -w copy:size=67108864,ops=1,offset=0 -n 2";
    let ended = lab.shell(line).spawn().unwrap().end().expect(4);
    ended.says(&["map 134234112 bytes for source and destination", "'size'", "ulimit -v"]);
}
