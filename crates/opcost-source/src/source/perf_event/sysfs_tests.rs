use super::super::fixture::Sysfs;
use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

fn code(kind: u32, config: u64) -> Code {
    Code { kind, config, ..Code::default() }
}

/// Resolves an event written `pmu/terms/`.
fn resolved(sysfs: &Sysfs, text: &str) -> Result<Code, String> {
    let (pmu, terms) = text.strip_suffix('/').unwrap().split_once('/').unwrap();
    resolve(sysfs.path(), text, pmu, terms).map_err(|error| error.to_string())
}

#[test]
fn terms_go_to_the_bits_that_format_files_name() {
    let sysfs = Sysfs::intel();
    for (text, config) in [
        ("cpu/event=0x3c/", 0x3c),
        ("cpu/event=60/", 0x3c),
        ("cpu/event=0xc2,umask=0x01/", 0x1c2),
        ("cpu/umask=0x01,event=0xc2/", 0x1c2),
        ("cpu/event=0xa3,umask=0x14,cmask=20/", 0x1400_14a3),
        ("cpu/event=0x79,umask=0x30,edge,cmask=1/", 0x0104_3079),
        ("cpu/event=0x0e,umask=0x1,inv=1,cmask=0xff/", 0xff80_010e),
        ("cpu/config=0x1234/", 0x1234),
        ("cpu/config=0x1234,umask=0xff/", 0xff34),
        ("cpu//", 0),
    ] {
        assert_eq!(resolved(&sysfs, text), Ok(code(4, config)), "{text}");
    }
    let both = Code { config1: 0xffff, ..code(4, 0x1cd) };
    assert_eq!(resolved(&sysfs, "cpu/event=0xcd,umask=0x1,ldlat=65535/"), Ok(both));
    let all = Code { kind: 4, config: 1, config1: 2, config2: u64::MAX };
    let text = "cpu/config=1,config1=2,config2=0xffffffffffffffff/";
    assert_eq!(resolved(&sysfs, text), Ok(all));
    let widest = Code { config1: u64::MAX, ..code(4, 0xb7) };
    let text = "cpu/event=0xb7,offcore_rsp=18446744073709551615/";
    assert_eq!(resolved(&sysfs, text), Ok(widest));
}

#[test]
fn split_ranges_are_filled_from_the_low_bits() {
    let sysfs = Sysfs::amd();
    assert_eq!(resolved(&sysfs, "cpu/event=0x1c2/"), Ok(code(4, 0x1_0000_00c2)));
    assert_eq!(resolved(&sysfs, "cpu/event=0xfff,umask=0xff/"), Ok(code(4, 0xf_0000_ffff)));
    assert_eq!(
        resolved(&sysfs, "cpu/event=0x1000/").unwrap_err(),
        "event 'cpu/event=0x1000/': 0x1000 does not fit term 'event' (bits 0-7,32-35 of config)"
    );
}

#[test]
fn values_too_large_for_their_field_are_refused() {
    let sysfs = Sysfs::intel();
    for (text, what) in [
        ("cpu/event=0x100/", "0x100 does not fit term 'event' (bits 0-7 of config)"),
        ("cpu/edge=2/", "0x2 does not fit term 'edge' (bits 18 of config)"),
        ("cpu/event=1,ldlat=65536/", "0x10000 does not fit term 'ldlat' (bits 0-15 of config1)"),
        (
            "cpu/offcore_rsp=0x10000000000000000/",
            "offcore_rsp='0x10000000000000000' is not a number of 64 bits",
        ),
        (
            "cpu/offcore_rsp=18446744073709551616/",
            "offcore_rsp='18446744073709551616' is not a number of 64 bits",
        ),
        ("cpu/event=/", "event='' is not a number of 64 bits"),
        ("cpu/event=0x/", "event='0x' is not a number of 64 bits"),
        ("cpu/event=+1/", "event='+1' is not a number of 64 bits"),
        ("cpu/event=0x+1/", "event='0x+1' is not a number of 64 bits"),
        ("cpu/event=-1/", "event='-1' is not a number of 64 bits"),
        ("cpu/event=cycles/", "event='cycles' is not a number of 64 bits"),
        ("cpu/event=1,,umask=1/", "a term is empty; separate terms by single commas"),
        ("cpu/event=1,period=100/", "'period' is for sampling; leave it out to count"),
    ] {
        assert_eq!(resolved(&sysfs, text).unwrap_err(), format!("event '{text}': {what}"));
    }
}

