//! The emulated machine from the command line: guests that really boot, and failures.

use crate::lab::{self, ALONE, Ended, Lab, Started, metric};
use crate::needs;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Compares in guests.
fn guests(lab: &Lab, kernel: &str, args: &[&str]) -> Ended {
    let mut all = vec!["compare", "--machine", "emulated", "--kernel", kernel, "--seed", "1"];
    all.extend(args);
    lab.run(&all)
}

#[test]
fn a_system_call_costs_more_under_a_filter_and_it_is_said_where() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = ["-w", "syscall:ops=2000", "-w", "syscall:ops=2000,seccomp=on"];
    let asked =
        ["--pairs", "1", "--primary", "instructions:k", "--json", "--fail-on", "regression=10%"];
    let ended = guests(&lab, &kernel, &[&work[..], &asked].concat()).expect(1);
    assert!(ended.stderr.contains("more than 10.00 % (exact, one layout)"), "{}", ended.stderr);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    let primary = metric(&shown, "instructions", "kernel");
    assert_eq!((&primary["verdict"], &primary["layouts"]), (&"inconclusive".into(), &1.into()));
    assert!(primary["p_adjusted"].is_null() && primary["ci_low"].is_null(), "{primary:#}");
    assert!(primary["change_ratio"].as_f64().unwrap() > 0.1, "{primary:#}");
    assert_eq!(primary["source"], "emulator");
    // Each operation makes one call; the code around the marker makes none.
    for side in ["value_baseline", "value"] {
        assert_eq!(metric(&shown, "system-calls", "all")[side], 1.0);
    }
    let rule = shown["opcost"]["ledger"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["rule"] == "repeatable");
    assert_eq!(rule.expect("rule")["severity"], "fine", "{rule:?}");
    // The parts sum to the whole.
    let functions = shown["opcost"]["functions"].as_array().unwrap();
    let sum: f64 = functions.iter().map(|row| row["change"].as_f64().unwrap()).sum();
    let whole = metric(&shown, "instructions", "all");
    let mean = |side: &str| whole[side].as_f64().unwrap();
    let change = mean("value") - mean("value_baseline");
    assert!((sum - change).abs() < 0.01 * change, "{sum} of {change}");
    let filter = functions
        .iter()
        .find(|row| row["symbol"].as_str().unwrap().contains("seccomp"))
        .expect("a function of seccomp");
    assert_eq!(filter["module"], "[kernel]");
    let other = functions.iter().find(|row| row["symbol"] == "[unattributed]").unwrap();
    assert_eq!(other["change"].as_f64(), Some(0.0), "{other:#}");
}

#[test]
fn the_machine_is_told_and_boot_options_that_decide_nothing_are_answered_with_the_reason() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let asked = ["-w", "syscall:ops=2000", "--pairs", "1", "--cpu-model", "max", "--json"];
    let compared = |boots: [&str; 2]| {
        let boots = ["--boot", boots[0], "--boot", boots[1]];
        let ended = guests(&lab, &kernel, &[&asked[..], &boots].concat()).expect(0);
        let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
        crate::schema::check(&shown);
        shown["opcost"].clone()
    };
    let shown = compared(["mitigations=off", "mitigations=auto"]);
    let conclusion = shown["conclusions"][0].as_str().unwrap();
    assert!(
        conclusion.contains("changed the mitigations of spectre_v1 and spectre_v2"),
        "{conclusion}"
    );
    assert!(conclusion.contains("--like skylake asks on a CPU with more faults"), "{conclusion}");
    let told = shown["machine"]["guests"].as_array().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    for guest in told {
        assert_eq!(guest["cpu_model"], "max");
        assert_eq!(guest["mitigations"]["meltdown"], "Not affected", "{guest:#}");
        assert!(guest["page_table_levels"].as_u64() >= Some(4), "{guest:#}");
        assert!(guest["clocksource"].is_string(), "{guest:#}");
    }
    let text = lab.run(&["show", "last"]).expect(0).stdout;
    for line in [
        "\n  CPU max; ",
        "\n  mitigations=off: vulnerable: spectre_v1, spectre_v2\n",
        "\n  mitigations=auto: mitigations: spectre_v1 (",
        "\n  every variant: ",
    ] {
        assert!(text.contains(line), "{line:?}: {text}");
    }
    let unknown = compared(["opcostx=1", "opcostx=2"]);
    let conclusion = unknown["conclusions"][0].as_str().unwrap();
    let why = "the kernel does not know opcostx=1 and opcostx=2";
    assert!(conclusion.contains(why), "{conclusion}");
}

