//! The commits that a change brings: how another person repeats its gate, and finds the commit that the cost comes from.

use super::report::{Against, CaseReport, GateReport, GateVerdict, RevisionSide};

/// The commits that a change brings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Branch {
    /// The full hash of the commit at which it left the base's history.
    pub left: String,
    /// Its last commit: not the tip if the tip merges the branch into the base, as forges do before they test a pull request.
    pub head: RevisionSide,
    /// How many commits it has, first parents only.
    pub commits: usize,
}

impl GateReport {
    /// The head of the branch that the tip merges into the base; `None` if the tip is the branch's own.
    fn merged(&self) -> Option<&RevisionSide> {
        let head = &self.branch.as_ref()?.head;
        (head.commit != self.tip.commit).then_some(head)
    }

    /// What to know before the gate is repeated; `None` if its commands say all.
    pub fn tip_words(&self) -> Option<String> {
        let head = self.merged()?;
        Some(format!(
            "The tip merges {} ({}) into the base. A forge makes such a merge, and a clone has no such commit: make it again.",
            head.short(),
            head.subject
        ))
    }

    /// The commands that repeat the gate in a clone that has the base and the branch.
    pub fn reproduction(&self) -> Vec<String> {
        match (&self.against, self.merged()) {
            (Against::Base(base), Some(head)) => vec![
                format!("git checkout --detach {}", base.commit),
                format!("git merge --no-edit {}", head.commit),
                format!("opcost gate --base {}", base.commit),
            ],
            (Against::Base(base), None) => {
                vec![format!("opcost gate --base {} --tip {}", base.commit, self.tip.commit)]
            }
            (Against::Baseline { path }, _) => {
                let path = shlex::try_quote(path).map_or_else(|_| path.clone(), Into::into);
                vec![format!("opcost gate --baseline {path} --tip {}", self.tip.commit)]
            }
        }
    }

    /// Who makes the change, in words, and the commands that find it out where several commits could be it; `None` if no figure
    /// exceeds its limit or the branch is not known.
    pub fn culprit(&self) -> Option<(String, Vec<String>)> {
        let branch = self.branch.as_ref().filter(|_| self.verdict() == GateVerdict::Exceeded)?;
        let head = &branch.head;
        if branch.commits <= 1 {
            let words = format!("The change is one commit: {} ({}).", head.short(), head.subject);
            return Some((words, Vec::new()));
        }
        let exceeded = |case: &&CaseReport| {
            let mut figures = case.figures.iter();
            figures.any(|figure| figure.outcome.verdict() == GateVerdict::Exceeded)
        };
        let names = self.cases.iter().filter(exceeded).map(|case| case.name.as_str());
        let command = |name: &str| {
            let name = shlex::try_quote(name).unwrap_or_default();
            format!("opcost bisect --good {} --bad {} --case {name}", branch.left, head.commit)
        };
        let words = format!("Which of the change's {} commits it is, this says:", branch.commits);
        Some((words, names.map(command).collect()))
    }
}

impl RevisionSide {
    /// The first digits of the commit's hash.
    pub(super) fn short(&self) -> &str {
        self.commit.get(..12).unwrap_or(&self.commit)
    }
}
