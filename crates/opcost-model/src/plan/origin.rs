//! The origin of a recording: its label, the revision of the sources, the command that made it.

use super::Plan;
use serde::{Deserialize, Serialize};

/// Number of digits shown of a commit, as in Linux's own messages.
const COMMIT_DIGITS: usize = 12;

/// A commit of a git repository.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Revision {
    /// The checked-out commit, hexadecimal.
    pub commit: String,
    /// Whether tracked files had uncommitted changes; `None` if git did not say.
    pub dirty: Option<bool>,
}

impl Revision {
    /// The commit shortened, followed by `+` if files had changed.
    pub fn short(&self) -> String {
        let commit = self.commit.get(..COMMIT_DIGITS).unwrap_or(&self.commit);
        format!("{commit}{}", if self.dirty == Some(true) { "+" } else { "" })
    }

    /// The shortened commit and the state of the files, in words.
    fn words(&self) -> String {
        let commit = self.commit.get(..COMMIT_DIGITS).unwrap_or(&self.commit);
        match self.dirty {
            Some(true) => format!("{commit} with changes that are not committed"),
            Some(false) => commit.to_string(),
            None => format!("{commit}, perhaps with changes"),
        }
    }
}

impl Plan {
    /// Label and revisions in words; `None` if both are unknown.
    pub fn provenance(&self) -> Option<String> {
        let first = self.variants[0].revision.as_ref();
        let same = self.variants.iter().all(|variant| variant.revision.as_ref() == first);
        let revisions = match (same, first) {
            (true, None) => None,
            (true, Some(revision)) => Some(format!("commit {}", revision.words())),
            (false, _) => {
                let of = self.variants.iter().map(|variant| {
                    let words = variant.revision.as_ref().map(Revision::words);
                    format!("{} {}", variant.name, words.as_deref().unwrap_or("unknown"))
                });
                Some(format!("commits: {}", of.collect::<Vec<_>>().join("; ")))
            }
        };
        let label = self.label.as_ref().map(|label| format!("label {label}"));
        let parts: Vec<String> = label.into_iter().chain(revisions).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}
