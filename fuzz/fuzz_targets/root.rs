//! Any file as a root: its files, or an error; nothing outside of the folder for contents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opcost_image::{Kind, read};
use opcost_record::Architecture;
use std::fs;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("root");
    fs::write(&path, bytes).unwrap();
    let scratch = folder.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let Ok(root) = read(&path, Architecture::X86_64, 1, &scratch) else { return };
    for (path, entry) in &root.entries {
        assert!(
            path.is_absolute() && path.components().skip(1).all(|part| part.as_os_str() != "..")
        );
        match &entry.kind {
            Kind::File(data) => assert!(data.host.starts_with(&scratch)),
            Kind::Same(first) => assert!(first < path && root.data(first).is_some()),
            Kind::Folder | Kind::Link(_) => {}
        }
    }
    root.digest();
});
