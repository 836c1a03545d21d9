//! Measures one case of a gate and compares it with its base or baseline.

use super::measure::{Bench, Measured, Seeds, Side};
use super::shown;
use crate::trees::{Built, Recipe, Trees};
use anyhow::Result;
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_analysis::comparison::compare;
use opcost_analysis::comparison::recorded_profiles::{WORK_RULE, difference};
use opcost_base::exit::{HasStatus, Status, in_words, status_of};
use opcost_base::phases::Phases;
use opcost_gate::gate::baseline::{Baseline, BaselineFigure};
use opcost_gate::gate::counts::{self, Count, counts, only_block};
use opcost_gate::gate::exact::{ExactChange, exact_changes};
use opcost_gate::gate::judge::{
    self, Held, is_near_limit, judge, judge_comparison, judge_drift, judge_exact,
};
use opcost_gate::gate::key::{FigureKey, KeyDifference};
use opcost_gate::gate::report::{
    CaseFailure, CaseReport, FigureReport, Outcome, Recount, SourceLine, accepts_new,
};
use opcost_gate::gate::suite::{Case, Drift, Suite, WatchedFigure};
use opcost_gate::gate::trailer::{Accepted, TRAILER};
use opcost_kernel::{Repository, RepositoryCommit, short_commit};
use opcost_model::plan::GUEST_TREE;
use opcost_model::recording::{MachineState, settings};
use opcost_profile::symbolise::{Declared, declared};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The standard that a tip is compared with.
pub(super) enum Standard {
    /// A revision.
    Base(RepositoryCommit),
    /// The figures of a file, and the commit that last changed the file.
    Baseline { held: Baseline, file: PathBuf, written: Option<RepositoryCommit> },
}

/// A gate at work.
pub(super) struct Gate<'a> {
    pub(super) bench: Bench<'a>,
    pub(super) trees: &'a Trees<'a>,
    pub(super) standard: Standard,
    /// The cases in the base's own suite; `None` if the base has no suite or there is no base.
    pub(super) known_to_base: Option<BTreeSet<String>>,
    pub(super) repository: &'a Repository,
    /// The commit whose history the suite's drifts look at: the tip, or HEAD for the working tree.
    pub(super) head: RepositoryCommit,
    pub(super) tip: RepositoryCommit,
    pub(super) trailers: Vec<Accepted>,
    pub(super) update: bool,
    /// The figures of the tip, for a new baseline or a note.
    pub(super) updated: BTreeMap<(String, String), BaselineFigure>,
    pub(super) phases: Phases,
    /// What the reader should know of cases beside their figures.
    pub(super) notes: Vec<String>,
}

/// Keeps the failure of one case apart from other errors, which end the gate.
pub(super) fn of_case<T>(result: Result<T>) -> Result<Result<T, CaseFailure>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => match status_of(&error) {
            Some(Status::WorkFailed) => Ok(Err(CaseFailure::Failed(in_words(&error)))),
            Some(Status::NotComparable) => Ok(Err(CaseFailure::Refused(in_words(&error)))),
            _ => Err(error),
        },
    }
}

/// The recipe of a case.
pub(crate) fn recipe(case: &Case) -> Recipe<'_> {
    Recipe {
        build: case.build.as_deref(),
        compiler: case.compiler.as_deref(),
        architecture: case.experiment.architecture.unwrap_or_default(),
        artifacts: &case.artifact,
        kernel_config: if case.tests_kernel() { &case.experiment.kernel_config } else { &[] },
        fixups: &case.fixups,
    }
}

