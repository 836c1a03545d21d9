//! Walks from point to point of a line: builds and counts each, and asks the search where to look next.

use super::options::softened;
use crate::command::gate::held::recipe;
use crate::command::gate::measure::{Bench, Measured, Seeds, Side};
use crate::command::globals::Globals;
use anyhow::Result;
use opcost_analysis::comparison::{Comparison, Verdict, compare};
use opcost_base::exit::{Status, in_words, status_of};
use opcost_base::message::announce;
use opcost_base::number::grouped;
use opcost_base::phases::Phases;
use opcost_gate::gate::bisect::{Check, Suspect, SuspectKind};
use opcost_gate::gate::counts::{Count, FunctionCounts, counts, describe, functions};
use opcost_gate::gate::exact::exact_changes;
use opcost_gate::gate::key::FigureKey;
use opcost_gate::gate::search::{Figures, Search};
use opcost_gate::gate::suite::{Case, WatchedFigure};
use opcost_kernel::{Repository, RepositoryCommit};
use opcost_lab::trees::{Built, Role, Site, Trees};
use opcost_model::experiment::Seed;
use opcost_model::recording::Recording;
use opcost_sys::interrupt::Interrupt;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread;

/// The most functions that are watched beside the figure: those that moved most between the ends.
const FUNCTIONS_MAX: usize = 20;
/// A function is watched if it moved by more than the largest move divided by this.
const PART_MIN: u64 = 20;
/// A step is no smaller than the change between the ends divided by this.
const STEPS_MAX: u64 = 200;
/// Parts of a key that have to be the same for two sets of options.
const SAME_FOR_OPTIONS: [&str; 4] = ["arch", "opcost", "emulator", "seed"];

/// One point of a line.
#[derive(Clone)]
pub(super) struct Point {
    /// The suspect, if the figures moved at this point.
    pub(super) suspect: Suspect,
    /// The work, and the machine for it.
    pub(super) case: Case,
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
    /// The figure to search; `None`: the figure that decides by default.
    pub(super) watched: Option<WatchedFigure>,
    /// The key of the bad end's counts: all that they depend on.
    pub(super) key: Option<FigureKey>,
    /// The functions that are watched beside the figure.
    pub(super) names: BTreeSet<String>,
    /// How far each figure may move without being a step.
    pub(super) floors: Figures,
    /// The number of points that an earlier opcost had counted.
    pub(super) known: usize,
}

/// The tools of one thread.
pub(super) struct Worker<'a> {
    pub(super) trees: Option<Trees<'a>>,
    bench: Bench<'a>,
    phases: Phases,
}

/// How a point is counted, and its name in messages.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    which: &'a str,
    seeds: Seeds,
    fresh: bool,
}

