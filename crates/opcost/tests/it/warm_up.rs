//! The primary metric that the warm-up runs choose: made-up runs, disturbed and not.

use crate::lab::Lab;
use crate::made::{NoCounters, key, recording};
use crate::profiles::stored;
use opcost_lab::resolve::resolve;
use opcost_model::experiment::{Experiment, Seed, Variant};
use opcost_model::plan::{Plan, Slot};
use opcost_model::recording::Recording;
use opcost_record::Reading;

const MS: u64 = 1_000_000;

fn plan(warmup: u32, primary: Option<&str>) -> Plan {
    let variant = |name: &str| Variant {
        name: Some(name.into()),
        workload: Some("syscall".into()),
        ..Variant::default()
    };
    let experiment = Experiment {
        pairs: Some(22),
        warmup: Some(warmup),
        primary: primary.map(str::to_string),
        seed: Some(Seed::Number(1)),
        variants: vec![variant("A"), variant("B")],
        ..Experiment::default()
    };
    resolve(&experiment, &NoCounters).unwrap()
}

/// Wall, time on a CPU, and turns of other tasks of each run.
fn made(plan: Plan, figures: impl Fn(&Slot) -> (u64, u64, u64)) -> Recording {
    recording(plan, |slot| {
        let (wall, on_cpu, turns) = figures(slot);
        vec![
            Reading::plain(key("wall", "clock"), wall),
            Reading::plain(key("task-clock", "perf_event"), on_cpu),
            Reading::plain(key("involuntary-switches", "rusage"), turns),
        ]
    })
}

/// The heading's words about the primary metric, once the choice is made.
fn primary(mut recording: Recording) -> String {
    recording.choose_primary();
    let (comparison, _) = opcost_analysis::comparison::compare(&recording);
    let words = comparison.heading.iter().find(|part| part.starts_with("primary: ")).unwrap();
    let decides: Vec<_> = comparison.rows.iter().filter(|row| row.primary).collect();
    assert_eq!(decides.len(), 1);
    assert!(words[9..].starts_with(&decides[0].label), "{words}, but {} decides", decides[0].label);
    words[9..].to_string()
}

#[test]
fn turns_of_other_tasks_in_the_warm_up_let_time_on_a_cpu_decide() {
    // Only the warm-up runs are asked: the first two.
    let turned = |turns: [u64; 2]| {
        move |slot: &Slot| {
            let turns = turns.get(slot.slot as usize).copied().unwrap_or(0);
            (20 * MS + u64::from(slot.slot), 9 * MS + u64::from(slot.slot), turns)
        }
    };
    let turns = "task-clock, as other tasks had 75 turns a second in the warm-up";
    assert_eq!(primary(made(plan(1, None), turned([2, 1]))), turns);
    assert_eq!(primary(made(plan(1, None), turned([1, 1]))), "wall", "two may be chance");
    assert_eq!(primary(made(plan(1, Some("wall")), turned([2, 1]))), "wall", "the user's word");
    assert_eq!(primary(made(plan(0, None), turned([9, 9]))), "wall", "there is no warm-up");
    let slow = |slot: &Slot| (1000 * MS, 900 * MS, if slot.slot < 2 { 50 } else { 90 });
    assert_eq!(primary(made(plan(1, None), slow)), "wall", "50 turns a second are none too many");
    // The threads of a run on several CPUs take turns with each other.
    let parallel = |slot: &Slot| (20 * MS, 22 * MS + u64::from(slot.slot), 9);
    assert_eq!(primary(made(plan(1, None), parallel)), "wall");
}

#[test]
fn a_wide_spread_of_wall_alone_lets_time_on_a_cpu_decide() {
    // Each variant's first run is far off in both; the others' wall spreads by `wide` ms.
    let spread = |wide: u64, on_cpu: u64| {
        move |slot: &Slot| match slot.slot {
            0 | 1 => (90 * MS, 50 * MS, 0),
            slot => {
                let nth = u64::from(slot / 2 % 3);
                (20 * MS + wide * nth * MS, on_cpu * MS + nth * MS, 0)
            }
        }
    };
    // The standard deviation of 20, 23, 26 is 3, of 18, 19, 20 it is 1.
    let words = "task-clock, as wall spread by 13.0 % in the warm-up, task-clock by 5.3 %";
    assert_eq!(primary(made(plan(4, None), spread(3, 18))), words);
    assert_eq!(primary(made(plan(4, None), spread(2, 18))), "wall", "9.1 % are not twice 5.3 %");
    assert_eq!(primary(made(plan(3, None), spread(3, 18))), "wall", "two runs show no spread");
    // On a CPU for 9 of 23 ms: such a run mostly waits, but not for a CPU.
    let waiting = |slot: &Slot| (20 * MS + u64::from(slot.slot % 7) * MS, 9 * MS, 0);
    assert_eq!(primary(made(plan(4, None), waiting)), "wall");
}

#[test]
fn every_reader_makes_the_same_choice_and_none_before_the_warm_up_is_over() {
    let lab = Lab::new();
    let disturbed = |slot: &Slot| (20 * MS + u64::from(slot.slot), 9 * MS, 5);
    let whole = made(plan(1, None), disturbed);
    let id = stored(&lab, &whole);
    let json = lab.json(&["show", &id, "--json"]);
    assert_eq!(json["opcost"]["plan"]["primary"]["name"], "task-clock");
    let text = lab.output(&["show", &id]);
    assert!(text.contains("primary: task-clock, as other tasks had 250 turns"), "{text}");
    let mut begun = Recording { records: whole.records[..1].to_vec(), ..whole };
    begun.choose_primary();
    assert_eq!((begun.plan.primary.label(), begun.primary_reason()), ("wall".into(), None));
}
