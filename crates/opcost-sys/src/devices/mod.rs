//! The devices by which a guest of an emulated machine talks to its host: a channel for bytes to the host, QEMU's fw_cfg with the
//! host's request, and a watchdog that stops the machine.
//!
//! x86-64 has them at I/O ports. Other machines have them in memory, which `/dev/mem` (mem(4)) and sysfs map.

#[cfg(not(target_arch = "x86_64"))]
mod mapped;
mod pci;
#[cfg(target_arch = "x86_64")]
mod ports;

#[cfg(not(target_arch = "x86_64"))]
pub use mapped::{Channel, FwCfg, Watchdog, end};
pub use pci::FileMemory;
#[cfg(target_arch = "x86_64")]
pub use ports::{Channel, FwCfg, Watchdog, end};

/// The configuration that a kernel needs for these devices, in words.
#[cfg(target_arch = "x86_64")]
pub const NEEDED: &str = "CONFIG_X86_IOPL_IOPERM";
/// The configuration that a kernel needs for these devices, in words.
#[cfg(not(target_arch = "x86_64"))]
pub const NEEDED: &str =
    "CONFIG_PCI_HOST_GENERIC and CONFIG_DEVMEM, without a driver that claims fw_cfg";
