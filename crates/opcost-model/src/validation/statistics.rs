//! The errors of the model, from kernels with their true and their modelled cycles.

use crate::plan::{Accuracy, Validation};
use opcost_core_model::Confidence;
use opcost_record::gauge::KernelName;
use serde::Serialize;
use std::collections::BTreeMap;

/// The ratio from which on two builds differ in truth. A claim about builds that differ by less is wrong.
pub const DIFFER_RATIO: f64 = 0.03;
/// The ratio from which on a difference counts as a claim.
pub const CLAIM_RATIO: f64 = 0.10;
/// The lower bounds of the bands of true differences, as ratios; each band ends where the next begins.
pub const BANDS: [f64; 3] = [DIFFER_RATIO, 0.10, 0.30];
/// The number of kernels listed as the worst.
const WORST: usize = 10;
/// The share of right claims above some size that makes these claims believed.
const BELIEVED: f64 = 0.9;
/// The fewest claims on which this share can be based.
const CLAIMS_MIN: usize = 20;

/// A kernel of one build, measured and modelled.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The kernel and its build.
    pub name: KernelName,
    /// Cycles on the real core.
    pub truth: f64,
    /// Cycles on the modelled core.
    pub modelled: f64,
    /// Instructions in user mode.
    pub instructions: f64,
    /// The confidence implied by the model's own shares.
    pub confidence: Confidence,
}

/// Errors of some kernels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// The number of kernels.
    pub kernels: usize,
    /// The error that half of the estimates do not exceed; a ratio of the truth.
    pub error_median: f64,
    /// The error that nine of ten estimates do not exceed.
    pub error_p90: f64,
}

/// Errors of a group of kernels: of the model, and of instructions multiplied by the best constant for all kernels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The class of kernels or of confidence.
    pub name: String,
    /// The errors of the model.
    pub model: Errors,
    /// The errors of instructions.
    pub instructions: Errors,
}

/// How often a predictor named the direction of a difference.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Hits {
    /// The number of pairs.
    pub pairs: usize,
    /// The number of pairs whose direction was right.
    pub right: usize,
}

impl Hits {
    /// The share of right directions; `None` without pairs.
    pub fn share(&self) -> Option<f64> {
        (self.pairs > 0).then(|| self.right as f64 / self.pairs as f64)
    }

    fn add(&mut self, right: bool) {
        self.pairs += 1;
        self.right += usize::from(right);
    }
}

/// The directions that a predictor names for pairs of builds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Directions {
    /// Pairs that differ in truth by more than [`DIFFER_RATIO`].
    pub all: Hits,
    /// The same pairs by true difference, in the order of [`BANDS`].
    pub bands: [Hits; 3],
    /// Pairs for which the predictor claims more than [`CLAIM_RATIO`]; right if the truth has the same direction.
    pub claims: Hits,
    /// Pairs that do not differ in truth; `right` counts pairs for which the predictor claims nothing.
    pub equal: Hits,
    /// The error of the ratio of two builds that half of all differing pairs do not exceed.
    pub ratio_error_median: Option<f64>,
}

/// A kernel with its figures, as reports show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// The name of the kernel's region.
    pub kernel: String,
    /// Cycles on the real core.
    pub truth: f64,
    /// Modelled cycles.
    pub modelled: f64,
    /// Modelled cycles divided by true cycles.
    pub ratio: f64,
    /// The confidence implied by the model's own shares.
    pub confidence: &'static str,
}

/// The result of a validation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// All kernels.
    pub all: Group,
    /// The kernels by class, in the order of the classes' names.
    pub classes: Vec<Group>,
    /// The kernels by confidence, the highest first.
    pub confidences: Vec<Group>,
    /// The directions that the model names for pairs of builds.
    pub model: Directions,
    /// The directions that instructions name.
    pub instructions: Directions,
    /// The smallest difference from which on nine of ten claims of the model are right; `None` if there is none.
    pub decides_from_ratio: Option<f64>,
    /// The kernels with the largest errors.
    pub worst: Vec<Shown>,
    /// Cycles for each instruction, which turn instructions into an estimate.
    pub cycles_per_instruction: f64,
}

