//! Sampled profiles on this host: in comparisons, and live.

use crate::lab::{Ended, Lab, Started, TINY, compile};
use crate::needs;
use serde_json::Value;
use std::process::Command;

/// Whether this machine forbids sampling opcost's own child; if so, prints a skip message.
fn skipped(ended: &Ended) -> bool {
    let forbidden = ended.status == Some(5) && ended.stderr.contains("cannot sample");
    if forbidden {
        crate::skip::skip!("{}", ended.stderr.trim_end());
    }
    forbidden
}

#[test]
fn what_the_command_prints_is_shown_on_request() {
    let lab = Lab::new();
    // It works for a while first: a sample is taken each millisecond.
    let work = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo of-the-command'";
    let table = lab.run(&["profile", work]);
    if skipped(&table) {
        return;
    }
    let table = table.expect(0).stdout;
    assert!(!table.lines().any(|line| line == "of-the-command"), "{table}");
    let both = lab.run(&["profile", work, "--show-output"]).expect(0).stdout;
    assert!(both.lines().any(|line| line == "of-the-command"), "{both}");
}

#[test]
fn a_comparison_says_which_functions_and_that_they_are_sampled() {
    let lab = Lab::new();
    let args = [
        "compare",
        "-w",
        "syscall:ops=400000",
        "-w",
        "syscall:ops=400000,seccomp=on",
        "-n",
        "2",
        "--warmup=0",
        "--profile",
        "--frequency=2000",
        "--json",
    ];
    let ended = lab.run(&args);
    if skipped(&ended) {
        return;
    }
    let document: Value = serde_json::from_str(&ended.expect(0).stdout).unwrap();
    let opcost = &document["opcost"];
    assert_eq!(opcost["plan"]["sampling"]["frequency_hz"], 2000);
    let functions = opcost["functions"].as_array().unwrap();
    assert!(functions.len() > 3, "{functions:?}");
    let metrics = opcost["metrics"].as_array().unwrap();
    assert!(metrics.iter().any(|metric| metric["metric"] == "task-clock"));
    // No part is negative: samples never explain more than the whole.
    for side in ["value_baseline", "value"] {
        let parts = functions.iter().map(|function| function[side].as_f64().unwrap());
        let parts: Vec<f64> = parts.collect();
        assert!(parts.iter().all(|part| *part >= -1e-9), "{parts:?}");
        assert!(parts.iter().sum::<f64>() > 0.0);
    }
    for function in functions {
        assert_eq!(function["kind"], "sampled", "{function}");
        assert!(function["exact"].as_bool() != Some(true), "{function}");
        assert!(function["calls"].is_null(), "samples count no calls: {function}");
    }
    // Exports have the stored samples.
    let folded = lab.path("stacks.folded");
    let export = ["show", "last", "--variant", "1", "--export-folded", folded.to_str().unwrap()];
    lab.run(&export).expect(0);
    let stacks = lab.lines("stacks.folded");
    assert!(!stacks.is_empty());
    for line in stacks {
        assert!(line.rsplit(' ').next().unwrap().parse::<u64>().is_ok(), "{line}");
    }
    let text = lab.run(&["diff"]).expect(0).stdout;
    assert!(text.contains("ns of sampled task-clock/op"), "{text}");
    assert!(text.contains("samples at 2000 Hz"), "{text}");
}

#[test]
fn runs_that_are_not_sampled_have_no_profile_and_say_how_to_get_one() {
    let lab = Lab::new();
    lab.run(&TINY).expect(0);
    lab.run(&["diff"]).expect(2).says(&["no finished runs with profiles", "--profile"]);
}

#[test]
fn what_cannot_be_sampled_so_is_refused() {
    let check = |more: &[&str], parts: &[&str]| {
        let lab = Lab::new();
        let args: Vec<&str> = TINY.iter().chain(more).copied().collect();
        lab.run(&args).expect(2).says(parts);
        assert!(!lab.store().exists(), "a store was made");
    };
    check(&["--frequency", "99"], &["--frequency", "add --profile"]);
    check(&["--call-graph", "dwarf"], &["--call-graph", "add --profile"]);
    let dwarf = ["--profile", "--call-graph", "dwarf", "--stack-bytes"];
    for bytes in ["0", "12", "65536"] {
        check(&[&dwarf[..], &[bytes]].concat(), &["--stack-bytes", "8 to 65,528"]);
    }
    check(&["--profile", "--stack-bytes", "64"], &["--stack-bytes 64", "--call-graph dwarf"]);
    check(&["--profile", "--frequency", "0"], &["--frequency 0", "1 to 1,000,000"]);
    check(&["--profile", "-e", "page-faults"], &["--profile", "add -e task-clock"]);
}

