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
//! - `window=markers|whole|never`: count between markers, each run by itself where a marker ends it, or
//!   from the first instruction to the end, or nothing, without a report: halts then leave the guest's clock
//!   as they do where something is counted (`main_loop.rs`).
//! - `mode=user|system`: refuses the other.
//! - `model=on|off`: caches and branch predictor; `l1i`, `l1d`, `llc` as `SIZE:WAYS:LINE`.
//! - `cycles=PATH`: cycles of the core that the file describes (`timing.rs`), with one vCPU.
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
//! Regions that the program marks itself (`message.rs`) are counted beside the others, without contexts. Marks
//! count only while `work` is open.
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
//! - A kernel that writes to the very block that it executes: the rest of that block counts once too
//!   often, if the block's end leads back to the store. Programs may do so.
//! - Models have no prefetching and no timing, and virtual addresses.
//!
//! # Limits
//! One thread: in user mode a second thread, a child process and a successful `execve` make the
//! report an error; a machine needs `-accel tcg,thread=single` and has 8 vCPUs at most. Memory: at most 2^21 blocks of
//! about 400 bytes, then the report is an error; 2^20 contexts (64 bytes, 8 in the index), then cost
//! goes to `[other contexts]`; 2^18 open calls of 24 bytes in the kernel and in each of 4096 tasks,
//! then deeper ones are not followed; the models take their number of lines times 8 bytes and 80 KiB.
//! A run is written to the report when it ends, so any number of them take the memory of one.
//!
//! # How a block is counted
//! One cell holds what the next block must be for control to have gone on within a function, and how
//! far the last block came (`block.rs`). From version 3 of the API on QEMU's own code compares, counts
//! and stores; the plugin is called only where control leaves a function or something must be put
//! right. Before, a callback does the same for each block. Both ways change the same cells, so all
//! that follows is one code: who was called, what was cut short, what a fault takes back. Several vCPUs
//! are counted by callbacks in all versions: QEMU's own code would not see that another has its turn.
//!
//! A program without a kernel, a machine with several vCPUs and `window=whole` have a step at each
//! instruction that may fault, and a callback at each call and return. Where the symbols say how the
//! kernel is entered, neither is needed (`Core::settle_by_entry`): the processor pushes the address of an
//! instruction that faulted, and the stack pointer gives the slots (`stack.rs`). Both ways give the same
//! counts and contexts.
//!
//! # Speed
//! docs/emulation.md has ratios for each QEMU; `benches/speed.rs` and `script/bench` take such ratios.
//! Most of what counting costs is not instructions but memory: QEMU's caches of translated code and of
//! addresses fill the host's, so every cache line that a callback touches is fetched anew. A block and
//! a node of the tree take one line each for that reason. The models take a callback for each block
//! and each access to memory besides.

mod api;
mod arguments;
mod attribution;
mod block;
mod blocks;
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
mod low;
mod main_loop;
mod mapped;
mod message;
mod model;
mod rcu;
mod refusal;
mod region;
mod repeat;
mod report;
mod slices;
mod stack;
mod timing;
mod translate;
mod tree;
mod vcpu;
mod walk;

pub use api::Info;
pub use install::{qemu_plugin_install, qemu_plugin_version};
