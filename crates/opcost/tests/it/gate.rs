//! `opcost gate` in a user's repository: its answers and refusals, and that it leaves nothing there.

use crate::lab::{Ended, Lab, Started, with_mounts};
use crate::needs;
use serde_json::json;
use std::fs;
use std::process::Command;

/// A lab with a repository, and caches of its own.
pub(crate) struct Yard {
    pub(crate) lab: Lab,
}

/// A suite of one case on the host, decided by very few runs.
pub(crate) const HOST: &str = "[case.work]\nmachine = 'host'\nbuild = './build'\nartifact = 'work'\ncommand = './work'\n\
                    pairs = 4\nlimit = '10000%'\n";

impl Yard {
    /// A repository with one commit: its build copies a script, which is the program.
    pub(crate) fn new(suite: &str) -> Option<Yard> {
        if !needs::programs(&["git"]) {
            return None;
        }
        let yard = Yard { lab: Lab::new() };
        yard.git(&["init", "--quiet", "--initial-branch=main", "repository"], "");
        yard.write("opcost.toml", suite);
        yard.script("build", "cp work.in work");
        yard.script("work.in", ":");
        yard.write(".gitignore", "/work\n/started\n");
        yard.commit("One");
        Some(yard)
    }

    fn git(&self, words: &[&str], below: &str) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.lab.path(below)).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
        let output = git.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn in_repository(&self, words: &[&str]) -> String {
        self.git(words, "repository")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        self.lab.write(&format!("repository/{name}"), text);
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        self.lab.script(&format!("repository/{name}"), text);
    }

    pub(crate) fn commit(&self, message: &str) {
        self.in_repository(&["add", "--all"]);
        self.in_repository(&["commit", "--quiet", "--allow-empty", "--message", message]);
    }

    /// opcost as it runs in the repository, with caches of its own.
    pub(crate) fn opcost(&self, words: &[&str]) -> Command {
        let mut command = self.lab.command(words);
        command.current_dir(self.lab.path("repository"));
        command.env("XDG_CACHE_HOME", self.lab.path("cache"));
        command
    }

    fn command(&self, more: &[&str]) -> Command {
        self.opcost(&[&["gate", "--quiet"], more].concat())
    }

    fn gate(&self, more: &[&str]) -> Ended {
        self.command(more).spawn().unwrap().end()
    }

    /// The state of the repository as git shows it, and every file with its time of change.
    pub(crate) fn state(&self) -> (String, Vec<String>) {
        let known = ["status --porcelain", "worktree list", "for-each-ref", "count-objects"]
            .map(|words| self.in_repository(&words.split(' ').collect::<Vec<_>>()))
            .concat();
        let mut files = Vec::new();
        let mut folders = vec![self.lab.path("repository")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                let changed = entry.metadata().unwrap().modified().unwrap();
                // git itself refreshes its index when asked for the status.
                if entry.file_name() != "index" && !entry.file_type().unwrap().is_dir() {
                    files.push(format!("{} {changed:?}", entry.path().display()));
                }
            }
        }
        files.sort();
        (known, files)
    }

    /// Folders of trees in the cache.
    fn trees(&self) -> Vec<String> {
        let gate = fs::read_dir(self.lab.path("cache/opcost/gate")).into_iter().flatten().flatten();
        let trees = gate.flat_map(|entry| {
            fs::read_dir(entry.path().join("trees")).into_iter().flatten().flatten()
        });
        let folders = trees.filter(|entry| entry.path().is_dir());
        folders.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn what_a_count_depends_on_beside_the_revision_is_named_and_blames_no_commit() {
    if !needs::emulator() {
        return;
    }
    let data = "data-of-the-test";
    let suite =
        |case: &str, line: &str| format!("[case.a]\nmetric = '{case}'\nkernel = 'none'\n{line}\n");
    let misses = "command = '/bin/true'\nmodel = true\n";
    let outside = Lab::new();
    outside.write(data, "few\n");
    let counts = format!("command = 'wc -c {}'\n", outside.path(data).display());
    let instructions = "command = '/bin/true'\n";
    let cases: [(&str, [String; 2], &str); 5] = [
        (
            "model-L1-dcache-misses:u",
            [1, 32].map(|size| format!("{misses}cache = ['l1d={size}K:1:64']")),
            "cache:l1d is 32K:1:64, the baseline has 1K:1:64",
        ),
        (
            "instructions:u",
            ["fixed", "inherit"].map(|policy| format!("{instructions}environment = '{policy}'")),
            "environment is inherit, the baseline has fixed",
        ),
        (
            "instructions:u",
            ["", "1"].map(|value| format!("{instructions}env = ['LD_BIND_NOW={value}']")),
            "env:LD_BIND_NOW is ",
        ),
        (
            "instructions:u",
            [(); 2].map(|()| format!("{instructions}environment = 'inherit'")),
            "inherited-environment is ",
        ),
        ("instructions:u", [counts.clone(), counts], "data:data-of-the-test is "),
    ];
    for (metric, [before, after], words) in cases {
        let Some(yard) = Yard::new(&suite(metric, &before)) else { return };
        yard.gate(&["--baseline", "b", "--update"]).expect(0);
        yard.commit("Two");
        yard.gate(&["--baseline", "b"]).expect(0);
        yard.write("opcost.toml", &suite(metric, &after));
        yard.commit("Three");
        outside.write(data, "many\n".repeat(1000));
        let mut gate = yard.command(&["--baseline", "b", "--format", "json"]);
        let shown = gate.env("ANOTHER_SHELL", "yes").spawn().unwrap().end();
        let shown = shown.expect(3).stdout;
        assert!(shown.contains(words), "no '{words}' in: {shown}");
        outside.write(data, "few\n");
    }
}

#[test]
fn what_cannot_be_compared_is_named_with_its_remedy() {
    let Some(yard) = Yard::new(HOST) else { return };
    // This runs outside of a repository.
    let outside = yard.lab.run(&["gate", "--base", "HEAD"]);
    outside.expect(2).says(&["not a git repository", "run this inside the checkout"]);
    yard.gate(&[]).expect(2).says(&["has no upstream branch", "--base origin/main"]);
    yard.gate(&["--base", "nope"]).expect(2).says(&["git knows no revision 'nope'"]);
    yard.gate(&["--base", "HEAD", "--case", "wrok"]).expect(2).says(&["did you mean work?"]);
    let series = |range: &str| yard.opcost(&["series", "--quiet", range]).spawn().unwrap().end();
    series("HEAD").expect(2).says(&["give the commits as BASE..TIP"]);
    series("HEAD...HEAD").expect(2).says(&["give the commits as BASE..TIP"]);
    series("HEAD..HEAD").expect(2).says(&["is measured on this host"]);
    series("nope..HEAD").expect(2).says(&["is measured on this host"]);
    yard.gate(&["--baseline", "none"]).expect(2).says(&["is measured on this host", "--base"]);
    yard.write("opcost.toml", "[case.work]\ncomand = 'x'\n");
    yard.gate(&["--base", "HEAD"])
        .expect(2)
        .says(&["unknown key 'comand' (did you mean command?)"]);
    fs::remove_file(yard.lab.path("repository/opcost.toml")).unwrap();
    yard.gate(&["--base", "HEAD"]).expect(2).says(&["there is no suite", "[case.parse]"]);
}

#[test]
fn baselines_that_say_nothing_are_no_pass() {
    let Some(yard) = Yard::new("[case.work]\ncommand = './work'\n") else { return };
    let refused = |text: &str, part: &str| {
        yard.write("figures", text);
        yard.gate(&["--baseline", "figures"]).expect(3).says(&["baseline 'figures'", part]);
    };
    yard.gate(&["--baseline", "figures"]).expect(3).says(&["there is no baseline", "--update"]);
    refused("opcost-baseline 3\n", "has format 3");
    refused("opcost-baseline 2\n<<<<<<< HEAD\n", "line 2: git left a conflict");
    refused("opcost-baseline 2\nwork instructions many - k=v\n", "line 2: 'many' is no count");
    refused("figures\n", "this is no baseline file");
    yard.gate(&["--baseline", "figures", "--update"]).expect(3).says(&["this is no baseline file"]);
}

#[test]
fn a_shallow_clone_says_what_to_fetch() {
    let Some(yard) = Yard::new(HOST) else { return };
    yard.commit("Two");
    yard.in_repository(&["checkout", "--quiet", "-b", "change"]);
    yard.commit("Three");
    yard.in_repository(&["checkout", "--quiet", "main"]);
    yard.commit("Four");
    let from = format!("file://{}", yard.lab.path("repository").display());
    yard.git(&["clone", "--quiet", "--depth=1", "--no-single-branch", &from, "shallow"], "");
    yard.git(&["checkout", "--quiet", "change"], "shallow");
    let gate = |more: &[&str]| {
        let mut command = yard.command(more);
        command.current_dir(yard.lab.path("shallow"));
        command.spawn().unwrap().end()
    };
    yard.git(&["branch", "--quiet", "--set-upstream-to=origin/main"], "shallow");
    gate(&[]).expect(2).says(&["went apart", "fetch-depth: 0"]);
    gate(&["--base", "HEAD~1"]).expect(2).says(&["no revision 'HEAD~1'", "fetch-depth: 0"]);
}

#[test]
fn builds_that_fail_are_shown_and_leave_the_repository_alone() {
    let Some(yard) = Yard::new(HOST) else { return };
    yard.script("build", "echo compiling; echo 'work.in:3: no such thing' >&2; exit 7");
    yard.commit("Does not build");
    yard.script("build", "true");
    yard.commit("Makes nothing");
    let before = yard.state();
    let ended = yard.gate(&["--base", "HEAD~2", "--tip", "HEAD~1"]).expect(4);
    for part in [
        "tip ",
        "Does not build",
        "'./build' ended with status 7",
        "work.in:3: no such thing",
        ".log",
    ] {
        assert!(ended.stdout.contains(part), "no '{part}' in {}", ended.stdout);
    }
    // A case missing on the base may fail there; a case that the base has may not.
    let ended = yard.gate(&["--base", "HEAD~1", "--tip", "HEAD~2"]).expect(4);
    assert!(
        ended.stdout.contains("base ") && ended.stdout.contains("status 7"),
        "{}",
        ended.stdout
    );
    let ended = yard.gate(&["--base", "HEAD~2"]).expect(4);
    assert!(ended.stdout.contains("has no 'work' after './build'"), "{}", ended.stdout);
    yard.gate(&["--base", "HEAD~2", "--soft"]).expect(0);
    assert_eq!(yard.state(), before);
}

#[test]
fn a_metric_that_varies_gets_the_usual_verdicts() {
    let Some(yard) = Yard::new(HOST) else { return };
    yard.script("work.in", "exec true");
    yard.commit("Two");
    yard.write("new", "not committed\n");
    let before = yard.state();
    // Four pairs cannot decide, and an undecided figure is no pass.
    let ended = yard.gate(&["--base", "HEAD~1"]).expect(3);
    assert!(ended.stdout.contains("wall"), "{}", ended.stdout);
    assert!(ended.stdout.contains("changes of 1 file that are not committed"), "{}", ended.stdout);
    assert_eq!(yard.state(), before);
    // With --worktree, uncommitted changes are measured.
    yard.script("work.in", "exit 5");
    let ended = yard.gate(&["--base", "HEAD", "--worktree"]).expect(4);
    assert!(ended.stdout.contains("it ended with status 5"), "{}", ended.stdout);
    assert_eq!(yard.trees().len(), 3);
    // git tells a hook where its repository is; the gate ignores these variables.
    let mut hook = yard.command(&["--base", "HEAD~1", "--tip", "HEAD"]);
    hook.env("GIT_DIR", yard.lab.path("elsewhere")).env("GIT_INDEX_FILE", "nowhere");
    hook.spawn().unwrap().end().expect(3);
}

#[test]
fn what_a_killed_gate_leaves_is_removed_by_the_next() {
    let Some(yard) = Yard::new(HOST) else { return };
    let before = yard.state();
    let started = yard.lab.path("started");
    yard.script("build", &format!("echo $$ > {}; exec sleep 100", started.display()));
    yard.commit("Builds for ever");
    yard.script("build", "cp work.in work");
    yard.commit("Builds again");
    let during = yard.state();
    let mut killed = yard.command(&["--base", "HEAD~2", "--tip", "HEAD~1"]).spawn().unwrap();
    let build = yard.lab.wait_for("started");
    killed.kill().unwrap();
    killed.wait().unwrap();
    // A compiler that outlives its opcost writes to no other tree.
    // SAFETY: kill takes integers only; the build's process sleeps, so the number is still its own.
    assert_eq!(unsafe { libc::kill(build.trim().parse().unwrap(), libc::SIGKILL) }, 0);
    assert_eq!(yard.state(), during);
    assert_eq!(yard.trees().len(), 1, "half a tree");
    yard.gate(&["--base", "HEAD~2"]).expect(3);
    assert_eq!(yard.trees().len(), 1, "both sides are one tree, and the half one is gone");
    assert_eq!(yard.state(), during);
    assert_ne!(before, during);
}

#[test]
fn a_full_disk_ends_a_gate_and_leaves_nothing() {
    let Some(yard) = Yard::new(HOST) else { return };
    yard.script("build", "head -c 4m /dev/zero > work");
    yard.commit("Builds something large");
    let before = yard.state();
    fs::create_dir_all(yard.lab.path("cache")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=1m none cache
        cd repository
        status=0
        XDG_CACHE_HOME=$PWD/../cache $OPCOST gate --quiet --base HEAD~1 > ../full.out 2> ../full.err || status=$?
        echo $status > ../full.status
        ls ../cache/opcost/gate/*/trees > ../full.trees
    "#;
    let Some(ended) = with_mounts(&yard.lab, script) else {
        crate::skip::skip!("this user may not mount anything (unshare --mount)");
        return;
    };
    ended.expect(0);
    assert_eq!(yard.lab.read("full.status"), "5\n");
    let error = yard.lab.read("full.err");
    for part in ["the disk that has", "is full", "XDG_CACHE_HOME"] {
        assert!(error.contains(part), "no '{part}' in {error}");
    }
    assert!(yard.lab.lines("full.trees").iter().all(|name| name.ends_with(".log")));
    assert_eq!(yard.state(), before);
}

/// A suite of one case whose instructions are exact, held to 0.5 %.
fn exact(kernel: &str, start: &str) -> String {
    format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nlimit = '0.5%'\n\
         metric = 'instructions:u'\n[case.loop]\ncommand = '{start}work'\n"
    )
}

/// A program whose instructions grow with `rounds`.
fn work(rounds: u32) -> String {
    format!("at=0\nwhile [ $at -lt {rounds} ]; do at=$((at + 1)); done")
}

/// A repository whose suite counts a compiled loop, with one commit of it.
fn yard_of_loops(kernel: &str) -> Option<Yard> {
    if !needs::programs(&["cc"]) {
        return None;
    }
    let yard = Yard::new(&exact(kernel, "./"))?;
    yard.script("build", COMPILES);
    yard.write("work.in", &compiled(200));
    yard.commit("A loop");
    Some(yard)
}

#[test]
fn a_gate_in_guests_has_a_page_whose_experiment_gives_its_counts() {
    let Some(yard) = needs::kernel().and_then(|kernel| yard_of_loops(&kernel)) else { return };
    yard.write("work.in", &compiled(220));
    yard.commit("More rounds");
    let report = yard.gate(&["--base", "HEAD~1", "--json"]).expect(1);
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["cases"][0]["figures"][0]["outcome"], "exceeded", "{report:#}");

    // The experiment is good wherever the revision's tree is.
    let tip = report["cases"][0]["recordings"]["tip"].as_str().unwrap();
    let page =
        yard.opcost(&["show", tip, "--format", "html"]).spawn().unwrap().end().expect(0).stdout;
    let (_, experiment) = page.split_once("<code>name = ").expect("an experiment in the page");
    let experiment = experiment.split_once("</code>").unwrap().0;
    let experiment = [("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")]
        .iter()
        .fold(format!("name = {experiment}"), |text, (entity, char)| text.replace(entity, char));
    yard.lab.write("again.toml", &experiment);
    let mut again = yard.lab.command(&["run", "again.toml", "--quiet", "--json"]);
    let again = again.env("XDG_CACHE_HOME", yard.lab.path("cache")).spawn().unwrap().end();
    let again: serde_json::Value = serde_json::from_str(&again.expect(0).stdout).unwrap();
    let mut counted = again["opcost"]["figures"].as_array().unwrap().iter();
    let of_user = |figure: &&serde_json::Value| {
        (&figure["metric"], &figure["domain"]) == (&"instructions".into(), &"user".into())
    };
    let counted = counted.find(of_user).unwrap();
    assert_eq!(counted["median"], report["cases"][0]["figures"][0]["value"], "{experiment}");

    // A commit that leaves the program as it was is built, and not counted again: neither the tip's program nor the base's.
    let base = yard.in_repository(&["rev-parse", "HEAD~1"]);
    let check = |message: &str, rounds: u32, status: i32, side: &str| {
        yard.write("work.in", &compiled(rounds));
        yard.write("README", message);
        yard.commit(message);
        let again = yard.gate(&["--base", base.trim(), "--json"]).expect(status);
        let again: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
        let tip = &again["cases"][0]["recordings"]["tip"];
        assert_eq!(tip, &report["cases"][0]["recordings"][side], "{again:#}");
        assert!(again["notes"].to_string().contains("1 count was not made again"), "{again:#}");
        again["cases"][0]["figures"][0].clone()
    };
    let figure = check("A page", 220, 1, "tip");
    assert_eq!(figure["change"], report["cases"][0]["figures"][0]["change"]);
    assert_eq!(check("The base's rounds again", 200, 0, "base")["change"], 0.0);
}

#[test]
fn exact_counts_answer_from_a_committed_file_and_from_a_base() {
    let Some((kernel, _)) = needs::counter() else { return };
    let Some(yard) = yard_of_loops(&kernel) else { return };
    let check = ["--baseline", "figures"];
    yard.gate(&["--baseline", "figures", "--update"]).expect(0);
    let figures = yard.lab.read("repository/figures");
    assert!(figures.starts_with("opcost-baseline 2\n\nloop instructions:u "), "{figures}");
    yard.commit("The baseline");
    let same = yard.gate(&check).expect(0);
    assert!(same.stdout.contains("1 figure the same"), "{}", same.stdout);

    // A cost beyond the limit names its function, until a commit accepts it.
    yard.write("work.in", &compiled(220));
    yard.commit("More rounds");
    let out = yard.lab.path("report.json");
    let worse =
        yard.gate(&["--baseline", "figures", "--export-json", out.to_str().unwrap()]).expect(1);
    for part in ["▲ more than 0.50 %", "come from", "Opcost-accept: loop +"] {
        assert!(worse.stdout.contains(part), "no '{part}' in {}", worse.stdout);
    }
    let report: serde_json::Value = serde_json::from_str(&yard.lab.read("report.json")).unwrap();
    let ratio = report["cases"][0]["figures"][0]["change_ratio"].as_f64().unwrap();
    yard.commit(&format!("Accepted\n\nOpcost-accept: loop +{:.1}%", 100.0 * ratio + 0.1));

    // With --base, the gate gives the same figures, as the base counts what the baseline says.
    let based = yard.gate(&["--base", "HEAD~2", "--json"]).expect(0);
    let based: serde_json::Value = serde_json::from_str(&based.stdout).unwrap();
    let figure =
        |report: &serde_json::Value, name: &str| report["cases"][0]["figures"][0][name].clone();
    for name in ["baseline", "value", "floor"] {
        assert_eq!(figure(&based, name), figure(&report, name), "{name}");
    }

    assert!(based["accepted"][0]["text"].as_str().unwrap().starts_with("loop +"), "{based}");

    // In a series of the same commits, the changes of the commits add up to the change of all.
    let mut series = yard.opcost(&["series", "--quiet", "HEAD~2..HEAD", "--json"]);
    let series: serde_json::Value =
        serde_json::from_str(&series.spawn().unwrap().end().expect(0).stdout).unwrap();
    let [first, second] = &series["figures"][0]["steps"].as_array().unwrap()[..] else {
        panic!("{series}")
    };
    assert_eq!(first["change"].as_f64(), figure(&based, "change").as_f64());
    assert_eq!(
        (second["change"].as_i64(), &series["figures"][0]["total"]["change"]),
        (Some(0), &first["change"])
    );

    // A value written by hand differs from the count of the commit that wrote the file, and the gate says so.
    let value = report["cases"][0]["figures"][0]["baseline"].as_f64().unwrap() as u64;
    yard.write("figures", &figures.replace(&format!(" {value} "), &format!(" {} ", value / 2)));
    let edited = yard.gate(&check).expect(1);
    let said = edited.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("which wrote the baseline, does not count what the baseline says"),
        "{said}"
    );

    // A baseline of another CPU does not compare, and a baseline without a case is no pass.
    let other = figures.replace("cpu=EPYC-Rome-v2", "cpu=Skylake-Client-v1")
        + "\nturns instructions 1 - cpu=max\n";
    yard.write("figures", &other);
    let other = yard.gate(&check).expect(3);
    let said = other.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "cpu is EPYC-Rome-v2, the baseline has Skylake-Client-v1",
        "turns: the baseline has it, and the suite has no such case",
        "Measure the baseline anew and commit it: opcost gate --baseline figures --update",
    ] {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
}

#[test]
fn a_change_cannot_loosen_its_own_suite_unseen() {
    let Some((kernel, start)) = needs::counter() else { return };
    let suite = exact(&kernel, start);
    let Some(yard) = Yard::new(&suite) else { return };
    yard.script("work.in", &work(200));
    yard.commit("A loop");
    yard.script("work.in", &work(220));
    yard.write("opcost.toml", &suite.replace("0.5%", "900%"));
    yard.commit("More rounds");
    let passed = yard.gate(&["--base", "HEAD~1"]).expect(0);
    let said = "it changes its own suite: limit of loop: 0.50 % → 900.0 %";
    let words = passed.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(said), "no '{said}' in {words}");
    let comment = yard.gate(&["--base", "HEAD~1", "--format", "markdown"]).expect(0).stdout;
    assert!(comment.contains("⚠️") && !comment.contains("Nothing has to be done"), "{comment}");

    // The case that would fail goes; the protected suite of the base has it all the same.
    yard.in_repository(&["checkout", "--quiet", "HEAD~1"]);
    yard.write("opcost.toml", &format!("protect = true\n{suite}"));
    yard.commit("Protected");
    yard.script("work.in", &work(220));
    yard.write("opcost.toml", &suite.replace("loop", "other"));
    yard.commit("Another case");
    let failed = yard.gate(&["--base", "HEAD~1"]).expect(1);
    for part in ["case loop went (not applied:", "▲ more than 0.50 %"] {
        assert!(failed.stdout.contains(part), "no '{part}' in {}", failed.stdout);
    }
}

#[test]
fn small_costs_that_each_pass_fail_together() {
    let Some((kernel, start)) = needs::counter() else { return };
    let suite = exact(&kernel, start);
    let Some(yard) = Yard::new(&suite) else { return };
    let step = |rounds: u32| {
        yard.script("work.in", &work(rounds));
        yard.commit(&format!("{rounds} rounds"));
    };
    step(200);
    yard.commit("Nothing");
    yard.commit("Nothing");
    step(210);
    let report = |status: i32| -> serde_json::Value {
        let ended = yard.gate(&["--base", "HEAD~1", "--json"]).expect(status);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let of = |report: &serde_json::Value, figure: usize, name: &str| {
        report["cases"][0]["figures"][figure][name].clone()
    };
    let percent = 100.0 * of(&report(1), 0, "change_ratio").as_f64().unwrap();
    // A step of this size is allowed, and two in three commits.
    let (limit, drift) = (format!("{:.3}%", 1.5 * percent), format!("{:.3}% in 3", 2.5 * percent));
    yard.write(
        "opcost.toml",
        &suite.replace("limit = '0.5%'", &format!("limit = '{limit}'\ndrift = '{drift}'")),
    );
    step(220);
    let passed = report(0);
    assert_eq!(of(&passed, 0, "outcome"), "within-limit");
    assert_eq!(
        (of(&passed, 1, "outcome"), of(&passed, 1, "over_commits")),
        (json!("within-limit"), json!(3))
    );
    step(230);
    let failed = report(1);
    assert_eq!(of(&failed, 0, "outcome"), "within-limit");
    assert_eq!(
        (of(&failed, 1, "outcome"), of(&failed, 1, "metric")),
        (json!("exceeded"), json!("instructions:u"))
    );
    let sum: f64 = of(&failed, 1, "change").as_f64().unwrap();
    let one = of(&failed, 0, "change").as_f64().unwrap();
    assert!((sum / one - 3.0).abs() < 0.1, "{sum} is three times {one}");
    let text = yard.gate(&["--base", "HEAD~1"]).expect(1).stdout;
    assert!(
        text.contains("instructions:u over 3 commits") && text.contains("must not land"),
        "{text}"
    );
    // What its commits accept is no drift.
    let amount = format!("{:.1}", 3.3 * percent);
    yard.script("work.in", &work(240));
    yard.commit(&format!("240 rounds\n\nOpcost-accept: loop +{amount}%"));
    let accepted = report(0);
    assert_eq!(of(&accepted, 1, "outcome"), "accepted", "{accepted}");
}

#[test]
fn a_region_of_a_program_is_held_against_a_limit() {
    let Some((kernel, _)) = needs::counter() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let suite = format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nregions = true\nlimit = '0.1%'\n\
         [case.sums]\ncommand = './work'\nmetric = ['sum/instructions:u', 'other/instructions:u']\n"
    );
    let Some(yard) = Yard::new(&suite) else { return };
    let include = crate::lab::root().join("crates/opcost-region/include");
    yard.script("build", &format!("cc -O1 -I '{}' -x c work.in -o work", include.display()));
    let program = |rounds: u32| {
        format!(
            "#include \"opcost.h\"\nstatic volatile int sink;\nint main(void) {{\n\
             opcost_region_begin(\"sum\");\nfor (int at = 0; at < {rounds}; at++) sink += at;\n\
             opcost_region_end(\"sum\", 0);\nopcost_region_begin(\"other\");\n\
             for (int at = 0; at < 1000; at++) sink += at;\nopcost_region_end(\"other\", 0);\n\
             return 0; }}\n"
        )
    };
    yard.write("work.in", &program(1000));
    yard.commit("A loop");
    yard.write("work.in", &program(1010));
    yard.commit("More rounds");
    let ended = yard.gate(&["--base", "HEAD~1", "--json"]).expect(1);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let figures = report["cases"][0]["figures"].as_array().unwrap();
    let of = |metric: &str| figures.iter().find(|figure| figure["metric"] == metric).unwrap();
    let more = of("sum/instructions:u")["change_ratio"].as_f64().unwrap();
    assert!((0.009..0.011).contains(&more), "{report:#}");
    assert_eq!(of("other/instructions:u")["change"].as_f64(), Some(0.0), "{report:#}");
}

/// A build script for [`compiled`].
const COMPILES: &str = "cc -O1 -x c work.in -o work";

/// A program in C that does this many rounds, and whose count repeats: a shell writes its process number, each digit of which costs
/// instructions.
fn compiled(rounds: u32) -> String {
    format!(
        "static volatile int sink;\n\
         int main(void) {{ for (int at = 0; at < {rounds}00; at++) sink += at; return 0; }}\n"
    )
}

#[test]
fn notes_of_commits_keep_figures_without_a_server() {
    let Some((kernel, _)) = needs::counter() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let suite = format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nlimit = '50%'\n\
         metric = 'instructions:u'\n[case.loop]\ncommand = './work'\n"
    );
    let Some(yard) = Yard::new(&suite) else { return };
    let history = |more: &[&str]| {
        let mut command = yard.lab.command(&[&["history", "--notes"][..], more].concat());
        command.current_dir(yard.lab.path("repository"));
        command.spawn().unwrap().end()
    };
    history(&["loop"]).expect(2).says(&["no commit up to HEAD has a note", "opcost gate --notes"]);
    yard.script("build", COMPILES);
    yard.write("work.in", &compiled(200));
    yard.commit("A loop");
    yard.write("work.in", &compiled(220));
    yard.commit("More rounds");
    yard.in_repository(&["config", "user.name", "a"]);
    yard.in_repository(&["config", "user.email", "a@b"]);
    let before = yard.state();
    yard.gate(&["--base", "HEAD~2", "--tip", "HEAD~1", "--notes", "--soft"]).expect(0);
    yard.gate(&["--base", "HEAD~1", "--notes"]).expect(0);
    // A second run changes nothing, and the checkout is as it was.
    let note = yard.in_repository(&["notes", "--ref=opcost", "show", "HEAD"]);
    yard.gate(&["--base", "HEAD~1", "--notes"]).expect(0);
    assert_eq!(yard.in_repository(&["notes", "--ref=opcost", "show", "HEAD"]), note);
    assert!(note.starts_with("opcost-baseline 2\n\nloop instructions:u "), "{note}");
    let work_tree = |state: &(String, Vec<String>)| {
        let files = state.1.iter().filter(|file| !file.contains(".git"));
        files.cloned().collect::<Vec<String>>()
    };
    assert_eq!(work_tree(&before), work_tree(&yard.state()));
    let shown = history(&["loop"]).expect(0).stdout;
    assert!(shown.contains("loop instructions:u · 2 commits with notes"), "{shown}");
    assert!(shown.contains(" %  More rounds"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&history(&["loop", "--json"]).expect(0).stdout).unwrap();
    let points = json["series"][0]["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[1]["before"]), (2, &points[0]["value"]), "{json}");
    // A foreign note is neither read nor overwritten.
    yard.in_repository(&["notes", "--ref=opcost", "add", "--force", "-m", "hello", "HEAD"]);
    yard.gate(&["--base", "HEAD~1", "--notes"]).expect(3).says(&["this is no baseline file"]);
    let damaged = history(&["loop"]).expect(0);
    assert!(damaged.stderr.contains("is left out"), "{}", damaged.stderr);
    assert!(damaged.stdout.contains("1 commit with a note"), "{}", damaged.stdout);
    // The same as a page and a picture.
    let mut drawn =
        yard.opcost(&["history", "--notes", "loop", "--html", "page.html", "--badge", "badge.svg"]);
    drawn.spawn().unwrap().end().expect(0);
    let page = yard.lab.read("repository/page.html");
    assert!(page.contains("<svg") && page.contains("opcost history"), "{page}");
    assert!(yard.lab.read("repository/badge.svg").starts_with("<svg"));
    let mut refused = yard.opcost(&["history", "--notes", "loop", "--html", "gone/page.html"]);
    let parts = ["--html gone/page.html: there is no folder 'gone'"];
    refused.spawn().unwrap().end().expect(2).says(&parts);
    let mut refused =
        yard.opcost(&["history", "--notes", "loop", "--html", "page", "--badge", "page"]);
    refused.spawn().unwrap().end().expect(2).says(&["--html and --badge both name 'page'"]);
}

#[test]
fn a_push_keeps_figures_and_draws_them_for_any_host_of_pages() {
    let Some((kernel, _)) = needs::counter() else { return };
    if !needs::programs(&["cc", "python3"]) {
        return;
    }
    let suite = format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nlimit = '50%'\n\
         metric = 'instructions:u'\n[case.loop]\ncommand = './work'\n[case.'a/b']\ncommand = './work 1'\n"
    );
    let Some(yard) = Yard::new(&suite) else { return };
    yard.script("build", COMPILES);
    yard.git(&["init", "--quiet", "--bare", "forge"], "");
    yard.in_repository(&["remote", "add", "origin", "../forge"]);
    // A fresh runner knows nobody's name.
    let runner = [("GIT_CONFIG_GLOBAL", "/dev/null"), ("HOME", "/nowhere"), ("EMAIL", "")];
    let push = |rounds: u32| {
        yard.write("work.in", &compiled(rounds));
        yard.commit("A loop");
        let keeps = [&runner[..], &[("OPCOST_NOTES", "1"), ("OPCOST_SOFT", "1")]].concat();
        script_ci(&yard, "gate", &keeps).expect(0);
    };
    push(200);
    script_ci(&yard, "history", &runner).expect(0);
    let noted = |folder: &str| yard.git(&["notes", "--ref=opcost", "list"], folder).lines().count();
    assert_eq!(noted("forge"), 1);
    let index = yard.lab.read("report/history/index.html");
    assert!(index.contains("<a href=\"loop.html\">loop ") && index.contains("\"a=b.html\">a/b "));
    assert!(yard.lab.read("report/history/loop.html").contains("<svg"));
    assert!(yard.lab.read("report/history/loop.svg").starts_with("<svg"));
    // Another job's note came first.
    push(210);
    yard.git(&["clone", "--quiet", "forge", "other"], "");
    yard.git(&["commit", "--quiet", "--allow-empty", "--message", "Other"], "other");
    yard.git(&["fetch", "--quiet", "origin", "refs/notes/opcost:refs/notes/opcost"], "other");
    yard.git(&["notes", "--ref=opcost", "add", "-m", "other", "HEAD"], "other");
    yard.git(&["push", "--quiet", "origin", "refs/notes/opcost"], "other");
    script_ci(&yard, "history", &runner).expect(0);
    assert_eq!(noted("forge"), 3);
    // A token that may only read.
    yard.in_repository(&["remote", "set-url", "origin", "/nowhere"]);
    let refused = script_ci(&yard, "history", &runner);
    assert!(refused.status != Some(0) && refused.stderr.contains("/nowhere"), "{refused:?}");
}

/// Runs a script of `script/ci` in the lab's repository, with the test's programs first in PATH.
fn script_ci(yard: &Yard, name: &str, environment: &[(&str, &str)]) -> Ended {
    let script = crate::lab::root().join("script/ci").join(name);
    let mut command = yard.lab.shell(&format!("exec '{}'", script.display()));
    let path = std::env::var("PATH").unwrap_or_default();
    command.current_dir(yard.lab.path("repository"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GITHUB_")) {
        command.env_remove(name);
    }
    command.env("PATH", format!("{}:{path}", yard.lab.path("bin").display()));
    command.env("OPCOST", crate::lab::OPCOST).env("XDG_CACHE_HOME", yard.lab.path("cache"));
    command.env("OPCOST_REPORT", yard.lab.path("report")).envs(environment.iter().copied());
    command.spawn().unwrap().end()
}

#[test]
fn a_job_leaves_a_report_whatever_happens() {
    let Some(yard) = Yard::new(&HOST.replace("'10000%'", "'10000%'\nmetric = 'page-faults'"))
    else {
        return;
    };
    yard.commit("Two");
    let summary = yard.lab.path("summary");
    let job = |more: &[(&str, &str)]| {
        let all = [
            &[("GITHUB_STEP_SUMMARY", summary.to_str().unwrap()), ("GITHUB_ACTIONS", "true")],
            more,
        ]
        .concat();
        script_ci(&yard, "gate", &all)
    };
    // Four pairs decide nothing: the missing answer is in every file.
    job(&[("GITHUB_REF", "refs/pull/17/merge")]).expect(3);
    assert!(yard.lab.read("report/comment.md").starts_with("<!-- opcost gate -->\n❔ **No answer"));
    assert!(yard.lab.read("summary").contains("No answer"));
    assert_eq!(yard.lab.read("report/number"), "17\n");
    for name in ["gate.json", "junit.xml", "metrics.txt", "annotations"] {
        assert!(yard.lab.exists(&format!("report/{name}")), "{name}");
    }
    job(&[("OPCOST_SOFT", "1")]).expect(0);
    // A gate that could not begin also writes a comment.
    job(&[("OPCOST_BASE", "nope")]).expect(2).says(&["git knows no revision 'nope'"]);
    assert!(yard.lab.read("report/comment.md").contains("ended with status 2"));
    // The message names the missing target branch.
    job(&[("GITHUB_BASE_REF", "main")]).expect(2).says(&["git knows no revision 'origin/main'"]);
}

#[test]
fn a_forge_s_merge_is_repeated_by_its_branch_and_the_commit_is_searched_there() {
    let Some((kernel, _)) = needs::counter() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let suite = format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nlimit = '0.1%'\n\
         metric = 'instructions:u'\n[case.loop]\ncommand = './work'\n"
    );
    let Some(yard) = Yard::new(&suite) else { return };
    yard.script("build", COMPILES);
    yard.in_repository(&["config", "user.name", "a"]);
    yard.in_repository(&["config", "user.email", "a@b"]);
    let id = |name: &str| yard.in_repository(&["rev-parse", name]).trim().to_string();
    yard.write("work.in", &compiled(200));
    yard.commit("A loop");
    let left = id("HEAD");
    for (rounds, subject) in [(200, "A remark"), (220, "More rounds")] {
        yard.write("work.in", &compiled(rounds));
        yard.write("remark", subject);
        yard.commit(subject);
    }
    let head = id("HEAD");
    yard.in_repository(&["checkout", "--quiet", "--detach", &left]);
    yard.write("other", "of the target branch");
    yard.commit("Elsewhere");
    let base = id("HEAD");
    yard.in_repository(&["merge", "--quiet", "--no-edit", &head]);
    let report = || -> serde_json::Value {
        let ended = yard.gate(&["--base", &base, "--json"]).expect(1);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let of_merge = report();
    let merge = format!("git merge --no-edit {head}");
    let again =
        [format!("git checkout --detach {base}"), merge, format!("opcost gate --base {base}")];
    assert_eq!(of_merge["reproduction"], json!(again));
    let search = format!("opcost bisect --good {left} --bad {head} --case loop");
    assert_eq!(of_merge["culprit"]["commands"], json!([search]));
    assert_eq!(of_merge["branch"]["commits"], 2);
    // Who repeats it counts the same.
    yard.in_repository(&["checkout", "--quiet", "--detach", &base]);
    yard.in_repository(&["merge", "--quiet", "--no-edit", &head]);
    assert_eq!(report()["cases"][0]["figures"], of_merge["cases"][0]["figures"]);
    // One commit is named; a folder of reports in the checkout is no change of it.
    yard.in_repository(&["checkout", "--quiet", &head]);
    let report = yard.lab.path("repository/opcost-gate").display().to_string();
    let one = [("OPCOST_BASE", "HEAD~1"), ("OPCOST_REPORT", &report)];
    for _ in 0..2 {
        let said = script_ci(&yard, "gate", &one).expect(1).stdout;
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("The change is one commit: ") && words.contains("(More rounds)"),
            "{said}"
        );
        assert!(!words.contains("uncommitted"), "{said}");
    }
}

#[test]
fn a_baseline_survives_an_update_of_packages() {
    let Some((kernel, _)) = needs::counter() else { return };
    if !needs::programs(&["cc"]) {
        return;
    }
    let suite = format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nlimit = '0.1%'\n\
         metric = 'instructions:u'\n[case.loop]\ncommand = './work'\n[case.more]\ncommand = './work'\n"
    );
    let Some(yard) = Yard::new(&suite) else { return };
    yard.script("build", COMPILES);
    yard.write("work.in", &compiled(200));
    yard.commit("A loop");
    yard.gate(&["--baseline", "figures", "--update"]).expect(0);
    let now = yard.lab.read("repository/figures");
    let line = now.lines().find(|line| line.starts_with("loop ")).unwrap();
    let (_, emulator) = line.split_once("emulator=").unwrap();
    let (emulator, _) = emulator.split_once(';').unwrap();
    // The figures of an older QEMU, whose counts were others.
    let older = now.replace(emulator, "7.2.1").replace("instructions:u ", "instructions:u 1");
    yard.write("figures", &older);
    yard.commit("Figures");
    let writer = yard.in_repository(&["rev-parse", "HEAD"]);
    let gate = |status: i32| -> serde_json::Value {
        let ended = yard.gate(&["--baseline", "figures", "--json"]).expect(status);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let same = gate(0);
    assert_eq!(same["cases"][0]["figures"][0]["outcome"], "same", "{same:#}");
    assert_eq!(same["cases"][0]["recounted"]["written"]["commit"], writer.trim());
    assert_eq!(same["cases"][0]["recounted"]["differences"][0]["part"], "emulator");
    // The base is asked for once, and so described once.
    yard.write("opcost.toml", &format!("{suite}[[fixup]]\ncommits = '..HEAD'\nrun = 'true'\n"));
    let fixed = gate(0);
    let notes = fixed["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str());
    let of_base = notes.filter(|note| note.starts_with("case 'loop': fixups of the base: "));
    assert_eq!(of_base.count(), 1, "{fixed:#}");
    yard.write("opcost.toml", &suite);

    // Another case's figure is written later: the first keeps its standard.
    yard.write("work.in", &compiled(210));
    yard.commit("More rounds");
    yard.gate(&["--baseline", "figures", "--update", "--case", "more"]).expect(0);
    yard.commit("Figures of one case");
    let worse = gate(1);
    let [first, second] = [0, 1].map(|at| &worse["cases"][at]);
    assert_eq!(first["figures"][0]["outcome"], "exceeded", "{worse:#}");
    assert_eq!(first["recounted"]["written"]["commit"], writer.trim());
    assert_eq!(second["figures"][0]["outcome"], "same", "{worse:#}");
    assert!(second["recounted"].is_null());
    let said = yard.gate(&["--baseline", "figures"]).expect(1).stdout;
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["the baseline has 7.2.1", "(Figures), which wrote the baseline, was counted again here"]
    {
        assert!(words.contains(part), "no '{part}' in {said}");
    }

    // What somebody chose is never counted again.
    yard.write("opcost.toml", &format!("cpu-model = 'Nehalem'\n{suite}"));
    yard.commit("Another CPU");
    let other = gate(3);
    assert_eq!(other["cases"][0]["figures"][0]["outcome"], "not-comparable", "{other:#}");
    assert!(other["cases"][0]["recounted"].is_null());
}

#[test]
fn a_job_installs_the_release_that_it_names() {
    let Some(yard) = Yard::new(HOST) else { return };
    let lab = &yard.lab;
    // Programs of a runner that log their arguments; apt-get leaves an opcost of release $SAYS.
    for (name, text) in [
        ("dpkg", "echo \"${ARCHITECTURE:-amd64}\""),
        ("sudo", "exec \"$@\""),
        (
            "curl",
            "echo \"curl $*\" >> FOLDER/called\nwhile [ $# -gt 0 ]; do case $1 in\n\
                  --output) cp FOLDER/release \"$2\" ;;\nesac; shift; done",
        ),
        (
            "apt-get",
            "echo \"apt-get $*\" >> FOLDER/called\ncase \"$*\" in install*)\n\
                     printf '#!/bin/sh\\necho opcost %s\\n' \"${SAYS:-0.3.0}\" > FOLDER/bin/fresh\n\
                     chmod +x FOLDER/bin/fresh ;; esac",
        ),
    ] {
        lab.script(&format!("bin/{name}"), &text.replace("FOLDER", lab.dir().to_str().unwrap()));
    }
    lab.write("release", "a package");
    const CHECKSUM: &str = "c0cd5ccfdb563a59366e33e73001b78fdb8cca5a6c48e2f90fffcde44b81f1f6";
    let install = |environment: &[(&str, &str)]| {
        lab.write("called", "");
        let all = [&[("OPCOST", "fresh"), ("OPCOST_REPOSITORY", "ann/opcost")], environment];
        script_ci(&yard, "install", &all.concat())
    };
    let (version, checksum) = (("OPCOST_VERSION", "0.3.0"), ("OPCOST_SHA256", CHECKSUM));
    install(&[]).expect(5).says(&["there is no 'fresh' here; name a release"]);
    install(&[version]).expect(2).says(&["the checksum of opcost 0.3.0 is not 64 digits"]);
    install(&[("OPCOST_VERSION", "$(reboot)"), checksum]).expect(2).says(&["is no release"]);
    install(&[version, checksum, ("ARCHITECTURE", "arm64")])
        .expect(5)
        .says(&["packages are for amd64, and this runner is arm64"]);
    install(&[version, checksum, ("OPCOST_PACKAGE", "http://example.org/opcost.deb")])
        .expect(2)
        .says(&["is no file here and no https address"]);
    let other = "0".repeat(64);
    install(&[version, ("OPCOST_SHA256", &other)])
        .expect(5)
        .says(&["and the job expects 0000", "nothing is installed"]);
    assert!(!lab.read("called").contains("apt-get"), "{}", lab.read("called"));
    install(&[version, checksum, ("SAYS", "0.2.0")])
        .expect(5)
        .says(&["'fresh' is opcost 0.2.0 and not 0.3.0"]);
    let done = install(&[version, checksum]).expect(0);
    assert_eq!(done.stdout, "install: opcost 0.3.0\n");
    let called = lab.read("called");
    let address = "https://github.com/ann/opcost/releases/download/v0.3.0/opcost_0.3.0-1_amd64.deb";
    assert!(called.contains(address) && called.contains("apt-get install -y"), "{called}");
    // The second job finds it; a job without a release takes what is there.
    for environment in [&[version, checksum][..], &[]] {
        let there = install(environment).expect(0);
        assert_eq!(there.stdout, "install: opcost 0.3.0 is there\n");
        assert_eq!(lab.read("called"), "");
    }
    let file = lab.path("release").display().to_string();
    install(&[version, checksum, ("OPCOST_PACKAGE", &file), ("SAYS", "0.3.0")]).expect(0);
}

#[test]
fn one_comment_is_posted_and_then_edited() {
    let Some(yard) = Yard::new(HOST) else { return };
    let called = yard.lab.path("called");
    // A gh that logs its arguments and answers for pull request 17, whose comment is $COMMENT.
    let gh = "echo \"$*\" >> FOLDER/called\ncase \"$*\" in\n*--jq\\ .head.sha) echo c0ffee ;;\n\
              *--paginate*) echo \"$COMMENT\" ;;\n*body=@-) cat > FOLDER/posted ;;\nesac";
    yard.lab.script("bin/gh", &gh.replace("FOLDER", yard.lab.dir().to_str().unwrap()));
    let posted = yard.lab.path("posted");
    let comment = |report: &str, known: &str, head: &str| {
        yard.lab.write("report/gate.json", report);
        fs::write(&called, "").unwrap();
        fs::write(&posted, "").unwrap();
        let environment =
            [("GITHUB_REPOSITORY", "ann/words"), ("COMMENT", known), ("OPCOST_HEAD", head)];
        script_ci(&yard, "comment", &environment)
    };
    yard.lab.write("report/number", "17\n");
    let figure = json!({
        "metric": "instructions", "baseline": 1000, "value": 1012.5, "change": 12.5,
        "change_ratio": 0.0125, "outcome": "exceeded", "reason": "more than 0.10 %",
    });
    let case = json!({ "name": "count", "failure": null, "figures": [figure], "functions": null });
    let worse = json!({
        "schema": 1, "verdict": "exceeded", "headline": "@everyone [here](https://example.org) `x` <img>|",
        "to_do": [], "suite_changes": [], "cases": [case],
    });
    let of = |verdict: &str| {
        let mut report = worse.clone();
        (report["verdict"], report["cases"]) = (json!(verdict), json!([]));
        report
    };
    let same = of("may-land").to_string();
    comment(&worse.to_string(), "", "c0ffee").expect(0);
    assert!(yard.lab.read("called").contains("--method POST repos/ann/words/issues/17/comments"));
    let text = yard.lab.read("posted");
    for part in [
        "<!-- opcost gate -->\n❌ **The change must not land.** The figures come from the pull request's own job",
        "\n`@everyone [here](https://example.org) 'x' <img>¦`\n",
        "\n| `count` | `instructions` | 1,000 | 1,012 | +1.25 % | `more than 0.10 %` |\n",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    comment(&worse.to_string(), "5", "c0ffee").expect(0);
    assert!(yard.lab.read("called").contains("--method PATCH repos/ann/words/issues/comments/5"));
    // No comment is posted if nothing changed, but an earlier comment is corrected.
    comment(&same, "", "c0ffee").expect(0);
    assert!(!yard.lab.read("called").contains("--method"));
    comment(&same, "5", "c0ffee").expect(0);
    assert!(yard.lab.read("called").contains("--method PATCH"));
    // A change of the suite is named.
    let mut loosened = of("may-land");
    loosened["suite_changes"] = json!([
        { "setting": "limit", "case": "count", "from": "0.10 %", "to": "900 %", "kept": false }
    ]);
    comment(&loosened.to_string(), "", "c0ffee").expect(0);
    let text = yard.lab.read("posted");
    assert!(text.contains("- `limit` of `count`: `0.10 %` → `900 %`\n"), "{text}");
    // A fork's job may have written these files.
    comment(&same, "5", "decade")
        .expect(2)
        .says(&["pull request 17 is at c0ffee, and the report is of decade"]);
    let nested = "[".repeat(100_000);
    for report in ["hello", "[]", &of("great").to_string(), "{\"schema\": 2}", &nested] {
        comment(report, "", "c0ffee").expect(2).says(&["is no report of opcost gate"]);
    }
    comment(&" ".repeat(5 << 20), "", "c0ffee").expect(2).says(&["is longer than"]);
    fs::remove_file(yard.lab.path("report/gate.json")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", yard.lab.path("report/gate.json")).unwrap();
    script_ci(&yard, "comment", &[("GITHUB_REPOSITORY", "ann/words")]).expect(2);
    fs::remove_file(yard.lab.path("report/gate.json")).unwrap();
    yard.lab.write("report/number", "17/../../x\n");
    comment(&same, "", "c0ffee").expect(2).says(&["is no number of a pull request"]);
    assert!(!yard.lab.read("called").contains("--method"));
}

#[test]
fn the_sample_repository_is_the_same_everywhere() {
    if !needs::programs(&["git", "python3"]) {
        return;
    }
    let lab = Lab::new();
    let script = crate::lab::root().join("examples/gate/make-repository");
    let mut heads = Vec::new();
    for name in ["one", "another/place"] {
        let folder = lab.path(name);
        let line = format!(
            "'{}' '{}' && git -C '{}' log --oneline",
            script.display(),
            folder.display(),
            folder.display()
        );
        let mut command = lab.shell(&line);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null");
        let ended = command.spawn().unwrap().end().expect(0);
        let commits: Vec<String> = ended.stdout.lines().skip(1).map(str::to_string).collect();
        assert_eq!(commits.len(), 20);
        heads.push(commits);
    }
    assert_eq!(heads[0], heads[1]);
    // The page of documentation names commits by their place.
    for (place, subject) in
        [(6, "Refuse words that are too long"), (9, "Mix keys less"), (13, "Spread hashes better")]
    {
        assert!(heads[0][place].ends_with(subject), "{place}: {}", heads[0][place]);
    }
    let again = lab.shell(&format!("'{}' one", script.display())).spawn().unwrap().end();
    again.expect(2).says(&["is there already"]);
}

#[test]
fn the_programs_output_is_shown_if_asked_for() {
    let Some((kernel, start)) = needs::counter() else { return };
    let suite = format!(
        "kernel = '{kernel}'\nbuild = './build'\nartifact = 'work'\nmetric = 'instructions:u'\n\
         [case.loop]\ncommand = '{start}work'\n"
    );
    let Some(yard) = Yard::new(&suite) else { return };
    yard.script("work.in", "echo what it says");
    yard.commit("Speak");
    yard.script("work.in", "echo what it says; exit 3");
    yard.commit("Fail");
    let ended = yard.gate(&["--base", "HEAD~1"]).expect(4);
    assert!(!ended.stdout.contains("what it says"), "{}", ended.stdout);
    assert!(ended.stdout.replace("\n", " ").contains("ended with status 3"), "{}", ended.stdout);
    let ended = yard.gate(&["--base", "HEAD~1", "--show-output"]).expect(4);
    assert!(ended.stdout.contains("what it says"), "{}", ended.stdout);
}