impl Gate<'_> {
    /// Measures a case and judges it.
    ///
    /// # Errors
    /// Errors that would end every other case, too: a tool is missing, the user interrupts, the suite is wrong.
    pub(super) fn case(&mut self, case: &Case) -> Result<CaseReport> {
        let mut report = CaseReport {
            name: case.name.clone(),
            work: String::new(),
            figures: Vec::new(),
            failure: None,
            functions: None,
            exact: (Vec::new(), 0),
            functions_missing: None,
            recordings: [None, None],
            key: FigureKey::default(),
            counted: None,
            recounted: None,
            place: None,
        };
        let built = self
            .bench
            .prepare_kernel(case, &mut self.phases)
            .and_then(|()| self.trees.built(&self.tip, "tip", recipe(case), &mut self.phases));
        let fixups = built.as_ref().ok().and_then(|tip| tip.site.fixups_in_words("the tip"));
        self.notes.extend(noted(case, fixups));
        match of_case(built)? {
            Ok(tip) if case.bench.is_some() => self.benchmarks(case, &tip, &mut report)?,
            Ok(tip) if case.is_exact() => {
                self.exact(case, &tip, &mut report)?;
                report.place = Self::place(&tip, &report);
            }
            Ok(tip) => self.varying(case, &tip, &mut report)?,
            Err(failure) => report.failure = Some(failure),
        }
        Ok(report)
    }

    pub(super) fn trailers_of(&self, case: &Case) -> Vec<Accepted> {
        self.trailers.iter().filter(|trailer| trailer.case == case.name).cloned().collect()
    }

    /// Classifies the failure of a case on the base: a case that the base does not know is new.
    pub(super) fn on_base(&self, case: &Case, failure: CaseFailure) -> CaseFailure {
        let is_new = self.known_to_base.as_ref().is_none_or(|known| !known.contains(&case.name));
        match failure {
            CaseFailure::Failed(why) if is_new => {
                CaseFailure::New { why, accepted: accepts_new(&self.trailers, &case.name) }
            }
            other => other,
        }
    }

    /// Judges a case whose counts are exact: each side is counted by itself.
    fn exact(&mut self, case: &Case, tip: &Built, report: &mut CaseReport) -> Result<()> {
        let seeds = if self.update { Seeds::Floor } else { Seeds::One };
        self.phases.report(&format!("counting {}", case.name), None);
        let measured = match of_case(self.bench.count(case, tip, seeds))? {
            Ok(measured) => measured,
            Err(failure) => {
                report.failure = Some(failure);
                return Ok(());
            }
        };
        report.work = counts::describe(&measured.recording);
        report.recordings[1] = Some(measured.recording.id.clone());
        report.key = measured.key.clone();
        let machine = measured.recording.machine.last();
        report.counted = machine.and_then(MachineState::emulated_words);
        let counted = match counts(&measured.recording, &case.watched) {
            Ok(counted) => counted,
            Err(why) => {
                report.failure = Some(CaseFailure::Refused(why));
                return Ok(());
            }
        };
        for count in &counted {
            if let Ok(value) = &count.value {
                let (value, floor) = (*value, count.floor);
                let figure = BaselineFigure { value, floor, key: measured.key.clone() };
                self.updated.insert((case.name.clone(), count.metric.clone()), figure);
            }
        }
        let base = match &self.standard {
            Standard::Base(commit) => {
                let commit = commit.clone();
                Some(of_case(self.base(case, &commit, Seeds::Floor, &measured.key))?)
            }
            Standard::Baseline { .. } => {
                self.recount(case, &counted, &measured.key, report)?.map(Ok)
            }
        };
        match base {
            Some(Ok(base)) => {
                self.against_base(case, &base, tip, &measured, &counted, report)?;
            }
            Some(Err(failure)) => report.failure = Some(self.on_base(case, failure)),
            None => {
                let Standard::Baseline { held, written, .. } = &self.standard else {
                    return Ok(());
                };
                let first = counted.first().and_then(|of| held.figure(&case.name, &of.metric));
                let libraries = first.and_then(|figure| {
                    figure.key.libraries_in_words(&measured.key, ["the baseline", "the tip"])
                });
                self.notes.extend(noted(case, libraries));
                let trailers = self.trailers_of(case);
                // Files of an older opcost have no figure that the suite does not name.
                let is_judged = |count: &&Count| {
                    !count.is_beside || held.figure(&case.name, &count.metric).is_some()
                };
                let judged = counted.iter().filter(is_judged).map(|count| {
                    let figure = held.figure(&case.name, &count.metric);
                    let standard = figure.map_or_else(
                        || Held::NoBaseline(metrics_of(held, &case.name)),
                        Held::Baseline,
                    );
                    judge(count, &measured.key, &standard, case.limit, &trailers)
                });
                report.figures = judged.collect();
                let written = written.clone();
                if !self.update && report.figures.iter().any(is_explained_by_functions) {
                    self.explain(case, written.as_ref(), &measured, report)?;
                }
            }
        }
        if report.failure.is_none() {
            self.drift(case, &measured, &counted, report)?;
            judge::keep_beside(&counted, &mut report.figures);
        }
        Ok(())
    }

    /// Judges how far the case drifted over the last commits, if the suite limits that.
    fn drift(
        &mut self,
        case: &Case,
        tip: &Measured,
        counted: &[Count],
        report: &mut CaseReport,
    ) -> Result<()> {
        let Some(Drift { limit, commits: most }) = case.drift.filter(|_| !self.update) else {
            return Ok(());
        };
        let found = self.repository.commit_before(&self.head.id, most);
        let (from, commits) = found.map_err(HasStatus::carried)?;
        if commits < most && self.repository.is_shallow() {
            self.notes.push(format!(
                "drift of {}: the clone has {commits} of {most} commits, and these are judged; fetch more",
                case.name
            ));
        }
        if commits == 0 {
            return Ok(());
        }
        let before = of_case(self.base(case, &from, Seeds::One, &tip.key))?.ok();
        let before = before.and_then(|before| counts(&before.recording, &case.watched).ok());
        let Some(before) = before else {
            self.notes.push(format!(
                "drift of {}: {}, {commits} commits back, cannot be built and counted, so their sum is not judged",
                case.name,
                short_commit(&from.id)
            ));
            return Ok(());
        };
        let trailers = self.repository.trailers(&from.id, &self.head.id, TRAILER);
        let trailers = trailers.map_err(HasStatus::carried)?;
        let trailers: Vec<Accepted> = trailers
            .iter()
            .filter_map(|(commit, text)| Accepted::parse(commit, text).ok())
            .filter(|trailer| trailer.case == case.name)
            .collect();
        for count in counted {
            let figure = report.figures.iter().find(|figure| figure.metric == count.metric);
            let earlier = before.iter().find(|earlier| earlier.metric == count.metric);
            if let (Some(figure), Some(earlier)) = (figure, earlier) {
                let drifted =
                    judge_drift(count, earlier, figure.floor, (limit, commits), &trailers);
                report.figures.push(drifted);
            }
        }
        Ok(())
    }

    /// The tip's counts in several layouts: an earlier gate's, else counted now.
    fn in_layouts(
        &mut self,
        case: &Case,
        built: &Built,
        tip: &Measured,
    ) -> Result<Result<Measured, CaseFailure>> {
        let alike = |key: &FigureKey| key.is_comparable(&tip.key);
        match self.bench.counted_before(case, &built.site, Seeds::Floor, &alike)? {
            Some(earlier) => Ok(Ok(earlier)),
            None => {
                self.phases.report(&format!("counting {} in other layouts", case.name), None);
                of_case(self.bench.count(case, built, Seeds::Floor))
            }
        }
    }

    /// Counts again the revision that wrote the baseline's figures of a case, since packages that were updated make them another
    /// machine's. The revision is the newest that wrote one of the figures. `None`: the figures hold, something that somebody chose
    /// differs, no commit has them, or the revision cannot be counted here.
    fn recount(
        &mut self,
        case: &Case,
        counted: &[Count],
        key: &FigureKey,
        report: &mut CaseReport,
    ) -> Result<Option<Measured>> {
        let Standard::Baseline { held, file, .. } = &self.standard else { return Ok(None) };
        let metrics = counted.iter().map(|count| &count.metric);
        let figures: Vec<(&String, &BaselineFigure)> =
            metrics.filter_map(|metric| Some((metric, held.figure(&case.name, metric)?))).collect();
        let mut differences: Vec<KeyDifference> = Vec::new();
        for difference in figures.iter().flat_map(|(_, figure)| figure.key.obstacles(key)) {
            if !differences.contains(&difference) {
                differences.push(difference);
            }
        }
        let are_packaged = differences.iter().all(|one| settings::is_packaged(&one.part));
        if differences.is_empty() || !are_packaged || self.update {
            return Ok(None);
        }
        let mut newest: Option<String> = None;
        for (metric, figure) in figures {
            let line = figure.line(&case.name, metric);
            let Some(writer) = self.repository.writer_of(&self.head.id, file, &line) else {
                return Ok(None);
            };
            if newest.as_ref().is_none_or(|known| self.repository.is_ancestor(known, &writer)) {
                newest = Some(writer);
            }
        }
        let Some(newest) = newest else { return Ok(None) };
        let commit = self.repository.commit(&newest).map_err(HasStatus::carried)?;
        let base = of_case(self.base(case, &commit, Seeds::Floor, key))?.ok();
        if base.is_some() {
            report.recounted = Some(Recount { written: shown(&commit, ""), differences });
        }
        Ok(base)
    }

    fn against_base(
        &mut self,
        case: &Case,
        base: &Measured,
        built: &Built,
        tip: &Measured,
        counted: &[Count],
        report: &mut CaseReport,
    ) -> Result<()> {
        report.recordings[0] = Some(base.recording.id.clone());
        let libraries = base.key.libraries_in_words(&tip.key, ["the base", "the tip"]);
        self.notes.extend(noted(case, libraries));
        let of_base = match base.recording.id == tip.recording.id {
            true => Ok(counted.to_vec()),
            false => counts(&base.recording, &case.watched),
        };
        let of_base = match of_base {
            Ok(of_base) => of_base,
            Err(why) => {
                report.failure = Some(CaseFailure::Refused(format!("of the base, {why}")));
                return Ok(());
            }
        };
        let trailers = self.trailers_of(case);
        let judged = counted
            .iter()
            .zip(&of_base)
            .map(|(count, base)| judge(count, &tip.key, &Held::Base(base), case.limit, &trailers));
        report.figures = judged.collect();
        if report.figures.iter().any(is_near_limit) {
            match self.in_layouts(case, built, tip)? {
                Ok(again) => {
                    let of_tip = counts(&again.recording, &case.watched).unwrap_or_default();
                    judge::judge_near_limits(&mut report.figures, [&of_base, &of_tip], &trailers);
                }
                Err(failure) => {
                    report.failure = Some(failure);
                    return Ok(());
                }
            }
        }
        if report.figures.iter().any(is_explained_by_functions) {
            explained(base, tip, report);
        }
        self.exact_functions(case, built, [base, tip], report)
    }

    /// Reports the functions that changed exactly, and judges figures within their floors by them.
    fn exact_functions(
        &mut self,
        case: &Case,
        built: &Built,
        [base, tip]: [&Measured; 2],
        report: &mut CaseReport,
    ) -> Result<()> {
        if !report.figures.iter().any(|figure| figure.metric.starts_with("instructions")) {
            return Ok(());
        }
        if base.recording.id == tip.recording.id {
            report.exact = (Vec::new(), base.recording.plan.blocks.len() as u32);
            return Ok(());
        }
        let of_base = counts::functions(&base.recording);
        let mut changes = exact_changes(&of_base, &counts::functions(&tip.recording));
        let trailers = self.trailers_of(case);
        let judged = |changes: &[ExactChange], report: &mut CaseReport| {
            let figures = report.figures.iter_mut();
            let decided = figures.map(|figure| judge_exact(figure, changes, &trailers));
            decided.filter(|decided| *decided).count() > 0
        };
        let before = report.figures.clone();
        if judged(&changes, report) {
            // The tip was counted in one layout. A function that others move there must not decide.
            let again = match self.in_layouts(case, built, tip)? {
                Ok(again) => again,
                Err(failure) => {
                    report.failure = Some(failure);
                    return Ok(());
                }
            };
            changes = exact_changes(&of_base, &counts::functions(&again.recording));
            report.figures = before;
            judged(&changes, report);
        }
        report.exact = (changes, of_base.layouts);
        Ok(())
    }

    /// The declaration of the function with the largest added cost, if the function is the revision's own.
    fn place(built: &Built, report: &CaseReport) -> Option<SourceLine> {
        let functions = report.functions.as_ref()?;
        let own = functions.rows.iter().filter(|row| row.own.change > 0.0);
        let row = own.max_by(|one, other| one.own.change.total_cmp(&other.own.change))?;
        let module = Path::new(&row.module);
        let program = module
            .strip_prefix(GUEST_TREE)
            .map_or(module.to_path_buf(), |below| built.site.folder.join(below));
        let program = program.starts_with(&built.site.folder).then_some(program)?;
        let Declared { file, line } = declared(&std::fs::read(program).ok()?, &row.symbol)?;
        let file = built.site.folder.join(file);
        let below = file.strip_prefix(&built.site.folder).ok()?.to_str()?.to_string();
        Some(SourceLine { file: below, line: line.into() })
    }

    /// The counts of a case on its base: an earlier gate's, else the base is built and counted.
    fn base(
        &mut self,
        case: &Case,
        commit: &RepositoryCommit,
        seeds: Seeds,
        alike: &FigureKey,
    ) -> Result<Measured> {
        let site = self.trees.site(commit, recipe(case))?;
        self.notes.extend(noted(case, site.fixups_in_words("the base")));
        if let Some(before) =
            self.bench.counted_before(case, &site, seeds, &|key| key.is_comparable(alike))?
        {
            return Ok(before);
        }
        let built = self.trees.built(commit, "base", recipe(case), &mut self.phases)?;
        self.phases.report(&format!("counting {} on the base", case.name), None);
        self.bench.count(case, &built, seeds)
    }

    /// Counts the revision that wrote the baseline, to find out which functions a change comes from.
    fn explain(
        &mut self,
        case: &Case,
        written: Option<&RepositoryCommit>,
        tip: &Measured,
        report: &mut CaseReport,
    ) -> Result<()> {
        let base = self.writer_of_baseline(
            written,
            report,
            is_explained_by_functions,
            |gate, commit| gate.base(case, commit, Seeds::One, &tip.key),
            |base| {
                let counts = counts(&base.recording, &case.watched).unwrap_or_default();
                counts.into_iter().map(|count| (count.metric, count.value.ok())).collect()
            },
        )?;
        if let Some(base) = base {
            report.recordings[0] = Some(base.recording.id.clone());
            explained(&base, tip, report);
        }
        Ok(())
    }

    /// Counts the revision that wrote the baseline; `None`, with the reason in the report, if that does not give what the baseline says.
    ///
    /// `asked`: the figures that matter; `count`: counts a commit; `values`: its counts by metric.
    pub(super) fn writer_of_baseline<T>(
        &mut self,
        written: Option<&RepositoryCommit>,
        report: &mut CaseReport,
        asked: impl Fn(&FigureReport) -> bool,
        count: impl FnOnce(&mut Self, &RepositoryCommit) -> Result<T>,
        values: impl FnOnce(&T) -> BTreeMap<String, Option<u64>>,
    ) -> Result<Option<T>> {
        let Some(commit) = written else {
            report.functions_missing = Some("no commit has the baseline file yet".into());
            return Ok(None);
        };
        let shown = short_commit(&commit.id);
        let Ok(base) = of_case(count(self, commit))? else {
            report.functions_missing =
                Some(format!("{shown}, which wrote the baseline, cannot be built and run"));
            return Ok(None);
        };
        let values = values(&base);
        let is_it = |figure: &FigureReport| {
            let value = values.get(&figure.metric).copied().flatten();
            value.map(|value| value as f64) == figure.baseline
        };
        if report.figures.iter().filter(|figure| asked(figure)).all(is_it) {
            return Ok(Some(base));
        }
        report.functions_missing = Some(format!(
            "{shown}, which wrote the baseline, does not count what the baseline says"
        ));
        Ok(None)
    }

    /// Judges a case whose figures vary: the runs of both sides alternate.
    fn varying(&mut self, case: &Case, tip: &Built, report: &mut CaseReport) -> Result<()> {
        let Standard::Base(commit) = &self.standard else { return Ok(()) };
        let built = self.trees.built(commit, "base", recipe(case), &mut self.phases);
        let base = match of_case(built)? {
            Ok(base) => base,
            Err(failure) => {
                report.failure = Some(self.on_base(case, failure));
                return Ok(());
            }
        };
        self.phases.report(&format!("measuring {}", case.name), None);
        let recording = match of_case(self.bench.compare(
            [("base", &base), ("tip", tip)].map(|(name, built)| Side { name, case, built }),
        ))? {
            Ok(recording) => recording,
            Err(failure) => {
                report.failure = Some(self.on_base(case, failure));
                return Ok(());
            }
        };
        report.work = counts::describe(&recording);
        report.recordings = [None, Some(recording.id.clone())];
        let comparison = compare(&recording).0;
        if let Some(why) = counts::refusal(&comparison) {
            report.failure = Some(CaseFailure::Refused(why));
            return Ok(());
        }
        let watched: Vec<String> = case.watched.iter().map(WatchedFigure::label).collect();
        report.figures =
            judge_comparison(&comparison, &watched, case.limit, &self.trailers_of(case));
        report.functions = comparison.functions.into_iter().find(|functions| functions.shifted());
        Ok(())
    }

    /// Cases of the baseline that the suite lacks; `whole`: whether the whole suite was measured.
    pub(super) fn orphans(&self, suite: &Suite, whole: bool) -> Vec<String> {
        let Standard::Baseline { held, .. } = &self.standard else { return Vec::new() };
        let is_known = |case: &str| suite.cases.iter().any(|known| known.name == case);
        held.cases().filter(|case| whole && !is_known(case)).map(str::to_string).collect()
    }

    /// The baseline with the tip's figures; `whole`: whether the whole suite was measured.
    pub(super) fn new_baseline(&self, suite: &Suite, whole: bool) -> Baseline {
        let mut baseline = match &self.standard {
            Standard::Baseline { held, .. } => held.clone(),
            Standard::Base(_) => Baseline::default(),
        };
        let measured = |case: &str| suite.cases.iter().any(|known| known.name == case);
        // A case that failed keeps its old figures.
        let is_fresh = |case: &str| self.updated.keys().any(|(fresh, _)| fresh == case);
        baseline.figures.retain(|(case, _), _| match measured(case) {
            true => !is_fresh(case),
            false => !whole,
        });
        baseline.figures.extend(self.updated.clone());
        baseline
    }
}

