//! The commit of the sources around a folder, as git says it.

use crate::plan::Revision;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long git may look for changes: in a large tree that nobody has read yet it takes seconds.
const STATUS_LIMIT: Duration = Duration::from_secs(5);

/// The commit that is checked out around a folder; `None` outside of a repository, without git, and
/// where git refuses to look.
pub(super) fn revision(folder: &Path) -> Option<Revision> {
    // A worktree has a file of that name. To look for it is cheaper than to start git in vain.
    if !folder.ancestors().any(|folder| folder.join(".git").exists()) {
        return None;
    }
    let commit = git(folder, &["rev-parse", "--verify", "--quiet", "HEAD"])?;
    let commit = commit.trim().to_string();
    if commit.len() < 40 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let changes = git(folder, &["status", "--porcelain", "--untracked-files=no"]);
    Some(Revision { commit, dirty: changes.map(|changes| !changes.is_empty()) })
}

/// What git prints, where it ends well and in time.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let begun = Instant::now();
    let mut child = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(words)
        // Looking must not change the repository that is looked at.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // By a thread, since what is printed may be longer than a pipe holds.
    let mut output = child.stdout.take()?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut output, &mut text).ok().map(|_| text)
    });
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if begun.elapsed() > STATUS_LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
            None => sleep(Duration::from_millis(1)),
        }
    };
    let text = reader.join().ok().flatten()?;
    status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_has_a_commit_and_may_have_changes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(revision(&root), None);
        let run = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&root).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            let output = git.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").output();
            output.map(|output| output.status.success())
        };
        if run(&["init", "--quiet"]).is_err() {
            eprintln!("SKIPPED: there is no git here");
            return;
        }
        assert_eq!(revision(&root), None, "nothing is committed yet");
        std::fs::write(root.join("file"), "1").unwrap();
        assert!(run(&["add", "file"]).unwrap() && run(&["commit", "-qm", "one"]).unwrap());
        std::fs::create_dir(root.join("inside")).unwrap();
        let clean = revision(&root.join("inside")).unwrap();
        assert_eq!((clean.commit.len(), clean.dirty), (40, Some(false)));
        // What git does not track is no change of the sources.
        std::fs::write(root.join("built"), "2").unwrap();
        assert_eq!(revision(&root), Some(clean.clone()));
        std::fs::write(root.join("file"), "2").unwrap();
        assert_eq!(revision(&root), Some(Revision { dirty: Some(true), ..clean }));
    }
}
