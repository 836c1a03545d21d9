//! Counters of the kernel that runs this test: software events everywhere, hardware events if
//! there is a PMU.

use crate::transcript::{RecordingPerf, ReplayPerf};
use opcost_model::plan::EventPlan;
use opcost_record::{Reading, TWIN, WORK};
use opcost_source::source::Source;
use opcost_source::source::perf_event::{Counters, attr, syntax};
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::{LivePerf, OpenContext, PerfKernel, explain, has_cpu_pmu};
use opcost_sys::spawn::{Spawn, Status};
use opcost_work::{Meter, PAGE_FAULTS_EXPECTED, WORKLOADS, measure};
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;

fn sys() -> &'static Path {
    Path::new("/sys")
}

fn events(text: &str) -> Vec<EventPlan> {
    syntax::parse(&[text], sys()).unwrap()
}

/// Whether this kernel lets this process count all of `events`; otherwise prints a skip message.
fn countable(events: &[EventPlan]) -> bool {
    let perf = LivePerf::new();
    events.iter().all(|event| {
        let attr = attr(event, false, true);
        let Err(error) = perf.open(&attr, 0, -1, None) else { return true };
        let errno = error.raw_os_error().unwrap();
        // Every kernel with perf events has the events used here; rights may be missing.
        assert!([libc::EACCES, libc::EPERM, libc::ENOSYS].contains(&errno), "{error}");
        let context = OpenContext::detect(Path::new("/proc"), sys());
        crate::skip::skip!("{}: {}", event.key, explain(errno, &attr, &context));
        false
    })
}

/// The source as a workload's meter.
struct SourceMeter<K: Source> {
    source: K,
    readings: Vec<Reading>,
}

impl<K: Source> Meter for SourceMeter<K> {
    fn start(&mut self, _: &'static str) {
        self.source.start().unwrap();
    }

    fn stop(&mut self, region: &'static str) {
        self.source.stop().unwrap();
        self.source.read(region, None, &mut self.readings).unwrap();
    }
}

fn value(readings: &[Reading], region: &str, label: &str) -> u64 {
    let mut found =
        readings.iter().filter(|found| found.key.region == region && found.key.label() == label);
    found.next().unwrap_or_else(|| panic!("no {label} in {region}: {readings:?}")).value
}

#[test]
fn a_workloads_page_faults_are_those_it_predicts() {
    let asked = events("page-faults:u,{task-clock,context-switches:u}");
    if !countable(&asked) {
        return;
    }
    let spec = WORKLOADS.iter().find(|spec| spec.name == "mmap").unwrap();
    let given = [("ops".to_string(), "20000".to_string()), ("touch".into(), "0.5".into())];
    let params = spec.resolve(&given).unwrap();
    let mut source = Counters::new(Rc::new(LivePerf::new()), asked, false);
    source.attach(0).unwrap();
    let mut meter = SourceMeter { source, readings: Vec::new() };
    let measured = measure(spec, &params, 1, &mut meter).unwrap();

    let mut invariants = measured.invariants.iter();
    let expected = invariants.find(|invariant| invariant.name == PAGE_FAULTS_EXPECTED).unwrap();
    let expected: u64 = expected.value.parse().unwrap();
    assert!(expected > 1000, "{expected}");
    let faults = value(&meter.readings, WORK, "page-faults:u");
    // Meanwhile, a page of code or stack may be touched for the first time.
    assert!((expected..expected + 64).contains(&faults), "{faults} of {expected}");
    assert!(value(&meter.readings, TWIN, "page-faults:u") < 64);
    assert!(value(&meter.readings, WORK, "task-clock") > 0);
    // Every event was read in both regions, each on the hardware all the time.
    assert_eq!(meter.readings.len(), 6, "{:?}", meter.readings);
    for reading in &meter.readings {
        let time = reading.time.unwrap();
        assert!(time.enabled_ns > 0 && !time.multiplexed(), "{reading:?}");
    }
}

#[test]
fn a_command_is_counted_from_exec_with_its_children() {
    let asked = events("{page-faults:u,task-clock}");
    if !countable(&asked) {
        return;
    }
    let count = |script: &str| {
        let held = Spawn::new("/bin/sh", ["sh".into(), "-c".into(), script.into()]).hold().unwrap();
        let mut source = Counters::new(Rc::new(LivePerf::new()), asked.clone(), true);
        source.attach(held.pid()).unwrap();
        source.start().unwrap();
        let exit = held.release().unwrap().wait(None, &Interrupt::none()).unwrap();
        assert_eq!(exit.status, Status::Code(0));
        source.stop().unwrap();
        let mut readings = Vec::new();
        source.read(WORK, Some(&exit), &mut readings).unwrap();
        let charged = exit.rusage.minor_faults + exit.rusage.major_faults;
        let faults = value(&readings, WORK, "page-faults:u");
        assert!(0 < faults && faults <= charged, "{faults} of {charged}");
        faults
    };
    let alone = count("exit 0");
    let with_children = count("/bin/sh -c 'exit 0'; /bin/sh -c 'exit 0'; exit 0");
    assert!(with_children > 2 * alone, "{with_children} against {alone}");
}

