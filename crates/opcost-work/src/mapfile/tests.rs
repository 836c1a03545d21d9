use super::*;
use crate::in_child::{in_child, measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};
use proptest::prelude::*;

fn prepared(given: &[(&str, &str)]) -> MapFile {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    MapFile::prepare(&SPEC.resolve(&given).unwrap(), 1).unwrap()
}

#[test]
fn sizes_and_strides_have_the_faults_that_were_predicted() {
    for (access, size, stride, faults) in [
        ("write", "1048576", "16384", 64),
        ("write", "1048576", "4096", 256),
        ("write", "1048577", "1048576", 2),
        ("write", "1", "1", 1),
        ("read", "1048576", "16384", 16),
        ("read", "65537", "4096", 2),
    ] {
        let given = [("ops", "7"), ("access", access), ("size", size), ("stride", stride)];
        let report = measured(&SPEC, &given, 1).unwrap();
        assert_eq!(value(&report, PAGE_FAULTS_EXPECTED), (7 * faults).to_string(), "{given:?}");
        assert_eq!(value(&report, PAGE_FAULTS), value(&report, PAGE_FAULTS_EXPECTED), "{given:?}");
        assert_eq!((value(&report, "ops-mmap"), value(&report, "ops-munmap")), ("7", "7"));
    }
}

#[test]
fn the_seed_decides_what_is_read() {
    let hash = |seed| {
        let given = [("ops", "3"), ("access", "read")];
        value(&measured(&SPEC, &given, seed).unwrap(), OP_STREAM_HASH).to_string()
    };
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn the_twin_maps_and_touches_nothing() {
    let said = in_child(|| {
        let mut work = prepared(&[("ops", "20")]);
        let before = work.content.checksum().unwrap();
        work.twin();
        assert_eq!(work.content.checksum().unwrap(), before);
        work.work().unwrap();
        assert_eq!((work.twin.done, work.twin.touched), (work.work.done, work.work.touched));
        work.invariants().unwrap();
        String::new()
    });
    said.unwrap();
}

#[test]
fn what_does_not_reach_the_file_is_an_error() {
    let said = in_child(|| {
        let mut work = prepared(&[("ops", "20")]);
        work.twin();
        work.work().unwrap();
        // As if the last operation had not written.
        work.content.fill().unwrap();
        let written = work.invariants().unwrap_err().to_string();
        let mut work = prepared(&[("ops", "20"), ("access", "read")]);
        work.twin();
        work.work().unwrap();
        work.work.sum += 1;
        format!("{written}\n{}", work.invariants().unwrap_err())
    });
    let said = said.unwrap();
    let (written, read) = said.split_once('\n').unwrap();
    assert!(written.starts_with("the mapped file has 0x"), "{written}");
    assert!(read.starts_with("the bytes read through the mapping add up to"), "{read}");
}

#[test]
fn a_mapping_in_the_way_makes_the_call_an_error() {
    let said = in_child(|| {
        let mut work = prepared(&[("ops", "20")]);
        let address = work.arena.address(0, 0);
        // SAFETY: the address belongs to the arena and is free.
        unsafe { Kernel::call(libc::SYS_mmap as usize, work.map_arguments(address), address) };
        work.work().unwrap_err().to_string()
    });
    let eexist = std::io::Error::from_raw_os_error(libc::EEXIST);
    assert_eq!(said.unwrap(), format!("operation 1 of 20: mmap failed: {eexist}"));
}

#[test]
fn a_limit_on_files_is_named() {
    let said = in_child(|| {
        let limit = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
        // SAFETY: the pointer is to a valid structure; this process is the test's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
        MapFile::prepare(&SPEC.resolve(&[]).unwrap(), 1).err().unwrap().to_string()
    });
    let said = said.unwrap();
    assert!(said.starts_with("cannot make a file in memory (memfd_create): "), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    // The kernel is the oracle.
    #[test]
    fn page_faults_are_predicted_exactly(
        size in 1u64..3_000_000,
        stride in 1u64..200_000,
        reads: bool,
    ) {
        let access = if reads { "read" } else { "write" };
        let (size, stride) = (size.to_string(), stride.to_string());
        let given = [("ops", "3"), ("access", access), ("size", &*size), ("stride", &*stride)];
        let report = measured(&SPEC, &given, 1).unwrap();
        prop_assert_eq!(value(&report, PAGE_FAULTS), value(&report, PAGE_FAULTS_EXPECTED));
    }
}
