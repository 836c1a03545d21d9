//! Profiles of every format but perf.data: for any contents, each reader returns a profile whose parts add up, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_profile::read::{FORMATS, Wanted};
use opcost_profile::symbolise::{FileAddresses, LookedUp};
use opcost_sys::budget::Budget;

fuzz_target!(|bytes: &[u8]| {
    // The target must not read files of this computer whose names a fuzzer finds.
    let nowhere = |_: &_, _: FileAddresses<'_>, _| LookedUp::default();
    for format in FORMATS {
        let read = format.read(bytes, &Wanted::default(), &nowhere, &Budget::default());
        let Ok(profile) = read else { continue };
        let (about, table) = (&profile.about, &profile.table);
        assert!(about.events.contains(&about.event), "{}", format.name);
        assert!(table.edges.iter().all(|edge| edge.callee < table.functions.len()));
        let own: u64 = table.functions.iter().map(|cost| cost.own).sum();
        assert_eq!(own + table.unattributed, table.total, "{}", format.name);
        let (functions, code) = profile.code();
        let is_known = |function: u32| (function as usize) < functions.len();
        for place in &code.places {
            assert!(is_known(place.function) && (place.file as usize) < code.files.len());
            assert!(place.inlined.iter().all(|function| is_known(*function)));
        }
        for line in &code.lines {
            assert!(is_known(line.function) && line.inlined.is_none_or(is_known));
            assert!((line.source as usize) < code.sources.len() && line.line > 0);
        }
        if let Some(sampled) = &profile.sampled {
            assert_eq!(sampled.samples.len(), sampled.profile.contexts.len());
        }
    }
});