#[test]
fn the_same_work_twice_is_the_same_to_the_last_instruction() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = ["--variant", "one=workload:mmap:ops=300", "--variant", "two=workload:mmap:ops=300"];
    let ended = guests(&lab, &kernel, &[&work[..], &["--json"]].concat()).expect(0);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(shown["opcost"]["state"], "stopped-settled");
    let conclusion = shown["opcost"]["conclusions"][0].as_str().unwrap();
    assert!(conclusion.contains("the same to the instruction"), "{conclusion}");
    for row in shown["opcost"]["metrics"].as_array().unwrap() {
        assert_eq!(row["change_ratio"].as_f64().unwrap_or(0.0), 0.0, "{row:#}");
    }
    let faults = metric(&shown, "page-faults", "all");
    assert!(faults["value"].as_f64().unwrap() > 0.0, "{faults:#}");
}

/// The figures of a measurement: metric, domain and the count of each run.
fn counted(lab: &Lab, args: &[&str]) -> Vec<(String, String, Value)> {
    let all =
        ["measure", "--machine", "emulated", "--seed", "1", "-n", "2", "--warmup", "0", "--json"];
    let shown = lab.run(&[&all, args].concat()).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let is_total = args.contains(&"--no-functions");
    assert_eq!(shown["opcost"]["function_costs"].is_null(), is_total, "{shown:#}");
    let text = |figure: &Value, field: &str| figure[field].as_str().unwrap().to_string();
    let figures = shown["opcost"]["figures"].as_array().unwrap().iter();
    figures
        .map(|figure| (text(figure, "metric"), text(figure, "domain"), figure["values"].clone()))
        .collect()
}

/// Checks that work has the same figures, counted with functions and without.
fn totals_are_the_same(lab: &Lab, args: &[&str]) {
    let whole = counted(lab, args);
    let totals = counted(lab, &[args, &["--no-functions"]].concat());
    assert!(totals.iter().any(|(metric, ..)| metric == "instructions"), "{totals:?}");
    for figure in &totals {
        assert!(whole.contains(figure), "{args:?}: {figure:?} of {whole:?}");
    }
    // Parts of the instructions by context need functions.
    for figure in whole.iter().filter(|(metric, ..)| !metric.starts_with("instructions-")) {
        assert!(totals.contains(figure), "{args:?}: {figure:?} of {totals:?}");
    }
}

#[test]
fn totals_alone_have_the_digits_that_they_have_with_functions() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    for work in [
        &["-w", "syscall:ops=500"][..],
        &["-w", "pipe:ops=100"],
        &["-w", "mmap:ops=100"],
        &["--pack", "/bin/sh", "sh -c 'for i in 1 2 3; do kill -0 $$; echo $i | read j; done'"],
    ] {
        totals_are_the_same(&lab, &[&["--kernel", &kernel], work].concat());
    }
}

#[test]
fn totals_of_programs_without_a_kernel_are_those_with_functions() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    lab.write("data", "some text that repeats itself\n".repeat(2000));
    for work in ["gzip -9 -c data", "sort -r data", "sed s/text/page/ data"] {
        totals_are_the_same(&lab, &["--kernel", "none", work]);
    }
    for (flags, why) in [
        (
            &["--fail-on", "functions"][..],
            "--no-functions counts totals only; leave one of them out",
        ),
        (&["--cycles"], "cannot be used with"),
        (&["--model"], "cannot be used with"),
    ] {
        let asked = ["compare", "--machine", "emulated", "--kernel", "none", "--no-functions"];
        let ended = lab.run(&[&asked[..], flags, &["true", "false"]].concat()).expect(2);
        assert!(ended.stderr.contains(why), "{flags:?}: {}", ended.stderr);
    }
}

