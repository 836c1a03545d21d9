//! `opcost bisect` in a user's repository: culprits with their shares, untestable commits, refusals.

use crate::gate::Yard;
use crate::lab::{Ended, Started, compile};
use crate::needs;
use serde_json::Value;
use std::process::Command;

/// A program whose instructions grow with `rounds`.
fn work(rounds: u32) -> String {
    format!("at=0\nwhile [ $at -lt {rounds} ]; do at=$((at + 1)); done")
}

/// A repository with a suite of one exact case, which a fresh recording counts in user space only. Each
/// commit has a program of its own, for which a guest would boot.
fn yard() -> Option<Yard> {
    let (kernel, start) = needs::counter()?;
    yard_with(&kernel, start)
}

fn yard_with(kernel: &str, start: &str) -> Option<Yard> {
    let suite = format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nmetric = 'instructions:u'\n\
         [case.loop]\ncommand = '{start}work'\n"
    );
    Yard::new(&suite)
}

impl Yard {
    fn rounds(&self, rounds: u32, message: &str) {
        self.script("work.in", &work(rounds));
        self.commit(message);
    }

    fn bisect(&self, more: &[&str]) -> Ended {
        self.opcost(&[&["bisect", "--quiet"], more].concat()).spawn().unwrap().end()
    }
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).expect("JSON")
}

fn titles(steps: &Value) -> Vec<Vec<&str>> {
    let steps = steps.as_array().unwrap().iter();
    steps
        .map(|step| {
            let suspects = step["suspects"].as_array().unwrap().iter();
            suspects.map(|suspect| suspect["title"].as_str().unwrap()).collect()
        })
        .collect()
}

fn sum(steps: &Value) -> i64 {
    steps.as_array().unwrap().iter().map(|step| step["change"].as_i64().unwrap()).sum()
}

#[test]
fn every_culprit_is_found_with_its_share() {
    let Some(yard) = yard() else { return };
    yard.rounds(200, "Begin");
    yard.write("notes", "one");
    yard.commit("Notes");
    yard.rounds(260, "Dearer");
    yard.script("build", "exit 1");
    yard.commit("Does not build");
    yard.script("build", "cp work.in work");
    yard.commit("Builds");
    yard.rounds(240, "Cheaper");
    yard.write("notes", "two");
    yard.commit("More notes");
    let before = yard.state();
    let ends = ["--good", "HEAD~6", "--bad", "HEAD"];
    let found = yard.bisect(&[&ends[..], &["--json"]].concat()).expect(0);
    let found = json(&found);
    let steps = &found["steps"];
    assert_eq!(titles(steps), [["Dearer"], ["Cheaper"]]);
    assert_eq!(
        found["values"][1].as_i64(),
        Some(found["values"][0].as_i64().unwrap() + sum(steps))
    );
    assert!(steps[0]["change"].as_i64().unwrap() > 0 && steps[1]["change"].as_i64().unwrap() < 0);
    assert_eq!(found["untestable"][0]["suspect"]["title"], "Does not build");
    let check = steps[0]["check"]["conclusion"].as_str().unwrap();
    assert!(check.contains("against parent: instructions:u +"), "{check}");
    assert_eq!(yard.state(), before);

    // A second search counts only the bad end anew: earlier counts are kept.
    let again = json(&yard.bisect(&[&ends[..], &["--json"]].concat()).expect(0));
    assert_eq!(again["steps"], *steps);
    let counted = |found: &Value| found["counted"].as_i64().unwrap();
    let untestable = found["untestable"].as_array().unwrap().len() as i64;
    assert!(
        again["counted_before"].as_i64().unwrap() >= counted(&found) - untestable - 2,
        "{again}"
    );
    let mail =
        yard.bisect(&[&ends[..], &["--format", "mail", "-j", "2"]].concat()).expect(0).stdout;
    for part in
        ["Subject: [regression] instructions:u of loop: +", "Cc: a <a@b>", "#regzbot introduced: "]
    {
        assert!(mail.contains(part), "no '{part}' in {mail}");
    }
    let mut body = mail.split_once("To see it again").unwrap().0.lines().skip(1);
    assert_eq!(body.find(|line| line.chars().count() > 72), None, "{mail}");

    // `git bisect run` gets the statuses that it understands.
    let answer = |commit: &str, more: &[&str]| {
        yard.in_repository(&["checkout", "--quiet", "--detach", commit]);
        // dash formats its parent's number, at 19 instructions a digit. Both commits are counted at about the same time, so that a
        // number seldom gets another digit between them.
        let fresh = tempfile::tempdir().unwrap();
        let store = fresh.path().join("store.sqlite");
        let store = ["--store", store.to_str().unwrap()];
        yard.bisect(&[&["--checkout", "--good", "main~6"], &store[..], more].concat())
    };
    let untouched = (0..2).map(|_| answer("main~5", &[])).find(|ended| ended.status == Some(0));
    assert!(untouched.is_some(), "the commit changed no instruction, and was called bad twice");
    // 40 rounds more, nearer to 60 than to none.
    answer("main", &["--bad", "main~4"]).expect(1);
    answer("main~3", &[]).expect(125);
    answer("main", &["--case", "lop"]).expect(128);
}

