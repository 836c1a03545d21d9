//! `opcost bisect`: finds the commits, or the options, that made a count what it is.

mod commits;
mod noisy;
mod options;
mod walk;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use opcost_base::exit::{Status, WithStatus, fail, in_words, status_of};
use opcost_base::message::announce;
use opcost_base::number::grouped;
use opcost_command::globals::Globals;
use opcost_command::output::print;
use opcost_command::record::command_line;
use opcost_command::variant::parse_workload;
use opcost_gate::gate::bisect::{
    BisectStep, BisectedFigure, Bisection, EarlyEnd, SuspectKind, UntestableSuspects,
};
use opcost_gate::gate::search::{Failures, Found, Goal, Search};
use opcost_gate::gate::suite::{Case, WatchedFigure};
use opcost_kernel::Repository;
use opcost_lab::shipped::Shipped;
use opcost_model::experiment::{Command as CommandText, Variant};
use opcost_model::plan::OpsPattern;
use opcost_model::plan::guest::Question;
use opcost_page::writer;
use opcost_report::render::gate::bisect as page;
use opcost_sys::interrupt::Interrupt;
use options::OptionKind;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use walk::{How, Point, PointCounts, Walk, Worker};

pub const EXAMPLES: &str = "Examples:
  opcost bisect --good v1.2 --bad HEAD --case parse
  opcost bisect --good v1.2 --bad HEAD --build make -- ./bench parse
  opcost bisect --good v6.11 --bad v6.12 --kernel-config small.config -w syscall
  git bisect run opcost bisect --checkout --good v1.2 --case parse
  opcost bisect --options boot --good '' --bad 'mitigations=off nopti' -w syscall
  opcost bisect --good v1.2 --bad HEAD --case parse --top 5

Exit status: 0 culprits were found, 2 usage, 3 the ends do not differ or nothing could be tested, 4 an end \
cannot be built or run, 5 a tool or the environment is missing, 130 interrupted; with --checkout 0 good, 1 bad, \
125 cannot be tested, 128 or more anything else";

/// Arguments of `opcost bisect`.
#[derive(Args, Debug)]
pub struct BisectArgs {
    /// The good end: a revision, or with --options the options to begin with
    #[arg(long, value_name = "REV", allow_hyphen_values = true)]
    good: String,

    /// The bad end: a revision, or with --options the options to end with [default: HEAD]
    #[arg(long, value_name = "REV", allow_hyphen_values = true)]
    bad: Option<String>,

    /// Search options in place of commits: between two kernel configurations (files), kernel command
    /// lines, CPU models with features, or lists of compiler flags (the build sees them in CFLAGS)
    #[arg(long, value_enum, value_name = "KIND", requires = "bad", conflicts_with = "checkout")]
    options: Option<OptionKind>,

    /// Answer for the checked out commit alone, as git bisect run expects it: with --bad, what is
    /// nearer to that end is bad, else whatever moved
    #[arg(long)]
    checkout: bool,

    /// The suite's case [default: the only one]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["workload", "command"])]
    case: Option<String>,

    /// The suite's file [default: opcost.toml in the repository's top folder]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workload", "command"])]
    suite: Option<PathBuf>,

    /// Search for what moved the instructions of this function's own code
    #[arg(long, value_name = "NAME", conflicts_with = "metric")]
    function: Option<String>,

    /// Search for what moved this metric [default: the case's first figure, and where that is the
    /// instructions, the functions that moved with them; without a figure
    /// instructions-synchronous:k where revisions are kernels or kernel or boot options are searched,
    /// else instructions]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,

    /// Built-in workload with parameters, NAME[:KEY=VALUE,...]; in place of a case
    #[arg(long, short = 'w', value_name = "WORKLOAD")]
    workload: Option<String>,

    /// Kernel to boot for a workload or command in place of a case, as compare takes it
    #[arg(long, value_name = "KERNEL", conflicts_with_all = ["kernel_config", "case", "suite"])]
    kernel: Option<String>,

