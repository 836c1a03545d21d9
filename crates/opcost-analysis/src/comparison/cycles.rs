//! Modelled cycles: how far off they may be, which changes they can decide, and which functions spend them.
//!
//! A model is wrong in the same way in every run, so no interval over runs shows its error. The known errors come from a
//! validation, which the plan contains. A change smaller than the validation supports is not decided. A larger change is called
//! estimated, never real.
//!
//! **An estimate has no interval of its own.** A model makes the same error in every run, so an interval over runs would not
//! show it. The plan has the errors that a validation found, by class of confidence, and the comparison judges by these
//! errors.

use super::function_changes::{FunctionComparison, FunctionVerdict, Sides, compare_attributed};
use super::{Change, Row, Verdict};
use opcost_attribution::function_costs::{Attribution, Charged};
use opcost_base::number::{figure, magnitude, percent};
use opcost_core_model::{Confidence, Cycles, confidence};
use opcost_model::plan::{Accuracy, CorePlan, DECIDES_FROM_RATIO_MIN, Validation};
use opcost_model::recording::Recording;
use opcost_record::metric::{CYCLE_PARTS, CYCLES_ERROR, CYCLES_FAR, MODEL_CYCLES};
use opcost_record::{Domain, MetricKey, Outcome, Record, Unit};

/// How far off a figure of modelled cycles may be.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelAccuracy {
    /// Name of the core.
    pub core: String,
    /// The confidence that the figure's own parts imply: the lowest of all variants.
    pub confidence: Confidence,
    /// The errors that validation found for estimates like this one, if there is a validation.
    pub accuracy: Option<Accuracy>,
    /// The processor and day of the core's validation.
    pub validated_on: Option<String>,
    /// The smallest change that decides a direction: the error found by validation, plus the error of slices.
    pub decides_from_ratio: f64,
    /// How far the modelled slices may be from the whole; `None` if everything was modelled.
    pub slices: Option<SliceAccuracy>,
}

/// How far modelled slices may be from the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceAccuracy {
    /// The number of instructions that each modelled instruction stands for.
    pub one_in: u16,
    /// Half of the 95 % interval of the cycles, as a share of them, in the variant where it is widest.
    pub error_ratio: f64,
}

impl ModelAccuracy {
    /// The usual error of such estimates, in a few words.
    pub(super) fn error_in_words(&self) -> String {
        match &self.accuracy {
            Some(accuracy) => format!(
                "half of such estimates are off by {} or less",
                magnitude(accuracy.error_median)
            ),
            None => "such estimates were not validated".into(),
        }
    }

    /// The accuracy of two figures together.
    fn worse(self, other: ModelAccuracy) -> ModelAccuracy {
        let decides_from_ratio = self.decides_from_ratio.max(other.decides_from_ratio);
        let errors = [self.slices, other.slices].into_iter().flatten();
        let slices = errors.max_by(|one, two| one.error_ratio.total_cmp(&two.error_ratio));
        let worse = if other.confidence < self.confidence { other } else { self };
        ModelAccuracy { decides_from_ratio, slices, ..worse }
    }

    /// In words: `by the model of core zen4, confidence high; …`.
    pub fn describe(&self) -> String {
        let errors = match (&self.accuracy, &self.validated_on) {
            (Some(accuracy), Some(on)) => format!(
                "half of {} validated estimates like it were within {}, nine of ten within {} ({on})",
                accuracy.kernels,
                magnitude(accuracy.error_median),
                magnitude(accuracy.error_p90)
            ),
            (None, Some(on)) => format!("no estimate like it was validated ({on})"),
            _ => "not validated: opcost doctor --validate".to_string(),
        };
        let slices = self.slices.map_or(String::new(), |slices| {
            format!(
                "; one slice in {} was modelled, which is within {} of the whole (95 %)",
                slices.one_in,
                magnitude(slices.error_ratio)
            )
        });
        format!(
            "by the model of core {}, confidence {}: {errors}{slices}; a change below {} is not decided",
            self.core,
            self.confidence.name(),
            magnitude(self.decides_from_ratio)
        )
    }
}

