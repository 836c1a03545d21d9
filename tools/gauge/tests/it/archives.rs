//! Checks that the compiled kernels call no C library: host and guest would run different code of it.

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol};
use std::fs;
use std::path::Path;

#[test]
fn kernels_call_no_library() {
    let mut files = 0;
    for entry in fs::read_dir(Path::new(env!("OUT_DIR"))).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "a") {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let archive = ArchiveFile::parse(bytes.as_slice()).unwrap();
        for member in archive.members() {
            let data = member.unwrap().data(bytes.as_slice()).unwrap();
            let file = object::File::parse(data).unwrap();
            files += 1;
            for symbol in file.symbols().filter(|symbol| symbol.is_undefined()) {
                let name = symbol.name().unwrap();
                let own = name.is_empty()
                    || name.starts_with("gauge_")
                    || name == "_GLOBAL_OFFSET_TABLE_";
                assert!(own, "{} needs {name}", path.display());
            }
        }
    }
    assert!(files > 30, "only {files} compiled files were found");
}
