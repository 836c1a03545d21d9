//! The pure analysis of a recording: effects, intervals, verdicts, comparability.
//!
//! [`compare`](compare()) takes no clock and opens no file; the same recording gives the same
//! comparison. Rendering reads these types and computes nothing.

mod analysis;
pub mod annotated;
pub mod call_tree;
pub mod carry_over;
mod columns;
pub mod conclusion;
pub mod cycles;
pub mod function_changes;
mod guests;
mod imported;
pub mod kernel_sources;
pub mod ledger;
pub mod limit;
mod observations;
mod one_variant;
pub mod profile_files;
pub mod ranking;
pub mod ratios;
pub mod recorded_profiles;
mod steps;
pub mod two_recordings;
mod unpaired;
mod variant_differences;

pub use analysis::compare;
pub use cycles::{ModelAccuracy, SliceAccuracy};
pub use function_changes::{
    CallerRow, FileFigures, FunctionComparison, FunctionRow, FunctionVerdict, NO_CALLER, Sides,
    UNATTRIBUTED,
};
pub use imported::{ClaimOutcome, ClaimRow, ImportSummary, WelchRow, t_text};
pub use observations::{OBSERVATION_RATE, Observation, ObservationKind};
pub use one_variant::{FIGURE_LEVEL, FunctionCost, FunctionCosts, interval};
pub use opcost_attribution::function_costs::{SampledBy, check_matches, check_matches_of};
pub use opcost_attribution::{address_costs, address_runs, matching};
pub use ranking::{RankedVariant, Ranking, Scan};
pub use ratios::PerMegabyte;
pub use variant_differences::{SizeRows, config_changes};

use kernel_sources::KernelCommits;
use limit::{FailOn, Watched};
use opcost_attribution::matching::UnknownModule;
use opcost_attribution::patch_sites::FoundSite;
use opcost_base::listing::few;
use opcost_base::number::grouped;
use opcost_model::plan::{Shard, Unavailable};
use opcost_record::{Better, Family, Kind, MetricKey, Unit};
use opcost_stats::Paired;
use opcost_steps::SteppedDifference;
use opcost_symbols::debug_package::DebugPackage;
use serde::Serialize;
use std::collections::HashMap;

/// The largest number of threads: one if the analysis is too small for more to pay.
fn threads_max(large: bool) -> usize {
    if large { usize::MAX } else { 1 }
}

/// The result of analysing a recording.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Identifier of the recording.
    pub recording: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The question that the experiment answers.
    pub question: Option<String>,
    /// A summary of the experiment, in parts: "mmap · 1,000,000 ops · this host · 22 pairs · primary: wall".
    pub heading: Vec<String>,
    /// The variants, the baseline first.
    pub variants: Vec<VariantSummary>,
    /// The comparisons made, as (baseline, variant) indices; each row has one change for each.
    pub comparisons: Vec<(usize, usize)>,
    /// One row for each metric, the primary metric first.
    pub rows: Vec<Row>,
    /// Where the change of the instructions comes from, for the comparisons with profiles.
    pub functions: Vec<FunctionComparison>,
    /// The changes of functions in modelled cycles.
    pub cycles: Vec<FunctionComparison>,
    /// Commits that touched the files of kernel functions, if a caller asked git.
    pub kernel_commits: Vec<KernelCommits>,
    /// Sites for patchpoint in the functions that changed most, if a caller read their code.
    pub patch_sites: Vec<FoundSite>,
    /// One operation step by step, if that was recorded.
    pub steps: Vec<SteppedDifference>,
    /// The costs of the functions of each variant that is compared with no other.
    pub function_costs: Vec<FunctionCosts>,
    /// The costs of a single variant's functions in modelled cycles.
    pub cycle_costs: Option<FunctionCosts>,
    /// The machines of the guests, a line for each fact.
    pub guests: Vec<String>,
    /// Differences between variants other than those that the user named.
    pub differences: Vec<VariantDifference>,
    /// Sizes of the programs or kernels that variants run, where these differ.
    pub sizes: Vec<SizeRows>,
    /// Cost of opcost's own loop, measured with the operation left out, in the metrics' units per operation.
    pub twin: Vec<TwinRow>,
    /// CPU time per megabyte, if the work moves bytes.
    pub per_megabyte: Option<PerMegabyte>,
    /// Metrics that could not be counted, with reason and remedy.
    pub unavailable: Vec<Unavailable>,
    /// The invariants that the work declared.
    pub invariants: Vec<InvariantRow>,
    /// Whether the runs were comparable, rule by rule.
    pub ledger: Vec<LedgerEntry>,
    /// Why the recording stopped before its whole schedule was made, if it did.
    pub stopped: Option<String>,
    /// The pairs with which every metric gets its interval, if the pairs made are too few.
    pub pairs_for_all: Option<u32>,
    /// Observations about the runs, which change no verdict.
    pub observations: Vec<Observation>,
    /// The tests for carry-over between runs, which withholds verdicts.
    pub carry_over: Vec<carry_over::CarryOver>,
    /// Facts about imported figures; `None` for opcost's own recordings.
    pub imported: Option<ImportSummary>,
    /// The answer, one sentence for each comparison.
    pub conclusions: Vec<String>,
    /// The variants in the order of the primary metric, if there are many.
    pub ranking: Option<Ranking>,
}

