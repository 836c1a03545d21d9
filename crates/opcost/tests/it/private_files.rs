//! Files that others may not read or exchange: stores, caches, kept states.

use crate::lab::{Ended, Lab, Started, files};
use crate::needs;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

/// Runs opcost with folders of the lab's for data and caches, by usual permissions of new files.
fn run(lab: &Lab, words: &str) -> Ended {
    run_with(lab, "022", words)
}

/// Runs opcost with folders of the lab's, and with these permissions taken from new files; `work` is for its output.
fn run_with(lab: &Lab, umask: &str, words: &str) -> Ended {
    let work = lab.path("work");
    let mut command =
        lab.shell(&format!("mkdir -p {}; umask {umask}; exec $OPCOST {words}", work.display()));
    command.env_remove("OPCOST_STORE");
    let folders = [
        ("XDG_DATA_HOME", "data"),
        ("XDG_CACHE_HOME", "cache"),
        ("TMPDIR", "scratch"),
        ("HOME", "home"),
    ];
    for (variable, folder) in folders {
        fs::create_dir_all(lab.path(folder)).unwrap();
        command.env(variable, lab.path(folder));
    }
    command.spawn().unwrap().end()
}

/// Everything below a folder that somebody else could read, change or list: each folder above it lets others through.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut open = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let found = path.symlink_metadata().unwrap();
        if found.is_symlink() {
            continue;
        }
        if found.mode() & 0o066 != 0 {
            open.push(format!("{:o} {}", found.mode() & 0o777, path.display()));
        }
        if found.is_dir() && found.mode() & 0o011 != 0 {
            open.extend(open_to_others(&path));
        }
    }
    open
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

#[test]
fn folders_and_stores_are_their_users_alone() {
    let lab = Lab::new();
    run(&lab, "compare true true -n 7 --quiet").expect(0);
    assert_eq!(mode(&lab.path("data/opcost")), 0o700);
    assert_eq!(mode(&lab.path("data/opcost/recordings.sqlite")), 0o600);
    // A folder of an earlier version is closed.
    fs::create_dir_all(lab.path("cache/opcost")).unwrap();
    fs::set_permissions(lab.path("cache/opcost"), Permissions::from_mode(0o755)).unwrap();
    run(&lab, "kernel list").expect(0);
    assert_eq!(mode(&lab.path("cache/opcost")), 0o700);
}

#[test]
fn nobody_else_can_read_a_file_of_opcost_s() {
    let kernel = needs::kernel();
    for umask in ["000", "022"] {
        let lab = Lab::new();
        let say = |words: &str| run_with(&lab, umask, words).expect(0);
        // Each run lists what others could read in the folder for temporary files meanwhile.
        let spy = lab.script("spy", "find $TMPDIR -mindepth 1 -perm /066 >> $TMPDIR/../seen; find $TMPDIR -mindepth 1 >> $TMPDIR/../all");
        let spy = spy.display();
        say(&format!(
            "compare -q -n 7 --warmup 0 --env SECRET=1 --output work/out '{spy} 1' '{spy} 2'"
        ));
        say("compare -q -n 2 --warmup 0 -w syscall:ops=2000 -w syscall:ops=2000,seccomp=on");
        say("export -q -o work/x.opcost");
        say("import -q work/x.opcost");
        say("history -q --folder work 'syscall'");
        say("report -q --html work/x.html");
        let half = "name = 'x'
[[variant]]
workload = 'syscall'
params = { ops = 2000 }
";
        let other = "[[variant]]
workload = 'syscall'
params = { ops = 2000, seccomp = 'on' }
";
        lab.write("work/x.toml", format!("{half}{other}"));
        say("plan -q work/x.toml");
        say("run -q work/x.toml -n 4 --warmup 1 --shard 1/2 --store data/opcost/part.sqlite");
        for words in
            ["kernel list", "list recordings", "list cores", "doctor", "size /bin/true /bin/false"]
        {
            say(words);
        }
        run_with(&lab, umask, "profile -q -- /bin/true");
        if let Some(kernel) = kernel.as_ref().filter(|_| umask == "000") {
            let measured = "measure -q --machine emulated -n 1 --warmup 0 --no-functions";
            say(&format!("{measured} --kernel {kernel} true"));
        }
        let open: Vec<String> = ["data", "cache", "scratch", "home"]
            .iter()
            .flat_map(|folder| open_to_others(&lab.path(folder)))
            .collect();
        assert_eq!(open, [""; 0], "umask {umask}");
        assert_eq!(lab.read("seen"), "", "umask {umask}");
        assert!(!files(&lab.path("data")).is_empty());
        // Files that the user asked for have the permissions that the user gives.
        let asked = if umask == "022" { 0o644 } else { 0o666 };
        assert_eq!(mode(&lab.path("work/x.html")), asked);
        // A recording has the environment of its runs.
        assert_eq!(mode(&lab.path("work/x.opcost")), 0o600);
    }
}

