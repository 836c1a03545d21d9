//! The profiler's distortions: cost that the profiler causes, and samples at the wrong place.
//!
//! A function named here is not a cause of a program's cost, however high it stands in the table.

use crate::read::ReadProfile;
use crate::read::about::EventAbout;
use crate::symbolise::Sampled;
use crate::table::{FunctionCost, FunctionTable};
use opcost_record::Function;
use opcost_record::profile::KERNEL;

/// The way in which a part of a profile is distorted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DistortionKind {
    /// Cost of taking the samples, or of counting calls.
    Own,
    /// Cost of timer interrupts, the profiler's among them.
    TimerInterrupt,
    /// Samples that had to wait until interrupts were allowed again.
    Reenabled,
    /// Samples in functions so short that a late sample may be a neighbour's.
    Short,
    /// Samples in inlined functions, whose limits are only as exact as debug information.
    Inlined,
}

impl DistortionKind {
    /// Every kind with its word.
    pub const NAMES: [(DistortionKind, &'static str); 5] = [
        (DistortionKind::Own, "profiler"),
        (DistortionKind::TimerInterrupt, "timer-interrupt"),
        (DistortionKind::Reenabled, "interrupts-enabled-again"),
        (DistortionKind::Short, "short-functions"),
        (DistortionKind::Inlined, "inlined"),
    ];

    /// The kind's word.
    pub fn word(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The meaning of the distortion for a reader of the table.
    pub fn meaning(self) -> &'static str {
        match self {
            DistortionKind::Own => {
                "is the profiler's own work and no cause: without it the program would not spend this"
            }
            DistortionKind::TimerInterrupt => {
                "is in timer interrupts, those that take the samples among them"
            }
            DistortionKind::Reenabled => {
                "is charged to places where interrupts are allowed again: a timer's sample waits for \
                 them, so part of it is the cost of what ran before with interrupts blocked"
            }
            DistortionKind::Short => {
                "is in functions of at most 16 bytes: a sample is taken some instructions late, so it \
                 may be a neighbour's"
            }
            DistortionKind::Inlined => {
                "is in functions that were inlined; which instructions are theirs, debug information \
                 says, approximately"
            }
        }
    }
}

/// A part of a profile that the profiler distorted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Distortion {
    /// The kind of distortion.
    pub kind: DistortionKind,
    /// The distorted cost.
    pub cost: u64,
    /// The functions with distorted cost, and the distorted part of each; the greatest first.
    pub functions: Vec<(Function, u64)>,
}

/// The size of the longest function that counts as short, in bytes: about three instructions, which
/// is how late the interrupt of an imprecise event comes at best.
const SHORT_BYTES_MAX: u64 = 16;

/// Finds the profiler's distortions in the order of [`DistortionKind`], without those that cost 0.
pub fn distortions(profile: &ReadProfile) -> Vec<Distortion> {
    let ReadProfile { about, table, sampled, .. } = profile;
    let clock = about.sampling.as_ref().is_some_and(|sampling| sampling.clock);
    let is_late = |sampling: &EventAbout| !sampling.exact && sampling.precise.unwrap_or(0) < 2;
    let imprecise = about.sampling.as_ref().is_some_and(is_late);
    let mut found = match sampled {
        Some(sampled) => vec![
            below(DistortionKind::Own, sampled, is_own, |_| false),
            below(
                DistortionKind::TimerInterrupt,
                sampled,
                |function| clock && is_timer_interrupt(function),
                is_own,
            ),
        ],
        None => vec![own(DistortionKind::Own, table, |cost| is_own(&cost.function))],
    };
    if clock {
        found.push(own(DistortionKind::Reenabled, table, |cost| is_reenabling(&cost.function)));
    }
    if imprecise {
        let short = |cost: &FunctionCost| cost.bytes.is_some_and(|bytes| bytes <= SHORT_BYTES_MAX);
        found
            .push(own(DistortionKind::Short, table, |cost| short(cost) && !is_own(&cost.function)));
    }
    found.push(inlined(table));
    found.retain(|distortion| distortion.cost > 0);
    found
}

/// Whether a function is the profiler's own: part of perf, of the interrupts that take perf's
/// samples, or of the hook of profilers that count calls, with the functions that the hook calls.
pub fn is_own(function: &Function) -> bool {
    const HOOKS: [&str; 10] = [
        "mcount",
        "_mcount",
        "__mcount",
        "___mcount",
        "__fentry__",
        "mcount_internal",
        "__mcount_internal",
        "__cyg_profile_func_enter",
        "__cyg_profile_func_exit",
        "__gnu_mcount_nc",
    ];
    let symbol = function.symbol.as_str();
    if HOOKS.contains(&symbol) || is_blocking_hook(symbol) {
        return true;
    }
    const OURS: [&str; 6] =
        ["perf_", "__perf_", "x86_pmu_", "intel_pmu_", "amd_pmu_", "cpu_clock_event_"];
    const NMI: [&str; 6] =
        ["asm_exc_nmi", "exc_nmi", "default_do_nmi", "nmi_handle", "do_nmi", "end_repeat_nmi"];
    let kernel = function.module == KERNEL;
    let begins = OURS.iter().any(|start| symbol.starts_with(start));
    kernel && (begins || NMI.contains(&symbol) || symbol.starts_with("task_clock_event_"))
}