#[test]
fn commits_that_cannot_be_tested_are_suspects_together() {
    // This search runs in guests, as the others do if programs cannot be counted alone.
    let Some(yard) = needs::kernel().and_then(|kernel| yard_with(&kernel, "./")) else { return };
    yard.rounds(200, "Begin");
    yard.script("build", "exit 1");
    yard.commit("Does not build");
    yard.rounds(240, "Dearer, which nobody can test");
    yard.script("build", "cp work.in work");
    yard.commit("Builds");
    let found = json(&yard.bisect(&["--good", "HEAD~3", "--json"]).expect(0));
    let suspects = ["Does not build", "Dearer, which nobody can test", "Builds"];
    assert_eq!(titles(&found["steps"]), [suspects]);
    assert_eq!(
        (sum(&found["steps"]), found["steps"][0]["check"].is_null()),
        (found["change"].as_i64().unwrap(), true)
    );
    assert_eq!(found["untestable"].as_array().unwrap().len(), 2);
}

#[test]
fn a_merge_is_searched_within() {
    let Some(yard) = yard() else { return };
    yard.rounds(200, "Begin");
    yard.in_repository(&["checkout", "--quiet", "-b", "side"]);
    yard.rounds(280, "Dearer on the side");
    yard.write("notes", "one");
    yard.commit("Notes on the side");
    yard.in_repository(&["checkout", "--quiet", "main"]);
    yard.write("other", "one");
    yard.commit("Meanwhile");
    yard.in_repository(&["merge", "--quiet", "--no-ff", "--no-edit", "side"]);
    let found = yard.bisect(&["--good", "HEAD~2", "--bad", "HEAD", "--json"]).expect(0);
    let steps = &json(&found)["steps"];
    assert_eq!(titles(steps), [["Merge branch 'side'"]]);
    assert_eq!(titles(&steps[0]["inside"]), [["Dearer on the side"]]);
    assert_eq!(steps[0]["of_merge"], 0);
    assert_eq!(sum(&steps[0]["inside"]), sum(steps));
}

#[test]
fn words_of_a_build_are_searched_like_commits() {
    let Some(yard) = yard() else { return };
    let text = work(200).replace("200", "$((200 ROUNDS))");
    yard.script("work.in", &text);
    yard.script(
        "build",
        "sed \"s/ROUNDS/$(echo \" $CFLAGS\" | sed 's/ -D/ + /g')/\" work.in > work; chmod +x work",
    );
    yard.commit("Flags are rounds");
    let ends = ["--good", "-D20", "--bad", "-D20 -D60", "--options", "cflags"];
    let found = json(&yard.bisect(&[&ends[..], &["--json"]].concat()).expect(0));
    let step = &found["steps"][0];
    assert_eq!(step["suspects"][0]["id"], "-D60", "{found}");
    assert_eq!((&step["change"], &step["alone"]), (&found["change"], &found["change"]));
    yard.bisect(&["--options", "cflags", "--good", "-O1", "--bad", "-O1"])
        .expect(3)
        .says(&["both have the same words"]);
}

