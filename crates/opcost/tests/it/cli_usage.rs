//! Mistakes on the command line: status 2 (or 5), and a message that helps.

use crate::lab::{self, Lab, Started};

/// Runs opcost in a fresh lab; asserts that it is refused with these words and records nothing.
#[track_caller]
fn check(args: &[&str], status: i32, parts: &[&str]) {
    let lab = Lab::new();
    let ended = lab.run(args).expect(status).says(parts);
    assert_eq!(ended.stdout, "");
    assert!(!lab.store().exists(), "a store was made");
}

#[test]
fn two_variants_are_needed() {
    check(&["compare"], 2, &["two or more variants", "0 given"]);
    check(&["compare", "true"], 2, &["two or more variants", "1 given"]);
    check(&["compare", "-w", "syscall"], 2, &["1 given", "repeat --workload"]);
}

#[test]
fn commands_and_workloads_do_not_mix() {
    check(&["compare", "true", "-w", "syscall"], 2, &["same kind of work", "command", "syscall"]);
    check(&["compare", "-w", "mmap", "-w", "syscall"], 2, &["same kind of work", "mmap"]);
}

#[test]
fn a_command_must_have_words() {
    check(&["compare", "", "true"], 2, &["variant 1", "the command is empty"]);
    check(&["compare", "true", "''"], 2, &["variant 2", "the command is empty"]);
    check(&["compare", "true", "echo 'a"], 2, &["variant 2", "unbalanced quotes", "echo 'a"]);
    check(&["compare", "true", "echo \\"], 2, &["variant 2", "lone backslash"]);
}

#[test]
fn names_must_differ() {
    let twice = ["compare", "--variant", "a=true", "--variant", "a=false"];
    check(&twice, 2, &["two variants are named 'a'"]);
    check(&["compare", "true", "--variant", "true"], 2, &["--variant true", "NAME=SPEC"]);
    check(&["compare", "true", "--variant", "=true"], 2, &["NAME=SPEC"]);
}

#[test]
fn unknown_workloads_and_parameters_get_the_nearest_name() {
    check(&["compare", "-w", "sysall", "-w", "mmap"], 2, &["'sysall'", "did you mean", "syscall"]);
    check(
        &["compare", "-w", "syscall:opps=3", "-w", "syscall"],
        2,
        &["'opps'", "did you mean 'ops'?", "it has: ops, seccomp, procs"],
    );
    check(
        &["compare", "-w", "syscall:ops=zero", "-w", "syscall"],
        2,
        &["ops=zero", "accepted: 1..=1000000000000"],
    );
    check(&["compare", "-w", "mmap:touch=1.5", "-w", "mmap"], 2, &["touch=1.5", "accepted"]);
    check(&["compare", "-w", "syscall:ops", "-w", "mmap"], 2, &["'ops' is not KEY=VALUE"]);
    check(&["compare", "-w", "syscall:ops=1,ops=2", "-w", "mmap"], 2, &["ops is given twice"]);
}

#[test]
fn unknown_events_and_metrics_get_the_nearest_name() {
    check(&["compare", "true", "false", "-e", "page-fauls"], 2, &["page-fauls", "page-faults"]);
    check(&["compare", "true", "false", "-e", "nonsense"], 2, &["nonsense", "opcost list events"]);
    check(&["compare", "true", "false", "--primary", "wal"], 2, &["--primary", "'wal'", "wall"]);
    check(&["compare", "true", "false", "--primary", "steal"], 2, &["--primary steal"]);
}

#[test]
fn a_primary_metric_that_cannot_be_counted_here_is_missing_with_the_reason() {
    let lab = Lab::new();
    let events = lab.json(&["list", "events", "--json"]);
    let cycles = events.as_array().unwrap().iter().find(|event| event["name"] == "cycles").unwrap();
    if cycles["available"] == true {
        crate::skip::skip!("this machine counts cycles");
        return;
    }
    let reason = cycles["reason"].as_str().unwrap();
    let remedy = cycles["remedy"].as_str().unwrap();
    let parts = ["the primary metric cycles cannot be counted here", reason, remedy];
    check(&["compare", "true", "false", "--primary", "cycles"], 5, &parts);
}

