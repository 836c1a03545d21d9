//! Makes the disk of a guest, with everything that the guest's init needs to set it up.
//!
//! **A guest's disk is a RAM disk.** The cost of an emulated device depends on the emulator, and writes at the end of a run
//! must not wait for a host.

use super::Emulated;
use super::initramfs::PackedDisk;
use anyhow::{Context, Result};
use opcost_base::exit::{HasStatus, Status, WithStatus};
use opcost_kernel::disk::{self, DiskError, DiskSpec};
use opcost_kernel::{Kernel, Module};
use opcost_record::disk::{GuestDisk, GuestModule};
use std::fs;

/// The folder of modules in the guest.
const MODULES: &str = "/opcost/modules";

impl Emulated<'_> {
    /// Makes a disk for a guest with this kernel.
    ///
    /// # Errors
    /// The kernel lacks an option or module that the disk needs, or the disk cannot be made.
    pub(super) fn disk(&self, spec: &DiskSpec, kernel: &Kernel) -> Result<PackedDisk> {
        let modules = modules(spec, kernel)?;
        let path = std::env::var_os("PATH");
        let contents = disk::make(spec, path.as_deref(), self.folder.path());
        let contents = contents.map_err(HasStatus::carried)?;
        let packed = |module: &Module| GuestModule {
            path: format!("{MODULES}/{}.ko", module.name),
            parameters: disk::parameters(spec, &module.name),
            needed: module.needed,
        };
        let description = GuestDisk {
            file_system: spec.file_system.clone(),
            options: spec.options.clone(),
            size_kib: spec.size_kib(),
            modules: modules.iter().map(packed).collect(),
        };
        let read = |module: &Module| {
            fs::read(&module.path)
                .with_context(|| format!("cannot read '{}'", module.path.display()))
                .status(Status::Missing)
        };
        let modules = modules.iter().map(read).collect::<Result<_>>()?;
        Ok(PackedDisk { description, contents, modules })
    }
}

/// The modules that a kernel must load for a disk, in order.
fn modules(spec: &DiskSpec, kernel: &Kernel) -> Result<Vec<Module>> {
    // If the configuration is unknown, the guest itself reports missing parts.
    let Some(options) = kernel.options().map_err(HasStatus::carried)? else {
        return Ok(Vec::new());
    };
    let names = disk::modules_needed(spec, &kernel.name, &options).map_err(HasStatus::carried)?;
    match kernel.modules(&names, disk::uses(spec)).map_err(HasStatus::carried)? {
        Some(modules) => Ok(modules),
        None if names.is_empty() => Ok(Vec::new()),
        None => Err(DiskError::Modules { kernel: kernel.name.clone(), modules: names }.carried()),
    }
}
