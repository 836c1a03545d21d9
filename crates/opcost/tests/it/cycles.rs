//! Modelled cycles in reports: estimated and never real, with their error, by function and by cause.

use crate::made::emulated::{self, Tree, count};
use crate::schema;
use opcost_analysis::comparison::call_tree::VariantOf;
use opcost_analysis::comparison::two_recordings::compare_recordings;
use opcost_analysis::comparison::{Comparison, Row, Verdict, compare};
use opcost_core_model::Core;
use opcost_model::plan::{Accuracy, CorePlan, Target, Validation};
use opcost_model::recording::Recording;
use opcost_record::metric::{CYCLE_PARTS, CYCLES_ERROR, CYCLES_FAR, MODEL_CYCLES};
use opcost_report::render::{Style, View, render};

fn core(name: &str) -> CorePlan {
    let accuracy =
        |error_median, error_p90| Some(Accuracy { error_median, error_p90, kernels: 40 });
    let text = Core::SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap().1;
    CorePlan {
        validation: Some(Validation {
            validated_on: "a made-up processor, 2026-11-24".into(),
            kernels: 100,
            decides_from_ratio: 0.08,
            high: accuracy(0.05, 0.2),
            medium: accuracy(0.1, 0.4),
            low: None,
        }),
        ..CorePlan::new(name.into(), text).unwrap()
    }
}

/// A recording of two variants with the modelled cycles `parts`.
///
/// `parts`: issue, dependencies, branches, frontend, memory and far, of each variant, on `walk` alone.
fn made(parts: [[u64; 6]; 2]) -> Recording {
    sliced(parts, None)
}

/// The recording with one slice of instructions in `slices.0` modelled; `slices.1`: the cycles' standard error.
fn sliced(parts: [[u64; 6]; 2], slices: Option<(u16, u64)>) -> Recording {
    let mut plan = emulated::plan(&["off", "on"], 6);
    let Target::Emulated(emulation) = &mut plan.target else { panic!("emulated") };
    emulation.core = Some(core("zen4"));
    emulation.cycles_one_in = slices.map(|(one_in, _)| one_in);
    emulated::recording(plan, 0, |slot| {
        let own = parts[usize::from(slot.variant)];
        let mut tree = Tree::default();
        let main = tree.add(None, "main", "/bin/work", 1, 2000 + u64::from(slot.slot % 3));
        tree.add(main, "walk", "/bin/work", 10, 7000 + 10 * u64::from(slot.variant));
        let rest = [3000, 1000, 0, 0, 0, 0];
        let mut profile = tree.grown();
        profile.cycles = vec![rest, own];
        let sum: [u64; 6] = std::array::from_fn(|part| rest[part] + own[part]);
        let named = CYCLE_PARTS.iter().chain([&CYCLES_FAR]).zip(sum);
        let mut counts: Vec<_> = named.map(|(name, sum)| count(name, sum)).collect();
        counts.push(count(MODEL_CYCLES, sum[..5].iter().sum()));
        counts.extend(slices.map(|(_, error)| count(CYCLES_ERROR, error)));
        (profile, counts)
    })
}

const CALM: [u64; 6] = [2000, 4000, 0, 0, 0, 0];

fn row<'a>(comparison: &'a Comparison, name: &str) -> &'a Row {
    comparison.rows.iter().find(|row| row.key.name == name).unwrap()
}

fn text(recording: &Recording, format: &str) -> String {
    let (comparison, warnings) = compare(recording);
    let style = Style::plain();
    let view = View { recording, comparison: &comparison, warnings: &warnings, style: &style };
    render(format, &view).unwrap()
}

#[test]
fn an_estimate_is_never_real_and_names_its_error_function_and_cause() {
    let made = made([CALM, [2000, 4000, 3000, 0, 0, 0]]);
    let (comparison, _) = compare(&made);
    let total = row(&comparison, MODEL_CYCLES);
    assert_eq!(total.changes[0].verdict, Verdict::Changed);
    assert_eq!(total.changes[0].found(), "estimated");
    let [conclusion] = comparison.conclusions.as_slice() else { panic!("one comparison") };
    let estimated =
        "model-cycles +30.00 %, estimated (half of such estimates are off by 5.00 % or less)";
    assert!(conclusion.ends_with(estimated), "{conclusion}");
    insta::assert_snapshot!(text(&made, "text"));
    let document = serde_json::from_str(&text(&made, "json")).unwrap();
    schema::check(&document);
    let metrics = document["opcost"]["metrics"].as_array().unwrap();
    let total = metrics.iter().find(|row| row["metric"] == MODEL_CYCLES).unwrap();
    assert_eq!(total["kind"], "modelled");
    assert_eq!((&total["confidence"], &total["error_p90"]), (&"high".into(), &0.2.into()));
    let functions = document["opcost"]["cycle_functions"].as_array().unwrap();
    assert_eq!(functions[0]["symbol"], "walk");
    assert_eq!(functions[0]["parts"]["model-cycles-branches"]["change"], 3.0);
    assert_eq!(functions[0]["verdict"], "inconclusive");
}

