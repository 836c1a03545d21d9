//! `opcost series`: shows what each commit did to each case of a suite.

use super::held::recipe;
use super::measure::{Bench, Measured, Seeds, store_path};
use super::{SUITE, WorkingDirectory, shown, suite_at};
use crate::trees::Trees;
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail, in_words, status_of};
use opcost_base::phases::Phases;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_gate::gate::counts::{Count, FunctionCounts, counts, functions};
use opcost_gate::gate::exact::{exact_changes, of_metric};
use opcost_gate::gate::series::{Series, SeriesFigure, SeriesRow};
use opcost_gate::gate::suite::{Case, WatchedFigure};
use opcost_kernel::{RepositoryCommit, short_commit};
use opcost_page::writer;
use opcost_record::{Better, Unit};
use opcost_report::render::gate::series as page;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub const EXAMPLES: &str = "Examples:
  opcost series main..HEAD
  opcost series v1.2..v1.3 --case parse --format mail";

/// Arguments of `opcost series`.
#[derive(Args, Debug)]
pub struct SeriesArgs {
    /// The commits, BASE..TIP, as git log takes them; the tip is HEAD if it is left out
    #[arg(value_name = "BASE..TIP")]
    range: String,

    /// Only this case; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,

    /// The suite's file [default: opcost.toml in the repository's top folder]
    #[arg(long, value_name = "FILE")]
    suite: Option<PathBuf>,

    /// What to print on standard output; mail is for a cover letter, in 72 columns [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<SeriesFormat>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum SeriesFormat {
    Text,
    Mail,
    Json,
}

/// `opcost series`.
///
/// # Errors
/// The repository, the range, the suite or a tool is at fault. A commit that does not build is a row of the report.
pub fn series(globals: &Globals, args: &SeriesArgs) -> Result<Status> {
    let WorkingDirectory { interrupt, repository, .. } = WorkingDirectory::find()?;
    let (base_name, tip_name) = match args.range.split_once("..") {
        Some((base, tip)) if !base.is_empty() && !tip.starts_with('.') => {
            (base, if tip.is_empty() { "HEAD" } else { tip })
        }
        _ => {
            let why =
                format!("{}: give the commits as BASE..TIP, for example main..HEAD", args.range);
            return Err(fail(Status::Usage, why));
        }
    };
    let suite = suite_at(args.suite.as_deref(), &repository)?;
    let suite = suite.select(&args.case).status(Status::Usage)?;
    if let Some(case) = suite.cases.iter().find(|case| !case.is_exact()) {
        let why = format!(
            "case '{}' of {SUITE} is measured on this host, whose figures vary from commit to commit; name the others \
             with --case",
            case.name
        );
        return Err(fail(Status::Usage, why));
    }
    let base = repository.commit(base_name).map_err(HasStatus::carried)?;
    let tip = repository.commit(tip_name).map_err(HasStatus::carried)?;
    if repository.is_shallow() {
        // Commits that the clone lacks would be charged to the first that it has.
        repository.merge_base(&base.id, &tip.id).map_err(HasStatus::carried)?;
    }
    let commits = repository.commits_between(&base.id, &tip.id).map_err(HasStatus::carried)?;
    if commits.is_empty() {
        let why =
            format!("{tip_name} has no commit that {base_name} has not; name an earlier base");
        return Err(fail(Status::NotComparable, why));
    }
    let trees = Trees::open(&repository, &interrupt)?;
    suite.cases.iter().try_for_each(|case| trees.check_fixups(&case.fixups))?;
    let store = store_path(globals, trees.store())?;
    let mut walk = Walk {
        bench: Bench::new(globals, &interrupt, store, repository.top.clone(), Some(&trees)),
        trees: &trees,
        phases: Phases::new(globals.quiet),
        fresh: BTreeMap::new(),
        fixed: BTreeMap::new(),
    };
    let mut figures = Vec::new();
    // The functions of each case at the last commit that has them, and which of them layouts move at the base.
    let mut last: Vec<FunctionCounts> = Vec::new();
    for case in &suite.cases {
        walk.begin(case, &tip)?;
        let counted = walk.counted(case, &base, "base", Seeds::Floor)?;
        last.push(counted.as_ref().map_or_else(|_| FunctionCounts::default(), |of| of.1.clone()));
        figures.extend(of_base(case, counted.map(|(counts, _)| counts)));
    }
    let mut rows = Vec::new();
    for (at, commit) in commits.iter().enumerate() {
        let which = format!("commit {} of {},", at + 1, commits.len());
        let (mut values, mut changed) = (Vec::new(), Vec::new());
        for (case, last) in suite.cases.iter().zip(&mut last) {
            let counted = walk.counted(case, commit, &which, Seeds::One)?;
            let of_case = || figures.iter().filter(|figure| figure.case == case.name);
            let now = counted.as_ref().map(|(_, functions)| functions).ok();
            let exact = now.map_or_else(Vec::new, |now| exact_changes(last, now));
            changed.extend(of_case().map(|figure| {
                of_metric(&exact, &figure.metric).into_iter().cloned().collect::<Vec<_>>()
            }));
            if let Some(now) = now.filter(|now| !now.own.is_empty()) {
                last.own = now.own.clone();
            }
            values.extend(of_case().map(|figure| match &counted {
                Ok((counts, _)) => {
                    match counts.iter().find(|count| count.metric == figure.metric) {
                        Some(count) => count.value.clone(),
                        None => Err(format!("{}: no run has {}", case.name, figure.metric)),
                    }
                }
                Err(why) => Err(format!("{}: {why}", case.name)),
            }));
        }
        rows.push(SeriesRow {
            side: shown(commit, short_commit(&commit.id)),
            values,
            functions: changed,
        });
    }
    walk.phases.end();
    let series = Series {
        base: shown(&base, base_name),
        range: args.range.clone(),
        figures,
        rows,
        notes: suite.notes().into_iter().chain(walk.fixups_in_words()).collect(),
    };
    let format =
        if args.json { SeriesFormat::Json } else { args.format.unwrap_or(SeriesFormat::Text) };
    print(&match format {
        SeriesFormat::Text => writer::text::text(&page::document(&series), &globals.style()),
        SeriesFormat::Mail => writer::mail::mail(&page::document(&series), &globals.style()),
        SeriesFormat::Json => page::json(&series)?,
    })?;
    let failed = series.rows.iter().flat_map(|row| &row.values).all(Result::is_err);
    Ok(if failed { Status::WorkFailed } else { Status::Done })
}

