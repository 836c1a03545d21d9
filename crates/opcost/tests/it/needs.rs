//! What tests need of the machine. Whoever asks for what is not there skips the calling test, which
//! says so, and returns.

use std::path::{Path, PathBuf};

/// Whether these programs are on the PATH.
pub(crate) fn programs(names: &[&str]) -> bool {
    let missing = names.iter().find(|name| !crate::lab::has_program(name));
    if let Some(name) = missing {
        opcost_skip::skip!("there is no {name} here");
    }
    missing.is_none()
}

/// A file that script/build puts beside opcost.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    let path = Path::new(crate::lab::OPCOST).with_file_name(name);
    if !path.exists() {
        opcost_skip::skip!("{} is not there; run script/build", path.display());
        return None;
    }
    Some(path)
}

/// Whether single programs can be emulated and counted.
pub(crate) fn emulator() -> bool {
    programs(&["qemu-x86_64"]) && beside("libopcost_emu.so").is_some()
}

/// Whether machines can be emulated and counted.
pub(crate) fn machine() -> bool {
    let files = ["libopcost_emu.so", "opcost-guest"];
    programs(&["qemu-system-x86_64"]) && files.iter().all(|name| beside(name).is_some())
}

/// The kernel to boot in an emulated machine.
pub(crate) fn kernel() -> Option<String> {
    machine().then_some(())?;
    let kernel = std::env::var("OPCOST_TEST_KERNEL").ok().filter(|path| !path.is_empty());
    if kernel.is_none() {
        opcost_skip::skip!("OPCOST_TEST_KERNEL names no kernel image to boot");
    }
    kernel
}
