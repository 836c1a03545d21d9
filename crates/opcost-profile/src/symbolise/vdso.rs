//! Names the kernel's code for programs by the copy that is mapped into this process.

use super::file::{is_same_build, named};
use super::{Names, Why};
use crate::space::CodeFile;
use opcost_symbols::elf;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

/// More bytes than any vdso has.
const BYTES_MAX: u64 = 1 << 20;

pub(super) fn names(file: &CodeFile, offsets: &[u64]) -> Names {
    let image = match own_image() {
        Ok(image) => image,
        Err(error) => return Names::none(offsets.len(), Why::Unreadable(error.to_string())),
    };
    let recorded = file.build_id.as_deref();
    if is_same_build(recorded, elf::build_id(&image).ok().flatten()) == Some(false) {
        return Names::none(offsets.len(), Why::OtherBuild);
    }
    named((&image).into(), None, None, offsets, recorded.is_none())
}

/// Reads the vdso of this process.
fn own_image() -> io::Result<Vec<u8>> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let none = || io::Error::new(io::ErrorKind::NotFound, "this process has no vdso");
    let line = maps.lines().find(|line| line.ends_with("[vdso]")).ok_or_else(none)?;
    let range = line.split(' ').next().and_then(|range| range.split_once('-'));
    let address = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) =
        range.and_then(|(start, end)| address(start).zip(address(end))).ok_or_else(none)?;
    let bytes = end.checked_sub(start).filter(|bytes| *bytes <= BYTES_MAX).ok_or_else(none)?;
    let mut image = vec![0; bytes as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut image, start)?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::CodeKind;

    #[test]
    fn the_clock_is_found_in_the_own_copy_and_not_in_another_build() {
        let image = match own_image() {
            Ok(image) => image,
            Err(error) => return crate::skip::skip!("no vdso to read: {error}"),
        };
        let mut file = CodeFile { kind: CodeKind::Vdso, path: b"[vdso]".to_vec(), build_id: None };
        let offsets: Vec<u64> = (0..image.len() as u64).step_by(16).collect();
        let symbols = |names: &Names| -> Vec<String> {
            let symbol = |at: u32| names.frames[at as usize].symbol.clone();
            names.stacks.iter().map(|stack| symbol(stack.function)).collect()
        };
        let found = names(&file, &offsets);
        assert!(symbols(&found).iter().any(|symbol| symbol.contains("clock_gettime")));
        assert!(found.unchecked);
        file.build_id = Some(vec![1; 20]);
        let other = names(&file, &offsets);
        assert!(symbols(&other).iter().all(|symbol| symbol == "[other build]"));
        assert_eq!(other.why, Some(Why::OtherBuild));
    }
}
