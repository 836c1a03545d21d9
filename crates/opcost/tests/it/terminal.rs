//! opcost in a terminal: commands that want the terminal, and the documents' command lines.

use crate::lab::{Ended, Lab, Started};
use crate::needs;

/// Runs its arguments in a terminal of as many columns as `COLUMNS` says, prints what appears there, and ends as they do.
const IN_TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
def read(terminal):
    size = struct.pack("HHHH", 40, int(os.environ["COLUMNS"]), 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
    return os.read(terminal, 4096)
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:], read)))
"#;

/// Runs a line of the shell, in which `opcost` is the program under test, in a terminal; standard output is what appears there.
fn in_terminal(lab: &Lab, line: &str, columns: u32) -> Ended {
    let inner = format!("opcost() {{ \"$OPCOST\" \"$@\"; }}\n{line}");
    let mut command = lab.shell("exec python3 -c \"$IN_TERMINAL\" /bin/sh -ec \"$INNER\"");
    command.env("IN_TERMINAL", IN_TERMINAL).env("INNER", inner).env("COLUMNS", columns.to_string());
    command.env("TERM", "xterm");
    command.spawn().unwrap().end()
}

#[test]
fn a_command_that_wants_the_terminal_does_not_hang() {
    if !needs::programs(&["python3", "bash", "stty"]) {
        return;
    }
    let lab = Lab::new();
    let line = "opcost compare -q -n 3 --show-output";
    let ended = in_terminal(&lab, &format!("{line} 'bash -i -c true' true"), 100).expect(0);
    assert!(ended.stdout.contains("task-clock"), "{}", ended.stdout);
    let asks = r#"python3 -c \"open('/dev/tty').readline()\""#;
    for command in ["stty -F /dev/tty sane", asks] {
        let ended = in_terminal(&lab, &format!("{line} \"{command}\" true"), 100).expect(4);
        assert!(ended.stdout.contains("No such device or address"), "{}", ended.stdout);
        assert!(ended.stdout.contains("it ended with status 1"), "{}", ended.stdout);
    }
}

#[test]
fn a_command_that_is_stopped_is_killed_and_named() {
    let lab = Lab::new();
    let stops = lab.run(&["compare", "-n", "3", "--shell=sh", "kill -STOP $$", "true"]).expect(4);
    stops.says(&["signal 19 (SIGSTOP) stopped it"]);
}

/// The command lines in a document's blocks, without those that need a kernel: other tests run those.
fn lines(document: &str) -> Vec<String> {
    let blocks = document.split("```").skip(1).step_by(2);
    let joined = blocks.map(|block| block.replace("\\\n", " ")).collect::<Vec<_>>().join("\n");
    let lines = joined.lines().filter(|line| line.starts_with("opcost "));
    let here =
        lines.filter(|line| !["opcost run", " emulated "].iter().any(|part| line.contains(part)));
    here.map(|line| {
        let line = line.split("  #").next().unwrap().trim_end();
        // The documents' lines measure for seconds.
        let few = if line.starts_with("opcost compare") { " -n 5" } else { "" };
        format!("{line}{few}")
    })
    .collect()
}

#[test]
fn the_lines_of_the_documents_run_in_a_terminal() {
    if !needs::programs(&["python3", "gzip", "sort"]) {
        return;
    }
    let documents =
        [include_str!("../../../../docs/hyperfine.md"), include_str!("../../../../docs/guide.md")];
    let lines: Vec<String> = documents.into_iter().flat_map(lines).collect();
    assert!(lines.len() > 9, "{lines:#?}");
    let lab = Lab::new();
    for name in ["file", "data", "few", "many"] {
        lab.write(name, (0..500).map(|n| format!("{}\n", n * 7919 % 500)).collect::<String>());
    }
    lab.write("builds/Makefile", "all:\n");
    for name in ["old", "new", "builds/old/prog", "builds/new/prog"] {
        lab.write(name, "");
        lab.script(name, "echo total number of events: 10");
    }
    // Every line has its turn in one of the widths.
    for (line, columns) in lines.iter().zip([40, 80, 200].into_iter().cycle()) {
        // In one line, `old` is a folder.
        let folder = if line.contains("/prog") { "cd builds; " } else { "" };
        let line = format!("PATH=$PATH:.; rm -f x.toml; {folder}{line}");
        let ended = in_terminal(&lab, &line, columns);
        // Where nothing counts instructions, a limit on them is refused.
        let is_refused = ended.status == Some(5) && line.contains("--fail-on 'instructions");
        let is_fine = is_refused || [Some(0), Some(1), Some(3)].contains(&ended.status);
        assert!(is_fine, "{columns} columns: {line}\n{ended:#?}");
    }
}
