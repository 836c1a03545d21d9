//! What a gate found: the answer, case by case.

use super::key::{FigureKey, KeyDifference};
use super::trailer::{Accepted, Amount};
use crate::comparison::FunctionComparison;
use crate::comparison::limit::Limit;
use crate::number::{figure, grouped, magnitude, percent};
use opcost_record::{Better, Unit};

/// What a gate found.
#[derive(Clone, Debug)]
pub struct GateReport {
    /// What the change was held against.
    pub against: Against,
    /// The revision that is to land.
    pub tip: RevisionSide,
    /// The cases, in the suite's order.
    pub cases: Vec<CaseReport>,
    /// Figures of the baseline for which the suite has no case.
    pub orphans: Vec<String>,
    /// What the reader should know beside the answer.
    pub notes: Vec<String>,
    /// Whether the baseline file was written anew.
    pub updated: bool,
}

/// What a change is held against.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Against {
    /// A revision that was built and measured.
    Base(RevisionSide),
    /// A committed file of figures.
    Baseline {
        /// Its path, as it was given.
        path: String,
    },
}

/// A revision.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RevisionSide {
    /// What the user calls it.
    pub name: String,
    /// The commit, whole.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
}

/// One case.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// Its name.
    pub name: String,
    /// What it runs.
    pub work: String,
    /// Its figures; none if it failed.
    pub figures: Vec<FigureReport>,
    /// Why there are none.
    pub failure: Option<CaseFailure>,
    /// Where a change of its instructions comes from.
    pub functions: Option<FunctionComparison>,
    /// Why nobody can say where the change comes from.
    pub functions_missing: Option<String>,
    /// The recordings of the base and of the tip.
    pub recordings: [Option<String>; 2],
    /// What its counts depend on.
    pub key: FigureKey,
    /// Where the function that costs most of what came on top is, as far as its program says.
    pub place: Option<Place>,
}

/// A line of a source file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
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
    /// The base has no such case, so it cannot do the work.
    New {
        /// Why it cannot.
        why: String,
        /// The trailer that says that this is right.
        accepted: Option<Accepted>,
    },
    /// The runs were not comparable.
    Refused(String),
}

/// One figure of a case.
#[derive(Clone, Debug)]
pub struct FigureReport {
    /// Its name, as baseline files have it.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The direction that is better.
    pub better: Better,
    /// What the base or the baseline file has.
    pub baseline: Option<f64>,
    /// What the tip has.
    pub value: Option<f64>,
    /// How far seeds and layouts alone move it.
    pub floor: Option<f64>,
    /// How much worse it may become.
    pub limit: Option<Limit>,
    /// What comes of it.
    pub outcome: Outcome,
}

/// What comes of a figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Exactly the same.
    Same,
    /// No further off than seeds and layouts alone move it.
    WithinFloor,
    /// No worse than its limit allows.
    WithinLimit,
    /// Better by more than its limit.
    Improved,
    /// Worse than its limit, and commits say that this is known.
    Accepted(Vec<Accepted>),
    /// Worse than its limit.
    Exceeded,
    /// No change was found of a metric that varies; the text says how small a change would have been.
    Unchanged(String),
    /// The runs cannot tell, as the metric varies; the text says why.
    Undecided(String),
    /// The figures depend on different things.
    NotComparable(Vec<KeyDifference>),
    /// There is nothing to hold it against.
    NoBaseline,
    /// The figure is not there, or the runs do not agree on it.
    Refused(String),
}

/// The answer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum GateVerdict {
    /// Nothing speaks against the change.
    MayLand,
    /// Something could not be compared, so there is no answer.
    NoAnswer,
    /// A limit is exceeded.
    Exceeded,
    /// A build or the work failed.
    Failed,
}

impl GateVerdict {
    /// One word for programs.
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
    /// One word for programs.
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
            Outcome::NoBaseline => "no-baseline",
            Outcome::Refused(_) => "refused",
        }
    }

    /// Whether it has an answer, and what that is.
    pub fn verdict(&self) -> GateVerdict {
        match self {
            Outcome::Exceeded => GateVerdict::Exceeded,
            Outcome::Undecided(_)
            | Outcome::NotComparable(_)
            | Outcome::NoBaseline
            | Outcome::Refused(_) => GateVerdict::NoAnswer,
            _ => GateVerdict::MayLand,
        }
    }

    /// Whether a reader has to see it one by one: everything but what did not change.
    pub fn is_worth_a_row(&self) -> bool {
        !matches!(self, Outcome::Same | Outcome::WithinFloor | Outcome::Unchanged(_))
    }
}