/// The largest changes of a table that are looked at for functions without names.
const NAMELESS_ROWS_MAX: usize = 10;

impl Comparison {
    /// Sorts the comparisons by the primary metric's change, in ascending order; comparisons without a change come last.
    pub fn sort_by_change(&mut self) {
        let Some(primary) = self.rows.iter().find(|row| row.primary) else { return };
        let change = |index: &usize| primary.changes[*index].change_ratio.unwrap_or(f64::INFINITY);
        let mut order: Vec<usize> = (0..self.comparisons.len()).collect();
        order.sort_by(|one, two| change(one).total_cmp(&change(two)));
        self.keep(&order);
    }

    /// Keeps the comparisons of these variants only.
    pub fn keep_variants(&mut self, variants: &[usize]) {
        let of = |index: &usize| variants.contains(&self.comparisons[*index].1);
        let order: Vec<usize> = (0..self.comparisons.len()).filter(of).collect();
        self.keep(&order);
        self.ranking = None;
    }

    /// Keeps these comparisons, in this order.
    fn keep(&mut self, order: &[usize]) {
        // A refusal is one sentence for all comparisons.
        if self.conclusions.len() == self.comparisons.len() {
            self.conclusions = reordered(&self.conclusions, order);
        }
        self.comparisons = reordered(&self.comparisons, order);
        for row in &mut self.rows {
            row.changes = reordered(&row.changes, order);
        }
        let places: HashMap<usize, usize> =
            order.iter().enumerate().map(|(place, old)| (*old, place)).collect();
        if let Some(ranking) = &mut self.ranking {
            ranking.renumber(&places);
        }
        for test in self.imported.iter_mut().flat_map(|import| &mut import.welch) {
            test.comparison = places.get(&test.comparison).copied().unwrap_or(test.comparison);
        }
    }

    /// The answer in sentences: one for each comparison, or unless `each` is set, a few for many variants.
    pub fn answers(&self, each: bool) -> &[String] {
        match &self.ranking {
            Some(ranking) if !each => &ranking.conclusions,
            _ => &self.conclusions,
        }
    }

    /// Whether a rule that was not waived refuses the verdict.
    pub fn refused(&self) -> bool {
        self.ledger.iter().any(|entry| entry.severity == Severity::Refuse && !entry.waived)
    }

    /// Why two variants of a comparison only stand beside each other: the reason for which none of their metrics is comparable.
    pub fn apart(&self, index: usize) -> Option<&str> {
        let changes = self.rows.iter().map(|row| &row.changes[index]);
        let mut changes = changes.filter(|change| change.verdict != Verdict::Unavailable);
        let first = changes.next().filter(|_| !self.refused())?;
        let same = |change: &Change| {
            (change.verdict, &change.reason) == (Verdict::NotComparable, &first.reason)
        };
        (same(first) && changes.all(same)).then_some(first.reason.as_str())
    }

