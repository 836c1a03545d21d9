use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::PAGE_FAULTS;

fn prepared(given: &[(&str, &str)]) -> Immediate {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Immediate::prepare(&SPEC.resolve(&given).unwrap(), 1).unwrap()
}

#[test]
fn every_path_does_the_same_work() {
    for (reads, pollute) in [("1", "0"), ("32", "100"), ("128", "0"), ("4096", "7")] {
        let mut reports = Vec::new();
        for path in NAMES.split('|') {
            let given = [("ops", "50"), ("path", path), ("reads", reads), ("pollute", pollute)];
            let report = measured(&SPEC, &given, 5).unwrap();
            let expected = 50 * reads.parse::<u64>().unwrap();
            assert_eq!(value(&report, "reads"), expected.to_string());
            assert_eq!(value(&report, PAGE_FAULTS), "0", "{path}");
            reports.push(report);
        }
        reports.dedup();
        assert_eq!(reports.len(), 1, "{reports:?}");
    }
}

#[test]
fn every_read_sees_the_number_by_its_own_path_only() {
    let said = in_child(|| {
        for reads in ["1", "32", "4096"] {
            let mut work = prepared(&[("reads", reads)]);
            for path in ["branch", "load", "immediate", "branch"] {
                work.exchange(path).unwrap();
                work.verify().unwrap();
                // Only loads see a change of the number in memory.
                for line in &mut work.lines {
                    line.0[0] = 1;
                }
                let seen = work.go(1).taken;
                assert_eq!(seen, if path == "load" { work.reads } else { 0 }, "{path}");
                work.set_number(0).unwrap();
            }
        }
        String::new()
    });
    said.unwrap();
}

#[test]
fn a_read_that_sees_another_number_is_an_error() {
    let said = in_child(|| {
        let mut work = prepared(&[("ops", "3"), ("reads", "5")]);
        work.twin();
        for line in &mut work.lines {
            line.0[0] = 1;
        }
        work.work().unwrap();
        work.invariants().unwrap_err().to_string()
    });
    assert_eq!(
        said.unwrap(),
        "path=load gave 0xf where 0x0 is right: its figures mean nothing; this is a mistake in the \
         workload: please report it"
    );
}

#[test]
fn the_first_line_is_drawn() {
    let hash_of = |seed| {
        let report = measured(&SPEC, &[("ops", "2")], seed).unwrap();
        value(&report, crate::OP_STREAM_HASH).to_string()
    };
    assert_ne!(hash_of(1), hash_of(2));
}
