//! Asks about the history of a user's git repository. Only [`Repository::set_note`] writes to it.

use super::error::KernelError;
use super::git::{ask, short};
use std::path::{Path, PathBuf};

/// A user's repository.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Repository {
    /// The top folder of the checkout.
    pub top: PathBuf,
    /// The folder of the objects.
    pub objects: PathBuf,
    /// The index of the checkout.
    pub index: PathBuf,
}

/// A commit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RepositoryCommit {
    /// The full name.
    pub id: String,
    /// The full name of its tree.
    pub tree: String,
    /// The first line of the message.
    pub subject: String,
    /// The author with address, and the day.
    pub author: String,
}

impl RepositoryCommit {
    /// git's output format for [`parse_all`](Self::parse_all), with `-z`.
    const FORMAT: &'static str = "--format=%H%x00%T%x00%an <%ae>, %as%x00%s";

    /// Parses commits in that format.
    fn parse_all(text: &str) -> Vec<RepositoryCommit> {
        let commit = |[id, tree, author, subject]: [&str; 4]| RepositoryCommit {
            id: id.into(),
            tree: tree.into(),
            subject: subject.into(),
            author: author.into(),
        };
        entries(text).map(commit).collect()
    }
}

/// A commit with a note of opcost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NotedCommit {
    /// The full name.
    pub id: String,
    /// The first line of the message.
    pub subject: String,
    /// The text of the note.
    pub note: String,
}

/// The git ref of opcost's notes.
const NOTES: &str = "--ref=opcost";

impl Repository {
    /// Finds the repository that contains a folder.
    ///
    /// # Errors
    /// There is no repository, or it has no checkout.
    pub fn find(folder: &Path) -> Result<Repository, KernelError> {
        let none = |error| match error {
            KernelError::Usage(said) => KernelError::Usage(format!(
                "{}: {said}; run this inside the checkout of a git repository",
                folder.display()
            )),
            other => other,
        };
        let top = ask(folder, &["rev-parse", "--show-toplevel"]).map_err(none)?;
        let top = PathBuf::from(top);
        let path =
            |name: &str| ask(&top, &["rev-parse", "--git-path", name]).map(|path| top.join(path));
        Ok(Repository { objects: path("objects")?, index: path("index")?, top })
    }

    fn ask(&self, words: &[&str]) -> Result<String, KernelError> {
        ask(&self.top, words)
    }