    /// The files of functions without names among the largest changes; none for a recording of another computer.
    pub fn nameless_files(
        &self,
        recording: &opcost_model::recording::Recording,
    ) -> impl Iterator<Item = &str> {
        let is_shown = !self.refused() && recording.arrived_unix_ns.is_none();
        let tables = self.functions.iter().filter(move |_| is_shown);
        let rows = tables.flat_map(|found| found.rows.iter().take(NAMELESS_ROWS_MAX));
        let nameless = rows.filter(|row| row.symbol.starts_with("[at 0x") && row.own.change != 0.0);
        nameless.map(|row| row.module.as_str())
    }

    /// Metrics that are missing, grouped by the reason.
    pub fn missing(&self) -> Vec<(Vec<String>, String)> {
        let refused =
            self.unavailable.iter().map(|missing| (missing.key.label(), missing.reason.clone()));
        let absent = self.rows.iter().flat_map(|row| {
            let changes =
                row.changes.iter().filter(|change| change.verdict == Verdict::Unavailable);
            changes.map(|change| (row.label.clone(), change.reason.clone()))
        });
        by_reason(refused.chain(absent))
    }

    /// Whether the primary metric is significantly worse in any comparison.
    pub fn regressed(&self) -> bool {
        let primary = FailOn { what: Watched::Primary, limit: None };
        limit::exceeded(self, &[primary]).is_ok_and(|found| !found.exceeded.is_empty())
    }
}

/// Groups labels by reason, in the order of each group's first label.
pub fn by_reason(pairs: impl Iterator<Item = (String, String)>) -> Vec<(Vec<String>, String)> {
    let mut groups: Vec<(Vec<String>, String)> = Vec::new();
    for (label, reason) in pairs {
        match groups.iter_mut().find(|(_, known)| *known == reason) {
            Some((labels, _)) if labels.contains(&label) => {}
            Some((labels, _)) => labels.push(label),
            None => groups.push((vec![label], reason)),
        }
    }
    groups
}

/// A difference between two variants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VariantDifference {
    /// Index of the baseline.
    pub baseline: usize,
    /// Index of the variant.
    pub variant: usize,
    /// The subject of the difference: `kernel config`.
    pub what: String,
    /// One line for each difference.
    pub lines: Vec<String>,
}

/// One variant and its runs.
#[derive(Clone, Debug, Serialize)]
pub struct VariantSummary {
    /// Column heading.
    pub name: String,
    /// The command or workload, in one line.
    pub work: String,
    /// Runs that finished, warm-up left out.
    pub runs_finished: usize,
    /// Runs that failed, warm-up left out.
    pub runs_failed: usize,
    /// How the variant failed while the others went on; `None` if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Operations of the first run; `None` for a command that is one operation.
    pub ops: Option<u64>,
    /// The times of whole runs by metric; empty if every run made the same number of operations.
    #[serde(skip)]
    pub totals: Vec<(String, Figures)>,
    /// Exit status of each run, in the order of running; `None` if a signal ended the run.
    pub exit_codes: Vec<Option<i32>>,
}

/// One metric over all variants.
#[derive(Clone, Debug)]
pub struct Row {
    /// The metric.
    pub key: MetricKey,
    /// Heading: the name with its domain, and with its source if two sources count the same metric.
    pub label: String,
    /// Whether it is the declared primary metric.
    pub primary: bool,
    /// Unit of the figures.
    pub unit: Unit,
    /// Counted, sampled, modelled or estimated.
    pub kind: Kind,
    /// The direction that is better.
    pub better: Better,
    /// Family in the error budget.
    pub family: Family,
    /// Whether the figures are divided by the number of operations.
    pub per_op: bool,
    /// Whether every run of each variant gave the same integer.
    pub exact: bool,
    /// How far off modelled cycles may be; `None` for other metrics.
    pub accuracy: Option<ModelAccuracy>,
    /// The figures of each variant; `None` if no run has the metric.
    pub values: Vec<Option<Figures>>,
    /// One change for each of [`Comparison::comparisons`].
    pub changes: Vec<Change>,
}