#[test]
fn a_change_below_what_validation_supports_is_not_decided() {
    let (comparison, _) = compare(&made([CALM, [2000, 4900, 0, 0, 0, 0]]));
    for name in [MODEL_CYCLES, "model-cycles-dependencies"] {
        let change = &row(&comparison, name).changes[0];
        assert_eq!(change.verdict, Verdict::Inconclusive, "{name}: 9 % of all cycles");
        assert_eq!(change.reason, "direction not decided by the model");
    }
    let [conclusion] = comparison.conclusions.as_slice() else { panic!("one comparison") };
    assert!(conclusion.ends_with("model-cycles +9.00 %, direction not decided by the model"));
    // Figures that do not change are the same by every model.
    let (comparison, _) = compare(&made([CALM, CALM]));
    assert_eq!(row(&comparison, MODEL_CYCLES).changes[0].verdict, Verdict::Unchanged);
}

#[test]
fn modelled_slices_have_an_error_of_their_own() {
    // 13,000 cycles against 14,200; slices leave an error of ±1.96 × 200.
    let variant = [2000, 4000, 1200, 0, 0, 0];
    let recording = sliced([CALM, variant], Some((16, 200)));
    let (comparison, _) = compare(&recording);
    let total = row(&comparison, MODEL_CYCLES);
    let accuracy = total.accuracy.as_ref().unwrap();
    let error_ratio = 1.96 * 200.0 / 10_000.0;
    let slices = accuracy.slices.unwrap();
    assert_eq!(slices.one_in, 16);
    assert!((slices.error_ratio - error_ratio).abs() < 1e-9, "{slices:?}");
    let decides_from = 0.1_f64.max(0.08) + 2.0_f64.sqrt() * error_ratio;
    assert!((accuracy.decides_from_ratio - decides_from).abs() < 1e-9, "{accuracy:?}");
    let note = "; one slice in 16 was modelled, which is within 3.92 % of the whole (95 %); a change below";
    assert!(accuracy.describe().contains(note), "{}", accuracy.describe());
    assert_eq!(total.changes[0].verdict, Verdict::Inconclusive);
    let document = serde_json::from_str(&text(&recording, "json")).unwrap();
    schema::check(&document);
    let metrics = document["opcost"]["metrics"].as_array().unwrap();
    let shown = metrics.iter().find(|row| row["metric"] == MODEL_CYCLES).unwrap();
    assert_eq!(shown["one_in"], 16);
    // If all instructions are modelled, the same change decides.
    let whole = made([CALM, variant]);
    assert_eq!(row(&compare(&whole).0, MODEL_CYCLES).changes[0].verdict, Verdict::Changed);
    // The wider error of the two recordings applies.
    let of = |recording| VariantOf { recording, variant: 1 };
    let later = Recording { id: "later".into(), ..whole };
    let both = compare_recordings([of(&recording), of(&later)], &[]).unwrap();
    let accuracy = row(&both.comparison, MODEL_CYCLES).accuracy.as_ref().unwrap();
    assert_eq!(accuracy.slices.map(|slices| slices.one_in), Some(16));
    assert!(
        both.notes.iter().any(|note| note.contains("one slice of the modelled core in: 16")),
        "{:?}",
        both.notes
    );
}

#[test]
fn confidence_is_that_of_the_worse_side() {
    let (comparison, _) = compare(&made([CALM, [2000, 4000, 0, 0, 20_000, 20_000]]));
    let accuracy = row(&comparison, MODEL_CYCLES).accuracy.as_ref().unwrap();
    assert_eq!((accuracy.confidence.name(), accuracy.accuracy), ("low", None));
    assert!(accuracy.describe().contains("no estimate like it was validated"));
    let (comparison, _) = compare(&made([CALM, CALM]));
    let accuracy = row(&comparison, MODEL_CYCLES).accuracy.as_ref().unwrap();
    assert_eq!(accuracy.confidence.name(), "high");
}

#[test]
fn estimates_of_two_cores_are_not_comparable() {
    let one = made([CALM, CALM]);
    let mut two = Recording { id: "two".into(), ..made([CALM, CALM]) };
    let compared = |one: &Recording, two: &Recording| {
        let of = |recording| VariantOf { recording, variant: 0 };
        compare_recordings([of(one), of(two)], &[]).unwrap()
    };
    let same = compared(&one, &two);
    assert_ne!(row(&same.comparison, MODEL_CYCLES).changes[0].verdict, Verdict::NotComparable);
    let Target::Emulated(emulation) = &mut two.plan.target else { panic!("emulated") };
    emulation.core = Some(core("zen5"));
    let made = compared(&one, &two);
    let change = &row(&made.comparison, MODEL_CYCLES).changes[0];
    assert_eq!(change.verdict, Verdict::NotComparable);
    assert!(change.reason.starts_with("modelled with two cores, "), "{}", change.reason);
    assert!(made.notes.iter().any(|note| note.contains("modelled core: ")), "{:?}", made.notes);
    let counted = row(&made.comparison, "instructions");
    assert_ne!(counted.changes[0].verdict, Verdict::NotComparable, "counts have no model");
}
