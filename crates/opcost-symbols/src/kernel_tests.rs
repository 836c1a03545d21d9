use super::*;

/// Made up after a 6.1 kernel, out of order on purpose.
const KALLSYMS: &str = "\
0000000000000000 A fixed_percpu_data
0000000000000000 A __per_cpu_start
000000000001b300 A cpu_tss_rw
ffffffff81000000 T startup_64
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000040 t __pfx_run_init
ffffffff81000050 t run_init
ffffffff81000090 t run_init.cold
ffffffff810000a0 W memcpy
ffffffff810000a0 T __memcpy
ffffffff810000c0 t helper
ffffffff810000c8 r table.0
ffffffff810000d0 t helper
ffffffff810000e0 T __switch_to_asm
ffffffff81000100 T ret_from_fork
ffffffff81000120 T __pfx_alone
ffffffff81000130 T other
ffffffff81000200 T _etext
ffffffff81001000 D __start_rodata
ffffffff81001800 ? __nosave_begin
ffffffff82000000 T _sinittext
ffffffff82000000 B __init_begin
ffffffff82000000 t start_init
ffffffff82000080 T _einittext
ffffffff82000100 t leave_driver
ffffffffc0002000 t hold\t[second]
ffffffffc0000000 t open\t[first]
ffffffffc0000040 T close\t[first]
ffffffffc0000080 d state\t[first]
ffffffffc0001ff0 t last\t[first]
ffffffff80fff000 a absolute
";

fn part(start: u64, end: u64, symbol: &str, module: &str) -> Part {
    Part { start, end, function: Function::new(symbol, module) }
}

/// A part of the kernel itself; addresses count from the kernel's start.
fn own(start: u64, end: u64, symbol: &str) -> Part {
    part(0xffff_ffff_8100_0000 + start, 0xffff_ffff_8100_0000 + end, symbol, KERNEL)
}

/// A part whose name other functions have too.
fn one_of_several(mut part: Part, source: &str) -> Part {
    part.function.source = Some(source.into());
    part
}

fn landmarks(kallsyms: &str) -> Vec<(u64, Landmark, Option<String>)> {
    let kernel = KernelSymbols::parse(kallsyms).unwrap();
    kernel.landmarks.into_iter().map(|at| (at.address, at.landmark, at.metric)).collect()
}

/// Finds the landmarks of a kernel with these 32-byte symbols, with the symbols' names.
fn named(names: &[&str]) -> Vec<(String, Landmark, Option<String>)> {
    let base = 0xffff_ffff_8100_0000_u64;
    let lines: String = names
        .iter()
        .enumerate()
        .map(|(index, name)| format!("{:x} T {name}\n", base + 0x20 * index as u64))
        .collect();
    let name = |address: u64| names[((address - base) / 0x20) as usize].to_owned();
    landmarks(&lines).into_iter().map(|(at, mark, metric)| (name(at), mark, metric)).collect()
}

#[test]
fn each_symbol_ends_where_the_next_begins() {
    let module = 0xffff_ffff_c000_0000;
    assert_eq!(
        KernelSymbols::parse(KALLSYMS).unwrap().parts,
        [
            own(0, 0x40, "startup_64"),
            own(0x40, 0x50, "run_init"),
            own(0x50, 0x90, "run_init"),
            own(0x90, 0xa0, "run_init.cold"),
            own(0xa0, 0xc0, "memcpy"),
            one_of_several(own(0xc0, 0xc8, "helper"), "+0xc0"),
            one_of_several(own(0xd0, 0xe0, "helper"), "+0xd0"),
            own(0xe0, 0x100, "__switch_to_asm"),
            own(0x100, 0x120, "ret_from_fork"),
            own(0x120, 0x130, "__pfx_alone"),
            own(0x130, 0x200, "other"),
            own(0x100_0000, 0x100_0080, "start_init"),
            own(0x100_0100, 0x100_1100, "leave_driver"),
            part(module, module + 0x40, "open", "[first]"),
            part(module + 0x40, module + 0x80, "close", "[first]"),
            part(module + 0x1ff0, module + 0x2000, "last", "[first]"),
            part(module + 0x2000, module + 0x3000, "hold", "[second]"),
        ]
    );
}