/// Reorders the items of a list.
fn reordered<T: Clone>(items: &[T], order: &[usize]) -> Vec<T> {
    order.iter().filter_map(|index| items.get(*index).cloned()).collect()
}

/// The figures of one metric and one variant, per operation if [`Row::per_op`] is set.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Median over the finished runs; `None` for an imported mean.
    pub median: Option<f64>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; `None` for one run.
    pub sd: Option<f64>,
    /// Smallest figure; `None` for an imported mean.
    pub min: Option<f64>,
    /// Largest figure; `None` for an imported mean.
    pub max: Option<f64>,
    /// Number of runs; 0 for an imported mean without this number.
    pub n: usize,
    /// Runs in which the counter was multiplexed, so that the figure is not a full count.
    pub multiplexed: usize,
    /// Each run's figure, in the order of running.
    pub values: Vec<f64>,
    /// The interval of the median, or of an imported mean, at [`FIGURE_LEVEL`]; only if the variant is compared with no other.
    pub interval: Option<(f64, f64)>,
}

impl Figures {
    /// The figure that tables show: the median, or the mean if a mean was imported.
    pub fn center(&self) -> f64 {
        self.median.unwrap_or(self.mean)
    }
}

/// The change of one metric of one variant from its baseline. The default value knows nothing.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Ratio of the two medians − 1; `None` when undefined.
    pub ratio_of_medians: Option<f64>,
    /// Bootstrap interval of this ratio at [`RATIO_LEVEL`], drawn by whole units of the test, for display. It takes long, so only
    /// the primary metric has it.
    pub ratio_of_medians_ci: Option<(f64, f64)>,
    /// variant/baseline − 1, estimated block by block so that drift cancels; `ci` is the interval of this figure. `None` when
    /// undefined.
    pub change_ratio: Option<f64>,
    /// Interval of the change, at `ci_level`; `None` for exact figures or too few blocks. The interval contains 0 exactly if the
    /// verdict is not [`Verdict::Changed`].
    pub ci: Option<(f64, f64)>,
    /// Confidence level of the interval: the level at which the metric's family was decided.
    pub ci_level: f64,
    /// p value corrected for the number of tests in its family; `None` for exact figures.
    pub p_adjusted: Option<f64>,
    /// The change in the unit of the figures, estimated block by block; only of the primary metric.
    pub difference: Option<f64>,
    /// Its interval at `ci_level`, if the change is real and the interval does not contain 0.
    pub difference_ci: Option<(f64, f64)>,
    /// The blocks' differences in the unit of the figures.
    pub plain: Option<Paired>,
    /// Smallest change that would have been found with 90 % probability.
    pub mde_ratio: Option<f64>,
    /// The same change in the unit of the figures, if the baseline is 0 and has no ratio.
    pub mde_difference: Option<f64>,
    /// The relevance floor: how far seeds and layouts alone move the figure. A change below the floor may be real but is
    /// irrelevant. `None` if the floor is unknown.
    pub relevance_floor_ratio: Option<f64>,
    /// The seeds and layouts from which the floor was drawn, of the variant that has fewer; 0 if the floor is unknown.
    pub relevance_floor_layouts: usize,
    /// Pairs that were compared.
    pub n_pairs: usize,
    /// Pairs that would decide the change, if the pairs made are too few.
    pub pairs_needed: Option<u32>,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason in a few words; empty if the verdict says everything.
    pub reason: String,
    /// The differences of the blocks, from which the figures above are computed.
    pub paired: Option<Paired>,
    /// Whether every run of both variants gave the same integer; on the emulated machine, whether both runs of each pair did.
    pub identical: bool,
    /// The layouts in which repeatable counts were compared exactly; `None` for other figures.
    pub layouts: Option<Layouts>,
    /// One step of the raw integer, in the unit of the figures: no change is smaller.
    pub step: f64,
    /// Whether the order of the runs was not randomised, so that a drift of the machine is possible. The figures then differ, but
    /// the change cannot be called real.
    pub unordered: bool,
    /// Whether the figures are modelled cycles. Their change is an estimate, however exact the figures are.
    pub estimated: bool,
}

