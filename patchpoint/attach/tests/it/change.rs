//! Real programs, changed while their threads run.

use crate::made::Busy;
use patchpoint_attach::body;
use patchpoint_attach::change::Change;
use patchpoint_attach::process::{Process, Purpose};
use patchpoint_attach::survey::{Key, Kind, Survey};
use patchpoint_attach::symbol;
use patchpoint_attach::target::Restored;
use patchpoint_attach::writes::Side;
use patchpoint_attach::{AttachError, ChangeError, Form, State, memory::Memory, registry};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

const FOUND: &str = "slow=0 rounds=4 wide=7 step=identity mode=0";

fn key<'a>(survey: &'a Survey, name: &str) -> &'a Key {
    survey.keys.iter().find(|key| key.name == name).unwrap()
}

fn opened(busy: &Busy) -> (Process, Survey) {
    let process = Process::open(busy.pid(), Purpose::Change).unwrap();
    let survey = process.survey().unwrap();
    (process, survey)
}

/// A change of one key to one value.
fn plan(process: &Process, survey: &Survey, name: &str, asked: u64) -> Result<Change, ChangeError> {
    let key = key(survey, name);
    Change::plan(survey, key, &[body::state_with(process, survey, key, asked)])
}

fn function(process: &Process, name: &str) -> u64 {
    let functions = symbol::functions(process, &process.mappings().unwrap(), |_| true).functions;
    functions.iter().find(|function| function.name == name).unwrap().address
}

#[test]
fn a_survey_finds_what_the_library_finds() {
    let Some(busy) = Busy::run(1, "") else { return };
    let (_, survey) = opened(&busy);
    let names: Vec<&str> = survey.keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["churned", "mode", "rounds", "slow", "step", "wide"]);
    let step = key(&survey, "step");
    assert_eq!((step.kind, step.state.form), (Kind::Call, Form::INLINE));
    let mut states: Vec<&str> = step.sites.iter().map(|site| site.state).collect();
    states.sort_unstable();
    states.dedup();
    assert_eq!(states, ["move"]);
    let rounds = key(&survey, "rounds");
    assert_eq!((rounds.kind, rounds.size, rounds.state.value), (Kind::Value, 4, 4));
    assert!(rounds.sites.iter().all(|site| site.state == "immediate" && site.path == rounds.path));
    assert!(key(&survey, "slow").sites.iter().all(|site| site.state == "nop"));
    let mode = key(&survey, "mode");
    assert_eq!((mode.kind, mode.size, mode.state.value), (Kind::Switch, 3, 0));
    assert!(mode.sites.iter().all(|site| site.state == "nop"));
    assert!(survey.registries[0].at_rest());
    assert!(survey.registries[0].ops.is_some());
}

/// The library marks keys that functions with variants follow, and these functions.
#[test]
fn keys_of_functions_with_variants_are_left_to_the_library() {
    let Some(busy) = Busy::run(1, "") else { return };
    let (process, survey) = opened(&busy);
    let flags = key(&survey, "slow").address + 55;
    let memory = File::options().write(true).open(format!("/proc/{}/mem", busy.pid())).unwrap();
    for mark in [4, 8] {
        memory.write_all_at(&[mark], flags).unwrap();
        let survey = process.survey().unwrap();
        let error = plan(&process, &survey, "slow", 1).unwrap_err();
        assert!(matches!(&error, ChangeError::Bound { key } if key == "slow"), "{error}");
        assert!(plan(&process, &survey, "rounds", 1).is_ok());
    }
    memory.write_all_at(&[0], flags).unwrap();
    assert!(plan(&process, &process.survey().unwrap(), "slow", 1).is_ok());
}

