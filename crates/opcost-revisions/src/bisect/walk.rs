//! Walks from point to point of a line: builds and counts each, and asks the search where to look next.

use super::options::softened;
use crate::gate::held::recipe;
use crate::gate::measure::{Bench, Measured, Seeds, Side};
use crate::trees::{Built, Role, Site, Trees};
use anyhow::Result;
use opcost_analysis::comparison::{Comparison, Verdict, compare};
use opcost_base::exit::{Status, fail, in_words, status_of};
use opcost_base::message::announce;
use opcost_base::number::{grouped, magnitude};
use opcost_base::phases::Phases;
use opcost_command::globals::Globals;
use opcost_gate::gate::bisect::{BisectStep, Check, EarlyEnd, Suspect, SuspectKind, telling_line};
use opcost_gate::gate::counts::{Count, FunctionCounts, counts, describe, functions};
use opcost_gate::gate::exact::exact_changes;
use opcost_gate::gate::key::FigureKey;
use opcost_gate::gate::search::{Figures, Goal, Search, Untestable};
use opcost_gate::gate::suite::{Case, WatchedFigure};
use opcost_kernel::{Repository, RepositoryCommit};
use opcost_model::experiment::{Experiment, Seed};
use opcost_model::recording::Recording;
use opcost_sys::interrupt::Interrupt;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The most functions that are watched beside the figure: those that moved most between the ends.
const FUNCTIONS_MAX: usize = 20;
/// A function is watched if it moved by more than the largest move divided by this.
const PART_MIN: u64 = 20;
/// A step is no smaller than the change between the ends divided by this.
const STEPS_MAX: u64 = 200;
/// Totals alone show every step if the functions that moved between the ends moved by no more than the total did times this, in
/// hundredths: then they hardly cancel.
const TOTALS_HUNDREDTHS_MAX: u128 = 125;
/// Parts of a key that have to be the same for two sets of options.
const SAME_FOR_OPTIONS: [&str; 4] = ["arch", "opcost", "emulator", "seed"];

/// One point of a line.
#[derive(Clone)]
pub(super) struct Point {
    /// The suspect, if the figures moved at this point.
    pub(super) suspect: Suspect,
    /// The work, and the machine for it.
    pub(super) case: Arc<Case>,
    /// The revision that is built; `None` if nothing is built.
    pub(super) revision: Option<RepositoryCommit>,
}

/// The settings and findings that go from point to point.
pub(super) struct Walk<'a> {
    pub(super) globals: &'a Globals,
    pub(super) interrupt: &'a Interrupt,
    pub(super) repository: Option<&'a Repository>,
    /// The path of the store for recordings.
    pub(super) store: PathBuf,
    /// The folder where paths of cases start.
    pub(super) top: PathBuf,
    /// How many points are built and counted at the same time.
    pub(super) jobs: usize,
    pub(super) kind: SuspectKind,
    /// When the search may end.
    pub(super) goal: Goal,
    /// The figure to search; `None`: the figure that decides by default.
    pub(super) watched: Option<WatchedFigure>,
    /// The key of the bad end's counts: all that they depend on.
    pub(super) key: Option<FigureKey>,
    /// The point that has that key.
    pub(super) end: Option<Point>,
    /// The functions that are watched beside the figure.
    pub(super) names: BTreeSet<String>,
    /// How far each figure may move without being a step.
    pub(super) floors: Figures,
    /// The number of points that an earlier opcost had counted.
    pub(super) known: usize,
    /// Whether points between the ends are counted without functions.
    pub(super) totals: bool,
    /// What ended the search before its goal.
    pub(super) ended: Option<EarlyEnd>,
    /// The counted points with each fixup.
    pub(super) fixed: Mutex<BTreeMap<String, BTreeSet<String>>>,
    /// Builds that failed beside a count, by commit.
    pub(super) failed: Mutex<BTreeMap<String, String>>,
}

/// The tools of one thread.
pub(super) struct Worker<'a> {
    pub(super) trees: Option<Trees<'a>>,
    pub(super) bench: Bench<'a>,
    pub(super) phases: Phases,
}

/// How a point is counted, and its name in messages.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    which: &'a str,
    seeds: Seeds,
    fresh: bool,
    totals: bool,
    /// The point that is counted next: it is built meanwhile.
    next: Option<&'a Point>,
}

