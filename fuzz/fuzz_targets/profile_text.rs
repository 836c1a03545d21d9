//! Profiles as text: of perf script and of callgrind.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_profile::read::{Wanted, callgrind, perf_script};
use opcost_profile::table::FunctionTable;

fuzz_target!(|text: &str| {
    if let Ok((about, sampled)) = perf_script::read(text, &Wanted::default()) {
        assert!(about.events.contains(&about.event));
        assert_eq!(sampled.samples.len(), sampled.profile.contexts.len());
        FunctionTable::of(&sampled);
    }
    if let Ok((about, table)) = callgrind::read(text, None) {
        assert!(about.events.contains(&about.event));
        assert!(table.edges.iter().all(|edge| edge.callee < table.functions.len()));
    }
});