#[test]
fn code_is_patched_inside_a_guest_and_counted_to_the_instruction() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let of = |path: &str| format!("pvops:ops=2000,path={path}");
    let work = [of("direct"), of("inlined"), of("unpatched")];
    let args: Vec<&str> = work.iter().flat_map(|work| ["-w", work]).collect();
    let short = ["--pairs", "2", "--warmup", "0", "--json"];
    let ended = guests(&lab, &kernel, &[&args[..], &short].concat()).expect(0);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = shown["opcost"]["metrics"].as_array().unwrap();
    let changes: Vec<f64> = rows
        .iter()
        .filter(|row| row["metric"] == "instructions" && row["domain"] == "user")
        .map(|row| row["value"].as_f64().unwrap() - row["value_baseline"].as_f64().unwrap())
        .collect();
    // Call, operation and return become the operation: 2 fewer in three of four operations. The
    // operation that does nothing leaves a nop: 1 fewer.
    assert!((changes[0] + 7.0).abs() < 0.001, "{changes:?}");
    // An indirect call is one instruction, like a direct call. Instructions that run once for many
    // operations need not be compiled the same.
    assert!(changes[1].abs() < 0.5, "{changes:?}");
}

#[test]
fn paths_exchanged_in_one_process_of_a_guest_are_counted_run_by_run() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = ["-w", "pvops:ops=1000,path=direct", "-w", "pvops:ops=1000,path=inlined"];
    let args = [&["--in-process"], &work[..], &["--pairs", "2", "--json"]].concat();
    let ended = guests(&lab, &kernel, &args).expect(0);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    // The first boot twice, and a boot with two runs of one pair: each run of a boot is a record.
    let starts = lab.column("last", "started_unix_ns");
    let sizes: Vec<usize> =
        starts.chunk_by(|one, other| one == other).map(<[String]>::len).collect();
    assert_eq!(sizes, [2, 2, 2]);
    let user = metric(&shown, "instructions", "user");
    let change = user["value"].as_f64().unwrap() - user["value_baseline"].as_f64().unwrap();
    assert!((change + 7.0).abs() < 0.01, "{user:#}");
    assert_eq!(user["verdict"], "changed", "{user:#}");
    let rules = shown["opcost"]["ledger"].as_array().unwrap();
    let repeatable = rules.iter().find(|entry| entry["rule"] == "repeatable").unwrap();
    assert_eq!(repeatable["severity"], "fine", "{repeatable:#}");
    assert!(repeatable["detail"].as_str().unwrap().contains("in 2 repeated runs"));
    // Functions are named, also on patched pages, and add up.
    let functions = shown["opcost"]["functions"].as_array().unwrap();
    let rest = functions.iter().find(|row| row["symbol"] == "[unattributed]").unwrap();
    assert_eq!(rest["change"].as_f64(), Some(0.0), "{rest:#}");
    let modules: Vec<&Value> = functions.iter().map(|row| &row["module"]).collect();
    assert!(!modules.contains(&&"[unknown]".into()), "{functions:#?}");
    assert!(
        functions.iter().any(|row| row["symbol"].as_str().unwrap().contains("pvops::operations"))
    );
}

#[test]
fn one_path_on_both_sides_of_a_guests_process_is_no_change() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work =
        ["a", "b"].map(|name| format!("--variant={name}=workload:pvops:ops=1000,path=direct"));
    let args = ["--in-process", &work[0], &work[1], "--pairs", "4", "--json"];
    let more = ["--blocks-per-process", "2", "--warmup", "0"];
    let ended = guests(&lab, &kernel, &[&args[..], &more].concat()).expect(0);
    let shown: Value = serde_json::from_str(&ended.stdout).unwrap();
    for row in shown["opcost"]["metrics"].as_array().unwrap() {
        assert_ne!(row["verdict"], "changed", "{row:#}");
    }
}

#[test]
fn a_path_that_the_guests_cpu_cannot_take_fails_the_whole_process() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = ["-w", "copy:ops=10,path=sse2", "-w", "copy:ops=10,path=avx512"];
    let args = [&["--in-process", "--pairs", "2", "--jobs", "1"], &work[..]].concat();
    guests(&lab, &kernel, &args).expect(4).says(&["avx512"]);
    assert_eq!(lab.recordings()[0]["runs"], 2, "the runs of the first process, all failed");
}