/// Since Linux 6.2, x86's functions have padding (CONFIG_CALL_PADDING); system calls have several names.
#[test]
fn control_enters_a_padded_function_at_the_start_of_a_part() {
    let text = "ffffffff81064d80 t __pfx___do_sys_getppid\n\
                ffffffff81064d80 T __pfx___x64_sys_getppid\n\
                ffffffff81064d90 t __do_sys_getppid\n\
                ffffffff81064d90 T __x64_sys_getppid\n\
                ffffffff81064e00 t __pfx_other\n\
                ffffffff81064e10 t other\n\
                ffffffff81064e40 T plain\n\
                ffffffff81064e80 T _etext\n";
    let kernel = KernelSymbols::parse(text).unwrap();
    assert_eq!(
        kernel.parts,
        [
            own(0x64d80, 0x64d90, "__x64_sys_getppid"),
            own(0x64d90, 0x64e00, "__x64_sys_getppid"),
            own(0x64e00, 0x64e10, "other"),
            own(0x64e10, 0x64e40, "other"),
            own(0x64e40, 0x64e80, "plain"),
        ]
    );
    // For names alone, each function is one range.
    assert_eq!(functions(text).unwrap().len(), 3);
}

#[test]
fn the_order_of_the_lines_does_not_matter() {
    let mut lines: Vec<&str> = KALLSYMS.lines().collect();
    lines.reverse();
    assert_eq!(KernelSymbols::parse(&lines.join("\n")), KernelSymbols::parse(KALLSYMS));
}

#[test]
fn the_last_symbol_of_the_address_space_is_bounded() {
    let kernel = KernelSymbols::parse("fffffffffffff800 T last\n").unwrap();
    assert_eq!(kernel.parts, [part(0xffff_ffff_ffff_f800, u64::MAX, "last", KERNEL)]);
}

#[test]
fn hidden_addresses_are_an_error_that_says_what_to_do() {
    let hidden = "0000000000000000 T _text\n0000000000000000 t f\t[module]\n";
    let error = KernelSymbols::parse(hidden).unwrap_err();
    assert_eq!(error, KernelSymbolsError::Hidden { symbols: 2 });
    assert!(error.to_string().contains("kptr_restrict"));
}

#[test]
fn what_is_no_list_of_symbols_is_an_error() {
    for (text, line) in [
        ("ffffffff81000000 T a\nhello\n", 2),
        ("ffffffff81000000 T\n", 1),
        ("ffffffff81000000 TT a\n", 1),
        ("ffffffff8100000g T a\n", 1),
        ("ffffffff81000000 T a b\n", 1),
        ("ffffffff81000000 T a [m] b\n", 1),
        ("ffffffff81000000 7 a\n", 1),
    ] {
        let error = KernelSymbols::parse(text).unwrap_err();
        assert!(matches!(error, KernelSymbolsError::Line { line: at, .. } if at == line), "{text}");
    }
    let empty = |text| KernelSymbols::parse(text).unwrap_err();
    assert_eq!(empty(""), KernelSymbolsError::Empty { symbols: 0 });
    assert_eq!(empty("401000 T main\n"), KernelSymbolsError::Empty { symbols: 1 });
}

