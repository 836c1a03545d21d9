use super::*;
use crate::in_child::{measured, value};
use crate::invariant::{OP_STREAM_HASH, PAGE_FAULTS};

fn pipe(given: &[(&str, &str)]) -> Pipe {
    let given: Vec<(String, String)> =
        given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Pipe::prepare(&SPEC.resolve(&given).unwrap(), 1).unwrap()
}

#[test]
fn every_byte_goes_through_the_kernel_twice() {
    let mut hashes = Vec::new();
    for size in ["1", "7", "64", "4096", "65536"] {
        for offset in ["0", "5"] {
            let given = [("ops", "300"), ("size", size), ("offset", offset)];
            let report = measured(&SPEC, &given, 1).unwrap();
            assert_eq!(value(&report, "ops-pipe"), "300");
            let bytes = 600 * size.parse::<u64>().unwrap();
            assert_eq!(value(&report, "bytes-copied"), bytes.to_string());
            assert_eq!(value(&report, PAGE_FAULTS), "0");
            hashes.push(value(&report, OP_STREAM_HASH).to_string());
        }
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 5, "each size has a hash, whatever the offset");
}

#[test]
fn seeds_are_the_bytes_that_are_written() {
    let hash_of = |seed| {
        let report = measured(&SPEC, &[("ops", "10")], seed).unwrap();
        value(&report, OP_STREAM_HASH).to_string()
    };
    assert_eq!(hash_of(1), hash_of(1));
    assert_ne!(hash_of(1), hash_of(2));
}

#[test]
fn buffers_are_where_the_offset_says() {
    for offset in [0, 1, 4095] {
        let buffer = Buffer::new(100, offset);
        assert_eq!(buffer.bytes().as_ptr() as usize % PAGE as usize, offset);
        assert_eq!(buffer.bytes().len(), 100);
    }
}

#[test]
fn the_twin_makes_no_call() {
    let mut work = pipe(&[("ops", "300")]);
    work.twin();
    assert_eq!(work.twin.done, 300);
    assert_ne!(work.twin.wrong, 0, "what nobody has written cannot have been read");
    work.work().unwrap();
    assert_eq!((work.work.done, work.work.wrong), (300, 0));
    assert_eq!(work.hash_of(work.twin), work.hash_of(work.work));
}

#[test]
fn bytes_that_came_out_otherwise_are_an_error() {
    let mut work = pipe(&[("ops", "2"), ("size", "8")]);
    // A foreign write: every read is 8 bytes late.
    // SAFETY: eight readable bytes.
    let written = unsafe { libc::write(work.writer.as_raw_fd(), [0x55u8; 8].as_ptr().cast(), 8) };
    assert_eq!(written, 8);
    let error = work.work().unwrap_err().to_string();
    assert_eq!(error, "one of 2 calls of read gave other bytes than were written");
}

#[test]
fn a_pipe_that_is_full_is_named() {
    let mut work = pipe(&[("ops", "5"), ("size", "65536")]);
    let more = [0u8; 4096];
    // SAFETY: `more` has this many readable bytes.
    let written = unsafe { libc::write(work.writer.as_raw_fd(), more.as_ptr().cast(), more.len()) };
    assert_eq!(written, 4096);
    let error = work.work().unwrap_err().to_string();
    assert!(
        error.starts_with("operation 1 of 5: write returned 0xf000, expected 0x10000"),
        "{error}"
    );
}
