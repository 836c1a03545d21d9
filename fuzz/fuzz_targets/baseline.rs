//! A gate's baseline file: an accepted file is written back to the same figures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_gate::gate::baseline::Baseline;

fuzz_target!(|text: &str| {
    if let Ok(baseline) = Baseline::parse(text) {
        let written = baseline.format();
        assert_eq!(Baseline::parse(&written), Ok(baseline), "{written}");
    }
});