#[test]
fn events_stand_for_their_terms() {
    let sysfs = Sysfs::intel();
    let mem_loads = Code { config1: 3, ..code(4, 0x1cd) };
    assert_eq!(resolved(&sysfs, "cpu/mem-loads/"), Ok(mem_loads));
    let slower = Code { config1: 30, ..mem_loads };
    assert_eq!(resolved(&sysfs, "cpu/mem-loads,ldlat=30/"), Ok(slower));
    assert_eq!(resolved(&sysfs, "cpu/topdown-retiring/"), Ok(code(4, 0x8000)));
    assert_eq!(resolved(&sysfs, "msr/tsc/"), Ok(code(9, 0)));
    // sysfs has cpu-cycles and branch-instructions; perf on hybrid machines has cpu_core/cycles/.
    assert_eq!(resolved(&sysfs, "cpu/cycles/"), Ok(code(4, 0x3c)));
    assert_eq!(resolved(&sysfs, "cpu/branches/"), Ok(code(4, 0xc4)));
    assert_eq!(
        resolved(&sysfs, "cpu/mem-load/").unwrap_err(),
        "event 'cpu/mem-load/': no event or term 'mem-load' (did you mean mem-loads?)"
    );
    // An event takes no value, and a file that describes an event is no event.
    assert!(resolved(&sysfs, "cpu/mem-loads=1/").is_err());
    assert!(resolved(&sysfs, "cpu/topdown-total-slots.scale/").is_err());
}

#[test]
fn an_event_that_stands_for_events_does_not_go_round_in_circles() {
    let sysfs = Sysfs::without_pmu();
    sysfs.pmu("odd", "40", &[("events/loop", "loop"), ("events/two", "one"), ("events/one", "")]);
    for text in ["odd/loop/", "odd/two/", "odd/one/"] {
        assert!(resolved(&sysfs, text).is_err(), "{text}");
    }
}

#[test]
fn formats_that_are_not_understood_are_said() {
    let sysfs = Sysfs::without_pmu();
    let formats = ["config3:0-7", "config", "config:7-0", "config:0-64", "config:a-b", "config:"];
    for format in formats {
        sysfs.pmu("odd", "40", &[("format/event", format)]);
        assert_eq!(
            resolved(&sysfs, "odd/event=1/").unwrap_err(),
            format!(
                "event 'odd/event=1/': the kernel describes term 'event' as '{format}', which is unknown here"
            )
        );
    }
}

#[test]
fn pmus_of_sockets_are_refused_with_the_reason() {
    let sysfs = Sysfs::intel();
    assert_eq!(
        resolved(&sysfs, "uncore_imc_0/cas_count_read/").unwrap_err(),
        "event 'uncore_imc_0/cas_count_read/': PMU 'uncore_imc_0' counts for all processes together \
         (read on CPUs 0), never for one; choose an event of a core PMU"
    );
    assert!(resolved(&sysfs, "power/energy-pkg/").unwrap_err().contains("(read on CPUs 0,16)"));
}

#[test]
fn an_unknown_pmu_names_those_there_are() {
    assert_eq!(
        resolved(&Sysfs::without_pmu(), "cpu/event=0x3c/").unwrap_err(),
        "event 'cpu/event=0x3c/': no PMU 'cpu' here; there are: breakpoint, msr, software, \
         tracepoint; none of them counts for the CPU's cores (opcost doctor says why)"
    );
    assert!(
        resolved(&Sysfs::hybrid(), "cpu_cor/x/").unwrap_err().contains("did you mean cpu_core?")
    );
    // Names that would lead outside the folder of PMUs.
    for text in ["/type/", "./type/", "../type/"] {
        assert!(resolved(&Sysfs::intel(), text).unwrap_err().contains("no PMU"), "{text}");
    }
    let nowhere = tempfile::tempdir().unwrap();
    let error = resolve(nowhere.path(), "cpu//", "cpu", "").unwrap_err().to_string();
    assert!(error.contains("there are: none, or sysfs is hidden"), "{error}");
}

#[test]
fn bare_names_are_looked_up_in_core_pmus_only() {
    let bare = |sysfs: &Sysfs, name| core_event(sysfs.path(), name);
    let mem_loads = Code { config1: 3, ..code(4, 0x1cd) };
    assert_eq!(bare(&Sysfs::intel(), "mem-loads"), Ok(Some(mem_loads)));
    assert_eq!(bare(&Sysfs::arm(), "l2d_cache"), Ok(Some(code(8, 0x16))));
    assert_eq!(bare(&Sysfs::without_pmu(), "mem-loads"), Ok(None));
    for other in ["tsc", "cas_count_read", "topdown-total-slots.scale", "..", "", "a/b"] {
        assert_eq!(bare(&Sysfs::intel(), other), Ok(None), "{other}");
    }
    let hybrid = Sysfs::hybrid();
    assert_eq!(bare(&hybrid, "slots"), Ok(Some(code(4, 0x400))));
    assert_eq!(
        bare(&hybrid, "topdown-retiring").unwrap_err().to_string(),
        "event 'topdown-retiring': each kind of core counts it for itself; choose \
         cpu_atom/topdown-retiring/ or cpu_core/topdown-retiring/ and keep the runs on its CPUs \
         with --cpu"
    );
    assert_eq!(resolved(&hybrid, "cpu_atom/cycles/"), Ok(code(10, 0x3c)));
    assert_eq!(resolved(&hybrid, "cpu_core/cycles/"), Ok(code(4, 0x3c)));
}