#[test]
fn ends_that_say_nothing_are_refused() {
    let Some(yard) = yard() else { return };
    yard.rounds(200, "Begin");
    yard.write("notes", "one");
    yard.commit("Notes");
    let refused = |words: &[&str], status: i32, parts: &[&str]| {
        yard.bisect(words).expect(status).says(parts);
    };
    refused(
        &["--good", "HEAD~1"],
        3,
        &["the ends do not differ: instructions:u: ", "give an earlier good"],
    );
    refused(
        &["--good", "HEAD", "--bad", "HEAD~1"],
        2,
        &["HEAD~1 is older than HEAD: the ends are swapped"],
    );
    refused(&["--good", "HEAD", "--bad", "HEAD"], 2, &["are one commit"]);
    refused(&["--good", "nope"], 2, &["git knows no revision 'nope'"]);
    refused(&["--good", "HEAD~1", "--case", "lop"], 2, &["did you mean loop?"]);
    refused(&["--good", "HEAD~1", "-w", "syscall:ops"], 2, &["'ops' is not KEY=VALUE"]);
    refused(
        &["--good", "a", "--bad", "b", "--options", "cflags", "-w", "syscall"],
        2,
        &["nothing is built"],
    );
    // Fragments that ship with opcost are found by name; files of the working directory come first.
    let of_kernels = |good: &'static str, bad: &'static str| {
        ["--good", good, "--bad", bad, "--options", "kernel-config", "-w", "syscall"]
    };
    refused(
        &of_kernels("native.config", "native.config"),
        3,
        &["native.config and native.config: both files set the same options"],
    );
    yard.write("native.config", "CONFIG_NET=y\n");
    yard.write("other.config", "CONFIG_NET=y\n# CONFIG_XEN is not set\n");
    refused(&of_kernels("native.config", "other.config"), 3, &["both files set the same options"]);
    refused(&of_kernels("native.config", "none.config"), 2, &["none.config", "No such file"]);
    for (name, value) in [("--cpu-model", "Haswell"), ("--kernel", "none")] {
        let advice = format!("a case has {} in opcost.toml", &name[2..]);
        refused(&["--good", "HEAD~1", name, value], 2, &[&advice]);
        let beside = ["--good", "HEAD~1", name, value, "--case", "loop"];
        refused(&beside, 2, &["cannot be used with"]);
    }
    for wrong in ["0", "101%", "much"] {
        let parts = ["write a percentage of the change, for example 90%"];
        refused(&["--good", "HEAD~1", "--explain", wrong], 2, &parts);
    }
    refused(
        &[
            "--good",
            "max",
            "--bad",
            "max,-avx2",
            "--options",
            "cpu",
            "-w",
            "syscall",
            "--cpu-model",
            "max",
        ],
        2,
        &["--good and --bad name the CPUs"],
    );
    refused(
        &["--good", "HEAD~1", "--function", "nosuch"],
        4,
        &["the bad end", "the work never ran such a function"],
    );
    yard.script("build", "exit 7");
    yard.commit("Does not build");
    refused(&["--good", "HEAD~2"], 4, &["the bad end", "ended with status 7"]);
    yard.in_repository(&["checkout", "--quiet", "--orphan", "other"]);
    yard.commit("Alone");
    refused(&["--good", "main"], 2, &["have no commit in common"]);
    yard.write("opcost.toml", "[case.work]\nmachine = 'host'\nbuild = ':'\ncommand = './work'\n");
    let flags = ["--options", "cflags", "--good", "-O1", "--bad", "-O2"];
    refused(&flags, 2, &["goes by exact counts", "leave out machine"]);
    refused(&["--good", "main", "--checkout"], 128, &["--checkout goes by exact counts"]);
    let outside = yard.lab.run(&["bisect", "--good", "HEAD~1"]);
    outside.expect(2).says(&["not a git repository"]);
}