/// Processes of QEMU whose command line names the folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .filter(|line| line.contains("qemu") && line.contains(folder))
        .collect()
}

#[test]
fn an_interrupted_recording_goes_on_and_ends_with_the_same_digits() {
    let Some(kernel) = needs::kernel() else { return };
    let compare = |lab: &Lab| {
        let mut command = lab.command(&[
            "compare",
            "--machine",
            "emulated",
            "--kernel",
            &kernel,
            "--seed",
            "1",
            "--pairs",
            "2",
            "--warmup",
            "0",
            "-w",
            "mmap:ops=200",
            "-w",
            "mmap:ops=200,neighbours=50",
            "--prepare",
            "echo run >> prepared",
        ]);
        // All files that guests write are below the lab's folder.
        command.env("TMPDIR", lab.dir());
        command.spawn().unwrap()
    };
    let figures = |lab: &Lab| {
        let shown = lab.json(&["show", "--json"]);
        let rows = shown["opcost"]["metrics"].as_array().unwrap().clone();
        assert!(rows.iter().any(|row| row["change_ratio"].as_f64().is_some_and(|r| r != 0.0)));
        rows
    };
    let whole = Lab::new();
    compare(&whole).end().expect(0);

    let lab = Lab::new();
    let recorder = compare(&lab);
    lab::wait_until("the third run", || {
        (lab.exists("prepared") && lab.lines("prepared").len() >= 3).then_some(())
    });
    recorder.signal(libc::SIGINT);
    recorder.end().expect(130).says(&["interrupted after", "opcost resume"]);
    assert_eq!(processes_in(&lab.dir()), Vec::<String>::new(), "no guest runs on");
    let left = std::fs::read_dir(lab.dir()).unwrap().flatten();
    let left: Vec<_> = left.map(|e| e.file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.starts_with("opcost-")), "{left:?}");
    assert_eq!(lab.recordings()[0]["state"], "interrupted");
    let made = lab.column("last", "run");
    let planned = whole.column("last", "run");
    assert!(made.len() < planned.len(), "{made:?}");
    assert_eq!(made, planned[..made.len()], "what is kept has no gap");

    lab.run(&["resume"]).expect(0);
    assert_eq!(lab.column("last", "run"), planned);
    // Two invocations count the same.
    assert_eq!(figures(&lab), figures(&whole));
}

#[test]
fn a_command_in_a_guest_gives_its_output_and_status() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    lab.write("words", "one\ntwo\nthree\n");
    let args = ["cat words", "sort words", "--pairs", "1", "--warmup", "0", "--show-output"];
    let ended = guests(&lab, &kernel, &args).expect(0);
    assert!(ended.stdout.contains("one\nthree\ntwo"), "{}", ended.stdout);
    let args = ["true", "sh -c 'exit 3'", "--pairs", "1", "--warmup", "0"];
    guests(&lab, &kernel, &args).expect(4).says(&["status 3"]);
}

#[test]
fn processes_that_run_for_the_first_time_are_counted_in_full() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    // Each sleeps on a stack of its own, and the plugin refuses contexts that do not add up to its total.
    let work = format!("sh -c '{} wait'", "sleep 0.05 &".repeat(12));
    let alone = ["--pairs", "1", "--warmup", "0", "--pack-used", "--json"];
    let measure = ["measure", "--machine", "emulated", "--kernel", &kernel, &work];
    let shown = lab.run(&[&measure[..], &alone].concat()).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let figures = shown["opcost"]["figures"].as_array().unwrap();
    let count = |name: &str| {
        let figure = figures.iter().find(|row| row["metric"] == name && row["domain"] == "kernel");
        figure.and_then(|row| row["values"][0].as_f64()).expect(name)
    };
    let parts = ["synchronous", "deferred", "tick"].map(|part| format!("instructions-{part}"));
    assert_eq!(parts.iter().map(|part| count(part)).sum::<f64>(), count("instructions"));
}

