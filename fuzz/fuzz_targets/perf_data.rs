//! Files of perf: for any contents, the reader returns a profile whose parts add up, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_profile::read::{Wanted, perf_data};
use opcost_profile::symbolise::{KernelSource, Sources, symbolise};
use opcost_profile::table::FunctionTable;
use opcost_sys::budget::{Budget, LIMIT_BYTES};
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    let sources = Sources {
        kernel: KernelSource::Nothing,
        debug_files: "/nonexistent".into(),
        build_id_cache: None,
        inlined: false,
        limit_bytes: LIMIT_BYTES,
    };
    let (file, wanted) = (Cursor::new(bytes), Wanted::default());
    let (length, budget) = (bytes.len() as u64, Budget::default());
    if let Ok((_, mut recorded)) = perf_data::read(file, length, &wanted, &sources, &budget) {
        // The target must not read files of this computer whose names a fuzzer finds.
        for file in &mut recorded.files {
            file.path = b"/nonexistent".to_vec();
        }
        let table = FunctionTable::of(&symbolise(&recorded, &sources));
        assert_eq!(table.functions.iter().map(|cost| cost.own).sum::<u64>(), table.total);
    }
});
