use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};

fn contender(given: &[(&str, &str)]) -> Contender {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Contender::prepare(&SPEC.resolve(&given).unwrap(), 1).unwrap()
}

/// The shapes that this machine has.
fn shapes() -> impl Iterator<Item = &'static str> {
    let patches =
        in_child(|| shape::patch_calls::<Unlocked>().map_or(String::new(), |()| "yes".into()));
    let patches = patches.unwrap() == "yes";
    if !patches {
        eprintln!("SKIPPED: no code can be patched here: shape=patched");
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
            // Nobody else wants it.
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
            // An error, were the counter not exact.
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
        WORK.total.store(99, Ordering::Relaxed);
        contender.invariants().unwrap_err().to_string()
    });
    assert_eq!(
        said.unwrap(),
        "the lock 'queued' counted 99 acquisitions where there were 100: two tasks had it at the \
         same time; this is a mistake in the lock: please report it"
    );
}

#[test]
fn two_that_have_the_lock_at_once_lose_a_count() {
    let protected = Protected::new();
    // What two tasks do that are let in together: both read, then both write.
    let total = protected.total.load(Ordering::Relaxed);
    protected.enter(0);
    protected.total.store(total + 1, Ordering::Relaxed);
    assert!(contender(&[]).verify(&protected, 2).is_err());
}

#[test]
fn runs_and_handovers_are_counted() {
    let protected = Protected::new();
    for me in [0, 0, 1, 2, 2, 2, 0] {
        protected.enter(me);
    }
    assert_eq!(protected.total.load(Ordering::Relaxed), 7);
    assert_eq!(protected.handovers.load(Ordering::Relaxed), 3);
    assert_eq!(protected.run_longest(7), 3);
}

#[test]
fn the_twin_takes_no_lock() {
    let said = in_child(|| {
        let mut contender = contender(&[("ops", "100")]);
        spin::Ticket::the().acquire(0);
        contender.twin();
        assert_eq!(contender.twin.done, 100);
        assert_eq!(WORK.total.load(Ordering::Relaxed), 0);
        String::new()
    });
    said.unwrap();
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
