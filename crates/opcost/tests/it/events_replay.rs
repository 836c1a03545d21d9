//! Counters against transcripts of machines that are not here: each file names the source of its figures.

use crate::transcript::{ReplayError, ReplayPerf};
use opcost_model::plan::EventPlan;
use opcost_record::{CountingTime, Domain, MetricKey, Reading, TWIN, WORK};
use opcost_source::source::Source;
use opcost_source::source::perf_event::{Counters, attr, syntax};
use opcost_sys::perf::{OpenContext, explain};
use std::fs;
use std::path::Path;
use std::rc::Rc;

macro_rules! transcript {
    ($name:literal) => {
        include_str!(concat!("../transcripts/", $name, ".txt"))
    };
}

/// Generic events, which need no sysfs.
fn events(text: &str) -> Vec<EventPlan> {
    syntax::parse(&[text], Path::new("/nonexistent")).unwrap()
}

/// An event that this test names by its code.
fn coded(name: &str, kind: u32, config: u64, group: Option<u32>) -> EventPlan {
    EventPlan {
        key: MetricKey::new(name, Domain::All, "perf_event"),
        kind,
        config,
        config1: 0,
        config2: 0,
        pinned: false,
        group,
    }
}

fn replay(transcript: &str) -> Rc<ReplayPerf> {
    Rc::new(ReplayPerf::new(transcript.parse().unwrap()))
}

/// Ends a replay whose counters were dropped: every call of the transcript must have been made.
fn finish(kernel: Rc<ReplayPerf>) {
    Rc::into_inner(kernel).unwrap().finish().unwrap();
}

/// Counts a command from exec to exit, as the host does.
fn command(transcript: &str, events: Vec<EventPlan>) -> anyhow::Result<Vec<Reading>> {
    let kernel = replay(transcript);
    let mut counters = Counters::new(kernel.clone(), events, true);
    let mut count = || {
        let mut readings = Vec::new();
        counters.attach(4321)?;
        counters.start()?;
        counters.stop()?;
        counters.read(WORK, None, &mut readings)?;
        Ok(readings)
    };
    let counted = count();
    drop(counters);
    finish(kernel);
    counted
}

/// Counts regions one after the other, as a workload process does.
fn regions(
    transcript: &str,
    events: Vec<EventPlan>,
    regions: &[&str],
) -> anyhow::Result<Vec<Reading>> {
    let kernel = replay(transcript);
    let mut counters = Counters::new(kernel.clone(), events, false);
    let mut count = || {
        let mut readings = Vec::new();
        counters.attach(0)?;
        for region in regions {
            counters.start()?;
            counters.stop()?;
            counters.read(region, None, &mut readings)?;
        }
        Ok(readings)
    };
    let counted = count();
    drop(counters);
    finish(kernel);
    counted
}

/// Region, label, value, enabled, running.
type Row<'a> = (&'a str, &'a str, u64, u64, u64);

