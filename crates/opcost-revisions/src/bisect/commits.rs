//! The line of commits between two revisions, and the lines within merges.

use super::walk::{How, Point, Walk, Worker};
use super::{BisectArgs, begin, count_ends, noisy, report, steps_of, unless_ended, untestable_end};
use crate::gate::measure::store_path;
use crate::gate::{WorkingDirectory, suite_at};
use crate::trees::Trees;
use anyhow::Result;
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::message::announce;
use opcost_command::globals::Globals;
use opcost_gate::gate::bisect::{BisectStep, Bisection, Suspect, SuspectKind};
use opcost_gate::gate::search::Found;
use opcost_gate::gate::suite::Case;
use opcost_kernel::{Repository, RepositoryCommit, short_commit};
use opcost_record::printable::printable;
use opcost_report::render::gate::bisect::signed;
use std::sync::Arc;

/// Merges within merges are followed down to this depth.
const DEPTH_MAX: usize = 4;

/// The repository that is searched, and the case to count.
pub(super) struct Commits<'a> {
    repository: &'a Repository,
    pub(super) case: Arc<Case>,
}

/// `opcost bisect` between two commits.
pub(super) fn bisect(globals: &Globals, args: &BisectArgs) -> Result<Bisection> {
    let WorkingDirectory { interrupt, repository, .. } = WorkingDirectory::find()?;
    let case = args.case(&repository)?;
    let commits = Commits { repository: &repository, case: Arc::new(case) };
    let commit = |name: &str| repository.commit(name).map_err(HasStatus::carried);
    let (good, bad_name) = (commit(&args.good)?, args.bad.as_deref().unwrap_or("HEAD"));
    let bad = commit(bad_name)?;
    let (line, notes) = commits.between(&args.good, &good, bad_name, &bad)?;
    let trees = Trees::open(&repository, &interrupt)?;
    trees.check_fixups(&commits.case.fixups)?;
    let place = (store_path(globals, trees.store())?, repository.top.clone());
    let kind = SuspectKind::Commit;
    let mut walk = begin(globals, &interrupt, Some(&repository), place, args, &commits.case, kind);
    if !commits.case.is_exact() {
        let mut bisection = noisy::search(globals, args, &commits, &mut walk, &line)?;
        bisection.notes.extend(notes);
        return Ok(bisection);
    }
    let refusal = "give an earlier good or a later bad revision, or another figure with --metric or --function";
    let names = [&line[0], &line[line.len() - 1]].map(|point| point.suspect.shown());
    let mut ends = count_ends(walk, globals, &line, [&names[0], &names[1]], refusal)?;
    let search = ends.walk.search(&mut ends.worker, &line, ends.search.clone())?;
    let mut bisection = report(&ends, &search, &line);
    bisection.notes.extend(notes);
    bisection.notes.extend(args.contains_ticks(&commits.case, commits.case.of_revisions()));
    let found = search.steps();
    let figure = bisection.figure.name.clone();
    let mut steps = std::mem::take(&mut bisection.steps);
    for (step, found) in steps.iter_mut().zip(found) {
        let (walk, worker) = (&mut ends.walk, &mut ends.worker);
        if step.is_open || bisection.ended.is_some() {
            continue;
        }
        let looked = commits.look_inside(walk, worker, (&line, &found), &figure, step, DEPTH_MAX);
        unless_ended(&mut bisection, looked)?;
        if bisection.ended.is_none() {
            bisection.ended = ends.walk.ended.take();
        }
    }
    bisection.steps = steps;
    bisection.known = ends.walk.known;
    Ok(bisection)
}

