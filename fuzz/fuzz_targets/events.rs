//! Events, as users write them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_source::source::perf_event::syntax::parse;
use std::path::Path;

fuzz_target!(|text: &str| {
    let _ = parse(&[text], Path::new("/sys"));
});