#[test]
fn a_kernel_of_6_1_has_these_landmarks() {
    use Landmark::*;
    let (calls, faults, interrupts) =
        (Some("system-calls"), Some("page-faults"), Some("interrupts"));
    // Entries of Debian's 6.1 in the order of its text, each with its landmark.
    let expected = [
        ("entry_SYSCALL_64", Some((SystemCall, calls))),
        ("entry_SYSCALL_64_safe_stack", None),
        ("entry_SYSCALL_64_after_hwframe", None),
        ("asm_exc_divide_error", Some((Fault, None))),
        ("asm_exc_overflow", Some((Trap, None))),
        ("asm_exc_bounds", Some((Fault, None))),
        ("asm_exc_device_not_available", Some((Fault, None))),
        ("asm_exc_coprocessor_error", Some((Fault, None))),
        ("asm_exc_simd_coprocessor_error", Some((Fault, None))),
        ("asm_exc_invalid_tss", Some((Fault, None))),
        ("asm_exc_segment_not_present", Some((Fault, None))),
        ("asm_exc_stack_segment", Some((Fault, None))),
        ("asm_exc_general_protection", Some((Fault, None))),
        ("asm_exc_alignment_check", Some((Fault, None))),
        ("asm_exc_invalid_op", Some((Fault, None))),
        ("asm_exc_int3", Some((Trap, None))),
        ("asm_exc_page_fault", Some((Fault, faults))),
        ("asm_int80_emulation", Some((SystemCall, calls))),
        ("asm_exc_nmi_noist", None),
        ("asm_exc_debug", Some((Trap, None))),
        ("asm_exc_control_protection", Some((Fault, None))),
        ("asm_exc_virtualization_exception", Some((Fault, None))),
        ("asm_exc_double_fault", Some((Fault, None))),
        ("asm_exc_xen_hypervisor_callback", None),
        ("xen_asm_exc_page_fault", None),
        ("asm_xenpv_exc_nmi", None),
        ("asm_common_interrupt", None),
        ("asm_spurious_interrupt", None),
        ("asm_sysvec_apic_timer_interrupt", Some((Interrupt, interrupts))),
        ("asm_sysvec_reschedule_ipi", Some((Interrupt, interrupts))),
        ("asm_sysvec_kvm_asyncpf_interrupt", Some((Interrupt, interrupts))),
        ("xen_asm_sysvec_xen_hvm_callback", None),
        ("asm_exc_nmi", Some((Interrupt, interrupts))),
        ("entry_SYSENTER_compat", Some((SystemCall, calls))),
        ("entry_SYSCALL_compat", Some((SystemCall, calls))),
        ("entry_INT80_compat", Some((SystemCall, calls))),
        ("__switch_to_asm", Some((Switch, None))),
        ("ret_from_fork", Some((Fork, None))),
        // C functions that have the names of older kernels' entries.
        ("page_fault", None),
        ("spurious_interrupt", None),
        ("nmi", None),
    ];
    let names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    let marked: Vec<_> = expected
        .iter()
        .filter_map(|(name, what)| {
            let (landmark, metric) = (*what)?;
            Some((name.to_string(), landmark, metric.map(str::to_owned)))
        })
        .collect();
    assert_eq!(named(&names), marked);
}

#[test]
fn before_5_8_the_entries_have_no_prefix() {
    let found = named(&["page_fault", "debug", "nmi", "apic_timer_interrupt", "invalid_TSS"]);
    let interrupts = Some("interrupts".to_owned());
    assert_eq!(
        found,
        [
            ("page_fault".into(), Landmark::Fault, Some("page-faults".into())),
            ("debug".into(), Landmark::Trap, None),
            ("nmi".into(), Landmark::Interrupt, interrupts.clone()),
            ("apic_timer_interrupt".into(), Landmark::Interrupt, interrupts),
            ("invalid_TSS".into(), Landmark::Fault, None),
        ]
    );
}

#[test]
fn a_new_task_begins_in_assembler() {
    let found = named(&["ret_from_fork_asm", "ret_from_fork"]);
    assert_eq!(found, [("ret_from_fork_asm".into(), Landmark::Fork, None)]);
}