#[test]
fn a_missing_kernel_is_noticed_before_the_build() {
    if !needs::machine() {
        return;
    }
    let built = "kernel = 'nosuch'\nbuild = 'touch built'\n[case.loop]\ncommand = './work'\n";
    let Some(yard) = Yard::new(built) else { return };
    yard.commit("Two");
    for command in ["bisect --good HEAD~1", "gate --base HEAD~1", "series HEAD~1.."] {
        let words: Vec<&str> = command.split(' ').collect();
        let ended = yard.opcost(&words).spawn().unwrap().end().expect(4);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains("no kernel 'nosuch' has been built"), "{command}: {said}");
        assert!(!said.contains("building"), "{command}: {said}");
    }
}

#[test]
fn the_search_ends_when_most_of_the_change_is_explained() {
    let Some(yard) = yard() else { return };
    yard.rounds(200, "Begin");
    yard.rounds(600, "Much dearer");
    yard.write("notes", "one");
    yard.commit("Notes");
    yard.rounds(620, "A little dearer");
    yard.write("notes", "two");
    yard.commit("More notes");
    let search = |more: &[&str]| {
        let ended = yard.bisect(&[&["--good", "HEAD~4", "--json"], more].concat()).expect(0);
        json(&ended)
    };
    let first = search(&[]);
    let both = ["A little dearer", "More notes"];
    assert_eq!(titles(&first["steps"]), [&["Much dearer"][..], &both]);
    let open = |found: &Value| -> Vec<bool> {
        let steps = found["steps"].as_array().unwrap();
        steps.iter().map(|step| step["open"].as_bool().unwrap()).collect()
    };
    assert_eq!(open(&first), [false, true]);
    assert_eq!(
        (sum(&first["steps"]), first["counted"].as_i64()),
        (first["change"].as_i64().unwrap(), Some(4))
    );
    assert!((0.9..1.0).contains(&first["explained"].as_f64().unwrap()), "{first}");
    let text = yard.bisect(&["--good", "HEAD~4"]).expect(0).stdout;
    for part in [
        "one of 2",
        "commits not counted yet",
        "--top N or --explain 100%",
        "The culprit is",
        "1 stretch of the line is not searched yet",
    ] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
    for more in [["--explain", "100%"], ["--top", "2"]] {
        let all = search(&more);
        assert_eq!(titles(&all["steps"]), [["Much dearer"], ["A little dearer"]]);
        assert_eq!((open(&all), &all["explained"]), (vec![false, false], &1.0.into()));
    }
}

#[test]
fn commits_that_do_not_build_are_leapt_over() {
    let Some(yard) = yard() else { return };
    yard.rounds(200, "Begin");
    for at in 1..28 {
        match at {
            3 => yard.script("build", "exit 1"),
            23 => yard.script("build", "cp work.in work"),
            26 => yard.script("work.in", &work(300)),
            _ => yard.write("notes", &at.to_string()),
        }
        yard.commit(&format!("Commit {at}"));
    }
    let found = json(&yard.bisect(&["--good", "HEAD~27", "--json"]).expect(0));
    assert_eq!(titles(&found["steps"]), [["Commit 26"]]);
    // Twenty commits do not build; git bisect tries them one by one.
    let groups = found["untestable_groups"].as_array().unwrap();
    let tried = groups[0]["tried"].as_u64().unwrap();
    assert_eq!((groups.len(), found["untestable"].as_array().unwrap().len() as u64), (1, tried));
    assert!(tried <= 4 && groups[0]["count"].as_u64().unwrap() > tried, "{found}");
    assert!(found["counted"].as_u64().unwrap() <= 9, "{found}");
    let text = yard.bisect(&["--good", "HEAD~27"]).expect(0).stdout;
    let said = text.replace("\n  ", " ");
    let group = format!("(tried: {tried}) could not be tested: the build './build' ended");
    assert!(said.contains(&group), "{text}");
}

