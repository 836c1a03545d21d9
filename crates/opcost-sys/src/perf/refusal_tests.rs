use super::*;

const BARE_METAL: OpenContext = OpenContext {
    perf_event_paranoid: Some(2),
    privileged: false,
    has_cpu_pmu: true,
    in_vm: false,
};

fn event(kind: u32, config: u64) -> EventAttr {
    EventAttr { kind, config, ..EventAttr::default() }
}

fn reason(errno: i32, attr: EventAttr, context: OpenContext) -> String {
    explain(errno, &attr, &context).reason
}

#[test]
fn without_a_pmu_hardware_events_say_so() {
    let vm = OpenContext { has_cpu_pmu: false, in_vm: true, ..BARE_METAL };
    for kind in [KIND_HARDWARE, KIND_HW_CACHE, KIND_RAW] {
        for errno in [libc::ENOENT, libc::EOPNOTSUPP, libc::ENODEV, libc::ENXIO] {
            assert_eq!(
                reason(errno, event(kind, 1), vm),
                "no hardware counters here: this virtual machine was given no PMU"
            );
            assert_eq!(
                reason(errno, event(kind, 1), OpenContext { in_vm: false, ..vm }),
                "no hardware counters here: the kernel has no driver for this CPU's PMU"
            );
        }
    }
    assert_eq!(
        explain(libc::ENOENT, &event(0, 1), &vm).to_string(),
        "unavailable: no hardware counters here: this virtual machine was given no PMU; give it \
         one in the hypervisor (QEMU with KVM: -cpu host,pmu=on), or count software events"
    );
}

#[test]
fn an_unknown_event_is_named_after_its_kind() {
    let unknown = |kind, config| reason(libc::ENOENT, event(kind, config), BARE_METAL);
    assert_eq!(unknown(KIND_HARDWARE, 9), "this CPU's PMU does not count 'ref-cycles'");
    assert_eq!(unknown(KIND_HARDWARE, 99), "this CPU's PMU does not count hardware event 0x63");
    assert_eq!(unknown(KIND_HW_CACHE, 6), "this CPU's PMU does not count 'node-loads'");
    assert_eq!(unknown(KIND_RAW, 0x1c2), "this CPU's PMU does not count raw event 0x1c2");
    assert_eq!(unknown(KIND_SOFTWARE, 99), "this kernel does not know software event 99");
    assert_eq!(unknown(KIND_TRACEPOINT, 7), "this kernel has no tracepoint 7");
    assert_eq!(unknown(KIND_BREAKPOINT, 0), "this machine has no hardware breakpoints");
    assert_eq!(
        unknown(12, 1),
        "no PMU has the number 12, or it does not count event 0x1 of PMU 12"
    );
}

#[test]
fn every_paranoid_level_gives_the_level_needed() {
    let user_only = EventAttr { exclude_kernel: true, ..EventAttr::default() };
    let at = |attr: EventAttr, perf_event_paranoid| {
        let context = OpenContext { perf_event_paranoid, ..BARE_METAL };
        let eacces = explain(libc::EACCES, &attr, &context);
        if perf_event_paranoid.is_some() {
            assert_eq!(eacces, explain(libc::EPERM, &attr, &context));
        }
        (eacces.reason, eacces.remedy)
    };
    let has = |(reason, remedy): (String, String), why: &str, what: &str| {
        assert!(reason.contains(why), "{reason}");
        assert!(remedy.contains(what), "{remedy}");
    };
    for level in [3, 4] {
        let why = format!("perf_event_paranoid is {level}: this distribution lets");
        has(at(user_only, Some(level)), &why, "kernel.perf_event_paranoid=2");
        has(at(EventAttr::default(), Some(level)), &why, "kernel.perf_event_paranoid=1");
    }
    let kernel_at_2 = at(EventAttr::default(), Some(2));
    has(kernel_at_2, "counting the kernel needs 1 or lower", "user mode only (:u)");
    has(at(user_only, Some(2)), "another user's", "count your own processes");
    for level in [1, 0, -1] {
        has(at(EventAttr::default(), Some(level)), "another user's", "CAP_PERFMON");
        has(at(user_only, Some(level)), "another user's", "CAP_PERFMON");
    }
    has(at(user_only, None), "forbidden here (EACCES)", "allow perf_event_open");
    let privileged = OpenContext { privileged: true, ..BARE_METAL };
    let refusal = explain(libc::EPERM, &user_only, &privileged);
    has((refusal.reason, refusal.remedy), "seccomp filter", "seccomp profile");
}

