//! opcost in a terminal: commands that want the terminal, and the documents' command lines.

use crate::gate::Yard;
use crate::lab::{Ended, Lab, Started, root};
use crate::needs;
use unicode_width::UnicodeWidthStr;

/// Runs its arguments in a terminal, prints what appears there, and ends as they do.
const IN_TERMINAL: &str = "
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
";

/// Runs a line of the shell, in which `opcost` is the program under test, in a terminal of so many columns; standard output is what
/// appears there.
fn in_terminal(lab: &Lab, line: &str, columns: u32) -> Ended {
    let inner = format!("stty cols {columns} rows 40\nopcost() {{ \"$OPCOST\" \"$@\"; }}\n{line}");
    let mut command = lab.shell("exec python3 -c \"$IN_TERMINAL\" /bin/sh -ec \"$INNER\"");
    command.env("IN_TERMINAL", IN_TERMINAL).env("INNER", inner).env_remove("COLUMNS");
    command.env("TERM", "xterm");
    command.spawn().unwrap().end()
}

#[test]
fn a_command_that_wants_the_terminal_does_not_hang() {
    if !needs::programs(&["python3", "bash", "stty"]) {
        return;
    }
    let lab = Lab::new();
    let line = "opcost compare -q -n 3";
    let shown = format!("{line} --show-output 'bash -i -c true' true");
    let ended = in_terminal(&lab, &shown, 100).expect(0);
    assert!(ended.stdout.contains("task-clock"), "{}", ended.stdout);
    let asks = r#"python3 -c \"open('/dev/tty').readline()\""#;
    for command in ["stty -F /dev/tty sane", asks] {
        let ended = in_terminal(&lab, &format!("{line} \"{command}\" true"), 100).expect(4);
        assert!(ended.stdout.contains("No such device or address"), "{}", ended.stdout);
        assert!(ended.stdout.contains("it ended with status 1"), "{}", ended.stdout);
        assert!(ended.stdout.contains("A run has no terminal; give it one"), "{}", ended.stdout);
    }
}

#[test]
fn a_gate_draws_one_line() {
    let Some((kernel, _)) = needs::counter() else { return };
    if !needs::programs(&["python3", "stty"]) {
        return;
    }
    let suite = format!(
        "kernel = '{kernel}'\nmetric = 'instructions:u'\n[case.one]\ncommand = 'true'\n[case.two]\ncommand = 'true'\n"
    );
    let Some(yard) = Yard::new(&suite) else { return };
    yard.commit("Two");
    let folder = yard.lab.path("repository").display().to_string();
    let line = format!("cd '{folder}'; opcost gate --base HEAD~1 >report");
    let ended = in_terminal(&yard.lab, &line, 80).expect(0);
    let drawn: Vec<String> = ended.stdout.split('\r').map(plain).collect();
    for part in ["counting one", "counting two on the base"] {
        assert!(drawn.iter().any(|text| text.contains(part)), "{part}: {drawn:#?}");
    }
    // A second line would follow the first one or break the terminal's.
    let both = drawn.iter().find(|text| text.contains('\n') || text.width() > 80);
    assert_eq!(both, None);
}

/// Runs its arguments in a terminal that hangs up after the first bytes appear there, and prints how they ended.
const HANGS_UP: &str = "
import os, pty, signal, sys
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
os.read(terminal, 1)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

#[test]
fn a_terminal_that_hangs_up_ends_opcost() {
    if !needs::programs(&["python3"]) {
        return;
    }
    let lab = Lab::new();
    let hang_up = |line: &str| {
        let mut command = lab.shell(&format!("exec python3 -c \"$HANGS_UP\" \"$OPCOST\" {line}"));
        command.env("HANGS_UP", HANGS_UP).env("TERM", "xterm");
        command.spawn().unwrap().end().expect(0).stdout
    };
    // Interrupted, or its table could not be written.
    let ended = hang_up("compare -n 2000 'sleep 0.01' true");
    assert!(["130", "5"].contains(&ended.trim()), "{ended}");
    assert_eq!(lab.json(&["list", "recordings", "--json"])[0]["state"], "interrupted");
    if lab.run(&["top", "--batch", "1", "--delay", "0.1"]).status == Some(0) {
        assert_eq!(hang_up("top").trim(), "0");
    }
}

#[test]
fn a_command_that_is_stopped_is_killed_and_named() {
    let lab = Lab::new();
    let stops = lab.run(&["compare", "-n", "3", "--shell=sh", "kill -STOP $$", "true"]).expect(4);
    stops.says(&["signal 19 (SIGSTOP) stopped it"]);
}

/// Columns of the terminals in which the documents' lines run.
const WIDTHS: [u32; 3] = [60, 80, 120];

/// The pages whose lines run here.
const PAGES: [&str; 2] =
    [include_str!("../../../../docs/hyperfine.md"), include_str!("../../../../docs/guide.md")];

/// Lines that do not run here, by what they contain, and why.
const ELSEWHERE: [(&str, &str); 7] = [
    ("hyperfine --warmup", "is what opcost's line beside it replaces"),
    ("show --variant NAME", "has a name of the reader's own"),
    ("opcost diff ID ID", "has two recordings of the reader's own: tests/it/across.rs"),
    ("opcost attach PID", "changes a program that runs: tests/it/attach.rs"),
    ("opcost selftest", "takes minutes: tests/it/selftest.rs"),
    ("stress-ng", "needs a kernel from the network: script/test-kernels"),
    ("experiments/file-io.toml", "needs two kernels from the network: script/test-kernels"),
];