#[test]
fn a_computer_that_changes_during_the_search_ends_it_and_the_same_command_goes_on() {
    let Some((_, start)) = needs::counter() else { return };
    let Some(yard) = yard() else { return };
    let outside = yard.lab.path("outside").display().to_string();
    yard.lab.write("outside", "before");
    let suite = std::fs::read_to_string(yard.lab.path("repository/opcost.toml")).unwrap();
    let command = format!("{start}work");
    yard.write("opcost.toml", &suite.replace(&command, &format!("{command} {outside}")));
    yard.rounds(200, "Begin");
    for at in 1..8 {
        match at {
            4 => yard.script("build", &format!("cp work.in work; echo now > '{outside}'")),
            6 => yard.script("work.in", &work(300)),
            7 => yard.script("build", "cp work.in work"),
            _ => yard.write("notes", &at.to_string()),
        }
        yard.commit(&format!("Commit {at}"));
    }
    let ends = ["--good", "HEAD~7"];
    let ended = yard.bisect(&ends).expect(3).says(&[
        "this computer changed after the ends were counted: data:",
        "the same command counts the ends again and goes on",
    ]);
    // The table has what was known until then.
    let table = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "commits not counted yet",
        "ended when 0 % of the change was explained, since this computer changed",
    ] {
        assert!(table.contains(part), "no '{part}' in {table}");
    }
    let found = json(&yard.bisect(&[&ends[..], &["--json"]].concat()).expect(0));
    assert_eq!(titles(&found["steps"]), [["Commit 6"]]);
}

/// A build that writes its process number into `started`, and then hangs until `started.go` exists.
fn hanging_build(yard: &Yard) -> String {
    let started = yard.lab.path("started");
    format!(
        "cp work.in work; [ -e {0}.go ] || {{ echo $$ > {0}; exec sleep 100; }}",
        started.display()
    )
}

#[test]
fn an_interrupted_search_shows_what_it_knows() {
    let Some(yard) = yard() else { return };
    yard.rounds(200, "Begin");
    yard.script("build", &hanging_build(&yard));
    yard.rounds(300, "Dearer, and slow to build");
    yard.script("build", "cp work.in work");
    yard.commit("Quick to build");
    yard.write("notes", "one");
    yard.commit("Notes");
    yard.rounds(340, "Dearer again");
    let before = yard.state();
    let ends = ["--good", "HEAD~4"];
    let mut search: Command = yard.opcost(&[&["bisect", "--quiet"], &ends[..]].concat());
    let search = search.spawn().unwrap();
    yard.lab.wait_for("started");
    search.signal(libc::SIGINT);
    let ended = search.end().expect(130);
    let text = &ended.stdout;
    for part in [
        "one of 2",
        "commits not counted yet",
        "interrupted when 0 % of the change was explained",
        "2 stretches of the line are not searched yet",
    ] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
    assert_eq!(yard.state(), before);
    yard.lab.write("started.go", "");
    let found = json(&yard.bisect(&[&ends[..], &["--json"]].concat()).expect(0));
    assert_eq!(titles(&found["steps"]), [["Dearer, and slow to build"], ["Dearer again"]]);
    assert_eq!(found["interrupted"], false);
}

#[test]
fn a_library_that_appears_is_a_result() {
    if !needs::emulator() || !needs::programs(&["cc"]) {
        return;
    }
    let suite = "kernel = 'none'\nbuild = './build'\nartifact = 'work'\nmetric = 'instructions:u'\n\
                 [case.run]\ncommand = './work'\n";
    let Some(yard) = Yard::new(suite) else { return };
    let extra = "int extra(void) { return 1; }";
    compile(&yard.lab, "libextra.so", extra, &["-shared", "-fPIC"]);
    let build = |more: &str| format!("cc -O1 work.c -o work {more}");
    yard.write("work.c", "int main(void) { volatile int x = 0; while (x < 500) x++; return 0; }");
    yard.script("build", &build(""));
    yard.commit("Begin");
    yard.write("notes", "one");
    yard.commit("Notes");
    let folder = yard.lab.dir().display().to_string();
    let linked = format!("-Wl,--no-as-needed -L{folder} -lextra -Wl,-rpath,{folder}");
    yard.script("build", &build(&linked));
    yard.commit("Take a library");
    let found = json(&yard.bisect(&["--good", "HEAD~2", "--json"]).expect(0));
    assert_eq!(titles(&found["steps"]), [["Take a library"]]);
    assert_eq!(found["notes"][0], "only the bad end loads libextra.so");
    // Points on the way are counted without functions; the step has them.
    let functions = found["steps"][0]["functions"].as_array().unwrap();
    assert!(functions.iter().any(|of| of["name"] == "_dl_relocate_object"), "{found}");
    let gate = |words: &[&str]| {
        yard.opcost(&[&["gate", "--quiet"], words].concat()).spawn().unwrap().end()
    };
    yard.in_repository(&["checkout", "--quiet", "HEAD~1"]);
    gate(&["--baseline", "../baseline", "--update"]).expect(0);
    yard.in_repository(&["checkout", "--quiet", "main"]);
    let note = "note: case 'run': only the tip loads libextra.so";
    let ended = gate(&["--baseline", "../baseline"]).expect(1);
    assert!(ended.stdout.contains(note), "{}", ended.stdout);
    let ended = gate(&["--base", "HEAD~1"]).expect(1);
    assert!(ended.stdout.contains(note), "{}", ended.stdout);
}

