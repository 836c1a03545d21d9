//! Finds by name where an x86-64 Linux kernel of version 4.9 or later is entered
//! (`arch/x86/entry/entry_64.S`, `entry_64_compat.S`, `arch/x86/include/asm/idtentry.h`).
//!
//! Hardware does not use the entries of Xen PV guests (`xen_asm_*`, `asm_xenpv_*`) nor
//! `asm_exc_nmi_noist`, which KVM calls. A kernel with FRED has one entry for all reasons: its
//! landmarks are listed but never reached.

use super::{AddressRange, CALLS, FAULTS, INTERRUPTS, Row};
use opcost_record::symbols::Landmark;
use std::collections::HashMap;

/// Code in assembler with the same meaning in every version.
///
/// From 4.15 to 4.20 a kernel with page table isolation has its system call entry in a trampoline
/// outside the text, which continues at `entry_SYSCALL_64_stage2` and never at `entry_SYSCALL_64`.
/// Since 6.5 `ret_from_fork` is C, called from `ret_from_fork_asm`.
const ALWAYS: [Row; 9] = [
    ("entry_SYSCALL_64", Landmark::SystemCall, CALLS),
    ("entry_SYSCALL_64_stage2", Landmark::SystemCall, CALLS),
    ("entry_SYSCALL_compat", Landmark::SystemCall, CALLS),
    ("entry_SYSENTER_compat", Landmark::SystemCall, CALLS),
    ("entry_INT80_compat", Landmark::SystemCall, CALLS),
    ("asm_int80_emulation", Landmark::SystemCall, CALLS),
    ("__switch_to_asm", Landmark::Switch, None),
    ("preempt_schedule_thunk", Landmark::Yield, None),
    ("preempt_schedule_notrace_thunk", Landmark::Yield, None),
];

/// Functions in C. System calls are `__x64_sys_*` since 4.17; `arch/x86/kernel/process_64.c`.
pub(super) const FUNCTIONS: [Row; 7] = [
    ("__x64_sys_rt_sigreturn", Landmark::SignalReturn, None),
    ("__ia32_compat_sys_rt_sigreturn", Landmark::SignalReturn, None),
    ("__ia32_compat_sys_sigreturn", Landmark::SignalReturn, None),
    ("sys_rt_sigreturn", Landmark::SignalReturn, None),
    ("start_thread", Landmark::Exec, None),
    ("compat_start_thread", Landmark::Exec, None),
    ("switch_fpu_return", Landmark::Resume, None),
];

/// Names of exceptions since 5.8.
const EXCEPTIONS: [Row; 22] = [
    ("asm_exc_page_fault", Landmark::Fault, FAULTS),
    ("asm_exc_general_protection", Landmark::Fault, None),
    ("asm_exc_invalid_op", Landmark::Fault, None),
    ("asm_exc_divide_error", Landmark::Fault, None),
    ("asm_exc_device_not_available", Landmark::Fault, None),
    ("asm_exc_stack_segment", Landmark::Fault, None),
    ("asm_exc_segment_not_present", Landmark::Fault, None),
    ("asm_exc_alignment_check", Landmark::Fault, None),
    ("asm_exc_coprocessor_error", Landmark::Fault, None),
    ("asm_exc_simd_coprocessor_error", Landmark::Fault, None),
    ("asm_exc_bounds", Landmark::Fault, None),
    ("asm_exc_invalid_tss", Landmark::Fault, None),
    ("asm_exc_virtualization_exception", Landmark::Fault, None),
    ("asm_exc_control_protection", Landmark::Fault, None),
    ("asm_exc_vmm_communication", Landmark::Fault, None),
    ("asm_exc_double_fault", Landmark::Fault, None),
    ("asm_exc_int3", Landmark::Trap, None),
    ("asm_exc_debug", Landmark::Trap, None),
    ("asm_exc_overflow", Landmark::Trap, None),
    ("asm_exc_nmi", Landmark::Interrupt, INTERRUPTS),
    // These two do not count as interrupts, but like interrupts they come between instructions.
    ("asm_exc_machine_check", Landmark::Interrupt, None),
    ("asm_exc_spurious_interrupt_bug", Landmark::Interrupt, None),
];