    /// Finds the commit of a user's revision.
    ///
    /// # Errors
    /// git knows no such revision.
    pub fn commit(&self, name: &str) -> Result<RepositoryCommit, KernelError> {
        let wanted = format!("{name}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let id = self.ask(&words).map_err(|error| match error {
            KernelError::Usage(_) => {
                let more = match (self.is_shallow(), name) {
                    (true, _) => format!("; {}", SHALLOW),
                    (false, "HEAD") => "; nothing is committed yet".to_string(),
                    _ => "; see git branch -a, git tag".to_string(),
                };
                KernelError::Usage(format!("git knows no revision '{name}' here{more}"))
            }
            other => other,
        })?;
        let words = [
            "log",
            "-1",
            "-z",
            "--no-show-signature",
            "--no-mailmap",
            RepositoryCommit::FORMAT,
            &id,
        ];
        let found = RepositoryCommit::parse_all(&self.ask(&words)?).pop();
        found.ok_or_else(|| KernelError::Usage(format!("git log says nothing of {}", short(&id))))
    }

    /// Whether the clone lacks older commits.
    pub fn is_shallow(&self) -> bool {
        self.ask(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|said| said == "true")
    }

    /// The upstream branch of the branch that is checked out; `None` if it has none.
    pub fn upstream(&self) -> Option<String> {
        let words = ["rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}"];
        self.ask(&words).ok().filter(|name| !name.is_empty())
    }

    /// The commit at which two histories diverged.
    ///
    /// # Errors
    /// There is no such commit, or it was not fetched.
    pub fn merge_base(&self, one: &str, other: &str) -> Result<String, KernelError> {
        let found = self.ask(&["merge-base", one, other]);
        found.map_err(|error| match error {
            KernelError::Usage(_) if self.is_shallow() => KernelError::Usage(format!(
                "no commit is known from which {} and {} went apart: {SHALLOW}",
                short(one),
                short(other)
            )),
            KernelError::Usage(_) => KernelError::Usage(format!(
                "{} and {} have no commit in common; name another with --base",
                short(one),
                short(other)
            )),
            other => other,
        })
    }

    /// The commits in the history of `tip` but not in that of `base`, oldest first; first parents only.
    ///
    /// # Errors
    /// git fails.
    pub fn commits_between(
        &self,
        base: &str,
        tip: &str,
    ) -> Result<Vec<RepositoryCommit>, KernelError> {
        let range = format!("{base}..{tip}");
        let order =
            ["log", "-z", "--no-show-signature", "--no-mailmap", "--reverse", "--first-parent"];
        let text = self.ask(&[&order[..], &[RepositoryCommit::FORMAT, &range]].concat())?;
        Ok(RepositoryCommit::parse_all(&text))
    }

    /// The commit so many first parents before `tip`, and how many; the first commit, if there are fewer.
    ///
    /// # Errors
    /// git fails.
    pub fn commit_before(
        &self,
        tip: &str,
        commits: u32,
    ) -> Result<(RepositoryCommit, u32), KernelError> {
        let most = format!("--max-count={}", u64::from(commits) + 1);
        let text = self.ask(&["rev-list", "--first-parent", &most, tip])?;
        let ids: Vec<&str> = text.lines().collect();
        let first = ids.last().copied().unwrap_or(tip);
        Ok((self.commit(first)?, ids.len().saturating_sub(1) as u32))
    }

    /// Whether `one` is an ancestor of `other`, or the same commit.
    pub fn is_ancestor(&self, one: &str, other: &str) -> bool {
        self.ask(&["merge-base", "--is-ancestor", one, other]).is_ok()
    }

    /// The parents of a commit, in order.
    ///
    /// # Errors
    /// git fails.
    pub fn parents(&self, commit: &str) -> Result<Vec<String>, KernelError> {
        let text = self.ask(&["rev-list", "--parents", "--max-count=1", commit])?;
        Ok(text.split(' ').skip(1).map(str::to_string).collect())
    }

    /// The values of a trailer in the commits of `tip`'s history that are not in `base`'s, with the
    /// shortened names of the commits.
    ///
    /// # Errors
    /// git fails.
    pub fn trailers(
        &self,
        base: &str,
        tip: &str,
        trailer: &str,
    ) -> Result<Vec<(String, String)>, KernelError> {
        let range = format!("{base}..{tip}");
        let format =
            format!("--format=%H%x00%(trailers:key={trailer},valueonly,unfold,separator=%x0A)");
        let text = self.ask(&["log", "-z", "--no-show-signature", &format, &range])?;
        let of_commit = |[commit, values]: [&str; 2]| {
            // An unfolded value is one line.
            let values = values.lines().filter(|value| !value.trim().is_empty());
            values.map(|value| (short(commit).to_string(), value.to_string())).collect::<Vec<_>>()
        };
        Ok(entries(&text).flat_map(of_commit).collect())
    }

    /// The last commit up to `tip` that changed a file; `None` if there is none.
    pub fn last_change(&self, tip: &str, file: &Path) -> Option<String> {
        let file = file.to_str()?;
        let words = ["log", "-1", "--no-show-signature", "--format=%H", tip, "--", file];
        self.ask(&words).ok().filter(|commit| !commit.is_empty())
    }

    /// The last commit up to `tip` that wrote a line into a file; `None` if there is none.
    pub fn writer_of(&self, tip: &str, file: &Path, line: &str) -> Option<String> {
        let (file, line) = (file.to_str()?, format!("-S{line}"));
        let words =
            ["log", "-1", "--no-show-signature", "--format=%H", line.as_str(), tip, "--", file];
        self.ask(&words).ok().filter(|commit| !commit.is_empty())
    }

    /// The files of the checkout that are new or differ from HEAD; ignored files are left out.
    ///
    /// # Errors
    /// git fails.
    pub fn changed_files(&self) -> Result<Vec<String>, KernelError> {
        let text = self.ask(&["status", "--porcelain", "-z", "--no-renames"])?;
        let name = |entry: &str| entry.get(3..).map(str::to_string);
        Ok(text.split('\0').filter_map(name).collect())
    }

    /// opcost's note on a commit (`git notes --ref=opcost`); `None` if it has none.
    pub fn note(&self, commit: &str) -> Option<String> {
        self.ask(&["notes", NOTES, "show", commit]).ok()
    }

    /// Sets opcost's note on a commit; replaces an older note.
    ///
    /// # Errors
    /// git fails, for example because it does not know the committer.
    pub fn set_note(&self, commit: &str, text: &str) -> Result<(), KernelError> {
        let file = tempfile::NamedTempFile::new()
            .map_err(KernelError::file("make a temporary file in", &std::env::temp_dir()))?;
        std::fs::write(file.path(), text).map_err(KernelError::file("write", file.path()))?;
        let path = file.path().to_string_lossy();
        self.ask(&["notes", NOTES, "add", "--force", "--file", &path, commit]).map(drop)
    }

    /// The commits up to `tip` with a note of opcost, oldest first; first parents only.
    ///
    /// # Errors
    /// git fails.
    pub fn noted(&self, tip: &str) -> Result<Vec<NotedCommit>, KernelError> {
        let format = "--format=%H%x00%s%x00%N";
        let words = [
            "log",
            "-z",
            "--first-parent",
            "--no-show-signature",
            "--reverse",
            "--notes=opcost",
            format,
        ];
        let text = self.ask(&[&words[..], &["--end-of-options", tip]].concat())?;
        let noted = |parts: [&str; 3]| {
            let [id, subject, note] = parts.map(|part| part.trim().to_string());
            (!note.is_empty()).then_some(NotedCommit { id, subject, note })
        };
        Ok(entries(&text).filter_map(noted).collect())
    }

    /// The text of a file in a revision; `None` if the revision does not have the file.
    pub fn text_of(&self, revision: &str, file: &str) -> Option<String> {
        self.ask(&["show", &format!("{revision}:{file}")]).ok()
    }
}

/// The entries of `git log -z` with `N` fields, each followed by NUL: no name, subject or note of a commit has a NUL, so
/// none shifts a field or adds an entry.
fn entries<const N: usize>(text: &str) -> impl Iterator<Item = [&str; N]> {
    let mut fields = text.split('\0');
    std::iter::from_fn(move || {
        let mut entry = [""; N];
        for (at, field) in entry.iter_mut().enumerate() {
            *field = match (fields.next(), at) {
                (Some(""), 0) | (None, 0) => return None,
                (found, _) => found.unwrap_or_default(),
            };
        }
        Some(entry)
    })
}

/// Advice about missing commits.
const SHALLOW: &str = "this clone is shallow and lacks older commits; fetch them with git fetch --unshallow (on \
     GitHub: fetch-depth: 0 for actions/checkout, on GitLab: GIT_DEPTH: 0)";
