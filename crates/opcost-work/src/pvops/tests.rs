use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::PAGE_FAULTS;
use crate::params::Params;

fn resolved(given: &[(&str, &str)]) -> Params {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    SPEC.resolve(&given).unwrap()
}

#[test]
fn every_path_does_the_same_work() {
    for sites in ["hot", "cold"] {
        let mut reports = Vec::new();
        for path in path::NAMES.split('|') {
            let given = [("ops", "1003"), ("path", path), ("sites", sites), ("entries", "77")];
            let report = measured(&SPEC, &given, 5).unwrap();
            for name in NAMES {
                assert_eq!(value(&report, &format!("ops-{name}")), "1003", "{path}");
            }
            assert_eq!(value(&report, PAGE_FAULTS), "0", "{path}");
            reports.push(report);
        }
        reports.dedup();
        assert_eq!(reports.len(), 1, "{reports:?}");
    }
}

#[test]
fn the_checksums_are_those_of_a_computation_without_the_paths() {
    let report = measured(&SPEC, &[("ops", "500"), ("path", "inlined")], 9).unwrap();
    let (read, entries) = expected(initial_entries(512, 9), 9, 500);
    let left = entries.iter().fold(0, |sum, entry| fold(sum, *entry));
    assert_eq!(value(&report, "checksum-read"), (read >> 16).to_string());
    assert_eq!(value(&report, "checksum-entries"), (left >> 16).to_string());
}

#[test]
fn paths_are_exchanged_in_one_process_and_leave_no_trace() {
    let said = in_child(|| {
        let mut work = Pvops::prepare(&resolved(&[("ops", "300")]), 3).unwrap();
        let mut told = Vec::new();
        for path in ["inlined", "unpatched", "direct", "inlined", "compiled-in", "retpoline"] {
            work.exchange(path).unwrap();
            work.warm_up().unwrap();
            work.twin();
            work.work().unwrap();
            told.push(work.invariants().unwrap());
        }
        told.dedup();
        assert_eq!(told.len(), 1, "{told:?}");
        String::new()
    });
    said.unwrap();
}

#[test]
#[cfg(target_arch = "x86_64")]
fn sites_are_what_the_path_says() {
    use operations::{FLUSH, MAKE_PTE, PTE_VAL, SET_PTE};
    let said = in_child(|| {
        let mut work = Pvops::prepare(&resolved(&[("path", "inlined")]), 3).unwrap();
        let keys = [PTE_VAL.raw(), MAKE_PTE.raw(), SET_PTE.raw(), FLUSH.raw()];
        let check = |states: [&str; 4]| {
            let sites = patchpoint::sites().unwrap();
            for (key, state) in keys.iter().zip(states) {
                let of_key: Vec<_> = sites.iter().filter(|site| site.key == *key).collect();
                // One where sites are hot, and one in each copy.
                assert_eq!(of_key.len(), 65);
                assert!(of_key.iter().all(|site| site.state == state), "{of_key:?}");
            }
        };
        check(["move", "move", "inline", "nop"]);
        work.exchange("direct").unwrap();
        check(["call"; 4]);
        work.exchange("unpatched").unwrap();
        check(["call"; 4]);
        work.exchange("inlined").unwrap();
        check(["move", "move", "inline", "nop"]);
        String::new()
    });
    said.unwrap();
}

#[test]
fn the_twin_changes_no_entry() {
    let mut work = Pvops::prepare(&resolved(&[("ops", "100")]), 3).unwrap();
    let before = work.entries.clone();
    work.twin();
    assert_eq!(work.entries, before);
    work.work().unwrap();
    assert_ne!(work.entries, before);
    assert_eq!(work.twin.unwrap().hash, work.work.unwrap().hash);
}

#[test]
fn an_unknown_path_is_refused_by_name() {
    let mut work = Pvops::prepare(&resolved(&[]), 3).unwrap();
    let error = work.exchange("teleport").unwrap_err().to_string();
    assert!(error.starts_with("there is no path 'teleport'; there are: unpatched, "), "{error}");
}

#[test]
fn a_key_without_patched_sites_refuses_the_path() {
    static UNUSED: patchpoint::Branch = patchpoint::Branch::new(c"pvops_unused", false);
    let error = crate::patched::require_patched("inlined", &[UNUSED.raw()]).unwrap_err();
    assert!(error.to_string().starts_with("path=inlined needs patched code"), "{error}");
}