/// A yard whose commits up to the tag v1 do not build, since their `build` has a mistake; and the head of its suite.
fn broken_until_v1() -> Option<(Yard, String)> {
    let yard = yard()?;
    let suite = yard.lab.read("repository/opcost.toml");
    yard.script("build", "cp work.in wrok");
    yard.rounds(200, "Begin");
    yard.write("notes", "one");
    yard.commit("Notes");
    yard.in_repository(&["tag", "v1"]);
    yard.script("build", "cp work.in work");
    yard.commit("Mend the build");
    yard.rounds(300, "Dearer");
    Some((yard, suite))
}

#[test]
fn fixups_make_old_commits_build() {
    let Some((yard, suite)) = broken_until_v1() else { return };
    let begin = "HEAD~3";
    yard.bisect(&["--good", begin]).expect(4).says(&["the good end", "has no 'work'"]);
    let with = |fixup: &str| {
        let text = format!("[[fixup]]\n{fixup}\n");
        yard.write("opcost.toml", &suite.replacen("[case", &format!("{text}[case"), 1));
    };
    let patch = yard.in_repository(&["diff", "v1", "HEAD~1", "--", "build"]);
    yard.lab.write("mend.patch", &patch);
    let noted =
        |fixup: &str| format!("note: fixup {fixup} (..v1) was applied to 2 of the counted commits");
    for (fixup, name) in [
        ("commits = '..v1'\npatch = '../mend.patch'", "mend.patch"),
        ("commits = '..v1'\nrun = 'sed -i s/wrok/work/ build'", "sed -i s/wrok/work/ build"),
    ] {
        with(fixup);
        let text = yard.bisect(&["--good", begin]).expect(0).stdout.replace("\n  ", " ");
        for part in [noted(name), "The culprit is".into(), "(Dearer)".into()] {
            assert!(text.contains(&part), "no '{part}' in {text}");
        }
    }
    let gated = yard.opcost(&["gate", "--quiet", "--base", "v1"]).spawn().unwrap().end().expect(1);
    let note = "note: case 'loop': fixups of the base: sed -i s/wrok/work/ build (..v1)";
    assert!(gated.stdout.contains(note), "{}", gated.stdout);
    let series = yard.opcost(&["series", "--quiet", "v1.."]).spawn().unwrap().end().expect(0);
    assert!(series.stdout.contains("(..v1) was applied to 1 of the commits"), "{}", series.stdout);

    let refused = |fixup: &str, status: i32, parts: &[&str]| {
        with(fixup);
        yard.bisect(&["--good", begin]).expect(status).says(parts);
    };
    let twice = "commits = '..HEAD'\npatch = '../mend.patch'";
    refused(
        twice,
        4,
        &["the bad end", "the fixup mend.patch (..HEAD) does not apply", "change its commits"],
    );
    refused("commits = '..v1'\npatch = 'none'", 2, &["fixup none (..v1): cannot read"]);
    for line in [&["gate", "--base", "v1"][..], &["series", "v1.."]] {
        let early = yard.opcost(line).spawn().unwrap().end().expect(2);
        assert!(!early.stderr.contains("building"), "{}", early.stderr);
        early.says(&["fixup none (..v1): cannot read"]);
    }
    refused("commits = 'v7..'\nrun = ':'", 2, &["fixup : (v7..)", "git knows no revision 'v7'"]);
    refused("commits = '..v1'\nrun = 'exit 3'", 4, &["the fixup 'exit 3' ended with status 3"]);
    refused("commits = 'v1'\nrun = ':'", 2, &["fixup 1: 'v1' is no range of commits"]);
}