/// A pair of builds of one kernel.
struct Pair {
    truth: f64,
    modelled: f64,
    instructions: f64,
}

/// Judges a model by its kernels; `None` without kernels.
pub fn report(cases: &[Case]) -> Option<Report> {
    let rates = cases.iter().map(|case| case.truth / case.instructions);
    let cycles_per_instruction = rank(rates.collect(), 50)?;
    let group = |name: &str, of: &dyn Fn(&Case) -> bool| {
        let members: Vec<&Case> = cases.iter().filter(|case| of(case)).collect();
        let errors = |estimate: &dyn Fn(&Case) -> f64| {
            let error = |case: &&Case| (estimate(case) / case.truth - 1.0).abs();
            let errors: Vec<f64> = members.iter().map(error).collect();
            Some(Errors {
                kernels: errors.len(),
                error_median: rank(errors.clone(), 50)?,
                error_p90: rank(errors, 90)?,
            })
        };
        Some(Group {
            name: name.to_string(),
            model: errors(&|case| case.modelled)?,
            instructions: errors(&|case| case.instructions * cycles_per_instruction)?,
        })
    };
    let mut classes: Vec<&str> = cases.iter().map(|case| case.name.class.as_str()).collect();
    classes.sort_unstable();
    classes.dedup();
    let confidences = [Confidence::High, Confidence::Medium, Confidence::Low];
    let pairs = pairs(cases);
    Some(Report {
        all: group("all", &|_| true)?,
        classes: classes
            .iter()
            .filter_map(|name| group(name, &|it| it.name.class == *name))
            .collect(),
        confidences: confidences
            .iter()
            .filter_map(|one| group(one.name(), &|case| case.confidence == *one))
            .collect(),
        model: directions(&pairs, |pair| pair.modelled),
        instructions: directions(&pairs, |pair| pair.instructions),
        decides_from_ratio: decides_from(&pairs),
        worst: worst(cases),
        cycles_per_instruction,
    })
}

impl Report {
    /// The validation that later estimates cite; `validated_on`: the processor and the day.
    pub fn validation(&self, validated_on: String) -> Validation {
        let of = |confidence: Confidence| {
            let group = self.confidences.iter().find(|group| group.name == confidence.name())?;
            let Errors { kernels, error_median, error_p90 } = group.model;
            Some(Accuracy { error_median, error_p90, kernels })
        };
        Validation {
            validated_on,
            kernels: self.all.model.kernels,
            // If no claim can be believed, none decides.
            decides_from_ratio: self.decides_from_ratio.unwrap_or(f64::MAX),
            high: of(Confidence::High),
            medium: of(Confidence::Medium),
            low: of(Confidence::Low),
        }
    }
}

/// Every two builds of each kernel, as ratios of the later build to the earlier.
fn pairs(cases: &[Case]) -> Vec<Pair> {
    let mut kernels: BTreeMap<(&str, &str), Vec<&Case>> = BTreeMap::new();
    for case in cases {
        kernels.entry((&case.name.class, &case.name.kernel)).or_default().push(case);
    }
    let mut pairs = Vec::new();
    for builds in kernels.values() {
        for (index, one) in builds.iter().enumerate() {
            pairs.extend(builds[index + 1..].iter().map(|other| Pair {
                truth: other.truth / one.truth,
                modelled: other.modelled / one.modelled,
                instructions: other.instructions / one.instructions,
            }));
        }
    }
    pairs
}

/// The size of a difference, whichever side is greater.
fn size(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
}

/// Whether a claim has the direction of the truth; a ratio of 1 has no direction.
fn same_way(claim: f64, truth: f64) -> bool {
    (claim > 1.0 && truth > 1.0) || (claim < 1.0 && truth < 1.0)
}