/// Whether a metric is modelled cycles or a part of them.
fn is_cycles(key: &MetricKey) -> bool {
    let name = key.name.as_str();
    name == MODEL_CYCLES || name == CYCLES_FAR || CYCLE_PARTS.contains(&name)
}

/// The accuracy of a total of modelled cycles.
struct Total {
    region: String,
    /// The total of each variant.
    centers: Vec<Option<f64>>,
    /// The lowest of all variants.
    confidence: Confidence,
    /// The error that slices leave; `None` if everything was modelled.
    slices: Option<SliceAccuracy>,
}

/// Adds to each row of modelled cycles how far off it may be, and withdraws verdicts that this error does not allow.
pub(super) fn weigh(rows: &mut [Row], recording: &Recording) {
    let Some(emulation) = recording.plan.emulation() else { return };
    let (Some(core), one_in) = (&emulation.core, emulation.cycles_one_in) else { return };
    let known = rows.iter().filter(|row| row.key.name == MODEL_CYCLES).filter_map(|total| {
        let sides = 0..total.values.len();
        // Cycles of user code alone or of the kernel alone have no parts; the parts of the whole stand for them.
        let sums = |name: &str| sums_of_sides(recording, &total.key, name);
        let parts: Vec<_> = CYCLE_PARTS.into_iter().chain([CYCLES_FAR]).map(sums).collect();
        let [cycles, errors] = [MODEL_CYCLES, CYCLES_ERROR].map(sums);
        let of_sides = sides.clone().filter_map(|side| of_side(&parts, side));
        let errors = sides.filter_map(|side| {
            let (cycles, error) = (cycles.as_ref()?[side], errors.as_ref()?[side]);
            (cycles > 0).then(|| NORMAL_95 * error as f64 / cycles as f64)
        });
        let centers = total.values.iter().map(|value| value.as_ref().map(|value| value.center()));
        Some(Total {
            region: total.key.region.clone(),
            centers: centers.collect(),
            confidence: of_sides.min()?,
            slices: one_in
                .map(|one_in| SliceAccuracy { one_in, error_ratio: errors.fold(0.0, f64::max) }),
        })
    });
    let known: Vec<Total> = known.collect();
    for row in rows.iter_mut().filter(|row| is_cycles(&row.key)) {
        let total = known.iter().find(|total| total.region == row.key.region);
        let Some(total) = total else { continue };
        let accuracy = accuracy(core, total);
        let comparisons = recording.comparisons().into_iter();
        let shares: Vec<f64> = comparisons
            .map(|(baseline, _)| share(row, baseline, total.centers[baseline]))
            .collect();
        for (change, share) in row.changes.iter_mut().zip(shares) {
            decide(change, &accuracy, share);
        }
        row.accuracy = Some(accuracy);
    }
}

/// The share of a side's figure in all cycles, by which a part is weighed.
fn share(row: &Row, side: usize, whole: Option<f64>) -> f64 {
    let own = row.values[side].as_ref().map_or(0.0, |value| value.center());
    whole.filter(|whole| *whole > 0.0).map_or(1.0, |whole| own / whole)
}

/// Limits a change's verdict to what the accuracy of its figures supports; `share`: the figure's share of all cycles.
fn decide(change: &mut Change, accuracy: &ModelAccuracy, share: f64) {
    change.estimated = true;
    let found = matches!(change.verdict, Verdict::Changed | Verdict::FewLayouts);
    let size = change.change_ratio.map_or(f64::INFINITY, |ratio| (share * ratio).abs());
    if found && size < accuracy.decides_from_ratio {
        change.verdict = Verdict::Inconclusive;
        change.reason = NOT_DECIDED.into();
        change.p_adjusted = None;
    }
}

