//! AArch64: its instructions, and the kernel's entries.

pub(crate) mod compare;
pub(crate) mod decode;
pub(crate) mod entry;

use crate::target::{Call, Causes, SystemCalls, Target};
use opcost_record::Architecture;

/// AArch64 as the plugin counts it.
pub(crate) static TARGET: Target = Target {
    architecture: Architecture::Aarch64,
    call: Call::SetsRegister,
    return_bytes: 0,
    restarts_own_stores: false,
    // The trampoline of page table isolation (`map_entry_trampoline` in arch/arm64/mm/mmu.c).
    maps_text_again: true,
    is_modelled: false,
    decode: decode::decode,
    branch_target: decode::target,
    decide: compare::decide,
    stack_number: 31,
    arguments: [0, 1, 2, 3, 4, 5],
    popped: |_, _| 0,
    halts: decode::halts,
    may_end_with_repeat: |_| false,
    may_end_with_call: decode::may_end_with_call,
    entered: entry::entered,
    signalled: None,
    causes: Some(Causes { call: entry::is_system_call, access: entry::is_access }),
    fetch_faulted: entry::fetch_faulted,
    unnamed_entry: entry::unnamed,
    // include/uapi/asm-generic/unistd.h of the kernel; 435 is clone3.
    system_calls: SystemCalls {
        clone: 220,
        forks: &[435],
        execute: &[221, 281],
        map: 222,
        action: 134,
        cuts: &[196, 138, 240],
    },
};