/// A note about a case.
fn noted(case: &Case, words: Option<String>) -> Option<String> {
    words.map(|words| format!("case '{}': {words}", case.name))
}

/// The metrics that a baseline has of a case, without functions.
pub(super) fn metrics_of<'a>(held: &'a Baseline, case: &str) -> Vec<&'a str> {
    let figures = held.figures.keys().filter(|(of, _)| of == case);
    figures
        .map(|(_, figure)| figure.as_str())
        .filter(|figure| !figure.starts_with(WatchedFigure::OF_FUNCTION))
        .collect()
}

/// Whether functions can explain a figure's change: the figure changed, and it counts instructions.
fn is_explained_by_functions(figure: &FigureReport) -> bool {
    is_changed(figure)
        && (figure.metric.starts_with("instructions") || figure.metric.starts_with("function:"))
}

/// Whether a figure differs from its standard.
pub(super) fn is_changed(figure: &FigureReport) -> bool {
    matches!(
        figure.outcome,
        Outcome::Exceeded | Outcome::Improved | Outcome::Accepted(_) | Outcome::WithinLimit
    )
}

/// Reports which functions a change comes from, by the first block, where both sides have the same inputs.
fn explained(base: &Measured, tip: &Measured, report: &mut CaseReport) {
    let [one, two] = [base, tip].map(|side| only_block(&side.recording, 0));
    let sides = [&one, &two].map(|recording| VariantOf { recording, variant: 0 });
    match difference(sides, &[WORK_RULE.to_string()]) {
        Ok(difference) => report.functions = Some(difference.functions),
        Err(error) => report.functions_missing = Some(error.to_string()),
    }
}
