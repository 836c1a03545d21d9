//! The effect of each commit of a series on each figure of a suite; the changes add up to the total.

use super::exact::ExactChange;
use super::floor::Floor;
use super::report::{FigureReport, Outcome, RevisionSide};
use opcost_record::{Better, Unit};

/// A series of commits.
#[derive(Clone, Debug)]
pub struct Series {
    /// The revision before the first commit; it has the first values.
    pub base: RevisionSide,
    /// The range as the user gave it: `release..HEAD`.
    pub range: String,
    /// The figures, the columns of a table.
    pub figures: Vec<SeriesFigure>,
    /// The commits, the oldest first.
    pub rows: Vec<SeriesRow>,
    /// Notes that the reader should know beside the table.
    pub notes: Vec<String>,
}

/// One figure, with its value at the base.
#[derive(Clone, Debug)]
pub struct SeriesFigure {
    /// The case.
    pub case: String,
    /// The metric.
    pub metric: String,
    /// The unit.
    pub unit: Unit,
    /// The direction that is better.
    pub better: Better,
    /// The value at the base, or why there is none.
    pub base: Result<u64, String>,
    /// How far seeds and layouts alone move the figure.
    pub floor: Option<Floor>,
}

/// One commit.
#[derive(Clone, Debug)]
pub struct SeriesRow {
    /// The commit.
    pub side: RevisionSide,
    /// The values of the figures, in their order; an error says why there is none.
    pub values: Vec<Result<u64, String>>,
    /// For each figure, the functions that changed exactly since the last commit with a value.
    pub functions: Vec<Vec<ExactChange>>,
}

/// The effect of a commit on a figure.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// The change since the last commit with a value.
    Changed {
        /// The change.
        change: i128,
        /// The value before the change.
        from: u64,
        /// Whether seeds and layouts alone move the figure as far.
        within_floor: bool,
    },
    /// The commit or its predecessors have no value; the text says why.
    Unknown(String),
}

impl Series {
    /// The effect of each commit on a figure.
    pub fn steps(&self, figure: usize) -> Vec<Step> {
        let SeriesFigure { base, floor, .. } = &self.figures[figure];
        let mut last = base.clone();
        let steps = self.rows.iter().map(|row| match (&last, &row.values[figure]) {
            (_, Err(why)) => Step::Unknown(why.clone()),
            (Err(why), Ok(value)) => {
                let step = Step::Unknown(format!("nothing to compare with: {why}"));
                last = Ok(*value);
                step
            }
            (Ok(from), Ok(value)) => {
                let from = *from;
                last = Ok(*value);
                Self::step(from, *value, *floor)
            }
        });
        steps.collect()
    }

    /// The effect of all commits together on a figure: the sum of the steps; unknown if the last commit has no value.
    pub fn total(&self, figure: usize) -> Step {
        let SeriesFigure { base, floor, .. } = &self.figures[figure];
        match (base, self.rows.last().map(|row| &row.values[figure])) {
            (Ok(from), Some(Ok(value))) => Self::step(*from, *value, *floor),
            (Err(why), _) | (_, Some(Err(why))) => Step::Unknown(why.clone()),
            (_, None) => Step::Unknown("there is no commit".into()),
        }
    }

    fn step(from: u64, value: u64, floor: Option<Floor>) -> Step {
        let change = i128::from(value) - i128::from(from);
        let within = floor.is_some_and(|floor| change.unsigned_abs() <= u128::from(floor.most));
        Step::Changed { change, from, within_floor: within }
    }

    /// The figures that a commit changed beyond the layout floor, in which it changed a function exactly, or for which it has no value;
    /// then the other figures.
    pub fn changed(&self) -> (Vec<usize>, Vec<usize>) {
        let is_still = |step: &Step| {
            matches!(
                step,
                Step::Changed { within_floor: true, .. } | Step::Changed { change: 0, .. }
            )
        };
        let exact = |figure: usize| self.rows.iter().any(|row| !row.functions[figure].is_empty());
        (0..self.figures.len())
            .partition(|figure| exact(*figure) || !self.steps(*figure).iter().all(is_still))
    }