/// Adds the accuracy to rows that compare two recordings; `later`: the rows of the later recording.
///
/// Two cores are two models, whose figures have nothing in common.
pub(super) fn weigh_across(rows: &mut [Row], later: &[Row], recordings: [&Recording; 2]) {
    let cores = recordings
        .map(|recording| recording.plan.emulation().and_then(|emulation| emulation.core.as_ref()));
    let [Some(one), Some(two)] = cores else { return };
    let totals: Vec<(String, f64)> = rows
        .iter()
        .filter(|row| row.key.name == MODEL_CYCLES && row.key.domain != Domain::Kernel)
        .filter_map(|row| Some((row.key.region.clone(), row.values[0].as_ref()?.center())))
        .collect();
    for row in rows.iter_mut().filter(|row| is_cycles(&row.key)) {
        let other = later.iter().find(|other| other.key == row.key);
        let accuracies = [row.accuracy.take(), other.and_then(|other| other.accuracy.clone())];
        let worst = accuracies.into_iter().flatten().reduce(ModelAccuracy::worse);
        let whole = totals.iter().filter(|(region, _)| *region == row.key.region);
        let share = share(row, 0, whole.map(|(_, whole)| *whole).reduce(f64::max));
        let change = &mut row.changes[0];
        change.estimated = true;
        if one.fingerprint != two.fingerprint {
            change.verdict = Verdict::NotComparable;
            change.reason = format!(
                "modelled with two cores, {} ({}) and {} ({})",
                one.name, one.fingerprint, two.name, two.fingerprint
            );
        } else if let Some(accuracy) = &worst {
            decide(change, accuracy, share);
        }
        row.accuracy = worst;
    }
}

/// The reason given for a change smaller than validation supports.
pub const NOT_DECIDED: &str = "direction not decided by the model";

fn accuracy(core: &CorePlan, total: &Total) -> ModelAccuracy {
    let confidence = total.confidence;
    let of_class = |validation: &Validation| match confidence {
        Confidence::High => validation.high,
        Confidence::Medium => validation.medium,
        Confidence::Low => validation.low,
    };
    let validation = core.validation.as_ref();
    ModelAccuracy {
        core: core.name.clone(),
        confidence,
        accuracy: validation.and_then(of_class),
        validated_on: validation.map(|validation| validation.validated_on.clone()),
        // Slices are a second source of error, on both sides.
        decides_from_ratio: validation.map_or(DECIDES_FROM_RATIO_MIN, Validation::decides_from)
            + total.slices.map_or(0.0, |slices| std::f64::consts::SQRT_2 * slices.error_ratio),
        slices: total.slices,
    }
}

/// The sum of a figure over all runs of each variant, in the domain and region of the metric `alike`.
fn sums_of_sides(recording: &Recording, alike: &MetricKey, name: &str) -> Option<Vec<u64>> {
    let metric = recording.dictionary.id(&MetricKey { name: name.into(), ..alike.clone() })?;
    let mut sums = vec![0; recording.plan.variants.len()];
    let finished = |run: &&Record| run.outcome == Outcome::Finished && run.block.is_some();
    for run in recording.records.iter().filter(finished) {
        if let Some(sum) = sums.get_mut(usize::from(run.variant)) {
            *sum += run.sample(metric).map_or(0, |sample| sample.value);
        }
    }
    Some(sums)
}

/// The normal distribution's 97.5 % quantile, for half of the interval that slices leave to a variant's cycles.
const NORMAL_95: f64 = 1.96;

/// The confidence that the parts of one variant's cycles imply, all its runs taken together.
///
/// `sums`: of the parts and of far misses, by variant.
fn of_side(sums: &[Option<Vec<u64>>], side: usize) -> Option<Confidence> {
    let (far, parts) = sums.split_last()?;
    let mut cycles = Cycles::default();
    for (sum, part) in cycles.by_cause.iter_mut().zip(parts) {
        *sum = part.as_ref()?[side];
    }
    cycles.far = far.as_ref()?[side];
    Some(confidence(&cycles))
}