impl<'a> How<'a> {
    /// Counts a point once, unless an earlier opcost counted it.
    pub(super) fn kept(which: &'a str) -> How<'a> {
        How { which, seeds: Seeds::One, fresh: false, totals: false, next: None }
    }

    /// Counts a point once, in any case.
    pub(super) fn anew(which: &'a str) -> How<'a> {
        How { fresh: true, ..How::kept(which) }
    }

    /// Counts a point in enough layouts to know their effect, unless an earlier opcost did.
    pub(super) fn with_floor(which: &'a str) -> How<'a> {
        How { seeds: Seeds::Floor, ..How::kept(which) }
    }

    /// Builds another point while this one is counted.
    pub(super) fn beside(self, next: Option<&'a Point>) -> How<'a> {
        How { next, ..self }
    }
}

/// The counts of a point.
pub(super) struct PointCounts {
    /// The figure that is reported first.
    pub(super) count: Count,
    /// The instructions of every function's own code.
    functions: FunctionCounts,
    pub(super) key: FigureKey,
    /// The case that was counted: the point's case, without kernel options that need others.
    pub(super) case: Arc<Case>,
    /// The work, in a line.
    pub(super) work: String,
    /// Whether an earlier opcost had counted the point.
    known: bool,
}

/// Whether an error concerns one point alone; every other error ends the search.
fn is_of_point(status: Status) -> bool {
    matches!(status, Status::WorkFailed | Status::NotComparable | Status::Usage)
}

/// What an error says of a search that ended before its goal.
///
/// # Errors
/// The error itself, if there is no sense in what the search found until then.
pub(super) fn early_end(error: anyhow::Error) -> Result<EarlyEnd> {
    match status_of(&error) {
        Some(Status::Interrupted) => Ok(EarlyEnd::Interrupted),
        // A point that is not comparable for a reason of its own is a suspect.
        Some(Status::NotComparable) => Ok(EarlyEnd::ComputerChanged(in_words(&error))),
        _ => Err(error),
    }
}

/// An error of a search that the user ended.
fn interrupted(error: anyhow::Error) -> anyhow::Error {
    match status_of(&error) {
        Some(Status::Interrupted) => error,
        _ => fail(Status::Interrupted, "interrupted"),
    }
}

/// Whether the emulated machine can count a metric without telling functions apart.
fn counts_totals(case: &Case, metric: &str) -> bool {
    let Experiment { no_functions, cycles, model, .. } = &case.experiment;
    let name = metric.split([':', '/']).next().unwrap_or(metric);
    case.is_exact() && name == "instructions" && !no_functions && !cycles && !model
}

fn without_functions(case: &Case) -> Case {
    let mut case = case.clone();
    (case.experiment.no_functions, case.experiment.addresses) = (true, false);
    case
}

/// The functions whose own instructions moved between two readings, the largest change first.
fn functions_between(before: &PointCounts, after: &PointCounts) -> Vec<(String, i128)> {
    let own = |of: &PointCounts, name: &str| of.functions.own.get(name).map_or(0, |of| of.own);
    let names: BTreeSet<&String> =
        before.functions.own.keys().chain(after.functions.own.keys()).collect();
    let change = |name: &str| i128::from(own(after, name)) - i128::from(own(before, name));
    let mut moved: Vec<(String, i128)> =
        names.into_iter().map(|name| (name.clone(), change(name))).collect();
    moved.sort_by_key(|(_, change)| std::cmp::Reverse(change.unsigned_abs()));
    let most = moved.first().map_or(0, |(_, change)| change.unsigned_abs());
    moved.retain(|(_, change)| change.unsigned_abs() * u128::from(PART_MIN) > most);
    moved.truncate(FUNCTIONS_MAX);
    moved
}

/// The least change of a figure that is a step: the figure's floor, or, if larger, the share of the
/// change between the ends that is still worth a search.
fn least_step(floor: u64, change: u64) -> u64 {
    floor.max(change / STEPS_MAX)
}

impl<'a> Worker<'a> {
    /// Opens what one thread works with.
    pub(super) fn open(walk: &Walk<'a>, globals: &'a Globals) -> Result<Worker<'a>> {
        let trees = walk.repository.map(|of| Trees::open(of, walk.interrupt)).transpose()?;
        let (store, top) = (walk.store.clone(), walk.top.clone());
        let bench = Bench::new(globals, walk.interrupt, store, top, trees.as_ref());
        Ok(Worker { trees, bench, phases: Phases::new(globals.quiet) })
    }
}

impl<'a> Walk<'a> {
    /// How points between the ends are counted.
    fn on_the_way<'b>(&self, which: &'b str) -> How<'b> {
        How { totals: self.totals, ..How::kept(which) }
    }

    /// Adds the functions of a step whose points were counted without functions.
    pub(super) fn explain(
        &self,
        worker: &mut Worker<'_>,
        points: [&Point; 2],
        step: &mut BisectStep,
    ) -> Result<()> {
        if !self.totals {
            return Ok(());
        }
        let [before, after] = points;
        let before = self.read(worker, before, How::kept("profile of").beside(Some(after)))?;
        let after = self.read(worker, after, How::kept("profile of"))?;
        if let (Ok(before), Ok(after)) = (before, after) {
            step.functions = functions_between(&before, &after);
        }
        Ok(())
    }

    fn built(&self, worker: &mut Worker<'_>, point: &Point, which: &str) -> Result<Built> {
        match (&point.revision, &worker.trees) {
            (Some(commit), Some(trees)) => {
                trees.built(commit, which, recipe(&point.case), &mut worker.phases)
            }
            _ => Ok(Built::ready(self.not_tested())),
        }
    }

    /// The place of a case that needs no revision.
    fn not_tested(&self) -> Site {
        Site {
            folder: self.top.clone(),
            key: "none".into(),
            compiler: None,
            fixups: Vec::new(),
            role: Role::NotTested,
        }
    }

    /// Counts a point, unless an earlier opcost did; `Err` within says why the point cannot be tested.
    pub(super) fn read(
        &self,
        worker: &mut Worker<'_>,
        point: &Point,
        how: How<'_>,
    ) -> Result<Result<PointCounts, Untestable>> {
        let of_point = |why: &str| Ok(Err(Untestable::of(&point.suspect, why)));
        let (measured, known, case) = match self.measured(worker, point, how) {
            Ok(measured) => measured,
            // A build that ends because the user ends the search says nothing of the point.
            Err(error) if self.interrupt.is_set() => return Err(interrupted(error)),
            Err(error) if status_of(&error).is_some_and(is_of_point) => {
                return of_point(&in_words(&error));
            }
            Err(error) => return Err(error),
        };
        if let Some(key) = self.key.as_ref().filter(|key| !self.is_alike(key, &measured.key)) {
            let words: Vec<String> = key
                .obstacles(&measured.key)
                .iter()
                .map(|difference| {
                    let word = |side: &Option<String>| side.clone().unwrap_or("none".into());
                    let (part, bad) = (&difference.part, word(&difference.baseline));
                    format!("{part} is {}, the bad end has {bad}", word(&difference.now))
                })
                .collect();
            let words = words.join("; ");
            // Parts of the key can be the commit's own, or files of this computer: the bad end, counted again, tells which.
            if !how.fresh && self.has_changed(worker, key)? {
                let why = format!(
                    "this computer changed after the ends were counted: {words}; the same command counts the ends \
                     again and goes on, with the builds that it has"
                );
                return Err(fail(Status::NotComparable, why));
            }
            return of_point(&format!("its counts depend on other things: {words}"));
        }
        let watched: Vec<WatchedFigure> = self.watched.iter().cloned().collect();
        let count = match counts(&measured.recording, &watched) {
            Ok(counts) => counts.into_iter().next(),
            Err(why) => return of_point(&why),
        };
        let Some(count) = count else { return of_point("no run has the figure") };
        if let Err(why) = &count.value {
            return of_point(&format!("{}: {why}", count.metric));
        }
        let of_function = matches!(self.watched, Some(WatchedFigure::Function(_)));
        let explains = !of_function && count.metric.starts_with("instructions");
        let functions =
            if explains { functions(&measured.recording) } else { FunctionCounts::default() };
        let mut fixed = self.fixed.lock().unwrap_or_else(PoisonError::into_inner);
        for fixup in self.site(worker, point, &case)?.fixups {
            fixed.entry(fixup).or_default().insert(point.suspect.id.clone());
        }
        drop(fixed);
        let work = describe(&measured.recording);
        let key = measured.key;
        Ok(Ok(PointCounts { count, functions, key, case, work, known }))
    }

    /// Whether the bad end's counts now depend on other things than its key says.
    fn has_changed(&self, worker: &mut Worker<'_>, key: &FigureKey) -> Result<bool> {
        let Some(end) = &self.end else { return Ok(false) };
        let (now, ..) = self.measured(worker, end, How::anew("the bad end again,"))?;
        Ok(!self.is_alike(key, &now.key))
    }

    fn is_alike(&self, one: &FigureKey, other: &FigureKey) -> bool {
        match self.kind {
            SuspectKind::Commit => one.is_comparable(other),
            // The options under test are parts of the key.
            SuspectKind::Option | SuspectKind::Word => one
                .differences(other)
                .iter()
                .all(|difference| !SAME_FOR_OPTIONS.contains(&difference.part.as_str())),
        }
    }

    /// Measures a point, and returns the case that was measured. If its kernel cannot have an
    /// option before it has another one, the case goes without the former.
    fn measured(
        &self,
        worker: &mut Worker<'_>,
        point: &Point,
        how: How<'_>,
    ) -> Result<(Measured, bool, Arc<Case>)> {
        let mut case = point.case.clone();
        loop {
            match self.measured_as(&case, worker, point, how) {
                Ok((measured, known)) => return Ok((measured, known, case)),
                Err(error) => match softened(&case, &error)? {
                    Some(softer) => case = Arc::new(softer),
                    None => return Err(error),
                },
            }
        }
    }

    fn measured_as(
        &self,
        case: &Case,
        worker: &mut Worker<'_>,
        point: &Point,
        how: How<'_>,
    ) -> Result<(Measured, bool)> {
        let How { which, seeds, fresh, totals, next } = how;
        if let Some(why) =
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get(&point.suspect.id)
        {
            return Err(fail(Status::WorkFailed, why));
        }
        // A profile has the same totals.
        let mut cases = vec![case.clone()];
        if totals {
            cases.push(without_functions(case));
        }
        if !fresh && let Some(before) = self.counted_before(worker, point, &cases, seeds)? {
            return Ok((before, true));
        }
        let built = self.built(worker, point, which)?;
        let phase = format!("counting {which} {}", point.suspect.shown());
        worker.phases.report(phase.trim_end(), None);
        let case = &cases[cases.len() - 1];
        let Some(next) = next else { return Ok((worker.bench.count(case, &built, seeds)?, false)) };
        thread::scope(|scope| {
            let builder = scope.spawn(|| self.build_ahead(next));
            let counted = worker.bench.count(case, &built, seeds);
            // Whatever went wrong there is found again when the point is counted.
            let _ = builder.join();
            Ok((counted?, false))
        })
    }

    /// An earlier opcost's counts of a point in one of these cases.
    fn counted_before(
        &self,
        worker: &Worker<'_>,
        point: &Point,
        cases: &[Case],
        seeds: Seeds,
    ) -> Result<Option<Measured>> {
        let Some(key) = &self.key else { return Ok(None) };
        let alike = |other: &FigureKey| self.is_alike(key, other);
        for case in cases {
            let site = self.site(worker, point, case)?;
            let before = worker.bench.counted_before(case, &site, seeds, &alike)?;
            if before.is_some() {
                return Ok(before);
            }
        }
        Ok(None)
    }

    fn site(&self, worker: &Worker<'_>, point: &Point, case: &Case) -> Result<Site> {
        match (&point.revision, &worker.trees) {
            (Some(commit), Some(trees)) => trees.site(commit, recipe(case)),
            _ => Ok(self.not_tested()),
        }
    }

    /// Builds a point that is counted next, unless an earlier opcost counted it.
    fn build_ahead(&self, point: &Point) -> Result<()> {
        // Nobody can read messages of several threads at the same time.
        let quiet = Globals { quiet: true, ..self.globals.clone() };
        let mut worker = Worker::open(self, &quiet)?;
        let cases = [Case::clone(&point.case), without_functions(&point.case)];
        for seeds in [Seeds::One, Seeds::Floor] {
            if self.counted_before(&worker, point, &cases, seeds)?.is_some() {
                return Ok(());
            }
        }
        if let Err(error) = self.built(&mut worker, point, "next,")
            && status_of(&error) == Some(Status::WorkFailed)
            && !self.interrupt.is_set()
        {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.insert(point.suspect.id.clone(), in_words(&error));
        }
        Ok(())
    }

    /// The figures of a reading that the search looks at.
    pub(super) fn figures(&self, reading: &PointCounts) -> Figures {
        let of_function = |name: &String| {
            Some((format!("function:{name}"), reading.functions.own.get(name)?.own))
        };
        let functions = self.names.iter().filter_map(of_function);
        let count = reading.count.value.clone().unwrap_or_default();
        functions.chain([(reading.count.metric.clone(), count)]).collect()
    }

    /// Takes the figures to watch from the readings of both ends, and how far each may move without being a step.
    pub(super) fn watch(&mut self, good: &PointCounts, bad: &PointCounts) {
        let value = |reading: &PointCounts| reading.count.value.clone().unwrap_or(0);
        let floor = good.count.floor.map_or(0, |floor| floor.most);
        let floor = least_step(floor, value(good).abs_diff(value(bad)));
        let of = |reading: &PointCounts, name: &str| {
            reading.functions.own.get(name).map_or(0, |count| count.own)
        };
        let size_of = |name: &String| of(good, name).abs_diff(of(bad, name));
        let own_floor = |name: &str| good.functions.floors.get(name).map_or(0, |floor| floor.most);
        // Layouts do not move these functions, so the floor of the total does not hide them.
        let exact: Vec<(u64, String)> = exact_changes(&good.functions, &bad.functions)
            .into_iter()
            .map(|change| (size_of(&change.function), change.function))
            .collect();
        let names = good.functions.own.keys().chain(bad.functions.own.keys());
        let mut moved: Vec<(u64, String)> = names
            .map(|name| (size_of(name), name.clone()))
            .filter(|(size, name)| *size > own_floor(name).max(floor))
            .collect();
        moved.sort();
        moved.dedup();
        moved.reverse();
        let large = |of: Vec<(u64, String)>| {
            let most = of.first().map_or(0, |(size, _)| *size);
            of.into_iter().filter(move |(size, _)| size.saturating_mul(PART_MIN) > most)
        };
        let names = large(exact).chain(large(moved)).map(|(_, name)| name);
        self.names.clear();
        self.totals = false;
        for name in names {
            if self.names.len() < FUNCTIONS_MAX {
                self.names.insert(name);
            }
        }
        let of_functions = self
            .names
            .iter()
            .map(|name| (format!("function:{name}"), least_step(own_floor(name), size_of(name))));
        self.floors = of_functions.chain([(good.count.metric.clone(), floor)]).collect();
        let total = value(good).abs_diff(value(bad));
        let functions: u128 = self.names.iter().map(|name| u128::from(size_of(name))).sum();
        let tells = total > floor && functions * 100 <= u128::from(total) * TOTALS_HUNDREDTHS_MAX;
        if tells && counts_totals(&good.case, &good.count.metric) {
            self.totals = true;
            self.names.clear();
            self.floors.retain(|name, _| *name == good.count.metric);
        }
    }

    /// Takes from a point's reading the key that all other readings have to match.
    pub(super) fn take_key(&mut self, point: &Point, reading: &PointCounts) {
        self.key = Some(reading.key.clone());
        self.end = Some(point.clone());
    }

    /// A search among this many points, with the readings of both ends.
    pub(super) fn between(&self, points: usize, ends: [&PointCounts; 2]) -> Search {
        let mut search = Search::new(points, &ends[0].count.metric, self.floors.clone());
        search.learn(0, Ok(self.figures(ends[0])));
        search.learn(points - 1, Ok(self.figures(ends[1])));
        search
    }

    /// Looks at points until the search has reached its goal, or the user or a change of this computer ends it.
    pub(super) fn search(
        &mut self,
        worker: &mut Worker<'a>,
        points: &[Point],
        mut search: Search,
    ) -> Result<Search> {
        loop {
            let next = search.next(self.goal, self.jobs);
            if next.is_empty() {
                return Ok(search);
            }
            let found = match self.look_at(worker, points, &next, &search) {
                Err(error) => {
                    self.ended = Some(early_end(error)?);
                    return Ok(search);
                }
                Ok(found) => found,
            };
            for (point, reading) in next.into_iter().zip(found) {
                self.known += usize::from(reading.as_ref().is_ok_and(|reading| reading.known));
                let figures = reading.map(|reading| self.figures(&reading));
                search.learn(point, figures);
                self.report_point(&search, points, point);
            }
        }
    }

    fn look_at(
        &self,
        worker: &mut Worker<'a>,
        points: &[Point],
        next: &[usize],
        search: &Search,
    ) -> Result<Vec<Result<PointCounts, Untestable>>> {
        let which = |at: usize| format!("count {},", search.looked_at() + at + 1);
        if let [point] = next[..] {
            let beside = search.needed_beside(self.goal, point).map(|other| &points[other]);
            let which = which(0);
            let how = self.on_the_way(&which).beside(beside);
            return Ok(vec![self.read(worker, &points[point], how)?]);
        }
        let names: Vec<&str> = next.iter().map(|point| points[*point].suspect.name()).collect();
        worker.phases.report(&format!("building and counting {}", names.join(", ")), None);
        // Nobody can read messages of several threads at the same time.
        let quiet = Globals { quiet: true, ..self.globals.clone() };
        let read = |at: usize, point: usize| {
            let mut worker = Worker::open(self, &quiet)?;
            self.read(&mut worker, &points[point], self.on_the_way(&which(at)))
        };
        thread::scope(|scope| {
            let threads: Vec<_> = next
                .iter()
                .enumerate()
                .map(|(at, point)| scope.spawn(move || read(at, *point)))
                .collect();
            let joined = threads.into_iter().map(|thread| match thread.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect()
        })
    }

    /// Reports what was found at a point.
    fn report_point(&self, search: &Search, points: &[Point], point: usize) {
        if self.globals.quiet {
            return;
        }
        let last = points.len() - 1;
        let found = match search.figures(point) {
            None => {
                let why = search.untestable().find(|(at, _)| *at == point);
                let why = why.map_or("", |(_, of)| of.why.as_str());
                let said = telling_line(why).map_or(String::new(), |line| format!(" ({line})"));
                format!("cannot be tested: {}{said}", why.lines().next().unwrap_or_default())
            }
            Some(_) => {
                let level = match [search.moved(0, point), search.moved(point, last)] {
                    [good, _] if good.is_empty() => "as the good end",
                    [_, bad] if bad.is_empty() => "as the bad end",
                    _ => "as neither end: there is more than one step",
                };
                let figure = self.floors.keys().find(|name| !name.starts_with("function:"));
                let figure = figure.or(self.floors.keys().next());
                let value = figure.and_then(|name| search.figures(point)?.get(name));
                let (name, value) =
                    (figure.map_or("", String::as_str), value.copied().unwrap_or(0));
                let explained = magnitude(search.explained());
                format!(
                    "{name} {}, {level}; {explained} of the change is explained",
                    grouped(value)
                )
            }
        };
        announce!("{}: {found}", points[point].suspect.shown());
    }

    /// A case whose primary metric is the metric that was searched, if one was.
    fn as_asked(&self, case: &Case) -> Case {
        let mut case = case.clone();
        if let Some(WatchedFigure::Metric(metric)) = &self.watched {
            case.experiment.primary = Some(metric.clone());
        }
        case
    }

    /// Compares two points run by run.
    ///
    /// `look`: the number of pairs, and the number of the look, as each look draws an order of its own; `None`: as the case says.
    pub(super) fn compare(
        &self,
        worker: &mut Worker<'_>,
        points: [&Point; 2],
        look: Option<(u32, u64)>,
    ) -> Result<Recording> {
        let cases = points.map(|point| {
            let mut case = self.as_asked(&point.case);
            if let Some((pairs, look)) = look {
                let experiment = &mut case.experiment;
                (experiment.pairs, experiment.seed) = (Some(pairs), Some(Seed::Number(look)));
                (experiment.budget, experiment.until_width) = (None, None);
            }
            case
        });
        let [one, other] = points;
        let built = [self.built(worker, one, "good")?, self.built(worker, other, "point")?];
        worker.phases.report(&format!("measuring {}", other.suspect.shown()), None);
        let side = |at: usize, name| Side { name, case: &cases[at], built: &built[at] };
        worker.bench.compare([side(0, "before"), side(1, other.suspect.name())])
    }

    /// Whether a comparison confirms the search: a change of the figure, or, if layouts move the figure as far, of every function that
    /// moved in the search, in the same direction. `None` if it cannot tell.
    fn confirmed(
        &self,
        comparison: &Comparison,
        change: i128,
        functions: &[(String, i128)],
    ) -> Option<bool> {
        let mut floors = self.floors.iter().filter(|(name, _)| !name.starts_with("function:"));
        let least = floors.next().map_or(0, |(_, floor)| *floor);
        let of_function = matches!(self.watched, Some(WatchedFigure::Function(_)));
        if of_function || change.unsigned_abs() <= u128::from(least) {
            // The comparison decides by a function only if the function's change is exact.
            let exact = comparison.functions.first()?;
            let found = |(name, change): &(String, i128)| {
                let towards = |own: f64| if *change > 0 { own > 0.0 } else { own < 0.0 };
                exact.exact_rows().any(|row| row.symbol == *name && towards(row.own.change))
            };
            return (!functions.is_empty() && functions.iter().all(found)).then_some(true);
        }
        let found = comparison.rows.iter().find(|row| row.primary)?.changes.first()?;
        let towards = |ratio: f64| if change > 0 { ratio > 0.0 } else { ratio < 0.0 };
        match (found.layouts.and_then(|layouts| layouts.range), found.verdict) {
            (Some((least, most)), _) => Some(towards(least) && towards(most)),
            (None, Verdict::Changed) => found.change_ratio.map(towards),
            (None, Verdict::Unchanged) => Some(false),
            _ => None,
        }
    }

    /// Compares a culprit with the point before it, in the whole experiment.
    ///
    /// `change`: the change that the search found; 0 if the check need not confirm it; `functions`: the changes of functions that it
    /// found.
    pub(super) fn check(
        &self,
        worker: &mut Worker<'_>,
        [before, culprit]: [&Point; 2],
        change: i128,
        functions: &[(String, i128)],
    ) -> Result<Check> {
        let of_culprit = |error: anyhow::Error| match status_of(&error) {
            Some(status) if is_of_point(status) => Ok(Check {
                recording: String::new(),
                conclusion: in_words(&error),
                confirmed: None,
                functions: None,
                differences: Vec::new(),
            }),
            _ => Err(error),
        };
        let built = [before, culprit].map(|point| self.built(worker, point, "checked"));
        let [one, other] = match built {
            [Ok(one), Ok(other)] => [one, other],
            [Err(error), _] | [_, Err(error)] => return of_culprit(error),
        };
        worker.phases.report(&format!("checking {}", culprit.suspect.shown()), None);
        let name = match self.kind {
            SuspectKind::Commit => culprit.suspect.name(),
            SuspectKind::Option | SuspectKind::Word => "with",
        };
        let [without, with] = [before, culprit].map(|point| self.as_asked(&point.case));
        let sides = [
            Side {
                name: if self.kind == SuspectKind::Commit { "parent" } else { "without" },
                case: &without,
                built: &one,
            },
            Side { name, case: &with, built: &other },
        ];
        let alike =
            |other: &FigureKey| self.key.as_ref().is_some_and(|key| self.is_alike(key, other));
        let made = match worker.bench.compared_before(sides, &alike) {
            Ok(Some(recording)) => Ok(recording),
            Ok(None) => worker.bench.compare(sides),
            Err(error) => Err(error),
        };
        let recording = match made {
            Ok(recording) => recording,
            Err(error) => return of_culprit(error),
        };
        let comparison = compare(&recording).0;
        let differences = comparison.differences.iter().flat_map(|one| one.lines.clone());
        Ok(Check {
            recording: recording.id.clone(),
            conclusion: comparison.conclusions.join("; "),
            confirmed: self.confirmed(&comparison, change, functions),
            differences: differences.collect(),
            functions: comparison.functions.into_iter().find(|functions| functions.shifted()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcost_gate::gate::suite::Suite;

    #[test]
    fn a_case_that_counts_addresses_is_searched_by_totals_too() {
        let suite = Suite::parse("[case.a]\nworkload = 'mmap'\naddresses = true").unwrap();
        assert!(counts_totals(&suite.cases[0], "instructions"));
        let Experiment { no_functions, addresses, .. } =
            without_functions(&suite.cases[0]).experiment;
        // One excludes the other.
        assert!(no_functions && !addresses);
    }
}
