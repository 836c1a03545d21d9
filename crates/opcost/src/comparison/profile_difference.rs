//! The difference of two profiles that were read from files, function by function.
//!
//! Samples are counts: of two profiles each function's are compared by the exact test of two Poisson
//! rates ([`opcost_stats::counts::rates`]), adjusted for the number of functions by Benjamini and
//! Hochberg's method. It knows the randomness of sampling and nothing of how one run differs from the
//! next: for that, several runs are needed. Costs that were counted are compared as they are.

use super::matching::{Matching, ModulePair, Side, UnknownModule, check_told};
use crate::exit::{HasStatus, Status};
use crate::experiment::SameFile;
use opcost_profile::read::ReadProfile;
use opcost_profile::table::caller_tree;
use opcost_record::Function;
use opcost_stats::counts::rates;
use opcost_stats::multiple::benjamini_hochberg;
use std::collections::{BTreeMap, HashMap};

/// Expected share of false ones among the functions that are called changed.
pub const FALSE_SHARE: f64 = 0.05;

/// The rule that both have one event, for `--allow`.
pub const EVENT_RULE: &str = "event";

/// Why two profiles are not compared.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProfileDifferenceError {
    /// Other things were sampled.
    #[error(
        "{one} has the event {of_one} and {two} has {of_two}; choose one that both have with --event, \
         or compare them all the same with --allow event"
    )]
    Event {
        /// The first file.
        one: String,
        /// The second.
        two: String,
        /// The first's event.
        of_one: String,
        /// The second's.
        of_two: String,
    },
    /// One was sampled, the other counted.
    #[error("{sampled} was sampled and {counted} was counted: their costs have nothing in common")]
    Kind {
        /// The sampled file.
        sampled: String,
        /// The counted one.
        counted: String,
    },
    /// A file that was said to be another is not there.
    #[error(transparent)]
    Unknown(#[from] UnknownModule),
    /// One has nothing in it.
    #[error("{0} has no cost at all, so there is nothing to compare with")]
    Empty(String),
}

impl HasStatus for ProfileDifferenceError {
    fn status(&self) -> Status {
        match self {
            ProfileDifferenceError::Unknown(_) => Status::Usage,
            _ => Status::NotComparable,
        }
    }
}

/// One of two profiles.
#[derive(Clone, Copy)]
pub struct ProfileOf<'a> {
    /// What to call it.
    pub name: &'a str,
    /// The profile.
    pub profile: &'a ReadProfile,
    /// Operations that its work made.
    pub ops: Option<u64>,
}

/// What figures are of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Measure {
    /// The cost of one operation.
    PerOp,
    /// Parts of each profile's total, 1 being all.
    Share,
    /// Costs as they were counted.
    Counted,
}

/// One function on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRow {
    /// The function, as the variant has it where both have it; its symbol tells it from others.
    pub function: Function,
    /// The baseline's file, where that is another.
    pub module_baseline: Option<String>,
    /// Whether nothing but its name says that it is one function on both sides.
    pub by_name_only: bool,
    /// Its own cost, raw.
    pub cost: [u64; 2],
    /// The same in the measure.
    pub value: [f64; 2],
    /// Its samples, where there are samples.
    pub samples: Option<[u64; 2]>,
    /// The second value less the first.
    pub change: f64,
    /// The p-value adjusted for all functions; `None` of counted costs, which are exact.
    pub p_adjusted: Option<f64>,
    /// Whether the change is real.
    pub changed: bool,
    /// Its callers with the change of its own cost below each, the largest first; empty without stacks.
    pub callers: Vec<(String, f64)>,
}

/// Two profiles function by function.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileDifference {
    /// What both are called.
    pub names: [String; 2],
    /// The event.
    pub event: String,
    /// Whether the event is a clock, whose unit is a nanosecond.
    pub clock: bool,
    /// What figures are of.
    pub measure: Measure,
    /// Operations of each.
    pub ops: Option<[u64; 2]>,
    /// Samples of each.
    pub samples: Option<[u64; 2]>,
    /// Whole costs.
    pub total_cost: [u64; 2],
    /// The functions that cost something, the largest changes first.
    pub rows: Vec<ProfileRow>,
    /// All functions, and what none is charged with.
    pub total: ProfileRow,
    /// What is charged to no function.
    pub unattributed: Option<ProfileRow>,
    /// Files of both sides that were taken for the same though their paths differ.
    pub modules: Vec<ModulePair>,
    /// A file of each side that has no counterpart and much of what changed.
    pub unmatched: Option<[String; 2]>,
    /// What to know beside it.
    pub notes: Vec<String>,
}

