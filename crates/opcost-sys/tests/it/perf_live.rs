//! Counters of the kernel that runs this test: software events everywhere, hardware events if there is a PMU.

use crate::transcript::{RecordingPerf, ReplayPerf, Transcript};
use opcost_sys::interrupt::Interrupt;
use opcost_sys::perf::constants::KIND_SOFTWARE;
use opcost_sys::perf::{
    CounterId, EventAttr, LivePerf, OpenContext, PerfKernel, ShortRead, explain, generic_event,
    has_cpu_pmu,
};
use opcost_sys::spawn::{Spawn, Status};
use std::io;
use std::path::Path;

/// Returns the attributes of a stopped counter of an event, in user mode only.
fn attr(name: &str) -> EventAttr {
    let event = generic_event(name).unwrap();
    EventAttr {
        kind: event.kind,
        config: event.config,
        exclude_kernel: true,
        exclude_hv: true,
        disabled: true,
        ..EventAttr::default()
    }
}

/// Opens a counter; if this kernel forbids even that, skips the test and returns `None`.
fn open(
    perf: &dyn PerfKernel,
    attr: &EventAttr,
    pid: i32,
    leader: Option<CounterId>,
) -> Option<CounterId> {
    match perf.open(attr, pid, -1, leader) {
        Ok(id) => Some(id),
        Err(error) => {
            let errno = error.raw_os_error().unwrap();
            let forbidden = [libc::EACCES, libc::EPERM, libc::ENOSYS].contains(&errno);
            assert!(forbidden, "{error}");
            let context = OpenContext::detect(Path::new("/proc"), Path::new("/sys"));
            crate::skip::skip!("{}", explain(errno, attr, &context));
            None
        }
    }
}

const PAGES: usize = 256;

/// Maps `PAGES` fresh pages, calls `start`, writes to each page once, calls `stop`.
fn touch_fresh_pages(start: impl FnOnce(), stop: impl FnOnce()) {
    // SAFETY: sysconf takes an integer only.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let length = PAGES * page_bytes;
    // SAFETY: a private mapping of this test, used within its bounds and then removed; without huge pages, so that each page
    // faults.
    unsafe {
        let start_address =
            libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0).cast::<u8>();
        assert_ne!(start_address.cast(), libc::MAP_FAILED);
        libc::madvise(start_address.cast(), length, libc::MADV_NOHUGEPAGE);
        start();
        for page in 0..PAGES {
            start_address.add(page * page_bytes).write_volatile(1);
        }
        stop();
        libc::munmap(start_address.cast(), length);
    }
}

#[test]
fn page_faults_are_those_of_the_pages_touched() {
    let perf = LivePerf::new();
    let Some(faults) = open(&perf, &attr("page-faults"), 0, None) else {
        return;
    };
    touch_fresh_pages(
        || perf.enable(faults, false).unwrap(),
        || {
            perf.disable(faults, false).unwrap();
        },
    );
    let reading = perf.read(faults).unwrap();
    // A page of code or stack may be touched for the first time meanwhile.
    let expected = PAGES as u64..PAGES as u64 + 16;
    assert!(expected.contains(&reading.value), "{reading:?}");
    assert!(reading.time_enabled_ns > 0 && !reading.time().multiplexed(), "{reading:?}");

    touch_fresh_pages(|| {}, || {});
    assert_eq!(perf.read(faults).unwrap(), reading, "it is stopped");
    perf.reset(faults, false).unwrap();
    let reset = perf.read(faults).unwrap();
    assert_eq!((reset.value, reset.time_enabled_ns), (0, reading.time_enabled_ns));
}

#[test]
fn a_group_starts_and_stops_together() {
    let perf = LivePerf::new();
    let Some(clock) = open(&perf, &attr("task-clock"), 0, None) else {
        return;
    };
    let member = EventAttr { disabled: false, ..attr("page-faults") };
    let faults = perf.open(&member, 0, -1, Some(clock)).unwrap();
    touch_fresh_pages(|| {}, || {});
    assert_eq!(perf.read(faults).unwrap().value, 0, "its leader is stopped");
    touch_fresh_pages(
        || perf.enable(clock, true).unwrap(),
        || {
            perf.disable(clock, true).unwrap();
        },
    );
    let [clock, faults] = [clock, faults].map(|id| perf.read(id).unwrap());
    assert!(clock.value > 0);
    assert!(faults.value >= PAGES as u64, "{faults:?}");
}