#[test]
fn a_workload_is_profiled_for_its_work_and_per_operation() {
    let ended = Lab::new().run(&["profile", "-w", "syscall", "--param", "ops=300000", "--json"]);
    if skipped(&ended) {
        return;
    }
    let profile: Value = serde_json::from_str(&ended.expect(0).stdout).unwrap();
    assert_eq!((&profile["kind"], &profile["ops"]), (&"sampled".into(), &300_000.into()));
    assert_eq!((&profile["frequency_hz"], &profile["unit"]), (&997.into(), &"ns".into()));
    let samples = profile["samples"].as_u64().unwrap();
    assert!(samples > 0, "{profile}");
    // Each sample stands for the same time, except for rounding.
    let functions = profile["functions"].as_array().unwrap();
    let sum: u64 = functions.iter().map(|function| function["cost"].as_u64().unwrap()).sum();
    assert_eq!(sum, profile["cost"].as_u64().unwrap());
    assert_eq!(sum % samples, 0, "{sum} ns of {samples} samples");
}

#[test]
fn a_command_that_fails_is_profiled_and_fails() {
    let lab = Lab::new();
    let busy = "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3'";
    for how in ["fp", "dwarf", "none"] {
        let ended = lab.run(&["profile", busy, "--call-graph", how]);
        if skipped(&ended) {
            return;
        }
        let ended = ended.expect(4).says(&["it ended with status 3"]);
        assert!(ended.stdout.contains("997 samples a second"), "{}", ended.stdout);
        assert!(ended.stdout.contains("total"), "{}", ended.stdout);
        assert_eq!(ended.stdout.contains("without callers"), how == "none", "{}", ended.stdout);
    }
    assert!(!lab.store().exists(), "a profile is no recording");
}

/// A stack deeper than its copy is counted, and a larger copy reaches its end.
#[test]
fn the_size_of_a_copied_stack_is_the_users() {
    let lab = Lab::new();
    lab.write(
        "deep.c",
        "#include <stdlib.h>\nstatic long deeper(long n) { volatile char room[200]; room[0] = n; \
         if (!n) for (volatile long i = 0; i < 40000000; i++); else deeper(n - 1); return room[0]; }\n\
         int main(int c, char **v) { return deeper(atol(v[1])) > 300; }\n",
    );
    let compiled = ["-O1", "-fomit-frame-pointer", "-fno-inline", "-o", "deep", "deep.c"];
    match std::process::Command::new("cc").args(compiled).current_dir(lab.dir()).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return crate::skip::skip!("no C compiler"),
    }
    for (bytes, cut) in [("4096", true), ("65528", false)] {
        let how = ["profile", "./deep 100", "--call-graph", "dwarf", "--stack-bytes", bytes];
        let ended = lab.run(&[&how[..], &["--json"]].concat());
        if skipped(&ended) {
            return;
        }
        let profile: Value = serde_json::from_str(&ended.expect(0).stdout).unwrap();
        let beyond = profile["losses"]["stacks_beyond_copy"].as_u64().unwrap();
        let functions = profile["functions"].as_array().unwrap();
        let deeper = functions.iter().find(|function| function["symbol"] == "deeper").unwrap();
        let samples = deeper["samples"].as_u64().unwrap();
        assert!(samples > 0, "{profile:#}");
        // A sample may hit the program while it still recurses.
        assert_eq!(2 * beyond > samples, cut, "{bytes}: {profile:#}");
        let main = deeper["callers"].to_string().contains("\"main\"");
        assert_eq!(main, !cut, "{bytes}: {profile:#}");
    }
}

