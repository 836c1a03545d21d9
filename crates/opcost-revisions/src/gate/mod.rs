//! `opcost gate`: may this change land?
//!
//! A suite (`opcost.toml`) has the cases to measure. The gate compares the tip with its base, or with a
//! committed baseline file, case by case; a limit, the layout floor and the commits' trailers decide.

mod benchmarks;
mod exports;
pub(super) mod held;
pub(super) mod measure;
pub mod series;

use crate::trees::Trees;
use anyhow::{Context, Result};
use clap::Args;
use exports::GateExports;
use held::{Gate, Standard};
use measure::{Bench, forget_counted, forget_old, store_path};
use opcost_base::exit::{HasStatus, Status, WithStatus, fail};
use opcost_base::phases::Phases;
use opcost_command::exports::{check_file, printed_by};
use opcost_command::globals::Globals;
use opcost_command::output::{print, write_whole};
use opcost_gate::gate::baseline::Baseline;
use opcost_gate::gate::branch::Branch;
use opcost_gate::gate::notes;
use opcost_gate::gate::report::{Against, GateReport, GateVerdict, RevisionSide};
use opcost_gate::gate::suite::Suite;
use opcost_gate::gate::suite_change;
use opcost_gate::gate::trailer::{Accepted, TRAILER};
use opcost_kernel::{Repository, RepositoryCommit, short_commit};
use opcost_lab::shipped::Shipped;
use opcost_model::experiment::Experiment;
use opcost_record::printable::printable;
use opcost_report::render::gate as page;
use opcost_sys::foreign_file;
use opcost_sys::interrupt::Interrupt;
use opcost_sys::user::other_author;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub const EXAMPLES: &str = "Examples:
  opcost gate                                the checked out commit against its upstream branch
  opcost gate --base origin/main
  opcost gate --baseline opcost.baseline --update
  opcost gate --baseline opcost.baseline --case parse

Exit status: 0 the change may land, 1 a limit is exceeded, 2 usage, 3 not comparable, refused or nothing \
matched, 4 a build or the work failed, 5 a tool or the environment is missing, 130 interrupted";

/// The suite's file, in the top folder of a repository.
pub(super) const SUITE: &str = "opcost.toml";

/// Arguments of `opcost gate`.
#[derive(Args, Debug)]
pub struct GateArgs {
    /// Revision to compare with [default: where the checked out branch left its upstream branch]
    #[arg(long, value_name = "REV", conflicts_with = "baseline")]
    base: Option<String>,

    /// Committed file of figures to compare with, in place of a revision
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,

    /// Write the figures of the tip to the baseline file
    #[arg(long, requires = "baseline")]
    update: bool,

    /// Revision that is to land [default: HEAD]
    #[arg(long, value_name = "REV", conflicts_with = "worktree")]
    tip: Option<String>,

    /// Measure what is in the checkout now, uncommitted changes and new files included
    #[arg(long)]
    worktree: bool,

    /// Keep the figures of the measured commit in the repository, as a note of the commit (git notes
    /// --ref=opcost); opcost history --notes CASE shows them
    #[arg(long, conflicts_with = "worktree")]
    notes: bool,

    /// Only this case; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,

    /// The suite's file [default: opcost.toml in the repository's top folder]
    #[arg(long, value_name = "FILE")]
    suite: Option<PathBuf>,

    /// Show what the commands print instead of discarding it. A count depends on where a program's output goes, so a committed
    /// baseline is then not comparable
    #[arg(long)]
    show_output: bool,

    /// Report, and end with status 0 whatever the answer is
    #[arg(long)]
    soft: bool,

    /// What to print on standard output [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Output", value_parser = exports::format_names())]
    format: Option<String>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long, help_heading = "Output", conflicts_with = "format")]
    json: bool,

    #[command(flatten)]
    exports: GateExports,
}

