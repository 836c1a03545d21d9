use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};
use proptest::prelude::*;

fn resolve(given: &[(&str, &str)]) -> Params {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    SPEC.resolve(&given).unwrap()
}

#[test]
fn the_same_seed_does_the_same_and_another_does_not() {
    let given = [("ops", "5000")];
    let first = measured(&SPEC, &given, 1).unwrap();
    assert_eq!(first, measured(&SPEC, &given, 1).unwrap());
    let other = measured(&SPEC, &given, 2).unwrap();
    assert_ne!(value(&first, OP_STREAM_HASH), value(&other, OP_STREAM_HASH));
}

#[test]
fn the_stream_of_seed_1_is_what_it_was() {
    // A change of these figures makes new recordings incomparable with old ones.
    let report = measured(&SPEC, &[("ops", "100000")], 1).unwrap();
    let text: Vec<String> = report
        .invariants
        .iter()
        .map(|invariant| format!("{}={}", invariant.name, invariant.value))
        .collect();
    assert_eq!(
        text.join(" "),
        "op-stream-hash=5c3ad4acaebf0b97 ops-mmap=33231 ops-munmap=33189 ops-mremap=33580 \
         page-faults-expected=5599 page-faults=5599"
    );
}

#[test]
fn calls_add_up_and_are_a_third_each_in_the_long_run() {
    let report = measured(&SPEC, &[("ops", "60000"), ("touch", "0")], 3).unwrap();
    let calls: Vec<u64> = ["ops-mmap", "ops-munmap", "ops-mremap"]
        .iter()
        .map(|name| value(&report, name).parse().unwrap())
        .collect();
    assert_eq!(calls.iter().sum::<u64>(), 60_000);
    for made in calls {
        assert!(made.abs_diff(20_000) < 600, "{made}");
    }
    assert_eq!(value(&report, PAGE_FAULTS), "0");
}

#[test]
fn neighbours_change_neither_the_operations_nor_the_faults() {
    let alone = measured(&SPEC, &[("ops", "5000")], 1).unwrap();
    let crowded = measured(&SPEC, &[("ops", "5000"), ("neighbours", "5000")], 1).unwrap();
    assert_eq!(alone, crowded);
}

#[test]
fn filters_change_neither_the_operations_nor_the_faults() {
    let plain = measured(&SPEC, &[("ops", "5000")], 1).unwrap();
    for mode in ["on", "cached"] {
        let filtered = measured(&SPEC, &[("ops", "5000"), ("seccomp", mode)], 1).unwrap();
        assert_eq!(plain, filtered, "seccomp={mode}");
    }
}

#[test]
fn the_twin_goes_through_the_same_operations_and_maps_nothing() {
    let said = in_child(|| {
        let mut mmap = Mmap::prepare(&resolve(&[("ops", "3000")]), 9).unwrap();
        mmap.warm_up().unwrap();
        let before = arena::mappings_in_use().unwrap();
        mmap.twin();
        assert_eq!(arena::mappings_in_use().unwrap(), before);
        mmap.work().unwrap();
        assert_ne!(arena::mappings_in_use().unwrap(), before);
        assert_eq!(mmap.twin_tally, mmap.work_tally);
        assert_eq!(mmap.twin_slots, mmap.slots);
        assert_eq!(mmap.twin_tally.calls.iter().sum::<u64>(), 3000);
        mmap.invariants().unwrap();
        String::new()
    });
    said.unwrap();
}

#[test]
fn a_twin_that_did_other_operations_is_an_error() {
    let said = in_child(|| {
        let mut mmap = Mmap::prepare(&resolve(&[("ops", "10")]), 9).unwrap();
        mmap.twin();
        mmap.seed = 10;
        mmap.work().unwrap();
        mmap.invariants().unwrap_err().to_string()
    });
    assert!(said.unwrap().contains("this is a mistake in the workload"));
}

#[test]
fn a_mapping_in_the_way_makes_the_call_an_error_and_survives() {
    let said = in_child(|| {
        let mut mmap = Mmap::prepare(&resolve(&[("slots", "1"), ("ops", "1000")]), 1).unwrap();
        let page = mmap.arena.address(0, 0);
        let arguments = mmap_arguments(page, mmap.arena.bytes(1));
        // SAFETY: the page is in the arena and still free.
        let mapped = unsafe { Kernel::call(NUMBERS[MMAP], arguments, page) };
        assert_eq!(mapped, page);
        let said = mmap.work().unwrap_err().to_string();
        drop(mmap);
        // SAFETY: the page was mapped above, and neither the work nor the drop may unmap it.
        unsafe { Kernel::touch(page) };
        said
    });
    let eexist = std::io::Error::from_raw_os_error(libc::EEXIST);
    assert_eq!(said.unwrap(), format!("operation 1 of 1000: mmap failed: {eexist}"));
}

#[test]
fn nothing_is_left_mapped() {
    let said = in_child(|| {
        let count = || arena::mappings_in_use().unwrap();
        let before = count();
        let mut mmap = Mmap::prepare(&resolve(&[("ops", "1000")]), 1).unwrap();
        mmap.work().unwrap();
        let during = count();
        drop(mmap);
        assert!(during > before);
        format!("{}", count() - before)
    });
    assert_eq!(said.unwrap(), "0");
}

#[test]
fn other_sizes_are_within_bounds_and_other() {
    for most in 1..=64 {
        for now in 1..=most {
            for draw in [0, 1, 2047, 4095] {
                let size = other_size(now, draw, most);
                assert!((1..=most).contains(&size));
                assert!(size != now || most == 1);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    // The kernel is the oracle: it refuses a wrong call and counts the faults.
    #[test]
    fn page_faults_are_predicted_exactly(
        seed: u64,
        slots in 1u64..300,
        pages in 1u64..=64,
        touch in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0],
        ops in 1u64..3000,
    ) {
        let report = measured(
            &SPEC,
            &[
                ("slots", &slots.to_string()),
                ("pages", &pages.to_string()),
                ("touch", &touch.to_string()),
                ("ops", &ops.to_string()),
            ],
            seed,
        ).unwrap();
        prop_assert_eq!(value(&report, PAGE_FAULTS), value(&report, PAGE_FAULTS_EXPECTED));
    }
}