/// If code uses the frame pointer's register for other values, a leaf function has no caller at all.
#[test]
fn functions_without_frame_pointers_get_the_hint() {
    let lab = Lab::new();
    lab.write(
        "leaf.c",
        "static long leaf(long n) { long s = 0; __asm__ volatile(\"mov $1, %%rbp\\n1: add %%rbp, %0\\n\
         dec %1\\njnz 1b\" : \"+r\"(s), \"+r\"(n) : : \"rbp\", \"cc\"); return s; }\n\
         int main(void) { return leaf(300000000) == 7; }\n",
    );
    let compiled = ["-O1", "-fomit-frame-pointer", "-fno-inline", "-o", "leaf", "leaf.c"];
    match std::process::Command::new("cc").args(compiled).current_dir(lab.dir()).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return crate::skip::skip!("no C compiler"),
    }
    for (how, hint) in [("fp", true), ("dwarf", false), ("none", false)] {
        let ended = lab.run(&["profile", "./leaf", "--call-graph", how]);
        if skipped(&ended) {
            return;
        }
        let stdout = ended.expect(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        // A rare sample of the loader has a caller at no code; the text may say so in between.
        let said = stdout.contains("in functions without any caller")
            && stdout.contains(": the code was built without frame pointers");
        assert_eq!(said, hint, "{how}: {stdout}");
    }
}

/// In a program that keeps frame pointers, a leaf function without a frame seems to be called by its caller's caller.
#[test]
fn a_caller_that_frame_pointers_skip_is_said_to_be_missing() {
    let lab = Lab::new();
    lab.write(
        "leaf.c",
        "__attribute__((noinline)) long leaf(long n) { long s = 0; for (long i = 0; i < n; i++) { \
         s += i * i; __asm__ volatile(\"\" :: \"r\"(s)); } return s; }\n\
         __attribute__((noinline)) long middle(long n) { return leaf(n) + 1; }\n\
         int main(void) { return middle(200000000) == 7; }\n",
    );
    let compiled = ["-O2", "-fno-omit-frame-pointer", "-momit-leaf-frame-pointer", "-o"];
    let compiled = [&compiled[..], &["leaf", "leaf.c"]].concat();
    match std::process::Command::new("cc").args(compiled).current_dir(lab.dir()).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return crate::skip::skip!("no C compiler"),
    }
    for (how, caller) in [("fp", "main"), ("dwarf", "middle")] {
        let ended = lab.run(&["profile", "./leaf", "--call-graph", how, "--json", "--callers"]);
        if skipped(&ended) {
            return;
        }
        let profile: Value = serde_json::from_str(&ended.expect(0).stdout).unwrap();
        let function = &profile["functions"][0];
        assert_eq!(function["symbol"], "leaf", "{profile:#}");
        assert_eq!(function["callers"][0]["symbol"], caller, "{function:#}");
        let frameless = profile["losses"]["frameless"].as_array().unwrap();
        let named: Vec<&Value> = frameless.iter().map(|row| &row["symbol"]).collect();
        assert_eq!(named, if how == "fp" { vec!["leaf"] } else { vec![] }, "{how}");
        let text = lab.output(&["profile", "./leaf", "--call-graph", how]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains("keep no frame pointer"), how == "fp", "{text}");
    }
}

/// Processes that end before their first sample are counted and not sampled.
#[test]
fn the_part_of_the_cpu_time_that_has_samples_is_said() {
    let lab = Lab::new();
    let covered = |command: &str| -> Option<f64> {
        let ended = lab.run(&["profile", command, "--json", "--frequency", "499"]);
        if skipped(&ended) {
            return None;
        }
        let profile: Value = serde_json::from_str(&ended.expect(0).stdout).unwrap();
        let (cost, cpu) = (profile["cost"].as_f64().unwrap(), profile["cpu_ns"].as_f64().unwrap());
        let share = profile["cpu_share_sampled"].as_f64().unwrap();
        assert!((share - (cost / cpu).min(1.0)).abs() < 1e-9, "{profile}");
        Some(share)
    };
    let long = "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'";
    let Some(long_share) = covered(long) else { return };
    assert!(long_share > 0.5, "{long_share}");
    let ended = lab.run(&["profile", "sh -c 'for i in 1 2 3; do /bin/true; done'", "-F", "1"]);
    // Nothing was profiled, so the status is no success.
    let ended = ended.expect(4).says(&["no samples of task-clock were taken", "raise --frequency"]);
    let stdout = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(stdout.contains("samples cover 0.0 % of"), "{stdout}");
    assert!(stdout.contains("100.0 % of the CPU time has no samples"), "{stdout}");
}

