//! The emulated machine: QEMU, with an initramfs made for each job.

mod cpio;
pub mod initramfs;
mod libraries;
mod packing;
pub mod probe;
mod tree;
