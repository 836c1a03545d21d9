//! pprof's profiles: for any contents, the reader returns a profile whose parts add up, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_profile::read::pprof;
use opcost_profile::table::FunctionTable;
use opcost_sys::budget::Budget;

fuzz_target!(|bytes: &[u8]| {
    pprof::is_pprof(bytes);
    if let Ok((about, sampled)) = pprof::read(bytes, None, &Budget::default()) {
        assert!(about.events.contains(&about.event));
        let table = FunctionTable::of(&sampled);
        assert_eq!(table.functions.iter().map(|cost| cost.own).sum::<u64>(), table.total);
    }
});
