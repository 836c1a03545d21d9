//! The pages of the investigations name commands that exist, and show the real output of these.

use crate::lab::{Lab, Started, root};
use opcost_work::{WORKLOADS, WorkloadSpec};
use std::path::PathBuf;

fn folder() -> PathBuf {
    root().join("docs/investigations")
}

/// The words of every opcost command in code, within the text or in a block for a shell.
fn commands(text: &str) -> Vec<Vec<String>> {
    // Blocks marked `text` are output; a command may continue behind a backslash.
    let mut code = Vec::new();
    let mut shell = None;
    let mut prose = String::new();
    for line in text.replace("\\\n", " ").lines() {
        match (line.trim(), shell) {
            ("```", Some(_)) => shell = None,
            ("```sh", None) => shell = Some(true),
            (fence, None) if fence.starts_with("```") => shell = Some(false),
            (line, Some(true)) => code.push(line.to_string()),
            (_, Some(_)) => {}
            (line, None) => prose.push_str(&format!("{line} ")),
        }
    }
    code.extend(prose.split('`').skip(1).step_by(2).map(String::from));
    code.iter()
        .filter_map(|line| line.strip_prefix("opcost "))
        .map(|line| shlex::split(line.split(" #").next().unwrap_or_default()).unwrap())
        .collect()
}

/// The parts of a command that do not exist.
fn wrong(words: &[String], subcommands: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    if !subcommands.contains(&words[0]) {
        wrong.push(format!("there is no command {}", words[0]));
    }
    for (index, word) in words.iter().enumerate() {
        if word.starts_with("experiments/") && !root().join(word).exists() {
            wrong.push(format!("there is no file {word}"));
        }
        if word == "--workload" {
            let spec = words.get(index + 1).map_or("", String::as_str);
            wrong.extend(wrong_workload(spec));
        }
    }
    wrong
}

/// The mistake in a workload `NAME:KEY=VALUE,…`, if there is one.
fn wrong_workload(text: &str) -> Option<String> {
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    let Some(spec) = WorkloadSpec::find(name) else {
        let known: Vec<&str> = WORKLOADS.iter().map(|spec| spec.name).collect();
        return Some(format!("there is no workload '{name}' among {}", known.join(", ")));
    };
    let given: Vec<(String, String)> = params
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    spec.resolve(&given).err().map(|error| error.to_string())
}

/// The commands that the program knows, from its own help.
fn subcommands() -> Vec<String> {
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_opcost"))
        .arg("--help")
        .output()
        .expect("opcost --help");
    let help = String::from_utf8(output.stdout).expect("text");
    let (_, list) = help.split_once("Commands:\n").expect("a list of commands");
    let list = list.split("\n\n").next().unwrap_or_default();
    list.lines().filter_map(|line| line.split_whitespace().next()).map(String::from).collect()
}

#[test]
fn every_command_of_the_pages_exists() {
    let subcommands = subcommands();
    let mut checked = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        for words in commands(&text) {
            let wrong = wrong(&words, &subcommands);
            assert!(wrong.is_empty(), "{}: opcost {words:?}: {wrong:?}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 30, "only {checked} commands were found");
}

#[test]
fn every_investigation_has_its_page() {
    let index = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for name in ["paravirt-mmap", "immediate-values", "syscall-copy", "paravirt-spinlocks"] {
        let page = format!("{name}.md");
        let text = std::fs::read_to_string(folder().join(&page)).unwrap();
        let command = format!("opcost run experiments/{name}.toml");
        assert!(text.contains(&command), "{page} does not name its command");
        assert!(index.contains(&page), "{page} is not in the list of pages");
    }
}

#[test]
fn what_does_not_exist_is_named() {
    let text = "Run `opcost compare --workload mmap:ops=5,slots=2` or\n\
                ```sh\nopcost frobnicate experiments/none.toml   # not there\n\
                opcost compare --workload sysc \\\n  --workload mmap:slot=1\n```\n\
                ```text\nopcost is what this prints\n```\n";
    let found = commands(text);
    assert_eq!(found.len(), 3, "{found:?}");
    let known = ["compare".to_string()];
    let problems: Vec<Vec<String>> = found.iter().map(|words| wrong(words, &known)).collect();
    let says = |text: &str| problems.iter().flatten().any(|problem| problem.contains(text));
    assert!(says("there is no command frobnicate"), "{problems:?}");
    assert!(says("there is no file experiments/none.toml"), "{problems:?}");
    assert!(says("there is no workload 'sysc'"), "{problems:?}");
    assert!(says("has no parameter 'slot'"), "{problems:?}");
    assert_eq!(problems.iter().filter(|problems| problems.is_empty()).count(), 1);
}

#[test]
fn the_page_shows_what_the_command_prints() {
    let page = std::fs::read_to_string(folder().join("published.md")).unwrap();
    let files: std::collections::BTreeSet<String> =
        std::fs::read_dir(root().join("experiments/published"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
    assert_eq!(files.len(), 12);
    let lab = Lab::new();
    for file in files {
        let file = format!("experiments/published/{file}");
        let mut command = lab.command(&["import", &file]);
        let text = command
            .current_dir(root())
            .env("COLUMNS", "80")
            .spawn()
            .unwrap()
            .end()
            .expect(0)
            .stdout;
        let block = format!("opcost import {file}\n```\n\n```text\n");
        let (_, behind) = page.split_once(&block).unwrap_or_else(|| panic!("no {block}"));
        let (shown, _) = behind.split_once("\n```\n").unwrap();
        let mut printed = text.lines();
        let (mut lines, mut left_out) = (0, false);
        // An ellipsis stands for lines that are left out; all other lines follow one another.
        for line in shown.lines() {
            if line.trim() == "…" {
                left_out = true;
                continue;
            }
            let is_printed = match std::mem::take(&mut left_out) {
                true => printed.any(|one| one == line),
                false => printed.next() == Some(line),
            };
            assert!(is_printed, "{file}: the command does not print here: {line}");
            lines += 1;
        }
        assert!(
            left_out || printed.count() <= 1,
            "{file}: more is printed than the recording's name"
        );
        assert!(lines >= 3, "{file}: the page shows {lines} lines");
    }
}