/// Changes a key back and forth many times; in the end everything is as the library left it.
fn flip(name: &str, asked: impl Fn(&Process) -> u64, then: &str, plain: bool) {
    let Some(mut busy) = Busy::run(4, if plain { "plain" } else { "" }) else { return };
    assert_eq!(busy.ask("see"), FOUND);
    let (process, survey) = opened(&busy);
    let change = plan(&process, &survey, name, asked(&process)).unwrap();
    assert_eq!(change.code_writes == 0, plain);
    for round in 0..20 {
        let mut threads = 0;
        let applied =
            process.apply(&change, Side::FOUND, Side::ASKED, |stopped| threads = stopped.len());
        assert!(applied.unwrap().stopped_ns > 0);
        assert_eq!(threads, 5);
        assert_eq!(busy.ask("see"), then, "round {round}");
        process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap();
        assert_eq!(busy.ask("see"), FOUND, "round {round}");
    }
    assert_eq!(process.survey().unwrap().keys, survey.keys);
    process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
    // The library finds no foreign bytes and continues from there.
    assert_eq!(busy.ask("check"), "check 0");
    assert_eq!(busy.ask("see"), FOUND);
}

#[test]
fn a_branch() {
    flip("slow", |_| 1, "slow=1 rounds=4 wide=7 step=identity mode=0", false);
}

#[test]
fn values_of_both_lengths() {
    flip("rounds", |_| 5, "slow=0 rounds=5 wide=7 step=identity mode=0", false);
    let wide = "slow=0 rounds=4 wide=1234605616436508552 step=identity mode=0";
    flip("wide", |_| 0x1122_3344_5566_7788, wide, false);
}

#[test]
fn a_switch() {
    flip("mode", |_| 2, "slow=0 rounds=4 wide=7 step=identity mode=2", false);
}

#[test]
fn an_inlined_call_becomes_a_direct_one_and_is_inlined_again() {
    let mix = |process: &Process| function(process, "step_mix");
    flip("step", mix, "slow=0 rounds=4 wide=7 step=mix mode=0", false);
}

#[test]
fn sites_that_are_as_compiled_stay_so() {
    flip("slow", |_| 1, "slow=1 rounds=4 wide=7 step=identity mode=0", true);
    let mix = |process: &Process| function(process, "step_mix");
    flip("step", mix, "slow=0 rounds=4 wide=7 step=mix mode=0", true);
}

#[test]
fn what_is_written_is_what_the_library_writes() {
    let Some(mut busy) = Busy::run(1, "") else { return };
    let (process, survey) = opened(&busy);
    let change = plan(&process, &survey, "rounds", 6).unwrap();
    process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
    let ours = process.survey().unwrap();
    process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap();
    assert_eq!(busy.ask("own 6"), "own 0");
    assert_eq!(process.survey().unwrap().keys, ours.keys);
}

/// The distinct states of the sites of `step`, sorted.
fn step_states(survey: &Survey) -> Vec<&'static str> {
    let mut states: Vec<&str> = key(survey, "step").sites.iter().map(|site| site.state).collect();
    states.sort_unstable();
    states.dedup();
    states
}

#[test]
fn functions_are_inlined_or_called_just_as_the_library_does_it() {
    let Some(mut busy) = Busy::run(1, "") else { return };
    let (process, survey) = opened(&busy);
    let cases: [(&str, &[&str]); 6] = [
        ("zero", &["constant"]),
        ("low", &["move"]),
        ("plus", &["inline"]),
        ("mix", &["call", "thunk"]),
        ("other", &["call", "thunk"]),
        // The function keeps the registers itself, so sites that preserve them call it, too.
        ("keep", &["call"]),
    ];
    for (name, states) in cases {
        let asked = function(&process, &format!("step_{name}"));
        let change = plan(&process, &survey, "step", asked).unwrap();
        process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
        let ours = process.survey().unwrap();
        assert_eq!(busy.ask("see"), format!("slow=0 rounds=4 wide=7 step={name} mode=0"));
        assert_eq!(step_states(&ours), states, "{name}");
        process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap();
        assert_eq!(busy.ask(&format!("call {name}")), "call 0");
        // The survey compares the key's form and body, too.
        assert_eq!(process.survey().unwrap().keys, ours.keys, "{name}");
        assert_eq!(busy.ask("call identity"), "call 0");
    }
    assert_eq!(process.survey().unwrap().keys, survey.keys);
}

