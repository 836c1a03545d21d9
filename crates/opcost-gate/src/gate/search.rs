//! The search for every step along a line of points: commits from a good one to a bad one, or configurations on the way from one to
//! another.
//!
//! Counts repeat, so one count for each point is enough. If two counted points have different figures, a step lies between them,
//! and the search halves the stretch between them like git bisect. A value that equals neither end leaves two stretches to search.
//! The search therefore finds every step, whatever its sign. Points between two points with equal figures are not counted.
//!
//! **A bisection watches functions, too.** Two changes that cancel leave no trace in the total, but each moves a function. A
//! point's figures are therefore the total and the functions that moved between the ends, and the search halves a stretch
//! while any figure differs.

use std::collections::BTreeMap;

/// The figures of a point by name; a missing figure is 0.
pub type Figures = BTreeMap<String, u64>;

/// The known figures of each point.
#[derive(Clone, Debug)]
pub struct Search {
    points: Vec<Option<Result<Figures, String>>>,
    /// The largest move of each figure that is not a step; 0 if a figure is missing.
    floors: Figures,
}

/// A step between two counted points.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// The last point before the step.
    pub from: usize,
    /// The first point after the step. Points between the two cannot be tested.
    pub to: usize,
}

impl Search {
    /// Creates a search over `points` points of which none is known.
    ///
    /// `floors`: how far each figure moves without a cause.
    pub fn new(points: usize, floors: Figures) -> Search {
        Search { points: vec![None; points], floors }
    }

    /// Stores the result of a point: its figures, or why it has none.
    pub fn learn(&mut self, point: usize, found: Result<Figures, String>) {
        self.points[point] = Some(found);
    }

    /// The figures of a point, if it has any.
    pub fn figures(&self, point: usize) -> Option<&Figures> {
        self.points[point].as_ref()?.as_ref().ok()
    }

    /// The points without figures, each with the reason.
    pub fn untestable(&self) -> impl Iterator<Item = (usize, &str)> {
        self.points.iter().enumerate().filter_map(|(point, found)| match found {
            Some(Err(why)) => Some((point, why.as_str())),
            _ => None,
        })
    }

    /// The number of points with a result.
    pub fn looked_at(&self) -> usize {
        self.points.iter().flatten().count()
    }

    /// The change of a figure from one counted point to another.
    pub fn change(&self, from: usize, to: usize, figure: &str) -> i128 {
        let of = |point| self.figures(point).and_then(|figures| figures.get(figure)).copied();
        i128::from(of(to).unwrap_or(0)) - i128::from(of(from).unwrap_or(0))
    }

    /// Whether a figure differs between two counted points by more than it moves without a cause.
    pub fn moves(&self, from: usize, to: usize, figure: &str) -> bool {
        let floor = self.floors.get(figure).copied().unwrap_or(0);
        self.change(from, to, figure).unsigned_abs() > u128::from(floor)
    }

