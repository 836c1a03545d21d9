//! Asks git for the commits of the sources around the variants' folders.
//!
//! git runs while opcost prepares, and has ended before anything is measured.

use opcost_model::plan::{Plan, Revision};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The limit for git's search for changes: in a large tree that is not in memory, it takes seconds.
const STATUS_LIMIT: Duration = Duration::from_secs(5);

/// Questions to git about the folders of a plan, still without answers.
pub struct Revisions {
    asked: Vec<(PathBuf, Option<Asked>)>,
}

impl Revisions {
    /// Asks git once about each folder of a variant that is inside a repository.
    pub fn begin(plan: &Plan) -> Revisions {
        let mut asked: Vec<(PathBuf, Option<Asked>)> = Vec::new();
        for folder in plan.variants.iter().filter_map(|variant| variant.cwd.as_ref()) {
            if asked.iter().all(|(known, _)| known != folder) {
                asked.push((folder.clone(), ask(folder)));
            }
        }
        Revisions { asked }
    }

    /// The number of git processes that were started.
    #[cfg(test)]
    fn processes(&self) -> usize {
        self.asked.iter().filter(|(_, asked)| asked.is_some()).count()
    }

    /// Waits for the answers and writes them to the plan.
    pub fn note(self, plan: &mut Plan) {
        for (folder, asked) in self.asked {
            let revision = asked.and_then(|asked| answer(&folder, asked));
            for variant in &mut plan.variants {
                if variant.cwd.as_ref() == Some(&folder) {
                    variant.revision = revision.clone();
                }
            }
        }
    }
}

/// Asks git; `None` outside of a repository or without git.
fn ask(folder: &Path) -> Option<Asked> {
    // A worktree has a file `.git`. Looking for it is cheaper than starting git in vain.
    if !folder.ancestors().any(|folder| folder.join(".git").exists()) {
        return None;
    }
    // One process reports both the commit and the changes. The distance between branches is not
    // needed, and no daemon that watches files may be left behind.
    let config = ["-c", "core.fsmonitor=false"];
    let status = ["status", "--porcelain=v2", "--branch", "--no-ahead-behind"];
    let words = [&config[..], &status, &["--untracked-files=no"]].concat();
    Asked::begin(folder, &words)
}

/// git's answer; `None` if git fails.
fn answer(folder: &Path, asked: Asked) -> Option<Revision> {
    if let Some(text) = asked.end() {
        let commit = commit(text.lines().find_map(|line| line.strip_prefix("# branch.oid "))?)?;
        return Some(Revision {
            commit,
            dirty: Some(text.lines().any(|line| !line.starts_with('#'))),
        });
    }
    // The search for changes took too long, or git is too old for these options.
    let text = Asked::begin(folder, &["rev-parse", "--verify", "--quiet", "HEAD"])?.end()?;
    Some(Revision { commit: commit(text.trim())?, dirty: None })
}

/// A full commit name; before the first commit, git prints `(initial)`.
fn commit(text: &str) -> Option<String> {
    let whole = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    whole.then(|| text.to_string())
}

/// A running git process.
struct Asked {
    git: Child,
    begun: Instant,
    text: Receiver<Option<String>>,
}

impl Asked {
    fn begin(folder: &Path, words: &[&str]) -> Option<Asked> {
        let mut git = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(words)
            // Questions must not change the repository.
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        // A thread reads, since the output may be longer than a pipe holds.
        let mut output = git.stdout.take()?;
        let (giver, text) = mpsc::channel();
        thread::spawn(move || {
            let mut text = String::new();
            let read = output.read_to_string(&mut text).ok().map(|_| text);
            // The receiver may have given up waiting.
            let _ = giver.send(read);
        });
        Some(Asked { git, begun: Instant::now(), text })
    }

    /// git's output, if git succeeded in time.
    fn end(mut self) -> Option<String> {
        let left = STATUS_LIMIT.saturating_sub(self.begun.elapsed());
        let text = self.text.recv_timeout(left).ok().flatten();
        if text.is_none() {
            // git may have ended by itself meanwhile.
            let _ = self.git.kill();
        }
        let status = self.git.wait().ok()?;
        text.filter(|_| status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::resolve::fixture::plan;

    /// The revision of a folder, and the number of git processes for it.
    fn asked(folder: &Path) -> (Option<Revision>, usize) {
        let mut plan = plan(2, 2);
        plan.variants.iter_mut().for_each(|variant| variant.cwd = Some(folder.to_path_buf()));
        let revisions = Revisions::begin(&plan);
        let processes = revisions.processes();
        revisions.note(&mut plan);
        assert_eq!(plan.variants[0].revision, plan.variants[1].revision);
        (plan.variants[0].revision.take(), processes)
    }

    #[test]
    fn a_repository_has_a_commit_and_may_have_changes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        assert_eq!(asked(&root), (None, 0), "no process where there is no repository");
        let run = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&root).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            let output = git.args(words).env("GIT_CONFIG_GLOBAL", "/dev/null").output();
            output.map(|output| output.status.success())
        };
        if run(&["init", "--quiet"]).is_err() {
            crate::skip::skip!("there is no git here");
            return;
        }
        assert_eq!(asked(&root), (None, 1), "nothing is committed yet");
        std::fs::write(root.join("file"), "1").unwrap();
        assert!(run(&["add", "file"]).unwrap() && run(&["commit", "-qm", "one"]).unwrap());
        std::fs::create_dir(root.join("inside")).unwrap();
        let (clean, processes) = asked(&root.join("inside"));
        let clean = clean.unwrap();
        assert_eq!((clean.commit.len(), clean.dirty, processes), (40, Some(false), 1));
        // Untracked files do not count as changes of the sources.
        std::fs::write(root.join("built"), "2").unwrap();
        assert_eq!(asked(&root), (Some(clean.clone()), 1));
        std::fs::write(root.join("file"), "2").unwrap();
        assert_eq!(asked(&root).0, Some(Revision { dirty: Some(true), ..clean }));
    }
}