/// Whether NetBSD's call counting hook blocks interrupts with this function: `_splset_noprof` and its
/// kin. (Linux ends names of allocators with `_noprof` for an unrelated reason.)
fn is_blocking_hook(symbol: &str) -> bool {
    let name = symbol.trim_start_matches('_');
    name.starts_with("spl") && name.ends_with("_noprof")
}

fn is_timer_interrupt(function: &Function) -> bool {
    const ENTRIES: [&str; 8] = [
        "asm_sysvec_apic_timer_interrupt",
        "sysvec_apic_timer_interrupt",
        "__sysvec_apic_timer_interrupt",
        "apic_timer_interrupt",
        "smp_apic_timer_interrupt",
        "local_apic_timer_interrupt",
        "hrtimer_interrupt",
        "__hrtimer_run_queues",
    ];
    function.module == KERNEL && ENTRIES.contains(&function.symbol.as_str())
}

/// Whether a function of the kernel allows interrupts again after they were blocked.
fn is_reenabling(function: &Function) -> bool {
    const PLACES: [&str; 34] = [
        "_raw_read_unlock_irq",
        "_raw_read_unlock_irqrestore",
        "_raw_spin_unlock_irq",
        "_raw_spin_unlock_irqrestore",
        "_raw_write_unlock_irq",
        "_raw_write_unlock_irqrestore",
        "__do_softirq",
        "__local_bh_enable_ip",
        "acpi_idle_do_entry",
        "acpi_safe_halt",
        "arch_cpu_idle",
        "arch_local_irq_enable",
        "arch_local_irq_restore",
        "cpuidle_enter_state",
        "default_idle",
        "default_idle_call",
        "do_idle",
        "do_syscall_64",
        "do_user_addr_fault",
        "exc_page_fault",
        "exit_to_user_mode_loop",
        "finish_task_switch",
        "handle_softirqs",
        "irqentry_exit_to_user_mode",
        "local_irq_enable",
        "local_irq_restore",
        "mwait_idle",
        "native_irq_enable",
        "native_safe_halt",
        "pv_native_irq_enable",
        "pv_native_safe_halt",
        "schedule_tail",
        "syscall_enter_from_user_mode",
        "syscall_exit_to_user_mode",
    ];
    // `finish_task_switch.isra.0`
    let symbol = function.symbol.split('.').next().unwrap_or_default();
    function.module == KERNEL && PLACES.contains(&symbol)
}

/// Sums the own cost of the functions that `is` selects.
fn own(
    kind: DistortionKind,
    table: &FunctionTable,
    is: impl Fn(&FunctionCost) -> bool,
) -> Distortion {
    let within = table.functions.iter().filter(|cost| cost.own > 0 && is(cost));
    let functions: Vec<_> = within.map(|cost| (cost.function.clone(), cost.own)).collect();
    Distortion { kind, cost: functions.iter().map(|(_, cost)| cost).sum(), functions }
}

/// Sums the cost at and below the functions that `is` selects, except below those of `not`.
fn below(
    kind: DistortionKind,
    sampled: &Sampled,
    is: impl Fn(&Function) -> bool,
    not: impl Fn(&Function) -> bool,
) -> Distortion {
    let profile = &sampled.profile;
    let flags: Vec<(bool, bool)> =
        profile.functions.iter().map(|function| (is(function), not(function))).collect();
    let mut inside: Vec<bool> = Vec::with_capacity(profile.contexts.len());
    let mut sums = vec![0u64; profile.functions.len()];
    for context in &profile.contexts {
        let (is, not) = flags[context.function as usize];
        let above = context.parent.is_some_and(|parent| inside[parent as usize]);
        let within = (above || is) && !not;
        if within {
            let sum = &mut sums[context.function as usize];
            *sum = sum.saturating_add(context.cost);
        }
        inside.push(within);
    }
    let mut functions: Vec<(Function, u64)> =
        profile.functions.iter().cloned().zip(sums).filter(|(_, cost)| *cost > 0).collect();
    functions.sort_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    Distortion { kind, cost: functions.iter().map(|(_, cost)| cost).sum(), functions }
}