/// A build that needs the tag v1, and the submodule that stands beside the remote.
const ASKS_GIT: &str = "case $(git describe --tags) in v1*) ;; *) exit 7 ;; esac\n\
                        git -c protocol.file.allow=always submodule --quiet update --init || exit 8\n\
                        cat part/file >> work.in && cp work.in work";

#[test]
fn builds_find_tags_and_relative_submodules_also_in_a_shallow_clone() {
    let Some(yard) = yard() else { return };
    let git = |folder: &str, words: &[&str]| {
        let path = yard.lab.path(folder).display().to_string();
        let all = [&["-C", &path, "-c", "protocol.file.allow=always"], words].concat();
        yard.in_repository(&all)
    };
    git("", &["init", "--quiet", "part"]);
    yard.lab.write("part/file", "# a part\n");
    git("part", &["add", "file"]);
    git("part", &["commit", "--quiet", "--message", "Part"]);
    yard.in_repository(&["remote", "add", "origin", "../origin"]);
    git("repository", &["submodule", "--quiet", "add", "../part", "part"]);
    yard.script("build", ASKS_GIT);
    yard.rounds(200, "Take a part");
    yard.in_repository(&["tag", "-a", "v1", "-m", "version 1"]);
    yard.write("notes", "one");
    yard.commit("Notes");
    yard.rounds(300, "Dearer");
    let before = yard.state();
    let found = json(&yard.bisect(&["--good", "v1", "--json"]).expect(0));
    assert_eq!(titles(&found["steps"]), [["Dearer"]]);
    assert_eq!(yard.state(), before);

    let url = format!("file://{}", yard.lab.path("repository").display());
    git("", &["clone", "--quiet", "--depth", "2", &url, "shallow"]);
    let shallow = |words: &[&str]| {
        let mut command = yard.opcost(&[&["bisect", "--quiet"], words].concat());
        command.current_dir(yard.lab.path("shallow")).spawn().unwrap().end()
    };
    let old = shallow(&["--good", "v1"]).expect(2);
    old.says(&["git knows no revision 'v1'", "this clone is shallow", "git fetch --unshallow"]);
    let series = |range: &str| {
        let mut command = yard.opcost(&["series", "--quiet", range]);
        command.current_dir(yard.lab.path("shallow")).spawn().unwrap().end()
    };
    series("v1..HEAD").expect(2).says(&["git knows no revision 'v1'", "git fetch --unshallow"]);
    // An old commit that is fetched alone is not connected with the others.
    let from = yard.in_repository(&["rev-parse", "v1^{commit}"]);
    git("shallow", &["fetch", "--quiet", "--depth", "1", "origin", from.trim()]);
    let apart = ["no commit is known from which", "git fetch --unshallow"];
    shallow(&["--good", from.trim()]).expect(2).says(&apart);
    series(&format!("{}..HEAD", from.trim())).expect(2).says(&apart);
    // The tag is not there either, so the build says that git describes nothing.
    shallow(&["--good", "HEAD~1"]).expect(4).says(&["the build './build' ended with status 7"]);
    git("shallow", &["fetch", "--quiet", "--deepen", "1", "origin", "tag", "v1"]);
    git("shallow", &["remote", "set-url", "origin", &url]);
    let found = json(&shallow(&["--good", "v1", "--json"]).expect(0));
    assert_eq!(titles(&found["steps"]), [["Dearer"]]);
}

