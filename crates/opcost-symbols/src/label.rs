//! Labels inside the kernel's assembler functions that `kallsyms` lists like functions.
//!
//! A list of symbols does not tell labels from functions, so labels are known by name, each with
//! its function (`arch/x86/entry/entry_64.S`, `entry_64_compat.S` of 4.9 to 6.12). A label behind
//! another function counts as a function of its own.

/// The labels of each function.
const LABELS: [(&str, &[&str]); 7] = [
    (
        "entry_SYSCALL_64",
        &[
            "entry_SYSCALL_64_safe_stack",
            "entry_SYSCALL_64_after_hwframe",
            "entry_SYSCALL_64_after_swapgs",
            "entry_SYSCALL64_slow_path",
            "return_from_SYSCALL_64",
            "syscall_return_via_sysret",
            "entry_SYSRETQ_unsafe_stack",
            "entry_SYSRETQ_end",
        ],
    ),
    (
        "entry_SYSCALL_compat",
        &[
            "entry_SYSCALL_compat_safe_stack",
            "entry_SYSCALL_compat_after_hwframe",
            "sysret32_from_system_call",
            "entry_SYSRETL_compat_unsafe_stack",
            "entry_SYSRETL_compat_end",
        ],
    ),
    (
        "entry_SYSENTER_compat",
        &["entry_SYSENTER_compat_after_hwframe", "__end_entry_SYSENTER_compat"],
    ),
    ("swapgs_restore_regs_and_return_to_usermode", RETURN),
    ("common_interrupt_return", RETURN),
    ("asm_exc_nmi", NMI),
    ("nmi", NMI),
];

/// The labels of the return from an interrupt; its function has two names at one address.
const RETURN: &[&str] = &[
    "swapgs_restore_regs_and_return_to_usermode",
    "restore_regs_and_return_to_kernel",
    "native_iret",
    "native_irq_return_iret",
    "native_irq_return_ldt",
];

/// The labels in the handler of non-maskable interrupts.
const NMI: &[&str] = &["repeat_nmi", "end_repeat_nmi", "first_nmi", "nested_nmi", "nmi_restore"];

/// Whether `name` is a label inside of `function`.
pub(super) fn is_inside(name: &str, function: &str) -> bool {
    let labels = LABELS.iter().find(|(known, _)| *known == function);
    labels.is_some_and(|(_, labels)| labels.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_belongs_to_its_own_function_only() {
        assert!(is_inside("entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_64"));
        assert!(is_inside("native_irq_return_iret", "common_interrupt_return"));
        assert!(!is_inside("entry_SYSCALL_64_after_hwframe", "entry_SYSCALL_compat"));
        assert!(!is_inside("entry_SYSCALL_64", "entry_SYSCALL_64"));
        assert!(!is_inside("ret_from_fork", "entry_SYSCALL_64"));
    }
}
