//! Profiles as text: of perf script, callgrind and the Firefox Profiler, and folded stacks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_profile::read::{Wanted, callgrind, firefox, folded, perf_script};
use opcost_profile::symbolise::LookedUp;
use opcost_profile::table::FunctionTable;
use opcost_sys::budget::Budget;

fuzz_target!(|text: &str| {
    let budget = Budget::default();
    if let Ok((about, sampled)) = perf_script::read(text, &Wanted::default(), &budget) {
        assert!(about.events.contains(&about.event));
        assert_eq!(sampled.samples.len(), sampled.profile.contexts.len());
        FunctionTable::of(&sampled);
    }
    if let Ok((about, table)) = callgrind::read(text, None, &budget) {
        assert!(about.events.contains(&about.event));
        assert!(table.edges.iter().all(|edge| edge.callee < table.functions.len()));
    }
    // The target must not read files of this computer whose names a fuzzer finds.
    let nowhere = |_: &_, _: &[u64]| LookedUp::default();
    let folded = folded::read(text, None, &budget);
    let firefox = firefox::read(text, &Wanted::default(), &nowhere, &budget);
    for (about, sampled) in [folded, firefox].into_iter().flatten() {
        assert!(about.events.contains(&about.event));
        let table = FunctionTable::of(&sampled);
        assert_eq!(table.functions.iter().map(|cost| cost.own).sum::<u64>(), table.total);
    }
});
