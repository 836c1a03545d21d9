//! Files that ship with opcost: found from the program, wherever its folder is, and used by name.

use crate::lab::{Ended, Lab, OPCOST, root};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

const TINY: &str = "\
question = 'Is it dearer?'
pairs = 2

[[variant]]
workload = 'syscall'
params = { ops = 2000 }

[[variant]]
workload = 'syscall'
params = { ops = 2000, seccomp = true }
";

/// A folder like an unpacked package, with a blank in its name and the experiments `tiny` and `booted`.
fn unpacked() -> Lab {
    let lab = Lab::new();
    lab.write("un packed/share/opcost/experiments/tiny.toml", TINY);
    let booted = format!(
        "machine = 'emulated'\nkernel = 'own'\n{TINY}\n[kernels.own]\nconfig = ['../kernels/base.config']\n"
    );
    lab.write("un packed/share/opcost/experiments/booted.toml", booted);
    lab.write("un packed/share/opcost/kernels/base.config", "CONFIG_SMP=y\n");
    lab.write("un packed/bin/README", "");
    let program = lab.path("un packed/bin/opcost");
    // Another file system may hold the folder. A descriptor of this process that writes would be inherited by what other tests
    // start at this moment, and execve(2) would fail with ETXTBSY.
    if fs::hard_link(OPCOST, &program).is_err() {
        assert!(Command::new("cp").arg(OPCOST).arg(&program).status().unwrap().success());
    }
    lab
}

fn command(lab: &Lab, args: &[&str]) -> Command {
    let mut command = Command::new(lab.path("un packed/bin/opcost"));
    command.args(args).current_dir(lab.dir()).env("OPCOST_STORE", lab.store());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_remove("OPCOST_LIBEXEC");
    command
}

fn run(lab: &Lab, args: &[&str]) -> Ended {
    let output = command(lab, args).output().unwrap();
    Ended {
        status: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn json(lab: &Lab, args: &[&str]) -> Value {
    serde_json::from_str(&run(lab, args).expect(0).stdout).unwrap()
}

fn names(listed: &Value) -> Vec<&str> {
    listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn an_experiment_that_ships_runs_by_its_name() {
    let lab = unpacked();
    let listed = json(&lab, &["list", "experiments", "--json"]);
    assert_eq!(names(&listed), ["booted", "tiny"]);
    assert_eq!(listed[0]["machine"], "emulated");
    assert_eq!(listed[1]["question"], "Is it dearer?");
    let text = run(&lab, &["list", "experiments"]).expect(0).stdout;
    assert!(text.contains("tiny") && text.contains("Is it dearer?"), "{text}");
    let plan = json(&lab, &["run", "tiny", "--dry-run", "--json"]);
    assert_eq!(plan["experiment"], "tiny");
    // Paths in the file are relative to the file.
    let plan = json(&lab, &["run", "booted", "--dry-run", "--json"]);
    let fragment = plan["variants"][0]["guest"]["kernel"]["recipe"]["config"][0].as_str().unwrap();
    let fragment = fs::read_to_string(fragment).unwrap();
    assert_eq!(fragment, "CONFIG_SMP=y\n");
}

#[test]
fn a_file_of_the_name_wins_and_a_folder_does_not() {
    let lab = unpacked();
    lab.write("tiny", format!("name = 'mine'\n{TINY}"));
    assert_eq!(json(&lab, &["run", "tiny", "--dry-run", "--json"])["experiment"], "mine");
    fs::create_dir(lab.path("booted")).unwrap();
    assert_eq!(json(&lab, &["run", "booted", "--dry-run", "--json"])["experiment"], "booted");
}

#[test]
fn unknown_names_are_refused_with_what_there_is() {
    let lab = unpacked();
    run(&lab, &["run"]).expect(2).says(&["FILE", "booted, tiny", "opcost list experiments"]);
    run(&lab, &["run", "tinny"]).expect(2).says(&["no file 'tinny' here", "did you mean tiny?"]);
    run(&lab, &["run", "tiny.toml"]).expect(2).says(&["opcost run tiny"]);
    fs::remove_dir_all(lab.path("un packed/share")).unwrap();
    run(&lab, &["run"]).expect(2).says(&["none came with this opcost"]);
    let text = run(&lab, &["list", "experiments"]).expect(0).stdout;
    assert!(text.contains("no experiments came with this opcost"), "{text}");
}

#[test]
fn completions_know_the_experiments_and_files() {
    let lab = unpacked();
    lab.write("times.toml", TINY);
    let mut asked = command(&lab, &["--", "opcost", "run", "ti"]);
    asked.env("OPCOST_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "2");
    let output =
        asked.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_COMP_TYPE", "9").output().unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    assert_eq!(words.lines().collect::<Vec<_>>(), ["tiny", "times.toml"]);
}

#[test]
fn a_part_that_is_missing_is_named_with_the_places() {
    let lab = unpacked();
    let bin = lab.path("un packed/bin").display().to_string();
    let library = lab.path("un packed/lib/opcost").display().to_string();
    let compared =
        ["compare", "--machine", "emulated", "--kernel", "none", "/bin/true", "/bin/false"];
    // QEMU itself may be missing here.
    let mut asked = command(&lab, &compared);
    lab.script("tools/qemu-x86_64", "echo 'qemu-x86_64 version 10.0.0'");
    let output = asked.env("PATH", lab.path("tools")).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let said = String::from_utf8(output.stderr).unwrap();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("looked in {bin}, {library}")), "{said}");
    assert!(said.contains("install all of its package"), "{said}");
}

/// opcost knows the fragments that ship by their names; for another name, it says that there is no such file.
#[test]
fn fragments_that_ship_are_found_by_name() {
    let lab = unpacked();
    let build = |fragment: &str| {
        let mut asked =
            command(&lab, &["kernel", "build", "--source", "linux", "--config", fragment]);
        asked.env("XDG_CACHE_HOME", lab.path("cache"));
        String::from_utf8(asked.output().unwrap().stderr).unwrap()
    };
    assert!(build("none.config").contains("none.config"), "{}", build("none.config"));
    // With a known fragment, the next missing thing is the source.
    assert!(!build("base.config").contains("base.config"), "{}", build("base.config"));
    assert!(build("base.config").contains("linux"), "{}", build("base.config"));
}

#[test]
fn a_build_has_the_experiments_of_its_source() {
    let listed = Lab::new().json(&["list", "experiments", "--json"]);
    let files = fs::read_dir(root().join("experiments")).unwrap().flatten();
    let paths = files.map(|entry| entry.path());
    let mut there: Vec<String> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    there.sort_unstable();
    let mut listed = names(&listed);
    listed.sort_unstable();
    assert_eq!(listed, there);
}
