//! The search for every step along a line of points: commits from a good one to a bad one, or configurations on the way from one to
//! another.
//!
//! Counts repeat, so one count for each point is enough. If two counted points have different figures, a step lies between them,
//! and the search halves the stretch between them like git bisect. A value that equals neither end leaves two stretches to search.
//! The search therefore finds every step, whatever its sign. Points between two points with equal figures are not counted.
//!
//! **The largest open change is split first**, not the longest stretch. The first culprit therefore costs what git bisect would
//! need for it, and the search may end as soon as its steps explain most of the change ([`Goal`]).
//!
//! **The search leaps over points that cannot be tested.** They come in stretches: a missing header breaks every commit until
//! somebody adds it. After a failure the search halves the way to the counted points outside. Points between two failures
//! wait until nothing else is left, and then only a few of them are tried.
//!
//! **A bisection watches functions, too.** Two changes that cancel leave no trace in the total, but each moves a function. A
//! point's figures are therefore the total and the functions that moved between the ends, and the search halves a stretch
//! while any figure differs.

use std::collections::{BTreeMap, BTreeSet};

/// The figures of a point by name; a missing figure is 0.
pub type Figures = BTreeMap<String, u64>;

/// The number of neighbouring points that may fail before the rest is leapt over, beside the binary logarithm of their number.
const TRIES_BETWEEN_FAILURES: usize = 3;
/// The gap behind the last failure is halved first, unless another is longer by more than this factor: newer commits build more
/// often than older ones.
const PREFERENCE: usize = 4;

/// Why a point has no figures.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Untestable {
    /// The failure without the names of the point: points that fail alike have equal causes.
    pub cause: String,
    /// The failure in words.
    pub why: String,
}

/// When a search may end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// As soon as steps of one point each explain this part of the change, from 0 to 1.
    Explained(f64),
    /// As soon as the largest changes, this many, are steps of one point each.
    Largest(usize),
}

/// The known figures of each point.
#[derive(Clone, Debug)]
pub struct Search {
    points: usize,
    known: BTreeMap<usize, Result<Figures, Untestable>>,
    /// The name of the figure that is reported first.
    main: String,
    /// The largest move of each figure that is not a step; 0 if a figure is missing.
    floors: Figures,
}

/// A step between two counted points.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// The last point before the step.
    pub from: usize,
    /// The first point after the step. Points between the two cannot be tested, or are not counted yet.
    pub to: usize,
}

/// Neighbouring points that fail alike. Points between them that nobody tried count with them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failures {
    /// The points that were tried; the first and the last of the group are among them.
    pub tried: Vec<usize>,
    /// Why the first of them has no figures.
    pub why: String,
}

/// The points between two others that have no result yet.
struct Gap {
    from: usize,
    to: usize,
    /// How the gap compares with others of its stretch.
    weight: usize,
}

impl Gap {
    fn len(&self) -> usize {
        self.to - self.from - 1
    }
}

impl Search {
    /// Creates a search over `points` points of which none is known.
    ///
    /// `main`: the figure that is reported first; `floors`: how far each figure moves without a cause.
    pub fn new(points: usize, main: &str, floors: Figures) -> Search {
        Search { points, known: BTreeMap::new(), main: main.into(), floors }
    }

    /// Stores the result of a point: its figures, or why it has none.
    pub fn learn(&mut self, point: usize, found: Result<Figures, Untestable>) {
        self.known.insert(point, found);
    }

    /// The figures of a point, if it has any.
    pub fn figures(&self, point: usize) -> Option<&Figures> {
        self.known.get(&point)?.as_ref().ok()
    }

    /// The points without figures, each with the reason.
    pub fn untestable(&self) -> impl Iterator<Item = (usize, &Untestable)> {
        self.known.iter().filter_map(|(point, found)| Some((*point, found.as_ref().err()?)))
    }

    /// The points without figures, grouped.
    pub fn failures(&self) -> Vec<Failures> {
        let mut groups: Vec<(Failures, &str)> = Vec::new();
        let mut is_next = false;
        for (point, found) in &self.known {
            let Err(untestable) = found else {
                is_next = false;
                continue;
            };
            match groups.last_mut().filter(|(_, cause)| is_next && *cause == untestable.cause) {
                Some((group, _)) => group.tried.push(*point),
                None => {
                    let group = Failures { tried: vec![*point], why: untestable.why.clone() };
                    groups.push((group, &untestable.cause));
                }
            }
            is_next = true;
        }
        groups.into_iter().map(|(group, _)| group).collect()
    }

