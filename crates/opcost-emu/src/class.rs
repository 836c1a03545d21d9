//! The classes into which the kernel's instructions fall: what a program asked for, what the kernel does later, and the tick.
//!
//! A context has the class of its caller unless its function begins another class. The tree's bases (`tree.rs`) give the first
//! class: interrupts begin as the tick, and threads whose beginning was not seen are the kernel's.

use opcost_record::{Function, profile::KERNEL};

/// A class of instructions in the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Class {
    /// Executed for a system call, a fault or a signal of a program, or between CPUs for one of these.
    Synchronous,
    /// Executed by softirqs, RCU's callbacks, timers, and the kernel's threads with the idle ones.
    Deferred,
    /// Executed by a device's interrupt, which in a guest is the timer's, without the softirqs that it starts.
    Tick,
}

impl Class {
    pub(crate) const COUNT: usize = 3;

    /// Every class with the name of its metric.
    pub(crate) const NAMES: [(Class, &'static str); Class::COUNT] = [
        (Class::Synchronous, opcost_record::metric::SYNCHRONOUS),
        (Class::Deferred, opcost_record::metric::DEFERRED),
        (Class::Tick, opcost_record::metric::TICK),
    ];
}

/// The effect of a function on the class of its contexts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Head {
    /// Not the kernel's: without a class.
    #[default]
    User,
    /// The caller's class.
    Inherits,
    /// Deferred work, whoever calls.
    Deferred,
    /// Softirqs: deferred behind an interrupt. A system call executes its own softirqs when it ends (loopback network), so they
    /// have its class.
    Softirq,
    /// Work of the program that the way back to user mode executes, even from the tick.
    Program,
    /// The caller's class. If the function makes room for another task, somebody wanted that.
    Yields,
    /// The caller's class. The function wakes threads of the kernel only, so a switch to such a thread is deferred work.
    Wakes,
}

/// Functions that begin deferred work. Linux 4.9 to 6.12: `kernel/softirq.c`, `kernel/rcu`, `kernel/time`, `kernel/kthread.c`,
/// `kernel/sched/idle.c`, `block/blk-mq.c`, `kernel/workqueue.c`, `arch/x86/kernel/irq_work.c`.
const DEFERRED: [&str; 21] = [
    "rcu_core",
    "rcu_core_si",
    "rcu_do_batch",
    "rcu_process_callbacks",
    "run_timer_softirq",
    "hrtimer_run_softirq",
    "tasklet_action",
    "tasklet_hi_action",
    "workqueue_softirq_action",
    "run_rebalance_domains",
    "sched_balance_softirq",
    "blk_done_softirq",
    "irq_poll_softirq",
    "run_ksoftirqd",
    "kthread",
    "kthreadd",
    "do_idle",
    "cpu_idle_loop",
    "cpu_startup_entry",
    "asm_sysvec_irq_work",
    "irq_work_interrupt",
];

/// The function that executes pending softirqs; since 6.10 a part of it has a name of its own.
const SOFTIRQ: [&str; 2] = ["__do_softirq", "handle_softirqs"];

/// Work of the program on the way back to user mode, and interrupts that one CPU sends to another (before 5.8).
const PROGRAM: [&str; 7] = [
    "task_work_run",
    "arch_do_signal_or_restart",
    "get_signal",
    "do_signal",
    "reschedule_interrupt",
    "call_function_interrupt",
    "call_function_single_interrupt",
];

/// Functions in which a task makes room though it could go on: when the kernel is asked to, and on the way back to what was
/// interrupted. Every other caller of `schedule` waits. `kernel/sched/core.c`, `kernel/entry/common.c`, `arch/x86/entry`,
/// `arch/arm64/kernel/signal.c`.
const YIELDS: [&str; 31] = [
    "__cond_resched",
    "_cond_resched",
    "__cond_resched_lock",
    "__cond_resched_rwlock_read",
    "__cond_resched_rwlock_write",
    "__cond_resched_softirq",
    "preempt_schedule_common",
    "preempt_schedule",
    "preempt_schedule_notrace",
    "preempt_schedule_irq",
    "preempt_schedule_thunk",
    "preempt_schedule_notrace_thunk",
    "___preempt_schedule",
    "___preempt_schedule_notrace",
    "exit_to_user_mode_loop",
    "exit_to_user_mode_prepare",
    "exit_to_usermode_loop",
    "prepare_exit_to_usermode",
    "syscall_exit_to_user_mode",
    "syscall_exit_to_user_mode_work",
    "syscall_return_slowpath",
    "irqentry_exit",
    "irqentry_exit_to_user_mode",
    "do_syscall_64",
    "do_int80_emulation",
    "do_int80_syscall_32",
    "__do_fast_syscall_32",
    "do_fast_syscall_32",
    "schedule_user",
    "do_notify_resume",
    "arm64_preempt_schedule_irq",
];

