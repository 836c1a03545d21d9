//! Asks git about a user's tree: commits, their trees, and the commits that touched a file.
//!
//! The user's checkout is never changed. The repository knows opcost's own worktree by a few files
//! in its `.git/worktrees`; `git worktree list` shows it.

use super::error::KernelError;
use super::spec::{Revision, Toolchain};
use serde::Serialize;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The time limit for finding commits that touched files: for years of Linux, git needs a minute.
const LOG_LIMIT: Duration = Duration::from_secs(90);

/// Arguments of every git: they prevent the user's hooks, daemons and housekeeping.
pub const QUIET: [&str; 6] =
    ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"];

/// Variables by which a hook tells git its repository. They would mislead a git that is asked about
/// another folder.
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

/// Asks git about a folder; the error has git's message.
pub(super) fn ask(folder: &Path, words: &[&str]) -> Result<String, KernelError> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(QUIET).args(words).env("LC_ALL", "C");
    // Only the folder selects the repository, even if opcost runs in a hook.
    for name in GIT_VARIABLES {
        git.env_remove(name);
    }
    // Questions must not change the repository.
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

/// Finds the commit of a user's revision in a tree.
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
    Ok(Revision {
        name: name.into(),
        tree: top.into(),
        commit,
        hash,
        config: config.to_vec(),
        toolchain: Toolchain::default(),
    })
}

/// The part of a commit's name that is shown.
pub fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// A commit that touched a file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Commit {
    /// The shortened name.
    pub id: String,
    /// The first line of the message.
    pub subject: String,
    /// Whether only the baseline's history has the commit.
    pub of_baseline: bool,
}

/// For each file, the commits that touched it and are in only one of two histories, latest first.
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
    let format = "--format=%x00%m%h%x00%s";
    let mut git = Command::new("git");
    git.arg("-C").arg(tree).args(QUIET).args(["log", "--left-right", "--name-only", "-z", format]);
    // Paths are literal, whatever characters they have.
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
        // The receiver may have given up waiting.
        let _ = giver.send(read);
    });
    let bytes = text.recv_timeout(LOG_LIMIT).ok().flatten();
    if bytes.is_none() {
        // git may have ended by itself meanwhile.
        let _ = git.kill();
    }
    let status = git.wait().map_err(KernelError::file("run git in", tree))?;
    let bytes = bytes.ok_or_else(|| failed("took too long"))?;
    match status.success() {
        true => Ok(parse_log(&String::from_utf8_lossy(&bytes), files)),
        false => Err(failed("failed; the commits may be gone")),
    }
}

/// Parses the output of `git log --name-only -z`: for each commit NUL, the side and the commit, NUL, the subject, NUL, and
/// the names of files, each followed by NUL. No subject has a NUL, so none looks like a commit or a file.
fn parse_log(text: &str, files: &[String]) -> Vec<Vec<Commit>> {
    let mut found = vec![Vec::new(); files.len()];
    let mut fields = text.split('\0');
    while fields.next() == Some("") {
        let (Some(head), Some(subject)) = (fields.next(), fields.next()) else { break };
        let commit = Commit {
            id: head.trim_start_matches(['<', '>']).into(),
            subject: subject.into(),
            of_baseline: head.starts_with('<'),
        };
        let mut rest = fields.clone();
        while let Some(name) = rest.next().filter(|name| !name.is_empty()) {
            fields.next();
            let name = name.trim_start_matches('\n');
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