impl<'a> How<'a> {
    /// Counts a point once, unless an earlier opcost counted it.
    pub(super) fn kept(which: &'a str) -> How<'a> {
        How { which, seeds: Seeds::One, fresh: false }
    }

    /// Counts a point once, in any case.
    pub(super) fn anew(which: &'a str) -> How<'a> {
        How { which, seeds: Seeds::One, fresh: true }
    }

    /// Counts a point in enough layouts to know their effect, unless an earlier opcost did.
    pub(super) fn with_floor(which: &'a str) -> How<'a> {
        How { which, seeds: Seeds::Floor, fresh: false }
    }
}

/// The counts of a point.
pub(super) struct PointCounts {
    /// The figure that is reported first.
    pub(super) count: Count,
    /// The instructions of every function's own code.
    functions: FunctionCounts,
    key: FigureKey,
    /// The case that was counted: the point's case, without kernel options that need others.
    pub(super) case: Case,
    /// The work, in a line.
    pub(super) work: String,
    /// Whether an earlier opcost had counted the point.
    known: bool,
}

/// Whether an error concerns one point alone; every other error ends the search.
fn is_of_point(status: Status) -> bool {
    matches!(status, Status::WorkFailed | Status::NotComparable | Status::Usage)
}

/// The least change of a figure that is a step: the figure's floor, or, if larger, the share of the
/// change between the ends that is still worth a search.
fn least_step(floor: u64, change: u64) -> u64 {
    floor.max(change / STEPS_MAX)
}

impl<'a> Worker<'a> {
    /// A desk for one thread.
    pub(super) fn open(walk: &Walk<'a>, globals: &'a Globals) -> Result<Worker<'a>> {
        let trees = walk.repository.map(|of| Trees::open(of, walk.interrupt)).transpose()?;
        let (store, top) = (walk.store.clone(), walk.top.clone());
        let bench = Bench { globals, interrupt: walk.interrupt, store, top };
        Ok(Worker { trees, bench, phases: Phases::new(globals.quiet) })
    }
}

impl<'a> Walk<'a> {
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
        Site { folder: self.top.clone(), key: "none".into(), compiler: None, role: Role::NotTested }
    }

    /// Counts a point, unless an earlier opcost did; `Err` within says why the point cannot be tested.
    pub(super) fn read(
        &self,
        worker: &mut Worker<'_>,
        point: &Point,
        how: How<'_>,
    ) -> Result<Result<PointCounts, String>> {
        let of_point = |error: anyhow::Error| match status_of(&error) {
            Some(status) if is_of_point(status) => Ok(in_words(&error)),
            _ => Err(error),
        };
        let (measured, known, case) = match self.measured(worker, point, how) {
            Ok(measured) => measured,
            Err(error) => return of_point(error).map(Err),
        };
        if let Some(key) = self.key.as_ref().filter(|key| !self.is_alike(key, &measured.key)) {
            let differences = key.differences(&measured.key);
            let words: Vec<String> = differences
                .iter()
                .map(|difference| {
                    let word = |side: &Option<String>| side.clone().unwrap_or("none".into());
                    let (part, bad) = (&difference.part, word(&difference.baseline));
                    format!("{part} is {}, the bad end has {bad}", word(&difference.now))
                })
                .collect();
            return Ok(Err(format!("its counts depend on other things: {}", words.join("; "))));
        }
        let watched: Vec<WatchedFigure> = self.watched.iter().cloned().collect();
        let count = match counts(&measured.recording, &watched) {
            Ok(counts) => counts.into_iter().next(),
            Err(why) => return Ok(Err(why)),
        };
        let Some(count) = count else { return Ok(Err("no run has the figure".into())) };
        if let Err(why) = &count.value {
            return Ok(Err(format!("{}: {why}", count.metric)));
        }
        let of_function = matches!(self.watched, Some(WatchedFigure::Function(_)));
        let explains = !of_function && count.metric.starts_with("instructions");
        let functions =
            if explains { functions(&measured.recording) } else { FunctionCounts::default() };
        let work = describe(&measured.recording);
        let key = measured.key;
        Ok(Ok(PointCounts { count, functions, key, case, work, known }))
    }

    fn is_alike(&self, one: &FigureKey, other: &FigureKey) -> bool {
        match self.kind {
            SuspectKind::Commit => one == other,
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
    ) -> Result<(Measured, bool, Case)> {
        let mut case = point.case.clone();
        loop {
            match self.measured_as(&case, worker, point, how) {
                Ok((measured, known)) => return Ok((measured, known, case)),
                Err(error) => match softened(&case, &error)? {
                    Some(softer) => case = softer,
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
        let How { which, seeds, fresh } = how;
        let site = match (&point.revision, &worker.trees) {
            (Some(commit), Some(trees)) => trees.site(commit, recipe(case))?,
            _ => self.not_tested(),
        };
        if let (Some(key), false) = (&self.key, fresh) {
            let alike = |other: &FigureKey| self.is_alike(key, other);
            if let Some(before) = worker.bench.counted_before(case, &site, seeds, &alike)? {
                return Ok((before, true));
            }
        }
        let built = self.built(worker, point, which)?;
        let phase = format!("counting {which} {}", point.suspect.shown());
        worker.phases.report(phase.trim_end(), None);
        Ok((worker.bench.count(case, &built, seeds)?, false))
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
    }

    /// Takes from a reading the key that all other readings have to match.
    pub(super) fn take_key(&mut self, reading: &PointCounts) {
        self.key = Some(reading.key.clone());
    }

    /// A search among this many points, with the readings of both ends.
    pub(super) fn between(&self, points: usize, ends: [&PointCounts; 2]) -> Search {
        let mut search = Search::new(points, self.floors.clone());
        search.learn(0, Ok(self.figures(ends[0])));
        search.learn(points - 1, Ok(self.figures(ends[1])));
        search
    }

    /// Looks at points until every step between the ends is found.
    pub(super) fn search(
        &mut self,
        worker: &mut Worker<'a>,
        points: &[Point],
        mut search: Search,
    ) -> Result<Search> {
        loop {
            let next = search.next(self.jobs);
            if next.is_empty() {
                return Ok(search);
            }
            let found = self.look_at(worker, points, &next, search.looked_at())?;
            for (point, reading) in next.into_iter().zip(found) {
                self.known += usize::from(reading.as_ref().is_ok_and(|reading| reading.known));
                let figures = reading.map(|reading| self.figures(&reading));
                search.learn(point, figures);
                self.report_point(worker, &search, points, point);
            }
        }
    }

    fn look_at(
        &self,
        worker: &mut Worker<'a>,
        points: &[Point],
        next: &[usize],
        looked_at: usize,
    ) -> Result<Vec<Result<PointCounts, String>>> {
        let which = |at: usize| format!("count {},", looked_at + at + 1);
        if let [point] = next[..] {
            return Ok(vec![self.read(worker, &points[point], How::kept(&which(0)))?]);
        }
        let names: Vec<&str> = next.iter().map(|point| points[*point].suspect.name()).collect();
        worker.phases.report(&format!("building and counting {}", names.join(", ")), None);
        // Nobody can read messages of several threads at the same time.
        let quiet = Globals { quiet: true, ..self.globals.clone() };
        let read = |at: usize, point: usize| {
            let mut worker = Worker::open(self, &quiet)?;
            self.read(&mut worker, &points[point], How::kept(&which(at)))
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
    fn report_point(
        &self,
        worker: &mut Worker<'_>,
        search: &Search,
        points: &[Point],
        point: usize,
    ) {
        worker.phases.end();
        worker.phases = Phases::new(self.globals.quiet);
        if self.globals.quiet {
            return;
        }
        let last = points.len() - 1;
        let found = match search.figures(point) {
            None => {
                let why = search.untestable().find(|(at, _)| *at == point);
                let why = why.and_then(|(_, why)| why.lines().next()).unwrap_or_default();
                format!("cannot be tested: {why}")
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
                format!("{name} {}, {level}", grouped(value))
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
        worker.phases.end();
        let side = |at: usize, name| Side { name, case: &cases[at], built: &built[at] };
        let recording = worker.bench.compare([side(0, "before"), side(1, other.suspect.name())]);
        worker.phases = Phases::new(self.globals.quiet);
        recording
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
        worker.phases.end();
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
        worker.phases = Phases::new(self.globals.quiet);
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
