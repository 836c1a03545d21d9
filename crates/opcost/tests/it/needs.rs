//! The tests' needs of the machine. A function that finds something missing prints a skip message
//! for the calling test, which then returns.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether these programs are on the PATH.
pub(crate) fn programs(names: &[&str]) -> bool {
    let missing = names.iter().find(|name| !crate::lab::has_program(name));
    if let Some(name) = missing {
        crate::skip::skip!("there is no {name} here");
    }
    missing.is_none()
}

/// Whether `script/test --all` runs: a trial of what other tests prove in smaller pieces, or for long, waits for it.
pub(crate) fn all() -> bool {
    let all = std::env::var_os("OPCOST_TEST_ALL").is_some();
    if !all {
        crate::skip::skip!("only script/test --all runs it");
    }
    all
}

/// A file that script/build puts beside opcost.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    let path = Path::new(crate::lab::OPCOST).with_file_name(name);
    if !path.exists() {
        crate::skip::skip!("{} is not there; run script/build", path.display());
        return None;
    }
    Some(path)
}

/// Whether QEMU for single programs is here and takes plugins; Debian's QEMU takes none from 10.0 on.
fn takes_plugins() -> bool {
    let mut asking = Command::new("qemu-x86_64");
    asking.args(["-plugin", "file=/", "/"]).output().is_ok_and(|asked| {
        !String::from_utf8_lossy(&asked.stderr).contains("unknown option 'plugin'")
    })
}

/// Whether single programs can be emulated and counted.
pub(crate) fn emulator() -> bool {
    if !programs(&["qemu-x86_64"]) || beside("libopcost_emu.so").is_none() {
        return false;
    }
    let takes = takes_plugins();
    if !takes {
        crate::skip::skip!("qemu-x86_64 was built without plugins");
    }
    takes
}

/// Whether machines can be emulated and counted.
pub(crate) fn machine() -> bool {
    let files = ["libopcost_emu.so", "opcost-guest"];
    programs(&["qemu-system-x86_64"]) && files.iter().all(|name| beside(name).is_some())
}

/// The kernel with which a script of `/bin/sh` is counted, and the beginning of its command: `none` if
/// single programs can be emulated, as nothing boots then; else a kernel to boot.
pub(crate) fn counter() -> Option<(String, &'static str)> {
    if takes_plugins() && beside("libopcost_emu.so").is_some() {
        return Some(("none".into(), "sh "));
    }
    Some((kernel()?, "./"))
}

/// Whether the emulator's guests may have several CPUs.
pub(crate) fn several_cpus() -> bool {
    let version = crate::several_cpus::emulator_version().unwrap_or(0);
    if version < 10 {
        crate::skip::skip!("QEMU {version} has no guests with several CPUs");
    }
    version >= 10
}

/// The kernel to boot in an emulated machine of 64-bit ARM.
pub(crate) fn kernel_arm64() -> Option<String> {
    let has = programs(&["qemu-system-aarch64"])
        && ["libopcost_emu.so", "opcost-guest-arm64"].iter().all(|name| beside(name).is_some());
    let kernel = std::env::var("OPCOST_TEST_KERNEL_ARM64").ok().filter(|path| !path.is_empty());
    if has && kernel.is_none() {
        crate::skip::skip!("OPCOST_TEST_KERNEL_ARM64 names no kernel image to boot");
    }
    kernel.filter(|_| has)
}

/// The kernel to boot in an emulated machine.
pub(crate) fn kernel() -> Option<String> {
    machine().then_some(())?;
    let kernel = std::env::var("OPCOST_TEST_KERNEL").ok().filter(|path| !path.is_empty());
    if kernel.is_none() {
        crate::skip::skip!("OPCOST_TEST_KERNEL names no kernel image to boot");
    }
    kernel
}