#[test]
fn what_to_profile_has_to_be_said_once() {
    let check = |args: &[&str], status: i32, parts: &[&str]| {
        let args = [&["profile"], args].concat();
        assert_eq!(Lab::new().run(&args).expect(status).says(parts).stdout, "");
    };
    check(&[], 2, &["what is to be profiled?", "--input"]);
    check(&["true", "-a"], 2, &["cannot be used with"]);
    check(&["true", "--duration", "1s"], 2, &["cannot be used with"]);
    check(&["-w", "syscall", "--param", "ops"], 2, &["--param ops: expected KEY=VALUE"]);
    check(&["--param", "ops=3"], 2, &["--workload"]);
    check(
        &["-p", "2147483647"],
        5,
        &["there is no process 2147483647; give the number of a running program (pgrep"],
    );
    check(&["no-such-command-anywhere"], 4, &["no-such-command-anywhere"]);
}

#[cfg(not(feature = "top"))]
#[test]
fn top_that_was_left_out_says_what_to_do() {
    Lab::new().run(&["top"]).expect(5).says(&["built without opcost top", "opcost profile"]);
    Lab::new().run(&["top", "--help"]).expect(0).says(&["--batch"]);
}

#[cfg(feature = "top")]
#[test]
fn top_needs_a_terminal_or_a_number_of_tables() {
    Lab::new().run(&["top"]).expect(2).says(&["opcost top needs a terminal", "--batch N"]);
    Lab::new().run(&["top", "--batch", "0"]).expect(2).says(&["--batch"]);
    let nobody = ["top", "--batch", "1", "-p", "2147483647"];
    Lab::new().run(&nobody).expect(5).says(&["there is no process"]);
}

#[cfg(feature = "top")]
#[test]
fn top_prints_tables_of_what_runs() {
    let lab = Lab::new();
    let ended = lab.run(&["top", "--batch", "2", "--delay", "0.3", "--no-color"]);
    if skipped(&ended) {
        return;
    }
    let text = ended.expect(0).stdout;
    let tables: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(tables.len(), 2, "{text}");
    for table in tables {
        let lines: Vec<&str> = table.lines().collect();
        assert!(
            lines[0].starts_with(" opcost top · ") && lines[0].contains(" Hz, all CPUs"),
            "{table}"
        );
        assert!(lines[0].contains(" lost"), "{table}");
        assert!(
            lines[2].trim_start().starts_with("share") && lines[2].contains("function"),
            "{table}"
        );
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    }
}

/// The screen of a terminal with 80 columns and 24 lines after this output of text and cursor positions.
fn screen_of(output: &str) -> Vec<String> {
    let mut cells = vec![vec![' '; 80]; 24];
    let (mut row, mut column) = (0, 0);
    let mut rest = output.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\x1b' => {
                if rest.next() != Some('[') {
                    continue;
                }
                let mut numbers = String::new();
                let command = rest.by_ref().find(|letter| {
                    let ends = letter.is_ascii_alphabetic();
                    numbers.extend((!ends).then_some(*letter));
                    ends
                });
                let mut numbers = numbers.split(';').map(|number| number.parse().unwrap_or(1));
                match command {
                    Some('H') => {
                        row = numbers.next().unwrap_or(1) - 1;
                        column = numbers.next().unwrap_or(1) - 1;
                    }
                    Some('J') => cells = vec![vec![' '; 80]; 24],
                    // Colours, the cursor's shape and the switch of screens are ignored.
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            letter if row < 24 && column < 80 => {
                cells[row][column] = letter;
                column += 1;
            }
            _ => {}
        }
    }
    cells.iter().map(|line| line.iter().collect::<String>().trim_end().to_string()).collect()
}