#[test]
fn every_other_error_has_its_own_reason() {
    let expected = [
        (libc::EOPNOTSUPP, "the PMU cannot count 'cycles' in this way"),
        (libc::ENODEV, "this CPU lacks what 'cycles' needs"),
        (libc::EINVAL, "the kernel rejects 'cycles': its code or a modifier is invalid"),
        (libc::EBUSY, "another user has the PMU"),
        (libc::ENOSPC, "no counter or breakpoint register is left"),
        (libc::EMFILE, "this process has as many open files as it may"),
        (libc::ENFILE, "the system has as many open files as it may"),
        (libc::ENOSYS, "perf_event_open is not there"),
        (libc::E2BIG, "the kernel is too old for this event"),
        (libc::ESRCH, "the process to count had already ended"),
        (libc::ENOMEM, "the kernel had no memory"),
        (libc::EINTR, "perf_event_open failed for 'cycles': EINTR"),
        (524, "perf_event_open failed for 'cycles': error 524"),
    ];
    for (errno, start) in expected {
        let reason = reason(errno, EventAttr::default(), BARE_METAL);
        assert!(reason.starts_with(start), "{errno}: {reason}");
    }
    let pinned = EventAttr { pinned: true, ..EventAttr::default() };
    assert!(reason(libc::EINVAL, pinned, BARE_METAL).ends_with("without leading its group"));
    let config3 = EventAttr { config3: 1, ..EventAttr::default() };
    let remedy = explain(libc::E2BIG, &config3, &BARE_METAL).remedy;
    assert!(remedy.starts_with("config3 needs Linux 6.3"), "{remedy}");
    let emfile = explain(libc::EMFILE, &EventAttr::default(), &BARE_METAL);
    assert!(emfile.remedy.contains("ulimit -n"));
}

#[test]
fn every_error_in_every_context_is_one_line_with_a_remedy() {
    for errno in 1..=530 {
        for kind in 0..8 {
            for bits in 0..16 {
                let attr = EventAttr { exclude_kernel: bits & 8 != 0, ..event(kind, 3) };
                for level in [None, Some(-1), Some(0), Some(1), Some(2), Some(3), Some(4)] {
                    let context = OpenContext {
                        perf_event_paranoid: level,
                        privileged: bits & 1 != 0,
                        has_cpu_pmu: bits & 2 != 0,
                        in_vm: bits & 4 != 0,
                    };
                    let Refusal { reason, remedy } = explain(errno, &attr, &context);
                    for text in [&reason, &remedy] {
                        assert!(!text.is_empty() && !text.contains(['\n', '\t']), "{text}");
                        assert!(!text.contains("  "), "{text}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_context_is_read_from_proc_and_sys() {
    let (proc, sys) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let detect = || OpenContext::detect(proc.path(), sys.path());
    let nothing = OpenContext {
        perf_event_paranoid: None,
        privileged: false,
        has_cpu_pmu: false,
        in_vm: false,
    };
    assert_eq!(detect(), nothing);
    fs::create_dir(proc.path().join("self")).unwrap();
    let status = proc.path().join("self/status");
    // CAP_NET_ADMIN alone, then CAP_PERFMON, then CAP_SYS_ADMIN.
    for (mask, privileged) in [("1000", false), ("4000000000", true), ("200000", true)] {
        fs::write(&status, format!("Name:\tx\nCapEff:\t{mask:0>16}\n")).unwrap();
        assert_eq!(detect().privileged, privileged);
    }
    let cpuinfo = proc.path().join("cpuinfo");
    fs::write(&cpuinfo, "model name\t: hypervisor 9\nflags\t\t: fpu tsc\n").unwrap();
    assert!(!detect().in_vm);
    fs::write(&cpuinfo, "flags\t\t: fpu hypervisor tsc\n").unwrap();
    assert!(detect().in_vm);
}
