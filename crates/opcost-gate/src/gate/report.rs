//! The report of a gate: the answer, case by case.

use super::branch::Branch;
use super::counts::PER_OPERATIONS;
use super::exact::ExactChange;
use super::floor::Floor;
use super::key::{FigureKey, KeyDifference};
use super::suite_change::SuiteChange;
use super::trailer::{Accepted, Amount};
use opcost_analysis::comparison::FunctionComparison;
use opcost_analysis::comparison::limit::Limit;
use opcost_base::number::{figure, grouped, magnitude, percent};
use opcost_record::printable::printable;
use opcost_record::{Better, Unit};

/// The result of a gate.
#[derive(Clone, Debug)]
pub struct GateReport {
    /// The reference of the change.
    pub against: Against,
    /// The revision that is to land.
    pub tip: RevisionSide,
    /// The commits of the change; `None` if they are not known, as those of a working tree or beside a baseline file.
    pub branch: Option<Branch>,
    /// The cases, in the suite's order.
    pub cases: Vec<CaseReport>,
    /// The changes of the suite by which the change is judged.
    pub suite_changes: Vec<SuiteChange>,
    /// Figures of the baseline file without a case in the suite.
    pub orphans: Vec<String>,
    /// Notes that the reader should know beside the answer.
    pub notes: Vec<String>,
    /// Whether the baseline file was rewritten.
    pub updated: bool,
}

/// The reference of a change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Against {
    /// A revision that was built and measured.
    Base(RevisionSide),
    /// A committed file of figures.
    Baseline {
        /// The path, as it was given.
        path: String,
    },
}

/// A revision.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RevisionSide {
    /// The name that the user gives it.
    pub name: String,
    /// The commit's full hash.
    pub commit: String,
    /// The first line of the commit's message.
    pub subject: String,
}

/// One case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The case's name.
    pub name: String,
    /// The command or workload.
    pub work: String,
    /// The figures; none if the case failed.
    pub figures: Vec<FigureReport>,
    /// Why the case has no figures.
    pub failure: Option<CaseFailure>,
    /// The functions that explain a change of the instructions.
    pub functions: Option<FunctionComparison>,
    /// The functions that changed exactly, with the number of layouts of the base in which they are alike; empty if that is not known.
    pub exact: (Vec<ExactChange>, u32),
    /// Why the change cannot be explained by functions.
    pub functions_missing: Option<String>,
    /// Why the revision that wrote the baseline was counted again, in place of its figures in the file.
    pub recounted: Option<Recount>,
    /// The recordings of the base and of the tip.
    pub recordings: [Option<String>; 2],
    /// The conditions on which the counts depend.
    pub key: FigureKey,
    /// The kernel, the emulator and the guest that counted the tip, in words.
    pub counted: Option<String>,
    /// The place of the function with the largest increase, if the program's debug information names it.
    pub place: Option<SourceLine>,
}

/// A count of the revision that wrote a baseline, with the packages that the machine has now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recount {
    /// The revision.
    pub written: RevisionSide,
    /// What updates of packages changed since.
    pub differences: Vec<KeyDifference>,
}

/// A line of a source file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SourceLine {
    /// The file, relative to the repository.
    pub file: String,
    /// The line.
    pub line: u64,
}

/// Why a case has no figures.
#[derive(Clone, Debug, PartialEq)]
pub enum CaseFailure {
    /// A build or the work failed.
    Failed(String),
    /// The base does not have the case, so it cannot do the work.
    New {
        /// Why the base cannot do the work.
        why: String,
        /// The trailer that accepts the case as new.
        accepted: Option<Accepted>,
    },
    /// The runs were not comparable.
    Refused(String),
}