    /// Why commits have no values: each reason once, with its commits.
    pub fn reasons(&self) -> Vec<(String, Vec<String>)> {
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        for row in &self.rows {
            for why in row.values.iter().filter_map(|value| value.as_ref().err()) {
                let commit = opcost_kernel::short_commit(&row.side.commit).to_string();
                match reasons.iter_mut().find(|(known, _)| known == why) {
                    Some((_, commits)) if commits.contains(&commit) => {}
                    Some((_, commits)) => commits.push(commit),
                    None => reasons.push((why.clone(), vec![commit])),
                }
            }
        }
        reasons
    }
}

/// A step in the form of a gate's report.
pub fn as_figure(figure: &SeriesFigure, change: i128, from: u64) -> FigureReport {
    FigureReport {
        metric: figure.metric.clone(),
        unit: figure.unit,
        better: figure.better,
        baseline: Some(from as f64),
        value: Some(from as f64 + change as f64),
        floor: figure.floor,
        exact: None,
        in_layouts: None,
        over_commits: None,
        limit: None,
        outcome: Outcome::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(base: Result<u64, &str>, values: &[Result<u64, &str>]) -> Series {
        let owned = |value: &Result<u64, &str>| value.map_err(String::from);
        let figure = SeriesFigure {
            case: "parse".into(),
            metric: "instructions".into(),
            unit: Unit::Count,
            better: Better::Lower,
            base: owned(&base),
            floor: Some(Floor { most: 10, layouts: Some(11) }),
        };
        let rows = values.iter().map(|value| SeriesRow {
            side: RevisionSide { commit: "c0ffee".into(), ..RevisionSide::default() },
            values: vec![owned(value)],
            functions: vec![Vec::new()],
        });
        Series {
            base: RevisionSide::default(),
            range: String::new(),
            figures: vec![figure],
            rows: rows.collect(),
            notes: Vec::new(),
        }
    }

    fn changes(steps: &[Step]) -> Vec<Option<i128>> {
        let change = |step: &Step| match step {
            Step::Changed { change, .. } => Some(*change),
            Step::Unknown(_) => None,
        };
        steps.iter().map(change).collect()
    }

    #[test]
    fn steps_add_up_to_the_total() {
        let of = series(Ok(100), &[Ok(150), Err("it does not build"), Ok(140), Ok(140), Ok(90)]);
        let steps = of.steps(0);
        assert_eq!(changes(&steps), [Some(50), None, Some(-10), Some(0), Some(-50)]);
        assert!(matches!(steps[2], Step::Changed { from: 150, within_floor: true, .. }));
        let sum: i128 = changes(&steps).into_iter().flatten().sum();
        assert_eq!(changes(&[of.total(0)]), [Some(sum)]);
        assert_eq!(of.changed(), (vec![0], vec![]));
        assert_eq!(of.reasons(), [("it does not build".to_string(), vec!["c0ffee".to_string()])]);
    }

    #[test]
    fn what_has_no_value_has_no_change() {
        let of = series(Err("it does not build"), &[Ok(150), Ok(150)]);
        assert_eq!(changes(&of.steps(0)), [None, Some(0)]);
        assert_eq!(changes(&[of.total(0)]), [None]);
        let of = series(Ok(1), &[Ok(1), Err("it does not build")]);
        assert_eq!(changes(&[of.total(0)]), [None]);
        let still = series(Ok(100), &[Ok(105), Ok(100)]);
        assert_eq!(still.changed(), (vec![], vec![0]));
        // A function that layouts do not move says what the total within its floor cannot.
        let mut exact = still;
        exact.rows[0].functions[0].push(ExactChange {
            function: "do_mmap".into(),
            own: [500, 507],
            calls: [1, 1],
            is_kernel: true,
        });
        assert_eq!(exact.changed(), (vec![0], vec![]));
    }
}