/// The figures of a case at the base. If the base cannot be counted, the figures have names but no values.
fn of_base(case: &Case, counted: Result<Vec<Count>, String>) -> Vec<SeriesFigure> {
    let figure = |metric: String, unit, better, base, floor| SeriesFigure {
        case: case.name.clone(),
        metric,
        unit,
        better,
        base,
        floor,
    };
    match counted {
        Ok(counts) => counts
            .into_iter()
            .map(|count| figure(count.metric, count.unit, count.better, count.value, count.floor))
            .collect(),
        Err(why) => {
            let mut names: Vec<String> = case.watched.iter().map(WatchedFigure::label).collect();
            if names.is_empty() {
                names.push(case.usual_metric());
            }
            let unknown = |name| figure(name, Unit::Count, Better::Lower, Err(why.clone()), None);
            names.into_iter().map(unknown).collect()
        }
    }
}

/// Whether an error concerns one commit alone: the commit does not build, or its work fails.
fn is_of_commit(status: Status) -> bool {
    matches!(status, Status::WorkFailed | Status::NotComparable)
}

/// The tools and findings that go from commit to commit.
struct Walk<'a> {
    bench: Bench<'a>,
    trees: &'a Trees<'a>,
    phases: Phases,
    /// Each case at the tip, counted by this process. Earlier recordings of other commits must have the same key.
    fresh: BTreeMap<String, (String, Measured)>,
    /// The commits with each fixup.
    fixed: BTreeMap<String, BTreeSet<String>>,
}

impl Walk<'_> {
    fn fixups_in_words(&self) -> Vec<String> {
        let words = |(fixup, on): (&String, &BTreeSet<String>)| {
            format!("fixup {fixup} was applied to {} of the commits", on.len())
        };
        self.fixed.iter().map(words).collect()
    }

    /// Counts a case at the tip.
    fn begin(&mut self, case: &Case, tip: &RepositoryCommit) -> Result<()> {
        self.bench.prepare_kernel(case, &mut self.phases)?;
        match self.measured(case, tip, "tip", Seeds::One) {
            Ok(measured) => {
                self.fresh.insert(case.name.clone(), (tip.id.clone(), measured));
                Ok(())
            }
            // The tip's row gives the reason.
            Err(error) if status_of(&error).is_some_and(is_of_commit) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The counts of a case and of its functions at a commit, from an earlier command if it made them; `Err` within says why a commit
    /// has none.
    fn counted(
        &mut self,
        case: &Case,
        commit: &RepositoryCommit,
        which: &str,
        seeds: Seeds,
    ) -> Result<Result<(Vec<Count>, FunctionCounts), String>> {
        let of = |measured: &Measured| {
            let counts = counts(&measured.recording, &case.watched)?;
            Ok((counts, functions(&measured.recording)))
        };
        if let Some((tip, measured)) = self.fresh.get(&case.name)
            && *tip == commit.id
        {
            return Ok(of(measured));
        }
        match self.measured(case, commit, which, seeds) {
            Ok(measured) => Ok(of(&measured)),
            Err(error) if status_of(&error).is_some_and(is_of_commit) => Ok(Err(in_words(&error))),
            Err(error) => Err(error).context(format!("commit {}", short_commit(&commit.id))),
        }
    }

    fn measured(
        &mut self,
        case: &Case,
        commit: &RepositoryCommit,
        which: &str,
        seeds: Seeds,
    ) -> Result<Measured> {
        let site = self.trees.site(commit, recipe(case))?;
        for fixup in &site.fixups {
            self.fixed.entry(fixup.clone()).or_default().insert(commit.id.clone());
        }
        if let Some((_, tip)) = self.fresh.get(&case.name)
            && let Some(before) =
                self.bench.counted_before(case, &site, seeds, &|key| key.is_comparable(&tip.key))?
        {
            return Ok(before);
        }
        let built = self.trees.built(commit, which, recipe(case), &mut self.phases)?;
        self.phases.report(
            &format!("counting {} at {which} {}", case.name, short_commit(&commit.id)),
            None,
        );
        self.bench.count(case, &built, seeds)
    }
}