/// One figure of a case.
#[derive(Clone, Debug)]
pub struct FigureReport {
    /// The name, as baseline files have it.
    pub metric: String,
    /// The unit.
    pub unit: Unit,
    /// The direction that is better.
    pub better: Better,
    /// The value of the base or of the baseline file.
    pub baseline: Option<f64>,
    /// The value of the tip.
    pub value: Option<f64>,
    /// How far seeds and layouts alone move the figure.
    pub floor: Option<Floor>,
    /// The sum of the exact changes of functions whose instructions the figure counts; `None` if that is not known.
    pub exact: Option<f64>,
    /// The change in the middle of several layouts; `None` if one layout decided.
    pub in_layouts: Option<LayoutChange>,
    /// The number of commits over which the figure drifted; `None` for the change from the base.
    pub over_commits: Option<u32>,
    /// How much worse the figure may become.
    pub limit: Option<Limit>,
    /// The outcome of the comparison.
    pub outcome: Outcome,
}

/// A change in the middle of several layouts in which both sides were counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayoutChange {
    /// The median of the changes, each in one layout.
    pub change: f64,
    /// The number of layouts.
    pub layouts: u32,
}

/// The outcome of comparing a figure with its baseline.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Exactly the same.
    Same,
    /// Moved no further than seeds and layouts alone move the figure.
    WithinFloor,
    /// Worse, but within the limit.
    WithinLimit,
    /// Better by more than its limit.
    Improved,
    /// Worse than the limit, and trailers of commits accept that.
    Accepted(Vec<Accepted>),
    /// Worse than the limit.
    Exceeded,
    /// No change of a varying metric was found; the text names the smallest change that would have been found.
    Unchanged(String),
    /// The runs of a varying metric cannot tell; the text says why.
    Undecided(String),
    /// The figures depend on different conditions.
    NotComparable(Vec<KeyDifference>),
    /// There is no baseline for the figure; the metrics that the file has for the case.
    NoBaseline(Vec<String>),
    /// The figure is missing, or the runs disagree on it.
    Refused(String),
}

/// The answer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum GateVerdict {
    /// No result speaks against the change.
    MayLand,
    /// A figure could not be compared, so there is no answer.
    NoAnswer,
    /// A limit is exceeded.
    Exceeded,
    /// A build or the work failed.
    Failed,
}

impl GateVerdict {
    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            GateVerdict::MayLand => "may-land",
            GateVerdict::NoAnswer => "no-answer",
            GateVerdict::Exceeded => "exceeded",
            GateVerdict::Failed => "failed",
        }
    }
}

impl Outcome {
    /// The word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Same => "same",
            Outcome::WithinFloor => "within-floor",
            Outcome::WithinLimit => "within-limit",
            Outcome::Improved => "improved",
            Outcome::Accepted(_) => "accepted",
            Outcome::Exceeded => "exceeded",
            Outcome::Unchanged(_) => "unchanged",
            Outcome::Undecided(_) => "undecided",
            Outcome::NotComparable(_) => "not-comparable",
            Outcome::NoBaseline(_) => "no-baseline",
            Outcome::Refused(_) => "refused",
        }
    }

    /// The verdict that this outcome implies.
    pub fn verdict(&self) -> GateVerdict {
        match self {
            Outcome::Exceeded => GateVerdict::Exceeded,
            Outcome::Undecided(_)
            | Outcome::NotComparable(_)
            | Outcome::NoBaseline(_)
            | Outcome::Refused(_) => GateVerdict::NoAnswer,
            _ => GateVerdict::MayLand,
        }
    }

    /// Whether the report shows the figure in a row of its own: all outcomes but those without a change.
    pub fn is_worth_a_row(&self) -> bool {
        !matches!(self, Outcome::Same | Outcome::WithinFloor | Outcome::Unchanged(_))
    }
}

impl FigureReport {
    /// The figure less its baseline; the middle of the layouts, if several decided.
    pub fn change(&self) -> Option<f64> {
        let of_layouts = self.in_layouts.map(|in_layouts| in_layouts.change);
        of_layouts.or_else(|| Some(self.value? - self.baseline?))
    }