#[test]
fn rules_of_the_ledger_are_known_by_name() {
    let parts = ["--allow invariant", "invariants", "machine", "steal"];
    check(&["compare", "true", "false", "--allow", "invariant"], 2, &parts);
    check(&["show", "--allow", "invariant"], 2, &parts);
}

#[test]
fn numbers_must_be_in_range() {
    check(&["compare", "true", "false", "--pairs", "0"], 2, &["--pairs 0", "2 to 1,000,000"]);
    check(&["compare", "true", "false", "-n", "1"], 2, &["--pairs 1", "2 to 1,000,000"]);
    check(&["compare", "true", "false", "--runs", "-4"], 2, &["-4"]);
    check(&["compare", "true", "false", "--warmup", "4000000000"], 2, &["--warmup", "1,000,000"]);
    check(&["compare", "true", "false", "--seed", "18446744073709551615"], 2, &["--seed"]);
    check(&["compare", "true", "false", "--timeout", "0s"], 2, &["out of range", "1ms"]);
    check(&["compare", "true", "false", "--timeout", "5 parsecs"], 2, &["parsecs", "30s"]);
    check(&["compare", "true", "false", "--cpu", "100000"], 2, &["--cpu 100000", "choose one"]);
}

#[test]
fn words_must_be_known() {
    check(&["compare", "true", "false", "--aslr", "off"], 2, &["off", "fixed", "randomised"]);
    check(&["compare", "true", "false", "--environment", "x"], 2, &["inherit", "fixed"]);
    check(&["compare", "true", "false", "--machine", "cloud"], 2, &["cloud", "host"]);
    check(&["compare", "true", "false", "--format", "xml"], 2, &["xml", "json", "benchfmt"]);
    check(&["compare", "true", "false", "--fail-on", "x"], 2, &["regression"]);
    check(&["compare", "true", "false", "--env", "NOVALUE"], 2, &["--env NOVALUE", "KEY=VALUE"]);
    check(&["compare", "true", "false", "--perfect"], 2, &["--perfect"]);
    check(&["compile"], 2, &["compile"]);
    check(&["list", "kernels"], 2, &["workloads", "events", "recordings"]);
    check(&["compare", "true", "false", "--seed", "rand"], 2, &["--seed", "or random"]);
}

#[test]
fn without_arguments_there_is_help() {
    let ended = Lab::new().run(&[]).expect(0);
    assert!(ended.stdout.contains("Usage: opcost") && ended.stderr.is_empty(), "{}", ended.stderr);
    assert!(!ended.stdout.contains("work-process"), "{}", ended.stdout);
}

#[test]
fn exports_are_checked_before_anything_runs() {
    for format in ["json", "csv", "markdown", "benchfmt", "text"] {
        let flag = format!("--export-{format}");
        let args = ["compare", "sh -c 'echo ran > ran'", "true", &flag, "none/file"];
        let lab = Lab::new();
        lab.run(&args).expect(2).says(&[&flag, "none/file", "there is no folder 'none'"]);
        assert!(!lab.exists("ran") && !lab.store().exists());
        let args = ["compare", "sh -c 'echo ran > ran'", "true", &flag, "."];
        lab.run(&args).expect(2).says(&[&flag, "it is a folder; name a file"]);
        let other = if format == "text" { "--export-csv" } else { "--export-text" };
        let args = ["compare", "sh -c 'echo ran > ran'", "true", &flag, "one", other, "one"];
        lab.run(&args).expect(2).says(&[&flag, other, "both name 'one'"]);
        assert!(!lab.exists("ran") && !lab.store().exists());
    }
}

#[test]
fn a_working_directory_must_be_one() {
    check(&["compare", "true", "false", "--cwd", "nowhere"], 2, &["nowhere", "not a directory"]);
}

#[test]
fn the_process_for_workloads_is_not_for_users() {
    let lab = Lab::new();
    // Descriptors 3 and 4 are closed, whatever this test inherited.
    let line = "exec $OPCOST work-process 3<&- 4>&-";
    let ended = lab.shell(line).spawn().unwrap().end();
    ended.expect(2).says(&["opcost compare --workload NAME"]);
    assert!(!lab.output(&["--help"]).contains("work-process"), "it is hidden");
}

