//! The result of a bisection: the changes that moved a figure, each with its contribution.

use super::floor::Floor;
use super::report::{FigureReport, Outcome};
use opcost_analysis::comparison::FunctionComparison;
use opcost_record::{Better, Unit};

/// A finished bisection.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// The case.
    pub case: String,
    /// The command or workload of the case.
    pub work: String,
    /// The kind of the suspects.
    pub kind: SuspectKind,
    /// The good end and the bad end.
    pub ends: [Suspect; 2],
    /// The figure reported first.
    pub figure: BisectedFigure,
    /// Points between the ends, including the bad end.
    pub points: usize,
    /// Points counted, including the ends.
    pub counted: usize,
    /// Points whose counts an earlier opcost had stored.
    pub known: usize,
    /// Where the figures moved, in order.
    pub steps: Vec<BisectStep>,
    /// The part of the figure's change that the steps do not explain.
    pub rest: i128,
    /// Points that could not be tested, with the reason.
    pub untestable: Vec<(Suspect, String)>,
    /// Notes that the reader should know beside the answer.
    pub notes: Vec<String>,
    /// The command that repeats the bisection.
    pub command: String,
}

/// The kind of points on a line.
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
    /// The noun for `count` suspects.
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

/// A commit, option or word that may have moved a figure.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Suspect {
    /// A commit's hash, an option, or a word.
    pub id: String,
    /// A commit's subject, or an option's change: `n → y`.
    pub title: String,
    /// Author and date; `None` if the suspect is no commit.
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
    /// The values of the good end and of the bad end.
    pub values: [u64; 2],
    /// How far seeds and layouts alone move the figure.
    pub floor: Option<Floor>,
    /// The largest move that is not a step.
    pub least_step: u64,
}

/// A place where the figures moved.
#[derive(Clone, Debug)]
pub struct BisectStep {
    /// The suspects: one, unless points between could not be tested.
    pub suspects: Vec<Suspect>,
    /// The figure before the step.
    pub from: u64,
    /// The change of the figure at the step.
    pub change: i128,
    /// The functions whose own instructions changed, each with its change, the largest first.
    pub functions: Vec<(String, i128)>,
    /// The effect of the option alone, on top of the good end. `None` for commits, and if it could not be counted.
    pub alone: Option<Alone>,
    /// The steps within a merge.
    pub inside: Vec<BisectStep>,
    /// The change that the merge itself caused, beside the commits it brought; `None` if the step is no merge.
    pub of_merge: Option<i128>,
    /// The culprit compared with the point before, by a whole experiment; `None` if there are several suspects.
    pub check: Option<Check>,
}

/// The effect of an option on top of the good end, without the options that precede it on the line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Alone {
    /// The option moves the figure by this much. The rest of the step's change comes from the preceding options.
    Moves(i128),
    /// The option cannot be set without others.
    NeedsOthers,
}

/// A culprit compared with its parent.
#[derive(Clone, Debug)]
pub struct Check {
    /// The recording.
    pub recording: String,
    /// The answer in a sentence, or why there is none.
    pub conclusion: String,
    /// Whether the figure moves in every layout as it did in the search; `None` if the runs cannot tell.
    pub confirmed: Option<bool>,
    /// The functions that explain the change.
    pub functions: Option<FunctionComparison>,
    /// Kernel options that differ, even if the commit's message does not mention them.
    pub differences: Vec<String>,
}

impl BisectStep {
    /// Whether other layouts do not move the figure as the layout of the search did.
    pub fn is_contradicted(&self) -> bool {
        self.check.as_ref().is_some_and(|check| check.confirmed == Some(false))
    }
}

impl Bisection {
    /// The change from the good end to the bad end.
    pub fn change(&self) -> i128 {
        let [good, bad] = self.figure.values;
        i128::from(bad) - i128::from(good)
    }

    /// A change of the figure in the form of a gate's report.
    pub fn as_figure(&self, from: u64, change: i128) -> FigureReport {
        FigureReport {
            metric: self.figure.name.clone(),
            unit: self.figure.unit,
            better: self.figure.better,
            baseline: Some(from as f64),
            value: Some((i128::from(from) + change) as f64),
            floor: self.figure.floor,
            exact: None,
            limit: None,
            outcome: Outcome::Exceeded,
        }
    }

    /// The steps with a single culprit that its check does not contradict.
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
    /// The name for people: twelve digits of a commit, or the whole identifier.
    pub fn name(&self) -> &str {
        match self.author {
            Some(_) => opcost_kernel::short_commit(&self.id),
            None => &self.id,
        }
    }

    /// The name, followed by the title in parentheses.
    pub fn shown(&self) -> String {
        match self.title.is_empty() {
            true => self.name().to_string(),
            false => format!("{} ({})", self.name(), self.title),
        }
    }
}