    /// The name of the metric, with the commits over which it drifted: `instructions over 20 commits`.
    pub fn name(&self) -> String {
        match self.over_commits {
            None => self.metric.clone(),
            Some(1) => format!("{} over 1 commit", self.metric),
            Some(commits) => format!("{} over {} commits", self.metric, grouped(commits.into())),
        }
    }

    /// The sum of the exact changes of functions, if it decided: the change is within the layout floor, and this sum is more than the
    /// limit.
    pub fn decided_by_functions(&self) -> Option<f64> {
        let within =
            |floor: Floor| self.change().is_some_and(|change| change.abs() <= floor.most as f64);
        let exceeded = matches!(self.outcome, Outcome::Exceeded | Outcome::Accepted(_));
        self.exact.filter(|_| exceeded && self.floor.is_some_and(within))
    }

    /// The change as a share of the baseline; `None` if the baseline is 0 and the figure is not.
    pub fn ratio(&self) -> Option<f64> {
        match (self.change()?, self.baseline?) {
            (0.0, _) => Some(0.0),
            (_, 0.0) => None,
            (change, baseline) => Some(change / baseline.abs()),
        }
    }

    /// The change in words: `+0.50 %`, or the figure if the baseline is 0.
    pub fn change_words(&self) -> Option<String> {
        match (self.ratio(), self.change()?) {
            (_, 0.0) => Some("=".into()),
            (Some(ratio), _) => Some(percent(ratio)),
            (None, change) => Some(format!("+{}", figure(change, self.unit))),
        }
    }

    /// The limit in words.
    pub fn limit_words(&self) -> String {
        match &self.limit {
            None => "the layout floor".into(),
            Some(limit) => {
                let absolute = limit.absolute.map(|absolute| figure(absolute.value, self.unit));
                let parts = [limit.ratio.map(magnitude), absolute];
                parts.into_iter().flatten().collect::<Vec<_>>().join(" or ")
            }
        }
    }

    /// ` in the middle of 11 layouts`, if several layouts decided.
    fn layout_words(&self) -> String {
        self.in_layouts.map_or(String::new(), |in_layouts| {
            format!(" in the middle of {} layouts", in_layouts.layouts)
        })
    }

    /// The outcome in words.
    pub fn words(&self) -> String {
        let floor = || self.floor.map_or(String::new(), |floor| floor.words(self.unit));
        match &self.outcome {
            Outcome::Same => "the same".into(),
            Outcome::WithinFloor => format!("within the layout floor, {}", floor()),
            Outcome::WithinLimit => {
                format!("within its limit, {}{}", self.limit_words(), self.layout_words())
            }
            Outcome::Improved => "improved".into(),
            Outcome::Accepted(trailers) => {
                let commits: Vec<&str> = trailers.iter().map(|one| one.commit.as_str()).collect();
                format!("accepted by {}", commits.join(", "))
            }
            Outcome::Exceeded => match self.decided_by_functions() {
                Some(exact) => format!(
                    "exact changes of functions, +{}, are more than {}",
                    figure(exact, self.unit),
                    self.limit_words()
                ),
                None => format!("more than {}{}", self.limit_words(), self.layout_words()),
            },
            Outcome::Unchanged(found) => format!("no change found{found}"),
            Outcome::Undecided(why) => format!("undecided: {why}"),
            Outcome::NotComparable(differences) => {
                let words: Vec<String> = differences.iter().map(ToString::to_string).collect();
                format!("not comparable: {}", words.join("; "))
            }
            Outcome::NoBaseline(others) if others.is_empty() => "has no baseline".into(),
            Outcome::NoBaseline(others) => {
                let name = |other: &String| {
                    other.strip_suffix(PER_OPERATIONS).unwrap_or(other.as_str()).to_string()
                };
                let names: Vec<String> = others.iter().map(name).collect();
                let value = match &names[..] {
                    [one] => format!("{one:?}"),
                    many => format!("{many:?}"),
                };
                format!(
                    "has no baseline: the file has {} of this case; metric = {value} compares with that",
                    others.join(", "),
                )
            }
            Outcome::Refused(why) => format!("refused: {why}"),
        }
    }