#[test]
fn local_symbols_and_those_of_modules_are_no_landmarks() {
    let kallsyms = "ffffffff81000000 t __switch_to_asm\nffffffff81000010 T page_fault [m]\n\
                    ffffffff81000020 t schedule [m]\nffffffff81000030 d schedule\n";
    assert_eq!(landmarks(kallsyms), []);
    let missing = KernelSymbols::parse(kallsyms).unwrap().missing();
    let all = Landmark::NAMES.iter().map(|(landmark, _)| *landmark);
    let optional = [Landmark::Resume, Landmark::Count];
    assert_eq!(missing, all.filter(|one| !optional.contains(one)).collect::<Vec<_>>());
}

#[test]
fn an_arm64_kernel_is_entered_at_its_vectors() {
    use Landmark::*;
    // Lines of Debian's cloud kernel 6.1.0-56 for arm64.
    let kallsyms = "ffff800008010800 T vectors\nffff800008011000 t __bad_stack\n\
                    ffff800008012800 T __bp_harden_el1_vectors\nffff800008016640 T cpu_switch_to\n\
                    ffff8000080166bc T ret_from_fork\nffff80000801ddb4 T __arm64_sys_rt_sigreturn\n\
                    ffff800008028374 T do_el0_svc\nffff8000080385a0 T do_mem_abort\n\
                    ffff8000080ad7d0 T signal_setup_done\nffff8000080d9d90 T resched_curr\n\
                    ffff8000083ab7d0 T finalize_exec\nffff800008bb5280 t __schedule\n\
                    ffff800008bb5ba0 T schedule\n";
    let kernel = KernelSymbols::parse(kallsyms).unwrap();
    assert_eq!(kernel.missing(), []);
    let at = |address| {
        let found = kernel.landmarks.iter().find(|at| at.address == address);
        found.map(|at| (at.landmark, at.metric.clone()))
    };
    let some = |name: &str| Some(name.to_owned());
    for (address, landmark, metric) in [
        (0xffff_8000_0801_6640, Switch, None),
        (0xffff_8000_0801_66bc, Fork, None),
        (0xffff_8000_0801_ddb4, SignalReturn, None),
        (0xffff_8000_0802_8374, Count, some("system-calls")),
        (0xffff_8000_0803_85a0, Count, some("page-faults")),
        (0xffff_8000_083a_b7d0, Exec, None),
    ] {
        assert_eq!(at(address), Some((landmark, metric)));
    }
    for table in [0xffff_8000_0801_0800, 0xffff_8000_0801_2800, 0xffff_8000_0801_3800_u64] {
        assert_eq!(at(table + 0x400), Some((Fault, None)), "a program's exception");
        assert_eq!(at(table + 0x280), Some((Interrupt, some("interrupts"))), "the kernel's");
        assert_eq!(at(table + 0x780), Some((Interrupt, None)), "an error of the system");
    }
    assert_eq!(at(0xffff_8000_0801_1000), None);
}

#[test]
fn each_stub_of_an_interrupt_vector_is_a_landmark() {
    // Vectors 0x20 to 0xeb and 0xec to 0xff, 8 bytes each; then 16 bytes each, with endbr64.
    for (stub, first, second) in [(8, 204, 20), (16, 204, 20), (8, 224, 0)] {
        let base = 0xffff_ffff_8100_0300_u64;
        let spurious = base + stub * first;
        let after = spurious + stub * second;
        let mut kallsyms = format!(
            "{base:x} T __irqentry_text_start\n{base:x} T irq_entries_start\n\
             {after:x} T asm_common_interrupt\n"
        );
        if second > 0 {
            kallsyms += &format!("{spurious:x} T spurious_entries_start\n");
        }
        let expected: Vec<_> = (0..first + second)
            .map(|vector| (base + vector * stub, Landmark::Interrupt, Some("interrupts".into())))
            .collect();
        assert_eq!(landmarks(&kallsyms), expected);
    }
}