fn directions(pairs: &[Pair], claim: impl Fn(&Pair) -> f64) -> Directions {
    let mut made = Directions::default();
    let mut errors = Vec::new();
    for pair in pairs {
        let (claimed, right) = (claim(pair), same_way(claim(pair), pair.truth));
        let differs = size(pair.truth) > DIFFER_RATIO;
        if differs {
            made.all.add(right);
            let band = BANDS.iter().rposition(|from| size(pair.truth) > *from).unwrap_or_default();
            made.bands[band].add(right);
            errors.push((claimed / pair.truth - 1.0).abs());
        } else {
            made.equal.add(size(claimed) <= CLAIM_RATIO);
        }
        if size(claimed) > CLAIM_RATIO {
            // If the truth does not differ, a claim is wrong in either direction.
            made.claims.add(right && differs);
        }
    }
    made.ratio_error_median = rank(errors, 50);
    made
}

/// The smallest claim from which on nine of ten claims are right; claims about equal builds are wrong.
fn decides_from(pairs: &[Pair]) -> Option<f64> {
    let claim = |pair: &Pair| {
        (
            size(pair.modelled),
            same_way(pair.modelled, pair.truth) && size(pair.truth) > DIFFER_RATIO,
        )
    };
    let mut claims: Vec<(f64, bool)> = pairs.iter().map(claim).collect();
    claims.sort_by(|one, two| two.0.total_cmp(&one.0));
    let (mut right, mut from) = (0, None);
    for (count, (size, hit)) in claims.iter().enumerate() {
        right += usize::from(*hit);
        let all = count + 1;
        if all >= CLAIMS_MIN && right as f64 >= BELIEVED * all as f64 {
            from = Some(*size);
        }
    }
    from
}

fn worst(cases: &[Case]) -> Vec<Shown> {
    let mut all: Vec<&Case> = cases.iter().collect();
    all.sort_by(|one, two| {
        let off = |case: &Case| size(case.modelled / case.truth);
        off(two).total_cmp(&off(one)).then_with(|| one.name.cmp(&two.name))
    });
    let shown = |case: &&Case| Shown {
        kernel: case.name.region(),
        truth: case.truth,
        modelled: case.modelled,
        ratio: case.modelled / case.truth,
        confidence: case.confidence.name(),
    };
    all.iter().take(WORST).map(shown).collect()
}