#[test]
fn the_kernels_clocks_count_both_modes_whatever_they_are_told() {
    // The source shows no domain for these clocks because of this: even if asked for the kernel's
    // time alone, a clock gives the time of a loop that never enters the kernel.
    let all = events("task-clock").remove(0);
    if !countable(std::slice::from_ref(&all)) {
        return;
    }
    let perf = LivePerf::new();
    let user = attr(&all, false, true);
    assert!(user.exclude_kernel && !user.exclude_user);
    let kernel = opcost_sys::perf::EventAttr { exclude_user: true, exclude_kernel: false, ..user };
    let Ok(clock) = perf.open(&kernel, 0, -1, None) else {
        crate::skip::skip!("this process may not count the kernel");
        return;
    };
    perf.enable(clock, false).unwrap();
    spin(2_000_000);
    perf.disable(clock, false).unwrap();
    // The counter gives one number twice: all the time that it was on.
    let reading = perf.read(clock).unwrap();
    assert_eq!(reading.value, reading.time_running_ns);
}

#[test]
fn what_is_recorded_here_replays_to_the_same_readings() {
    let asked = events("{page-faults:u,task-clock},context-switches:u");
    if !countable(&asked) {
        return;
    }
    let count = |kernel: Rc<dyn PerfKernel>| {
        let mut counters = Counters::new(kernel, asked.clone(), false);
        let mut readings = Vec::new();
        counters.attach(0).unwrap();
        for region in [TWIN, WORK] {
            counters.start().unwrap();
            spin(1000);
            counters.stop().unwrap();
            counters.read(region, None, &mut readings).unwrap();
        }
        readings
    };
    let recorder = Rc::new(RecordingPerf::new(LivePerf::new()));
    let live = count(recorder.clone());
    let text = Rc::into_inner(recorder).unwrap().into_transcript().to_string();
    let replay = Rc::new(ReplayPerf::new(text.parse().unwrap()));
    assert_eq!(count(replay.clone()), live);
    Rc::into_inner(replay).unwrap().finish().unwrap();
    assert_eq!(live.len(), 6);
}

#[test]
fn instructions_of_a_loop_are_counted_for_real() {
    if !has_cpu_pmu(sys()) {
        crate::skip::skip!("no PMU here");
        return;
    }
    let asked = events("{cycles,instructions}:u");
    if !countable(&asked) {
        return;
    }
    const ROUNDS: u64 = 10_000_000;
    let mut source = Counters::new(Rc::new(LivePerf::new()), asked, false);
    source.attach(0).unwrap();
    let mut readings = Vec::new();
    source.start().unwrap();
    spin(ROUNDS);
    source.stop().unwrap();
    source.read(WORK, None, &mut readings).unwrap();
    let instructions = value(&readings, WORK, "instructions:u");
    let time = readings[0].time.unwrap();
    if time.multiplexed() {
        crate::skip::skip!("the exact count; other users of the PMU took turns with this test");
        return;
    }
    // Each round adds, compares and jumps; unoptimised code takes a few dozen instructions.
    assert!(instructions >= ROUNDS, "{instructions}");
    assert!(instructions < 200 * ROUNDS, "{instructions}");
    assert!(value(&readings, WORK, "cycles:u") > 0);
}

#[test]
fn events_of_a_pmu_are_refused_for_a_reason_or_counted() {
    let asked = events("{cycles,instructions}:u");
    let mut source = Counters::new(Rc::new(LivePerf::new()), asked, false);
    match source.attach(0) {
        Ok(()) => assert!(has_cpu_pmu(sys())),
        Err(error) => {
            let text = format!("{error:#}");
            let reason = text.strip_prefix("cannot open counter cycles:u: ").unwrap();
            let (reason, remedy) = reason.split_once("; ").unwrap();
            assert!(!reason.is_empty() && !remedy.is_empty(), "{text}");
        }
    }
}

/// A loop of known length that stays in user mode.
fn spin(rounds: u64) {
    let mut sum = 0u64;
    for round in 0..rounds {
        sum = black_box(sum.wrapping_add(round));
    }
    black_box(sum);
}
