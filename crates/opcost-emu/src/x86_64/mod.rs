//! x86-64: its instructions, and the kernel's entries.

pub(crate) mod compare;
pub(crate) mod decode;
pub(crate) mod entry;

use crate::target::{Call, SystemCalls, Target};
use opcost_record::Architecture;

/// x86-64 as the plugin counts it.
pub(crate) static TARGET: Target = Target {
    architecture: Architecture::X86_64,
    call: Call::PushesAddress,
    return_bytes: decode::RETURN_BYTES,
    restarts_own_stores: true,
    maps_text_again: false,
    is_modelled: true,
    decode: decode::decode,
    branch_target: decode::target,
    decide: compare::decide,
    stack_number: 4,
    // System V ABI: rdi, rsi, rdx, rcx, r8, r9.
    arguments: [7, 6, 2, 1, 8, 9],
    popped: decode::popped,
    halts: decode::halts,
    may_end_with_repeat: decode::may_end_with_repeat,
    may_end_with_call: decode::may_end_with_call,
    entered: entry::pushed,
    signalled: Some(entry::signalled),
    causes: None,
    fetch_faulted: entry::fetch_faulted,
    unnamed_entry: |_, _| None,
    // arch/x86/entry/syscalls/syscall_64.tbl of the kernel.
    system_calls: SystemCalls {
        clone: 56,
        forks: &[57, 58],
        execute: &[59, 322],
        map: 9,
        action: 13,
        cuts: &[30, 129, 297],
    },
};