#[track_caller]
fn assert_readings(readings: &[Reading], expected: &[Row<'_>]) {
    let expected: Vec<Reading> = expected
        .iter()
        .map(|(region, label, value, enabled_ns, running_ns)| {
            let (name, domain) = match label.strip_suffix(":u") {
                Some(name) => (name, Domain::User),
                None => (*label, Domain::All),
            };
            Reading {
                key: MetricKey {
                    region: region.to_string(),
                    ..MetricKey::new(name, domain, "perf_event")
                },
                value: *value,
                time: Some(CountingTime { enabled_ns: *enabled_ns, running_ns: *running_ns }),
            }
        })
        .collect();
    assert_eq!(readings, expected);
}

/// Labels of the readings that are not full counts.
fn multiplexed(readings: &[Reading]) -> Vec<String> {
    let partial = readings.iter().filter(|reading| reading.time.unwrap().multiplexed());
    partial.map(|reading| format!("{} {}", reading.key.region, reading.key.label())).collect()
}

#[test]
fn a_command_on_intel_is_counted_in_full() {
    let asked = "branch-misses,bus-cycles,cache-references,cpu-cycles,instructions";
    let readings = command(transcript!("command-intel"), events(asked)).unwrap();
    let time = 826_226;
    assert_readings(
        &readings,
        &[
            (WORK, "branch-misses", 6571, time, time),
            (WORK, "bus-cycles", 31_411, time, time),
            (WORK, "cache-references", 19_507, time, time),
            (WORK, "cycles", 1_127_215, time, time),
            (WORK, "instructions", 1_301_583, time, time),
        ],
    );
}

#[test]
fn an_event_that_sysfs_names_is_opened_by_its_code() {
    let sysfs = tempfile::tempdir().unwrap();
    let cpu = sysfs.path().join("bus/event_source/devices/cpu");
    for (file, text) in
        [("type", "4"), ("format/event", "config:0-7"), ("events/cpu-cycles", "event=0x3c")]
    {
        let path = cpu.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let events = syntax::parse(&["cpu/cpu-cycles/"], sysfs.path()).unwrap();
    let readings = command(transcript!("command-intel-sysfs"), events).unwrap();
    assert_readings(&readings, &[(WORK, "cpu/cpu-cycles/", 1_421_235, 531_150, 531_150)]);
}

#[test]
fn a_multiplexed_count_is_kept_raw_and_flagged() {
    let asked = "task-clock,cs,migrations,faults,cycles,stalled-cycles-frontend,\
                 stalled-cycles-backend";
    let readings = command(transcript!("command-amd-multiplexed"), events(asked)).unwrap();
    let time = 1_397_967;
    assert_readings(
        &readings,
        &[
            (WORK, "task-clock", 1_397_967, time, time),
            (WORK, "context-switches", 1, time, time),
            // Nothing happened, and the counter was there to see it.
            (WORK, "cpu-migrations", 0, time, time),
            (WORK, "page-faults", 66, time, time),
            // perf scales this up to 1,419,380.
            (WORK, "cycles", 142_046, time, 139_903),
            (WORK, "stalled-cycles-frontend", 141_415, time, time),
            (WORK, "stalled-cycles-backend", 259_420, time, time),
        ],
    );
    assert_eq!(multiplexed(&readings), ["work cycles"]);
}

#[test]
fn a_counter_of_other_cores_gives_no_reading() {
    let other = command(transcript!("command-apple-other-cores"), events("cycles")).unwrap();
    assert_readings(&other, &[]);
    let own = command(transcript!("command-apple-own-cores"), events("cycles")).unwrap();
    assert_readings(&own, &[(WORK, "cycles", 1_034_653, 469_125, 469_125)]);

    let core = coded("cpu_core/branch-misses/", 4, 0xc5, None);
    let atom = coded("cpu_atom/branch-misses/", 10, 0xc5, None);
    let hybrid = command(transcript!("command-intel-hybrid"), vec![core, atom]).unwrap();
    assert_readings(&hybrid, &[(WORK, "cpu_core/branch-misses/", 6326, 293_786, 293_786)]);
}

#[test]
fn regions_are_differences_of_counts_and_times() {
    let transcript = transcript!("region-armv7-multiplexed");
    let readings = regions(transcript, events("instructions"), &[TWIN, WORK]).unwrap();
    assert_readings(
        &readings,
        &[
            (TWIN, "instructions", 300_230_347, 215_373_520, 215_373_520),
            (WORK, "instructions", 252_571_688, 215_894_000, 181_627_670),
        ],
    );
    assert_eq!(multiplexed(&readings), ["work instructions"]);
}

#[test]
fn a_group_is_switched_by_its_leader() {
    let asked = events("{cycles,instructions,branches,branch-misses},task-clock");
    let readings = regions(transcript!("region-mmap-2009"), asked, &[TWIN, WORK]).unwrap();
    let time = 1_311_554_526;
    assert_readings(
        &readings,
        &[
            (TWIN, "cycles", 0, 90, 90),
            (TWIN, "instructions", 0, 90, 90),
            (TWIN, "branches", 0, 90, 90),
            (TWIN, "branch-misses", 0, 90, 90),
            (TWIN, "task-clock", 90, 90, 90),
            (WORK, "cycles", 3_781_392_474, time, time),
            (WORK, "instructions", 1_957_153_827, time, time),
            (WORK, "branches", 437_983_499, time, time),
            (WORK, "branch-misses", 32_486_067, time, time),
            (WORK, "task-clock", time, time, time),
        ],
    );
}

#[test]
fn a_group_that_never_gets_a_place_gives_no_reading() {
    let asked = "{L1-dcache-loads:u,L1-dcache-load-misses:u,branches:u,branch-misses:u,cycles:u}";
    let transcript = transcript!("region-group-without-place");
    assert_readings(&regions(transcript, events(asked), &[WORK]).unwrap(), &[]);
}

#[test]
fn a_pinned_counter_without_a_place_gives_no_reading() {
    let asked = events("{cycles,instructions}:uD,page-faults");
    let transcript = transcript!("region-pinned-without-place");
    let readings = regions(transcript, asked, &[TWIN, WORK]).unwrap();
    assert_readings(
        &readings,
        &[
            (TWIN, "page-faults", 2, 900, 900),
            (WORK, "instructions:u", 5200, 1000, 1000),
            (WORK, "page-faults", 3, 1100, 1100),
        ],
    );
}

#[test]
fn counts_keep_their_whole_range() {
    let asked = events("cycles,instructions,cache-misses,branch-misses");
    let readings = regions(transcript!("region-ranges"), asked, &[WORK]).unwrap();
    assert_readings(
        &readings,
        &[
            (WORK, "cycles", i64::MAX as u64, 18_446_744_073, 18_446_744_072),
            (WORK, "instructions", 16, 1000, 1000),
            (WORK, "cache-misses", 100, 1000, 1000),
            (WORK, "branch-misses", 0, 1000, 1000),
        ],
    );
    // The counter missed a single nanosecond.
    assert_eq!(multiplexed(&readings), ["work cycles"]);
}

#[test]
fn a_count_that_runs_backwards_is_an_error() {
    let error = regions(transcript!("region-backwards"), events("cycles"), &[WORK]).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.starts_with("counter cycles ran backwards, from "), "{text}");
    assert!(text.ends_with("leave this event out"), "{text}");
}

#[test]
fn a_member_that_does_not_fit_is_named_and_the_others_are_closed() {
    let group = |name, config| coded(name, 4, config, Some(0));
    let asked = vec![
        group("cpu_core/slots/", 0x400),
        group("cpu_core/topdown-fe-bound/", 0x8200),
        group("cpu_core/event=0,umask=0x82/", 0x8200),
    ];
    let error = command(transcript!("command-intel-group-refused"), asked).unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "cannot open counter cpu_core/event=0,umask=0x82/: the kernel rejects raw event 0x8200: its \
         code or a modifier is invalid, or its group does not fit the hardware; check the code, drop \
         modifiers, or count fewer events in one group"
    );
}