/// The verdict of the model beside a primary metric of another kind; `None` without a model.
pub(super) fn beside(rows: &[Row], index: usize) -> Option<String> {
    // The first such row is the whole.
    let row = rows.iter().find(|row| row.key.name == MODEL_CYCLES).filter(|row| !row.primary)?;
    let (change, accuracy) = (&row.changes[index], row.accuracy.as_ref()?);
    let amount = change.change_ratio.map(percent)?;
    match change.verdict {
        Verdict::Changed | Verdict::FewLayouts => Some(format!(
            "{} {amount}, {} ({})",
            row.label,
            change.found(),
            accuracy.error_in_words()
        )),
        Verdict::Inconclusive => Some(format!("{} {amount}, {}", row.label, change.reason)),
        _ => None,
    }
}

/// The functions of every comparison by their modelled cycles, with the causes of these cycles.
pub(super) fn functions(recording: &Recording, rows: &[Row]) -> Vec<FunctionComparison> {
    if !recording.profiles.iter().any(|(_, profile)| !profile.cycles.is_empty()) {
        return Vec::new();
    }
    let whole = Attribution::of_charged(recording, Charged::Cycles);
    let parts: Vec<Attribution> = (0..=CYCLE_PARTS.len())
        .map(|part| Attribution::of_charged(recording, Charged::CyclePart(part)))
        .collect();
    let total = rows.iter().find(|row| row.key.name == MODEL_CYCLES);
    let comparisons = recording.comparisons().into_iter().enumerate();
    let made = comparisons.filter_map(|(index, (baseline, variant))| {
        let mut made = compare_attributed(&whole, baseline, variant)?;
        made.modelled = true;
        made.forget_exact();
        made.per_op = total.is_some_and(|row| row.per_op);
        made.verdict =
            total.map_or(FunctionVerdict::Inconclusive, |row| row.changes[index].verdict.into());
        let parts: Vec<FunctionComparison> =
            parts.iter().filter_map(|part| compare_attributed(part, baseline, variant)).collect();
        for row in &mut made.rows {
            row.verdict = FunctionVerdict::Estimated;
            row.reason = "estimated".into();
            let of_part = |part: &FunctionComparison| {
                part.rows.iter().find(|other| other.is(row)).map_or(Sides::default(), |row| row.own)
            };
            row.parts = Some(parts.iter().map(of_part).collect());
        }
        Some(made)
    });
    made.collect()
}

/// The causes of a change of a function's cycles, the largest first: `branches +9.1, memory +0.4`.
///
/// `parts`: the function's cycles by cause.
pub fn causes_in_words(parts: &[Sides]) -> String {
    let causes = CYCLE_PARTS.iter().map(|name| name.trim_start_matches("model-cycles-"));
    let mut changed: Vec<(&str, f64)> = causes.zip(parts.iter().map(|part| part.change)).collect();
    let all: f64 = changed.iter().map(|(_, change)| change.abs()).sum();
    // Only causes with more than a tenth of the change are named.
    changed.retain(|(_, change)| change.abs() > 0.1 * all);
    changed.sort_by(|one, two| two.1.abs().total_cmp(&one.1.abs()));
    let word = |(name, change): &(&str, f64)| {
        let sign = if *change < 0.0 { '−' } else { '+' };
        format!("{name} {sign}{}", figure(change.abs(), Unit::Count))
    };
    changed.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_named_the_largest_first() {
        let sides = |change: f64| Sides { change, ..Sides::default() };
        let parts = [0.5, -2.0, 9.0, 0.0, 0.1].map(sides);
        assert_eq!(causes_in_words(&parts), "branches +9, dependencies −2");
        assert_eq!(causes_in_words(&[Sides::default(); 6]), "");
    }
}
