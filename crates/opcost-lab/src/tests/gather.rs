use crate::resolve::fixture::{FakeSurroundings, experiment};
use crate::resolve::resolve;
use opcost_base::exit::{HasStatus, Status};
use opcost_model::experiment::Experiment;
use opcost_model::plan::{MachineKind, Plan, Shard};
use opcost_model::recording::{KernelState, MachineState, ProgramState, Recording, State};
use opcost_record::metric::EMULATOR;
use opcost_record::{Dictionary, Domain, MetricKey, Outcome, Profile, Record, Sample};
use opcost_store::gather::*;
use std::path::PathBuf;

fn asked(shard: Option<Shard>) -> Experiment {
    Experiment {
        machine: Some(MachineKind::Emulated),
        kernel: vec!["a".into()],
        shard,
        ..experiment(2, 5)
    }
}

fn made(asked: &Experiment) -> Recording {
    let plan = resolve(asked, &FakeSurroundings::default()).unwrap();
    let keys = [("instructions", EMULATOR), ("wall", "clock")];
    let keys = keys.map(|(name, source)| MetricKey::new(name, Domain::All, source));
    let record = |slot: opcost_model::plan::Slot| Record {
        slot: slot.slot,
        variant: slot.variant,
        block: slot.compared_in(),
        started_unix_ns: u64::from(slot.slot),
        outcome: Outcome::Finished,
        exit_code: Some(0),
        ops: Some(100),
        samples: (0..2)
            .map(|metric| Sample {
                metric,
                value: 1000 + u64::from(slot.variant) + u64::from(slot.block.unwrap_or(0)),
                time: None,
            })
            .collect(),
        invariants: Vec::new(),
    };
    let program = |path: &str| ProgramState {
        path: PathBuf::from(path),
        length_bytes: 1,
        sha256: "c0ffee".repeat(10),
        sizes: None,
    };
    let records: Vec<Record> = plan.slots().map(record).collect();
    Recording {
        id: String::new(),
        created_unix_ns: 1,
        arrived_unix_ns: None,
        state: State::Finished,
        machine: vec![MachineState {
            opcost_version: "1".into(),
            emulator_version: Some("10.0.2".into()),
            programs: ["qemu", "plugin", "init", "/bin/x"].map(program).into(),
            kernels: vec![KernelState {
                variant: 0,
                name: "a".into(),
                release: "6.1".into(),
                digest: "ab".repeat(32),
                config: None,
                sizes: None,
            }],
            ..MachineState::default()
        }],
        dictionary: Dictionary::from_keys(keys.into()),
        profiles: records.iter().map(|run| (run.slot, Profile::default())).collect(),
        plan,
        records,
    }
}

fn parts(of: u32) -> Vec<Part> {
    let part = |index| Part {
        file: format!("part-{index}"),
        recording: made(&asked(Some(Shard { index, of }))),
    };
    (1..=of).map(part).collect()
}

#[track_caller]
fn check_refused(parts: Vec<Part>, status: Status, words: &[&str]) {
    let error = gather(parts).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.status(), status, "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "no '{word}' in: {text}"));
}

#[test]
fn parts_in_any_order_are_the_whole() {
    let whole = made(&asked(None));
    for of in [1, 2, 5] {
        let mut parts = parts(of);
        parts.reverse();
        // This computer numbers its metrics in another order.
        let recording = &mut parts[0].recording;
        let mut keys = recording.dictionary.keys().to_vec();
        keys.reverse();
        recording.dictionary = Dictionary::from_keys(keys);
        for record in &mut recording.records {
            record.samples.iter_mut().for_each(|sample| sample.metric = 1 - sample.metric);
        }
        let gathered = gather(parts).unwrap();
        assert_eq!(gathered.plan, Plan { stop: gathered.plan.stop.clone(), ..whole.plan.clone() });
        let key = |run: &Record| {
            let label = |sample: &Sample| gathered.dictionary.key(sample.metric).unwrap().label();
            let mut values: Vec<(String, u64)> =
                run.samples.iter().map(|sample| (label(sample), sample.value)).collect();
            values.sort();
            (run.slot, run.variant, run.block, values)
        };
        let of_whole = |run: &Record| {
            (run.slot, run.variant, run.block, {
                let label = |sample: &Sample| whole.dictionary.key(sample.metric).unwrap().label();
                let mut values: Vec<(String, u64)> =
                    run.samples.iter().map(|sample| (label(sample), sample.value)).collect();
                values.sort();
                values
            })
        };
        assert_eq!(
            gathered.records.iter().map(key).collect::<Vec<_>>(),
            whole.records.iter().map(of_whole).collect::<Vec<_>>()
        );
        assert_eq!(gathered.profiles, whole.profiles);
        assert_eq!(gathered.machine, whole.machine);
    }
}

