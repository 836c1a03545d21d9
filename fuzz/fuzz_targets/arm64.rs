//! An arm64 kernel's image, and an instruction that a CPU refused: code that the kernel may replace lies in the image, and every
//! instruction has a text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_kernel::{alternatives, architecture_of};
use opcost_record::Architecture;
use opcost_size::Refused;

fuzz_target!(|bytes: &[u8]| {
    architecture_of(bytes);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    for alternative in alternatives(file.path(), Architecture::Aarch64).unwrap() {
        assert!(bytes.windows(alternative.code.len()).any(|code| *code == alternative.code));
    }
    let refused = Refused::read(bytes, 0, Architecture::Aarch64);
    assert_eq!(refused.is_some(), bytes.len() >= 4);
    assert!(refused.is_none_or(|refused| !refused.text.is_empty()));
});
