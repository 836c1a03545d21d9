//! A QEMU plugin that counts instructions exactly as hardware would.
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
//! - `watch=PATH`: functions at whose entries amounts are read (`watching.rs`), in the format of `opcost_record::event::Watch`.
//! - `window=markers|whole|never`: count between markers, each run by itself where a marker ends it; or from the
//!   first instruction to the end; or nothing, without a report. With `never`, halts still leave the guest's clock as
//!   they do in a counting run (`main_loop.rs`).
//! - `once=on|off`: each region begins and ends once a run, as the region of a command does. A further marker is the counted
//!   program's, and makes the report an error.
//! - `mode=user|system`: refuses the other mode.
//! - `model=PATH`: caches and branch predictor of the core that the file describes, without its cycles (`timing.rs`); needs a
//!   machine with one vCPU, as `cycles` does.
//! - `cycles=PATH`: the cycles of the core that the file describes.
//! - `profile=on|off`: cost by calling context. Without it a program, and a machine with one vCPU and a known kernel, are counted by
//!   `totals.rs`.
//! - `stubs=off`: one function counts all blocks (`stub.rs`), as on a host without stubs; for tests.
//! - `callgrind=WORD`: counts as `callgrind/mod.rs` describes, by the settings of `opcost_callgrind::settings`; the other arguments
//!   are left out.
//! - `steps=WHICH`: the calls of one operation in their order (`steps.rs`), `median` or the operation's number; `operations=N` tells
//!   how many there are, `stepped-call=HEX` the function whose calls they are.
//! - `footprint=on`: different cache lines and pages that the work touches (`footprint.rs`).
//! - `probe=on`: raw counts of QEMU's memory filters. The self-test of crate `opcost` derives
//!   `filter-KIND=FILTER/DIVISOR` from them.
//!
//! # Metrics
//! `instructions` are instructions that retire (Intel SDM volume 3, INST_RETIRED). An instruction that faults counts once, when it
//! finishes. A repeated string instruction counts once, and its iterations are counted apart. `ud2` never counts. `branches` are
//! all transfers, far transfers included. Loads and stores are memory operands as decoded. `instruction-starts` are the
//! instructions that the emulator began. Under `-icount shift=0` QEMU takes back its charge for an instruction that faulted. The
//! guest's time stamp counter thus advances by the starts less the cut ones: one for each fault of a data access, none for a fetch.
//!
//! The address of an instruction decides its domain: the upper half of the address space is the kernel's, everything below is the
//! user's. Kernel code in the lower half (16- and 32-bit code at boot, a bare image) counts as user; the API gives no privilege
//! level.
//!
//! The kernel's instructions fall into three classes (`class.rs`): synchronous, deferred, tick. They add up to the kernel's
//! instructions. Tasks that were there before the plugin are taken for kernel threads until they reach user mode, so a machine
//! that goes on from a kept state gives the same classes as one that boots.
//!
//! Regions that the program marks itself (`message.rs`) are counted apart from the others, without contexts. Their marks count only
//! while `work` is open.
//!
//! # Inexact figures
//! - Calling contexts are inferred from blocks and stack slots. Totals never depend on them: the sum
//!   over the contexts is checked against the total, and a report whose sums differ is an error.
//! - In user mode, a signal that arrives between two blocks looks like a jump into its handler. In a machine, the
//!   kernel's own functions identify handlers, returns from handlers, and new programs.
//! - The child of a fork continues at the top of the tree: its parent's callers are not its own callers.
//! - Two vCPUs in the same repeated string instruction may count one completion too many, if one of them jumps behind
//!   the instruction meanwhile.
//! - An access to a device that is the last instruction of an interrupted block may count as finished.
//! - If a kernel writes to the very block that it executes, and the block's end leads back to the store, the rest of
//!   the block counts once too often. Programs may do so without this error.
//! - The models use virtual addresses.
//!
//! # Limits
//! One thread: in user mode a second thread, a child process or a successful `execve` turns the report into an error. A machine
//! needs `-accel tcg,thread=single` and has at most 8 vCPUs. Memory: at most 2^21 blocks of about 400 bytes; with more, the report
//! is an error. At most 2^20 contexts (64 bytes, 8 in the index); further cost goes to `[other contexts]`. At most 2^18 open calls
//! of 24 bytes in the kernel and in each of 4096 tasks; deeper calls are not followed. The plugin writes a run to the report when the run ends, so any number of runs takes the memory of one.
//!
//! # How a block is counted
//! One cell holds the value that the next block must match if control stays within a function, and also how far the last block came
//! (`block.rs`). From version 3 of the API on, QEMU's own code compares, counts and stores. It calls the plugin only where control
//! leaves a function or a count needs correction. Before version 3, a callback does the same for each block, or code that the
//! plugin makes for each block of a program (`stub.rs`). Both ways change the same cells, so the same code finds callees, blocks
//! that were cut short, and counts to take back after a fault. Several vCPUs are counted by callbacks in all versions, because
//! QEMU's own code would not notice that another vCPU has its turn.
//!
//! A machine with several vCPUs and `window=whole` in a machine need a step at each instruction that may fault, and a callback at each
//! call and return. If the symbols say how the kernel is entered, neither is needed (`Plugin::settle_by_entry`): the processor pushes
//! the address of a faulted instruction, and the stack pointer gives the slots (`stack.rs`). An x86-64 program without a kernel needs
//! neither once the stack pointer is found: the frame of a signal has the address (`Plugin::handle_signals`), unless a handler of
//! faults has no `SA_SIGINFO`. Both ways give the same counts and contexts.
//!
//! Totals alone need no callback at calls and returns either: QEMU's own code counts the blocks, and the plugin is called where the
//! kernel is entered, or where a program's handler of signals begins (`totals.rs`).
//!
//! # Speed
//! docs/emulation.md has ratios for each QEMU; `benches/speed.rs` and `script/bench` measure them. Most of the cost of counting is
//! memory, not instructions: QEMU's caches of translated code and of addresses fill the host's caches, so a callback fetches every
//! cache line anew. Each block and each node of the tree therefore takes one line. The models need a further callback for each
//! block and each access to memory.

mod aarch64;
mod addresses;
mod alternatives;
mod api;
mod arguments;
mod attribution;
mod block;
mod blocks;
mod callback;
mod callgrind;
mod class;
mod compare;
mod costs;
mod counters;
mod cuts;
mod decode;
mod events;
mod footprint;
mod frames;
mod install;
mod last_instruction;
mod low;
mod main_loop;
mod mapped;
mod message;
mod plugin;
mod rcu;
mod refusal;
mod region;
mod repeat;
mod report;
mod slices;
mod stack;
mod steps;
mod stub;
mod target;
mod timing;
mod totals;
mod translate;
mod tree;
mod vcpu;
mod walk;
mod watching;
mod x86_64;

pub use api::Info;
pub use install::{qemu_plugin_install, qemu_plugin_version};