/// `opcost gate`.
///
/// # Errors
/// The repository, the suite or a tool is at fault. The outcome of a case is in the report.
pub fn gate(globals: &Globals, args: &GateArgs) -> Result<Status> {
    let format = if args.json { "json" } else { args.format.as_deref().unwrap_or("text") };
    args.exports.check(printed_by(args.format.as_deref(), args.json).as_deref())?;
    if let Some(baseline) = args.baseline.as_ref().filter(|_| args.update) {
        check_file("--baseline", baseline)?;
    }
    let WorkingDirectory { interrupt, here, repository } = WorkingDirectory::find()?;
    let mut suite = read_suite(args, &repository)?;
    let mut notes = suite.notes();
    let tip_name = args.tip.as_deref().unwrap_or("HEAD");
    let head = repository.commit(tip_name).map_err(HasStatus::carried)?;
    let against = against(args, &repository, &head)?;
    let trees = Trees::open(&repository, &interrupt)?;
    suite.cases.iter().try_for_each(|case| trees.check_fixups(&case.fixups))?;
    let tip = match args.worktree {
        true => trees.snapshot()?,
        false => {
            notes.extend(note_changes(args, &repository)?);
            head.clone()
        }
    };
    let (trailers, misunderstood) = trailers(args, &repository, &against, &head)?;
    notes.extend(misunderstood);
    let standard = match &against {
        Side::Base { commit, .. } => Standard::Base(commit.clone()),
        Side::Baseline(path) => {
            let held = read_baseline(path, args.update)?;
            let file = here.join(path);
            let written = repository.last_change(&head.id, &file);
            let written = written.map(|commit| repository.commit(&commit)).transpose();
            let written = written.map_err(HasStatus::carried)?;
            Standard::Baseline { held, file, written }
        }
    };
    let store = store_path(globals, trees.store())?;
    forget_old(globals, &store);
    forget_counted(&trees.counted());
    let base_suite = match &standard {
        Standard::Base(commit) => suite_of(args, &repository, commit),
        Standard::Baseline { .. } => None,
    };
    let suite_changes = match &base_suite {
        Some(base) => {
            let mut asked = base.clone();
            asked.cases.retain(|case| args.case.is_empty() || args.case.contains(&case.name));
            suite_change::compared(&asked, &mut suite)
        }
        None => Vec::new(),
    };
    let mut gate = Gate {
        bench: Bench::new(globals, &interrupt, store, repository.top.clone(), Some(&trees)),
        trees: &trees,
        known_to_base: base_suite
            .map(|suite| suite.cases.into_iter().map(|case| case.name).collect()),
        standard,
        repository: &repository,
        head: head.clone(),
        tip: tip.clone(),
        trailers,
        update: args.update,
        updated: BTreeMap::new(),
        phases: Phases::new(globals.quiet),
        notes: Vec::new(),
    };
    let branch = match &against {
        Side::Base { commit, .. } if !args.worktree => branch(&repository, commit, &tip),
        _ => None,
    };
    let cases = suite.cases.iter().map(|case| gate.case(case));
    let cases = cases.collect::<Result<Vec<_>>>()?;
    gate.phases.end();
    notes.append(&mut gate.notes);
    notes.extend(found_note(gate.bench.found.get()));
    let whole = args.case.is_empty();
    let mut report = GateReport {
        orphans: gate.orphans(&suite, whole),
        against: against.shown(),
        branch,
        tip: shown(&tip, if args.worktree { "the working tree" } else { tip_name }),
        cases,
        suite_changes,
        notes,
        updated: false,
    };
    if let (Some(path), true) = (&args.baseline, args.update) {
        let text = gate.new_baseline(&suite, whole).format();
        write_baseline(path, &text)?;
        report.updated = true;
        report.orphans.clear();
    }
    if args.notes {
        let figures = gate.updated.clone();
        let text = notes::noted(repository.note(&tip.id).as_deref(), figures);
        let text = text.with_context(|| format!("the note of {}", short_commit(&tip.id)));
        repository.set_note(&tip.id, &text.status(Status::NotComparable)?).map_err(|error| {
            fail(Status::Missing, format!("cannot keep the figures as a note: {error}"))
        })?;
    }
    let style = globals.style();
    let view = page::GateView { report: &report, style: &style, soft: args.soft };
    if args.exports.printing().is_none() {
        print(&page::render(format, &view)?)?;
    }
    exports::write(&args.exports, &view)?;
    Ok(match report.verdict() {
        _ if args.soft => Status::Done,
        GateVerdict::MayLand => Status::Done,
        GateVerdict::Exceeded => Status::Regression,
        GateVerdict::NoAnswer => Status::NotComparable,
        GateVerdict::Failed => Status::WorkFailed,
    })
}

/// The working directory of a command, its repository, and the signal handler.
pub(super) struct WorkingDirectory {
    pub(super) interrupt: Interrupt,
    pub(super) here: PathBuf,
    pub(super) repository: Repository,
}

impl WorkingDirectory {
    /// Finds the repository around the working directory.
    pub(super) fn find() -> Result<WorkingDirectory> {
        let (interrupt, here) = WorkingDirectory::here()?;
        let repository = Repository::find(&here).map_err(HasStatus::carried)?;
        Ok(WorkingDirectory { interrupt, here, repository })
    }

    /// The signal handler and the working directory.
    pub(super) fn here() -> Result<(Interrupt, PathBuf)> {
        let interrupt = Interrupt::install()
            .context("cannot install the signal handler")
            .status(Status::Missing)?;
        let here = std::env::current_dir()
            .context("cannot read the working directory")
            .status(Status::Missing)?;
        Ok((interrupt, here))
    }
}