/// Names of exceptions and system vectors before 5.8, when they had no prefix.
///
/// KVM guests use `async_page_fault` in place of `page_fault`.
const EXCEPTIONS_BEFORE_5_8: [Row; 42] = [
    ("page_fault", Landmark::Fault, FAULTS),
    ("async_page_fault", Landmark::Fault, FAULTS),
    ("general_protection", Landmark::Fault, None),
    ("invalid_op", Landmark::Fault, None),
    ("divide_error", Landmark::Fault, None),
    ("device_not_available", Landmark::Fault, None),
    ("stack_segment", Landmark::Fault, None),
    ("segment_not_present", Landmark::Fault, None),
    ("alignment_check", Landmark::Fault, None),
    ("coprocessor_error", Landmark::Fault, None),
    ("simd_coprocessor_error", Landmark::Fault, None),
    ("bounds", Landmark::Fault, None),
    ("invalid_TSS", Landmark::Fault, None),
    ("double_fault", Landmark::Fault, None),
    ("int3", Landmark::Trap, None),
    ("debug", Landmark::Trap, None),
    ("overflow", Landmark::Trap, None),
    ("nmi", Landmark::Interrupt, INTERRUPTS),
    ("machine_check", Landmark::Interrupt, None),
    ("spurious_interrupt_bug", Landmark::Interrupt, None),
    ("apic_timer_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("reschedule_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("call_function_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("call_function_single_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("reboot_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("irq_move_cleanup_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("irq_work_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("error_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("spurious_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("thermal_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("threshold_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("deferred_error_interrupt", Landmark::Interrupt, INTERRUPTS),
    ("x86_platform_ipi", Landmark::Interrupt, INTERRUPTS),
    ("uv_bau_message_intr1", Landmark::Interrupt, INTERRUPTS),
    ("kvm_posted_intr_ipi", Landmark::Interrupt, INTERRUPTS),
    ("kvm_posted_intr_wakeup_ipi", Landmark::Interrupt, INTERRUPTS),
    ("kvm_posted_intr_nested_ipi", Landmark::Interrupt, INTERRUPTS),
    ("hyperv_callback_vector", Landmark::Interrupt, INTERRUPTS),
    ("hyperv_reenlightenment_vector", Landmark::Interrupt, INTERRUPTS),
    ("hv_stimer0_callback_vector", Landmark::Interrupt, INTERRUPTS),
    ("xen_hvm_callback_vector", Landmark::Interrupt, INTERRUPTS),
    ("acrn_hv_callback_vector", Landmark::Interrupt, INTERRUPTS),
];

/// Tables of stubs: an interrupt gate points at the stub of its vector, which pushes the vector and
/// jumps to `asm_common_interrupt` or `asm_spurious_interrupt`.
///
/// The stubs are the landmarks, because control leaves the interrupted code there. Their targets
/// are not, so an interrupt counts once. System vectors (`asm_sysvec_*`) have no stub.
const STUBS: [&str; 2] = ["irq_entries_start", "spurious_entries_start"];

/// The number of vectors from `FIRST_EXTERNAL_VECTOR` (0x20) to 0xff
/// (`arch/x86/include/asm/irq_vectors.h`), and so the most stubs in a table.
const VECTORS_MAX: u64 = 0x100 - 0x20;

/// The sizes of a stub without and with indirect branch tracking (`IDT_ALIGN`), bytes.
const STUB_BYTES: [u64; 2] = [8, 16];

/// The greatest alignment between a table and the next symbol, bytes.
const ALIGNMENT_BYTES: u64 = 64;

/// Marks what has a place of its own: entries, the switch of stacks, and the beginning of a task.
pub(super) fn mark_entries(
    places: &HashMap<&str, AddressRange>,
    mark: &mut dyn FnMut(u64, Landmark, Option<&str>),
) {
    let modern = places.contains_key("asm_exc_page_fault");
    let exceptions: &[Row] = if modern { &EXCEPTIONS } else { &EXCEPTIONS_BEFORE_5_8 };
    for (name, landmark, metric) in ALWAYS.iter().chain(exceptions) {
        if let Some((address, _)) = places.get(name) {
            mark(*address, *landmark, *metric);
        }
    }
    let fork = ["ret_from_fork_asm", "ret_from_fork"].iter().find_map(|name| places.get(name));
    if let Some((address, _)) = fork {
        mark(*address, Landmark::Fork, None);
    }
    for (name, (address, _)) in places {
        if name.starts_with("asm_sysvec_") {
            mark(*address, Landmark::Interrupt, INTERRUPTS);
        }
    }
    let tables = STUBS.map(|name| places.get(name));
    // The second table is too short to tell the size of its stubs; the first one's have the same.
    let stub = tables[0].or(tables[1]).map_or(STUB_BYTES[0], stub_bytes);
    for (start, end) in tables.into_iter().flatten() {
        for number in 0..((end - start) / stub).min(VECTORS_MAX) {
            mark(start + number * stub, Landmark::Interrupt, INTERRUPTS);
        }
    }
}

/// Returns the size of the stubs of a table with at least 200 stubs, bytes.
fn stub_bytes((start, end): &AddressRange) -> u64 {
    let [short, long] = STUB_BYTES;
    if end - start <= short * VECTORS_MAX + ALIGNMENT_BYTES { short } else { long }
}

#[cfg(test)]
pub(super) fn rows() -> Vec<Row> {
    [&ALWAYS[..], &FUNCTIONS, &EXCEPTIONS, &EXCEPTIONS_BEFORE_5_8].concat()
}