#[test]
fn a_connection_is_not_the_kernels_first() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = "bash -c '(: < /dev/tcp/127.0.0.1/1) 2> /dev/null; true'";
    let alone = ["--pairs", "1", "--warmup", "0", "--pack-used", "--json"];
    let measure = ["measure", "--machine", "emulated", "--kernel", &kernel, work];
    let shown = lab.run(&[&measure[..], &alone].concat()).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let functions = shown["opcost"]["function_costs"]["functions"].as_array().unwrap();
    let calls = |symbol: &str| {
        let of_symbol = functions.iter().filter(|row| row["symbol"] == symbol);
        of_symbol.filter_map(|row| row["calls"].as_f64()).sum::<f64>()
    };
    assert_eq!(calls("tcp_v4_connect"), 1.0, "{functions:#?}");
    // The first connection of a boot draws 4,096 blocks of random numbers.
    assert!(calls("chacha_permute") < 1000.0, "{}", calls("chacha_permute"));
}

#[test]
fn what_goes_wrong_in_a_guest_is_named() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let short = ["--pairs", "1", "--warmup", "0"];
    let fails = |args: &[&str], parts: &[&str]| {
        guests(&lab, &kernel, &[args, &short].concat()).expect(4).says(parts);
    };
    let work = ["-w", "syscall:ops=10", "-w", "syscall:ops=20"];
    // Without --fresh-boots, a failing boot is tried twice: once to keep its state.
    let panics = ["--boot", "rdinit=/nothing", "--fresh-boots"];
    fails(&[&work[..], &panics].concat(), &["panic"]);
    let endless = ["sh -c 'while :; do :; done'", "sh -c 'while :; do true; done'"];
    fails(&[&endless[..], &["--timeout", "1s"]].concat(), &["1 s", "stopped"]);
    lab.write(
        "hungry.c",
        "#include <stdlib.h>\n#include <string.h>\n\
         int main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }\n",
    );
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-o", "hungry", "hungry.c"]).current_dir(lab.dir());
    assert!(gcc.status().unwrap().success());
    fails(&["true", "./hungry", "--memory-mib", "96"], &["signal 9"]);
    // No incomplete count was kept.
    let shown = lab.run(&["show", "last", "--format", "csv"]).stdout;
    let failed = shown.lines().find(|line| line.contains("hungry")).expect("the failed run");
    assert!(failed.ends_with(",,,,,,,,"), "{failed}");
}

#[test]
fn work_on_a_disk_is_counted_and_a_refused_mount_is_in_the_kernels_words() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = ["-w", "fileio:phase=write,ops=64,mib=1,dir=/disk,fsync=on"];
    let short = ["--pairs", "1", "--warmup", "0", "--primary", "instructions:k", "--json"];
    let on = |disks: [&str; 2]| {
        let disks = ["--disk", disks[0], "--disk", disks[1]];
        guests(&lab, &kernel, &[&work[..], &disks, &short].concat())
    };
    let refused = on(["ext4:16M", "ext4,data=lunch:16M"]).expect(4);
    if refused.stderr.contains("this kernel has no /dev/ram0 for a disk") {
        refused.says(&["it needs CONFIG_BLK_DEV_RAM (kernels/disk.config"]);
        return crate::skip::skip!("the kernel of OPCOST_TEST_KERNEL has no RAM disk");
    }
    refused.says(&["does not mount ext4 with the options 'data=lunch'", "the kernel says: "]);
    let shown = on(["ext4:16M", "ext2,noatime:16M"]).expect(0).stdout;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(metric(&shown, "instructions", "kernel")["variant"], "ext2,noatime:16M");
    let functions = shown["opcost"]["functions"].as_array().unwrap();
    let named = |begin: &str| {
        functions
            .iter()
            .any(|row| row["symbol"].as_str().is_some_and(|name| name.starts_with(begin)))
    };
    assert!(named("ext4_") && named("jbd2_"), "{functions:#?}");
}

