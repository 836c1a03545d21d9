//! What a bisection found: the changes that made a figure what it is, with what each contributes.

use super::report::{FigureReport, Outcome};
use crate::comparison::FunctionComparison;
use opcost_record::{Better, Unit};

/// A bisection that ended.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// The case.
    pub case: String,
    /// What it runs.
    pub work: String,
    /// What the suspects are: commits, options, words.
    pub kind: SuspectKind,
    /// The good end and the bad one.
    pub ends: [Suspect; 2],
    /// The figure that is told first.
    pub figure: BisectedFigure,
    /// Points between the ends, the bad one included.
    pub points: usize,
    /// How many points were counted, the ends included.
    pub counted: usize,
    /// How many of them an earlier opcost had counted.
    pub known: usize,
    /// Where the figures moved, in order.
    pub steps: Vec<BisectStep>,
    /// What is left of the figure's change beside the steps.
    pub rest: i128,
    /// What could not be tested, and why.
    pub untestable: Vec<(Suspect, String)>,
    /// What the reader should know beside the answer.
    pub notes: Vec<String>,
    /// The command that does this again.
    pub command: String,
}

/// What a line of points consists of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SuspectKind {
    /// Commits of a repository.
    Commit,
    /// Options of a kernel's configuration.
    Option,
    /// Words of a list: of a kernel's command line, of CPU features, of compiler flags.
    Word,
}

impl SuspectKind {
    /// The word for so many.
    pub fn words(self, count: usize) -> &'static str {
        match (self, count) {
            (SuspectKind::Commit, 1) => "commit",
            (SuspectKind::Commit, _) => "commits",
            (SuspectKind::Option, 1) => "option",
            (SuspectKind::Option, _) => "options",
            (SuspectKind::Word, 1) => "word",
            (SuspectKind::Word, _) => "words",
        }
    }
}

/// One that may have moved a figure.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Suspect {
    /// Its name: a commit's hash, an option, a word.
    pub id: String,
    /// What it does: a commit's subject, `n → y`.
    pub title: String,
    /// Who made it, and when; `None` of what nobody made.
    pub author: Option<String>,
}

/// The figure of a bisection.
#[derive(Clone, Debug)]
pub struct BisectedFigure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// The direction that is better.
    pub better: Better,
    /// The values of the good end and of the bad one.
    pub values: [u64; 2],
    /// How far seeds and layouts alone move it.
    pub floor: Option<u64>,
    /// Moves up to this are no steps.
    pub least_step: u64,
}

/// Where the figures moved.
#[derive(Clone, Debug)]
pub struct BisectStep {
    /// The suspects: one, unless others could not be tested.
    pub suspects: Vec<Suspect>,
    /// The figure before.
    pub from: u64,
    /// What it moved by.
    pub change: i128,
    /// The functions whose own instructions moved, with what they moved by, the largest first.
    pub functions: Vec<(String, i128)>,
    /// The option alone, on top of the good end. `None` of commits, and where it could not be counted.
    pub alone: Option<Alone>,
    /// The steps within, if it is a merge.
    pub inside: Vec<BisectStep>,
    /// What the merge itself moved, beside the commits that it brought; `None` if it is none.
    pub of_merge: Option<i128>,
    /// The culprit against what was before it, in the whole experiment; `None` if there are several.
    pub check: Option<Check>,
}

/// What an option does on top of the good end, without those that come before it on the line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Alone {
    /// It moves the figure by so much; what differs from the step's change comes of those before it.
    Moves(i128),
    /// It cannot be set without others.
    NeedsOthers,
}

/// A culprit compared with its parent.
#[derive(Clone, Debug)]
pub struct Check {
    /// The recording.
    pub recording: String,
    /// The answer in a sentence, or why there is none.
    pub conclusion: String,
    /// Whether the figure moves in every layout as it did in the search; `None` where nobody can tell.
    pub confirmed: Option<bool>,
    /// Where the change comes from.
    pub functions: Option<FunctionComparison>,
    /// Options of the kernel that differ, though the commit's message need not say so.
    pub differences: Vec<String>,
}

impl BisectStep {
    /// Whether other layouts do not move the figure as the one of the search did.
    pub fn is_contradicted(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.confirmed == Some(false))
    }
}

impl Bisection {
    /// The whole change.
    pub fn change(&self) -> i128 {
        let [good, bad] = self.figure.values;
        i128::from(bad) - i128::from(good)
    }

    /// A change of the figure, as reports of gates word it.
    pub fn as_figure(&self, from: u64, change: i128) -> FigureReport {
        FigureReport {
            metric: self.figure.name.clone(),
            unit: self.figure.unit,
            better: self.figure.better,
            baseline: Some(from as f64),
            value: Some((i128::from(from) + change) as f64),
            floor: self.figure.floor.map(|floor| floor as f64),
            limit: None,
            outcome: Outcome::Exceeded,
        }
    }

    /// The steps whose culprit is known, and which its check does not contradict.
    pub fn culprits(&self) -> impl Iterator<Item = &BisectStep> {
        self.steps.iter().filter(|step| step.suspects.len() == 1 && !step.is_contradicted())
    }

    /// The answer in a sentence.
    pub fn headline(&self) -> String {
        let culprits: Vec<&BisectStep> = self.culprits().collect();
        let found = match &culprits[..] {
            [] if self.steps.is_empty() => return "no step was found".into(),
            [] => None,
            [one] => Some(format!("the culprit is {}", one.suspects[0].shown())),
            many => Some(format!("{} culprits were found", many.len())),
        };
        let sizes = self.steps.iter().filter(|step| step.suspects.len() > 1);
        let sizes: Vec<String> = sizes
            .map(|step| format!("one of {} {}", step.suspects.len(), self.kind.words(2)))
            .collect();
        let open =
            (!sizes.is_empty()).then(|| format!("{} cannot be told apart", sizes.join(" and ")));
        let contradicted = self.steps.iter().filter(|step| step.is_contradicted());
        let names: Vec<String> = contradicted.map(|step| step.suspects[0].shown()).collect();
        let contradicted = (!names.is_empty())
            .then(|| format!("{} moves it in the layout of the search only", names.join(" and ")));
        [found, open, contradicted].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

impl Suspect {
    /// Its name as people read it: twelve digits of a commit.
    pub fn name(&self) -> &str {
        match self.author {
            Some(_) => opcost_kernel::short_commit(&self.id),
            None => &self.id,
        }
    }

    /// Its name and what it does.
    pub fn shown(&self) -> String {
        match self.title.is_empty() {
            true => self.name().to_string(),
            false => format!("{} ({})", self.name(), self.title),
        }
    }
}