    /// CPU of the emulated machine for a workload or command in place of a case, as compare takes it
    /// [default: EPYC-Rome-v2]
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["case", "suite"])]
    cpu_model: Option<String>,

    /// Where a command in place of a case prints the number of its operations, as compare takes it
    #[arg(long, value_name = "REGEX", requires = "command")]
    ops: Option<OpsPattern>,

    /// How a revision is built, for a command in place of a case
    #[arg(long, value_name = "COMMAND", requires = "command")]
    build: Option<String>,

    /// Configuration of the kernel that each revision becomes; may be repeated, see opcost kernel
    /// build. The repository is then one of Linux
    #[arg(long, value_name = "FILE")]
    kernel_config: Vec<PathBuf>,

    /// Kernel source tree or tarball, for --options kernel-config [default: as kernel build has it]
    #[arg(long, value_name = "SOURCE", requires = "options")]
    kernel_source: Option<PathBuf>,

    /// How probable the place of the culprit has to be, if the figure varies
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = probability)]
    posterior: f64,

    /// The part of the change after which the search ends; 100% finds every step
    #[arg(long, value_name = "PERCENT", default_value = "90%", value_parser = part)]
    explain: f64,

    /// Search on until the N largest steps are found, whatever part of the change they explain
    #[arg(long, value_name = "N", conflicts_with = "explain", value_parser = clap::value_parser!(u16).range(1..))]
    top: Option<u16>,

    /// Points that are built and counted at the same time
    #[arg(long, short = 'j', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    /// What to print on standard output; mail is a report of a regression, in 72 columns [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<BisectFormat>,

    /// Print JSON on standard output; --json - is the same
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Command to run in place of a case; its words are not read by a shell
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "workload")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum BisectFormat {
    Text,
    Mail,
    Json,
}

/// `opcost bisect`.
///
/// # Errors
/// The repository, the ends, the suite or a tool is at fault. With `--checkout` every error ends
/// git's search.
pub fn bisect(globals: &Globals, args: &BisectArgs) -> Result<Status> {
    if args.checkout {
        return commits::checkout(globals, args).map_err(|error| match status_of(&error) {
            Some(Status::Interrupted) => error,
            _ => fail(Status::Abort, in_words(&error)),
        });
    }
    let bisection = match args.options {
        Some(kind) => options::bisect(globals, args, kind)?,
        None => commits::bisect(globals, args)?,
    };
    let format =
        if args.json { BisectFormat::Json } else { args.format.unwrap_or(BisectFormat::Text) };
    print(&match format {
        BisectFormat::Text => writer::text::text(&page::document(&bisection), &globals.style()),
        BisectFormat::Mail => writer::mail::mail(&page::document(&bisection), &globals.style()),
        BisectFormat::Json => page::json(&bisection)?,
    })?;
    match bisection.ended {
        Some(EarlyEnd::Interrupted) => Ok(Status::Interrupted),
        Some(EarlyEnd::ComputerChanged(why)) => Err(fail(Status::NotComparable, why)),
        None if bisection.steps.is_empty() => Ok(Status::NotComparable),
        None => Ok(Status::Done),
    }
}

impl BisectArgs {
    /// The figure that the arguments or the case ask for; `None`: the figure that decides by default.
    fn watched(&self, case: &Case) -> Option<WatchedFigure> {
        let function = self.function.clone().map(WatchedFigure::Function);
        let metric = self.metric.clone().map(WatchedFigure::Metric);
        function.or(metric).or_else(|| case.watched.first().cloned())
    }

    /// Why a question about a kernel's paths is answered by a metric that contains ticks; `None` if it is not, or if the arguments
    /// name the figure.
    fn contains_ticks(&self, case: &Case, question: Question) -> Option<String> {
        let named = self.function.is_some() || self.metric.is_some();
        case.contains_ticks(question).filter(|_| !named)
    }

    /// The case that a command or workload among the arguments describes.
    fn own_case(&self) -> Result<Option<Case>> {
        let variant = match (&self.workload, &self.command[..]) {
            (Some(workload), _) => parse_workload(workload)?,
            (None, []) if self.cpu_model.is_some() || self.kernel.is_some() => {
                let name = if self.kernel.is_some() { "kernel" } else { "cpu-model" };
                let why = format!(
                    "--{name} is for a workload or command in place of a case; a case has {name} in opcost.toml"
                );
                return Err(fail(Status::Usage, why));
            }
            (None, []) => return Ok(None),
            (None, words) => {
                Variant { command: Some(CommandText::of_words(words)), ..Variant::default() }
            }
        };
        let name = variant.workload.clone().unwrap_or("command".into());
        let mut case = Case::of_variant(&name, variant, self.build.clone());
        case.experiment.kernel = self.kernel.iter().cloned().collect();
        case.experiment.kernel_config = recipe_files(&self.kernel_config)?;
        case.experiment.cpu_model = self.cpu_model.iter().cloned().collect();
        case.experiment.ops = self.ops.clone();
        case.ask(case.of_revisions());
        Ok(Some(case))
    }