    /// The names of the figures that differ between two counted points.
    pub fn moved(&self, from: usize, to: usize) -> Vec<&str> {
        let of = |point| self.figures(point).into_iter().flat_map(BTreeMap::keys);
        let mut names: Vec<&str> = of(from).chain(of(to)).map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.moves(from, to, name));
        names
    }

    /// The stretches between neighbouring counted points that differ. When no points are left to count, these are the steps.
    pub fn steps(&self) -> Vec<Found> {
        let counted: Vec<usize> =
            (0..self.points.len()).filter(|point| self.figures(*point).is_some()).collect();
        let pairs = counted.windows(2).map(|pair| Found { from: pair[0], to: pair[1] });
        pairs.filter(|pair| !self.moved(pair.from, pair.to).is_empty()).collect()
    }

    fn unknown(&self, stretch: &Found) -> Vec<usize> {
        (stretch.from + 1..stretch.to).filter(|point| self.points[*point].is_none()).collect()
    }

    /// The points to count next, at most `most`; none when the search is done.
    ///
    /// Several points cut the stretches evenly, the longest stretch first.
    pub fn next(&self, most: usize) -> Vec<usize> {
        let mut open: Vec<(Found, Vec<usize>, usize)> = self
            .steps()
            .into_iter()
            .map(|stretch| (stretch.clone(), self.unknown(&stretch), 0))
            .filter(|(_, unknown, _)| !unknown.is_empty())
            .collect();
        for _ in 0..most {
            // The stretch with the longest pieces gets the next cut; among equals, the oldest stretch.
            let longest = open.iter_mut().rev().filter(|(_, unknown, cuts)| *cuts < unknown.len());
            let longest = longest.max_by_key(|(stretch, _, cuts)| {
                ((stretch.to - stretch.from) * 1000 / (*cuts + 1), usize::MAX - stretch.from)
            });
            let Some((_, _, cuts)) = longest else { break };
            *cuts += 1;
        }
        let mut next = Vec::new();
        for (stretch, mut unknown, cuts) in open {
            for cut in 1..=cuts {
                let wanted = stretch.from + (stretch.to - stretch.from) * cut / (cuts + 1);
                let by_distance = |(_, point): &(usize, &usize)| point.abs_diff(wanted);
                let nearest = unknown.iter().enumerate().min_by_key(by_distance);
                next.extend(nearest.map(|(at, _)| at).map(|at| unknown.remove(at)));
            }
        }
        next
    }

    /// The number of further points to count if each differing stretch has one step.
    pub fn cost(&self) -> usize {
        let of =
            |stretch: &Found| (usize::BITS - self.unknown(stretch).len().leading_zeros()) as usize;
        self.steps().iter().map(of).sum()
    }

    /// The part of a figure's change from the first to the last point that its steps do not explain. It consists of moves no larger
    /// than the figure makes without a cause.
    pub fn rest(&self, figure: &str) -> i128 {
        let last = self.points.len() - 1;
        let steps = self.steps();
        let found: i128 = steps.iter().map(|step| self.change(step.from, step.to, figure)).sum();
        self.change(0, last, figure) - found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figures(value: u64) -> Figures {
        [("count".to_string(), value)].into()
    }

    /// Searches along known values; a `None` cannot be tested. Also returns how many points besides the ends were counted.
    fn search(values: &[Option<u64>], floor: u64, jobs: usize) -> (Search, usize) {
        let mut search = Search::new(values.len(), [("count".to_string(), floor)].into());
        let learn = |search: &mut Search, point: usize| {
            search.learn(point, values[point].map(figures).ok_or("does not build".to_string()));
        };
        learn(&mut search, 0);
        learn(&mut search, values.len() - 1);
        let mut looked = 0;
        loop {
            let next = search.next(jobs);
            assert!(next.len() <= jobs);
            if next.is_empty() {
                return (search, looked);
            }
            for point in next {
                learn(&mut search, point);
                looked += 1;
            }
        }
    }

    #[test]
    fn one_step_costs_the_logarithm() {
        let values: Vec<Option<u64>> =
            (0..17).map(|at| Some(if at < 11 { 100 } else { 105 })).collect();
        let mut ends = Search::new(17, Figures::new());
        ends.learn(0, Ok(figures(100)));
        ends.learn(16, Ok(figures(105)));
        assert_eq!(ends.cost(), 4);
        let (found, looked) = search(&values, 2, 1);
        assert_eq!(found.steps(), [Found { from: 10, to: 11 }]);
        assert_eq!((looked, found.cost(), found.rest("count")), (4, 0, 0));
        assert_eq!(found.change(10, 11, "count"), 5);
    }

    #[test]
    fn a_value_that_is_neither_ends_is_two_steps() {
        let values = [100, 100, 130, 130, 130, 130, 110, 110, 110].map(Some);
        let (found, _) = search(&values, 0, 1);
        assert_eq!(found.steps(), [Found { from: 1, to: 2 }, Found { from: 5, to: 6 }]);
        assert_eq!(found.change(5, 6, "count"), -20);
    }

    #[test]
    fn what_cannot_be_tested_makes_a_step_of_several() {
        let values = [Some(1), Some(1), None, None, Some(9), Some(9)];
        let (found, looked) = search(&values, 0, 1);
        assert_eq!(found.steps(), [Found { from: 1, to: 4 }]);
        assert_eq!(found.untestable().count(), 2);
        assert_eq!(looked, 4);
        let (found, _) = search(&[Some(1), None, None, Some(2)], 0, 2);
        assert_eq!(found.steps(), [Found { from: 0, to: 3 }]);
    }

    #[test]
    fn what_drifts_below_the_floor_is_left_over() {
        let values: Vec<Option<u64>> = (0..9).map(|at| Some(100 + 2 * at)).collect();
        let (found, _) = search(&values, 8, 1);
        assert_eq!((found.steps(), found.rest("count")), (vec![], 16));
    }

    #[test]
    fn one_figure_finds_what_cancels_in_another() {
        let of = |total: u64, mix: u64| -> Figures {
            [("total".to_string(), total), ("mix".to_string(), mix)].into()
        };
        let values = [of(10, 1), of(10, 1), of(14, 5), of(14, 5), of(10, 5), of(10, 5), of(10, 5)];
        let mut search = Search::new(7, Figures::new());
        search.learn(0, Ok(values[0].clone()));
        search.learn(6, Ok(values[6].clone()));
        while let [point] = search.next(1)[..] {
            search.learn(point, Ok(values[point].clone()));
        }
        assert_eq!(search.steps()[0], Found { from: 1, to: 2 });
        assert_eq!(search.moved(1, 2), ["mix", "total"]);
        assert_eq!(search.moved(0, 6), ["mix"]);
    }

    proptest! {
        #[test]
        fn steps_add_up_and_none_is_missed(
            steps in prop::collection::vec(prop_oneof![4 => Just(0u64), 1 => 1u64..9], 1..60),
            broken in prop::collection::vec(prop::bool::weighted(0.15), 60),
            jobs in 1usize..5,
        ) {
            // Steps of one sign cannot cancel, so each is seen from the ends.
            let mut level = 100;
            let mut values = vec![Some(level)];
            for (at, step) in steps.iter().enumerate() {
                level += step;
                values.push(Some(level).filter(|_| !broken[at] || at + 1 == steps.len()));
            }
            let (found, _) = search(&values, 0, jobs);
            let total: i128 = found.steps().iter().map(|step| found.change(step.from, step.to, "count")).sum();
            prop_assert_eq!(total, i128::from(level) - 100);
            prop_assert_eq!(found.rest("count"), 0);
            for step in found.steps() {
                prop_assert!(values[step.from + 1..step.to].iter().all(Option::is_none));
            }
            let real = steps.iter().filter(|step| **step > 0).count();
            prop_assert!(found.steps().len() <= real);
            if broken.iter().all(|broken| !broken) {
                prop_assert_eq!(found.steps().len(), real);
            }
        }

        #[test]
        fn any_values_end_the_search(
            values in prop::collection::vec(prop::option::weighted(0.8, 0u64..4), 2..40),
            jobs in 1usize..4,
        ) {
            let mut values = values;
            let last = values.len() - 1;
            (values[0], values[last]) = (Some(1), Some(2));
            let (found, looked) = search(&values, 0, jobs);
            prop_assert!(looked < last);
            let total: i128 = found.steps().iter().map(|step| found.change(step.from, step.to, "count")).sum();
            prop_assert_eq!(total, 1);
        }
    }
}
