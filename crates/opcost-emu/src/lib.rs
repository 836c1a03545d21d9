//! The QEMU plugin that counts instructions as hardware would, exactly.
//!
//! `qemu-x86_64 -plugin libopcost_emu.so,out=REPORT,window=whole PROGRAM` writes a report in the
//! format of `opcost_record::emulation`. Plugins are linked with QEMU, so this crate is licensed
//! as QEMU is, GPL-2.0-or-later (SPDX-License-Identifier: GPL-2.0-or-later; see LICENSE), and no
//! other crate links with it.
//!
//! # Arguments
//! `key=value` behind the plugin's path, separated by commas:
//! - `out=PATH`: the report; written as `PATH.tmp`, then renamed. Always needed.
//! - `symbols=PATH`: symbols in the format of `opcost_record::symbols`.
//! - `window=markers|whole`: count between markers, each run by itself where a marker ends it, or
//!   from the first instruction to the end.
//! - `mode=user|system`: refuses the other.
//! - `model=on|off`: caches and branch predictor; `l1i`, `l1d`, `llc` as `SIZE:WAYS:LINE`.
//! - `profile=on|off`: cost by calling context.
//! - `probe=on`: raw counts of QEMU's memory filters, from which `filter-KIND=FILTER/DIVISOR`
//!   follow; the self-test of crate `opcost` does that.
//!
//! # What is counted
//! Instructions that retire (Intel SDM volume 3, INST_RETIRED): one that faults counts once, when
//! it is done; a repeated string instruction counts once, its iterations apart; `ud2` never.
//! `branches` are all transfers, far ones included. Loads and stores are memory operands as decoded.
//! `instruction-starts` are what the emulator began. Under `-icount shift=0` QEMU takes back what it
//! charged for an instruction that faulted, so the guest's time stamp counter advances by the
//! starts less those that were cut: one for each fault of a data access, none for a fetch.
//!
//! Whose an instruction is goes by its address: the upper half of the address space is the
//! kernel's, everything below it the user's. A kernel's code that runs below (16- and 32-bit code
//! at boot, a bare image) counts as user; the API tells no privilege level.
//!
//! # What is not exact
//! - Calling contexts are inferred from blocks and stack slots. Totals never depend on them: the sum
//!   over the contexts is checked against the total, and a report whose sums differ is an error.
//! - A signal that arrives between two blocks in user mode is taken for a jump into its handler. In a
//!   machine the kernel's own functions tell handlers, returns from them, and new programs.
//! - The child of a fork goes on at the top of the tree: its parent's callers are not its own.
//! - Two vCPUs in the same repeated string instruction may count one completion too many, if one
//!   jumps behind it meanwhile.
//! - An access to a device that is the last of an interrupted block may count as done.
//! - Models have no prefetching and no timing, and virtual addresses.
//!
//! # Limits
//! One thread: in user mode a second thread, a child process and a successful `execve` make the
//! report an error; a machine needs `-accel tcg,thread=single`. Memory: at most 2^21 blocks of
//! about 400 bytes, then the report is an error; 2^20 contexts (8 bytes, 24 in the index, 48 in
//! the columns), then cost goes to `[other contexts]`; 2^18 open calls of 24 bytes in the kernel
//! and in each of 4096 tasks, then deeper ones are not followed; the models take their number of lines
//! times 8 bytes and 80 KiB. A run is written to the report when it ends, so any number of them take
//! the memory of one.
//!
//! # Speed
//! Measured with QEMU 7.2, CPU time of runs taken in turn, medians of at least four, ratios only;
//! `benches/speed.rs` takes such ratios. `gzip -9` of 1.5 MB in user mode: 2.2 times the time
//! without plugin with counting and contexts, 7.0 times with the models; callgrind takes 4.9 times
//! the former, callgrind with caches and branches 3.6 times the latter. Boot of a small kernel with
//! 20,000 mmap operations, translation included: 0.63 of the speed without plugin with counting,
//! about 0.4 with the models (from two runs of each only). What was aimed at is missed for counting (6 times as fast as
//! callgrind, 0.75 of QEMU's speed) and for the models in user mode (4 times as fast as callgrind):
//! each block calls the plugin once, and with the models each access to memory does. Inline additions
//! alone, no callback and no calling contexts, came to 0.73 and 0.82 of QEMU's speed (two runs, a
//! busy machine) and to 1.45 times the time without plugin in user mode, which is what version 1 of
//! the API leaves to gain.

mod api;
mod arguments;
mod attribution;
mod block;
mod branch;
mod cache;
mod callback;
mod core;
mod costs;
mod counters;
mod decode;
mod events;
mod frames;
mod install;
mod mapped;
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