#[test]
fn a_history_of_100_000_commits_is_searched() {
    if !needs::all() {
        return;
    }
    let Some(yard) = yard() else { return };
    let mut stream = String::from("feature done\n");
    for at in 1..=100_000u32 {
        let text = format!("#!/bin/sh\n{}\n# {at}\n", work(if at < 70_001 { 20 } else { 60 }));
        let message = format!("Commit {at}");
        stream += "commit refs/heads/main\ncommitter a <a@b> 1700000000 +0000\n";
        stream += &format!("data {}\n{message}\n", message.len());
        if at == 1 {
            stream += "from refs/heads/main^0\n";
        }
        stream += &format!("M 100755 inline work.in\ndata {}\n{text}\n", text.len());
    }
    stream += "done\n";
    let stream = yard.lab.write("stream", &stream);
    let line = format!("git -C repository fast-import --quiet < {}", stream.display());
    yard.lab.shell(&line).spawn().unwrap().end().expect(0);
    yard.in_repository(&["reset", "--quiet", "--hard"]);
    let found = json(&yard.bisect(&["--good", "HEAD~99999", "--json"]).expect(0));
    assert_eq!(titles(&found["steps"]), [["Commit 70001"]]);
    // 17 halvings, two ends.
    assert_eq!((found["points"].as_u64(), found["counted"].as_u64()), (Some(99_999), Some(19)));
}

#[test]
fn a_killed_search_goes_on_where_it_was() {
    let Some(yard) = yard() else { return };
    yard.rounds(200, "Begin");
    yard.script("build", &hanging_build(&yard));
    yard.commit("Waits");
    yard.script("build", "cp work.in work");
    yard.rounds(240, "Dearer");
    yard.write("notes", "one");
    yard.commit("Notes");
    let before = yard.state();
    let ends = ["--good", "HEAD~3", "--json"];
    let mut search: Command = yard.opcost(&[&["bisect", "--quiet"], &ends[..]].concat());
    let mut killed = search.spawn().unwrap();
    let build = yard.lab.wait_for("started");
    killed.kill().unwrap();
    killed.wait().unwrap();
    // SAFETY: kill takes integers only; the build's process sleeps, so the number is still its own.
    assert_eq!(unsafe { libc::kill(build.trim().parse().unwrap(), libc::SIGKILL) }, 0);
    assert_eq!(yard.state(), before);
    yard.lab.write("started.go", "");
    let found = json(&yard.bisect(&ends).expect(0));
    assert_eq!(titles(&found["steps"]), [["Dearer"]]);
    assert_eq!(yard.state(), before);
}

/// A program that forks `forks` times and up to four times more, in turn. Each fork costs page faults, so its figure varies from run to
/// run by construction, and no clock is read.
fn forks(forks: u32) -> String {
    format!(
        "turn=0\nread turn < turn\necho $(((turn + 1) % 5)) > turn\nleft=$(({forks} + turn * 2 % 5))\n\
         while [ $left -gt 0 ]; do (:); left=$((left - 1)); done"
    )
}

#[test]
fn a_figure_that_varies_has_a_probable_culprit() {
    let suite = "[case.work]\nmachine = 'host'\nbuild = './build'\nartifact = 'work'\n\
                 command = './work'\nmetric = 'page-faults'\npairs = 12\n";
    let Some(yard) = Yard::new(suite) else { return };
    yard.script("build", "cp work.in work && echo 0 > turn");
    yard.script("work.in", &forks(20));
    for notes in ["one", "two", "three"] {
        yard.write("notes", notes);
        yard.commit(notes);
    }
    yard.script("work.in", &forks(40));
    yard.commit("Much dearer");
    yard.write("notes", "four");
    yard.commit("four");
    let found = yard.bisect(&["--good", "HEAD~4", "--json"]).expect(0);
    let found = json(&found);
    assert_eq!(titles(&found["steps"]), [["Much dearer"]]);
    assert_eq!(found["metric"], "page-faults");
    let note = found["notes"][0].as_str().unwrap();
    assert!(
        note.starts_with("the figure varies, so one step was assumed; it lies here with"),
        "{note}"
    );
    let text = yard.bisect(&["--good", "HEAD~4"]).expect(0).stdout;
    assert!(text.contains("page-faults: ") && text.contains("Much dearer"), "{text}");
    let same = yard.bisect(&["--good", "HEAD~4", "--bad", "HEAD~2"]);
    same.expect(3).says(&["give an earlier good or a later bad revision"]);
    for wrong in ["2", "0.4", "x"] {
        let wrong = yard.bisect(&["--good", "HEAD~4", "--posterior", wrong]);
        wrong.expect(2).says(&["write a probability of 0.5 or more"]);
    }
}
