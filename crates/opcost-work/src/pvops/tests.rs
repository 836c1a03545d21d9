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
fn what_is_left_is_what_a_computation_without_the_paths_leaves() {
    for (sites, entries, ops) in
        [("hot", 512, 700), ("hot", 256, 512), ("hot", 255, 512), ("cold", 512, 700)]
    {
        let (text, count) = (entries.to_string(), ops.to_string());
        let given = [("ops", count.as_str()), ("entries", &text), ("sites", sites)];
        let report = measured(&SPEC, &given, 9).unwrap();
        let left = expected(initial_entries(entries, 9), sites == "cold", 9, ops);
        assert_eq!(value(&report, "checksum-entries"), (checksum(&left) >> 16).to_string());
    }
}

#[test]
fn in_a_range_adjacent_entries_are_changed() {
    let changed = |length, cold, ops| {
        let before = vec![0; length];
        let after = expected(before, cold, 5, ops);
        after.iter().filter(|entry| **entry != 0).count()
    };
    assert_eq!(changed(300, false, 256), 256);
    // With single draws some entries are drawn more than once.
    assert!(changed(300, true, 256) < 256 && changed(255, false, 256) < 255);
}

#[test]
fn an_entry_that_is_not_what_it_has_to_be_is_an_error() {
    let mut work = Pvops::prepare(&resolved(&[("ops", "100")]), 3).unwrap();
    work.twin();
    work.work().unwrap();
    work.entries[511] ^= 1 << 20;
    let error = work.invariants().unwrap_err().to_string();
    assert!(error.starts_with("path=unpatched gave 0x"), "{error}");
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
                // Hot sites: a turn and a single one for the remainder. Cold sites: one in each copy.
                assert_eq!(of_key.len(), 64 + 1 + 64);
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