#[test]
fn folders_and_stores_of_others_are_refused() {
    let lab = Lab::new();
    fs::create_dir_all(lab.path("cache/opcost")).unwrap();
    if chown(lab.path("cache/opcost"), Some(12_345), None).is_err() {
        crate::skip::skip!("only root can give files away");
        return;
    }
    run(&lab, "kernel list").expect(2).says(&["number 12345", "XDG_CACHE_HOME"]);
    run(&lab, "compare true true -n 7 --quiet").expect(0);
    chown(lab.path("data/opcost/recordings.sqlite"), Some(12_345), None).unwrap();
    let refused = ["recordings.sqlite' belongs to the user with the number 12345", "--store"];
    run(&lab, "compare true true -n 7 --quiet").expect(5).says(&refused);
    run(&lab, "resume").expect(5).says(&refused);
    run(&lab, "show last").expect(0);
}

#[test]
fn no_copy_of_a_private_file_is_kept() {
    let Some(kernel) = needs::kernel() else { return };
    let lab = Lab::new();
    let secret = lab.write("secret", "a word that nobody else may read\n");
    let states = || {
        let folders = fs::read_dir(lab.path("cache/opcost/booted")).into_iter().flatten().flatten();
        folders.filter(|entry| entry.path().join("state.json").is_file()).count()
    };
    let words = format!(
        "measure --machine emulated --kernel {kernel} -n 1 --warmup 0 --quiet --pack secret 'cat secret'"
    );
    for (permissions, kept) in [(0o600, 0), (0o644, 1)] {
        fs::set_permissions(&secret, Permissions::from_mode(permissions)).unwrap();
        run(&lab, &words).expect(0);
        assert_eq!(states(), kept, "permissions {permissions:o}");
    }
}

#[test]
fn a_planted_experiment_or_suite_runs_nothing() {
    let lab = Lab::new();
    let planted = "name = 'x'\n[[variant]]\ncommand = 'touch ran'\n[[variant]]\ncommand = 'true'\n";
    let path = lab.write("seccomp", planted);
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let runs = "-q -n 2 --warmup 0";
    let refused = [
        "the file 'seccomp' in the current folder may be written by everybody",
        "opcost run ./seccomp",
    ];
    run(&lab, &format!("run seccomp {runs}")).expect(2).says(&refused);
    if chown(&path, Some(12_345), None).is_ok() {
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let theirs = ["belongs to the user with the number 12345"];
        run(&lab, &format!("run seccomp {runs}")).expect(2).says(&theirs);
        run(&lab, &format!("plan seccomp {runs}")).expect(2).says(&theirs);
        // A link of somebody else's is no better than a file of theirs.
        chown(&path, Some(0), None).unwrap();
        fs::rename(&path, lab.path("mine")).unwrap();
        std::os::unix::fs::symlink("mine", &path).unwrap();
        std::os::unix::fs::lchown(&path, Some(12_345), None).unwrap();
        run(&lab, &format!("run seccomp {runs}")).expect(2).says(&theirs);
    }
    assert!(!lab.exists("ran"));
    run(&lab, &format!("run ./seccomp {runs}")).expect(0);
    assert!(lab.exists("ran"));
    // A suite that gate finds by itself.
    let Some(yard) = crate::gate::Yard::new(crate::gate::HOST) else { return };
    let suite = yard.lab.path("repository/opcost.toml");
    fs::set_permissions(&suite, Permissions::from_mode(0o666)).unwrap();
    let said = yard.opcost(&["gate"]).output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr);
    assert!(said.contains("may be written by everybody") && said.contains("--suite"), "{said}");
}