/// The figure that `percent` percent of all figures do not exceed (nearest rank); `None` without figures.
fn rank(mut figures: Vec<f64>, percent: usize) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let place = (figures.len() * percent).div_ceil(100);
    figures.get(place.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(kernel: &str, build: &str, truth: f64, modelled: f64, instructions: f64) -> Case {
        let [class, kernel] = kernel.split(':').collect::<Vec<_>>().try_into().unwrap();
        Case {
            name: KernelName { class: class.into(), kernel: kernel.into(), build: build.into() },
            truth,
            modelled,
            instructions,
            confidence: if class == "memory" { Confidence::Low } else { Confidence::High },
        }
    }

    fn close(one: f64, two: f64) -> bool {
        (one - two).abs() < 1e-9
    }

    #[test]
    fn ranks_are_figures_that_were_measured() {
        assert_eq!(rank((1..=10).map(f64::from).collect(), 90), Some(9.0));
        assert_eq!(rank(vec![3.0, 1.0], 50), Some(1.0));
        assert_eq!(rank(vec![7.0], 90), Some(7.0));
        assert_eq!(rank(vec![], 50), None);
    }

    #[test]
    fn errors_are_ratios_of_the_truth_by_class_and_by_confidence() {
        let cases = [
            case("sort:a", "O1", 100.0, 110.0, 100.0),
            case("sort:b", "O1", 100.0, 80.0, 50.0),
            case("sort:c", "O1", 100.0, 101.0, 200.0),
            case("memory:d", "O1", 1000.0, 100.0, 100.0),
        ];
        let report = report(&cases).unwrap();
        let sort = &report.classes[1];
        assert_eq!((sort.name.as_str(), sort.model.kernels), ("sort", 3));
        assert!(close(sort.model.error_median, 0.1) && close(sort.model.error_p90, 0.2));
        // Cycles for each instruction: the median of 1, 2, 0.5 and 10 is 1, the lower of the middle two.
        assert!(close(report.cycles_per_instruction, 1.0));
        assert!(close(sort.instructions.error_median, 0.5));
        let confidences: Vec<&str> = report.confidences.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(confidences, ["high", "low"]);
        assert!(close(report.confidences[1].model.error_median, 0.9));
        assert_eq!(report.worst[0].kernel, "memory:d@O1");
        assert!(close(report.worst[0].ratio, 0.1));
        let validation = report.validation("a core".into());
        assert_eq!((validation.kernels, validation.medium), (4, None));
        assert!(close(validation.low.unwrap().error_p90, 0.9));
        assert_eq!(validation.decides_from_ratio, f64::MAX, "no pair was judged");
        assert!(super::report(&[]).is_none());
    }

    #[test]
    fn directions_are_counted_by_the_size_of_the_true_difference() {
        let cases = [
            // +50 %, and the model agrees; instructions name the opposite direction.
            case("x:a", "O1", 100.0, 100.0, 100.0),
            case("x:a", "O3", 150.0, 130.0, 90.0),
            // −5 % (a ratio of 0.952), claimed +20 %; instructions claim nothing.
            case("x:b", "O1", 105.0, 100.0, 100.0),
            case("x:b", "O3", 100.0, 120.0, 100.0),
            // −20 %: the model is right, and so are instructions.
            case("x:c", "O1", 100.0, 100.0, 100.0),
            case("x:c", "O3", 80.0, 95.0, 50.0),
            // Equal in truth: the model claims nothing, instructions claim +50 %.
            case("x:d", "O1", 100.0, 100.0, 100.0),
            case("x:d", "O3", 101.0, 104.0, 150.0),
            // A kernel with one build has no pair.
            case("x:e", "O1", 100.0, 100.0, 100.0),
        ];
        let report = report(&cases).unwrap();
        let hits = |pairs, right| Hits { pairs, right };
        assert_eq!(report.model.all, hits(3, 2));
        assert_eq!(report.model.bands, [hits(1, 0), hits(1, 1), hits(1, 1)]);
        assert_eq!(report.model.claims, hits(2, 1));
        assert_eq!(report.model.equal, hits(1, 1));
        // Ratios of claim and truth: 1.3/1.5, 1.2/0.952, 0.95/0.8.
        assert!(close(report.model.ratio_error_median.unwrap(), 0.95 / 0.8 - 1.0));
        assert_eq!(report.instructions.all, hits(3, 1), "no claim is no direction");
        assert_eq!(report.instructions.equal, hits(1, 0));
        // The claims are −10 % for the first pair, −50 %, and +50 % for equal builds.
        assert_eq!(report.instructions.claims, hits(3, 1));
        assert_eq!(hits(4, 3).share(), Some(0.75));
        assert_eq!(hits(0, 0).share(), None);
    }

    #[test]
    fn small_claims_decide_only_if_nine_of_ten_are_right() {
        let pair = |truth: f64, modelled: f64| Pair { truth, modelled, instructions: 1.0 };
        // Thirty right claims of 20 %, then ten wrong claims of 5 %.
        let mut pairs: Vec<Pair> = (0..30).map(|_| pair(1.3, 1.2)).collect();
        assert!(close(decides_from(&pairs).unwrap(), 0.2));
        pairs.extend((0..3).map(|_| pair(1.2, 0.95)));
        assert!(close(decides_from(&pairs).unwrap(), size(0.95)), "30 of 33 are right");
        pairs.extend((0..7).map(|_| pair(1.2, 0.96)));
        assert!(close(decides_from(&pairs).unwrap(), size(0.95)), "30 of 40 are not");
        assert_eq!(decides_from(&pairs[..10]), None, "too few to tell");
        let wrong: Vec<Pair> = (0..30).map(|_| pair(1.01, 1.5)).collect();
        assert_eq!(decides_from(&wrong), None, "claims about equal builds are wrong");
    }
}
