use super::*;
use crate::in_child::{NoMeter, bytes_of_child, in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};
use crate::measure::{Measured, measure_paths};
use opcost_record::Report;
use routine::ROUTINES;

#[test]
fn every_routine_does_the_same_work_at_every_size() {
    for (size, ops) in
        [("0", "100"), ("48", "1000"), ("4096", "100"), ("small", "3000"), ("real", "3000")]
    {
        let mut seen = Vec::new();
        for routine in ROUTINES.iter().filter(|routine| routine::find(routine.name).is_ok()) {
            let given = [("path", routine.name), ("size", size), ("ops", ops)];
            seen.push(measured(&SPEC, &given, 5).unwrap());
        }
        assert_eq!(value(&seen[0], PAGE_FAULTS), "0");
        assert_eq!(value(&seen[0], "ops-copy"), ops);
        assert!(seen.iter().all(|report| *report == seen[0]), "{size}: {seen:?}");
    }
}

#[test]
fn in_one_process_every_path_does_what_it_does_in_its_own() {
    let names = ROUTINES.iter().filter(|routine| routine::find(routine.name).is_ok());
    // Back and forth, as in a block.
    let mut paths: Vec<String> = names.map(|routine| routine.name.to_string()).collect();
    paths.extend(paths.clone().into_iter().rev());
    for size in ["48", "4099", "real"] {
        let given = [("size", size), ("ops", "500")];
        let alone = measured(&SPEC, &given, 5).unwrap();
        let params = given.map(|(name, value)| (name.to_string(), value.to_string()));
        let params = SPEC.resolve(&params).unwrap();
        let reports = bytes_of_child(|| {
            let mut reports = Vec::new();
            measure_paths(&SPEC, &params, 5, &paths, &mut NoMeter, &mut |_, measured| {
                let Measured { ops, invariants, .. } = measured;
                reports.extend(Report { ops: Some(ops), readings: vec![], invariants }.encode());
            })
            .unwrap();
            reports
        });
        assert_eq!(reports.unwrap(), alone.encode().repeat(paths.len()), "{size}");
    }
}

#[test]
fn sizes_and_contents_come_from_the_seed_and_the_offset_changes_neither() {
    let of = |size: &str, offset: &str, seed| {
        let given = [("ops", "500"), ("size", size), ("offset", offset)];
        let report = measured(&SPEC, &given, seed).unwrap();
        [OP_STREAM_HASH, "bytes", "checksum"].map(|name| value(&report, name).to_string())
    };
    assert_eq!(of("real", "0", 1), of("real", "2048", 1));
    let (one, two) = (of("real", "0", 1), of("real", "0", 2));
    assert_ne!(one[0], two[0]);
    assert_ne!(one[2], two[2]);
    let (one, two) = (of("48", "0", 1), of("48", "0", 2));
    assert_eq!((one[1].as_str(), &one[0]), ("24000", &two[0]), "the same copies of other bytes");
    assert_ne!(one[2], two[2]);
}

#[test]
fn several_processes_copy_what_one_does_each() {
    let one = measured(&SPEC, &[("ops", "100")], 1).unwrap();
    let given = [("ops", "100"), ("procs", "2"), ("oversubscribe", "on")];
    let two = measured(&SPEC, &given, 1).unwrap();
    assert_eq!((one.ops, two.ops), (Some(100), Some(200)));
    assert_eq!((value(&one, "bytes"), value(&two, "bytes")), ("4800", "4800"));
}

/// Copies one byte too few.
unsafe extern "C" fn short(
    to: *mut std::ffi::c_void,
    from: *const std::ffi::c_void,
    bytes: usize,
) -> *mut std::ffi::c_void {
    // SAFETY: one byte less than the caller allows.
    unsafe { libc::memcpy(to, from, bytes.saturating_sub(1)) }
}

#[test]
fn a_routine_that_is_wrong_gives_no_figures() {
    let params = SPEC.resolve(&[("ops".to_string(), "10".to_string())]).unwrap();
    // Sites belong to the whole process, and other tests use them as well.
    let told = in_child(|| {
        let mut copying = Copying::prepare(&params, 1).unwrap();
        ROUTINE.set(short).unwrap();
        let warming_up = copying.warm_up().unwrap_err().to_string();
        copying.buffers.wipe();
        copying.twin();
        copying.work().unwrap();
        format!("{warming_up}\n{}", copying.invariants().unwrap_err())
    });
    for error in told.unwrap().lines() {
        assert!(error.starts_with("path=libc did not copy 48 bytes exactly"), "{error}");
    }
}

#[test]
fn every_routine_is_called_directly_where_code_can_be_patched() {
    let told = in_child(|| {
        let mut told = String::new();
        for routine in ROUTINES.iter().filter(|routine| routine::find(routine.name).is_ok()) {
            use_routine(routine.name).unwrap();
            let sites = patchpoint::sites().unwrap();
            for site in sites.iter().filter(|site| site.key == ROUTINE.raw()) {
                told += &format!("{} ", site.state);
            }
        }
        if patchpoint::status().unwrap().fallback { "fallback".into() } else { told }
    })
    .unwrap();
    if told == "fallback" {
        crate::skip::skip!("sites cannot be patched here");
        return;
    }
    let states: Vec<&str> = told.split_whitespace().collect();
    // A function of another object may be out of a call's reach; its site then calls a nearby jump.
    assert!(states.len() > ROUTINES.len(), "{told}");
    assert!(states.iter().all(|state| ["call", "stub"].contains(state)), "{told}");
}