    /// The number of points with a result.
    pub fn looked_at(&self) -> usize {
        self.known.len()
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

    /// How far the figures of a stretch move: the main figure, and the others together.
    fn moves_of(&self, stretch: &Found) -> [u128; 2] {
        let Found { from, to } = *stretch;
        let mut sizes = [0, 0];
        for name in self.moved(from, to) {
            let size = self.change(from, to, name).unsigned_abs();
            sizes[usize::from(name != self.main)] += size;
        }
        sizes
    }

    fn size(&self, stretch: &Found) -> u128 {
        self.moves_of(stretch).into_iter().max().unwrap_or(0)
    }

    /// The stretches between neighbouring counted points that differ. When no points are left to count, these are the steps.
    pub fn steps(&self) -> Vec<Found> {
        let known = self.known.iter();
        let counted: Vec<usize> =
            known.filter_map(|(point, found)| found.is_ok().then_some(*point)).collect();
        let pairs = counted.windows(2).map(|pair| Found { from: pair[0], to: pair[1] });
        pairs.filter(|pair| !self.moved(pair.from, pair.to).is_empty()).collect()
    }

    /// Whether a stretch has points that are worth counting.
    pub fn is_open(&self, stretch: &Found) -> bool {
        !self.gaps(stretch, &BTreeSet::new()).is_empty()
    }

    /// The gaps of a stretch that are worth counting. `taken`: points that are chosen already.
    fn gaps(&self, stretch: &Found, taken: &BTreeSet<usize>) -> Vec<Gap> {
        let Found { from, to } = *stretch;
        let cause = |point: usize| self.known.get(&point)?.as_ref().err().map(|of| &of.cause);
        let inside = self.known.range(from + 1..to).map(|(point, _)| *point);
        let mut marks: Vec<usize> = inside.chain(taken.range(from + 1..to).copied()).collect();
        marks.sort_unstable();
        let bounds: Vec<usize> = [from].into_iter().chain(marks).chain([to]).collect();
        let both_fail = |one: usize, other: usize| cause(one).is_some() && cause(other).is_some();
        // Failures next to one another: enough of their points were tried if each try halved them.
        let groups = bounds.chunk_by(|one, other| both_fail(*one, *other));
        let settled: Vec<(usize, usize)> = groups
            .filter(|group| {
                let length = group[group.len() - 1] - group[0] + 1;
                group.len() >= TRIES_BETWEEN_FAILURES + length.ilog2() as usize
            })
            .map(|group| (group[0], group[group.len() - 1]))
            .collect();
        let pairs = bounds.windows(2).filter(|pair| pair[1] - pair[0] > 1);
        let (between, outside): (Vec<_>, Vec<_>) =
            pairs.partition(|pair| both_fail(pair[0], pair[1]));
        let is_settled = |pair: &&[usize]| {
            settled.iter().any(|(one, other)| *one <= pair[0] && pair[1] <= *other)
        };
        let pairs = match outside.is_empty() {
            true => between.into_iter().filter(|pair| !is_settled(pair)).collect(),
            false => outside,
        };
        let gap = |pair: &[usize]| {
            let is_newest = pair[1] == to && pair[0] != from && cause(pair[0]).is_some();
            // Between failures of different causes there may be a point that has neither.
            let is_change = both_fail(pair[0], pair[1]) && cause(pair[0]) != cause(pair[1]);
            let factor = if is_newest || is_change { PREFERENCE } else { 1 };
            Gap { from: pair[0], to: pair[1], weight: (pair[1] - pair[0] - 1) * factor }
        };
        pairs.into_iter().map(gap).collect()
    }

    /// The part of the change that steps of one point each, or of points that cannot be told apart, explain: from 0 to 1.
    pub fn explained(&self) -> f64 {
        self.explained_with(None)
    }

    /// The same, as if a stretch were a step.
    fn explained_with(&self, step: Option<&Found>) -> f64 {
        let (mut whole, mut found) = ([0, 0], [0, 0]);
        for stretch in self.steps() {
            let is_open = step != Some(&stretch) && self.is_open(&stretch);
            for (at, size) in self.moves_of(&stretch).into_iter().enumerate() {
                whole[at] += size;
                found[at] += if is_open { 0 } else { size };
            }
        }
        let parts = whole.into_iter().zip(found).filter(|(whole, _)| *whole > 0);
        parts.map(|(whole, found)| found as f64 / whole as f64).fold(1.0, f64::min)
    }

    /// The open stretches, the largest change first; none if the search has reached its goal.
    ///
    /// `step`: a stretch that counts as a step.
    fn open(&self, goal: Goal, step: Option<&Found>) -> Vec<Found> {
        let is_open = |stretch: &Found| step != Some(stretch) && self.is_open(stretch);
        let (mut open, closed): (Vec<Found>, Vec<Found>) =
            self.steps().into_iter().partition(is_open);
        match goal {
            Goal::Explained(part) if self.explained_with(step) >= part => return Vec::new(),
            Goal::Explained(_) => {}
            Goal::Largest(most) => {
                let mut sizes: Vec<u128> = closed.iter().map(|step| self.size(step)).collect();
                sizes.sort_unstable_by(|one, other| other.cmp(one));
                // A smaller stretch cannot have a step that belongs to the largest ones, unless others cancel it.
                let least = most.checked_sub(1).and_then(|last| sizes.get(last)).copied();
                open.retain(|stretch| least.is_none_or(|least| self.size(stretch) > least));
            }
        }
        open.sort_by_key(|stretch| std::cmp::Reverse(self.size(stretch)));
        open
    }

    /// The points to count next, at most `most`; none when the search has reached its goal.
    ///
    /// Several points cut the stretches with the largest changes.
    pub fn next(&self, goal: Goal, most: usize) -> Vec<usize> {
        let open = self.open(goal, None);
        let mut taken = vec![BTreeSet::new(); open.len()];
        for _ in 0..most {
            // Each cut divides the change that a piece of a stretch is expected to have.
            let pieces = open.iter().zip(&taken).enumerate();
            let largest = pieces
                .filter(|(_, (stretch, taken))| !self.gaps(stretch, taken).is_empty())
                .max_by_key(|(at, (stretch, taken))| {
                    (self.size(stretch) / (taken.len() as u128 + 1), std::cmp::Reverse(*at))
                });
            let Some((at, _)) = largest else { break };
            let cuts = taken[at].len() + 1;
            taken[at] = self.cuts(&open[at], cuts);
        }
        taken.into_iter().flatten().collect()
    }

    /// The point of another stretch that is counted next even if the stretch around `point` has one step only; `None` if the
    /// search ends then, or has no other stretch.
    pub fn needed_beside(&self, goal: Goal, point: usize) -> Option<usize> {
        let steps = self.steps();
        let around = steps.iter().find(|stretch| (stretch.from..stretch.to).contains(&point))?;
        let other = self.open(goal, Some(around)).into_iter().next()?;
        self.cuts(&other, 1).into_iter().next()
    }

    /// So many points of a stretch: spread evenly over a stretch without failures, else in the middle of its gaps.
    fn cuts(&self, stretch: &Found, cuts: usize) -> BTreeSet<usize> {
        let Found { from, to } = *stretch;
        if self.known.range(from + 1..to).next().is_none() {
            return (1..=cuts).map(|cut| from + (to - from) * cut / (cuts + 1)).collect();
        }
        let mut taken = BTreeSet::new();
        for _ in 0..cuts {
            let gaps = self.gaps(stretch, &taken);
            let Some(gap) = gaps.iter().max_by_key(|gap| (gap.weight, gap.from)) else { break };
            taken.insert(gap.from + (gap.to - gap.from) / 2);
        }
        taken
    }

    /// The number of further points to count if each differing stretch has one step.
    pub fn cost(&self) -> usize {
        let of = |stretch: &Found| {
            let gaps = self.gaps(stretch, &BTreeSet::new());
            let unknown: usize = gaps.iter().map(Gap::len).sum();
            (usize::BITS - unknown.leading_zeros()) as usize
        };
        self.steps().iter().map(of).sum()
    }

    /// The part of a figure's change from the first to the last point that its steps do not explain. It consists of moves no larger
    /// than the figure makes without a cause.
    pub fn rest(&self, figure: &str) -> i128 {
        let steps = self.steps();
        let found: i128 = steps.iter().map(|step| self.change(step.from, step.to, figure)).sum();
        self.change(0, self.points - 1, figure) - found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: Goal = Goal::Explained(1.0);

    fn figures(value: u64) -> Figures {
        [("count".to_string(), value)].into()
    }

    fn failure(cause: &str) -> Untestable {
        Untestable { cause: cause.into(), why: format!("it {cause}") }
    }

    /// Searches along known values; a `None` cannot be tested. Also returns how many points besides the ends were counted.
    fn search_for(
        goal: Goal,
        values: &[Option<u64>],
        floor: u64,
        jobs: usize,
    ) -> (Search, Vec<usize>) {
        let floors = [("count".to_string(), floor)].into();
        let mut search = Search::new(values.len(), "count", floors);
        let learn = |search: &mut Search, point: usize| {
            search.learn(point, values[point].map(figures).ok_or(failure("does not build")));
        };
        learn(&mut search, 0);
        learn(&mut search, values.len() - 1);
        let mut looked = Vec::new();
        loop {
            let next = search.next(goal, jobs);
            assert!(next.len() <= jobs);
            if next.is_empty() {
                return (search, looked);
            }
            for point in next {
                assert!(!looked.contains(&point), "{point} is counted twice");
                learn(&mut search, point);
                looked.push(point);
            }
        }
    }

    fn search(values: &[Option<u64>], floor: u64, jobs: usize) -> (Search, usize) {
        let (search, looked) = search_for(ALL, values, floor, jobs);
        (search, looked.len())
    }

    #[test]
    fn one_step_costs_the_logarithm() {
        let values: Vec<Option<u64>> =
            (0..17).map(|at| Some(if at < 11 { 100 } else { 105 })).collect();
        let mut ends = Search::new(17, "count", Figures::new());
        ends.learn(0, Ok(figures(100)));
        ends.learn(16, Ok(figures(105)));
        assert_eq!((ends.cost(), ends.explained()), (4, 0.0));
        let (found, looked) = search(&values, 2, 1);
        assert_eq!(found.steps(), [Found { from: 10, to: 11 }]);
        assert_eq!((looked, found.cost(), found.rest("count")), (4, 0, 0));
        assert_eq!((found.change(10, 11, "count"), found.explained()), (5, 1.0));
    }

    #[test]
    fn a_value_that_is_neither_ends_is_two_steps() {
        let values = [100, 100, 130, 130, 130, 130, 110, 110, 110].map(Some);
        let (found, _) = search(&values, 0, 1);
        assert_eq!(found.steps(), [Found { from: 1, to: 2 }, Found { from: 5, to: 6 }]);
        assert_eq!(found.change(5, 6, "count"), -20);
    }

    #[test]
    fn the_largest_change_is_found_first_in_as_many_counts_as_git_needs() {
        // A step at 90 makes 86 % of the change; twenty small ones are spread over the other commits.
        let level = |at: usize| 157 + (at as u64 / 5) * 7 + if at >= 90 { 800 } else { 0 };
        let values: Vec<Option<u64>> = (0..99).map(|at| Some(level(at))).collect();
        let (found, looked) = search_for(Goal::Explained(0.8), &values, 0, 1);
        assert!(found.steps().contains(&Found { from: 89, to: 90 }), "{:?}", found.steps());
        // git bisect halves 98 commits in seven steps.
        assert_eq!(looked.len(), 7, "{looked:?}");
        assert!(found.explained() > 0.8 && found.explained() < 0.9, "{}", found.explained());
        let open = found.steps().into_iter().filter(|stretch| found.is_open(stretch));
        assert!(open.count() > 1, "the small steps are left open");
        let mut halved = Search::new(99, "count", Figures::new());
        for at in [0, 49, 98] {
            halved.learn(at, Ok(figures(values[at].unwrap())));
        }
        assert_eq!(halved.next(Goal::Explained(0.8), 1), [73]);
        assert_eq!(halved.needed_beside(Goal::Explained(0.8), 73), None, "one step would do");
        assert_eq!(halved.needed_beside(ALL, 73), Some(24));
        assert_eq!(halved.needed_beside(Goal::Largest(2), 73), Some(24));
        let (largest, more) = search_for(Goal::Largest(1), &values, 0, 1);
        assert_eq!((more.len(), largest.explained()), (7, found.explained()));
        let (three, _) = search_for(Goal::Largest(3), &values, 0, 1);
        let closed = three.steps().into_iter().filter(|stretch| !three.is_open(stretch));
        assert!(closed.count() >= 3);
        assert_eq!(search(&values, 0, 1).0.explained(), 1.0);
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
        let all = Failures { tried: vec![1, 2], why: "it does not build".into() };
        assert_eq!(found.failures(), [all]);
    }

    #[test]
    fn a_stretch_that_does_not_build_is_leapt_over() {
        // Commits 8 to 56 of 64 do not build; git bisect makes 34 builds for the step at 60.
        let values = |step: usize| -> Vec<Option<u64>> {
            let value = |at: usize| if at >= step { 9_000 } else { 1_000 };
            (0..64).map(|at| (!(8..=56).contains(&at)).then(|| value(at))).collect()
        };
        let (found, looked) = search(&values(60), 0, 1);
        assert_eq!(found.steps(), [Found { from: 59, to: 60 }]);
        assert!(looked <= 7, "{looked} beside the two ends");
        let (found, looked) = search(&values(4), 0, 1);
        assert_eq!(found.steps(), [Found { from: 3, to: 4 }]);
        assert!(looked <= 11, "{looked}");
        // A step within the stretch: its commits cannot be told apart, and most are not tried.
        let (found, looked) = search(&values(30), 0, 1);
        assert_eq!(found.steps(), [Found { from: 7, to: 57 }]);
        assert!(looked <= 20, "{looked}");
        assert_eq!((found.failures().len(), found.explained()), (1, 1.0));
    }

    #[test]
    fn a_stretch_that_fails_for_many_reasons_is_leapt_over_all_the_same() {
        let mut search = Search::new(64, "count", Figures::new());
        search.learn(0, Ok(figures(1)));
        search.learn(63, Ok(figures(9)));
        let mut tried = 0;
        while let [point] = search.next(ALL, 1)[..] {
            // Each commit between 8 and 56 fails in a way of its own.
            let found = match point {
                8..=56 => Err(failure(&format!("fails as {point}"))),
                _ => Ok(figures(if point < 30 { 1 } else { 9 })),
            };
            tried += usize::from(found.is_err());
            search.learn(point, found);
        }
        assert_eq!(search.steps(), [Found { from: 7, to: 57 }]);
        assert!(tried <= 12, "{tried}");
    }

    #[test]
    fn failures_of_different_causes_are_groups_of_their_own() {
        let mut search = Search::new(20, "count", Figures::new());
        search.learn(0, Ok(figures(1)));
        search.learn(19, Ok(figures(2)));
        for (point, cause) in [(3, "links not"), (9, "links not"), (11, "ends early")] {
            search.learn(point, Err(failure(cause)));
        }
        let tried: Vec<Vec<usize>> =
            search.failures().into_iter().map(|group| group.tried).collect();
        assert_eq!(tried, [vec![3, 9], vec![11]]);
        search.learn(10, Ok(figures(1)));
        search.learn(12, Err(failure("ends early")));
        assert_eq!(search.failures()[1].tried, [11, 12]);
        // Points outside come before those between two failures.
        assert_eq!(search.next(ALL, 1), [15]);
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
        let mut search = Search::new(7, "total", Figures::new());
        search.learn(0, Ok(values[0].clone()));
        search.learn(6, Ok(values[6].clone()));
        while let [point] = search.next(ALL, 1)[..] {
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
            let (found, looked) = search_for(ALL, &values, 0, jobs);
            let total: i128 = found.steps().iter().map(|step| found.change(step.from, step.to, "count")).sum();
            prop_assert_eq!(total, i128::from(level) - 100);
            prop_assert_eq!((found.rest("count"), found.explained()), (0, 1.0));
            for step in found.steps() {
                // Only a point between two equal failures is left out.
                let left_out = (step.from + 1..step.to).filter(|point| !looked.contains(point));
                for point in left_out {
                    let mut tried = found.untestable().map(|(at, _)| at);
                    prop_assert!(tried.any(|at| step.from < at && at < point));
                    prop_assert!(tried.any(|at| point < at && at < step.to));
                }
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
            most in 0usize..4,
        ) {
            let mut values = values;
            let last = values.len() - 1;
            (values[0], values[last]) = (Some(1), Some(2));
            for goal in [ALL, Goal::Explained(0.5), Goal::Largest(most)] {
                let (found, looked) = search_for(goal, &values, 0, jobs);
                prop_assert!(looked.len() < last);
                let total: i128 = found.steps().iter().map(|step| found.change(step.from, step.to, "count")).sum();
                prop_assert_eq!(total, 1);
                if let Goal::Explained(part) = goal {
                    prop_assert!(found.explained() >= part);
                }
            }
        }
    }
}