    /// The text that accepts the change if it follows the case's name in a trailer: `+0.50%`.
    pub fn acceptance(&self) -> Option<String> {
        let exact = self.decided_by_functions();
        let change = exact.or(self.change()).filter(|change| *change > 0.0)?;
        let whole = || format!("+{}", change.ceil());
        let baseline = self.baseline.filter(|baseline| *baseline != 0.0);
        let percent = exact
            .map_or(self.ratio(), |exact| Some(exact / baseline?.abs()))
            .map(|ratio| magnitude(ratio).replace(' ', ""));
        let text = percent.map_or_else(whole, |percent| format!("+{percent}"));
        let accepts = Accepted::parse("", &format!("case {text}")).is_ok_and(|accepted| {
            super::trailer::accepts(&[&accepted], self.baseline.unwrap_or_default(), change)
        });
        Some(if accepts { text } else { whole() })
    }
}

impl CaseReport {
    /// The answer for this case.
    pub fn verdict(&self) -> GateVerdict {
        match &self.failure {
            Some(CaseFailure::Failed(_)) => GateVerdict::Failed,
            Some(CaseFailure::New { accepted: Some(_), .. }) => GateVerdict::MayLand,
            Some(CaseFailure::New { .. } | CaseFailure::Refused(_)) => GateVerdict::NoAnswer,
            None => {
                let verdicts = self.figures.iter().map(|figure| figure.outcome.verdict());
                // A case without a figure answers nothing.
                verdicts.max().unwrap_or(GateVerdict::NoAnswer)
            }
        }
    }

    /// Why the case has no figures, in words.
    pub fn failure_words(&self) -> Option<String> {
        Some(match self.failure.as_ref()? {
            CaseFailure::Failed(why) => why.clone(),
            CaseFailure::New { accepted: Some(trailer), .. } => {
                format!("is new, accepted by {}", trailer.commit)
            }
            CaseFailure::New { why, accepted: None } => format!("has no baseline: {why}"),
            CaseFailure::Refused(why) => format!("not comparable: {why}"),
        })
    }
}

impl CaseReport {
    /// Why the revision that wrote the baseline was counted again, in one sentence.
    pub fn recounted_words(&self) -> Option<String> {
        let Recount { written, differences } = self.recounted.as_ref()?;
        let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
        Some(format!(
            "{}: {}. So {} ({}), which wrote the baseline, was counted again here, and the tip is held against that; \
             --update writes figures of here",
            self.name,
            differences.join(", "),
            written.short(),
            written.subject
        ))
    }
}

impl GateReport {
    /// The answer.
    pub fn verdict(&self) -> GateVerdict {
        let cases = self.cases.iter().map(CaseReport::verdict);
        let verdict = cases.max().unwrap_or(GateVerdict::NoAnswer);
        if self.updated {
            // The file's earlier figures are replaced; figures that could not be measured are not.
            let failed = |case: &CaseReport| case.failure.is_some();
            let refused = |case: &CaseReport| {
                case.figures.iter().any(|figure| matches!(figure.outcome, Outcome::Refused(_)))
            };
            return match () {
                () if verdict == GateVerdict::Failed => verdict,
                () if self.cases.iter().any(|case| failed(case) || refused(case)) => {
                    GateVerdict::NoAnswer
                }
                () => GateVerdict::MayLand,
            };
        }
        if self.orphans.is_empty() { verdict } else { verdict.max(GateVerdict::NoAnswer) }
    }

    /// All figures with their cases.
    pub fn figures(&self) -> impl Iterator<Item = (&CaseReport, &FigureReport)> {
        self.cases.iter().flat_map(|case| case.figures.iter().map(move |figure| (case, figure)))
    }