#[test]
fn a_store_must_have_a_name() {
    let lab = Lab::new();
    lab.run(&["--store", "", "list", "recordings"]).expect(2).says(&["--store"]);
}

#[test]
fn a_folder_for_the_store_is_made_only_where_it_is_the_default() {
    let lab = Lab::new();
    let typo = lab.path("no/store.sqlite");
    let ended = lab.run(&[&["--store", typo.to_str().unwrap()][..], &lab::TINY].concat());
    ended.expect(5).says(&["cannot be created: there is no folder", "make it"]);
    assert!(!lab.path("no").exists());
}

#[test]
fn bare_commands_are_compared_and_words_behind_dashes_are_one_command() {
    let lab = Lab::new();
    let few = ["-q", "-n", "2", "--warmup=0"];
    let shown = lab.json(&[&["true a", "true b", "--json"], &few[..]].concat());
    assert_eq!(shown["results"][1]["command"], "true b");
    for verb in [&[][..], &["measure"]] {
        lab.run(&[verb, &few, &["--", "sh", "-c", "exit $0", "0"]].concat()).expect(0);
    }
    check(&["measure", "--shell", "--", "echo", "a"], 2, &["a shell takes one line"]);
    check(&["true", "false", "-r", "10"], 2, &["there is no -r; give -n N"]);
    check(&["comapre", "true a", "true b"], 2, &["did you mean opcost compare?"]);
    check(
        &["compare", "-w", "3", "true"],
        2,
        &["unknown workload '3'; warm-up runs are --warmup N"],
    );
}

#[test]
fn shell_syntax_without_a_shell_gets_a_hint() {
    check(&["compare", "cd /", "true"], 4, &["cd is built into shells", "add --shell"]);
    let ended = Lab::new().run(&["measure", "cd /"]).expect(4);
    assert!(!ended.stderr.contains("full path"), "{}", ended.stderr);
    check(&["compare", "cd /", "true", "--shell", "none"], 4, &["cd is built into shells"]);
    check(&["compare", "cd / && true", "true"], 4, &["cd", "&& as written", "--shell"]);
    let lab = Lab::new();
    let measured = lab.output(&["measure", "-n", "2", "--warmup=0", "echo $HOME | wc"]);
    let line = measured.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        line.contains("no shell ran the commands, so they got $HOME in 'echo $HOME | wc'"),
        "{measured}"
    );
    let quoted = lab.output(&["measure", "-n", "2", "--warmup=0", "echo '$HOME | wc'"]);
    assert!(!quoted.contains("no shell"), "{quoted}");
    let through = lab.output(&["measure", "-n", "2", "--warmup=0", "--shell", "echo $HOME | wc"]);
    assert!(!through.contains("no shell"), "{through}");
    let failing = ["measure", "-n", "2", "--warmup=0", "ls /none/*"];
    lab.run(&failing).expect(4).says(&["it gets * as written", "--shell"]);
    // The command's own shell acts on its script.
    let script = ["measure", "-n", "2", "--warmup=0", "sh -c \"ls /none $(echo)\""];
    let failed = lab.run(&script).expect(4);
    assert!(!failed.stderr.contains("shell"), "{}", failed.stderr);
}

#[test]
fn a_width_that_means_more_than_it_says_is_refused() {
    check(&["compare", "true", "false", "--until-width", "1"], 2, &["it means 100%", "1%"]);
}

#[test]
fn the_table_for_users_of_hyperfine_names_options_that_there_are() {
    let table = include_str!("../../../../docs/hyperfine.md");
    let help = Lab::new().run(&["compare", "--help"]).expect(0).stdout;
    let ours = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').nth(1));
    let mut options = 0;
    for name in ours.flat_map(|cell| cell.split('`')).flat_map(|text| text.split([' ', '=', ','])) {
        if name.starts_with("--") {
            options += 1;
            let stands = help.split([' ', '=', ',', '[', ']', '\n']).any(|word| word == name);
            assert!(stands, "{name} is no option of opcost compare");
        }
    }
    assert!(options > 25, "{options}");
    // If a cell is empty, the table gives the reason.
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    for cells in rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>()) {
        assert!(cells[2] != "–" || !cells[3].is_empty(), "no reason: {cells:?}");
    }
}