/// `opcost bisect --checkout`: tests the commit that is checked out.
pub(super) fn checkout(globals: &Globals, args: &BisectArgs) -> Result<Status> {
    let WorkingDirectory { interrupt, repository, .. } = WorkingDirectory::find()?;
    let commits = Commits { repository: &repository, case: Arc::new(args.case(&repository)?) };
    args.check_exact(&commits.case)?;
    let good = repository.commit(&args.good).map_err(HasStatus::carried)?;
    let here = repository.commit("HEAD").map_err(HasStatus::carried)?;
    let trees = Trees::open(&repository, &interrupt)?;
    trees.check_fixups(&commits.case.fixups)?;
    let place = (store_path(globals, trees.store())?, repository.top.clone());
    let kind = SuspectKind::Commit;
    let mut walk = begin(globals, &interrupt, Some(&repository), place, args, &commits.case, kind);
    let mut worker = Worker::open(&walk, globals)?;
    worker.bench.prepare_kernel(&commits.case, &mut worker.phases)?;
    let [good, here] = [good, here].map(|commit| commits.point(commit));
    let shown = here.suspect.shown();
    let reading = match walk.read(&mut worker, &here, How::anew("the checked out commit"))? {
        Ok(reading) => reading,
        Err(of) => {
            announce!("{shown} cannot be tested: {}", of.why);
            return Ok(Status::Untestable);
        }
    };
    walk.take_key(&here, &reading);
    let of_good = walk.read(&mut worker, &good, How::with_floor("the good end"))?;
    let of_good = of_good.map_err(|of| untestable_end("good", &good.suspect.shown(), &of.why))?;
    walk.watch(&of_good, &reading);
    let bad = args.bad.as_deref().map(|name| repository.commit(name).map_err(HasStatus::carried));
    let search = walk.between(2, [&of_good, &reading]);
    let figure = reading.count.metric.clone();
    let change = search.change(0, 1, &figure);
    let is_bad = match bad.transpose()? {
        None => !search.moved(0, 1).is_empty(),
        Some(bad) => {
            let bad = commits.point(bad);
            let of_bad = walk.read(&mut worker, &bad, How::kept("the bad end"))?;
            let of_bad =
                of_bad.map_err(|of| untestable_end("bad", &bad.suspect.shown(), &of.why))?;
            let whole = walk.between(2, [&of_good, &of_bad]).change(0, 1, &figure);
            change.signum() == whole.signum() && 2 * change.unsigned_abs() > whole.unsigned_abs()
        }
    };
    let (word, status) = match is_bad {
        false => ("good", Status::Done),
        true => ("bad", Status::Regression),
    };
    if !globals.quiet {
        let change = signed(change);
        announce!("{shown} is {word}: {figure} {change} against {}", good.suspect.name());
    }
    Ok(status)
}

impl BisectArgs {
    /// The case of the suite, or the case that the arguments describe.
    pub(super) fn case(&self, repository: &Repository) -> Result<Case> {
        if let Some(case) = self.own_case()? {
            return Ok(case);
        }
        let suite = suite_at(self.suite.as_deref(), repository)?;
        let names: Vec<String> = self.case.iter().cloned().collect();
        let mut cases = suite.select(&names).status(Status::Usage)?.cases;
        if cases.len() > 1 {
            let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            let why = format!("say which case with --case; there are: {}", names.join(", "));
            return Err(fail(Status::Usage, why));
        }
        let mut case = cases.remove(0);
        if !self.kernel_config.is_empty() {
            case.experiment.kernel_config.clone_from(&self.kernel_config);
            case.ask(case.of_revisions());
        }
        Ok(case)
    }
}

