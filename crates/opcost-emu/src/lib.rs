//! The QEMU plugin that counts instructions as hardware would, exactly.
//!
//! `qemu-x86_64 -plugin libopcost_emu.so,out=REPORT,window=whole PROGRAM` writes a report in the
//! format of `opcost_record::emulation`. Plugins are linked with QEMU, so this crate is licensed
//! as QEMU is, GPL-2.0-or-later (SPDX-License-Identifier: GPL-2.0-or-later; see LICENSE), and no
//! other crate links with it.

mod api;
mod arguments;
mod attribution;
mod block;
mod branch;
mod cache;
mod callback;
mod core;
mod counters;
mod decode;
mod frames;
mod install;
mod model;
mod refusal;
mod region;
mod repeat;
mod report;
mod translate;
mod tree;
mod walk;

pub use api::Info;
pub use install::{qemu_plugin_install, qemu_plugin_version};
