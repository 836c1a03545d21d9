//! The difference of profiles that were read from files, function by function: one file a side, or several.
//!
//! Several files a side show how runs differ from each other. The files then are the units of the test: the rank-sum test judges
//! each function's figures, adjusted for the number of functions by Benjamini and Hochberg's method. One file
//! a side does not show how runs differ. Samples are counts, so an exact test separates a difference from the chance of sampling:
//! of two parts of a whole where shares are shown ([`opcost_stats::counts::shares`]), of two Poisson rates where costs of operations
//! are ([`opcost_stats::counts::rates`]). A difference beyond that chance is reported as such, but nobody knows whether it would
//! repeat.
//!
//! **Without a number of samples opcost judges by files alone.** Folded stacks may be samples, nanoseconds or instructions.
//! If opcost took nanoseconds for samples, any difference of large costs would seem certain.

use super::annotated::{self, AnnotatedDifference};
use super::function_changes::{
    CallerRow, FileFigures, FunctionComparison, FunctionRow, FunctionVerdict, NO_CALLER, Sides,
    UNATTRIBUTED, summed,
};
use opcost_attribution::annotation::Annotation;
use opcost_attribution::function_costs::{AttributedRun, Cost, FunctionId, costs};
use opcost_attribution::matching::{Matching, Side, UnknownModule, check_told};
use opcost_base::exit::{HasStatus, Status};
use opcost_model::plan::SameFile;
use opcost_profile::read::ReadProfile;
use opcost_profile::read::about::EventAbout;
use opcost_record::{Function, Module, Unit};
use opcost_stats::counts::{rates, shares};
use opcost_stats::multiple::{Family, benjamini_hochberg};
use opcost_stats::rank_sum;
use opcost_stats::summary::mean;
use std::collections::BTreeMap;

/// The rule, for `--allow`, that both sides have the same event.
pub const EVENT_RULE: &str = "event";

/// Why two profiles are not compared.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProfileDifferenceError {
    /// The files sampled different events.
    #[error(
        "{one} has the event {of_one} and {two} has {of_two}; choose one that both have with --event, \
         or compare them nevertheless with --allow event"
    )]
    Event {
        /// The first file.
        one: String,
        /// The second file.
        two: String,
        /// The first file's event.
        of_one: String,
        /// The second file's event.
        of_two: String,
    },
    /// One file was sampled, the other was counted.
    #[error("{sampled} was sampled and {counted} was counted: their costs have nothing in common")]
    Kind {
        /// The sampled file.
        sampled: String,
        /// The counted file.
        counted: String,
    },
    /// A file that the user declared the same as another is in no profile.
    #[error(transparent)]
    Unknown(#[from] UnknownModule),
    /// A file has no cost at all.
    #[error("{0} has no cost at all, so there is nothing to compare with")]
    Empty(String),
    /// A side has no file.
    #[error("the {0} has no file; give one or more")]
    None(&'static str),
}

impl HasStatus for ProfileDifferenceError {
    fn status(&self) -> Status {
        match self {
            ProfileDifferenceError::Unknown(_) => Status::Usage,
            _ => Status::NotComparable,
        }
    }
}

/// One file of a side.
#[derive(Clone, Copy)]
pub struct ProfileOf<'a> {
    /// The name of the file in reports.
    pub name: &'a str,
    /// The profile.
    pub profile: &'a ReadProfile,
    /// Operations that the profiled work performed.
    pub ops: Option<u64>,
}

/// The words of the profiler's command without the name of the file itself, which no two runs share
/// (`perf record -o 1.data ./work`).
fn command_of<'a>(file: &ProfileOf<'a>) -> Option<Vec<&'a str>> {
    let last = |word: &'a str| word.rsplit(['/', '=']).next().unwrap_or(word);
    let words = file.profile.about.command.as_deref()?.split(' ');
    Some(words.filter(|word| last(word) != last(file.name)).collect())
}

/// The scale of the figures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Measure {
    /// The cost of one operation.
    PerOp,
    /// Shares of each profile's total, where 1 is the whole.
    Share,
    /// Costs as they were counted.
    Counted,
}