#[test]
fn this_kernels_own_symbols_are_read() {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let kernel = match KernelSymbols::parse(&kallsyms) {
        Ok(kernel) => kernel,
        Err(error) => {
            crate::skip::skip!("{error}");
            return;
        }
    };
    assert!(kernel.parts.iter().all(|part| part.start < part.end));
    assert!(kernel.parts.windows(2).all(|pair| pair[0].end <= pair[1].start));
    if cfg!(target_arch = "x86_64") {
        assert_eq!(kernel.missing(), []);
    }
}

#[test]
fn where_user_code_goes_on_elsewhere_is_a_landmark() {
    let found = named(&["signal_setup_done", "__x64_sys_rt_sigreturn", "start_thread"]);
    let expected = [
        ("signal_setup_done".into(), Landmark::Signal, None),
        ("__x64_sys_rt_sigreturn".into(), Landmark::SignalReturn, None),
        ("start_thread".into(), Landmark::Exec, None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_copy_of_a_function_is_a_landmark_and_no_part_of_one() {
    let kallsyms = "\
ffffffff81000000 t __schedule
ffffffff81000010 t __schedule.cold
ffffffff81000020 t signal_setup_done
ffffffff81000030 t signal_setup_done
ffffffff81000040 t start_thread.llvm.1234
ffffffff81000050 t resched_curr.constprop.0.isra.1
ffffffff81000060 t resched_curr.part.0
ffffffff81000070 t schedule_timeout
ffffffff81000080 T schedule
ffffffff81000090 t __pfx_schedule
";
    let at = |address: u64| 0xffff_ffff_8100_0000 + address;
    let expected = [
        (0, Landmark::Schedule),
        (0x20, Landmark::Signal),
        (0x30, Landmark::Signal),
        (0x40, Landmark::Exec),
        (0x50, Landmark::Due),
        (0x80, Landmark::Yield),
    ];
    let expected = expected.map(|(address, landmark)| (at(address), landmark, None));
    assert_eq!(landmarks(kallsyms), expected);
    // Only one of two functions that follow each other in every delivery of a signal.
    let both = "ffffffff81000000 T signal_setup_done\nffffffff81000010 t signal_delivered.llvm.5\n";
    assert_eq!(landmarks(both), [(at(0x10), Landmark::Signal, None)]);
}

#[test]
fn labels_of_entries_are_parts_of_their_function() {
    let kallsyms = "\
ffffffff81000000 T entry_SYSCALL_64
ffffffff81000029 T entry_SYSCALL_64_safe_stack
ffffffff81000038 T entry_SYSCALL_64_after_hwframe
ffffffff81000110 t syscall_return_via_sysret
ffffffff81000200 T other
ffffffff81000210 t syscall_return_via_sysret
ffffffff81000220 T end
ffffffff81000230 t entry_SYSCALL_64\t[module]
ffffffff81000240 t syscall_return_via_sysret\t[module]
";
    let parts = KernelSymbols::parse(kallsyms).unwrap().parts;
    assert_eq!(
        parts[..4],
        [
            own(0, 0x200, "entry_SYSCALL_64"),
            own(0x200, 0x210, "other"),
            own(0x210, 0x220, "syscall_return_via_sysret"),
            own(0x220, 0x230, "end"),
        ]
    );
    assert_eq!(parts.len(), 6, "a module's functions are its own");
}

#[test]
fn a_list_of_a_32_bit_kernel_is_in_the_upper_half() {
    let list =
        "00000000 A fixed_percpu\nc1000000 T _text\nc1000010 t vfs_read\nc1000020 T _etext\n";
    let parts = KernelSymbols::parse(list).unwrap().parts;
    let found: Vec<_> =
        parts.iter().map(|part| (part.start, part.function.symbol.as_str())).collect();
    assert_eq!(found, [(0xffff_ffff_c100_0010, "vfs_read")]);
}