/// The longest suite or baseline that is read, bytes.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Reads the suite of a repository, or a suite that the user names. Its paths start in the checkout's top folder.
pub(super) fn suite_at(named: Option<&Path>, repository: &Repository) -> Result<Suite> {
    let path = named.map_or_else(|| repository.top.join(SUITE), Path::to_path_buf);
    let shown = path.display();
    if let (None, Ok(Some(author))) = (named, other_author(&path)) {
        let why = format!(
            "the suite '{shown}' {author}, who so chooses what would run; read it, and name it with --suite to run it"
        );
        return Err(fail(Status::Usage, why));
    }
    let text = foreign_file::read_text(&path, TEXT_BYTES_MAX).map_err(|error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => format!(
                "there is no suite '{shown}'; write one, for example\n\n  [case.parse]\n  build = \"make\"\n  \
                 command = \"./bench parse\"\n  limit = \"0.1% or 10000\"\n"
            ),
            _ => format!("cannot read the suite '{shown}': {error}"),
        };
        fail(Status::Usage, why)
    })?;
    let mut suite =
        Suite::parse(&text).with_context(|| format!("'{shown}'")).status(Status::Usage)?;
    place(&mut suite, repository);
    Ok(suite)
}

/// Reads the suite as a commit has it; `None` if the commit has none, or the user named a file outside the repository.
fn suite_of(args: &GateArgs, repository: &Repository, commit: &RepositoryCommit) -> Option<Suite> {
    let named = args.suite.as_ref().map(|path| path.canonicalize().ok()).map(|path| {
        let inside = path?.strip_prefix(repository.top.canonicalize().ok()?).ok()?.to_path_buf();
        inside.into_os_string().into_string().ok()
    });
    let name = named.unwrap_or_else(|| Some(SUITE.into()))?;
    let mut suite = Suite::parse(&repository.text_of(&commit.id, &name)?).ok()?;
    place(&mut suite, repository);
    if args.show_output {
        suite.cases.iter_mut().for_each(|case| case.experiment.show_output = true);
    }
    Some(suite)
}

/// Has the paths of a suite start in the checkout's top folder.
fn place(suite: &mut Suite, repository: &Repository) {
    let shipped = Shipped::here();
    for case in &mut suite.cases {
        let Experiment { kernel_tree, kernel_config, .. } = &mut case.experiment;
        kernel_tree.iter_mut().for_each(|tree| *tree = repository.top.join(&*tree));
        let files = kernel_config.iter_mut();
        files.for_each(|file| *file = shipped.recipe_file(&repository.top, file));
        case.fixups.iter_mut().for_each(|fixup| fixup.place(&repository.top));
    }
}

/// The cases that the arguments ask for.
fn read_suite(args: &GateArgs, repository: &Repository) -> Result<Suite> {
    let suite = suite_at(args.suite.as_deref(), repository)?;
    let mut suite = suite.select(&args.case).status(Status::Usage)?;
    if args.show_output {
        suite.cases.iter_mut().for_each(|case| case.experiment.show_output = true);
    }
    if let (Some(baseline), Some(case)) =
        (&args.baseline, suite.cases.iter().find(|case| !case.is_exact()))
    {
        let why = format!(
            "case '{}' is measured on this host, whose figures vary, and '{}' holds exact counts; compare it with \
             a revision (--base), or name the other cases with --case",
            case.name,
            baseline.display()
        );
        return Err(fail(Status::Usage, why));
    }
    Ok(suite)
}

/// The side that the change is compared with, as the arguments name it.
enum Side {
    Base { name: String, commit: RepositoryCommit },
    Baseline(PathBuf),
}

impl Side {
    fn shown(&self) -> Against {
        match self {
            Side::Base { name, commit } => Against::Base(shown(commit, name)),
            Side::Baseline(path) => Against::Baseline { path: path.display().to_string() },
        }
    }
}

fn against(args: &GateArgs, repository: &Repository, head: &RepositoryCommit) -> Result<Side> {
    if let Some(path) = &args.baseline {
        return Ok(Side::Baseline(path.clone()));
    }
    if let Some(name) = &args.base {
        let commit = repository.commit(name).map_err(HasStatus::carried)?;
        return Ok(Side::Base { name: name.clone(), commit });
    }
    let Some(upstream) = repository.upstream() else {
        let why = "the checked out branch has no upstream branch, so nobody knows what to compare with; say it, for \
                   example --base origin/main, or --baseline FILE";
        return Err(fail(Status::Usage, why));
    };
    let other = repository.commit(&upstream).map_err(HasStatus::carried)?;
    let base = repository.merge_base(&other.id, &head.id).map_err(HasStatus::carried)?;
    if base == head.id && !args.worktree {
        let why = format!(
            "{upstream} already has the commit that is checked out, so there is nothing to compare; name an earlier \
             revision, for example --base HEAD~1, or measure uncommitted changes with --worktree"
        );
        return Err(fail(Status::NotComparable, why));
    }
    let commit = repository.commit(&base).map_err(HasStatus::carried)?;
    Ok(Side::Base { name: format!("merge base with {upstream}"), commit })
}

