//! Disks of guests: the `--disk` argument, the contents, and the kernel options that a disk needs.
//!
//! A disk is in the guest's memory, so that all its costs are counted and nothing depends on the
//! host's devices.

mod error;
mod file_system;
mod image;
mod spec;

pub use error::DiskError;
pub use file_system::{FILE_SYSTEMS, FileSystem};
pub use image::make;
pub use spec::DiskSpec;

use std::collections::{BTreeMap, BTreeSet};

/// The modules that any disk may need, by name.
pub fn modules() -> BTreeSet<&'static str> {
    let needs = FILE_SYSTEMS.iter().flat_map(FileSystem::needs);
    needs.filter_map(|need| need.module).collect()
}

/// Aliases of modules whose algorithms a disk's file system uses.
pub fn uses(spec: &DiskSpec) -> &'static [&'static str] {
    FileSystem::find(&spec.file_system).map_or(&[], |row| row.uses)
}

/// Aliases of modules whose algorithms any disk may use.
pub(crate) fn all_uses() -> BTreeSet<&'static str> {
    FILE_SYSTEMS.iter().flat_map(|row| row.uses).copied().collect()
}

/// The parameters of a module for a disk.
pub fn parameters(spec: &DiskSpec, module: &str) -> String {
    if module == "brd" { device_parameters(spec, "") } else { String::new() }
}

/// Parameters that make the kernel's first RAM disk as large as the disk (drivers/block/brd.c);
/// each gets `prefix`.
pub fn device_parameters(spec: &DiskSpec, prefix: &str) -> String {
    format!("{prefix}rd_nr=1 {prefix}rd_size={}", spec.size_kib())
}

/// The modules that a kernel needs for a disk; empty if everything is built in.
///
/// `kernel`: its name, for an error; `options`: its configuration by name without `CONFIG_`.
///
/// # Errors
/// [`DiskError::Kernel`]: the kernel lacks options.
pub fn modules_needed(
    spec: &DiskSpec,
    kernel: &str,
    options: &BTreeMap<String, String>,
) -> Result<Vec<&'static str>, DiskError> {
    let mut modules = Vec::new();
    let mut missing = Vec::new();
    for need in FileSystem::find(&spec.file_system).into_iter().flat_map(FileSystem::needs) {
        match (options.get(need.option).map(String::as_str), need.module) {
            (Some("y"), _) => {}
            (Some("m"), Some(module)) => modules.push(module),
            _ => missing.push(format!("CONFIG_{}", need.option)),
        }
    }
    if missing.is_empty() {
        return Ok(modules);
    }
    Err(DiskError::Kernel {
        kernel: kernel.to_string(),
        file_system: spec.file_system.clone(),
        options: missing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_kernel_lacks_is_named_and_modules_are_found() {
        let asked = |disk: &str, options: &[(&str, &str)]| {
            let pairs = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            modules_needed(&DiskSpec::parse(disk).unwrap(), "mine", &pairs.collect())
        };
        let all = [("BLK_DEV_RAM", "m"), ("EXT4_FS", "m"), ("EXT4_USE_FOR_EXT2", "y")];
        assert_eq!(asked("ext2:16M", &all), Ok(vec!["brd", "ext4"]));
        assert_eq!(asked("ext4:16M", &[("BLK_DEV_RAM", "y"), ("EXT4_FS", "y")]), Ok(vec![]));
        let error = asked("ext2:16M", &[("EXT4_FS", "y"), ("BLK_DEV_RAM", "n")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel mine cannot have a disk with ext2: its configuration lacks \
             CONFIG_BLK_DEV_RAM, CONFIG_EXT4_USE_FOR_EXT2; boot one that has it, such as \
             debian:cloud, or build one with kernels/disk.config (docs/kernels.md)"
        );
        assert!(asked("ext3:16M", &[]).is_err());
    }
}
