//! A transcript of a kernel's answers: an accepted transcript is written back to the same transcript.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_sys::perf::Transcript;

fuzz_target!(|text: &str| {
    if let Ok(transcript) = text.parse::<Transcript>() {
        let written = transcript.to_string();
        let again: Transcript = written.parse().expect("what was written is read");
        assert_eq!(again.to_string(), written);
    }
});