#[test]
fn a_guest_without_a_compiler_or_room_for_it_is_refused_before_it_starts() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let refused = |work: [&str; 2], more: &[&str], status, parts: &[&str]| {
        let args = ["-w", work[0], "-w", work[1], "--pairs", "2"];
        guests(&lab, &kernel, &[&args[..], more].concat()).expect(status).says(parts);
        assert!(lab.recordings().is_empty(), "nothing was run");
    };
    let none = ["build:cc=no-such-compiler", "build:cc=no-such-compiler,jobs=2"];
    refused(none, &[], 5, &["no C compiler 'no-such-compiler'", "apt install gcc"]);
    lab.script("cc", "exit 0");
    let silent = format!("build:cc={}", lab.path("cc").display());
    let parts =
        ["/cc cannot be packed: asked with -### what it starts, it said ''", "gcc or clang"];
    refused([&silent, &format!("{silent},jobs=2")], &[], 5, &parts);
    if !needs::programs(&["cc"]) {
        return;
    }
    let parts = ["are packed into the guest", "its memory of 64 MiB", "give it --memory-mib"];
    refused(["build", "build:jobs=2"], &["--memory-mib", "64"], 2, &parts);
}

#[test]
fn a_file_that_is_no_kernel_is_refused_before_anything_runs() {
    if !needs::machine() {
        return;
    }
    let lab = Lab::new();
    let ended = guests(&lab, "/bin/true", &["-w", "syscall:ops=10", "-w", "syscall:ops=20"]);
    assert!(matches!(ended.status, Some(2 | 5)), "{ended:?}");
    ended.says(&["/bin/true", "ELF"]);
    assert!(!lab.store().exists());
}

#[test]
fn programs_are_counted_without_a_kernel() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    lab.write("data", "some text that repeats itself\n".repeat(2000));
    let args = [&ALONE[..], &["gzip -1 -c data", "gzip -9 -c data"]].concat();
    let args = [&args[..], &["--pairs", "7", "--json", "--seed", "1"]].concat();
    let shown = lab.json(&args);
    let row = metric(&shown, "instructions", "user");
    assert_eq!(row["verdict"], "changed", "{row:#}");
    assert!(row["change_ratio"].as_f64().unwrap() > 0.0);
    let functions = shown["opcost"]["functions"].as_array().unwrap();
    assert!(functions.iter().any(|row| row["module"].as_str().unwrap().ends_with("gzip")));
    // Without a kernel, QEMU's complaint about a CPU comes where the program's own would.
    for (cpu, what) in [("nosuch", "CPU model 'nosuch'"), ("max,-nosuch", "nosuch' not found")] {
        let args = [&ALONE[..], &["true", "false", "--pairs", "2", "--cpu-model", cpu]].concat();
        lab.run(&args).expect(2).says(&[&format!("CPU '{cpu}': "), what, "-cpu help"]);
    }
}

#[test]
fn what_a_failed_run_printed_is_kept_on_each_machine() {
    let lab = Lab::new();
    let failing = "sh -c 'echo boom >&2; exit 3'";
    let run = |kernel: &str| {
        let args = ["measure", failing, "--machine", "emulated", "--kernel", kernel, "-n", "1"];
        let parts = ["status 3", "on standard error it printed:\n  boom"];
        lab.run(&[&args[..], &["--pack-only"]].concat()).expect(4).says(&parts);
    };
    if needs::emulator() {
        run("none");
    }
    needs::kernel().iter().for_each(|kernel| run(kernel));
}

/// User-mode emulation ends by the program's signal, without a kernel that would log the place.
#[test]
fn an_instruction_that_the_cpu_lacks_is_named_without_a_kernel() {
    if !needs::emulator() || !needs::programs(&["gcc"]) {
        return;
    }
    let lab = Lab::new();
    // vpaddd zmm0, zmm1, zmm2
    let asm = r#"__asm__ volatile(".byte 0x62,0xf1,0x75,0x48,0xfe,0xc2")"#;
    lab.write(
        "main.c",
        format!("int main(int n, char **v) {{ (void)v; if (n > 1) {asm}; return 0; }}"),
    );
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-o", "prog", "main.c"]).current_dir(lab.dir());
    assert!(gcc.status().unwrap().success());
    let run = |line: &str| {
        lab.run(&["measure", line, "--machine", "emulated", "--kernel", "none", "-n", "1"])
    };
    let parts =
        ["it executed 'vpaddd zmm0,zmm1,zmm2' at 0x", "which needs AVX512F", "-march=x86-64-v3"];
    run("./prog x").expect(4).says(&parts);
    run("./prog").expect(0);
}

