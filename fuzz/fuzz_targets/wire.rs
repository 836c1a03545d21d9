//! A report, as a measured program sends it: an accepted report is written back to the same report.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_record::wire::{format, parse};

fuzz_target!(|text: &str| {
    if let Ok(report) = parse(text) {
        assert_eq!(parse(&format(&report)).as_ref(), Ok(&report));
    }
});