    /// Refuses a case whose figures vary, if a single run of each point has to decide.
    fn check_exact(&self, case: &Case) -> Result<()> {
        if case.is_exact() {
            return Ok(());
        }
        let option = if self.checkout { "--checkout" } else { "--options" };
        let why = format!(
            "{option} goes by exact counts, and case '{}' is measured on this host, whose figures vary from run to \
             run; leave out machine, or search commits without {option}",
            case.name
        );
        Err(fail(Status::Usage, why))
    }
}

/// Files of a kernel's recipe, named relative to the working directory.
fn recipe_files(files: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let here = std::env::current_dir()
        .context("cannot read the working directory")
        .status(Status::Missing)?;
    let shipped = Shipped::here();
    Ok(files.iter().map(|file| shipped.recipe_file(&here, file)).collect())
}

/// A part of the change: `90%`.
fn part(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let percent = number.filter(|number| *number > 0.0 && *number <= 100.0);
    percent
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "write a percentage of the change, for example 90%".into())
}

fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.5..1.0).contains(number));
    number.ok_or_else(|| "write a probability of 0.5 or more and less than 1".into())
}

/// A line of points with counted ends.
struct Ends<'a> {
    walk: Walk<'a>,
    worker: Worker<'a>,
    good: PointCounts,
    bad: PointCounts,
    /// The search, which knows the figures of both ends.
    search: Search,
}

/// Counts both ends, and refuses ends that do not differ.
///
/// `names`: the names of the ends; `refusal`: advice if the ends do not differ.
fn count_ends<'a>(
    walk: Walk<'a>,
    globals: &'a Globals,
    points: &[Point],
    names: [&str; 2],
    refusal: &str,
) -> Result<Ends<'a>> {
    let mut walk = walk;
    let mut worker = Worker::open(&walk, globals)?;
    let began = Instant::now();
    let [Some(first), Some(last)] = [points.first(), points.last()] else {
        return Err(fail(Status::NotComparable, "there is nothing between the ends"));
    };
    worker.bench.prepare_kernel(&last.case, &mut worker.phases)?;
    let bad = walk.read(&mut worker, last, How::anew("the bad end").beside(Some(first)))?;
    let bad = bad.map_err(|of| untestable_end("bad", names[1], &of.why))?;
    walk.take_key(last, &bad);
    // Ends that differ, as they do if somebody asks, lead to the point in the middle.
    let middle = points.get((points.len() - 1) / 2).filter(|_| points.len() > 2);
    let good = walk.read(&mut worker, first, How::with_floor("the good end").beside(middle))?;
    let good = good.map_err(|of| untestable_end("good", names[0], &of.why))?;
    walk.watch(&good, &bad);
    let search = walk.between(points.len(), [&good, &bad]);
    let [from, to] = [&good, &bad].map(|reading| reading.count.value.clone().unwrap_or(0));
    let name = &good.count.metric;
    if search.steps().is_empty() {
        let alone = match good.count.floor.filter(|_| from != to) {
            None => String::new(),
            Some(floor) => {
                let words = floor.words(good.count.unit);
                format!(", and layouts alone move it by up to {words}")
            }
        };
        let why = format!(
            "the ends do not differ: {name}: {} at {} and {} at {}{alone}; {refusal}",
            grouped(from),
            names[0],
            grouped(to),
            names[1],
        );
        return Err(fail(Status::NotComparable, why));
    }
    if !globals.quiet {
        let (cost, words) = (search.cost(), walk.kind.words(points.len() - 1));
        let each = began.elapsed().as_secs() / 2;
        let each = match each {
            0..2 => String::new(),
            seconds => format!(", each some {seconds} s as the ends took"),
        };
        let floor = good.count.floor.map_or(String::new(), |floor| {
            format!(" (layouts alone: up to {})", floor.words(good.count.unit))
        });
        announce!(
            "{name}: {} → {}{floor}; {} {words} to search take {cost} more counts for the first culprit{each}",
            grouped(from),
            grouped(to),
            points.len() - 1,
        );
    }
    Ok(Ends { walk, worker, good, bad, search })
}