#[test]
fn missing_and_unfinished_parts_are_named_and_a_finished_one_counts() {
    let mut some = parts(5);
    some.retain(|part| !["part-2", "part-3", "part-5"].contains(&part.file.as_str()));
    check_refused(some, Status::Missing, &["shards 2-3,5 of 5", "--shard N/5"]);
    let mut cut = parts(3);
    cut[1].recording.state = State::Interrupted;
    cut[1].recording.records.truncate(3);
    let again = cut[1].clone();
    check_refused(
        cut.clone(),
        Status::Missing,
        &["shard 2 in 'part-2' (interrupted, 3 of 6 runs)"],
    );
    cut[1] = parts(3).remove(1);
    cut.push(again);
    assert!(gather(cut).is_ok());
    let mut twice = parts(2);
    twice.push(Part { file: "copy".into(), ..twice[1].clone() });
    check_refused(twice, Status::Usage, &["shard 2 is there twice", "'part-2' and 'copy'"]);
}

#[test]
fn parts_of_other_plans_programs_kernels_and_emulators_are_refused() {
    let changed = |change: &dyn Fn(&mut Recording)| {
        let mut parts = parts(2);
        change(&mut parts[1].recording);
        parts
    };
    let refused = |change: &dyn Fn(&mut Recording), words: &[&str]| {
        let words = [words, &["'part-1' and 'part-2'"]].concat();
        check_refused(changed(change), Status::NotComparable, &words);
    };
    refused(&|part| part.plan.seed = 7, &["different plans", "seed is 1 and 7"]);
    refused(
        &|part| part.plan.variants[1].env.push(("A".into(), "b".into())),
        &["variants[1].env is 0 of them and 1 of them"],
    );
    refused(&|part| part.plan.shards = None, &["shards is"]);
    let state = |part: &mut Recording| part.machine[0].clone();
    refused(
        &|part| {
            part.machine = vec![MachineState { emulator_version: Some("11".into()), ..state(part) }]
        },
        &["QEMU is 10.0.2 and 11"],
    );
    refused(&|part| part.machine[0].opcost_version = "2".into(), &["opcost is 1 and 2"]);
    refused(&|part| part.machine[0].kernels[0].digest = "cd".into(), &["kernel a is"]);
    refused(&|part| part.machine[0].programs[3].sha256 = "00".into(), &["program /bin/x is"]);
    refused(
        &|part| part.machine[0].programs[2].sha256 = "00".into(),
        &["program init is c0ffeec0ffee and 00"],
    );
    refused(&|part| drop(part.machine[0].programs.pop()), &["/bin/x is c0ffeec0ffee and none"]);
    // QEMU of another package may have other bytes, so only its version and its counts are compared.
    assert!(gather(changed(&|part| part.machine[0].programs[0].sha256 = "00".into())).is_ok());
}

#[test]
fn counts_of_the_common_run_that_differ_are_named() {
    let mut other = parts(3);
    let warm_up = |part: &mut Part| part.recording.records[1].samples.clone();
    let samples = warm_up(&mut other[2]);
    other[2].recording.records[1].samples =
        samples.iter().map(|sample| Sample { value: sample.value + 1, ..*sample }).collect();
    check_refused(
        other,
        Status::NotComparable,
        &[
            "'part-1' and 'part-3'",
            "'v1' instructions 1,001 and 1,002",
            "the same on every computer",
        ],
    );
    // Times always differ.
    let mut other = parts(2);
    other[1].recording.records[0].samples[1].value += 5;
    assert!(gather(other).is_ok());
}