/// A program of musl needs musl's own loader, and a library that is found by its search path alone.
#[test]
fn dynamic_programs_of_musl_run_in_a_guest() {
    let Some(kernel) = needs::kernel() else { return };
    if !needs::programs(&["musl-gcc"]) {
        return;
    }
    let lab = Lab::new();
    lab.write("a.c", "int a(int of) { return of * 2; }\n");
    lab.write("main.c", "int a(int); int main(int n, char **v) { (void)v; return a(n) - 2; }\n");
    std::fs::create_dir(lab.path("own")).unwrap();
    let compile = |arguments: &[&str]| {
        let mut gcc = Command::new("musl-gcc");
        assert!(gcc.args(arguments).current_dir(lab.dir()).status().unwrap().success());
    };
    compile(&["-shared", "-fPIC", "-o", "own/liba.so", "a.c"]);
    compile(&["main.c", "-o", "prog", "-Lown", "-la", "-Wl,-rpath,$ORIGIN/own"]);
    let args = ["measure", "./prog", "--machine", "emulated", "--kernel", &kernel, "-n", "1"];
    let shown = lab.json(&[&args[..], &["--pack-only", "--json"]].concat());
    let profile = lab.output(&["show", "last", "--export-folded", "-", "--variant", "./prog"]);
    assert!(profile.contains("liba.so") && profile.contains("libc.so"), "{profile}");
    let answer = shown["opcost"]["conclusions"][0].as_str().unwrap();
    assert!(answer.starts_with("./prog: instructions "), "{answer}");
}

#[test]
fn a_second_thread_in_user_mode_is_refused_with_the_remedy() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    lab.write(
        "threads.c",
        "#include <pthread.h>\nstatic void *f(void *p) { return p; }\n\
         int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); return pthread_join(t, 0); }\n",
    );
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-pthread", "-o", "threads", "threads.c"]).current_dir(lab.dir());
    assert!(gcc.status().unwrap().success());
    let args = [&ALONE[..], &["true", "./threads", "--pairs", "2"]].concat();
    lab.run(&args).expect(4).says(&["thread", "--kernel"]);
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let lab = Lab::new();
    lab.script("bin/here", "exit 0");
    let args = [&ALONE[..], &["here", "here x", "--pairs", "2"]].concat();
    let mut without_qemu = lab.command(&args);
    let ended = without_qemu.env("PATH", lab.path("bin")).spawn().unwrap().end();
    ended.expect(5).says(&["qemu-x86_64 is not installed", "qemu-user"]);

    lab.script("bin/qemu-x86_64", "echo qemu-x86_64 version 5.2.0");
    let mut old = lab.command(&args);
    let ended = old.env("PATH", lab.path("bin")).spawn().unwrap().end();
    ended.expect(5).says(&["version 5.2.0", "7.2 or later"]);

    lab.script("bin/qemu-x86_64", "echo qemu-x86_64 version 99.0.0");
    let mut bare = lab.command(&args);
    bare.env("PATH", lab.path("bin")).env("OPCOST_LIBEXEC", lab.dir());
    let ended = bare.spawn().unwrap().end();
    ended.expect(5).says(&["libopcost_emu.so", "script/build", "OPCOST_LIBEXEC"]);
}

#[test]
fn a_plugin_that_the_emulator_refuses_is_named() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    lab.write("parts/libopcost_emu.so", "no library");
    lab.write("parts/opcost-guest", "");
    let args = [&ALONE[..], &["true", "true ", "--pairs", "2"]].concat();
    let mut refused = lab.command(&args);
    refused.env("OPCOST_LIBEXEC", lab.path("parts")).env("XDG_CACHE_HOME", lab.path("cache"));
    let ended = refused.spawn().unwrap().end();
    ended.expect(5).says(&["self-test", "libopcost_emu.so"]);
    assert!(!lab.exists("cache/opcost/probes"), "nothing was learnt");
}