/// Compares two profiles.
///
/// `sides`: the baseline and the variant, both with their operations or neither; `allowed`: rules that
/// may be broken; `told`: files that are the same.
///
/// # Errors
/// [`ProfileDifferenceError`]: what was measured differs.
pub fn profile_difference(
    sides: [ProfileOf<'_>; 2],
    allowed: &[String],
    told: &[SameFile],
) -> Result<ProfileDifference, ProfileDifferenceError> {
    let [one, two] = sides;
    let mut notes = Vec::new();
    if one.profile.sampled.is_some() != two.profile.sampled.is_some() {
        let (sampled, counted) =
            if one.profile.sampled.is_some() { (one, two) } else { (two, one) };
        let (sampled, counted) = (sampled.name.to_string(), counted.name.to_string());
        return Err(ProfileDifferenceError::Kind { sampled, counted });
    }
    let [of_one, of_two] = sides.map(|side| side.profile.about.event.clone());
    if of_one != of_two {
        if !allowed.iter().any(|rule| rule == EVENT_RULE) {
            let (one, two) = (one.name.to_string(), two.name.to_string());
            return Err(ProfileDifferenceError::Event { one, two, of_one, of_two });
        }
        notes.push(format!("other events were measured: {of_one} and {of_two} (waived)"));
    }
    let total_cost = sides.map(|side| side.profile.table.total);
    if let Some(at) = total_cost.iter().position(|total| *total == 0) {
        return Err(ProfileDifferenceError::Empty(sides[at].name.to_string()));
    }
    let samples = sides.map(|side| side.profile.sampled.as_ref().map(|one| one.samples_total()));
    let samples = samples[0].zip(samples[1]).map(|(one, two)| [one, two]);
    let ops = one.ops.zip(two.ops).map(|(one, two)| [one, two]);
    let measure = match (ops, samples) {
        (Some(_), _) => Measure::PerOp,
        (None, Some(_)) => Measure::Share,
        (None, None) => Measure::Counted,
    };
    let scale = Scale { measure, ops, samples, total_cost };
    let modules = sides.map(|side| side.profile.modules());
    let given = [0, 1].map(|at: usize| Side {
        functions: functions(sides[at]),
        modules: modules[at].iter().collect(),
        program: None,
    });
    check_told(given.each_ref(), told)?;
    let matching = Matching::of(&given, told);
    let mut rows = rows(sides, &scale, &matching);
    let changes: Vec<(u32, f64)> = rows.iter().map(|(one, row)| (*one, row.change)).collect();
    let p: Vec<f64> = rows.iter().filter_map(|(_, row)| row.p_adjusted).collect();
    for ((_, row), p) in rows.iter_mut().zip(benjamini_hochberg(&p)) {
        row.p_adjusted = Some(p);
        row.changed = p <= FALSE_SHARE && row.change != 0.0;
    }
    rows.sort_by(|(_, one), (_, two)| {
        let size = two.change.abs().total_cmp(&one.change.abs());
        size.then_with(|| one.function.cmp(&two.function))
    });
    callers(&mut rows, sides, &scale, &matching);
    if let [Some(first), Some(second)] = sides.map(|side| side.profile.about.command.as_ref())
        && first != second
    {
        notes.push(
            "the profilers' commands differ; nobody checked that the work was the same".into(),
        );
    }
    let lost = sides.iter().filter_map(|side| side.profile.sampled.as_ref());
    if lost.clone().any(|sampled| sampled.losses.lost_events > 0 || sampled.losses.throttles > 0) {
        notes.push("samples were lost: see opcost profile of each file".into());
    }
    let named = |symbol: &str| Function::new(symbol, "");
    let total = scale.row(named("total"), total_cost, samples);
    let unattributed = sides.map(|side| side.profile.table.unattributed);
    let unattributed =
        (unattributed != [0, 0]).then(|| scale.row(named(super::UNATTRIBUTED), unattributed, None));
    let clock = one.profile.about.sampling.as_ref().is_some_and(|sampling| sampling.clock);
    Ok(ProfileDifference {
        names: sides.map(|side| side.name.to_string()),
        event: of_two,
        clock,
        measure,
        ops,
        samples,
        total_cost,
        rows: rows.into_iter().map(|(_, row)| row).collect(),
        total,
        unattributed,
        modules: matching.pairs([0, 1]),
        unmatched: matching.unmatched([0, 1], &changes),
        notes,
    })
}

/// How costs become figures.
struct Scale {
    measure: Measure,
    ops: Option<[u64; 2]>,
    samples: Option<[u64; 2]>,
    total_cost: [u64; 2],
}

impl Scale {
    fn value(&self, side: usize, cost: u64) -> f64 {
        let cost = cost as f64;
        match self.measure {
            Measure::PerOp => cost / self.ops.map_or(1.0, |ops| ops[side] as f64),
            Measure::Share => cost / self.total_cost[side] as f64,
            Measure::Counted => cost,
        }
    }

    /// How many samples there would be of a function that always costs as much: in shares, as many as
    /// there are in all; per operation, as many as so many operations at so many samples a cost give.
    fn exposures(&self) -> Option<[f64; 2]> {
        let samples = self.samples?.map(|samples| samples as f64);
        let exposure = |side: usize| match self.ops {
            Some(ops) => ops[side] as f64 * samples[side] / self.total_cost[side] as f64,
            None => samples[side],
        };
        Some([exposure(0), exposure(1)]).filter(|both| both.iter().all(|one| *one > 0.0))
    }

    /// A row whose p-value is not adjusted yet.
    fn row(&self, function: Function, cost: [u64; 2], samples: Option<[u64; 2]>) -> ProfileRow {
        let value = [self.value(0, cost[0]), self.value(1, cost[1])];
        let change = value[1] - value[0];
        let p = samples.zip(self.exposures()).map(|(samples, exposures)| rates(samples, exposures));
        let changed = match p {
            Some(p) => p <= FALSE_SHARE && change != 0.0,
            None => self.samples.is_none() && change != 0.0,
        };
        ProfileRow {
            function,
            module_baseline: None,
            by_name_only: false,
            cost,
            value,
            samples,
            change,
            p_adjusted: p,
            changed,
            callers: vec![],
        }
    }
}

/// The functions of a profile.
fn functions(of: ProfileOf<'_>) -> Vec<&Function> {
    let costs = of.profile.table.functions.iter().map(|cost| &cost.function);
    costs.collect()
}

fn rows(sides: [ProfileOf<'_>; 2], scale: &Scale, matching: &Matching) -> Vec<(u32, ProfileRow)> {
    let mut found: BTreeMap<u32, [[u64; 2]; 2]> = BTreeMap::new();
    for (side, of) in sides.iter().enumerate() {
        for cost in of.profile.table.functions.iter().filter(|cost| cost.own > 0) {
            let number = matching.number(side, &cost.function);
            let [own, samples] = found.entry(number).or_default();
            own[side] += cost.own;
            samples[side] += cost.samples.unwrap_or(0);
        }
    }
    let row = |(number, [cost, samples]): (u32, [[u64; 2]; 2])| {
        let module = |side| matching.module(number, side);
        let shown = module(1).or(module(0)).unwrap_or_default();
        let function = Function::new(matching.symbol(number), shown);
        let row = ProfileRow {
            module_baseline: module(0).filter(|path| *path != shown).map(str::to_string),
            by_name_only: matching.by_name_only(number, [0, 1]),
            ..scale.row(function, cost, scale.samples.map(|_| samples))
        };
        (number, row)
    };
    found.into_iter().map(row).collect()
}

/// Rows whose callers are looked up, the largest changes: each takes a walk over the whole profile.
const WITH_CALLERS: usize = 40;

fn callers(
    rows: &mut [(u32, ProfileRow)],
    sides: [ProfileOf<'_>; 2],
    scale: &Scale,
    matching: &Matching,
) {
    let sampled = sides.map(|of| of.profile.sampled.as_ref());
    let [Some(one), Some(two)] = sampled else { return };
    let sampled = [one, two];
    let numbers: [Vec<u32>; 2] = [0, 1].map(|side: usize| {
        let functions = sampled[side].profile.functions.iter();
        functions.map(|function| matching.number(side, function)).collect()
    });
    for (number, row) in rows.iter_mut().take(WITH_CALLERS) {
        let mut changes: HashMap<&str, [u64; 2]> = HashMap::new();
        for side in [0, 1] {
            let of = numbers[side].iter().enumerate().filter(|(_, found)| *found == number);
            for (function, _) in of {
                for caller in caller_tree(sampled[side], function as u32).callers {
                    let name = matching.symbol(numbers[side][caller.function as usize]);
                    changes.entry(name).or_default()[side] += caller.cost;
                }
            }
        }
        row.callers = changes
            .into_iter()
            .map(|(name, cost)| {
                (name.to_string(), scale.value(1, cost[1]) - scale.value(0, cost[0]))
            })
            .filter(|(_, change)| *change != 0.0)
            .collect();
        row.callers.sort_by(|one, two| {
            two.1.abs().total_cmp(&one.1.abs()).then_with(|| one.0.cmp(&two.0))
        });
    }
}

#[cfg(test)]
#[path = "profile_difference_tests.rs"]
mod tests;
