//! The verdicts on the functions of profiles in files.
//!
//! **Without a number of samples opcost judges by files alone.** Folded stacks may be samples, nanoseconds or instructions.
//! If opcost took nanoseconds for samples, any difference of large costs would seem certain.

use super::functions::FunctionVerdict;
use super::profile_difference::Scale;
use opcost_stats::counts::rates;
use opcost_stats::multiple::{Family, benjamini_hochberg};
use opcost_stats::rank_sum;

/// Expected share of false positives among the functions that are called changed.
pub const FALSE_SHARE: f64 = 0.05;

/// The smallest number of samples of a function, on average over all files, with which it is tested. A rarer function cannot be
/// judged, and each additional test makes the level of the others stricter. The number does not depend on the labels of the files,
/// so it favours no verdict (Bourgon, Gentleman & Huber, "Independent filtering increases detection power", PNAS 107, 2010).
const SAMPLES_MIN: u64 = 2;

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
        ([1, 1], Some(exposures)) => (Judged::Sampling, of_sampling(functions, exposures)),
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

/// One file a side: two Poisson counts.
fn of_sampling(functions: &[&Figures], exposures: [f64; 2]) -> Verdicts {
    let p: Vec<f64> = functions
        .iter()
        .map(|figures| rates([figures.samples[0][0], figures.samples[1][0]], exposures))
        .collect();
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