/// Sums the cost of inlined copies: each function's own cost times the share of samples in copies.
fn inlined(table: &FunctionTable) -> Distortion {
    let part = |cost: &FunctionCost| {
        let samples = cost.samples.filter(|samples| *samples > 0)?;
        let part = u128::from(cost.own) * u128::from(cost.inlined_samples) / u128::from(samples);
        Some((cost.function.clone(), part as u64)).filter(|(_, part)| *part > 0)
    };
    let mut functions: Vec<_> = table.functions.iter().filter_map(part).collect();
    functions.sort_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    let cost = functions.iter().map(|(_, cost)| cost).sum();
    Distortion { kind: DistortionKind::Inlined, cost, functions }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_costs::CodeCosts;
    use crate::losses::Losses;
    use crate::read::about::{About, EventAbout};
    use crate::read::{callgrind, sampled};
    use crate::symbolise::ProfileBuilder;
    use opcost_sys::budget::Budget;

    fn kernel(symbol: &str) -> Function {
        Function::new(symbol, KERNEL)
    }

    fn profile(clock: bool, precise: u8, stacks: &[(&[&str], u64)]) -> ReadProfile {
        let mut builder = ProfileBuilder::default();
        for (stack, cost) in stacks {
            let stack: Vec<_> = stack.iter().map(|symbol| (kernel(symbol), false)).collect();
            builder.add(&stack, *cost);
        }
        let sampling = Some(EventAbout { clock, precise: Some(precise), ..EventAbout::default() });
        sampled(About { sampling, ..About::default() }, builder.grown(Losses::default()))
    }

    fn said(profile: &ReadProfile) -> Vec<(&'static str, u64, Vec<String>)> {
        let names = |distortion: &Distortion| {
            distortion.functions.iter().map(|(function, _)| function.symbol.clone()).collect()
        };
        let found = distortions(profile);
        found.iter().map(|one| (one.kind.word(), one.cost, names(one))).collect()
    }

    #[test]
    fn what_the_profiler_calls_is_its_own_too() {
        let stacks: &[(&[&str], u64)] = &[
            (&["do_syscall_64", "vfs_read"], 50),
            (&["vfs_read", "asm_sysvec_apic_timer_interrupt", "hrtimer_interrupt"], 7),
            (
                &[
                    "vfs_read",
                    "asm_sysvec_apic_timer_interrupt",
                    "perf_swevent_hrtimer",
                    "native_sched_clock",
                ],
                11,
            ),
            (&["vfs_read", "_raw_spin_unlock_irqrestore"], 5),
            (&["schedule", "finish_task_switch.isra.0"], 6),
        ];
        let expected = [
            ("profiler", 11, vec!["native_sched_clock".to_string()]),
            ("timer-interrupt", 7, vec!["hrtimer_interrupt".to_string()]),
            (
                "interrupts-enabled-again",
                11,
                vec!["finish_task_switch.isra.0".into(), "_raw_spin_unlock_irqrestore".into()],
            ),
        ];
        assert_eq!(said(&profile(true, 0, stacks)), expected);
        // A counter's interrupt is not maskable: nothing waits.
        assert_eq!(said(&profile(false, 2, stacks)), expected[..1]);
    }

    #[test]
    fn short_functions_are_named_where_samples_may_be_late() {
        let mut made = profile(false, 0, &[(&["main", "tiny"], 30), (&["main"], 70)]);
        for cost in &mut made.table.functions {
            cost.bytes = Some(if cost.function.symbol == "tiny" { 4 } else { 400 });
        }
        assert_eq!(said(&made), [("short-functions", 30, vec!["tiny".to_string()])]);
        made.about.sampling.as_mut().unwrap().precise = Some(2);
        assert_eq!(said(&made), []);
        // A page fault is the instruction's that made it.
        let sampling = made.about.sampling.as_mut().unwrap();
        (sampling.precise, sampling.exact) = (None, true);
        assert_eq!(said(&made), []);
    }

    /// A kernel profiled by counting calls (gprof): the hook's time showed in the function that it
    /// blocks interrupts with, and in the hook itself once that was undone.
    #[test]
    fn the_hook_of_a_call_counting_profiler_is_no_cause() {
        let profile = |hook: &str, cost: u64| {
            let text = format!(
                "events: ms\nob=netbsd\nfn={hook}\n1 {cost}\nfn=_splset\n1 21000\nfn=ubc_fault\n1 {}\n",
                343_500 - 21_000 - cost
            );
            let (about, table, _) = callgrind::read(&text, [], None, &Budget::default()).unwrap();
            ReadProfile { about, table, sampled: None, code: CodeCosts::default() }
        };
        for (hook, cost) in [("_splset_noprof", 74_880), ("__mcount", 63_100)] {
            assert_eq!(said(&profile(hook, cost)), [("profiler", cost, vec![hook.to_string()])]);
        }
        // NetBSD's `_splset` and Linux's allocators ending in `_noprof` are not the profiler's.
        assert!(!is_own(&kernel("_splset")) && !is_own(&kernel("__kmalloc_noprof")));
    }

    #[test]
    fn each_kind_is_at_its_place() {
        for (place, (kind, _)) in DistortionKind::NAMES.iter().enumerate() {
            assert_eq!(*kind as usize, place);
        }
    }
}
