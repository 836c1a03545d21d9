//! What git says of a user's tree: commits, their trees, and which commits touched a file.
//!
//! Nothing here changes the user's checkout. A worktree of opcost's own is known to the repository by
//! a few files in its `.git/worktrees`, as `git worktree list` shows.

use super::error::KernelError;
use super::spec::Revision;
use serde::Serialize;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long git may look for commits that touched files: years of Linux take it a minute.
const LOG_LIMIT: Duration = Duration::from_secs(90);

/// Arguments of every git: no hook of the user's runs, and no daemon or housekeeping is left behind.
pub const QUIET: [&str; 6] =
    ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"];

/// Variables by which a hook tells git which repository it is in. They would lead a git that asks about
/// another folder astray.
pub const GIT_VARIABLES: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
];

/// Asks git about a folder; the error is what git says.
pub(super) fn ask(folder: &Path, words: &[&str]) -> Result<String, KernelError> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(QUIET).args(words).env("LC_ALL", "C");
    // The folder says which repository is meant, and not the hook that opcost may run in.
    for name in GIT_VARIABLES {
        git.env_remove(name);
    }
    // Looking must not change the repository that is looked at.
    let output = git.env("GIT_OPTIONAL_LOCKS", "0").stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            KernelError::Tools { missing: vec!["git".into()], packages: vec!["git".into()] }
        }
        _ => KernelError::file("run git in", folder)(error),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason");
    Err(KernelError::Usage(said.trim_start_matches("fatal: ").to_string()))
}

/// Finds the commit that a user's word means in a tree.
///
/// # Errors
/// The folder is no git tree or no source of Linux, or git knows no such revision.
pub fn find_revision(tree: &Path, name: &str, config: &[PathBuf]) -> Result<Revision, KernelError> {
    let shown = tree.display();
    let of_tree = |error| match error {
        KernelError::Usage(said) => KernelError::Usage(format!(
            "{shown}: {said}; give a checkout of Linux that git knows, for example a clone"
        )),
        other => other,
    };
    let top = ask(tree, &["rev-parse", "--show-toplevel"]).map_err(of_tree)?;
    let commit = format!("{name}^{{commit}}");
    let unknown = |_| {
        let near = ask(tree, &["describe", "--tags", "--always"]).unwrap_or_default();
        let near = if near.is_empty() { near } else { format!("; its HEAD is {near}") };
        KernelError::Usage(format!(
            "git knows no revision '{name}' in {shown}{near} (git -C {shown} tag, branch -a)"
        ))
    };
    let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &commit];
    let commit = ask(tree, &words).map_err(|error| match error {
        KernelError::Usage(_) => unknown(()),
        other => other,
    })?;
    let hash = ask(tree, &["rev-parse", "--verify", &format!("{commit}^{{tree}}")])?;
    for file in ["Makefile", "Kconfig"] {
        if ask(tree, &["cat-file", "-e", &format!("{commit}:{file}")]).is_err() {
            return Err(KernelError::Usage(format!(
                "revision '{name}' is no kernel source: {} has no {file} in {shown}",
                short(&commit)
            )));
        }
    }
    Ok(Revision { name: name.into(), tree: top.into(), commit, hash, config: config.to_vec() })
}

/// As much of a commit as is shown.
pub fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// A commit that touched a file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Commit {
    /// Its name, shortened.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
    /// Whether it is in the baseline's history only.
    pub of_baseline: bool,
}

/// The commits that are in one of two histories only and touched each of these files, latest first.
///
/// `between`: the baseline's commit and the variant's. `files`: paths within the tree.
///
/// # Errors
/// git is missing or fails, for example because the tree is gone, or takes too long.
pub fn commits(
    tree: &Path,
    between: [&str; 2],
    files: &[String],
) -> Result<Vec<Vec<Commit>>, KernelError> {
    let range = format!("{}...{}", between[0], between[1]);
    let format = "--format=%x01%m%h%x09%s";
    let mut git = Command::new("git");
    git.arg("-C").arg(tree).args(QUIET).args(["log", "--left-right", "--name-only", "-z", format]);
    // A path is a path, whatever characters it has.
    git.env("GIT_LITERAL_PATHSPECS", "1").env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    git.arg(range).arg("--").args(files);
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let failed = |why: &str| {
        let what = format!("git log in {}", tree.display());
        KernelError::file("read what git says of", tree)(std::io::Error::other(format!(
            "{what} {why}"
        )))
    };
    let mut git = git.spawn().map_err(KernelError::file("run git in", tree))?;
    let mut output = git.stdout.take().ok_or_else(|| failed("has no output"))?;
    let (giver, text) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes).ok().map(|_| bytes);
        // Whoever asked may have waited long enough.
        let _ = giver.send(read);
    });
    let bytes = text.recv_timeout(LOG_LIMIT).ok().flatten();
    if bytes.is_none() {
        // It may have ended by itself meanwhile.
        let _ = git.kill();
    }
    let status = git.wait().map_err(KernelError::file("run git in", tree))?;
    let bytes = bytes.ok_or_else(|| failed("took too long"))?;
    match status.success() {
        true => Ok(parse_log(&String::from_utf8_lossy(&bytes), files)),
        false => Err(failed("failed; the commits may be gone")),
    }
}

/// Reads what `git log --name-only -z` prints: \1, the side, the commit, a tab, the subject, NUL, and
/// the names of files with a NUL behind each.
fn parse_log(text: &str, files: &[String]) -> Vec<Vec<Commit>> {
    let mut found = vec![Vec::new(); files.len()];
    for entry in text.split('\u{1}').skip(1) {
        let mut parts = entry.split('\0');
        let Some((head, subject)) = parts.next().and_then(|head| head.split_once('\t')) else {
            continue;
        };
        let commit = Commit {
            id: head.trim_start_matches(['<', '>']).into(),
            subject: subject.into(),
            of_baseline: head.starts_with('<'),
        };
        for name in parts.map(|name| name.trim_start_matches('\n')) {
            if let Some(at) = files.iter().position(|file| file == name) {
                found[at].push(commit.clone());
            }
        }
    }
    found
}

#[cfg(test)]
#[path = "git_tests.rs"]
pub(crate) mod tests;