impl FigureReport {
    /// The figure less its baseline.
    pub fn change(&self) -> Option<f64> {
        Some(self.value? - self.baseline?)
    }

    /// The change as a share of the baseline; `None` over a baseline of 0 that something came on top of.
    pub fn ratio(&self) -> Option<f64> {
        match (self.change()?, self.baseline?) {
            (0.0, _) => Some(0.0),
            (_, 0.0) => None,
            (change, baseline) => Some(change / baseline.abs()),
        }
    }

    /// The change in words: `+0.50 %`, over a baseline of 0 the figure.
    pub fn change_words(&self) -> Option<String> {
        match (self.ratio(), self.change()?) {
            (_, 0.0) => Some("=".into()),
            (Some(ratio), _) => Some(percent(ratio)),
            (None, change) => Some(format!("+{}", figure(change, self.unit))),
        }
    }

    /// What its limit allows, in words.
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

    /// What comes of it, in words.
    pub fn words(&self) -> String {
        let floor = || self.floor.map_or(String::new(), |floor| figure(floor, self.unit));
        match &self.outcome {
            Outcome::Same => "the same".into(),
            Outcome::WithinFloor => format!("within the layout floor, {}", floor()),
            Outcome::WithinLimit => format!("within its limit, {}", self.limit_words()),
            Outcome::Improved => "improved".into(),
            Outcome::Accepted(trailers) => {
                let commits: Vec<&str> = trailers.iter().map(|one| one.commit.as_str()).collect();
                format!("accepted by {}", commits.join(", "))
            }
            Outcome::Exceeded => format!("more than {}", self.limit_words()),
            Outcome::Unchanged(found) => format!("no change found{found}"),
            Outcome::Undecided(why) => format!("undecided: {why}"),
            Outcome::NotComparable(differences) => {
                let words: Vec<String> = differences.iter().map(ToString::to_string).collect();
                format!("not comparable: {}", words.join("; "))
            }
            Outcome::NoBaseline => "has no baseline".into(),
            Outcome::Refused(why) => format!("refused: {why}"),
        }
    }

    /// What to write behind a case's name so that its change is accepted: `+0.50%`.
    pub fn acceptance(&self) -> Option<String> {
        let change = self.change().filter(|change| *change > 0.0)?;
        let whole = || format!("+{}", change.ceil());
        let percent = self.ratio().map(|ratio| magnitude(ratio).replace(' ', ""));
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

    /// Why it has no figures, in words.
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

impl GateReport {
    /// The answer.
    pub fn verdict(&self) -> GateVerdict {
        let cases = self.cases.iter().map(CaseReport::verdict);
        let verdict = cases.max().unwrap_or(GateVerdict::NoAnswer);
        if self.updated {
            // What the file said before is replaced; what could not be measured is not.
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

    /// The answer in one sentence.
    pub fn headline(&self) -> String {
        let (mut exceeded, mut open, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for (case, figure) in self.figures() {
            let named = || format!("{} {}", case.name, figure.metric);
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
            GateVerdict::MayLand => format!("The change may land: {}.", self.counted()),
            GateVerdict::NoAnswer | GateVerdict::Failed if self.cases.is_empty() => {
                "No answer: there was nothing to measure.".into()
            }
            GateVerdict::NoAnswer => format!("No answer: {}.", first(&open)),
            GateVerdict::Failed => format!("No answer, something failed: {}.", first(&failed)),
            GateVerdict::Exceeded => format!("The change must not land: {}.", first(&exceeded)),
        }
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

    /// Why cases have no figures: each reason once, with its cases. Cases that are built alike fail
    /// alike.
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

    /// What has to be done, one sentence each.
    pub fn to_do(&self) -> Vec<String> {
        let mut to_do = Vec::new();
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
            if any(|outcome| matches!(outcome, Outcome::NotComparable(_) | Outcome::NoBaseline))
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

    /// Trailers that accept something, without repetition.
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

/// A path as a shell takes it.
fn shell_word(path: &str) -> String {
    shlex::try_quote(path).map_or_else(|_| path.to_string(), |quoted| quoted.into_owned())
}