/// The commits that a change brings; `None` if git knows no way from the base to the tip.
fn branch(
    repository: &Repository,
    base: &RepositoryCommit,
    tip: &RepositoryCommit,
) -> Option<Branch> {
    let parents = repository.parents(&tip.id).ok()?;
    let head = match &parents[..] {
        [first, second] if *first == base.id => repository.commit(second).ok()?,
        _ => tip.clone(),
    };
    let left = repository.merge_base(&base.id, &head.id).ok()?;
    let commits = repository.commits_between(&left, &head.id).ok()?.len();
    Some(Branch { left, head: shown(&head, ""), commits })
}

/// A commit as reports show it. `name`: the user's name for it.
fn shown(commit: &RepositoryCommit, name: &str) -> RevisionSide {
    let subject = printable(&commit.subject);
    RevisionSide { name: name.into(), commit: commit.id.clone(), subject }
}

/// A note about uncommitted changes that are left out, if there are some.
fn note_changes(args: &GateArgs, repository: &Repository) -> Result<Option<String>> {
    if args.tip.is_some() {
        return Ok(None);
    }
    let changed = repository.changed_files().map_err(HasStatus::carried)?;
    let baseline = args.baseline.as_deref().and_then(Path::file_name);
    let other = changed.iter().filter(|file| Path::new(file).file_name() != baseline);
    Ok(match other.count() {
        0 => None,
        count => Some(format!(
            "HEAD is measured: changes of {} {} that are not committed are left out; --worktree measures them",
            count,
            if count == 1 { "file" } else { "files" }
        )),
    })
}

/// A note about counts that were found in place of runs, if there are some.
fn found_note(found: usize) -> Option<String> {
    match found {
        0 => None,
        1 => Some(
            "1 count was not made again: its inputs are those of an earlier count, byte by byte"
                .into(),
        ),
        found => Some(format!(
            "{found} counts were not made again: their inputs are those of earlier counts, byte by byte"
        )),
    }
}

/// The costs that commits accept, and notes about trailers that accept nothing.
fn trailers(
    args: &GateArgs,
    repository: &Repository,
    against: &Side,
    head: &RepositoryCommit,
) -> Result<(Vec<Accepted>, Vec<String>)> {
    let base = match against {
        Side::Base { commit, .. } => Some(commit.id.clone()),
        // The baseline file includes the costs that were accepted before.
        Side::Baseline(path) => {
            let here = std::env::current_dir().unwrap_or_default();
            repository.last_change(&head.id, &here.join(path))
        }
    };
    let Some(base) = base.filter(|_| !args.update) else { return Ok((Vec::new(), Vec::new())) };
    let found = repository.trailers(&base, &head.id, TRAILER).map_err(HasStatus::carried)?;
    let (mut accepted, mut notes) = (Vec::new(), Vec::new());
    for (commit, text) in found {
        match Accepted::parse(&commit, &text) {
            Ok(one) => accepted.push(one),
            Err(other) => notes.push(format!(
                "{} has '{TRAILER}: {}', which accepts nothing; write for example '{TRAILER}: parse +2.1%'",
                other.commit, other.text
            )),
        }
    }
    Ok((accepted, notes))
}

/// The baseline file; empty if the file does not exist yet and is to be written.
fn read_baseline(path: &Path, update: bool) -> Result<Baseline> {
    let shown = path.display();
    let text = match foreign_file::read_text(path, TEXT_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && update => {
            return Ok(Baseline::default());
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let why = format!(
                "there is no baseline '{shown}'; make it with opcost gate --baseline {shown} --update, and commit it"
            );
            return Err(fail(Status::NotComparable, why));
        }
        Err(error) => {
            return Err(fail(
                Status::Usage,
                format!("cannot read the baseline '{shown}': {error}"),
            ));
        }
    };
    match Baseline::parse(&text) {
        Ok(baseline) => Ok(baseline),
        Err(error) if update && error.is_mended_by_update() => Ok(Baseline::default()),
        Err(error) => Err(fail(Status::NotComparable, format!("baseline '{shown}': {error}"))),
    }
}

fn write_baseline(path: &Path, text: &str) -> Result<()> {
    write_whole(path, text.as_bytes(), 0o666)
        .with_context(|| format!("cannot write the baseline '{}'", path.display()))
        .status(Status::Missing)
}
