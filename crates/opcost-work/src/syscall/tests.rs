use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};

fn null_call(given: &[(&str, &str)]) -> NullCall {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    NullCall::prepare(&SPEC.resolve(&given).unwrap(), 1).unwrap()
}

#[test]
fn exactly_the_operations_asked_for_are_done_however_unrolled() {
    let mut hashes = Vec::new();
    for unroll in ["1", "4", "16", "64"] {
        let report = measured(&SPEC, &[("ops", "1003"), ("unroll", unroll)], 1).unwrap();
        assert_eq!(value(&report, "ops-getppid"), "1003");
        assert_eq!(value(&report, PAGE_FAULTS), "0");
        hashes.push(value(&report, OP_STREAM_HASH).to_string());
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "unrolling does not change the work");
}

#[test]
fn every_call_has_a_hash_of_its_own_and_filters_change_nothing() {
    let mut hashes = Vec::new();
    for call in call::NAMES.into_iter().filter(|call| *call != "clock_gettime-vdso") {
        let plain = measured(&SPEC, &[("ops", "100"), ("call", call)], 1).unwrap();
        assert_eq!(value(&plain, &format!("ops-{call}")), "100");
        for mode in ["on", "cached"] {
            let given = [("ops", "100"), ("call", call), ("seccomp", mode)];
            assert_eq!(plain, measured(&SPEC, &given, 1).unwrap());
        }
        hashes.push(value(&plain, OP_STREAM_HASH).to_string());
    }
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 5);
}

/// Whether the twin survives calls of which the first would end the process.
fn twin_survives_its_call(given: &[(&str, &str)]) -> bool {
    let said = in_child(|| {
        let mut work = null_call(given);
        work.call.number = libc::SYS_exit_group as usize;
        work.twin();
        "alive".into()
    });
    said.unwrap() == "alive"
}

#[test]
fn the_twin_counts_the_same_calls_and_makes_none() {
    let mut work = null_call(&[("ops", "77")]);
    assert!(twin_survives_its_call(&[("ops", "77")]));
    work.twin();
    work.work().unwrap();
    assert_eq!(work.work.wrong, 0);
    assert_eq!(work.hash_of(work.twin), work.hash_of(work.work));
}

#[test]
fn extra_calls_are_made_and_not_told() {
    let mut work = null_call(&[("ops", "2000"), ("extra", "5000")]);
    work.twin();
    work.work().unwrap();
    assert_eq!((work.work.done, work.extra.done, work.twin.done), (2000, 10, 2000));
    let told = |extra: &str| measured(&SPEC, &[("ops", "2000"), ("extra", extra)], 1).unwrap();
    assert_eq!(told("5000"), told("0"));
    assert_eq!(share(1_000_000_000_000, MILLION), 1_000_000_000_000);
    // The extra calls are verified as well.
    work.extra.wrong = 1;
    assert!(work.invariants().unwrap_err().to_string().contains("of 10 calls"));
}

#[test]
fn wrong_results_are_an_error() {
    let mut work = null_call(&[("ops", "100")]);
    work.call.expected ^= 0x10;
    work.twin();
    work.work().unwrap();
    let error = work.invariants().unwrap_err().to_string();
    let parent = std::os::unix::process::parent_id();
    assert_eq!(
        error,
        format!(
            "at least one of 100 calls of getppid went wrong; called once more it returned \
             {parent:#x}, expected {:#x}",
            parent ^ 0x10
        )
    );
}

#[test]
fn a_call_the_kernel_refuses_is_an_error() {
    let said = in_child(|| {
        let mut work = null_call(&[("ops", "100"), ("unroll", "64")]);
        // No system call has this number, as if a filter had refused the call.
        work.call.number = 0xffff;
        work.warm_up().unwrap_err().to_string()
    });
    let enosys = std::io::Error::from_raw_os_error(libc::ENOSYS);
    assert_eq!(
        said.unwrap(),
        format!(
            "at least one of 10000 calls of getppid went wrong; called once more it failed: {enosys}"
        )
    );
}

