//! The conditions of the runs: arguments, environment, folder, streams, CPU, address layout, hooks.

use crate::lab::{Lab, Started, cpus_allowed, first_cpu, wait_gone};
use crate::needs;
use opcost_sys::scheduling::no_real_time;
use std::collections::HashSet;
use std::process::Stdio;

#[test]
fn arguments_are_split_like_a_shell_does_without_one() {
    let lab = Lab::new();
    lab.script("work", "for word; do echo \"[$word]\"; done > words.$1");
    lab.output(&["compare", r#"./work a 'b  c' "d'e" f\ g $HOME * "" | x"#, "./work z", "-n", "2"]);
    let expected = ["[a]", "[b  c]", "[d'e]", "[f g]", "[$HOME]", "[*]", "[]", "[|]", "[x]"];
    assert_eq!(lab.lines("words.a"), expected);
}

#[test]
fn a_shell_is_used_where_one_is_asked_for() {
    let lab = Lab::new();
    lab.output(&["compare", "--shell", "echo $((20 + 3)) $0 > a; :", "true", "-n", "2"]);
    assert_eq!(lab.lines("a"), ["23 /bin/sh"]);
    lab.script("my-shell", "echo \"$1:$2\" >> asked");
    lab.output(&["compare", "--shell=./my-shell", "anything | at all", "or not", "-n", "2"]);
    let asked: HashSet<String> = lab.lines("asked").into_iter().collect();
    assert_eq!(asked, HashSet::from(["-c:anything | at all".into(), "-c:or not".into()]));
    let args = ["compare", "--shell=no-such-shell", "a", "b", "-n", "2"];
    lab.run(&args).expect(4).says(&["'no-such-shell'"]);
}

#[test]
fn standard_input_is_empty() {
    let lab = Lab::new();
    lab.script("work", "readlink /proc/self/fd/0 >> stdin; cat >> read");
    let mut command = lab.command(&["compare", "./work a", "./work b", "-n", "2", "--warmup=0"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"for nobody\n").unwrap();
    child.end().expect(0);
    assert_eq!(lab.lines("stdin"), ["/dev/null"; 4]);
    assert_eq!(lab.read("read"), "");
}

#[test]
fn output_is_shown_only_where_asked_for() {
    let lab = Lab::new();
    lab.script("work", "echo on output; echo on error >&2");
    let args = ["compare", "./work a", "./work b", "-n", "2"];
    let silent = lab.run(&args).expect(0);
    assert!(!silent.stdout.contains("on output"), "{}", silent.stdout);
    assert_eq!(silent.stderr, "");
    let shown = lab.run(&[&args[..], &["--show-output"]].concat()).expect(0);
    assert_eq!(shown.stdout.matches("on output\n").count(), 6);
    assert_eq!(shown.stderr.matches("on error\n").count(), 6);
}

/// The lines of `env` in the runs of two commands under a policy.
fn environment(policy: &[&str]) -> (Lab, Vec<String>) {
    let lab = Lab::new();
    lab.script("work", "env >> env");
    let mut command = lab.command(&["compare", "./work a", "./work b", "-n", "8", "--seed", "1"]);
    command.args(policy).env("LAB_SECRET", "s").env("LANG", "xx_YY");
    command.spawn().unwrap().end().expect(0);
    let lines = lab.lines("env");
    (lab, lines)
}

#[test]
fn the_environment_is_inherited_fixed_or_padded() {
    let has = |lines: &[String], line: &str| lines.iter().any(|found| found == line);
    let padding = |lines: &[String]| -> HashSet<usize> {
        lines.iter().filter_map(|line| Some(line.strip_prefix("OPCOST_PADDING=")?.len())).collect()
    };
    let (_lab, inherited) = environment(&["--env", "A=x=y", "--env", "LANG=C"]);
    assert!(has(&inherited, "LAB_SECRET=s") && has(&inherited, "A=x=y"));
    assert!(has(&inherited, "LANG=C") && !has(&inherited, "LANG=xx_YY"), "{inherited:?}");
    assert!(padding(&inherited).is_empty());
    let (_lab, fixed) = environment(&["--environment", "fixed", "--env", "B=1"]);
    assert!(has(&fixed, "LANG=C") && has(&fixed, "B=1"));
    assert!(!has(&fixed, "LAB_SECRET=s"));
    let (lab, padded) = environment(&["--environment", "randomised"]);
    assert!(has(&padded, "LAB_SECRET=s"));
    let plan = lab.json(&["show", "--json"])["opcost"]["plan"].clone();
    let planned: HashSet<usize> = plan["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["padding_bytes"].as_u64().unwrap() as usize)
        // Warm-up runs have no padding.
        .chain([0])
        .collect();
    assert!(planned.len() > 2, "each block draws its own");
    assert_eq!(padding(&padded), planned);
}

#[test]
fn the_address_layout_is_fixed_or_not_as_asked() {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/randomize_va_space").unwrap();
    let ends = |how: &str| -> HashSet<String> {
        let lab = Lab::new();
        lab.script("work", "grep '\\[stack\\]' /proc/self/maps >> maps");
        lab.output(&["compare", "./work a", "./work b", "-n", "4", "--aslr", how]);
        let maps = lab.lines("maps");
        assert_eq!(maps.len(), 10);
        let range = |line: &String| line.split(' ').next().unwrap().to_string();
        maps.iter().map(range).map(|range| range.split('-').nth(1).unwrap().into()).collect()
    };
    assert_eq!(ends("fixed").len(), 1);
    if kernel.trim() == "0" {
        crate::skip::skip!("this kernel randomises nothing (kernel.randomize_va_space = 0)");
        return;
    }
    assert!(ends("randomised").len() > 5, "ten runs should differ");
}

#[test]
fn runs_are_pinned_to_the_cpu_asked_for() {
    let lab = Lab::new();
    lab.script("work", "sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status >> cpus");
    let args = ["compare", "./work a", "./work b", "-n", "2", "--warmup", "0"];
    lab.output(&args);
    assert_eq!(lab.lines("cpus"), vec![cpus_allowed(); 4]);
    if cpus_allowed() == first_cpu() {
        crate::skip::skip!("there is one CPU only, so that pinning changes nothing");
        return;
    }
    std::fs::remove_file(lab.path("cpus")).unwrap();
    lab.output(&[&args[..], &["--cpu", &first_cpu()]].concat());
    assert_eq!(lab.lines("cpus"), vec![first_cpu(); 4]);
    // opcost's own CPUs count, not the machine's.
    let others = format!("taskset -c {} $OPCOST compare true false --cpu 1000", first_cpu());
    lab.shell(&others).spawn().unwrap().end().expect(2).says(&[&format!("[{}]", first_cpu())]);
}

#[test]
fn a_failing_status_is_no_failure_where_that_is_asked_for() {
    let lab = Lab::new();
    let args = ["compare", "sh -c 'exit 3'", "sh -c 'exit 4'", "-n", "4", "-i", "--json"];
    let document = lab.json(&args);
    for (variant, code) in [(0, 3), (1, 4)] {
        let result = &document["results"][variant];
        assert_eq!(result["exit_codes"], serde_json::json!([code, code, code, code]));
        assert_eq!(result["times"].as_array().unwrap().len(), 4);
        assert_eq!(document["opcost"]["variants"][variant]["runs_finished"], 4);
    }
    assert!(lab.column("last", "outcome").iter().all(|outcome| outcome == "finished"));
    let ledger = document["opcost"]["ledger"].as_array().unwrap();
    let rule = ledger.iter().find(|entry| entry["rule"] == "exit-status").unwrap();
    assert_eq!(rule["severity"], "doubtful", "but it is told");
}

#[test]
fn hooks_surround_the_runs_they_are_for() {
    let lab = Lab::new();
    lab.script("work", "echo run $1 >> log");
    let hook = |word: &str| format!("echo {word} $SIDE >> log; echo noise");
    let [setup, prepare, conclude, cleanup] = ["setup", "prepare", "conclude", "cleanup"].map(hook);
    let args = [
        "compare",
        "--variant",
        "A=./work A",
        "--variant",
        "B=./work B",
        "-n",
        "2",
        "--env",
        "SIDE=s",
        "--setup",
        &setup,
        "--prepare",
        &prepare,
        "--conclude",
        &conclude,
        "--cleanup",
        &cleanup,
        "--format",
        "csv",
    ];
    let text = lab.output(&args);
    assert!(!text.contains("noise"), "what hooks print is not in the way of the result");
    // Hooks around all runs belong to no variant and have no variant's environment.
    let mut expected = vec!["setup".to_string()];
    for name in lab.column("last", "variant") {
        expected.extend(["prepare s".into(), format!("run {name}"), "conclude s".into()]);
    }
    expected.push("cleanup".into());
    let log: Vec<String> = lab.lines("log").iter().map(|line| line.trim_end().into()).collect();
    assert_eq!(log, expected);
}

#[test]
fn each_command_may_have_hooks_of_its_own_and_runs_know_their_numbers() {
    let lab = Lab::new();
    let work = "echo $1 $HYPERFINE_ITERATION >> log; env | grep ITERATION | wc -c >> bytes";
    lab.script("work", work);
    let hook = |text: &str| format!("echo {text} $HYPERFINE_ITERATION >> log");
    let hooks = ["sA", "sB", "pA", "pB", "cB", "uA", "uB"].map(hook);
    let [setup_a, setup_b, prepare_a, prepare_b, conclude_b, cleanup_a, cleanup_b] = &hooks;
    let command =
        ["compare", "./work A", "./work B", "-n", "11", "--warmup", "1", "--format", "csv"];
    let own =
        ["--setup", setup_a, "--setup", setup_b, "--prepare", prepare_a, "--prepare", prepare_b];
    let behind = [
        "--conclude",
        "",
        "--conclude",
        conclude_b,
        "--cleanup",
        cleanup_a,
        "--cleanup",
        cleanup_b,
    ];
    lab.output(&[&command[..], &own, &behind].concat());
    let log: Vec<String> = lab.lines("log").iter().map(|line| line.trim_end().into()).collect();
    let mut expected = vec!["sA".to_string(), "sB".into()];
    let mut made = [0, 0];
    for variant in lab.column("last", "variant") {
        let (side, name) = if variant == "./work A" { (0, "A") } else { (1, "B") };
        let number = match made[side] {
            0 => "warmup-0".to_string(),
            made => (made - 1).to_string(),
        };
        made[side] += 1;
        expected.extend([format!("p{name} {number}"), format!("{name} {number}")]);
        expected.extend((side == 1).then(|| format!("cB {number}")));
    }
    expected.extend(["uA".to_string(), "uB".into()]);
    assert_eq!(log, expected);
    // The environment has the same size in every run.
    let mut bytes = lab.lines("bytes");
    bytes.dedup();
    assert_eq!((bytes.len(), made), (1, [12, 12]), "{bytes:?}");
    // A value of the user's stays.
    lab.run(&["compare", "./work A", "true", "-n", "2", "--env", "HYPERFINE_ITERATION=own"])
        .expect(0);
    assert_eq!(lab.lines("log").last().unwrap(), "A own");
    let three = ["--prepare", "a", "--prepare", "b", "--prepare", "c"];
    let ended = lab.run(&[&command[..], &three].concat()).expect(2);
    ended.says(&["3 --prepare for 2 variants; give it once for all, or once for each"]);
}

#[test]
fn quiet_says_nothing_but_results_and_errors() {
    let lab = Lab::new();
    let ended = lab.run(&["-q", "compare", "true", "sh -c :", "-n", "2"]).expect(0);
    assert_eq!(ended.stderr, "");
    assert!(ended.stdout.contains("wall"));
    lab.run(&["-q", "compare", "false", "true", "-n", "2"]).expect(4).says(&["status 1"]);
    if !needs::programs(&["script"]) {
        return;
    }
    let on_terminal = |options: &str| {
        let line = format!("$OPCOST {options} compare true \"sh -c :\" -n 2");
        let script = format!("TERM=xterm script -qec '{line}' /dev/null");
        lab.shell(&script).spawn().unwrap().end().expect(0).stdout
    };
    // The progress over six runs; the first line is drawn at once.
    assert!(on_terminal("").contains("0/6 runs"));
    assert!(!on_terminal("-q").contains("/6 runs"));
}

#[test]
fn what_a_run_leaves_behind_is_noticed_and_ended() {
    let lab = Lab::new();
    lab.script("work", "for _ in 1 2 3; do sleep 1000 & echo $! >>left; done");
    let args = ["compare", "true", "./work", "-n", "4", "--warmup", "0", "--json"];
    let json = lab.json(&args);
    let ledger = json["opcost"]["ledger"].as_array().unwrap();
    let entry = ledger.iter().find(|entry| entry["rule"] == "left-behind").unwrap();
    assert_eq!(entry["severity"], "doubtful");
    let detail = entry["detail"].as_str().unwrap();
    assert!(
        detail.contains("4 runs of './work', up to 3") && detail.contains("ended them"),
        "{detail}"
    );
    let left = lab.lines("left");
    assert_eq!(left.len(), 12);
    for pid in &left {
        wait_gone(pid);
    }
    // A process that a hook starts is left running.
    let setup = "sleep 1000 2>/dev/null & echo $! >kept";
    let args = ["compare", "true", "./work", "-n", "2", "--setup", setup, "--json"];
    lab.json(&args);
    let kept = lab.read("kept");
    assert!(std::path::Path::new(&format!("/proc/{}", kept.trim())).exists());
    // SAFETY: the process was started above.
    unsafe { libc::kill(kept.trim().parse().unwrap(), libc::SIGKILL) };
}

#[test]
fn peak_memory_of_small_commands_is_their_own() {
    let lab = Lab::new();
    let json = lab.json(&["compare", "true", "false", "-i", "-n", "2", "--json"]);
    for result in json["results"].as_array().unwrap() {
        let peaks = result["memory_usage_byte"].as_array().unwrap();
        assert_eq!(peaks.len(), 2);
        for peak in peaks {
            // opcost itself has more than 8 MiB.
            assert!((1..8 << 20).contains(&(peak.as_f64().unwrap() as u64)), "{peaks:?}");
        }
    }
}

#[test]
fn every_run_has_a_count_of_its_own() {
    let lab = Lab::new();
    lab.json(&["compare", "true", "/bin/true", "-n", "40", "--json"]);
    let faults: Vec<u64> = lab
        .column("last", "perf_event page-faults")
        .iter()
        .map(|count| count.parse().unwrap())
        .collect();
    assert!(faults.len() >= 80);
    let (least, most) = (faults.iter().min().unwrap(), faults.iter().max().unwrap());
    assert!(*least > 10 && *most < 2 * least, "{faults:?}");
}

#[test]
fn verbose_is_for_the_emulated_machine_and_says_so() {
    let lab = Lab::new();
    let args = ["compare", "true", "true ", "-n", "2", "--verbose"];
    lab.run(&args).expect(0).says(&["--verbose has nothing to add on this machine"]);
    lab.run(&[&args[..], &["-q"]].concat()).expect(2).says(&["cannot be used with"]);
}

#[test]
fn an_input_that_changes_ends_the_recording_with_its_name() {
    let lab = Lab::new();
    lab.write("input", "1\n");
    // The eighth run writes the file that all runs read: any other process could have done it.
    let counts = "echo >>log; if [ $(wc -l <log) = 8 ]; then echo 2 >input; fi";
    lab.script("work", counts);
    let words = ["compare", "./work 1", "./work 2", "-n", "12", "--input", "input", "--quiet"];
    lab.run(&words).expect(3).says(&["/input' changed while the runs read it", "on a copy"]);
    let shown = lab.run(&["show", "last"]).expect(3);
    assert!(
        shown.stdout.contains("refused") && shown.stdout.contains("/input"),
        "{}",
        shown.stdout
    );
}

#[test]
fn runs_have_real_time_priority_or_opcost_says_why_not() {
    let lab = Lab::new();
    // Field 41 of /proc/PID/stat is the policy, and SCHED_FIFO is 1 (proc(5)).
    let policy = "cut -d' ' -f41 /proc/self/stat";
    let flags =
        ["measure", "-q", "-n", "2", "--priority", "real-time", "--output", "policy", policy];
    let made = lab.run(&flags);
    if no_real_time().is_some() {
        made.expect(5).says(&["--priority real-time: ", "; "]);
        return;
    }
    made.expect(0);
    assert_eq!(std::fs::read_to_string(lab.path("policy")).unwrap(), "1\n");
    let plan = &lab.json(&["show", "last", "--json"])["opcost"]["plan"];
    assert_eq!(plan["priority"], "real-time");
    assert!(plan["cpu"].is_u64(), "{plan}");
    lab.output(&["measure", "-q", "-n", "2", "--output", "policy", policy]);
    assert_eq!(std::fs::read_to_string(lab.path("policy")).unwrap(), "0\n");
}