#[test]
fn every_refusal_names_the_event_with_reason_and_remedy() {
    let kernel = replay(transcript!("region-refusals"));
    let context = OpenContext::detect(Path::new("/proc"), Path::new("/sys"));
    // `says`: one of these texts must occur, as a machine without a PMU has a reason of its own.
    let refused = |event: EventPlan, errno: i32, says: &[&str]| {
        let label = event.key.label();
        let refusal = explain(errno, &attr(&event, false, true), &context);
        let mut counters = Counters::new(kernel.clone(), vec![event], false);
        let error = format!("{:#}", counters.attach(0).unwrap_err());
        assert_eq!(
            error,
            format!("cannot open counter {label}: {}; {}", refusal.reason, refusal.remedy)
        );
        assert!(says.iter().any(|part| error.contains(part)), "{error}");
        // Nothing was opened, so nothing is read.
        let mut readings = Vec::new();
        counters.read(WORK, None, &mut readings).unwrap();
        assert!(readings.is_empty());
    };
    let one = |text: &str| events(text).remove(0);
    refused(
        one("cycles"),
        libc::ENOENT,
        &["no hardware counters here", "PMU does not count 'cycles'"],
    );
    refused(one("cycles"), libc::EACCES, &["forbids 'cycles'", "perf_event_paranoid"]);
    let mut allowed = Counters::new(kernel.clone(), events("cycles:u"), false);
    allowed.attach(0).unwrap();
    drop(allowed);
    let apple = coded("apple_icestorm_pmu/cycles/", 0, 0xb_0000_0000, None);
    refused(apple, libc::EOPNOTSUPP, &["no hardware counters here", "the PMU cannot count"]);
    refused(one("page-faults"), libc::EPERM, &["forbids 'page-faults'", "perf_event_paranoid"]);
    refused(one("page-faults"), libc::ENOSYS, &["perf_event_open is not there"]);
    let frontend = "cpu/event=0xc6,umask=0x1,frontend=0x13/";
    let frontend = EventPlan { config1: 0x13, ..coded(frontend, 4, 0x1c6, None) };
    refused(
        frontend,
        libc::ENXIO,
        &["no hardware counters here", "PMU does not count raw event 0x1c6"],
    );
    refused(one("instructions"), libc::EINVAL, &["the kernel rejects 'instructions'"]);
    finish(kernel);
}

