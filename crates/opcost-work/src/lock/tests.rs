use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};

fn contender(given: &[(&str, &str)]) -> Contender {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Contender::prepare(&SPEC.resolve(&given).unwrap(), 1).unwrap()
}

/// Returns the shapes that work on this machine.
fn shapes() -> impl Iterator<Item = &'static str> {
    let patches =
        in_child(|| shape::patch_calls::<Unlocked>().map_or(String::new(), |()| "yes".into()));
    let patches = patches.unwrap() == "yes";
    if !patches {
        crate::skip::skip!("no code can be patched here: shape=patched");
    }
    SHAPES.split('|').filter(move |shape| patches || *shape != "patched")
}

fn told(report: &opcost_record::Report, name: &str) -> u64 {
    report.readings.iter().find(|reading| reading.key.name == name).unwrap().value
}

#[test]
fn every_lock_in_every_shape_does_the_same_work() {
    let mut seen = Vec::new();
    for kind in KINDS.split('|') {
        for shape in shapes() {
            let given = [("ops", "500"), ("kind", kind), ("shape", shape), ("inside", "3")];
            let report = measured(&SPEC, &given, 7).unwrap();
            assert_eq!(value(&report, "ops-lock"), "500", "{kind} {shape}");
            assert_eq!(value(&report, PAGE_FAULTS), "0", "{kind} {shape}");
            // Nobody else wants the lock.
            assert_eq!((told(&report, LOCK_HANDOVERS), told(&report, LOCK_RUN_MAX)), (0, 500));
            seen.push(value(&report, OP_STREAM_HASH).to_string());
        }
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
}

#[test]
fn threads_that_contend_lose_no_count() {
    for kind in KINDS.split('|') {
        for shape in shapes() {
            let given = [
                ("ops", "200"),
                ("kind", kind),
                ("shape", shape),
                ("threads", "3"),
                ("oversubscribe", "on"),
            ];
            // An inexact counter would be an error.
            let report = measured(&SPEC, &given, 1).unwrap();
            assert_eq!(report.ops, Some(600), "{kind} {shape}");
            let (handovers, run) = (told(&report, LOCK_HANDOVERS), told(&report, LOCK_RUN_MAX));
            assert!((2..600).contains(&handovers), "{kind} {shape}: {handovers}");
            assert!((1..=200).contains(&run), "{kind} {shape}: {run}");
        }
    }
}

#[test]
fn processes_have_locks_of_their_own() {
    let given = [("ops", "100"), ("procs", "2"), ("oversubscribe", "on")];
    let report = measured(&SPEC, &given, 1).unwrap();
    assert_eq!((report.ops, told(&report, LOCK_HANDOVERS)), (Some(200), 0));
}

#[test]
fn a_lost_count_is_an_error() {
    let said = in_child(|| {
        let mut contender = contender(&[("ops", "100"), ("kind", "queued")]);
        contender.warm_up().unwrap();
        contender.twin();
        contender.work().unwrap();
        contender.invariants().unwrap();
        // As if one operation were lost.
        contender.ops += 1;
        contender.invariants().unwrap_err().to_string()
    });
    assert_eq!(
        said.unwrap(),
        "the lock 'queued' counted 100 acquisitions where there were 101: two tasks had it at the \
         same time; this is a mistake in the lock: please report it"
    );
}

#[test]
fn the_twin_takes_no_lock() {
    let said = in_child(|| {
        let mut contender = contender(&[("ops", "100")]);
        spin::Ticket::instance().acquire(0);
        contender.twin();
        assert_eq!(contender.twin.done, 100);
        assert_eq!((WORK.total(), contender.alone.total()), (0, 0));
        String::new()
    });
    said.unwrap();
}

#[test]
fn loops_do_only_what_is_asked_for_and_come_to_the_same() {
    let duties = |given: &[(&str, &str)]| {
        let contender = contender(given);
        Duties::of(contender.rivals, contender.steps)
    };
    assert_eq!(duties(&[]), Duties::None);
    assert_eq!(duties(&[("threads", "1")]), Duties::None);
    assert_eq!(duties(&[("threads", "2")]), Duties::Record);
    for steps in ["inside", "outside"] {
        assert_eq!(duties(&[(steps, "1")]), Duties::RecordAndSteps);
    }
    let none = Steps { inside: 0, outside: 0 };
    let passes = [Duties::None, Duties::Record, Duties::RecordAndSteps].map(|duties| {
        let protected = Protected::new();
        let pass = duties.pass::<Unlocked, Inline>()(0, 1003, &protected, none, 7);
        assert_eq!(protected.total(), 1003, "{duties:?}");
        pass
    });
    assert_eq!(passes, [Pass { done: 1003, state: 7 }; 3]);
}

#[test]
fn what_is_not_known_is_refused() {
    let refused = |name: &str, value: &str| {
        SPEC.resolve(&[(name.into(), value.into())]).unwrap_err().to_string()
    };
    assert_eq!(
        refused("kind", "rw"),
        "workload 'lock' does not accept kind=rw; accepted: tas|byte|ticket|mcs|queued|pthread"
    );
    assert!(refused("shape", "jump").contains(SHAPES));
    assert!(refused("inside", "100001").contains("0..=100000"));
}