/// Seeds and layouts of an emulated machine with which both variants ran once each, and whose counts repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layouts {
    /// The number of layouts.
    pub count: usize,
    /// The smallest and the largest change of a single layout, variant/baseline − 1; `None` if undefined.
    pub range: Option<(f64, f64)>,
    /// The p-value of an early look at the counts.
    pub early_p: f64,
}

impl Layouts {
    /// The layouts of the compared blocks, one for each block, without an early look.
    fn of(paired: &Paired) -> Layouts {
        let ratios: Option<Vec<f64>> =
            paired.differences().iter().map(|difference| paired.ratio(*difference)).collect();
        let range = ratios.and_then(|ratios| {
            let least = ratios.iter().copied().reduce(f64::min)?;
            Some((least, ratios.iter().copied().reduce(f64::max)?))
        });
        Layouts { count: paired.differences().len(), range, early_p: 1.0 }
    }

    /// `one layout`, `5 layouts`.
    pub fn words(&self) -> String {
        match self.count {
            1 => "one layout".into(),
            count => format!("{} layouts", grouped(count as u64)),
        }
    }
}

impl Change {
    /// The word for a change that was found.
    pub fn found(&self) -> &'static str {
        match (self.estimated, self.unordered) {
            (true, _) => "estimated",
            (_, true) => "differs",
            _ => "real",
        }
    }

    /// The relevance floor, if this change is real or exact and below it.
    pub fn below_floor(&self) -> Option<f64> {
        let (floor, ratio) = (self.relevance_floor_ratio?, self.change_ratio?);
        let found = matches!(self.verdict, Verdict::Changed | Verdict::FewLayouts);
        (found && ratio.abs() < floor).then_some(floor)
    }

    /// The relevance floor with the number of layouts in which it was seen: `0.58 % (12 layouts)`. A mode that none of them had is not
    /// in it.
    pub fn floor_words(&self) -> Option<String> {
        let floor = opcost_base::number::magnitude(self.relevance_floor_ratio?);
        Some(format!("{floor} ({} layouts)", grouped(self.relevance_floor_layouts as u64)))
    }

    /// Notes for a change below the relevance floor that layouts alone can cause as much.
    fn note_floor(&mut self) {
        let Some(floor) = self.below_floor().and_then(|_| self.floor_words()) else { return };
        let found = match self.verdict {
            Verdict::FewLayouts => self.reason.clone(),
            _ => "real".to_string(),
        };
        self.reason = format!("{found}, but seeds and layouts alone shift it by up to {floor}");
    }
}

/// The level of [`Change::ratio_of_medians_ci`].
pub const RATIO_LEVEL: f64 = 0.95;

/// The verdict on one metric.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The shift is real.
    Changed,
    /// No shift was found, and a shift of `mde_ratio` would have been found.
    Unchanged,
    /// The difference is exact in the layouts that were run, but these are too few to tell the difference from the effect of
    /// another layout. Scripts know five verdicts: in their output this one is `inconclusive`, and `layouts` gives the number of
    /// layouts.
    #[serde(rename = "inconclusive")]
    FewLayouts,
    /// The runs cannot tell.
    #[default]
    Inconclusive,
    /// The runs were not comparable.
    NotComparable,
    /// The metric could not be counted.
    Unavailable,
}

/// The cost of opcost's own loop in one metric.
#[derive(Clone, Debug, Serialize)]
pub struct TwinRow {
    /// Heading of the metric.
    pub label: String,
    /// Unit of the figures.
    pub unit: Unit,
    /// Median per operation of each variant.
    pub values: Vec<Option<f64>>,
}

/// One declared invariant over all variants.
#[derive(Clone, Debug, Serialize)]
pub struct InvariantRow {
    /// Its name.
    pub name: String,
    /// The values seen in each variant's finished runs, without repetition.
    pub values: Vec<Vec<String>>,
    /// Whether the value was the same everywhere.
    pub holds: bool,
}