#[test]
fn where_the_programs_library_inlines_otherwise_functions_are_called() {
    let Some(mut busy) = Busy::run(1, "") else { return };
    let (process, survey) = opened(&busy);
    assert!(body::agrees(&process, key(&survey, "step")));
    // The body is as if that library had another way to return its argument.
    let mut other = key(&survey, "step").clone();
    other.state.body = [0x40, 0x3e, 0x2e, 0x2e, 0x48, 0x89, 0xf8];
    assert!(!body::agrees(&process, &other));
    let zero = function(&process, "step_zero");
    assert_eq!(body::state_with(&process, &survey, &other, zero).form, Form::DIRECT);
    assert_eq!(body::state_with(&process, &survey, key(&survey, "step"), zero).form, Form::INLINE);
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn one_change_has_as_many_sides_as_are_asked_for() {
    let Some(mut busy) = Busy::run(3, "") else { return };
    let (process, survey) = opened(&busy);
    let step = key(&survey, "step");
    let names = ["identity", "zero", "mix", "plus"];
    let states: Vec<State> = names[1..]
        .iter()
        .map(|name| {
            body::state_with(&process, &survey, step, function(&process, &format!("step_{name}")))
        })
        .collect();
    let change = Change::plan(&survey, step, &states).unwrap();
    assert_eq!(change.writes[0].sides.len(), 4);
    let mut from = 0;
    for to in [1, 2, 3, 1, 3, 2, 0, 3, 0] {
        process.apply(&change, Side(from), Side(to), |_| ()).unwrap();
        assert_eq!(busy.ask("see"), format!("slow=0 rounds=4 wide=7 step={} mode=0", names[to]));
        from = to;
    }
    assert_eq!(process.survey().unwrap().keys, survey.keys);
    // The process must hold the side that the change starts from; restoring works from any side.
    let error = process.apply(&change, Side(2), Side(1), |_| ()).unwrap_err();
    assert!(matches!(error, AttachError::Changed { .. }), "{error}");
    for side in 1..4 {
        process.apply(&change, Side(0), Side(side), |_| ()).unwrap();
        assert_eq!(process.restore(&change).unwrap(), Restored::Done { forked: 0 });
        assert_eq!(process.survey().unwrap().keys, survey.keys, "side {side}");
    }
    let twice = Change::plan(&survey, step, &[states[0], states[0]]).unwrap_err();
    assert!(matches!(twice, ChangeError::Twice { .. }), "{twice}");
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn a_program_that_changes_other_keys_all_the_time_is_caught_at_rest() {
    let Some(mut busy) = Busy::run(2, "") else { return };
    assert_eq!(busy.ask("churn"), "churn 0");
    let (process, survey) = opened(&busy);
    let Ok(change) = plan(&process, &survey, "slow", 1) else { panic!("not planned") };
    let mut retries = 0;
    for _ in 0..50 {
        for (from, to) in [(Side::FOUND, Side::ASKED), (Side::ASKED, Side::FOUND)] {
            retries += process.apply(&change, from, to, |_| ()).unwrap().retries;
        }
    }
    // The change in progress is finished while all other threads stand still, unless its thread gets no CPU.
    assert!(retries < 100, "{retries} retries");
    assert_eq!(busy.ask("see"), FOUND);
}

#[test]
fn a_change_by_the_program_itself_is_noticed_and_left_alone() {
    let Some(mut busy) = Busy::run(1, "") else { return };
    let (process, survey) = opened(&busy);
    let change = plan(&process, &survey, "rounds", 5).unwrap();
    process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
    assert_eq!(busy.ask("own 77"), "own 0");
    let error = process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap_err();
    assert!(matches!(error, AttachError::Changed { .. }), "{error}");
    let error = process.restore(&change).unwrap_err();
    assert!(matches!(error, AttachError::Changed { .. }), "{error}");
    assert_eq!(busy.ask("see"), "slow=0 rounds=77 wide=7 step=identity mode=0");
}

#[test]
fn a_change_that_was_cut_short_is_restored() {
    let Some(mut busy) = Busy::run(4, "") else { return };
    let (process, survey) = opened(&busy);
    let change = plan(&process, &survey, "step", function(&process, "step_mix")).unwrap();
    assert!(change.writes.len() > 3);
    for written in 0..=change.writes.len() {
        let writes = change.writes[..written].to_vec();
        let code_writes = change.code_writes.min(written);
        let part = Change { writes, code_writes, ..change.clone() };
        process.apply(&part, Side::FOUND, Side::ASKED, |_| ()).unwrap();
        assert_eq!(process.restore(&change).unwrap(), Restored::Done { forked: 0 });
        assert_eq!(process.survey().unwrap().keys, survey.keys, "after {written} writes");
    }
    assert_eq!(busy.ask("check"), "check 0");
}

#[test]
fn a_breakpoint_refuses_the_change() {
    let Some(busy) = Busy::run(1, "plain") else { return };
    let (process, survey) = opened(&busy);
    let site = key(&survey, "churned").sites[0].place.code;
    let mut damaged = survey.clone();
    let keys = damaged.keys.iter_mut().filter(|key| key.name == "churned");
    keys.for_each(|key| key.sites[0].now[0] = 0xcc);
    let error = plan(&process, &damaged, "churned", 1).unwrap_err();
    assert!(matches!(error, ChangeError::Breakpoint { address, .. } if address == site));
    let same = plan(&process, &survey, "churned", 0).unwrap_err();
    assert!(matches!(same, ChangeError::Same { .. }));
    assert_eq!(process.survey().unwrap().keys, survey.keys);
}

#[test]
fn a_target_that_is_killed_in_mid_flip_is_said_to_have_ended() {
    let Some(busy) = Busy::run(4, "") else { return };
    let (process, survey) = opened(&busy);
    let change = plan(&process, &survey, "slow", 1).unwrap();
    let pid = busy.pid().to_string();
    let kill =
        |_: &[i32]| assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    process.apply(&change, Side::FOUND, Side::ASKED, kill).unwrap();
    drop(busy);
    let error = process.apply(&change, Side::ASKED, Side::FOUND, |_| ()).unwrap_err();
    assert!(matches!(error, AttachError::Ended { .. }), "{error}");
    assert_eq!(process.restore(&change).unwrap(), Restored::Gone);
    assert!(!process.is_alive());
}

#[test]
fn operations_are_counted_while_it_runs() {
    let Some(busy) = Busy::run(2, "") else { return };
    let (process, survey) = opened(&busy);
    let count = || process.number(registry::ops_address(survey.registries[0].address)).unwrap();
    let before = count();
    while count() == before {
        std::thread::yield_now();
    }
    assert_eq!((count() - before) % 256, 0);
}

#[test]
fn where_objects_came_or_went_nothing_is_flipped_and_everything_there_is_restored() {
    let Some(mut busy) = Busy::run(2, "") else { return };
    let (process, survey) = opened(&busy);
    for (name, asked) in [("step", function(&process, "step_mix")), ("rounds", 9), ("slow", 1)] {
        let change = plan(&process, &survey, name, asked).unwrap();
        process.apply(&change, Side::FOUND, Side::ASKED, |_| ()).unwrap();
        // The change looks as if an object, with one of the sites, had come since.
        let mut earlier = change.clone();
        earlier.objects.push((1, 1));
        earlier.writes.remove(0);
        earlier.code_writes -= 1;
        let error = process.apply(&earlier, Side::ASKED, Side::FOUND, |_| ()).unwrap_err();
        assert!(matches!(error, AttachError::OtherObjects { .. }), "{error}");
        assert_eq!(process.restore(&earlier).unwrap(), Restored::Done { forked: 0 });
        assert_eq!(process.survey().unwrap().keys, survey.keys, "{name}");
    }
    assert_eq!(busy.ask("check"), "check 0");
}