#[test]
#[cfg(target_arch = "x86_64")] // whose numbers are in the hash
fn the_hash_of_the_work_has_the_numbers_of_one_architecture() {
    for name in call::NAMES {
        let call = Call::prepare(name).unwrap();
        assert_eq!(call.in_hash, call.number as u64, "{name}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")] // inotify_init: no arguments, and another result each time
fn a_right_result_does_not_hide_the_wrong_ones_before_it() {
    let said = in_child(|| {
        let mut inotify_init = Call::prepare("getppid").unwrap();
        inotify_init.number = libc::SYS_inotify_init as usize;
        // Fills gaps, so that the following descriptors are contiguous.
        let mut last = 0;
        while last < 200 {
            // SAFETY: dup takes a plain number.
            last = unsafe { libc::dup(1) };
            assert!(last >= 0);
        }
        inotify_init.expected = last as usize + 4;
        assert_ne!(Instruction::calls::<4, true>(&inotify_init), 0);
        // The same for a single call, which is right.
        inotify_init.expected += 1;
        assert_eq!(Instruction::calls::<1, true>(&inotify_init), 0);
        String::new()
    });
    said.unwrap();
}

#[test]
fn the_clock_of_the_library_does_the_work_of_the_calls() {
    let hash = |call: &str| {
        let report = measured(&SPEC, &[("ops", "1003"), ("call", call)], 1).unwrap();
        assert_eq!(value(&report, &format!("ops-{call}")), "1003");
        assert_eq!(value(&report, PAGE_FAULTS), "0");
        value(&report, OP_STREAM_HASH).to_string()
    };
    assert_eq!(hash("clock_gettime"), hash("clock_gettime-vdso"));
}

#[test]
fn wrong_results_of_the_library_are_an_error() {
    let said = in_child(|| {
        let mut work = null_call(&[("ops", "100"), ("call", "clock_gettime-vdso")]);
        // No clock has this number.
        work.call.arguments[0] = 12345;
        work.warm_up().unwrap_err().to_string()
    });
    let einval = std::io::Error::from_raw_os_error(libc::EINVAL);
    assert_eq!(
        said.unwrap(),
        format!(
            "at least one of 10000 calls of clock_gettime-vdso went wrong; called once more it \
             failed: {einval}"
        )
    );
}

#[test]
fn polluted_calls_are_the_same_calls() {
    for call in ["getppid", "read", "clock_gettime-vdso"] {
        let given = [("ops", "33"), ("call", call), ("pollute", "500")];
        let report = measured(&SPEC, &given, 1).unwrap();
        assert_eq!(value(&report, &format!("ops-{call}")), "33");
        assert_eq!(value(&report, PAGE_FAULTS), "0");
    }
    let hash = |given: &[(&str, &str)]| {
        value(&measured(&SPEC, given, 1).unwrap(), OP_STREAM_HASH).to_string()
    };
    let polluted = hash(&[("ops", "33"), ("pollute", "500")]);
    assert_ne!(polluted, hash(&[("ops", "33"), ("pollute", "501")]));
    assert_ne!(polluted, hash(&[("ops", "33")]));
}

#[test]
fn the_twin_walks_as_far_and_calls_nothing() {
    let given = [("ops", "77"), ("pollute", "100")];
    assert!(twin_survives_its_call(&given));
    let mut work = null_call(&given);
    work.twin();
    work.work().unwrap();
    assert_eq!(work.twin.done, work.work.done);
    // A missing operation is different work.
    work.work.done -= 1;
    assert!(work.invariants().unwrap_err().to_string().contains("mistake in the workload"));
}

#[test]
fn long_walks_have_a_short_warm_up() {
    assert_eq!(null_call(&[]).warm_up_ops(), WARM_UP_OPS);
    assert_eq!(null_call(&[("pollute", "100000")]).warm_up_ops(), 100);
}