#[test]
fn every_code_and_domain_reaches_the_kernel() {
    let transcript = "opcost-perf 1\n\
        open kind=4 config=1 config1=2 config2=3 inherit disabled pid=self -> 1\n\
        close 1 -> ok\n\
        open kind=0 config=1 exclude=uh inherit disabled pid=self -> 2\n\
        close 2 -> ok\n\
        open kind=0 config=1 exclude=kh inherit disabled pid=self -> 3\n\
        close 3 -> ok\n";
    let kernel = replay(transcript);
    let raw = EventPlan { config1: 2, config2: 3, ..coded("cpu/any/", 4, 1, None) };
    let [inside, outside] = ["instructions:k", "instructions:u"].map(|text| events(text).remove(0));
    for event in [raw, inside, outside] {
        Counters::new(kernel.clone(), vec![event], false).attach(0).unwrap();
    }
    finish(kernel);
}

#[test]
fn a_read_or_switch_that_fails_names_the_event() {
    let open = "open kind=0 config=0 inherit disabled pid=self -> 1\n";
    let fails = |rest: &str| {
        let transcript = format!("opcost-perf 1\n{open}{rest}close 1 -> ok\n");
        format!("{:#}", regions(&transcript, events("cycles"), &[WORK]).unwrap_err())
    };
    let read = "read 1 -> value=0 enabled=0 running=0\n";
    let error = fails("read 1 -> EIO\n");
    assert!(error.starts_with("cannot read counter cycles: "), "{error}");
    let error = fails(&format!("{read}enable 1 -> EINVAL\n"));
    assert!(error.starts_with("cannot switch counter cycles: "), "{error}");
    let error = fails(&format!("{read}enable 1 -> ok\ndisable 1 -> EINVAL\n"));
    assert!(error.starts_with("cannot switch counter cycles: "), "{error}");
}

#[test]
fn attaching_again_closes_what_was_open() {
    let transcript = "opcost-perf 1\n\
        open kind=1 config=2 inherit enable_on_exec disabled pid=child -> 1\n\
        close 1 -> ok\n\
        open kind=1 config=2 inherit enable_on_exec disabled pid=child -> 2\n\
        close 2 -> ok\n";
    let kernel = replay(transcript);
    let mut counters = Counters::new(kernel.clone(), events("page-faults"), true);
    counters.attach(7).unwrap();
    counters.attach(8).unwrap();
    drop(counters);
    finish(kernel);
}

#[test]
fn a_transcript_that_differs_is_told_apart_from_a_kernel_that_refuses() {
    let kernel = replay("opcost-perf 1\nopen kind=0 config=1 inherit disabled -> ENOENT\n");
    let mut counters = Counters::new(kernel, events("cycles"), false);
    let error = counters.attach(0).unwrap_err();
    assert!(
        format!("{error:#}").starts_with("cannot open counter cycles: line 2 of the transcript")
    );
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>()).unwrap();
    assert!(matches!(ReplayError::of(io), Some(ReplayError::Differs { line: 2, .. })));
}
