//! Finds by name where an arm64 Linux kernel of version 5.10 or later is entered (`arch/arm64/kernel/entry.S`,
//! `arch/arm64/kernel/entry-common.c`).
//!
//! The processor enters a table of vectors. The vector of synchronous exceptions serves faults and system calls alike: functions
//! behind it count them.

use super::{AddressRange, CALLS, FAULTS, INTERRUPTS, Row};
use opcost_record::symbols::Landmark;
use std::collections::HashMap;

/// The function that exchanges the stacks of two tasks. Only kernels of this architecture have it.
pub(super) const SWITCH: &str = "cpu_switch_to";

/// Functions in C. A program is started by inline code behind `finalize_exec` (`fs/binfmt_elf.c`).
pub(super) const FUNCTIONS: [Row; 7] = [
    ("do_el0_svc", Landmark::Count, CALLS),
    ("do_el0_svc_compat", Landmark::Count, CALLS),
    ("do_mem_abort", Landmark::Count, FAULTS),
    ("__arm64_sys_rt_sigreturn", Landmark::SignalReturn, None),
    ("finalize_exec", Landmark::Exec, None),
    ("fpsimd_restore_current_state", Landmark::Resume, None),
    ("__arm64_compat_sys_rt_sigreturn", Landmark::SignalReturn, None),
];

/// Tables of vectors, and the number of tables behind each name: the kernel's own, and those that mitigate Spectre-BHB in front
/// of it, one for each way.
const TABLES: [(&str, u64); 2] = [("vectors", 1), ("__bp_harden_el1_vectors", 3)];

/// The size of a table and of a vector, bytes (Arm ARM, D1.4.1).
const TABLE_BYTES: u64 = 0x800;
const VECTOR_BYTES: u64 = 0x80;

/// The meaning of each four vectors in a row: synchronous exceptions, interrupts, fast interrupts, errors of the system.
const VECTORS: [(Landmark, Option<&str>); 4] = [
    (Landmark::Fault, None),
    (Landmark::Interrupt, INTERRUPTS),
    (Landmark::Interrupt, INTERRUPTS),
    (Landmark::Interrupt, None),
];

/// Marks what has a place of its own: entries, the switch of stacks, and the beginning of a task.
pub(super) fn mark_entries(
    places: &HashMap<&str, AddressRange>,
    mark: &mut dyn FnMut(u64, Landmark, Option<&str>),
) {
    for (name, landmark) in [(SWITCH, Landmark::Switch), ("ret_from_fork", Landmark::Fork)] {
        if let Some((address, _)) = places.get(name) {
            mark(*address, landmark, None);
        }
    }
    for (name, tables) in TABLES {
        let Some((start, _)) = places.get(name) else { continue };
        let vectors = (*start..).step_by(VECTOR_BYTES as usize);
        let meanings = VECTORS.into_iter().cycle();
        for (address, (landmark, metric)) in
            vectors.zip(meanings).take((tables * TABLE_BYTES / VECTOR_BYTES) as usize)
        {
            mark(address, landmark, metric);
        }
    }
}