/// The result of one rule of the ledger.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerEntry {
    /// Name of the rule, as `--allow` takes it.
    pub rule: String,
    /// The severity of the result.
    pub severity: Severity,
    /// Whether there was anything to examine; facts that the machine does not report count as fine.
    pub known: bool,
    /// Whether the user waived the rule.
    pub waived: bool,
    /// The finding in words.
    pub detail: String,
}

/// The severity of a ledger entry.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing wrong.
    Fine,
    /// The figures may mislead; the entry is reported beside the verdict.
    Doubtful,
    /// No verdict is given.
    Refuse,
}

/// A fact that the reader should know, with advice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Warning {
    /// Fewer pairs than needed to decide every metric.
    TooFewPairs {
        /// Pairs made.
        pairs: u32,
        /// Pairs needed.
        fewest: u32,
    },
    /// Fewer computers than needed to decide every metric, if a computer is the unit of the test.
    TooFewComputers {
        /// Computers that made runs.
        computers: u32,
        /// Computers needed.
        fewest: u32,
    },
    /// Commands end so soon that most of the time measured is the start of the process.
    ShortRuns {
        /// The variants with their median wall times, nanoseconds.
        variants: Vec<(String, u64)>,
    },
    /// Commands contain characters that a shell would interpret, and no shell runs them.
    ShellSyntax {
        /// The variants, each with the first such piece of its command.
        variants: Vec<(String, String)>,
    },
    /// The recording is still being made, as far as the store knows.
    Running {
        /// The runs made, of how many.
        runs: String,
        /// The recording, for `opcost resume`.
        recording: String,
    },
    /// The recording is not complete.
    Incomplete {
        /// The runs made, of how many.
        runs: String,
        /// The recording, for `opcost resume`.
        recording: String,
    },
    /// The recording arrived in a file and is not complete.
    IncompleteElsewhere {
        /// The runs made, of how many.
        runs: String,
    },
    /// The recording is one shard of a plan.
    Shard(Shard),
    /// Functions in the table have no names, and a package would give them.
    Nameless(DebugPackage),
    /// The user declared two files the same, and one of them is in no profile.
    Matches(UnknownModule),
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warning::TooFewPairs { pairs, fewest } => write!(
                f,
                "{pairs} pairs cannot decide every metric at its corrected level; use --pairs {fewest} or more"
            ),
            Warning::TooFewComputers { computers, fewest } => write!(
                f,
                "{computers} computers cannot decide every metric at its corrected level, since each is one unit \
                 of the test; make {fewest} shards or more"
            ),
            Warning::ShortRuns { variants } => {
                let runs: Vec<String> = variants
                    .iter()
                    .map(|(name, wall_ns)| format!("'{name}' {:.1} ms", *wall_ns as f64 / 1e6))
                    .collect();
                write!(
                    f,
                    "runs are short ({}): much of that is starting a process; give them more work",
                    few(&runs)
                )
            }
            Warning::ShellSyntax { variants } => {
                let pieces: Vec<String> =
                    variants.iter().map(|(name, piece)| format!("{piece} in '{name}'")).collect();
                write!(
                    f,
                    "no shell ran the commands, so they got {} as written; if a shell is to act on that, add --shell",
                    few(&pieces)
                )
            }
            Warning::Running { runs, recording } => write!(
                f,
                "the recording is running ({runs}); if it was killed: opcost resume {recording}"
            ),
            Warning::Incomplete { runs, recording } => write!(
                f,
                "the recording stopped after {runs}; continue it with: opcost resume {recording}"
            ),
            Warning::IncompleteElsewhere { runs } => write!(
                f,
                "the recording stopped after {runs}; it arrived in a file, so whoever made it \
                 continues it"
            ),
            Warning::Shard(shard) => {
                write!(
                    f,
                    "this is shard {shard} of its plan, alone; opcost gather joins all {}",
                    shard.of
                )
            }
            Warning::Nameless(package) => package.fmt(f),
            Warning::Matches(unknown) => unknown.fmt(f),
        }
    }
}