#[test]
fn counters_start_at_exec_and_follow_forks_if_asked() {
    let perf = LivePerf::new();
    let script = "/bin/true; /bin/true; exit 3".into();
    let spawn = Spawn::new("/bin/sh", ["sh".into(), "-c".into(), script]);
    let held = spawn.hold().unwrap();
    let on_exec = EventAttr { enable_on_exec: true, ..attr("page-faults") };
    let inherited = EventAttr { inherit: true, ..on_exec };
    let Some(own) = open(&perf, &on_exec, held.pid(), None) else {
        return;
    };
    let all = perf.open(&inherited, held.pid(), -1, None).unwrap();
    let before = perf.read(all).unwrap();
    assert_eq!((before.value, before.time_enabled_ns), (0, 0));

    let exit = held.release().unwrap().wait(None, &Interrupt::none()).unwrap();
    assert_eq!(exit.status, Status::Code(3));
    let [own, all] = [own, all].map(|id| perf.read(id).unwrap());
    assert!(own.value > 0, "the shell itself faults");
    assert!(all.value > own.value, "and so do the programs it starts: {all:?} {own:?}");
    let total = exit.rusage.minor_faults + exit.rusage.major_faults;
    assert!(all.value <= total, "faults in the kernel are not user mode's: {all:?} {total}");
}

#[test]
fn hardware_events_count_or_say_why_not() {
    let perf = LivePerf::new();
    let context = OpenContext::detect(Path::new("/proc"), Path::new("/sys"));
    let instructions = attr("instructions");
    if has_cpu_pmu(Path::new("/sys")) {
        crate::skip::skip!("the refusal without a PMU; this machine has one, so it must count");
        let Some(id) = open(&perf, &instructions, 0, None) else {
            return;
        };
        touch_fresh_pages(
            || perf.enable(id, false).unwrap(),
            || {
                perf.disable(id, false).unwrap();
            },
        );
        assert!(perf.read(id).unwrap().value > PAGES as u64);
        return;
    }
    let error = perf.open(&instructions, 0, -1, None).unwrap_err();
    let refusal = explain(error.raw_os_error().unwrap(), &instructions, &context);
    if error.raw_os_error() == Some(libc::ENOENT) {
        assert!(refusal.reason.starts_with("no hardware counters here"), "{refusal}");
    } else {
        // A container's filter or the paranoid level may refuse first.
        crate::skip::skip!("the refusal without a PMU; {refusal}");
    }
}

#[test]
fn a_counter_that_is_not_open_is_an_error() {
    let perf = LivePerf::new();
    let none = CounterId(1);
    let bad = |result: io::Result<()>| {
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EBADF));
    };
    bad(perf.enable(none, false));
    bad(perf.disable(none, true));
    bad(perf.reset(none, false));
    bad(perf.read(none).map(drop));
    bad(perf.open(&attr("dummy"), 0, -1, Some(none)).map(drop));
    perf.close(none);
    if let Some(id) = open(&perf, &attr("dummy"), 0, None) {
        assert!(perf.read(id).is_ok());
        perf.close(id);
        bad(perf.read(id).map(drop));
    }
}

#[test]
fn an_event_the_kernel_does_not_know_is_refused() {
    let unknown = EventAttr {
        kind: KIND_SOFTWARE,
        config: 1 << 20,
        exclude_kernel: true,
        ..EventAttr::default()
    };
    let error = LivePerf::new().open(&unknown, 0, -1, None).unwrap_err();
    assert!(error.raw_os_error().is_some(), "{error}");
}

#[test]
fn what_is_recorded_here_replays_the_same() {
    /// Measures once; returns the two readings, or the error that ended the measurement.
    fn measure(perf: &dyn PerfKernel) -> Result<[u64; 2], Option<i32>> {
        let run = || {
            let clock = perf.open(&attr("task-clock"), 0, -1, None)?;
            let faults = perf.open(&attr("page-faults"), 0, -1, Some(clock))?;
            perf.enable(clock, true)?;
            perf.disable(clock, true)?;
            let values = [perf.read(clock)?.value, perf.read(faults)?.value];
            perf.close(faults);
            perf.close(clock);
            // An error is recorded like any answer.
            assert!(perf.read(clock).is_err());
            Ok(values)
        };
        run().map_err(|error: io::Error| error.raw_os_error())
    }
    let live = LivePerf::new();
    let recorder = RecordingPerf::new(&live as &dyn PerfKernel);
    recorder.note("a test\nof two lines");
    let measured = measure(&recorder);
    let text = recorder.into_transcript().to_string();
    assert!(text.starts_with("opcost-perf 1\n# a test\n# of two lines\nopen kind=1 "), "{text}");
    let replay = ReplayPerf::new(text.parse::<Transcript>().unwrap());
    assert_eq!(measure(&replay), measured);
    replay.finish().unwrap();
}

#[test]
fn a_short_read_is_told_apart_from_other_errors() {
    let error = io::Error::from(ShortRead { bytes: 0 });
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(ShortRead::of(&error), Some(ShortRead { bytes: 0 }));
    assert!(error.to_string().contains("NMI watchdog"));
    assert_eq!(ShortRead::of(&io::ErrorKind::UnexpectedEof.into()), None);
}