#[test]
fn the_self_test_finds_one_count_in_ten_thousand() {
    // The self-test's programs run in a guest of the kernel for commands, which script/test has built.
    if !needs::all() || needs::kernel().is_none() {
        return;
    }
    // One report of each kind is too few to pass.
    let found = Lab::new().run(&[
        "selftest",
        "--machine",
        "emulated",
        "--seconds",
        "0.001",
        "--seed",
        "1",
        "-n",
        "7",
        "--json",
    ]);
    let found: serde_json::Value = serde_json::from_str(&found.expect(3).stdout).unwrap();
    assert_eq!((&found["needed"], &found["same"]["alarms"]["count"]), (&17.into(), &0.into()));
    assert_eq!(found["failures"], serde_json::json!([]));
    let planted = &found["planted"][0];
    assert_eq!(planted["change_ratio"], 0.0001);
    assert_eq!((&planted["found"]["count"], &planted["found"]["of"]), (&1.into(), &1.into()));
    // One number in 10,000 is added; the program's start, half of the count in a guest, lowers the share.
    let estimate = planted["estimate_ratio"].as_f64().unwrap();
    assert!(0.00004 < estimate && estimate < 0.0001, "{estimate}");
}

/// Measures a program by itself twice, and compares both recordings.
#[test]
fn a_program_is_counted_by_itself_and_against_another_recording_of_it() {
    if !needs::emulator() {
        return;
    }
    let lab = Lab::new();
    let measured = |seed: &str| {
        let args = [
            "measure",
            "--machine",
            "emulated",
            "--kernel",
            "none",
            "seq 300",
            "--seed",
            seed,
            "--json",
        ];
        lab.json(&args)
    };
    let (one, two) = (measured("1"), measured("1"));
    assert_eq!(one["opcost"]["plan"]["pairs"], 6);
    let costs = &one["opcost"]["function_costs"];
    assert_eq!((&costs["kind"], &costs["unit"]), (&"counted".into(), &"instructions".into()));
    let functions = costs["functions"].as_array().unwrap().iter();
    let sum: f64 = functions.map(|row| row["value"].as_f64().unwrap()).sum();
    let total = costs["total"].as_f64().unwrap();
    let rest = costs["unattributed"].as_f64().unwrap();
    assert!((sum + rest - total).abs() < 1e-6 * total, "{sum} and {rest} are not {total}");
    let id = |shown: &Value| shown["opcost"]["recording"].as_str().unwrap().to_string();
    // The same seed gives the same runs.
    let document = lab.json(&["diff", &id(&one), &id(&two), "--json"]);
    for row in document["metrics"].as_array().unwrap() {
        assert_eq!(row["verdict"], "unchanged", "{row:#}");
        assert_eq!(row["value_baseline"], row["value"], "{row:#}");
    }
    assert_eq!(document["total"]["change"], 0.0);
    let text = lab.output(&["diff", &id(&one), &id(&two)]);
    assert!(!text.contains("different times"), "counts know no drift: {text}");
}

#[test]
fn the_parts_of_the_kernels_work_add_up_and_a_short_run_has_a_tick_or_none() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let work = ["measure", "--machine", "emulated", "--kernel", &kernel, "--seed", "1"];
    let short = ["-w", "mmap:ops=550", "-n", "8", "--warmup", "0", "--format", "csv"];
    let text = lab.run(&[&work[..], &short].concat()).expect(0).stdout;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let column = |name: &str| heads.iter().position(|head| head == name).expect(name);
    let parts = ["synchronous", "deferred", "tick"]
        .map(|part| column(&format!("emulator instructions-{part}:k")));
    let (kernel, left) =
        (column("emulator instructions:k"), column("emulator instructions-deferred-after:k"));
    let (mut totals, mut synchronous) = (Vec::new(), Vec::new());
    for row in reader.records() {
        let row = row.unwrap();
        let count = |place: usize| row[place].parse::<u64>().unwrap();
        let [asked, deferred, tick] = parts.map(count);
        assert_eq!(asked + deferred + tick, count(kernel), "{row:?}");
        // Page tables and the kernel's descriptions of mappings are freed by RCU.
        assert!(count(left) + deferred > 0, "{row:?}");
        totals.push(count(kernel));
        synchronous.push(asked);
    }
    assert_eq!(totals.len(), 8);
    // A region of three quarters of a tick has a tick now and then, since it begins anywhere within one.
    let with_tick = synchronous.iter().zip(&totals).filter(|(asked, total)| asked < total).count();
    assert!((1..8).contains(&with_tick), "{synchronous:?} of {totals:?}");
}
