//! Commits of a small repository: found, checked out, built once, and found by file.

use super::*;
use std::fs;

/// An empty repository; `None`, with a message, if there is no git.
pub(crate) fn repository() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    if run(folder.path(), &["init", "--quiet", "-b", "main"]).is_none() {
        crate::skip::skip!("there is no git here");
        return None;
    }
    Some(folder)
}

/// Runs git with a made-up user; `None` if git cannot be run.
pub(crate) fn run(folder: &Path, words: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
    let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {words:?}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Commits all files as they are; returns the commit.
pub(crate) fn commit(folder: &Path, subject: &str) -> String {
    run(folder, &["add", "-A"]);
    run(folder, &["commit", "-qm", subject]);
    run(folder, &["rev-parse", "HEAD"]).unwrap()
}

fn refused(tree: &Path, name: &str) -> String {
    find_revision(tree, name, &[]).unwrap_err().to_string()
}

#[test]
fn a_revision_is_a_commit_and_its_files() {
    let Some(folder) = repository() else { return };
    let tree = folder.path().canonicalize().unwrap();
    fs::write(tree.join("README"), "").unwrap();
    commit(&tree, "no kernel yet");
    assert!(refused(&tree, "HEAD").contains("has no Makefile"), "{}", refused(&tree, "HEAD"));
    for file in ["Makefile", "Kconfig"] {
        fs::write(tree.join(file), "one").unwrap();
    }
    let first = commit(&tree, "first");
    run(&tree, &["tag", "v1"]);
    fs::create_dir(tree.join("mm")).unwrap();
    fs::write(tree.join("mm/a b.c"), "two").unwrap();
    let second = commit(&tree, "second");
    let found = find_revision(&tree.join("mm"), "v1", &[]).unwrap();
    assert_eq!((found.name.as_str(), &found.commit, &found.tree), ("v1", &first, &tree));
    let head = find_revision(&tree, "HEAD", &[]).unwrap();
    assert_eq!(head.commit, second);
    assert_ne!(head.hash, found.hash);
    // An empty commit has the same files as its parent.
    run(&tree, &["commit", "-q", "--allow-empty", "-m", "nothing"]);
    assert_eq!(find_revision(&tree, "main", &[]).unwrap().hash, head.hash);
    let why = refused(&tree, "v9");
    assert!(why.starts_with("git knows no revision 'v9' in "), "{why}");
    assert!(why.contains("its HEAD is v1-2-g"), "{why}");
    assert!(refused(&tree, "--help").contains("git knows no revision '--help'"));
    let why = refused(Path::new("/proc"), "v1");
    assert!(why.starts_with("/proc: not a git repository"), "{why}");
    assert!(why.contains("give a checkout of Linux"), "{why}");
}

#[test]
fn commits_that_touched_a_file_are_named_on_either_side() {
    let Some(folder) = repository() else { return };
    let tree = folder.path();
    let write = |file: &str, text: &str| fs::write(tree.join(file), text).unwrap();
    write("a.c", "1");
    write("b c.c", "1");
    commit(tree, "first");
    run(tree, &["branch", "old"]);
    write("a.c", "2");
    let second = commit(tree, "a: changed\ttwice");
    write("b c.c", "2");
    write("a.c", "3");
    let third = commit(tree, "both");
    run(tree, &["checkout", "-q", "old"]);
    write("b c.c", "4");
    let other = commit(tree, "b: of the baseline only");
    let files = ["a.c", "b c.c", "none.c"].map(String::from);
    let found = commits(tree, [&other, &third], &files).unwrap();
    let short = |commits: &[Commit]| -> Vec<(String, String, bool)> {
        let short = |one: &Commit| (one.id.clone(), one.subject.clone(), one.of_baseline);
        commits.iter().map(short).collect()
    };
    let said = |subject: &str, of_baseline| (subject.to_string(), of_baseline);
    let subjects = |commits: &[Commit]| -> Vec<(String, bool)> {
        let mut subjects: Vec<(String, bool)> =
            short(commits).into_iter().map(|(_, subject, of)| (subject, of)).collect();
        subjects.sort();
        subjects
    };
    assert_eq!(subjects(&found[0]), [said("a: changed\ttwice", false), said("both", false)]);
    assert_eq!(subjects(&found[1]), [said("b: of the baseline only", true), said("both", false)]);
    assert!(found[2].is_empty());
    assert!(found[0].iter().any(|one| second.starts_with(&one.id)), "{found:?}");
    let gone = commits(tree, [&"0".repeat(40), &third], &files).unwrap_err().to_string();
    assert!(gone.contains("the commits may be gone"), "{gone}");
}

#[test]
fn no_name_in_a_commit_shifts_a_field_or_adds_a_commit() {
    let Some(folder) = repository() else { return };
    let tree = folder.path();
    fs::write(tree.join("a.c"), "1").unwrap();
    let first = commit(tree, "first");
    fs::write(tree.join("a.c"), "2").unwrap();
    let author = "A\tdead\u{1}b\u{2}eef <a@b>";
    let forged = format!("\u{1}{first}\u{2}+1\u{2}note\tx\u{1}{first}\u{2}forged");
    run(tree, &["commit", "-qam", &forged, "--author", author]);
    run(tree, &["notes", "--ref=opcost", "add", "-m", "a note", "HEAD"]);
    let second = run(tree, &["rev-parse", "HEAD"]).unwrap();
    let hash = run(tree, &["rev-parse", "HEAD^{tree}"]).unwrap();
    let repository = crate::repository::Repository::find(tree).unwrap();
    for found in [
        repository.commit("HEAD").unwrap(),
        repository.commits_between(&first, "HEAD").unwrap().remove(0),
    ] {
        assert_eq!((&found.id, &found.tree), (&second, &hash));
        assert!(found.author.starts_with("A\tdead\u{1}b\u{2}eef <a@b>, 2"), "{found:?}");
        assert_eq!(found.subject, forged);
    }
    assert_eq!(repository.commits_between(&first, "HEAD").unwrap().len(), 1);
    let noted = repository.noted("HEAD").unwrap();
    assert_eq!(noted.len(), 1);
    assert_eq!((&noted[0].id, noted[0].note.as_str()), (&second, "a note"));
    assert_eq!(repository.trailers(&first, "HEAD", "Opcost-accept").unwrap(), []);
    let found = commits(tree, [&first, &second], &["a.c".into()]).unwrap();
    assert_eq!((found[0].len(), found[0][0].subject.as_str()), (1, forged.as_str()));
}