/// Two profiles function by function.
#[derive(Clone, Debug)]
pub struct ProfileDifference {
    /// The names of both sides.
    pub names: [String; 2],
    /// The files of each side.
    pub files: [Vec<String>; 2],
    /// The basis of the verdicts.
    pub judged: Judged,
    /// Level of the functions' intervals; `None` if they have no intervals.
    pub ci_level: Option<f64>,
    /// The event.
    pub event: String,
    /// The event's unit.
    pub unit: Unit,
    /// The scale of the figures.
    pub measure: Measure,
    /// Operations of each side, in all of its files.
    pub ops: Option<[u64; 2]>,
    /// Samples of each side, in all of its files; `None` if there are no samples, or their number is unknown.
    pub samples: Option<[u64; 2]>,
    /// Whether costs were counted.
    pub counted: bool,
    /// Total cost of each side, in all of its files.
    pub total_cost: [u64; 2],
    /// The functions, as means over a side's files on the scale of [`ProfileDifference::measure`].
    pub functions: FunctionComparison,
    /// All functions together, including the cost charged to no function.
    pub total: FunctionRow,
    /// The cost that is charged to no function.
    pub unattributed: Option<FunctionRow>,
    /// Notes that a reader should know.
    pub notes: Vec<String>,
}

/// Compares the profiles of two sides.
///
/// `sides`: the files of the baseline and of the variant, all with their operations or none; `names`: the names of the sides;
/// `allowed`: rules that may be broken; `told`: program files and libraries that the user declares the same.
///
/// # Errors
/// [`ProfileDifferenceError`]: the sides measured different things.
pub fn profile_difference(
    sides: [&[ProfileOf<'_>]; 2],
    names: [String; 2],
    allowed: &[String],
    told: &[SameFile],
) -> Result<ProfileDifference, ProfileDifferenceError> {
    if let Some(empty) = sides.iter().position(|files| files.is_empty()) {
        return Err(ProfileDifferenceError::None(["baseline", "variant"][empty]));
    }
    let all = || sides.iter().flat_map(|files| files.iter());
    let (first, mut notes) = (&sides[0][0], Vec::new());
    for other in all() {
        notes.extend(fits(first, other, allowed)?);
    }
    notes.dedup();
    if let Some(empty) = all().find(|file| file.profile.table.total == 0) {
        return Err(ProfileDifferenceError::Empty(empty.name.to_string()));
    }
    let scale = Scale::of(sides);
    let modules = sides
        .map(|files| files.iter().flat_map(|file| file.profile.modules()).collect::<Vec<Module>>());
    let given = [0, 1].map(|at: usize| Side {
        functions: sides[at].iter().flat_map(functions).collect(),
        modules: modules[at].iter().collect(),
        program: None,
    });
    check_told(given.each_ref(), told)?;
    let matching = Matching::of(&given, told);
    let figures = figures(sides, &matching);
    let mut functions = functions_of(sides, &scale, &matching);
    let judged_rows: Vec<&Figures> = functions.rows.iter().map(|row| &figures[&row.id]).collect();
    let (judged, verdicts) = judge(&judged_rows, &scale);
    let ci_level = verdicts.level.filter(|_| judged == Judged::Files).map(|level| 1.0 - level);
    for (row, verdict) in functions.rows.iter_mut().zip(verdicts.rows) {
        scale.conclude(row, &figures[&row.id], verdict);
    }
    let mut commands = all().filter_map(|file| command_of(file));
    let command = commands.next();
    if commands.any(|other| Some(other) != command) {
        notes.push(
            "the profilers' commands differ; nobody checked that the work was the same".into(),
        );
    }
    let lost = all().filter_map(|file| file.profile.sampled.as_ref());
    if lost.clone().any(|sampled| sampled.losses.lost_events > 0 || sampled.losses.throttles > 0) {
        notes.push("samples were lost: see opcost profile of each file".into());
    }
    notes.extend(judged.limit().map(str::to_string));
    let of_all = |cost: fn(&ProfileOf<'_>) -> u64, samples: bool| {
        let each = |of: &dyn Fn(&ProfileOf<'_>) -> u64| {
            sides.map(|files| files.iter().map(of).collect::<Vec<u64>>())
        };
        let none = |_: &ProfileOf<'_>| 0;
        Figures {
            cost: each(&cost),
            samples: if samples { each(&samples_of) } else { each(&none) },
        }
    };
    let alone = |symbol: &str, figures: &Figures| {
        let (_, mut verdicts) = judge(&[figures], &scale);
        let own = Sides::of([0, 1].map(|side| scale.mean(side, &figures.cost[side])));
        let mut row = FunctionRow { symbol: symbol.into(), own, ..FunctionRow::default() };
        scale.conclude(&mut row, figures, verdicts.rows.remove(0));
        row
    };
    let total = alone("total", &of_all(|file| file.profile.table.total, true));
    let unattributed = of_all(|file| file.profile.table.unattributed, false);
    let any = unattributed.cost.iter().flatten().any(|cost| *cost > 0);
    let unattributed = any.then(|| alone(UNATTRIBUTED, &unattributed));
    functions.verdict = total.verdict;
    // Files of one program are runs, and nobody knows whether their layouts differ.
    functions.forget_exact();
    let sampling = first.profile.about.sampling.as_ref();
    let unit = sampling.map_or(Unit::Count, EventAbout::unit);
    let sum = |of: &dyn Fn(&ProfileOf<'_>) -> u64| sides.map(|files| files.iter().map(of).sum());
    Ok(ProfileDifference {
        names,
        files: sides.map(|files| files.iter().map(|file| file.name.to_string()).collect()),
        judged,
        ci_level,
        event: sides[1][0].profile.about.event.clone(),
        unit,
        measure: scale.measure,
        ops: (scale.measure == Measure::PerOp).then(|| sum(&|file| file.ops.unwrap_or(0))),
        samples: scale.exposures().map(|_| sum(&samples_of)),
        counted: !scale.sampled,
        total_cost: sum(&|file| file.profile.table.total),
        functions,
        total,
        unattributed,
        notes,
    })
}

/// Compares a function of the profiles of two sides by line.
///
/// `sides`, `names`, `allowed`: as for [`profile_difference`]; `annotations`: the function of each side, with a run for each file.
///
/// # Errors
/// [`ProfileDifferenceError`]: the sides measured different things.
pub fn annotated_difference(
    sides: [&[ProfileOf<'_>]; 2],
    names: [String; 2],
    annotations: [Annotation; 2],
    allowed: &[String],
) -> Result<AnnotatedDifference, ProfileDifferenceError> {
    let (first, all) = (&sides[0][0], sides.iter().flat_map(|files| files.iter()));
    for other in all {
        fits(first, other, allowed)?;
    }
    Ok(annotated::compare(names, annotations, &Scale::of(sides)))
}

/// Checks that two files measured the same; returns a note if a rule was waived.
fn fits(
    one: &ProfileOf<'_>,
    two: &ProfileOf<'_>,
    allowed: &[String],
) -> Result<Option<String>, ProfileDifferenceError> {
    if one.profile.is_counted() != two.profile.is_counted() {
        let (sampled, counted) = if two.profile.is_counted() { (one, two) } else { (two, one) };
        let (sampled, counted) = (sampled.name.to_string(), counted.name.to_string());
        return Err(ProfileDifferenceError::Kind { sampled, counted });
    }
    let [of_one, of_two] = [one, two].map(|file| file.profile.about.event.clone());
    if of_one == of_two {
        return Ok(None);
    }
    if !allowed.iter().any(|rule| rule == EVENT_RULE) {
        let (one, two) = (one.name.to_string(), two.name.to_string());
        return Err(ProfileDifferenceError::Event { one, two, of_one, of_two });
    }
    Ok(Some(format!("other events were measured: {of_one} and {of_two} (waived)")))
}

fn samples_of(file: &ProfileOf<'_>) -> u64 {
    file.profile.sampled.as_ref().map_or(0, |sampled| sampled.samples_total())
}

/// The conversion of costs to figures.
pub(super) struct Scale {
    pub(super) measure: Measure,
    /// Whether costs may be samples; else they were counted.
    pub(super) sampled: bool,
    /// For each file of each side, the cost that is 1 on the scale.
    ones: [Vec<u64>; 2],
    /// The exposure of each file of a side to sampling: its samples, scaled to its operations if these are known.
    exposures: [Vec<f64>; 2],
}

impl Scale {
    fn of(sides: [&[ProfileOf<'_>]; 2]) -> Scale {
        let sampled = !sides[0][0].profile.is_counted();
        let known = sides.iter().all(|files| files.iter().all(|file| file.ops.is_some()));
        let measure = match (known, sampled) {
            (true, _) => Measure::PerOp,
            (false, true) => Measure::Share,
            (false, false) => Measure::Counted,
        };
        let one = |file: &ProfileOf<'_>| match measure {
            Measure::PerOp => file.ops.unwrap_or(1),
            Measure::Share => file.profile.table.total,
            Measure::Counted => 1,
        };
        // The samples that a function of constant cost would have. For shares they are in proportion to the file's samples; per
        // operation, to the operations times the samples for each unit of cost.
        let exposure = |file: &ProfileOf<'_>| {
            let samples = samples_of(file) as f64;
            match (measure, file.ops) {
                (Measure::PerOp, Some(ops)) => {
                    ops as f64 * samples / file.profile.table.total as f64
                }
                _ => samples,
            }
        };
        Scale {
            measure,
            sampled,
            ones: sides.map(|files| files.iter().map(one).collect()),
            exposures: sides.map(|files| files.iter().map(exposure).collect()),
        }
    }

    /// The scale of counts: `ones` is the cost that is 1 in each run of each side, its operations where `per_op`.
    pub(super) fn counted(ones: [Vec<u64>; 2], per_op: bool) -> Scale {
        let measure = if per_op { Measure::PerOp } else { Measure::Counted };
        Scale { measure, sampled: false, exposures: [Vec::new(), Vec::new()], ones }
    }

    /// The scale of shares of two sampled files with these numbers of samples, each of cost 1.
    #[cfg(test)]
    pub(super) fn sampled_once(samples: [u64; 2]) -> Scale {
        let exposures = samples.map(|samples| vec![samples as f64]);
        Scale {
            measure: Measure::Share,
            sampled: true,
            exposures,
            ones: samples.map(|all| vec![all]),
        }
    }

    /// Files of each side.
    pub(super) fn files(&self) -> [usize; 2] {
        self.ones.each_ref().map(Vec::len)
    }

    /// Converts the costs of a function in each file of a side to figures.
    pub(super) fn values(&self, side: usize, cost: &[u64]) -> Vec<f64> {
        cost.iter().zip(&self.ones[side]).map(|(cost, one)| *cost as f64 / *one as f64).collect()
    }

    fn mean(&self, side: usize, cost: &[u64]) -> f64 {
        mean(&self.values(side, cost)).unwrap_or(0.0)
    }

    /// The exposures of both sides to sampling; `None` if nothing was sampled.
    pub(super) fn exposures(&self) -> Option<[f64; 2]> {
        let sums = self.exposures.each_ref().map(|files| files.iter().sum());
        Some(sums).filter(|both| self.sampled && both.iter().all(|one| *one > 0.0))
    }

    /// Stores a function's figures from the files, and its verdict, in its row.
    fn conclude(&self, row: &mut FunctionRow, figures: &Figures, verdict: Row) {
        let sums = |of: &[Vec<u64>; 2]| of.each_ref().map(|files| files.iter().sum());
        row.in_files = Some(FileFigures {
            cost: sums(&figures.cost),
            samples: self.exposures().map(|_| sums(&figures.samples)),
            files_needed: verdict.files_needed,
        });
        row.p_adjusted = verdict.p_adjusted;
        row.ci = verdict.ci;
        row.verdict = verdict.verdict;
        row.reason = verdict.reason;
    }
}

/// The functions of a profile.
fn functions<'a>(of: &ProfileOf<'a>) -> impl Iterator<Item = &'a Function> {
    of.profile.table.functions.iter().map(|cost| &cost.function)
}

/// Costs and samples of every function by number, file by file.
fn figures(sides: [&[ProfileOf<'_>]; 2], matching: &Matching) -> BTreeMap<u32, Figures> {
    let mut found: BTreeMap<u32, Figures> = BTreeMap::new();
    let none = || sides.map(|files| vec![0; files.len()]);
    for (side, files) in sides.iter().enumerate() {
        for (file, of) in files.iter().enumerate() {
            for cost in of.profile.table.functions.iter().filter(|cost| cost.own > 0) {
                let figures = found
                    .entry(matching.number(side, &cost.function))
                    .or_insert_with(|| Figures { cost: none(), samples: none() });
                figures.cost[side][file] += cost.own;
                figures.samples[side][file] += cost.samples.unwrap_or(0);
            }
        }
    }
    found
}

/// The number of rows, the largest changes, that show their callers.
const WITH_CALLERS: usize = 40;

/// The functions of both sides without verdicts. Each file counts as a run of its side; the cost that is 1 on the scale stands for
/// the run's operations.
fn functions_of(
    sides: [&[ProfileOf<'_>]; 2],
    scale: &Scale,
    matching: &Matching,
) -> FunctionComparison {
    let runs = [0, 1].map(|side: usize| -> Vec<AttributedRun> {
        let files = sides[side].iter().zip(&scale.ones[side]);
        files.map(|(file, one)| attributed(file, side, *one, matching)).collect()
    });
    let observations = runs.each_ref().map(|files| files.iter().map(|run| vec![run]).collect());
    let mut made = summed(matching, [0, 1], observations);
    made.per_op = scale.measure == Measure::PerOp;
    let stacks = sides.iter().all(|files| files.iter().all(|file| file.profile.sampled.is_some()));
    for (at, row) in made.rows.iter_mut().enumerate() {
        row.callers.retain(|caller| {
            stacks && at < WITH_CALLERS && caller.symbol != NO_CALLER && caller.own.change != 0.0
        });
        let size = |caller: &CallerRow| caller.own.change.abs();
        row.callers.sort_by(|one, two| {
            size(two).total_cmp(&size(one)).then_with(|| one.symbol.cmp(&two.symbol))
        });
    }
    made
}

/// Converts a file to a run; `one`: the part of its cost that is 1 on the scale.
fn attributed(of: &ProfileOf<'_>, side: usize, one: u64, matching: &Matching) -> AttributedRun {
    let table = &of.profile.table;
    let costs = match &of.profile.sampled {
        Some(sampled) => costs(&sampled.profile, side, matching),
        None => {
            let mut costs: BTreeMap<FunctionId, Cost> = BTreeMap::new();
            for cost in table.functions.iter().filter(|cost| cost.own > 0) {
                costs.entry(matching.number(side, &cost.function)).or_default().own += cost.own;
            }
            costs
        }
    };
    AttributedRun {
        side,
        unit: 0,
        ops: one,
        total: table.total,
        attributed: table.total.saturating_sub(table.unattributed),
        costs,
    }
}

/// Expected share of false positives among the functions that are called changed.
pub const FALSE_SHARE: f64 = 0.05;

/// The smallest number of samples of a function, on average over all files, with which it is tested. A rarer function cannot be
/// judged, and each additional test makes the level of the others stricter. The number does not depend on the labels of the files,
/// so it favours no verdict (Bourgon, Gentleman & Huber, "Independent filtering increases detection power", PNAS 107, 2010).
pub(super) const SAMPLES_MIN: u64 = 2;

/// The basis of the verdicts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judged {
    /// Several files a side, the units of the test.
    Files,
    /// One file a side: only differences beyond the chance of sampling are found.
    Sampling,
    /// One file a side, counted: the difference of the two files is exact.
    Exact,
    /// One file a side without known numbers of samples: nothing can be judged.
    Nothing,
}

impl Judged {
    /// The limit of what these files can show, in words; `None` for several files a side.
    pub fn limit(self) -> Option<&'static str> {
        match self {
            Judged::Files => None,
            Judged::Nothing => Some(
                "one file a side, and the files do not say how many samples their costs are from: nothing \
                 tells a change from chance; give several files a side (--baseline FILES --variant FILES)",
            ),
            Judged::Sampling | Judged::Exact => Some(
                "one file a side: how one run differs from the next is not known, so what differs may be \
                 no change of the program; give several files a side (--baseline FILES --variant FILES)",
            ),
        }
    }
}

/// Costs and samples of one function, file by file on both sides.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Figures {
    pub(super) cost: [Vec<u64>; 2],
    pub(super) samples: [Vec<u64>; 2],
}

/// The verdict on one row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) p_adjusted: Option<f64>,
    pub(super) ci: Option<(f64, f64)>,
    pub(super) verdict: FunctionVerdict,
    pub(super) reason: String,
    pub(super) files_needed: Option<usize>,
}

impl Row {
    fn of(verdict: FunctionVerdict) -> Row {
        Row { p_adjusted: None, ci: None, verdict, reason: String::new(), files_needed: None }
    }
}

/// The verdicts on all rows.
pub(super) struct Verdicts {
    pub(super) rows: Vec<Row>,
    /// The level that decided all rows; `None` if nothing was tested.
    pub(super) level: Option<f64>,
}

/// Judges functions together, as one family.
pub(super) fn judge(functions: &[&Figures], scale: &Scale) -> (Judged, Verdicts) {
    match (scale.files(), scale.exposures()) {
        ([1, 1], Some(exposures)) => {
            (Judged::Sampling, of_sampling(functions, scale.measure, exposures))
        }
        ([1, 1], None) if scale.sampled => {
            let open = |figures: &&Figures| match figures.cost[0] == figures.cost[1] {
                true => Row::of(FunctionVerdict::Unchanged),
                false => {
                    let reason = "the number of samples is not known".to_string();
                    Row { reason, ..Row::of(FunctionVerdict::Inconclusive) }
                }
            };
            (Judged::Nothing, Verdicts { rows: functions.iter().map(open).collect(), level: None })
        }
        ([1, 1], None) => {
            let differs = |figures: &&Figures| match figures.cost[0] == figures.cost[1] {
                true => Row::of(FunctionVerdict::Unchanged),
                false => Row::of(FunctionVerdict::Differs),
            };
            let rows = functions.iter().map(differs).collect();
            (Judged::Exact, Verdicts { rows, level: None })
        }
        _ => (Judged::Files, of_files(functions, scale)),
    }
}

/// One file a side: two parts of all samples, or two Poisson counts.
fn of_sampling(functions: &[&Figures], measure: Measure, exposures: [f64; 2]) -> Verdicts {
    let p = |figures: &&Figures| {
        let samples = [figures.samples[0][0], figures.samples[1][0]];
        match measure {
            // The exposure of a share is the number of all samples.
            Measure::Share => shares(samples, exposures.map(|all| all as u64)),
            Measure::PerOp | Measure::Counted => rates(samples, exposures),
        }
    };
    let p: Vec<f64> = functions.iter().map(p).collect();
    let row = |adjusted: f64| {
        let verdict = match adjusted <= FALSE_SHARE {
            true => FunctionVerdict::Differs,
            false => FunctionVerdict::Inconclusive,
        };
        Row { p_adjusted: Some(adjusted), ..Row::of(verdict) }
    };
    let rows = benjamini_hochberg(&p).into_iter().map(row).collect();
    Verdicts { rows, level: (!p.is_empty()).then_some(FALSE_SHARE) }
}

/// Several files a side: two groups of figures.
fn of_files(functions: &[&Figures], scale: &Scale) -> Verdicts {
    let files = scale.files();
    let values: Vec<[Vec<f64>; 2]> = functions
        .iter()
        .map(|figures| [0, 1].map(|side| scale.values(side, &figures.cost[side])))
        .collect();
    let settled: Vec<Option<Row>> = functions
        .iter()
        .zip(&values)
        .map(|(figures, values)| without_test(figures, values, scale))
        .collect();
    let open = || values.iter().zip(&settled).filter(|(_, settled)| settled.is_none());
    let p: Vec<f64> = open().map(|(values, _)| rank_sum::p(&values[0], &values[1])).collect();
    let level = Family::Rest.decision_level(&p, FALSE_SHARE);
    let floor = rank_sum::p_floor(files[0], files[1]);
    let mut tested = p.iter().zip(benjamini_hochberg(&p));
    let mut judged = |[one, two]: &[Vec<f64>; 2]| {
        let (p, adjusted) = tested.next().expect("a p-value for each function that is open");
        let (verdict, files_needed) = if *p <= level {
            (FunctionVerdict::Changed, None)
        } else if floor > level {
            (FunctionVerdict::Inconclusive, Some(rank_sum::runs_min(level) as usize))
        } else {
            (FunctionVerdict::Unchanged, None)
        };
        let reason = files_needed.map(|files| format!("needs {files} files a side"));
        let reason = reason.unwrap_or_default();
        let ci = rank_sum::interval(one, two, 1.0 - level);
        Row { p_adjusted: Some(adjusted), ci, verdict, reason, files_needed }
    };
    let rows = values.iter().zip(settled);
    let rows = rows.map(|(values, settled)| settled.unwrap_or_else(|| judged(values))).collect();
    Verdicts { rows, level: (!p.is_empty()).then_some(level) }
}

/// The verdict on a function that needs no test, or cannot be tested.
fn without_test(figures: &Figures, [one, two]: &[Vec<f64>; 2], scale: &Scale) -> Option<Row> {
    if scale.exposures().is_some() {
        let samples: u64 = figures.samples.iter().flatten().sum();
        let files = scale.files().iter().sum::<usize>() as u64;
        let few = samples < SAMPLES_MIN * files;
        let reason = "too few samples".to_string();
        return few.then(|| Row { reason, ..Row::of(FunctionVerdict::Inconclusive) });
    }
    let alike = |values: &[f64]| values.len() >= 2 && values.iter().all(|v| *v == values[0]);
    (alike(one) && alike(two)).then(|| match one[0] == two[0] {
        true => Row::of(FunctionVerdict::Unchanged),
        false => Row::of(FunctionVerdict::Changed),
    })
}

#[cfg(test)]
#[path = "profile_files_tests.rs"]
mod tests;