    /// The tip's figures with their cases, each once: sums over several commits are left out.
    pub fn figures_of_tip(&self) -> impl Iterator<Item = (&CaseReport, &FigureReport)> {
        self.figures().filter(|(_, figure)| figure.over_commits.is_none())
    }

    /// The answer in one sentence.
    pub fn headline(&self) -> String {
        let (mut exceeded, mut open, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for (case, figure) in self.figures() {
            let named = || format!("{} {}", case.name, figure.name());
            match figure.outcome.verdict() {
                GateVerdict::Exceeded => {
                    let change = figure.change_words().unwrap_or_default();
                    exceeded.push(format!("{} {change}", named()));
                }
                GateVerdict::NoAnswer => open.push(format!("{} {}", named(), figure.words())),
                _ => {}
            }
        }
        for (cases, verdict, words) in self.failures() {
            let first = words.lines().next().unwrap_or_default();
            let words = format!("{} {first}", cases.join(", "));
            match verdict {
                GateVerdict::MayLand => {}
                GateVerdict::Failed => failed.push(words),
                _ => open.push(words),
            }
        }
        let empty = |case: &&CaseReport| case.figures.is_empty() && case.failure.is_none();
        let empty = self.cases.iter().filter(empty);
        open.extend(empty.map(|case| format!("{} has no figure", case.name)));
        open.extend(
            self.orphans.iter().map(|orphan| format!("the suite has no case for {orphan}")),
        );
        let first = |of: &[String]| match of {
            [] => String::new(),
            [one] => one.clone(),
            [one, more @ ..] => format!("{one}, and {} more", more.len()),
        };
        match self.verdict() {
            GateVerdict::MayLand if self.updated => "The baseline is updated.".into(),
            GateVerdict::MayLand => {
                let words: Vec<String> = self
                    .suite_changes
                    .iter()
                    .map(|change| printable(&change.to_string()))
                    .collect();
                let suite = match &words[..] {
                    [] => String::new(),
                    words => format!("; it changes its own suite: {}", first(words)),
                };
                format!("The change may land: {}{suite}.", self.counted())
            }
            GateVerdict::NoAnswer | GateVerdict::Failed if self.cases.is_empty() => {
                "No answer: there was nothing to measure.".into()
            }
            GateVerdict::NoAnswer => format!("No answer: {}.", first(&open)),
            GateVerdict::Failed => format!("No answer, something failed: {}.", first(&failed)),
            GateVerdict::Exceeded => format!("The change must not land: {}.", first(&exceeded)),
        }
    }

    /// The changes of the suite in words, if the change makes some.
    pub fn suite_words(&self) -> Option<String> {
        let words: Vec<String> = self
            .suite_changes
            .iter()
            .map(|change| {
                let kept = if change.kept { " (not applied: the suite is protected)" } else { "" };
                format!("{change}{kept}")
            })
            .collect();
        (!words.is_empty()).then(|| printable(&words.join("; ")))
    }

    /// `2 figures the same, 1 within its limit`.
    fn counted(&self) -> String {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        for (_, figure) in self.figures() {
            let words = match figure.outcome {
                Outcome::Same => "the same",
                Outcome::WithinFloor => "within the layout floor",
                Outcome::WithinLimit => "within the limit",
                Outcome::Improved => "improved",
                Outcome::Accepted(_) => "accepted",
                Outcome::Unchanged(_) => "without a change",
                _ => "open",
            };
            match counts.iter_mut().find(|(known, _)| *known == words) {
                Some((_, count)) => *count += 1,
                None => counts.push((words, 1)),
            }
        }
        let new = self.cases.iter().filter(|case| case.failure.is_some()).count();
        counts.extend((new > 0).then_some(("new", new)));
        let parts = counts.iter().enumerate().map(|(at, (words, count))| {
            let noun = match (at, count) {
                (0, 1) => " figure",
                (0, _) => " figures",
                _ => "",
            };
            format!("{}{noun} {words}", grouped(*count as u64))
        });
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Why cases have no figures: each reason once, with its cases. Cases with the same build fail alike.
    pub fn failures(&self) -> Vec<(Vec<&str>, GateVerdict, String)> {
        let mut failures: Vec<(Vec<&str>, GateVerdict, String)> = Vec::new();
        for case in &self.cases {
            let Some(words) = case.failure_words() else { continue };
            let verdict = case.verdict();
            let same = |known: &&mut (Vec<&str>, GateVerdict, String)| {
                known.1 == verdict && known.2 == words
            };
            match failures.iter_mut().find(same) {
                Some((cases, ..)) => cases.push(&case.name),
                None => failures.push((vec![&case.name], verdict, words)),
            }
        }
        failures
    }

    /// The remaining tasks, one sentence each.
    pub fn to_do(&self) -> Vec<String> {
        let mut to_do = Vec::new();
        if let Some(words) = self.suite_words() {
            to_do.push(format!("Review what the change does to its own suite: {words}"));
        }
        let update = match &self.against {
            Against::Baseline { path } => {
                Some(format!("opcost gate --baseline {} --update", shell_word(path)))
            }
            Against::Base(_) => None,
        };
        let any = |wanted: fn(&Outcome) -> bool| {
            self.figures().any(|(_, figure)| wanted(&figure.outcome))
        };
        for (case, figure) in self.figures() {
            if figure.outcome == Outcome::Exceeded
                && let Some(amount) = figure.acceptance()
            {
                to_do.push(format!(
                    "Make {} cheaper, or accept the cost with a line in the commit message: {}: {} {amount}",
                    case.name,
                    super::trailer::TRAILER,
                    case.name
                ));
            }
        }
        for case in &self.cases {
            if let Some(CaseFailure::New { accepted: None, .. }) = &case.failure {
                to_do.push(format!(
                    "If {} is a new case, say so with a line in the commit message: {}: {} new",
                    case.name,
                    super::trailer::TRAILER,
                    case.name
                ));
            }
        }
        if let (Some(update), false) = (update, self.updated) {
            if any(|outcome| matches!(outcome, Outcome::NotComparable(_) | Outcome::NoBaseline(_)))
                || !self.orphans.is_empty()
            {
                to_do.push(format!("Measure the baseline anew and commit it: {update}"));
            } else if any(|outcome| *outcome == Outcome::Improved) {
                to_do.push(format!("Commit the improvement, so that it is kept: {update}"));
            } else if any(|outcome| matches!(outcome, Outcome::Accepted(_))) {
                to_do.push(format!("Commit the baseline with the accepted cost: {update}"));
            }
        }
        to_do
    }

    /// The trailers that accept something, without repetition.
    pub fn accepted(&self) -> Vec<&Accepted> {
        let mut accepted: Vec<&Accepted> = Vec::new();
        let of_figures = self.figures().flat_map(|(_, figure)| match &figure.outcome {
            Outcome::Accepted(trailers) => trailers.as_slice(),
            _ => &[],
        });
        let new = self.cases.iter().filter_map(|case| match &case.failure {
            Some(CaseFailure::New { accepted, .. }) => accepted.as_ref(),
            _ => None,
        });
        for trailer in of_figures.chain(new) {
            if !accepted.contains(&trailer) {
                accepted.push(trailer);
            }
        }
        accepted
    }
}

/// The trailer that accepts a new case.
pub fn accepts_new(trailers: &[Accepted], case: &str) -> Option<Accepted> {
    trailers.iter().find(|one| one.case == case && one.amount == Amount::New).cloned()
}

/// A path quoted for a shell.
fn shell_word(path: &str) -> String {
    shlex::try_quote(path).map_or_else(|_| path.to_string(), |quoted| quoted.into_owned())
}