/// Functions that wake threads of the kernel: `kernel/workqueue.c`, `kernel/softirq.c`, `kernel/rcu`, `kernel/kthread.c`, `mm`.
const WAKES: [&str; 10] = [
    "__queue_work",
    "insert_work",
    "kick_pool",
    "wake_up_worker",
    "wakeup_softirqd",
    "rcu_gp_kthread_wake",
    "invoke_rcu_core",
    "kthread_insert_work",
    "wakeup_kswapd",
    "wakeup_kcompactd",
];

/// Entries of interrupts that one CPU sends to another begin so, as the two entries do that follow.
const BETWEEN_CPUS: &str = "asm_sysvec_";
const TIMER: &str = "asm_sysvec_apic_timer_interrupt";

impl Head {
    /// Returns the effect of a function of the kernel, or of one of its modules.
    pub(crate) fn of(function: &Function) -> Head {
        let symbol = without_suffix(&function.symbol);
        if function.module != KERNEL {
            Head::Inherits
        } else if DEFERRED.contains(&symbol) {
            Head::Deferred
        } else if SOFTIRQ.contains(&symbol) {
            Head::Softirq
        } else if PROGRAM.contains(&symbol) || symbol.starts_with(BETWEEN_CPUS) && symbol != TIMER {
            Head::Program
        } else if YIELDS.contains(&symbol) {
            Head::Yields
        } else if WAKES.contains(&symbol) {
            Head::Wakes
        } else {
            Head::Inherits
        }
    }

    /// Returns the class of a context below a context of class `above`; `None` for code that is not the kernel's.
    pub(crate) fn below(self, above: Class) -> Option<Class> {
        match (self, above) {
            (Head::User, _) => None,
            (Head::Inherits | Head::Yields | Head::Wakes, above) => Some(above),
            (Head::Deferred, _) | (Head::Softirq, Class::Tick) => Some(Class::Deferred),
            (Head::Program, Class::Tick) => Some(Class::Synchronous),
            (Head::Softirq | Head::Program, above) => Some(above),
        }
    }
}

/// Returns a symbol without what compilers append to the names of copies: `preempt_schedule_common.llvm.77`.
fn without_suffix(symbol: &str) -> &str {
    symbol.split_once('.').map_or(symbol, |(function, _)| function)
}

/// Whether a kernel's functions tell the classes apart: its softirqs, its threads and its idle loop have names.
pub(crate) fn are_told(functions: &[Function]) -> bool {
    let has = |names: &[&str]| {
        let named = |function: &Function| names.contains(&without_suffix(&function.symbol));
        functions.iter().any(|function| function.module == KERNEL && named(function))
    };
    has(&SOFTIRQ) && has(&["kthread"]) && has(&["do_idle", "cpu_idle_loop", "cpu_startup_entry"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(above: Class, symbol: &str) -> Class {
        Head::of(&Function::new(symbol, KERNEL)).below(above).unwrap()
    }

    #[test]
    fn a_context_has_its_callers_class_unless_a_function_begins_another() {
        use Class::{Deferred, Synchronous, Tick};
        for (symbol, classes) in [
            ("vfs_read", [Synchronous, Deferred, Tick]),
            ("__do_softirq", [Synchronous, Deferred, Deferred]),
            ("handle_softirqs", [Synchronous, Deferred, Deferred]),
            ("rcu_core", [Deferred; 3]),
            ("kthread", [Deferred; 3]),
            ("task_work_run", [Synchronous, Deferred, Synchronous]),
            ("asm_sysvec_call_function", [Synchronous, Deferred, Synchronous]),
            ("asm_sysvec_apic_timer_interrupt", [Synchronous, Deferred, Tick]),
            ("asm_sysvec_irq_work", [Deferred; 3]),
            ("exit_to_user_mode_loop", [Synchronous, Deferred, Tick]),
            ("rcu_core.llvm.77", [Deferred; 3]),
            ("insert_work", [Synchronous, Deferred, Tick]),
        ] {
            let found = [Synchronous, Deferred, Tick].map(|above| below(above, symbol));
            assert_eq!(found, classes, "{symbol}");
        }
        let module = Function::new("rcu_core", "[ext4]");
        assert_eq!(Head::of(&module), Head::Inherits, "a module's function of the same name");
        assert_eq!(Head::User.below(Deferred), None);
    }

    #[test]
    fn classes_are_at_their_places() {
        for (place, (class, _)) in Class::NAMES.iter().enumerate() {
            assert_eq!(*class as usize, place);
        }
    }

    #[test]
    fn classes_are_told_only_if_all_their_functions_have_names() {
        let kernel = |names: &[&str]| -> Vec<Function> {
            names.iter().map(|name| Function::new(*name, KERNEL)).collect()
        };
        assert!(are_told(&kernel(&["handle_softirqs", "kthread", "do_idle", "x"])));
        assert!(are_told(&kernel(&["__do_softirq", "kthread", "cpu_startup_entry"])));
        assert!(!are_told(&kernel(&["kthread", "do_idle"])));
        assert!(!are_told(&kernel(&["__do_softirq", "do_idle"])));
        assert!(!are_told(&kernel(&["__do_softirq", "kthread"])));
        let program =
            ["__do_softirq", "kthread", "do_idle"].map(|name| Function::new(name, "/bin/x"));
        assert!(!are_told(&program));
    }
}