impl Commits<'_> {
    fn point(&self, commit: RepositoryCommit) -> Point {
        let suspect = Suspect {
            id: commit.id.clone(),
            title: printable(&commit.subject),
            author: Some(printable(&commit.author)),
        };
        Point { suspect, case: self.case.clone(), revision: Some(commit) }
    }

    /// The points from `begin` up to `tip`, by first parents.
    fn line(&self, begin: RepositoryCommit, tip: &str) -> Result<Vec<Point>> {
        let after = self.repository.commits_between(&begin.id, tip).map_err(HasStatus::carried)?;
        Ok(std::iter::once(begin).chain(after).map(|commit| self.point(commit)).collect())
    }

    /// The points from a good commit to a bad one, and a note about them, if there is one.
    fn between(
        &self,
        good_name: &str,
        good: &RepositoryCommit,
        bad_name: &str,
        bad: &RepositoryCommit,
    ) -> Result<(Vec<Point>, Option<String>)> {
        let ask = self.repository;
        if good.id == bad.id {
            let why = format!("{good_name} and {bad_name} are one commit; give two");
            return Err(fail(Status::Usage, why));
        }
        if !ask.is_ancestor(&good.id, &bad.id) {
            if ask.is_ancestor(&bad.id, &good.id) {
                let why = format!(
                    "{bad_name} is older than {good_name}: the ends are swapped. For a change that is gone, give \
                     the older revision as --good all the same"
                );
                return Err(fail(Status::Usage, why));
            }
            let base = ask.merge_base(&good.id, &bad.id).map_err(HasStatus::carried)?;
            let why = format!(
                "{good_name} is no ancestor of {bad_name}; they went apart at {0}: search from there with --good {0}",
                short_commit(&base)
            );
            return Err(fail(Status::Usage, why));
        }
        let mut points = self.line(good.clone(), &bad.id)?;
        // A good commit that came by a merge is not on the line of first parents; begin where its branch left the line.
        let first = points.get(1).map_or(&bad.id, |point| &point.suspect.id);
        let parents = ask.parents(first).map_err(HasStatus::carried)?;
        let Some(before) = parents.first().filter(|parent| **parent != good.id) else {
            return Ok((points, None));
        };
        points[0] = self.point(ask.commit(before).map_err(HasStatus::carried)?);
        let note = format!(
            "{good_name} came by a merge; the search begins where it left the line of first parents, at {}",
            short_commit(before)
        );
        Ok((points, Some(note)))
    }

    /// Checks the culprit of a step; if the culprit is a merge, searches the commits that it brought.
    fn look_inside<'a>(
        &self,
        walk: &mut Walk<'a>,
        worker: &mut Worker<'a>,
        (points, found): (&[Point], &Found),
        figure: &str,
        step: &mut BisectStep,
        depth: usize,
    ) -> Result<()> {
        walk.explain(worker, [&points[found.from], &points[found.to]], step)?;
        if found.to - found.from != 1 {
            return Ok(());
        }
        let (before, culprit) = (&points[found.from], &points[found.to]);
        let parents = self.repository.parents(&culprit.suspect.id).map_err(HasStatus::carried)?;
        if let ([first, second, ..], 1..) = (&parents[..], depth) {
            let base = self.repository.merge_base(first, second).map_err(HasStatus::carried)?;
            let base = self.repository.commit(&base).map_err(HasStatus::carried)?;
            let line = self.line(base, second)?;
            step.of_merge = Some(step.change);
            if let [begin, .., end] = &line[..] {
                let begin = walk.read(worker, begin, How::kept("the merge's base"))?;
                let end = walk.read(worker, end, How::kept("the merged commit"))?;
                if let (Ok(begin), Ok(end)) = (begin, end) {
                    let search = walk.between(line.len(), [&begin, &end]);
                    let search = walk.search(worker, &line, search)?;
                    let steps = steps_of(&search, &line, figure);
                    for (mut inner, found) in steps.into_iter().zip(search.steps()) {
                        if inner.is_open {
                            step.inside.push(inner);
                            continue;
                        }
                        self.look_inside(
                            walk,
                            worker,
                            (&line, &found),
                            figure,
                            &mut inner,
                            depth - 1,
                        )?;
                        step.inside.push(inner);
                    }
                    let brought: i128 = step.inside.iter().map(|inner| inner.change).sum();
                    step.of_merge = Some(step.change - brought);
                }
            }
            // The commits that the merge brought are checked in its place.
            if !step.inside.is_empty() {
                return Ok(());
            }
        }
        step.check = Some(walk.check(worker, [before, culprit], step.change, &step.functions)?);
        Ok(())
    }
}