/// The command lines of a page: in its blocks, and between backticks in its text.
fn lines(page: &str) -> Vec<String> {
    let is_command =
        |line: &&str| ["opcost ", "hyperfine "].iter().any(|name| line.starts_with(name));
    let mut found = Vec::new();
    for (at, part) in page.split("```").enumerate() {
        // Every second part between fences is a block.
        let text = part.replace(if at % 2 == 1 { "\\\n" } else { "\n" }, " ");
        match at % 2 {
            1 => found.extend(text.lines().filter(is_command).map(str::to_string)),
            _ => found
                .extend(text.split('`').skip(1).step_by(2).filter(is_command).map(str::to_string)),
        }
    }
    let without_remark = |line: String| line.split("  #").next().unwrap().trim_end().to_string();
    found.into_iter().map(without_remark).collect()
}

/// The lines of all pages that run here.
fn walked() -> Vec<String> {
    let all: Vec<String> = PAGES.into_iter().flat_map(lines).collect();
    for (part, why) in ELSEWHERE {
        assert!(all.iter().any(|line| line.contains(part)), "no line has '{part}', which {why}");
    }
    let is_here = |line: &String| ELSEWHERE.iter().all(|(part, _)| !line.contains(part));
    let here: Vec<String> = all.iter().filter(|line| is_here(line)).cloned().collect();
    assert_eq!(all.len() - here.len(), ELSEWHERE.len(), "every reason is of one line");
    here
}

/// Runs lines of the pages, each with the columns of its terminal.
fn walk(turns: impl Iterator<Item = (String, u32)>) {
    if !needs::programs(&["python3", "gzip", "sort", "stty"]) {
        return;
    }
    let lab = Lab::new();
    for name in ["file", "data", "few", "many"] {
        lab.write(name, (0..500).map(|n| format!("{}\n", n * 7919 % 500)).collect::<String>());
    }
    lab.write("builds/Makefile", "all:\n");
    for name in ["a", "b", "old", "new", "builds/old/prog", "builds/new/prog"] {
        lab.write(name, "");
        lab.script(name, "echo total number of events: 10");
    }
    std::os::unix::fs::symlink(root().join("experiments"), lab.path("experiments")).unwrap();
    for (line, columns) in turns {
        // The pages' lines measure for seconds.
        let measures = ["compare", "run", "'a' 'b'"]
            .iter()
            .any(|word| line.starts_with(&format!("opcost {word}")));
        let few = if measures && !line.contains("--pairs") { " -n 5" } else { "" };
        // In one line, `old` is a folder.
        let folder = if line.contains("/prog") { "cd builds; " } else { "" };
        let line = line.replace(" ID", " last").replace("--pairs 14", "-n 5");
        let given = format!("PATH=$PATH:.; rm -f x.toml; {folder}{line}{few}");
        let ended = in_terminal(&lab, &given, columns);
        // Where nothing counts instructions, a limit on them is refused.
        let is_refused = ended.status == Some(5) && line.contains("--fail-on 'instructions");
        let is_fine = is_refused || [Some(0), Some(1), Some(3)].contains(&ended.status);
        assert!(is_fine, "{columns} columns: {line}\n{ended:#?}");
        // A line that the next one overwrites may not be wider either. The terminal breaks messages.
        let is_message =
            |shown: &str| ["opcost: ", " will take about "].iter().any(|part| shown.contains(part));
        let wide = |shown: &&str| !is_message(shown) && plain(shown).width() > columns as usize;
        let wide: Vec<&str> = ended.stdout.split(['\r', '\n']).filter(wide).collect();
        assert!(wide.is_empty(), "{columns} columns: {line}: wider are {wide:#?}");
    }
}

/// A line without what colours and erases it.
fn plain(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_string();
    let rest =
        |part: &str| part.trim_start_matches(|c: char| !c.is_ascii_alphabetic())[1..].to_string();
    parts.fold(first, |text, part| text + &rest(part))
}

#[test]
fn the_lines_of_the_pages_run_in_a_terminal() {
    // Every line has its turn in one of the widths.
    walk(walked().into_iter().zip(WIDTHS.into_iter().cycle()));
}

#[test]
fn the_lines_of_the_pages_run_in_terminals_of_every_width() {
    if needs::all() {
        walk(
            WIDTHS
                .into_iter()
                .flat_map(|columns| walked().into_iter().map(move |line| (line, columns))),
        );
    }
}

#[test]
fn the_page_of_the_gate_runs_in_terminals() {
    let tools = ["bash", "gcc", "git", "make", "python3"];
    if !needs::all() || !needs::programs(&tools) || needs::kernel().is_none() {
        return;
    }
    let lab = Lab::new();
    let walk = root().join("script/test-ci-page").display().to_string();
    let walked = lab.shell(&format!("exec '{walk}' --any-figures \"$OPCOST\"")).spawn().unwrap();
    let walked = walked.end().expect(0);
    assert!(walked.stdout.contains("| 0 | action.yml | passed |"), "{walked:#?}");
}