#[test]
fn listings_leave_out_what_only_describes_events() {
    let all = all_events(Sysfs::intel().path());
    assert!(all.contains(&"cpu/topdown-total-slots/".to_string()), "{all:?}");
    assert!(all.contains(&"uncore_imc_0/cas_count_read/".to_string()));
    let names = core_events(Sysfs::intel().path());
    assert!(names.contains(&"mem-loads".to_string()) && !names.contains(&"tsc".to_string()));
    for name in all.iter().chain(&names) {
        assert!(!name.contains(".scale") && !name.contains(".unit"), "{name}");
    }
    assert_eq!(all_events(Sysfs::without_pmu().path()), ["msr/tsc/"]);
}

#[test]
fn tracepoints_are_found_in_both_places() {
    for old_place in [false, true] {
        let sysfs = Sysfs::without_pmu().with_tracepoints(old_place);
        let find = |system, event| tracepoint(sysfs.path(), "text", system, event);
        assert_eq!(find("syscalls", "sys_enter_getpid"), Ok(code(2, 309)));
        assert_eq!(find("sched", "sched_switch"), Ok(code(2, 316)));
        let error = |system, event| find(system, event).unwrap_err().to_string();
        assert_eq!(
            error("syscalls", "sys_enter_getpit"),
            "event 'text': 'syscalls' has no tracepoint 'sys_enter_getpit' (did you mean \
             sys_enter_getpid?)"
        );
        assert_eq!(
            error("syscall", "sys_enter_getpid"),
            "event 'text': 'syscall' is neither an event nor has tracepoints (did you mean \
             syscalls?)"
        );
        for (system, event) in [("..", "sched"), ("sched", ".."), ("", "x"), ("x", "")] {
            assert_eq!(
                error(system, event),
                "event 'text': neither an event nor a tracepoint (system:event)"
            );
        }
    }
    let patterns = tracepoint(Sysfs::without_pmu().path(), "syscalls:*", "syscalls", "*");
    assert_eq!(
        patterns.unwrap_err().to_string(),
        "event 'syscalls:*': patterns are not expanded; name one tracepoint"
    );
}

#[test]
fn tracefs_that_is_not_there_or_not_readable_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let sysfs = Sysfs::without_pmu();
    let find = |sysfs: &Sysfs| tracepoint(sysfs.path(), "a:b", "sched", "sched_switch");
    let error = find(&sysfs).unwrap_err().to_string();
    assert!(error.contains("not mounted; mount -t tracefs"), "{error}");

    let sysfs = sysfs.with_tracepoints(false);
    let root = sysfs.path().join("kernel/tracing");
    let allow = |mode| std::fs::set_permissions(&root, PermissionsExt::from_mode(mode)).unwrap();
    allow(0o000);
    if std::fs::read_dir(&root).is_ok() {
        crate::skip::skip!("this user may read everything, tracefs too");
    } else {
        let error = find(&sysfs).unwrap_err().to_string();
        assert!(error.contains("may not read; run as root"), "{error}");
    }
    allow(0o700);
}

#[test]
fn a_field_holds_what_was_put_in_and_nothing_else_changes() {
    let sysfs = Sysfs::without_pmu();
    // Ranges of bits in ascending order without overlap.
    let ranges = prop::collection::btree_set(0..64u32, 2..9).prop_map(|cuts| {
        let cuts: Vec<u32> = cuts.into_iter().collect();
        cuts.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>()
    });
    let check = |(ranges, value, before): (Vec<(u32, u32)>, u64, u64)| {
        let format: Vec<String> =
            ranges.iter().map(|(low, high)| format!("{low}-{high}")).collect();
        sysfs.pmu("odd", "40", &[("format/field", &format!("config:{}", format.join(",")))]);
        let bits: u32 = ranges.iter().map(|(low, high)| high - low + 1).sum();
        let fits = bits == 64 || value >> bits == 0;
        let text = format!("odd/config={before:#x},field={value:#x}/");
        let Ok(found) = resolved(&sysfs, &text) else {
            prop_assert!(!fits, "{} in {:?}", value, ranges);
            return Ok(());
        };
        prop_assert!(fits);
        // Read the value back bit by bit.
        let (mut place, mut read, mut mask) = (0, 0, 0);
        for bit in ranges.iter().flat_map(|(low, high)| *low..=*high) {
            read |= (found.config >> bit & 1) << place;
            mask |= 1 << bit;
            place += 1;
        }
        prop_assert_eq!(read, value);
        prop_assert_eq!(found.config & !mask, before & !mask);
        Ok(())
    };
    let value = prop_oneof![any::<u64>(), 0..1u64 << 12];
    TestRunner::default().run(&(ranges, value, any::<u64>()), check).unwrap();
}