#[test]
fn top_takes_keys_on_a_terminal() {
    let lab = Lab::new();
    if !needs::programs(&["script"]) {
        return;
    }
    let after = |keys: &str| -> Option<Vec<String>> {
        let line = "stty rows 24 cols 80; exec $OPCOST top --delay 0.2";
        // Keys wait in the terminal until they are read.
        let typed = format!("sleep 1; printf '{keys}'; sleep 1");
        let script = format!("({typed}) | TERM=xterm script -qec '{line}' /dev/null");
        let ended = lab.shell(&script).spawn().unwrap().end();
        if ended.stdout.contains("cannot sample") {
            crate::skip::skip!("{}", ended.stdout);
            return None;
        }
        // The contents of the other screen, before opcost leaves it.
        let shown = ended.expect(0).stdout;
        let (shown, _) = shown.rsplit_once("\x1b[?1049l").expect("the screen is given back");
        Some(screen_of(shown.rsplit_once("\x1b[?1049h").expect("another screen").1))
    };
    let Some(screen) = after("q") else { return };
    assert!(screen[0].starts_with(" opcost top · "), "{screen:#?}");
    assert!(screen[23].starts_with(" ? keys  q quit  / search"), "{screen:#?}");
    let help = after("?q").unwrap();
    for key in ["/ ", "T ", "K ", "U ", "q, Ctrl-C"] {
        assert!(help.iter().any(|line| line.starts_with(&format!(" {key}"))), "{key}: {help:#?}");
    }
    // Until Enter, `q` and `t` are letters of the search.
    let search = after("/tq\\r").unwrap();
    assert!(search[1].ends_with(" · /tq") && search[2].contains("function"), "{search:#?}");
    let hidden = after("TKq").unwrap();
    assert!(hidden[1].contains("kernel hidden") && hidden[2].contains("thread"), "{hidden:#?}");
}

/// A program that works for a while. Its debug information nests 20,000 inlined functions if `NESTED` is defined.
const NESTED: &str = r#"
int main(void) { for (volatile long i = 0; i < 200000000; i++); return 0; }
#ifdef NESTED
__asm__(
".section .debug_abbrev,\"\",%progbits\n"
".uleb128 1; .uleb128 0x11; .byte 1; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .uleb128 0; .uleb128 0\n"
".uleb128 2; .uleb128 0x2e; .byte 1; .uleb128 3; .uleb128 8; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .uleb128 0; .uleb128 0\n"
".uleb128 3; .uleb128 0x1d; .byte 1; .uleb128 0x31; .uleb128 0x13; .uleb128 0x11; .uleb128 1; .uleb128 0x12; .uleb128 6; .uleb128 0; .uleb128 0\n"
".byte 0\n"
".section .debug_info,\"\",%progbits\n"
".Lunit: .long .Lend - .Lversion\n"
".Lversion: .short 4; .long .debug_abbrev; .byte 8\n"
".uleb128 1; .quad main; .long 0x40\n"
".Lfunction: .uleb128 2; .asciz \"main\"; .quad main; .long 0x40\n"
".rept 20000; .uleb128 3; .long .Lfunction - .Lunit; .quad main; .long 0x40; .endr\n"
".rept 20002; .byte 0; .endr\n"
".Lend: .text\n");
#endif
"#;

#[test]
fn a_program_whose_debug_information_is_hostile_is_profiled_all_the_same() {
    if !needs::programs(&["cc", "objcopy", "mkfifo"]) {
        return;
    }
    let lab = Lab::new();
    compile(&lab, "nested", NESTED, &["-DNESTED"]);
    compile(&lab, "linked", NESTED, &["-Wl,--build-id=none"]);
    lab.write("linked.debug", "some debug information");
    let run = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).current_dir(lab.dir()).status();
        assert!(status.unwrap().success(), "{program}");
    };
    run("objcopy", &["--add-gnu-debuglink=linked.debug", "linked"]);
    std::fs::remove_file(lab.path("linked.debug")).unwrap();
    // To open a pipe that nobody writes to would wait for ever.
    run("mkfifo", &["linked.debug"]);
    for program in ["./nested", "./linked"] {
        let ended = lab.run(&["profile", program, "--frequency=500"]);
        if skipped(&ended) {
            return;
        }
        let table = ended.expect(0).stdout;
        assert!(table.lines().any(|line| line.contains(" main")), "{program}: {table}");
    }
    let lost = "debug information is nested too deep";
    let table = lab.run(&["profile", "./nested", "--frequency=500"]).expect(0).stdout;
    assert!(table.split_whitespace().collect::<Vec<_>>().join(" ").contains(lost), "{table}");
    let document = lab.json(&["profile", "./nested", "--frequency=500", "--json"]);
    assert_eq!(document["losses"]["without_inlined"][0]["why"], "too deep");
    assert!(
        document["notes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| note.as_str().unwrap().contains(lost))
    );
}