fn untestable_end(which: &str, name: &str, why: &str) -> anyhow::Error {
    let why = format!("the {which} end {name}: {why}");
    fail(Status::WorkFailed, why)
}

/// The steps of a search in the form that a report has.
fn steps_of(search: &Search, points: &[Point], figure: &str) -> Vec<BisectStep> {
    let steps = search.steps().into_iter().map(|Found { from, to }| {
        let mut functions: Vec<(String, i128)> = search
            .moved(from, to)
            .into_iter()
            .filter_map(|name| {
                let function = name.strip_prefix("function:").filter(|_| name != figure)?;
                Some((function.to_string(), search.change(from, to, name)))
            })
            .collect();
        functions.sort_by_key(|(_, change)| std::cmp::Reverse(change.unsigned_abs()));
        let at = search.figures(from).and_then(|figures| figures.get(figure)).copied();
        let suspects = points[from + 1..=to].iter().map(|point| &point.suspect);
        let change = search.change(from, to, figure);
        let is_open = search.is_open(&Found { from, to });
        let step = BisectStep::between(suspects, at.unwrap_or(0), change);
        BisectStep { functions, is_open, ..step }
    });
    steps.collect()
}

/// Goes on with what is known if the user or a change of this computer ends the search.
fn unless_ended(bisection: &mut Bisection, looked: Result<()>) -> Result<()> {
    match looked {
        Err(error) => {
            bisection.ended = Some(walk::early_end(error)?);
            Ok(())
        }
        looked => looked,
    }
}

/// The report of a search, without the checks of its culprits.
fn report(ends: &Ends<'_>, search: &Search, points: &[Point]) -> Bisection {
    let Ends { walk, good, bad, .. } = ends;
    let figure = &good.count;
    let value = |reading: &PointCounts| reading.count.value.clone().unwrap_or(0);
    let untestable = search.failures().into_iter().map(|Failures { tried, why }| {
        let count = tried.last().zip(tried.first()).map_or(0, |(last, first)| last - first + 1);
        let tried = tried.into_iter().map(|point| points[point].suspect.clone()).collect();
        UntestableSuspects { tried, count, why }
    });
    let fixed = walk.fixed.lock().unwrap_or_else(PoisonError::into_inner);
    let fixups = fixed.iter().map(|(fixup, on)| {
        format!("fixup {fixup} was applied to {} of the counted {}", on.len(), walk.kind.words(2))
    });
    let libraries = good.key.libraries_in_words(&bad.key, ["the good end", "the bad end"]);
    let ends = [&points[0], &points[points.len() - 1]].map(|point| point.suspect.clone());
    Bisection {
        case: points[0].case.name.clone(),
        work: bad.work.clone(),
        kind: walk.kind,
        ends,
        figure: BisectedFigure {
            name: figure.metric.clone(),
            unit: figure.unit,
            better: figure.better,
            values: [value(good), value(bad)],
            floor: figure.floor,
            least_step: walk.floors.get(&figure.metric).copied().unwrap_or(0),
        },
        points: points.len() - 1,
        counted: search.looked_at(),
        known: walk.known,
        steps: steps_of(search, points, &figure.metric),
        rest: search.rest(&figure.metric),
        explained: search.explained(),
        ended: walk.ended.clone(),
        untestable: untestable.collect(),
        notes: libraries.into_iter().chain(fixups).collect(),
        command: command_line(None),
    }
}

/// A walk that knows nothing yet.
fn begin<'a>(
    globals: &'a Globals,
    interrupt: &'a Interrupt,
    repository: Option<&'a Repository>,
    place: (PathBuf, PathBuf),
    args: &BisectArgs,
    case: &Case,
    kind: SuspectKind,
) -> Walk<'a> {
    let (store, top) = place;
    Walk {
        globals,
        interrupt,
        repository,
        store,
        top,
        jobs: usize::from(args.jobs),
        kind,
        watched: args.watched(case),
        key: None,
        end: None,
        names: BTreeSet::new(),
        floors: Default::default(),
        known: 0,
        goal: args.top.map_or(Goal::Explained(args.explain), |top| Goal::Largest(usize::from(top))),
        totals: false,
        ended: None,
        fixed: Mutex::default(),
        failed: Mutex::default(),
    }
}
