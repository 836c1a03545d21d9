//! The search for a figure that varies: where in the line of commits its one step probably lies.

use super::commits::Commits;
use super::walk::{Point, Walk, Worker};
use super::{BisectArgs, in_words, status_of};
use anyhow::Result;
use opcost_analysis::comparison::{Change, Row, Verdict, compare};
use opcost_base::exit::{Status, fail};
use opcost_base::message::announce;
use opcost_base::number::{magnitude, percent};
use opcost_command::globals::Globals;
use opcost_command::record::command_line;
use opcost_gate::gate::bisect::{
    BisectStep, BisectedFigure, Bisection, SuspectKind, UntestableSuspects,
};
use opcost_gate::gate::counts::describe;
use opcost_model::recording::Recording;
use opcost_stats::step::StepPosterior;
use opcost_stats::summary;

/// Pairs of runs for one look at a point.
const PAIRS: u32 = 6;
/// The most looks of a search, for each halving that the search would need without noise.
const LOOKS_MAX: usize = 8;
/// Converts the median absolute deviation of normal numbers into their standard deviation.
const MAD_TO_SD: f64 = 1.4826;

/// The comparison of a recording's primary metric.
struct Judged {
    row: Row,
    change: Change,
    /// Logarithms of variant over baseline, pair by pair.
    differences: Vec<f64>,
    conclusion: String,
}

fn judged(recording: &Recording) -> Result<Judged, String> {
    let comparison = compare(recording).0;
    let conclusion = comparison.conclusions.join("; ");
    if comparison.refused() {
        return Err(conclusion);
    }
    let mut rows = comparison.rows.into_iter();
    let Some(row) = rows.find(|row| row.primary) else { return Err(conclusion) };
    let Some(change) = row.changes.first().cloned() else {
        return Err("the runs have no change of it".into());
    };
    let differences = change.paired.as_ref().map(|paired| paired.differences().to_vec());
    let differences = differences.ok_or("its runs cannot be compared in pairs")?;
    Ok(Judged { row, change, differences, conclusion })
}

/// Searches for one step of a figure that varies.
pub(super) fn search(
    globals: &Globals,
    args: &BisectArgs,
    commits: &Commits<'_>,
    walk: &mut Walk<'_>,
    points: &[Point],
) -> Result<Bisection> {
    let mut worker = Worker::open(walk, globals)?;
    let last = points.len() - 1;
    let ends = walk.compared(&mut worker, [&points[0], &points[last]], None)?;
    let ends = ends.map_err(|why| fail(Status::WorkFailed, format!("the ends: {why}")))?;
    let whole = judged(&ends).map_err(|why| fail(Status::NotComparable, why))?;
    if whole.change.verdict != Verdict::Changed {
        let why = format!(
            "{}; give an earlier good or a later bad revision, or more runs with budget in the case",
            whole.conclusion
        );
        return Err(fail(Status::NotComparable, why));
    }
    let (size, scale) = center_and_scale(&whole.differences);
    let mut posterior = StepPosterior::new(last, size, scale);
    let level = args.posterior;
    let halvings = (usize::BITS - (last - 1).leading_zeros()).max(1) as usize;
    let looks_max = halvings * LOOKS_MAX;
    if !globals.quiet {
        announce!(
            "{}; {last} commits to search take {halvings} to {looks_max} looks of {PAIRS} pairs",
            whole.conclusion
        );
    }
    let mut untestable: Vec<(usize, String)> = Vec::new();
    let mut counted = 2;
    for look in 0..looks_max {
        if posterior.credible(level).len() <= 1 {
            break;
        }
        let can = |point: &usize| untestable.iter().all(|(other, _)| other != point);
        let Some(point) = posterior.next((1..last).filter(can)) else { break };
        counted += 1;
        let sides = [&points[0], &points[point]];
        let look = Some((PAIRS, look as u64 + 1));
        let found = walk.compared(&mut worker, sides, look)?;
        let found = found.and_then(|recording| judged(&recording));
        let shown = points[point].suspect.shown();
        match found {
            Err(why) => {
                announce!("{shown} cannot be tested: {}", why.lines().next().unwrap_or_default());
                untestable.push((point, why));
            }
            Ok(found) => {
                posterior.learn(point, &found.differences);
                let best = posterior.credible(level);
                if !globals.quiet {
                    let change = found.change.change_ratio.map_or("?".into(), percent);
                    announce!(
                        "{shown}: {change} against the good end; {} {} left at {}",
                        best.len(),
                        SuspectKind::Commit.words(best.len()),
                        magnitude(level)
                    );
                }
            }
        }
    }
    let places = posterior.credible(level);
    let probability: f64 = posterior.probabilities()[places.clone()].iter().sum();
    let suspects = points[places.start + 1..=places.end].iter().map(|point| &point.suspect);
    let value = |side: usize| {
        let figures = whole.row.values.get(side).and_then(Option::as_ref);
        figures.map_or(0, |figures| figures.center().max(0.0).round() as u64)
    };
    let values = [value(0), value(1)];
    let check = match places.len() {
        // The posterior says how sure the place is, so the check need not confirm a change.
        1 => Some(walk.check(&mut worker, [&points[places.start], &points[places.end]], 0, &[])?),
        _ => None,
    };
    let note = format!(
        "the figure varies, so one step was assumed; it lies here with a probability of {}",
        magnitude(probability)
    );
    Ok(Bisection {
        case: commits.case.name.clone(),
        work: describe(&ends),
        kind: SuspectKind::Commit,
        ends: [&points[0], &points[last]].map(|point| point.suspect.clone()),
        figure: BisectedFigure {
            name: whole.row.label.clone(),
            unit: whole.row.unit,
            better: whole.row.better,
            values,
            floor: None,
            least_step: 0,
        },
        points: last,
        counted,
        known: walk.known,
        steps: vec![BisectStep {
            check,
            ..BisectStep::between(
                suspects,
                values[0],
                i128::from(values[1]) - i128::from(values[0]),
            )
        }],
        rest: 0,
        explained: 1.0,
        ended: None,
        untestable: untestable
            .into_iter()
            .map(|(point, why)| UntestableSuspects {
                tried: vec![points[point].suspect.clone()],
                count: 1,
                why,
            })
            .collect(),
        notes: vec![note],
        command: command_line(None),
    })
}

/// The median of the differences, and their scatter around it.
fn center_and_scale(differences: &[f64]) -> (f64, f64) {
    let center = summary::median(differences).unwrap_or(0.0);
    // The scatter is never 0, even if all differences are alike.
    let scale = MAD_TO_SD * summary::mad(differences).unwrap_or(0.0);
    (center, scale.max(center.abs() / 100.0))
}

impl Walk<'_> {
    /// Compares two points run by run; `Err` within says why they cannot be compared.
    ///
    /// `look`: the number of pairs, and the number of the look, which draws another order; `None`: as the case says.
    fn compared(
        &mut self,
        worker: &mut Worker<'_>,
        sides: [&Point; 2],
        look: Option<(u32, u64)>,
    ) -> Result<Result<Recording, String>> {
        match self.compare(worker, sides, look) {
            Ok(recording) => Ok(Ok(recording)),
            Err(error) => match status_of(&error) {
                Some(Status::WorkFailed | Status::NotComparable) => Ok(Err(in_words(&error))),
                _ => Err(error),
            },
        }
    }
}
