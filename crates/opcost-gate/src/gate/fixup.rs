//! Changes to old commits that no longer build by themselves: a patch or a command for a range of commits.

use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// A change that opcost makes to the checked out files of some commits before it builds them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fixup {
    /// The commits.
    pub commits: CommitRange,
    /// The change.
    pub change: FixupChange,
}

/// What a fixup does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FixupChange {
    /// Applies a patch as `git apply` does.
    Patch(PathBuf),
    /// Runs a command of the shell in the revision's tree.
    Run(String),
}

/// A range of commits, `A..B` as git has it: all of B's history that is not in A's. An end may be left out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CommitRange {
    /// The last commit that is left out.
    pub after: Option<String>,
    /// The last commit of the range.
    pub last: Option<String>,
}

/// A `[[fixup]]` of a suite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    commits: String,
    patch: Option<PathBuf>,
    run: Option<String>,
}

impl Fixup {
    /// Reads the value of the key `fixup`.
    ///
    /// # Errors
    /// The number of the fixup and what is wrong with it.
    pub(super) fn read_all(value: toml::Value) -> Result<Vec<Fixup>, String> {
        let toml::Value::Array(all) = value else {
            return Err("write each fixup as a table: [[fixup]]".into());
        };
        let read = |(at, one): (usize, toml::Value)| {
            let wrong = |what: String| format!("fixup {}: {what}", at + 1);
            let fields: Fields = one
                .try_into()
                .map_err(|error: toml::de::Error| wrong(error.message().to_string()))?;
            let commits = CommitRange::parse(&fields.commits).ok_or_else(|| {
                wrong(format!(
                    "'{}' is no range of commits; write A..B, ..B or A..",
                    fields.commits
                ))
            })?;
            let change = match (fields.patch, fields.run) {
                (Some(patch), None) => FixupChange::Patch(patch),
                (None, Some(run)) => FixupChange::Run(run),
                _ => return Err(wrong("give it a patch or a command to run, and not both".into())),
            };
            Ok(Fixup { commits, change })
        };
        all.into_iter().enumerate().map(read).collect()
    }

    /// Has a relative path of a patch begin in a folder.
    pub fn place(&mut self, folder: &Path) {
        if let FixupChange::Patch(path) = &mut self.change {
            *path = folder.join(&*path);
        }
    }
}

impl CommitRange {
    fn parse(text: &str) -> Option<CommitRange> {
        let (after, last) = text.trim().split_once("..")?;
        let given = |end: &str| (!end.is_empty()).then(|| end.to_string());
        let range = CommitRange { after: given(after), last: given(last) };
        let is_wrong = last.starts_with('.') || (range.after.is_none() && range.last.is_none());
        (!is_wrong).then_some(range)
    }
}

impl fmt::Display for CommitRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |end: &Option<String>| end.clone().unwrap_or_default();
        write!(f, "{}..{}", word(&self.after), word(&self.last))
    }
}

impl fmt::Display for Fixup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            FixupChange::Patch(path) => {
                write!(f, "{}", path.file_name().unwrap_or(path.as_os_str()).display())?;
            }
            FixupChange::Run(command) => write!(f, "{command}")?,
        }
        write!(f, " ({})", self.commits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Fixup>, String> {
        let mut table: toml::Table = text.parse().unwrap();
        Fixup::read_all(table.remove("fixup").unwrap())
    }

    #[test]
    fn a_fixup_is_a_patch_or_a_command_for_a_range() {
        let text = "[[fixup]]\ncommits = 'v1..v2'\npatch = 'build/glibc.patch'\n\
                    [[fixup]]\ncommits = '..v3'\nrun = \"sed -i s/a/b/ x.c\"\n[[fixup]]\ncommits = 'v4..'\nrun = ':'\n";
        let mut all = read(text).unwrap();
        all.iter_mut().for_each(|fixup| fixup.place(Path::new("/top")));
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["glibc.patch (v1..v2)", "sed -i s/a/b/ x.c (..v3)", ": (v4..)"]);
        assert_eq!(all[0].change, FixupChange::Patch("/top/build/glibc.patch".into()));
        assert_eq!((all[1].commits.after.as_deref(), all[2].commits.last.as_deref()), (None, None));
        for (text, part) in [
            ("fixup = 1", "write each fixup as a table: [[fixup]]"),
            ("[[fixup]]\nrun = ':'", "fixup 1: missing field `commits`"),
            ("[[fixup]]\ncommits = 'a..b'", "fixup 1: give it a patch or a command to run"),
            ("[[fixup]]\ncommits = 'a..b'\nrun = ':'\npatch = 'x'", "and not both"),
            ("[[fixup]]\ncommits = 'HEAD'\nrun = ':'", "'HEAD' is no range of commits"),
            ("[[fixup]]\ncommits = 'a...b'\nrun = ':'", "'a...b' is no range of commits"),
            ("[[fixup]]\ncommits = '..'\nrun = ':'", "'..' is no range of commits"),
            ("[[fixup]]\ncommits = 'a..b'\nrum = ':'", "unknown field `rum`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}\n{error}");
        }
    }
}
